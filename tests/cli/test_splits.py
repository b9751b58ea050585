"""The command line splits tables by a column, by time and by groups."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import h2gcn.estimator.automatic
from h2gcn.auto import find_portfolio
from h2gcn.datasets import GaussianFeatures, generate_graph
from h2gcn.estimator import load_bundle, read_manifest
from h2gcn.graph import Graph, until
from h2gcn.io import TableOptions, read_graph
from support.commands import Run, fails

N = 160
CUT = "2024-08-01"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return tables with a split, a date and a household for each node."""
    graph = generate_graph(n_nodes=N, n_classes=2, features=GaussianFeatures(3, 2.0))
    rng = np.random.default_rng(0)
    days = np.datetime64("2024-01-01") + rng.integers(0, 366, N)
    words = rng.choice(["train", "val", "test"], N, p=[0.6, 0.2, 0.2])
    target = tmp_path / "bank"
    target.mkdir()
    with (target / "nodes.csv").open("w", newline="") as handle:
        write = csv.writer(handle).writerow
        write(["id", "label", "a", "b", "c", "part", "day", "house"])
        for i in range(N):
            label = "" if i % 8 == 0 else ("honest", "fraud")[graph.y[i]]
            row = [f"n{i}", label, *graph.x[i].tolist()]
            write([*row, words[i], days[i], f"h{i // 4}"])
    with (target / "edges.csv").open("w", newline="") as handle:
        write = csv.writer(handle).writerow
        write(["source", "target", "at"])
        for u, v in zip(*graph.adj.nonzero(), strict=True):
            if u < v:
                later = max(days[u], days[v]) + int(rng.integers(0, 50))
                write([f"n{u}", f"n{v}", later])
    return target


BY_TIME = ("--time-column", "day", "--test-after", CUT, "--edge-time-column", "at")
OPTIONS = TableOptions(time_column="day", test_after=CUT, edge_time_column="at")


def whole_and_past(folder: Path) -> tuple[Graph, Graph]:
    graph = read_graph(folder, options=OPTIONS)
    return graph, until(graph, CUT)


def test_the_split_of_a_column(run: Run, folder: Path) -> None:
    code, out, err = run(
        "train", folder, "--model", "logistic", "--split-column", "part", "--json"
    )
    assert code == 0, err
    graph = read_graph(folder, options=TableOptions(split_column="part"))
    assert json.loads(out)["splits"][0]["sizes"] == list(graph.splits[0].sizes)
    assert "time" not in json.loads(out)
    said = run("train", folder, "--model", "logistic", "--date-feature", "day")[2]
    assert "column 'part' holds a split that is not used; --split-column part" in said


def test_training_sees_the_graph_as_it_was(run: Run, folder: Path) -> None:
    out_dir = folder.parent / "model"
    code, out, err = run(
        *("train", folder, "--model", "h2gcn-1", "--epochs", "20", "--json"),
        *(*BY_TIME, "--out", out_dir),
    )
    assert code == 0, err
    result = json.loads(out)
    graph, past = whole_and_past(folder)
    later = {
        "column": "day",
        "edge_column": "at",
        "test_after": CUT,
        "val_after": None,
        "nodes_later": graph.n_nodes - past.n_nodes,
        "edges_later": graph.n_edges - past.n_edges,
    }
    assert result["time"] == later
    assert later["nodes_later"] > 0
    # Edges between early nodes came later too.
    early = np.isin(graph.node_ids, past.node_ids)
    assert past.n_edges < graph.adj[early][:, early].nnz // 2
    assert result["splits"][0]["sizes"] == list(graph.splits[0].sizes)
    # The same by hand: fitted on the past, scored on the whole.
    clf = load_bundle(out_dir)
    assert clf.seen_ is not None
    assert clf.seen_.is_of(past)
    test = graph.splits[0].test
    right = np.mean(clf.predict(graph, test) == graph.classes[graph.y[test]])
    assert result["splits"][0]["test_accuracy"] == pytest.approx(right)
    unseen, _ = clf.seen_.unseen(graph)
    assert unseen.tolist() == test.tolist()
    assert read_manifest(out_dir).extra["time"] == later
    code, out, _ = run(
        *("train", folder, "--model", "h2gcn-1", "--epochs", "3", *BY_TIME),
    )
    assert f"trained on the graph up to {CUT}: {later['nodes_later']} nodes and " in out
    assert " edges came later and were not there; test nodes are among them" in out


