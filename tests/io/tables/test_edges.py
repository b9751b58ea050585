"""What an edge table holds beside the ends: taken, left out aloud, or refused."""

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from h2gcn.exceptions import InputError
from h2gcn.graph import EdgeColumns, Graph, edge_aggregates
from h2gcn.io import TableOptions, read_graph, read_tables
from h2gcn.io.tables import edges as room
from support.stores import differing

NODES = "id,f\na,1\nb,2\nc,3\n"
PAYMENTS = (
    "from,to,amount,kind,day\n"
    "a,b,10,wire,2024-01-01\n"
    "a,b,2.5,card,2024-01-02\n"
    "b,a,-4,,2024-01-03\n"
    "c,c,7,cash,2024-01-04\n"
    "c,a,1,wire,2024-01-05\n"
)
KEPT = "kept for models that use what edges carry"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    target = tmp_path / "payments"
    target.mkdir()
    (target / "nodes.csv").write_text(NODES)
    return target


def read(folder: Path, edges: str = PAYMENTS, **options: Any) -> Graph:
    (folder / "edges.csv").write_text(edges)
    return read_graph(folder, options=TableOptions(**options))


def carried(graph: Graph) -> EdgeColumns:
    assert graph.edge_columns is not None
    return graph.edge_columns


def column(cells: list[str], name: str = "x") -> str:
    """Return an edge table of a → b with one more column."""
    return f"source,target,{name}\n" + "".join(f"a,b,{cell}\n" for cell in cells)


def test_every_row_is_kept_with_what_it_carries(folder: Path) -> None:
    graph = read(folder)
    found = carried(graph)
    # The loop is left out, the pair that is there twice is not; directions are kept.
    assert found.source.tolist() == [0, 0, 1, 2]
    assert found.target.tolist() == [1, 1, 0, 0]
    assert found.names == ("amount", "kind=(missing)", "kind=card", "kind=wire")
    assert found.categories == found.names[1:]
    assert found.directed
    assert found.values.tolist() == [
        [10, 0, 0, 1],
        [2.5, 0, 1, 0],
        [-4, 1, 0, 0],
        [1, 0, 0, 1],
    ]
    assert graph.record.notes[-3:] == (
        f"edge columns 'amount', 'kind' (3 categories) are {KEPT}",
        "edge column 'day' is left out: it holds dates or times",
        "of the edges, 1 empty cell is a category of its own, (missing), of 'kind' (1)",
    )
    names, values = edge_aggregates(found, graph.n_nodes)
    assert values[0, names.index("mean of amount over outgoing edges")] == 6.25
    assert values[0, names.index("share of kind=wire among incoming edges")] == 0.5


def test_edges_without_a_direction(folder: Path) -> None:
    graph = read(folder, undirected=True)
    assert not carried(graph).directed
    assert carried(graph).source.tolist() == [0, 0, 1, 2]


def test_edges_that_carry_nothing(folder: Path) -> None:
    assert read(folder, "source,target\na,b\nb,a\nb,c\nc,c\nc,c\n").edge_columns is None
    assert read(folder, "u,v\na,b\nb,c\n", undirected=True).edge_columns is None
    # How often a pair is there is not lost.
    for options, edges in (({}, "a,b\na,b"), ({"undirected": True}, "a,b\nb,a")):
        found = carried(read(folder, f"source,target\n{edges}\nb,c\n", **options))
        assert found.values.shape == (3, 0)
        assert found.names == ()
    twice = "source,target\na,b\na,b\n"
    assert read(folder, twice, edge_features=()).edge_columns is None


def test_edges_to_unknown_nodes_carry_nothing(folder: Path) -> None:
    edges = "source,target,w\na,b,1\na,z,\nc,b,3\n"
    found = carried(read(folder, edges, drop_unknown=True))
    assert found.values.tolist() == [[1], [3]]
    assert found.source.tolist() == [0, 2]


def test_columns_by_name(folder: Path) -> None:
    graph = read(folder, edge_features=("kind",))
    assert carried(graph).names == ("kind=(missing)", "kind=card", "kind=wire")
    assert "columns 'amount', 'day' of edges.csv are not used" in graph.record.notes
    graph = read(folder, edge_features=["kind, amount"])
    assert carried(graph).names[-1] == "amount"
    assert "column 'day' of edges.csv is not used" in graph.record.notes
    graph = read(folder, edge_features=())
    assert graph.edge_columns is None
    text = "columns 'amount', 'kind', 'day' of edges.csv are not used"
    assert graph.record.notes[-1] == text


