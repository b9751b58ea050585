"""Iterative classification against a plain loop over nodes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn import Graph, NodeClassifier, Split
from h2gcn.datasets import GaussianFeatures, generate_graph
from h2gcn.features import FeatureBuilder, FeatureTable
from h2gcn.models.iterative import (
    BASES,
    BlockLogistic,
    IterativeClassification,
)
from h2gcn.models.logistic_table import LogisticTable
from h2gcn.sparse import NO_GRAPH, Propagation
from support.cases import each
from support.graphs import adjacency
from support.refusals import only, refused

Matrix = NDArray[np.float64]
RING2 = "ego+labels.ring1+labels.ring2"
NOTHING = np.zeros(0, dtype=np.int64)


def synthetic(homophily: float = 0.9, n: int = 150) -> Graph:
    return generate_graph(
        n_nodes=n,
        n_classes=3,
        homophily=homophily,
        features=GaussianFeatures(n_features=4, separation=2.0),
        seed=0,
    )


def some_split(graph: Graph, n_train: int = 50) -> Split:
    order = np.random.default_rng(0).permutation(graph.n_nodes)
    return Split(order[:n_train], order[n_train : n_train + 30], order[n_train + 30 :])


def columns_by_loops(
    graph: Graph, labels: NDArray[np.int64], hops: tuple[int, ...]
) -> Matrix:
    """Return own features and labels nearby of each node, -1 where none is known."""
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
    return np.array(rows)


def made(graph: Graph, split: Split, table: str = "ego+labels.ring1") -> FeatureTable:
    maker = FeatureBuilder(graph)
    known = np.full(graph.n_nodes, -1)
    known[split.train] = graph.y[split.train]
    return maker.table(maker.schema(table), graph.x, known, recount=True)


def module_of(graph: Graph, split: Split, x: FeatureTable, **options: Any) -> Any:
    widths = [block.shape[1] for block in x.blocks.values()]
    module = IterativeClassification(widths, graph.n_classes, **options)
    torch.manual_seed(0)
    y = torch.from_numpy(graph.y)
    train, val = torch.from_numpy(split.train), torch.from_numpy(split.val)
    module.set_validation(y[val], val)
    module.initialise(x, NO_GRAPH, y[train], train)
    return module.eval()


def with_base(graph: Graph, x: FeatureTable, predict: Any, rounds: int) -> Any:
    """Return a module whose classifier is a function of the table."""
    widths = [block.shape[1] for block in x.blocks.values()]
    module = IterativeClassification(widths, graph.n_classes, rounds=rounds)
    object.__setattr__(module, "base", predict)
    del module._modules["base"]
    return module


@each("base", BASES)
@each("table", ["ego+labels.ring1", RING2, "labels.ring1"])
def test_it_is_the_plain_loop(base: str, table: str) -> None:
    graph = synthetic()
    split = some_split(graph)
    x = made(graph, split, table)
    hops = (1, 2) if table == RING2 else (1,)
    known = np.full(150, -1)
    known[split.train] = graph.y[split.train]
    for rounds in (0, 1, 10):
        module = module_of(graph, split, x, base=base, table=table, rounds=rounds)
        labels, logits, turns = known, None, 0
        for _ in range(rounds + 1):
            columns = columns_by_loops(graph, labels, hops)
            columns = columns if "ego" in table else columns[:, graph.n_features :]
            rows = torch.from_numpy(columns.astype(np.float32))
            widths = [block.shape[1] for block in x.blocks.values()]
            parts = dict(zip(x.blocks, rows.split(widths, dim=1), strict=True))
            logits = module.base(FeatureTable(parts, x.labels), NO_GRAPH).numpy()
            guessed = logits.argmax(axis=1)
            before, labels = labels, np.where(known >= 0, known, guessed)
            turns += 1
            if (before == labels).all():
                break
        assert turns > min(rounds, 2), "the graph is such that guesses change"
        np.testing.assert_allclose(module(x, NO_GRAPH), logits, atol=1e-4)


def test_rounds_help_where_few_neighbors_are_known() -> None:
    graph = synthetic(n=600)
    split = some_split(graph, 100)
    x = made(graph, split)
    scores = []
    for rounds in (0, 10):
        found = (
            module_of(graph, split, x, rounds=rounds)(x, NO_GRAPH).argmax(dim=1).numpy()
        )
        scores.append((found[split.test] == graph.y[split.test]).mean())
    assert scores[1] > scores[0] + 0.03


def test_no_label_but_those_of_training_and_validation_is_looked_at() -> None:
    graph = synthetic()
    split = replace(some_split(graph), test=NOTHING)
    y = np.full(graph.n_nodes, -1)
    y[[*split.train, *split.val]] = graph.y[[*split.train, *split.val]]
    hidden = Graph(x=graph.x, adj=graph.adj, y=y, classes=graph.classes)
    for base in BASES:
        logits = [
            NodeClassifier("ica", options={"base": base}, random_state=0)
            .fit(one, split)
            .predict_logits(one)
            for one in (graph, hidden)
        ]
        np.testing.assert_array_equal(*logits)


def test_a_class_that_training_has_not_is_never_predicted() -> None:
    graph = synthetic()
    train = np.flatnonzero(graph.y < 2)[:40]
    rest = np.setdiff1d(np.arange(150), train)
    split = Split(train, rest[:20], rest[20:])
    x = made(graph, split)
    for base in BASES:
        found = module_of(graph, split, x, base=base)(x, NO_GRAPH).softmax(dim=1)
        assert found[:, 2].max() < 1e-6


def test_training_nodes_keep_their_labels() -> None:
    # Whatever is predicted, what is counted of training nodes are their labels.
    graph = synthetic()
    split = some_split(graph)
    x = made(graph, split)
    seen: list[Tensor] = []

    def wrong(table: FeatureTable, _: Propagation) -> Tensor:
        seen.append(table.blocks["labels.ring1"])
        return torch.eye(3)[(torch.from_numpy(graph.y) + 1) % 3]

    with_base(graph, x, wrong, rounds=5)(x, NO_GRAPH)
    assert len(seen) == 2  # predictions do not change any more
    labels = (graph.y + 1) % 3
    labels[split.train] = graph.y[split.train]
    expected = columns_by_loops(graph, labels, (1,))[:, graph.n_features :]
    np.testing.assert_allclose(seen[1], expected, atol=1e-6)


def test_labels_that_swap_for_ever_end_with_the_rounds() -> None:
    edge = Graph(x=np.eye(3), adj=adjacency(3, [(0, 1)]), y=np.array([0, 1, 0]))
    x = made(edge, Split(np.array([2]), NOTHING, NOTHING))
    calls = 0

    def other_than_the_neighbor(table: FeatureTable, _: Propagation) -> Tensor:
        nonlocal calls
        calls += 1
        heard = table.blocks["labels.ring1"][:, :2]
        return torch.where(
            heard.any(dim=1, keepdim=True), 1 - heard, heard.new_tensor([1, 0])
        )

    with_base(edge, x, other_than_the_neighbor, rounds=7)(x, NO_GRAPH)
    assert calls == 8


def test_logits_that_are_equal_up_to_rounding_are_equal() -> None:
    graph = synthetic()
    x = made(graph, some_split(graph))
    logits = torch.tensor([[3.0, 3.000001, 1.0]]).repeat(150, 1)
    found = with_base(graph, x, lambda *_: logits, rounds=1)(x, NO_GRAPH)
    assert float(found[0, 0]) == float(found[0, 1]) > float(found[0, 2])
    assert (found.argmax(dim=1) == 0).all()


@each("base", BASES)
def test_a_fitted_model_is_saved_and_read(base: str, tmp_path: Path) -> None:
    graph = synthetic()
    clf = NodeClassifier("ica", options={"base": base}, random_state=0).fit(graph)
    clf.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    logits = clf.predict_logits(graph)
    assert loaded.predict_logits(graph).tobytes() == logits.tobytes()
    assert clf.score(graph) > 0.7
    assert clf.seeds_ is not None
    assert len(clf.seeds_.ids) == len(clf.split_.train)


@each("base", BASES)
def test_damaged_states_are_named(base: str) -> None:
    graph = synthetic()
    split = some_split(graph)
    module = module_of(graph, split, made(graph, split), base=base)
    state = module.state_dict()
    assert {name.partition(".")[0] for name in state} == {"base"}
    assert module.state_problem(state) is None
    for name, tensor in state.items():
        fewer = {k: v for k, v in state.items() if k != name}
        assert "is missing" in module.state_problem(fewer)
        bad = {**state, name: torch.full_like(tensor, 7)[..., None]}
        assert module.state_problem(bad) is not None
    more = {**state, "x": torch.ones(1)}
    assert module.state_problem(more) == "x is none of its tensors"


def test_it_looks_at_the_whole_graph_and_has_no_weights() -> None:
    module = IterativeClassification((2, 5), 3)
    assert module.reach is None
    assert not list(module.parameters())


@each(
    "options",
    [
        {"base": "naive-bayes"},
        {"rounds": 1001},
        {"rounds": -1},
        {"table": "ego"},
        {"table": "labels.ring1+degrees"},
    ],
)
def test_bad_options_are_named(options: dict[str, Any]) -> None:
    with refused(**only(options)):
        IterativeClassification((2, 4), 3, **options)


def test_a_small_block_counts_as_much_as_a_large_one() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=200)
    # One column says the class with noise; four hundred others say nothing.
    rows = rng.normal(size=(200, 401))
    rows[:, 400] = y + 0.8 * rng.normal(size=200)
    parts = torch.from_numpy(rows.astype(np.float32)).split((400, 1), dim=1)
    x = FeatureTable(dict(zip("ab", parts, strict=True)), torch.zeros(200, 3))
    scores = []
    for learner in (LogisticTable, BlockLogistic):
        torch.manual_seed(0)
        module = learner((400, 1), 2)
        module.initialise(x, NO_GRAPH, torch.from_numpy(y[:80]), torch.arange(80))
        found = module(x, NO_GRAPH).argmax(dim=1).numpy()[80:]
        scores.append((found == y[80:]).mean())
    assert scores[1] > scores[0] + 0.03
    varies = np.array([True, False, True, True, True])
    assert BlockLogistic((2, 3), 2).group_sizes(varies).tolist() == [1, 1, 3, 3, 3]
    assert LogisticTable((2, 3), 2).group_sizes(varies).tolist() == [4] * 5
