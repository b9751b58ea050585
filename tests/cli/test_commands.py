"""The command line, in process: results on stdout, one line for a mistake."""

import csv
import importlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from h2gcn import __version__, estimator
from h2gcn.cli.console import sigterm_as_ctrl_c
from h2gcn.datasets import DATASETS
from h2gcn.estimator import load_bundle
from h2gcn.graph import ReadRecord
from h2gcn.io import read_graph, write_npz
from h2gcn.training import signed
from support.commands import Run, fails
from support.models import copy_of_saved


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two tables: 60 people, string ids, missing labels."""
    rng = np.random.default_rng(0)
    n = 60
    kinds = np.arange(n) % 2
    data = tmp_path / "people"
    data.mkdir()
    with (data / "nodes.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "age", "income", "plan", "label"])
        for i in range(n):
            label = ("honest", "fraud")[kinds[i]] if i % 5 else ""
            plan = ("basic", "gold", "")[i % 3]
            age, income = 30 + 9 * kinds[i] + rng.normal(), 1000 * rng.normal(5, 1)
            table.writerow([f"p{i:02}", f"{age:.3f}", f"{income:.2f}", plan, label])
    with (data / "edges.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["source", "target"])
        for i in range(n):
            for step in (1, 7):
                table.writerow([f"p{i:02}", f"p{(i + step) % n:02}"])
    return data


QUICK = ("--epochs", 30, "--patience", 30)


@pytest.mark.slow
def test_training_on_ones_own_data_loads_no_experiments(
    folder: Path, tmp_path: Path
) -> None:
    settings = tmp_path / "settings.json"
    settings.write_text('{"model": "mlp", "settings": {"l2": 0.001}}')
    code = """
