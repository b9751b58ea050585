"""Frames of other libraries as tables: read as files are, with the same words."""

from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from h2gcn import Graph, NodeClassifier
from h2gcn.exceptions import InputError
from h2gcn.io import TableOptions, read_graph, read_tables, write_tables
from h2gcn.sparse import limit_memory
from support.refusals import refused

NODES: dict[str, list[Any]] = {
    "id": ["007", "b", "c"],
    "label": ["cat", None, "dog"],
    "age": [1.5, 2.0, 3.0],
    "city": ["Rome", "Oslo", None],
    "adult": [False, True, True],
    "born": [date(2024, 1, 1), date(2023, 1, 1), None],
}
EDGES: dict[str, list[Any]] = {"source": ["007", "b"], "target": ["b", "c"]}


def as_pyarrow(columns: dict[str, list[Any]]) -> Any:
    return pa.table(columns)


def as_reader(columns: dict[str, list[Any]]) -> Any:
    return pa.table(columns).to_reader(max_chunksize=2)


def as_pandas(columns: dict[str, list[Any]]) -> Any:
    return pytest.importorskip("pandas", "2.2").DataFrame(columns)


def as_polars(columns: dict[str, list[Any]]) -> Any:
    return pytest.importorskip("polars").DataFrame(columns)


def as_duckdb(columns: dict[str, list[Any]]) -> Any:
    return pytest.importorskip("duckdb").from_arrow(pa.table(columns))


LIBRARIES = [as_pyarrow, as_reader, as_pandas, as_polars, as_duckdb]
Make = Callable[[dict[str, list[Any]]], Any]


@pytest.mark.parametrize("make", LIBRARIES)
def test_a_frame_of_any_library_is_read_as_a_file_is(make: Make) -> None:
    graph = read_graph(nodes=make(NODES), edges=make(EDGES))
    assert graph.name == "graph"
    assert graph.node_ids.tolist() == ["007", "b", "c"]
    assert graph.classes.tolist() == ["cat", "dog"]
    assert graph.y.tolist() == [0, -1, 1]
    assert graph.feature_names == ("age", "adult")
    assert graph.x.tolist() == [[1.5, 0], [2, 1], [3, 1]]
    assert graph.adj.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert graph.record.id_column == "id"
    assert graph.record.notes == (
        "column 'city' holds text and is not used; categorical=['city'] one-hot "
        "encodes it",
        "column 'born' holds dates or times and is not used; date_features=['born'] "
        "makes numbers of it",
    )


@pytest.mark.parametrize("make", LIBRARIES)
def test_text_of_any_library_can_be_categories(make: Make) -> None:
    options = TableOptions(categorical=("city",))
    graph = read_tables(make(NODES), make(EDGES), options)
    assert graph.feature_names[2:] == ("city=(missing)", "city=Oslo", "city=Rome")
    assert graph.x[:, 2:].tolist() == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
    assert graph.record.notes[-1] == (
        "1 empty cell is a category of its own, (missing), of 'city' (1)"
    )


def test_a_frame_beside_a_file(tmp_path: Path) -> None:
    (tmp_path / "links.csv").write_text("source,target\n007,b\nb,c\n")
    graph = read_graph(nodes=pa.table(NODES), edges=tmp_path / "links.csv")
    assert graph.n_edges == 2


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (pa.array([1, 2, None], pa.int8()), None),
        (pa.array([1, 2, 3], pa.uint64()), [1, 2, 3]),
        (pa.array([1.5, 2.5, 3.5], pa.float16()), [1.5, 2.5, 3.5]),
        (pa.array([True, False, True]), [1, 0, 1]),
        (pa.array([Decimal("1.25"), Decimal(2), Decimal(-3)]), [1.25, 2, -3]),
        (pa.array([1.0, float("nan"), 3.0]), None),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_numbers_of_every_type(cells: pa.Array, expected: list[float] | None) -> None:
    nodes = pa.table({"id": ["007", "b", "c"], "x": cells})
    if expected is not None:
        graph = read_graph(nodes=nodes, edges=pa.table(EDGES))
        assert graph.x[:, 0].tolist() == expected
        return
    with pytest.raises(InputError, match="the node frame: column 'x' must hold a fin"):
        read_graph(nodes=nodes, edges=pa.table(EDGES))
    filled = read_graph(
        nodes=nodes, edges=pa.table(EDGES), options=TableOptions(fill_missing=True)
    )
    assert np.isfinite(filled.x).all()


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.string(), pa.large_string(), pa.string_view()),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.uint32(), pa.large_string()),
    ],
    ids=str,
)
def test_text_of_every_type_is_ids_labels_and_ends(kind: pa.DataType) -> None:
    def text(cells: list[str | None]) -> pa.Array:
        plain = pa.array(cells, pa.string())
        if pa.types.is_dictionary(kind):
            return plain.dictionary_encode().cast(kind)
        return plain.cast(kind)

    nodes = pa.table(
        {"id": text(["007", "b", "c"]), "label": text(["x", None, ""]), "f": [1, 2, 3]}
    )
    edges = pa.table({n: text(cells) for n, cells in EDGES.items()})
    graph = read_graph(nodes=nodes, edges=edges)
    assert graph.node_ids.tolist() == ["007", "b", "c"]
    assert graph.y.tolist() == [0, -1, -1]
    assert graph.n_edges == 2


