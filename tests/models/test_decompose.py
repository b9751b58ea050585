"""Exact sums: of every model, of H2GCN by path in numpy, and known by hand."""

from itertools import product

import numpy as np
import pytest
import torch

from h2gcn.features import FeatureTable
from h2gcn.models import MODELS
from h2gcn.training import receptive_field
from support.cases import each
from support.graphs import GRAPHS, NAMED, adjacency, make_graph
from support.models import (
    decompose,
    known_labels,
    logits,
    make,
    propagation,
    weights_of,
)

pytestmark = pytest.mark.filterwarnings("ignore::h2gcn.exceptions.H2GCNWarning")
CLASSES = 3
BY_COLUMN, BY_NODE, BY_BLOCK = "column", "node", "block"
SPLIT = {
    **dict.fromkeys((n for n in MODELS if n.startswith("h2gcn")), BY_NODE),
    "h2gcn-nonlinear": None,
    "sgc": BY_COLUMN,
    "gpr-gnn": BY_NODE,
    "logistic": BY_COLUMN,
    "boosted-trees": BY_COLUMN,
    **dict.fromkeys(("ring-table", "sign", "c-ignn"), BY_BLOCK),
    **dict.fromkeys(("label-propagation", "label-propagation-2hop"), BY_NODE),
    **dict.fromkeys(("linbp", "zoobp", "decoupled-smoothing"), BY_NODE),
}
"""How far the logits of a model are split; those of other models are no sum."""
LINEAR = {"activation": "none"}
SPLIT_WITH = [
    *((name, LINEAR, BY_COLUMN) for name in ("mlp", "h2gcn-1", "h2gcn-2", "h2gcn-k1")),
    ("h2gcn-ns0", LINEAR, BY_COLUMN),
    ("h2gcn-2", {"activation": "elu"}, BY_NODE),
    ("h2gcn-nonlinear", LINEAR, None),
    ("gpr-gnn", {"power": 4}, BY_NODE),
    ("ring-table", {"activation": "none", "norm": "none"}, BY_COLUMN),
    ("ring-table", {"gate": False, "norm": "layer", "activation": "elu"}, BY_BLOCK),
    ("ring-table", {"layers": 2}, None),
    ("ring-table", {"join": "skip"}, None),
    ("linkx", LINEAR, BY_COLUMN),
    ("decoupled-smoothing", {"variance": "equal"}, BY_NODE),
]
CONSTANTS = (
    "nothing is known: all classes are equal",
    "how common each class is",
    "bias",
)


@pytest.mark.parametrize("name", MODELS)
def test_contributions_sum_to_the_logits(name):
    cases = [({}, SPLIT.get(name))]
    cases += [(options, split) for other, options, split in SPLIT_WITH if other == name]
    for options, split in cases:
        for title in ("triangle with tail", "random", "directed and weighted"):
            graph = GRAPHS[title]
            module, x, operators = make(name, graph, **options)
            for node in (0, graph.n_nodes - 1):
                found = decompose(module, x, operators, node)
                where = f"{title}, {options}, node {node}"
                if split is None:
                    assert found is None, where
                    continue
                expected = logits(module, x, operators)[node].detach().numpy()
                check_sum(found, expected, split, where)
                if module.receptive_field is not None:
                    check_receptive_field(module, x, operators, node, found)


def check_sum(found, expected, split, where):
    """Check that contributions sum to logits, and their parts to them."""
    parts = found.contributions
    scale = max(1.0, *(np.abs(part.values).max() for part in parts))
    total = sum(part.values for part in parts)
    wanted = np.exp(expected) if found.scale == "share" else expected
    np.testing.assert_allclose(total, wanted, atol=1e-5 * scale, err_msg=where)
    for part in parts:
        if part.name in CONSTANTS:
            continue
        assert part.has_columns == (split == BY_COLUMN), where
        for pieces in (part.by_column, part.by_node):
            total = pieces.sum(axis=0)
            np.testing.assert_allclose(total, part.values, atol=1e-9 * scale)
        assert bool(part.block) == (part.nodes is None), where
        if part.nodes is not None:
            assert len(part.nodes) == len(np.unique(part.nodes)) == len(part.by_node)
        assert (part.nodes is not None) or split != BY_NODE, where
    by_column = "by column" in found.how.replace("not by column", "")
    assert by_column == (split == BY_COLUMN)


def check_receptive_field(module, x, operators, node, expected):
    """Check that the receptive field of a node has the same contributions."""
    where = np.array([node]), module.receptive_field, torch.device("cpu")
    field = receptive_field(x, operators, *where)
    with torch.no_grad():
        found = module.decompose(field.x, field.graph)
    for part, whole in zip(found.contributions, expected.contributions, strict=True):
        np.testing.assert_allclose(part.values, whole.values, atol=1e-5)
        if part.nodes is not None:
            np.testing.assert_array_equal(field.members[part.nodes], whole.nodes)
            np.testing.assert_allclose(part.by_node, whole.by_node, atol=1e-5)


