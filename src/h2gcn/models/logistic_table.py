"""Logistic regression on the ring table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.linalg
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax
from torch import Tensor

from h2gcn._validation import check_real
from h2gcn.features import FeatureTable, Input, parse_blocks
from h2gcn.graph import CSR
from h2gcn.models.closed_form import ABSENT, draw_seed, one_blas_thread, time_is_up
from h2gcn.models.decompose import Decomposition, constant, decompose_columns, to_numpy
from h2gcn.models.table_net import TableModule, table_rows
from h2gcn.sparse import Propagation

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

C_GRID = (1.0, 10.0, 100.0, 1000.0, 10_000.0)
N_FOLDS = 3
ONE_FOLD_NODES = 500  # from here on, one held-out fold is enough to choose C
MAX_GRAM_NODES = 4_000
TOLERANCE, ROUGH_TOLERANCE = 1e-6, 1e-3  # of the gradient; rough to compare values of C


class LogisticTable(TableModule):
    """Multinomial logistic regression on standardized columns, with an L2 penalty.

        logits = z W + b,    z = (x - mean) / (std · √D)

    Mean and standard deviation of the D columns are those of the training nodes.
    Dividing by √D makes C mean the same for narrow and wide tables. The optimum is
    that of scikit-learn's `LogisticRegression(C)` on z.

    With more columns than training nodes, the weights are sought among as many
    numbers as there are nodes (the optimum is a combination of their rows).

    Parameters
    ----------
    in_channels, out_channels
        Columns of each block of the table, and number of classes.
    table
        Blocks, such as ego+ring1+labels; see `h2gcn.features.parse_blocks`.
    C
        Inverse of the penalty's weight; 0 chooses it by folds of the training nodes.
    """

    weight: Tensor
    bias: Tensor
    mean: Tensor
    scale: Tensor

    def __init__(
        self,
        in_channels: Sequence[int],
        out_channels: int,
        *,
        table: str = "ego+rings+directions+degrees+edges+labels",
        C: float = 0.0,
    ) -> None:
        super().__init__(in_channels, out_channels)
        parse_blocks(table)
        check_real("C", C, "[0, inf)")
        self.table, self.C = table, C
        self.register_buffer("weight", torch.zeros(self.in_channels, out_channels))
        self.register_buffer("bias", torch.zeros(out_channels))
        self.register_buffer("mean", torch.zeros(self.in_channels))
        self.register_buffer("scale", torch.ones(self.in_channels))

    @one_blas_thread()
    def initialise(
        self, x: Input, graph: Propagation, labels: Tensor, index: Tensor
    ) -> None:
        """Fit it to the training nodes."""
        del graph
        assert isinstance(x, FeatureTable)
        rows = x.rows(index.cpu().numpy()).matrix().astype(np.float64)
        mean, deviation = _moments(rows)
        varies = deviation > 1e-7 * np.maximum(np.abs(mean), 1)
        scale = np.where(varies, 1, 0) / np.where(varies, deviation, 1)
        scale /= np.sqrt(np.maximum(self.group_sizes(varies), 1))
        z = Standardized.from_rows(rows, mean, scale)
        weight, bias, classes = fit_logistic(z, labels.cpu().numpy(), self.C)
        self.weight.zero_()
        self.bias.fill_(ABSENT)
        self.weight[:, classes] = torch.from_numpy(weight).to(self.weight)
        self.bias[classes] = torch.from_numpy(bias).to(self.bias)
        self.mean.copy_(torch.from_numpy(mean))
        self.scale.copy_(torch.from_numpy(scale))

    def group_sizes(self, varies: NDArray[np.bool_]) -> Ints:
        """Return D for each column, [D]: how many columns share its penalty."""
        return np.full(len(varies), varies.sum(), dtype=np.int64)

    def forward(self, x: FeatureTable, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, C]."""
        weight = self.scale[:, None] * self.weight
        logits = self.bias - self.mean @ weight
        blocks = table_rows(x, graph).blocks.values()
        for block, part in zip(blocks, weight.split(self.widths), strict=True):
            logits = logits + block @ part
        return logits

    def decompose(self, x: Input, graph: Propagation) -> Decomposition:
        """Split by column, each against its mean of the training nodes."""
        assert isinstance(x, FeatureTable)
        row, mean = table_rows(x, graph), to_numpy(self.mean)
        contributions = decompose_columns(
            row,
            row.dense()[0] - mean,
            to_numpy(self.scale)[:, None] * to_numpy(self.weight),
            mean,
        )
        how = (
            "exact by block, by column and, where a block is a mean, a sum or shares "
            "of labels, by neighbor: the model is linear. Each column counts by how "
            "far it is from the mean of the training nodes, whose logit is the bias"
        )
        bias = constant("bias", to_numpy(self.bias))
        return Decomposition((bias, *contributions), how)


