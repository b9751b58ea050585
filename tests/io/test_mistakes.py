"""Paths that cannot be read, and values of files in messages."""

import os
from pathlib import Path

import pytest

from h2gcn.exceptions import InputError
from h2gcn.experiments import Store
from h2gcn.io import (
    existing_file,
    plain_path,
    read_edge_list,
    read_graph,
    read_tables,
    usable_path,
    write_predictions,
)
from h2gcn.io.mistakes import excerpt, listed
from support.commands import Run, fails

FILES = ("a.npz", "a.pt", "a.graphml", "a.edgelist", "a.txt")


def refused(path: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        existing_file(path)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_files_that_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.csv").write_text("id")
    assert existing_file("~/a.csv") == tmp_path / "a.csv"
    assert usable_path(tmp_path / "not there") == tmp_path / "not there"
    assert usable_path(tmp_path / "a.csv" / "beyond") == tmp_path / "a.csv" / "beyond"
    assert plain_path(tmp_path / "not there") == tmp_path / "not there"


def test_what_is_not_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    refused(pipe, f"{pipe}: this is a pipe, not a file.")
    refused("/dev/zero", "/dev/zero: this is a device, not a file.")
    refused(tmp_path, f"{tmp_path}: this is a folder, not a file.")
    (tmp_path / "linked").symlink_to(pipe)
    refused(tmp_path / "linked", f"{tmp_path / 'linked'}: this is a pipe, not a file.")
    nothing = tmp_path / "nothing"
    refused(nothing, f"{nothing}: there is no such file.")


def test_names_that_no_file_can_have(tmp_path: Path) -> None:
    long = tmp_path / ("n" * 300)
    refused(long, f"…{'n' * 60}: cannot be read (File name too long).")
    who = "~nosuchuser/a.csv"
    refused(who, f"'{who}' is no path (Could not determine home directory).")
    refused("a\0b", r"'a\x00b' is no path (embedded null byte).")


def test_folders_without_permission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stat(self: Path, **_: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    file = tmp_path / "a.csv"
    monkeypatch.setattr(Path, "stat", stat)
    refused(file, f"{file}: cannot be read (Permission denied).")
    with pytest.raises(InputError, match=r"Permission denied"):
        read_graph(tmp_path)


def test_a_folder_that_cannot_be_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def iterdir(self: Path) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "iterdir", iterdir)
    with pytest.raises(InputError, match=r"cannot be read \(Permission denied\)"):
        read_graph(tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_no_reader_waits_for_a_pipe(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match="this is a pipe, not a file"):
        read_graph(tmp_path / name)


def test_no_table_waits_for_a_pipe(tmp_path: Path) -> None:
    for name in ("nodes.csv", "p.parquet", "x.npy", "labels.txt", "trials.jsonl"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n")
    (tmp_path / "n.csv").write_text("id\n1\n2\n")
    (tmp_path / "a.txt").write_text("1 2\n")
    tried = {
        "nodes.csv": lambda: read_graph(tmp_path),
        "p.parquet": lambda: read_tables(tmp_path / "n.csv", tmp_path / "p.parquet"),
        "x.npy": lambda: read_tables(
            tmp_path / "n.csv", tmp_path / "edges.csv", features=tmp_path / "x.npy"
        ),
        "labels.txt": lambda: read_edge_list(
            tmp_path / "a.txt", tmp_path / "labels.txt"
        ),
        "trials.jsonl": lambda: Store(tmp_path / "trials.jsonl"),
    }
    for name, read in tried.items():
        with pytest.raises(InputError, match=f"{name}: this is a pipe, not a file"):
            read()


def test_commands_say_so_in_one_line(tmp_path: Path, run: Run) -> None:
    os.mkfifo(tmp_path / "s.json")
    (tmp_path / "g.txt").write_text("1 2\n")
    graph, pipe = tmp_path / "g.txt", tmp_path / "s.json"
    fails(run("train", graph, "--settings", pipe), "s.json: this is a pipe")
    out = tmp_path / "out"
    command = ("generate", "--out", out, "--compatibility", pipe)
    fails(run(*command), "s.json: this is a pipe")
    fails(run("diagnose", "~nosuchuser/g.npz"), "'~nosuchuser/g.npz' is no path")
    fails(run("diagnose", "n" * 300), "cannot be read (File name too long)")
    fails(run("diagnose", "n" * 300 + ".npz"), "cannot be read (File name too long)")
    fails(run("generate", "--out", "~nosuchuser/g.npz"), "is no path")


@pytest.mark.parametrize(
    "command",
    [
        ("train", "g.txt", "--page", "{}/p.html"),
        ("tune", "g.txt", "--out", "{}"),
        ("predict", "{}", "g.txt"),
        ("predict", "model", "g.txt", "--out", "{}/p.csv"),
        ("reproduce", "table-1", "--out", "{}"),
        ("report", "{}"),
        ("diagnose", "g.txt", "--html", "{}/p.html"),
        ("train", "g.txt", "--settings", "{}"),
    ],
)
@pytest.mark.parametrize("place", ["~nosuchuser", "n" * 300])
def test_no_command_breaks_on_a_place_that_cannot_be(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: Run,
    command: tuple[str, ...],
    place: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("g.txt").write_text("1 2\n2 3\n")
    said = run(*(word.format(place) for word in command))
    fails(said)
    assert [path.name for path in tmp_path.iterdir()] == ["g.txt"]


def test_nothing_is_written_to_a_name_that_no_file_can_have(tmp_path: Path) -> None:
    given = (["a"], ["x"], [[1.0]], ["x"])
    with pytest.raises(InputError, match=r"cannot be read \(File name too long\)"):
        write_predictions(tmp_path / ("n" * 300 + ".csv"), *given)
    with pytest.raises(InputError, match="is no path"):
        write_predictions("~nosuchuser/p.csv", *given)


def test_long_values_are_cut_in_messages() -> None:
    assert excerpt("x" * 100) == repr("x" * 100)
    assert excerpt("x" * 101) == f"'{'x' * 99}…' (101 characters)"
    assert excerpt(12) == "12"
    assert excerpt(10**400).endswith("…' (401 characters)")
    assert listed(["a", "b" * 200]) == f"'a', '{'b' * 99}…' (200 characters)"
