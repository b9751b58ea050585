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

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from torch import Tensor

from h2gcn.training import class_weights

__all__ = ["TEMPERATURES", "Calibration", "fit_temperature", "training_weights"]

TEMPERATURES = (0.05, 20.0)
"""The smallest and the largest temperature."""

SPREAD = 0.5
"""Standard deviation of the logarithm of temperatures, as expected without data.

A handful of nodes that are all right would ask for T = 0, since then the model seems to
be never wrong. With this prior (T within a factor of 2.7 in 95 % of cases) five such
nodes hardly move it, and a hundred have their way.
"""


def fit_temperature(logits: NDArray[np.floating], y: NDArray[np.int64]) -> float:
    """Return the temperature T with which softmax(logits / T) fits held-out nodes best.

    It has the smallest log-loss, summed over the nodes, with (log T)²/2s² added, the
    logarithm of a log-normal prior around 1 with the spread s = 0.5.

    Parameters
    ----------
    logits
        Of the held-out nodes, [m, C]; class weights are undone already.
    y
        Their classes, [m].

    Examples
    --------
    Of two classes, each node is three times as likely to be of the one it is said to
    be, so logits of log 9 are twice what they should be:

    >>> logits = np.tile([np.log(9.0), 0.0], (4000, 1))
    >>> round(fit_temperature(logits, np.arange(4000) % 4 // 3), 2)
    2.0
    """
    if not len(y) or not np.isfinite(logits).all():
        return 1.0
    z, nodes = logits.astype(np.float64), np.arange(len(y))

    def cost(log_t: float) -> float:
        loss = -log_softmax(z / math.exp(log_t), axis=1)[nodes, y].sum()
        return float(loss + log_t**2 / (2 * SPREAD**2))

    low, high = map(math.log, TEMPERATURES)
    found = minimize_scalar(
        cost, bounds=(low, high), method="bounded", options={"xatol": 1e-6}
    )
    # Where nothing is gained, nothing is changed.
    return math.exp(found.x) if found.fun < cost(0.0) else 1.0


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
