"""Logits of nodes, a block at a time, and how good they and their probabilities are."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from h2gcn.estimator.inputs import match_labels
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.features import FeatureTable, Input
from h2gcn.graph import CSR, Graph, slices
from h2gcn.io import listed
from h2gcn.sparse import LinearMap, Propagation
from h2gcn.training import (
    HasRows,
    NodeModule,
    ReliabilityBin,
    TakesRows,
    average_precision,
    brier,
    calibration_error,
    chance_error,
    class_bins,
    confusion_matrix,
    log_loss,
    macro_f1,
    rarer_class,
    receptive_field,
    reliability_bins,
    roc_auc,
    threads_for,
)

__all__ = [
    "DEGREES",
    "Evaluation",
    "GroupCalibration",
    "Judgement",
    "ProbabilityScores",
    "check_nodes",
    "degree_groups",
    "evaluate",
    "find_reached",
    "finite_blocks",
    "join_blocks",
    "logits_in_blocks",
    "logits_of_some",
    "mean_and_deviation",
    "probabilities",
    "warn_of_unreached",
]

DEGREES = ((0, 1), (2, 4), (5, 15), (16, None))
"""Fewest and most neighbours of each group of nodes; None is any number."""


def degree_groups(
    degrees: NDArray[np.integer],
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield the name of each group of `DEGREES`, and which nodes are in it, [m]."""
    for low, high in DEGREES:
        inside = (degrees >= low) & (degrees <= (np.inf if high is None else high))
        yield f"{low}+" if high is None else f"{low}–{high}", inside


@dataclass(frozen=True)
class GroupCalibration:
    """Probabilities of a group of nodes, or of a class, against what came true.

    Parameters
    ----------
    name
        The class's index, or the degrees, such as "2–4".
    nodes
        How many nodes there are: of a class its own, of a degree those of it.
    confidence
        The mean probability that was told: of the class over all nodes, or, for
        degrees, the largest of each node. None without nodes.
    accuracy
        The share of which it came true; None without nodes.
    calibration_error
        The expected calibration error; None without nodes.
    chance_error
        What that of perfect probabilities would be by chance.
    """

    name: int | str
    nodes: int
    confidence: float | None
    accuracy: float | None
    calibration_error: float | None
    chance_error: float | None

    @classmethod
    def of(
        cls, name: int | str, nodes: int, bins: list[ReliabilityBin]
    ) -> GroupCalibration:
        """Sum up the bins of a group."""
        total = sum(one.nodes for one in bins)
        told = sum(one.nodes * (one.confidence or 0.0) for one in bins)
        true = sum(one.nodes * (one.accuracy or 0.0) for one in bins)
        return cls(
            name,
            nodes,
            told / total if total else None,
            true / total if total else None,
            calibration_error(bins) if total else None,
            chance_error(bins) if total else None,
        )


@dataclass(frozen=True)
class ProbabilityScores:
    """How good the probabilities of some labelled nodes are.

    Parameters
    ----------
    log_loss
        The mean of −log of what the true class got; log C where nothing is known.
    brier
        The mean squared difference from what came true.
    calibration_error
        By how much the largest probability differs from how often it comes true, in
        the mean over 15 bins of equal width.
    chance_error
        What that of perfect probabilities would be by chance, on so many nodes.
    pr_auc
        Average precision of each class against the others; None without nodes of it.
    bins
        The bins of the calibration error.
    by_class
        Probabilities of each class over all nodes, [C].
    by_degree
        Largest probabilities of nodes with few and with many neighbours.
    """

    log_loss: float
    brier: float
    calibration_error: float
    chance_error: float
    pr_auc: tuple[float | None, ...]
    bins: tuple[ReliabilityBin, ...]
    by_class: tuple[GroupCalibration, ...]
    by_degree: tuple[GroupCalibration, ...]

    @classmethod
    def of(
        cls,
        y: NDArray[np.int64],
        probabilities: NDArray[np.floating],
        degrees: NDArray[np.integer],
    ) -> ProbabilityScores:
        """Score probabilities.

        Parameters
        ----------
        y
            Classes of the nodes, [m], at least one.
        probabilities
            [m, C].
        degrees
            How many neighbours each node has, [m].
        """
        bins = reliability_bins(y, probabilities)
        areas = average_precision(y, probabilities)
        classes = range(probabilities.shape[1])
        by_degree = []
        for name, inside in degree_groups(degrees):
            group = reliability_bins(y[inside], probabilities[inside])
            by_degree.append(GroupCalibration.of(name, int(inside.sum()), group))
        return cls(
            log_loss=log_loss(y, probabilities),
            brier=brier(y, probabilities),
            calibration_error=calibration_error(bins),
            chance_error=chance_error(bins),
            pr_auc=tuple(None if np.isnan(area) else area for area in areas),
            bins=tuple(bins),
            by_class=tuple(
                GroupCalibration.of(
                    c, int((y == c).sum()), class_bins(y, probabilities, c)
                )
                for c in classes
            ),
            by_degree=tuple(by_degree),
        )

    @property
    def mean_pr_auc(self) -> float | None:
        """The area of the rarer of two; of more, the mean of the classes with nodes."""
        if len(self.pr_auc) == 2:
            return self.pr_auc[rarer_class([one.nodes for one in self.by_class])]
        known = [area for area in self.pr_auc if area is not None]
        return float(np.mean(known)) if known else None

    def to_json(self, classes: list[str]) -> dict[str, Any]:
        """Return all as what JSON can hold; classes by their names, [C]."""
        named = [
            asdict(one) | {"name": name}
            for one, name in zip(self.by_class, classes, strict=True)
        ]
        return {
            "log_loss": self.log_loss,
            "brier": self.brier,
            "calibration_error": self.calibration_error,
            "chance_error": self.chance_error,
            "pr_auc": dict(zip(classes, self.pr_auc, strict=True)),
            "bins": [asdict(one) for one in self.bins],
            "by_class": named,
            "by_degree": [asdict(one) for one in self.by_degree],
        }


