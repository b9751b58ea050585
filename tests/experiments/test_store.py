"""The store of finished runs: whole whatever happens, and one writer at a time."""

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from h2gcn import __version__
from h2gcn.exceptions import InputError
from h2gcn.experiments import Store
from h2gcn.experiments.runs import (
    FORMAT,
    Run,
    RunJson,
    check_kind,
    key_of,
    read_records,
)
from h2gcn.io import files


def record(number: int) -> dict[str, Any]:
    return {"key": f"k{number}", "value": number, "text": "schön, größer"}


def fill(path: Path, count: int) -> bytes:
    """Write records 0, 1, … and return the content of the file."""
    with Store(path) as store:
        for number in range(count):
            store.append(record(number))
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a store may be."""
    return tmp_path / "runs.jsonl"


# ---------------------------------------------------------------------- there and back


def test_records_come_back_in_order(path: Path) -> None:
    fill(path, 3)
    with Store(path) as store:
        assert [found["value"] for found in store.records] == [0, 1, 2]
        assert store["k1"] == {"format": FORMAT, **record(1)}
        assert "k2" in store
        assert "k3" not in store
        assert len(store) == 3


def test_one_line_a_record_with_the_format(path: Path) -> None:
    lines = fill(path, 2).decode().splitlines()
    assert [json.loads(line)["format"] for line in lines] == [FORMAT, FORMAT]
    assert "schön" in lines[0]


def test_of_two_records_with_one_key_the_later_counts(path: Path) -> None:
    with Store(path) as store:
        store.append({"key": "a", "value": 1})
        store.append({"key": "a", "value": 2})
        assert store["a"]["value"] == 2
    with Store(path) as store:
        assert [found["value"] for found in store.records] == [2]


def test_joined_files_are_a_store(path: Path) -> None:
    content = fill(path, 2)
    path.write_bytes(content + b"\n" + content.replace(b': "k', b': "j'))
    assert [found["key"] for found in read_records(path)] == ["k0", "k1", "j0", "j1"]


def test_what_is_not_json_is_not_begun(path: Path) -> None:
    content = fill(path, 1)
    with Store(path) as store, pytest.raises(ValueError, match="JSON compliant"):
        store.append({"key": "a", "value": float("nan")})
    assert path.read_bytes() == content


def test_a_key_is_the_hash_of_canonical_json() -> None:
    expected = hashlib.sha256(b'{"a":[1,2.5],"b":{"c":null,"d":"x"}}').hexdigest()
    assert key_of(b={"d": "x", "c": None}, a=(1, 2.5)) == expected[:16]
    assert key_of(a=1) != key_of(a=2)


# ---------------------------------------------------------------------------- damaged


def test_a_torn_last_line_is_cut_off_wherever_it_was_torn(path: Path) -> None:
    whole = fill(path, 3)
    start = len(fill(path.with_name("two"), 2))
    for end in range(start, len(whole) - 1):
        path.write_bytes(whole[:end])
        with Store(path) as store:
            assert len(store) == 2, whole[:end]
            store.append(record(2))
        assert path.read_bytes() == whole


def test_a_line_that_only_lacks_its_end_is_kept(path: Path) -> None:
    whole = fill(path, 3)
    path.write_bytes(whole[:-1])
    with Store(path) as store:
        assert len(store) == 3
        store.append(record(3))
    assert [found["value"] for found in read_records(path)] == [0, 1, 2, 3]


def test_zeros_after_a_power_cut_are_cut_off(path: Path) -> None:
    whole = fill(path, 2)
    path.write_bytes(whole + bytes(100))
    with Store(path) as store:
        assert len(store) == 2
    assert path.read_bytes() == whole


@pytest.mark.parametrize("broken", [b'{"key": "k', b"[1]", b"\xff", b'{"a": 1}', b"3"])
def test_a_broken_line_in_the_middle_is_named(path: Path, broken: bytes) -> None:
    lines = fill(path, 3).splitlines()
    path.write_bytes(b"\n".join([lines[0], broken, lines[2], b""]))
    content = path.read_bytes()
    with pytest.raises(InputError, match=r"runs.jsonl, line 2: not a record"):
        Store(path)
    assert path.read_bytes() == content
    with pytest.raises(InputError, match="line 2"):
        read_records(path)


@pytest.mark.parametrize("other", [0, FORMAT + 1, "x"])
def test_another_format_is_refused(path: Path, other: object) -> None:
    path.write_text(json.dumps({"format": other, "runs": []}) + "\n")
    with pytest.raises(InputError) as caught:
        Store(path)
    assert str(caught.value) == (
        f"{path}, line 1: format {other!r}; this version of h2gcn ({__version__}) "
        f"reads format {FORMAT}"
    )


def test_a_store_that_was_refused_can_be_opened_once_it_is_mended(path: Path) -> None:
    content = fill(path, 1)
    path.write_bytes(b"x\n" + content)
    with pytest.raises(InputError, match="line 1"):
        Store(path)
    path.write_bytes(content)
    Store(path).close()


def test_a_line_that_is_too_deep_is_named(path: Path) -> None:
    path.write_bytes(b'{"key": ' + b"[" * 100_000 + b"\n")
    with pytest.raises(InputError, match=r"runs.jsonl, line 1: not a record of a run"):
        Store(path)


def test_a_store_that_was_made_for_nothing_is_removed(path: Path) -> None:
    Store(path).close()
    assert not path.exists()
    path.touch()
    Store(path).close()
    assert path.exists(), "it was there before"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seconds": "1"}, "seconds must be a number, got '1'"),
        ({"test_accuracy": 1.5}, "test_accuracy must be a number <= 1.0, got 1.5"),
        ({"split": -1}, "split must be an integer >= 0, got -1"),
        ({"config": []}, "config must be an object, got a list of 0"),
        ({"by_degree": [[1]]}, "by_degree.0 must be a list of length 4, got a list of"),
        ({"error": 3}, "error must be text or null, got 3"),
    ],
    ids=str,
)
def test_a_record_of_another_form_is_named(change: dict[str, Any], words: str) -> None:
    run = Run("real", "texas", "gcn", {}, 0)
    record = {"key": "k", **run.to_json(), "selected": False, "version": "1"}
    record |= {"val_accuracy": None, "test_accuracy": 0.5, "seconds": 1}
    check_kind(RunJson, "here", [record])
    with pytest.raises(InputError) as caught:
        check_kind(RunJson, "here", [record | change])
    assert str(caught.value).startswith(f"here, record 'k': {words}")


# ------------------------------------------------------------------- places and disks


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        Store(tmp_path / "nowhere" / "runs.jsonl")
    with pytest.raises(InputError, match="this is a folder, not a file"):
        Store(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        read_records(tmp_path / "runs.jsonl")


def test_a_record_is_synced_before_append_returns(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bytes | str] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        is_folder = os.fstat(handle).st_ino == path.parent.stat().st_ino
        synced.append("folder" if is_folder else path.read_bytes())
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    with Store(path) as store:
        assert synced == ["folder"], "the name of the new file"
        store.append(record(0))
        assert synced[1:] == [path.read_bytes()]
        assert path.read_bytes().endswith(b"}\n")
    Store(path).close()
    assert len(synced) == 2, "a file that was there is not new"


@pytest.mark.parametrize("step", ["write", "fsync"])
def test_a_full_disk_leaves_the_store_whole(
    path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    content = fill(path, 2)
    real = os.write

    def write(handle: int, data: Any) -> int:
        if len(data) < 20:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(handle, data[: len(data) // 2])

    def fsync(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Store(path) as store:
        with monkeypatch.context() as patch:
            patch.setattr(os, step, {"write": write, "fsync": fsync}[step])
            with pytest.raises(InputError, match="No space left on device"):
                store.append(record(2))
        assert path.read_bytes() == content
        assert "k2" not in store
        store.append(record(3))
    assert [found["value"] for found in read_records(path)] == [0, 1, 3]


def test_ctrl_c_leaves_the_store_whole(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = fill(path, 1)
    real = os.write

    def write(handle: int, data: Any) -> int:
        real(handle, data[:9])
        raise KeyboardInterrupt

    with Store(path) as store:
        monkeypatch.setattr(os, "write", write)
        with pytest.raises(KeyboardInterrupt):
            store.append(record(1))
    assert path.read_bytes() == content


# -------------------------------------------------------------------- one at a time


@pytest.mark.skipif(files.fcntl is None, reason="no locks here")
def test_a_store_in_use_is_refused(path: Path) -> None:
    fill(path, 1)
    with Store(path):
        with pytest.raises(InputError, match="another program is writing to it"):
            Store(path)
        assert len(read_records(path)) == 1, "reading is free"
    Store(path).close()


@pytest.mark.skipif(files.fcntl is None, reason="no locks here")
def test_a_store_in_use_by_another_process_is_refused(path: Path) -> None:
    child = start(f"store = Store({str(path)!r}); print('open', flush=True); input()")
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "open\n"
        with pytest.raises(InputError, match="another program"):
            Store(path)
    finally:
        child.kill()
        child.communicate()
    Store(path).close()


@pytest.mark.parametrize("how", ["no module", "no locks on this file system"])
def test_without_locks_it_works_all_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    class Fcntl:
        LOCK_EX = LOCK_NB = 0

        @staticmethod
        def flock(*_: object) -> None:
            raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(files, "fcntl", None if how == "no module" else Fcntl)
    assert len(fill(path, 2).splitlines()) == 2


def start(code: str) -> subprocess.Popen[str]:
    """Start a program that has `Store`."""
    head = "import os, signal\nfrom h2gcn.experiments import Store\n"
    return subprocess.Popen(
        [sys.executable, "-c", head + code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


KILLED = """
real, left = os.write, {pieces}
def write(handle, data):
    global left
    if left == 0:
        print("here", flush=True)
        signal.pause()
    left -= 1
    return real(handle, data[:9])
os.write = write
with Store({path!r}) as store:
    number = len(store)
    while True:
        store.append({{"key": f"k{{number}}", "value": number, "text": "x" * 300}})
        number += 1
"""
"""Appends in small pieces, and after some of them waits to be killed."""


@pytest.mark.slow
def test_nothing_but_the_last_line_is_lost_by_kill_9(path: Path) -> None:
    for pieces in (7, 100, 333):
        child = start(KILLED.format(path=str(path), pieces=pieces))
        assert child.stdout is not None
        assert child.stdout.readline() == "here\n"
        os.kill(child.pid, signal.SIGKILL)
        child.communicate()
        left = path.read_bytes()
        assert not left.endswith(b"\n"), "the kill was meant to fall into a line"
        with Store(path) as store:
            assert path.read_bytes() == left[: left.rfind(b"\n") + 1]
            assert [r["value"] for r in store.records] == list(range(len(store)))
    assert len(read_records(path)) > 0
