"""What models say of their logits as a sum: exact, by part, by column, by node."""

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from h2gcn import Graph
from h2gcn.models import MODELS, ExactSum, NodeModule, build_model
from h2gcn.ring_table import Input, TableInput, TableMaker
from h2gcn.sparse import Operator
from support.cases import each
from support.graphs import one_way, random_adjacency

CLASSES = 3


def features(n: int, seed: int) -> Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(size=(n, 4)).astype(np.float32))


def some_labels(n: int, seed: int) -> Tensor:
    """Return one-hot labels of two nodes in three, zero elsewhere."""
    classes = np.random.default_rng(seed).integers(CLASSES, size=n)
    rows = np.eye(CLASSES, dtype=np.float32)[classes]
    rows[1::3] = 0
    return torch.from_numpy(rows)


def made(
    name: str, adj: sp.csr_array, seed: int, options: dict[str, Any]
) -> tuple[NodeModule, Input, tuple[Operator, ...]]:
    """Return a module with weights drawn by a seed, its input and its operators."""
    torch.manual_seed(seed)
    n = adj.shape[0]
    spec = MODELS[name].given(options)
    x: Input = features(n, seed)
    known = some_labels(n, seed)
    directed = one_way(adj, seed)
    if spec.inputs == "labels":
        x = known
    if spec.inputs == "table":
        graph = Graph(x=x.numpy(), adj=adj, directed=directed, y=np.arange(n) % CLASSES)
        maker = TableMaker(graph)
        recipe = spec.table or options.get("table", spec.options.get("table"))
        x = maker.build(maker.schema(recipe), x.numpy(), "key", known)
    width: int | list[int] = x.shape[1]
    if isinstance(x, TableInput):
        width = [block.shape[1] for block in x.blocks.values()]
    module = build_model(name, width, CLASSES, options)
    matrix = directed if spec.directed else adj
    operators = tuple(
        Operator(made, symmetric=spec.symmetric) for made in spec.operators(matrix)
    )
    with torch.no_grad():
        for weight in module.parameters():  # biases, shifts and gates begin at zero
            weight.add_(0.3 * torch.randn(weight.shape))
        if spec.at_once or spec.inputs == "labels":
            every = torch.arange(n)
            module.initialise(x, operators, every % CLASSES, every)
    return module.eval(), x, operators


NONE = {"activation": "none"}
BY_COLUMN = (
    ("h2gcn-1", NONE),
    ("h2gcn-2", NONE),
    ("h2gcn-k1", NONE),
    ("h2gcn-ns0", NONE),
    ("h2gcn-2", {**NONE, "directed": True}),
    ("h2gcn-1", {**NONE, "labels": True}),
    ("mlp", NONE),
    ("sgc", {}),
    ("logistic", {}),
    ("boosted-trees", {}),
    ("ring-table", {**NONE, "norm": "none"}),
    ("linkx", NONE),
    ("faf", {**NONE, "norm": "none"}),
)
BY_NODE = (
    ("h2gcn-1", {}),
    ("h2gcn-2", {}),
    ("h2gcn-2", {"activation": "elu"}),
    ("h2gcn-1", {"directed": True}),
    ("gpr-gnn", {"power": 4}),
    ("label-propagation", {}),
    ("label-propagation-2hop", {}),
    ("linbp", {}),
    ("linbp", {"echo": False}),
    ("zoobp", {}),
    ("decoupled-smoothing", {}),
    ("decoupled-smoothing", {"variance": "equal"}),
)
BY_BLOCK = (
    ("ring-table", {}),
    ("sign", {}),
    ("fsgnn", {}),
    ("c-ignn", {}),
    ("ring-table", {"gate": False, "norm": "layer", "activation": "elu"}),
)
NO_SUM = (
    ("mlp", {}),
    ("h2gcn-nonlinear", {}),
    ("gcn", {}),
    ("gat", {}),
    ("graphsage", {}),
    ("faf", {}),
    ("linkx", {}),
    ("ring-table", {"layers": 2}),
    ("ring-table", {"join": "sum"}),
    ("cpgnn", {}),
    ("acm-gcn", {}),
    ("bp", {}),
    ("correct-and-smooth", {}),
    ("ica", {}),
)


