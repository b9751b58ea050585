"""The paper's synthetic graphs: of a chosen homophily, grown by attachment."""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, chain, repeat
from pathlib import Path
from typing import Protocol, TypedDict, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from h2gcn._validation import check_integer, check_real
from h2gcn.datasets.later_formats import csv_blocks
from h2gcn.datasets.raw_files import reading
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR, Features, Graph, stratified_split
from h2gcn.io import atomic_write
from h2gcn.sparse import check_memory

__all__ = [
    "PRESETS",
    "BenchmarkFeatures",
    "FeatureSource",
    "GaussianFeatures",
    "Preset",
    "ProductsFeatures",
    "circular_compatibility",
    "generate_edges",
    "generate_graph",
]


@runtime_checkable
class FeatureSource(Protocol):
    """Anything that can make a row of features for each label."""

    def draw(
        self, y: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[Features, tuple[str, ...] | None]:
        """Return features, [n, F], for the labels `y`, [n], and the columns' names.

        Names may be None. All randomness must come from `rng`.
        """
        ...


@dataclass(frozen=True)
class GaussianFeatures:
    """Class-conditional Gaussians: x_v = s · μ_{y_v} + ε,  ‖μ‖ = 1,  ε ~ N(0, I).

    The means μ are random directions, drawn before anything else: they depend on
    the seed, the number of classes and of features only. A class may have several
    of them, as one of real things has several kinds in it: each of its nodes is of
    one kind, at random.

    Parameters
    ----------
    n_features
        Number of columns F.
    separation
        The length s of the class means. The default leaves classes overlapping:
        of ten classes with 250 training nodes each and 100 features, a perceptron
        with one hidden layer gets between 68 and 69 % of the nodes right.
    kinds
        How many means a class has.

    Examples
    --------
    >>> import numpy as np
    >>> source = GaussianFeatures(n_features=3)
    >>> x, names = source.draw(np.array([0, 1, 1, 0]), np.random.default_rng(0))
    >>> x.shape
    (4, 3)
    """

    n_features: int = 100
    separation: float = 2.28
    kinds: int = 1

    def __post_init__(self) -> None:
        check_integer("n_features", self.n_features, 1)
        check_real("separation", self.separation, "[0, inf)")
        check_integer("kinds", self.kinds, 1)

    def draw(
        self, y: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[Features, None]:
        """Return features, [n, F], for the labels `y`, [n]; the columns are unnamed."""
        means = rng.standard_normal(((int(y.max()) + 1) * self.kinds, self.n_features))
        means *= self.separation / np.linalg.norm(means, axis=1, keepdims=True)
        # Single precision from the start: a million rows are large enough.
        x = rng.standard_normal((len(y), self.n_features), dtype=np.float32)
        kind = rng.integers(self.kinds, size=len(y))  # last: one kind changes nothing
        x += means.astype(np.float32)[y * self.kinds + kind]
        return x, None


@dataclass(frozen=True)
class BenchmarkFeatures:
    """Rows of a real graph, each used at most once, classes matched by size.

    The largest class of the synthetic graph takes its rows from the largest class
    of the benchmark, and so on down; equal classes go by their index. Nodes of the
    benchmark without a label lend nothing.

    Parameters
    ----------
    graph
        The graph whose rows are lent; sparse features stay sparse.

    Examples
    --------
    >>> import numpy as np
    >>> lender = Graph(x=[[5], [6], [7]], adj=np.zeros((3, 3)), y=[0, 1, 1])
    >>> x, names = BenchmarkFeatures(lender).draw(
    ...     np.array([0, 1]), np.random.default_rng(0)
    ... )
    >>> float(x[1, 0])  # the smaller class of the benchmark serves class 1
    5.0
    """

    graph: Graph

    def draw(
        self, y: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[Features, tuple[str, ...]]:
        """Return features, [n, F], for the labels `y`, [n], and the columns' names."""
        lender = self.graph
        needed = np.bincount(y)
        stock = np.bincount(lender.y[lender.labelled], minlength=lender.n_classes)
        n_lending = np.count_nonzero(stock)
        if n_lending < len(needed):
            raise InputError(
                f"BenchmarkFeatures: {lender.name!r} has {n_lending} classes, but the "
                f"synthetic graph has {len(needed)}."
            )
        rows = np.empty(len(y), dtype=np.int64)
        largest_first = np.argsort(-stock, kind="stable")
        for ours, theirs in zip(
            np.argsort(-needed, kind="stable"), largest_first, strict=False
        ):
            if stock[theirs] < needed[ours]:
                raise InputError(
                    f"BenchmarkFeatures: class {str(lender.classes[theirs])!r} of "
                    f"{lender.name!r} has {stock[theirs]} nodes, but class {ours} of "
                    f"the synthetic graph needs {needed[ours]}."
                )
            lent = np.flatnonzero(lender.y == theirs)
            rows[y == ours] = rng.choice(lent, size=needed[ours], replace=False)
        return lender.x[rows], lender.feature_names


# ---------------------------------------------------------------- rows of ogbn-products

FOLDER = Path("ogbn_products", "raw")
"""Where the package `ogb` puts the files under its root."""
FEATURES, LABELS = "node-feat.csv.gz", "node-label.csv.gz"
MOST_ROWS = 2**24
"""Single precision counts no further."""


@dataclass(frozen=True)
class ProductsFeatures:
    """Rows of ogbn-products, each used at most once, classes matched by size.

    The file of features is read batch by batch, for whole it is a gigabyte in memory;
    what was drawn is kept beside it, so that it is read once for each graph.

    Parameters
    ----------
    root
        The folder that holds `ogbn_products/raw`.
    """

    root: Path

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self.root / FOLDER

    def available(self) -> bool:
        """Return whether the files are there."""
        return all((self.folder / name).is_file() for name in (FEATURES, LABELS))

    def draw(
        self, y: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.float32], None]:
        """Return features, [n, F], for the labels `y`, [n]; the columns are unnamed."""
        rows = self._choose(y, rng)
        digest = hashlib.sha256(rows.astype("<i8").tobytes()).hexdigest()[:16]
        kept = self.folder.parent / "drawn" / f"{digest}.npy"
        if kept.is_file():
            with suppress(InputError), reading(kept):  # if it is damaged: read again
                found = np.load(kept, mmap_mode="r", allow_pickle=False)
                if found.ndim == 2 and len(found) == len(y) and found.dtype == "f4":
                    return np.array(found), None
        x = self._read(rows)
        # In a folder that cannot be written: read again next time.
        with suppress(OSError, InputError):
            kept.parent.mkdir(exist_ok=True)
            with atomic_write(kept) as beside:
                np.save(beside, x)
        return x, None

    def _choose(
        self, y: NDArray[np.int64], rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Return the numbers of the rows that are lent, [n]."""
        path = self.folder / LABELS
        blocks, n = [], 0
        for block in csv_blocks(path):
            blocks.append(block[:, 0])
            n += len(block)
            if n > MOST_ROWS:
                raise InputError(
                    f"must hold at most {MOST_ROWS:,} labels", where=str(path)
                )
        if not blocks:
            raise InputError("there are no labels in it", where=str(path))
        numbers = np.concatenate(blocks)
        with np.errstate(invalid="ignore"):  # too large for a whole number
            labels = numbers.astype(np.int64)
        if not np.array_equal(labels, numbers):
            raise InputError("labels must be whole numbers", where=str(path))
        # Each row's feature is its number.
        with reading(path):
            lender = Graph(
                x=np.arange(n, dtype=np.float32)[:, None],
                adj=CSR((n, n)),
                y=labels,
                name="ogbn-products",
            )
            x, _ = BenchmarkFeatures(lender).draw(y, rng)
        return np.asarray(x)[:, 0].astype(np.int64)

    def _read(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return some rows of the features, in the order given."""
        path = self.folder / FEATURES
        order = np.argsort(rows)
        wanted = rows[order]
        taken, start = [], 0
        for block in csv_blocks(path):
            first, last = np.searchsorted(wanted, [start, start + len(block)])
            taken.append(block[wanted[first:last] - start])
            start += len(block)
        if start <= wanted[-1]:
            raise InputError(
                f"it has {start:,} rows, fewer than {LABELS} has labels",
                where=str(path),
            )
        x = np.empty((len(rows), taken[0].shape[1]), dtype=np.float32)
        x[order] = np.concatenate(taken)
        return x


EDGE, NODE = 40, 80
"""Bytes that an entry of the adjacency matrix and a node take while one is grown."""


class Preset(TypedDict):
    """The shape of a family of synthetic graphs: arguments of `generate_graph`."""

    n_nodes: int
    n_classes: int
    edges_per_node: int
    start_nodes: int


PRESETS = {
    "syn-cora": Preset(n_nodes=1490, n_classes=5, edges_per_node=2, start_nodes=10),
    "syn-products": Preset(
        n_nodes=10000, n_classes=10, edges_per_node=6, start_nodes=70
    ),
}
"""The two families of the paper's experiments."""


def generate_graph(
    *,
    n_nodes: int = 1490,
    n_classes: int = 5,
    edges_per_node: int = 2,
    homophily: float = 0.1,
    compatibility: ArrayLike | None = None,
    start_nodes: int | None = None,
    features: FeatureSource | None = None,
    seed: int = 0,
    name: str | None = None,
) -> Graph:
    """Generate a graph of equal classes with a chosen homophily.

    Labels, features and the split depend on the seed, `n_nodes`, `n_classes` and
    the source of the features only, not on the homophily: the same nodes can be
    wired in several ways.

    Parameters
    ----------
    n_nodes, n_classes
        Numbers of nodes n and classes C; class sizes differ by at most one.
    edges_per_node
        Number of links m of each arriving node, see `generate_edges`.
    homophily
        The h of `circular_compatibility`.
    compatibility
        A whole matrix H, [C, C], in place of `homophily`.
    start_nodes
        Number of nodes with one link at most, by default m · C. Whatever it is,
        the first m · C nodes to arrive hold m of every class.
    features
        Where the features come from; by default `GaussianFeatures()`.
    seed
        The same seed gives the same graph.
    name
        Name of the graph, by default made of the homophily.

    Returns
    -------
    Graph
        Its one split has a quarter of each class in train, a quarter in val and
        half in test. Node indices say nothing about the order of arrival.

    Examples
    --------
    >>> generate_graph(**PRESETS["syn-cora"], homophily=0.3, seed=1)
    Graph('synthetic-h0.3': 1490 nodes, 2968 edges, 100 features, 5 classes, \
1490 labelled)
    """
    owner = "generate_graph"
    n_classes = check_integer("n_classes", n_classes, 2)
    homophily = check_real("homophily", homophily, "[0, 1]")
    check_memory(f"{owner}: a matrix of {n_classes:,} classes", 24 * n_classes**2)
    if compatibility is None:
        h = circular_compatibility(n_classes, homophily)
    else:
        h = _check_compatibility(compatibility, n_classes)
    m = check_integer("edges_per_node", edges_per_node, 1)
    start = m * n_classes if start_nodes is None else start_nodes
    start = check_integer("start_nodes", start, 1)
    n = check_integer("n_nodes", n_nodes, 1)
    if n < max(start, m * n_classes):
        raise InputError(
            f"must be at least start_nodes = {start} and edges_per_node · n_classes = "
            f"{m * n_classes}",
            param="n_nodes",
            value=n,
        )
    source = GaussianFeatures() if features is None else features
    if not isinstance(source, FeatureSource):
        raise InputError(
            "must be a FeatureSource, such as GaussianFeatures()",
            param="features",
            value=features,
        )
    # Features are drawn, shifted and copied; others are lent, and as many as there are.
    numbers = source.n_features if isinstance(source, GaussianFeatures) else 0
    need = (2 * EDGE * m + NODE + 12 * numbers) * n
    check_memory(f"{owner}: a graph of {n:,} nodes", need)
    # One stream for each purpose, so that none shifts when another draws more.
    seeds = np.random.SeedSequence(check_integer("seed", seed, 0)).spawn(5)
    y = np.random.default_rng(seeds[0]).permutation(np.arange(n) % n_classes)
    arrivals = _arrival_order(y, m, np.random.default_rng(seeds[1]))
    edges = arrivals[
        generate_edges(
            y[arrivals],
            compatibility=h,
            edges_per_node=m,
            start_nodes=start,
            seed=seeds[2],
        )
    ]
    ends = np.concatenate([edges, edges[:, ::-1]]).T
    adj = CSR((np.ones(ends.shape[1], np.float32), (ends[0], ends[1])), shape=(n, n))
    x, feature_names = source.draw(y, np.random.default_rng(seeds[3]))
    kind = f"h{homophily:g}" if compatibility is None else "custom"
    return Graph(
        x=x,
        adj=adj,
        y=y,
        classes=np.arange(n_classes),
        feature_names=feature_names,  # type: ignore[arg-type]
        splits=(stratified_split(y, (0.25, 0.25, 0.5), seeds[4]),),
        name=f"synthetic-{kind}" if name is None else name,
    )


def _arrival_order(
    y: NDArray[np.int64], first: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return the nodes in random order, but `first` of every class to begin with."""
    order = rng.permutation(len(y))
    by_class = np.argsort(y[order], kind="stable")
    counts = np.bincount(y)
    rank = np.empty_like(order)
    rank[by_class] = np.arange(len(y)) - np.repeat(np.cumsum(counts) - counts, counts)
    # Shuffled once more: a shuffle that lost its first of each class, and what it
    # lost, would have the classes come in runs.
    is_first = rank < first
    return np.concatenate(
        [rng.permutation(order[part]) for part in (is_first, ~is_first)]
    )


# -------------------------------------------------------------------------------- edges


def circular_compatibility(n_classes: int, homophily: float) -> NDArray[np.float64]:
    """Return the compatibility matrix of classes that stand in a circle.

    H_ii = h, and H_ij = (1 − h) · w(i, j) with w halved by each further step of
    the way round the circle from i to j; rows sum to 1.

    Parameters
    ----------
    n_classes
        Number of classes C, at least 2.
    homophily
        The chance h that a link leads to the node's own class.

    Returns
    -------
    ndarray
        H, [C, C].

    Examples
    --------
    >>> circular_compatibility(4, 0.5)
    array([[0.5, 0.2, 0.1, 0.2],
           [0.2, 0.5, 0.2, 0.1],
           [0.1, 0.2, 0.5, 0.2],
           [0.2, 0.1, 0.2, 0.5]])
    """
    n_classes = check_integer("n_classes", n_classes, 2)
    homophily = check_real("homophily", homophily, "[0, 1]")
    classes = np.arange(n_classes)
    steps = np.abs(classes[:, None] - classes)
    distance = np.minimum(steps, n_classes - steps)
    weight = np.where(distance > 0, 0.5**distance, 0.0)
    weight *= (1 - homophily) / weight.sum(axis=1, keepdims=True)
    return weight + homophily * np.eye(n_classes)


def generate_edges(
    labels: ArrayLike,
    *,
    compatibility: ArrayLike,
    edges_per_node: int,
    start_nodes: int,
    seed: int | np.random.SeedSequence = 0,
) -> NDArray[np.int64]:
    """Grow the edges of a graph whose nodes arrive one by one.

    Node u of class i links to m distinct earlier nodes v, drawn one after another
    with probability ∝ H[i, y_v] · max(d_v, 1), where d_v is the degree of v when u
    arrives; where at most m can be drawn at all, it links to each of them. Of the
    start nodes the first two get no link, and each later one links to the node
    before it, unless H has a zero: then it draws one link by the rule.

    Parameters
    ----------
    labels
        Classes of the nodes in the order of their arrival, [n].
    compatibility
        H, [C, C], non-negative; only the ratios within a row matter.
    edges_per_node
        Number of links m that each node makes after the start.
    start_nodes
        Number of nodes that make one link at most.
    seed
        The same seed gives the same edges.

    Returns
    -------
    ndarray
        Later and earlier node of each edge, [E, 2].

    Examples
    --------
    >>> edges = generate_edges(
    ...     [0, 1, 0, 1, 1],
    ...     compatibility=[[0, 1], [1, 0]],
    ...     edges_per_node=2,
    ...     start_nodes=2,
    ... )
    >>> sorted(edges.tolist())  # all the earlier nodes of the other class
    [[2, 1], [3, 0], [3, 2], [4, 0], [4, 2]]
    """
    h = _check_compatibility(compatibility)
    y = np.asarray(labels)
    known = y.ndim == 1 and y.dtype.kind in "iu" and y.size > 0
    if not known or y.min() < 0 or y.max() >= len(h):
        raise InputError(
            f"must be rows of 'compatibility', integers from 0 to {len(h) - 1}",
            param="labels",
            value=labels,
        )
    m = check_integer("edges_per_node", edges_per_node, 1)
    start_nodes = check_integer("start_nodes", start_nodes, 1, len(y))
    if not isinstance(seed, np.random.SeedSequence):
        seed = check_integer("seed", seed, 0)
    urns = _Urns(y.tolist(), h, _uniforms(np.random.default_rng(seed), 3 * m * len(y)))
    chained = bool((h > 0).all())
    found, n_found = array("q"), array("q")
    for node in range(len(y)):
        if node >= start_nodes:
            targets = urns.draw(node, m)
        elif node < 2:
            targets = []
        else:
            targets = [node - 1] if chained else urns.draw(node, 1)
        urns.add(node, targets)
        found.extend(targets)
        n_found.append(len(targets))
    later = np.repeat(np.arange(len(y)), np.asarray(n_found))
    return np.column_stack([later, np.asarray(found)])


class _Urns:
    """One urn a class, in which every node that arrived stands max(d_v, 1) times.

    A class drawn with probability ∝ H[i, j] · (size of urn j), and then any ticket
    of its urn, is a node drawn by the attachment rule, in time that does not depend
    on the number of nodes.
    """

    patience = 64
    """Repeated nodes that a draw may meet before it goes through the urns."""

    def __init__(
        self, labels: list[int], h: NDArray[np.float64], uniform: Callable[[], float]
    ) -> None:
        self.labels, self.uniform = labels, uniform
        self.urns = [array("i") for _ in h]
        self.unlinked: set[int] = set()
        # Only what a class may link to: a zero of H can then never be drawn.
        self.options = [
            [(p, urn) for p, urn in zip(row, self.urns, strict=True) if p > 0]
            for row in h.tolist()
        ]

    def draw(self, node: int, count: int) -> list[int]:
        """Return `count` distinct nodes for `node` to link to, or all there are."""
        options, uniform = self.options[self.labels[node]], self.uniform
        bounds = list(accumulate([p * len(urn) for p, urn in options]))
        total = bounds[-1]
        chosen: list[int] = []
        misses = 0
        while total and len(chosen) < count:
            urn = options[bisect_right(bounds, uniform() * total)][1]
            drawn = urn[int(uniform() * len(urn))]
            if drawn not in chosen:
                chosen.append(drawn)
                continue
            misses += 1
            if misses > self.patience:
                return self._finish(options, chosen, count)
        return chosen

    def _finish(
        self, options: list[tuple[float, array[int]]], chosen: list[int], count: int
    ) -> list[int]:
        """Draw the rest from a list of all nodes left, which may be too few.

        The law is the same: what a repeated draw gives at last does not depend on
        how often it was repeated.
        """
        left: dict[int, float] = {}
        for p, urn in options:
            for v in urn:
                left[v] = left.get(v, 0.0) + p
        for v in chosen:
            del left[v]
        while left and len(chosen) < count:
            bounds = list(accumulate(left.values()))
            place = bisect_right(bounds, self.uniform() * bounds[-1])
            chosen.append(list(left)[place])
            del left[chosen[-1]]
        return chosen

    def add(self, node: int, targets: list[int]) -> None:
        """Let `node` arrive, linked to `targets`."""
        labels, urns, unlinked = self.labels, self.urns, self.unlinked
        for v in targets:
            # A node of degree 0 has its ticket already; the first link adds none.
            if v in unlinked:
                unlinked.remove(v)
            else:
                urns[labels[v]].append(v)
        if targets:
            urns[labels[node]].extend([node] * len(targets))
        else:
            unlinked.add(node)
            urns[labels[node]].append(node)


def _uniforms(rng: np.random.Generator, about: int) -> Callable[[], float]:
    """Return a function that gives uniform numbers, drawn in blocks for speed."""
    block = min(about, 1 << 16)
    blocks = (rng.random(size).tolist() for size in repeat(block))
    return chain.from_iterable(blocks).__next__


def _check_compatibility(
    matrix: ArrayLike, n_classes: int | None = None
) -> NDArray[np.float64]:
    """Return the matrix with rows that sum to 1."""
    name = "compatibility"
    try:
        h = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"must be a matrix of numbers ({error})", param=name) from None
    size = len(h) if h.ndim and n_classes is None else n_classes
    if h.shape != (size, size):
        rule = "be square" if n_classes is None else f"have the shape {(size, size)}"
        raise InputError(f"must {rule}, got shape {h.shape}", param=name)
    wrong = h[~(h >= 0) | np.isinf(h)]
    if wrong.size:
        rule = "must hold finite numbers, at least 0"
        raise InputError(rule, param=name, value=float(wrong[0]))
    sums: NDArray[np.float64] = h.sum(axis=1, keepdims=True)
    if not sums.all():
        raise InputError(
            f"must have a positive sum in each row; row {sums.argmin()} is all zero",
            param=name,
        )
    return np.divide(h, sums)