def test_numbers_may_be_ids_and_labels() -> None:
    nodes = pa.table({"id": [3, 1, 2], "y": [10.0, None, 9.0], "f": [0.0, 1.0, 2.0]})
    edges = pa.table({"source": [1.0, 2.0], "target": [3, 1]})
    graph = read_graph(nodes=nodes, edges=edges)
    assert graph.node_ids.tolist() == ["3", "1", "2"]
    assert graph.classes.tolist() == [9, 10]
    assert graph.y.tolist() == [1, -1, 0]
    assert graph.n_edges == 2


def test_uuids_are_ids_as_they_are_written() -> None:
    if not hasattr(pa, "uuid"):
        pytest.skip("left out: this pyarrow has no type for UUIDs")
    ids = [UUID(int=1), UUID(int=2)]
    cells = pa.array([one.bytes for one in ids], pa.uuid())
    nodes = pa.table({"id": cells, "f": [1, 2]})
    edges = pa.table({"source": [str(ids[0])], "target": [str(ids[1])]})
    graph = read_graph(nodes=nodes, edges=edges)
    assert graph.node_ids.tolist() == [str(one) for one in ids]
    assert graph.n_edges == 1


# ------------------------------------------------------------- categorical types


def plans(values: list[Any]) -> pa.Table:
    cells = pa.array(values).dictionary_encode()
    return pa.table({"id": ["007", "b", "c"], "age": [1, 2, 3], "plan": cells})


@pytest.mark.parametrize("values", [["gold", "basic", "gold"], [7, 3, 7]])
def test_a_categorical_type_makes_categories(values: list[Any]) -> None:
    graph = read_graph(nodes=plans(values), edges=pa.table(EDGES))
    low, high = sorted(set(map(str, values)))
    assert graph.feature_names == ("age", f"plan={low}", f"plan={high}")
    assert graph.x[:, 1:].tolist() == [[0, 1], [1, 0], [0, 1]]
    assert graph.record.notes == (
        "column 'plan' is one-hot encoded, being of a categorical type",
        "the node frame has no label column: no node is labelled",
    )
    # A table without such types is read alike by what the graph remembers.
    options = TableOptions.from_json(graph.record.tables)
    assert options.categorical == ("plan",)
    columns = {"id": ["007", "b", "c"], "age": [1, 2, 3], "plan": values}
    plain = pa.table(columns)
    again = read_graph(nodes=plain, edges=pa.table(EDGES), options=options)
    assert again.feature_names == graph.feature_names
    assert again.x.tolist() == graph.x.tolist()
    assert again.record.notes == graph.record.notes[1:]


def test_a_categorical_type_of_many_values_is_text() -> None:
    count = 60
    names = [f"n{i}" for i in range(count)]
    nodes = pa.table(
        {
            "id": pa.array(names).dictionary_encode(),
            "f": list(range(count)),
            "street": pa.array(names).dictionary_encode(),
        }
    )
    edges = pa.table({"source": names[1:], "target": names[:-1]})
    graph = read_graph(nodes=nodes, edges=edges)
    assert graph.feature_names == ("f",)
    assert "column 'street' holds text and is not used" in graph.record.notes[0]


def test_features_that_are_named_are_the_only_ones() -> None:
    options = TableOptions(feature_columns=("age",))
    nodes = plans(["gold", "basic", "gold"])
    assert read_graph(
        nodes=nodes, edges=pa.table(EDGES), options=options
    ).feature_names == ("age",)


@pytest.mark.parametrize("make", [as_pandas, as_polars])
def test_categorical_columns_of_libraries(make: Make) -> None:
    frame = make({"id": ["007", "b", "c"], "plan": ["x", "y", None]})
    if make is as_pandas:
        frame["plan"] = frame["plan"].astype("category")
    else:
        polars = pytest.importorskip("polars")
        frame = frame.with_columns(polars.col("plan").cast(polars.Categorical))
    graph = read_graph(nodes=frame, edges=pa.table(EDGES))
    assert graph.feature_names == ("plan=(missing)", "plan=x", "plan=y")
    assert graph.x.tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]