BLOCK = 65_536
"""How many nodes a block has where nothing else is said."""

SHOWN = 5
"""How many nodes a message names."""

FEW = 4096
"""Nodes whose rows of the matrices are cut out; for more the whole graph is taken."""

BALANCED = (
    "the classes were balanced in training: the probabilities are those of classes of "
    "equal size, far too high for rare ones; until they are calibrated, only their "
    "order counts"
)
"""What is told of balanced classes where nothing has calibrated the probabilities."""

Block = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Some nodes, [m], and their logits, [m, C]."""


def logits_of_some(
    module: NodeModule,
    x: Input | HasRows,
    matrices: Sequence[TakesRows],
    nodes: NDArray[np.int64],
    block_size: int | None,
    device: torch.device,
    *,
    small: bool = False,
) -> Iterator[Block]:
    """Return some nodes with their logits, a block at a time, and see no others.

    Parameters
    ----------
    module
        Trained; it says how far it looks.
    x
        Of which rows can be had, [n, F].
    matrices
        Of which rows can be taken, [n, n] each.
    nodes, block_size, device, small
        As of `logits_in_blocks`.
    """
    assert module.receptive_field is not None
    module.eval()
    for part in slices(len(nodes), BLOCK if block_size is None else block_size):
        with threads_for([x], small=small):
            around = receptive_field(
                x, matrices, nodes[part], module.receptive_field, device
            )
        yield around.nodes, _forward(module, around.x, around.graph, small)


def logits_in_blocks(
    module: NodeModule,
    x: Input,
    matrices: Sequence[LinearMap],
    nodes: NDArray[np.int64] | None,
    block_size: int | None,
    device: torch.device,
    *,
    small: bool = False,
) -> Iterator[Block]:
    """Return nodes with their logits, in order and at most a block at a time.

    Without a block size the module sees the whole graph, once: as in a training
    without batches, its own layers are what takes memory. With one, it sees of the
    graph what each block needs (see `receptive_field`), and with it memory is bound by
    the block; so it is only for modules that say how far they look.

    Parameters
    ----------
    module
        Trained.
    x
        Features, [n, F].
    matrices
        The module's matrices of the graph, [n, n] each.
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
    reach = module.receptive_field
    module.eval()
    # Of a table that has not all rows, those that it has are asked for.
    partly = isinstance(x, FeatureTable) and x.nodes is not None
    if partly or (block_size is not None and block_size < n and reach is not None):
        yield from logits_of_some(
            module, x, matrices, wanted, size, device, small=small
        )
    elif nodes is not None and len(nodes) <= min(size, FEW):
        target = torch.from_numpy(nodes).to(device)
        yield nodes, _forward(module, x, Propagation(matrices, target), small)
    else:
        logits = _forward(module, x, Propagation(matrices), small)
        for part in slices(len(wanted), size):
            yield wanted[part], logits[wanted[part]]


# Around the module alone: what a generator sets would hold between its blocks too.
@torch.no_grad()
def _forward(
    module: NodeModule, x: Input, graph: Propagation, small: bool
) -> NDArray[np.float32]:
    with threads_for([x, *graph.matrices], small=small):
        logits: Tensor = module(x, graph)
    return logits.cpu().numpy()


