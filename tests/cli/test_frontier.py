"""`h2gcn reproduce frontier` in process, with splits that train nothing."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from h2gcn.cli.frontier import Asked, _pool, find_numbers
from h2gcn.exceptions import InputError
from h2gcn.experiments import LocalPool, OneAfterAnother, frontier
from h2gcn.experiments.running.graphs import MissingData
from support.commands import Run, fails
from support.toy_splits import failed_record, split_record


class Splits:
    """Stands for what is done with a split; keeps what was done."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int, float | None]] = []
        self.interrupt_at = -1
        self.fail_at = -1

    def __call__(self, run: Any, time_limit: float | None = None) -> dict[str, Any]:
        """Return a record, or fail, or be interrupted."""
        if run.split == self.interrupt_at:
            raise KeyboardInterrupt
        self.done.append((run.dataset, run.split, time_limit))
        if run.split == self.fail_at:
            return failed_record(run.dataset, run.split)
        return split_record(run.dataset, run.split, 0.8 + run.split / 100)


@pytest.fixture
def splits(monkeypatch: pytest.MonkeyPatch) -> Splits:
    """Put toys in the place of graphs and fits; of the benchmarks cora is missing."""

    def open_graph(name: str) -> None:
        if name == "cora":
            raise MissingData("cora: its files are not there")

    splits = Splits()
    monkeypatch.setattr("h2gcn.experiments.measure", splits)
    monkeypatch.setattr(frontier, "open_graph", open_graph)
    monkeypatch.setattr(frontier, "find_checksum", lambda name: f"checksum of {name}")
    assert frontier.measure is not splits
    return splits


