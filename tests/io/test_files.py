"""Files that are whole or not there, and folders that one program at a time has."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from h2gcn.exceptions import InputError
from h2gcn.io import (
    atomic_write,
    check_folder,
    files,
    locked,
    new_folder,
    whole_file,
    write_whole,
)


def check(path: Path) -> None:
    check_folder(path, "a thing", {"own"}.__contains__)


def refused(path: Path, words: str) -> None:
    with pytest.raises(InputError) as caught:
        check(path)
    assert str(caught.value) == f"{path}: {words}"


# --------------------------------------------------------------------------- folders


def test_folders_that_can_be_written_to(tmp_path: Path) -> None:
    check(tmp_path)
    check(tmp_path / "new")
    (tmp_path / "own").write_text("")
    check(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["own"]


def test_folders_that_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(tmp_path / "no" / "c", f"the folder {tmp_path / 'no'} does not exist")
    refused(tmp_path / "..", "a thing needs a folder of its own")
    refused(
        Path("-"), "nothing is written to standard output; a thing is saved as a folder"
    )
    (tmp_path / "file").write_text("mine")
    refused(tmp_path / "file", "is a file; a thing is saved as a folder")
    refused(tmp_path, "holds other files; a thing needs a folder of its own")
    assert (tmp_path / "file").read_text() == "mine"

    def refuse(_: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    refused(tmp_path, "cannot be read (Permission denied)")


# ----------------------------------------------------------------------------- files


def test_a_file_is_there_once_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "f"
    write_whole(file, b"old")
    with whole_file(file) as out:
        out.write(b"new")
        assert file.read_bytes() == b"old"
    assert file.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "Full"), KeyboardInterrupt(), MemoryError()]
)
def test_what_was_not_finished_is_removed(tmp_path: Path, error: BaseException) -> None:
    kind = InputError if isinstance(error, OSError) else type(error)
    with pytest.raises(kind) as caught, whole_file(tmp_path / "f"):
        raise error
    if kind is InputError:
        assert str(caught.value) == f"{tmp_path / 'f'}: cannot be written (Full)"
    assert not list(tmp_path.iterdir())


def test_atomic_write_takes_the_name_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    target.write_text("old")
    with atomic_write(target) as beside:
        assert beside.parent == tmp_path
        assert beside.suffix == ".txt"
        beside.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("trouble", [RuntimeError, KeyboardInterrupt])
def test_atomic_write_leaves_the_old_file(
    tmp_path: Path, trouble: type[BaseException]
) -> None:
    target = tmp_path / "out.txt"
    target.write_text("old")

    def interrupted() -> None:
        with atomic_write(target) as beside:
            beside.write_text("half")
            raise trouble

    with pytest.raises(trouble):
        interrupted()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_atomic_write_needs_a_folder(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"gone: cannot write here \(No such"),
        atomic_write(tmp_path / "gone" / "out.txt"),
    ):
        pass
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(InputError, match=r"file: cannot write here \(Not a dir"),
        atomic_write(tmp_path / "file" / "out.txt"),
    ):
        pass
    with (
        pytest.raises(InputError, match="this is a folder"),
        atomic_write(tmp_path),
    ):
        pass


def test_atomic_write_in_a_folder_that_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    # Root may write anywhere, so a read-only folder would not show it.
    monkeypatch.setattr(Path, "open", refuse)
    with (
        pytest.raises(InputError, match=r"cannot write here \(Permission denied\)"),
        atomic_write(tmp_path / "out.txt"),
    ):
        pass


# -------------------------------------------------------------------- what is left

locks = pytest.mark.skipif(files.fcntl is None, reason="no locks here")
LEFT = (".out.0123abcd.tmp.txt", "part.0123abcd.part")
OTHERS = (".out.mine.tmp.txt", "out.0123abcd.tmp.txt", ".in.0123abcd.tmp.txt")


@locks
def test_what_a_killed_program_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in (*LEFT, *OTHERS):
        (tmp_path / name).write_text("half")
    with atomic_write(tmp_path / "out.txt") as beside:
        beside.write_text("whole")
    write_whole(tmp_path / "part", b"whole")
    found = {path.name for path in tmp_path.iterdir()}
    assert found == {*OTHERS, "out.txt", "part"}


@locks
def test_what_another_program_is_writing_stays(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    with atomic_write(target) as slow:
        slow.write_text("slow")
        with atomic_write(target) as quick:
            quick.write_text("quick")
        assert slow.exists()
        assert target.read_text() == "quick"
    assert target.read_text() == "slow"
    assert list(tmp_path.iterdir()) == [target]


@locks
def test_a_file_that_another_program_is_about_to_clear_is_not_kept(
    tmp_path: Path,
) -> None:
    path = tmp_path / "new"
    path.touch()
    with path.open("rb") as other:
        files.fcntl.flock(other, files.fcntl.LOCK_EX)
        assert files.keep(path) is None
    held = files.keep(path)
    assert held is not None
    held.close()


def test_without_locks_all_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "fcntl", None)
    (tmp_path / LEFT[0]).write_text("whose?")
    with atomic_write(tmp_path / "out.txt") as beside:
        beside.write_text("whole")
    assert {path.name for path in tmp_path.iterdir()} == {LEFT[0], "out.txt"}


def test_a_folder_that_was_made_for_nothing_is_removed(tmp_path: Path) -> None:
    inner, there = tmp_path / "a" / "b", tmp_path / "there"
    there.mkdir()
    for path in (inner, there):
        with pytest.raises(KeyboardInterrupt), new_folder(path, parents=True):
            raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == [there]

    def fill() -> None:
        with new_folder(inner, parents=True):
            (inner / "file").write_text("of use")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fill()
    assert (inner / "file").exists()
    with (
        pytest.raises(InputError, match=r"x: cannot make this folder \(No such file"),
        new_folder(tmp_path / "no" / "x"),
    ):
        pytest.fail("its parent is not there")


# ----------------------------------------------------------------------------- locks


@pytest.mark.skipif(files.fcntl is None, reason="no locks here")
def test_a_folder_is_for_one_at_a_time(tmp_path: Path) -> None:
    with locked(tmp_path):
        with pytest.raises(InputError) as caught, locked(tmp_path):
            pytest.fail("both are in")
        assert str(caught.value) == (
            f"{tmp_path}: another program is writing to it; wait for it, or write to "
            "another place"
        )
        assert not list(tmp_path.iterdir())
    with locked(tmp_path):
        pass


@pytest.mark.slow
@pytest.mark.skipif(files.fcntl is None, reason="no locks here")
def test_a_program_that_was_killed_leaves_no_lock(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from h2gcn.io import locked\n"
        f"with locked(Path({str(tmp_path)!r})): print('in', flush=True); input()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "in\n"
        with pytest.raises(InputError, match="another program"), locked(tmp_path):
            pytest.fail("both are in")
    finally:
        child.kill()
        child.communicate()
    with locked(tmp_path):
        pass


@pytest.mark.skipif(files.fcntl is None, reason="no locks here")
def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"no: cannot be read \(No such file or dir"),
        locked(tmp_path / "no"),
    ):
        pytest.fail("it is not there")


@pytest.mark.parametrize("number", [None, errno.ENOLCK, errno.EBADF])
def test_where_there_are_no_locks_nobody_is_kept_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int | None
) -> None:
    class Fcntl:
        LOCK_EX = LOCK_NB = 0

        @staticmethod
        def flock(*_: object) -> None:
            raise OSError(number, "No locks")

    monkeypatch.setattr(files, "fcntl", None if number is None else Fcntl)
    with locked(tmp_path), locked(tmp_path):
        pass


def test_a_lock_that_fails_otherwise_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Fcntl:
        LOCK_EX = LOCK_NB = 0

        @staticmethod
        def flock(*_: object) -> None:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(files, "fcntl", Fcntl)
    with (
        pytest.raises(InputError, match=r": cannot be written \(Input/output error\)$"),
        locked(tmp_path),
    ):
        pytest.fail("it was locked")
