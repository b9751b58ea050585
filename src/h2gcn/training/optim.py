"""How to train: settings, loss and optimizer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from inspect import unwrap
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from h2gcn._validation import check_choice, check_integer, check_real
from h2gcn.training.metrics import METRICS
from h2gcn.training.stopping import RULES

__all__ = ["TrainConfig", "class_weights", "make_optimizer", "node_loss"]

CLASS_WEIGHTS = ("balanced",)


@dataclass(frozen=True)
class TrainConfig:
    """How to train.

    Parameters
    ----------
    epochs
        The most epochs of a training.
    patience
        Epochs that the rule of `stopping` waits; None never stops.
    l2
        Weight w of the penalty w·‖W‖² on `NodeModule.decayed_parameters`.
    metric
        The score that chooses the epoch: "accuracy" or "macro_f1"; for two classes also
        "roc_auc", or "pr_auc" of the rarer one.
    optimizer
        "adam", or "sgd" without momentum.
    stopping
        - "score" keeps the best validation score; it stops when the score has not risen
          for `patience` epochs.
        - "settled" keeps the same; it waits for `patience` epochs, and for as many as
          came before the best one, which nearly always gives the epoch that training to
          the end would choose.
        - "loss" keeps the least validation loss; it stops when the loss has not fallen
          for `patience` epochs.
        - "loss-mean" (GCN's program) keeps the last weights; it stops when the
          validation loss is above its mean over the last `patience` epochs.
        - "loss-or-score" (GAT's program) keeps weights when neither loss nor score is
          worse than the best; it stops when both have been for `patience` epochs.
    batch_size
        Training nodes per step; None takes all of them in one step.
    class_weight
        "balanced" gives all classes the same weight in the loss, whatever their number
        of training nodes. Probabilities are then those of classes of equal size, too
        high for rare ones.
    """

    epochs: int = 2000
    patience: int | None = None
    learning_rate: float = 0.01
    l2: float = 5e-4
    metric: str = "accuracy"
    optimizer: str = "adam"
    stopping: str = "score"
    batch_size: int | None = None
    class_weight: str | None = None

    def __post_init__(self) -> None:
        check_integer("epochs", self.epochs, 1)
        if self.patience is not None:
            check_integer("patience", self.patience, 1)
        check_real("learning_rate", self.learning_rate, "(0, inf)")
        check_real("l2", self.l2, "[0, inf)")
        check_choice("metric", self.metric, METRICS)
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_choice("stopping", self.stopping, RULES)
        if self.batch_size is not None:
            check_integer("batch_size", self.batch_size, 1)
        if self.class_weight is not None:
            check_choice("class_weight", self.class_weight, CLASS_WEIGHTS)


def class_weights(name: str | None, labels: Tensor, train: Tensor) -> Tensor | None:
    """Return a weight for each class, [C]; None where all nodes count the same.

    "balanced" weights have the same sum over the training nodes of each class, and the
    mean 1 over all training nodes.

    `labels` are of all nodes, [n]; `train` are the training nodes, [m].

    Examples
    --------
    >>> class_weights("balanced", torch.tensor([0, 0, 0, 1]), torch.arange(4))
    tensor([0.6667, 2.0000])
    """
    if name is None:
        return None
    counts = torch.bincount(labels[train], minlength=int(labels.max()) + 1)
    n_present = torch.count_nonzero(counts)
    weights = len(train) / (n_present * counts.clamp(min=1))
    return torch.where(counts > 0, weights, 1.0)  # absent classes are in no step


def node_loss(logits: Tensor, labels: Tensor, weights: Tensor | None, n: int) -> Tensor:
    """Return the cross-entropy of some nodes, weighted by class, divided by `n`."""
    if weights is None:
        return functional.cross_entropy(logits, labels, reduction="sum") / n
    # Dividing by the weights of a batch, as reduction="mean" does, would cancel them
    # where the batch has one class only.
    losses = functional.cross_entropy(logits, labels, reduction="none")
    return (losses * weights[labels].to(losses.dtype)).sum() / n


Optimizer = type[torch.optim.Adam] | type[torch.optim.SGD]


def _without_dynamo(optimizer: Optimizer) -> Optimizer:
    """Unwrap the methods that load torch's compiler, which takes longer than torch."""
    names = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    methods = {name: unwrap(getattr(optimizer, name)) for name in names}
    methods["step"] = torch.no_grad()(unwrap(optimizer.step))
    return type(optimizer.__name__, (optimizer,), methods)


OPTIMIZERS: dict[str, Optimizer] = {
    "adam": _without_dynamo(torch.optim.Adam),
    "sgd": _without_dynamo(torch.optim.SGD),
}


def make_optimizer(
    config: TrainConfig, parameters: Iterable[nn.Parameter], decayed: Iterable[Tensor]
) -> torch.optim.Optimizer:
    """Return an optimizer of some parameters, with the L2 penalty on the decayed ones.

    The gradient of w·‖W‖² is 2w·W, and torch's weight_decay adds weight_decay·W.
    """
    ids = {id(weight) for weight in decayed}
    parameters = list(parameters)
    groups: list[dict[str, Any]] = [
        {
            "params": [
                weight for weight in parameters if (id(weight) in ids) == decays
            ],
            "weight_decay": 2 * config.l2 * decays,
        }
        for decays in (True, False)
    ]
    groups = [group for group in groups if group["params"]]
    fused = parameters[0].device.type in ("cpu", "cuda")
    return OPTIMIZERS[config.optimizer](groups, lr=config.learning_rate, fused=fused)
