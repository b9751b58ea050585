"""Which splits are run and for how long, the record of one, and tables of records.

The record is of an `auto` that trains nothing.
"""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, roc_auc_score

from h2gcn import Graph, Split
from h2gcn.auto import Member, default_time_limit
from h2gcn.auto.contest import Entry
from h2gcn.datasets import DATASETS
from h2gcn.exceptions import InputError
from h2gcn.experiments import (
    BENCHMARKS,
    Cell,
    OneAfterAnother,
    Result,
    Store,
    check_splits,
    frontier,
    frontier_result,
    measure,
    on_hand,
    plan_splits,
    run_plan,
)
from h2gcn.experiments.frontier import (
    BY_TEST,
    MEAN_VALIDATION,
    PER_SPLIT,
    PLAIN,
    find_time_limit,
    neighbour_columns,
    own_columns,
    plain_scores,
)
from h2gcn.experiments.runs import MissingData
from h2gcn.experiments.tables import markdown_grid
from h2gcn.training import Epoch
from support.graphs import adjacency
from support.toy_splits import failed_record, member, split_record, split_run


def test_all_of_it_is_ten_splits_of_eleven_benchmarks_the_large_ones_last() -> None:
    runs = plan_splits()
    assert len(runs) == 110
    assert [run.split for run in runs[:11]] == [*range(10), 0]
    assert tuple(dict.fromkeys(run.dataset for run in runs)) == BENCHMARKS
    assert BENCHMARKS[0] == "texas"
    assert BENCHMARKS[-3:] == ("squirrel", "pubmed", "tolokers")
    assert len({run.key for run in runs}) == 110


def test_a_run_is_scored_as_the_authors_of_the_benchmark_do() -> None:
    metrics = {run.dataset: run.config["metric"] for run in plan_splits()}
    assert metrics == {name: DATASETS[name].metric for name in BENCHMARKS}
    by_area = {name for name, metric in metrics.items() if metric == "roc_auc"}
    assert by_area == {"minesweeper", "tolokers"}


def test_a_part_keeps_the_order_and_has_no_split_twice() -> None:
    runs = plan_splits(["cora", "texas"], [2, 0, 2])
    places = [(run.dataset, run.split) for run in runs]
    assert places == [("texas", 0), ("texas", 2), ("cora", 0), ("cora", 2)]


def test_a_benchmark_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match=r"no benchmark of frontier\. .*'texas'"):
        plan_splits(["texsa"])


@pytest.mark.parametrize("number", [-1, 10])
def test_a_split_that_is_none_is_refused(number: int) -> None:
    with pytest.raises(InputError, match=rf"splits=\[{number}\]: they are 0 to 9"):
        plan_splits(None, [number])


def test_the_time_is_by_size_unless_more_is_needed_or_asked_for(
    small_graph: Graph,
) -> None:
    assert find_time_limit(small_graph, None) == default_time_limit(small_graph)
    assert find_time_limit(replace(small_graph, name="minesweeper"), None) == 600
    assert find_time_limit(replace(small_graph, name="squirrel"), None) == 400
    assert find_time_limit(replace(small_graph, name="squirrel"), 7.5) == 7.5


