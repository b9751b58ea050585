"""Where the features of a synthetic graph come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from h2gcn._validation import check_integer, check_real
from h2gcn.exceptions import InputError
from h2gcn.graph import Features, Graph

__all__ = ["BenchmarkFeatures", "FeatureSource", "GaussianFeatures"]


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
