"""Batches: subgraphs by hand, against the whole, and trained on."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from h2gcn import Graph, NodeClassifier, Split
from h2gcn.datasets import GaussianFeatures, generate_graph
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR
from h2gcn.models import MODELS, build_model
from h2gcn.models.h2gcn import H2GCN
from h2gcn.sparse import Operator, Propagation
from h2gcn.training import receptive_field
from h2gcn.training.batches import (
    FullBatch,
    MiniBatches,
    Subgraph,
    make_batches,
    reorder,
    reordering_helps,
)
from support.cases import each
from support.graphs import NAMED
from support.refusals import refused

CPU = torch.device("cpu")
AT_ONCE = {name for name, spec in MODELS.items() if not spec.trained}
PHASED = {"gmnn", "gam"}
WITHOUT = {"mixhop", "correct-and-smooth"} | AT_ONCE | PHASED
"""Models whose logits depend on more than some rows, that have no epochs, or phases."""
BATCHED = [name for name in MODELS if name not in WITHOUT]
ON_GRAPHS = [
    name
    for name, spec in MODELS.items()
    if name in {*BATCHED, *PHASED} and spec.inputs == "features"
]
"""Those that see a part of the graph; of a table, its rows are a batch."""


class Spy(Operator):
    """An operator that remembers which rows were taken, and multiplies nothing."""

    def __init__(self, matrix: CSR) -> None:
        super().__init__(matrix)
        self.taken: list[list[int]] = []

    def take(self, index: NDArray[np.int64]) -> CSR:
        """Take rows, and remember which."""
        self.taken.append(index.tolist())
        return super().take(index)

    def __matmul__(self, dense: Tensor) -> Tensor:
        raise AssertionError("the whole operator was multiplied")


def random_adjacency(n: int, p: float, seed: int) -> CSR:
    upper = np.triu(np.random.default_rng(seed).random((n, n)) < p, 1)
    return CSR((upper | upper.T).astype(np.float32))


def operators_of(name: str, adj: CSR) -> tuple[Operator, ...]:
    spec = MODELS[name]
    return tuple(
        Operator(a, symmetric=spec.symmetric) for a in spec.build_matrices(adj)
    )


def build(name: str, dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(0)
    wanted = {"hidden_channels": 4}
    wanted |= dict.fromkeys(("dropout", "propagation_dropout"), dropout)
    options = {key: v for key, v in wanted.items() if key in MODELS[name].options}
    return build_model(name, 3, 2, options)


def features(n: int, seed: int = 0, *, sparse: bool = False) -> Tensor | Operator:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)).astype(np.float32) * (rng.random((n, 3)) < 0.6)
    return Operator(CSR(x)) if sparse else torch.from_numpy(x)


def logits(model: nn.Module, part: Subgraph) -> Tensor:
    result: Tensor = model(part.x, part.graph)
    return result


# ----------------------------------------------------------- subgraphs by hand


def test_a_subgraph_of_a_path_by_hand() -> None:
    # 0 – 1 – 2 – 3 – 4, one product: node 1 needs itself and its two neighbours.
    path = Spy(NAMED["path"])
    x = torch.arange(5.0)[:, None]
    part = receptive_field(x, [path], np.array([1]), 1, CPU)
    assert path.taken == [[1]]
    assert part.x.tolist() == [[0.0], [1.0], [2.0]]
    assert part.graph.index.tolist() == [1]
    (row,), (among,) = part.graph.rows, part.graph.matrices
    assert row.scipy.toarray().tolist() == [[1, 0, 1]]
    assert among.shape == (3, 3)
    assert among.scipy.nnz == 0  # never multiplied
    assert part.nodes.tolist() == [1]


def test_two_products_take_each_row_once_and_leave_the_last_ones_empty() -> None:
    path = Spy(NAMED["path"])
    part = receptive_field(torch.eye(5), [path], np.array([3, 4]), 2, CPU)
    assert path.taken == [[3, 4], [2]]
    assert part.x.argmax(dim=1).tolist() == [1, 2, 3, 4]
    (among,) = part.graph.matrices
    assert among.scipy.toarray().tolist() == [
        [0, 0, 0, 0],  # node 1 came in last
        [1, 0, 1, 0],
        [0, 1, 0, 1],
        [0, 0, 1, 0],
    ]
    (rows,) = part.graph.rows
    assert rows.scipy.toarray().tolist() == [[0, 1, 0, 1], [0, 0, 1, 0]]


def test_nodes_come_in_any_order_and_repeatedly() -> None:
    star = Spy(NAMED["star"])
    part = receptive_field(torch.eye(5), [star], np.array([2, 0, 2]), 1, CPU)
    assert star.taken == [[0, 2]]
    assert part.graph.index.tolist() == [2, 0, 2]
    (rows,) = part.graph.rows
    leaf, centre = [1, 0, 0, 0, 0], [0, 1, 1, 1, 1]
    assert rows.scipy.toarray().tolist() == [leaf, centre, leaf]


def test_without_a_product_only_the_nodes_themselves_are_taken() -> None:
    spy = Spy(NAMED["K4"])
    part = receptive_field(torch.eye(4), [spy], np.array([2]), 0, CPU)
    assert spy.taken == []
    assert part.x.tolist() == [[0, 0, 1, 0]]
    assert part.graph.rows[0].shape == (1, 1)


def test_sparse_features_stay_sparse() -> None:
    x = Operator(CSR(np.eye(5, dtype=np.float32)))
    part = receptive_field(x, [Operator(NAMED["path"])], np.array([0]), 1, CPU)
    assert isinstance(part.x, Operator)
    assert part.x.scipy.toarray().tolist() == np.eye(5)[:2].tolist()


# ------------------------------------------------------- against the whole graph


@each("name", ON_GRAPHS)
@settings(max_examples=8)
@given(
    n=st.integers(1, 14),
    p=st.floats(0.0, 0.6),
    seed=st.integers(0, 1000),
    size=st.integers(1, 14),
    sparse=st.booleans(),
)
def test_batches_give_the_logits_of_the_whole_graph(
    name: str, n: int, p: float, seed: int, size: int, sparse: bool
) -> None:
    operators = operators_of(name, random_adjacency(n, p, seed))
    x, model = features(n, seed, sparse=sparse), build(name).eval()
    wanted = np.random.default_rng(seed).integers(n, size=n)
    with torch.no_grad():
        whole = model(x, Propagation(operators))
        for first in range(0, n, size):
            index = wanted[first : first + size]
            part = receptive_field(x, operators, index, model.reach, CPU)
            torch.testing.assert_close(
                logits(model, part), whole[index], rtol=1e-5, atol=1e-5
            )


@each("nonlinear", [False, True])
@each("training", [False, True])
@each("final", [(0,), (0, 1), (1,), (0, 1, 2), (2,), (0, 2)], ids=str)
def test_every_design_of_h2gcn(
    final: Sequence[int], training: bool, nonlinear: bool
) -> None:
    adj = random_adjacency(20, 0.15, 3)
    operators = tuple(
        Operator(a, symmetric=True) for a in MODELS["h2gcn-1"].build_matrices(adj)
    )
    torch.manual_seed(0)
    model = H2GCN(
        3,
        2,
        hidden_channels=4,
        rounds=max(final),
        final=final,
        nonlinear=nonlinear,
        dropout=0.0,
    ).train(training)
    x, index = features(20), np.array([4, 17, 0])
    part = receptive_field(x, operators, index, model.reach, CPU)
    torch.testing.assert_close(
        logits(model, part),
        model(x, Propagation(operators))[index],
        rtol=1e-5,
        atol=1e-5,
    )


@each("name", ON_GRAPHS)
def test_what_is_left_out_cannot_matter(name: str) -> None:
    adj, model = random_adjacency(30, 0.05, 1), build(name).eval()
    index = np.array([7])
    part = receptive_field(
        torch.arange(30.0)[:, None], operators_of(name, adj), index, model.reach, CPU
    )
    outside = np.setdiff1d(np.arange(30), part.x[:, 0].numpy().astype(int))
    assert outside.size
    x = features(30)
    other = x.clone()
    other[outside] = torch.nan  # would spread through any product
    operators = operators_of(name, adj)
    changed = receptive_field(other, operators, index, model.reach, CPU)
    torch.testing.assert_close(
        logits(model, changed),
        model(x, Propagation(operators))[index],
        rtol=1e-5,
        atol=1e-5,
    )


@each("name", sorted({*ON_GRAPHS} - PHASED))
@each("sparse", [False, True])
def test_one_batch_of_all_training_nodes_has_the_gradient_of_the_whole(
    name: str, sparse: bool
) -> None:
    n = 25
    operators = operators_of(name, random_adjacency(n, 0.12, 5))
    x, y = features(n, sparse=sparse), torch.arange(n) % 2
    split = Split(np.arange(12), np.arange(12, 20), np.arange(20, n))
    model = build(name).train()
    gradients = []
    feeds = [FullBatch(x, operators, split, CPU)]
    feeds += [make_batches(model, x, operators, split, size, 7) for size in (12, 25)]
    for feed in feeds:
        model.zero_grad()
        (part,) = feed.steps(1)
        functional.cross_entropy(logits(model, part), y[part.nodes]).backward()
        gradients.append([weight.grad.clone() for weight in model.parameters()])
    for batched in gradients[1:]:
        for one, other in zip(gradients[0], batched, strict=True):
            torch.testing.assert_close(other, one, rtol=1e-5, atol=1e-5)


# ------------------------------------------------------------------- epochs


def batches(split: Split, size: int, seed: int = 0, reach: int = 1) -> MiniBatches:
    operators = [Operator(random_adjacency(40, 0.1, 0))]
    return MiniBatches(features(40), operators, split, size, reach, CPU, seed)


SPLIT = Split(np.arange(3, 26), np.arange(26, 36), np.arange(3))


def test_an_epoch_sees_each_training_node_once() -> None:
    for size, epoch in product([1, 5, 22, 23, 40], [1, 2]):
        nodes = [part.nodes for part in batches(SPLIT, size).steps(epoch)]
        assert sorted(np.concatenate(nodes)) == SPLIT.train.tolist()
        sizes = [len(batch) for batch in nodes]
        assert len(sizes) == -(-23 // size)
        assert max(sizes) <= size
        assert max(sizes) - min(sizes) <= 1


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        parts = batches(SPLIT, 4, seed).steps(epoch)
        return np.concatenate([part.nodes for part in parts]).tolist()

    feed = batches(SPLIT, 4)
    orders = [order(0, epoch) for epoch in (1, 2, 3)]
    # What came before an epoch does not count: a training may begin anywhere.
    later = np.concatenate([part.nodes for part in feed.steps(3)]).tolist()
    assert later == orders[2]
    assert order(0, 1) == orders[0]
    assert orders[0] != orders[1] != orders[2]
    assert order(1, 1) != orders[0]


def test_validation_nodes_come_in_order() -> None:
    for size in (1, 4, 10, 40):
        seen = [part.nodes.tolist() for part in batches(SPLIT, size).validation()]
        assert [node for nodes in seen for node in nodes] == SPLIT.val.tolist()
        assert max(map(len, seen)) == min(size, 10)


def test_training_takes_no_more_than_the_rows_that_it_needs() -> None:
    adj = NAMED["disconnected"]  # 0 – 1 – 2 and 3 – 4 – 5
    spy = Spy(adj)
    split = Split(np.array([0]), np.array([3]), np.array([]))
    feed = MiniBatches(torch.eye(6), [spy], split, 1, 2, CPU, 0)
    parts = [*feed.steps(1), *feed.validation()]
    assert spy.taken == [[0], [1], [3], [4]]
    assert [part.x.shape for part in parts] == [(3, 6), (3, 6)]


# ------------------------------------------------------------- the classifier


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Return a graph whose neighbours mostly differ in class."""
    return generate_graph(
        n_nodes=400,
        n_classes=3,
        homophily=0.1,
        features=GaussianFeatures(n_features=8),
        seed=0,
    )


