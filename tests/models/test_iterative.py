"""Iterative classification against a plain loop over nodes."""

import numpy as np
import pytest
import torch

from h2gcn import Graph, Split
from h2gcn.datasets import GaussianFeatures, generate_graph
from h2gcn.features import FeatureBuilder, FeatureTable
from h2gcn.models import build_model
from h2gcn.models.iterative import BASES
from h2gcn.models.logistic_table import LogisticTable
from h2gcn.sparse import NO_GRAPH
from h2gcn.training import TrainConfig, Trainer
from support.graphs import adjacency

NOTHING = np.zeros(0, dtype=np.int64)
GRAPH = generate_graph(
    n_nodes=150,
    n_classes=3,
    homophily=0.9,
    features=GaussianFeatures(n_features=4, separation=2.0),
    seed=0,
)


def some_split(n, n_train=50):
    order = np.random.default_rng(0).permutation(n)
    return Split(order[:n_train], order[n_train : n_train + 30], order[n_train + 30 :])


SPLIT = some_split(150)


def columns_by_loops(graph, labels, hops):
    """Return own features and shares of labels nearby; -1 is no label."""
    n, c = graph.n_nodes, graph.n_classes
    neighbors = [set(graph.adj[[v]].indices.tolist()) for v in range(n)]
    rows = []
    for v in range(n):
        beyond = set().union(*(neighbors[u] for u in neighbors[v]))
        rings = {1: neighbors[v], 2: beyond - neighbors[v] - {v}}
        row = list(graph.x[v])
        for hop in hops:
            counts = [sum(labels[u] == k for u in rings[hop]) for k in range(c)]
            row += [count / max(sum(counts), 1) for count in counts] + [0]
        rows.append(row)
    return np.array(rows, dtype=np.float32)


def known_labels(graph, split):
    known = np.full(graph.n_nodes, -1)
    known[split.train] = graph.y[split.train]
    return known


def table_of(graph, split, blocks="ego+labels.ring1"):
    builder = FeatureBuilder(graph)
    known = known_labels(graph, split)
    return builder.table(builder.schema(blocks), graph.x, known, recount=True)


def fit(graph, split, x, **options):
    widths = [block.shape[1] for block in x.blocks.values()]
    module = build_model("ica", widths, graph.n_classes, options)
    Trainer(module, x, (), graph.y, split, TrainConfig()).run()
    return module


def with_base(graph, x, predict, rounds):
    """Return a module whose classifier is a function of the table."""
    widths = [block.shape[1] for block in x.blocks.values()]
    module = build_model("ica", widths, graph.n_classes, {"rounds": rounds})
    del module.base
    object.__setattr__(module, "base", predict)
    return module


@pytest.mark.parametrize("base", BASES)
def test_equals_the_plain_loop(base):
    both_rings = "ego+labels.ring1+labels.ring2"
    known = known_labels(GRAPH, SPLIT)
    for blocks in ("ego+labels.ring1", both_rings, "labels.ring1"):
        x = table_of(GRAPH, SPLIT, blocks)
        widths = [block.shape[1] for block in x.blocks.values()]
        hops = (1, 2) if blocks == both_rings else (1,)
        for rounds in (0, 1, 10):
            module = fit(GRAPH, SPLIT, x, base=base, table=blocks, rounds=rounds)
            labels, logits, turns = known, None, 0
            for _ in range(rounds + 1):
                columns = columns_by_loops(GRAPH, labels, hops)[:, -sum(widths) :]
                parts = torch.from_numpy(columns).split(widths, dim=1)
                rows = FeatureTable(dict(zip(x.blocks, parts, strict=True)))
                logits = module.base(rows, NO_GRAPH).log_softmax(dim=1).numpy()
                guessed = logits.argmax(axis=1)
                before, labels = labels, np.where(known >= 0, known, guessed)
                turns += 1
                if (before == labels).all():
                    break
            assert turns > min(rounds, 2), "the graph is such that guesses change"
            np.testing.assert_allclose(module(x, NO_GRAPH), logits, atol=1e-4)


