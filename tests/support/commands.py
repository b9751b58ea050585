"""The command line in process: how it is run, and how it fails."""

import json
from collections.abc import Callable

__all__ = ["Run", "fails"]

Run = Callable[..., tuple[int, str, str]]
"""Runs a command; see the fixture `run`."""


def fails(result: tuple[int, str, str], *words: str) -> None:
    """Check that a command failed with one line that holds these words."""
    code, out, err = result
    errors = [line for line in err.splitlines() if "error" in line]
    assert code == 2
    assert out == "" or json.loads(out)["exit_code"] == 2, out
    assert "Traceback" not in err
    assert len(errors) == 1, err
    assert all(
        line.startswith(("h2gcn: error: ", "h2gcn: note: "))
        for line in err.splitlines()
    ), err
    for word in words:
        assert word in errors[0], errors[0]
