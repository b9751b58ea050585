"""Logistic regression and boosted trees: scikit-learn's own, and safe as arrays."""

import functools
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load as load_tensors
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from h2gcn import Graph, NodeClassifier
from h2gcn.estimator.saved_model import MANIFEST, WEIGHTS
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR
from h2gcn.models import build_model, table_learners as learners
from h2gcn.models.table_learners import ABSENT, STRENGTHS, BoostedTrees, LogisticTable
from h2gcn.ring_table import TableInput
from h2gcn.sparse import Operator, Target
from h2gcn.training import signed, to_bytes
from support.cases import each
from support.graphs import adjacency
from support.refusals import only, refused


@pytest.fixture(autouse=True)
def one_blas_thread() -> Iterator[None]:
    """Let what scikit-learn does here outside of a fit have one thread too."""
    with threadpool_limits(1, user_api="blas"):
        yield


def table(rows: NDArray[Any], *, sparse: bool = False) -> TableInput:
    """Return numbers as a table of two blocks, the second sparse or not."""
    numbers = rows.astype(np.float32)
    first, second = numbers[:, :2], numbers[:, 2:]
    other = Operator(CSR(second)) if sparse else torch.from_numpy(second.copy())
    blocks = {"own": torch.from_numpy(first.copy()), "ring1": other}
    return TableInput(blocks, {}, torch.zeros(len(rows), 1))


