"""RingFeatures: a scikit-learn transformer of node numbers that leaks no labels."""

import pickle
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from h2gcn import Graph, RingFeatures
from h2gcn.exceptions import InputError


def block_graph(n: int = 300, *, directed: bool = False) -> Graph:
    """Return a graph of three classes whose edges mostly join different classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=n)
    rate = np.where((y[:, None] + 1) % 3 == y, 0.08, 0.01)
    arcs = rng.random((n, n)) < rate
    arcs[np.diag_indices(n)] = False
    adj = sp.csr_array((arcs | arcs.T).astype(np.float32))
    ways = sp.csr_array(arcs.astype(np.float32)) if directed else None
    x = rng.normal(size=(n, 2)).astype(np.float32)
    return Graph(x=x, adj=adj, y=y, directed=ways)


def test_it_cross_validates_in_a_pipeline() -> None:
    graph = block_graph()
    nodes = np.arange(graph.n_nodes)
    model = make_pipeline(RingFeatures(graph), StandardScaler(), LogisticRegression())
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    assert cross_val_score(model, nodes, graph.y, cv=folds).mean() > 0.85
    column = nodes[:, None]
    assert cross_val_score(model, column, graph.y, cv=folds).mean() > 0.85


def test_shuffled_labels_give_chance() -> None:
    for directed in (False, True):
        graph = block_graph(directed=directed)
        nodes = np.arange(graph.n_nodes)
        labels = np.random.default_rng(1).permutation(graph.y)
        features = RingFeatures(graph, "ego+rings+directions+degrees+labels")
        for classifier in (
            LogisticRegression(C=0.01),
            DecisionTreeClassifier(max_depth=4),
        ):
            model = make_pipeline(features, StandardScaler(), classifier)
            score = cross_val_score(model, nodes, labels, cv=5).mean()
            assert abs(score - 1 / 3) < 0.08


def test_only_labels_of_fit_are_counted() -> None:
    graph = block_graph()
    train = np.arange(0, 300, 2)
    features = RingFeatures(graph, "labels.ring1").fit(train, graph.y[train])
    known = np.isin(np.arange(300), train)
    for node in (1, 2, 7):
        near = graph.adj[[node]].indices
        counts = np.bincount(graph.y[near[known[near]]], minlength=3)
        row = features.transform([node])[0]
        np.testing.assert_allclose(row[:3], counts / max(counts.sum(), 1), rtol=1e-6)
        assert row[3] == pytest.approx(np.log1p(counts.sum()))


def test_classes_are_those_of_fit() -> None:
    graph = block_graph()
    names = np.array(["no", "yes"])[np.arange(300) % 2]
    features = RingFeatures(graph, "labels.ring1").fit(np.arange(300), names)
    assert features.classes_.tolist() == ["no", "yes"]
    assert features.get_feature_names_out().tolist() == [
        "share of no among training nodes in ring 1",
        "share of yes among training nodes in ring 1",
        "number of training nodes in ring 1 (log)",
    ]
    without = RingFeatures(graph).fit(np.arange(300))
    assert without.transform([3]).shape == (1, len(without.get_feature_names_out()))
    assert not any("share" in name for name in without.get_feature_names_out())


def test_a_clone_keeps_the_graph() -> None:
    graph = block_graph()
    assert deepcopy(graph) is graph
    features = RingFeatures(graph, "ego", max_neighbors=5, random_state=3)
    twin = clone(features)
    assert twin.graph is graph
    assert twin.get_params() == features.get_params()
    assert not hasattr(twin, "schema_")


def test_a_fitted_one_is_pickled() -> None:
    graph = block_graph()
    features = RingFeatures(graph, "labels+ring2").fit([0, 1, 2], graph.y[:3])
    again = pickle.loads(pickle.dumps(features))
    np.testing.assert_array_equal(again.transform([5]), features.transform([5]))


def test_pandas_output_has_the_names() -> None:
    features = RingFeatures(block_graph(), "ego+ring1").set_output(transform="pandas")
    assert list(features.fit_transform([0, 4]).columns) == [
        *("0", "1", "mean of 0 over ring 1", "mean of 1 over ring 1"),
    ]


def test_the_sample_of_a_ring_follows_the_seed() -> None:
    graph = block_graph()
    one, same, other = (
        RingFeatures(graph, "ring2", max_neighbors=3, random_state=seed)
        .fit_transform([0, 1, 2])
        .tolist()
        for seed in (0, 0, 1)
    )
    assert one == same != other


@pytest.mark.parametrize("nodes", [[300], [-1], [0.5], ["a"], [[0, 1]], [[[0]]]])
def test_what_is_no_node_is_refused(nodes: Any) -> None:
    features = RingFeatures(block_graph())
    with pytest.raises(
        ValueError, match=r"node numbers from 0 to 299|Found array with"
    ):
        features.fit(nodes)
    if np.ndim(nodes) == 1:
        with pytest.raises(InputError) as caught:
            features.fit([0]).transform(nodes)
        assert caught.value.param == "X"


def test_other_parameters_are_refused() -> None:
    for params, fit, param in (
        ({"graph": 3}, ([0],), "graph"),
        ({"graph": block_graph()}, ([0, 1], [0]), "y"),
    ):
        with pytest.raises(InputError) as caught:
            RingFeatures(**params).fit(*fit)
        assert caught.value.param == param


NOT_NODES = "X are node numbers, and the check has random features"
EXPECTED_FAILURES = dict.fromkeys(
    (
        "check_dict_unchanged",
        "check_dont_overwrite_parameters",
        "check_dtype_object",
        "check_estimators_dtypes",
        "check_estimators_fit_returns_self",
        "check_estimators_nan_inf",
        "check_estimators_overwrite_params",
        "check_estimators_pickle",
        "check_f_contiguous_array_estimator",
        "check_fit2d_1feature",
        "check_fit2d_1sample",
        "check_fit2d_predict1d",
        "check_fit_check_is_fitted",
        "check_fit_idempotent",
        "check_fit_score_takes_y",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
        "check_n_features_in",
        "check_n_features_in_after_fitting",
        "check_pipeline_consistency",
        "check_positive_only_tag_during_fit",
        "check_readonly_memmap_input",
        "check_transformer_data_not_an_array",
        "check_transformer_general",
        "check_transformer_preserve_dtypes",
    ),
    NOT_NODES,
)


@parametrize_with_checks(
    [RingFeatures(block_graph())],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)
