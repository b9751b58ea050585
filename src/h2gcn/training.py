"""The training loop of the paper: full batch, Adam, best validation score kept."""

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

__all__ = ["Epoch", "TrainConfig", "TrainResult", "seeded", "train"]


@dataclass(frozen=True)
class TrainConfig:
    """How to train.

    Parameters
    ----------
    epochs
        Number of epochs, at most.
    patience
        Stop when the validation score has not risen for so many epochs; None never.
    learning_rate
        Adam's.
    l2
        Weight w of the penalty w·‖W‖² on the weights that the model regularises.
    metric
        The score that chooses the epoch, "accuracy" or "roc_auc".
    """

    epochs: int = 2000
    patience: int | None = None
    learning_rate: float = 0.01
    l2: float = 5e-4
    metric: str = "accuracy"

    def __post_init__(self) -> None:
        check_integer("TrainConfig", "epochs", self.epochs, 1)
        if self.patience is not None:
            check_integer("TrainConfig", "patience", self.patience, 1)
        check_real("TrainConfig", "learning_rate", self.learning_rate, "(0, inf)")
        check_real("TrainConfig", "l2", self.l2, "[0, inf)")
        check_choice("TrainConfig", "metric", self.metric, METRICS)


@dataclass(frozen=True)
class Epoch:
    """What one epoch gave: its number from 1, training loss, validation score."""

    number: int
    loss: float
    val_score: float


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

    The best epoch is the one with the highest validation score, the latest of
    them on a tie. The test part of the split is never looked at. Ctrl-C ends the
    training and keeps the best epoch so far.

    Parameters
    ----------
    model
        `model(x, operators, target)` gives logits; `model.regularised()` names the
        weights that the penalty acts on.
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
    optimiser = _optimiser(model, config)
    history: list[Epoch] = []
    best, best_epoch, best_state = -math.inf, 0, deepcopy(model.state_dict())
    risen = 0  # the epoch in which the score last rose
    interrupted = False
    start = time.perf_counter()
    with seeded(seed, device):
        try:
            for number in range(1, config.epochs + 1):
                model.train()
                optimiser.zero_grad(set_to_none=True)
                loss = functional.cross_entropy(
                    model(x, operators, train_target), labels
                )
                loss.backward()
                optimiser.step()
                model.eval()
                with torch.no_grad():
                    logits = model(x, operators, val_target).cpu().numpy()
                _check_finite(number, loss.item(), logits)
                val_score = score(config.metric, y[split.val], logits)
                epoch = Epoch(number, loss.item(), val_score)
                history.append(epoch)
                if epoch.val_score > best:
                    risen = number
                if epoch.val_score >= best:
                    # Copied first, so that Ctrl-C never pairs it with another epoch.
                    state = deepcopy(model.state_dict())
                    best, best_epoch, best_state = epoch.val_score, number, state
                if on_epoch is not None:
                    on_epoch(epoch)
                if config.patience is not None and number - risen >= config.patience:
                    break
        except KeyboardInterrupt:
            interrupted = True
            if best_epoch == 0:
                raise
    model.load_state_dict(best_state)
    model.eval()
    seconds = time.perf_counter() - start
    return TrainResult(best_epoch, best, tuple(history), seconds, interrupted)


def _optimiser(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    penalised = model.regularised()  # type: ignore[operator]
    names = {id(weight) for weight in penalised}
    free = [weight for weight in model.parameters() if id(weight) not in names]
    # The gradient of w·‖W‖² is 2w·W, and torch's weight_decay adds weight_decay·W.
    groups = [{"params": penalised, "weight_decay": 2 * config.l2}]
    if free:
        groups.append({"params": free, "weight_decay": 0.0})
    fused = next(model.parameters()).device.type in ("cpu", "cuda")
    return torch.optim.Adam(groups, lr=config.learning_rate, fused=fused)


def _check_finite(epoch: int, loss: float, logits: NDArray[np.float32]) -> None:
    if not (math.isfinite(loss) and np.isfinite(logits).all()):
        raise InputError(
            f"training diverged in epoch {epoch} (the loss is {loss}); use a smaller "
            "learning rate, or scaled features."
        )
