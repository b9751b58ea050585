"""The ring table of all nodes in files: what is predicted from it, and what is left."""

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from h2gcn import Graph, NodeClassifier
from h2gcn.cluster import Cluster, Predicted, predict_parts, prediction, table_files
from h2gcn.exceptions import InputError
from h2gcn.ring_table import TableMaker
from support.shared_graphs import make_graph

RECIPE = (
    "own+rings+directions+degrees+labels+ring1.sum+ring2.max+hop2.mean+hop2.min"
    "+power2+loops3"
)


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Return a graph of 400 nodes, some of them labelled."""
    return make_graph(columns=20)


@pytest.fixture(autouse=True)
def written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have tables of small graphs written too, in several files a ring."""
    monkeypatch.setattr(table_files, "MANY", 100)
    monkeypatch.setattr(table_files, "LOT", 130)
    monkeypatch.setattr(prediction, "SMALLEST", 100)


def fit(graph: Graph, cap: int | None = None, recipe: str = RECIPE) -> NodeClassifier:
    """Return a model on a table with blocks of every kind."""
    given = {"options": {"table": recipe}, "ring_cap": cap}
    return NodeClassifier("ring-table", epochs=5, random_state=0, **given).fit(graph)


def probabilities(found: Predicted) -> Any:
    """Return what parts say of all classes, [m, C]."""
    rows = pq.read_table(found.folder)
    names = [name for name in rows.column_names if name.startswith("p_")]
    return np.stack([rows.column(name).to_numpy() for name in names], axis=1)


@pytest.mark.parametrize("cap", [None, 3])
def test_parts_are_what_one_process_predicts(
    cap: int | None, two_machines: Cluster, graph: Graph, tmp_path: Path
) -> None:
    fitted = fit(graph, cap)
    told: list[tuple[int, int]] = []
    found = predict_parts(
        two_machines,
        fitted,
        graph,
        tmp_path / "out",
        on_table=lambda *done: told.append(done),
    )
    # Four lots of ring 2 (of which ring 3 is none), two slices of 20 columns.
    assert told == [(n, 6) for n in range(1, 7)]
    assert_allclose(probabilities(found), fitted.predict_proba(graph), atol=1e-6)
    assert not (found.folder / "_table").exists()
    some = np.flatnonzero(np.arange(400) % 3)
    found = predict_parts(two_machines, fitted, graph, tmp_path / "some", some)
    assert_allclose(probabilities(found), fitted.predict_proba(graph)[some], atol=1e-6)


def test_models_of_the_same_features_share_their_columns(graph: Graph) -> None:
    first = fit(graph, recipe="own+ring1+degrees")
    second = fit(graph, recipe="ring1+ring2")
    (both,) = table_files._columns([first, second])
    assert both.blocks == (("ring1", 20), ("ring2", 20))
    assert both.rings == (("ring2", False),), "who is in it, and not only how many"
    drawn = fit(graph, cap=3, recipe="ring2")
    assert [one.drawn[0] for one in table_files._columns([first, drawn])] == [None, 3]


def test_a_table_that_is_there_is_not_written_again(
    two_machines: Cluster, graph: Graph, tmp_path: Path
) -> None:
    fitted, folder = fit(graph), tmp_path / "out"

    class Stopped(Exception):
        """Whoever asked has gone."""

    def stop(done: int, _: int) -> None:
        if done:
            raise Stopped

    with pytest.raises(Stopped):
        predict_parts(two_machines, fitted, graph, folder, on_part=stop)
    there = {file: file.stat().st_mtime_ns for file in (folder / "_table").iterdir()}
    lost = next(file for file in there if file.name.startswith("ring2-all-00001-sizes"))
    lost.unlink()
    told: list[int] = []
    found = predict_parts(
        two_machines,
        fitted,
        graph,
        folder,
        on_table=lambda done, _: told.append(done),
        on_part=lambda *_: check_unchanged(there, lost),
    )
    assert told == [1], "no more than what is missing"
    assert_allclose(probabilities(found), fitted.predict_proba(graph), atol=1e-6)