def test_prediction_needs_none_of_the_columns(run: Run, folder: Path) -> None:
    out_dir = folder.parent / "model"
    assert (
        run("train", folder, "--model", "logistic", *BY_TIME, "--out", out_dir)[0] == 0
    )
    other = folder.parent / "new"
    other.mkdir()
    for name, keep in (("nodes", 5), ("edges", 2)):
        rows = [
            line.split(",")[:keep]
            for line in (folder / f"{name}.csv").read_text().splitlines()
        ]
        (other / f"{name}.csv").write_text("\n".join(",".join(row) for row in rows))
    written = {}
    for source in (folder, other):
        file = folder.parent / f"{source.name}.csv"
        code, _, err = run("predict", out_dir, source, "--all", "--out", file)
        assert code == 0, err
        written[source.name] = file.read_text()
    assert written["bank"] == written["new"]


def test_refit_takes_the_labels_that_came_later(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        h2gcn.estimator.automatic,
        "find_portfolio",
        lambda graph, scaling: find_portfolio(graph, scaling)[:2],
    )
    out_dir = folder.parent / "model"
    code, out, err = run(
        *("train", folder, "--model", "auto", "--refit", "--json", *BY_TIME),
        *("--out", out_dir),
    )
    assert code == 0, err
    graph, past = whole_and_past(folder)
    assert json.loads(out)["splits"][0]["sizes"] == list(graph.splits[0].sizes)
    # Few validation nodes, and yet no folds: they are later than the others.
    assert json.loads(out)["leaderboards"][0]["folds"] == 0
    clf = load_bundle(out_dir)
    assert clf.seen_ is not None
    assert clf.seen_.unseen(graph)[0].size == 0
    assert not clf.seen_.is_of(past)


def test_groups_are_whole_in_every_split(run: Run, folder: Path) -> None:
    out_dir = folder.parent / "model"
    code, out, err = run(
        *("train", folder, "--model", "logistic", "--group-column", "house"),
        *("--out", out_dir, "--json", "--seed", "3"),
    )
    assert code == 0, err
    train, val, test = json.loads(out)["splits"][0]["sizes"]
    graph = read_graph(folder, options=TableOptions(group_column="house"))
    assert train + val + test == graph.labelled.size
    seen = load_bundle(out_dir).seen_
    assert seen is not None
    assert graph.groups is not None
    assert not set(graph.groups[seen.rows]) & set(graph.groups[seen.test])
    assert abs(train - 0.6 * graph.labelled.size) <= 4


def test_tune_and_diagnose_do_not_see_what_came_later(run: Run, folder: Path) -> None:
    code, out, err = run(
        *("tune", folder, "--model", "logistic", "--out", folder.parent / "tuned"),
        *(*BY_TIME, "--json"),
    )
    assert code == 0, err
    _, past = whole_and_past(folder)
    seen = load_bundle(folder.parent / "tuned" / "model").seen_
    assert seen is not None
    assert seen.is_of(past)
    code, out, err = run("diagnose", folder, *BY_TIME, "--json", "--no-fit")
    assert code == 0, err
    assert any(
        "the labels after 2024-08-01 are" in s for s in json.loads(out)["record"]
    )


def test_what_cannot_be(run: Run, folder: Path) -> None:
    train = ("train", folder, "--model", "logistic")
    fails(run(*train, "--test-after", CUT), "--test-after needs --time-column")
    fails(
        run(*train, "--time-column", "day", "--test-after", "soon"),
        "--test-after must be a date such as 2024-06-01",
    )
    fails(
        run(*train, "--split-column", "part", "--group-column", "house"),
        "--group-column does not go with --split-column …: they are two ways",
    )
    fails(
        run("train", "texas", "--time-column", "day"),
        "texas is a dataset with splits of its own; --time-column is for tables",
    )