def problem(
    n: int, columns: int, classes: list[int], seed: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    y = np.array(classes)[np.arange(n) % len(classes)]
    x = rng.normal(size=(n, columns)) * rng.uniform(0.5, 3, size=columns)
    x[:, 0] += y
    x[:, 1] -= 0.7 * (y == classes[0])
    return (x + 5).astype(np.float32), y


def fitted(
    name: str, rows: NDArray[Any], y: NDArray[np.int64], n_classes: int, **options: Any
) -> Any:
    """Return a module fitted to all rows but the last five."""
    module = build_model(name, (2, rows.shape[1] - 2), n_classes, options)
    index = torch.arange(len(y) - 5)
    torch.manual_seed(0)
    module.initialise(table(rows), (), torch.from_numpy(y)[index], index)
    return module.eval()


# --------------------------------------------------------------- logistic regression


def standardised(rows: NDArray[Any], train: slice) -> NDArray[np.float64]:
    """Return columns of deviation one, constant ones zero, over the root of D."""
    x = rows.astype(np.float64)
    mean, deviation = x[train].mean(axis=0), x[train].std(axis=0)
    varies = deviation > 0
    z = np.where(varies, (x - mean) / np.where(varies, deviation, 1), 0)
    scaled: NDArray[np.float64] = z / np.sqrt(varies.sum())
    return scaled


def scikit_logits(
    rows: NDArray[Any], y: NDArray[np.int64], strength: float, n_classes: int
) -> NDArray[np.float64]:
    train = slice(0, len(y) - 5)
    z = standardised(rows, train)
    model = LogisticRegression(C=100 * strength, max_iter=5000, tol=1e-8)
    model.fit(z[train], y[train])
    logits = np.full((len(y), n_classes), ABSENT)
    decision = model.decision_function(z)
    if decision.ndim == 1:
        decision = np.stack([np.zeros(len(y)), decision], axis=1)
    logits[:, model.classes_] = decision
    return logits


@each("sparse", [False, True])
@each("columns", [4, 70], ids=["few columns", "more than rows"])
@each("classes", [[0, 1], [0, 1, 2], [0, 2], [1, 3, 2]], ids=str)
def test_logistic_is_scikit_learns(
    classes: list[int], columns: int, sparse: bool
) -> None:
    rows, y = problem(45, columns, classes)
    rows[:, -1] = 3.0  # says nothing
    n_classes = max(classes) + 1
    module = fitted("logistic", rows, y, n_classes, strength=0.1)
    found = module(table(rows, sparse=sparse)).numpy()
    expected = scikit_logits(rows, y, 0.1, n_classes)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    assert found.dtype == np.float32


def test_weights_in_the_space_of_rows_are_the_same_optimum() -> None:
    rows, _ = problem(20, 50, [0, 1])
    turned, basis = learners._among_rows(rows.astype(np.float64))
    assert basis is not None
    assert turned.shape == (20, 20)
    np.testing.assert_allclose(turned @ basis.T, rows, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(basis.T @ basis, np.eye(20), atol=1e-6)
    few, basis = learners._among_rows(rows[:, :4].astype(np.float64))
    np.testing.assert_array_equal(few, rows[:, :4])
    assert basis is None, "an identity takes 800 MB for 10,000 columns"


def test_the_strength_is_the_best_on_folds() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    noise = rng.normal(size=(60, 30))
    clear = np.column_stack([4.0 * y + rng.normal(size=60), noise[:, :2]])
    weak = learners._choose_strength(standardised(noise, slice(None)), y, seed=0)
    strong = learners._choose_strength(standardised(clear, slice(None)), y, seed=0)
    assert weak == STRENGTHS[0], "noise is best not followed"
    assert strong > weak
    assert learners._choose_strength(noise[:11], y[:11], seed=0) == 1.0, "too few"


@each("n", [20, 700])
def test_a_strength_is_chosen_beside_a_class_of_one(n: int) -> None:
    rows = np.random.default_rng(0).normal(size=(n, 4))
    for classes in (1, 2):
        y = np.arange(n) % classes
        y[-1] = classes
        assert learners._choose_strength(rows, y, seed=0) in STRENGTHS


@pytest.mark.parametrize("most", [1, 2])
def test_a_strength_is_chosen_where_no_class_is_in_all_folds(most: int) -> None:
    y = np.arange(20 * most) % 20
    rows = np.random.default_rng(0).normal(size=(len(y), 4))
    assert learners._choose_strength(rows, y, seed=0) in STRENGTHS


def test_a_logistic_fit_stops_once_its_time_is_up() -> None:
    rows, y = problem(200, 30, [0, 1, 2])
    asked: list[float] = []

    def after(steps: int) -> Callable[[float], bool]:
        def time_is_up(share: float) -> bool:
            asked.append(share)
            return len(asked) > steps

        return time_is_up

    whole = fitted("logistic", rows, y, 3)(table(rows))
    with learners.stop_fits(after(10**9)):
        same = fitted("logistic", rows, y, 3)(table(rows))
    assert torch.equal(same, whole)
    assert set(asked) == {0.5, 1.0}, "half of the time is for choosing the penalty"
    asked.clear()
    with learners.stop_fits(after(0)):
        cut = fitted("logistic", rows, y, 3)(table(rows))
    assert len(asked) == len(STRENGTHS) * learners.FOLDS + 1, "a step of each fit"
    assert torch.isfinite(cut).all()
    assert not torch.allclose(cut, whole, rtol=0.1)
    fitted("logistic", rows, y, 3)
    assert len(asked) == len(STRENGTHS) * learners.FOLDS + 1, "outside nobody asks"


def test_a_strength_that_is_chosen_is_the_one_that_is_used() -> None:
    rows, y = problem(45, 6, [0, 1, 2])
    torch.manual_seed(0)
    seed = learners._draw_seed()
    train = slice(0, 40)
    z = standardised(rows, train)[train]
    strength = learners._choose_strength(z, y[train], seed)
    assert strength in STRENGTHS
    chosen, given = (
        fitted("logistic", rows, y, 3, strength=s)(table(rows)).numpy()
        for s in (0.0, strength)
    )
    np.testing.assert_allclose(chosen, given, rtol=1e-5, atol=1e-5)


def test_columns_that_never_vary_leave_the_shares_of_classes() -> None:
    rows, y = np.ones((45, 4)), np.r_[np.zeros(25, int), np.ones(20, int)]
    module = fitted("logistic", rows, y, 2, strength=1.0)
    shares = module(table(rows)).softmax(dim=1).numpy()
    np.testing.assert_allclose(shares, np.tile([25 / 40, 15 / 40], (45, 1)), rtol=1e-3)


# --------------------------------------------------------------------- boosted trees


def spy_on_scikit(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """Return a list that every learner that is fitted will be in, with its rows."""
    seen: list[tuple[Any, Any]] = []
    fit = HistGradientBoostingClassifier.fit

    def spy(self: Any, x: Any, y: Any) -> Any:
        seen.append((self, x))
        return fit(self, x, y)

    monkeypatch.setattr(HistGradientBoostingClassifier, "fit", spy)
    return seen


@each("n", [60, 320], ids=["few", "with early stopping"])
@each("classes", [[0, 1], [0, 1, 2], [1, 3], [0, 3, 2]], ids=str)
def test_trees_are_scikit_learns(
    monkeypatch: pytest.MonkeyPatch, classes: list[int], n: int
) -> None:
    seen = spy_on_scikit(monkeypatch)
    rows, y = problem(n, 5, classes)
    module = fitted("boosted-trees", rows, y, 4, trees=30)
    ((learner, given),) = seen
    assert given.shape == (n - 5, 5)
    assert len(module.roots) >= 20, "there are trees to walk in"
    decision = learner.decision_function(rows)
    if decision.ndim == 1:
        decision = np.stack([np.zeros(n), decision], axis=1)
    expected = np.full((n, 4), ABSENT)
    expected[:, learner.classes_] = decision
    found = module(table(rows)).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    index = np.array([7, 7, 0])
    some = module(table(rows, sparse=True), (), Target.of((), index)).numpy()
    np.testing.assert_allclose(some, expected[index], rtol=1e-5, atol=1e-5)


def test_few_columns_are_looked_at_those_that_tell_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = spy_on_scikit(monkeypatch)
    rng = np.random.default_rng(0)
    y = np.arange(65) % 2
    rows = rng.normal(size=(65, 9)).astype(np.float32)
    rows[:, 3] += 5 * y
    rows[:, 7] -= 5 * y
    rows[:, 0] = 1.0
    module = fitted("boosted-trees", rows, y, 2, columns=2, trees=5)
    ((learner, given),) = seen
    np.testing.assert_array_equal(given, rows[:60, [3, 7]])
    inner = module.left != torch.arange(len(module.left))
    assert set(module.feature[inner].tolist()) <= {3, 7}
    decision = learner.decision_function(rows[:, [3, 7]])
    np.testing.assert_allclose(module(table(rows))[:, 1], decision, rtol=1e-5)


def test_a_class_of_one_node_can_be_trained_with() -> None:
    rows, y = problem(320, 4, [0, 1])
    y[0] = 2
    module = fitted("boosted-trees", rows, y, 3, trees=5)
    assert torch.isfinite(module(table(rows))).all()


def test_more_classes_than_nodes_held_out_can_be_trained_with() -> None:
    rows, y = problem(205, 4, list(range(30)))
    module = fitted("boosted-trees", rows, y, 30, trees=5)
    assert torch.isfinite(module(table(rows))).all()


def test_an_error_of_the_learner_is_not_taken_for_a_class_of_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []

    def fail(*_: Any) -> None:
        calls.append(1)
        raise ValueError("a bug")

    monkeypatch.setattr(HistGradientBoostingClassifier, "fit", fail)
    rows, y = problem(320, 4, [0, 1])
    with pytest.raises(ValueError, match="a bug"):
        fitted("boosted-trees", rows, y, 2, trees=5)
    assert len(calls) == 1


def test_columns_that_never_vary_are_no_trees_to_walk() -> None:
    rows, y = np.ones((45, 4)), np.arange(45) % 2
    logits = fitted("boosted-trees", rows, y, 2, trees=3)(table(rows))
    np.testing.assert_allclose(logits.numpy(), 0, atol=1e-5)


def test_trees_that_were_never_fitted_say_nothing() -> None:
    module = BoostedTrees((2, 3), 3)
    assert not module(table(np.ones((4, 5)))).any()


# ------------------------------------------------------------------------ saved trees


def ring_graph(n: int = 40) -> Graph:
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    edges = [(i, (i + 1) % n) for i in range(n)]
    x = rng.normal(size=(n, 3)) + 2 * y[:, None]
    return Graph(x=x, adj=adjacency(n, edges), y=y)


@functools.cache
def some_trees() -> NodeClassifier:
    """Return a fitted classifier, which tests may read and not change."""
    options = {"trees": 5}
    return NodeClassifier("boosted-trees", options=options, random_state=0).fit(
        ring_graph()
    )


def save_trees(folder: Path) -> Path:
    """Return where trees were saved."""
    some_trees().save(folder / "model")
    return folder / "model"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Return the folder of saved trees."""
    return save_trees(tmp_path)


def rewrite(
    folder: Path,
    change: Callable[[dict[str, torch.Tensor]], None] | None = None,
    edit: Callable[[dict[str, Any]], None] | None = None,
) -> None:
    """Change arrays or manifest of a saved model, and sign both anew."""
    tensors = load_tensors((folder / WEIGHTS).read_bytes())
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    del manifest["sha256"]
    if change is not None:
        change(tensors)
    if edit is not None:
        edit(manifest)
    weights = to_bytes(tensors)
    manifest["weights_sha256"] = hashlib.sha256(weights).hexdigest()
    (folder / WEIGHTS).write_bytes(weights)
    (folder / MANIFEST).write_bytes(signed(manifest))


def test_what_is_signed_anew_unchanged_is_read(saved: Path) -> None:
    before = NodeClassifier.load(saved).predict_logits(ring_graph())
    rewrite(saved)
    after = NodeClassifier.load(saved).predict_logits(ring_graph())
    assert after.tobytes() == before.tobytes()
    assert np.ptp(after) > 0


def set_to(name: str, at: int, value: float) -> Callable[[dict[str, Any]], None]:
    def change(tensors: dict[str, Any]) -> None:
        tensors[f"module.{name}"][at] = value

    return change


def put(name: str, tensor: torch.Tensor) -> Callable[[dict[str, Any]], None]:
    return lambda tensors: tensors.__setitem__(f"module.{name}", tensor)


DAMAGES = {
    "a child before its parent": set_to("left", 2, 0),
    "one child alone": set_to("right", 0, 0),
    "a child beyond the end": set_to("right", 0, 10**9),
    "a negative child": set_to("left", 0, -1),
    "a root beyond the end": set_to("roots", 0, 10**9),
    "a negative root": set_to("roots", 0, -1),
    "a column that is not there": set_to("feature", 0, 10**6),
    "a negative column": set_to("feature", 0, -1),
    "a class that is not there": set_to("sums_to", 0, 2),
    "a value that is none": set_to("value", 1, float("nan")),
    "a start that is infinite": set_to("baseline", 0, float("inf")),
    "numbers of another type": put("left", torch.zeros(3, dtype=torch.int32)),
    "a matrix": put("roots", torch.zeros(2, 2, dtype=torch.int64)),
    "arrays of other lengths": put("threshold", torch.zeros(1, dtype=torch.float64)),
    "another number of classes": put("baseline", torch.zeros(3, dtype=torch.float64)),
    "another number of trees": put("sums_to", torch.zeros(1, dtype=torch.int64)),
    "no roots": lambda tensors: tensors.pop("module.roots"),
    "an array too many": put("other", torch.zeros(1)),
}


@each("damage", DAMAGES)
def test_damaged_trees_are_refused(tmp_path: Path, damage: str) -> None:
    saved = save_trees(tmp_path)
    rewrite(saved, DAMAGES[damage])
    with pytest.raises(InputError) as caught:
        NodeClassifier.load(saved)
    said = str(caught.value)
    assert said.startswith(f"{saved / WEIGHTS}: does not hold the weights of BoostedT")
    assert "\n" not in said


def test_a_damaged_table_is_refused(saved: Path) -> None:
    rewrite(saved, edit=lambda manifest: manifest["table"]["blocks"].pop())
    with pytest.raises(InputError) as caught:
        NodeClassifier.load(saved)
    assert str(caught.value) == (
        f"{saved / MANIFEST}: the blocks of the ring table are damaged"
    )


def test_a_table_that_is_missing_is_told(saved: Path) -> None:
    rewrite(saved, edit=lambda manifest: manifest.update(table=None))
    with pytest.raises(InputError) as caught:
        NodeClassifier.load(saved)
    assert str(caught.value) == (
        f"{saved / MANIFEST}: lacks the blocks of the ring table"
    )


# --------------------------------------------------------------------------- mistakes


@each(
    ("module", "options"),
    [
        (LogisticTable, {"strength": -1}),
        (BoostedTrees, {"trees": 0}),
        (BoostedTrees, {"trees": 10_001}),
        (BoostedTrees, {"leaves": 1}),
        (BoostedTrees, {"leaves": 10_001}),
        (BoostedTrees, {"shrinkage": 0}),
        (BoostedTrees, {"shrinkage": 1.1}),
        (BoostedTrees, {"columns": 0}),
    ],
)
def test_mistakes_are_named(module: type, options: dict[str, Any]) -> None:
    with refused(**only(options)):
        module((3,), 2, **options)


@each("module", [LogisticTable, BoostedTrees])
def test_a_block_that_no_table_has(module: type) -> None:
    with pytest.raises(InputError, match="the ring table has no block 'me'"):
        module((3,), 2, table="me")
