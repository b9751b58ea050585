"""Logistic regression and boosted trees on the table, against their libraries."""

import random
import tracemalloc

import lightgbm
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from h2gcn import Graph, NodeClassifier, Split
from h2gcn.estimator.automatic import Answering, fit_on_all
from h2gcn.exceptions import InputError
from h2gcn.features import FeatureTable
from h2gcn.graph import CSR
from h2gcn.models import build_model, logistic_table
from h2gcn.models.boosted_trees import PATIENCE
from h2gcn.models.logistic_table import ABSENT, C_GRID
from h2gcn.models.tree_text import rebuild_trees
from h2gcn.sparse import NO_GRAPH, Operator, Propagation
from h2gcn.training import TrainConfig, Trainer, stop_fits
from support.graphs import adjacency

LEARNERS = ("logistic", "boosted-trees")
TEXT = "_extra_state"  # torch's name for what a module stores beside its tensors
learners = pytest.mark.parametrize("model", LEARNERS)


def table(rows, *, sparse=False):
    """Return numbers as a table of two blocks, the second sparse or not."""
    numbers = torch.from_numpy(np.asarray(rows, dtype=np.float32))
    other = Operator(CSR(numbers[:, 2:].numpy())) if sparse else numbers[:, 2:]
    return FeatureTable({"ego": numbers[:, :2], "ring1": other})


def problem(n, columns, classes):
    """Return mostly empty rows that depend on their classes."""
    rng = np.random.default_rng(0)
    y = np.array(classes)[np.arange(n) % len(classes)]
    x = rng.normal(size=(n, columns)) * rng.uniform(0.5, 3, size=columns)
    x[:, 2:] *= rng.random((n, columns - 2)) < 0.2
    x[:, 0] += y + 5
    x[:, 1] -= 0.7 * (y == classes[0])
    x[:, -1] = 3.0  # never varies
    return x.astype(np.float32), y


def fit(model, rows, y, n_classes, *, sparse=False, n_val=0, **options):
    """Return a module fitted to all rows but the last five, and the result.

    Of these, the last `n_val` are the validation nodes; without any, all training
    nodes are in that part too.
    """
    module = build_model(model, (2, rows.shape[1] - 2), n_classes, options)
    known, test = np.arange(len(y) - 5), np.arange(len(y) - 5, len(y))
    split = Split(known[: len(known) - n_val], known[-n_val:], test)
    x = table(rows, sparse=sparse)
    return module, Trainer(module, x, (), y, split, TrainConfig()).run()


def logits_of(module, rows, *, sparse=False):
    return module(table(rows, sparse=sparse), NO_GRAPH).numpy()


def scikit_logits(rows, y, C, n_classes):
    """Return the logits of scikit-learn, of columns that are divided by √D."""
    x, known = rows.astype(np.float64), slice(0, len(y) - 5)
    width = np.count_nonzero(x[known].std(axis=0))
    last = LogisticRegression(C=C, max_iter=5000, tol=1e-9)
    model = make_pipeline(
        StandardScaler(), FunctionTransformer(lambda z: z / np.sqrt(width)), last
    )
    decision = model.fit(x[known], y[known]).decision_function(x)
    if decision.ndim == 1:
        decision = np.stack([np.zeros(len(y)), decision], axis=1)
    logits = np.full((len(y), n_classes), ABSENT)
    logits[:, last.classes_] = decision
    return logits


@pytest.mark.parametrize("classes", [[0, 1], [0, 1, 2], [0, 2], [1, 3, 2]], ids=str)
def test_logistic_has_the_optimum_of_scikit_learn(classes, monkeypatch):
    monkeypatch.setattr(logistic_table, "TOLERANCE", 1e-9)
    n_classes = max(classes) + 1
    # Fewer columns than rows; more, sought among the rows; more, among the columns.
    for columns, max_gram_nodes in ((5, 4000), (70, 4000), (70, 0)):
        monkeypatch.setattr(logistic_table, "MAX_GRAM_NODES", max_gram_nodes)
        rows, y = problem(45, columns, classes)
        expected = scikit_logits(rows, y, 10.0, n_classes)
        for sparse in (False, True):
            module, _ = fit("logistic", rows, y, n_classes, sparse=sparse, C=10.0)
            found = logits_of(module, rows, sparse=sparse)
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=5e-5)


def test_folds_choose_a_small_c_for_noise_and_a_larger_one_for_signal():
    rng = np.random.default_rng(0)
    y, noise = np.arange(60) % 2, rng.normal(size=(60, 30))
    clear = np.column_stack([4.0 * y + rng.normal(size=60), noise[:, :2]])

    def chosen(x, y):
        """Return the C whose fit is the same as that without one."""
        found = logits_of(fit("logistic", x, y, 20)[0], x)
        for C in C_GRID:
            if np.allclose(found, logits_of(fit("logistic", x, y, 20, C=C)[0], x)):
                return C
        raise AssertionError("C is not of the grid")

    assert chosen(noise, y) == C_GRID[0]
    assert chosen(clear, y) > C_GRID[0]
    assert chosen(noise[:16], y[:16]) == 100.0  # too few for folds
    for n in (25, 45, 705):  # a class of one node, and of one or two nodes each
        x, lone = rng.normal(size=(n, 4)), np.arange(n) % 2
        lone[-6] = 2
        for labels in (lone, np.arange(n) % 20):
            assert chosen(x, labels) in C_GRID