def _moments(rows: Floats | CSR) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each column, [D] each."""
    mean = np.asarray(rows.mean(axis=0)).reshape(-1)
    if isinstance(rows, np.ndarray):
        return mean, rows.std(axis=0)
    squares = np.asarray(rows.multiply(rows).mean(axis=0)).reshape(-1)
    return mean, np.sqrt(np.maximum(squares - mean**2, 0))


class Standardized:
    """Rows `x - shift`, [m, D]; products with them leave a sparse x sparse."""

    def __init__(self, x: Floats | CSR, shift: Floats) -> None:
        self.x, self.shift, self.shape = x, shift, x.shape

    @classmethod
    def from_rows(cls, x: Floats | CSR, mean: Floats, scale: Floats) -> Standardized:
        """Return (x - mean) · scale."""
        if isinstance(x, np.ndarray):
            x -= mean
            x *= scale
            return cls(x, np.zeros(len(mean)))
        return cls(CSR(x.multiply(scale[None, :])), mean * scale)

    def __getitem__(self, index: Ints) -> Standardized:
        return Standardized(self.x[index], self.shift)

    def __matmul__(self, weight: Floats) -> Floats:
        return np.asarray(self.x @ weight - self.shift @ weight)

    def backward(self, grad: Floats) -> Floats:
        """Return the transpose times `grad`, [D, k]."""
        return np.asarray(self.x.T @ grad - np.outer(self.shift, grad.sum(axis=0)))

    def gram(self) -> Floats:
        """Return inner products of all pairs of rows, [m, m]."""
        inner = self.x @ self.x.T
        products = inner if isinstance(inner, np.ndarray) else inner.toarray()
        cross = self.x @ self.shift
        return np.asarray(products - cross[:, None] - cross + self.shift @ self.shift)


def fit_logistic(
    rows: Standardized,
    y: Ints,
    C: float,
) -> tuple[Floats, Floats, Ints]:
    """Return weights [D, k], biases [k] and the k classes that they are of."""
    n, width = rows.shape
    seed = draw_seed()
    if width <= n or n > MAX_GRAM_NODES:
        weight, bias, classes = _minimize(rows, y, C or choose_c(rows, y, seed))[1:]
        return weight, bias, classes
    # Z = L Qᵀ with Q orthonormal: weights Q u of Z are weights u of L.
    gram = rows.gram()
    gram[np.diag_indices(n)] += max(1e-12 * np.trace(gram), 1e-300)
    low = scipy.linalg.cholesky(gram, lower=True, overwrite_a=True)
    features = Standardized(low, np.zeros(n))
    _, u, bias, classes = _minimize(features, y, C or choose_c(features, y, seed))
    by_row = scipy.linalg.solve_triangular(low, u, trans="T", lower=True)
    return rows.backward(by_row), bias, classes


def choose_c(rows: Standardized, y: Ints, seed: int) -> float:
    """Return the C with the least log-loss on held-out folds of the training nodes."""
    if len(y) < 4 * N_FOLDS:
        return 100.0
    order = np.random.default_rng(seed).permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]  # class by class
    fold_of = np.empty(len(y), dtype=np.int64)
    fold_of[order] = np.arange(len(y)) % N_FOLDS
    losses = np.zeros(len(C_GRID))
    for fold in range(1 if len(y) > ONE_FOLD_NODES else N_FOLDS):
        train, held = np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)
        inside, outside = rows[train], rows[held]
        start = None
        for i, C in enumerate(C_GRID):
            start, weight, bias, classes = _minimize(
                inside, y[train], C, start=start, rough=True
            )
            logits = np.full((len(held), int(y.max()) + 1), ABSENT)
            logits[:, classes] = outside @ weight + bias
            losses[i] -= log_softmax(logits, axis=1)[
                np.arange(len(held)), y[held]
            ].sum()
    return C_GRID[int(np.argmin(losses))]


def _minimize(
    rows: Standardized,
    y: Ints,
    C: float,
    *,
    start: Floats | None = None,
    rough: bool = False,
) -> tuple[Floats, Floats, Floats, Ints]:
    """Return the parameters as one vector, weights [D, k], biases [k], classes [k].

    The objective is that of scikit-learn's LogisticRegression, whose fit cannot be
    stopped: of two classes, the first has logits of zero.
    """
    from scipy import optimize

    minimize: Any = optimize.minimize
    classes, target = np.unique(y, return_inverse=True)
    n, width = rows.shape
    k = len(classes)
    free = slice(k == 2, k)
    shape = width + 1, len(range(k)[free])
    one_hot = np.eye(k)[target]
    penalty = 1 / (C * n)

    def objective(parameters: Floats) -> tuple[float, Floats]:
        weight, bias = np.split(parameters.reshape(shape), [width])
        logits = np.zeros((n, k))
        logits[:, free] = rows @ weight + bias
        log_p = log_softmax(logits, axis=1)
        loss = -(one_hot * log_p).sum() / n + penalty / 2 * (weight**2).sum()
        grad = (np.exp(log_p) - one_hot)[:, free] / n
        slope = rows.backward(grad) + penalty * weight
        return loss, np.concatenate([slope, grad.sum(axis=0)[None]]).ravel()

    def stop_in_time(_: Floats) -> None:
        if time_is_up(0.5 if rough else 1.0):  # half of the time is for choosing C
            raise StopIteration

    result = minimize(
        objective,
        np.zeros(shape[0] * shape[1]) if start is None else start,
        jac=True,
        method="L-BFGS-B",
        callback=stop_in_time,
        options={
            "maxiter": 100 if rough else 500,
            "maxls": 50,
            "gtol": ROUGH_TOLERANCE if rough else TOLERANCE,
            "ftol": 64 * np.finfo(float).eps,
        },
    )
    both = np.zeros((width + 1, k))
    both[:, free] = result.x.reshape(shape)
    return result.x, both[:-1], both[-1], classes