def test_numbers_as_categories(folder: Path) -> None:
    edges = "source,target,code,w\na,b,7,1\na,c,10,2\nb,c,7,3\n"
    found = carried(read(folder, edges, edge_categorical=("code",)))
    assert found.names == ("code=10", "code=7", "w")
    assert found.categories == ("code=10", "code=7")
    assert found.values.tolist() == [[0, 1, 1], [1, 0, 2], [0, 1, 3]]
    found = carried(read(folder, edges, edge_features=(), edge_categorical=("code",)))
    assert found.names == ("code=10", "code=7")
    found = carried(read(folder, edges, edge_features=["w"], edge_categorical=["code"]))
    assert found.names == ("w", "code=10", "code=7")


def test_a_number_with_the_sign_of_categories_in_its_name(folder: Path) -> None:
    found = carried(read(folder, column(["3", "4"], "a=b")))
    assert (found.names, found.categories) == (("a=b",), ())


UNUSABLE = {
    "dates": (["2024-01-01", "2024-01-02"], "it holds dates or times", "", ""),
    "nothing": (["", ""], "it holds nothing", "", ""),
    "a missing number": (
        ["1", "", ""],
        "2 cells have no number",
        ", first at line 3",
        "; fill_missing=True puts the median of the column there",
    ),
    "one missing number": (
        ["1", "2", ""],
        "1 cell has no number",
        ", first at line 4",
        "; fill_missing=True puts the median of the column there",
    ),
    "infinity": (
        ["1", "inf"],
        "it holds inf, no finite number of 32 bits",
        ", first at line 3",
        "",
    ),
    "too large": (
        ["1", "1e300"],
        "it holds 1e+300, no finite number of 32 bits",
        ", first at line 3",
        "",
    ),
    "a slip": (
        ["1", "2", "n. a."],
        "it holds numbers, but 'n. a.'",
        ", first at line 4",
        "; edge_categorical=['x'] makes categories of it",
    ),
    "many texts": (
        [f"t{i}" for i in range(51)],
        "it has 51 different values, and at most 50 can be categories",
        "",
        "",
    ),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_a_column_that_cannot_be_used(folder: Path, case: str) -> None:
    cells, why, where, remedy = UNUSABLE[case]
    graph = read(folder, column(cells))
    note = f"edge column 'x' is left out: {why}{remedy}"
    assert [text for text in graph.record.notes if "edge column" in text] == [note]
    assert carried(graph).names == (), "the rows are counted all the same"
    with pytest.raises(InputError) as refused:
        read(folder, column(cells), edge_features=("x",))
    file = folder / "edges.csv"
    assert str(refused.value) == (
        f"{file}: the edge column 'x' cannot be used: {why}{where}{remedy}."
    )


def test_fifty_texts_are_categories(folder: Path) -> None:
    graph = read(folder, column([f"t{i}" for i in range(50)]))
    assert len(carried(graph).names) == 50
    assert graph.record.notes[-1] == f"edge column 'x' (50 categories) is {KEPT}"


def test_a_slip_may_be_a_category(folder: Path) -> None:
    graph = read(folder, column(["1", "2", "n. a."]), edge_categorical=("x",))
    assert carried(graph).names == ("x=1", "x=2", "x=n. a.")


def test_the_line_of_a_cell_counts_rows_that_are_left_out(folder: Path) -> None:
    edges = "source,target,w\na,b,1\nc,c,1\nz,b,1\na,c,\n"
    with pytest.raises(InputError, match="1 cell has no number, first at line 5; fill"):
        read(folder, edges, drop_unknown=True, edge_features=("w",))


def test_numbers_of_rows_are_left_out(folder: Path) -> None:
    numbers = [str(i) for i in range(room.ROW_NUMBERS)]
    graph = read(folder, column(numbers))
    assert carried(graph).names == ()
    note = "edge column 'x' is left out: it numbers the rows"
    assert graph.record.notes[-1] == note
    assert carried(read(folder, column(numbers[:-1]))).names == ("x",)
    assert carried(read(folder, column(numbers[::-1]))).names == ("x",)
    assert carried(read(folder, column(numbers), edge_features=("x",))).names == ("x",)


def test_missing_numbers_are_filled_where_that_is_asked(folder: Path) -> None:
    edges = "source,target,w,all\na,b,1,1\na,c,,1\nb,c,5,1\nc,c,99,1\n"
    graph = read(folder, edges, fill_missing=True)
    assert carried(graph).values[:, 0].tolist() == [1, 3, 5]
    note = "of the edges, 1 empty cell filled, of 'w' (1)"
    assert graph.record.notes[-1] == note
    kept = TableOptions.from_json(graph.record.tables)
    assert kept.edge_fill_values == {"w": 3.0, "all": 1.0}
    assert kept.fill_values == {"f": 2.0}
    # Another table is read alike, also where it has no number at all.
    (folder / "edges.csv").write_text("source,target,w,all\na,b,,8\nb,c,,9\n")
    again = read_graph(folder, options=kept)
    assert carried(again).values.tolist() == [[3, 8], [3, 9]]
    assert TableOptions.from_json(again.record.tables) == kept


def test_medians_stay_where_nothing_is_filled(folder: Path) -> None:
    graph = read(folder, column(["1", "2"]), edge_fill_values={"x": 7.0})
    assert graph.record.tables["edge_fill_values"] == {"x": 7.0}
    assert carried(graph).values.tolist() == [[1], [2]]


def test_a_table_of_loops_carries_nothing(folder: Path) -> None:
    graph = read(folder, "source,target,w\na,a,1\nb,b,2\n")
    assert graph.edge_columns is None
    assert graph.record.loops_dropped == 2


def test_a_column_of_both_tables_has_a_median_in_each(folder: Path) -> None:
    (folder / "nodes.csv").write_text("id,w\na,100\nb,\nc,300\n")
    graph = read(folder, "source,target,w\na,b,1\na,c,\nb,c,3\n", fill_missing=True)
    assert graph.x[:, 0].tolist() == [100, 200, 300]
    assert carried(graph).values[:, 0].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"edge_features": ("amuont",)}, "no column 'amuont'. Did you mean 'amount'?"),
        ({"edge_categorical": ("kind,sort",)}, "there is no column 'sort'."),
        (
            {"edge_features": ("to",)},
            "column 'to' holds the ends of edges and cannot be an edge feature",
        ),
        (
            {"edge_features": ("day",), "edge_categorical": ("nosuch",)},
            "there is no column 'nosuch'. Columns: 'from', 'to', 'amount', 'kind', "
            "'day'; ",
        ),
    ],
)
def test_names_that_cannot_be_edge_columns(
    folder: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as refused:
        read(folder, **options)
    assert message in str(refused.value)


def test_mistakes_of_edge_columns_are_told_together(folder: Path) -> None:
    edges = "source,target,x,y\na,b,,2024-01-01\nb,c,1,2024-01-02\n"
    with pytest.raises(InputError, match=r"'x' cannot.*; .*'y' cannot be used"):
        read(folder, edges, edge_features=("x", "y"))


def test_two_columns_of_one_name_in_the_end(folder: Path) -> None:
    edges = "source,target,k,k=u\na,b,u,1\nb,c,v,2\n"
    graph = read(folder, edges)
    assert carried(graph).names == ("k=u", "k=v")
    note = "edge column 'k=u' is left out: there is a column 'k=u' already"
    assert graph.record.notes[-1] == note


def test_bytes_that_are_no_text_do_not_refuse_a_table(folder: Path) -> None:
    # After so many lines that they are not seen with the header.
    rows = "source,target,w,town\n" + "a,b,1,Rom\n" * 2000 + "b,c,2,Köln\n"
    (folder / "edges.csv").write_bytes(rows.encode("latin-1"))
    graph = read_graph(folder)
    assert graph.n_edges == 2
    assert carried(graph).names == ()
    (note,) = [text for text in graph.record.notes if "left out" in text]
    assert note.startswith("edge columns 'w', 'town' are left out: the text is not UTF")
    graph = read_graph(folder, options=TableOptions(edge_features=("w",)))
    assert carried(graph).values[-2:].tolist() == [[1], [2]]
    with pytest.raises(InputError, match="the text is not UTF-8"):
        read_graph(folder, options=TableOptions(edge_features=("town",)))


def test_what_would_take_too_much_memory_is_left_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "MOST_NUMBERS", 5)
    edges = "source,target,w,kind,v\na,b,1,x,1\nb,c,2,y,2\n"
    graph = read(folder, edges)
    assert carried(graph).names == ("w", "v")
    note = (
        "edge column 'kind' is left out: it would take 0.0 GB more; edge_features=… "
        "takes the columns that it names"
    )
    assert graph.record.notes[-1] == note
    monkeypatch.setattr(room, "MOST_NUMBERS", 3)
    assert carried(read(folder, edges)).names == ("w",)
    asked = carried(read(folder, edges, edge_features=("w", "kind", "v")))
    assert asked.names == ("w", "kind=x", "kind=y", "v")


