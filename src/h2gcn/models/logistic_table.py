"""Logistic regression on the feature table, by scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.special import log_softmax
from threadpoolctl import threadpool_limits
from torch import Tensor

from h2gcn.features import FeatureTable, Input
from h2gcn.graph import CSR
from h2gcn.models.decompose import Decomposition, constant, decompose_columns, to_numpy
from h2gcn.models.options import Table, between
from h2gcn.models.table_net import TableModule, multiply_table, table_rows
from h2gcn.sparse import Propagation
from h2gcn.training import Trainer, draw_seed

Numbers = NDArray[np.float64]
Matrix = Numbers | CSR
Classes = NDArray[np.int64]

ABSENT = -30.0  # the logit of a class without a training node
C_GRID = (1.0, 10.0, 100.0, 1000.0, 10_000.0)
N_FOLDS = 3
ONE_FOLD_NODES = 500  # from here on, one held-out fold is enough to choose C
MAX_GRAM_NODES = 4_000
TOLERANCE, ROUGH_TOLERANCE = 1e-6, 1e-3  # of the gradient; rough to compare values of C
PART, MAX_PARTS = 25, 20  # iterations of a part of a fit, and parts


class LogisticTable(TableModule):
    """Multinomial logistic regression on standardized columns, with an L2 penalty.

        logits = z W + b,    z = (x − mean) / (std · √D)

    Mean and standard deviation of the D columns are those of the training nodes.
    Dividing by √D makes C mean the same for narrow and wide tables.

    Parameters
    ----------
    by_block
        Whether D is that of a column's block: a block of few columns then counts as
        much as one of many.
    """

    epochs = False

    weight: Tensor
    bias: Tensor
    mean: Tensor
    scale: Tensor

    def __init__(
        self,
        in_channels: Sequence[int],
        out_channels: int,
        *,
        table: Table = "ego+rings+directions+degrees+edges+labels",
        C: Annotated[
            float,
            between("[0, inf)"),
            "Inverse of the penalty's weight; 0: folds of the training nodes choose it",
        ] = 0.0,
        by_block: bool = False,
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.table, self.C, self.by_block = table, C, by_block
        self.register_buffer("weight", torch.zeros(self.in_channels, out_channels))
        self.register_buffer("bias", torch.zeros(out_channels))
        self.register_buffer("mean", torch.zeros(self.in_channels))
        self.register_buffer("scale", torch.ones(self.in_channels))

    def fit(self, trainer: Trainer) -> None:
        """Fit it to the training nodes."""
        assert isinstance(trainer.x, FeatureTable)
        nodes, y = trainer.index.cpu().numpy(), trainer.labels.cpu().numpy()
        z: Any = trainer.x.rows(nodes).matrix().astype(np.float64)
        mean, scale = self._mean_and_scale(z)
        if isinstance(z, np.ndarray):
            z -= mean
            z *= scale
        else:  # not centered, but sparse: a shift of columns changes the bias alone
            z = CSR(z.multiply(scale[None, :]))
        wide = len(y) < self.in_channels and len(y) <= MAX_GRAM_NODES
        with threadpool_limits(limits=1, user_api="blas"):  # more would mostly wait
            columns = _gram_factor(z) if wide else z
            C = self.C or self._choose_c(columns, y, trainer)
            model = _new_model(TOLERANCE).set_params(C=C)
            weight, bias = self._fit_in_parts(model, columns, y, trainer)
        if wide:
            by_node = solve_triangular(columns, weight, trans="T", lower=True)
            weight = z.T @ (by_node - by_node.mean(axis=0))
        else:
            bias += z.mean(axis=0) @ weight
        state = {"weight": weight, "bias": bias, "mean": mean, "scale": scale}
        self.load_state_dict({name: torch.as_tensor(v) for name, v in state.items()})

    def _mean_and_scale(self, rows: Matrix) -> tuple[Numbers, Numbers]:
        """Return the means of the columns, and 1 / (std · √D), 0 if constant, [D]."""
        from sklearn.preprocessing import StandardScaler

        scaler = StandardScaler(with_mean=False).fit(rows)
        mean, deviation = scaler.mean_, np.sqrt(scaler.var_)
        varies = deviation > 1e-7 * np.maximum(np.abs(mean), 1)
        groups = self.widths if self.by_block else (self.in_channels,)
        counts = [part.sum() for part in np.split(varies, np.cumsum(groups)[:-1])]
        divisor = deviation * np.sqrt(np.repeat(counts, groups))
        return mean, np.divide(1, divisor, out=np.zeros_like(mean), where=varies)

    def _choose_c(self, z: Matrix, y: Classes, trainer: Trainer) -> float:
        """Return the C with the least log-loss on held-out folds."""
        if len(y) < 4 * N_FOLDS:
            return 100.0
        order = np.random.default_rng(draw_seed()).permutation(len(y))
        order = order[np.argsort(y[order], kind="stable")]  # class by class
        losses = np.zeros(len(C_GRID))
        for fold in range(1 if len(y) > ONE_FOLD_NODES else N_FOLDS):
            held = order[fold::N_FOLDS]
            train = np.setdiff1d(order, held)
            model, inside = _new_model(ROUGH_TOLERANCE), z[train]
            for i, C in enumerate(C_GRID):
                model.set_params(C=C)
                weight, bias = self._fit_in_parts(model, inside, y[train], trainer, 0.5)
                log_p = log_softmax(z[held] @ weight + bias, axis=1)
                losses[i] -= log_p[np.arange(len(held)), y[held]].sum()
        return C_GRID[int(np.argmin(losses))]

    def _fit_in_parts(
        self,
        model: Any,
        z: Matrix,
        y: Classes,
        trainer: Trainer,
        fraction: float = 1.0,
    ) -> tuple[Numbers, Numbers]:
        """Return weights, [D, C], and biases, [C]; stop when the time is up.

        scikit-learn's fit cannot be stopped, so it goes on from part to part. Of two
        classes, the first has logits of zero.
        """
        classes = np.unique(y)
        weight = np.zeros((z.shape[1], self.out_channels))
        bias = np.full(self.out_channels, ABSENT)
        bias[classes] = 0
        if len(classes) == 1:
            return weight, bias
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # not converged yet; many small classes
            for _ in range(MAX_PARTS):
                model.fit(z, y)
                if model.n_iter_[0] < model.max_iter or trainer.time_is_up(fraction):
                    break
        trained = classes[-len(model.coef_) :]
        weight[:, trained], bias[trained] = model.coef_.T, model.intercept_
        return weight, bias

    def forward(self, x: FeatureTable, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, C]."""
        weight = self.scale[:, None] * self.weight
        logits = multiply_table(table_rows(x, graph), weight)
        return logits + (self.bias - self.mean @ weight)

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


def _new_model(tolerance: float) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(tol=tolerance, max_iter=PART, warm_start=True)


def _gram_factor(z: Matrix) -> Numbers:
    """Return L with L Lᵀ = Z Zᵀ, Z the centered rows of z, [m, m].

    With more columns than rows, the weights are a combination of the rows. They are
    sought in the columns of L, since Z = L Qᵀ with an orthonormal Q.
    """
    products = z @ z.T
    gram = products if isinstance(products, np.ndarray) else products.toarray()
    means = gram.mean(axis=0)
    gram += means.mean() - means - means[:, None]
    gram[np.diag_indices(len(gram))] += max(1e-12 * np.trace(gram), 1e-300)
    return np.asarray(cholesky(gram, lower=True, overwrite_a=True))
