"""Which columns, blocks and edges matter over all nodes, by permutation.

On nodes that training did not see: what the score and the log-loss lose where a column,
a block or the place in the graph is another node's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.estimator.automatic import Answering
from h2gcn.estimator.explaining import (
    Asked,
    combined,
    features_of,
    grouped,
    labels_of,
    rows_of,
    with_features,
    with_labels,
)
from h2gcn.estimator.inputs import match_labels
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR, Graph
from h2gcn.ring_table import Input, TableInput, block_words
from h2gcn.sparse import MappedFeatures, Operator
from h2gcn.training import log_loss, score

__all__ = ["Importance", "ImportanceRow", "measure_importance"]

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class ImportanceRow:
    """What a part is worth: what is lost where it is another node's.

    Parameters
    ----------
    name
        In words.
    kind
        "block", "column" or "graph".
    drop, drop_error
        By how much the metric falls in the mean, and the standard error of that over
        the repeats; None where it has no value.
    log_loss, log_loss_error
        By how much the log-loss rises.
    """

    name: str
    kind: str
    drop: float | None
    drop_error: float | None
    log_loss: float
    log_loss_error: float | None

    def to_json(self) -> dict[str, Any]:
        """Return the fields by name."""
        return dict(vars(self))


@dataclass(frozen=True)
class Importance:
    """Which blocks and columns matter, by permutation on held-out nodes.

    Parameters
    ----------
    graph, model, metric
        Their names.
    score, log_loss
        With nothing permuted; the score is None where it has no value.
    nodes, repeats
        How many nodes were scored, and how often each part was permuted.
    rows
        The parts, those first that the log-loss needs most.
    notes
        What else must be known, such as columns that were not tried.
    """

    graph: str
    model: str
    metric: str
    score: float | None
    log_loss: float
    nodes: int
    repeats: int
    rows: tuple[ImportanceRow, ...]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return all as what JSON can hold."""
        return vars(self) | {
            "rows": [row.to_json() for row in self.rows],
            "notes": list(self.notes),
        }


def measure_importance(
    classifier: Any,
    graph: Graph,
    nodes: NDArray[np.int64],
    *,
    repeats: int,
    columns: int,
    seed: int,
    on_step: Callable[[int, int], None] | None = None,
) -> Importance:
    """Return which parts matter, by permutation.

    Parameters
    ----------
    classifier
        A fitted `NodeClassifier`.
    graph
        The graph of `fit`, or another.
    nodes
        Labelled nodes that training did not see, [m].
    repeats
        How often each part is permuted.
    columns
        So many single columns are tried at most.
    seed
        Of the permutations.
    on_step
        Called after each permutation with how many are done, and of how many.
    """
    y = match_labels(graph, nodes, classifier.classes_)
    offsets = classifier.offsets_
    members = [
        one or Answering("", 1.0, 1.0, classifier)
        for one in (classifier.members_ or (None,))
    ]
    able, shuffles = [], []
    refused: InputError | None = None
    for one in members:
        try:
            asked = Asked(one.classifier, graph)
            shuffles.append(_Shuffled(asked, nodes, bool(classifier.members_)))
            able.append(one)
        except InputError as error:
            refused = error
    if refused is not None and (not able or not classifier.members_):
        raise refused

    def answer(asked: Callable[[_Shuffled], Numbers]) -> NDArray[np.float32]:
        parts = [asked(shuffled) for shuffled in shuffles]
        if not classifier.members_:
            return parts[0].astype(np.float32)
        return combined(able, parts, offsets).astype(np.float32)

    metric = classifier.params_["metric"]

    def measured(logits: NDArray[np.float32]) -> tuple[float, float]:
        shares = classifier.probabilities_of(logits)
        return score(metric, y, logits), log_loss(y, shares)

    with torch.no_grad():
        full = answer(lambda shuffled: shuffled.full)
        base, loss = measured(full)
        units = dict.fromkeys(
            unit for shuffled in shuffles for unit in shuffled.units()
        )
        single, notes = _telling(shuffles, full, columns)
        every = [*units, *single]
        rows, done = [], 0
        for number, (name, kind) in enumerate(every):
            drops, rises = [], []
            for repeat in range(repeats):
                draw = (seed, number, repeat)
                logits = answer(
                    lambda shuffled, name=name, kind=kind, draw=draw: shuffled.logits(  # type: ignore[misc]
                        name, kind, np.random.default_rng(draw)
                    )
                )
                now, rise = measured(logits)
                drops.append(base - now)
                rises.append(rise - loss)
                done += 1
                if on_step is not None:
                    on_step(done, repeats * len(every))
            known = not np.isnan(drops).any()
            rows.append(
                ImportanceRow(
                    name,
                    kind,
                    float(np.mean(drops)) if known else None,
                    _error(drops) if known else None,
                    float(np.mean(rises)),
                    _error(rises),
                )
            )
    rows.sort(key=lambda row: -row.log_loss)
    return Importance(
        graph.name,
        classifier.params_["model"],
        metric,
        None if np.isnan(base) else base,
        loss,
        len(nodes),
        repeats,
        tuple(rows),
        notes,
    )


