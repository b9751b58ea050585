"""Logistic regression and boosted trees on the table, against their libraries."""

import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from h2gcn import Graph, NodeClassifier, Split
from h2gcn.estimator.automatic import Answering, fit_on_all
from h2gcn.exceptions import InputError
from h2gcn.features import FeatureTable
from h2gcn.graph import CSR
from h2gcn.models import build_model, logistic_table, stop_fits
from h2gcn.models.boosted_trees import MAX_LEAVES, PATIENCE, TEXT, BoostedTrees
from h2gcn.models.closed_form import ABSENT
from h2gcn.models.logistic_table import C_GRID, LogisticTable
from h2gcn.models.tree_text import rebuild_trees
from h2gcn.sparse import NO_GRAPH, Operator, Propagation
from support.cases import each
from support.graphs import adjacency
from support.refusals import only, refused

LEARNERS = ("logistic", "boosted-trees")


def table(rows: NDArray[Any], *, sparse: bool = False) -> FeatureTable:
    """Return numbers as a table of two blocks, the second sparse or not."""
    numbers = torch.from_numpy(rows.astype(np.float32))
    other = Operator(CSR(numbers[:, 2:].numpy())) if sparse else numbers[:, 2:]
    return FeatureTable(
        {"own": numbers[:, :2], "ring1": other}, {}, torch.zeros(len(rows), 1)
    )


