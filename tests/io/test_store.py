"""Graph stores: a lossless round trip, mapped, and nothing damaged is used."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from h2gcn import Graph, NodeClassifier, Split
from h2gcn.exceptions import InputError
from h2gcn.graph import EdgeColumns, ReadRecord, fingerprint
from h2gcn.io import (
    AlreadyThere,
    convert,
    files,
    from_scipy,
    is_store,
    open_store,
    read_graph,
    store as store_module,
    write_npz,
    write_store,
)
from h2gcn.io.files import locked
from support.refusals import refused
from support.stores import differing


def draw(seed: int = 0, n: int = 30, **more: Any) -> Graph:
    rng = np.random.default_rng(seed)
    adj = rng.random((n, n)) < 0.1
    options = {
        "x": rng.normal(size=(n, 4)).astype(np.float32),
        "y": rng.integers(-1, 3, n),
        "classes": np.array(["a", "b", "long name"]),
        "node_ids": np.array([f"node {i}" for i in range(n)]),
        "splits": [Split([0, 1], [2], [5, 4]), Split([7], [8], [9])],
        "name": "drawn",
    }
    return from_scipy(adj, **options | more)


GRAPHS = {
    "dense": draw(),
    "sparse": draw(x=sp.random_array((30, 40), density=0.05, rng=0)),
    "no ids": draw(node_ids=None),
    "undirected": draw(directed=False),
    "unlabelled": draw(y=None, classes=None, splits=()),
    "numbers": draw(classes=np.array([3, 5, 9])),
    "long ids": draw(
        node_ids=np.array([f"{i}é" * 40 for i in range(30)], dtype=object)
    ),
    "edges": replace(
        draw(),
        edge_columns=EdgeColumns(
            [0, 1, 1],
            [1, 0, 2],
            [[1, 0], [2, 1], [3, 0]],
            ("hours", "kind=x"),
            times=np.array(["2024-01-01", "NaT", "2024-01-03"], "datetime64[us]"),
        ),
        edge_weight="hours",
        times=np.array([0.5, np.nan, *range(28)]),
        groups=np.arange(30) // 2,
        record=ReadRecord(9, 1, 2, 3, 4, ("a note",), {"id_column": "id"}, "id"),
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("mapped", [None, True])
def test_a_graph_comes_back_as_it_was(
    tmp_path: Path, name: str, mapped: bool | None
) -> None:
    graph = GRAPHS[name]
    write_store(graph, tmp_path / "store")
    found = open_store(tmp_path / "store", mapped=mapped)
    assert differing(graph, found) == []
    assert fingerprint(found, directions=True) == fingerprint(graph, directions=True)
    dense = isinstance(graph.x, np.ndarray)
    assert isinstance(found.x, np.memmap) == (dense and mapped is True)


def test_a_store_is_a_source_and_its_files_are_plain_arrays(tmp_path: Path) -> None:
    graph = draw()
    write_store(graph, tmp_path / "store")
    assert is_store(tmp_path / "store")
    assert differing(read_graph(tmp_path / "store"), graph) == []
    features = np.load(tmp_path / "store" / "features.npy", mmap_mode="r")
    assert np.array_equal(features, graph.x)
    assert features.flags.f_contiguous
    manifest = json.loads((tmp_path / "store" / "manifest.json").read_text("utf-8"))
    assert manifest["classes"] == ["a", "b", "long name"]
    assert manifest["files"]["features"]["shape"] == [30, 4]


def refusal(folder: Path, *, overwrite: bool) -> InputError:
    """Return why nothing is written to a folder, which stays as it is."""
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    with pytest.raises(InputError) as told:
        write_store(draw(), folder, overwrite=overwrite)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    assert [file.name for file in folder.parent.iterdir()] == [folder.name]
    assert (told.value.param, told.value.where) == ("folder", str(folder))
    return told.value


def test_a_store_is_replaced_only_if_asked(tmp_path: Path) -> None:
    store = tmp_path / "store"
    write_store(GRAPHS["edges"], store)
    assert refusal(store, overwrite=False).hint == {"overwrite": True}
    write_store(draw(1), store, overwrite=True)
    assert differing(open_store(store), draw(1)) == []
    assert not (store / "edge_values.npy").exists()
    assert [file.name for file in tmp_path.iterdir()] == ["store"]


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", ["embeddings.npy", "features.npy", "manifesto.txt"])
def test_a_folder_of_somebody_else_is_left_alone(
    tmp_path: Path, name: str, overwrite: bool
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / name).write_text("mine")
    assert refusal(folder, overwrite=overwrite).value == name


def test_a_store_with_a_file_of_somebody_else_is_left_alone(store: Path) -> None:
    (store / "embeddings.npy").write_text("mine")
    for overwrite in (False, True):
        assert refusal(store, overwrite=overwrite).value == "embeddings.npy"


def test_hidden_folders_of_a_user_are_left_alone(store: Path) -> None:
    hidden = (".-20261118", ".-original", ".-original-older", ".-0123abcd-older")
    folders = [
        store.with_name(name.replace("-", f"{store.name}-", 1)) for name in hidden
    ]
    for folder in folders:
        write_store(draw(2), folder)
    write_store(draw(1), store, overwrite=True)
    read_graph(store)
    for folder in folders:
        assert differing(open_store(folder), draw(2)) == []


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_appears_while_a_store_is_written_is_left_alone(
    tmp_path: Path, overwrite: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(folder: Path, **more: Any) -> None:
        if not target.exists():
            target.mkdir()
            (target / "features.npy").write_text("mine")
            (target / "notes.txt").write_text("mine, too")
        write_manifest(folder, **more)

    target, write_manifest = tmp_path / "store", store_module.write_manifest
    monkeypatch.setattr(store_module, "write_manifest", write)
    with refused(where=str(target)):
        write_store(draw(), target, overwrite=overwrite)
    assert sorted(file.name for file in target.iterdir()) == [
        "features.npy",
        "notes.txt",
    ]
    assert [file.name for file in tmp_path.iterdir()] == ["store"]


def test_of_two_that_write_a_store_the_slower_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(folder: Path, **more: Any) -> None:
        monkeypatch.undo()
        write_store(draw(1), target)
        store_module.write_manifest(folder, **more)

    target = tmp_path / "store"
    monkeypatch.setattr(store_module, "write_manifest", write)
    with refused(AlreadyThere, where=str(target)):
        write_store(draw(2), target)
    assert differing(open_store(target), draw(1)) == []


@pytest.mark.skipif(files.fcntl is None, reason="no locks here")
def test_a_store_that_another_program_uses_is_not_replaced(store: Path) -> None:
    with locked(store), refused(where=str(store), words="another program uses it"):
        write_store(draw(1), store, overwrite=True)
    assert differing(open_store(store), GRAPHS["edges"]) == []


def test_a_folder_called_scratch_survives_a_conversion(tmp_path: Path) -> None:
    write_npz(draw(), tmp_path / "graph.npz")
    out = tmp_path / "out"
    (out / "scratch").mkdir(parents=True)
    (out / "scratch" / "thesis.txt").write_text("years of work")
    with refused(where=str(out)):
        convert(tmp_path / "graph.npz", out)
    assert (out / "scratch" / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("function", ["_write_array", "write_manifest"])
def test_an_aborted_write_leaves_the_old_store(
    store: Path, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def abort(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"h2gcn.io.store.{function}", abort)
        with pytest.raises(KeyboardInterrupt):
            write_store(draw(1), store, overwrite=True)
    assert differing(open_store(store), GRAPHS["edges"]) == []
    assert [file.name for file in store.parent.iterdir()] == [store.name]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "calls", "is_new"),
    [
        ("h2gcn.io.store._write_array", 3, False),
        ("h2gcn.io.store.write_manifest", 0, False),
        ("pathlib.Path.rename", 0, False),
        ("pathlib.Path.rename", 1, False),  # neither has the name
        ("shutil.rmtree", 0, True),
    ],
)
def test_a_killed_write_leaves_one_of_the_two_stores(
    store: Path, function: str, calls: int, is_new: bool
) -> None:
    other = store.with_name("other")
    write_store(draw(1), other)
    kill = (
        "import os, pathlib, shutil, signal, sys\n"
        "import h2gcn.io.store\n"
        "from h2gcn.io import open_store, write_store\n"
        f"graph, calls = open_store({str(other)!r}), []\n"
        f"does = {function}\n"
        "def die(*args, **more):\n"
        "    calls.append(args)\n"
        f"    if len(calls) > {calls}: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return does(*args, **more)\n"
        f"{function} = die\n"
        f"write_store(graph, {str(store)!r}, overwrite=True)\n"
    )
    ended = subprocess.run([sys.executable, "-c", kill], check=False, env=os.environ)
    assert ended.returncode < 0
    found = draw(1) if is_new else GRAPHS["edges"]
    assert differing(read_graph(store), found) == []
    write_store(draw(2), store, overwrite=True)
    assert differing(open_store(store), draw(2)) == []
    assert sorted(file.name for file in store.parent.iterdir()) == ["other", "store"]


def test_edges_of_a_store_can_be_weighed(tmp_path: Path) -> None:
    from h2gcn.io import TableOptions

    graph = replace(GRAPHS["edges"], edge_weight=None)
    write_store(graph, tmp_path / "store")
    found = read_graph(tmp_path / "store", options=TableOptions(edge_weight="hours"))
    assert found.edge_weight == "hours"
    with pytest.raises(InputError, match="label_column is for tables"):
        read_graph(tmp_path / "store", options=TableOptions(label_column="part"))


@pytest.mark.parametrize("model", ["h2gcn-1", "ring-table"])
def test_training_on_a_store_is_training_on_the_graph(
    tmp_path: Path, model: str
) -> None:
    graph = draw(n=60, splits=())
    write_store(graph, tmp_path / "store")
    found = open_store(tmp_path / "store")
    settings: dict[str, Any] = {"model": model, "random_state": 1, "epochs": 10}
    shares = [
        NodeClassifier(**settings).fit(g).predict_proba(g) for g in (graph, found)
    ]
    assert np.array_equal(shares[0], shares[1])


# -------------------------------------------------------------------------- what is bad


@pytest.fixture
def store(tmp_path: Path) -> Path:
    write_store(GRAPHS["edges"], tmp_path / "store")
    return tmp_path / "store"


def change(store: Path, **fields: Any) -> None:
    file = store / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | fields), "utf-8")


def test_a_changed_byte_is_found(store: Path) -> None:
    file = store / "features.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    for verify in (None, True):
        with pytest.raises(InputError, match=r"features\.npy: its checksum is not"):
            open_store(store, verify=verify)
    open_store(store, verify=False)


def test_checksums_are_looked_at_once(store: Path) -> None:
    copy = store.with_name("copy")
    shutil.copytree(store, copy)
    before = (copy / "verified.json").read_text()
    shutil.copy(store / "labels.npy", copy / "labels.npy")
    open_store(copy)
    after = (copy / "verified.json").read_text()
    assert before != after
    open_store(copy)
    assert (copy / "verified.json").read_text() == after


def test_a_store_that_may_only_be_read_is_read(store: Path) -> None:
    (store / "verified.json").unlink()
    store.chmod(0o500)
    try:
        open_store(store)
    finally:
        store.chmod(0o700)


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda s: (s / "labels.npy").unlink(), r"labels\.npy: is missing"),
        (
            lambda s: (s / "labels.npy").write_bytes(b"short"),
            r"labels\.npy: has 5 bytes, and 368 by the manifest",
        ),
        (lambda s: change(s, version=2), "a graph store of version 2, and this"),
        (lambda s: change(s, format="x"), "is not the manifest of a graph store"),
        (lambda s: change(s, nodes=31), "does not fit the manifest"),
        (lambda s: change(s, classes=["a"]), r"labels\.npy: does not fit"),
        (lambda s: change(s, edges=1), r"indices\.npy: does not fit"),
        (lambda s: change(s, files={}), "names no file indptr.npy"),
        (lambda s: change(s, name=3), ": name must be text, got 3"),
        (lambda s: (s / "manifest.json").write_text("{"), "truncated or not JSON"),
    ],
)
def test_what_is_wrong_with_a_store_is_told(store: Path, harm: Any, words: str) -> None:
    harm(store)
    with pytest.raises(InputError, match=words) as told:
        read_graph(store)
    assert "\n" not in str(told.value)


def test_a_folder_that_is_no_store_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"it has no manifest\.json"):
        open_store(tmp_path)
    (tmp_path / "conversion.json").write_text("{}")
    with pytest.raises(InputError, match="not finished; 'h2gcn convert'"):
        read_graph(tmp_path)
