"""Batches: subgraphs by hand, against the whole graph, and trained on."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings, strategies as st
from torch.nn import functional

from h2gcn import Graph, NodeClassifier, Split
from h2gcn.datasets import GaussianFeatures, generate_graph
from h2gcn.graph import CSR
from h2gcn.models import MODELS, build_model
from h2gcn.sparse import Operator, Propagation
from h2gcn.training import receptive_field
from h2gcn.training.batches import FullBatch, MiniBatches, reorder, reordering_helps
from support.graphs import NAMED, random_adjacency
from support.refusals import refused

CPU = torch.device("cpu")
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


class Spy(Operator):
    """An operator that records which rows are taken, and cannot be multiplied."""

    def __init__(self, matrix):
        super().__init__(matrix)
        self.taken = []

    def take(self, index):
        self.taken.append(index.tolist())
        return super().take(index)

    def __matmul__(self, dense):
        raise AssertionError("the whole operator was multiplied")


def operators_of(name, adj):
    spec = MODELS[name]
    return tuple(
        Operator(a, symmetric=spec.symmetric) for a in spec.build_matrices(adj)
    )


def build(name):
    torch.manual_seed(0)
    wanted = {"hidden_channels": 4, "dropout": 0.0, "input_dropout": 0.0}
    wanted |= {"propagation_dropout": 0.0}
    wanted |= {"norm": "layer"}  # batch norm takes statistics of all nodes
    options = {key: v for key, v in wanted.items() if key in MODELS[name].options}
    return build_model(name, 3, 2, options)


def features(n, seed=0, *, sparse=False):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)).astype(np.float32) * (rng.random((n, 3)) < 0.6)
    return Operator(CSR(x)) if sparse else torch.from_numpy(x)


ON_GRAPHS = [
    name
    for name, spec in MODELS.items()
    if spec.inputs == "features" and build(name).receptive_field is not None
]


def test_a_subgraph_has_the_rows_that_its_products_need():
    path = Spy(NAMED["path"])  # 0 – 1 – 2 – 3 – 4
    part = receptive_field(torch.arange(5.0)[:, None], [path], np.array([1]), 1, CPU)
    assert path.taken == [[1]]
    assert part.x[:, 0].tolist() == [0.0, 1.0, 2.0]
    assert part.graph.index.tolist() == [1]
    assert dense(part.graph.rows) == [[1, 0, 1]]
    assert dense(part.graph.matrices) == [[0, 0, 0]] * 3  # never multiplied

    path = Spy(NAMED["path"])
    part = receptive_field(torch.eye(5), [path], np.array([3, 4]), 2, CPU)
    assert path.taken == [[3, 4], [2]]  # each row once
    assert part.x.argmax(dim=1).tolist() == [1, 2, 3, 4]
    last = [0, 0, 0, 0]  # node 1 is reached last
    inner = [[1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]]
    assert dense(part.graph.matrices) == [last, *inner]
    assert dense(part.graph.rows) == [[0, 1, 0, 1], [0, 0, 1, 0]]

    star = Spy(NAMED["star"])  # nodes come in any order and repeatedly
    part = receptive_field(torch.eye(5), [star], np.array([2, 0, 2]), 1, CPU)
    leaf, center = [1, 0, 0, 0, 0], [0, 1, 1, 1, 1]
    assert star.taken == [[0, 2]]
    assert part.graph.index.tolist() == [2, 0, 2]
    assert dense(part.graph.rows) == [leaf, center, leaf]

    k4 = Spy(NAMED["K4"])  # without a product, the nodes themselves
    part = receptive_field(Operator(CSR(np.eye(4))), [k4], np.array([2]), 0, CPU)
    assert k4.taken == []
    assert dense([part.x]) == [[0, 0, 1, 0]]  # sparse features stay sparse


def dense(operators):
    (operator,) = operators
    return operator.scipy.toarray().tolist()


@settings(max_examples=8)
@given(
    n=st.integers(1, 14),
    p=st.floats(0.0, 0.6),
    seed=st.integers(0, 1000),
    size=st.integers(1, 14),
    sparse=st.booleans(),
)
def test_batches_give_the_logits_of_the_whole_graph(n, p, seed, size, sparse):
    for name in ON_GRAPHS:
        operators = operators_of(name, random_adjacency(seed, n, p))
        x, model = features(n, seed, sparse=sparse), build(name).eval()
        wanted = np.random.default_rng(seed).integers(n, size=n)
        with torch.no_grad():
            whole = model(x, Propagation(operators))
            for first in range(0, n, size):
                index, hops = wanted[first : first + size], model.receptive_field
                part = receptive_field(x, operators, index, hops, CPU)
                logits = model(part.x, part.graph)
                torch.testing.assert_close(logits, whole[index], **CLOSE, msg=name)


def test_nodes_outside_the_receptive_field_cannot_matter():
    adj, index = random_adjacency(1, 30, 0.05), np.array([7])
    for name in ON_GRAPHS:
        model, operators = build(name).eval(), operators_of(name, adj)
        hops, numbers = model.receptive_field, torch.arange(30.0)[:, None]
        inside = receptive_field(numbers, operators, index, hops, CPU).x[:, 0]
        outside = np.setdiff1d(np.arange(30), inside.numpy().astype(int))
        assert outside.size
        x = features(30)
        spoiled = x.clone()
        spoiled[outside] = torch.nan  # would spread through any product
        part = receptive_field(spoiled, operators, index, hops, CPU)
        expected = model(x, Propagation(operators))[index]
        torch.testing.assert_close(model(part.x, part.graph), expected, **CLOSE)


def test_a_batch_of_all_training_nodes_has_the_gradient_of_the_whole():
    n, split = 25, Split(np.arange(12), np.arange(12, 20), np.arange(20, 25))
    y = torch.arange(n) % 2
    for name, sparse in product(ON_GRAPHS, (False, True)):
        operators = operators_of(name, random_adjacency(5, n, 0.12))
        x, model = features(n, sparse=sparse), build(name).train()
        gradients = []
        for size in (None, 12, 25):
            model.zero_grad()
            batches = FullBatch(x, operators, split)
            if size is not None:
                hops = model.receptive_field
                batches = MiniBatches(x, operators, split, size, hops, 7)
            (part,) = batches.steps(1)
            logits = model(part.x, part.graph)
            functional.cross_entropy(logits, y[part.nodes]).backward()
            gradients.append([w.grad for w in model.parameters() if w.grad is not None])
        for batched in gradients[1:]:
            for one, other in zip(gradients[0], batched, strict=True):
                torch.testing.assert_close(other, one, **CLOSE, msg=name)


SPLIT = Split(np.arange(3, 26), np.arange(26, 36), np.arange(3))


def batches(size, seed=0):
    operators = [Operator(random_adjacency(0, 40, 0.1))]
    return MiniBatches(features(40), operators, SPLIT, size, 1, seed)


def test_an_epoch_sees_each_training_node_once_in_an_order_of_seed_and_epoch():
    for size, epoch in product([1, 5, 22, 23, 40], [1, 2]):
        nodes = [part.nodes for part in batches(size).steps(epoch)]
        assert sorted(np.concatenate(nodes)) == SPLIT.train.tolist()
        sizes = [len(batch) for batch in nodes]
        assert len(sizes) == -(-23 // size)
        assert max(sizes) <= size
        assert max(sizes) - min(sizes) <= 1
        seen = [part.nodes.tolist() for part in batches(size).validation()]
        assert [node for nodes in seen for node in nodes] == SPLIT.val.tolist()
        assert max(map(len, seen)) == min(size, 10)

    def order(seed, epoch):
        parts = batches(4, seed).steps(epoch)
        return np.concatenate([part.nodes for part in parts]).tolist()

    assert order(0, 1) == order(0, 1)
    assert len({tuple(order(*case)) for case in ((0, 1), (0, 2), (0, 3), (1, 1))}) == 4


def test_training_takes_only_the_rows_that_it_needs():
    spy = Spy(NAMED["disconnected"])  # 0 – 1 – 2 and 3 – 4 – 5
    split = Split(np.array([0]), np.array([3]), np.array([]))
    feed = MiniBatches(torch.eye(6), [spy], split, 1, 2, 0)
    parts = [*feed.steps(1), *feed.validation()]
    assert spy.taken == [[0], [1], [3], [4]]
    assert [part.x.shape for part in parts] == [(3, 6), (3, 6)]
    whole = FullBatch(torch.eye(5), [Operator(NAMED["path"])], split)
    assert next(whole.steps(1)) is next(whole.steps(2))
    assert next(whole.steps(1)).nodes.tolist() == [0]


@pytest.fixture(scope="module")
def graph():
    """Return a graph whose neighbors mostly differ in class."""
    gaussian = GaussianFeatures(n_features=8)
    options = {"n_classes": 3, "homophily": 0.1, "features": gaussian, "seed": 0}
    return generate_graph(n_nodes=400, **options)


def test_a_classifier_learns_from_batches(graph):
    params = {"hidden_channels": 16, "random_state": 0}
    whole, batched = (
        NodeClassifier("h2gcn-1", epochs=25, batch_size=size, **params).fit(graph)
        for size in (None, 64)
    )
    scores = [clf.score(graph, clf.split_.test) for clf in (whole, batched)]
    assert scores[1] > np.bincount(graph.y).max() / graph.n_nodes + 0.3
    assert scores[1] > scores[0] - 0.1
    assert batched.history_[-1].loss < batched.history_[0].loss / 2
    # A batch larger than the training set is one batch of all.
    params |= {"epochs": 3, "dropout": 0.0}
    losses = (
        [epoch.loss for epoch in clf.fit(graph).history_]
        for clf in (
            NodeClassifier("h2gcn-1", batch_size=size, **params) for size in (None, 400)
        )
    )
    np.testing.assert_allclose(*losses, atol=1e-5)


def test_batch_sizes_that_are_refused(graph):
    big = Graph(x=np.eye(2000), adj=sp.csr_array((2000, 2000)), y=np.arange(2000) % 2)
    for large, nodes in ((graph, "400"), (big, "2,000")):
        with refused(words=f"at most the graph's {nodes} nodes, got 5,000"):
            NodeClassifier(batch_size=5000).fit(large)
    for size in (0, -3, 2.5, "8", True):
        with refused(param="batch_size", value=size):
            NodeClassifier(batch_size=size).fit(graph)
    for model, words in (
        ("linbp", "it has no epochs"),
        ("correct-and-smooth", "depends on all nodes"),
        ("gmnn", "it learns from all nodes"),
    ):
        with refused(param="batch_size", words=words):
            NodeClassifier(model, batch_size=8).fit(graph)


def test_reordering_brings_neighbors_close():
    order = np.random.default_rng(2).permutation(40)
    path = sp.coo_array((np.ones(39), (order[:-1], order[1:])), shape=(40, 40))
    adj = CSR((path + path.T).astype(np.float32))
    numbers = torch.arange(40.0)[:, None]
    x, (operator,), position = reorder(numbers, [Operator(adj, symmetric=True)])
    rows, columns = operator.scipy.nonzero()
    assert np.abs(rows - columns).max() == 1, "a path is walked from end to end"
    assert torch.equal(x[position, 0], torch.arange(40.0))
    back = operator.scipy.toarray()[np.ix_(position, position)]
    assert np.array_equal(back, adj.toarray())


def test_only_graphs_that_gain_are_reordered(monkeypatch):
    adj = CSR(sp.diags_array([np.ones(99), np.ones(99)], offsets=[-1, 1]))
    ring, x = Operator(adj, symmetric=True), torch.ones(100, 2)
    full = Operator(CSR(np.ones((100, 100), dtype=np.float32)), symmetric=True)
    assert reordering_helps(x, [ring])
    assert reordering_helps(Operator(CSR(np.ones((100, 2), np.float32))), [ring])
    assert not reordering_helps(x, []), "a model without a graph"
    assert not reordering_helps(x, [Operator(ring.scipy)]), "not symmetric"
    assert not reordering_helps(x, [ring, full]), "neighbors are everywhere"
    monkeypatch.setattr("h2gcn.training.batches.MAX_REORDERED_ENTRIES", 100)
    assert not reordering_helps(x, [ring]), "too large for a second copy"


def test_training_on_reordered_nodes_is_the_same_training(monkeypatch):
    graph = generate_graph(n_nodes=300, homophily=0.3, seed=5)
    for model, dropout in (("h2gcn-2", 0.0), ("h2gcn-2", 0.5), ("gcn", 0.0)):
        params = {"epochs": 10, "dropout": dropout, "random_state": 2}
        fits = []
        for helps in (True, False):
            monkeypatch.setattr(
                "h2gcn.training.batches.reordering_helps", lambda *_, helps=helps: helps
            )
            fits.append(NodeClassifier(model, **params).fit(graph, 0))
        losses = [[epoch.loss for epoch in clf.history_] for clf in fits]
        np.testing.assert_allclose(*losses, atol=1e-5)
        logits = [clf.predict_logits(graph) for clf in fits]
        np.testing.assert_allclose(*logits, atol=2e-5)