def name_of(value: object) -> str:
    return str(value).replace(" ", "")


def checked(name: str, options: dict[str, Any], seed: int) -> tuple[ExactSum, int]:
    """Return the sum of a random node of a random graph, once it is known to be one."""
    adj = random_adjacency(seed)
    module, x, operators = made(name, adj, seed, options)
    node = seed % adj.shape[0]
    with torch.no_grad():
        found = module.exact_sum(x, operators, node)
        logits = module(x, operators)[node].numpy()
    assert found is not None
    total = sum((part.values for part in found.parts), np.zeros(CLASSES))
    wanted = np.exp(logits) if found.of == "share" else logits
    scale = max(1.0, *(np.abs(part.values).max() for part in found.parts or ()), 1.0)
    np.testing.assert_allclose(total, wanted, atol=1e-5 * scale, rtol=0)
    for part in found.parts:
        if part.columns is not None:
            np.testing.assert_allclose(
                part.columns.sum(axis=0), part.values, atol=1e-9 * scale
            )
        if part.by_node is not None:
            assert part.nodes is not None
            assert len(part.nodes) == len(np.unique(part.nodes)) == len(part.by_node)
            np.testing.assert_allclose(
                part.by_node.sum(axis=0), part.values, atol=1e-9 * scale
            )
    return found, node


# A graph without an edge has nothing for a table of adjacency rows alone.
SEEDS = st.integers(0, 300).filter(lambda seed: random_adjacency(seed).nnz > 4)


@each(("name", "options"), BY_COLUMN, ids=name_of)
@settings(max_examples=5)
@given(seed=SEEDS)
def test_linear_models_are_sums_over_columns(
    name: str, options: dict[str, Any], seed: int
) -> None:
    found, _ = checked(name, options, seed)
    assert all(p.columns is not None for p in found.parts if p.name != "bias")
    assert "by column" in found.how
    assert "not by column" not in found.how


@each(("name", "options"), BY_NODE, ids=name_of)
@settings(max_examples=5)
@given(seed=SEEDS)
def test_what_is_linear_after_an_embedding_is_a_sum_over_nodes(
    name: str, options: dict[str, Any], seed: int
) -> None:
    found, _ = checked(name, options, seed)
    whole = ("nothing is known: all classes are equal", "how common each class is")
    assert all(p.by_node is not None or p.name in whole for p in found.parts)
    assert all(p.columns is None for p in found.parts)


@each(("name", "options"), BY_BLOCK, ids=name_of)
@settings(max_examples=5)
@given(seed=SEEDS)
def test_one_read_out_of_all_blocks_is_a_sum_over_blocks(
    name: str, options: dict[str, Any], seed: int
) -> None:
    found, _ = checked(name, options, seed)
    assert all(p.columns is None and p.by_node is None for p in found.parts)
    assert [p.name for p in found.parts if p.name] == ["bias"]
    assert "not by column" in found.how


@each(("name", "options"), NO_SUM, ids=name_of)
def test_other_models_do_not_claim_a_sum(name: str, options: dict[str, Any]) -> None:
    module, x, operators = made(name, random_adjacency(3), 3, options)
    assert module.exact_sum(x, operators, 0) is None


# ------------------------------------------------------------------ known by hand

PATH = sp.csr_array(np.diag(np.ones(3), 1) + np.diag(np.ones(3), -1)).astype(np.float32)