@pytest.mark.parametrize("classes", [[0, 1], [0, 1, 2], [1, 3], [0, 3, 2]], ids=str)
def test_trees_are_lightgbms(classes, monkeypatch):
    boosters, train_trees = [], lightgbm.train

    def spy(*args, **kwargs):
        boosters.append(train_trees(*args, **kwargs))
        return boosters[-1]

    monkeypatch.setattr(lightgbm, "train", spy)
    n_classes = 2 if max(classes) == 1 else 4
    for n, n_val in ((60, 0), (420, 120)):
        rows, y = problem(n, 6, classes)
        found = []
        for sparse in (False, True):
            options = {"sparse": sparse, "n_val": n_val, "n_estimators": 30}
            module, result = fit("boosted-trees", rows, y, n_classes, **options)
            best = result.best_epoch
            assert best == 30 or n_val
            raw = boosters[-1].predict(rows, raw_score=True, num_iteration=best)
            expected = np.zeros((n, n_classes))
            expected[:, -1 if n_classes == 2 else slice(None)] = raw
            logits = logits_of(module, rows, sparse=sparse)
            np.testing.assert_allclose(logits, expected, rtol=1e-6, atol=1e-6)
            index = torch.tensor([7, 7, 0])
            some = module(table(rows), Propagation((), index))
            np.testing.assert_allclose(some, logits[index], rtol=1e-6)
            found.append(logits)
        np.testing.assert_array_equal(*found)


def test_validation_nodes_alone_choose_the_number_of_trees():
    rng = np.random.default_rng(0)
    n, y = 900, np.arange(900) % 2
    rows = rng.normal(size=(n, 4))
    rows[:, 0] += y
    best = fit("boosted-trees", rows, y, 2, n_val=300)[1].best_epoch
    assert 5 < best < 200 - PATIENCE
    # What is learned from shuffled labels of training is of no use elsewhere.
    noise = y.copy()
    noise[:595] = rng.permutation(y[:595])
    assert fit("boosted-trees", rows, noise, 2, n_val=300)[1].best_epoch < best
    # Nothing stops the trees where validation nodes are of a class without a training
    # node, or are training nodes themselves.
    noise[595:] = 2
    assert fit("boosted-trees", rows, noise, 3, n_val=300)[1].best_epoch == 200
    assert fit("boosted-trees", rows, y, 2)[1].best_epoch == 200
    # Nodes of a group share its columns and label: only other groups are a test.
    group = np.arange(600) // 10
    y = rng.integers(2, size=60)[group]
    rows = rng.normal(size=(60, 8))[group] + 0.01 * rng.normal(size=(600, 8))
    assert fit("boosted-trees", rows, y, 2, n_val=100)[1].best_epoch < 20


@learners
def test_lone_classes_and_constant_columns_have_finite_logits(model):
    rows, y = problem(320, 4, [0, 1])
    y[0] = 2
    assert np.isfinite(logits_of(fit(model, rows, y, 3)[0], rows)).all()
    for n_classes in (2, 3):
        one, _ = fit(model, rows, np.full(320, 1), n_classes)
        assert (logits_of(one, rows).argmax(axis=1) == 1).all()
    rows, y = problem(205, 4, range(30))
    assert np.isfinite(logits_of(fit(model, rows, y, 30)[0], rows)).all()
    flat, y = np.ones((45, 4)), np.repeat([0, 1], [25, 20])
    module, _ = fit(model, flat, y, 2, n_val=5)
    probabilities = module(table(flat), NO_GRAPH).softmax(dim=1)
    np.testing.assert_allclose(probabilities, [[25 / 35, 10 / 35]] * 45, rtol=1e-3)
    assert module(table(flat[:0]), NO_GRAPH).shape == (0, 2)


@learners
def test_a_fit_whose_time_is_up_ends_early_with_finite_logits(model, monkeypatch):
    monkeypatch.setattr(logistic_table, "PART", 3)
    rows, y = problem(300, 30, [0, 1, 2])
    asked = []

    def fit_for(steps):
        asked.clear()
        clock = lambda fraction: asked.append(fraction) or len(asked) > steps  # noqa: E731
        with stop_fits(clock):
            return logits_of(fit(model, rows, y, 3, n_val=50)[0], rows)

    whole = fit_for(10**9)
    np.testing.assert_array_equal(
        whole, logits_of(fit(model, rows, y, 3, n_val=50)[0], rows)
    )
    # Half of the time is for choosing C.
    assert set(asked) == ({0.5, 1.0} if model == "logistic" else {1.0})
    cut = fit_for(0)
    assert len(asked) <= 1 + len(C_GRID) * logistic_table.N_FOLDS
    assert np.isfinite(cut).all()
    assert not np.allclose(cut, whole, rtol=1e-3)


