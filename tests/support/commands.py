"""The command line in process: how it is run, and how it fails."""

from collections.abc import Callable
from json import loads

__all__ = ["Run", "fails"]

Run = Callable[..., tuple[int, str, str]]
"""Runs a command; see the fixture `run`."""


def fails(result: tuple[int, str, str], *words: str, json: bool = False) -> None:
    """Check that a command failed with one line on stderr that holds these words.

    With `json`, stdout must hold one JSON object with the exit code; else nothing.
    """
    code, out, err = result
    errors = [line for line in err.splitlines() if "error" in line]
    assert code == 2
    if json:
        assert loads(out)["exit_code"] == 2, out
    else:
        assert out == ""
    assert "Traceback" not in err
    assert len(errors) == 1, err
    assert all(
        line.startswith(("h2gcn: error: ", "h2gcn: note: "))
        for line in err.splitlines()
    ), err
    for word in words:
        assert word in errors[0], errors[0]
