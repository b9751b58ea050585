"""Every command, on every kind of console, with texts of a stranger in its input.

A command ends with 0, with 2 and a line, or quietly where nobody reads on; what it
prints steers no terminal, and is in the console's own characters.
"""

import csv
import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from h2gcn.cli import main

MODEL, HOSTILE, OUT = "MODEL", "HOSTILE", "OUT"
"""Stand for a saved model, a folder of tables and a folder to write to."""
TINY = ("--epochs", "2")
COMMANDS = (
    *(("--help",), ("--version",), ("demo", "--help"), ("train", "--help")),
    *(("models",), ("models", "gat"), ("models", "--json"), ("models", HOSTILE)),
    *(("datasets",), ("datasets", "--json"), ("report", HOSTILE), ("report", OUT)),
    ("diagnose", HOSTILE, "--no-fit"),
    ("diagnose", HOSTILE, "--no-fit", "--json"),
    ("diagnose", HOSTILE, "--no-fit", "--html", f"{OUT}/page.html"),
    ("train", HOSTILE, "--model", "mlp", *TINY),
    ("train", HOSTILE, "--model", "mlp", *TINY, "--json"),
    ("train", HOSTILE, "--model", "mlp", *TINY, "--out", f"{OUT}/model"),
    ("train", HOSTILE, "--model", "label-propagation"),
    ("predict", MODEL, HOSTILE, "--all", "--out", f"{OUT}/p.csv"),
    ("predict", MODEL, HOSTILE, "--all", "--out", f"{OUT}/p.csv", "--guard-cells"),
    ("predict", HOSTILE, HOSTILE),
    ("tune", HOSTILE, "--model", "label-propagation", "--out", f"{OUT}/tuned"),
    ("generate", "--nodes", "60", "--out", f"{OUT}/made.npz"),
    ("reproduce", "real", "--no-run", "--out", f"{OUT}/results"),
    ("no such command",),
)
CODES = {0, 2}
NOBODY_READS = 141
PIECES = (
    *("\x1b[31m", "\x1b]0;t\x07", "\x9b2J", "\u202e", "\x00x", "\r", "\n", "\t", "\\"),
    *("=cmd|' /C calc'!A0", "@SUM(1)", "+1", "-x", "[bold]", "[/]", ":smile:", "{0}"),
    *("é", "中", "😀", "a\u200cb", "–", "%s", "'", '"', ",", "label", "dropout=0.5"),
)
texts = st.lists(st.sampled_from(PIECES), min_size=1, max_size=3).map("".join)


class Console(io.RawIOBase):
    """A console or a pipe: what was written, up to where it fails.

    Parameters
    ----------
    room
        How many bytes it takes; None is all.
    error
        How it fails then.
    """

    def __init__(self, room: int | None = None, error: int = 0) -> None:
        super().__init__()
        self.room, self.error, self.content = room, error, bytearray()

    def writable(self) -> bool:
        """Return that it can be written, at first."""
        return True

    def write(self, data: Any) -> int:
        """Take bytes, if there is room."""
        if self.room is not None and len(self.content) + len(data) > self.room:
            raise OSError(self.error, os.strerror(self.error))
        self.content += data
        return len(data)


def run(
    arguments: list[str], encoding: str, room: int | None = None, error: int = 0
) -> tuple[int, str, str]:
    """Run a command on a console; return its exit code and what was written."""
    out, err = Console(room, error), Console()
    before = sys.stdout, sys.stderr
    with (
        io.TextIOWrapper(io.BufferedWriter(out, 64), encoding=encoding) as stdout,
        io.TextIOWrapper(io.BufferedWriter(err), encoding=encoding) as stderr,
    ):
        sys.stdout, sys.stderr = stdout, stderr
        try:
            code = main(arguments)
        finally:
            sys.stdout, sys.stderr = before
            if room is None:
                stdout.flush()
            said = out.content.decode(encoding)
            out.room = None  # so that it can be closed
    return code, said, err.content.decode(encoding)