@learners
def test_adjacency_rows_stay_sparse(model):
    n, rng = 50_000, np.random.default_rng(0)
    matrix = sp.csr_array(
        (np.ones(2 * n, np.float32), rng.integers(n, size=(2, 2 * n))), shape=(n, n)
    )
    ego = torch.from_numpy(rng.normal(size=(n, 2)).astype(np.float32))
    x = FeatureTable({"ego": ego, "adjacency.ring1": Operator(CSR(matrix))})
    nodes, val, test = (np.arange(first, n, 10) for first in (0, 1, 2))
    small = {"C": 10.0} if model == "logistic" else {"n_estimators": 2}
    module = build_model(model, (2, n), 2, small)
    tracemalloc.start()
    Trainer(
        module, x, (), np.arange(n) % 2, Split(nodes, val, test), TrainConfig()
    ).run()
    assert module(x, NO_GRAPH).shape == (n, 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300e6  # dense training rows alone are 1 GB
    assert module.step_bytes(n, len(nodes), 0) < 1e6  # what a fit is refused by


def test_the_final_fit_of_trees_has_as_many_iterations_as_were_best():
    rows, y = problem(300, 6, [0, 1, 2])
    graph = Graph(x=rows, adj=adjacency(300, [(0, 1)]), y=y)
    options = {"table": "ego"}
    clf = NodeClassifier("boosted-trees", options=options, random_state=0).fit(graph)
    assert 0 < clf.best_epoch_ < 150
    (again,) = fit_on_all(graph, [Answering("trees", 1.0, 1.0, clf)], NodeClassifier)
    expected = {"table": "ego", "n_estimators": clf.best_epoch_}
    assert again.classifier.options == expected
    assert again.classifier.best_epoch_ == clf.best_epoch_


# ----------------------------------------------------------------------- damaged trees

BOUNDS = {"n_columns": 6, "n_outputs": 3, "max_leaves": 6, "max_trees": 12}


def trees():
    rows, y = problem(90, 6, [0, 1, 2])
    small = {"n_estimators": 4, "num_leaves": 6}
    module, _ = fit("boosted-trees", rows, y, 3, **small)
    return module.state_dict(), bytes(module.state_dict()[TEXT].tolist()).decode()


DAMAGED = (
    ("left_child", "1 0 -3 -4 -5", "children"),
    ("left_child", "1 2 3 4 1000000", "children"),
    ("right_child", "-2 -2 -3 -4 -5", "children"),
    ("split_feature", "0 1 0 1 6", "split_feature"),
    ("split_feature", "0 1 0 1 -1", "split_feature"),
    ("split_feature", "0 1 0 1 99999999999999999999", "split_feature out of range"),
    ("decision_type", "2 2 2 2 3", "decision_type"),
    ("decision_type", "2 2 2 2", "lengths"),
    ("threshold", "1 1 1 1 nan", "finite"),
    ("leaf_value", "1 1 1 1 1 inf", "finite"),
    ("leaf_value", "", "lengths"),
    ("leaf_count", "1 1 1 1 1 x", "invalid literal"),
    ("leaf_count", "1 1 1 1 1 1", "counts"),
    ("leaf_count", "-1 1 1 1 1 1", "counts"),
    ("internal_count", "9 8 7 6 5", "counts"),
    ("Tree", "0\nleaf_value=1", "number of trees"),
)


def test_damaged_trees_are_refused():
    state, text = trees()
    assert rebuild_trees(text.encode(), **BOUNDS) == text.encode()
    module = build_model("boosted-trees", (2, 4), 3, {})
    for name, value, wrong in DAMAGED:
        lines = text.split("\n")
        place = next(i for i, line in enumerate(lines) if line.startswith(name))
        lines[place] = f"{name}={value}\n" if name != "Tree" else "Tree=0\nTree=1"
        damaged = torch.tensor(list("\n".join(lines).encode()), dtype=torch.uint8)
        with pytest.raises(InputError, match="the trees are damaged") as caught:
            module.load_state_dict({**state, TEXT: damaged})
        assert wrong in str(caught.value)
    for damaged in (torch.zeros(9), torch.zeros(0), torch.full((9,), 200)):
        with pytest.raises(InputError, match="the trees are damaged"):
            module.load_state_dict({**state, TEXT: damaged})
    for fewer in ({"num_leaves": 5}, {"n_estimators": 3}):
        with pytest.raises(InputError, match="the trees are damaged"):
            build_model("boosted-trees", (2, 4), 3, fewer).load_state_dict(state)


def test_mutated_texts_are_refused_or_harmless():
    _, text = trees()
    rows, rng = problem(90, 6, [0, 1, 2])[0], random.Random(0)
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
            safe = rebuild_trees("".join(mutant).encode(), **BOUNDS)
        except ValueError:
            refusals += 1
            continue
        booster = lightgbm.Booster(model_str=safe.decode())
        assert booster.predict(rows, pred_contrib=True).shape == (90, 21)
    assert 50 < refusals < 390