def test_a_classifier_learns_from_batches(graph: Graph) -> None:
    whole, batched = (
        NodeClassifier(
            "h2gcn-1", epochs=25, hidden_channels=16, batch_size=size, random_state=0
        ).fit(graph)
        for size in (None, 64)
    )
    guess = np.bincount(graph.y).max() / graph.n_nodes
    scores = [clf.score(graph, clf.split_.test) for clf in (whole, batched)]
    assert scores[1] > guess + 0.3
    assert scores[1] > scores[0] - 0.1
    assert batched.history_[-1].loss < batched.history_[0].loss / 2


def test_a_batch_larger_than_the_training_set_is_one_batch(graph: Graph) -> None:
    settings = {"epochs": 3, "dropout": 0.0, "random_state": 0}
    whole = NodeClassifier("h2gcn-1", **settings).fit(graph)
    batched = NodeClassifier("h2gcn-1", batch_size=400, **settings).fit(graph)
    for one, other in zip(whole.history_, batched.history_, strict=True):
        assert other.loss == pytest.approx(one.loss, abs=1e-5)


def test_a_training_on_batches_can_be_resumed(graph: Graph, tmp_path: Path) -> None:
    settings = {"batch_size": 50, "random_state": 0, "hidden_channels": 8}
    whole = NodeClassifier("h2gcn-1", epochs=4, **settings).fit(graph)
    saved = tmp_path / "state"
    NodeClassifier("h2gcn-1", epochs=2, **settings).fit(graph, checkpoint=saved)
    later = NodeClassifier("h2gcn-1", epochs=4, **settings)
    later.fit(graph, checkpoint=saved, resume=True)
    assert later.history_ == whole.history_
    bits = whole.predict_logits(graph).tobytes()
    assert later.predict_logits(graph).tobytes() == bits


