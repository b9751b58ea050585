"""Logits of nodes, a block at a time, and how good they are."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from h2gcn.estimator.inputs import match_labels
from h2gcn.estimator.probability_scores import ProbabilityScores
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import Graph, slices
from h2gcn.models import NodeModule
from h2gcn.ring_table import Input
from h2gcn.sparse import LinearMap, Target
from h2gcn.training import confusion_matrix, gather, macro_f1, roc_auc, threads_for

__all__ = [
    "Evaluation",
    "Judgement",
    "check_nodes",
    "evaluate",
    "join_blocks",
    "logits_in_blocks",
    "mean_and_deviation",
    "probabilities",
    "warn_of_unreached",
]

BLOCK = 65_536
"""How many nodes a block has where nothing else is said."""

FEW = 4096
"""Nodes whose rows of the operators are cut out; for more the whole graph is taken."""

BALANCED = (
    "the classes were balanced in training: the probabilities are those of classes of "
    "equal size, far too high for rare ones; until they are calibrated, only their "
    "order counts"
)
"""What is told of balanced classes where nothing has calibrated the probabilities."""

Block = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Some nodes, [m], and their logits, [m, C]."""


def logits_in_blocks(
    module: NodeModule,
    x: Input,
    operators: Sequence[LinearMap],
    nodes: NDArray[np.int64] | None,
    block_size: int | None,
    device: torch.device,
    *,
    small: bool = False,
) -> Iterator[Block]:
    """Return nodes with their logits, in order and at most a block at a time.

    Without a block size the module sees the whole graph, once: as in a training
    without batches, its own layers are what takes memory. With one, it sees of the
    graph what each block needs (see `gather`), and with it memory is bound by the
    block; so it is only for modules that say how far they look.

    Parameters
    ----------
    module
        Trained.
    x
        Features, [n, F].
    operators
        The module's operators of the graph, [n, n] each.
    nodes
        Whose logits are wanted; None is all.
    block_size
        At most so many nodes at a time.
    device
        Where the module is.
    small
        Whether the graph is small enough for one thread, see `is_small`.
    """
    n = x.shape[0]
    wanted = np.arange(n) if nodes is None else nodes
    size = BLOCK if block_size is None else block_size
    reach = module.reach
    module.eval()
    if block_size is not None and block_size < n and reach is not None:
        for part in slices(len(wanted), size):
            around = gather(x, operators, wanted[part], reach, device)
            yield (
                around.nodes,
                _forward(module, around.x, around.operators, around.target, small),
            )
    elif nodes is not None and len(nodes) <= min(size, FEW):
        target = Target.of(operators, nodes, device)
        yield nodes, _forward(module, x, operators, target, small)
    else:
        logits = _forward(module, x, operators, None, small)
        for part in slices(len(wanted), size):
            yield wanted[part], logits[wanted[part]]


# Around the module alone: what a generator sets would hold between its blocks too.
@torch.no_grad()
def _forward(
    module: NodeModule,
    x: Input,
    operators: Sequence[LinearMap],
    target: Target | None,
    small: bool,
) -> NDArray[np.float32]:
    with threads_for([x, *operators], small=small):
        logits: Tensor = module(x, operators, target)
    return logits.cpu().numpy()


def join_blocks(
    blocks: Iterable[Block], n_nodes: int, n_classes: int
) -> NDArray[np.float32]:
    """Return the logits of all blocks in one array, [n_nodes, n_classes]."""
    result = np.empty((n_nodes, n_classes), dtype=np.float32)
    done = 0
    for nodes, logits in blocks:
        result[done : done + len(nodes)] = logits
        done += len(nodes)
    return result


