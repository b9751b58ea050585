"""Where the features of a synthetic graph come from: drawn, or a real graph's."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from h2gcn._validation import check_integer, check_real
from h2gcn.datasets.raw_files import MOST_COLUMNS, reading
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR, Features, Graph
from h2gcn.io import atomic_write

__all__ = [
    "BenchmarkFeatures",
    "FeatureSource",
    "GaussianFeatures",
    "ProductsFeatures",
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
    the seed, the number of classes and of features only.

    Parameters
    ----------
    n_features
        Number of columns F.
    separation
        The length s of the class means. The default leaves classes overlapping:
        of ten classes with 250 training nodes each and 100 features, a perceptron
        with one hidden layer gets between 68 and 69 % of the nodes right.

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

    def __post_init__(self) -> None:
        owner = type(self).__name__
        check_integer(owner, "n_features", self.n_features, 1)
        check_real(owner, "separation", self.separation, "[0, inf)")

    def draw(
        self, y: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[Features, None]:
        """Return features, [n, F], for the labels `y`, [n]; the columns are unnamed."""
        means = rng.standard_normal((int(y.max()) + 1, self.n_features))
        means *= self.separation / np.linalg.norm(means, axis=1, keepdims=True)
        # Single precision from the start: a million rows are large enough.
        x = rng.standard_normal((len(y), self.n_features), dtype=np.float32)
        x += means.astype(np.float32)[y]
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
        for block in _blocks(path):
            blocks.append(block[:, 0])
            n += len(block)
            if n > MOST_ROWS:
                raise InputError(f"{path}: must hold at most {MOST_ROWS:,} labels")
        if not blocks:
            raise InputError(f"{path}: there are no labels in it")
        numbers = np.concatenate(blocks)
        with np.errstate(invalid="ignore"):  # too large for a whole number
            labels = numbers.astype(np.int64)
        if not np.array_equal(labels, numbers):
            raise InputError(f"{path}: labels must be whole numbers")
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
        for block in _blocks(path):
            first, last = np.searchsorted(wanted, [start, start + len(block)])
            taken.append(block[wanted[first:last] - start])
            start += len(block)
        if start <= wanted[-1]:
            raise InputError(
                f"{path}: it has {start:,} rows, fewer than {LABELS} has labels"
            )
        x = np.empty((len(rows), taken[0].shape[1]), dtype=np.float32)
        x[order] = np.concatenate(taken)
        return x


def _blocks(path: Path) -> Iterator[NDArray[np.float32]]:
    """Yield the rows of a packed table without a header, many at a time."""
    import pyarrow as pa
    from pyarrow import csv

    with reading(path):
        try:
            with gzip.open(path, "rb") as file:
                width = file.readline(20 * MOST_COLUMNS).count(b",") + 1
            if width > MOST_COLUMNS:
                raise InputError(f"it must have at most {MOST_COLUMNS:,} columns")
            # Named, for the first rows need not tell what the last ones hold.
            types = {f"f{column}": pa.float32() for column in range(width)}
            with csv.open_csv(
                path,
                read_options=csv.ReadOptions(autogenerate_column_names=True),
                convert_options=csv.ConvertOptions(column_types=types),
            ) as reader:
                for batch in reader:
                    # What is missing becomes NaN.
                    columns = [one.to_numpy(zero_copy_only=False) for one in batch]
                    block = np.column_stack(columns)
                    if not np.isfinite(block).all():
                        raise InputError("it must hold finite numbers")
                    yield block
        except pa.ArrowException as error:
            raise InputError(f"the file is damaged ({error})") from None