def test_it_runs_what_is_asked_for_and_leaves_tables(
    run: Run, splits: Splits, tmp_path: Path
) -> None:
    args = ("--only", "texas", "--splits", "0-1,3", "--time-limit", 9)
    code, out, err = run("reproduce", "frontier", "--out", tmp_path, *args)
    assert code == 0, err
    assert splits.done == [("texas", 0, 9), ("texas", 1, 9), ("texas", 3, 9)]
    lines = (tmp_path / "frontier" / "runs.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["split"] for line in lines] == [0, 1, 3]
    assert "auto and one member alone" in out
    assert "81.3" in out
    assert "texas" in (tmp_path / "frontier" / "members.md").read_text("utf-8")
    assert "The best answer" in (tmp_path / "report.html").read_text("utf-8")


def test_the_same_command_does_only_what_is_missing(
    run: Run, splits: Splits, tmp_path: Path
) -> None:
    command = ("reproduce", "frontier", "--only", "texas", "-q", "--out", tmp_path)
    assert run(*command, "--splits", 1)[0] == 0
    assert run(*command, "--splits", "0-2", "--time-limit", 5)[0] == 0
    assert splits.done == [("texas", 1, None), ("texas", 0, 5), ("texas", 2, 5)]


def test_ctrl_c_keeps_whole_lines_and_makes_tables(
    run: Run, splits: Splits, tmp_path: Path
) -> None:
    command = ("reproduce", "frontier", "--only", "texas", "-q", "--out", tmp_path)
    splits.interrupt_at = 2
    code, out, err = run(*command)
    assert code == 130
    assert "2 splits are kept, the same command goes on" in err
    assert "tables are in" in out
    lines = (tmp_path / "frontier" / "runs.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["split"] for line in lines] == [0, 1]
    splits.interrupt_at = -1
    assert run(*command)[0] == 0
    assert [split for _, split, _ in splits.done] == [*range(10)]


def test_ctrl_c_before_anything_leaves_nothing_to_show(
    run: Run, splits: Splits, tmp_path: Path
) -> None:
    splits.interrupt_at = 0
    code, out, _ = run("reproduce", "frontier", "--only", "texas", "--out", tmp_path)
    assert (code, out) == (130, "")
    assert not (tmp_path / "report.html").exists()


def test_a_line_that_was_cut_off_is_run_again(
    run: Run, splits: Splits, tmp_path: Path
) -> None:
    command = ("reproduce", "frontier", "--only", "texas", "-q", "--out", tmp_path)
    run(*command, "--splits", "0-1")
    store = tmp_path / "frontier" / "runs.jsonl"
    store.write_bytes(store.read_bytes()[:-40])
    run(*command, "--splits", "0-1")
    assert [split for _, split, _ in splits.done] == [0, 1, 1]
    assert len(store.read_text("utf-8").splitlines()) == 2


def test_a_split_that_fails_is_told_and_tried_again(
    run: Run, splits: Splits, tmp_path: Path
) -> None:
    command = ("reproduce", "frontier", "--only", "texas", "-q", "--out", tmp_path)
    splits.fail_at = 1
    code, _, err = run(*command, "--splits", "0-2")
    assert code == 1
    assert "failed: texas split 1: ValueError: toy" in err
    splits.fail_at = -1
    code, _, err = run(*command, "--splits", "0-2")
    assert (code, err) == (0, "")
    assert [split for _, split, _ in splits.done] == [0, 1, 2, 1]


def test_a_benchmark_that_is_not_there_is_told_and_the_others_go_on(
    run: Run, splits: Splits, tmp_path: Path
) -> None:
    only = ("--only", "cora", "--only", "texas", "--splits", 0)
    code, _, err = run("reproduce", "frontier", *only, "-q", "--out", tmp_path)
    assert code == 0
    assert "not run: cora: its files are not there" in err
    assert splits.done == [("texas", 0, None)]


def test_no_run_trains_nothing(run: Run, splits: Splits, tmp_path: Path) -> None:
    code, out, _ = run("reproduce", "frontier", "--no-run", "--out", tmp_path)
    assert code == 0
    assert "not run" in out
    assert splits.done == []


def test_json_holds_the_tables(run: Run, splits: Splits, tmp_path: Path) -> None:
    args = ("--only", "texas", "--splits", 0, "--json")
    code, out, _ = run("reproduce", "frontier", *args, "--out", tmp_path)
    told = json.loads(out)
    assert code == 0
    assert told["splits"] == {"done": 1, "new": 1}
    assert told["failed"] == told["not_run"] == []
    assert told["interrupted"] is False
    first = told["tables"][0]
    place = first["columns"].index("auto")
    assert first["rows"][0]["cells"][place]["mean"] == pytest.approx(80)
    assert splits.done == [("texas", 0, None)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["frontier", "--only", "texsa"], ["--only texsa", "Did you mean 'texas'"]),
        (["frontier", "--splits", "0-10"], ["--splits 10", "0 to 9"]),
        (["frontier", "--splits", "a"], ["--splits a: numbers and ranges"]),
        (["frontier", "--time-limit", "0"], ["--time-limit 0: it must be above 0"]),
        (["frontier", "--protocol", "quick"], ["frontier has no --protocol"]),
        (["frontier", "--ray", "auto"], ["frontier has no --ray"]),
        (["real", "--splits", "0"], ["real has no --splits"]),
        (["real", "--time-limit", "3"], ["real has no --time-limit"]),
        (["frontie"], ["there is no experiment 'frontie'", "'frontier'"]),
    ],
)
def test_mistakes_are_one_line(
    run: Run, tmp_path: Path, arguments: list[str], words: list[str]
) -> None:
    fails(run("reproduce", *arguments, "--out", tmp_path), *words)


def test_a_store_of_something_else_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "frontier").mkdir()
    (tmp_path / "frontier" / "runs.jsonl").write_text('{"key": "a"}\n')
    result = run("reproduce", "frontier", "--no-run", "--out", tmp_path)
    fails(result, "runs.jsonl, record 'a': lacks experiment")


def test_numbers_and_ranges() -> None:
    assert find_numbers("3") == [3]
    assert find_numbers("0-2, 5") == [0, 1, 2, 5]
    for text in ("", "1-", "-1", "1,,2"):
        with pytest.raises(InputError, match="numbers and ranges, such as 0-2,5"):
            find_numbers(text)


def test_splits_side_by_side_are_done_by_processes() -> None:
    with _pool(Asked(time_limit=3)) as pool:
        assert isinstance(pool, OneAfterAnother)
    with _pool(Asked(time_limit=3, jobs=2)) as pool:
        assert isinstance(pool, LocalPool)
        assert pool.size == 2
        work = pickle.loads(pickle.dumps(pool._work))  # as a process gets it
        assert (work.func, work.keywords) == (frontier.measure, {"time_limit": 3})