# --------------------------------------------------------------- which files are there


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the benchmarks that are opened; of them cora is not there."""
    names: list[str] = []

    def open_graph(name: str) -> None:
        names.append(name)
        if name == "cora":
            raise MissingData("cora: no file")

    monkeypatch.setattr(frontier, "open_graph", open_graph)
    monkeypatch.setattr(frontier, "find_checksum", lambda name: f"checksum of {name}")
    return names


def by_key(*records: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {record["key"]: record for record in records}


def test_what_is_not_there_is_left_out_with_the_reason(opened: list[str]) -> None:
    runs = plan_splits(["texas", "cora"], [0, 1])
    there, reasons = on_hand(runs, {})
    assert there == runs[:2]
    assert reasons == ["cora: no file"]
    assert opened == ["texas", "cora"]


def test_a_benchmark_that_is_done_is_not_opened(opened: list[str]) -> None:
    runs = plan_splits(["texas", "cora"], [0])
    records = by_key(split_record("cora", 0), failed_record("texas", 0))
    assert on_hand(runs, records) == (runs, [])
    assert opened == ["texas"]


def test_another_graph_of_the_same_name_is_refused(opened: list[str]) -> None:
    records = by_key(split_record("texas", 0, checksum="other"))
    with pytest.raises(InputError, match=r"texas .*checksum other, .* another out=…"):
        on_hand(plan_splits(["texas"], [0, 1]), records)
    assert opened == ["texas"]


# ----------------------------------------------- what a user would do with scikit-learn


@pytest.fixture
def star() -> Graph:
    """Return a star of three leaves around node 0, and a node without neighbours."""
    x = np.array([[1.0], [2.0], [4.0], [6.0], [9.0]])
    adj = adjacency(5, [(0, 1), (0, 2), (0, 3)])
    return Graph(x=x, adj=adj, y=[0, 1, 0, 1, 0])


def test_columns_of_a_star(star: Graph) -> None:
    assert own_columns(star).tolist() == [[1], [2], [4], [6], [9]]
    # own, mean of neighbours, mean of their means, degree
    expected = [[1, 4, 1, 3], [2, 1, 4, 1], [4, 1, 4, 1], [6, 1, 4, 1], [9, 0, 0, 0]]
    assert np.allclose(neighbour_columns(star), expected)


def test_scores_are_those_of_scikit_learn_on_standardised_columns(
    small_graph: Graph,
) -> None:
    rng = np.random.default_rng(1)
    noisy = small_graph.x + 3 * rng.normal(size=small_graph.x.shape)
    graph = Graph(x=noisy, adj=small_graph.adj, y=small_graph.y)
    split = Split(np.arange(16), np.arange(16, 20), np.arange(20, 30))
    found = plain_scores(graph, split, "roc_auc", seed=3)
    assert tuple(found) == PLAIN
    dense = graph.adj.toarray().astype(float)
    shares = dense / dense.sum(axis=1, keepdims=True)
    x = np.asarray(graph.x, dtype=float)
    wide = np.hstack([x, shares @ x, shares @ shares @ x, dense.sum(axis=1)[:, None]])
    for table, name in ((x, "own features"), (wide, "neighbours' means, degree")):
        mean, deviation = table[:16].mean(axis=0), table[:16].std(axis=0)
        table = (table - mean) / np.where(deviation == 0, 1, deviation)
        for learner, model in (
            ("logistic regression", LogisticRegression(random_state=3)),
            ("boosted trees", HistGradientBoostingClassifier(random_state=3)),
        ):
            model.fit(table[:16], graph.y[:16])
            shown = model.predict_proba(table[20:])[:, 1]
            expected = roc_auc_score(graph.y[20:], shown)
            assert found[f"{learner}, {name}"]["test"] == pytest.approx(expected)


def test_a_class_without_training_nodes_is_never_said(star: Graph) -> None:
    graph = Graph(x=star.x, adj=star.adj, y=[0, 1, 0, 1, 2])
    split = Split(np.array([0, 1, 2, 3]), np.array([], dtype=int), np.array([3, 4]))
    found = plain_scores(graph, split, "macro_f1")
    one = found["logistic regression, own features"]["test"]
    expected = f1_score([1, 2], [1, 1], average="macro", labels=[1, 2])
    assert one == pytest.approx(expected)


def test_trees_are_left_out_where_nobody_wants_to_wait(star: Graph) -> None:
    split = Split(np.array([0, 1, 2]), np.array([], dtype=int), np.array([3, 4]))
    found = plain_scores(star, split, "accuracy", trees=False)
    assert list(found) == [name for name in PLAIN if name.startswith("logistic")]


# ---------------------------------------------------------------- the record of a split


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
    monkeypatch.setattr(frontier, "open_graph", lambda _: graph)
    monkeypatch.setattr(frontier, "find_checksum", lambda name: f"sum of {name}")
    toy = type("Toy", (ToyClassifier,), {"made": []})
    monkeypatch.setattr(frontier, "NodeClassifier", toy)
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
@pytest.mark.parametrize(
    ("splits", "huge", "fits"), [(2, 10**6, 2), (3, 10**6, 4), (3, 1, 2)]
)
def test_plain_trees_on_a_large_table_have_the_first_splits_on_a_huge_one_none(
    monkeypatch: pytest.MonkeyPatch, splits: int, huge: int, fits: int
) -> None:
    monkeypatch.setattr(frontier, "LARGE_TABLE", 1)
    monkeypatch.setattr(frontier, "HUGE_TABLE", huge)
    monkeypatch.setattr(frontier, "TREE_SPLITS", splits)
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
    monkeypatch.setattr(frontier.time, "perf_counter", lambda: float(next(ticks)))
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


# ----------------------------------------------------------- tables, worked out by hand


def table_of(result: Result, name: str, row: str = "texas") -> dict[str, Cell]:
    """Return a row of a table."""
    (table,) = (table for table in result.tables if table.name == name)
    return table.row(row)


def test_a_store_without_splits_is_not_run() -> None:
    result = frontier_result([])
    answers, plain, probabilities, members, weights = result.tables
    assert [row.name for row in answers.rows] == [*BENCHMARKS]
    for table in (answers, plain, probabilities):
        assert {cell.verdict for cell in table.cells} == {"not run"}
        assert "not run" in markdown_grid(table)
    assert members.rows == weights.rows == ()


def test_cells_are_mean_and_sample_deviation_over_splits() -> None:
    records = [split_record("texas", i, test) for i, test in enumerate((0.7, 0.9))]
    auto = table_of(frontier_result(records), "frontier")["auto"]
    assert auto.mean == pytest.approx(80)
    assert auto.std == pytest.approx(200**0.5)
    assert (auto.n, auto.runs) == (2, ("split 0", "split 1"))
    assert auto.values == pytest.approx((70, 90))
    one = table_of(frontier_result(records[:1]), "frontier")
    assert (one["auto"].std, one["splits"].mean) == (None, 1)
    assert table_of(frontier_result(records), "frontier", "cora")["auto"].mean is None


def choices(*splits: dict[str, Any]) -> tuple[dict[str, Cell], Result]:
    records = [split_record("texas", i, members=one) for i, one in enumerate(splits)]
    result = frontier_result(records)
    return table_of(result, "frontier"), result


def test_one_member_is_chosen_in_three_ways() -> None:
    row, _ = choices(
        {
            "a": member(0.9, 0.3, 0.5),
            "b": member(0.8, 0.4, 0.6),
            "c": member(0, 9, 0.9),
        },
        {
            "a": member(0.5, 1.0, 0.7),
            "b": member(0.8, 0.5, 0.4),
            "c": member(0, 9, 0.8),
        },
    )
    assert row[PER_SPLIT].values == pytest.approx((50, 40))  # a, then b
    assert row[MEAN_VALIDATION].values == pytest.approx((60, 40))
    assert row[MEAN_VALIDATION].note == "b"  # 0.45 where a has 0.65
    assert row[BY_TEST].values == pytest.approx((90, 80))
    assert row[BY_TEST].note == "c"


def test_the_best_has_the_smallest_log_loss_not_the_most_right() -> None:
    row, _ = choices({"a": member(0.9, 0.6, 0.1), "b": member(0.5, 0.4, 0.2)})
    assert row[PER_SPLIT].mean == pytest.approx(20)
    assert row[MEAN_VALIDATION].note == "b"


def test_where_the_score_is_an_area_it_is_chosen_by() -> None:
    members = {"a": member(0.9, 0.6, 0.1), "b": member(0.5, 0.4, 0.2)}
    result = frontier_result([split_record("tolokers", 0, members=members)])
    row = table_of(result, "frontier", "tolokers")
    assert row[PER_SPLIT].mean == pytest.approx(10)
    assert row[MEAN_VALIDATION].note == "a"


def test_a_member_that_was_not_compared_is_not_chosen_but_by_test() -> None:
    row, _ = choices({"a": member(None, None, 0.9), "b": member(0.5, 0.4, 0.2)})
    assert row[PER_SPLIT].mean == pytest.approx(20)
    assert row[MEAN_VALIDATION].note == "b"
    assert row[BY_TEST].note == "a"


def test_one_member_for_all_splits_must_be_known_on_all() -> None:
    row, result = choices(
        {"a": member(0.9, 0.1, 0.9), "b": member(0.5, 0.4, 0.2)},
        {"b": member(0.5, 0.4, 0.4)},
    )
    assert row[PER_SPLIT].values == pytest.approx((90, 40))
    assert row[MEAN_VALIDATION].note == row[BY_TEST].note == "b"
    cell = table_of(result, "members", "a")["texas"]
    assert (cell.n, cell.note) == (1, "1 of 2 splits")


def test_without_any_member_to_choose_there_is_no_figure() -> None:
    row, _ = choices({"a": member(None, None, None)})
    for way in (PER_SPLIT, MEAN_VALIDATION, BY_TEST):
        assert (row[way].mean, row[way].verdict) == (None, "none")


def test_h2gcn_mlp_and_majority_stand_beside() -> None:
    row = table_of(frontier_result([split_record()]), "frontier")
    names = ("h2gcn-1", "mlp", "majority")
    assert [row[name].mean for name in names] == pytest.approx([85, 75, 55])


def test_scikit_learn_stands_beside() -> None:
    row = table_of(frontier_result([split_record()]), "scikit-learn")
    shown = [cell.mean for cell in row.values()]
    assert shown == pytest.approx([1, 80, 70, 71, 72, 73])


def test_probabilities_are_no_percentages_and_seconds_are_whole() -> None:
    records = [
        split_record("texas", 0, auto_seconds=20.2),
        split_record("texas", 1, coverage=0.8, auto_seconds=21.6),
    ]
    row = table_of(frontier_result(records), "probabilities")
    assert row["calibration error"].mean == pytest.approx(0.02)
    assert row["of it by chance"].mean is None  # records of before are without
    assert row["coverage of 90 % sets"].mean == pytest.approx(0.85)
    assert row["classes in a set"].mean == pytest.approx(1.5)
    assert row["log-loss"].mean == pytest.approx(0.5)
    assert (row["seconds"].mean, row["seconds"].std) == (21, None)
    assert row["time limit, seconds"].mean == 55


def test_calibration_stands_beside_what_chance_makes_of_it() -> None:
    row = table_of(frontier_result([split_record(chance_error=0.015)]), "probabilities")
    assert row["of it by chance"].mean == pytest.approx(0.015)


def test_every_member_has_its_row_of_scores_and_weights() -> None:
    other = {"trees": member(0.5, 0.5, 0.5, 1.0)}
    records = [split_record("cora", 0, members=other), split_record("texas", 0)]
    result = frontier_result(records)
    (members,) = (table for table in result.tables if table.name == "members")
    assert [row.name for row in members.rows] == ["mlp", "h2gcn-1", "logistic", "trees"]
    assert members.columns == BENCHMARKS
    trees = table_of(result, "members", "trees")
    assert trees["cora"].mean == pytest.approx(50)
    assert (trees["texas"].mean, trees["texas"].verdict) == (None, "none")
    assert trees["actor"].verdict == "not run"
    weights = table_of(result, "weights", "logistic")
    assert weights["texas"].mean == pytest.approx(50)


def test_of_two_records_of_a_split_the_later_counts() -> None:
    again = [failed_record("texas", 0), split_record("texas", 0, 0.6)]
    result = frontier_result(again)
    assert table_of(result, "frontier")["auto"].mean == pytest.approx(60)
    assert result.failed == ()


def test_a_split_that_failed_is_named_and_not_counted() -> None:
    result = frontier_result([failed_record("texas", 1), split_record("texas", 0)])
    assert table_of(result, "frontier")["splits"].mean == 1
    (failure,) = result.failed
    assert (failure["dataset"], failure["split"]) == ("texas", 1)
    assert failure["error"] == "ValueError: toy"


def test_the_result_can_be_kept_and_read_again() -> None:
    result = frontier_result([split_record()], {"python": "3"})
    assert Result.from_json(result.to_json()) == result


# --------------------------------------------------------------- what is not a split


def test_a_record_of_something_else_is_refused() -> None:
    record = split_record()
    del record["coverage"], record["plain"]
    with pytest.raises(InputError, match=r"^here, record '\w+': lacks plain$"):
        check_splits("here", [record])


def test_a_split_that_failed_has_no_more_than_that() -> None:
    check_splits("here", [failed_record(), split_record()])