# --------------------------------------------------------------- pandas' index


def people(index: Any) -> Any:
    pandas = pytest.importorskip("pandas", "2.2")
    return pandas.DataFrame({"age": [1, 2, 3]}, index=index)


def test_an_index_is_ids_on_request() -> None:
    pandas = pytest.importorskip("pandas", "2.2")
    asked = TableOptions(id_column="__index__")
    edges = pa.table(EDGES)
    graph = read_graph(nodes=people(["007", "b", "c"]), edges=edges, options=asked)
    assert graph.node_ids.tolist() == ["007", "b", "c"]
    assert graph.feature_names == ("age",)
    assert graph.record.id_column is None
    assert graph.record.notes == (
        "the node frame has no label column: no node is labelled",
    )
    # One with a name keeps it, and may be asked for by it.
    named = people(pandas.Index(["007", "b", "c"], name="person"))
    for options in (asked, TableOptions(id_column="person")):
        graph = read_graph(nodes=named, edges=edges, options=options)
        assert graph.node_ids.tolist() == ["007", "b", "c"]
        assert graph.record.id_column == "person"
        assert graph.feature_names == ("age",)
    # One that numbers the rows is not stored by pandas.
    numbers = pa.table({"source": [10, 12], "target": [12, 14]})
    graph = read_graph(
        nodes=people(pandas.RangeIndex(10, 16, 2)), edges=numbers, options=asked
    )
    assert graph.node_ids.tolist() == ["10", "12", "14"]


def test_an_index_is_no_feature_and_no_edge_column() -> None:
    pandas = pytest.importorskip("pandas", "2.2")
    nodes = people(pandas.Index([5, 6, 7], name="position"))
    nodes["id"] = ["007", "b", "c"]
    edges = pandas.DataFrame(EDGES, index=pandas.Index([0.5, 1.5], name="w"))
    graph = read_graph(nodes=nodes, edges=edges)
    assert graph.feature_names == ("age",)
    assert graph.edge_columns is None
    named = people(pandas.Index(["007", "b", "c"], name="id"))
    assert read_graph(nodes=named, edges=edges).node_ids.tolist() == ["007", "b", "c"]


def test_an_index_that_cannot_be_ids() -> None:
    pandas = pytest.importorskip("pandas", "2.2")
    edges = pa.table(EDGES)
    asked = TableOptions(id_column="__index__")
    with pytest.raises(
        InputError,
        match=r"the node frame: no column of node ids .* Columns: 'age'\. "
        r"id_column='__index__' takes the index\.",
    ):
        read_graph(nodes=people(["007", "b", "c"]), edges=edges)
    pairs = pandas.MultiIndex.from_tuples([(1, "a"), (1, "b"), (2, "a")])
    for nodes, have in ((people(pairs), "one of 2 columns"), (pa.table(NODES), "none")):
        with pytest.raises(InputError, match=f"an index of one column. It has {have}"):
            read_graph(nodes=nodes, edges=edges, options=asked)
    with pytest.raises(
        InputError, match=r"the node id 'b' is there twice, at row 2 an"
    ):
        read_graph(nodes=people(["a", "b", "b"]), edges=edges, options=asked)


# ------------------------------------------------------------------- mistakes


def test_mistakes_in_frames_name_the_frame_and_the_row() -> None:
    nodes = pa.table({"id": ["a", "b", "b"], "x": ["1", "2", "?"]})
    edges = pa.table({"source": ["a", "1.0"], "target": ["", "b"], "w": [1.0, None]})
    options = TableOptions(edge_features=("w",))
    with pytest.raises(InputError) as caught:
        read_graph(nodes=nodes, edges=edges, options=options)
    assert str(caught.value) == (
        "the node frame: the node id 'b' is there twice, at row 2 and row 3; "
        "the node frame: column 'x' holds numbers, but '?' at row 3; mend it, or make "
        "it a category with categorical=['x']; "
        "the edge frame: column 'target' is empty at row 1; "
        "the edge frame: row 2 names node '1.0' (column 'source'), which is not in the "
        "node frame; drop_unknown=True leaves such edges out; "
        "the edge frame: the edge column 'w' cannot be used: 1 cell has no number, "
        "first at row 2; fill_missing=True puts the median of the column there."
    )