@each("activation", ["none", "relu"])
def test_h2gcn_equals_dense_products_by_path(activation):
    graph, node = GRAPHS["random"], 3
    module, x, operators = make("h2gcn-2", graph, activation=activation)
    weights, rings = weights_of(module), [op.scipy.toarray() for op in operators]
    rings, h = np.array(rings, dtype=float), x.numpy().astype(float)
    if activation == "relu":
        h, first = np.maximum(h @ weights["embedding"], 0), np.eye(8)
    else:
        first = weights["embedding"]
    parts = {
        part.name: part for part in decompose(module, x, operators, node).contributions
    }
    blocks = iter(np.split(weights["classifier"], len(parts)))
    for depth in range(3):
        for path in product((0, 1), repeat=depth):
            walk = np.eye(graph.n_nodes)[node]
            for ring in path:
                walk = walk @ rings[ring]
            names = [f"ring {ring + 1}" for ring in reversed(path)]
            part = parts[" of ".join(names) or "own features"]
            columns = walk[:, None, None] * h[:, :, None] * (first @ next(blocks))
            expected = columns.sum(axis=1)
            assert part.nodes.tolist() == np.flatnonzero(walk).tolist()
            np.testing.assert_allclose(part.by_node, expected[part.nodes], atol=1e-5)
            if part.has_columns:
                expected = columns.sum(axis=0)
                np.testing.assert_allclose(part.by_column, expected, atol=1e-5)


@each("name", ["sgc", "h2gcn-2", "h2gcn-ns0", "mlp"])
def test_zeros_in_a_row_or_a_column_take_its_contribution_away(name):
    options, node = {} if name == "sgc" else LINEAR, 3
    module, x, operators = make(name, GRAPHS["random"], **options)
    parts = decompose(module, x, operators, node).contributions
    parts = [part for part in parts if part.name not in CONSTANTS]
    by_column, by_node = sum(part.by_column for part in parts), np.zeros((len(x), 3))
    for part in parts:
        by_node[part.nodes] += part.by_node
    full = logits(module, x, operators)[node]
    for axis, pieces in enumerate((by_node, by_column)):
        for index, expected in enumerate(pieces):
            without = x.index_fill(axis, torch.tensor([index]), 0)
            change = full - logits(module, without, operators)[node]
            np.testing.assert_allclose(change.detach(), expected, atol=1e-5)


def test_label_propagation_splits_by_known_label():
    path = make_graph(adjacency(4, [(0, 1), (1, 2), (2, 3)]))
    module, _, operators = make("label-propagation", path, alpha=0.5)
    known = torch.zeros(4, CLASSES)
    known[0, 1] = known[3, 2] = 1
    (part,) = decompose(module, known, operators, 1).contributions
    assert part.name == "training labels of other nodes"
    assert part.nodes.tolist() == [0, 3]
    # (I - S/2)^-1 by a dense solver, which the iteration converges to.
    s = operators[0].scipy.toarray().astype(float)
    limit = np.linalg.inv(np.eye(4) - s / 2)[1, [0, 3]]
    shares = limit / limit.sum()
    expected = [[0, shares[0], 0], [0, 0, shares[1]]]
    np.testing.assert_allclose(part.by_node, expected, atol=1e-6)
    own = decompose(module, known, operators, 0).contributions[0]
    assert own.name == "its own training label"


def test_decoupled_smoothing_splits_by_known_label():
    # A square with a tail: two steps from node 4 are 0 and 2, and both are known.
    square = make_graph(adjacency(5, [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4)]))
    module, _, operators = make("decoupled-smoothing", square)
    known = torch.zeros(5, CLASSES)
    known[0, 1] = known[2, 2] = 1
    (part,) = decompose(module, known, operators, 4).contributions
    assert part.nodes.tolist() == [0, 2]
    np.testing.assert_allclose(part.by_node, [[0, 0.5, 0], [0, 0, 0.5]], atol=1e-6)
    own = decompose(module, known, operators, 0).contributions[0]
    assert own.name == "its own training label"
    np.testing.assert_allclose(own.values, [0, 1, 0])


@each("name", ["label-propagation", "decoupled-smoothing"])
def test_a_node_that_no_label_reaches_has_equal_shares(name):
    lonely = make_graph(NAMED["no edges"])
    known = torch.eye(3)
    known[2] = 0
    module, _, _ = make(name, lonely)
    (part,) = decompose(module, known, propagation(name, lonely), 2).contributions
    np.testing.assert_allclose(part.values, 1 / 3)


def test_the_bias_of_logistic_is_the_logit_of_mean_columns():
    module, x, _ = make("logistic", GRAPHS["random"], table="ego+ring1")
    bias = decompose(module, x, (), 0).contributions[0]
    train = known_labels(GRAPHS["random"]).any(dim=1)
    means = {n: b[train].mean(dim=0, keepdim=True) for n, b in x.blocks.items()}
    mean = logits(module, FeatureTable(means, x.labels), ())[0].numpy()
    np.testing.assert_allclose(bias.values, mean, atol=1e-5)