def test_h2gcn_has_a_term_for_every_path() -> None:
    module, x, operators = made("h2gcn-2", PATH, 0, {})
    found = module.exact_sum(x, operators, 0)
    assert found is not None
    of = {part.name: part.nodes.tolist() for part in found.parts}
    assert of == {
        "own features": [0],
        "ring 1": [1],
        "ring 2": [2],
        "ring 1 of ring 1": [0, 2],
        "ring 2 of ring 1": [3],
        "ring 1 of ring 2": [1, 3],
        "ring 2 of ring 2": [0],
    }


def test_sgc_splits_by_distance() -> None:
    module, x, operators = made("sgc", PATH, 0, {"power": 2})
    found = module.exact_sum(x, operators, 0)
    assert found is not None
    of = {part.name: part.nodes for part in found.parts}
    assert of["bias"] is None
    assert of["own features"].tolist() == [0]
    assert of["ring 1"].tolist() == [1]
    assert of["ring 2"].tolist() == [2]
    assert len(of) == 4


def test_label_propagation_says_which_labels_it_heard() -> None:
    module, _, operators = made("label-propagation", PATH, 0, {"alpha": 0.5})
    known = torch.zeros(4, CLASSES)
    known[0, 1] = known[3, 2] = 1
    found = module.exact_sum(known, operators, 1)
    assert found is not None
    (part,) = found.parts
    assert part.name == "training labels of other nodes"
    assert part.nodes.tolist() == [0, 3]
    # (I - S/2)^-1 by a dense solver, as the limit has it.
    s = operators[0].scipy.toarray().astype(float)
    limit = np.linalg.inv(np.eye(4) - s / 2)[1, [0, 3]]
    shares = limit / limit.sum()
    np.testing.assert_allclose(part.by_node[0], [0, shares[0], 0], atol=1e-6)
    np.testing.assert_allclose(part.by_node[1], [0, 0, shares[1]], atol=1e-6)
    own = module.exact_sum(known, operators, 0)
    assert own is not None
    assert own.parts[0].name == "its own training label"


def test_decoupled_smoothing_says_which_labels_it_heard() -> None:
    # A square with a tail: two steps from node 4 are 0 and 2, and both are known.
    square = sp.csr_array((5, 5), dtype=np.float32).tolil()
    for u, v in ((0, 1), (1, 2), (2, 3), (3, 0), (3, 4)):
        square[u, v] = square[v, u] = 1
    module, _, operators = made("decoupled-smoothing", square.tocsr(), 0, {})
    known = torch.zeros(5, CLASSES)
    known[0, 1] = known[2, 2] = 1
    found = module.exact_sum(known, operators, 4)
    assert found is not None
    (part,) = found.parts
    assert part.name == "training labels of other nodes"
    assert part.nodes.tolist() == [0, 2]
    np.testing.assert_allclose(part.by_node, [[0, 0.5, 0], [0, 0, 0.5]], atol=1e-6)
    own = module.exact_sum(known, operators, 0)
    assert own is not None
    assert own.parts[0].name == "its own training label"
    np.testing.assert_allclose(own.parts[0].values, [0, 1, 0])


@each("model", ["label-propagation", "decoupled-smoothing"])
def test_a_node_that_no_label_reaches_has_equal_shares(model: str) -> None:
    module, _, operators = made(model, sp.csr_array((4, 4)), 0, {})
    found = module.exact_sum(torch.eye(4, CLASSES), operators, 3)
    assert found is not None
    np.testing.assert_allclose(found.parts[0].values, 1 / 3)


def test_the_bias_of_logistic_is_the_logit_of_mean_columns() -> None:
    adj = random_adjacency(5)
    module, x, _ = made("logistic", adj, 5, {"table": "own+ring1"})
    assert isinstance(x, TableInput)
    found = module.exact_sum(x, (), 0)
    assert found is not None
    means = {name: block.mean(dim=0, keepdim=True) for name, block in x.blocks.items()}
    mean = module(TableInput(means, {}, x.known))[0].numpy()
    np.testing.assert_allclose(found.parts[0].values, mean, atol=1e-5)
