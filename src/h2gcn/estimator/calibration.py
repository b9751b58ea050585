"""Probabilities that are those of the data: one temperature, and class weights undone.

Logits z become softmax((z − log w) / T). Training with class weights w multiplies the
odds of each class by its weight, so their logarithms go first; the temperature T is
the one number that fits the held-out nodes best. It changes no order of the classes of
a node, so that decisions stay what they were; the weights do, which is why `predict`
keeps to the raw logits.

The held-out nodes are the validation nodes. They have chosen the epoch, so that the
model is a little better on them than on others, and what is fitted on them a little
too sure; one number learns hardly anything more from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from torch import Tensor

from h2gcn.training import class_weights, fit_temperature

__all__ = ["Calibration", "training_weights"]


def training_weights(
    kind: str | None, y: NDArray[np.int64], train: NDArray[np.int64]
) -> NDArray[np.float64] | None:
    """Return the weight that each class had in training, or None if all were equal.

    Parameters
    ----------
    kind
        The parameter `class_weight` of training.
    y
        Class indices of all nodes, [n].
    train
        The training nodes, [m].
    """
    weights = class_weights(kind, torch.from_numpy(y), torch.from_numpy(train))
    return None if weights is None else weights.numpy().astype(np.float64)


@dataclass(frozen=True, eq=False)
class Calibration:
    """How logits become probabilities, and the held-out nodes that it was fitted on.

    Parameters
    ----------
    temperature
        What logits are divided by; 1 changes nothing.
    offsets
        What is taken off them before, the logarithm of each class's weight, [C].
    nodes
        The held-out nodes, [m].
    probabilities
        Their probabilities, calibrated, [m, C].
    y
        Their classes, [m].
    """

    temperature: float
    offsets: NDArray[np.float64]
    nodes: NDArray[np.int64]
    probabilities: NDArray[np.float32]
    y: NDArray[np.int64]

    @classmethod
    def fit(
        cls,
        logits: NDArray[np.float32],
        y: NDArray[np.int64],
        nodes: NDArray[np.int64],
        weights: NDArray[np.floating] | None = None,
        *,
        calibrate: bool = True,
    ) -> Calibration:
        """Fit a temperature on held-out nodes.

        Parameters
        ----------
        logits
            Of the held-out nodes, as the model gives them, [m, C].
        y, nodes
            Their classes and their numbers, [m].
        weights
            Those of the classes in training, [C]; None if all were equal.
        calibrate
            False leaves the softmax of the logits as it is; the held-out nodes are
            kept all the same, for prediction sets and decisions.
        """
        offsets = np.zeros(logits.shape[1])
        temperature = 1.0
        if calibrate:
            if weights is not None:
                # Classes that nobody has are not among the weights.
                offsets[: len(weights)] = np.log(weights)
            temperature = fit_temperature(logits - offsets, y)
        shares = _shares(logits, offsets, temperature)
        return cls(temperature, offsets, nodes, shares, y)

    def __call__(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the probabilities of logits, [n, C]."""
        return _shares(logits, self.offsets, self.temperature)

    def to_json(self) -> dict[str, Any]:
        """Return the few numbers; `to_tensors` has the held-out nodes."""
        return {"temperature": self.temperature, "offsets": self.offsets.tolist()}

    def to_tensors(self) -> dict[str, Tensor]:
        """Return what `from_tensors` takes beside the numbers."""
        arrays = {"nodes": self.nodes, "probabilities": self.probabilities, "y": self.y}
        return {
            name: torch.from_numpy(np.ascontiguousarray(array))
            for name, array in arrays.items()
        }

    @classmethod
    def from_tensors(
        cls, numbers: Mapping[str, Any], tensors: Mapping[str, Tensor]
    ) -> Calibration:
        """Return what was saved as numbers and tensors."""
        return cls(
            float(numbers["temperature"]),
            np.array(numbers["offsets"], dtype=np.float64),
            *(tensors[name].numpy() for name in ("nodes", "probabilities", "y")),
        )


def _shares(
    logits: NDArray[np.float32], offsets: NDArray[np.float64], temperature: float
) -> NDArray[np.float32]:
    shares = softmax((logits.astype(np.float64) - offsets) / temperature, axis=1)
    return np.asarray(shares, dtype=np.float32)
