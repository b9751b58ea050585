"""`h2gcn evaluate` in process: tables, JSON, a page, and a line for each mistake."""

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from h2gcn import NodeClassifier, read_graph
from support.commands import Run, fails
from support.models import copy_of_saved

N = 60


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two tables: 60 people, 12 of them without a label."""
    rng = np.random.default_rng(0)
    data = tmp_path / "people"
    data.mkdir()
    with (data / "nodes.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "age", "since", "town", "label"])
        for i in range(N):
            label = ("honest", "fraud")[i % 2] if i % 5 else ""
            age = 30 + 9 * (i % 2) + rng.normal()
            since = np.datetime64("2024-01-01") + 3 * i
            table.writerow([f"p{i:02}", f"{age:.3f}", since, f"town {i % 7}", label])
    with (data / "edges.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["source", "target"])
        for i in range(N):
            for step in (1, 7):
                table.writerow([f"p{i:02}", f"p{(i + step) % N:02}"])
    return data


@pytest.fixture
def model(run: Run, folder: Path, tmp_path: Path) -> Path:
    """Return a saved model of the people."""

    def save(path: Path) -> None:
        quick = ("--model", "mlp", "--epochs", 5, "-q", "--json")
        assert run("train", folder, "--out", path, *quick)[0] == 0

    return copy_of_saved("people since", save, tmp_path / "model")


def change(folder: Path, write: Callable[[list[str], int], list[str]]) -> None:
    """Rewrite each row of the node table, given with its number."""
    lines = (folder / "nodes.csv").read_text().splitlines()
    rows = [",".join(write(line.split(","), i)) for i, line in enumerate(lines[1:])]
    (folder / "nodes.csv").write_text("\n".join([lines[0], *rows]))


def test_as_tables(run: Run, folder: Path, model: Path) -> None:
    code, said, noted = run("evaluate", model, folder)
    assert code == 0, noted
    assert (
        "10 nodes scored: the test nodes of the split that it was trained by." in said
    )
    for words in (
        *("people: 60 nodes", "mlp on people", "accuracy %", "macro F1 %", "log-loss"),
        *("ROC-AUC %", "PR-AUC %", "Brier", "calibration error", "which is"),
        *("by class, in percent", "by number of neighbours", "Sets of 90 %"),
        *("true class (row), predicted (column)", "chance: share of honest"),
        *("On the validation nodes, which training chose by: accuracy", "Wilson's"),
        *("percentiles of 1,000 draws of these nodes (bootstrap)",),
        *("To guess without a model: ", "the largest class of what training saw"),
    ):
        assert words in said, words
    assert "one-way edges made symmetric" in noted
    code, again, noted = run("evaluate", model, folder, "-q")
    assert (code, again, noted) == (0, said, "")


def test_as_json_it_is_what_python_says(run: Run, folder: Path, model: Path) -> None:
    code, said, _ = run("evaluate", model, folder, "--json", "-q")
    assert code == 0
    told = json.loads(said)
    assert told.pop("model") == str(model)
    assert told.pop("time_column") is None
    assert "one-way edges" in told.pop("notes")[0]
    card = NodeClassifier.load(model).evaluate(read_graph(folder))
    assert told == json.loads(json.dumps(card.to_json()))


def test_two_tables_and_other_options(run: Run, folder: Path, model: Path) -> None:
    tables = ("--nodes", folder / "nodes.csv", "--edges", folder / "edges.csv")
    code, said, _ = run("evaluate", model, *tables, "--json", "-q", "--alpha", 0.25)
    assert code == 0
    told = json.loads(said)
    assert told["sets"]["alpha"] == 0.25
    assert told["sets"]["coverage"]["floor"] == 0.75
    other = json.loads(run("evaluate", model, *tables, "--json", "--seed", 1)[1])
    assert (
        other["measures"]["log_loss"]["value"] == told["measures"]["log_loss"]["value"]
    )
    assert other["measures"]["log_loss"]["low"] != told["measures"]["log_loss"]["low"]
    fails(run("evaluate", model, *tables, "--alpha", 1.5), "--alpha must be in (0, 1)")


def test_by_time(run: Run, folder: Path, model: Path) -> None:
    code, said, _ = run("evaluate", model, folder, "--time-column", "since")
    assert code == 0
    assert "by since" in said
    assert re.search(r"month +nodes +accuracy", said)
    assert "2024-01" in said
    told = json.loads(
        run("evaluate", model, folder, "--time-column", "age", "--json", "-q")[1]
    )
    assert (told["time_column"], told["by_time"]["by"]) == ("age", "value")
    assert sum(one["nodes"] for one in told["by_time"]["groups"]) == told["nodes"] == 10
    fails(
        run("evaluate", model, folder, "--time-column", "town"),
        "column 'town' must hold dates, such as 2024-06-01 or 2024-06-01 12:30, or "
        "numbers, got 'town 0' at line 2",
    )
    fails(
        run("evaluate", model, folder, "--time-column", "sinse"),
        "nodes.csv: there is no column 'sinse'. Did you mean 'since'?",
    )


def test_times_need_a_node_table(run: Run, tmp_path: Path, model: Path) -> None:
    (tmp_path / "graph.edgelist").write_text("a b\n")
    source = tmp_path / "graph.edgelist"
    fails(
        run("evaluate", model, source, "--time-column", "t"),
        "graph.edgelist' has no node table to take a column of",
    )


def test_a_page(run: Run, folder: Path, model: Path, tmp_path: Path) -> None:
    page = tmp_path / "scores.html"
    code, said, _ = run("evaluate", model, folder, "--page", page)
    assert code == 0
    assert f"wrote {page}" in said
    text = page.read_text("utf-8")
    assert "How good mlp is on people" in text
    assert 'class="reliability"' in text
    fails(run("evaluate", model, folder, "--page", "p.txt"), ".html")
    nowhere = tmp_path / "no" / "p.html"
    fails(run("evaluate", model, folder, "--page", nowhere), "does not exist")


def test_training_saw_them_all(run: Run, folder: Path, model: Path) -> None:
    seen = NodeClassifier.load(model).seen_
    assert seen is not None
    rows = set(seen.rows.tolist())
    change(folder, lambda row, i: [*row[:-1], row[-1] if i in rows else ""])
    fails(
        run("evaluate", model, folder, "-q"),
        "people: training saw all labelled nodes; --all-nodes scores them all the same",
    )
    code, said, _ = run("evaluate", model, folder, "--all-nodes", "--json", "-q")
    assert code == 0
    told = json.loads(said)
    assert (told["rule"], told["nodes"]) == ("all", len(rows))


def test_another_graph_with_some_of_the_same_people(
    run: Run, folder: Path, model: Path
) -> None:
    change(folder, lambda row, _: [row[0], f"{float(row[1]) + 1:.3f}", *row[2:]])
    code, said, noted = run("evaluate", model, folder)
    assert code == 0
    assert "labelled nodes whose ids training did not see" in said
    assert (
        "38 nodes of people have ids that training saw, and are not scored, unless "
        "--all-nodes"
    ) in noted
    assert "Sets of 90 %: not counted, since this is not the graph of fit" in said


def test_no_labels_at_all(run: Run, folder: Path, model: Path) -> None:
    change(folder, lambda row, _: [*row[:-1], ""])
    fails(
        run("evaluate", model, folder, "-q"),
        "people: there is no labelled node to score by",
    )


def test_labels_in_another_column(run: Run, folder: Path, model: Path) -> None:
    text = (folder / "nodes.csv").read_text().replace("label", "truth", 1)
    (folder / "nodes.csv").write_text(text)
    fails(run("evaluate", model, folder, "-q"), "there is no labelled node to score by")
    named = ("--label-column", "truth", "--json", "-q")
    code, said, _ = run("evaluate", model, folder, *named)
    assert code == 0
    assert json.loads(said)["nodes"] == 10


def test_labels_that_the_model_never_saw(run: Run, folder: Path, model: Path) -> None:
    change(folder, lambda row, _: [*row[:-1], row[-1].replace("honest", "saint")])
    code, said, noted = run("evaluate", model, folder)
    assert code == 0
    assert "labels that the model never saw ('saint'): they are not scored" in noted
    assert "nodes scored" in said


def test_what_is_no_model(run: Run, folder: Path, tmp_path: Path) -> None:
    fails(run("evaluate", tmp_path / "nothing", folder), "nothing")
