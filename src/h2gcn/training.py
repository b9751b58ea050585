"""The training loop: full batch, and the rule that says which epoch is kept."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from h2gcn._validation import check_choice, check_integer, check_real
from h2gcn.exceptions import InputError
from h2gcn.graph import Split
from h2gcn.metrics import METRICS, score
from h2gcn.sparse import Operator, Target
from h2gcn.stopping import RULES, Epoch, find_rule

__all__ = ["OPTIMIZERS", "Epoch", "TrainConfig", "TrainResult", "seeded", "train"]

OPTIMIZERS = ("adam", "sgd")


@dataclass(frozen=True)
class TrainConfig:
    """How to train.

    Parameters
    ----------
    epochs
        Number of epochs, at most.
    patience
        How many epochs the rule of `stopping` waits; None never stops.
    learning_rate
        The optimiser's.
    l2
        Weight w of the penalty w·‖W‖² on the weights that the model regularises.
    metric
        The score that chooses the epoch, "accuracy" or "roc_auc".
    optimizer
        "adam" or "sgd" (no momentum).
    stopping
        "score" keeps the best validation score, and stops when it has not risen for
        `patience` epochs. "loss-mean" (GCN's program) keeps the last weights, and
        stops when the validation loss is above its mean over the last `patience`
        epochs. "loss-or-score" (GAT's) keeps the weights when neither is worse than
        ever, and stops when both have been for `patience` epochs.
    """

    epochs: int = 2000
    patience: int | None = None
    learning_rate: float = 0.01
    l2: float = 5e-4
    metric: str = "accuracy"
    optimizer: str = "adam"
    stopping: str = "score"

    def __post_init__(self) -> None:
        check_integer("TrainConfig", "epochs", self.epochs, 1)
        if self.patience is not None:
            check_integer("TrainConfig", "patience", self.patience, 1)
        check_real("TrainConfig", "learning_rate", self.learning_rate, "(0, inf)")
        check_real("TrainConfig", "l2", self.l2, "[0, inf)")
        check_choice("TrainConfig", "metric", self.metric, METRICS)
        check_choice("TrainConfig", "optimizer", self.optimizer, OPTIMIZERS)
        check_choice("TrainConfig", "stopping", self.stopping, RULES)


@dataclass(frozen=True)
class TrainResult:
    """What training gave; the model holds the weights of the best epoch."""

    best_epoch: int
    val_score: float
    history: tuple[Epoch, ...]
    seconds: float
    interrupted: bool = False


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Run a block on seeded torch generators; the global ones stay as they were."""
    if device is None or device.type == "cpu":
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            yield
        return
    with torch.random.fork_rng(devices=[device.index or 0], device_type=device.type):
        torch.manual_seed(seed)
        yield


def train(
    model: nn.Module,
    x: Tensor | Operator,
    operators: Sequence[Operator],
    y: NDArray[np.int64],
    split: Split,
    config: TrainConfig,
    *,
    seed: int = 0,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> TrainResult:
    """Train a model in place and leave it with the weights of its best epoch.

    Which epoch that is, the rule `config.stopping` says. The test part of the split
    is never looked at. Ctrl-C ends the training and keeps the best epoch so far.

    Parameters
    ----------
    model
        `model(x, operators, target)` gives logits; `model.regularised()` names the
        weights that the penalty acts on; `model.penalty()`, where there is one, is
        added to the loss.
    x
        Features, [n, F].
    operators
        The model's operators of this graph, [n, n] each.
    y
        Class indices, [n].
    split
        Its `train` and `val` parts are used.
    config
        How to train.
    seed
        Of the dropout.
    on_epoch
        Called after every epoch.
    """
    if config.metric == "roc_auc" and len(np.unique(y[split.val])) < 2:
        raise InputError(
            "the metric roc_auc needs both classes among the validation nodes; "
            "they are all of one."
        )
    device = next(model.parameters()).device
    train_target = Target.of(operators, split.train, device)
    val_target = Target.of(operators, split.val, device)
    labels = torch.from_numpy(y[split.train]).to(device)
    val_labels = torch.from_numpy(y[split.val]).to(device)
    penalty = getattr(model, "penalty", None)
    optimiser, rule = (
        _optimiser(model, config),
        find_rule(config.stopping, config.patience),
    )
    history: list[Epoch] = []
    best, best_state = None, deepcopy(model.state_dict())
    interrupted = False
    start = time.perf_counter()
    with seeded(seed, device):
        try:
            for number in range(1, config.epochs + 1):
                model.train()
                optimiser.zero_grad(set_to_none=True)
                logits = model(x, operators, train_target)
                loss = functional.cross_entropy(logits, labels)
                if penalty is not None:
                    loss = loss + penalty()
                loss.backward()
                optimiser.step()
                model.eval()
                with torch.no_grad():
                    logits = model(x, operators, val_target)
                    val_loss = functional.cross_entropy(logits, val_labels).item()
                    if config.stopping == "loss-mean":
                        val_loss += _l2_penalty(model, config)
                scores = logits.cpu().numpy()
                _check_finite(number, loss.item(), scores)
                val_score = score(config.metric, y[split.val], scores)
                epoch = Epoch(number, loss.item(), val_score, val_loss)
                history.append(epoch)
                decision = rule(epoch)
                if decision.keep:
                    # Copied first, so that Ctrl-C never pairs it with another epoch.
                    state = deepcopy(model.state_dict())
                    best, best_state = epoch, state
                if on_epoch is not None:
                    on_epoch(epoch)
                if decision.stop:
                    break
        except KeyboardInterrupt:
            interrupted = True
            if best is None:
                raise
    assert best is not None  # every rule keeps the first epoch
    model.load_state_dict(best_state)
    model.eval()
    seconds = time.perf_counter() - start
    return TrainResult(
        best.number, best.val_score, tuple(history), seconds, interrupted
    )


def _l2_penalty(model: nn.Module, config: TrainConfig) -> float:
    weights: list[Tensor] = model.regularised()  # type: ignore[operator]
    return config.l2 * sum(weight.square().sum().item() for weight in weights)


def _optimiser(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    penalised = model.regularised()  # type: ignore[operator]
    names = {id(weight) for weight in penalised}
    free = [weight for weight in model.parameters() if id(weight) not in names]
    # The gradient of w·‖W‖² is 2w·W, and torch's weight_decay adds weight_decay·W.
    groups = [{"params": penalised, "weight_decay": 2 * config.l2}]
    if free:
        groups.append({"params": free, "weight_decay": 0.0})
    fused = next(model.parameters()).device.type in ("cpu", "cuda")
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=config.learning_rate, fused=fused)
    return torch.optim.Adam(groups, lr=config.learning_rate, fused=fused)


def _check_finite(epoch: int, loss: float, logits: NDArray[np.float32]) -> None:
    if not (math.isfinite(loss) and np.isfinite(logits).all()):
        raise InputError(
            f"training diverged in epoch {epoch} (the loss is {loss}); use a smaller "
            "learning rate, or scaled features."
        )
