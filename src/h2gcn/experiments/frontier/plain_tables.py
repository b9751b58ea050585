"""What a user would do without this package: scikit-learn on columns made by hand."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from h2gcn.graph import Graph, Split
from h2gcn.training import score

__all__ = ["PLAIN", "neighbour_columns", "own_columns", "plain_scores"]

Columns = NDArray[np.float64]
ABSENT = -50.0
"""The logarithm of the probability of a class that training has no node of."""


def own_columns(graph: Graph) -> Columns:
    """Return the features of each node, [n, F]."""
    x = graph.x if isinstance(graph.x, np.ndarray) else graph.x.toarray()
    return np.asarray(x, dtype=np.float64)


def neighbour_columns(graph: Graph) -> Columns:
    """Return features, their means over neighbours, the means of those, and degrees.

    A node without neighbours has zeros there. [n, 3F + 1]
    """
    own, degrees = own_columns(graph), graph.degrees
    shares = sp.diags_array(1 / np.maximum(degrees, 1)) @ graph.adj
    one = shares @ own
    return np.hstack([own, one, shares @ one, degrees[:, None]])


_LEARNERS: dict[str, Callable[[int], Any]] = {
    "logistic regression": lambda seed: LogisticRegression(random_state=seed),
    "boosted trees": lambda seed: HistGradientBoostingClassifier(random_state=seed),
}
"""As scikit-learn has them, without a parameter changed."""
_COLUMNS: dict[str, Callable[[Graph], Columns]] = {
    "own features": own_columns,
    "neighbours' means, degree": neighbour_columns,
}
PLAIN = tuple(f"{learner}, {columns}" for columns in _COLUMNS for learner in _LEARNERS)
"""The names of what is tried."""


def plain_scores(
    graph: Graph, split: Split, metric: str, seed: int = 0
) -> dict[str, dict[str, float]]:
    """Fit each of `PLAIN` on training nodes; return test score and seconds of each.

    Columns are standardised by the training nodes; validation nodes are not used.

    Parameters
    ----------
    graph
        With labels for the training and test nodes.
    split
        Its training nodes are fitted on, its test nodes scored.
    metric
        "accuracy", "roc_auc" or "macro_f1".
    seed
        Of what is drawn.
    """
    found = {}
    for columns, make in _COLUMNS.items():
        table = make(graph)
        table = StandardScaler().fit(table[split.train]).transform(table)
        for learner, build in _LEARNERS.items():
            start = time.perf_counter()
            model = build(seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(table[split.train], graph.y[split.train])
            shares = model.predict_proba(table[split.test])
            logits = np.full((len(split.test), graph.n_classes), ABSENT)
            logits[:, model.classes_] = np.log(np.maximum(shares, np.exp(ABSENT)))
            found[f"{learner}, {columns}"] = {
                "test": score(metric, graph.y[split.test], logits.astype(np.float32)),
                "seconds": round(time.perf_counter() - start, 2),
            }
    return found
