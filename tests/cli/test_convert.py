"""`h2gcn convert`, and every command on what it makes."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from h2gcn.io import read_graph
from support.commands import Run, fails

QUICK = ("--model", "h2gcn-1", "--epochs", 20)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two tables in parts: 60 people, missing labels."""
    rng = np.random.default_rng(0)
    n = 60
    people = tmp_path / "people"
    nodes = [
        [
            f"p{i:02}",
            f"{i % 2 + rng.normal(0, 0.3):.3f}",
            ("a", "b")[i % 2],
            "xyz"[i % 3],
        ]
        for i in range(n)
    ]
    for row in nodes[::5]:
        row[2] = ""
    edges = [
        [f"p{i:02}", f"p{(i + step) % n:02}"] for i in range(n) for step in (1, 7, 0)
    ]
    for name, header, rows in (
        ("nodes", ["id", "age", "label", "plan"], nodes),
        ("edges", ["source", "target"], [*edges, edges[0]]),
    ):
        (people / name).mkdir(parents=True)
        for part in range(3):
            file = people / name / f"part-{part}.csv"
            with file.open("w", newline="") as stream:
                table = csv.writer(stream)
                table.writerow(header)
                table.writerows(
                    rows[part * len(rows) // 3 : (part + 1) * len(rows) // 3]
                )
    return people


def test_what_was_built_is_told(folder: Path, tmp_path: Path, run: Run) -> None:
    store = tmp_path / "store"
    code, out, err = run("convert", folder, "--out", store, "--categorical", "plan")
    assert code == 0
    assert out.startswith(
        f"{store}: 60 nodes, 120 edges, 4 features, 48 labelled, 2 classes; "
    )
    assert "60 self-loops dropped" in err
    assert "120 one-way edges made symmetric" in err
    assert read_graph(store).feature_names == ("age", "plan=x", "plan=y", "plan=z")


def test_as_json(folder: Path, tmp_path: Path, run: Run) -> None:
    command = ("convert", "--nodes", folder / "nodes", "--edges", folder / "edges")
    code, out, err = run(*command, "--out", tmp_path / "store", "--json", "--quiet")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert (told["nodes"], told["edges"]) == (60, 120)
    assert told["duplicates_merged"] == 1
    assert told["edges_read"] == 181
    assert told["bytes"] > 0


def test_every_command_takes_a_store(folder: Path, tmp_path: Path, run: Run) -> None:
    store, model = tmp_path / "store", tmp_path / "model"
    assert run("convert", folder, "--out", store)[0] == 0
    assert run("train", store, *QUICK, "--out", model)[0] == 0
    assert run("diagnose", store, "--no-fit")[0] == 0
    answers = tmp_path / "answers.csv"
    assert run("predict", model, store, "--out", answers)[0] == 0
    assert answers.read_text().startswith("id,label,p_a,p_b\np00,")
    assert run("evaluate", model, store)[0] == 0
    assert run("explain", model, store, "--node", "p07")[0] == 0
    new, links = tmp_path / "new.csv", tmp_path / "links.csv"
    new.write_text("id,age\nq1,0.2\n")
    links.write_text("source,target\nq1,p03\n")
    more = ("--new-nodes", new, "--new-edges", links, "--out", tmp_path / "more.csv")
    assert run("predict", model, store, *more)[0] == 0
    assert "q1," in (tmp_path / "more.csv").read_text()


def test_a_model_of_tables_predicts_on_their_store(
    folder: Path, tmp_path: Path, run: Run
) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    for name in ("nodes", "edges"):
        parts = [file.read_text() for file in sorted((folder / name).iterdir())]
        header = parts[0].splitlines()[0]
        rows = [line for part in parts for line in part.splitlines()[1:]]
        (whole / f"{name}.csv").write_text("\n".join([header, *rows]) + "\n")
    assert run("convert", folder, "--out", tmp_path / "store")[0] == 0
    assert run("train", whole, *QUICK, "--out", tmp_path / "model")[0] == 0
    for source in ("whole", "store"):
        out = tmp_path / f"{source}.csv"
        assert (
            run("predict", tmp_path / "model", tmp_path / source, "--out", out)[0] == 0
        )
    assert (tmp_path / "whole.csv").read_text() == (tmp_path / "store.csv").read_text()


def test_datasets_and_other_files_become_stores(
    folder: Path, tmp_path: Path, run: Run
) -> None:
    del folder
    assert run("generate", "--out", tmp_path / "g.npz", "--nodes", 60)[0] == 0
    assert run("convert", tmp_path / "g.npz", "--out", tmp_path / "store")[0] == 0
    assert read_graph(tmp_path / "store").n_nodes == 60


def test_mistakes_are_one_line(folder: Path, tmp_path: Path, run: Run) -> None:
    store = tmp_path / "store"
    fails(run("convert", tmp_path / "nowhere", "--out", store), "nowhere")
    fails(run("convert", folder), "--out")
    fails(run("convert", "--nodes", folder / "nodes", "--out", store), "edges")
    little = ("--memory-limit", 0.01)
    fails(run("convert", folder, "--out", store, *little), "--memory-limit 0.01 is too")
    assert not store.exists()
    (folder / "edges" / "part-1.csv").write_text("source,target\np01,zoe\n")
    fails(run("convert", folder, "--out", store), "part-1.csv", "--drop-unknown")
    assert run("convert", folder, "--out", store, "--drop-unknown")[0] == 0
    fails(run("convert", folder, "--out", store), "is a graph store already")
    fails(run("train", store, "--label-column", "age"), "--label-column is for tables")
    (store / "labels.npy").unlink()
    fails(run("train", store), "labels.npy: is missing")
    shutil.rmtree(store)
    store.mkdir()
    (store / "conversion.json").write_text("{}")
    fails(run("diagnose", store), "is a graph store that is not finished")


def test_a_store_that_was_filled_with_medians_of_its_own_is_refused(
    tmp_path: Path, run: Run
) -> None:
    for name, age in (("old", 1), ("new", 7)):
        folder = tmp_path / name
        folder.mkdir()
        nodes = [f"n{i},{age + i % 5},{age}.5,{'uv'[i % 2]}" for i in range(20)]
        nodes[0] = "n0,,,u"
        edges = [f"n{i},n{(i + 1) % 20},{'' if i == 3 else age}" for i in range(20)]
        text = "\n".join(["id,age,fee,label", *nodes])
        (folder / "nodes.csv").write_text(text)
        (folder / "edges.csv").write_text("\n".join(["source,target,sum", *edges]))
        built = ("convert", folder, "--fill-missing", "--out", tmp_path / f"{name}.g")
        assert run(*built)[0] == 0
    model = tmp_path / "model"
    trained = ("train", tmp_path / "old", "--model", "logistic", "--fill-missing")
    assert run(*trained, "--option", "table=ego+edges", "--out", model)[0] == 0
    words = (
        "new.g: was filled with medians of its own",
        "'age' it has 9, the model 3",
        "with --fill-missing",
    )
    for command in ("predict", "evaluate"):
        fails(run(command, model, tmp_path / "new.g"), *words)
    for other in ("new", "old.g"):
        more = ("--fill-missing", "--out", tmp_path / f"{other}.csv")
        code, _, err = run("predict", model, tmp_path / other, "--all", *more)
        assert code == 0, err
