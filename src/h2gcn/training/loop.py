"""The training loop, and the rule that says which epoch is kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import InitVar, dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from h2gcn._validation import check_choice, check_integer, check_real
from h2gcn.exceptions import InputError
from h2gcn.graph import Split
from h2gcn.sparse import Input, LinearMap, kept_workspace, seeded, steady_memory
from h2gcn.training.feeds import find_feed
from h2gcn.training.losses import CLASS_WEIGHTS, class_weights, node_loss
from h2gcn.training.metrics import METRICS, score
from h2gcn.training.optimisers import OPTIMIZERS, find_optimiser
from h2gcn.training.pieces import Piece
from h2gcn.training.progress import Progress
from h2gcn.training.stopping import RULES, Epoch, find_rule
from h2gcn.training.threads import threads_for

if TYPE_CHECKING:
    from h2gcn.training.checkpoint import Checkpoint

__all__ = ["Epoch", "TrainConfig", "TrainResult", "train"]


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
        The score that chooses the epoch: "accuracy", "macro_f1" (the mean of the
        classes' F1), or "roc_auc" for two classes.
    optimizer
        "adam" or "sgd" (no momentum).
    stopping
        "score" keeps the best validation score, and stops when it has not risen for
        `patience` epochs. "loss-mean" (GCN's program) keeps the last weights, and
        stops when the validation loss is above its mean over the last `patience`
        epochs. "loss-or-score" (GAT's) keeps the weights when neither is worse than
        ever, and stops when both have been for `patience` epochs.
    batch_size
        How many training nodes a step takes; None is all of them at once.
    class_weight
        "balanced" gives each class the same weight in the loss, however few of the
        training nodes it has; None each node. Balanced classes make probabilities
        those of classes of equal size, far too high for rare ones.
    owner
        Whose parameters they are, for messages.
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

    owner: InitVar[str] = "TrainConfig"

    def __post_init__(self, owner: str) -> None:
        check_integer(owner, "epochs", self.epochs, 1)
        if self.patience is not None:
            check_integer(owner, "patience", self.patience, 1)
        check_real(owner, "learning_rate", self.learning_rate, "(0, inf)")
        check_real(owner, "l2", self.l2, "[0, inf)")
        check_choice(owner, "metric", self.metric, METRICS)
        check_choice(owner, "optimizer", self.optimizer, OPTIMIZERS)
        check_choice(owner, "stopping", self.stopping, RULES)
        if self.batch_size is not None:
            check_integer(owner, "batch_size", self.batch_size, 1)
        if self.class_weight is not None:
            check_choice(owner, "class_weight", self.class_weight, CLASS_WEIGHTS)


@dataclass(frozen=True)
class TrainResult:
    """What training gave; the model holds the weights of the best epoch."""

    best_epoch: int
    val_score: float
    history: tuple[Epoch, ...]
    seconds: float
    interrupted: bool = False


def train(
    model: nn.Module,
    x: Input,
    operators: Sequence[LinearMap],
    y: NDArray[np.int64],
    split: Split,
    config: TrainConfig,
    *,
    seed: int = 0,
    on_epoch: Callable[[Epoch], None] | None = None,
    checkpoint: Checkpoint | None = None,
    spent: float = 0.0,
) -> TrainResult:
    """Train a model in place and leave it with the weights of its best epoch.

    Which epoch that is, the rule `config.stopping` says. The test part of the split
    is never looked at. Ctrl-C ends the training and keeps the best epoch so far.

    Parameters
    ----------
    model
        `model(x, operators, target)` gives logits; `model.regularised()` names the
        weights that the penalty acts on; `model.penalty()`, where there is one, is
        added to the loss; batches need `model.reach`, see `gather`.
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
        Of the dropout, and of the order of batches.
    on_epoch
        Called after every epoch.
    checkpoint
        Where to leave the state now and then, at Ctrl-C and at the end; the training
        goes on from what was found there, to the same bits.
    spent
        Seconds of work before this, which the result counts in.
    """
    if config.metric == "roc_auc" and len(np.unique(y[split.val])) < 2:
        raise InputError(
            "the metric roc_auc needs both classes among the validation nodes; "
            "they are all of one."
        )
    device = next(model.parameters()).device
    feed = find_feed(model, x, operators, split, config.batch_size, seed)
    labels = torch.from_numpy(y).to(device)
    train_nodes = torch.from_numpy(split.train).to(device)
    weights = class_weights(config.class_weight, labels, train_nodes)
    optimiser = find_optimiser(config.optimizer, model, config.learning_rate, config.l2)
    rule = find_rule(config.stopping, config.patience)
    progress = Progress(model, optimiser, rule, spent)
    interrupted = False
    with seeded(seed, device), threads_for([x, *operators]), ExitStack() as steps:
        steps.enter_context(kept_workspace())
        if checkpoint is not None:
            checkpoint.restore(progress)
        begun = len(progress.history)
        try:
            while not progress.stopped and len(progress.history) < config.epochs:
                number = len(progress.history) + 1
                loss = _learn(model, feed.steps(number), labels, weights, optimiser)
                logits = _logits(model, feed.validation())
                _check_finite(number, loss, logits)
                epoch = Epoch(
                    number,
                    loss,
                    score(config.metric, y[split.val], logits.cpu().numpy()),
                    _validation_loss(model, logits, labels[split.val], weights, config),
                )
                progress.add(epoch)
                if number == begun + 1:  # all further ones are like each other
                    steps.enter_context(steady_memory())
                if checkpoint is not None:
                    checkpoint.keep(progress)
                if on_epoch is not None:
                    on_epoch(epoch)
        except KeyboardInterrupt:
            interrupted = True
            if progress.best is None:
                raise
    if checkpoint is not None:
        checkpoint.save()
    best = progress.best
    assert best is not None  # every rule keeps the first epoch
    model.load_state_dict(progress.best_weights)
    model.eval()
    history, seconds = tuple(progress.history), progress.seconds
    return TrainResult(best.number, best.val_score, history, seconds, interrupted)


def _learn(
    model: nn.Module,
    pieces: Iterable[Piece],
    labels: Tensor,
    weights: Tensor | None,
    optimiser: torch.optim.Optimizer,
) -> float:
    """Take a step for each piece; return the mean loss of their nodes."""
    penalty = getattr(model, "penalty", None)
    model.train()
    total, nodes = 0.0, 0
    for piece in pieces:
        optimiser.zero_grad(set_to_none=True)
        logits = model(piece.x, piece.operators, piece.target)
        loss = node_loss(logits, labels[piece.nodes], weights)
        if penalty is not None:
            loss = loss + penalty()
        loss.backward()
        optimiser.step()
        total += loss.item() * len(piece.nodes)
        nodes += len(piece.nodes)
    return total / nodes


@torch.no_grad()
def _logits(model: nn.Module, pieces: Iterable[Piece]) -> Tensor:
    model.eval()
    return torch.cat(
        [model(piece.x, piece.operators, piece.target) for piece in pieces]
    )


def _validation_loss(
    model: nn.Module,
    logits: Tensor,
    labels: Tensor,
    weights: Tensor | None,
    config: TrainConfig,
) -> float:
    loss = node_loss(logits, labels, weights).item()
    if config.stopping != "loss-mean":
        return loss
    penalised: list[Tensor] = model.regularised()  # type: ignore[operator]
    return loss + config.l2 * sum(w.square().sum().item() for w in penalised)


def _check_finite(epoch: int, loss: float, logits: Tensor) -> None:
    if not (math.isfinite(loss) and logits.isfinite().all()):
        raise InputError(
            f"training diverged in epoch {epoch} (the loss is {loss}); use a smaller "
            "learning rate, or scaled features."
        )
