"""How far a plan is: in words, and as lines in a log."""

import sys
from dataclasses import replace

import pytest

from h2gcn.cli.reproduced import SECONDS_BETWEEN_LINES, plan_bar, words_of
from h2gcn.experiments import Event

START = Event(total=9, found=2, done=2, failed=0, running=1, seconds_left=None)
END = replace(START, done=8, failed=1, running=0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return what the time is, to be changed."""
    now = [5.0]
    monkeypatch.setattr("h2gcn.cli.reproduced.time.monotonic", lambda: now[0])
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
