"""Conversion of tables: the graph that reading gives, in stages, and each mistake."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from h2gcn import Graph, NodeClassifier
from h2gcn.exceptions import InputError
from h2gcn.io import TableOptions, convert, convert_tables, open_store, read_graph
from h2gcn.io.tables import converting, numbering, pairs
from support.refusals import refused
from support.stores import differing

Columns = dict[str, list[Any]]

NODES: Columns = {
    "id": ["007", "b", "c", "d"],
    "label": ["cat", "", "dog", "cat"],
    "age": [1.5, 2.0, 3.0, 4.0],
    "city": ["Rome", "Oslo", "", "Rome"],
}
EDGES: Columns = {"source": ["007", "b", "b"], "target": ["b", "c", "d"]}


def write(folder: Path, name: str, columns: Columns, suffix: str, parts: int) -> Path:
    """Write a table in some parts; return the folder of it."""
    table = pa.table(columns)
    target = folder / name
    target.mkdir(parents=True, exist_ok=True)
    bounds = np.linspace(0, table.num_rows, parts + 1).astype(int).tolist()
    for part in range(parts):
        rows = table.slice(bounds[part], bounds[part + 1] - bounds[part])
        file = target / f"part-{part}{suffix}"
        if suffix == ".parquet":
            pq.write_table(rows, file)
        else:
            pacsv.write_csv(rows, file)
    return target


def write_both(
    folder: Path,
    nodes: Columns = NODES,
    edges: Columns = EDGES,
    suffix: str = ".parquet",
    parts: int = 2,
) -> Path:
    write(folder, "nodes", nodes, suffix, parts)
    write(folder, "edges", edges, suffix, parts)
    return folder


def whole(folder: Path, nodes: Columns, edges: Columns, suffix: str) -> dict[str, Path]:
    """Write the same tables as one file each."""
    one = write_both(folder / "whole", nodes, edges, suffix, 1)
    return {name: one / name / f"part-0{suffix}" for name in ("nodes", "edges")}


def beside_notes(graph: Graph) -> Graph:
    """Return a graph without what tells files apart: its name, and notes on them."""
    return replace(graph, name="", record=replace(graph.record, notes=()))


# ----------------------------------------------------------------------- the same graph


def ids_of(kind: str, numbers: list[int]) -> list[Any]:
    if kind == "numbers":
        return numbers
    if kind == "far":
        return [number * 10**15 - 7 for number in numbers]
    if kind == "digits":
        return [str(number) for number in numbers]
    if kind == "long":
        return [f"{number} é" * 30 for number in numbers]
    return [f" n{number:03}" for number in numbers]


@st.composite
def tables(draw: Any) -> tuple[Columns, Columns]:
    n = draw(st.integers(1, 9))
    m = draw(st.integers(1, 20))
    kind = draw(st.sampled_from(["numbers", "far", "digits", "long", "text"]))
    known = draw(st.permutations(range(n)))

    def cells(values: Any, count: int) -> list[Any]:
        return draw(st.lists(values, min_size=count, max_size=count))

    floats = st.floats(-1e3, 1e3, width=32)
    empty = draw(st.booleans())
    nodes = {
        "id": ids_of(kind, known),
        "label": cells(st.sampled_from(["x", "y", "10", ""]), n),
        "a": cells(st.none() | floats if empty else floats, n),
        "b": cells(st.integers(-5, 2**40), n),
        "c": cells(st.sampled_from(["red", "blue", ""]), n),
        "d": cells(st.booleans(), n),
        "part": cells(st.sampled_from(["train", "val", "test", ""]), n),
        "when": cells(st.sampled_from(["2024-01-01", "2024-05-06", ""]), n),
    }
    end = st.integers(0, n if draw(st.booleans()) else n - 1)  # one that is unknown
    edges = {
        "source": ids_of(kind, cells(end, m)),
        "target": ids_of(kind, cells(end, m)),
    }
    if draw(st.booleans()):
        edges["weight"] = cells(st.floats(0, 9, width=32), m)
        edges["kind"] = cells(st.sampled_from(["p", "q"]), m)
    return nodes, edges


OPTIONS = st.builds(
    TableOptions,
    feature_columns=st.sampled_from([None, ("a", "b"), ("b",)]),
    categorical=st.sampled_from([(), ("c",), ("c", "part")]),
    drop_unknown=st.booleans(),
    undirected=st.booleans(),
    fill_missing=st.booleans(),
    edge_features=st.sampled_from([None, (), ("weight",)]),
    time_column=st.sampled_from([None, "when"]),
    date_features=st.sampled_from([(), ("when",)]),
)


@given(
    tables(),
    OPTIONS,
    st.sampled_from([".csv", ".parquet"]),
    st.integers(1, 3),
    st.integers(0, 2),
)
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_converting_gives_the_graph_that_reading_gives(
    tmp_path_factory: pytest.TempPathFactory,
    columns: tuple[Columns, Columns],
    options: TableOptions,
    suffix: str,
    parts: int,
    small: int,
) -> None:
    folder = tmp_path_factory.mktemp("tables")
    nodes, edges = columns
    if options.categorical != ("c", "part") and small == 1:
        options = replace(options, split_column="part")
    source = write_both(folder / "many", nodes, edges, suffix, parts)
    with pytest.MonkeyPatch.context() as patch:
        if small:  # blocks of a few rows, and edges in files of a few
            patch.setattr(pairs, "BLOCK", 3)
            patch.setattr(pairs, "WORK", 2**40)
            patch.setattr(converting, "FEW_ROWS", 2)
            patch.setattr(converting, "ROWS", 3)
            patch.setattr(numbering, "BLOCK", 2)
            patch.setattr(numbering, "FEW", 0)
        try:
            expected = read_graph(
                **whole(folder, nodes, edges, suffix), options=options
            )
        except InputError:
            with pytest.raises(InputError):
                convert(source, folder / "store", options=options)
            return
        convert(source, folder / "store", options=options)
    found = open_store(folder / "store", verify=True)
    assert differing(beside_notes(expected), beside_notes(found)) == []
    shutil.rmtree(folder)


def test_notes_are_those_of_reading(tmp_path: Path) -> None:
    nodes = NODES | {"customer_no": [1, 2, 3, 4], "note": ["x", "y", "z", ""]}
    edges = EDGES | {"weight": [1, 2, 3]}
    files = whole(tmp_path, nodes, edges, ".parquet")
    convert(folder=tmp_path / "store", **files)
    notes = read_graph(tmp_path / "store").record.notes
    assert sorted(notes) == sorted(read_graph(**files).record.notes)


def test_wide_and_mostly_empty_features_are_sparse(tmp_path: Path) -> None:
    n = 60
    nodes: Columns = {"id": list(range(n)), "kind": [f"k{i % 40}" for i in range(n)]}
    edges: Columns = {"source": [0, 1], "target": [1, 2]}
    options = TableOptions(categorical=("kind",))
    files = whole(tmp_path, nodes, edges, ".parquet")
    convert(folder=tmp_path / "store", options=options, **files)
    found = read_graph(tmp_path / "store")
    assert not isinstance(found.x, np.ndarray)
    assert differing(read_graph(options=options, **files), found) == []


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_features_may_be_a_file(tmp_path: Path, kind: type) -> None:
    source = write_both(tmp_path)
    x = np.arange(12, dtype=kind).reshape(4, 3)
    np.save(tmp_path / "x.npy", x)
    convert(source, tmp_path / "store", features=tmp_path / "x.npy")
    assert np.array_equal(open_store(tmp_path / "store").x, x)
    x[2, 1] = np.inf
    np.save(tmp_path / "x.npy", x)
    with pytest.raises(InputError, match="got inf in row 2, column 1"):
        convert(source, tmp_path / "other", features=tmp_path / "x.npy")


def test_without_features_they_are_made_of_degrees(tmp_path: Path) -> None:
    nodes = {"id": NODES["id"], "label": NODES["label"]}
    files = whole(tmp_path, nodes, EDGES, ".csv")
    convert(folder=tmp_path / "store", **files)
    found = read_graph(tmp_path / "store")
    assert differing(read_graph(**files), found) == []


def test_edges_that_weigh_and_have_times(tmp_path: Path) -> None:
    edges = EDGES | {"hours": [1, 2, 3], "at": ["2024-01-01", "", "2024-02-01"]}
    options = TableOptions(edge_weight="hours", edge_time_column="at")
    files = whole(tmp_path, NODES, edges, ".csv")
    convert(folder=tmp_path / "store", options=options, **files)
    found = read_graph(tmp_path / "store")
    assert differing(read_graph(options=options, **files), found) == []
    with pytest.raises(InputError, match=": edge_weight must name a column of numbers"):
        convert(
            folder=tmp_path / "other",
            options=TableOptions(edge_weight="at", edge_categorical=("at",)),
            **files,
        )


def test_training_on_the_store_is_training_on_the_tables(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 80
    nodes: Columns = {"id": [f"p{i}" for i in range(n)]}
    nodes |= {"label": [("a", "b", "")[i % 3] for i in range(n)]}
    nodes |= {f"x{j}": rng.normal(size=n).tolist() for j in range(3)}
    ends = rng.integers(0, n, (2, 200))
    edges = {"source": [f"p{i}" for i in ends[0]], "target": [f"p{i}" for i in ends[1]]}
    source = write_both(tmp_path / "many", nodes, edges, ".csv", 3)
    convert(source, tmp_path / "store")
    graphs = (
        read_graph(**whole(tmp_path, nodes, edges, ".csv")),
        read_graph(tmp_path / "store"),
    )
    settings: dict[str, Any] = {"model": "h2gcn-1", "epochs": 10, "random_state": 1}
    shares = [NodeClassifier(**settings).fit(g).predict_proba(g) for g in graphs]
    assert np.array_equal(*shares)


def test_any_source_becomes_a_store(tmp_path: Path) -> None:
    source = write_both(tmp_path, parts=1)
    (source / "nodes" / "part-0.parquet").rename(source / "nodes.parquet")
    (source / "edges" / "part-0.parquet").rename(source / "edges.parquet")
    shutil.rmtree(source / "nodes")
    shutil.rmtree(source / "edges")
    graph = read_graph(source)
    built = convert(source, tmp_path / "a")
    convert(graph, tmp_path / "b")
    assert differing(read_graph(tmp_path / "a"), read_graph(tmp_path / "b")) == []
    assert (built.nodes, built.edges, built.features, built.labelled) == (4, 3, 1, 3)
    with pytest.raises(InputError, match="is a graph store already"):
        convert(graph, tmp_path / "a")
    with pytest.raises(InputError, match="is a graph store already"):
        convert(tmp_path / "a", tmp_path / "c")


def test_a_table_is_a_file_a_folder_a_pattern_or_a_list(tmp_path: Path) -> None:
    source = write_both(tmp_path, parts=3)
    (source / "edges" / "_SUCCESS").touch()
    files = [str(file) for file in sorted((source / "edges").glob("*.parquet"))]
    for number, edges in enumerate(
        (source / "edges", str(source / "edges" / "*.parquet"), ",".join(files))
    ):
        store = tmp_path / f"store {number}"
        assert convert(None, store, nodes=source / "nodes", edges=edges).edges == 3


# ----------------------------------------------------------------------------- resuming


STAGES = ("nodes", "features", "edges", "adjacency")


@pytest.mark.parametrize("stage", STAGES)
def test_what_was_done_is_not_done_again(
    tmp_path: Path, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_both(tmp_path)
    with monkeypatch.context() as patch:
        fail_in(patch, stage)
        with pytest.raises(KeyboardInterrupt):
            convert(source, tmp_path / "store")
    with pytest.raises(InputError, match="not finished"):
        read_graph(tmp_path / "store")
    built = convert(source, tmp_path / "store")
    assert built.resumed == STAGES[: STAGES.index(stage)]
    convert(source, tmp_path / "other")
    other = read_graph(tmp_path / "other")
    assert differing(read_graph(tmp_path / "store"), other) == []
    assert not (tmp_path / "store" / "conversion.json").exists()
    assert not (tmp_path / "store" / "h2gcn-scratch").exists()


def fail_in(patch: pytest.MonkeyPatch, stage: str) -> None:
    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    patch.setattr(f"h2gcn.io.tables.converting._Work._{stage}", fail)


def test_what_was_changed_since_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_both(tmp_path)
    with monkeypatch.context() as patch:
        fail_in(patch, "adjacency")
        with pytest.raises(KeyboardInterrupt):
            convert(source, tmp_path / "store")
    features = tmp_path / "store" / "features.npy"
    features.write_bytes(features.read_bytes()[:-4] + b"harm")
    undirected = TableOptions(undirected=True)
    built = convert(source, tmp_path / "store", options=undirected)
    assert built.resumed == ("nodes",)
    assert open_store(tmp_path / "store").directed is None


def test_a_file_of_somebody_else_survives_a_conversion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, store = write_both(tmp_path), tmp_path / "store"
    with monkeypatch.context() as patch:
        fail_in(patch, "nodes")
        with pytest.raises(KeyboardInterrupt):
            convert(source, store)
    (store / "embeddings.npy").write_text("mine")
    convert(source, store)
    assert (store / "embeddings.npy").read_text() == "mine"


def test_a_graph_is_not_written_over_an_unfinished_conversion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, store = write_both(tmp_path), tmp_path / "store"
    with monkeypatch.context() as patch:
        fail_in(patch, "edges")
        with pytest.raises(KeyboardInterrupt):
            convert(source, store)
    convert(source, tmp_path / "other")
    with pytest.raises(InputError) as told:
        convert(open_store(tmp_path / "other"), store)
    assert (told.value.param, told.value.where) == ("folder", str(store))
    assert convert(source, store).resumed == STAGES[:2]


@pytest.mark.parametrize(
    ("column", "options", "name"),
    [
        ("c=red", {"categorical": ("c",)}, "c=red"),
        ("on (days)", {"date_features": ("on",)}, "on (days)"),
    ],
)
def test_two_features_of_one_name_are_refused(
    tmp_path: Path, column: str, options: dict[str, Any], name: str
) -> None:
    nodes = pa.table(
        {"id": ["a", "b"], column: [1, 2], "c": ["red", "blue"]}
        | {"on": pa.array([0, 1], pa.timestamp("us"))}
    )
    pq.write_table(nodes, tmp_path / "nodes.parquet")
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    for error in refusals(tmp_path, **options):
        assert error.param == next(iter(options))
        assert error.value == name
        assert error.where == str(tmp_path / "nodes.parquet")


def refusals(folder: Path, **options: Any) -> list[InputError]:
    """Return why both readers refuse tables."""
    found = []
    reading = TableOptions(**options)
    for does in (
        lambda: read_graph(folder, options=reading),
        lambda: convert(folder, folder / "store", options=reading),
    ):
        with pytest.raises(InputError) as told:
            does()
        found.append(told.value)
    return found


BIG = 2.0**53


@pytest.mark.parametrize(
    ("name", "column", "values"),
    [
        ("nodes", "id", pa.array([1.0, BIG])),
        ("edges", "source", pa.array([1.0, BIG])),
        ("edges", "target", pa.array([1.0, -BIG])),
        ("edges", "target", pa.array([1.0, 2.0**24], pa.float32())),
    ],
)
@pytest.mark.parametrize("drop", [False, True])
def test_floats_that_cannot_be_ids_are_refused(
    tmp_path: Path, name: str, column: str, values: pa.Array, drop: bool
) -> None:
    large = [1, 2**53, 2**53 + 1, -(2**53), 2**24]
    tables = {
        "nodes": {"id": large, "f": [1] * 5},
        "edges": {"source": large[:2], "target": large[1:3]},
    }
    if name == "nodes":
        tables["nodes"]["f"] = [1] * 2
    tables[name][column] = values
    for stem, columns in tables.items():
        pq.write_table(pa.table(columns), tmp_path / f"{stem}.parquet")
    for error in refusals(tmp_path, drop_unknown=drop):
        assert error.param == f"{column}_column"
        assert error.value == values[1].as_py()
        assert error.where == f"{tmp_path / name}.parquet, row 2"


def test_float_ids_are_text_by_one_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(converting, "FEW_ROWS", 2)
    monkeypatch.setattr(converting, "ROWS", 2)
    ids = [1e15, 2.0, 3.0, 2.5, 1e15 + 1]
    nodes = pa.table({"id": ids, "f": range(5)})
    edges = pa.table({"source": ids, "target": [*ids[1:], ids[0]]})
    pq.write_table(nodes, tmp_path / "nodes.parquet")
    pq.write_table(edges, tmp_path / "edges.parquet", row_group_size=2)
    graph = read_graph(tmp_path)
    texts = ["1000000000000000", "2", "3", "2.5", "1000000000000001"]
    assert graph.node_ids.tolist() == texts
    assert graph.n_edges == 5
    convert(tmp_path, tmp_path / "store")
    assert differing(open_store(tmp_path / "store"), graph) == []
    whole = edges.filter(pa.array([True, True, False, False, True]))
    whole = whole.set_column(1, "target", pa.array([2.0, 3.0, 1e15]))
    pq.write_table(whole, tmp_path / "edges.parquet")
    assert read_graph(tmp_path).n_edges == 3


def test_ids_may_be_floats_of_16_bits(tmp_path: Path) -> None:
    ids = pa.array([1.0, 2.0, 3.5], pa.float16())
    nodes, edges = pa.table({"id": ids, "f": range(3)}), {"source": ids, "target": ids}
    pq.write_table(nodes, tmp_path / "nodes.parquet")
    edges["target"] = pa.array([2.0, 3.5, 1.0], pa.float16())
    pq.write_table(pa.table(edges), tmp_path / "edges.parquet")
    graph = read_graph(tmp_path)
    assert graph.node_ids.tolist() == ["1", "2", "3.5"]
    assert graph.n_edges == 3
    convert(tmp_path, tmp_path / "store")
    assert differing(open_store(tmp_path / "store"), graph) == []
    large = pa.table({"id": pa.array([1.0, 2048.0], pa.float16()), "f": [1, 2]})
    pq.write_table(large, tmp_path / "nodes.parquet")
    with refused(param="id_column", value=2048.0):
        read_graph(tmp_path)


def test_a_conversion_of_other_tables_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_both(tmp_path)
    with monkeypatch.context() as patch:
        fail_in(patch, "edges")
        with pytest.raises(KeyboardInterrupt):
            convert(source, tmp_path / "store")
    other = write_both(tmp_path / "other")
    with pytest.raises(InputError, match="a conversion of other tables"):
        convert(other, tmp_path / "store")


@pytest.mark.slow
def test_a_conversion_that_was_killed_goes_on(tmp_path: Path) -> None:
    source = write_both(tmp_path)
    kill = (
        "import os, signal\n"
        "from h2gcn.io.tables import converting\n"
        "from h2gcn.io import convert\n"
        "def die(*_, **__): os.kill(os.getpid(), signal.SIGKILL)\n"
        "converting.write_adjacency = die\n"
        f"convert({str(source)!r}, {str(tmp_path / 'store')!r})\n"
    )
    ended = subprocess.run([sys.executable, "-c", kill], check=False, env=os.environ)
    assert ended.returncode < 0
    assert (tmp_path / "store" / "h2gcn-scratch").is_dir()
    assert convert(source, tmp_path / "store").resumed == STAGES[:3]
    assert not (tmp_path / "store" / "h2gcn-scratch").exists()


# ----------------------------------------------------------------------------- mistakes


def refusal(folder: Path, **more: Any) -> str:
    """Return the words by which a conversion is refused; nothing is left of it."""
    store = folder / "store"
    options = {
        n: more.pop(n) for n in list(more) if n not in ("scratch", "memory_limit")
    }
    with pytest.raises(InputError) as told:
        convert(folder, store, options=TableOptions(**options), **more)
    assert "\n" not in str(told.value)
    return str(told.value)


@pytest.mark.parametrize("table", ["nodes", "edges"])
def test_ids_of_two_types_are_refused(tmp_path: Path, table: str) -> None:
    edges: Columns = {"source": [1, 2], "target": [2, 3]}
    write_both(tmp_path, {"id": [1, 2, 3, 4], "x": [1, 2, 3, 4]}, edges, parts=1)
    column = "id" if table == "nodes" else "source"
    other = {"id": ["5"], "x": [5]} if table == "nodes" else {"source": ["1"]}
    if table == "edges":
        other["target"] = [4]
    pq.write_table(pa.table(other), tmp_path / table / "part-1.parquet")
    words = f"part-1.parquet: column '{column}' holds text, but in part-0.parquet it"
    assert words in refusal(tmp_path)
    assert not (tmp_path / "store").exists()


def test_ids_of_nodes_and_of_edges_are_of_one_type(tmp_path: Path) -> None:
    write_both(tmp_path, {"id": [1, 2], "x": [1, 2]}, {"u": ["1"], "v": ["2"]}, parts=1)
    assert "column 'u' holds text, but the ids of the nodes" in refusal(tmp_path)


def test_a_part_that_is_missing_is_told(tmp_path: Path) -> None:
    write_both(tmp_path)
    for number in (0, 1):
        file = tmp_path / "edges" / f"part-{number}.parquet"
        file.rename(file.with_name(f"part-{number}-of-3.parquet"))
    assert "part-2-of-3.parquet: this part is missing" in refusal(tmp_path)
    with pytest.raises(InputError, match="there is no such file"):
        convert_tables(tmp_path / "nodes", tmp_path / "x.csv", tmp_path / "store")
    with pytest.raises(InputError, match="no file has a name of this pattern"):
        convert_tables(tmp_path / "nodes", f"{tmp_path}/x-*.csv", tmp_path / "store")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no part of a table is in this folder"):
        convert_tables(tmp_path / "nodes", tmp_path / "empty", tmp_path / "store")


def test_parts_that_do_not_fit_together_are_told(tmp_path: Path) -> None:
    write_both(tmp_path)
    pq.write_table(pa.table({"source": ["b"]}), tmp_path / "edges" / "part-9.parquet")
    assert "part-9.parquet: lacks the column 'target'" in refusal(tmp_path)
    (tmp_path / "edges" / "part-9.parquet").unlink()
    (tmp_path / "edges" / "part-9.csv").write_text("source,target\nb,c\n")
    assert "must be files of one kind" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("nodes", "edges", "words"),
    [
        ({"id": ["a", "b", "a", "d"]}, {}, "the node id 'a' is there twice, at row 1 "),
        ({"id": [3, 4, 5, 3]}, {}, "the node id '3' is there twice"),
        ({"id": ["a", " a", "c", "d"]}, {}, "differ only by blanks around them"),
        ({"id": ["a", "", "c", "d"]}, {}, "the id (column 'id') is empty at row 2 of"),
        ({"id": [1, None, 2, 3]}, {}, "the id (column 'id') is empty at row 2 of"),
        ({"age": [1.0, None, 2, 3]}, {}, "got a missing value at row 2 of part-0"),
        ({}, {"source": ["b", "z", "b"]}, "row 1 of part-1.parquet names node 'z'"),
        ({}, {"source": ["b", "b ", "b"]}, "differs from the node 'b' only by blanks"),
        ({}, {"source": ["b", "", "b"]}, "column 'source' is empty at row 1 of part-1"),
    ],
)
def test_mistakes_in_tables_are_told_and_nothing_is_left_of_the_nodes(
    tmp_path: Path, nodes: Columns, edges: Columns, words: str
) -> None:
    write_both(tmp_path, NODES | nodes, EDGES | edges)
    if nodes and "id" in nodes and isinstance(nodes["id"][0], int):
        (tmp_path / "nodes").rename(tmp_path / "n")
        write_both(tmp_path, NODES | nodes, {"source": [3], "target": [4]}, parts=2)
    assert words in refusal(tmp_path)
    assert (tmp_path / "store").exists() == bool(edges)


def test_what_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    write_both(tmp_path)
    cut = {"time_column": "age", "test_after": 2.0}
    assert "test_after is for training on tables" in refusal(tmp_path, **cut)
    shutil.rmtree(tmp_path / "edges")
    write(tmp_path, "edges", {"x": ["b"], "y": ["c"], "z": ["d"]}, ".csv", 1)
    assert "source_column=… and target_column=… name them" in refusal(tmp_path)


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    write_both(tmp_path)
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "thesis.txt").write_text("mine")
    assert "holds other files" in refusal(tmp_path)
    assert [file.name for file in (tmp_path / "store").iterdir()] == ["thesis.txt"]


def test_space_is_forecast_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_both(tmp_path)
    usage = shutil.disk_usage(tmp_path)._replace(free=100)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert "of scratch space, and 100 bytes are free there" in refusal(tmp_path)
    assert not (tmp_path / "store").exists()


def test_memory_is_forecast_too(tmp_path: Path) -> None:
    write_both(tmp_path)
    told = refusal(tmp_path, memory_limit=0.01)
    assert "memory_limit=0.01 is too little for 4 nodes and 3 edges: about" in told
    assert "no such folder for scratch" in refusal(tmp_path, scratch=tmp_path / "no")


def test_scratch_may_be_elsewhere_and_is_left_empty(tmp_path: Path) -> None:
    source = write_both(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    convert(source, tmp_path / "store", scratch=tmp_path / "elsewhere")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_text_wants_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_both(tmp_path)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert "duckdb is needed: pip install 'h2gcn[sql]'" in refusal(tmp_path)


def test_a_damaged_state_is_told(tmp_path: Path) -> None:
    write_both(tmp_path)
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "conversion.json").write_text(json.dumps({"format": "x"}))
    assert "is not that of a conversion" in refusal(tmp_path)
