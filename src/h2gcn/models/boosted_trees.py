"""Gradient-boosted trees on the ring table, by LightGBM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch  # before LightGBM: it brings libgomp.so.1, which slim containers lack
from numpy.typing import NDArray
from torch import Tensor

from h2gcn._validation import check_integer, check_real
from h2gcn.exceptions import InputError
from h2gcn.features import FeatureTable, Input, parse_blocks
from h2gcn.models.base import tensor_problem
from h2gcn.models.closed_form import ABSENT, draw_seed, time_is_up
from h2gcn.models.decompose import Decomposition, constant, decompose_columns
from h2gcn.models.table_net import TableModule, table_rows
from h2gcn.models.tree_text import rebuild_trees
from h2gcn.sparse import Propagation

Ints = NDArray[np.int64]

TEXT = "_extra_state"  # torch's name for what `get_extra_state` returns
PATIENCE = 20
MAX_ITERATIONS = 10_000
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
    of the columns, 1,000 at most.

    Parameters
    ----------
    in_channels, out_channels
        Columns of each block of the table, and number of classes.
    table
        Blocks, such as ego+ring1+labels; see `h2gcn.features.parse_blocks`.
    n_estimators
        Iterations, at most. Each adds one tree, with three classes and more a tree for
        each class.
    num_leaves
        Leaves of a tree, at most.
    learning_rate
        Weight of each tree.
    """

    seen: Tensor

    def __init__(
        self,
        in_channels: Sequence[int],
        out_channels: int,
        *,
        table: str = "ego+rings+directions+degrees+edges+labels",
        n_estimators: int = 200,
        num_leaves: int = 15,
        learning_rate: float = 0.1,
    ) -> None:
        super().__init__(in_channels, out_channels)
        parse_blocks(table)
        check_integer("n_estimators", n_estimators, 1, MAX_ITERATIONS)
        check_integer("num_leaves", num_leaves, 2, MAX_LEAVES)
        check_real("learning_rate", learning_rate, "(0, 1]")
        self.table, self.n_estimators = table, n_estimators
        self.num_leaves, self.learning_rate = num_leaves, learning_rate
        self.register_buffer("seen", torch.zeros(out_channels, dtype=torch.bool))
        self._text = b""
        self._booster: Any = None
        self._validation: tuple[Tensor, Tensor] | None = None

    def set_validation(self, labels: Tensor, index: Tensor) -> None:
        """Take the validation nodes, which stop the fit."""
        self._validation = labels, index

    def initialise(
        self, x: Input, graph: Propagation, labels: Tensor, index: Tensor
    ) -> None:
        """Fit them to the training nodes."""
        import lightgbm

        del graph
        assert isinstance(x, FeatureTable)
        y = labels.cpu().numpy()
        classes, target = np.unique(y, return_inverse=True)
        self.seen.zero_()
        self.seen[torch.from_numpy(classes)] = True
        self._text, self._booster, self.best_iteration = b"", None, 0
        if len(classes) == 1:
            return
        nodes = index.cpu().numpy()
        train = lightgbm.Dataset(x.rows(nodes).matrix(), target)
        held_out = self._held_out(x, classes, nodes, train)
        losses: dict[str, dict[str, list[float]]] = {}
        callbacks: list[Any] = [_stop_in_time]
        if held_out:
            callbacks.append(lightgbm.record_evaluation(losses))
            callbacks.append(lightgbm.early_stopping(PATIENCE, verbose=False))
        booster = lightgbm.train(
            self._train_params(len(y), len(classes)),
            train,
            self.n_estimators,
            valid_sets=held_out,
            callbacks=callbacks,
        )
        if losses:
            (curve,) = losses["valid_0"].values()
            self.best_iteration = int(np.argmin(curve)) + 1
        else:
            self.best_iteration = booster.current_iteration()
        text = booster.model_to_string(num_iteration=self.best_iteration)
        self._text = self._rebuilt(text.encode(), self.seen)

    def _held_out(
        self, x: FeatureTable, classes: Ints, nodes: Ints, train: Any
    ) -> list[Any]:
        """Return validation nodes of these classes as a data set, if there are any.

        A last fit, on all labeled nodes, has training nodes there: they stop nothing.
        """
        if self._validation is None:
            return []
        labels, index = (one.cpu().numpy() for one in self._validation)
        self._validation = None
        known = np.isin(labels, classes) & ~np.isin(index, nodes)
        if not known.any():
            return []
        target = np.searchsorted(classes, labels[known])
        return [train.create_valid(x.rows(index[known]).matrix(), target)]

    def _train_params(self, n_nodes: int, n_classes: int) -> dict[str, Any]:
        several = {"objective": "multiclass", "num_class": n_classes}
        return {
            **({"objective": "binary"} if n_classes == 2 else several),
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

    @property
    def _classes(self) -> Ints:
        return np.flatnonzero(self.seen.cpu().numpy())

    @property
    def _outputs(self) -> Ints:
        """The classes that trees add to."""
        return self._classes[-max(_n_outputs(len(self._classes)), 1) :]

    def _predict(self, rows: Any, **kwargs: Any) -> NDArray[np.float64]:
        if self._booster is None:
            import lightgbm

            self._booster = lightgbm.Booster(model_str=self._text.decode())
        threads = torch.get_num_threads()
        return np.asarray(self._booster.predict(rows, num_threads=threads, **kwargs))

    def forward(self, x: FeatureTable, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, C]."""
        rows = table_rows(x, graph).matrix()
        logits = np.full((rows.shape[0], self.out_channels), ABSENT, dtype=np.float32)
        logits[:, self._classes] = 0
        if self._text and len(logits):
            raw = self._predict(rows, raw_score=True).reshape(len(logits), -1)
            logits[:, self._outputs] = raw
        return torch.from_numpy(logits).to(x.device)

    def decompose(self, x: Input, graph: Propagation) -> Decomposition:
        """Split into Shapley values, one for each column.

        They are exact for the game in which a split by a column that is not known goes
        both ways, in the fractions in which training nodes do.
        """
        assert isinstance(x, FeatureTable)
        row = table_rows(x, graph)
        values = np.zeros((self.in_channels + 1, self.out_channels))
        values[-1, ~self.seen.cpu().numpy()] = ABSENT
        if self._text:
            found = self._predict(row.dense().astype(np.float64), pred_contrib=True)
            classes = self._outputs
            values[:, classes] = found.reshape(len(classes), -1).T
        shapley, bias = values[:-1], constant("bias", values[-1])
        columns = decompose_columns(row, np.ones(len(shapley)), shapley)
        how = (
            "exact Shapley values of the trees by column: the bias is the mean logit "
            "of the training nodes, and a block is the sum of its columns"
        )
        return Decomposition((bias, *columns), how)

    def get_extra_state(self) -> Tensor:
        """Return the text of the trees as bytes, [t]."""
        return torch.from_numpy(np.frombuffer(self._text, dtype=np.uint8).copy())

    def set_extra_state(self, state: Tensor) -> None:
        """Take the text of trees, if it is one."""
        try:
            self._text, self._booster = self._rebuilt(_bytes(state), self.seen), None
        except ValueError as error:
            raise InputError(f"the trees are damaged: {error}") from None

    def state_problem(self, state: Mapping[str, Tensor]) -> str | None:
        """Return why tensors of a file are not trees, if so."""
        text = state.get(TEXT, torch.zeros(0))
        wanted = {"seen": self.seen, TEXT: torch.empty_like(text, dtype=torch.uint8)}
        if problem := tensor_problem(state, wanted):
            return problem
        try:
            self._rebuilt(_bytes(text), state["seen"])
        except ValueError as error:
            return str(error)
        return None

    def _rebuilt(self, text: bytes, seen: Tensor) -> bytes:
        """Return a text that LightGBM can be trusted with, or raise ValueError."""
        n_outputs = _n_outputs(int(seen.sum()))
        if not n_outputs:
            if text:
                raise ValueError("there are trees, and no classes to tell apart")
            return b""
        return rebuild_trees(
            text,
            n_columns=self.in_channels,
            n_outputs=n_outputs,
            max_leaves=self.num_leaves,
            max_trees=self.n_estimators * n_outputs,
        )


def _n_outputs(n_classes: int) -> int:
    """Return the number of trees an iteration: of two classes, the first has none."""
    return n_classes if n_classes > 2 else n_classes // 2


def _bytes(text: Tensor) -> bytes:
    return text.cpu().numpy().tobytes()


def _stop_in_time(env: Any) -> None:
    """End a fit whose time is up, as a callback of LightGBM."""
    from lightgbm.callback import EarlyStopException

    if time_is_up():
        raise EarlyStopException(env.iteration, env.evaluation_result_list)
