"""The training loop: what it minimises, by which steps, and on how many threads.

Small work has one thread (`threads_for`), which is quicker than to share it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from math import inf
from threading import Lock, local

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn._validation import check_choice, check_integer, check_real
from h2gcn.exceptions import InputError
from h2gcn.graph import Graph, Split
from h2gcn.models import NodeModule, Phase
from h2gcn.ring_table import Input, TableInput
from h2gcn.sparse import (
    LinearMap,
    Operator,
    Target,
    kept_workspace,
    own_threads,
    seeded,
    steady_memory,
)
from h2gcn.training.batches import Feed, Subgraph
from h2gcn.training.checkpoint import (
    RULES,
    Checkpoint,
    Epoch,
    PhasedRule,
    Tensors,
    TrainingState,
)
from h2gcn.training.crew import ALONE, Crew
from h2gcn.training.metrics import METRICS, OF_TWO_CLASSES, score
from h2gcn.training.objective import CLASS_WEIGHTS, class_weights, node_loss
from h2gcn.training.optimizers import OPTIMIZERS, make_optimizer

__all__ = [
    "Epoch",
    "TrainConfig",
    "TrainResult",
    "fit_module",
    "is_small",
    "threads_for",
    "threads_of",
    "train",
]

PRIOR_EPOCHS = 400
"""How long a prior is trained on its own, as in CPGNN's program."""


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
    """What training gave; the model holds the weights of the best epoch."""

    best_epoch: int
    val_score: float
    history: tuple[Epoch, ...]
    seconds: float
    interrupted: bool = False


def train(
    model: NodeModule,
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
    crew: Crew = ALONE,
) -> TrainResult:
    """Train a model in place and leave it with the weights of its best epoch.

    Which epoch that is, the rule `config.stopping` says. The test part of the split
    is never looked at. Ctrl-C ends the training and keeps the best epoch so far.

    A model may be trained in phases. Those that the validation nodes judge share the
    epochs equally; patience ends a phase, and the last one the training. What another
    phase trains is trained before the next of them, and is in no history. Each begins
    with the best weights so far, and the best epoch is that of all phases.

    Parameters
    ----------
    model
        `model(x, operators, target)` gives logits.
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
    crew
        Who trains. Of several workers, each is given its own rows of `x` and of the
        operators, and all of `y` and of the split.
    """
    if config.metric in OF_TWO_CLASSES and len(np.unique(y[split.val])) < 2:
        raise InputError(
            f"the metric {config.metric} needs both classes among the validation "
            "nodes; they are all of one."
        )
    device = next(model.parameters()).device
    split = crew.arrange(split)
    feed = crew.feed(model, x, operators, split, config.batch_size, seed)
    labels = torch.from_numpy(y).to(device)
    train_nodes = torch.from_numpy(split.train).to(device)
    weights = class_weights(config.class_weight, labels, train_nodes)
    optimizer = make_optimizer(config.optimizer, model, config.learning_rate, config.l2)
    steps = _Steps(
        model, x, operators, feed, labels, train_nodes, weights, optimizer, crew
    )
    stretches = _stretches(model.phases(), config.epochs)
    lengths = [length for _, length in stretches]
    rule = PhasedRule(config.stopping, config.patience, lengths)
    state = TrainingState(model, optimizer, rule, spent)
    wanted, wanted_here = y[split.val], labels[split.val]
    interrupted = False
    with seeded(seed, device), threads_of(model, x, operators), ExitStack() as during:
        during.enter_context(kept_workspace())
        during.enter_context(model.remembering())
        during.enter_context(crew.at_work())
        if checkpoint is not None:
            checkpoint.restore(state, lambda: steps.probe(stretches, rule, state))
        begun = len(state.history)
        try:
            while not state.stopped and len(state.history) < config.epochs:
                number = len(state.history) + 1
                phases, _ = stretches[rule.phase]
                if rule.fresh:
                    steps.begin(phases, state)
                loss = steps.take(phases[-1], number, state.given)
                logits = crew.join(_logits(model, feed.validation()))
                _check_finite(number, loss, logits)
                epoch = Epoch(
                    number,
                    loss,
                    score(config.metric, wanted, logits.cpu().numpy()),
                    _validation_loss(model, logits, wanted_here, weights, config),
                )
                state.add(epoch)
                if number == begun + 1:  # all further ones are like each other
                    during.enter_context(steady_memory())
                if checkpoint is not None and crew.chief:
                    checkpoint.keep(state)
                if on_epoch is not None:
                    on_epoch(epoch)
        except KeyboardInterrupt:
            interrupted = True
            if state.best is None:
                raise
    if checkpoint is not None and crew.chief:
        checkpoint.save()
    best = state.best
    assert best is not None  # every rule keeps the first epoch
    model.load_state_dict(state.best_weights)
    model.eval()
    history, seconds = tuple(state.history), state.seconds
    return TrainResult(best.number, best.val_score, history, seconds, interrupted)