def test_parquet(folder: Path) -> None:
    table = pa.table(
        {
            "source": ["a", "b", "c"],
            "target": ["b", "c", "a"],
            "flag": [True, False, True],
            "kind": pa.array(["u", None, "u"]).dictionary_encode(),
            "void": pa.array([None, None, None], pa.string()),
            "tags": [["x"], [], ["y", "z"]],
            "day": [date(2024, 1, day) for day in (1, 2, 3)],
        }
    )
    pq.write_table(table, folder / "edges.parquet")
    graph = read_graph(folder)
    found = carried(graph)
    assert found.names == ("flag", "kind=(missing)", "kind=u")
    np.testing.assert_array_equal(found.values, [[1, 0, 1], [0, 1, 0], [1, 0, 1]])
    text = " | ".join(graph.record.notes)
    assert "'void' is left out: it holds nothing" in text
    assert "'tags' is left out: it holds values of type list<" in text
    assert "'day' is left out: it holds dates or times" in text
    with pytest.raises(InputError, match="'tags' cannot be used: it holds values of"):
        read_graph(folder, options=TableOptions(edge_categorical=("tags",)))


def test_options_are_kept_for_other_tables(folder: Path) -> None:
    options = TableOptions(edge_features=["amount"], edge_categorical=["kind"])
    graph = read(folder, edge_features=["amount"], edge_categorical=["kind"])
    kept = TableOptions.from_json(graph.record.tables)
    assert replace(kept, fill_values={}, edge_fill_values={}) == options
    assert TableOptions.from_json({}).edge_features is None


