"""`h2gcn reproduce`: how it tells how far it is, and frontier, of toy splits."""

import json
import pickle
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from h2gcn.cli.reproduce import (
    SECONDS_BETWEEN_LINES,
    FrontierAsked,
    _frontier_pool,
    find_numbers,
    plan_bar,
    words_of,
)
from h2gcn.exceptions import InputError
from h2gcn.experiments import Event, LocalPool, OneAfterAnother, frontier
from h2gcn.experiments.runs import MissingData
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
        (
            ["frontier", "--ray", "auto", "--jobs", "2"],
            ["--jobs and --ray: one or the other"],
        ),
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
    with _frontier_pool(FrontierAsked(time_limit=3)) as pool:
        assert isinstance(pool, OneAfterAnother)
    with _frontier_pool(FrontierAsked(time_limit=3, jobs=2)) as pool:
        assert isinstance(pool, LocalPool)
        assert pool.size == 2
        work = pickle.loads(pickle.dumps(pool._work))  # as a process gets it
        assert (work.func, work.keywords) == (frontier.measure, {"time_limit": 3})


# ------------------------------------------------------------------ how far it is

START = Event(total=9, found=2, done=2, failed=0, running=1, seconds_left=None)
END = replace(START, done=8, failed=1, running=0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return what the time is, to be changed."""
    now = [5.0]
    monkeypatch.setattr("h2gcn.cli.reproduce.time.monotonic", lambda: now[0])
    return now


def test_only_what_there_is_is_said() -> None:
    assert words_of(replace(START, running=0)) == "2 of 9 runs done"
    assert words_of(START) == "2 of 9 runs done, 1 running"
    assert words_of(END) == "8 of 9 runs done, 1 failed"
    every = replace(START, failed=3, running=2, seconds_left=59.6)
    told = "2 of 9 runs done, 2 running, 3 failed, 1 min 00 s left"
    assert words_of(every) == told


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.4, "0 s left"),
        (59.4, "59 s left"),
        (61, "1 min 01 s left"),
        (3599.5, "1 h 00 min left"),
        (90_000, "25 h 00 min left"),
    ],
)
def test_the_time_left_is_in_two_units_at_most(seconds: float, said: str) -> None:
    assert words_of(replace(START, seconds_left=seconds)).endswith(f", {said}")


def test_no_time_is_left_where_nothing_runs() -> None:
    assert "left" not in words_of(replace(END, seconds_left=3.0))


def test_a_log_gets_a_line_now_and_then_and_at_the_end(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with plan_bar("real", show=True) as on_event:
        on_event(START)
        clock[0] += SECONDS_BETWEEN_LINES - 1
        on_event(replace(START, done=3))
        clock[0] += 1
        on_event(replace(START, done=4))
        on_event(replace(START, done=5))
        on_event(END)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "h2gcn: real: 2 of 9 runs done, 1 running",
        "h2gcn: real: 4 of 9 runs done, 1 running",
        "h2gcn: real: 8 of 9 runs done, 1 failed",
    ]


def test_what_was_all_there_from_before_is_not_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with plan_bar("real", show=True) as on_event:
        on_event(replace(START, found=9, done=9, running=0))
    assert capsys.readouterr().err == ""


def test_nothing_is_said_if_not_asked(capsys: pytest.CaptureFixture[str]) -> None:
    with plan_bar("real", show=False) as on_event:
        on_event(START)
        on_event(END)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with plan_bar("real", show=True) as on_event:
        on_event(START)
        on_event(END)
    said = capsys.readouterr()
    assert "8 of 9 runs done, 1 failed" in said.err
    assert "h2gcn: " not in said.err
    assert said.out == ""