Stretch = tuple[tuple[Phase, ...], int]
"""Phases, of which the last is judged and has so many epochs."""


def _stretches(phases: Sequence[Phase], epochs: int) -> list[Stretch]:
    """Return the phases up to each judged one, with an equal share of the epochs."""
    judged = [place for place, phase in enumerate(phases) if phase.steps is None]
    assert judged[-1:] == [len(phases) - 1]  # nothing is trained for nothing
    shares = [len(part) for part in np.array_split(np.arange(epochs), len(judged))]
    firsts = [0, *(place + 1 for place in judged)]
    return [
        (tuple(phases[first : last + 1]), share)
        for first, last, share in zip(firsts, judged, shares, strict=False)
        if share
    ]


@dataclass(frozen=True)
class _Steps:
    """What the steps of a training are made of, in each of its phases.

    Parameters
    ----------
    model
        What is trained.
    x, operators
        Of the whole graph.
    feed
        What each step sees of it.
    labels
        Class indices, [n]; the model is shown those of training nodes.
    index
        The training nodes, [m].
    weights
        Of the classes, [C]; None where all count alike.
    optimizer
        Of the model's weights.
    crew
        Who takes them.
    """

    model: NodeModule
    x: Input
    operators: Sequence[LinearMap]
    feed: Feed
    labels: Tensor
    index: Tensor
    weights: Tensor | None
    optimizer: torch.optim.Optimizer
    crew: Crew

    def begin(self, phases: Sequence[Phase], state: TrainingState) -> None:
        """Do all that comes before the epochs of the last of some phases.

        Those before it are trained here, each after what it needs was prepared.
        """
        if state.best is not None:
            self.model.load_state_dict(state.best_weights)
        for phase in phases:
            self.optimizer.state.clear()
            self.model.eval()
            with torch.no_grad():
                state.given = self.model.prepare(
                    phase,
                    self.x,
                    self.operators,
                    self.labels[self.index],
                    self.index,
                    state.given,
                )
            for _ in range(phase.steps or 0):
                loss = self.take(phase, 0, state.given)
                _check_finite(len(state.history) + 1, loss)

    def take(self, phase: Phase, epoch: int, given: Tensors) -> float:
        """Take the steps of an epoch; return the mean loss of their nodes."""
        self.model.train()
        total, nodes = 0.0, 0
        for part in self.feed.steps(epoch):
            self.optimizer.zero_grad(set_to_none=True)
            loss = self._loss(phase, part, given)
            penalty = self.model.penalty()
            if penalty is not None:
                loss = loss + penalty
            loss.backward()
            mean = loss.item()
            self.optimizer.step()
            count = self.crew.count(len(part.nodes), len(self.index))
            total += mean * count
            nodes += count
        return total / nodes

    def _loss(self, phase: Phase, part: Subgraph, given: Tensors) -> Tensor:
        own = self.model.objective(phase, part.x, part.operators, given, self.weights)
        if own is not None:
            return own
        logits = self.model(part.x, part.operators, part.target)
        count = self.crew.count(len(part.nodes), len(self.index))
        labels = self.labels[part.nodes]
        return self.crew.loss(logits, part.nodes, labels, self.weights, count)

    @torch.no_grad()
    def probe(
        self, stretches: Sequence[Stretch], rule: PhasedRule, state: TrainingState
    ) -> None:
        """Fail where what a checkpoint had for a phase is not what its steps need."""
        if not rule.fresh:
            phase = stretches[rule.phase][0][-1]
            self.model.eval()
            self.model.objective(
                phase, self.x, self.operators, state.given, self.weights
            )


@torch.no_grad()
def _logits(model: NodeModule, parts: Iterable[Subgraph]) -> Tensor:
    model.eval()
    return torch.cat([model(part.x, part.operators, part.target) for part in parts])