def test_numbers_that_are_stored_as_text_are_called_so() -> None:
    nodes = pa.table({"id": ["007", "b", "c"], "x": ["1", None, "2.5"]})
    graph = read_graph(nodes=nodes, edges=pa.table(EDGES))
    assert graph.record.notes[0] == (
        "column 'x' holds numbers that are stored as text and is not used; "
        "categorical=['x'] one-hot encodes it"
    )


def test_a_whole_number_that_is_written_otherwise_is_hinted_at() -> None:
    nodes = pa.table({"id": ["1", "2"], "f": [0, 1]})
    edges = pa.table({"source": ["1.0"], "target": ["2"]})
    with pytest.raises(InputError, match=r"'1\.0' differs from the node '1' only in"):
        read_graph(nodes=nodes, edges=edges)


def test_frames_without_rows_and_columns() -> None:
    empty = pa.table({"id": pa.array([], pa.string())})
    with pytest.raises(InputError, match="the node frame: the table has no rows, so"):
        read_graph(nodes=empty, edges=pa.table(EDGES))
    none = pa.table({"source": pa.array([]), "target": pa.array([])})
    with pytest.raises(InputError, match="the edge frame: the table has no edges"):
        read_graph(nodes=pa.table(NODES), edges=none)
    with pytest.raises(InputError, match="two columns, source and target"):
        read_graph(nodes=pa.table(NODES), edges=pa.table({}))


class Broken:
    """A frame of a library that fails."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise RuntimeError("out of\nluck")


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (Broken(), r"the node frame: the table cannot be read \(out of luck\)\."),
        (
            pa.chunked_array([[1]]),
            r"the node frame: the table cannot be read \(.*int64",
        ),
        (
            pa.table([[1], [2]], names=["id", " id"]),
            "the node frame: two columns are called 'id'",
        ),
        ({"id": [1]}, "^nodes must be a path, a query, a"),
    ],
)
def test_what_is_no_table(frame: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_graph(nodes=frame, edges=pa.table(EDGES))


def test_one_frame_is_no_graph() -> None:
    with pytest.raises(InputError, match=r"A frame is one table, and a graph is two"):
        read_graph(pa.table(NODES))
    with refused(param="edges", words="is missing"):
        read_graph(nodes=pa.table(NODES))


def test_a_stream_is_read_no_further_than_memory_goes() -> None:
    schema = pa.schema({"id": pa.int64(), "f": pa.float64()})
    given = 0

    def rows() -> Iterator[pa.RecordBatch]:
        nonlocal given
        while True:
            given += 1
            cells = [np.arange(1000), np.ones(1000)]
            yield pa.record_batch(cells, schema=schema)

    endless = pa.RecordBatchReader.from_batches(schema, rows())
    with (
        limit_memory(0.002),
        pytest.raises(InputError, match=r"frame: its first 18,000 rows would take abo"),
    ):
        read_graph(nodes=endless, edges=pa.table(EDGES))
    assert given <= 19


# -------------------------------------------------------------- and back again


def test_predictions_are_a_table_as_the_command_writes_it(
    small_graph: Graph, tmp_path: Path
) -> None:
    write_tables(small_graph, tmp_path / "g")
    text = (tmp_path / "g" / "nodes.csv").read_text()
    (tmp_path / "g" / "nodes.csv").write_text(text.replace("id,", "Customer,", 1))
    graph = read_graph(tmp_path / "g", options=TableOptions(id_column="Customer"))
    fitted = NodeClassifier("mlp", epochs=5, random_state=0).fit(graph)
    nodes = [3, 1]
    table = fitted.predict_table(graph, nodes)
    assert table.column_names == ["Customer", "label", "p_0", "p_1"]
    assert table["Customer"].to_pylist() == graph.node_ids[nodes].tolist()
    assert table["label"].to_pylist() == fitted.predict(graph, nodes).tolist()
    shares = np.stack([table[name].to_numpy() for name in ("p_0", "p_1")], axis=1)
    assert np.array_equal(shares, fitted.predict_proba(graph, nodes))
    assert fitted.predict_table(graph).num_rows == graph.n_nodes
    rule = fitted.decide("top", k=1, label=1)
    chosen = fitted.predict_table(graph, decision=rule)
    assert pc.sum(pc.equal(chosen["label"], 1)).as_py() == 1
    with pytest.raises(InputError, match=r"^decision must"):
        fitted.predict_table(graph, decision="macro_f1")  # type: ignore[arg-type]
    # A graph that was not read has no name for its ids.
    assert fitted.predict_table(small_graph).column_names[0] == "node"