def probabilities(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the softmax of each row, [m, C]."""
    return torch.softmax(torch.from_numpy(logits), dim=1).numpy()


def check_nodes(graph: Graph, nodes: ArrayLike) -> NDArray[np.int64]:
    """Return node indices from indices or a mask of all nodes."""
    n = graph.n_nodes
    try:
        given = np.asarray(nodes).reshape(-1)
    except ValueError:  # rows of different lengths
        raise InputError("'nodes' must be one list of indices, or a mask.") from None
    if given.dtype == bool:
        if len(given) != n:
            raise InputError(
                f"'nodes' must have an entry for each of the {n:,} nodes of "
                f"{graph.name}, as it is a mask. Got {len(given):,} instead."
            )
        return np.flatnonzero(given)
    if given.size == 0:
        return np.zeros(0, dtype=np.int64)
    if given.dtype.kind not in "iu":
        raise InputError(
            f"'nodes' must be indices (integers) or a mask. Got {given.dtype} instead."
        )
    if not 0 <= given.min() <= given.max() < n:
        raise InputError(
            f"'nodes' must be indices from 0 to {n - 1}. "
            f"Got {given.min()} to {given.max()} instead."
        )
    return given.astype(np.int64)


def warn_of_unreached(reached: Tensor) -> None:
    """Say for how many nodes a model that spreads labels knows nothing."""
    count = int((~reached).sum())
    if count:
        nodes, them = ("node", "it") if count == 1 else ("nodes", "them")
        warnings.warn(
            f"{count:,} {nodes} cannot be reached from any labelled one: all classes "
            f"are equally likely for {them}",
            H2GCNWarning,
            stacklevel=3,
        )


class Predictor(Protocol):
    """What `evaluate` asks of a fitted classifier."""

    classes_: NDArray[Any]

    def predict_blocks(self, graph: Graph, nodes: NDArray[np.int64]) -> Iterator[Block]:
        """Return nodes with their logits, a block after the other."""
        ...

    def probabilities_of(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the probabilities that logits stand for."""
        ...


@dataclass(frozen=True)
class Evaluation:
    """Scores on some labelled nodes.

    Parameters
    ----------
    nodes
        How many nodes were scored.
    accuracy, macro_f1
        Fractions of 1.
    roc_auc
        For two classes, else None.
    majority
        Accuracy of always guessing the most frequent class of these nodes.
    confusion
        Counts [C, C]: row = true class, column = predicted class.
    probabilities
        How good the probabilities are, calibrated if the classifier is.
    """

    nodes: int
    accuracy: float
    macro_f1: float
    roc_auc: float | None
    majority: float
    confusion: NDArray[np.int64]
    probabilities: ProbabilityScores


def evaluate(
    classifier: Predictor, graph: Graph, nodes: NDArray[np.int64]
) -> Evaluation:
    """Score a fitted classifier on labelled nodes of a graph.

    Parameters
    ----------
    classifier
        Fitted.
    graph
        The graph of `fit`, or another.
    nodes
        Their indices, [m], at least one.
    """
    y = match_labels(graph, nodes, classifier.classes_)
    n_classes = len(classifier.classes_)
    blocks = classifier.predict_blocks(graph, nodes)
    logits = join_blocks(blocks, len(nodes), n_classes)
    confusion = confusion_matrix(y, logits.argmax(axis=1), n_classes)
    area = roc_auc(y, logits) if n_classes == 2 else float("nan")
    shares, degrees = classifier.probabilities_of(logits), np.diff(graph.adj.indptr)
    return Evaluation(
        nodes=len(nodes),
        accuracy=float(np.trace(confusion) / len(nodes)),
        macro_f1=macro_f1(confusion),
        roc_auc=_or_none(area),
        majority=float(np.bincount(y).max() / len(y)),
        confusion=confusion,
        probabilities=ProbabilityScores.of(y, shares, degrees[nodes]),
    )


@dataclass(frozen=True)
class Judgement:
    """What whoever uses a model must be told of it.

    Parameters
    ----------
    no_better_than_majority
        Whether always guessing the largest class is right as often, or more often.
    remarks
        That, and what else must be known, each in a sentence.
    """

    no_better_than_majority: bool
    remarks: tuple[str, ...]

    @classmethod
    def of(
        cls, found: Sequence[Evaluation], nodes: str, *, balanced: bool
    ) -> Judgement:
        """Judge a model, by the mean where it was fitted more than once.

        Parameters
        ----------
        found
            Its scores, at least one.
        nodes
            What was scored, such as "test nodes".
        balanced
            Whether probabilities are those of balanced classes, not calibrated.
        """
        right = float(np.mean([one.accuracy for one in found]))
        guessed = float(np.mean([one.majority for one in found]))
        # Sums of the same shares in another order are equal.
        idle = round(right, 12) <= round(guessed, 12)
        remarks = [BALANCED] if balanced else []
        if idle:
            remarks.insert(
                0,
                "by accuracy, the model is no better than always guessing the largest "
                f"class: {100 * right:.2f} % of the {nodes} are right, against "
                f"{100 * guessed:.2f} %",
            )
        return cls(idle, tuple(remarks))

    def to_json(self) -> dict[str, object]:
        """Return the fields by name, as what JSON can hold."""
        return asdict(self) | {"remarks": list(self.remarks)}


def mean_and_deviation(values: list[float]) -> dict[str, float | int | None]:
    """Return mean, sample standard deviation (None of one value) and number."""
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
    mean = float(np.mean(values)) if values else None
    return {"mean": mean, "std": deviation, "n": len(values)}


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value
