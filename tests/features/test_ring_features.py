"""RingFeatures: a scikit-learn transformer of node numbers that leaks no labels."""

import pickle
from copy import deepcopy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from h2gcn import Graph, RingFeatures
from h2gcn.graph import CSR
from support.refusals import refused

NODES = np.arange(300)


def block_graph(*, directed=False):
    """Return a graph of three classes whose edges mostly join different classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=300)
    arcs = rng.random((300, 300)) < np.where((y[:, None] + 1) % 3 == y, 0.08, 0.01)
    arcs[np.diag_indices(300)] = False
    adj, ways = CSR((arcs | arcs.T).astype(np.float32)), CSR(arcs.astype(np.float32))
    x = rng.normal(size=(300, 2)).astype(np.float32)
    return Graph(x=x, adj=adj, y=y, directed=ways if directed else None)


GRAPH = block_graph()


def test_a_pipeline_cross_validates_and_shuffled_labels_give_chance():
    model = make_pipeline(RingFeatures(GRAPH), StandardScaler(), LogisticRegression())
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    for X in (NODES, NODES[:, None]):
        assert cross_val_score(model, X, GRAPH.y, cv=folds).mean() > 0.85
    shuffled = np.random.default_rng(1).permutation(GRAPH.y)
    for graph in (GRAPH, block_graph(directed=True)):
        features = RingFeatures(graph, "ego+rings+directions+degrees+labels")
        for last in (LogisticRegression(C=0.01), DecisionTreeClassifier(max_depth=4)):
            model = make_pipeline(features, StandardScaler(), last)
            score = cross_val_score(model, NODES, shuffled, cv=5).mean()
            assert score == pytest.approx(1 / 3, abs=0.08)


def test_only_labels_of_fit_are_counted_and_named():
    train, names = NODES[::2], np.array(["a", "b", "c"])[GRAPH.y]
    features = RingFeatures(GRAPH, "labels.ring1").fit(train, names[train])
    assert features.classes_.tolist() == ["a", "b", "c"]
    assert features.get_feature_names_out().tolist() == [
        *(f"share of {c} among training nodes in ring 1" for c in "abc"),
        "number of training nodes in ring 1 (log)",
    ]
    for node in (1, 2, 7):
        near = np.intersect1d(GRAPH.adj[[node]].indices, train)
        counts = np.bincount(GRAPH.y[near], minlength=3)
        expected = [*counts / max(counts.sum(), 1), np.log1p(counts.sum())]
        assert_allclose(features.transform([node])[0], expected, rtol=1e-6)
    without = RingFeatures(GRAPH).fit(NODES).get_feature_names_out()
    assert not any("share" in name for name in without)


def test_a_clone_keeps_the_graph_and_a_fitted_one_is_pickled():
    assert deepcopy(GRAPH) is GRAPH
    features = RingFeatures(GRAPH, "labels+ring2", max_neighbors=5, random_state=3)
    twin = clone(features.fit(NODES[:3], GRAPH.y[:3]))
    assert twin.graph is GRAPH
    assert twin.get_params() == features.get_params()
    assert not hasattr(twin, "schema_")
    again = pickle.loads(pickle.dumps(features))
    assert_array_equal(again.transform([5]), features.transform([5]))


def test_rows_follow_the_nodes_and_samples_the_seed():
    features = RingFeatures(GRAPH, max_neighbors=3).fit(NODES, GRAPH.y)
    rows, order = features.transform(NODES), np.random.default_rng(0).permutation(300)
    assert features.n_features_in_ == 1
    for some in (order, order[:7], [4, 4]):
        assert_allclose(features.transform(some), rows[some], rtol=1e-6)
    other = RingFeatures(GRAPH, max_neighbors=3, random_state=1).fit(NODES, GRAPH.y)
    assert (other.transform(NODES) != rows).any()
    frame = RingFeatures(GRAPH, "ego+ring1").set_output(transform="pandas")
    names = ["0", "1", "mean of 0 over ring 1", "mean of 1 over ring 1"]
    assert frame.fit_transform([0, 4]).columns.tolist() == names


def test_what_is_no_node_and_no_graph_is_refused():
    for nodes in ([300], [-1], [0.5], ["a"], [[0, 1]]):
        for call in (RingFeatures(GRAPH).fit, RingFeatures(GRAPH).fit([0]).transform):
            with pytest.raises(ValueError, match=r"from 0 to 299|has 2 features"):
                call(nodes)
    for params, X, y, param in (
        ({"graph": 3}, [0], None, "graph"),
        ({"graph": GRAPH}, [0, 1], [0], "y"),
        ({"graph": GRAPH}, [300], None, "X"),
    ):
        with refused(param=param):
            RingFeatures(**params).fit(X, y)


FLATTENED = "the check makes X one-dimensional, as the tags ask, then reads "
SECOND_AXIS = FLATTENED + "its second axis"
LENGTH = FLATTENED + "the length of its second axis"
EXPECTED_FAILURES = {
    "check_dict_unchanged": SECOND_AXIS,
    "check_dont_overwrite_parameters": SECOND_AXIS,
    "check_f_contiguous_array_estimator": SECOND_AXIS,
    "check_fit2d_1feature": SECOND_AXIS,
    "check_fit2d_1sample": SECOND_AXIS,
    "check_fit2d_predict1d": SECOND_AXIS,
    "check_methods_sample_order_invariance": SECOND_AXIS,
    "check_methods_subset_invariance": SECOND_AXIS,
    "check_n_features_in": LENGTH,
    "check_n_features_in_after_fitting": LENGTH,
    "check_transformer_data_not_an_array": LENGTH,
    "check_transformer_general": LENGTH,
    "check_estimator_sparse_array": "scipy has no one-dimensional array in lil format",
    "check_positive_only_tag_during_fit": "negative numbers are refused in other words",
    "check_dtype_object": "node numbers of type object are refused",
}


@parametrize_with_checks(
    [RingFeatures(GRAPH)], expected_failed_checks=lambda _: EXPECTED_FAILURES
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_samples_follow_the_random_state_as_in_scikit_learn():
    nodes = np.arange(GRAPH.n_nodes)
    for state in (7, np.random.RandomState(7), None):
        features = RingFeatures(
            GRAPH, "ring2", max_neighbors=2, random_state=state
        ).fit(nodes)
        first, again = features.transform(nodes), features.transform(nodes)
        np.testing.assert_array_equal(first, again)
    for wrong in (0, 2.5, "a"):
        with refused(param="max_neighbors", value=wrong):
            RingFeatures(GRAPH, max_neighbors=wrong).fit(nodes)