def finite_blocks(graph: Graph, blocks: Iterable[Block]) -> Iterator[Block]:
    """Return blocks as they are, or raise at the first that says nothing of a node.

    One logit of -inf is a class that is impossible; one of inf or NaN, or nothing but
    -inf, has no probabilities.

    Parameters
    ----------
    graph
        Whose nodes they are.
    blocks
        Nodes with their logits.
    """
    for nodes, logits in blocks:
        fine = np.isfinite(logits.max(axis=1, initial=-np.inf))
        if not fine.all():
            ids = [str(node) for node in graph.node_ids[nodes[~fine]].tolist()]
            raise InputError(
                f"{graph.name}: the model has no finite prediction for the nodes "
                f"{listed(ids, SHOWN)}; numbers among its weights or their features "
                "are too large."
            )
        yield nodes, logits


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


def check_nodes(
    graph: Graph, nodes: ArrayLike, name: str = "nodes"
) -> NDArray[np.int64]:
    """Return node indices from indices or a mask of all nodes, given by that name."""
    n = graph.n_nodes
    try:
        given = np.asarray(nodes).reshape(-1)
    except ValueError:  # rows of different lengths
        raise InputError("must be one list of indices, or a mask", param=name) from None
    if given.dtype == bool:
        if len(given) != n:
            raise InputError(
                f"must have an entry for each of the {n:,} nodes of {graph.name}, as "
                f"it is a mask, got {len(given):,}",
                param=name,
            )
        return np.flatnonzero(given)
    if given.size == 0:
        return np.zeros(0, dtype=np.int64)
    if given.dtype.kind not in "iu":
        raise InputError(
            f"must be indices (integers) or a mask, got {given.dtype}", param=name
        )
    if not 0 <= given.min() <= given.max() < n:
        raise InputError(
            f"must be indices from 0 to {n - 1}, got {given.min()} to {given.max()}",
            param=name,
        )
    return given.astype(np.int64)


def find_reached(adj: CSR, labels: Input) -> NDArray[np.bool_]:
    """Return which nodes are in a component with a labeled node, [n].

    Parameters
    ----------
    labels
        One-hot, [n, C]; zero where unknown.
    """
    count, component = connected_components(adj, directed=False)
    assert isinstance(labels, Tensor)
    is_labeled = labels.any(dim=1).cpu().numpy()
    has_label = np.zeros(count, dtype=bool)
    has_label[component[is_labeled]] = True
    return np.asarray(has_label[component])


def warn_of_unreached(reached: NDArray[np.bool_]) -> None:
    """Warn of the nodes that a model which spreads labels knows nothing about."""
    count = int((~reached).sum())
    if count:
        nodes, them = ("node", "it") if count == 1 else ("nodes", "them")
        warnings.warn(
            f"{count:,} {nodes} cannot be reached from any labelled one: what is "
            f"predicted for {them} is a guess",
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
        Accuracy of always guessing one class: that which was largest in training
        where it was named, else the most frequent class of these nodes.
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

    @classmethod
    def of(
        cls,
        y: NDArray[np.int64],
        logits: NDArray[np.float32],
        probabilities: NDArray[np.floating],
        degrees: NDArray[np.integer],
        largest: int | None = None,
    ) -> Evaluation:
        """Score what was said of some nodes.

        Parameters
        ----------
        y
            Their classes, [m], at least one.
        logits, probabilities
            [m, C].
        degrees
            How many neighbours each node has, [m].
        largest
            The class that always guessing guesses; None is the largest of these.
        """
        n_classes = logits.shape[1]
        confusion = confusion_matrix(y, logits.argmax(axis=1), n_classes)
        area = roc_auc(y, logits) if n_classes == 2 else float("nan")
        counts = np.bincount(y, minlength=n_classes)
        guessed = counts.max() if largest is None else counts[largest]
        return cls(
            nodes=len(y),
            accuracy=float(np.trace(confusion) / len(y)),
            macro_f1=macro_f1(confusion),
            roc_auc=_or_none(area),
            majority=float(guessed / len(y)),
            confusion=confusion,
            probabilities=ProbabilityScores.of(y, probabilities, degrees),
        )

    @property
    def measures(self) -> dict[str, float | None]:
        """The scores by name, `roc_auc` of two classes only; None without a value."""
        told = self.probabilities
        area = {"roc_auc": self.roc_auc} if len(self.confusion) == 2 else {}
        return {
            "accuracy": self.accuracy,
            "macro_f1": self.macro_f1,
            **area,
            "pr_auc": told.mean_pr_auc,
            "log_loss": told.log_loss,
            "brier": told.brier,
            "calibration_error": told.calibration_error,
        }


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
    blocks = classifier.predict_blocks(graph, nodes)
    logits = join_blocks(blocks, len(nodes), len(classifier.classes_))
    shares = classifier.probabilities_of(logits)
    return Evaluation.of(y, logits, shares, graph.degrees[nodes])


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
