"""What a model is given of a graph: scaled features, known labels, a ring table.

What it remembers of its training nodes is here too: their labels (`KnownLabels`), and
which they were (`Seen`), so that another graph can be given the same.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Annotated, Any, Protocol
from weakref import ReferenceType, WeakKeyDictionary, ref

import msgspec
import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn._validation import check_choice
from h2gcn.estimator.parameters import SCALINGS, Params, spec_of
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.features import (
    FeatureBuilder,
    FeatureTable,
    Input,
    TableSchema,
    farthest_ring,
)
from h2gcn.graph import (
    CSR,
    Features,
    Graph,
    Split,
    category_columns,
    column_of,
    first_beyond,
    grown_from,
    row_slices,
    slices,
)
from h2gcn.io import Count, conform, listed
from h2gcn.rings import MAX_NEIGHBORS, forecast_rings
from h2gcn.sparse import (
    MappedFeatures,
    available_memory,
    format_bytes,
    run_in_threads,
    to_tensor,
)

__all__ = [
    "BuildsTables",
    "Drawn",
    "KnownLabels",
    "KnownLabelsJson",
    "Scaler",
    "Seen",
    "SomeFeatures",
    "align_features",
    "build_input",
    "choose_scaling",
    "feature_builder",
    "fit_scaler",
    "made_elsewhere",
    "match_labels",
    "other_scalings",
    "scaling_key",
    "table_schema",
    "tables_by",
    "translate_labels",
]

PART = 2**20
"""How many numbers are hashed at a time: another width must not double a graph."""
ROWS = 100
"""How many nodes' features stand for those of all."""