import sys
from h2gcn.cli import main
code = main(["train", *sys.argv[1:], "--epochs", "2", "--quiet", "--json"])
loaded = [name for name in sys.modules if name.startswith("h2gcn.experiments.")]
sys.exit(code or ", ".join(loaded) or 0)
"""
    for more in (["--model", "mlp"], ["--settings", str(settings)]):
        arguments = [sys.executable, "-c", code, str(folder), *more]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)["config"]["patience"]
        assert found == (None if "--settings" in more else 100)


def test_from_tables_to_predictions(run: Run, folder: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "model", tmp_path / "predictions.csv"
    code, said, notes = run("train", folder, "--out", model, *QUICK)
    assert code == 0
    for word in ("accuracy", "macro F1", "ROC-AUC", "always the largest class"):
        assert word in said
    assert "true class (row), predicted (column)" in said
    assert "one-way edges made symmetric" in notes
    assert "column 'plan' holds text and is not used" in notes
    code, said, _ = run("predict", model, folder, "--out", out, "--force")
    assert code == 0
    assert "12 nodes written" in said
    assert "% of 48 known labels agree (any training nodes included)" in said
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["id"] for row in rows] == [f"p{i:02}" for i in range(0, 60, 5)]
    assert list(rows[0]) == ["id", "label", "p_fraud", "p_honest"]
    for row in rows:
        assert row["label"] in ("fraud", "honest")
        assert float(row["p_fraud"]) + float(row["p_honest"]) == pytest.approx(1)


def test_predict_all_nodes_of_another_graph(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    model, out = tmp_path / "model", tmp_path / "predictions.parquet"
    run("train", folder, "--categorical", "plan", "--out", model, *QUICK)
    other = tmp_path / "other"
    other.mkdir()
    lines = ["id,plan,income,age", "x,gold,5000,31", "y,platin,4000,39", "z,,1,35"]
    (other / "nodes.csv").write_text("\n".join(lines))
    (other / "edges.csv").write_text("source,target\nx,y\ny,z\n")
    code, said, notes = run("predict", model, other, "--all", "--out", out, "--force")
    assert code == 0, notes
    assert "3 nodes written" in said
    # A category that the model never saw is left out, aloud.
    assert "'plan=platin'" in notes
    assert run("predict", model, other, "--all", "-q", "--out", out, "--force")[2] == ""
    import pyarrow.parquet as pq

    assert pq.read_table(out).column("id").to_pylist() == ["x", "y", "z"]


def test_predictions_call_the_ids_as_the_node_table_does(
    run: Run, folder: Path, model: Path
) -> None:
    out = folder / "out.csv"

    def header(*source: object) -> str:
        assert (
            run("predict", model, *source, "--all", "-q", "--out", out, "--force")[0]
            == 0
        )
        return out.read_text().splitlines()[0]

    assert header(folder) == "id,label,p_fraud,p_honest"
    # The name of this table, not that of the training table.
    change(folder, "nodes.csv", "id,", "NODE_ID,")
    assert header(folder) == "NODE_ID,label,p_fraud,p_honest"
    # Other sources have no name for it.
    graph = read_graph(folder)
    write_npz(replace(graph, record=ReadRecord()), folder / "g.npz")
    assert header(folder / "g.npz") == "node,label,p_fraud,p_honest"


def test_an_id_column_that_is_called_label(run: Run, folder: Path) -> None:
    change(folder, "nodes.csv", "id,age,income,plan,label", "label,age,income,plan,y")
    names = ("--id-column", "label", "--label-column", "y")
    model, out = folder.with_name("model"), folder / "out.csv"
    assert run("train", folder, *names, "--out", model, "-q", *QUICK)[0] == 0
    assert run("predict", model, folder, "--out", out, "--force")[0] == 0
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert list(rows[0]) == ["node", "label", "p_fraud", "p_honest"]
    assert rows[0]["node"] == "p00"


def test_ids_with_blanks_from_tables_to_predictions(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    for name in ("nodes.csv", "edges.csv"):
        text = (folder / name).read_text()
        (folder / name).write_text(text.replace("p00", " p00"))
    model, out = tmp_path / "model", tmp_path / "out.csv"
    spread = ("--model", "label-propagation", "--out", model, "-q")
    assert run("train", folder, *spread)[0] == 0
    assert run("predict", model, folder, "--out", out, "-q", "--force")[0] == 0
    assert out.read_text().splitlines()[1].startswith(" p00,")


def test_a_model_of_0_1_0_knows_ids_without_blanks(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    model, out = tmp_path / "model", tmp_path / "out.csv"
    spread = ("--model", "label-propagation", "--out", model, "-q")
    assert run("train", folder, *spread)[0] == 0
    assert run("predict", model, folder, "--out", out, "-q", "--force")[0] == 0
    expected = out.read_text()
    manifest = json.loads((model / "bundle.json").read_text("utf-8"))
    del manifest["sha256"], manifest["seeds"]["trimmed"]
    (model / "bundle.json").write_bytes(signed(manifest))
    for name in ("nodes.csv", "edges.csv"):
        text = (folder / name).read_text()
        (folder / name).write_text(text.replace("p", " p").replace(" plan", "plan"))
    assert run("predict", model, folder, "--out", out, "-q", "--force")[0] == 0
    head, *rows = expected.splitlines()
    assert out.read_text().splitlines() == [head, *(f" {row}" for row in rows)]


def test_missing_categories_from_training_to_prediction(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    # Every third plan is missing; here it is a name like others.
    whole = tmp_path / "whole"
    whole.mkdir()
    for name in ("nodes.csv", "edges.csv"):
        text = (folder / name).read_text()
        (whole / name).write_text(re.sub(r",,(?=\w*$)", ",free,", text, flags=re.M))
    assert "free" in (whole / "nodes.csv").read_text()
    models = {}
    for source in (folder, whole):
        models[source] = tmp_path / f"of-{source.name}"
        options = ("--categorical", "plan", "--out", models[source], *QUICK)
        code, _, notes = run("train", source, *options)
        assert code == 0, notes
        told = "20 empty cells are a category of their own, (missing), of 'plan' (20)"
        assert (told in notes) == (source == folder)
    for source, other in ((folder, whole), (whole, folder)):
        out = tmp_path / "out.csv"
        code, _, notes = run("predict", models[source], other, "--out", out, "--force")
        assert code == 0, notes
        names = {"'plan=(missing)'", "'plan=free'"}
        assert all(name in notes for name in names)
        assert "absent ones count as zero, new ones are left out" in notes


def test_several_columns_in_one_option(run: Run, folder: Path) -> None:
    lines = (folder / "nodes.csv").read_text().splitlines()
    more = ['"a,b"', *("uv"[i % 2] for i in range(len(lines) - 1))]
    longer = [f"{cell},{line}" for line, cell in zip(lines, more, strict=True)]
    (folder / "nodes.csv").write_text("\n".join(longer))

    def card(*options: object) -> int:
        code, out, err = run("diagnose", folder, "--json", *options)
        assert code == 0, err
        return json.loads(out)["card"]["features"]

    # Two numbers, two values of "a,b" and three of plan.
    assert card("--categorical", "a,b", "--categorical", "plan") == 2 + 2 + 3
    assert card("--feature-column", "income,age") == 2
    assert card("--feature-column", "income", "--categorical", "plan") == 1 + 3
    fails(run("diagnose", folder, "--categorical", "plan,sort"), "no column 'sort'")


@pytest.fixture
def paid(folder: Path) -> Path:
    """Return the people with what their edges carry: an amount, a kind, a code."""
    header, *rows = (folder / "edges.csv").read_text().splitlines()
    carried = [f"{i % 7},{('wire', 'card')[i % 2]},{i % 3}," for i in range(len(rows))]
    lines = [f"{row},{more}" for row, more in zip(rows, carried, strict=True)]
    lines[1] += "12"
    text = "\n".join([f"{header},amount,kind,code,fee", *lines])
    (folder / "edges.csv").write_text(text)
    return folder


KEPT = "kept for models that use what edges carry"


def test_what_edges_carry_is_told(run: Run, paid: Path) -> None:
    def notes(*options: object) -> str:
        code, _, err = run("train", paid, *QUICK, *options)
        assert code == 0, err
        return " ".join(err.split())

    said = notes()
    assert f"edge columns 'amount', 'kind' (2 categories), 'code' are {KEPT}" in said
    assert (
        "edge column 'fee' is left out: 119 cells have no number; --fill-missing puts "
        "the median of the column there"
    ) in said
    assert "'fee' are kept" in notes("--fill-missing")
    said = notes("--edge-feature", "amount", "--edge-categorical", "code")
    assert f"edge columns 'amount', 'code' (3 categories) are {KEPT}" in said
    assert "columns 'kind', 'fee' of edges.csv are not used" in said
    assert f"edge columns 'kind' (2 categories), 'amount' are {KEPT}" in notes(
        "--edge-feature", "kind,amount"
    )


def test_edge_columns_that_cannot_be_used(run: Run, paid: Path) -> None:
    for command in ("train", "tune", "diagnose"):
        result = run(command, paid, "--edge-feature", "fee")
        fails(result, "'fee' cannot be used: 119 cells", "line 2", "--fill-missing")
        result = run(command, paid, "--edge-categorical", "kind,sort")
        fails(result, "no column 'sort'")
    change(paid, "edges.csv", ",0,wire", ",none,wire")
    note = "it holds numbers, but 'none'; --edge-categorical amount makes categories"
    assert note in " ".join(run("train", paid, *QUICK)[2].split())


def test_other_edges_are_read_as_those_of_the_model(
    run: Run, paid: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    options = ("--edge-feature", "fee", "--edge-categorical", "code", "--fill-missing")
    assert run("train", paid, "--out", model, *options, *QUICK)[0] == 0
    tables = load_bundle(model).tables_
    assert tables["edge_features"] == ["fee"]
    assert tables["edge_categorical"] == ["code"]
    assert tables["edge_fill_values"] == {"fee": 12.0}
    out = ("--out", tmp_path / "out.csv", "--force")
    code, _, notes = run("predict", model, paid, *out)
    assert code == 0
    kept = f"edge columns 'fee', 'code' (3 categories) are {KEPT}"
    assert kept in " ".join(notes.split())
    change(paid, "edges.csv", "code,fee", "code,tip")
    fails(run("predict", model, paid, *out), "edges.csv: there is no column 'fee'")


def test_a_model_that_was_not_asked_for_edges_needs_none(
    run: Run, paid: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    assert run("train", paid, "--out", model, *QUICK)[0] == 0
    rows = (paid / "edges.csv").read_text().splitlines()
    bare = [",".join(row.split(",")[:2]) for row in rows]
    (paid / "edges.csv").write_text("\n".join(bare))
    assert run("predict", model, paid, "--out", tmp_path / "out.csv")[0] == 0


def test_all_mistakes_of_tables_are_one_line(run: Run, folder: Path) -> None:
    change(folder, "nodes.csv", "id,", "person,")
    change(folder, "nodes.csv", "p03,", "p03,x")
    change(folder, "edges.csv", "p00,p01", "p00,")
    result = run("train", folder, "--categorical", "town")
    fails(result, "--id-column", "no column 'town'", "'target' is empty at line 2")
    assert len(result[2].splitlines()) == 1


def test_train_json_is_one_object(run: Run, folder: Path) -> None:
    code, out, _ = run("train", folder, "--json", "--split", "all", "-q", *QUICK)
    assert code == 0
    result = json.loads(out)
    assert result["dataset"] == "people"
    assert result["model"] == "h2gcn-1"
    used = result["config"]
    assert used["epochs"] == 30
    assert used["random_state"] == list(range(10))
    # What was left to the model, as the model had it.
    assert (used["learning_rate"], used["l2"], used["dropout"]) == (0.01, 5e-4, 0.5)
    assert (used["activation"], used["hidden_channels"]) == ("relu", 64)
    assert result["graph"]["nodes"] == 60
    assert len(result["splits"]) == 10
    for name in ("split", "best_epoch", "val_accuracy", "test_accuracy", "seconds"):
        assert name in result["splits"][0]
    tests = [row["test_accuracy"] for row in result["splits"]]
    assert result["test_accuracy"]["mean"] == pytest.approx(np.mean(tests))
    assert result["test_accuracy"]["std"] == pytest.approx(np.std(tests, ddof=1))
    assert result["test_accuracy"]["n"] == 10
    assert np.sum(result["confusion"]["counts"]) == sum(
        row["sizes"][2] for row in result["splits"]
    )
    assert "version" in result


def test_the_same_seed_gives_the_same_numbers(run: Run, folder: Path) -> None:
    def scores(seed: int) -> list[object]:
        _, out, _ = run("train", folder, "--json", "-q", "--seed", seed, *QUICK)
        rows = json.loads(out)["splits"]
        return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]

    assert scores(3) == scores(3)


def test_quiet_says_nothing(run: Run, folder: Path) -> None:
    _, _, notes = run("train", folder, "-q", *QUICK)
    assert notes == ""


def test_generate_writes_both_formats(run: Run, tmp_path: Path) -> None:
    for name in ("g.npz", "g"):
        options = ("--nodes", 200, "--classes", 3, "--homophily", 0.2, "--seed", 1)
        code, said, _ = run("generate", "--out", tmp_path / name, *options)
        assert code == 0
        assert "200 nodes, 392 edges" in said
        code, out, _ = run("diagnose", tmp_path / name, "--json")
        assert code == 0
        assert json.loads(out)["card"]["edges"] == 392


@pytest.mark.parametrize("name", ["g.csv", "g.TSV", "g.parquet", "g.pt", "-"])
def test_generate_refuses_files_that_it_does_not_write(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("generate", "--out", name, "--nodes", 50)
    rule = "--out must be a folder, which gets nodes.csv and edges.csv, or a file that"
    fails(result, f"{name}: ", rule)
    assert list(tmp_path.iterdir()) == []


def test_generate_into_a_folder_with_a_point_in_its_name(
    run: Run, tmp_path: Path
) -> None:
    assert run("generate", "--out", tmp_path / "h0.1", "--nodes", 50)[0] == 0
    (tmp_path / "old.csv").mkdir()
    assert run("generate", "--out", tmp_path / "old.csv", "--nodes", 50)[0] == 0
    for name in ("h0.1", "old.csv"):
        assert (tmp_path / name / "edges.csv").is_file()
    assert run("generate", "--out", tmp_path / "g.NPZ", "--nodes", 50)[0] == 0
    assert (tmp_path / "g.NPZ").is_file()


def test_nothing_is_written_to_standard_output(
    run: Run, folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    said = "error: -: nothing is written to standard output; "
    pages = "the file name must end in .html or .htm"
    tables = "the file name must end in .csv or .parquet"
    fails(run("predict", model, folder, "--out", "-"), said + tables)
    fails(run("diagnose", folder, "--html", "-"), said + pages)
    fails(run("report", folder, "--out", "-"), said + pages)
    fails(run("train", folder, "--out", "-"), said + "a model is saved as a folder")
    fails(run("tune", folder, "--out", "-"), said + "tuning needs a folder")
    fails(run("reproduce", "table-1", "--out", "-"), said + "results need a folder")
    names = {file.name for file in folder.iterdir()}
    assert names == {"nodes.csv", "edges.csv"}


def test_generate_takes_a_whole_matrix(run: Run, tmp_path: Path) -> None:
    (tmp_path / "h.csv").write_text("0,1\n1,0\n")
    options = ("--nodes", 100, "--classes", 2, "--compatibility", tmp_path / "h.csv")
    code, _, _ = run("generate", "--out", tmp_path / "g.npz", *options)
    assert code == 0
    _, out, _ = run("diagnose", tmp_path / "g.npz", "--json")
    assert json.loads(out)["card"]["h"] == 0


def test_generate_leaves_labels_out(run: Run, tmp_path: Path) -> None:
    run("generate", "--nodes", 200, "--unlabelled", 0.5, "--out", tmp_path / "g")
    _, out, _ = run("diagnose", tmp_path / "g", "--json")
    assert 60 < json.loads(out)["card"]["labelled"] < 140


def test_lists(run: Run) -> None:
    code, out, _ = run("models")
    assert code == 0
    assert "h2gcn-2" in out
    models = json.loads(run("models", "--json")[1])["models"]
    assert {"h2gcn-1", "mlp", "gcn"} <= {model["name"] for model in models}
    code, out, _ = run("datasets")
    assert code == 0
    assert "cornell-2020" in out
    listed = json.loads(run("datasets", "--json")[1])["datasets"]
    assert len(listed) == 1 + len(DATASETS)


def demo_scores(text: str) -> dict[str, tuple[float, float]]:
    rows = [line.split() for line in text.splitlines()]
    return {
        row[0]: (float(row[1]), float(row[7]))
        for row in rows
        if len(row) == 13 and "±" in row
    }


@pytest.mark.slow
def test_demo_tells_the_point(run: Run) -> None:
    code, out, _ = run("demo", "-q")
    assert code == 0
    scores = demo_scores(out)
    assert scores["gcn"][0] < scores["mlp"][0] - 20 < scores["h2gcn-2"][0]
    assert scores["mlp"][1] < scores["gcn"][1] < scores["h2gcn-2"][1]
    # Processors round differently, and hundreds of epochs make some nodes of it.
    readme = demo_scores((Path(__file__).parents[2] / "README.md").read_text())
    assert scores.keys() == readme.keys()
    for model, told in readme.items():
        assert scores[model] == pytest.approx(told, abs=1), model


def test_version_and_help(run: Run) -> None:
    assert run("--version")[1].startswith("h2gcn 0.")
    for command in ("demo", "diagnose", "train", "predict", "generate", "models"):
        code, out, _ = run(command, "--help")
        assert code == 0
        assert "Usage: h2gcn" in out


def change(folder: Path, file: str, old: str, new: str) -> None:
    """Replace a piece of a table once."""
    path = folder / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_a_missing_file(run: Run, folder: Path) -> None:
    gone = folder / "gone.csv"
    fails(run("train", "--nodes", gone, "--edges", folder / "edges.csv"), str(gone))


def test_an_empty_file(run: Run, folder: Path) -> None:
    (folder / "nodes.csv").write_text("")
    fails(run("train", folder), "nodes.csv", "empty")


def test_not_utf8(run: Run, folder: Path) -> None:
    (folder / "nodes.csv").write_bytes("id,label\nä,b\n".encode("latin1"))
    fails(run("train", folder), "nodes.csv", "UTF-8")


def test_no_id_column(run: Run, folder: Path) -> None:
    change(folder, "nodes.csv", "id,", "person,")
    fails(run("train", folder), "nodes.csv", "--id-column", "person")
    assert run("train", folder, "--id-column", "person", *QUICK)[0] == 0


def test_duplicate_ids(run: Run, folder: Path) -> None:
    change(folder, "nodes.csv", "p07,", "p06,")
    fails(run("train", folder), "nodes.csv", "'p06'", "8", "9")


def test_an_edge_to_an_unknown_node(run: Run, folder: Path) -> None:
    change(folder, "edges.csv", "p00,p01", "p00,nobody")
    fails(run("train", folder), "edges.csv", "'nobody'", "line 2", "--drop-unknown")
    code, _, notes = run("train", folder, "--drop-unknown", *QUICK)
    assert code == 0
    assert "1 edge to unknown nodes dropped" in notes


@pytest.mark.parametrize("value", ["nan", "inf", ""])
def test_a_feature_that_is_no_number(run: Run, folder: Path, value: str) -> None:
    lines = (folder / "nodes.csv").read_text().splitlines()
    cells = lines[3].split(",")
    lines[3] = ",".join([cells[0], value, *cells[2:]])
    (folder / "nodes.csv").write_text("\n".join(lines))
    fails(run("train", folder), "nodes.csv", "'age'", "line 4")


def test_text_in_a_feature_column(run: Run, folder: Path) -> None:
    fails(run("train", folder, "--feature-column", "plan"), "'plan'", "basic")


def test_all_labels_missing(run: Run, folder: Path) -> None:
    text = (folder / "nodes.csv").read_text()
    text = text.replace("honest", "").replace("fraud", "")
    (folder / "nodes.csv").write_text(text)
    fails(run("train", folder), "all labels are missing", "--label-column … names")


def test_one_class_only(run: Run, folder: Path) -> None:
    text = (folder / "nodes.csv").read_text().replace("honest", "fraud")
    (folder / "nodes.csv").write_text(text)
    result = run("train", folder)
    fails(result, "at least two classes must have labels, got 'fraud'")


def test_no_edges(run: Run, folder: Path) -> None:
    (folder / "edges.csv").write_text("source,target\n")
    fails(run("train", folder), "no edges")


@pytest.fixture
def model(run: Run, folder: Path, tmp_path: Path) -> Path:
    """Return a saved model of the people."""

    def save(path: Path) -> None:
        assert run("train", folder, "--out", path, "-q", *QUICK)[0] == 0

    return copy_of_saved("people", save, tmp_path / "model")


def test_labels_that_the_model_never_saw(run: Run, folder: Path, model: Path) -> None:
    change(folder, "nodes.csv", "honest", "saint")
    out = folder / "out.csv"
    code, told, noted = run("predict", model, folder, "--out", out, "--force")
    assert code == 0
    assert "note: labels that the model never saw, and cannot predict: 'saint'" in noted
    assert "% of 47 known labels agree" in told


def test_a_column_that_the_model_does_not_know_is_left_out(
    run: Run, folder: Path, model: Path
) -> None:
    before, after = folder / "before.csv", folder / "after.csv"
    assert run("predict", model, folder, "--out", before)[0] == 0
    lines = (folder / "nodes.csv").read_text().splitlines()
    extra = ["extra", *("7" for _ in lines[1:])]
    longer = [f"{line},{cell}" for line, cell in zip(lines, extra, strict=True)]
    (folder / "nodes.csv").write_text("\n".join(longer))
    code, _, noted = run("predict", model, folder, "--out", after)
    assert code == 0
    assert (
        "note: columns that the model was not trained on are left out: 'extra'" in noted
    )
    assert after.read_text() == before.read_text()


def test_a_metric_is_shown_where_it_was_chosen_by(run: Run, folder: Path) -> None:
    said = run("train", folder, "--metric", "roc_auc", *QUICK)[1]
    assert "val ROC-AUC %" in said
    assert "test ROC-AUC %" in said
    shown = json.loads(run("train", folder, "--metric", "roc_auc", "--json", *QUICK)[1])
    assert f"{100 * shown['splits'][0]['val_roc_auc']:.2f}" in said


def test_missing_numbers_from_training_to_prediction(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    nodes = folder / "nodes.csv"
    lines = nodes.read_text().splitlines()
    cells = [line.split(",") for line in lines]
    cells[3][1] = cells[5][2] = ""
    nodes.write_text("\n".join(map(",".join, cells)))
    fails(
        run("train", folder, *QUICK), "'age'", "missing value at line 4", "--fill-miss"
    )
    model, out = tmp_path / "model", tmp_path / "out.csv"
    code, _, noted = run("train", folder, "--fill-missing", "--out", model, *QUICK)
    assert code == 0
    assert "2 empty cells filled, of 'age' (1), 'income' (1)" in noted
    # The model fills the cells of another table with the same numbers.
    assert run("predict", model, folder, "--out", out, "-q", "--force")[0] == 0
    before = out.read_text()
    manifest = json.loads((model / "bundle.json").read_text("utf-8"))
    ages = manifest["extra"]["tables"]["fill_values"]["age"]
    cells[3][1] = repr(ages)
    nodes.write_text("\n".join(map(",".join, cells)))
    assert run("predict", model, folder, "--out", out, "-q", "--force")[0] == 0
    assert out.read_text() == before
    assert run("diagnose", folder, "--fill-missing")[0] == 0


def test_a_prediction_is_filled_with_the_medians_of_training(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    nodes, model, out = folder / "nodes.csv", tmp_path / "model", tmp_path / "out.csv"
    assert run("train", folder, "--out", model, *QUICK)[0] == 0
    manifest = json.loads((model / "bundle.json").read_text("utf-8"))
    median = manifest["extra"]["tables"]["fill_values"]["age"]
    cells = [line.split(",") for line in nodes.read_text().splitlines()]
    found = []
    for age in ("", repr(median)):
        rows = [cells[0], [*cells[1][:1], age, *cells[1][2:]]]
        rows += [[row[0], "1e3", *row[2:]] for row in cells[2:]]
        nodes.write_text("\n".join(map(",".join, rows)))
        assert run("predict", model, folder, "--fill-missing", "--out", out)[0] == 0
        found.append(out.read_text())
        out.unlink()
    assert found[0] == found[1]


def test_classes_that_are_hardly_found_are_told(run: Run, folder: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [f"p{i:02},{rng.normal():.3f},{'ab'[i % 6 == 0]}" for i in range(60)]
    (folder / "nodes.csv").write_text("\n".join(["id,x,label", *rows]))
    code, said, noted = run("train", folder, *QUICK)
    assert code == 0
    assert (
        "note: hardly found among the test nodes: b (0 of 2); --class-weight bal"
        in noted
    )
    assert "found %" in said
    assert "right %" in said
    assert "hardly" not in run("train", folder, "-q", *QUICK)[2]
    weighted = "--class-weight", "balanced", "--metric", "macro_f1"
    out = json.loads(run("train", folder, "--json", *weighted, *QUICK)[1])
    assert out["config"]["class_weight"] == "balanced"
    assert [row["class"] for row in out["per_class"]] == ["a", "b"]
    assert out["per_class"][1]["nodes"] == 2
    assert out["splits"][0]["val_macro_f1"] >= 0
    lp = "--model", "label-propagation", "--class-weight", "balanced"
    fails(run("train", folder, *lp), "--class-weight has no meaning")


def test_features_that_give_the_label_away_are_told(run: Run, folder: Path) -> None:
    lines = (folder / "nodes.csv").read_text().splitlines()
    copies = ["y", *(str(len(line.split(",")[-1])) for line in lines[1:])]
    longer = [f"{copy},{line}" for line, copy in zip(lines, copies, strict=True)]
    (folder / "nodes.csv").write_text("\n".join(longer))
    told = (
        "1 feature seems to follow from the label alone, and may be the label in other"
    )
    assert f"note: {told} words: y." in run("train", folder, *QUICK)[2]
    assert told in " ".join(run("diagnose", folder)[1].split())


def test_labels_of_one_class_each_train_nothing(run: Run, folder: Path) -> None:
    lines = [line.rsplit(",", 1) for line in (folder / "nodes.csv").read_text().split()]
    rows = [f"{rest},{label if i < 4 else ''}" for i, (rest, label) in enumerate(lines)]
    (folder / "nodes.csv").write_text("\n".join(rows))
    result = run("train", folder, *QUICK)
    fails(result, "at least two classes must have training nodes, got ")
    assert "2 labelled nodes are too few to hold some back as test nodes" in result[2]


def test_other_columns_than_in_training(run: Run, folder: Path, model: Path) -> None:
    change(folder, "nodes.csv", "income", "wage")
    result = run("predict", model, folder, "--out", folder / "out.csv")
    fails(result, "1 missing ('income')", "1 new ('wage')")


def test_a_tampered_or_truncated_model(run: Run, folder: Path, model: Path) -> None:
    out = folder / "out.csv"
    weights = model / "weights.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-8])
    fails(run("predict", model, folder, "--out", out, "--force"), "weights.safetensors")
    weights.write_bytes(whole)
    change(model, "bundle.json", '"fraud"', '"frand"')
    fails(
        run("predict", model, folder, "--out", out, "--force"), "bundle.json", "changed"
    )
    (model / "bundle.json").write_text("{")
    fails(
        run("predict", model, folder, "--out", out, "--force"),
        "bundle.json",
        "truncated",
    )
    fails(run("predict", folder, folder, "--out", out, "--force"), "not a saved model")
    assert not out.exists()


def test_nothing_left_to_predict(run: Run, folder: Path, model: Path) -> None:
    text = (folder / "nodes.csv").read_text().replace(",\n", ",fraud\n")
    (folder / "nodes.csv").write_text(text)
    result = run("predict", model, folder, "--out", folder / "out.csv")
    fails(result, "every node has a label", "--all")


def test_an_npz_with_pickled_objects(run: Run, tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", node_features=np.array([{}], dtype=object))
    fails(run("train", tmp_path / "g.npz"), "g.npz", "pickled")


def test_folders_that_cannot_be_written(run: Run, folder: Path, model: Path) -> None:
    nowhere = folder / "nodes.csv" / "x"
    fails(run("train", folder, "--out", nowhere), "x")
    fails(run("predict", model, folder, "--out", nowhere / "p.csv"), "nodes.csv")
    fails(run("generate", "--out", nowhere / "g.npz"), "nodes.csv")
    fails(run("diagnose", folder, "--html", nowhere / "p.html"), "nodes.csv")
    fails(run("train", folder, "--out", folder), "holds other files")


def test_a_misspelt_dataset(run: Run) -> None:
    fails(run("train", "texsa"), "'texsa'", "Did you mean 'texas'?")


def test_a_misspelt_model(run: Run, folder: Path) -> None:
    fails(run("train", folder, "--model", "h2gnc-2"), "Did you mean 'h2gcn-2'")


def test_no_source_or_two(run: Run, folder: Path) -> None:
    fails(run("train"), "node table and an edge table")
    fails(run("train", folder, "--nodes", folder / "nodes.csv"), "not both")


def test_a_prediction_file_of_another_kind(run: Run, folder: Path, model: Path) -> None:
    fails(run("predict", model, folder, "--out", folder / "p.xlsx"), ".csv or .parquet")


@pytest.mark.parametrize(
    ("option", "value", "rule"),
    [
        ("--epochs", 0, "at least 1"),
        ("--patience", 0, "at least 1"),
        ("--learning-rate", -0.1, "(0, inf)"),
        ("--learning-rate", "nan", "(0, inf)"),
        ("--l2", -1, "[0, inf)"),
        ("--dropout", 1.5, "[0, 1)"),
        ("--hidden-channels", 0, "at least 1"),
        ("--hidden-channels", 10**12, "at most 65536"),
        ("--activation", "relux", "'relu'"),
        ("--scaling", "row", "'rows'"),
        ("--metric", "f1", "'accuracy'"),
        ("--device", "tpu", "'cpu'"),
        ("--seed", -1, "seed"),
        ("--seed", 99999999999, "seed"),
        ("--split", -1, "--split"),
        ("--split", 3, "--split must be 0"),
        ("--split", "both", "'all'"),
        ("--epochs", "many", "--epochs"),
    ],
)
def test_options_of_train_out_of_range(
    run: Run, folder: Path, tmp_path: Path, option: str, value: object, rule: str
) -> None:
    out = tmp_path / "never"
    result = run("train", folder, "--out", out, option, value)
    fails(result, rule)
    assert len(result[2].splitlines()) == 1, "nothing else is said"
    assert not out.exists()


@pytest.mark.parametrize(
    ("option", "value", "rule"),
    [
        ("--homophily", 1.5, "[0, 1]"),
        ("--nodes", 3, "at least"),
        ("--classes", 1, "at least 2"),
        ("--edges-per-node", 0, "at least 1"),
        ("--n-features", 0, "at least 1"),
        ("--n-features", 10**12, "n-features"),
        ("--nodes", 10**15, "nodes"),
        ("--separation", -1, "[0, inf)"),
        ("--unlabelled", 1, "[0, 1)"),
        ("--seed", -1, "at least 0"),
        ("--preset", "syn-croa", "'syn-cora'"),
        ("--features", "corra", "'cora'"),
    ],
)
def test_options_of_generate_out_of_range(
    run: Run, tmp_path: Path, option: str, value: object, rule: str
) -> None:
    fails(run("generate", "--out", tmp_path / "g.npz", option, value), rule)
    assert list(tmp_path.iterdir()) == []


NOT_TRAINED = {
    "label-propagation": "alpha, steps",
    "linbp": "class_prior, scale, steps, tolerance",
    "bp": "class_prior, coupling, damping, steps, tolerance",
    "decoupled-smoothing": "steps, tolerance, variance",
}


@pytest.mark.parametrize("model", NOT_TRAINED)
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--epochs", 3),
        ("--patience", 3),
        ("--stopping", "score"),
        ("--optimizer", "adam"),
        ("--scaling", "none"),
    ],
)
def test_settings_of_a_training_that_a_model_has_not(
    run: Run, folder: Path, model: str, option: str, value: object
) -> None:
    result = run("train", folder, "--model", model, option, value)
    lacks = "looks at no features" if option == "--scaling" else "has no epochs"
    fails(
        result,
        f"the model {model} {lacks}: {option} has no meaning for it. "
        f"Its options: {NOT_TRAINED[model]}.",
    )
    assert len(result[2].splitlines()) == 1, "nothing else is said"


def test_two_settings_of_a_training_that_a_model_has_not(
    run: Run, folder: Path
) -> None:
    result = run("train", folder, "--model", "linbp", *QUICK)
    fails(result, "--epochs and --patience have no meaning for it")


@pytest.mark.parametrize("model", NOT_TRAINED)
def test_what_a_model_without_training_has(run: Run, folder: Path, model: str) -> None:
    # One's own data have a preset with patience, which nobody asked for here.
    options = ("--metric", "roc_auc", "--option", "steps=3", "--json", "-q")
    code, out, err = run("train", folder, "--model", model, *options)
    assert code == 0, err
    used = json.loads(out)["config"]
    assert used["options"]["steps"] == 3
    assert used["options"].keys() == set(NOT_TRAINED[model].split(", "))
    assert used["learning_rate"] is None


def test_an_unknown_option_or_command(run: Run, folder: Path) -> None:
    fails(run("train", folder, "--epoch", 3), "--epoch")
    fails(run("trian", folder), "trian")


def test_ctrl_c_keeps_the_best_so_far(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from h2gcn.training import loop as training

    calls = []

    def interrupt(*arguments: object) -> float:
        calls.append(arguments)
        if len(calls) > 5:
            raise KeyboardInterrupt
        return 0.5

    monkeypatch.setattr(training, "score", interrupt)
    code, out, notes = run("train", folder, "--out", tmp_path / "m", "--epochs", 50)
    assert code == 130
    assert "h2gcn: interrupted in epoch 5; the best so far is kept\n" in notes
    assert notes.count("interrupted") == 1
    first = "interrupted in epoch 5: these are the scores of the best so far\n"
    assert out.startswith(first)
    assert "accuracy" in out
    assert f"saved to {tmp_path / 'm'} (split 0)" in out
    assert saved_ending(tmp_path / "m") == (True, "interrupted in epoch 5", 5)


def saved_ending(model: Path) -> tuple[bool, str, int]:
    """Return what a saved model says of how its training ended."""
    extra = json.loads((model / "bundle.json").read_text())["extra"]
    return extra["interrupted"], extra["ending"], extra["epochs"]


def test_a_finished_training_says_that_it_is(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    command = ("train", folder, "--out", tmp_path / "m", "--epochs", 3, "-q")
    code, out, _ = run(*command, "--json")
    assert code == 0
    result = json.loads(out)
    assert result["interrupted"] is False
    assert result["splits"][0]["interrupted"] is False
    assert saved_ending(tmp_path / "m") == (False, "finished", 3)
    assert "interrupted" not in run(*command, "--force")[1]


def test_sigterm_does_what_ctrl_c_does(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from h2gcn.training import loop as training

    score, calls = training.score, []

    def end(*arguments: Any) -> float:
        calls.append(arguments)
        if len(calls) == 6:
            # Twice, as timeout(1) sends it.
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
        return score(*arguments)

    monkeypatch.setattr(training, "score", end)
    model = tmp_path / "m"
    code, out, notes = run("train", folder, "--out", model, "--epochs", 50, "--json")
    assert code == 143
    assert "interrupted in epoch 5; the best so far is kept" in notes
    assert json.loads(out)["interrupted"] is True
    assert saved_ending(model)[:2] == (True, "interrupted in epoch 5")
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_sigterm_before_anything_is_done(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        estimator, "check_fit", lambda *_: os.kill(os.getpid(), signal.SIGTERM)
    )
    code, out, notes = run("train", folder, "-q")
    assert (code, out, notes) == (143, "", "h2gcn: interrupted\n")


def test_sigterm_waits_for_the_end_of_an_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow.py").write_text(
        "import os, signal, time\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "time.sleep(0.5)\n"
        "done = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def load_and_wait() -> None:
        assert importlib.import_module("slow").done
        time.sleep(60)

    with sigterm_as_ctrl_c() as received, pytest.raises(KeyboardInterrupt):
        load_and_wait()
    assert received
    assert "slow" in sys.modules, "it was loaded whole"


def test_what_others_do_with_sigterm_is_left_to_them() -> None:
    def theirs(*_: object) -> None:
        pass

    signal.signal(signal.SIGTERM, theirs)
    try:
        with sigterm_as_ctrl_c():
            assert signal.getsignal(signal.SIGTERM) is theirs
        assert signal.getsignal(signal.SIGTERM) is theirs
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def test_another_thread_sets_no_handler() -> None:
    found: list[object] = []

    def look() -> None:
        with sigterm_as_ctrl_c():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [signal.SIG_DFL]


@pytest.mark.data
def test_texas_from_its_name(run: Run, data_root: Path) -> None:
    del data_root
    code, out, notes = run("train", "texas", "--split", 2, "--json", "--epochs", 20)
    assert code == 0
    assert json.loads(out)["graph"]["checksum"] == "c5ee5156ee71bb43"
    assert "no training node is of class 1" in notes
    assert "1 class has a single labelled node" in notes


@pytest.mark.data
def test_roc_auc_where_the_card_says_so(run: Run, data_root: Path) -> None:
    del data_root
    code, out, _ = run(
        "train", "minesweeper", "--model", "mlp", "--json", "--epochs", 3
    )
    assert code == 0
    result = json.loads(out)
    assert result["config"]["metric"] == "roc_auc"
    assert 0.4 < result["test_roc_auc"]["mean"] < 1


def test_ones_own_file_may_be_called_as_a_dataset(run: Run, folder: Path) -> None:
    own = folder.rename(folder.with_name("minesweeper"))
    code, out, _ = run("train", own, "--json", "-q", *QUICK)
    assert code == 0
    assert json.loads(out)["config"]["metric"] == "accuracy"


def test_the_command_and_the_library_give_the_same(run: Run, folder: Path) -> None:
    from h2gcn import NodeClassifier, read_graph

    _, out, _ = run("train", folder, "--json", "-q", "--seed", 5, *QUICK)
    clf = NodeClassifier(epochs=30, patience=30, random_state=5).fit(read_graph(folder))
    row = json.loads(out)["splits"][0]
    assert row["val_accuracy"] == clf.val_score_
    assert row["best_epoch"] == clf.best_epoch_
    assert row["sizes"] == list(clf.split_.sizes)


def test_the_papers_other_names(run: Run, folder: Path) -> None:
    assert run("train", folder, "--model", "h2gcn-k2", "-q", *QUICK)[0] == 0


def test_a_label_column_of_ids(run: Run, tmp_path: Path) -> None:
    rows = [f"n{i},{i},x{i}" for i in range(6000)]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,f,label", *rows]))
    (tmp_path / "edges.csv").write_text("source,target\nn0,n1\n")
    fails(run("diagnose", tmp_path), "6,000 classes", "really the label")


def test_ctrl_c_keeps_the_splits_that_are_done(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate, calls = estimator.evaluate, []

    def interrupt(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return evaluate(*arguments)

    monkeypatch.setattr(estimator, "evaluate", interrupt)
    command = ("train", folder, "--split", "all", *QUICK)
    code, out, notes = run(*command, "--json")
    assert code == 130
    assert json.loads(out)["interrupted"] is True
    assert "interrupted; 2 of 10 splits are kept" in notes
    assert json.loads(out)["test_accuracy"]["n"] == 2
    calls.clear()
    assert run(*command, "-q")[1].startswith(
        "interrupted; 2 of 10 splits are whole: these are the scores of the best"
    )


def test_what_auto_took_is_told(run: Run, folder: Path) -> None:
    assert (
        "features: standard, by auto (--scaling sets another)"
        in run("train", folder, "-q", *QUICK)[1]
    )
    told = run("train", folder, "-q", "--scaling", "standard", *QUICK)[1]
    assert "by auto" not in told
    told = run("train", folder, "-q", "--model", "label-propagation")[1]
    assert "by auto" not in told


def test_a_model_as_good_as_the_largest_class_is_told(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    nodes = folder / "nodes.csv"
    rows = list(csv.reader(nodes.read_text().splitlines()))
    for i, row in enumerate(rows[1:]):
        row[1:] = ["1", "2", "", "fraud" if i % 4 == 0 else "honest"]
    with nodes.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    command = ("train", folder, "-q", "--model", "mlp", "--epochs", 3)
    code, out, _ = run(*command, "--out", tmp_path / "m")
    assert code == 0
    told = (
        "by accuracy, the model is no better than always guessing the largest class: "
        "25.00 % of the test nodes are right, against 75.00 %"
    )
    assert f"Note: {told}." in out
    result = json.loads(run(*command, "--json")[1])
    assert result["no_better_than_majority"] is True
    assert result["remarks"] == [told]
    extra = json.loads((tmp_path / "m" / "bundle.json").read_text())["extra"]
    assert extra["no_better_than_majority"] is True
    assert extra["remarks"] == [told]
    assert extra["split_sizes"] == result["splits"][0]["sizes"] == [36, 12, 12]


def test_a_model_that_learned_something_has_no_such_note(
    run: Run, folder: Path
) -> None:
    out = run("train", folder, "--json", "-q", *QUICK)[1]
    result = json.loads(out)
    assert result["no_better_than_majority"] is False
    assert result["remarks"] == []


def test_what_balanced_classes_do_to_probabilities_is_told_where_nothing_calibrates(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    command = ("train", folder, "-q", "--class-weight", "balanced", *QUICK)
    told = "far too high for rare ones; until they are calibrated, only their order"
    assert told not in run(*command)[1]
    (tmp_path / "raw.json").write_text('{"calibrate": false}')
    raw = (*command, "--settings", tmp_path / "raw.json")
    assert told in run(*raw, "--out", tmp_path / "m")[1]
    (remark,) = json.loads(run(*raw, "--json")[1])["remarks"]
    assert told in remark
    extra = json.loads((tmp_path / "m" / "bundle.json").read_text())["extra"]
    assert extra["remarks"] == [remark]
    assert "probabilities stay" in " ".join(run("train", "--help")[1].split())


def test_how_good_probabilities_are_is_told(run: Run, folder: Path) -> None:
    out = run("train", folder, "-q", *QUICK)[1]
    (line,) = (one for one in out.splitlines() if one.startswith("probabilities:"))
    result = json.loads(run("train", folder, "--json", *QUICK)[1])
    loss, brier, error, chance = (
        f"{result[name]['mean']:.3f}"
        for name in (
            *("test_log_loss", "test_brier", "test_calibration_error"),
            "chance_calibration_error",
        )
    )
    assert line == (
        f"probabilities: log-loss {loss}, Brier {brier}, calibration error {error} "
        f"(chance alone gives {chance})"
    )
    (row,) = result["splits"]
    told = row["test_probabilities"]
    assert 0.05 <= row["temperature"] <= 20
    assert result["test_log_loss"]["mean"] == told["log_loss"] > 0
    assert result["test_brier"]["mean"] == told["brier"]
    assert result["test_calibration_error"]["mean"] == told["calibration_error"]
    classes = result["confusion"]["classes"]
    assert list(told["pr_auc"]) == classes
    assert result["test_pr_auc"]["mean"] == told["pr_auc"][classes[1]]
    assert f"{100 * told['pr_auc'][classes[1]]:.2f}" in out
    assert "PR-AUC" in out
    assert [one["name"] for one in told["by_class"]] == classes
    assert [one["name"] for one in told["by_degree"]] == ["0–1", "2–4", "5–15", "16+"]
    assert len(told["bins"]) == 15


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_labels_by_a_decision(run: Run, folder: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "m", tmp_path / "p.csv"
    assert run("train", folder, "-q", "--out", model, *QUICK)[0] == 0
    predict = ("predict", model, folder, "--all", "--out", out, "--force")
    assert run(*predict)[0] == 0
    plain = rows_of(out)
    one, other = (name[2:] for name in plain[0] if name.startswith("p_"))
    code, said, _ = run(*predict, "--decision", f"top=3:{one}")
    assert code == 0
    assert "known labels agree" in said
    rows = rows_of(out)
    chosen = {row["id"] for row in rows if row["label"] == one}
    ranked = sorted(rows, key=lambda row: -float(row[f"p_{one}"]))
    assert chosen == {row["id"] for row in ranked[:3]}
    # What costs nothing is always said.
    costs = tmp_path / "costs.csv"
    costs.write_text(f"true,{other},{one}\n{one},0,5\n{other},0,1\n")
    result = json.loads(run(*predict, "--decision", f"costs={costs}", "--json")[1])
    assert result["decision"] == f"costs={costs}"
    assert {row["label"] for row in rows_of(out)} == {other}
    for rule in ("macro_f1", f"f1={one}"):
        code, said, _ = run(*predict, "--decision", rule)
        assert code == 0
        assert f"decided by {rule}: " in said
        assert "on the validation nodes that it was chosen on, against" in said
    # Probabilities are what they were.
    shares = [[row[f"p_{one}"] for row in found] for found in (plain, rows_of(out))]
    assert shares[0] == shares[1]


def test_mistakes_in_decisions(run: Run, folder: Path, tmp_path: Path) -> None:
    model, costs = tmp_path / "m", tmp_path / "costs.csv"
    assert run("train", folder, "-q", "--out", model, *QUICK)[0] == 0
    names = json.loads((model / "bundle.json").read_text())["classes"]
    one, other = map(str, names)

    def ask(rule: str) -> tuple[int, str, str]:
        return run("predict", model, folder, "--out", "p.csv", "--decision", rule)

    forms = "--decision must be macro_f1, f1=CLASS, top=K:CLASS or costs=FILE.csv"
    for rule in ("f1", "accuracy", "f1=", "macro_f1=a", ""):
        fails(ask(rule), forms)
    for rule in ("top=0:a", "top=a", "top=a:3", "top=3:"):
        fails(ask(rule), "top=K:CLASS needs a number of nodes and a class")
    fails(ask("f1=nobody"), "there is no class 'nobody'")
    fails(ask(f"costs={costs}"), "costs.csv")
    for text, message in (
        ("", "the file is empty"),
        ("x\n", "must have one column for each of the classes"),
        (f"x,{one},{other}\n{one},0,1\n", "must have one row for each"),
        (f"x,{one},{other}\n{one},0\n{other},0,1\n", f"row {one} has 1 costs, not 2"),
        (f"x,{one},{other}\n{one},0,dear\n{other},0,1\n", "must be a number, got"),
        (f"x,{one},{other}\n{one},0,inf\n{other},0,1\n", "must be finite numbers"),
    ):
        costs.write_text(text)
        fails(ask(f"costs={costs}"), message)
    costs.write_bytes(b"\xff\xfe")
    fails(ask(f"costs={costs}"), "not a CSV file in UTF-8")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--epochs", 0), "--epochs must be an integer, at least 1, got 0"),
        (("--dropout=1.5",), "--dropout must be in [0, 1), got 1.5"),
        (
            ("--model", "gat", "--option", "heads=0"),
            "--option heads must be an integer, at least 1 and at most 65536, got 0",
        ),
        (
            ("--settings", "s.json", "--epochs", 5),
            "s.json: l2 must be in [0, inf), got -1",
        ),
    ],
)
def test_parameters_are_named_as_they_were_given(
    run: Run,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[object, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.json").write_text('{"l2": -1}')
    fails(run("train", folder, "-q", *options), f"error: {message}")


def test_all_splits_are_checked_before_the_first_is_trained_and_once(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from h2gcn.estimator import parameters

    checked: list[str] = []
    for name in ("check_params", "check_labels", "resolve_split"):
        original = getattr(parameters, name)

        def count(*given: Any, name: str = name, original: Any = original) -> Any:
            checked.append(name)
            return original(*given)

        monkeypatch.setattr(parameters, name, count)
    monkeypatch.setattr(parameters, "check_graph", lambda *_: checked.append("last"))
    assert run("train", folder, "--split", "all", *QUICK)[0] == 0
    assert checked == 10 * ["check_params", "check_labels", "resolve_split", "last"]


def test_ctrl_c_before_anything_is_done(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(estimator, "check_fit", interrupt)
    code, out, notes = run("train", folder, "-q")
    assert (code, out) == (130, "")
    assert notes == "h2gcn: interrupted\n"


def without_seconds(out: str) -> dict[str, Any]:
    """Return a result without what differs from run to run."""
    result = json.loads(out)
    for row in result["splits"]:
        del row["seconds"]
    return result


def test_checkpoints_of_all_splits(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from h2gcn.training import loop as training

    command = ("train", folder, "--split", "all", "--json", *QUICK)
    whole = run(*command, "-q")[1]
    score, calls = training.score, []

    def interrupt(*arguments: Any) -> float:
        calls.append(arguments)
        if len(calls) == 75:
            raise KeyboardInterrupt
        return score(*arguments)

    kept = (*command, "--checkpoint", tmp_path / "c")
    with monkeypatch.context() as patch:
        patch.setattr(training, "score", interrupt)
        code, out, notes = run(*kept)
    assert code == 130
    assert [row["interrupted"] for row in json.loads(out)["splits"]] == [0, 0, 1]
    assert "interrupted in epoch 14; the best so far is kept, and --resume" in notes
    assert len(json.loads(out)["splits"]) == 3
    fails(
        run(*kept),
        "split-0: already holds a checkpoint",
        "--resume",
        "another",
        json=True,
    )
    code, out, notes = run(*kept, "--resume")
    assert code == 0
    assert without_seconds(out) == without_seconds(whole)
    for line in ("0: finished in epoch 30", "2: going on from epoch 14"):
        assert f"h2gcn: note: split {line}\n" in notes
    assert "split 3" not in notes
    assert len(list((tmp_path / "c").iterdir())) == 10
    # All is done: the same once more, and nothing is said.
    assert without_seconds(run(*kept, "--resume", "-q")[1]) == without_seconds(whole)


def test_bad_options_of_checkpoints(run: Run, folder: Path, tmp_path: Path) -> None:
    kept = ("--checkpoint", tmp_path / "c")
    begin = ("train", folder, "-q", *QUICK)
    fails(run(*begin, "--resume"), "--resume needs --checkpoint")
    minutes = ("--checkpoint-minutes", 1)
    fails(run(*begin, *minutes), "--checkpoint-minutes needs --checkpoint")
    fails(run(*begin, *kept, "--checkpoint-minutes", -1), "--checkpoint-minutes")
    fails(run(*begin, *kept, "--resume"), "c/split-0: holds no checkpoint", "leave out")
    fails(run(*begin, "--checkpoint", folder), "people: holds other files")
    nowhere = folder / "nodes.csv"
    fails(run(*begin, "--checkpoint", nowhere), "nodes.csv: is a file")
    fails(run(*begin, "--checkpoint", nowhere / "c"), "c: the folder", "not exist")
    assert not (tmp_path / "c").exists()


def test_a_checkpoint_of_something_else(run: Run, folder: Path, tmp_path: Path) -> None:
    kept = ("--checkpoint", tmp_path / "c", "-q")
    assert run("train", folder, *kept, "--epochs", 3)[0] == 0
    resume = (*kept, "--resume")
    three = (*resume, "--epochs", 3)
    result = run("train", folder, *three, "--dropout", 0.25)
    fails(result, "c/split-0: was made with dropout 0.5, not 0.25")
    fails(run("train", folder, *three, "--model", "gcn"), "model h2gcn-1, not gcn")
    fails(run("train", folder, *three, "--seed", 1), "was made with seed 0, not 1")
    assert run("train", folder, *resume, "--epochs", 4)[0] == 0
    fails(run("train", folder, *three), "is at epoch 4, beyond the 3 asked for")
    change(folder, "edges.csv", "p00,p01", "p00,p02")
    result = run("train", folder, *resume, "--epochs", 5)
    fails(result, "c/split-0: is of another graph (checksum")
    other = folder.rename(tmp_path / "others")
    result = run("train", other, *resume, "--epochs", 5)
    fails(result, "c/split-0: is of another graph (people, not others)")


def test_a_model_without_weights_needs_no_checkpoint(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    kept = ("--model", "label-propagation", "--checkpoint", tmp_path / "c", "-q")
    for more in ((), ("--resume",)):
        assert run("train", folder, *kept, *more)[0] == 0
    assert not (tmp_path / "c").exists()


def test_no_command_shows_the_help(run: Run) -> None:
    code, out, err = run()
    assert code == 0
    assert "Usage: h2gcn" in out
    assert err == ""


def test_a_misspelt_synthetic_graph(run: Run) -> None:
    fails(run("train", "syn-cora/h0.1-r1"), "Did you mean 'syn-cora/h0.10-r1'")


def test_rings_that_do_not_fit_are_refused_with_a_way_out(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from h2gcn.rings import plan as ring_plan

    monkeypatch.setattr(ring_plan, "available_memory", lambda: 160_000)
    result = run("train", folder, "--out", tmp_path / "m", "-q", *QUICK)
    fails(result, "will not fit in memory", "entries", "kB", "--model h2gcn-s1")
    # The way out leads somewhere.
    assert run("train", folder, "--model", "h2gcn-s1", "-q", *QUICK)[0] == 0


# ------------------------------------------------------------------ what is replaced


def test_a_model_is_replaced_only_by_force(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from h2gcn import NodeClassifier

    model = tmp_path / "m"
    command = ("train", folder, "--out", model, "--epochs", 3, "-q")
    assert run(*command)[0] == 0
    with monkeypatch.context() as patch:
        patch.setattr(NodeClassifier, "fit", None)
        fails(run(*command), f"{model}: holds a model already; --force replaces it")
    assert run(*command, "--force", "--seed", 7)[0] == 0
    assert NodeClassifier.load(model).random_state == 7
    # Whatever is no model is never replaced.
    (model / "mine.txt").write_text("mine")
    fails(run(*command, "--force"), "holds other files")


def test_resume_replaces_the_model_that_it_goes_on_from(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from h2gcn.training import loop as training

    model, score, calls = tmp_path / "m", training.score, []

    def interrupt(*arguments: Any) -> float:
        calls.append(arguments)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return score(*arguments)

    kept = ("--checkpoint", tmp_path / "c", "--out", model, "-q")
    longer = ("train", folder, *kept, "--epochs")
    command = (*longer, 6)
    with monkeypatch.context() as patch:
        patch.setattr(training, "score", interrupt)
        assert run(*command)[0] == 130
    assert saved_ending(model) == (True, "interrupted in epoch 3", 3)
    fails(run(*command), "holds a model already")
    assert run(*command, "--resume")[0] == 0
    assert saved_ending(model) == (False, "finished", 6)
    # It is finished: what goes on from here would be another model.
    fails(run(*longer, 8, "--resume"), "holds a model already")


def test_a_graph_is_replaced_only_by_force(run: Run, tmp_path: Path) -> None:
    for name, file in [("g.npz", "g.npz"), ("g", "g/nodes.csv")]:
        command = ("generate", "--nodes", 60, "--out", tmp_path / name)
        assert run(*command)[0] == 0
        before = (tmp_path / file).read_bytes()
        result = run(*command, "--seed", 1)
        fails(result, f"{tmp_path / file}: already exists; try --force")
        assert (tmp_path / file).read_bytes() == before
        assert run(*command, "--seed", 1, "--force")[0] == 0
        assert (tmp_path / file).read_bytes() != before


def test_predictions_never_replace_what_they_are_made_of(
    run: Run, folder: Path, model: Path
) -> None:
    nodes, edges = folder / "nodes.csv", folder / "edges.csv"
    before = nodes.read_bytes()
    tables = ("--nodes", nodes, "--edges", edges)
    for source in ((folder,), tables):
        result = run("predict", model, *source, "--out", nodes)
        fails(result, f"{nodes}: this command reads it; --out must be another file")
    assert nodes.read_bytes() == before


# ------------------------------------------------------------------- one JSON object


def test_predict_json_is_one_object(
    run: Run, folder: Path, model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "p.csv"
    command = ("predict", model, folder, "--out", out, "--device", "cpu", "--json")
    code, said, _ = run(*command)
    assert code == 0
    result = json.loads(said)
    assert result.pop("seconds") > 0
    agreed = result.pop("agreed")
    assert 24 < agreed <= 48
    assert [note.partition(":")[0] for note in result.pop("notes")] == ["people"]
    assert result == {
        "model": str(model),
        "name": "h2gcn-1",
        "dataset": "people",
        "out": str(out),
        "nodes": 12,
        "new_nodes": 0,
        "new_edges": 0,
        "known": 48,
        "unseen_labels": [],
        "decision": None,
        "classes": ["fraud", "honest"],
        "device": "cpu",
        "version": __version__,
    }
    change(folder, "nodes.csv", "honest", "saint")
    result = json.loads(run(*command, "-q", "--force")[1])
    assert (result["known"], result["unseen_labels"]) == (47, ["saint"])


def test_predict_on_a_device_that_is_not_there(
    run: Run, folder: Path, model: Path
) -> None:
    fails(run("predict", model, folder, "--device", "gpu"), "device", "gpu")


def test_generate_json_is_one_object(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "g.npz"
    code, said, _ = run("generate", "--nodes", 60, "--seed", 3, "--out", out, "--json")
    assert code == 0
    result = json.loads(said)
    assert (result["out"], result["seed"]) == (str(out), 3)
    assert (result["graph"]["name"], result["graph"]["nodes"]) == ("g", 60)
    assert len(result["graph"]["checksum"]) == 16


# ------------------------------------------------------------ a model that is not there


def test_a_model_that_is_not_there(
    run: Run, folder: Path, model: Path, tmp_path: Path
) -> None:
    near = model.with_name("modle")
    line = f"{near}: this folder does not exist. Did you mean 'model'?"
    fails(run("predict", near, folder), line)
    far = tmp_path / "x" / "model"
    fails(run("predict", far, folder), f"{far}: the folder {far.parent} does not exist")
    (tmp_path / "tuned").mkdir()
    model.rename(tmp_path / "tuned" / "model")
    line = f"(no bundle.json in it); there is one in {tmp_path}/tuned/model"
    fails(run("predict", tmp_path / "tuned", folder), line)


# ----------------------------------------------------------------------- what is shown


def test_progress_has_no_score_before_the_first_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from h2gcn.cli.console import progress_bar
    from h2gcn.training import Epoch

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar("title", 5, show=True) as on_epoch:
        assert on_epoch is not None
        time.sleep(0.2)
        before = terminal.getvalue()
        on_epoch(Epoch(1, 0.25, 0.5, 0.1))
        time.sleep(0.2)
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", before)
    assert "epoch 0/5" in plain
    assert "nan" not in plain
    assert "loss" not in plain
    after = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue())
    assert "loss 0.250  val 0.500" in after


COMMANDS = "demo diagnose train predict tune generate reproduce report datasets models"


@pytest.mark.parametrize("command", ["", *COMMANDS.split()])
def test_the_help_is_readable(
    run: Run, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    code, said, _ = run(*command.split(), "--help")
    assert code == 0
    assert "<bool>" not in said, "a flag takes no value"
    assert "list[" not in said
    above = said.split("╭")[0].strip().split("\n")
    short = [line for line in above if 0 < len(line.split()) < 3]
    paragraphs = "\n".join(line.strip() for line in above).split("\n\n")
    last = {paragraph.split("\n")[-1] for paragraph in paragraphs}
    assert {line.strip() for line in short} <= last, "a line is broken in the middle"


def test_notes_of_the_readers_name_flags(run: Run, folder: Path) -> None:
    notes = run("train", folder, *QUICK)[2]
    assert "--categorical plan one-hot encodes it" in notes
    assert "categorical=" not in notes


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"]])
def test_help_waits_for_no_library(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        "from h2gcn.cli import entry_point\n"
        "heavy = ('numpy', 'scipy', 'torch', 'pyarrow', 'sklearn', 'matplotlib')\n"
        "try: entry_point()\n"
        "finally: print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("--option", "heads=" + "[" * 100_000),
            "--option heads: is nested more than 64",
        ),
        (("--split", "9" * 5000), "--split must be a number from 0 on"),
        (("--split", "²"), "--split must be a number from 0 on"),
    ],
)
def test_an_argument_of_absurd_size_is_a_line(
    arguments: tuple[str, str], words: str, folder: Path, run: Run
) -> None:
    fails(run("train", folder, "--model", "gat", "--quiet", *arguments), words)


def test_settings_of_absurd_depth_are_a_line(
    folder: Path, tmp_path: Path, run: Run
) -> None:
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 100_000, "utf-8")
    fails(
        run("train", folder, "--settings", deep),
        "deep.json: is nested more than 64 deep",
    )


def test_files_are_read_within_the_memory_limit(folder: Path, run: Run) -> None:
    result = run("train", folder, "--model", "mlp", "--memory-limit", 1e-6)
    fails(result, "would take about", "and --memory-limit 1e-06 allows 1.0 kB.")


def test_edges_weigh_what_a_column_says(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "paid"
    data.mkdir()
    people = "".join(f"n{i},{i % 3},{'ab'[i % 2]}\n" for i in range(30))
    (data / "nodes.csv").write_text("id,f,label\n" + people)
    paid = [(i, (i + step) % 30, 1 + i % 7) for i in range(30) for step in (1, 4)]
    rows = "".join(f"n{i},n{j},{amount}\n" for i, j, amount in paid)
    (data / "edges.csv").write_text("source,target,amount\n" + rows)
    model = tmp_path / "model"
    train = ("train", data, "--model", "gcn", "--epochs", 3, "-q")
    code, _, noted = run(*train, "--edge-weight", "amount", "--out", model)
    assert code == 0, noted
    out = tmp_path / "said.csv"
    assert run("predict", model, data, "--all", "--out", out, "--force")[0] == 0
    # Other amounts are other predictions: the model reads them as it was trained.
    other = (data / "edges.csv").read_text().replace(",1\n", ",90\n")
    (data / "edges.csv").write_text(other)
    again = tmp_path / "again.csv"
    assert run("predict", model, data, "--all", "--out", again)[0] == 0
    assert out.read_text() != again.read_text()
    fails(run(*train, "--edge-weight", "f", "--out", tmp_path / "x"), "'f'")


def test_new_nodes_are_predicted_by_themselves(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    model, out = tmp_path / "model", tmp_path / "p.csv"
    code, _, err = run(
        "train", folder, "--model", "h2gcn-1", "--categorical", "plan", *QUICK,
        "--out", model,
    )  # fmt: skip
    assert code == 0, err
    new, links = tmp_path / "new.csv", tmp_path / "links.csv"
    new.write_text("id,age,income,plan\nzoe,39,5000,gold\nyan,30,4000,basic\n")
    links.write_text("source,target\nzoe,p01\nyan,zoe\n")
    added = ("--new-nodes", new, "--new-edges", links)
    code, told, err = run("predict", model, folder, *added, "--out", out, "--json")
    assert code == 0, err
    result = json.loads(told)
    assert (result["nodes"], result["new_nodes"], result["new_edges"]) == (2, 2, 2)
    assert result["known"] == 0
    assert "2 nodes of new.csv and 2 edges of links.csv added" in result["notes"][0]
    rows = out.read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["id", "zoe", "yan"]
    # The same as in a folder that has them among the others.
    both = tmp_path / "both"
    both.mkdir()
    nodes = (folder / "nodes.csv").read_text()
    (both / "nodes.csv").write_text(nodes + "zoe,39,5000,gold,\nyan,30,4000,basic,\n")
    edges = (folder / "edges.csv").read_text()
    (both / "edges.csv").write_text(edges + "zoe,p01\nyan,zoe\n")
    code, _, err = run("predict", model, both, "--all", "--out", tmp_path / "all.csv")
    assert code == 0, err
    expected = (tmp_path / "all.csv").read_text().splitlines()[-2:]
    for ours, theirs in zip(rows[1:], expected, strict=True):
        assert ours.split(",")[:2] == theirs.split(",")[:2]
        shares = [[float(s) for s in row.split(",")[2:]] for row in (ours, theirs)]
        np.testing.assert_allclose(*shares, atol=1e-6)
    code, told, _ = run(
        "predict", model, folder, *added, "--all", "--out", out, "--force"
    )
    assert told.startswith("62 nodes written")
    code, told, _ = run("predict", model, folder, *added, "--out", out, "--force")
    assert told == f"2 new nodes written to {out}\n"


def test_new_nodes_that_are_known_are_refused(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    model, new = tmp_path / "model", tmp_path / "new.csv"
    code, _, err = run("train", folder, "--model", "mlp", *QUICK, "--out", model)
    assert code == 0, err
    new.write_text("id,age,income\np03,39,5000\n")
    told = run("predict", model, folder, "--new-nodes", new)
    fails(told, "new.csv: line 2 has the node id 'p03', which is in people already")
    told = run("predict", model, folder, "--new-nodes", new, "--out", new)
    fails(told, "this command reads it; --out must be another file")
