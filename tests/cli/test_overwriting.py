"""Nothing that exists is replaced without --force, whatever writes it."""

import errno
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from h2gcn import Graph, NodeClassifier, io
from h2gcn.cli import diagnose, evaluate, explain, options as src, report
from h2gcn.exceptions import InputError
from support import example_results
from support.commands import Run, fails


@pytest.fixture
def model(small_graph: Graph, tmp_path: Path) -> Path:
    """Return a saved model; beside it are its graph and a folder of results."""
    path = tmp_path / "model"
    graph = Graph(
        x=small_graph.x,
        adj=small_graph.adj,
        y=np.where(np.arange(small_graph.n_nodes) % 5, small_graph.y, -1),
    )
    NodeClassifier("logistic", random_state=0).fit(graph).save(path)
    io.write_npz(graph, tmp_path / "graph.npz")
    example_results.leave(tmp_path / "results", example_results.small())
    return path


WRITERS = {
    "predict csv": ("predict MODEL GRAPH --out FILE", "p.csv"),
    "predict parquet": ("predict MODEL GRAPH --out FILE", "p.parquet"),
    "predict by default": ("predict MODEL GRAPH", "predictions.csv"),
    "evaluate": ("evaluate MODEL GRAPH --page FILE", "e.html"),
    "explain": ("explain MODEL GRAPH --page FILE --repeats 1", "x.html"),
    "explain a node": ("explain MODEL GRAPH --node 3 --page FILE", "n.html"),
    "diagnose": ("diagnose GRAPH --no-fit --html FILE", "d.html"),
    "generate npz": ("generate --nodes 60 --out FILE", "g.npz"),
    "generate NPZ": ("generate --nodes 60 --out FILE", "g.NPZ"),
    "generate nodes": ("generate --nodes 60 --out FOLDER", "nodes.csv"),
    "generate edges": ("generate --nodes 60 --out FOLDER", "edges.csv"),
    "report": ("report RESULTS --out FILE", "r.html"),
    "report by default": ("report RESULTS", "results/report.html"),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_file_is_replaced_only_by_force(
    writer: str,
    run: Run,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    line, name = WRITERS[writer]
    file = Path("out") / name if "FOLDER" in line else Path(name)
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"mine")
    words = {"MODEL": model, "GRAPH": "graph.npz", "FILE": file, "FOLDER": "out"}
    words["RESULTS"] = "results"
    command = [words.get(word, word) for word in line.split()]
    with monkeypatch.context() as patch:  # before any work is done
        for module in (src, evaluate, explain, diagnose):
            for work in ("load_source", "load_as_trained"):
                if hasattr(module, work):
                    patch.setattr(module, work, None)
        patch.setattr("h2gcn.datasets.generate_graph", None)
        patch.setattr(report, "say", None)
        fails(run(*command), f"{file}: already exists; try --force")
    assert file.read_bytes() == b"mine"
    code, _, err = run(*command, "--force")
    assert code == 0, err
    assert file.read_bytes() != b"mine"


@pytest.mark.parametrize("writer", WRITERS)
def test_a_file_that_appears_during_the_work_stays(
    writer: str,
    run: Run,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    line, name = WRITERS[writer]
    file = Path("out") / name if "FOLDER" in line else Path(name)
    words = {"MODEL": model, "GRAPH": "graph.npz", "FILE": file, "FOLDER": "out"}
    words["RESULTS"] = "results"
    link: Callable[..., None] = os.link

    def late(beside: Path, target: Path) -> None:
        if target.name == file.name:
            target.write_bytes(b"mine")
        link(beside, target)

    monkeypatch.setattr(os, "link", late)
    result = run(*(words.get(word, word) for word in line.split()))
    fails((result[0], "", result[2]), f"{file}: already exists; try --force")
    assert file.read_bytes() == b"mine"
    assert not [p for p in file.parent.iterdir() if p.name.startswith(".")]


def test_where_there_are_no_hard_links_a_file_stays_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", none)
    file = tmp_path / "a.txt"
    with io.atomic_write(file, force=False) as beside:
        beside.write_text("first")
    assert file.read_text() == "first"
    with (
        pytest.raises(io.AlreadyThere, match="already exists; try force=True"),
        io.atomic_write(file, force=False),
    ):
        raise AssertionError
    with (
        pytest.raises(io.AlreadyThere),
        io.atomic_write(tmp_path / "b.txt", force=False) as beside,
    ):
        (tmp_path / "b.txt").write_text("mine")
    assert (tmp_path / "b.txt").read_text() == "mine"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.txt", "b.txt"]


@pytest.mark.parametrize("name", ["evaluate", "explain", "diagnose"])
def test_a_page_in_no_folder_is_refused_before_the_work(
    name: str, run: Run, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(src, "load_source", None)
    page = model.parent / "nosuch" / "p.html"
    line = {"diagnose": (name, "graph.npz", "--html")}.get(
        name, (name, model, "graph.npz", "--page")
    )
    fails(run(*line, page), f"{page}: the folder {page.parent} does not exist")


def test_a_joined_file_of_workers_is_replaced_only_by_force(
    run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "p.csv"
    out.write_bytes(b"mine")
    monkeypatch.setattr(src, "load_source", None)
    command = ("predict", model, "g", "--cluster", "local:2", "--one-file")
    fails(run(*command, "--out", out), f"{out}: already exists; try --force")
    assert out.read_bytes() == b"mine"


def test_the_page_of_auto_is_replaced_only_by_force(
    run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "p.html"
    page.write_bytes(b"mine")
    monkeypatch.setattr(src, "load_source", None)
    command = ("train", model.with_name("graph.npz"), "--model", "auto")
    fails(run(*command, "--page", page), f"{page}: already exists; try --force")
    assert page.read_bytes() == b"mine"


def test_a_training_never_replaces_one_that_was_faster(
    run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, out = model.with_name("graph.npz"), tmp_path / "two"
    command = ("train", graph, "--out", out, "--model", "mlp", "--epochs", "2")
    fit: Any = NodeClassifier.fit_checked
    begun = []

    def during(self: NodeClassifier, *given: Any, **more: Any) -> NodeClassifier:
        # Another training into the same folder begins later and ends earlier.
        if not begun:
            begun.append(self)
            assert run(*command, "--seed", 7)[0] == 0
        return fit(self, *given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(NodeClassifier, "fit_checked", during)
        code, said, err = run(*command, "--json")
    beside = tmp_path / "two-2"
    assert code == 0, err
    assert f"note: {out} was taken during the training; saved to {beside}" in err
    assert json.loads(said)["out"] == str(beside)
    assert NodeClassifier.load(out).random_state == 7
    assert NodeClassifier.load(beside).random_state == 0

    third = ("train", graph, "--out", tmp_path / "y", "--model", "mlp", "--epochs", 2)
    (tmp_path / "y").mkdir()
    assert run(*third)[0] == 0  # an empty folder is taken
    assert run(*third, "--force", "--seed", 3)[0] == 0
    assert NodeClassifier.load(tmp_path / "y").random_state == 3
    assert not (tmp_path / "y-2").exists()


def test_a_training_is_saved_beside_what_appeared_meanwhile(
    run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit: Any = NodeClassifier.fit_checked

    def during(self: NodeClassifier, *given: Any, **more: Any) -> NodeClassifier:
        (tmp_path / "new").write_text("mine")
        (tmp_path / "new-2").mkdir()
        (tmp_path / "new-2" / "thesis.txt").write_text("mine, too")
        return fit(self, *given, **more)

    monkeypatch.setattr(NodeClassifier, "fit_checked", during)
    graph, out = model.with_name("graph.npz"), tmp_path / "new"
    code, _, err = run("train", graph, "--out", out, "--model", "logistic")
    assert code == 0, err
    assert NodeClassifier.load(tmp_path / "new-3").model == "logistic"
    assert out.read_text() == "mine"
    assert [file.name for file in (tmp_path / "new-2").iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_model_that_cannot_be_written_is_not_saved_beside(
    force: tuple[str, ...],
    run: Run,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, rename = tmp_path / "m", Path.rename
    command = ("train", model.with_name("graph.npz"), "--model", "logistic", "-q")
    if force:
        assert run(*command, "--out", out)[0] == 0
    else:
        out.mkdir()  # it is empty, and may be used
    failed = []

    def fail_once(self: Path, target: Path) -> Path:
        if self.name.endswith(".h2gcn-part") and not failed:
            failed.append(target)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return rename(self, target)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "rename", fail_once)
    fails(run(*command, "--out", "m", *force), "error: m: cannot be written (Input/out")
    assert not (tmp_path / "m-2").exists()
    assert failed == [out]


@pytest.mark.usefixtures("model")
def test_force_does_not_save_beside(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit: Any = NodeClassifier.fit_checked

    def during(self: NodeClassifier, *given: Any, **more: Any) -> NodeClassifier:
        (tmp_path / "m").mkdir()
        (tmp_path / "m" / "thesis.txt").write_text("mine")
        return fit(self, *given, **more)

    monkeypatch.setattr(NodeClassifier, "fit_checked", during)
    monkeypatch.chdir(tmp_path)
    command = ("train", "graph.npz", "--model", "logistic", "-q", "--force")
    fails(run(*command, "--out", "m"), "error: m: holds other files")
    assert not (tmp_path / "m-2").exists()
    assert [file.name for file in (tmp_path / "m").iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("saved", ["model", "store"])
def test_a_path_is_told_as_it_was_typed(
    saved: str, model: Path, small_graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model.parent)
    Path("folder").mkdir()
    Path("folder", "thesis.txt").write_text("mine")
    save = {
        "model": NodeClassifier.load("model").save,
        "store": partial(io.write_store, small_graph),
    }
    with pytest.raises(InputError) as caught:
        save[saved]("folder")
    assert caught.value.where == "folder"


TUNE = ("--model", "mlp", "--splits", 1, "--epochs", 2, "--scaling", "none", "-q")


@pytest.mark.parametrize("content", ['{"mine": 1}', "[]", "no JSON", "model"])
def test_tune_keeps_settings_and_a_model_that_no_search_has_left(
    run: Run,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: str,
) -> None:
    graph, out = tmp_path / "graph.npz", tmp_path / "t"
    out.mkdir()
    if content == "model":
        model.rename(out / "model")
        taken, file = out / "model", out / "model" / "bundle.json"
    else:
        taken = file = out / "best.json"
        file.write_text(content)
    before = file.read_bytes()
    command = ("tune", graph, "--out", out, *TUNE)
    with monkeypatch.context() as patch:  # before any work is done
        patch.setattr(src, "load_source", None)
        fails(run(*command), f"{taken}: already exists; try --force")
    assert file.read_bytes() == before
    assert [path.name for path in out.iterdir()] == [taken.name]
    code, _, err = run(*command, "--force")
    assert code == 0, err
    assert file.read_bytes() != before
    assert run(*command)[0] == 0  # the same search goes on


@pytest.mark.parametrize("name", ["best.json", "model"])
def test_tune_keeps_what_appears_during_the_search(
    run: Run,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    fit: Any = NodeClassifier.fit
    target = tmp_path / "t" / name

    def during(self: NodeClassifier, *given: Any, **more: Any) -> NodeClassifier:
        if not target.exists():
            if name == "model":
                NodeClassifier.load(model).save(target)
            else:
                target.write_text("mine")
        return fit(self, *given, **more)

    monkeypatch.setattr(NodeClassifier, "fit", during)
    command = ("tune", tmp_path / "graph.npz", "--out", tmp_path / "t", *TUNE)
    fails(run(*command), f"{target}: already exists; try --force")
    if name == "model":
        assert NodeClassifier.load(target).model == "logistic"
    else:
        assert target.read_text() == "mine"
    assert (tmp_path / "t" / "trials.jsonl").read_text()  # the runs are kept


@pytest.mark.parametrize("name", ["theory", "frontier"])
def test_reproduce_keeps_a_page_that_is_not_its_own(
    name: str, run: Run, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    page.write_text("mine")
    example_results.leave(tmp_path, example_results.small())
    before = sorted(tmp_path.iterdir())
    result = run("reproduce", name, "--no-run", "--out", tmp_path)
    fails(result, f"{page}: already exists, and is no page of results")
    assert page.read_text() == "mine"
    assert sorted(tmp_path.iterdir()) == before


def test_reproduce_keeps_a_page_that_appears_during_the_work(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, page = tmp_path / "r", tmp_path / "r" / "report.html"
    command = ("reproduce", "frontier", "--no-run", "-q", "--out", out)
    link: Callable[..., None] = os.link

    def late(beside: Path, target: Path) -> None:
        target.write_bytes(b"mine")
        link(beside, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", late)
        result = run(*command)
        fails((result[0], "", result[2]), f"{page}: already exists")
    fails(run(*command), f"{page}: already exists")
    assert page.read_bytes() == b"mine"
    page.unlink()
    for _ in range(2):  # its own page is made anew
        code, _, err = run(*command)
        assert code == 0, err


@pytest.mark.parametrize(
    "line",
    [
        "train GRAPH --out MODEL-2 --model auto --time-limit 1 -q --page FILE",
        pytest.param(
            "predict MODEL GRAPH --cluster local:2 --one-file --out FILE",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["train", "predict"],
)
def test_a_page_and_a_joined_file_that_appear_during_the_work_stay(
    line: str,
    run: Run,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / ("p.csv" if "predict" in line else "p.html")
    words = {"MODEL": model, "GRAPH": tmp_path / "graph.npz", "FILE": file}
    words["MODEL-2"] = tmp_path / "second"
    link: Callable[..., None] = os.link

    def late(beside: Path, target: Path) -> None:
        if target.name == file.name:
            target.write_bytes(b"mine")
        link(beside, target)

    monkeypatch.setattr(os, "link", late)
    result = run(*(words.get(word, word) for word in line.split()))
    fails((result[0], "", result[2]), f"{file}: already exists; try --force")
    assert file.read_bytes() == b"mine"


def test_a_link_to_an_empty_folder_is_followed(
    run: Run, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    graph = model.with_name("graph.npz")
    code, _, err = run(
        "train", graph, "--out", tmp_path / "link", "--model", "logistic"
    )
    assert code == 0, err
    assert NodeClassifier.load(tmp_path / "folder").model == "logistic"
    assert not (tmp_path / "link-2").exists()


@pytest.mark.skipif(io.files.fcntl is None, reason="no locks here")
def test_commands_find_a_store_whose_replacement_was_killed(
    run: Run, small_graph: Graph, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    io.write_store(small_graph, store)
    store.rename(tmp_path / ".store-0123abcd.h2gcn-older")
    code, _, err = run("diagnose", store, "--no-fit")
    assert code == 0, err
    assert io.open_store(store).n_nodes == small_graph.n_nodes


def test_predict_looks_for_the_folder_before_it_reads(
    run: Run, model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "nosuch" / "p.csv"
    result = run("predict", model, "no such graph", "--out", out)
    fails(result, f"{out}: the folder {out.parent} does not exist")
