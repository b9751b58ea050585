"""The training loop: epochs of steps and validation, in one or several phases."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from inspect import unwrap
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from h2gcn._validation import check_choice, check_integer, check_real
from h2gcn.exceptions import InputError
from h2gcn.features import Input
from h2gcn.graph import Split
from h2gcn.models import NodeModule, Phase
from h2gcn.sparse import (
    LinearMap,
    Propagation,
    StepCache,
    steady_memory,
)
from h2gcn.training.batches import Batches, Subgraph, make_batches
from h2gcn.training.checkpoint import Checkpoint
from h2gcn.training.distributed import SINGLE, Communicator, OwnRows, TorchGroup
from h2gcn.training.metrics import METRICS, OF_TWO_CLASSES, score
from h2gcn.training.seeding import seeded
from h2gcn.training.state import Tensors, TrainingState
from h2gcn.training.stopping import RULES, Epoch, PhasedRule
from h2gcn.training.threads import threads_for

__all__ = [
    "TrainConfig",
    "TrainResult",
    "class_weights",
    "fit_module",
    "make_optimizer",
    "node_loss",
    "train",
]

PRIOR_EPOCHS = 400  # of a part that is trained first, as in CPGNN's program
CLASS_WEIGHTS = ("balanced",)


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
        The optimizer's.
    l2
        Weight w of the penalty w·‖W‖² on the weights that the model regularises.
    metric
        The score that chooses the epoch: "accuracy", "macro_f1" (the mean of the
        classes' F1); for two classes "roc_auc", or "pr_auc" of the rarer one.
    optimizer
        "adam" or "sgd" (no momentum).
    stopping
        "score" keeps the best validation score, and stops when it has not risen for
        `patience` epochs. "settled" keeps the same, and waits `patience` epochs and as
        many as there were so far for another that is as good: nearly always the choice
        of a training to the end. "loss" keeps the least validation loss, and stops when
        it has not fallen for `patience` epochs. "loss-mean" (GCN's
        program) keeps the last weights, and stops when the validation loss is above
        its mean over the last `patience` epochs. "loss-or-score" (GAT's) keeps the
        weights when neither is worse than ever, and stops when both have been for
        `patience` epochs.
    batch_size
        How many training nodes a step takes; None is all of them at once.
    class_weight
        "balanced" gives each class the same weight in the loss, however few of the
        training nodes it has; None each node. Balanced classes make probabilities
        those of classes of equal size, far too high for rare ones.
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


@dataclass(frozen=True)
class TrainResult:
    """The result of training; the model holds the weights of the best epoch."""

    best_epoch: int
    val_score: float
    history: tuple[Epoch, ...]
    seconds: float
    interrupted: bool = False


def train(
    model: NodeModule,
    x: Input,
    matrices: Sequence[LinearMap],
    y: NDArray[np.int64],
    split: Split,
    config: TrainConfig,
    *,
    seed: int = 0,
    on_epoch: Callable[[Epoch], None] | None = None,
    checkpoint: Checkpoint | None = None,
    spent: float = 0.0,
    comm: Communicator = SINGLE,
) -> TrainResult:
    """Train a model in place and leave it with the weights of its best epoch.

    `config.stopping` chooses that epoch. The test part of the split is not used.
    Ctrl-C ends the training and keeps the best epoch so far.

    A model may be trained in phases. Those without `steps` share the epochs equally;
    patience ends a phase, and the last one the training. A phase with `steps` is
    trained before the next of them, and is not in the history. Each begins with the
    best weights so far, and the best epoch is that of all phases.

    Parameters
    ----------
    model
        `model(x, graph)` returns logits.
    x
        Features, [n, F].
    matrices
        The model's propagation matrices, [n, n] each.
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
        Where to write the state now and then, at Ctrl-C and at the end; the training
        goes on from the state that it found, with the same bits.
    spent
        Seconds of earlier work, which the result includes.
    comm
        The processes that train together. Each passes its own rows of `x` and of the
        matrices, and all of `y` and of the split; rank 0 alone has the checkpoint.
    """
    if config.metric in OF_TWO_CLASSES and len(np.unique(y[split.val])) < 2:
        raise InputError(
            f"the metric {config.metric} needs both classes among the validation "
            "nodes; they are all of one."
        )
    trainer = _Trainer(model, x, matrices, y, split, config, seed, comm)
    state = TrainingState(model, trainer.optimizer, trainer.rule, spent)
    interrupted = False
    with ExitStack() as stack:
        stack.enter_context(seeded(seed, trainer.labels.device))
        stack.enter_context(threads_for([x, *matrices]))
        trainer.restore(state, checkpoint)
        first = len(state.history) + 1
        try:
            while not state.stopped and len(state.history) < config.epochs:
                epoch = trainer.run_epoch(state)
                state.add(epoch)
                if epoch.number == first:  # later epochs need the same memory
                    stack.enter_context(steady_memory())
                if checkpoint is not None:
                    checkpoint.keep(state)
                if on_epoch is not None:
                    on_epoch(epoch)
        except KeyboardInterrupt:
            interrupted = True
            if state.best is None:
                raise
    if checkpoint is not None:
        checkpoint.save()
    best = state.best
    assert best is not None  # every rule keeps the first epoch
    model.load_state_dict(state.best_weights)
    model.eval()
    history, seconds = tuple(state.history), state.seconds
    return TrainResult(best.number, best.val_score, history, seconds, interrupted)


class _PhaseGroup(NamedTuple):
    """Phases of which the last is validated and has so many epochs."""

    phases: tuple[Phase, ...]
    epochs: int


def _group_phases(phases: Sequence[Phase], epochs: int) -> list[_PhaseGroup]:
    """Group the phases up to each validated one, with an equal part of the epochs."""
    validated = [i for i, phase in enumerate(phases) if phase.steps is None]
    assert validated[-1:] == [len(phases) - 1]  # nothing is trained in vain
    lengths = [len(part) for part in np.array_split(np.arange(epochs), len(validated))]
    starts = [0, *(i + 1 for i in validated)]
    return [
        _PhaseGroup(tuple(phases[start : last + 1]), length)
        for start, last, length in zip(starts, validated, lengths, strict=False)
        if length
    ]


class _Trainer:
    """The steps and validations of a training, in each of its phases."""

    def __init__(
        self,
        model: NodeModule,
        x: Input,
        matrices: Sequence[LinearMap],
        y: NDArray[np.int64],
        split: Split,
        config: TrainConfig,
        seed: int,
        comm: Communicator,
    ) -> None:
        device = next(model.parameters()).device
        self.model, self.x, self.graph = model, x, Propagation(matrices)
        self.cache: StepCache = {}
        self.config, self.comm = config, comm
        self.batches = _make_batches(
            model, x, matrices, split, config, seed, comm, self.cache
        )
        self.labels = torch.from_numpy(y).to(device)
        self.train_nodes = torch.from_numpy(split.train).to(device)
        # Gathered rows are in ascending order.
        self.val_nodes = split.val if comm is SINGLE else np.sort(split.val)
        self.val_y = y[self.val_nodes]
        self.class_weights = class_weights(
            config.class_weight, self.labels, self.train_nodes
        )
        self.optimizer = make_optimizer(
            config.optimizer, model, config.learning_rate, config.l2
        )
        self.groups = _group_phases(model.phases(), config.epochs)
        lengths = [group.epochs for group in self.groups]
        self.rule = PhasedRule(config.stopping, config.patience, lengths)

    def restore(self, state: TrainingState, checkpoint: Checkpoint | None) -> None:
        """Go on from the checkpoint that rank 0 found, if there is one."""
        probe = partial(self._probe, state)
        snapshot = self.comm.broadcast(checkpoint.found if checkpoint else None)
        if checkpoint is not None:
            checkpoint.restore(state, probe)
        elif snapshot is not None:
            state.restore(snapshot, probe)

    @torch.no_grad()
    def _probe(self, state: TrainingState) -> None:
        """Fail where tensors of a checkpoint are not what the steps of a phase need."""
        if not self.rule.is_new_phase:
            phase = self.groups[self.rule.phase].phases[-1]
            self.model.eval()
            self.model.objective(
                phase, self.x, self.graph, state.prepared, self.class_weights
            )

    def run_epoch(self, state: TrainingState) -> Epoch:
        """Take the steps of the next epoch, and validate it."""
        number = len(state.history) + 1
        phases, _ = self.groups[self.rule.phase]
        if self.rule.is_new_phase:
            self._begin(phases, state)
        loss = self._take_steps(phases[-1], number, state.prepared)
        logits = self.comm.all_gather(_predict(self.model, self.batches.validation()))
        _check_finite(number, loss, logits)
        val_score = score(self.config.metric, self.val_y, logits.cpu().numpy())
        return Epoch(number, loss, val_score, self._validation_loss(logits))

    def _begin(self, phases: Sequence[Phase], state: TrainingState) -> None:
        """Train the phases before the last, and prepare that one."""
        if state.best is not None:
            self.model.load_state_dict(state.best_weights)
        labels = self.labels[self.train_nodes]
        for phase in phases:
            self.cache.clear()
            self.optimizer.state.clear()
            self.model.eval()
            with torch.no_grad():
                state.prepared = self.model.prepare(
                    phase,
                    self.x,
                    self.graph,
                    labels,
                    self.train_nodes,
                    state.prepared,
                )
            for _ in range(phase.steps or 0):
                loss = self._take_steps(phase, 0, state.prepared)
                _check_finite(len(state.history) + 1, loss)

    def _take_steps(self, phase: Phase, epoch: int, prepared: Tensors) -> float:
        """Take the steps of an epoch; return the mean loss over their nodes."""
        self.model.train()
        total, n_nodes = 0.0, 0
        for batch in self.batches.steps(epoch):
            # All processes take a step together, on all training nodes.
            n = len(batch.nodes) if self.comm is SINGLE else len(self.train_nodes)
            self.optimizer.zero_grad()
            loss = self._loss(phase, batch, n, prepared)
            loss.backward()
            for weight in self.model.parameters():
                if weight.grad is not None:
                    self.comm.all_reduce(weight.grad)
            total += self.comm.all_reduce(loss.detach()).item() * n
            n_nodes += n
            self.optimizer.step()
            self.cache.clear()
        return total / n_nodes

    def _loss(self, phase: Phase, batch: Subgraph, n: int, prepared: Tensors) -> Tensor:
        loss = self.model.objective(
            phase, self.x, self.graph, prepared, self.class_weights
        )
        if loss is None:
            logits = self.model(batch.x, batch.graph)
            loss = node_loss(logits, self.labels[batch.nodes], self.class_weights, n)
        penalty = self.model.penalty()
        return loss if penalty is None else loss + penalty / self.comm.size

    def _validation_loss(self, logits: Tensor) -> float:
        labels = self.labels[self.val_nodes]
        loss = node_loss(logits, labels, self.class_weights, len(labels)).item()
        if self.config.stopping != "loss-mean":
            return loss
        squares = (w.square().sum().item() for w in self.model.regularised())
        return loss + self.config.l2 * sum(squares)


def _make_batches(
    model: NodeModule,
    x: Input,
    matrices: Sequence[LinearMap],
    split: Split,
    config: TrainConfig,
    seed: int,
    comm: Communicator,
    cache: StepCache,
) -> Batches:
    if isinstance(comm, TorchGroup):
        return OwnRows(x, matrices, split, comm.own, cache)
    return make_batches(model, x, matrices, split, config.batch_size, seed, cache)


@torch.no_grad()
def _predict(model: NodeModule, batches: Iterable[Subgraph]) -> Tensor:
    model.eval()
    return torch.cat([model(part.x, part.graph) for part in batches])


def _check_finite(epoch: int, loss: float, logits: Tensor | None = None) -> None:
    finite = logits is None or bool(logits.isfinite().all())
    if not (math.isfinite(loss) and finite):
        raise InputError(
            f"training diverged in epoch {epoch} (the loss is {loss}); use a smaller "
            "learning rate, or scaled features."
        )


def class_weights(name: str | None, labels: Tensor, train: Tensor) -> Tensor | None:
    """Return a weight for each class, [C], or None where all nodes count alike.

    Parameters
    ----------
    name
        "balanced": the weights of each class have the same sum over the training
        nodes, and their mean over the nodes is 1; or None.
    labels
        Class indices, [n].
    train
        The training nodes, [m].

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
    name: str, model: NodeModule, learning_rate: float, l2: float
) -> torch.optim.Optimizer:
    """Return a new optimizer of a model's weights; `l2` is w in the penalty w·‖W‖²."""
    decayed = model.regularised()
    ids = {id(weight) for weight in decayed}
    others = [weight for weight in model.parameters() if id(weight) not in ids]
    # The gradient of w·‖W‖² is 2w·W, and torch's weight_decay adds weight_decay·W.
    groups: list[dict[str, Any]] = [{"params": decayed, "weight_decay": 2 * l2}]
    if others:
        groups.append({"params": others, "weight_decay": 0.0})
    fused = next(model.parameters()).device.type in ("cpu", "cuda")
    return OPTIMIZERS[name](groups, lr=learning_rate, fused=fused)