# ------------------------------------------------------------------------- weights

POSITIVE = PAYMENTS.replace("-4", "4")


def test_a_column_may_say_how_much_edges_count(folder: Path) -> None:
    graph = read(folder, POSITIVE, edge_weight="amount")
    assert graph.weights is not None
    # a and b: 10 + 2.5 + 4; a and c: 1; in the mean 8.75.
    dense = graph.weights.toarray()
    np.testing.assert_allclose(dense[0], [0, 16.5 / 8.75, 1 / 8.75], rtol=1e-6)
    assert TableOptions.from_json(graph.record.tables).edge_weight == "amount"


def test_tables_that_are_read_directly_have_weights(folder: Path) -> None:
    (folder / "edges.csv").write_text(POSITIVE)
    tables, options = folder / "nodes.csv", TableOptions(edge_weight="amount")
    graph = read_tables(tables, folder / "edges.csv", options)
    assert graph.edge_weight == "amount"
    assert differing(graph, read(folder, POSITIVE, edge_weight="amount")) == []


def test_a_weight_is_kept_among_columns_that_are_named(folder: Path) -> None:
    graph = read(folder, POSITIVE, edge_weight="amount", edge_features=("kind",))
    assert graph.edge_weight == "amount"
    assert graph.edge_columns is not None
    assert "amount" in graph.edge_columns.names


@pytest.mark.parametrize(
    ("name", "edges", "message"),
    [
        ("amuont", POSITIVE, "there is no column 'amuont'.*amount"),
        ("amount", PAYMENTS, "payments: edge_weight must hold no negative weight"),
        ("kind", POSITIVE, "payments: edge_weight must name a column of numbers"),
        ("from", POSITIVE, "'from' holds the ends of edges"),
    ],
)
def test_what_cannot_weigh_is_refused(
    folder: Path, name: str, edges: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read(folder, edges, edge_weight=name)