@contextmanager
def stranger(ids: str, label: str, column: str) -> Iterator[dict[str, str]]:
    """Write tables with texts of a stranger; yield what the stand-ins stand for."""
    with TemporaryDirectory() as place:
        folder, out = Path(place, "hostile"), Path(place, "out")
        folder.mkdir()
        out.mkdir()
        with (folder / "nodes.csv").open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(["id", column, "b", "label"])
            for i in range(24):
                said = ("", f"{label}1", "other")[(i % 7 > 0) + (i % 2) * (i % 7 > 0)]
                rows.writerow([f"{ids}{i}", i % 2 + i / 50, i / 9, said])
        with (folder / "edges.csv").open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(["source", "target"])
            rows.writerows((f"{ids}{i}", f"{ids}{(i + 1) % 24}") for i in range(24))
        yield {HOSTILE: str(folder), OUT: str(out)}


def fill(arguments: tuple[str, ...], places: dict[str, str]) -> list[str]:
    """Return the arguments with what the stand-ins stand for."""
    filled = []
    for argument in arguments:
        for name, place in places.items():
            argument = argument.replace(name, place)
        filled.append(argument)
    return filled


def check_words(said: str, complained: str) -> None:
    """Check that nothing steers a terminal, and that each complaint is a line."""
    for text in (said, complained):
        steers = {c for c in text if not c.isprintable()} - {"\n", *"\u200c\u200d"}
        assert not steers, text
    assert "Traceback" not in complained
    assert all(line.startswith("h2gcn: ") for line in complained.splitlines())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Train on tables of a stranger, once; return the folder of the model."""
    folder = tmp_path_factory.mktemp("model") / "saved"
    with stranger("=1", "\x1b[31m", "col\x1b[2J") as places:
        arguments = ("train", HOSTILE, "--model", "mlp", *TINY, "--out", str(folder))
        assert run(fill(arguments, places), "utf-8")[0] == 0
    return str(folder)


consoles = st.sampled_from(["utf-8", "ascii", "cp1252", "latin-1"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_on_a_foreign_console(
    command: tuple[str, ...], model: str
) -> None:
    with stranger("=n", "é中\x1b[31m", "c±\x1b[2J") as places:
        arguments = fill(command, {MODEL: model} | places)
        code, said, complained = run(arguments, "ascii")
    assert code in CODES
    check_words(said, complained)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_where_stdout_fails(command: tuple[str, ...], model: str) -> None:
    error = (errno.ENOSPC, errno.EPIPE, errno.EIO)[COMMANDS.index(command) % 3]
    with stranger("n", "a", "c") as places:
        arguments = fill(command, {MODEL: model} | places)
        code, said, complained = run(arguments, "utf-8", 0, error)
    check_words(said, complained)
    assert said == ""
    if error == errno.EPIPE and code == NOBODY_READS:
        assert "error" not in complained
        return
    assert code == 2
    assert complained.splitlines()[-1].startswith("h2gcn: error: ")


@pytest.mark.filterwarnings("ignore")
@given(
    command=st.sampled_from([one for one in COMMANDS if HOSTILE in one]),
    ids=texts,
    label=texts,
    column=texts,
    encoding=consoles,
    room=st.none() | st.integers(0, 3000),
    error=st.sampled_from([errno.ENOSPC, errno.EPIPE]),
)
def test_texts_of_a_stranger_on_any_console(
    model: str,
    command: tuple[str, ...],
    ids: str,
    label: str,
    column: str,
    encoding: str,
    room: int | None,
    error: int,
) -> None:
    with stranger(ids, label, column) as places:
        arguments = fill(command, {MODEL: model} | places)
        code, said, complained = run(arguments, encoding, room, error)
    check_words(said, complained)
    if code == NOBODY_READS:
        assert room is not None
        assert error == errno.EPIPE
        return
    assert code in CODES, complained
    assert ("h2gcn: error: " in complained) == (code == 2)