# ---------------------------------------------------------------- mistakes


def test_batch_sizes_that_are_refused(graph: Graph) -> None:
    big = Graph(x=np.eye(2000), adj=sp.csr_array((2000, 2000)), y=np.arange(2000) % 2)
    for large, nodes in ((graph, "400"), (big, "2,000")):
        rule = f"batch_size must be at most the graph's {nodes} nodes, got 5,000"
        with pytest.raises(InputError, match=rule):
            NodeClassifier(batch_size=5000).fit(large)
    for size in (0, -3, 2.5, "8", True):
        with refused(param="batch_size", value=size):
            NodeClassifier(batch_size=size).fit(graph)  # type: ignore[arg-type]


def test_without_batches_an_epoch_is_one_step_always_the_same() -> None:
    operators = [Operator(NAMED["path"])]
    split = Split(np.array([0, 2]), np.array([1]), np.array([]))
    feed = FullBatch(torch.eye(5), operators, split, CPU)
    (one,), (other,) = feed.steps(1), feed.steps(2)
    assert one is other
    assert one.nodes.tolist() == [0, 2]


# ------------------------------------------------------------------------- renumbering


def test_neighbours_come_close_and_nodes_keep_their_names() -> None:
    rng = np.random.default_rng(2)
    order = rng.permutation(40)
    path = sp.coo_array((np.ones(39), (order[:-1], order[1:])), shape=(40, 40))
    adj = CSR((path + path.T).astype(np.float32))
    x = torch.arange(40.0)[:, None]
    moved, (operator,), place = reorder(x, [Operator(adj, symmetric=True)])
    assert isinstance(operator, Operator)
    assert isinstance(moved, Tensor)
    rows, columns = operator.scipy.nonzero()
    assert np.abs(rows - columns).max() == 1, "a path is walked from end to end"
    assert torch.equal(moved[place, 0], torch.arange(40.0))
    back = operator.scipy.toarray()[np.ix_(place, place)]
    assert np.array_equal(back, adj.toarray())


