"""Terms of exact sums that are known by hand, and Shapley values of trees."""

from itertools import combinations
from math import factorial
from typing import Any

import numpy as np
import torch

from h2gcn.models import NodeModule, build_model
from h2gcn.ring_table import TableInput
from support.cases import each
from support.graphs import GRAPHS, NAMED, adjacency, make_graph
from support.models import (
    contributions,
    initialise,
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


# ------------------------------------------------------------------ Shapley values


def trees(seed: int, columns: int = 5) -> tuple[NodeModule, TableInput]:
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.normal(size=(80, columns)).astype(np.float32))
    x[:, 0] = x[:, 0].round()
    y = torch.from_numpy((x[:, 0] * x[:, 1] + x[:, 2] > 0).numpy().astype(np.int64))
    y[::7] = 2
    table = TableInput({"own": x}, {}, torch.zeros(80, CLASSES))
    torch.manual_seed(seed)
    module = build_model(
        "boosted-trees", [columns], CLASSES, {"trees": 6, "leaves": 7, "table": "own"}
    )
    initialise(module, table, (), y, torch.arange(80))
    return module, table


def value_of(
    module: Any, rows: np.ndarray, node: int, known: tuple[int, ...]
) -> np.ndarray:
    """Return the logits where only some columns are known, by going down all trees."""
    feature, threshold, left, right, value = (
        getattr(module, name).numpy()
        for name in ("feature", "threshold", "left", "right", "value")
    )

    def down(at: int, inside: np.ndarray) -> float:
        if left[at] == at:
            return float(value[at])
        goes = rows[inside, feature[at]] <= threshold[at]
        parts = (left[at], inside[goes]), (right[at], inside[~goes])
        if feature[at] in known:
            first = rows[node, feature[at]] <= threshold[at]
            return down(*parts[0 if first else 1])
        if not len(inside):
            return 0.0
        return sum(
            len(part) / len(inside) * down(child, part)
            for child, part in parts
            if len(part)
        )

    logits = module.baseline.numpy().copy()
    for root, column in zip(
        module.roots.tolist(), module.sums_to.tolist(), strict=True
    ):
        logits[column] += down(root, np.arange(len(rows)))
    return logits


@each("seed", [0, 1, 2])
def test_trees_have_the_shapley_values_of_all_subsets(seed: int) -> None:
    module, table = trees(seed)
    rows, node, count = table.dense(), 11 + seed, 5
    game = {
        known: value_of(module, rows, node, known)
        for size in range(count + 1)
        for known in combinations(range(count), size)
    }
    wanted = np.zeros((count, CLASSES))
    for column in range(count):
        for known, value in game.items():
            if column not in known:
                size = len(known)
                share = factorial(size) * factorial(count - 1 - size)
                more = game[tuple(sorted((*known, column)))]
                wanted[column] += share / factorial(count) * (more - value)
    found = contributions(module, table, (), node)
    assert found is not None
    bias, own = found.parts
    np.testing.assert_allclose(bias.values, game[()], atol=1e-10)
    np.testing.assert_allclose(own.columns, wanted, atol=1e-10)
    assert np.abs(wanted).max() > 0.1, "a game that says something"
    expected = logits(module, table, ())[node].numpy()
    np.testing.assert_allclose(bias.values + own.values, expected, atol=1e-5)


def test_the_bias_of_trees_is_the_mean_logit() -> None:
    module, table = trees(0)
    found = contributions(module, table, (), 0)
    assert found is not None
    mean = logits(module, table, ()).numpy().astype(float).mean(axis=0)
    np.testing.assert_allclose(found.parts[0].values, mean, atol=1e-6)


def test_the_bias_of_logistic_is_the_logit_of_mean_columns() -> None:
    module, x, _ = make("logistic", GRAPHS["random"], table="own+ring1")
    found = contributions(module, x, (), 0)
    train = known_labels(GRAPHS["random"]).any(dim=1)
    means = {n: b[train].mean(dim=0, keepdim=True) for n, b in x.blocks.items()}
    mean = logits(module, TableInput(means, {}, x.known), ())[0].numpy()
    np.testing.assert_allclose(found.parts[0].values, mean, atol=1e-5)