def _error(values: Sequence[float]) -> float | None:
    """Return the standard error of a mean; None of one value."""
    if len(values) < 2:
        return None
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


WHOLE_GRAPH = "the graph as a whole"
ALL_FEATURES = "all features"
KNOWN_LABELS = "training labels"
Unit = tuple[str, str]
"""What is permuted, and its kind."""


class _Shuffled:
    """What a classifier says of held-out nodes where parts are other nodes'.

    Of a table, rows of blocks or columns change places among the held-out nodes. Of
    features that go through a graph, a column is permuted over all nodes; for the graph
    as a whole each node keeps its features and gets the place of another.

    Parameters
    ----------
    asked
        The classifier and the graph.
    nodes
        The held-out nodes, [m].
    several
        Whether there are other models, to be permuted in the same way: a feature is
        then permuted in all blocks of a table together.
    """

    def __init__(self, asked: Asked, nodes: NDArray[np.int64], several: bool) -> None:
        self.asked, self.nodes, self.several = asked, nodes, several
        self.x = asked.x
        if asked.is_table:
            assert isinstance(asked.x, TableInput)
            self.x = asked.x.rows(nodes)
        with torch.no_grad():
            self.full = self._ask(self.x, nodes)

    def _ask(self, x: Input, nodes: NDArray[np.int64]) -> Numbers:
        if self.asked.is_table:
            logits: Tensor = self.asked.module(x, ())
            return logits.cpu().numpy().astype(np.float64)
        return self.asked.logits(nodes, x)

    def units(self) -> Iterator[Unit]:
        """Return what can be permuted as a whole."""
        edges = self.asked.graph.adj.nnz > 0
        if self.asked.takes_labels:
            yield KNOWN_LABELS, "block"
            yield WHOLE_GRAPH, "graph"
            return
        if self.asked.is_table:
            blocks = self.asked.classifier.schema_.blocks
            if self.several:
                yield ALL_FEATURES, "block"
                kinds = {block.partition(".")[0] for block in blocks}
                for kind, name in (
                    ("labels", KNOWN_LABELS),
                    ("degrees", block_words("degrees")),
                    ("edges", block_words("edges")),
                ):
                    if kind in kinds:
                        yield name, "block"
            else:
                yield from ((block_words(block), "block") for block in blocks)
            if set(blocks) - {"own"}:
                yield WHOLE_GRAPH, "graph"
            return
        yield ALL_FEATURES, "block"
        if isinstance(self.x, TableInput):
            yield KNOWN_LABELS, "block"
        if edges and self.asked.module.reach != 0:
            yield WHOLE_GRAPH, "graph"

    @cached_property
    def _of_features(self) -> list[str]:
        """The blocks that have a column for each feature."""
        other = ("labels", "degrees", "edges", "adjacency")
        blocks: Sequence[str] = self.asked.classifier.schema_.blocks
        return [block for block in blocks if not block.startswith(other)]

    @cached_property
    def columns(self) -> dict[str, dict[str, NDArray[np.int64]]]:
        """Single columns of a table by name: in which block they are, and where."""
        schema = self.asked.classifier.schema_
        names = schema.column_names(self.asked.graph.node_ids)
        found: dict[str, dict[str, NDArray[np.int64]]] = {}
        first = 0
        for block, width in zip(schema.blocks, schema.widths, strict=True):
            for column in range(width):
                name = names[first + column]
                while name in found:  # a feature may be called as any other column
                    name = f"{name} ({block_words(block)})"
                found[name] = {block: np.array([column])}
            first += width
        return found

    @cached_property
    def features(self) -> dict[str, NDArray[np.int64]]:
        """Features by name, those of one category together."""
        return grouped(self.asked.classifier.feature_names_in_)

    def logits(self, name: str, kind: str, rng: np.random.Generator) -> Numbers:
        """Return the logits of the held-out nodes with a part permuted, [m, C]."""
        if self.asked.is_table:
            return self._of_table(name, kind, rng)
        order = rng.permutation(self.asked.graph.n_nodes)
        if kind == "graph":
            return self._elsewhere(order)
        if self.asked.takes_labels and name != KNOWN_LABELS:
            return self.full
        if self.asked.takes_labels or (self.asked.seeds and name == KNOWN_LABELS):
            known = labels_of(self.x)
            seeds = np.flatnonzero(known.any(dim=1).cpu().numpy())
            changed = known.clone()
            changed[torch.from_numpy(seeds)] = known[rng.permutation(seeds)]
            return self._ask(with_labels(self.x, changed), self.nodes)
        if isinstance(self.x, TableInput) and name == KNOWN_LABELS:
            near = [block for block in self.x.blocks if block.startswith("labels")]
            moved = {block: rows_of(self.x.blocks[block], order) for block in near}
            elsewhere = replace(self.x, blocks={**self.x.blocks, **moved})
            return self._ask(elsewhere, self.nodes)
        features = features_of(self.x)
        if name == ALL_FEATURES:
            x = with_features(self.x, rows_of(features, order))
            return self._ask(x, self.nodes)
        if name not in self.features or isinstance(features, MappedFeatures):
            return self.full
        permuted = _permuted(features, self.features[name], order)
        return self._ask(with_features(self.x, permuted), self.nodes)

    def _elsewhere(self, order: NDArray[np.int64]) -> Numbers:
        """Return the logits where each node has the place of another in the graph."""
        if self.asked.module.reach == 0 and not self.asked.takes_labels:
            return self.full
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        x = self.x
        if self.asked.seeds:
            x = with_labels(x, labels_of(x)[torch.from_numpy(order)])
        if not (self.asked.takes_labels and isinstance(x, TableInput)):
            x = with_features(x, rows_of(features_of(x), order))
        return self._ask(x, place[self.nodes])

    def _of_table(self, name: str, kind: str, rng: np.random.Generator) -> Numbers:
        assert isinstance(self.x, TableInput)
        order = rng.permutation(len(self.nodes))
        blocks = self.asked.classifier.schema_.blocks
        where: Mapping[str, NDArray[np.int64] | None]
        if kind == "graph":
            where = {block: None for block in blocks if block != "own"}
        elif kind == "column":
            where = self._columns_of(name)
        elif name == ALL_FEATURES:
            where = dict.fromkeys(self._of_features)
        else:
            where = {
                block: None
                for block in blocks
                if name == block_words(block)
                or (name == KNOWN_LABELS and block.startswith("labels"))
            }
        if not where:
            return self.full
        moved = {
            block: rows_of(self.x.blocks[block], order)
            if columns is None
            else _permuted(self.x.blocks[block], columns, order)
            for block, columns in where.items()
        }
        x = replace(self.x, blocks={**self.x.blocks, **moved}, labels={})
        return self._ask(x, self.nodes)

    def _columns_of(self, name: str) -> Mapping[str, NDArray[np.int64] | None]:
        """Return where a column is: a feature is in every block of features."""
        if self.several:
            return dict.fromkeys(self._of_features, self.features[name])
        return self.columns[name]