def test_rounds_help_where_few_neighbors_are_known():
    features = GaussianFeatures(n_features=4, separation=2.0)
    graph = generate_graph(
        n_nodes=600, n_classes=3, homophily=0.9, features=features, seed=0
    )
    split = some_split(600, 100)
    x, scores = table_of(graph, split), []
    for rounds in (0, 10):
        found = fit(graph, split, x, rounds=rounds)(x, NO_GRAPH).argmax(dim=1).numpy()
        scores.append((found[split.test] == graph.y[split.test]).mean())
    assert scores[1] > scores[0] + 0.03


def test_only_labels_of_training_and_validation_nodes_are_read():
    y = GRAPH.y.copy()
    y[SPLIT.test] = (y[SPLIT.test] + 1) % 3
    other = Graph(x=GRAPH.x, adj=GRAPH.adj, y=y)
    for base in BASES:
        logits = [
            fit(graph, SPLIT, x, base=base)(x, NO_GRAPH)
            for graph in (GRAPH, other)
            for x in [table_of(graph, SPLIT)]
        ]
        assert torch.equal(*logits)


def test_a_class_without_a_training_node_is_never_predicted():
    train_nodes = np.flatnonzero(GRAPH.y < 2)[:40]
    rest = np.setdiff1d(np.arange(150), train_nodes)
    split = Split(train_nodes, rest[:20], rest[20:])
    x = table_of(GRAPH, split)
    for base in BASES:
        probabilities = fit(GRAPH, split, x, base=base)(x, NO_GRAPH).softmax(dim=1)
        assert probabilities[:, 2].max() < 1e-6


def test_training_nodes_keep_their_labels():
    x, tables = table_of(GRAPH, SPLIT), []

    def wrong(table, _):
        tables.append(table.blocks["labels.ring1"])
        return torch.eye(3)[(torch.from_numpy(GRAPH.y) + 1) % 3]

    with_base(GRAPH, x, wrong, rounds=5)(x, NO_GRAPH)
    assert len(tables) == 2  # predictions do not change any more
    labels = (GRAPH.y + 1) % 3
    labels[SPLIT.train] = GRAPH.y[SPLIT.train]
    expected = columns_by_loops(GRAPH, labels, (1,))[:, GRAPH.n_features :]
    np.testing.assert_allclose(tables[1], expected, atol=1e-6)


def test_labels_that_swap_for_ever_end_with_the_rounds():
    edge = Graph(x=np.eye(3), adj=adjacency(3, [(0, 1)]), y=np.array([0, 1, 0]))
    x = table_of(edge, Split(np.array([2]), NOTHING, NOTHING))
    calls = []

    def other_than_the_neighbor(table, _):
        calls.append(table)
        heard = table.blocks["labels.ring1"][:, :2]
        nothing = heard.new_tensor([1, 0])
        return torch.where(heard.any(dim=1, keepdim=True), 1 - heard, nothing)

    with_base(edge, x, other_than_the_neighbor, rounds=7)(x, NO_GRAPH)
    assert len(calls) == 8


def test_logits_that_are_equal_up_to_rounding_are_equal():
    x = table_of(GRAPH, SPLIT)
    for first in (3.0, 0.0, 1e-7, -2.0):  # whatever the best logit is
        logits = torch.tensor([[first, first + 1e-6, first - 2]]).repeat(150, 1)
        found = with_base(GRAPH, x, lambda *_, z=logits: z, rounds=1)(x, NO_GRAPH)
        assert float(found[0, 0]) == float(found[0, 1]) > float(found[0, 2])
        assert (found.argmax(dim=1) == 0).all()


def test_a_small_block_counts_as_much_as_a_large_one():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=200)
    # One column says the class with noise; four hundred others say nothing.
    rows = rng.normal(size=(200, 401))
    rows[:, 400] = y + 0.8 * rng.normal(size=200)
    parts = torch.from_numpy(rows.astype(np.float32)).split((400, 1), dim=1)
    x = FeatureTable(dict(zip("ab", parts, strict=True)))
    split = Split(np.arange(80), np.arange(80, 90), np.arange(90, 200))
    scores = []
    for by_block in (False, True):
        module = LogisticTable((400, 1), 2, by_block=by_block)
        Trainer(module, x, (), y, split, TrainConfig()).run()
        found = module(x, NO_GRAPH).argmax(dim=1).numpy()[80:]
        scores.append((found == y[80:]).mean())
    assert scores[1] > scores[0] + 0.03
