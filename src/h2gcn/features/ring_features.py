"""Neighborhood features as a scikit-learn transformer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from h2gcn._validation import check_integer
from h2gcn.exceptions import InputError
from h2gcn.features.builder import FeatureBuilder
from h2gcn.graph import CSR, Graph


class RingFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Neighborhood columns of nodes, for any scikit-learn classifier.

    X are node numbers of `graph`, [m] or [m, 1]. The labels passed to `fit` are the
    only ones that the columns count, and no row counts the node's own: so it can be
    cross-validated in a pipeline.

    Parameters
    ----------
    graph
        The graph. Its own labels and splits are not read. `clone` keeps the same graph.
    blocks
        Which columns, see `h2gcn.features.parse_blocks`. Blocks that the graph cannot
        fill are left out, and so are labels after `fit` without y.
    max_neighbors
        Sample at most this many members of a ring beyond the first; default all.
    random_state
        Seed of the sample.

    Examples
    --------
    >>> import numpy as np
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> graph = Graph(x=[[1.0], [2.0], [4.0]], adj=path)
    >>> RingFeatures(graph, "ego+ring1").fit_transform([0, 1])
    array([[1. , 2. ],
           [2. , 2.5]], dtype=float32)
    """

    def __init__(
        self,
        graph: Graph,
        blocks: str = "ego+rings+degrees+edges+labels",
        *,
        max_neighbors: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.graph = graph
        self.blocks = blocks
        self.max_neighbors = max_neighbors
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn the labels `y` of the training nodes `X`, [m]; without y none."""
        if not isinstance(self.graph, Graph):
            raise InputError("must be a Graph", param="graph", value=self.graph)
        if self.max_neighbors is not None:
            check_integer("max_neighbors", self.max_neighbors, 1)
        if isinstance(self.random_state, int | np.integer):
            self.seed_ = int(self.random_state)
        else:
            draw = check_random_state(self.random_state).randint
            self.seed_ = int(draw(2**31 - 1))
        nodes = self._node_numbers(X, reset=True)
        self.labels_ = np.full(self.graph.n_nodes, -1, dtype=np.int64)
        self.schema_ = self._builder().schema(self.blocks, labels=y is not None)
        if y is not None:
            labels = np.asarray(y)
            if labels.shape != nodes.shape:
                raise InputError(
                    f"must be one label for each of {len(nodes)} nodes", param="y"
                )
            self.classes_, self.labels_[nodes] = np.unique(labels, return_inverse=True)
            self.schema_ = replace(self.schema_, classes=tuple(map(str, self.classes_)))
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float32] | CSR:
        """Return the columns of some nodes, [m, width]; CSR where that is smaller."""
        check_is_fitted(self)
        nodes = self._node_numbers(X, reset=False)
        table = self._builder().table(self.schema_, self.graph.x, self.labels_, nodes)
        return table.matrix()

    def get_feature_names_out(
        self,
        input_features: Any = None,  # noqa: ARG002
    ) -> NDArray[Any]:
        """Return the names of the columns; `input_features` is not used."""
        check_is_fitted(self)
        return np.array(
            self.schema_.column_names(self.graph.node_ids.tolist()), dtype=object
        )

    def __sklearn_tags__(self) -> Any:
        """Return the tags: X is one column of node numbers, the output float32."""
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        tags.input_tags.categorical = True
        tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _builder(self) -> FeatureBuilder:
        return FeatureBuilder(self.graph, self.max_neighbors, self.seed_)

    def _node_numbers(self, X: Any, *, reset: bool) -> NDArray[np.int64]:
        column = X if np.ndim(X) != 1 else np.reshape(X, (-1, 1))
        values = validate_data(self, column, reset=reset, dtype=None)
        rule = f"must be node numbers from 0 to {self.graph.n_nodes - 1}, [m] or [m, 1]"
        if values.shape[1] != 1:
            raise InputError(rule, param="X", value=values.shape)
        if values.dtype.kind not in "iuf" or (values % 1 != 0).any():
            raise InputError(rule, param="X", value=values)
        outside = values[(values < 0) | (values >= self.graph.n_nodes)]
        if outside.size:
            raise InputError(rule, param="X", value=outside[0].item())
        return np.asarray(values, dtype=np.int64).reshape(-1)
