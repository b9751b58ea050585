"""A graph extended by further tables, against the joined tables read at once."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from h2gcn.exceptions import InputError
from h2gcn.graph import Graph
from h2gcn.io import TableOptions, extend_graph, from_scipy, read_tables
from support.cases import each
from support.refusals import refused

NODES = "id,label,age,city\nann,cat,1.5,Rome\nbob,,2,Oslo\ncleo,dog,,Rome\n"
EDGES = "source,target,amount,kind\nann,bob,5,wire\nbob,cleo,7,cash\n"
NEW_NODES = "id,age,label,city\ndan,4,dog,Oslo\neve,,,Rome\n"
NEW_EDGES = (
    "source,target,amount,kind\ndan,ann,1,cash\neve,dan,2,wire\nann,cleo,3,wire\n"
)
OPTIONS = TableOptions(categorical=("city",), fill_missing=True)


def write(folder: Path, **tables: str) -> dict[str, Path]:
    folder.mkdir(exist_ok=True)
    found = {name: folder / f"{name}.csv" for name in tables}
    for name, text in tables.items():
        found[name].write_text(text)
    return found


def below(text: str, more: str) -> str:
    """Return a table and the rows of another with the same header."""
    header, _, rows = more.partition("\n")
    assert header == text.partition("\n")[0]
    return text + rows


def pets(folder: Path, options: TableOptions = OPTIONS) -> Graph:
    old = write(folder, nodes=NODES, edges=EDGES)
    return read_tables(old["nodes"], old["edges"], options)


def test_a_graph_is_extended_to_what_the_joined_tables_are(tmp_path: Path) -> None:
    graph = pets(tmp_path)
    new = write(tmp_path, new=NEW_NODES, links=NEW_EDGES)
    extended = extend_graph(graph, new["new"], new["links"])
    # An empty age is filled with the median of the graph, 1.75, not of all.
    nodes = NODES + "dan,dog,4,Oslo\neve,,1.75,Rome\n"
    both = write(tmp_path / "both", nodes=nodes, edges=below(EDGES, NEW_EDGES))
    at_once = read_tables(both["nodes"], both["edges"], OPTIONS)
    at_once_x = at_once.x.copy()
    at_once_x[2, 0] = 1.75
    assert extended.feature_names == at_once.feature_names
    np.testing.assert_array_equal(extended.x, at_once_x)
    for name in ("adj", "directed"):
        ours, theirs = getattr(extended, name), getattr(at_once, name)
        assert (ours != theirs).nnz == 0
    for name in ("y", "classes", "node_ids"):
        ours, theirs = getattr(extended, name), getattr(at_once, name)
        assert ours.tolist() == theirs.tolist()
    assert extended.edge_columns is not None
    assert at_once.edge_columns is not None
    assert extended.edge_columns.names == at_once.edge_columns.names
    np.testing.assert_array_equal(
        extended.edge_columns.values, at_once.edge_columns.values
    )
    assert graph.n_nodes == 3


def test_the_record_says_what_was_added_and_left_out(tmp_path: Path) -> None:
    graph = pets(tmp_path)
    new = write(
        tmp_path,
        new="id;age;city\ndan;4;Bern\n",
        links="source,target,amount,kind\ndan,ann,1,gift\ndan,dan,1,wire\n",
    )
    extended = extend_graph(graph, new["new"], new["links"])
    assert extended.record.notes[len(graph.record.notes) :] == (
        f"1 node of new.csv and 1 edge of links.csv added to {graph.name}",
        "categories of new.csv that the graph has not: 'city=Bern'",
        "new.csv is separated by ';', not by commas",
        "categories of links.csv that the graph has not: 'kind=gift'",
        "1 self-loop dropped",
    )
    assert extended.x[3].tolist() == [4, 0, 0]
    assert extended.edge_columns is not None
    assert extended.edge_columns.values[-1].tolist() == [1, 0, 0]


def test_nodes_alone_and_edges_alone(tmp_path: Path) -> None:
    graph = pets(tmp_path)
    new = write(
        tmp_path, new=NEW_NODES, links=NEW_EDGES.splitlines()[0] + "\ncleo,ann,1,wire\n"
    )
    lonely = extend_graph(graph, new["new"])
    assert lonely.degrees.tolist() == [1, 2, 1, 0, 0]
    joined = extend_graph(graph, edges=new["links"])
    assert joined.degrees.tolist() == [2, 2, 2]


def test_a_label_that_is_new_comes_last(tmp_path: Path) -> None:
    graph = pets(tmp_path)
    new = write(tmp_path, new="id,age,city,label\ndan,1,Rome,ape\neve,1,Rome,dog\n")
    extended = extend_graph(graph, new["new"])
    assert extended.classes.tolist() == ["cat", "dog", "ape"]
    assert extended.y.tolist() == [0, -1, 1, 2, 1]


def test_features_of_the_degrees_follow_them(tmp_path: Path) -> None:
    old = write(tmp_path, nodes="id\na\nb\nc\nd\n", edges="u,v\na,b\nb,c\nc,d\n")
    graph = read_tables(old["nodes"], old["edges"])
    new = write(tmp_path, new="id\ne\n", links="u,v\ne,a\n")
    extended = extend_graph(graph, new["new"], new["links"])
    both = write(
        tmp_path / "both",
        nodes="id\na\nb\nc\nd\ne\n",
        edges="u,v\na,b\nb,c\nc,d\ne,a\n",
    )
    at_once = read_tables(both["nodes"], both["edges"])
    np.testing.assert_array_equal(extended.x, at_once.x)
    assert graph.x[0, 0] == np.float32(np.log(2))  # as it was


def test_a_graph_of_no_tables_is_extended_by_its_names(tmp_path: Path) -> None:
    graph = from_scipy([[0, 1], [1, 0]], [[1.0], [2.0]], feature_names=["age"])
    new = write(tmp_path, new="id,age\nann,3\n", links="source,target\nann,0\n")
    extended = extend_graph(graph, new["new"], new["links"])
    assert extended.node_ids.tolist() == ["0", "1", "ann"]
    assert extended.degrees.tolist() == [2, 1, 1]


@pytest.mark.parametrize(
    ("new", "links", "message"),
    [
        ("id,age\nx,1\n", None, "new.csv: there is no column 'city'"),
        ("id,city\nx,Rome\n", None, "new.csv: there is no column 'age'"),
        (
            "id,age,city\nbob,1,Rome\n",
            None,
            "new.csv: line 2 has the node id 'bob', which is in",
        ),
        ("id,age,city\nx,1,Rome\nx,2,Oslo\n", None, "the node id 'x' is there twice"),
        ("id,age,city\nx,old,Rome\n", None, "the feature column 'age' holds text"),
        (
            None,
            "source,target,amount,kind\nann,nobody,1,wire\n",
            "links.csv: line 2 names node 'nobody' (column 'target'), which is not in",
        ),
        (
            "id,age,city\nx,1,Rome\n",
            "source,target,amount,kind\nnobody,x,1,wire\n",
            "new.csv; drop_unknown=True",
        ),
        (
            None,
            "source,target,kind\nann,cleo,wire\n",
            "links.csv: there is no column 'amount'",
        ),
        (None, "source,target,amount,kind\nann,,1,wire\n", "column 'target' is empty"),
        (None, None, "there is neither a node table nor an edge table"),
    ],
)
def test_each_mistake_is_one_line(
    tmp_path: Path, new: str | None, links: str | None, message: str
) -> None:
    graph = pets(tmp_path)
    given = {"new": new, "links": links}
    files = write(tmp_path, **{name: text for name, text in given.items() if text})
    with pytest.raises(InputError, match=re.escape(message)) as error:
        extend_graph(graph, files.get("new"), files.get("links"))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("asked", [None, TableOptions(fill_missing=True)])
def test_new_nodes_get_the_medians_of_training(
    tmp_path: Path, asked: TableOptions | None
) -> None:
    nodes = "id,age,pay\nann,1,10\nbob,2,20\ncleo,6,60\n"
    old = write(
        tmp_path, nodes=nodes, edges="source,target,fee\nann,bob,5\nbob,cleo,7\n"
    )
    graph = read_tables(old["nodes"], old["edges"])
    if asked is None:
        tables = dict(graph.record.tables) | {"fill_missing": True}
        graph = replace(graph, record=replace(graph.record, tables=tables))
    new = write(
        tmp_path,
        new="id,age,pay\ndan,,100\neve,100,\n",
        links="source,target,fee\ndan,ann,\neve,dan,100\n",
    )
    extended = extend_graph(graph, new["new"], new["links"], asked)
    assert np.asarray(extended.x)[3:].tolist() == [[2, 100], [100, 20]]
    assert extended.edge_columns is not None
    assert extended.edge_columns.values[2:].tolist() == [[6], [100]]


def test_new_nodes_do_not_get_their_own_medians(tmp_path: Path) -> None:
    graph = from_scipy([[0, 1], [1, 0]], [[1.0], [2.0]], feature_names=["age"])
    new = write(tmp_path, new="id,age\ndan,3\neve,\n")
    with pytest.raises(InputError) as told:
        extend_graph(graph, new["new"], options=TableOptions(fill_missing=True))
    assert told.value.param == "fill_missing"
    assert told.value.where == f"{new['new']}:3"


@each("missing", ["", " "])
def test_dates_that_are_all_missing_are_filled_with_the_kept_median(
    missing: str, tmp_path: Path
) -> None:
    dated = "id,born,label\nann,2020-01-01,u\nbob,2020-01-02,v\ncleo,2020-02-01,u\n"
    old = write(tmp_path, nodes=dated, edges=EDGES)
    options = TableOptions(date_features=("born",), fill_missing=True)
    graph = read_tables(old["nodes"], old["edges"], options)
    file = write(tmp_path, new=f"id,born\ndan,{missing}\neve,{missing}\n")["new"]
    nothing = pa.table({"id": ["dan", "eve"], "born": [None, None]})
    for new in (file, nothing):
        extended = np.asarray(extend_graph(graph, new).x)
        np.testing.assert_array_equal(extended[3:], extended[[1, 1]])
    unfilled = read_tables(
        old["nodes"], old["edges"], TableOptions(date_features=("born",))
    )
    with refused(words="column 'born' must hold dates"):
        extend_graph(unfilled, file)