def fit_module(
    module: NodeModule,
    x: Input,
    matrices: Sequence[LinearMap],
    y: NDArray[np.int64],
    split: Split,
    config: TrainConfig,
    *,
    seed: int = 0,
    on_epoch: Callable[[Epoch], None] | None = None,
    checkpoint: Checkpoint | None = None,
    comm: Communicator = SINGLE,
) -> TrainResult:
    """Fit a module in place: what is trained first, what the labels say, its weights.

    A part that is `trained_first` is; then the module may `initialise` from the
    training labels, and its `learner` is trained. A module without weights is only
    scored. Parameters as in `train`, but `on_epoch` does not see the epochs of the part
    that is trained first; the seconds are those of it all. Where the learner is a part
    of the module, epochs are its own, and the score is the module's. Where a
    `checkpoint` was found, all that comes before is in it.
    """
    start = time.perf_counter()
    new = checkpoint is None or checkpoint.found is None
    part = module.trained_first()
    if part is not None and new:
        first = replace(config, epochs=min(PRIOR_EPOCHS, config.epochs))
        if train(part, x, (), y, split, first, seed=seed).interrupted:
            raise KeyboardInterrupt  # a part alone is not the model
    if new:
        train_nodes, val_nodes = (
            (
                torch.from_numpy(y[part]).to(x.device),
                torch.from_numpy(part).to(x.device),
            )
            for part in (split.train, split.val)
        )
        module.eval()
        with torch.no_grad(), seeded(seed, x.device):
            module.set_validation(*val_nodes)
            module.initialise(x, Propagation(matrices), *train_nodes)
    learner, result = module.learner(), TrainResult(module.best_iteration, 0.0, (), 0.0)
    if any(True for _ in module.parameters()):
        result = train(
            learner,
            x,
            matrices,
            y,
            split,
            config,
            seed=seed,
            on_epoch=on_epoch,
            checkpoint=checkpoint,
            spent=time.perf_counter() - start,
            comm=comm,
        )
        if learner is module:
            return result
        start = time.perf_counter() - result.seconds
    module.eval()
    with torch.no_grad():
        graph = Propagation(matrices, torch.from_numpy(split.val).to(x.device))
        logits = module(x, graph).cpu().numpy()
    val_score = score(config.metric, y[split.val], logits)
    return replace(result, val_score=val_score, seconds=time.perf_counter() - start)
