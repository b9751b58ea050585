"""Feature scaling, fitted on the training nodes and stored with the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from h2gcn._validation import check_choice
from h2gcn.graph import CSR, Features, row_slices

__all__ = ["SCALINGS", "Scaler", "choose_scaling", "fit_scaler", "other_scalings"]

SCALINGS = ("auto", "rows", "standard", "none")

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
                return (x - self.mean) / self.deviation
            scaled = CSR(x @ sp.diags_array(1 / self.deviation))
            shift = CSR((self.mean / self.deviation)[None, :])
            ones = np.ones((x.shape[0], 1), dtype=np.float32)
            return CSR(scaled - CSR(ones) @ shift) if shift.nnz else scaled
        return x


def _divide_rows(x: Features) -> Features:
    sums = np.asarray(x.sum(axis=1), dtype=np.float32).reshape(-1)
    factor = np.zeros_like(sums)
    np.divide(1, sums, out=factor, where=sums != 0)
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
        mass += np.asarray(block.sum(axis=0)).reshape(-1)
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
    check_choice("NodeClassifier", "scaling", kind, SCALINGS)
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
