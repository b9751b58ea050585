"""Iterative classification against a plain loop, and learners that it is made of."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from torch import Tensor

from h2gcn import Graph, NodeClassifier, Split
from h2gcn.datasets import GaussianFeatures, generate_graph
from h2gcn.exceptions import MISSING, InputError
from h2gcn.models import iterative_classification
from h2gcn.models.iterative import (
    BlockLogistic,
    IterativeClassification,
    NaiveBayesTable,
    _iterate,
)
from h2gcn.models.table_learners import LogisticTable
from h2gcn.ring_table import TableInput, TableMaker
from support.cases import each
from support.graphs import adjacency
from support.refusals import only, refused

Matrix = NDArray[np.float64]
BASES = ("logistic", "boosted-trees", "naive-bayes")
RING2 = "own+labels.ring1+labels.ring2"


def synthetic(homophily: float = 0.9, n: int = 150, seed: int = 0) -> Graph:
    return generate_graph(
        n_nodes=n,
        n_classes=3,
        homophily=homophily,
        features=GaussianFeatures(n_features=4, separation=2.0),
        seed=seed,
    )


def some_split(graph: Graph, seed: int = 0) -> Split:
    order = np.random.default_rng(seed).permutation(graph.n_nodes)
    return Split(order[:50], order[50:80], order[80:])


def columns_by_loops(
    graph: Graph, labels: NDArray[np.int64], hops: tuple[int, ...]
) -> Matrix:
    """Return own features and labels nearby of each node, -1 where none is known."""
    n, c = graph.n_nodes, graph.n_classes
    neighbours = [set(graph.adj[[v]].indices.tolist()) for v in range(n)]
    rows = []
    for v in range(n):
        row = list(graph.x[v])
        rings = {1: neighbours[v]}
        beyond = set().union(*(neighbours[u] for u in neighbours[v]))
        rings[2] = beyond - neighbours[v] - {v}
        for hop in hops:
            counts = [sum(labels[u] == k for u in rings[hop]) for k in range(c)]
            total = sum(counts)
            row += [count / max(total, 1) for count in counts] + [0]
        rows.append(row)
    return np.array(rows)


def by_loops(
    graph: Graph, split: Split, estimator: Any, hops: tuple[int, ...], rounds: int
) -> Matrix:
    """Return the probabilities of the last round; all labels are guessed at once."""
    known = np.full(graph.n_nodes, -1)
    known[split.train] = graph.y[split.train]
    columns = columns_by_loops(graph, known, hops)
    estimator.fit(columns[split.train], graph.y[split.train])
    probabilities = estimator.predict_proba(columns)
    labels = known
    for _ in range(rounds):
        guessed = estimator.classes_[probabilities.argmax(axis=1)]
        new = np.where(known >= 0, known, guessed)
        if (new == labels).all():
            break
        labels = new
        probabilities = estimator.predict_proba(columns_by_loops(graph, labels, hops))
    return np.asarray(probabilities)


@each("homophily", [0.9, 0.1])
@each(("table", "hops"), [("own+labels.ring1", (1,)), (RING2, (1, 2))])
@each("rounds", [0, 1, 10])
def test_it_is_the_plain_loop(
    homophily: float, table: str, hops: tuple[int, ...], rounds: int
) -> None:
    graph = synthetic(homophily)
    split = some_split(graph)
    estimator = LogisticRegression(tol=1e-10, max_iter=2000)
    found = iterative_classification(
        graph, split, estimator, table=table, rounds=rounds
    )
    expected = by_loops(
        graph, split, LogisticRegression(tol=1e-10, max_iter=2000), hops, rounds
    )
    assert found.shape == (150, 3)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert not hasattr(estimator, "coef_"), "what was given is not fitted itself"


@each(
    "estimator",
    [
        GaussianNB(),
        KNeighborsClassifier(5),
        make_pipeline(StandardScaler(), LogisticRegression()),
        HistGradientBoostingClassifier(max_iter=10, random_state=0),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_any_classifier_of_scikit_learn_will_do(estimator: Any) -> None:
    graph = synthetic()
    split = some_split(graph)
    found = iterative_classification(graph, split, estimator)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-4)
    own = found[split.test].argmax(axis=1)
    assert (own == graph.y[split.test]).mean() > 0.6


def test_rounds_help_where_few_neighbours_are_known() -> None:
    graph = synthetic(n=600)
    order = np.random.default_rng(0).permutation(600)
    split = Split(order[:100], order[100:130], order[130:])
    once, often = (
        iterative_classification(graph, split, LogisticRegression(), rounds=rounds)
        for rounds in (0, 10)
    )
    scores = [
        (found[split.test].argmax(axis=1) == graph.y[split.test]).mean()
        for found in (once, often)
    ]
    assert scores[1] > scores[0] + 0.03


def test_no_label_but_those_of_training_nodes_is_looked_at() -> None:
    graph = synthetic()
    split = some_split(graph)
    y = np.full(graph.n_nodes, -1)
    y[split.train] = graph.y[split.train]
    hidden = Graph(x=graph.x, adj=graph.adj, y=y, classes=graph.classes)
    np.testing.assert_array_equal(
        iterative_classification(hidden, split, GaussianNB()),
        iterative_classification(graph, split, GaussianNB()),
    )


def test_a_class_that_training_has_not_is_never_guessed() -> None:
    graph = synthetic()
    train = np.flatnonzero(graph.y < 2)[:40]
    rest = np.setdiff1d(np.arange(150), train)
    split = Split(train, rest[:20], rest[20:])
    found = iterative_classification(graph, split, GaussianNB())
    assert found.shape == (150, 3)
    assert not found[:, 2].any()


def test_a_split_may_be_named_by_its_number() -> None:
    graph = synthetic()
    np.testing.assert_array_equal(
        iterative_classification(graph, 0, GaussianNB()),
        iterative_classification(graph, graph.splits[0], GaussianNB()),
    )


NO_SPLIT = Graph(
    x=np.eye(3), adj=adjacency(3, [(0, 1), (1, 2)]), y=np.array([0, 1, -1])
)
NOTHING = np.zeros(0, dtype=np.int64)


@each(
    ("change", "fields"),
    [
        ({"graph": 3}, {"value": int}),
        ({"split": Split(np.array([2]), NOTHING, NOTHING)}, {"value": MISSING}),
        ({"split": Split(np.array([9]), NOTHING, NOTHING)}, {"value": MISSING}),
        ({"split": Split(NOTHING, NOTHING, NOTHING)}, {"value": MISSING}),
        ({"estimator": LinearSVC()}, {"words": "'predict_proba'"}),
        ({"estimator": GaussianNB}, {"words": "'fit'"}),
        ({"estimator": None}, {"words": "'fit'"}),
        ({"table": "own+ring1"}, {}),
        ({"table": "own"}, {}),
        ({"rounds": -1}, {}),
        ({"rounds": 1001}, {}),
    ],
)
def test_what_cannot_be_iterated_is_refused(
    change: dict[str, Any], fields: dict[str, Any]
) -> None:
    given: dict[str, Any] = {
        "graph": NO_SPLIT,
        "split": Split(np.array([0, 1]), NOTHING, NOTHING),
        "estimator": GaussianNB(),
    }
    with refused(**(only(change) | fields)):
        iterative_classification(**(given | change))


@each(
    ("change", "message"),
    [
        ({"split": 0}, r"has no split of its own; give a Split\."),
        ({"table": "own+labels.rin"}, "the ring table has no block 'labels.rin'"),
    ],
)
def test_what_is_not_there_cannot_be_iterated(
    change: dict[str, Any], message: str
) -> None:
    split = Split(np.array([0, 1]), NOTHING, NOTHING)
    given: dict[str, Any] = {"split": split, "estimator": GaussianNB()} | change
    with pytest.raises(InputError, match=message):
        iterative_classification(NO_SPLIT, **given)


def test_the_number_of_a_split_must_be_one() -> None:
    with refused(param="split", value=-1):
        iterative_classification(synthetic(), -1, GaussianNB())


# --------------------------------------------------------------------------- the model


def made(graph: Graph, split: Split, table: str = "own+labels.ring1") -> TableInput:
    maker = TableMaker(graph)
    known = torch.zeros(graph.n_nodes, graph.n_classes)
    known[split.train, graph.y[split.train]] = 1
    return maker.build(maker.schema(table), graph.x, "own", known, maskable=True)


def module_of(graph: Graph, split: Split, x: TableInput, **options: Any) -> Any:
    widths = [block.shape[1] for block in x.blocks.values()]
    module = IterativeClassification(widths, graph.n_classes, **options)
    torch.manual_seed(0)
    train = torch.from_numpy(split.train)
    module.initialise(x, (), torch.from_numpy(graph.y)[train], train)
    return module.eval()


@each("base", BASES)
@each("table", ["own+labels.ring1", RING2, "labels.ring1"])
def test_the_model_asks_its_base_again_with_guessed_labels(
    base: str, table: str
) -> None:
    graph = synthetic()
    split = some_split(graph)
    x = made(graph, split, table)
    module = module_of(graph, split, x, base=base, table=table, rounds=10)
    hops = (1, 2) if table == RING2 else (1,)
    known = np.full(150, -1)
    known[split.train] = graph.y[split.train]
    labels, logits, turns = known, None, 0
    for _ in range(11):
        columns = columns_by_loops(graph, labels, hops)
        columns = columns if "own" in table else columns[:, graph.n_features :]
        rows = torch.from_numpy(columns.astype(np.float32))
        widths = [block.shape[1] for block in x.blocks.values()]
        parts = dict(zip(x.blocks, rows.split(widths, dim=1), strict=True))
        logits = module.base(TableInput(parts, {}, x.known)).numpy()
        guessed = logits.argmax(axis=1)
        before, labels = labels, np.where(known >= 0, known, guessed)
        turns += 1
        if (before == labels).all():
            break
    assert turns > 2, "the graph is such that guesses change"
    np.testing.assert_allclose(module(x), logits, atol=1e-4)


def test_no_rounds_are_the_bootstrap_alone() -> None:
    graph = synthetic()
    split = some_split(graph)
    x = made(graph, split)
    module = module_of(graph, split, x, rounds=0)
    own, labels = x.blocks.values()
    shares = torch.cat([labels[:, :-1], torch.zeros(150, 1)], dim=1)
    bare = TableInput({"own": own, "labels.ring1": shares}, {}, x.known)
    torch.testing.assert_close(module(x), module.base(bare))


def test_training_nodes_keep_their_labels() -> None:
    # Whatever is guessed, what is counted of training nodes are their labels.
    graph = synthetic()
    split = some_split(graph)
    x = made(graph, split)
    seen: list[Tensor] = []

    def wrong(table: TableInput) -> Tensor:
        seen.append(table.blocks["labels.ring1"])
        return torch.eye(3)[(torch.from_numpy(graph.y) + 1) % 3]

    _iterate(wrong, x, rounds=5)
    assert len(seen) == 2  # guesses do not change any more
    labels = (graph.y + 1) % 3
    labels[split.train] = graph.y[split.train]
    expected = columns_by_loops(graph, labels, (1,))[:, graph.n_features :]
    np.testing.assert_allclose(seen[1], expected, atol=1e-6)


def test_guesses_that_swap_for_ever_end_with_the_rounds() -> None:
    edge = Graph(x=np.eye(3), adj=adjacency(3, [(0, 1)]), y=np.array([0, 1, 0]))
    x = made(edge, Split(np.array([2]), NOTHING, NOTHING))
    calls = 0

    def other_than_the_neighbour(table: TableInput) -> Tensor:
        nonlocal calls
        calls += 1
        heard = table.blocks["labels.ring1"][:, :2]
        return torch.where(
            heard.any(dim=1, keepdim=True), 1 - heard, heard.new_tensor([1, 0])
        )

    _iterate(other_than_the_neighbour, x, rounds=7)
    assert calls == 8


def test_scores_that_are_equal_up_to_rounding_are_equal() -> None:
    graph = synthetic()
    x = made(graph, some_split(graph))
    scores = torch.tensor([[3.0, 3.000001, 1.0]]).repeat(150, 1)
    found = _iterate(lambda _: scores, x, rounds=1)
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
    assert module.state_problem(state) is None
    name = next(iter(state))
    assert "is missing" in module.state_problem(
        {k: v for k, v in state.items() if k != name}
    )
    assert (
        module.state_problem(state | {"x": torch.ones(1)}) == "x is none of its tensors"
    )
    if base == "naive-bayes":
        bad = state | {"base.variance": -state["base.variance"]}
        assert (
            module.state_problem(bad)
            == "base.variance has numbers that are not positive"
        )
    bad = state | {name: torch.full_like(state[name], 7)[..., None]}
    assert module.state_problem(bad).startswith("base.")


def test_it_looks_at_the_whole_graph_and_has_no_weights() -> None:
    module = IterativeClassification((2, 5), 3)
    assert module.reach is None
    assert not list(module.parameters())
    assert {name.partition(".")[0] for name in module.state_dict()} == {"base"}


@each(
    "options",
    [
        {"base": "svm"},
        {"rounds": 1001},
        {"table": "own"},
        {"table": "labels.ring1+degrees"},
    ],
)
def test_bad_options_are_named(options: dict[str, Any]) -> None:
    with refused(**only(options)):
        IterativeClassification((2, 4), 3, **options)


# ------------------------------------------------------------------------ its learners


def rows_as_table(rows: Matrix, widths: tuple[int, ...]) -> TableInput:
    parts = torch.from_numpy(rows.astype(np.float32)).split(widths, dim=1)
    return TableInput(
        {str(i): part for i, part in enumerate(parts)}, {}, torch.zeros(len(rows), 3)
    )


def test_naive_bayes_is_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=90)
    rows = (rng.normal(size=(90, 5)) + y[:, None] * [1, 0, 2, 0, -1]).astype(np.float32)
    x, index = rows_as_table(rows, (2, 3)), torch.arange(60)
    module = NaiveBayesTable((2, 3), 3)
    module.initialise(x, (), torch.from_numpy(y[:60]), index)
    expected = GaussianNB().fit(rows[:60].astype(float), y[:60]).predict_log_proba(rows)
    found = module(x).numpy()
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.maximum(expected, -30), atol=1e-4)


def test_naive_bayes_knows_only_classes_of_training() -> None:
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(30, 2)), np.arange(30) % 2 * 2
    rows[:, 1] = 5  # a column that says nothing
    module = NaiveBayesTable((2,), 4)
    module.initialise(
        rows_as_table(rows, (2,)), (), torch.from_numpy(y), torch.arange(30)
    )
    found = module(rows_as_table(rows, (2,)))
    assert torch.isfinite(found).all()
    assert (found[:, [1, 3]] == -30).all()
    flat = rows_as_table(np.ones((30, 2)), (2,))
    module.initialise(flat, (), torch.from_numpy(y), torch.arange(30))
    assert module(flat)[0].exp().tolist() == pytest.approx([0.5, 0, 0.5, 0], abs=1e-6)


def test_a_small_block_counts_as_much_as_a_large_one() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=200)
    # One column says the class with noise; four hundred others say nothing.
    rows = rng.normal(size=(200, 401))
    rows[:, 400] = y + 0.8 * rng.normal(size=200)
    x = rows_as_table(rows, (400, 1))
    scores = []
    for learner in (LogisticTable, BlockLogistic):
        torch.manual_seed(0)
        module = learner((400, 1), 2)
        module.initialise(x, (), torch.from_numpy(y[:80]), torch.arange(80))
        found = module(x).argmax(dim=1).numpy()[80:]
        scores.append((found == y[80:]).mean())
    assert scores[1] > scores[0] + 0.03
    varies = np.array([True, False, True, True, True])
    assert BlockLogistic((2, 3), 2)._shared_by(varies).tolist() == [1, 1, 3, 3, 3]
    assert LogisticTable((2, 3), 2)._shared_by(varies).tolist() == [4] * 5
