"""What a user would do with scikit-learn: the columns, the fits and their scores."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, roc_auc_score

from h2gcn import Graph, Split
from h2gcn.experiments.frontier.measuring import (
    PLAIN,
    neighbour_columns,
    own_columns,
    plain_scores,
)
from support.graphs import adjacency


@pytest.fixture
def star() -> Graph:
    """Return a star of three leaves around node 0, and a node without neighbours."""
    x = np.array([[1.0], [2.0], [4.0], [6.0], [9.0]])
    adj = adjacency(5, [(0, 1), (0, 2), (0, 3)])
    return Graph(x=x, adj=adj, y=[0, 1, 0, 1, 0])


def test_columns_of_a_star(star: Graph) -> None:
    assert own_columns(star).tolist() == [[1], [2], [4], [6], [9]]
    # own, mean of neighbours, mean of their means, degree
    expected = [[1, 4, 1, 3], [2, 1, 4, 1], [4, 1, 4, 1], [6, 1, 4, 1], [9, 0, 0, 0]]
    assert np.allclose(neighbour_columns(star), expected)


def test_scores_are_those_of_scikit_learn_on_standardised_columns(
    small_graph: Graph,
) -> None:
    rng = np.random.default_rng(1)
    noisy = small_graph.x + 3 * rng.normal(size=small_graph.x.shape)
    graph = Graph(x=noisy, adj=small_graph.adj, y=small_graph.y)
    split = Split(np.arange(16), np.arange(16, 20), np.arange(20, 30))
    found = plain_scores(graph, split, "roc_auc", seed=3)
    assert tuple(found) == PLAIN
    dense = graph.adj.toarray().astype(float)
    shares = dense / dense.sum(axis=1, keepdims=True)
    x = np.asarray(graph.x, dtype=float)
    wide = np.hstack([x, shares @ x, shares @ shares @ x, dense.sum(axis=1)[:, None]])
    for table, name in ((x, "own features"), (wide, "neighbours' means, degree")):
        mean, deviation = table[:16].mean(axis=0), table[:16].std(axis=0)
        table = (table - mean) / np.where(deviation == 0, 1, deviation)
        for learner, model in (
            ("logistic regression", LogisticRegression(random_state=3)),
            ("boosted trees", HistGradientBoostingClassifier(random_state=3)),
        ):
            model.fit(table[:16], graph.y[:16])
            shown = model.predict_proba(table[20:])[:, 1]
            expected = roc_auc_score(graph.y[20:], shown)
            assert found[f"{learner}, {name}"]["test"] == pytest.approx(expected)


def test_a_class_without_training_nodes_is_never_said(star: Graph) -> None:
    graph = Graph(x=star.x, adj=star.adj, y=[0, 1, 0, 1, 2])
    split = Split(np.array([0, 1, 2, 3]), np.array([], dtype=int), np.array([3, 4]))
    found = plain_scores(graph, split, "macro_f1")
    one = found["logistic regression, own features"]["test"]
    expected = f1_score([1, 2], [1, 1], average="macro", labels=[1, 2])
    assert one == pytest.approx(expected)


def test_trees_are_left_out_where_nobody_wants_to_wait(star: Graph) -> None:
    split = Split(np.array([0, 1, 2]), np.array([], dtype=int), np.array([3, 4]))
    found = plain_scores(star, split, "accuracy", trees=False)
    assert list(found) == [name for name in PLAIN if name.startswith("logistic")]
