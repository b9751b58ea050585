"""What edges weigh: the matrix of a graph, and how means take it."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st

from h2gcn import Graph, NodeClassifier, Split, exact_rings
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.features import FeatureBuilder
from h2gcn.graph import CSR, EdgeColumns, fingerprint
from h2gcn.models import MODELS, find_model
from support.cases import each
from support.refusals import refused

N = 12


def weighted_graph(seed: int = 0, *, directed: bool = False) -> Graph:
    """Return a graph whose edges, some of them listed twice, carry an amount."""
    rng = np.random.default_rng(seed)
    source, target = rng.integers(0, N, (2, 40))
    kept = source != target
    source, target = source[kept], target[kept]
    amount = rng.uniform(0.5, 9, len(source)).astype(np.float32)
    along = np.zeros((N, N), dtype=np.float32)
    along[source, target] = 1
    return Graph(
        x=rng.normal(size=(N, 3)).astype(np.float32),
        adj=np.maximum(along, along.T),
        directed=along if directed else None,
        y=np.arange(N) % 2,
        edge_columns=EdgeColumns(
            source, target, amount[:, None], ("amount",), directed=directed
        ),
        edge_weight="amount",
    )


def dense_weights(graph: Graph, *, both: bool) -> np.ndarray:
    """Return the oracle: amounts added up by a loop, over their mean."""
    columns = graph.edge_columns
    assert columns is not None
    found = np.zeros((N, N))
    for i, j, (amount,) in zip(
        columns.source, columns.target, columns.values, strict=True
    ):
        found[i, j] += amount
        if both:
            found[j, i] += amount
    return found / found[found > 0].mean()


def normalised(matrix: np.ndarray) -> np.ndarray:
    """Return D_r^-1/2 W D_c^-1/2, zero where a row or column is."""
    rows, columns = matrix.sum(1), matrix.sum(0)
    with np.errstate(divide="ignore"):
        left, right = rows**-0.5, columns**-0.5
    left[rows == 0] = right[columns == 0] = 0
    return left[:, None] * matrix * right


@each("seed", range(3))
def test_amounts_of_a_pair_are_added_up_whichever_way_they_go(seed: int) -> None:
    graph = weighted_graph(seed)
    assert graph.weights is not None
    expected = dense_weights(graph, both=True)
    np.testing.assert_allclose(graph.weights.toarray(), expected, rtol=1e-5)
    assert (graph.weights.indices == graph.adj.indices).all()


def test_directions_have_weights_of_their_own() -> None:
    graph = weighted_graph(directed=True)
    assert graph.directed_weights is not None
    expected = dense_weights(graph, both=False)
    np.testing.assert_allclose(graph.directed_weights.toarray(), expected, rtol=1e-5)


def test_an_edge_of_weight_zero_is_an_edge_all_the_same() -> None:
    columns = EdgeColumns([0, 1], [1, 2], [[0], [4]], ("amount",), directed=False)
    path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    graph = Graph(x=np.eye(3), adj=path, edge_columns=columns, edge_weight="amount")
    assert graph.weights is not None
    assert graph.weights.nnz == 4
    assert 0 < graph.weights[0, 1] < 1e-5


def test_the_unit_of_the_weights_does_not_matter() -> None:
    graph = weighted_graph()
    columns = graph.edge_columns
    assert columns is not None
    cents = replace(graph, edge_columns=replace(columns, values=columns.values * 100))
    assert graph.weights is not None
    assert cents.weights is not None
    np.testing.assert_allclose(cents.weights.data, graph.weights.data, rtol=1e-5)


def test_graphs_that_weigh_otherwise_have_other_checksums() -> None:
    graph = weighted_graph()
    assert fingerprint(graph) != fingerprint(replace(graph, edge_weight=None))


def weighing(name, values) -> Graph:
    """Return a path whose edges carry an amount each, and weigh what a name says."""
    columns = EdgeColumns([0, 1], [1, 2], values, ("amount",))
    path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    return Graph(x=np.eye(3), adj=path, edge_columns=columns, edge_weight=name)


@each(
    ("values", "message"),
    [
        ([[1], [-2]], "'amount' has -2 in row 1"),
        ([[0], [0]], "must not be zero for every edge"),
    ],
)
def test_what_cannot_weigh_is_refused(values, message) -> None:
    with refused(param="edge_weight", words=message):
        weighing("amount", values)


@each("name", ["price", 3])
def test_what_weighs_is_a_column(name) -> None:
    with refused(param="edge_weight", value=name, words="'amount'"):
        weighing(name, [[1], [2]])


def test_weights_need_edges_that_carry_something() -> None:
    with pytest.raises(InputError, match="the edges carry: none, got 'amount'"):
        Graph(x=np.eye(2), adj=np.eye(2)[::-1], edge_weight="amount")


# -------------------------------------------------------------- operators of models


def operators(name: str, graph: Graph) -> list[np.ndarray]:
    spec = find_model(name)
    return [one.toarray() for one in spec.build_matrices(spec.matrix_of(graph))]


def test_only_the_first_ring_of_h2gcn_weighs() -> None:
    graph = weighted_graph()
    one, two = operators("h2gcn-1", graph)
    expected = normalised(dense_weights(graph, both=True))
    np.testing.assert_allclose(one, expected, atol=1e-6)
    ring = exact_rings(graph.adj, hops=2)[1].toarray()
    np.testing.assert_allclose(two, normalised(ring), atol=1e-6)


def test_operators_of_baselines_are_those_of_the_weighted_matrix() -> None:
    graph = weighted_graph()
    weights = dense_weights(graph, both=True)
    closed = weights + np.eye(N)
    (gcn,) = operators("gcn", graph)
    np.testing.assert_allclose(gcn, normalised(closed), atol=1e-6)
    (cheby,) = operators("gcn-cheby", graph)
    np.testing.assert_allclose(cheby, -normalised(weights), atol=1e-6)
    (means,) = operators("graphsage", graph)
    sums = weights.sum(1, keepdims=True)
    np.testing.assert_allclose(means, weights / sums, atol=1e-6)
    (acm,) = operators("acm-gcn", graph)
    np.testing.assert_allclose(acm, closed / closed.sum(1, keepdims=True), atol=1e-6)
    (plain,) = operators("decoupled-smoothing", graph)
    np.testing.assert_allclose(plain, weights, atol=1e-6)
    smooth, means = operators("correct-and-smooth", graph)
    np.testing.assert_allclose(smooth, normalised(weights), atol=1e-6)
    np.testing.assert_allclose(means, weights / sums, atol=1e-6)
    spread, echo = operators("zoobp", graph)
    for one, other in zip(operators("linbp", graph), (spread, echo), strict=True):
        np.testing.assert_array_equal(one, other)
    radius = np.abs(np.linalg.eigvalsh(weights)).max()
    np.testing.assert_allclose(spread, weights / radius, atol=1e-5)
    expected = np.diag((weights**2).sum(1)) / radius**2
    np.testing.assert_allclose(echo, expected, atol=1e-5)


def test_directed_operators_weigh_along_the_edges_and_against() -> None:
    graph = weighted_graph(directed=True)
    along, against = operators("dir-gnn", graph)
    expected = normalised(dense_weights(graph, both=False))
    np.testing.assert_allclose(along, expected, atol=1e-6)
    np.testing.assert_allclose(against, expected.T, atol=1e-6)


@each("name", ["gat", "geom-gcn", "cpgnn", "bp", "ica"])
def test_some_models_count_all_edges_alike(name: str) -> None:
    graph = weighted_graph()
    spec = find_model(name)
    assert (spec.matrix_of(graph).data == 1).all()


@each("name", sorted(MODELS))
def test_equal_weights_are_no_weights(name: str) -> None:
    graph = weighted_graph()
    columns = graph.edge_columns
    assert columns is not None
    # A pair that is listed twice would weigh twice as much.
    upper = sp.triu(graph.adj).tocoo()
    seven = np.full((upper.nnz, 1), 7.0)
    columns = EdgeColumns(*upper.coords, seven, ("amount",), directed=False)
    equal = replace(graph, edge_columns=columns)
    plain = replace(equal, edge_weight=None)
    spec = find_model(name)
    for one, other in zip(
        spec.build_matrices(spec.matrix_of(equal)),
        spec.build_matrices(spec.matrix_of(plain)),
        strict=True,
    ):
        assert (one != other).nnz == 0


# ----------------------------------------------------------------- the ring table


@each("directed", [False, True])
def test_means_of_the_ring_table_weigh(directed: bool) -> None:
    import torch

    graph = weighted_graph(directed=directed)
    recipe = "ego+ring1+ring2+power1+loops2+ring1.sum+ring1.max+degrees"
    recipe += "+out+in_out" if directed else ""
    maker = FeatureBuilder(graph)
    schema = maker.schema(recipe)
    blocks = maker.table(schema, graph.x).blocks
    x = np.asarray(graph.x)
    both = dense_weights(graph, both=True)

    def means(matrix: np.ndarray) -> np.ndarray:
        sums = matrix.sum(1, keepdims=True)
        return np.divide(matrix, sums, out=np.zeros_like(matrix), where=sums > 0)

    ring = exact_rings(graph.adj, hops=2)[1].toarray()
    loops = normalised(both + np.eye(N))
    expected = {
        "ring1": means(both) @ x,
        "ring2": means(ring) @ x,
        "power1": normalised(both) @ x,
        "loops2": loops @ loops @ x,
        "ring1.sum": both @ x,
    }
    if directed:
        along = dense_weights(graph, both=False)
        expected |= {"out": means(along) @ x}
        expected |= {"in_out": means(along.T) @ means(along) @ x}
    for name, values in expected.items():
        np.testing.assert_allclose(blocks[name], values, atol=1e-5, err_msg=name)
    plain = FeatureBuilder(replace(graph, edge_weight=None))
    unweighted = plain.table(schema, graph.x).blocks
    for name in ("ego", "ring2", "ring1.max", "degrees"):
        assert torch.equal(blocks[name], unweighted[name])


# ------------------------------------------------------------------- a fitted model


@each("name", ["h2gcn-2", "gcn", "logistic", "label-propagation"])
def test_a_fit_takes_weights_and_another_graph_brings_its_own(name: str) -> None:
    graph = weighted_graph()
    split = Split([0, 1, 2, 3, 4, 5], [6, 7, 8], [9, 10, 11])
    clf = NodeClassifier(name, random_state=0)
    if name in ("h2gcn-2", "gcn"):
        clf.set_params(epochs=5)
    weighed = clf.fit(graph, split).predict_logits(graph)
    alike = clf.predict_logits(replace(graph, edge_weight=None))
    assert not np.allclose(weighed, alike, atol=1e-4)


def test_a_model_that_takes_no_notice_of_weights_says_so() -> None:
    graph, split = weighted_graph(), Split([0, 1, 2, 3], [4, 5], [6])
    with pytest.warns(H2GCNWarning, match="gat counts all edges alike"):
        NodeClassifier("gat", epochs=2, random_state=0).fit(graph, split)


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_weights_have_the_pattern_of_the_graph_and_mean_one(seed: int) -> None:
    graph = weighted_graph(seed)
    assert isinstance(graph.weights, CSR)
    assert (graph.weights != graph.weights.T).nnz == 0
    assert graph.weights.data.mean() == pytest.approx(1, rel=1e-4)


@each("name", ["logistic", "h2gcn-2", "sgc", "label-propagation"])
@each("directed", [False, True])
def test_reasons_of_a_weighted_graph_sum_up(name: str, directed) -> None:
    graph = weighted_graph(directed=directed)
    split = Split([0, 1, 2, 3, 4, 5], [6, 7, 8], [9, 10, 11])
    clf = NodeClassifier(name, random_state=0)
    if name in ("h2gcn-2", "sgc"):
        clf.set_params(epochs=5)
    if name == "logistic":
        clf.set_params(options={"table": "ego+ring1+ring2+directions+power2+loops1"})
    found = clf.fit(graph, split).explain(graph, 7)
    assert found.exact
    total = sum(term.value for term in found.terms)
    assert total == pytest.approx(found.whole, abs=1e-5)


@each("name", ["h2gcn-1", "logistic"])
def test_new_nodes_of_a_weighted_graph_weigh_too(name: str) -> None:
    graph = weighted_graph()
    split = Split([0, 1, 2, 3, 4, 5], [6, 7, 8], [9, 10, 11])
    clf = NodeClassifier(name, random_state=0)
    if name == "h2gcn-1":
        clf.set_params(epochs=5)
    clf.fit(graph, split)
    amounts = [[5.0], [0.5]]
    grown = graph.with_nodes(
        np.ones((1, 3)), edges=([N, N], [2, 7]), edge_values=amounts
    )
    assert grown.edge_weight == "amount"
    assert grown.weights is not None
    assert grown.weights[N, 2] == pytest.approx(10 * grown.weights[N, 7], rel=1e-4)
    alone, all_nodes = clf.predict_logits(grown, [N]), clf.predict_logits(grown)
    np.testing.assert_allclose(alone, all_nodes[[N]], atol=1e-6)