def test_only_what_gains_by_it_is_renumbered(monkeypatch: pytest.MonkeyPatch) -> None:
    adj = CSR(sp.diags_array([np.ones(99), np.ones(99)], offsets=[-1, 1]))
    ring = Operator(adj.astype(np.float32), symmetric=True)
    x = torch.ones(100, 2)
    assert reordering_helps(x, [ring])
    assert reordering_helps(Operator(CSR(np.ones((100, 2), np.float32))), [ring])
    assert not reordering_helps(x, []), "a model without a graph"
    assert not reordering_helps(x, [Operator(ring.scipy)]), "not symmetric"
    full = Operator(CSR(np.ones((100, 100), dtype=np.float32)), symmetric=True)
    assert not reordering_helps(x, [ring, full]), "every row is everywhere"
    monkeypatch.setattr("h2gcn.training.batches.MAX_REORDERED_ENTRIES", 100)
    assert not reordering_helps(x, [ring]), "too large for a second copy"


@each("dropout", [0.0, 0.5])
def test_training_with_other_numbers_is_the_same_training(
    dropout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = generate_graph(n_nodes=300, homophily=0.3, seed=5)
    setting = {"epochs": 10, "dropout": dropout, "random_state": 2, "model": "h2gcn-2"}
    asked = []

    def always(x: object, operators: object) -> bool:
        asked.append((x, operators))
        return True

    monkeypatch.setattr("h2gcn.training.batches.reordering_helps", always)
    moved = NodeClassifier(**setting).fit(graph, 0)
    assert asked
    monkeypatch.setattr("h2gcn.training.batches.reordering_helps", lambda *_: False)
    plain = NodeClassifier(**setting).fit(graph, 0)
    np.testing.assert_allclose(
        moved.predict_logits(graph), plain.predict_logits(graph), atol=2e-5
    )
    losses = [[epoch.loss for epoch in c.history_] for c in (moved, plain)]
    np.testing.assert_allclose(*losses, atol=1e-5)
