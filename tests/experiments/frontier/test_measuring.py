"""The record of a split, with an `auto` that trains nothing."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from h2gcn import Graph, Split
from h2gcn.auto import Member
from h2gcn.auto.contest import Entry
from h2gcn.exceptions import InputError
from h2gcn.experiments import OneAfterAnother, Store, measure, run_plan
from h2gcn.experiments.frontier import measuring
from h2gcn.experiments.frontier.summary import check_splits
from h2gcn.training import Epoch
from support.toy_splits import split_run

TEST = np.array([20, 21, 22, 23, 24])
SPLIT = Split(np.arange(10), np.arange(10, 20), TEST)
LOGITS = np.array([[2, 0], [0, 2], [0, 2], [0, 2], [2, 0]], dtype=np.float32)
"""The classes of the test nodes are 0 1 0 1 0: the third is wrong."""


def row(name: str, weight: float = 0.0, **scores: float | None) -> SimpleNamespace:
    """Return a line of the leaderboard."""
    return SimpleNamespace(name=name, weight=weight, seconds=1.0, **scores)


class Contestants:
    """What `contest_` tells."""

    def __init__(self, *entries: Entry) -> None:
        self.entries = entries


class ToyClassifier:
    """Stands for `NodeClassifier`: keeps what it was asked, and answers by heart."""

    made: ClassVar[list[dict[str, Any]]] = []
    interrupted = False
    epochs_of_members = 1
    broken = ""

    def __init__(self, model: str, **params: Any) -> None:
        self.model, self.params = model, params
        self.made.append({"model": model, **params})

    def get_params(self) -> dict[str, Any]:
        """Return what members have from "auto"."""
        return {"metric": "accuracy", "scaling": "auto"}

    def fit(self, graph: Graph, split: Split, on_epoch: Any = None) -> "ToyClassifier":
        """Have three members, of which the first answers; a member has epochs."""
        assert split is graph.splits[2]
        if self.model == self.broken:
            raise InputError("too large")
        self.classes_ = graph.classes
        self.seed_ = self.params["random_state"]
        self.interrupted_ = self.interrupted
        if self.model != "auto":
            try:
                for number in range(self.epochs_of_members):
                    on_epoch(Epoch(number + 1, 0.0, 0.0, 0.0))
            except KeyboardInterrupt:
                self.interrupted_ = True
            return self
        self.val_score_ = 0.7
        one = Member("one", "mlp", "own features", {"scaling": "none"}, False)
        two, late = replace(one, name="two"), Member("late", "gcn", "edges")
        logits = np.zeros((3, 2), dtype=np.float32)
        answering = type(self)("fitted", random_state=0)
        answering.classes_ = graph.classes
        self.contest_ = Contestants(
            Entry(one, 1.0, logits, answering),
            Entry(two, 2.0, logits, None),
            Entry(late, 0.0, None, None, "no time was left for it"),
        )
        self.leaderboard_ = SimpleNamespace(
            rows=(
                row("two", score=0.9, log_loss=0.4),
                row("one", score=0.8, log_loss=0.5, weight=1.0),
                row("late", score=None, log_loss=None),
            ),
            chosen_by="log_loss",
            nodes=3,
            folds=5,
        )
        return self

    def predict_blocks(self, _: Graph, nodes: NDArray[np.int64]) -> Any:
        """Return the logits of the test nodes."""
        assert np.array_equal(nodes, TEST)
        yield nodes, LOGITS

    def probabilities_of(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return their softmax."""
        shares = np.exp(logits)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def predict_set(
        self, _: Graph, alpha: float, nodes: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return sets of all kinds."""
        assert alpha == 0.1
        assert np.array_equal(nodes, TEST)
        # Both classes, the right one, the wrong one, none, the right one.
        sets = [[1, 1], [0, 1], [0, 1], [0, 0], [1, 0]]
        return np.array(sets, dtype=bool)

    def score(self, _: Graph, nodes: NDArray[np.int64]) -> float:
        """Return another score for "auto", the member that answers, and others."""
        assert np.array_equal(nodes, TEST)
        return {"auto": 0.8, "fitted": 0.6}.get(self.model, 0.4)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, small_graph: Graph) -> type[ToyClassifier]:
    """Put the toy in the place of `NodeClassifier`, on 30 nodes of two classes."""
    graph = replace(small_graph, splits=(SPLIT, SPLIT, replace(SPLIT)), name="texas")
    monkeypatch.setattr(measuring, "open_graph", lambda _: graph)
    monkeypatch.setattr(measuring, "find_checksum", lambda name: f"sum of {name}")
    toy = type("Toy", (ToyClassifier,), {"made": []})
    monkeypatch.setattr(measuring, "NodeClassifier", toy)
    return toy


@pytest.mark.usefixtures("toy")
def test_a_split_leaves_all_that_the_tables_need() -> None:
    run = split_run("texas", 2)
    record = measure(run, time_limit=9)
    check_splits("here", [record])
    assert record["key"] == run.key
    assert (record["dataset"], record["split"], record["metric"]) == (
        *("texas", 2),
        "accuracy",
    )
    assert (record["time_limit"], record["folds"], record["held_out"]) == (9, 5, 3)
    assert (record["validation"], record["test"]) == (0.7, 0.8)
    # Each is sure by 1 / (1 + e^-2), and four of five are right.
    sure = 1 / (1 + np.exp(-2))
    assert record["calibration_error"] == pytest.approx(abs(sure - 0.8), abs=1e-6)
    chance = np.sqrt(2 * sure * (1 - sure) / (np.pi * 5))
    assert record["chance_error"] == pytest.approx(chance, abs=1e-6)
    loss = -(4 * np.log(sure) + np.log(1 - sure)) / 5
    assert record["log_loss"] == pytest.approx(loss, abs=1e-6)
    assert record["coverage"] == pytest.approx(3 / 5)
    assert record["set_size"] == pytest.approx(5 / 5)
    assert record["majority"] == pytest.approx(3 / 5)  # 0 and 1 alike: 0 is said
    assert len(record["plain"]) == 4
    assert record["checksum"] == "sum of texas"
    assert "error" not in record


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(("splits", "fits"), [(2, 2), (3, 4)])
def test_plain_trees_on_a_large_table_have_the_first_splits(
    monkeypatch: pytest.MonkeyPatch, splits: int, fits: int
) -> None:
    monkeypatch.setattr(measuring, "LARGE_TABLE", 1)
    monkeypatch.setattr(measuring, "TREE_SPLITS", splits)
    assert len(measure(split_run("texas", 2), 9)["plain"]) == fits


def test_auto_is_seeded_by_the_split_and_has_its_time(toy: type[ToyClassifier]) -> None:
    measure(split_run("texas", 2), time_limit=9)
    assert toy.made[0] == {
        "model": "auto",
        "metric": "accuracy",
        "time_limit": 9,
        "random_state": 2,
    }


def test_a_member_that_is_not_fitted_is_fitted_for_the_record(
    toy: type[ToyClassifier],
) -> None:
    record = measure(split_run("texas", 2))
    members = record["members"]
    assert list(members) == ["one", "two", "late"]  # as in the portfolio
    assert [members[name]["test"] for name in members] == [0.6, 0.4, 0.4]
    assert [members[name]["validation"] for name in members] == [0.8, 0.9, None]
    assert [members[name]["log_loss"] for name in members] == [0.5, 0.4, None]
    assert [members[name]["weight"] for name in members] == [1.0, 0.0, 0.0]
    assert members["late"]["note"] == "no time was left for it"
    two, late = toy.made[2:]
    assert two == {
        **{"model": "mlp", "metric": "accuracy", "scaling": "none"},
        "random_state": 2,
    }
    assert late["model"] == "gcn"


def test_a_member_that_cannot_be_fitted_has_no_score(toy: type[ToyClassifier]) -> None:
    toy.broken = "gcn"
    late = measure(split_run("texas", 2))["members"]["late"]
    assert (late["test"], late["note"]) == (None, "too large")


def test_a_member_whose_time_is_up_keeps_its_best_epoch(
    toy: type[ToyClassifier], monkeypatch: pytest.MonkeyPatch
) -> None:
    toy.epochs_of_members = 10**9  # it would never end by itself
    ticks = iter(range(10**9))
    monkeypatch.setattr(measuring.time, "perf_counter", lambda: float(next(ticks)))
    record = measure(split_run("texas", 2), time_limit=5)
    assert record["members"]["two"]["test"] == 0.4


# ------------------------------------------------------- what does not go as it should


def test_a_split_that_fails_keeps_the_traceback(
    toy: type[ToyClassifier],
) -> None:
    toy.broken = "auto"
    record = measure(split_run("texas", 2))
    assert record["error"].strip().endswith("InputError: too large")
    assert {"key", "dataset", "split", "seconds", "version"} <= record.keys()
    assert "test" not in record


def test_ctrl_c_during_auto_is_no_answer(toy: type[ToyClassifier]) -> None:
    toy.interrupted = True
    with pytest.raises(KeyboardInterrupt):
        measure(split_run("texas", 2))


def test_ctrl_c_during_a_member_is_no_score(
    toy: type[ToyClassifier], monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = toy.fit

    def interrupted(self: ToyClassifier, *args: Any, **kwargs: Any) -> ToyClassifier:
        found = fit(self, *args, **kwargs)
        found.interrupted_ = self.model == "mlp"
        return found

    monkeypatch.setattr(toy, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure(split_run("texas", 2))


def test_splits_are_done_one_after_the_other_and_only_once(tmp_path: Any) -> None:
    done: list[int] = []

    def work(run: Any) -> dict[str, Any]:
        done.append(run.split)
        return {"key": run.key, **run.to_json(), "seconds": 1.0}

    runs = [split_run("texas", number) for number in range(3)]
    with Store(tmp_path / "runs.jsonl") as store:
        run_plan(runs[:2], store, pool=OneAfterAnother(work))
        run_plan(runs, store, pool=OneAfterAnother(work))
        assert len(store) == 3
    assert done == [0, 1, 2]


def test_the_pool_says_how_many_are_under_way() -> None:
    pool = OneAfterAnother(lambda run: {"split": run.split})
    assert (pool.size, pool.running) == (1, 0)
    pool.submit(split_run("texas", 4))
    assert pool.running == 1
    assert pool.next() == (split_run("texas", 4), {"split": 4})
    assert pool.running == 0
