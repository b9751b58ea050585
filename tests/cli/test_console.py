"""What reaches a terminal, and what is said where it cannot."""

import csv
import errno
import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from h2gcn.cli import main, program
from h2gcn.cli.console import (
    LONGEST,
    fitting,
    guarded_streams,
    printable,
    say,
    table,
    tell,
)
from h2gcn.cli.predict import guarded
from h2gcn.models import MODELS
from support.commands import Run, fails


class Failing(io.RawIOBase):
    """A file that takes some bytes, and no more."""

    def __init__(self, error: int, room: int = 0) -> None:
        super().__init__()
        self.error, self.room = error, room

    def writable(self) -> bool:
        """Return that it can be written, at first."""
        return True

    def write(self, data: object) -> int:
        """Take bytes, if there is room."""
        count = len(bytes(data))  # type: ignore[call-overload]
        if count > self.room:
            raise OSError(self.error, os.strerror(self.error))
        self.room -= count
        return count


def failing(error: int, room: int = 0) -> io.TextIOWrapper:
    """Return a stdout that fails so."""
    raw = Failing(error, room)
    return io.TextIOWrapper(io.BufferedWriter(raw, 16), encoding="utf-8")


# ------------------------------------------------------------------------- the texts


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain – ± é 中 😀", "plain – ± é 中 😀"),
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("\x9b31m", r"\x9b31m"),
        ("a\r\nb\tc", r"a\r\nb\tc"),
        ("\u202egpj.exe", r"\u202egpj.exe"),
        ("\udc80", r"\udc80"),
        ("می\u200cخواهم 👩\u200d🔬", "می\u200cخواهم 👩\u200d🔬"),
    ],
)
def test_what_steers_a_terminal_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_the_line_breaks_of_a_cell_may_stay() -> None:
    assert printable("a\nb\r", "\n") == "a\nb\\r"


@pytest.mark.parametrize(
    ("text", "encoding", "shown"),
    [
        ("1 – 2 ± 3 → 4 ≥ 5 …", "utf-8", "1 – 2 ± 3 → 4 ≥ 5 …"),
        ("1 – 2 ± 3 → 4 ≥ 5 …", "cp1252", "1 – 2 ± 3 -> 4 >= 5 …"),
        ("1 – 2 ± 3 → 4 ≥ 5 …", "latin-1", "1 - 2 ± 3 -> 4 >= 5 ..."),
        ("1 – 2 ± 3 → 4 ≥ 5 …", "ascii", "1 - 2 +- 3 -> 4 >= 5 ..."),
        ("é中", "ascii", r"\xe9\u4e2d"),
        ("é\udc80", "utf-8", r"é\udc80"),
        ("中", None, "中"),
    ],
)
def test_what_an_encoding_lacks_is_shown_in_ascii(
    text: str, encoding: str | None, shown: str
) -> None:
    assert fitting(text, encoding) == shown


def foreign(encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding=encoding)