def problem(
    n: int, columns: int, classes: list[int]
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return mostly empty rows that tell something of their classes."""
    rng = np.random.default_rng(0)
    y = np.array(classes)[np.arange(n) % len(classes)]
    x = rng.normal(size=(n, columns)) * rng.uniform(0.5, 3, size=columns)
    x[:, 2:] *= rng.random((n, columns - 2)) < 0.2
    x[:, 0] += y + 5
    x[:, 1] -= 0.7 * (y == classes[0])
    x[:, -1] = 3.0  # never varies
    return x.astype(np.float32), y


def fitted(
    name: str,
    rows: NDArray[Any],
    y: NDArray[np.int64],
    n_classes: int,
    *,
    sparse: bool = False,
    held_out: int = 0,
    **options: Any,
) -> Any:
    """Return a module fitted to all rows but the last five, the test nodes."""
    module = build_model(name, (2, rows.shape[1] - 2), n_classes, options)
    labels, last = torch.from_numpy(y), len(y) - 5 - held_out
    index = torch.arange(len(y))
    torch.manual_seed(0)
    module.set_validation(labels[last:-5], index[last:-5])
    module.initialise(table(rows, sparse=sparse), NO_GRAPH, labels[:last], index[:last])
    return module.eval()


# --------------------------------------------------------------- logistic regression


def scikit_logits(
    rows: NDArray[Any], y: NDArray[np.int64], C: float, n_classes: int
) -> NDArray[np.float64]:
    """Return the logits of scikit-learn, of columns that are divided by √D."""
    x, train = rows.astype(np.float64), slice(0, len(y) - 5)
    width = np.count_nonzero(x[train].std(axis=0))
    last = LogisticRegression(C=C, max_iter=5000, tol=1e-9)
    model = make_pipeline(
        StandardScaler(), FunctionTransformer(lambda z: z / np.sqrt(width)), last
    )
    decision = model.fit(x[train], y[train]).decision_function(x)
    if decision.ndim == 1:
        decision = np.stack([np.zeros(len(y)), decision], axis=1)
    logits = np.full((len(y), n_classes), ABSENT)
    logits[:, last.classes_] = decision
    return logits


@each("classes", [[0, 1], [0, 1, 2], [0, 2], [1, 3, 2]], ids=str)
def test_logistic_has_the_optimum_of_scikit_learn(
    classes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logistic_table, "TOLERANCE", 1e-9)
    n_classes = max(classes) + 1
    for columns in (5, 70):  # fewer than rows, and more
        rows, y = problem(45, columns, classes)
        expected = scikit_logits(rows, y, 10.0, n_classes)
        for sparse in (False, True):
            module = fitted("logistic", rows, y, n_classes, sparse=sparse, C=10.0)
            weight = module.scale[:, None].double() * module.weight.double()
            z = torch.from_numpy(rows).double() - module.mean.double()
            found = (z @ weight + module.bias.double()).numpy()
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-5)
            logits = module(table(rows, sparse=sparse), NO_GRAPH)
            assert logits.dtype == torch.float32
            np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)


def test_weights_of_rows_are_the_same_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logistic_table, "TOLERANCE", 1e-9)
    rows, y = problem(45, 90, [0, 1, 2])
    by_row = fitted("logistic", rows, y, 3, C=10.0)(table(rows), NO_GRAPH)
    monkeypatch.setattr(logistic_table, "MAX_GRAM_NODES", 0)
    for sparse in (False, True):
        by_column = fitted("logistic", rows, y, 3, sparse=sparse, C=10.0)(
            table(rows), NO_GRAPH
        )
        torch.testing.assert_close(by_row, by_column, rtol=1e-5, atol=1e-5)


def test_folds_choose_how_much_of_the_columns_is_followed() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    noise = rng.normal(size=(60, 30))
    clear = np.column_stack([4.0 * y + rng.normal(size=60), noise[:, :2]])

    def choose(x: NDArray[Any], y: NDArray[np.int64]) -> float:
        z = (x - x.mean(axis=0)) / x.std(axis=0) / np.sqrt(x.shape[1])
        rows = logistic_table.Standardized(z, np.zeros(x.shape[1]))
        return logistic_table.choose_c(rows, y, seed=0)

    assert choose(noise, y) == C_GRID[0]
    assert choose(clear, y) > C_GRID[0]
    assert choose(noise[:11], y[:11]) == 100.0  # too few for folds
    for n in (20, 40, 700):  # a class of one node, and of one or two nodes each
        x, lone = rng.normal(size=(n, 4)), np.arange(n) % 2
        lone[-1] = 2
        for labels in (lone, np.arange(n) % 20):
            assert choose(x, labels) in C_GRID
    chosen = choose(noise[:55], y[:55])
    given = fitted("logistic", noise, y, 2, C=chosen)(table(noise), NO_GRAPH)
    torch.testing.assert_close(
        fitted("logistic", noise, y, 2)(table(noise), NO_GRAPH), given
    )


# --------------------------------------------------------------------- boosted trees


@each("classes", [[0, 1], [0, 1, 2], [1, 3], [0, 3, 2]], ids=str)
def test_trees_are_lightgbms(
    classes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    boosters: list[lightgbm.Booster] = []
    train = lightgbm.train

    def spy(*args: Any, **kwargs: Any) -> lightgbm.Booster:
        boosters.append(train(*args, **kwargs))
        return boosters[-1]

    monkeypatch.setattr(lightgbm, "train", spy)
    for n, held_out in ((60, 0), (420, 120)):
        rows, y = problem(n, 6, classes)
        found = []
        for sparse in (False, True):
            module = fitted(
                *("boosted-trees", rows, y, 4),
                sparse=sparse,
                held_out=held_out,
                n_estimators=30,
            )
            best = module.best_iteration
            assert best == 30 or held_out
            raw = boosters[-1].predict(rows, raw_score=True, num_iteration=best)
            expected = np.full((n, 4), ABSENT)
            expected[:, classes[0]] = 0
            trees = sorted(classes)[-raw.reshape(n, -1).shape[1] :]
            expected[:, trees] = raw.reshape(n, -1)
            logits = module(table(rows, sparse=sparse), NO_GRAPH).numpy()
            np.testing.assert_allclose(logits, expected, rtol=1e-6, atol=1e-6)
            index = np.array([7, 7, 0])
            some = module(table(rows), Propagation((), torch.as_tensor(index))).numpy()
            np.testing.assert_allclose(some, logits[index], rtol=1e-6)
            found.append(logits)
            contributions(module, table(rows), logits)
        np.testing.assert_array_equal(*found)


def contributions(module: Any, x: FeatureTable, logits: NDArray[np.float32]) -> None:
    """Check that contributions sum to the logits, and name the columns that count."""
    for node in (0, 11):
        row = x.rows(np.array([node]))
        bias, *blocks = module.decompose(row, NO_GRAPH).contributions
        total = bias.values + sum(block.values for block in blocks)
        np.testing.assert_allclose(total, logits[node], atol=1e-5)
        for block in blocks:
            np.testing.assert_allclose(block.by_column.sum(axis=0), block.values)
        assert not blocks[-1].by_column[-1].any()  # it never varies
    train = module(x.rows(np.arange(len(logits) - 5)), NO_GRAPH).numpy()
    if module.best_iteration == 30:  # all but the last five were trained on
        seen = train.min(axis=0) > ABSENT
        mean = train.mean(axis=0)[seen]
        np.testing.assert_allclose(bias.values[seen], mean, atol=1e-4)


def test_validation_nodes_stop_the_trees() -> None:
    rng = np.random.default_rng(0)
    n = 900
    y = np.arange(n) % 2
    rows = rng.normal(size=(n, 4))
    rows[:, 0] += y
    module = fitted("boosted-trees", rows, y, 2, held_out=300, n_estimators=200)
    assert 5 < module.best_iteration < 200 - PATIENCE
    # What is learned from shuffled labels of training is of no use elsewhere.
    noise = y.copy()
    noise[:595] = rng.permutation(y[:595])
    wrong = fitted("boosted-trees", rows, noise, 2, held_out=300)
    assert wrong.best_iteration < module.best_iteration
    # Of classes that training has not, validation nodes say nothing.
    noise[595:] = 2
    unjudged = fitted("boosted-trees", rows, noise, 3, held_out=300)
    assert unjudged.best_iteration == 200


def test_the_nodes_that_stop_trees_are_the_validation_part_alone() -> None:
    # Groups share a column that says their label: another group is what tells.
    rng = np.random.default_rng(0)
    n = 600
    group = np.arange(n) // 10
    y = rng.integers(2, size=60)[group]
    x = rng.normal(size=(60, 8))[group] + 0.01 * rng.normal(size=(n, 8))
    split = Split(np.arange(400), np.arange(400, 500), np.arange(500, n))
    graph = Graph(x=x, adj=adjacency(n, [(0, 1)]), y=y, splits=(split,))
    options = {"table": "ego"}
    clf = NodeClassifier("boosted-trees", options=options, random_state=0).fit(graph)
    assert clf.best_epoch_ < 20, "a tenth of the training nodes would go on to the end"
    other = Graph(x=x, adj=graph.adj, y=np.where(np.arange(n) < 500, y, 1 - y))
    again = NodeClassifier("boosted-trees", options=options, random_state=0)
    assert again.fit(other, split).best_epoch_ == clf.best_epoch_  # test labels


# ----------------------------------------------------------------------------- both


@each("model", LEARNERS)
def test_lone_classes_and_constant_columns(model: str) -> None:
    rows, y = problem(320, 4, [0, 1])
    y[0] = 2
    assert torch.isfinite(fitted(model, rows, y, 3)(table(rows), NO_GRAPH)).all()
    one = fitted(model, rows, np.full(320, 1), 3)(table(rows), NO_GRAPH)
    assert (one.argmax(dim=1) == 1).all()
    rows, y = problem(205, 4, list(range(30)))
    assert torch.isfinite(fitted(model, rows, y, 30)(table(rows), NO_GRAPH)).all()
    flat, y = np.ones((45, 4)), np.r_[np.zeros(25, int), np.ones(20, int)]
    shares = fitted(model, flat, y, 2, held_out=5)(table(flat), NO_GRAPH).softmax(dim=1)
    np.testing.assert_allclose(shares, np.tile([25 / 35, 10 / 35], (45, 1)), rtol=1e-3)
    fresh = build_model(model, (2, 2), 3, {})
    assert not fresh(table(flat), NO_GRAPH).diff(dim=1).any()
    assert fresh(table(flat).rows(np.zeros(0, dtype=np.int64)), NO_GRAPH).shape == (
        0,
        3,
    )


@each("model", LEARNERS)
def test_the_time_limit_stops_a_fit(model: str) -> None:
    rows, y = problem(300, 30, [0, 1, 2])
    asked: list[float] = []

    def after(steps: int) -> Callable[[float], bool]:
        asked.clear()
        return lambda fraction: asked.append(fraction) or len(asked) > steps  # type: ignore[func-returns-value]

    def fit() -> torch.Tensor:
        return fitted(model, rows, y, 3, held_out=50)(table(rows), NO_GRAPH)

    whole = fit()
    with stop_fits(after(10**9)):
        assert torch.equal(fit(), whole)
    # Half of the time is for choosing C.
    assert set(asked) == ({0.5, 1.0} if model == "logistic" else {1.0})
    with stop_fits(after(3)):
        cut = fit()
    assert len(asked) <= 4 + len(C_GRID) * logistic_table.N_FOLDS
    assert torch.isfinite(cut).all()
    assert not torch.allclose(cut, whole, rtol=0.1)
    count = len(asked)
    fit()
    assert len(asked) == count, "outside nobody asks"


@each("model", LEARNERS)
def test_adjacency_rows_stay_sparse(model: str) -> None:
    n = 50_000
    rng = np.random.default_rng(0)
    edges = rng.integers(n, size=(2, 2 * n))
    matrix = sp.csr_array((np.ones(2 * n, np.float32), edges), shape=(n, n))
    blocks = {
        "own": torch.from_numpy(rng.normal(size=(n, 2)).astype(np.float32)),
        "adjacency.all": Operator(CSR(matrix)),
    }
    x = FeatureTable(blocks, torch.zeros(n, 1))
    y, index = torch.arange(n) % 2, torch.arange(0, n, 10)
    small = {"C": 10.0} if model == "logistic" else {"n_estimators": 2}
    module = build_model(model, (2, n), 2, small)
    tracemalloc.start()
    module.set_validation(y[1:n:50], torch.arange(1, n, 50))
    module.initialise(x, NO_GRAPH, y[index], index)
    assert module(x, NO_GRAPH).shape == (n, 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300e6  # dense training rows alone are 1 GB
    assert module.working_bytes(n, len(index)) < 1e6  # what a fit is refused by


def test_trees_are_fitted_again_for_as_many_iterations_as_were_best() -> None:
    graph = ring_graph(300)
    options: dict[str, Any] = {"table": "ego"}
    clf = NodeClassifier("boosted-trees", options=options, random_state=0).fit(graph)
    assert 0 < clf.best_epoch_ < 100
    (again,) = fit_on_all(graph, [Answering("trees", 1.0, 1.0, clf)], NodeClassifier)
    assert again.classifier.options == {
        "table": "ego",
        "n_estimators": clf.best_epoch_,
    }
    assert again.classifier.best_epoch_ == clf.best_epoch_


# ------------------------------------------------------------------------ saved models


def ring_graph(n: int = 40) -> Graph:
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    edges = [(i, (i + 1) % n) for i in range(n)]
    return Graph(x=rng.normal(size=(n, 3)) + y[:, None], adj=adjacency(n, edges), y=y)


@each("model", LEARNERS)
def test_a_saved_model_predicts_the_same(model: str, tmp_path: Path) -> None:
    clf = NodeClassifier(model, random_state=0).fit(ring_graph())
    clf.save(tmp_path / "model")
    before = clf.predict_logits(ring_graph())
    after = NodeClassifier.load(tmp_path / "model").predict_logits(ring_graph())
    assert after.tobytes() == before.tobytes()
    assert np.ptp(after) > 0


def trees(**options: Any) -> tuple[BoostedTrees, FeatureTable]:
    rows, y = problem(90, 6, [0, 1, 2])
    options = {"n_estimators": 4, "num_leaves": 6, **options}
    return fitted("boosted-trees", rows, y, 3, **options), table(rows)


def text_of(module: BoostedTrees) -> str:
    return bytes(module.state_dict()[TEXT].tolist()).decode()


def problem_of(module: BoostedTrees, text: str) -> str | None:
    state = torch.tensor(list(text.encode()), dtype=torch.uint8)
    return module.state_problem({**module.state_dict(), TEXT: state})


@each(
    ("line", "value", "wrong"),
    [
        ("left_child", "1 0 -3 -4 -5", "children"),
        ("left_child", "1 2 3 4 1000000", "children"),
        ("right_child", "-2 -2 -3 -4 -5", "children"),
        ("split_feature", "0 1 0 1 6", "split_feature"),
        ("split_feature", "0 1 0 1 -1", "split_feature"),
        ("split_feature", "0 1 0 1 99999999999999999999", "too large"),
        ("decision_type", "2 2 2 2 3", "decision_type"),
        ("decision_type", "2 2 2 2", "lengths"),
        ("threshold", "1 1 1 1 nan", "finite"),
        ("leaf_value", "1 1 1 1 1 inf", "finite"),
        ("leaf_value", "", "lengths"),
        ("leaf_count", "1 1 1 1 1 0", "leaf_count"),
        ("leaf_count", "1 1 1 1 1 x", "invalid literal"),
        ("other", "", None),
    ],
)
def test_damaged_trees_are_named(line: str, value: str, wrong: str | None) -> None:
    module, _ = trees()
    lines = text_of(module).split("\n")
    place = next((i for i, one in enumerate(lines) if one.startswith(line)), 1)
    lines[place] = f"{line}={value}"
    found = problem_of(module, "\n".join(lines))
    assert wrong in found if wrong else found is None


def test_what_is_no_state_of_trees_is_named() -> None:
    module, _ = trees()
    state = module.state_dict()
    assert module.state_problem(state) is None
    for change, wrong in (
        ({"seen": torch.zeros(2, dtype=torch.bool)}, "seen has the shape"),
        ({"seen": torch.zeros(3, dtype=torch.bool)}, "no classes"),
        ({"seen": torch.tensor([True, False, False])}, "no classes"),
        ({TEXT: torch.zeros(5)}, "has the type"),
        ({TEXT: torch.zeros(5, dtype=torch.uint8)}, "number of trees"),
        ({"more": torch.zeros(1)}, "none of its tensors"),
    ):
        assert wrong in str(module.state_problem({**state, **change})), wrong
    del state[TEXT]
    assert module.state_problem(state) == f"{TEXT} is missing"
    for fewer in ({"num_leaves": 5}, {"n_estimators": 3}):
        smaller = build_model("boosted-trees", (2, 4), 3, fewer)
        assert smaller.state_problem(module.state_dict()) is not None
    blank = build_model("boosted-trees", (2, 4), 3, {})
    with pytest.raises(InputError, match="the trees are damaged"):
        blank.load_state_dict({**module.state_dict(), TEXT: torch.zeros(9)})


def test_mutated_texts_are_refused_or_harmless() -> None:
    module, x = trees()
    text, rng = text_of(module), random.Random(0)
    refusals = 0
    for _ in range(400):
        mutant = list(text)
        for _ in range(rng.randint(1, 3)):
            place, kind = rng.randrange(len(mutant)), rng.randrange(4)
            if kind == 0:
                mutant[place] = rng.choice("0123456789-.e= \nx")
            elif kind == 1:
                del mutant[place : place + rng.randint(1, 40)]
            elif kind == 2:
                mutant[place:place] = rng.choice(["9" * 12, "-", " 1", "\nTree=7\n"])
            else:
                mutant[place:place] = mutant[: rng.randint(1, 400)]
        try:
            safe = rebuild_trees(
                "".join(mutant).encode(),
                n_columns=6,
                n_outputs=3,
                max_leaves=6,
                max_trees=12,
            )
        except ValueError:
            refusals += 1
            continue
        booster = lightgbm.Booster(model_str=safe.decode())
        assert booster.predict(x.dense(), pred_contrib=True).shape == (90, 21)
    assert 50 < refusals < 350


def test_rebuilt_trees_are_the_same() -> None:
    module, _ = trees()
    text = text_of(module).encode()
    bounds = {"n_columns": 6, "n_outputs": 3, "max_leaves": 6, "max_trees": 12}
    assert rebuild_trees(text, **bounds) == text


@each(
    ("module", "options"),
    [
        (LogisticTable, {"C": -1}),
        (BoostedTrees, {"n_estimators": 0}),
        (BoostedTrees, {"n_estimators": 10_001}),
        (BoostedTrees, {"num_leaves": 1}),
        (BoostedTrees, {"num_leaves": MAX_LEAVES + 1}),
        (BoostedTrees, {"learning_rate": 0}),
        (BoostedTrees, {"learning_rate": 1.1}),
    ],
)
def test_options_out_of_range_are_refused(
    module: type, options: dict[str, Any]
) -> None:
    with refused(**only(options)):
        module((3,), 2, **options)
    with pytest.raises(InputError, match="no feature block 'me'"):
        module((3,), 2, table="me")


def test_the_learning_rate_may_be_a_parameter_or_an_option() -> None:
    graph = ring_graph()
    logits = [
        NodeClassifier("boosted-trees", random_state=0, **rate)
        .fit(graph)
        .predict_logits(graph)
        for rate in ({"learning_rate": 0.5}, {"options": {"learning_rate": 0.5}}, {})
    ]
    np.testing.assert_array_equal(logits[0], logits[1])
    assert not np.array_equal(logits[0], logits[2])
