"""Fitting a module, with what comes before the loop for the models that want it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from h2gcn.graph import Split
from h2gcn.sparse import Input, LinearMap, Target
from h2gcn.training.loop import TrainConfig, TrainResult, train
from h2gcn.training.metrics import score
from h2gcn.training.stopping import Epoch

if TYPE_CHECKING:
    from h2gcn.training.checkpoint import Checkpoint

__all__ = ["fit_module"]

PRIOR_EPOCHS = 400
"""How long a prior is trained on its own, as in CPGNN's program."""


def fit_module(
    module: nn.Module,
    x: Input,
    operators: Sequence[LinearMap],
    y: NDArray[np.int64],
    split: Split,
    config: TrainConfig,
    *,
    seed: int = 0,
    on_epoch: Callable[[Epoch], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> TrainResult:
    """Fit a module in place: its prior, what it takes from the labels, its weights.

    A module may have a `prior`, a submodule that is trained first and alone, and a
    method `initialise(x, operators, labels, index)` that looks at the training labels
    once. One without weights is only scored. Parameters as in `training.train`, but
    `on_epoch` does not see the prior's epochs; the seconds are those of it all. Where
    a `checkpoint` was found, all that comes before the weights is in it.
    """
    start = time.perf_counter()
    new = checkpoint is None or checkpoint.found is None
    prior = getattr(module, "prior", None)
    if prior is not None and new:
        first = replace(config, epochs=min(PRIOR_EPOCHS, config.epochs))
        if train(prior, x, (), y, split, first, seed=seed).interrupted:
            raise KeyboardInterrupt  # a prior alone is not the model
    if hasattr(module, "initialise") and new:
        labels, index = (torch.from_numpy(a) for a in (y[split.train], split.train))
        device = operators[0].device
        module.eval()
        with torch.no_grad():
            module.initialise(x, operators, labels.to(device), index.to(device))  # type: ignore[operator]
    if any(True for _ in module.parameters()):
        return train(
            module,
            x,
            operators,
            y,
            split,
            config,
            seed=seed,
            on_epoch=on_epoch,
            checkpoint=checkpoint,
            spent=time.perf_counter() - start,
        )
    module.eval()
    with torch.no_grad():
        target = Target.of(operators, split.val, operators[0].device)
        logits = module(x, operators, target).cpu().numpy()
    val_score = score(config.metric, y[split.val], logits)
    return TrainResult(0, val_score, (), time.perf_counter() - start)
