"""Predictions over workers of two machines: parts, a manifest, and what is resumed."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from h2gcn import Graph, NodeClassifier
from h2gcn.cluster import Cluster, join_parts, predict_parts, prediction
from h2gcn.exceptions import InputError
from support.shared_graphs import make_graph


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Return a graph of 400 nodes, some of them labelled."""
    return make_graph(columns=20)


@pytest.fixture(scope="module")
def fitted(graph: Graph) -> NodeClassifier:
    """Return a model on the ring table."""
    return NodeClassifier("ring-table", epochs=5, random_state=0).fit(graph)


def check_rows(
    table: Any, classifier: NodeClassifier, graph: Graph, nodes: Any
) -> None:
    """Compare a table with what one process predicts of some nodes."""
    expected = classifier.predict_table(graph, nodes)
    assert table.schema.equals(expected.schema)
    for name in expected.column_names[:2]:
        assert table.column(name).to_pylist() == expected.column(name).to_pylist()
    for name in expected.column_names[2:]:
        ours, theirs = (t.column(name).to_numpy() for t in (table, expected))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)


def test_there_are_two_machines(two_machines: Cluster) -> None:
    assert len(two_machines.machines) == 2
    assert two_machines.workers == 2


@pytest.mark.parametrize("alone", [None, True])
@pytest.mark.parametrize(
    ("model", "more"),
    [
        ("ring-table", {"epochs": 5}),
        ("h2gcn-1", {"epochs": 5}),
        ("label-propagation", {}),
    ],
)
def test_parts_are_what_one_process_predicts(
    model: str,
    more: dict[str, Any],
    alone: bool | None,
    two_machines: Cluster,
    graph: Graph,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fitted = NodeClassifier(model, random_state=0, **more).fit(graph)
    if alone and not fitted.can_predict_alone(graph):
        return
    monkeypatch.setattr(prediction, "_check_memory", lambda *_: alone)
    monkeypatch.setattr(prediction, "SMALLEST", 100)
    nodes = np.flatnonzero(np.arange(400) % 4)
    told: list[tuple[int, int]] = []
    found = predict_parts(
        two_machines,
        fitted,
        graph,
        tmp_path / "out",
        nodes,
        on_part=lambda *done: told.append(done),
    )
    whole = model == "label-propagation"
    count = 1 if whole else 3
    assert [part.rows for part in found.parts] == ([300] if whole else [100] * 3)
    assert told == [(n, count) for n in range(count + 1)]
    check_rows(pq.read_table(found.folder), fitted, graph, nodes)
    expected = np.array([str(c) for c in graph.classes])[graph.y[nodes]]
    agree = (fitted.predict(graph, nodes).astype(str) == expected) & (
        graph.y[nodes] >= 0
    )
    assert (found.known, found.agreed) == ((graph.y[nodes] >= 0).sum(), agree.sum())
    manifest = json.loads((found.folder / "_manifest.json").read_text())
    assert manifest["plan"]["rows"] == 300
    assert manifest["columns"][:2] == ["node", "label"]
    for part in manifest["parts"]:
        content = (found.folder / part["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == part["sha256"]
    assert not (found.folder / "_plan.json").exists()


def test_what_is_there_is_not_made_again(
    two_machines: Cluster, graph: Graph, fitted: NodeClassifier, tmp_path: Path
) -> None:
    folder = tmp_path / "out"

    class Stopped(Exception):
        """Whoever asked has gone."""

    def stop(done: int, _: int) -> None:
        if done == 2:
            raise Stopped

    with pytest.raises(Stopped):
        predict_parts(two_machines, fitted, graph, folder, part_size=100, on_part=stop)
    assert not (folder / "_manifest.json").exists(), "that comes last"
    there = {file.name: file.stat().st_mtime_ns for file in folder.glob("part-*")}
    assert len(there) >= 2
    (folder / "part-00003.parquet").write_bytes(b"not whole")
    there.pop("part-00003.parquet", None)
    found = predict_parts(two_machines, fitted, graph, folder, part_size=100)
    assert found.found == len(there), "and whoever was under way has written nothing"
    for name, time in there.items():
        assert (folder / name).stat().st_mtime_ns == time
    check_rows(pq.read_table(folder), fitted, graph, None)
    fresh = predict_parts(two_machines, fitted, graph, tmp_path / "other")
    assert (found.known, found.agreed) == (fresh.known, fresh.agreed)
    again = predict_parts(two_machines, fitted, graph, folder, part_size=100)
    assert (again.found, again.parts) == (4, found.parts)

    # Nothing else goes into that folder.
    for more, what in (
        ({"part_size": 50}, "part size"),
        ({"part_size": 100, "nodes": np.arange(10)}, "nodes"),
    ):
        with pytest.raises(InputError, match=f"another prediction .its {what} is"):
            predict_parts(two_machines, fitted, graph, folder, **more)
    other = NodeClassifier("mlp", epochs=2, random_state=0).fit(graph)
    with pytest.raises(InputError, match=r"another prediction .its model is"):
        predict_parts(two_machines, other, graph, folder, part_size=100)
    assert (folder / "_manifest.json").exists()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_parts_are_joined_on_request(
    suffix: str,
    two_machines: Cluster,
    graph: Graph,
    fitted: NodeClassifier,
    tmp_path: Path,
) -> None:
    folder, target = tmp_path / "out", tmp_path / f"all{suffix}"
    found = predict_parts(two_machines, fitted, graph, folder, part_size=150)
    join_parts(found, target)
    assert not folder.exists()
    if suffix == ".parquet":
        check_rows(pq.read_table(target), fitted, graph, None)
    else:
        lines = target.read_text().splitlines()
        assert lines[0] == "node,label,p_0,p_1,p_2"
        assert [line.split(",")[0] for line in lines[1:]] == graph.node_ids.tolist()


def test_a_decision_by_nodes_is_made_by_workers(
    two_machines: Cluster, graph: Graph, fitted: NodeClassifier, tmp_path: Path
) -> None:
    rule = fitted.decide("f1", label=fitted.classes_[1])
    found = predict_parts(two_machines, fitted, graph, tmp_path / "out", decision=rule)
    said = pq.read_table(found.folder).column("label").to_pylist()
    assert said == fitted.predict(graph, decision=rule).tolist()
    top = fitted.decide("top", k=5, label=fitted.classes_[1])
    with pytest.raises(InputError, match="compares all nodes"):
        predict_parts(two_machines, fitted, graph, tmp_path / "other", decision=top)
    assert not (tmp_path / "other").exists()


def test_a_folder_that_is_somebody_elses(
    two_machines: Cluster, graph: Graph, fitted: NodeClassifier, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("dear")
    for folder, why in (
        (tmp_path / "mine", "holds other files"),
        (tmp_path / "no" / "out", "does not exist"),
        (tmp_path / "mine" / "thesis.txt", "is a file"),
    ):
        with pytest.raises(InputError, match=why):
            predict_parts(two_machines, fitted, graph, folder)


def test_a_worker_without_memory_for_all_nodes_makes_some(
    two_machines: Cluster, graph: Graph, fitted: NodeClassifier
) -> None:
    whole, some = prediction._needs(fitted, graph)
    assert prediction._check_memory(two_machines, fitted, graph, None) is None
    with pytest.raises(InputError, match="predicting town by ring-table takes about"):
        prediction._check_memory(two_machines, fitted, graph, 1e-6)
    assert some <= 4 * whole  # a graph of 400 nodes is all near
