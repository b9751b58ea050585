"""Columns whose names look like those of features that others become."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from h2gcn import read_graph
from h2gcn.io import TableOptions, convert, extend_graph
from support.cases import each
from support.refusals import refused

IDS = ["a", "b", "c", "d"]
DAYS = ["2020-01-01", "2020-01-02", "2020-02-01", "2020-03-01"]
EDGES = pa.table({"source": IDS, "target": IDS[1:] + IDS[:1]})


def edges(**columns: Any) -> pa.Table:
    return pa.table(EDGES.to_pydict() | columns)


def nodes(**columns: Any) -> pa.Table:
    return pa.table({"id": IDS, **columns, "label": ["u", "v", "u", "v"]})


NUMBER = nodes(**{"ratio=5x": [1.0, 2, 3, 4], "ratio": ["p", "q", "p", "q"]})
TEXT = nodes(**{"a": ["p", "q", "p", "q"], "a=b": ["x", "y", "x", "y"]})
DATE = nodes(**{"born=on": DAYS, "born": ["p", "q", "p", "q"]})
ALIKE = [
    (NUMBER, TableOptions(categorical=("ratio",)), "'ratio=5x'", "'ratio'"),
    (TEXT, TableOptions(categorical=("a", "a=b")), "'a=b'", "'a'"),
    (
        DATE,
        TableOptions(categorical=("born",), date_features=("born=on",)),
        "'born=on (days)'",
        "'born'",
    ),
]


@each(("table", "options", "one", "other"), ALIKE)
def test_a_column_that_is_called_like_a_category_is_refused(
    table: pa.Table, options: TableOptions, one: str, other: str, tmp_path: Path
) -> None:
    words = f"column {one} is called like a category of column {other}"
    with refused(words=words, where="the node frame", hint="rename one of the two"):
        read_graph(nodes=table, edges=EDGES, options=options)
    files = tmp_path / "nodes.csv", tmp_path / "edges.csv"
    pyarrow.csv.write_csv(table, files[0])
    pyarrow.csv.write_csv(EDGES, files[1])
    with refused(words=words, where=str(files[0])):
        convert(
            folder=tmp_path / "store", nodes=files[0], edges=files[1], options=options
        )


def test_a_column_beside_a_date_of_the_same_name_is_a_number_of_its_own() -> None:
    table = nodes(**{"born": DAYS, "born (raw)": [1.0, 2, 3, 4]})
    options = TableOptions(date_features=("born",))
    graph = read_graph(nodes=table, edges=EDGES, options=options)
    new = pa.table({"id": ["x"], "born": DAYS[:1], "born (raw)": [7.0]})
    row = np.asarray(extend_graph(graph, new).x)[-1]
    assert dict(zip(graph.feature_names, row, strict=True))["born (raw)"] == 7
    np.testing.assert_array_equal(row[1:], np.asarray(graph.x)[0, 1:])


@each("names", [("k", "k=z"), ("k=z", "k")])
def test_of_edge_columns_with_like_categories_one_is_left_out(
    names: tuple[str, str],
) -> None:
    links = edges(**{name: ["p", "q", "p", "q"] for name in names})
    graph = read_graph(nodes=nodes(age=[1, 2, 3, 4]), edges=links)
    assert graph.edge_columns is not None
    assert graph.edge_columns.names == (f"{names[0]}=p", f"{names[0]}=q")
    why = f"its categories could be those of column {names[0]!r}"
    told = f"edge column {names[1]!r} is left out: {why}; rename one of the two"
    assert told in graph.record.notes
    with refused(words=why):
        read_graph(
            nodes=nodes(age=[1, 2, 3, 4]),
            edges=links,
            options=TableOptions(edge_categorical=names),
        )


def test_an_edge_number_beside_a_category_of_edges_is_read() -> None:
    links = edges(kind=["p", "q", "p", "q"], **{"kind=5": [1.0, 2, 3, 4]})
    graph = read_graph(nodes=nodes(age=[1, 2, 3, 4]), edges=links)
    new = {"source": ["x"], "target": ["a"], "kind": ["q"], "kind=5": [9.0]}
    extended = extend_graph(graph, pa.table({"id": ["x"], "age": [5]}), pa.table(new))
    assert extended.edge_columns is not None
    assert extended.edge_columns.values[-1].tolist() == [0, 1, 9]
