"""`h2gcn explain`: the reasons of a node, and what matters over all nodes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import h2gcn.estimator.automatic
from h2gcn import NodeClassifier, read_graph
from h2gcn.auto import Member
from h2gcn.diagnosis import ReasonChart, render_reasons
from support.commands import Run, fails
from support.models import copy_of_saved


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return two tables: 60 people in two classes; one of them has a wild name."""
    rng, n = np.random.default_rng(0), 60
    data = tmp_path / "people"
    data.mkdir()
    ids = ["<b>bold</b>", *(f"p{i:02}" for i in range(1, n))]
    rows = [("id", "age", "income", "label")]
    for i in range(n):
        label = ("honest", "fraud")[i % 2] if i % 5 else ""
        age = 30 + 2 * (i % 2) + rng.normal()
        rows.append((ids[i], f"{age:.3f}", f"{rng.normal():.3f}", label))
    ends = [(ids[i], ids[(i + s) % n]) for i in range(n) for s in (1, 2)]
    for name, table in (("nodes", rows), ("edges", [("source", "target"), *ends])):
        with (data / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows(table)
    return data


@pytest.fixture
def model(folder: Path, tmp_path: Path) -> Path:
    """Return a saved model."""

    def save(path: Path) -> None:
        clf = NodeClassifier("logistic", random_state=0).fit(read_graph(folder))
        clf.save(path)

    return copy_of_saved("logistic people", save, tmp_path / "model")


def test_a_node_as_text(run: Run, folder: Path, model: Path) -> None:
    code, out, err = run("explain", model, folder, "--node", "p07")
    assert code == 0, err
    found = NodeClassifier.load(model).explain(read_graph(folder), 7)
    first = out.splitlines()[0]
    assert first.startswith(f"node p07 of people, by logistic: {found.label} with ")
    assert "exact by block, by column" in out
    for word in ("own features", "bias", "mean of age over ring 1", "node p06", "sum"):
        assert word in out
    assert f"{found.whole:+.3f}" in out
    assert "the nodes that mattered most: " in out
    bars = [line for line in out.splitlines() if "|" in line]
    assert len(bars) == len(found.groups)
    assert any("++++++++" in line or "--------" in line for line in bars)


def test_another_class_may_be_asked_for(run: Run, folder: Path, model: Path) -> None:
    for label in ("honest", "fraud"):
        args = ("explain", model, folder, "--node", "p07", "--label", label)
        code, out, _ = run(*args, "--top", 0)
        assert code == 0
        assert f"by logistic: {label} with " in out
        assert "mean of age over ring 1" not in out


def test_a_node_as_json(run: Run, folder: Path, model: Path) -> None:
    code, out, err = run(
        "explain", model, folder, "--node", "p07", "--json", "--top", 2
    )
    assert code == 0, err
    content = json.loads(out)
    assert {"terms", "exact", "how", "logit", "probability", "neighbours", "label"} < {
        *content
    }
    assert content["id"] == "p07"
    assert content["exact"] is True
    assert content["folder"] == str(model)
    total = sum(term["value"] for term in content["terms"])
    assert content["of"] == "log-odds"
    odds = 2 * content["logit"] - sum(content["logits"])
    assert total == pytest.approx(odds, abs=1e-5)
    assert all(len(term["columns"]) <= 3 for term in content["terms"])


def test_a_page_escapes_names_and_needs_nothing_else(
    run: Run, folder: Path, model: Path, tmp_path: Path
) -> None:
    page = tmp_path / "why.html"
    args = ("explain", model, folder, "--node", "p01", "--page", page)
    code, _, err = run(*args)
    assert code == 0
    assert f"wrote {page}" in err
    text = page.read_text("utf-8")
    assert "Why node p01 of people" in text
    assert "<b>bold" not in text
    assert "&lt;b&gt;bold" in text
    for never in ("<script", "http://", "https://", "src="):
        assert never not in text
    for said in ("prefers-color-scheme: dark", "max-width: 36rem", "<details>"):
        assert said in text
    assert "What the log-odds of" in text


def test_all_nodes(run: Run, folder: Path, model: Path, tmp_path: Path) -> None:
    page = tmp_path / "what.html"
    args = ("explain", model, folder, "--repeats", 2, "--columns", 3)
    code, out, err = run(*args, "--page", page)
    assert code == 0, err
    assert "each part permuted 2 times among 10 nodes that training did not se" in out
    for word in ("own features", "the graph as a whole", "log-loss +", "% lost"):
        assert word in out
    assert "3 of " in out
    assert "with nothing permuted: log-loss " in out
    assert "What logistic needs on people" in page.read_text("utf-8")
    content = json.loads(run(*args, "--json")[1])
    kinds = [row["kind"] for row in content["rows"]]
    assert kinds.count("column") == 3
    assert content == json.loads(run(*args, "--json")[1]), "seeded"
    assert content != json.loads(run(*args, "--json", "--seed", 1)[1])


def test_what_is_no_sum_is_said(run: Run, folder: Path, tmp_path: Path) -> None:
    clf = NodeClassifier("gcn", epochs=5, random_state=0).fit(read_graph(folder))
    clf.save(tmp_path / "gcn")
    code, out, _ = run("explain", tmp_path / "gcn", folder, "--node", "p07")
    assert code == 0
    assert "not a sum: what changes when a part is left out" in " ".join(out.split())
    assert "its edges" in out
    assert "\n  sum" not in out


def test_auto_tells_of_its_members(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cheap = (
        Member("logistic", "logistic", "own", {"options": {"table": "ego"}}, False),
        Member("label-propagation", "label-propagation", "labels of neighbours"),
    )
    monkeypatch.setattr(h2gcn.estimator.automatic, "find_portfolio", lambda *_: cheap)
    clf = NodeClassifier("auto", random_state=0).fit(read_graph(folder))
    clf.save(tmp_path / "auto")
    page = tmp_path / "why.html"
    args = ("explain", tmp_path / "auto", folder, "--node", "p07")
    code, out, err = run(*args, "--page", page)
    assert code == 0, err
    assert "by auto: " in out
    assert "not a sum: the answer is the logarithm of" in out
    for one in clf.members_:
        assert f"{one.name}, which has {100 * one.weight:.0f} % of the answer:" in out
        assert f"{one.name} ({100 * one.weight:.0f} % of the ans" in page.read_text()
    content = json.loads(run(*args, "--json")[1])
    assert content["exact"] is False
    names = [member["name"] for member in content["members"]]
    assert names == [one.name for one in clf.members_]
    assert all(member["explanation"]["exact"] for member in content["members"])


def test_mistakes(run: Run, folder: Path, model: Path, tmp_path: Path) -> None:
    fails(
        run("explain", model, folder, "--node", "p7"),
        "there is no node 'p7'",
        "Did you mean 'p",
    )
    fails(
        run("explain", model, folder, "--node", "p07", "--label", "frau"),
        "there is no class 'frau'",
        "'fraud'",
    )
    fails(run("explain", model, folder, "--label", "fraud"), "name it by --node")
    fails(
        run("explain", model, folder, "--node", "p07", "--repeats", 2),
        "--repeats is for all nodes",
    )
    fails(
        run("explain", model, folder, "--node", "p07", "--page", tmp_path / "a.txt"),
        "must end in .html",
    )
    fails(run("explain", model, folder, "--repeats", 0), "at least 1")
    fails(run("explain", tmp_path / "gone", folder, "--node", "p07"), "gone")
    nodes = (folder / "nodes.csv").read_text().replace("income", "wealth")
    (folder / "nodes.csv").write_text(nodes)
    fails(run("explain", model, folder, "--node", "p07"), "income")


def test_no_node_is_left_where_training_saw_all(
    run: Run, folder: Path, model: Path
) -> None:
    graph = read_graph(folder)
    clf = NodeClassifier.load(model)
    seen = set(clf.seen_.rows.tolist())  # type: ignore[union-attr]
    lines = (folder / "nodes.csv").read_text().splitlines()
    for row in range(graph.n_nodes):
        if row not in seen:
            lines[row + 1] = ",".join([*lines[row + 1].split(",")[:3], ""])
    (folder / "nodes.csv").write_text("\n".join(lines))
    fails(run("explain", model, folder), "no node is left to permute on")


# ------------------------------------------------------------------ the picture


def test_bars_go_to_both_sides_of_zero() -> None:
    chart = ReasonChart("title", "", (("up", 3.0, "+3"), ("down", -1.0, "-1")))
    assert chart.zero == 25.0
    assert chart.bars == [
        ("up", "+3", False, 25.0, 75.0),
        ("down", "-1", True, 0.0, 25.0),
    ]
    assert ReasonChart("t", "", (("a", -2.0, ""),)).zero == 100.0
    flat = ReasonChart("t", "", (("a", 0.0, "0"),))
    assert flat.bars == [("a", "0", False, 0.0, 0.0)]
    assert ReasonChart("t", "", ()).bars == []


def test_a_page_without_charts_is_a_page() -> None:
    page = render_reasons("A & B", [("what", "x<y")], ["a note"], [])
    assert "A &amp; B" in page
    assert "x&lt;y" in page
    assert "a note" in page
