"""Terms of exact sums that are known by hand, and Shapley values of trees."""

import numpy as np
import torch

from h2gcn.features import FeatureTable
from support.cases import each
from support.graphs import GRAPHS, NAMED, adjacency, make_graph
from support.models import (
    contributions,
    known_labels,
    logits,
    make,
    propagation,
)

CLASSES = 3
PATH = make_graph(adjacency(4, [(0, 1), (1, 2), (2, 3)]))


def test_h2gcn_has_a_term_for_every_path() -> None:
    found = contributions(*make("h2gcn-2", PATH), 0)
    assert {part.name: part.nodes.tolist() for part in found.parts} == {
        "own features": [0],
        "ring 1": [1],
        "ring 2": [2],
        "ring 1 of ring 1": [0, 2],
        "ring 2 of ring 1": [3],
        "ring 1 of ring 2": [1, 3],
        "ring 2 of ring 2": [0],
    }


def test_sgc_splits_by_distance() -> None:
    found = contributions(*make("sgc", PATH, power=2), 0)
    of = {part.name: part.nodes for part in found.parts}
    assert of["bias"] is None
    assert of["own features"].tolist() == [0]
    assert of["ring 1"].tolist() == [1]
    assert of["ring 2"].tolist() == [2]
    assert len(of) == 4


def test_label_propagation_says_which_labels_it_heard() -> None:
    module, _, operators = make("label-propagation", PATH, alpha=0.5)
    known = torch.zeros(4, CLASSES)
    known[0, 1] = known[3, 2] = 1
    (part,) = contributions(module, known, operators, 1).parts
    assert part.name == "training labels of other nodes"
    assert part.nodes.tolist() == [0, 3]
    # (I - S/2)^-1 by a dense solver, as the limit has it.
    s = operators[0].scipy.toarray().astype(float)
    limit = np.linalg.inv(np.eye(4) - s / 2)[1, [0, 3]]
    shares = limit / limit.sum()
    np.testing.assert_allclose(part.by_node[0], [0, shares[0], 0], atol=1e-6)
    np.testing.assert_allclose(part.by_node[1], [0, 0, shares[1]], atol=1e-6)
    own = contributions(module, known, operators, 0)
    assert own.parts[0].name == "its own training label"


def test_decoupled_smoothing_says_which_labels_it_heard() -> None:
    # A square with a tail: two steps from node 4 are 0 and 2, and both are known.
    square = make_graph(adjacency(5, [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4)]))
    module, _, operators = make("decoupled-smoothing", square)
    known = torch.zeros(5, CLASSES)
    known[0, 1] = known[2, 2] = 1
    (part,) = contributions(module, known, operators, 4).parts
    assert part.name == "training labels of other nodes"
    assert part.nodes.tolist() == [0, 2]
    np.testing.assert_allclose(part.by_node, [[0, 0.5, 0], [0, 0, 0.5]], atol=1e-6)
    own = contributions(module, known, operators, 0)
    assert own.parts[0].name == "its own training label"
    np.testing.assert_allclose(own.parts[0].values, [0, 1, 0])


@each("name", ["label-propagation", "decoupled-smoothing"])
def test_a_node_that_no_label_reaches_has_equal_shares(name: str) -> None:
    lonely = make_graph(NAMED["no edges"])
    known = torch.eye(3)
    known[2] = 0
    module, _, _ = make(name, lonely)
    found = contributions(module, known, propagation(name, lonely), 2)
    np.testing.assert_allclose(found.parts[0].values, 1 / 3)


def test_the_bias_of_logistic_is_the_logit_of_mean_columns() -> None:
    module, x, _ = make("logistic", GRAPHS["random"], table="ego+ring1")
    found = contributions(module, x, (), 0)
    train = known_labels(GRAPHS["random"]).any(dim=1)
    means = {n: b[train].mean(dim=0, keepdim=True) for n, b in x.blocks.items()}
    mean = logits(module, FeatureTable(means, x.labels), ())[0].numpy()
    np.testing.assert_allclose(found.parts[0].values, mean, atol=1e-5)