def _permuted(
    x: Tensor | Operator, columns: NDArray[np.int64], order: NDArray[np.int64]
) -> Tensor | Operator:
    """Return a matrix with some columns in another order of rows."""
    if isinstance(x, Tensor):
        changed = x.clone()
        some = torch.from_numpy(columns)
        changed[:, some] = x[torch.from_numpy(order)][:, some]
        return changed
    matrix = x.scipy
    part = CSR(matrix[:, columns])
    spread = sp.csr_array(
        (np.ones(len(columns), np.float32), (np.arange(len(columns)), columns)),
        shape=(len(columns), matrix.shape[1]),
    )
    moved = CSR(matrix + CSR(part[order] - part) @ spread)
    moved.eliminate_zeros()
    return Operator(moved, device=x.device)


def _telling(
    shuffles: Sequence[_Shuffled],
    logits: NDArray[np.float32],
    most: int,
) -> tuple[list[Unit], tuple[str, ...]]:
    """Return the single columns to try: those that go most with the answers."""
    first = next((one for one in shuffles if not one.asked.takes_labels), None)
    if first is None or most == 0:
        return [], ()
    if first.several or not first.asked.is_table:
        features = features_of(first.asked.x) if not first.asked.is_table else None
        if isinstance(features, MappedFeatures):
            return [], ("features in a file of their own are permuted together only",)
        rows = first.asked.scaled_rows(first.nodes)
        groups = first.features
        found = _correlations(rows, logits)
        strength = {name: float(found[of].max()) for name, of in groups.items()}
    else:
        assert isinstance(first.x, TableInput)
        found = np.concatenate(
            [
                _correlations(
                    b.cpu().numpy() if isinstance(b, Tensor) else b.scipy, logits
                )
                for b in first.x.blocks.values()
            ]
        )
        strength = dict(zip(first.columns, found.tolist(), strict=True))
    order = [n for n in sorted(strength, key=lambda n: -strength[n]) if strength[n] > 0]
    notes: tuple[str, ...] = ()
    if len(order) > most:
        notes = (
            f"{most:,} of {len(order):,} columns were tried: those that go most with "
            "what the model says",
        )
    return [(name, "column") for name in order[:most]], notes


def _correlations(
    rows: NDArray[np.float32] | CSR, logits: NDArray[np.float32]
) -> Numbers:
    """Return how much each column goes with some class's logits, [F]."""
    z = logits.astype(np.float64)
    z = z - z.mean(axis=0)
    z /= np.maximum(np.sqrt((z**2).mean(axis=0)), 1e-12)
    if isinstance(rows, np.ndarray):
        rows = rows.astype(np.float64)
        deviation = rows.std(axis=0)
    else:
        mean = np.asarray(rows.mean(axis=0)).reshape(-1)
        square = np.asarray(rows.multiply(rows).mean(axis=0)).reshape(-1)
        deviation = np.sqrt(np.maximum(square - mean**2, 0))
    covariance = np.abs(np.asarray(rows.T @ z)).max(axis=1) / max(len(z), 1)
    varies = deviation > 1e-9
    return np.asarray(np.where(varies, covariance / np.where(varies, deviation, 1), 0))
