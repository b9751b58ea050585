"""Gradient-boosted trees on the feature table, by LightGBM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import torch  # before LightGBM: it brings libgomp.so.1, which slim containers lack
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from torch import Tensor

from h2gcn.exceptions import InputError
from h2gcn.features import FeatureTable, Input
from h2gcn.models.decompose import Decomposition, constant, decompose_columns
from h2gcn.models.options import Table, at_least, between
from h2gcn.models.table_net import TableModule, table_rows
from h2gcn.models.tree_text import rebuild_trees
from h2gcn.sparse import Propagation
from h2gcn.training import Trainer, draw_seed

PATIENCE = 20  # iterations
MAX_LEAVES = 1_024  # explaining a tree takes memory by the square of its depth
SMALL_TRAINING_SET = 200
TREE_COLUMNS = 1_000  # each tree sees half of the columns, but no more than these
THREADED_NODES = 20_000  # below, threads wait for each other: 13 times slower when busy


class BoostedTrees(TableModule):
    """Gradient-boosted decision trees on the table (Ke et al., NeurIPS 2017).

        logits = Σ_t f_t(x)

    Each tree f_t is fitted to the gradient of the log-loss of those before it. The
    number of trees is the one with the least log-loss of the validation nodes; fitting
    stops when it has not fallen for 20 iterations. Each tree is offered a random half
    of the columns, 1,000 at most. Of two classes, the first has logits of zero.
    """

    epochs = False

    def __init__(
        self,
        in_channels: Sequence[int],
        out_channels: int,
        *,
        table: Table = "ego+rings+directions+degrees+edges+labels",
        n_estimators: Annotated[
            int,
            at_least(1, 10_000),
            "Most iterations; each adds a tree, or one per class if there are three",
        ] = 200,
        num_leaves: Annotated[
            int, at_least(2, MAX_LEAVES), "Most leaves of a tree"
        ] = 15,
        learning_rate: Annotated[float, between("(0, 1]"), "Weight of each tree"] = 0.1,
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.table, self.n_estimators = table, n_estimators
        self.num_leaves, self.learning_rate = num_leaves, learning_rate
        self.n_outputs = out_channels if out_channels > 2 else 1
        self._text = b""
        self._booster: Any = None

    def fit(self, trainer: Trainer) -> None:
        """Fit the trees to the training nodes; validation nodes choose their number."""
        import lightgbm
        from lightgbm.callback import EarlyStopException

        def stop_in_time(env: Any) -> None:
            if trainer.time_is_up():
                raise EarlyStopException(env.iteration, env.evaluation_result_list)

        x = trainer.x
        assert isinstance(x, FeatureTable)
        y, nodes = trainer.labels.cpu().numpy(), trainer.index.cpu().numpy()
        val_y, val = trainer.val_labels.cpu().numpy(), trainer.val_index.cpu().numpy()
        # Training nodes, which a final fit validates on, would stop nothing.
        judges = np.isin(val_y, y) & ~np.isin(val, nodes)
        train, valid_sets = lightgbm.Dataset(_columns(x.rows(nodes)), y), []
        callbacks: list[Any] = [stop_in_time]
        losses: dict[str, dict[str, list[float]]] = {}
        if judges.any():
            rows = _columns(x.rows(val[judges]))
            valid_sets.append(train.create_valid(rows, val_y[judges]))
            callbacks.append(lightgbm.record_evaluation(losses))
            callbacks.append(lightgbm.early_stopping(PATIENCE, verbose=False))
        booster = lightgbm.train(
            *(self._params(len(y)), train, self.n_estimators),
            valid_sets=valid_sets,
            callbacks=callbacks,
        )
        best = booster.current_iteration()
        if losses:
            (curve,) = losses["valid_0"].values()
            best = int(np.argmin(curve)) + 1
        self._load(booster.model_to_string(num_iteration=best).encode())
        trainer.best_iteration = best

    def _params(self, n_nodes: int) -> dict[str, Any]:
        several = {"objective": "multiclass", "num_class": self.n_outputs}
        return {
            **({"objective": "binary"} if self.n_outputs == 1 else several),
            "learning_rate": self.learning_rate,
            "num_leaves": self.num_leaves,
            "min_data_in_leaf": 20 if n_nodes >= SMALL_TRAINING_SET else 5,
            "feature_fraction": min(0.5, TREE_COLUMNS / self.in_channels),
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": torch.get_num_threads() if n_nodes >= THREADED_NODES else 1,
            "seed": draw_seed(),
            "verbosity": -1,
        }

    def _load(self, text: bytes) -> None:
        """Take trees, or raise ValueError if they are damaged."""
        import lightgbm

        self._text = rebuild_trees(
            text,
            n_columns=self.in_channels,
            n_outputs=self.n_outputs,
            max_leaves=self.num_leaves,
            max_trees=self.n_estimators * self.n_outputs,
        )
        self._booster = lightgbm.Booster(model_str=self._text.decode())

    def get_extra_state(self) -> Tensor:
        """Return the text of the trees as bytes, [t]."""
        return torch.from_numpy(np.frombuffer(self._text, dtype=np.uint8).copy())

    def set_extra_state(self, state: Tensor) -> None:
        """Take the text of trees, or raise if they are damaged."""
        try:
            self._load(state.to(torch.uint8).cpu().numpy().tobytes())
        except ValueError as error:
            raise InputError(f"the trees are damaged: {error}") from None

    def _predict(self, rows: Any, **kwargs: Any) -> NDArray[np.float64]:
        threads = torch.get_num_threads()
        return np.asarray(self._booster.predict(rows, num_threads=threads, **kwargs))

    def forward(self, x: FeatureTable, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, C]."""
        rows = _columns(table_rows(x, graph))
        logits = np.zeros((rows.shape[0], self.out_channels), dtype=np.float32)
        if self._booster is not None and len(logits):
            raw = self._predict(rows, raw_score=True)
            logits[:, -self.n_outputs :] = raw.reshape(len(logits), -1)
        return torch.from_numpy(logits).to(x.device)

    def decompose(self, x: Input, graph: Propagation) -> Decomposition:
        """Split into Shapley values, one for each column.

        They are exact for the game in which a split by a column that is not known goes
        both ways, in the fractions in which training nodes do.
        """
        assert isinstance(x, FeatureTable)
        row = table_rows(x, graph)
        values = np.zeros((self.in_channels + 1, self.out_channels))
        found = self._predict(row.dense().astype(np.float64), pred_contrib=True)
        values[:, -self.n_outputs :] = found.reshape(self.n_outputs, -1).T
        shapley, bias = values[:-1], constant("bias", values[-1])
        columns = decompose_columns(row, np.ones(len(shapley)), shapley)
        how = (
            "exact Shapley values of the trees by column: the bias is the mean logit "
            "of the training nodes, and a block is the sum of its columns"
        )
        return Decomposition((bias, *columns), how)


def _columns(table: FeatureTable) -> NDArray[np.float32] | csr_matrix:
    """Return all columns as LightGBM takes them: it does not know scipy's arrays."""
    columns = table.matrix()
    return columns if isinstance(columns, np.ndarray) else csr_matrix(columns)
