"""H2GCN along the edges and against them, and with labels of its rings."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import shortest_path
from torch import Tensor

from h2gcn import Graph, NodeClassifier
from h2gcn.exceptions import InputError
from h2gcn.models import H2GCN, MODELS
from h2gcn.models.h2gcn import directed_ring_operators, ring_operators
from h2gcn.ring_table import TableInput, TableMaker
from h2gcn.sparse import Operator
from models.oracles import ORACLES, Dense, over_roots, relu, ring
from support.cases import each
from support.graphs import DIRECTED, NAMED, one_way
from support.models import batch_logits, logits, settings, weights_of
from support.refusals import refused

Matrix = NDArray[np.float64]
FEATURES, CLASSES, WIDTH = 6, 3, 4


def random_adjacency(n: int = 12, p: float = 0.2, seed: int = 5) -> sp.csr_array:
    upper = np.triu(np.random.default_rng(seed).random((n, n)) < p, 1)
    return sp.csr_array((upper | upper.T).astype(np.float32))


GRAPHS = {**NAMED, "random": random_adjacency()}
VARIANTS = {
    "h2gcn-1": {},
    "h2gcn-2": {"rounds": 2, "final": (0, 1, 2)},
    "h2gcn-ns0": {"self_loops": True, "final": (1,)},
    "h2gcn-n1": {"hops": (2,)},
    "h2gcn-k1": {"rounds": 2, "final": (0, 2)},
    "h2gcn-nonlinear": {"rounds": 2, "final": (0, 1, 2), "nonlinear": True},
}


def operators_of(name: str, adj: sp.csr_array) -> tuple[Operator, ...]:
    return tuple(Operator(a, symmetric=True) for a in MODELS[name].operators(adj))


def features(n: int, seed: int = 2) -> Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(size=(n, FEATURES)).astype(np.float32))


def assert_same(found: Tensor, expected: Matrix) -> None:
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-5, atol=1e-5)


# --------------------------------------------------------------------- directions


def directed_oracle(name: str, module: H2GCN, x: Matrix, adj: sp.csr_array) -> Matrix:
    """Return the logits with rings along the edges and against them, in double."""
    variant = {"hops": (1, 2), "rounds": 1, "final": (0, 1)} | VARIANTS[name]
    w, neighborhoods = weights_of(module), []
    for hop in variant["hops"]:
        a = ring(adj.toarray(), hop) + variant.get("self_loops", 0) * np.eye(len(x))
        neighborhoods += [over_roots(a), over_roots(a).T]
    rounds = [relu(x @ w["embedding"])]
    for k in range(variant["rounds"]):
        r = np.hstack([a @ rounds[-1] for a in neighborhoods])
        if variant.get("nonlinear"):
            r = relu(np.hstack([rounds[-1], r]) @ w[f"round_embeddings.{k}"])
        rounds.append(r)
    return np.hstack([rounds[k] for k in variant["final"]]) @ w["classifier"]


def directed_operators(name: str, adj: sp.csr_array) -> tuple[Operator, ...]:
    spec = MODELS[name].given({"directed": True})
    assert spec.directed
    assert not spec.symmetric
    return tuple(Operator(a) for a in spec.operators(adj))


def test_directed_rings_by_hand() -> None:
    # 0 ⇄ 1 → 3 → 4, 0 → 2 → 3 → 0; 5 is alone.
    one, back, two, far = directed_ring_operators(DIRECTED)
    assert (one.toarray() > 0).tolist() == (DIRECTED.toarray() > 0).tolist()
    assert np.argwhere(two.toarray()).tolist() == [
        [0, 3],
        [1, 2],
        [1, 4],
        [2, 0],
        [2, 4],
        [3, 1],
        [3, 2],
    ]
    assert two.toarray()[1, 2] == pytest.approx(0.5), "two from 1, two to 2"
    assert two.toarray()[0, 3] == pytest.approx(1.0), "one from 0, one to 3"
    np.testing.assert_array_equal(back.toarray(), one.toarray().T)
    np.testing.assert_array_equal(far.toarray(), two.toarray().T)
    for matrix in (one, back, two, far):
        assert not matrix.diagonal().any(), "0 and 1 come back to themselves"
        assert matrix.dtype == np.float32


@each("name", VARIANTS)
@each("training", [False, True])
def test_directed_logits_are_their_formula(name: str, training: bool) -> None:
    torch.manual_seed(1)
    sizes = {"hidden_channels": WIDTH, "dropout": 0.0}
    module = H2GCN(FEATURES, CLASSES, **sizes, directed=True, **MODELS[name].fixed)
    module.train(training)
    x, operators = features(6), directed_operators(name, DIRECTED)
    expected = directed_oracle(name, module, x.double().numpy(), DIRECTED)
    nodes = [5, 0, 3]
    assert_same(logits(module, x, operators), expected)
    assert_same(logits(module, x, operators, nodes), expected[nodes])
    assert_same(batch_logits(module, x, operators, nodes), expected[nodes])


@each("adj", GRAPHS.values(), ids=GRAPHS)
def test_without_directions_both_rings_are_the_papers(adj: sp.csr_array) -> None:
    plain = ring_operators(adj)
    doubled = directed_ring_operators(adj)
    for number, matrix in enumerate(doubled):
        np.testing.assert_allclose(
            matrix.toarray(), plain[number // 2].toarray(), rtol=1e-6
        )


def test_the_option_is_off_unless_it_is_given() -> None:
    spec = MODELS["h2gcn-2"]
    for options in (None, {}, {"directed": False}, {"dropout": 0.1}):
        assert spec.given(options) is spec
    assert not spec.options["directed"]
    assert "directed" not in MODELS["mlp"].options
    assert "directed" not in repr(H2GCN(2, 2))
    assert repr(H2GCN(2, 2, directed=True)).endswith(", directed=True)")


def test_a_directed_module_names_what_it_wants() -> None:
    message = r"H2GCN with hops \(1, 2\), directed, takes 4 operators, got 2"
    with pytest.raises(ValueError, match=message):
        logits(H2GCN(2, 2, directed=True), torch.eye(2), [Operator(NAMED["path"])] * 2)


@each("batch_size", [None, 7])
def test_a_directed_h2gcn_from_fit_to_file(
    small_graph: Graph, tmp_path: Path, batch_size: int | None
) -> None:
    graph = replace(small_graph, directed=one_way(small_graph.adj, 0))
    params = {"epochs": 3, "random_state": 0, "scaling": "none", "dropout": 0.0}
    params |= {"batch_size": batch_size}
    plain = NodeClassifier("h2gcn-2", **params).fit(graph)
    clf = NodeClassifier("h2gcn-2", options={"directed": True}, **params).fit(graph)
    whole = clf.predict_logits(graph)
    x = graph.x.astype(float)
    expected = directed_oracle("h2gcn-2", clf.module_, x, graph.directed)
    np.testing.assert_allclose(whole, expected, rtol=1e-4, atol=1e-4)
    # One after the other on one graph: each has its own operators.
    weights, given = weights_of(plain.module_), settings("h2gcn-2", {})
    parts = {"x": x, "adj": graph.adj.toarray(), "directed": None, "known": None}
    expected = ORACLES["h2gcn-2"](weights, Dense(**parts), given)
    found = plain.predict_logits(graph)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    clf.save(tmp_path / "m")
    # Batches are not saved: the whole graph at once adds in another order.
    loaded = NodeClassifier.load(tmp_path / "m").predict_logits(graph)
    np.testing.assert_allclose(loaded, whole, rtol=1e-4, atol=1e-4)
    assert batch_size or loaded.tobytes() == whole.tobytes()


@each(("name", "value"), [("ring_cap", 4), ("ring_store", "x")])
def test_directed_rings_are_whole_and_in_memory(
    small_graph: Graph, name: str, value: object
) -> None:
    clf = NodeClassifier("h2gcn-1", options={"directed": True}, **{name: value})
    with refused(param=name, words="'directed'"):
        clf.fit(small_graph)


def test_directed_rings_are_held_to_the_limit(small_graph: Graph) -> None:
    params = {"epochs": 1, "random_state": 0, "options": {"directed": True}}
    with pytest.raises(
        InputError, match=r"will not fit in memory: .* the limit is 1 by"
    ):
        NodeClassifier("h2gcn-1", memory_limit=1e-9, **params).fit(small_graph)
    NodeClassifier("h2gcn-1", memory_limit=1.0, **params).fit(small_graph)


# --------------------------------------------------------------- labels in its rings


def table_of(adj: sp.csr_array, y: NDArray[np.int64], train: list[int]) -> TableInput:
    """Return own features and the labels of some nodes in rings 1 and 2."""
    n = adj.shape[0]
    graph = Graph(x=features(n).numpy(), adj=adj, y=y, classes=np.arange(CLASSES))
    known = torch.zeros(n, CLASSES)
    known[train, torch.from_numpy(y[train])] = 1
    maker = TableMaker(graph)
    return maker.build(
        maker.schema(MODELS["h2gcn-2"].given({"labels": True}).table),
        graph.x,
        "x",
        known,
    )


def with_labels(dropout: float = 0.5) -> H2GCN:
    torch.manual_seed(0)
    widths = (FEATURES, CLASSES + 1, CLASSES + 1)
    return H2GCN(widths, CLASSES, hidden_channels=WIDTH, dropout=dropout, labels=True)


def test_labels_in_rings_are_added_to_what_the_paper_computes() -> None:
    adj = random_adjacency()
    y, train = np.arange(12) % CLASSES, [0, 2, 3, 7, 8]
    module, operators = with_labels().eval(), operators_of("h2gcn-2", adj)
    table = table_of(adj, y, train)
    whole = logits(module, table, operators)
    paper = logits(module, table.blocks["own"], operators)
    weights = module.of_labels.detach().numpy()
    distance = shortest_path(adj, unweighted=True)
    expected = np.zeros((12, CLASSES))
    for hop in (1, 2):
        for node in range(12):
            near = [other for other in train if distance[node, other] == hop]
            row = np.append(np.bincount(y[near], minlength=CLASSES), 0.0)
            row[:CLASSES] /= max(len(near), 1)
            row[CLASSES] = np.log1p(len(near))
            first = (hop - 1) * (CLASSES + 1)
            expected[node] += row @ weights[first : first + CLASSES + 1]
    found = (whole - paper).detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    some = logits(module, table, operators, [11, 0, 5])
    torch.testing.assert_close(some, whole[[11, 0, 5]])


def test_a_nodes_own_label_does_not_change_what_is_said_of_it() -> None:
    adj, train = random_adjacency(p=0.4), list(range(9))
    y = np.arange(12) % CLASSES
    module, operators = with_labels().eval(), operators_of("h2gcn-2", adj)
    for node in train:
        other = y.copy()
        other[node] = (y[node] + 1) % CLASSES
        one, two = (
            logits(module, table_of(adj, labels, train), operators)
            for labels in (y, other)
        )
        assert torch.equal(one[node], two[node])
    assert not torch.equal(one, two)


def test_labels_are_off_by_default_and_none_of_mlps_options() -> None:
    assert MODELS["h2gcn-1"].options["labels"] is False
    assert "labels" not in MODELS["mlp"].options
    assert MODELS["h2gcn-1"].given({"labels": True}).inputs == "table"
    assert MODELS["h2gcn-s1"].given({"labels": True}).table == "own+labels.ring1"
    assert [name for name, _ in H2GCN(2, 2).named_parameters()] == [
        "embedding",
        "classifier",
    ]


def test_with_labels_it_is_trained_saved_and_loaded(tmp_path: Path) -> None:
    adj, y = random_adjacency(30, 0.1), np.arange(30) % CLASSES
    graph = Graph(x=features(30).numpy(), adj=adj, y=y)
    options = {"labels": True}
    clf = NodeClassifier("h2gcn-1", epochs=3, options=options, random_state=0)
    clf.fit(graph).save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    whole = clf.predict_logits(graph)
    assert loaded.predict_logits(graph).tobytes() == whole.tobytes()
    np.testing.assert_allclose(
        clf.move(batch_size=7).predict_logits(graph), whole, rtol=1e-5, atol=1e-5
    )