def read(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode(stream.encoding)


def test_a_table_is_laid_out_in_the_characters_that_it_is_written_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = foreign("ascii")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("COLUMNS", "80")
    with guarded_streams():
        table("a ± b", ("name", "±"), [("é\x1b", "1 ± 2"), ("f", "3")])
    text = read(out)
    assert "a +- b" in text
    assert r"| \xe9\x1b | 1 +- 2 |" in text
    assert len({len(line) for line in text.splitlines()[1:] if line.strip()}) == 1


def test_no_sign_of_ours_is_left_without_ascii(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in MODELS:
        out = foreign("ascii")
        monkeypatch.setattr(sys, "stdout", out)
        assert main(["models", name]) == 0
        assert "\\" not in read(out), name


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1"])
@pytest.mark.parametrize(
    "arguments", [["models"], ["models", "gat"], ["--help"], ["train", "--help"]]
)
def test_a_console_of_few_characters_is_no_failure(
    encoding: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = foreign(encoding)
    monkeypatch.setattr(sys, "stdout", out)
    assert main(arguments) == 0
    assert read(out)


def test_streams_are_as_they_were_afterwards(run: Run) -> None:
    before = sys.stdout, sys.stderr
    assert run("--version")[0] == 0
    assert (sys.stdout, sys.stderr) == before


# -------------------------------------------------------------- labels of a stranger

HOSTILE = ("\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "=cmd|' /C calc'!A0")


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Return a folder of tables with ids, labels and columns that mean harm."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    rng = np.random.default_rng(0)

    def name(i: int) -> str:
        return f"{('=1+', '-2', 'n', '@SUM')[i % 4]}{i}"

    with (folder / "nodes.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "a\x1b[2J", "kind\x1b[3J", "label"])
        for i in range(60):
            label = HOSTILE[i % 3] if i % 5 else ""
            rows.writerow([name(i), i % 3 + rng.random(), HOSTILE[i % 2], label])
    with (folder / "edges.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["source", "target"])
        for i in range(60):
            rows.writerows([(name(i), name((i + 1) % 60)), (name(i), name(i * 7 % 60))])
    return folder


def steers(text: str) -> bool:
    return any(not c.isprintable() for c in text.replace("\n", ""))


def test_no_text_of_a_stranger_steers_the_terminal(
    hostile: Path, tmp_path: Path, run: Run
) -> None:
    model, out = tmp_path / "model", tmp_path / "predictions.csv"
    quick = ("--epochs", 2, "--class-weight", "balanced")
    for arguments in (
        ("diagnose", hostile, "--no-fit"),
        ("train", hostile, "--model", "mlp", *quick, "--out", model),
        ("train", hostile, "--model", "mlp", "--label-column", "kind\x1b[3J", *quick),
        ("train", hostile, "--model", "mlp", "--label-column", "no\x1b[3J"),
        ("predict", model, hostile, "--all", "--out", out),
        ("predict", model, tmp_path / "no\x1b[3Jwhere"),
        ("models", "no\x1b[3J"),
        ("no\x1b[3J",),
    ):
        _, said, complained = run(*arguments)
        assert not steers(said), arguments
        assert not steers(complained), arguments


def test_a_very_long_line_is_cut_in_its_middle(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say("begin " + "x" * 100_000 + " end")
    line = capsys.readouterr().err.strip()
    assert line.startswith("h2gcn: begin xxx")
    assert line.endswith("xxx end")
    assert " … " in line
    assert len(line) < LONGEST + 20


def test_a_line_break_in_a_line_is_somebodys_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tell("one\ntwo", "three")
    assert capsys.readouterr().out == "one\\ntwo\nthree\n"


# ------------------------------------------------------- cells that a spreadsheet runs


def test_texts_that_a_spreadsheet_would_run_are_guarded() -> None:
    texts = ["=1+1", "+1-cmd", "-x", "@SUM(1)", "\t=1", "\r", "\n=1", "＝1"]
    assert guarded(np.array(texts)).tolist() == [f"'{text}" for text in texts]
    harmless = ["a=1", "-5", "+3.5e-3", ".5", "", "'=1", "n-1"]
    assert guarded(np.array(harmless, dtype=object)).tolist() == harmless
    numbers = np.array([-5, 3])
    assert guarded(numbers) is numbers


def test_predictions_are_guarded_where_that_is_asked_for(
    hostile: Path, tmp_path: Path, run: Run
) -> None:
    model, out = tmp_path / "model", tmp_path / "predictions.csv"
    assert (
        run("train", hostile, "--model", "mlp", "--epochs", 2, "--out", model)[0] == 0
    )

    def cells() -> list[list[str]]:
        with out.open(newline="", encoding="utf-8") as file:
            return list(csv.reader(file))

    assert run("predict", model, hostile, "--all", "--out", out)[0] == 0
    as_they_are = cells()
    assert as_they_are[1][0] == "=1+0"
    assert as_they_are[2][0] == "-21"
    assert (
        run(
            "predict", model, hostile, "--all", "--out", out, "--force", "--guard-cells"
        )[0]
        == 0
    )
    safe = cells()
    assert [row[0] for row in safe[:5]] == ["id", "'=1+0", "-21", "n2", "'@SUM3"]
    names = {f"p_{HOSTILE[0]}", f"p_{HOSTILE[1]}", f"p_'{HOSTILE[2]}"}
    assert set(safe[0][2:]) == names
    assert [row[2:] for row in safe[1:]] == [row[2:] for row in as_they_are[1:]]
    fails(
        run("predict", model, hostile, "--out", "p.parquet", "--guard-cells"),
        "p.parquet: the file name must end in .csv",
    )


# ------------------------------------------------------------------------ how it ends


def raising(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def app(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(program, "app", app)


def test_what_nobody_foresaw_is_a_line_too(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("H2GCN_DEBUG", raising=False)
    raising(KeyError("a\x1b\nb"), monkeypatch)
    assert run("models") == (
        70,
        "",
        "h2gcn: error: internal error: KeyError: 'a\\x1b\\nb'. This is a bug; rerun "
        "with H2GCN_DEBUG=1 and report the traceback.\n",
    )


def test_so_is_what_a_library_raises_past_all_nets(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Panic(BaseException):
        """As libraries written in Rust have it."""

    raising(Panic("index out of bounds"), monkeypatch)
    code, _, err = run("models")
    assert code == 70
    assert err.startswith("h2gcn: error: internal error: Panic: index out of bounds.")
    assert err.count("\n") == 1


def test_the_traceback_is_shown_to_who_asks_for_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("H2GCN_DEBUG", "1")
    raising(KeyError("a\x1b"), monkeypatch)
    code, _, err = run("models")
    assert code == 70
    assert err.startswith("h2gcn: Traceback (most recent call last):\n")
    assert "test_console.py" in err
    assert "\x1b" not in err
    assert err.splitlines()[-1].startswith("h2gcn: error: internal error")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 9"),
    ],
)
def test_too_little_memory_has_a_line_of_its_own(
    error: Exception, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    raising(error, monkeypatch)
    fails(run("models"), "out of memory")


def test_what_the_system_refuses_names_the_file(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    raising(PermissionError(errno.EACCES, "Permission denied", "/a/b"), monkeypatch)
    fails(run("models"), "/a/b: Permission denied")


@pytest.mark.parametrize(
    ("number", "beginning"),
    [
        *((number, "cannot write: ") for number in (errno.ENOSPC, errno.EIO)),
        *((number, "") for number in (errno.EMFILE, errno.ECONNREFUSED)),
    ],
)
def test_without_a_file_only_what_is_of_writing_is_told_as_that(
    number: int, beginning: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = os.strerror(number)
    raising(OSError(number, said), monkeypatch)
    fails(run("models"), f"h2gcn: error: {beginning}{said}")


@pytest.mark.parametrize("room", [0, 100])
@pytest.mark.parametrize("arguments", [["models"], ["--version"], ["--help"]])
def test_a_full_disk_behind_stdout_is_a_line(
    arguments: list[str],
    room: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if arguments == ["--version"] and room:
        room = 3
    monkeypatch.setattr(sys, "stdout", failing(errno.ENOSPC, room))
    assert main(arguments) == 2
    assert capsys.readouterr().err == (
        "h2gcn: error: stdout cannot be written (No space left on device)\n"
    )


def test_where_nobody_reads_on_it_ends_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", failing(errno.EPIPE, 100))
    assert main(["models"]) == 141
    assert capsys.readouterr().err == ""


def test_a_stderr_that_cannot_be_written_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", failing(errno.ENOSPC))
    assert main(["models", "nosuch"]) == 2


PROGRAM = "from h2gcn.cli import entry_point; entry_point()"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="left out: no /dev/full")
@pytest.mark.parametrize(
    ("redirected", "code", "said"),
    [
        (">/dev/full", 2, "h2gcn: error: stdout cannot be written (No space"),
        ("2>/dev/full >/dev/full", 2, ""),
        (">&-", 0, ""),
        (">&- 2>&- <&-", 0, ""),
    ],
)
def test_the_program_ends_as_quietly(redirected: str, code: int, said: str) -> None:
    done = subprocess.run(
        [
            *("/bin/sh", "-c", f'"$0" -c "$1" --version {redirected}'),
            *(sys.executable, PROGRAM),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == code
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == bool(said)