@dataclass(frozen=True)
class KnownLabels:
    """Nodes whose class is known, by id, so that another graph can be given them.

    Parameters
    ----------
    ids
        Ids of the nodes, as text.
    classes
        Their class indices, as many.
    n_classes
        Number of classes C.
    model
        The model that spreads them, for messages.
    edges
        A checksum of the training graph's edges where its nodes have no ids, else
        None. Every such graph has a node 0, and it is never the same one.
    trimmed
        Whether blanks around the ids were left out, as versions up to 0.1.0 did.
    """

    ids: tuple[str, ...]
    classes: tuple[int, ...]
    n_classes: int
    model: str
    edges: str | None = None
    trimmed: bool = False

    @classmethod
    def of(cls, graph: Graph, nodes: NDArray[np.int64], model: str) -> KnownLabels:
        """Remember the labels of some nodes; no two nodes may have one id."""
        ids = tuple(map(str, graph.node_ids[nodes].tolist()))
        _find_ids(graph, ids)
        classes = tuple(map(int, graph.y[nodes]))
        edges = None if graph.has_ids else _checksum(graph)
        return cls(ids, classes, graph.n_classes, model, edges)

    def one_hot(
        self, graph: Graph, device: torch.device, *, must: bool = True
    ) -> Tensor:
        """Return the labels as rows of a graph's nodes, zero elsewhere, [n, C].

        The graph is that of `fit`, or another one that shares nodes with it.

        Parameters
        ----------
        graph
            The graph to predict on.
        device
            Where the rows shall be.
        must
            Whether a graph of which no label is known is an error; else it has none.
        """
        index = self.classes_in(graph, must=must)
        rows = torch.zeros(graph.n_nodes, self.n_classes, device=device)
        nodes = np.flatnonzero(index >= 0)
        rows[nodes, index[nodes]] = 1.0
        return rows

    def classes_in(self, graph: Graph, *, must: bool = True) -> NDArray[np.int64]:
        """Return the class of each node of a graph that is known, else -1, [n].

        It is remembered while the graph is in use; of a graph that grew, only the new
        nodes are looked up.

        Parameters
        ----------
        graph, must
            As of `one_hot`.
        """
        index = self._remembered(graph)
        if index is None:
            index = self._look_up(graph)
            _FOUND.setdefault(graph, {})[id(self)] = ref(self), index
        if must and not (index >= 0).any():
            raise self._refusal(graph)
        return index

    def _remembered(self, graph: Graph) -> NDArray[np.int64] | None:
        whose, index = _FOUND.get(graph, {}).get(id(self), (None, None))
        return index if whose is not None and whose() is self else None

    def _look_up(self, graph: Graph) -> NDArray[np.int64]:
        if self._is_other(graph):
            return np.full(graph.n_nodes, -1, dtype=np.int64)
        growth = grown_from(graph)
        if growth is not None and not self.trimmed:
            # That no two nodes have one id was seen when the graph grew.
            before = self.classes_in(growth.base, must=False)
            new = graph.node_ids[len(before) :].tolist()
            labels = [self._by_id.get(str(name), -1) for name in new]
            return np.concatenate([before, np.array(labels, dtype=np.int64)])
        found = np.full(graph.n_nodes, -1, dtype=np.int64)
        if self.trimmed:
            # An id that is the same to the letter goes first.
            rows = {name.strip(): row for name, row in graph.places.items()}
            rows |= graph.places
            for name, label in zip(self.ids, self.classes, strict=True):
                if name in rows:
                    found[rows[name]] = label
            return found
        nodes, which = _find_ids(graph, self.ids)
        found[nodes] = np.array(self.classes, dtype=np.int64)[which]
        return found

    @cached_property
    def _by_id(self) -> dict[str, int]:
        return dict(zip(self.ids, self.classes, strict=True))

    def _is_other(self, graph: Graph) -> bool:
        """Return whether nodes without ids are those of another graph."""
        return self.edges is not None and (
            graph.has_ids or _checksum(graph) != self.edges
        )

    def _refusal(self, graph: Graph) -> InputError:
        if self._is_other(graph):
            return InputError(
                f"{graph.name}: {self.model} spreads the labels of its training nodes, "
                "and the training graph's nodes have no ids; only that graph can be "
                "predicted"
            )
        return InputError(
            f"{graph.name}: {self.model} spreads the labels of its training nodes, "
            f"by their ids, and none of those {len(self.ids):,} nodes (such as "
            f"{self.ids[0]}) is in this graph; a model that learns from features "
            "can predict here ('h2gcn models' lists them)"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the labels as what JSON can hold."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: object) -> KnownLabels:
        """Return what `to_json` wrote."""
        return conform(KnownLabelsJson, content, "known labels").labels()


_FOUND: WeakKeyDictionary[
    Graph, dict[int, tuple[ReferenceType[KnownLabels], NDArray[np.int64]]]
] = WeakKeyDictionary()
"""What was found of each graph that is still in use, and for whom."""


class KnownLabelsJson(msgspec.Struct):
    """The schema of known labels in a file; old ones have fewer fields."""

    ids: Annotated[list[str], msgspec.Meta(min_length=1)]
    classes: list[Count]
    n_classes: Count
    model: str
    edges: str | None = None
    trimmed: bool = True

    def __post_init__(self) -> None:
        if len(self.ids) != len(self.classes):
            raise ValueError("not a class for each id")
        if max(self.classes, default=0) >= self.n_classes:
            raise ValueError("a class that is not there")

    def labels(self) -> KnownLabels:
        """Return the labels themselves."""
        ids, classes = tuple(self.ids), tuple(self.classes)
        more = (self.n_classes, self.model, self.edges, self.trimmed)
        return KnownLabels(ids, classes, *more)


@dataclass(frozen=True, eq=False)
class Seen:
    """Which nodes training saw, to be known again in the same graph or another.

    Parameters
    ----------
    graph
        A checksum of the training graph's edges and some of its features.
    rows
        The training and validation nodes, [m].
    test
        The test nodes, [k].
    ids
        64 bits of a hash of the ids of `rows`, [m]; None where nodes have no ids.
    """

    graph: str
    rows: NDArray[np.int64]
    test: NDArray[np.int64]
    ids: NDArray[np.int64] | None

    @classmethod
    def of(cls, graph: Graph, split: Split) -> Seen:
        """Remember a split of a graph."""
        rows = np.concatenate([split.train, split.val])
        ids = _hashed(graph.node_ids[rows]) if graph.has_ids else None
        return cls(_looks(graph), rows, split.test, ids)

    def is_of(self, graph: Graph) -> bool:
        """Return whether a graph is that of `fit`; its labels may be others."""
        return _looks(graph) == self.graph

    def is_within(self, graph: Graph) -> bool:
        """Return whether a graph is that of `fit`, or has its nodes by their ids."""
        if self.is_of(graph):
            return True
        if self.ids is None or not graph.has_ids:
            return False
        return bool(np.isin(self.ids, _hashed(graph.node_ids)).all())

    def saw(self, graph: Graph) -> NDArray[np.bool_]:
        """Return which nodes of a graph were training or validation nodes, [n].

        In another graph than that of `fit` they are known by their ids, if they have
        any.
        """
        if self.is_of(graph):
            return np.isin(np.arange(graph.n_nodes), self.rows)
        if self.ids is not None and graph.has_ids:
            return np.isin(_hashed(graph.node_ids), self.ids)
        return np.zeros(graph.n_nodes, dtype=bool)

    def unseen(self, graph: Graph) -> tuple[NDArray[np.int64], int]:
        """Return labelled nodes that training did not see, and how many it saw.

        In the graph of `fit` they are the test nodes, if there are any.
        """
        labelled = graph.labelled
        seen = self.saw(graph)[labelled]
        if self.is_of(graph):
            test = labelled[np.isin(labelled, self.test)]
            if test.size:
                return test, int(seen.sum())
        return labelled[~seen], int(seen.sum())

    def to_tensors(self) -> dict[str, Tensor]:
        """Return the nodes, which are saved beside the checksum."""
        arrays = {"rows": self.rows, "test": self.test, "ids": self.ids}
        return {
            name: torch.from_numpy(np.ascontiguousarray(array, dtype=np.int64))
            for name, array in arrays.items()
            if array is not None
        }


def _hashed(ids: NDArray[Any]) -> NDArray[np.int64]:
    """Return 64 bits for each id, by its text; two ids never share them in practice."""
    codes = b"".join(
        hashlib.blake2b(str(name).encode(), digest_size=8).digest() for name in ids
    )
    return np.frombuffer(codes, dtype="<i8").astype(np.int64)


def _looks(graph: Graph) -> str:
    """Return a checksum of the edges, and of the features of some nodes."""
    rows = np.linspace(0, graph.n_nodes - 1, min(graph.n_nodes, ROWS)).astype(np.int64)
    some = graph.x[rows]
    dense = some if isinstance(some, np.ndarray) else some.toarray()
    features = np.ascontiguousarray(dense, dtype="<f4")
    return hashlib.sha256(_checksum(graph).encode() + features.tobytes()).hexdigest()


def _find_ids(
    graph: Graph, ids: tuple[str, ...]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return which nodes have one of some ids, and which; raise where two have one.

    No more than a block of the nodes' ids is made text at a time.
    """
    import pyarrow.compute as pc

    wanted = _texts(np.array(ids, dtype=object))
    nodes, which = [], []
    for part in slices(graph.n_nodes, PART):
        found = pc.index_in(_texts(graph.node_ids[part]), value_set=wanted)
        there = found.is_valid().to_numpy(zero_copy_only=False)
        nodes.append(part.start + np.flatnonzero(there))
        which.append(found.drop_null().to_numpy().astype(np.int64))
    places = np.concatenate(which)
    times = np.bincount(places, minlength=len(ids))
    if len(places) and times.max() > 1:
        most = int(times.argmax())
        raise InputError(
            f"{graph.name}: labels are remembered by node id, and {times[most]} nodes "
            f"have the id {ids[most]}"
        )
    return np.concatenate(nodes), places


def _texts(ids: NDArray[Any]) -> Any:
    """Return the texts of ids as an array of Arrow's, by their bytes."""
    import pyarrow as pa

    if ids.dtype.kind in "iu":
        return pa.array(ids).cast(pa.string()).cast(pa.binary())
    names = map(str, ids.tolist())
    coded = [name.encode("utf-8", "surrogatepass") for name in names]
    return pa.array(coded, type=pa.binary())


def _checksum(graph: Graph) -> str:
    digest = hashlib.sha256()
    for piece in (graph.adj.indptr, graph.adj.indices):
        for start in range(0, len(piece), PART):
            # One width and byte order, so that equal numbers are equal bytes.
            part = piece[start : start + PART]
            digest.update(np.ascontiguousarray(part, dtype="<i8").data)
    return digest.hexdigest()


TOO_LARGE = 1e18
"""The square of a larger number, summed over some rows, is infinite in 32 bits."""

MANY = 2**23
"""Numbers of some rows beyond which they are scaled a block at a time."""


# scikit-learn's StandardScaler does not do it: it cannot centre single columns of
# sparse features, it sums a file in blocks to other last bits, and saved models hold
# the float32 numbers that are made here.


@dataclass(frozen=True)
class Scaler:
    """A fitted scaling: "rows", "standard" or "none".

    Parameters
    ----------
    kind
        "rows" divides each row by its sum (rows of zeros stay zero); "standard"
        gives each column mean 0 and deviation 1; "none" leaves all as it is.
    mean, deviation
        What "standard" takes off each column and divides it by, [F]. The mean is
        zero for columns of mostly zeros in sparse features: they are only scaled,
        since centring would fill them.
    """

    kind: str
    mean: NDArray[np.float32] | None = None
    deviation: NDArray[np.float32] | None = None

    def __call__(self, x: Features) -> Features:
        """Return scaled features, [n, F]; sparse ones stay sparse."""
        if self.kind == "rows":
            return _divide_rows(x)
        if self.kind == "standard":
            assert self.mean is not None
            assert self.deviation is not None
            if isinstance(x, np.ndarray):
                return _standardise(x, self.mean, self.deviation)
            scaled = CSR(x @ sp.diags_array(1 / self.deviation))
            shift = CSR((self.mean / self.deviation)[None, :])
            ones = np.ones((x.shape[0], 1), dtype=np.float32)
            return CSR(scaled - CSR(ones) @ shift) if shift.nnz else scaled
        return x


def _standardise(
    x: NDArray[np.float32], mean: NDArray[np.float32], deviation: NDArray[np.float32]
) -> NDArray[np.float32]:
    scaled = np.empty_like(x, subok=False)

    def scale(part: slice) -> None:
        given, found = x[part], scaled[part]
        with np.errstate(over="ignore"):
            np.subtract(given, mean, out=found)
            np.divide(found, deviation, out=found)
            for rows in row_slices(found.shape):
                # Differences of numbers near the largest do not fit 32 bits.
                lost = ~np.isfinite(found[rows])
                if lost.any():
                    exact = (given[rows].astype(np.float64) - mean) / deviation
                    np.copyto(found[rows], exact, casting="same_kind", where=lost)

    run_in_threads(scale, np.full(len(x), x.shape[1]))
    return scaled


def _divide_rows(x: Features) -> Features:
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.asarray(x.sum(axis=1), dtype=np.float32).reshape(-1)
    factor = np.zeros_like(sums)
    np.divide(1, sums, out=factor, where=sums != 0)
    large = np.flatnonzero(~np.isfinite(sums))
    if large.size:  # sums that do not fit 32 bits
        exact = np.asarray(x[large].astype(np.float64).sum(axis=1)).reshape(-1)
        factor[large] = np.divide(1, exact, out=np.zeros_like(exact), where=exact != 0)
    if isinstance(x, np.ndarray):
        return x * factor[:, None]
    scaled = x.copy()
    scaled.data = x.data * np.repeat(factor, np.diff(x.indptr))
    return scaled


def choose_scaling(x: Features) -> str:
    """Return what "auto" means for these features.

    Bags of words and one-hot columns (nothing negative, at least half of the
    entries zero, no column that outweighs all others together) are divided by
    their row sums; anything else is standardised.
    """
    n_filled, mass = 0, np.zeros(x.shape[1])
    for block in _blocks(x):
        values = block if isinstance(block, np.ndarray) else block.data
        if (values < 0).any():
            return "standard"
        n_filled += int(np.count_nonzero(values))
        mass += np.asarray(block.sum(axis=0, dtype=np.float64)).reshape(-1)
    sparse = n_filled <= 0.5 * x.shape[0] * x.shape[1]
    outweighed = mass.max() > 0.5 * mass.sum()
    return "rows" if sparse and not outweighed else "standard"


def other_scalings(x: Features) -> tuple[str, ...]:
    """Return what may do better than "auto" on these features, and is worth a try.

    Counts may be better left alone, or scaled by column; row sums of anything else
    mean nothing.
    """
    return ("none", "standard") if choose_scaling(x) == "rows" else ("none",)


def _blocks(x: Features) -> Iterator[Features]:
    """Return dense features a few rows at a time: they may be a mapped file."""
    if isinstance(x, np.ndarray):
        yield from (x[rows] for rows in row_slices(x.shape))
    else:
        yield x


def fit_scaler(kind: str, x: Features, train: NDArray[np.int64]) -> Scaler:
    """Fit a scaling of the given kind on the rows `train` of x, [n, F]."""
    check_choice("scaling", kind, SCALINGS)
    if kind == "auto":
        kind = choose_scaling(x)
    if kind != "standard":
        return Scaler(kind)
    if isinstance(x, np.ndarray):
        mean, deviation = _moments(x, train)
        centre = mean
    else:
        rows = x[train].astype(np.float64)
        mean = np.asarray(rows.mean(axis=0)).reshape(-1)
        square = np.asarray((rows * rows).mean(axis=0)).reshape(-1)
        deviation = np.sqrt(np.maximum(square - mean**2, 0))
        filled = np.bincount(rows.indices[rows.data != 0], minlength=rows.shape[1])
        centre = np.where(filled < 0.5 * rows.shape[0], 0, mean)
    # A column that is constant in training says nothing: it is centred only.
    deviation[deviation <= 1e-7 * np.maximum(np.abs(mean), 1)] = 1
    return Scaler("standard", centre.astype(np.float32), deviation.astype(np.float32))


def _moments(
    x: NDArray[np.float32], train: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and deviation of each column over the rows `train`, [F] each."""
    parts = [train[part] for part in row_slices((len(train), x.shape[1]))]
    total, squares = np.zeros(x.shape[1]), np.zeros(x.shape[1])
    for part in parts:
        total += x[part].astype(np.float64).sum(axis=0)
    mean = total / len(train)
    for part in parts:
        squares += np.square(x[part] - mean).sum(axis=0)
    return mean, np.sqrt(squares / len(train))


Drawn = tuple[int | None, int]
"""At most how many of a ring are drawn, None for all, and by which seed."""
ALL: Drawn = None, 0

_MAKERS: WeakKeyDictionary[Graph, dict[Drawn, FeatureBuilder]] = WeakKeyDictionary()
"""Of each graph that is still in use: several models take the same blocks."""


def feature_builder(graph: Graph, drawn: Drawn = ALL) -> FeatureBuilder:
    """Return the maker of a graph's tables, with the blocks it has made before.

    Parameters
    ----------
    graph
        The graph.
    drawn
        How rings beyond the first are drawn.
    """
    cap, seed = drawn
    key = ALL if cap is None else drawn
    makers = _MAKERS.setdefault(graph, {})
    if key not in makers:
        makers[key] = FeatureBuilder(graph, cap, seed)
    return makers[key]


class BuildsTables(Protocol):
    """Builds rows of a graph's tables elsewhere, for some of its nodes."""

    @property
    def nodes(self) -> NDArray[np.int64]:
        """Whose rows it builds, ascending, [m]."""
        ...

    def table(
        self,
        schema: TableSchema,
        scaler: Scaler,
        names: tuple[str, ...],
        drawn: Drawn,
        classes: NDArray[np.int64] | None,
    ) -> Mapping[str, Features]:
        """Return the rows of each block, [m, width]; `classes` are known or -1, [n]."""
        ...


_ELSEWHERE: WeakKeyDictionary[Graph, BuildsTables] = WeakKeyDictionary()
"""Who makes the blocks of a graph's tables, if it is not this process."""


@contextmanager
def tables_by(graph: Graph, makes: BuildsTables) -> Iterator[None]:
    """Have the blocks of a graph's tables made elsewhere, for a while.

    It is for models that see nothing but rows of a table, and for nodes whose rows are
    made there; all others are done with as ever.

    Parameters
    ----------
    graph
        The graph of `fit`.
    makes
        Who makes them.
    """
    before = _ELSEWHERE.get(graph)
    _ELSEWHERE[graph] = makes
    try:
        yield
    finally:
        del _ELSEWHERE[graph]
        if before is not None:
            _ELSEWHERE[graph] = before


def made_elsewhere(graph: Graph, nodes: NDArray[np.int64] | None) -> bool:
    """Return whether the rows of some nodes are made elsewhere; None is all of them.

    Parameters
    ----------
    graph
        Whose tables.
    nodes
        Whose rows.
    """
    makes = _ELSEWHERE.get(graph)
    if makes is None or nodes is None:
        return False
    return bool(np.isin(nodes, makes.nodes).all())


def table_schema(
    params: Params, graph: Graph, drawn: Drawn = ALL
) -> TableSchema | None:
    """Return the blocks that a model takes of a graph; None if it takes no table.

    Raises where they do not fit into memory.

    Parameters
    ----------
    params
        Of a `NodeClassifier`, by name.
    graph
        The graph of training.
    drawn
        How its rings are drawn.
    """
    spec = spec_of(params)
    if spec.inputs != "table":
        return None
    recipe = spec.table(params["options"] or {})
    schema = feature_builder(graph, drawn).schema(recipe)
    limit = params["memory_limit"]
    allowed = available_memory() if limit is None else int(limit * 1e9)
    makes = _ELSEWHERE.get(graph) if spec.is_tabular else None
    rings = 0
    if makes is None:
        rings = _ring_bytes(schema, graph, drawn[0], allowed)
    need = _bytes(schema, graph, graph.n_nodes if makes is None else len(makes.nodes))
    need += rings
    if need > allowed:
        less = "options={'table': …} with fewer blocks takes less, such as "
        less += "'ego+ring1+labels.ring1'"
        if rings and drawn[0] is None:
            sampled = f"ring_cap={MAX_NEIGHBORS} takes a sample of each node's ring"
            less = f"{sampled}; {less}"
        raise InputError(
            f"{graph.name}: the ring table of {params['model']} will not fit in "
            f"memory: it takes about {format_bytes(need)}, the limit is "
            f"{format_bytes(allowed)}; {less}"
        )
    return schema


RING_ENTRY = 20
"""Bytes for an entry of a ring beyond the first while a block is made of it."""


def _ring_bytes(
    schema: TableSchema, graph: Graph, cap: int | None, allowed: int
) -> int:
    """Return about what the rings take that a table is made of."""
    hops = farthest_ring(schema.blocks)
    walks = int((graph.degrees**2).sum())  # they bound the entries of ring 2
    if hops < 2 or (hops == 2 and RING_ENTRY * walks < allowed):
        return 0
    most = graph.n_nodes * (graph.n_nodes if cap is None else cap)
    far = forecast_rings(graph.adj, hops=hops).entries[1:]
    return RING_ENTRY * sum(min(size, most) for size in far)


def _bytes(schema: TableSchema, graph: Graph, n_rows: int) -> int:
    """Return about what a table of so many rows takes, and a copy of a step's."""
    total = 0
    degree = graph.adj.nnz / max(graph.n_nodes, 1)
    share = n_rows / max(graph.n_nodes, 1)
    for block, width in zip(schema.blocks, schema.widths, strict=True):
        full = 4 * width * n_rows
        if block.startswith("adjacency"):
            full = int(8 * graph.adj.nnz * share)
        elif not isinstance(graph.x, np.ndarray) and width == graph.n_features:
            filled = 8 * graph.x.nnz * share * (1 if block == "ego" else degree)
            full = min(full, int(filled))
        total += full
    return 2 * total


def scaling_key(scaler: Scaler, names: tuple[str, ...]) -> Hashable:
    """Return what tells the features of one graph apart: which they are, how scaled."""
    digest = hashlib.sha256()
    for numbers in (scaler.mean, scaler.deviation):
        if numbers is not None:
            digest.update(np.ascontiguousarray(numbers).tobytes())
    return scaler.kind, digest.hexdigest(), names


def build_input(
    graph: Graph,
    known: KnownLabels | None,
    scaler: Scaler,
    names: tuple[str, ...],
    device: torch.device,
    schema: TableSchema | None = None,
    drawn: Drawn = ALL,
    *,
    recount: bool = False,
    wanted: NDArray[np.int64] | None = None,
) -> Input:
    """Return what a module takes as `x`: scaled features, labels, or a table of both.

    Parameters
    ----------
    graph
        The graph of training, or another one.
    known
        The labels of a model that takes them, else None.
    scaler
        Fitted on the training nodes.
    names
        The features of the training graph.
    device
        Where the module is.
    schema
        Of the table of a model that takes one.
    drawn
        How its rings are drawn.
    recount
        Whether the model counts labels in the table anew.
    wanted
        The nodes whose rows of a table are enough, if a table of these may be made
        elsewhere (see `tables_by`); None is all.
    """
    if schema is not None:
        classes = None if known is None else known.classes_in(graph, must=False)
        if made_elsewhere(graph, wanted):
            elsewhere = _ELSEWHERE[graph]
            rows = elsewhere.table(schema, scaler, names, drawn, classes)
            blocks = {name: to_tensor(part, device) for name, part in rows.items()}
            return FeatureTable(blocks, nodes=elsewhere.nodes, n_nodes=graph.n_nodes)
        given = align_features(graph, names)
        return feature_builder(graph, drawn).table(
            schema,
            _bounded(graph, scaler, given, names)(given),
            classes,
            key=scaling_key(scaler, names),
            device=device,
            recount=recount,
        )
    if known is not None:
        return known.one_hot(graph, device)
    given = align_features(graph, names)
    scale = _bounded(graph, scaler, given, names)
    if isinstance(given, np.memmap):
        return MappedFeatures(given, scale, device)
    return to_tensor(scale(given), device)


class SomeFeatures:
    """A graph's features, of which rows are scaled when they are asked for.

    Parameters
    ----------
    graph
        The graph of training, or another one.
    scaler
        Fitted on the training nodes.
    names
        The features of the training graph.
    device
        Where rows shall be.
    """

    def __init__(
        self,
        graph: Graph,
        scaler: Scaler,
        names: tuple[str, ...],
        device: torch.device,
    ) -> None:
        self._graph, self._scaler, self._names = graph, scaler, names
        self._places, self._device = _places(graph, names), device
        self.shape = (graph.n_nodes, len(names))

    def __getitem__(self, index: NDArray[np.int64]) -> Features:
        """Return the rows of some nodes, scaled, [m, F]."""
        given: Features = self._graph.x[index]
        if self._places is not None:
            given = _picked(given, self._places)
        scale = _bounded(self._graph, self._scaler, given, self._names, index)
        return scale(given)

    def rows(self, index: NDArray[np.int64]) -> Input:
        """Return the rows of some nodes as a module takes them, [m, F].

        Many are never in memory all at once.
        """
        x = self._graph.x
        if len(index) * x.shape[1] <= MANY or self._places is not None:
            return to_tensor(self[index], self._device)
        if not isinstance(x, np.ndarray):
            return to_tensor(self[index], self._device)
        scale = _bounded(self._graph, self._scaler, x, self._names)
        return MappedFeatures(x, scale, self._device, index)


def _bounded(
    graph: Graph,
    scaler: Scaler,
    given: Features,
    names: tuple[str, ...],
    nodes: NDArray[np.int64] | None = None,
) -> Callable[[Features], Features]:
    """Return a scaling that raises where a number is too large to compute with.

    Parameters
    ----------
    graph
        What its nodes are called.
    scaler
        Fitted on the training nodes.
    given
        Features of all its nodes, [n, F]; what is scaled is some rows of them, or all.
    names
        The features of the training graph.
    nodes
        Whose features are given, if not of all.
    """

    def scale(rows: Features) -> Features:
        scaled = scaler(rows)
        if first_beyond(scaled, TOO_LARGE) is not None:
            raise refusal()
        return scaled

    def refusal() -> InputError:
        # Which of all rows it is, is looked for once it is known that there is one.
        for part in row_slices(given.shape):
            scaled = scaler(given[part])
            found = first_beyond(scaled, TOO_LARGE)
            if found is not None:
                break
        assert found is not None
        row, column = part.start + found[0], found[1]
        node = row if nodes is None else nodes[row]
        return InputError(
            f"{graph.name}: column {names[column]!r} is too large at node "
            f"{str(graph.node_ids[node])!r}: {given[row, column]:g}, and scaled "
            f"{scaled[found]:g}. Products of numbers beyond {TOO_LARGE:g} do not fit "
            "32 bits."
        )

    return scale


def align_features(graph: Graph, names: tuple[str, ...]) -> Features:
    """Return the graph's features in the order of `names`, [n, len(names)].

    A value of a categorical column (see `category_columns`) that
    only one of the graphs has is not a difference of schema: it is filled with
    zeros or left out, and a warning says so. So are columns that the model does not
    know left out; one that it lacks is an error.

    Parameters
    ----------
    graph
        The graph to predict on.
    names
        The features of the training graph.
    """
    places = _places(graph, names)
    return graph.x if places is None else _picked(graph.x, places)


def _places(graph: Graph, names: tuple[str, ...]) -> list[int] | None:
    """Return which column each of `names` is, the one after the last for none.

    None says that they are the graph's own. Warns and raises as `align_features` says.
    """
    if graph.feature_names == names:
        return None
    place = {name: column for column, name in enumerate(graph.feature_names)}
    missing = [name for name in names if name not in place]
    wanted = set(names)
    new = [name for name in graph.feature_names if name not in wanted]
    category_of = category_columns(graph)
    columns = set(category_of.values())
    known = {column_of(name, columns) for name in names} - {None}
    lost = [name for name in missing if column_of(name, columns) is None]
    added = [name for name in new if category_of.get(name) not in known]
    # Columns that are only numbered are told apart by their number alone.
    if lost or (added and names == tuple(map(str, range(len(names))))):
        said = [f"{len(lost)} missing ({listed(lost, 5)})"] if lost else []
        said += [f"{len(added)} new ({listed(added, 5)})"] if added else []
        raise InputError(
            f"{graph.name} has {graph.n_features} feature columns, the model was "
            f"trained on {len(names)}: {', '.join(said)}"
        )
    if added:
        warnings.warn(
            "columns that the model was not trained on are left out: "
            f"{listed(added, 5)}",
            H2GCNWarning,
            stacklevel=4,
        )
    categories = missing + [name for name in new if name not in added]
    if categories:
        warnings.warn(
            "categories that only one of the two graphs has: "
            f"{listed(categories, 5)}; absent ones count as zero, new ones are left "
            "out",
            H2GCNWarning,
            stacklevel=4,
        )
    return [place.get(name, graph.n_features) for name in names]


def _picked(x: Features, places: list[int]) -> Features:
    """Return columns of features, zeros for the one after the last, [n, columns]."""
    empty = CSR((x.shape[0], 1), dtype=np.float32)
    widened = sp.hstack([CSR(x), empty], format="csr")
    found = CSR(widened[:, places])
    return found.toarray() if isinstance(x, np.ndarray) else found


def translate_labels(
    graph: Graph, nodes: NDArray[np.int64], classes: NDArray[Any]
) -> tuple[NDArray[np.int64], list[str]]:
    """Return the model's class index of each of some labelled nodes, and other labels.

    Returns
    -------
    index
        -1 where the model never saw the label, [m].
    unseen
        Those labels.
    """
    place = {str(label): index for index, label in enumerate(classes)}
    found = [place.get(str(label), -1) for label in graph.classes]
    translate, own = np.array(found, dtype=np.int64), graph.y[nodes]
    used = np.unique(own)
    unseen = graph.classes[used[translate[used] < 0]]
    return translate[own], [str(label) for label in unseen]


def match_labels(
    graph: Graph, nodes: NDArray[np.int64], classes: NDArray[Any]
) -> NDArray[np.int64]:
    """Return the model's class index of each of `nodes`, [m]."""
    own = graph.y[nodes]
    if (own < 0).any():
        first = np.arange(graph.n_nodes)[nodes][own < 0][0]
        raise InputError(
            f"{graph.name}: node {graph.node_ids[first]!s} has no label to score by"
        )
    index, unseen = translate_labels(graph, nodes, classes)
    if unseen:
        raise InputError(
            f"{graph.name} has labels that the model never saw: "
            f"{listed(unseen, 5)}; "
            f"it knows {listed([str(label) for label in classes], 5)}"
        )
    return index