def check_unchanged(there: dict[Path, int], lost: Path) -> None:
    """Compare the times of files with those of before, as long as they are there."""
    for file, time in there.items():
        if file.exists() and file != lost and "columns" not in file.name:
            assert file.stat().st_mtime_ns == time


def test_what_a_worker_was_at_that_dies_is_written_by_another(
    two_machines: Cluster,
    graph: Graph,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fitted, note = fit(graph), tmp_path / "note"
    slices = table_files.write_slice

    def die_once(*given: Any) -> None:
        if not note.exists():
            note.write_text("gone")
            os.kill(os.getpid(), signal.SIGKILL)
        slices(*given)

    monkeypatch.setattr(table_files, "write_slice", die_once)
    found = predict_parts(two_machines, fitted, graph, tmp_path / "out")
    assert note.exists()
    assert_allclose(probabilities(found), fitted.predict_proba(graph), atol=1e-6)


def test_where_no_table_is_written(
    two_machines: Cluster,
    graph: Graph,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fitted, everyone = fit(graph), np.arange(400)

    def planned(
        classifier: NodeClassifier = fitted,
        of: Graph = graph,
        nodes: Any = everyone,
        limit: float | None = None,
    ) -> Any:
        given = (two_machines, classifier, of, nodes, tmp_path / "out", limit)
        return table_files.plan_table_files(*given)

    assert planned().width == 16
    assert planned(limit=1e-4) is None, "a slice must fit"
    (entries,) = table_files._ring_entries([*table_files._columns([fitted])], graph)
    lot = 12 * entries * 130 // 400
    held = table_files.graph_bytes(graph) + 8 * 4 * (800 + 260) + 20 * 400 + lot
    assert entries > 400
    assert planned(limit=(held - 1_000) / 1e9) is None, "and a lot of rings"
    assert planned(limit=(held + 1) / 1e9).width == 8, "a narrower one may"
    assert planned(nodes=everyone[:50]) is None, "few nodes are made alone"
    assert planned(of=make_graph(columns=20, sparse=True)) is None
    assert planned(NodeClassifier("h2gcn-1", epochs=2).fit(graph)) is None
    assert planned(fit(graph, recipe="own+degrees")) is None, "nothing to multiply"

    class Full:
        free = 1000

    monkeypatch.setattr(table_files.shutil, "disk_usage", lambda _: Full)
    assert planned() is None


@pytest.mark.parametrize("cap", [None, 3])
def test_rings_are_read_as_they_were_found(
    cap: int | None, graph: Graph, tmp_path: Path
) -> None:
    files = table_files.TableFiles(str(tmp_path), 400, 8, (), 130)
    maker, drawn = TableMaker(graph, cap, 5), (cap, 5)
    for lot, part in enumerate(files._lots):
        nodes = np.arange(part.start, part.stop)
        files.write_ring(drawn, "ring2", lot, maker.find_rows("ring2", nodes))
    for nodes in (np.arange(400), np.arange(120, 140), np.array([3, 129, 130, 399])):
        found = files.read_ring(drawn, "ring2", nodes, counted=False)
        expected = maker.find_rows("ring2", nodes)
        assert found.rows is not None
        assert expected.rows is not None
        assert_array_equal(found.sizes, expected.sizes)
        assert_array_equal(found.rows.toarray(), expected.rows.toarray())
        counted = files.read_ring(drawn, "ring2", nodes, counted=True)
        assert counted.rows is None
        assert_array_equal(counted.sizes, expected.sizes)


def test_a_file_that_is_damaged_is_told_in_a_line(tmp_path: Path) -> None:
    files = table_files.TableFiles(str(tmp_path / "_table"), 400, 8, (), 130)
    (tmp_path / "_table").mkdir()
    damaged = tmp_path / "_table" / "ring2-all-00000-sizes.npy"
    for content in (b"", b"not an array"):
        damaged.write_bytes(content)
        with pytest.raises(InputError, match=r"sizes.npy: not as a worker .* _table"):
            files.read_ring((None, 5), "ring2", np.arange(5), counted=True)