def _validation_loss(
    model: NodeModule,
    logits: Tensor,
    labels: Tensor,
    weights: Tensor | None,
    config: TrainConfig,
) -> float:
    loss = node_loss(logits, labels, weights).item()
    if config.stopping != "loss-mean":
        return loss
    penalised = (w.square().sum().item() for w in model.regularised())
    return loss + config.l2 * sum(penalised)


def _check_finite(epoch: int, loss: float, logits: Tensor | None = None) -> None:
    finite = logits is None or bool(logits.isfinite().all())
    if not (math.isfinite(loss) and finite):
        raise InputError(
            f"training diverged in epoch {epoch} (the loss is {loss}); use a smaller "
            "learning rate, or scaled features."
        )


def fit_module(
    module: NodeModule,
    x: Input,
    operators: Sequence[LinearMap],
    y: NDArray[np.int64],
    split: Split,
    config: TrainConfig,
    *,
    seed: int = 0,
    on_epoch: Callable[[Epoch], None] | None = None,
    checkpoint: Checkpoint | None = None,
    crew: Crew = ALONE,
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
            module.initialise(x, operators, *train_nodes)
    learner, result = module.learner(), TrainResult(module.best_iteration, 0.0, (), 0.0)
    if any(True for _ in module.parameters()):
        result = train(
            learner,
            x,
            operators,
            y,
            split,
            config,
            seed=seed,
            on_epoch=on_epoch,
            checkpoint=checkpoint,
            spent=time.perf_counter() - start,
            crew=crew,
        )
        if learner is module:
            return result
        start = time.perf_counter() - result.seconds
    module.eval()
    with torch.no_grad():
        target = Target.of(operators, split.val, x.device)
        logits = module(x, operators, target).cpu().numpy()
    val_score = score(config.metric, y[split.val], logits)
    return replace(result, val_score=val_score, seconds=time.perf_counter() - start)


SMALL = 2**20
"""Entries of features and operators together, below which one thread is quicker."""
SMALL_GRAPH = 500_000
"""Walks of length two below which a graph counts as small."""

_LOCK = Lock()
_BEFORE: list[int] = []
"""How many threads there were, once for each who has set them to one."""
_HERE = local()
"""Whether this thread is one of those."""


def is_small(graph: Graph) -> bool:
    """Return whether one thread is for all that is done with a graph."""
    # Walks of length two bound the entries of the 2-hop ring.
    return int((graph.degrees**2).sum()) < SMALL_GRAPH


@contextmanager
def threads_for(factors: Sequence[object], *, small: bool = False) -> Iterator[None]:
    """Have torch use one thread while something is done with small matrices.

    torch keeps the number partly for each thread, partly for all: whoever comes while
    others are here gives back, in its own thread, what the first of them found.

    Parameters
    ----------
    factors
        The matrices that are multiplied: tensors and operators.
    small
        Whether the work is known to be small, whatever the matrices; see `is_small`.
    """
    inside = getattr(_HERE, "inside", False)
    if inside or not (small or sum(map(_entries, factors)) < SMALL):
        yield
        return
    with _LOCK:
        _BEFORE.append(_BEFORE[-1] if _BEFORE else torch.get_num_threads())
        torch.set_num_threads(1)
    _HERE.inside = True
    try:
        yield
    finally:
        _HERE.inside = False
        with _LOCK:
            torch.set_num_threads(_BEFORE.pop())


@contextmanager
def threads_of(
    model: NodeModule, x: Input, operators: Sequence[LinearMap]
) -> Iterator[None]:
    """Have torch use as many threads as are quickest for the epochs of a model.

    Parameters
    ----------
    model
        Where its products with operators are ours, torch's threads are for the rest.
    x, operators
        Of the whole graph.
    """
    if not model.own_products:
        with threads_for([x, *operators]):
            yield
        return
    others = [op for op in operators if not isinstance(op, Operator)]
    with own_threads(), threads_for([x, *others]):
        yield


def _entries(factor: object) -> float:
    """Return the stored entries of a matrix in memory; all others are large."""
    if isinstance(factor, Tensor):
        return factor.numel()
    if isinstance(factor, TableInput):
        return factor.entries
    return factor.scipy.nnz if isinstance(factor, Operator) else inf
