"""Node and edge tables: what is read, what is noted, and each mistake."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.io import TableOptions, read_graph, read_tables, write_tables
from h2gcn.io.tables.columns import open_table
from support.refusals import only, refused

NODES = "id,label,age,city\n007,cat,1.5,Rome\nb,,2,Oslo\nc,dog,3,\n"
EDGES = "source,target\n007,b\nb,c\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    target = tmp_path / "pets"
    target.mkdir()
    (target / "nodes.csv").write_text(NODES)
    (target / "edges.csv").write_text(EDGES)
    return target


def write(folder: Path, *, nodes: str | bytes = NODES, edges: str = EDGES) -> Path:
    raw = nodes if isinstance(nodes, bytes) else nodes.encode()
    (folder / "nodes.csv").write_bytes(raw)
    (folder / "edges.csv").write_text(edges)
    return folder


def test_reads_ids_labels_features_and_edges(folder: Path) -> None:
    graph = read_graph(folder)
    assert graph.name == "pets"
    assert graph.node_ids.tolist() == ["007", "b", "c"]
    assert graph.classes.tolist() == ["cat", "dog"]
    assert graph.y.tolist() == [0, -1, 1]
    assert graph.feature_names == ("age",)
    assert graph.x.tolist() == [[1.5], [2.0], [3.0]]
    assert graph.adj.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert graph.directed is not None
    assert graph.directed.toarray().tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    assert graph.record.edges_read == 2
    assert graph.record.symmetrised == 2
    assert graph.record.notes == (
        "column 'city' holds text and is not used; categorical=['city'] one-hot "
        "encodes it",
    )


def test_node_and_edge_files_by_name(folder: Path) -> None:
    renamed = (folder / "nodes.csv").rename(folder / "animals.csv")
    graph = read_graph(nodes=renamed, edges=folder / "edges.csv")
    assert graph.name == "animals"
    assert graph.n_edges == 2


def test_undirected_lines_are_edges_without_direction(folder: Path) -> None:
    write(folder, edges="source,target\n007,b\nb,007\nb,c\nc,c\n")
    graph = read_graph(folder, options=TableOptions(undirected=True))
    assert graph.directed is None
    assert graph.record.duplicates_merged == 1
    assert graph.record.loops_dropped == 1
    assert graph.record.symmetrised == 0


def test_categorical_columns_are_one_hot_encoded(folder: Path) -> None:
    graph = read_graph(folder, options=TableOptions(categorical=("city",)))
    assert graph.feature_names == ("age", "city=(missing)", "city=Oslo", "city=Rome")
    assert graph.x.tolist() == [[1.5, 0, 0, 1], [2, 0, 1, 0], [3, 1, 0, 0]]
    assert graph.record.notes == (
        "1 empty cell is a category of its own, (missing), of 'city' (1)",
    )
    write(folder, nodes=NODES.replace("c,dog,3,", "c,dog,3,Rome"))
    graph = read_graph(folder, options=TableOptions(categorical=("city",)))
    assert graph.feature_names == ("age", "city=Oslo", "city=Rome")
    assert graph.record.notes == ()


def test_missing_categories_are_counted_by_column(folder: Path) -> None:
    write(folder, nodes="id,a,b,c\n007,,x,u\nb, ,,u\nc,y,(missing),u\n")
    graph = read_graph(folder, options=TableOptions(categorical=("a", "b", "c")))
    # What says of itself that it is missing is the same category.
    assert graph.feature_names == ("a=(missing)", "a=y", "b=(missing)", "b=x", "c=u")
    assert graph.x.tolist() == [[1, 0, 0, 1, 1], [1, 0, 1, 0, 1], [0, 1, 1, 0, 1]]
    assert graph.record.notes[0] == (
        "3 empty cells are a category of their own, (missing), of 'a' (2), 'b' (1)"
    )


def test_nulls_of_parquet_are_missing_categories(folder: Path) -> None:
    nodes = pa.table({"id": ["007", "b", "c"], "n": pa.array([1.0, None, 2.0])})
    pq.write_table(nodes, folder / "n.parquet")
    options = TableOptions(categorical=("n",))
    graph = read_tables(folder / "n.parquet", folder / "edges.csv", options)
    assert graph.feature_names == ("n=(missing)", "n=1", "n=2")
    assert graph.x.tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]


def test_feature_columns_are_used_in_the_order_given(folder: Path) -> None:
    write(folder, nodes="id,a,b,c\n007,1,2,3\nb,4,5,6\nc,7,8,9\n")
    graph = read_graph(folder, options=TableOptions(feature_columns=("c", "a")))
    assert graph.feature_names == ("c", "a")
    assert graph.x.tolist() == [[3, 1], [6, 4], [9, 7]]


def test_integer_labels_are_sorted_as_numbers(folder: Path) -> None:
    write(folder, nodes="Node,Class,f\n007,10,0\nb,9,1\nc,,2\n")
    graph = read_graph(folder)
    assert graph.classes.tolist() == [9, 10]
    assert graph.y.tolist() == [1, 0, -1]


def test_padded_integers_stay_text(folder: Path) -> None:
    write(folder, nodes="id,label,f\n007,01,0\nb,1,1\nc,1,2\n")
    assert read_graph(folder).classes.tolist() == ["01", "1"]


def test_labels_that_may_mean_unknown_are_noted(folder: Path) -> None:
    write(folder, nodes="id,label,f\n007,-1,0\nb,0,1\nc,1,2\n")
    graph = read_graph(folder)
    assert graph.classes.tolist() == [-1, 0, 1]
    assert any("label '-1' is taken as a class" in note for note in graph.record.notes)


def test_a_table_without_labels_is_unlabelled(folder: Path) -> None:
    write(folder, nodes="id,f\n007,0\nb,1\nc,2\n")
    graph = read_graph(folder)
    assert graph.y.tolist() == [-1, -1, -1]
    assert graph.n_classes == 0
    assert any("no label column" in note for note in graph.record.notes)


def test_a_label_column_may_be_missing_where_it_is_not_required(folder: Path) -> None:
    options = TableOptions(label_column="species")
    with pytest.raises(InputError, match=r"no column 'species'"):
        read_graph(folder, options=options)
    lenient = TableOptions(label_column="species", label_required=False)
    assert read_graph(folder, options=lenient).labelled.size == 0


def test_quoted_cells_blank_lines_and_blanks_around_names(folder: Path) -> None:
    write(
        folder,
        nodes='\r\nid , label,f\r\n"a, b","x\r\ny",1\r\n\r\nb, z ,2\r\n',
        edges='source , target\n"a, b",b\n',
    )
    graph = read_graph(folder)
    assert graph.node_ids.tolist() == ["a, b", "b"]
    assert graph.classes.tolist() == ["x\r\ny", "z"]
    assert graph.feature_names == ("f",)
    assert graph.n_edges == 1


def test_ids_are_kept_as_they_are_written(folder: Path) -> None:
    write(folder, nodes="id,f\n a,1\nb ,2\n", edges="source,target\n a,b \n")
    graph = read_graph(folder)
    assert graph.node_ids.tolist() == [" a", "b "]
    assert graph.n_edges == 1
    write_tables(graph, folder)
    assert read_graph(folder).node_ids.tolist() == [" a", "b "]


def test_ids_that_only_blanks_tell_apart(folder: Path) -> None:
    write(folder, nodes="id,f\na,1\nb,2\n a,3\n", edges="source,target\na,b\n")
    message = (
        r"ids 'a' and ' a' differ only by blanks around them, at line 2 and line 4"
    )
    with pytest.raises(InputError, match=message):
        read_graph(folder)


NEAR_MISSES = {
    "blanks in the edges": (
        ("a", "b"),
        ("a", " b"),
        "' b' differs from the node 'b' only by blanks around it; write ids alike",
    ),
    "blanks in the nodes": (
        ("a", "b "),
        ("a", "b"),
        "'b' differs from the node 'b ' only by blanks around it; write ids alike",
    ),
    "a point in the edges": (
        ("1", "2"),
        ("1", "2.0"),
        "'2.0' differs from the node '2' only in how a whole number is written; write",
    ),
    "a point in the nodes": (
        ("1", "2.0"),
        ("1", "2"),
        "'2' differs from the node '2.0' only in how a whole number is written; write",
    ),
}


@pytest.mark.parametrize("case", NEAR_MISSES)
def test_unknown_ids_that_are_almost_known(folder: Path, case: str) -> None:
    ids, ends, hint = NEAR_MISSES[case]
    rows = "".join(f"{name},1\n" for name in ids)
    edges = "source,target\n" + f"{ids[0]},{ids[0]}\n" + ",".join(ends)
    write(folder, nodes=f"id,f\n{rows}", edges=edges)
    begin = f"line 3 names node {ends[1]!r} (column 'target'), which is not in "
    with pytest.raises(InputError) as caught:
        read_graph(folder)
    assert begin in str(caught.value)
    assert f"drop_unknown=True leaves such edges out. {hint}" in str(caught.value)
    graph = read_graph(folder, options=TableOptions(drop_unknown=True))
    assert graph.record.unknown_dropped == 1
    assert graph.record.notes[-1].startswith(f"of the unknown nodes, {hint}")


def test_each_way_in_which_ids_almost_match_is_told_once(folder: Path) -> None:
    rows = "".join(f"{i},1\n" for i in range(5))
    edges = "source,target\n zoe,1\n1.0,2\n 3,4\n2.,1\n 3,1\n0.0,1\n"
    write(folder, nodes=f"id,f\n{rows}", edges=edges)
    with pytest.raises(InputError) as caught:
        read_graph(folder)
    message = str(caught.value)
    assert "line 2 names node ' zoe' (column 'source')" in message
    assert "' 3' differs from the node '3' only by blanks around it; write" in message
    assert "'1.0' differs from the node '1' only in how a whole" in message
    assert "is written, and so do 2 more; write ids alike in both tables." in message


def test_no_edge_at_all_that_matches_is_told_with_the_reason(folder: Path) -> None:
    write(folder, nodes="id,f\n1,1\n2,2\n", edges="source,target\n1.0,2.0\n")
    with pytest.raises(
        InputError, match=r"do not match\. '1\.0' differs from the node"
    ):
        read_graph(folder, options=TableOptions(drop_unknown=True))


def test_floats_of_parquet_are_the_integers_of_another_file(folder: Path) -> None:
    write(folder, nodes="id,f\n1,1\n2,2\n")
    ends = pa.table({"source": [1.0], "target": [2.0]})
    pq.write_table(ends, folder / "e.parquet")
    assert read_tables(folder / "nodes.csv", folder / "e.parquet").n_edges == 1


# ---------------------------------------------------------------- separators


@pytest.mark.parametrize(("mark", "said"), [(";", "';'"), ("\t", "tabs"), ("|", "'|'")])
def test_other_separators_of_csv_are_recognised(
    folder: Path, mark: str, said: str
) -> None:
    expected = read_graph(folder)
    write(folder, nodes=NODES.replace(",", mark), edges=EDGES.replace(",", mark))
    graph = read_graph(folder)
    assert graph.node_ids.tolist() == expected.node_ids.tolist()
    assert np.array_equal(graph.x, expected.x)
    assert (graph.adj != expected.adj).nnz == 0
    assert graph.record.notes == (
        f"nodes.csv is separated by {said}, not by commas",
        *expected.record.notes,
        f"edges.csv is separated by {said}, not by commas",
    )


@pytest.mark.parametrize(("mark", "said"), [(";", "';'"), (",", "commas")])
def test_other_separators_of_tsv_are_recognised(
    folder: Path, mark: str, said: str
) -> None:
    expected = read_graph(folder)
    for name, text in (("nodes", NODES), ("edges", EDGES)):
        (folder / f"{name}.csv").unlink()
        (folder / f"{name}.tsv").write_text(text.replace(",", mark))
    graph = read_graph(folder)
    assert graph.node_ids.tolist() == expected.node_ids.tolist()
    assert np.array_equal(graph.x, expected.x)
    assert graph.record.notes == (
        f"nodes.tsv is separated by {said}, not by tabs",
        *expected.record.notes,
        f"edges.tsv is separated by {said}, not by tabs",
    )


def test_a_comma_in_the_header_decides(folder: Path) -> None:
    write(folder, nodes="id,a;b;c\n007,1\nb,2\nc,3\n")
    graph = read_graph(folder)
    assert graph.feature_names == ("a;b;c",)
    assert graph.record.notes == ("nodes.csv has no label column: no node is labelled",)


def test_records_must_bear_a_separator_out(folder: Path) -> None:
    # One column whose name has marks in it.
    write(folder, nodes="id;key|x\n007\nb\nc\n")
    graph = read_graph(folder, options=TableOptions(id_column="id;key|x"))
    assert graph.node_ids.tolist() == ["007", "b", "c"]
    # One record that is short is a mistake, and told as such.
    write(folder, nodes="id;f\n007;1\nb\nc;2\n")
    with pytest.raises(InputError, match=r"line 3 has 1 cell, but the header has 2"):
        read_graph(folder)
    # The mark that makes more columns is the separator.
    write(folder, nodes="id|a;b|c\n007|1|2\nb|3|4\nc|5|6\n")
    assert read_graph(folder).feature_names == ("a;b", "c")


@pytest.mark.parametrize("ages", ["1,5 2,5 3,5", "1 2 3,5", "1.234,5 -2,0 3"])
def test_decimal_commas_are_not_guessed(folder: Path, ages: str) -> None:
    cells = zip(("007", "b", "c"), ages.split(), strict=True)
    write(folder, nodes="id;age\n" + "".join(f"{i};{age}\n" for i, age in cells))
    hint = r"Numbers need a decimal point, not a comma\."
    with pytest.raises(
        InputError, match=rf"'age' holds numbers, but '[-\d.,]+,\d' at line .*{hint}$"
    ):
        read_graph(folder)
    with pytest.raises(InputError, match=rf"'age' holds text, not numbers.*{hint}$"):
        read_graph(folder, options=TableOptions(feature_columns=("age",)))


def test_pairs_of_numbers_in_quotes_are_text_where_commas_separate(
    folder: Path,
) -> None:
    write(folder, nodes='id,at\n007,"1,5"\nb,"2,5"\nc,"3,5"\n')
    assert (
        "column 'at' holds text and is not used" in read_graph(folder).record.notes[0]
    )


# ------------------------------------------------------- names with commas between


def test_names_of_columns_with_commas_between_them(folder: Path) -> None:
    nodes = 'id,a,b,"c,d",e,f\n007,1,2,x,u,p\nb,3,4,y,u,q\nc,5,6,y,v,q\n'
    write(folder, nodes=nodes)
    options = TableOptions(feature_columns=("b, a",), categorical=("c,d", "e,f,"))
    graph = read_graph(folder, options=options)
    names = ("b", "a", "c,d=x", "c,d=y", "e=u", "e=v", "f=p", "f=q")
    assert graph.feature_names == names
    kept = TableOptions.from_json(graph.record.tables)
    assert kept.feature_columns == ("b", "a")
    assert kept.categorical == ("c,d", "e", "f")
    with pytest.raises(InputError, match=r"no column 'g'.*Columns: 'id', .*\.$") as e:
        read_graph(folder, options=TableOptions(categorical=("e,g",)))
    assert "'e,g'" not in str(e.value)


# ------------------------------------------------------------ several mistakes


def test_all_mistakes_are_told_together(folder: Path) -> None:
    write(
        folder,
        nodes="person,pay,plan,debt\n007,,x,1\nb,2,y,\n",
        edges="source,target\n007,\n,b\n",
    )
    with pytest.raises(InputError) as caught:
        read_graph(folder, options=TableOptions(categorical=("town",)))
    nodes, edges = folder / "nodes.csv", folder / "edges.csv"
    columns = "Columns: 'person', 'pay', 'plan', 'debt'"
    number = "must hold a finite number in each row, of 32 bits, got a missing value at"
    median = "fill_missing=True puts the median of the column there"
    assert str(caught.value) == (
        f"{nodes}: no column of node ids (id, node, node_id) was found; "
        f"id_column=… names it. {columns}; "
        f"{nodes}: there is no column 'town'. {columns}; "
        f"{nodes}: column 'pay' {number} line 2; {median}; "
        f"{nodes}: column 'debt' {number} line 3; {median}; "
        f"{edges}: column 'source' is empty at line 3; "
        f"{edges}: column 'target' is empty at line 2."
    )


def test_mistakes_of_ids_numbers_and_ends_are_told_together(folder: Path) -> None:
    write(
        folder,
        nodes="id,pay,note\n007,,1\n007,2,2\nb,3,old\nc,4,4\n",
        edges="source,target\n007,zoe\nyan,b\n",
    )
    with pytest.raises(InputError) as caught:
        read_graph(folder)
    said = str(caught.value).split(f"; {folder}")
    for message, words in zip(
        said,
        (
            "the node id '007' is there twice, at line 2 and line 3",
            "column 'note' holds numbers, but 'old' at line 4; mend it, or make it",
            "column 'pay' must hold a finite number in each row, of 32 bits, got a "
            "missing value at line 2, node '007'",
            "line 3 names node 'yan' (column 'source')",
            "line 2 names node 'zoe' (column 'target')",
        ),
        strict=True,
    ):
        assert words in message
    assert "more" not in said[-1]


def test_empty_and_unknown_ends_are_told_together(folder: Path) -> None:
    write(folder, edges="source,target\n007,\nzoe,b\nb,yan\n")
    with pytest.raises(InputError) as caught:
        read_graph(folder)
    for words in (
        "column 'target' is empty at line 2; ",
        "line 3 names node 'zoe' (column 'source')",
        "line 4 names node 'yan' (column 'target')",
    ):
        assert words in str(caught.value)
    with pytest.raises(InputError, match=r"edges\.csv: column 'target' is empty.*2\.$"):
        read_graph(folder, options=TableOptions(drop_unknown=True))


def test_of_many_mistakes_some_of_each_file_are_told(folder: Path) -> None:
    names = [f"f{j}" for j in range(20)]
    nodes = f"id,{','.join(names)}\na{',' * len(names)}\nb{',1' * len(names)}\n"
    write(folder, nodes=nodes, edges="source,target\na,zoe\n")
    with pytest.raises(InputError) as caught:
        read_graph(folder)
    message = str(caught.value)
    assert [name for name in names if f"column {name!r} must" in message] == names[:11]
    assert "line 2 names node 'zoe'" in message
    assert message.endswith("; and 9 more.")


def test_ten_different_mistakes_of_two_tables_are_one_message(folder: Path) -> None:
    write(
        folder,
        nodes="id,age,score,town\n007,1,1,x\n,x,2,y\n007,3,inf,y\nc,4,,y\n",
        edges="source,target,pay\n007,zoe,1\n,c,2\n1.0,c,?\nc,007,3\n",
    )
    options = TableOptions(categorical=("twn",), edge_features=("pay", "when"))
    with pytest.raises(InputError) as caught:
        read_graph(folder, options=options)
    said = str(caught.value).split(f"; {folder}")
    for message, words in zip(
        said,
        (
            "nodes.csv: there is no column 'twn'. Did you mean 'town'?",
            "nodes.csv: the id (column 'id') is empty at line 3",
            "nodes.csv: the node id '007' is there twice, at line 2 and line 4",
            "nodes.csv: column 'age' holds numbers, but 'x' at line 3",
            "nodes.csv: column 'score' must hold a finite number in each row",
            "edges.csv: there is no column 'when'",
            "edges.csv: column 'source' is empty at line 3",
            "edges.csv: line 4 names node '1.0' (column 'source')",
            "edges.csv: line 2 names node 'zoe' (column 'target')",
            "edges.csv: the edge column 'pay' cannot be used: it holds numbers, but "
            "'?', first at line 4",
        ),
        strict=True,
    ):
        assert words in message


def test_without_ids_the_edge_table_is_looked_at_all_the_same(folder: Path) -> None:
    write(
        folder,
        nodes="key,f\na,1\n",
        edges="source,target,pay\na,b,1\na,c,2\nb,c,?\n",
    )
    with pytest.raises(
        InputError, match=r"id_column=… names.*'pay' cannot be used: it"
    ):
        read_graph(folder, options=TableOptions(edge_features=("pay",)))


def test_mistakes_that_follow_from_a_misspelt_name_are_not_told(folder: Path) -> None:
    write(folder, nodes="id,species,f\n007,1,1\nb,,2\nc,0,3\n")
    with pytest.raises(InputError) as caught:
        read_graph(folder, options=TableOptions(label_column="specis"))
    assert "no column 'specis'. Did you mean 'species'?" in str(caught.value)
    assert "finite" not in str(caught.value)
    # Of ids that are not known to be such, nothing is asked.
    write(folder, nodes="key,f\n7,1\n8,2\nx9,3\n", edges="source,target\n7,8\n")
    with pytest.raises(InputError, match=r"names it\. Columns: 'key', 'f'\.$"):
        read_graph(folder)


def test_tables_that_are_both_missing_or_broken(folder: Path) -> None:
    with pytest.raises(
        InputError, match=r"gone\.csv: there is no such file; .*out\.csv: there is no"
    ):
        read_tables(folder / "gone.csv", folder / "out.csv")
    write(folder, nodes="id,f\na,1\nb\n", edges="source,target\na,b,c\n")
    with pytest.raises(
        InputError, match=r"nodes\.csv: line 3 has 1 cell.*; .*edges\.csv: line 2 has 3"
    ):
        read_graph(folder)
    write(folder)
    options = TableOptions(source_column="a", target_column="b")
    with pytest.raises(InputError, match=r"no column 'a'\. .*; .*no column 'b'\. "):
        read_graph(folder, options=options)
    for name in ("nodes.csv", "edges.csv"):
        (folder / name).unlink()
    with pytest.raises(
        InputError,
        match=r"one of nodes\.csv.*has none; .*one of edges\.csv.*has none\.",
    ):
        read_graph(folder)


def test_the_name_of_the_id_column_is_remembered(folder: Path) -> None:
    assert read_graph(folder).record.id_column == "id"
    write(folder, nodes=NODES.replace("id,", "Node_ID,"))
    graph = read_graph(folder)
    assert graph.record.id_column == "Node_ID"
    # It is not asked for of other tables.
    assert graph.record.tables["id_column"] is None


def test_booleans_and_integers_are_features(folder: Path) -> None:
    write(folder, nodes="id,flag,count\n007,true,1\nb,false,2\nc,true,3\n")
    graph = read_graph(folder)
    assert graph.feature_names == ("flag", "count")
    assert graph.x.tolist() == [[1, 1], [0, 2], [1, 3]]


def test_columns_without_use_are_noted(folder: Path) -> None:
    write(
        folder,
        nodes=",id,f,day,age,void\n0,007,1,2024-01-02,7,\n"
        "1,b,2,2024-01-03,old,\n2,c,3,2024-01-04,new,\n",
        edges="source,target,weight\n007,b,2024-01-02\n",
    )
    graph = read_graph(folder)
    assert graph.feature_names == ("f",)
    text = " | ".join(graph.record.notes)
    assert "a column without a name is not used" in text
    assert "column 'day' holds dates or times and is not used" in text
    assert "column 'age' holds text and is not used; categorical=['age']" in text
    assert "column 'void' holds nothing and is not used" in text
    assert "edge column 'weight' is left out: it holds dates or times" in text


NOTHING_TO_USE = {
    "id and label": ("id,label\n007,x\nb,\nc,y\n", []),
    "id alone": ("id\n007\nb\nc\n", []),
    "text": ("id,city\n007,Rome\nb,Oslo\nc,\n", ["column 'city' holds text"]),
}


@pytest.mark.parametrize("nodes", NOTHING_TO_USE)
def test_degrees_stand_in_where_no_column_is_a_feature(
    folder: Path, nodes: str
) -> None:
    content, said = NOTHING_TO_USE[nodes]
    graph = read_graph(write(folder, nodes=content))
    assert graph.feature_names == ("log1p_degree", "log1p_neighbour_degree", "one")
    # The path 007 - b - c.
    expected = [[np.log(2), np.log(3), 1], [np.log(3), np.log(2), 1]]
    assert np.allclose(graph.x, [*expected, expected[0]])
    notes = " | ".join(graph.record.notes)
    for words in (*said, "the input has no node features; log1p of the degree"):
        assert words in notes


def test_no_degrees_where_there_is_a_feature(folder: Path) -> None:
    assert not any(
        "no node features" in note for note in read_graph(folder).record.notes
    )


@pytest.mark.parametrize(
    "header", ["src,dst", "FROM,TO", "v,u", "w,target,source", "first,second"]
)
def test_end_columns_are_found(folder: Path, header: str) -> None:
    row = {"v,u": "b,007", "w,target,source": "5,b,007"}.get(header, "007,b")
    write(folder, edges=f"{header}\n{row}\n")
    graph = read_graph(folder)
    assert graph.directed is not None
    assert graph.directed.toarray()[0, 1] == 1
    guessed = any("first two columns" in note for note in graph.record.notes)
    assert guessed == (header == "first,second")


def test_ends_are_not_guessed_among_several_columns_of_ids(folder: Path) -> None:
    write(folder, edges="deal,payer,payee\nb,007,c\nc,c,b\n")
    with pytest.raises(InputError, match=r"'deal', 'payer', 'payee' all hold ids") as e:
        read_graph(folder)
    assert "source_column=… and target_column=… say which" in str(e.value.hint)
    options = TableOptions(source_column="payer", target_column="payee")
    assert read_graph(folder, options=options).adj.toarray()[0, 2] == 1
    # Weights are few, even where ids are numbers.
    nodes = "id\n" + "".join(f"{i}\n" for i in range(9))
    rows = "".join(f"{i},{(i + 1) % 9},{i % 3}\n" for i in range(9))
    write(folder, nodes=nodes, edges=f"person,friend,weight\n{rows}")
    assert read_graph(folder).n_edges == 9
    # A column of anything else is no reason to ask.
    write(folder)
    write(folder, edges="payer,payee,sum\n007,c,5\nc,b,\n")
    assert read_graph(folder).n_edges == 2
    table = pa.table({"payer": ["007"], "payee": ["c"], "tags": [["b"]]})
    pq.write_table(table, folder / "deals.parquet")
    graph = read_graph(nodes=folder / "nodes.csv", edges=folder / "deals.parquet")
    assert graph.n_edges == 1


def test_empty_cells_are_filled_with_the_median(folder: Path) -> None:
    nodes = "id,label,age,pay\n007,cat,1,\nb,,,5\nc,dog,4,\n"
    write(folder, nodes=nodes)
    with pytest.raises(
        InputError, match="fill_missing=True puts the median of the column"
    ):
        read_graph(folder)
    graph = read_graph(folder, options=TableOptions(fill_missing=True))
    assert graph.x.tolist() == [[1, 5], [2.5, 5], [4, 5]]
    assert graph.record.notes == ("3 empty cells filled, of 'age' (1), 'pay' (2)",)
    # Another table is filled with the numbers of this one, also where it has none.
    kept = TableOptions.from_json(json.loads(json.dumps(graph.record.tables)))
    assert kept == TableOptions(fill_missing=True, fill_values={"age": 2.5, "pay": 5.0})
    write(folder, nodes="id,label,age,pay\n007,cat,,1\nb,,9,\nc,dog,9,1\n")
    again = read_graph(folder, options=kept)
    assert again.x.tolist() == [[2.5, 1], [9, 5], [9, 1]]
    assert again.record.tables == graph.record.tables
    write(folder, nodes="id,label,age,pay\n007,cat,1,\nb,,9,\nc,dog,9,\n")
    assert read_graph(folder, options=kept).x.tolist() == [[1, 5], [9, 5], [9, 5]]
    assert len({kept, TableOptions(fill_missing=True), graph.record}) == 3


def test_a_predicted_table_gets_the_medians_of_training(folder: Path) -> None:
    write(
        folder,
        nodes="id,age,born\n007,1,1970-01-02\nb,3,1970-01-03\nc,2,1970-01-06\n",
        edges="source,target,fee\n007,b,1\nb,c,7\n",
    )
    graph = read_graph(folder, options=TableOptions(date_features=("born",)))
    trained = TableOptions.from_json(graph.record.tables)
    assert trained.fill_values == {"age": 2.0, "born": 2.0}
    assert trained.edge_fill_values == {"fee": 4.0}
    write(
        folder,
        nodes="id,age,born\n007,,\nb,100,1990-01-01\nc,100,1990-01-01\n",
        edges="source,target,fee\n007,b,\nb,c,100\n",
    )
    options = replace(trained, fill_missing=True, to_train=False)
    found = read_graph(folder, options=options)
    assert np.asarray(found.x)[0, :2].tolist() == [2, 2]
    assert found.edge_columns is not None
    assert found.edge_columns.values.tolist() == [[4], [100]]
    assert found.record.tables["fill_values"] == trained.fill_values


@pytest.mark.parametrize(
    ("name", "line", "options"),
    [
        ("nodes", 3, {}),
        ("nodes", 4, {"feature_columns": ("f",), "date_features": ("born",)}),
        ("edges", 2, {"feature_columns": ("f",), "edge_features": ("fee",)}),
    ],
)
def test_a_predicted_table_is_not_filled_with_its_own_medians(
    folder: Path, name: str, line: int, options: dict[str, Any]
) -> None:
    write(
        folder,
        nodes="id,f,age,born\n007,1,1,1970-01-02\nb,1,,1970-01-02\nc,1,3,\n",
        edges="source,target,fee\n007,b,\nb,c,7\n",
    )
    predicted = TableOptions(fill_missing=True, to_train=False, **options)
    with pytest.raises(InputError) as told:
        read_graph(folder, options=predicted)
    assert told.value.param == "fill_missing"
    assert told.value.where == f"{folder / name}.csv:{line}"


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (
            "id,age\n007,1e300\nb,\nc,1\n",
            r"number in each row, of 32 bits, got 1e\+300",
        ),
        ("id,age\n007,inf\nb,\nc,1\n", r"got inf at line 2, node '007'$"),
    ],
)
def test_numbers_that_are_too_large_are_not_filled(
    folder: Path, nodes: str, message: str
) -> None:
    write(folder, nodes=nodes)
    with pytest.raises(InputError, match=message):
        read_graph(folder, options=TableOptions(fill_missing=True))


def test_a_column_without_a_number_has_no_median(folder: Path) -> None:
    write(folder, nodes="id,age,f\n007,,1\nb,,1\nc,,2\n")
    options = TableOptions(fill_missing=True, feature_columns=("age", "f"))
    with pytest.raises(InputError, match="no cell of the column has a number, so it"):
        read_graph(folder, options=options)


def test_named_columns(folder: Path) -> None:
    write(folder, nodes="k,z,f\n007,p,1\nb,q,2\nc,,3\n", edges="w,a,b\n9,007,c\n")
    options = TableOptions(
        id_column="k", label_column="z", source_column="a", target_column="b"
    )
    graph = read_graph(folder, options=options)
    assert graph.classes.tolist() == ["p", "q"]
    assert graph.adj.toarray()[0].tolist() == [0, 0, 1]


def test_isolated_nodes_stay(folder: Path) -> None:
    write(folder, edges="source,target\n007,b\n")
    assert read_graph(folder).degrees.tolist() == [1, 1, 0]


def test_parquet_reads_as_csv_does(folder: Path) -> None:
    expected = read_graph(folder)
    nodes = pa.table(
        {
            "id": pa.array(["007", "b", "c"]).dictionary_encode(),
            "label": ["cat", None, "dog"],
            "age": pa.array([1.5, 2, 3], pa.float64()),
        }
    )
    for name, table in {
        "nodes": nodes,
        "edges": pa.table({"source": ["007", "b"], "target": ["b", "c"]}),
    }.items():
        (folder / f"{name}.csv").unlink()
        pq.write_table(table, folder / f"{name}.parquet")
    graph = read_graph(folder)
    assert np.array_equal(graph.x, expected.x)
    assert np.array_equal(graph.y, expected.y)
    assert graph.node_ids.tolist() == expected.node_ids.tolist()
    assert (graph.adj != expected.adj).nnz == 0


def test_parquet_integers_are_ids_and_floats_with_gaps_are_labels(
    tmp_path: Path,
) -> None:
    nodes = pa.table({"id": [3, 10], "y": [2.0, None], "f": [True, False]})
    pq.write_table(nodes, tmp_path / "n.parquet")
    (tmp_path / "e.tsv").write_text("source\ttarget\n3\t10\n")
    graph = read_tables(tmp_path / "n.parquet", tmp_path / "e.tsv")
    assert graph.node_ids.tolist() == ["3", "10"]
    assert graph.classes.tolist() == [2]
    assert graph.y.tolist() == [0, -1]
    assert graph.x.tolist() == [[1], [0]]


def test_parquet_types(tmp_path: Path) -> None:
    nodes = pa.table(
        {
            "id": pa.array(["a", "b"], pa.string_view()),
            "half": pa.array(np.array([1, 2], np.float16)),
            "exact": pa.array([1, 2], pa.decimal128(5, 1)),
            "coded": pa.array([3, 4]).dictionary_encode(),
            "text": pa.array(["u", "v"], pa.string_view()),
            "raw": [b"\xff", b"\x00"],
            "list": [[1], [2]],
        }
    )
    pq.write_table(nodes, tmp_path / "n.parquet")
    (tmp_path / "e.csv").write_text("source,target\na,b\n")
    graph = read_tables(tmp_path / "n.parquet", tmp_path / "e.csv")
    assert graph.feature_names == ("half", "exact", "coded")
    assert graph.x.tolist() == [[1, 1, 3], [2, 2, 4]]
    notes = " | ".join(graph.record.notes)
    assert "column 'raw' holds values of type binary" in notes
    assert "column 'list' holds values of type list" in notes
    with pytest.raises(InputError, match="'raw' cannot be read as text"):
        read_tables(
            tmp_path / "n.parquet", tmp_path / "e.csv", TableOptions(id_column="raw")
        )


def test_wide_tables_of_zeros_are_sparse(folder: Path) -> None:
    n = 40
    rows = "".join(f"{i},v{i},1\n" for i in range(n))
    write(folder, nodes="id,kind,f\n" + rows, edges="source,target\n0,1\n")
    graph = read_graph(folder, options=TableOptions(categorical=("kind",)))
    assert sp.issparse(graph.x)
    assert graph.x.shape == (n, n + 1)
    assert graph.feature_names[:3] == ("f", "kind=v0", "kind=v1")
    assert graph.x.toarray()[3].nonzero()[0].tolist() == [
        0,
        graph.feature_names.index("kind=v3"),
    ]


def test_unknown_nodes_can_be_dropped(folder: Path) -> None:
    write(folder, edges="source,target\n007,b\nzoe,c\nb,yan\n")
    graph = read_graph(folder, options=TableOptions(drop_unknown=True))
    assert graph.record.unknown_dropped == 2
    assert graph.record.edges_read == 3
    assert graph.n_edges == 1
    write(folder, edges="source,target\nzoe,c\n")
    with pytest.raises(InputError, match="ids of the two tables do not match"):
        read_graph(folder, options=TableOptions(drop_unknown=True))


NODE_MISTAKES = {
    "empty file": ("", r"nodes\.csv: the file is empty"),
    "blank file": ("\n\n", r"nodes\.csv: the file is empty"),
    "header only": ("id,f\n", "has no rows"),
    "no id": ("name,f\na,1\n", r"no column of node ids .*Columns: 'name', 'f'"),
    "twice": ("id,f\na,1\nb,2\n\na,3\n", r"'a' is there twice, at line 2 and line 5"),
    "empty id": ("id,f\na,1\n ,2\n", r"id \(column 'id'\) is empty at line 3"),
    "ragged": ("id,f\na,1\nb\n", r"line 3 has 1 cell, but the header has 2"),
    "same name": ("id,f,f\na,1,2\n", "two columns are called 'f'"),
    "missing": (
        "id,f\na,1\nb,\n",
        r"column 'f' must .*got a missing value at line 3, node 'b'",
    ),
    "infinite": ("id,f\na,inf\n", r"got inf at line 2, node 'a'"),
    "too large": ("id,f\na,1e99\n", r"got 1e\+99 at line 2"),
    "line of a record after a quoted line end": (
        'id,t,f\na,"x\ny",1\nb,z,\n',
        r"missing value at line 4, node 'b'",
    ),
}


@pytest.mark.parametrize("mistake", NODE_MISTAKES)
def test_mistakes_in_the_node_table(folder: Path, mistake: str) -> None:
    content, message = NODE_MISTAKES[mistake]
    write(folder, nodes=content, edges="source,target\na,a\n")
    with pytest.raises(InputError, match=message) as caught:
        read_graph(folder)
    assert "\n" not in str(caught.value)
    assert "nodes.csv" in str(caught.value)


EDGE_MISTAKES = {
    "empty file": ("", r"the file is empty"),
    "header only": ("source,target\n", "has no edges"),
    "one column": ("source\n007\n", "must have two columns"),
    "unknown": (
        "source,target\n007,b\nb,zoe\n",
        r"line 3 names node 'zoe' \(column 'target'\), which is not in .*nodes\.csv",
    ),
    "empty end": ("source,target\n007,b\n,b\n", r"column 'source' is empty at line 3"),
    "ragged": ("source,target\n007,b\nb,c,9\n", "line 3 has 3 cells"),
    "no header": ("007,b\nb,c\n", "first line names two nodes, '007' and 'b'"),
}


@pytest.mark.parametrize("mistake", EDGE_MISTAKES)
def test_mistakes_in_the_edge_table(folder: Path, mistake: str) -> None:
    content, message = EDGE_MISTAKES[mistake]
    write(folder, edges=content)
    with pytest.raises(InputError, match=message) as caught:
        read_graph(folder)
    assert "\n" not in str(caught.value)
    assert "edges.csv" in str(caught.value)


OPTION_MISTAKES = {
    "near miss": ({"id_column": "idd"}, r"no column 'idd'. Did you mean 'id'"),
    "text as a feature": (
        {"feature_columns": ("age", "city")},
        r"feature column 'city' holds text, not numbers: 'Rome' at line 2",
    ),
    "nothing as a feature": (
        {"feature_columns": ("void",)},
        r"got a missing value at line 2, node '007'",
    ),
    "no such feature": ({"feature_columns": ("ages",)}, "no column 'ages'"),
    "no such category": ({"categorical": ("town",)}, "no column 'town'"),
    "label as a feature": ({"categorical": ("label",)}, "holds the labels"),
    "id as a feature": ({"feature_columns": ("id",)}, "holds the ids"),
    "one end twice": (
        {"source_column": "source", "target_column": "source"},
        "must be two columns",
    ),
    "no such end": ({"source_column": "a", "target_column": "b"}, "no column 'a'"),
}


@pytest.mark.parametrize("mistake", OPTION_MISTAKES)
def test_mistakes_in_the_options(folder: Path, mistake: str) -> None:
    values, message = OPTION_MISTAKES[mistake]
    write(folder, nodes=NODES.replace("\n", ",\n").replace("city,", "city,void"))
    with pytest.raises(InputError, match=message):
        read_graph(folder, options=TableOptions(**values))


@pytest.mark.parametrize(
    "values", [{"feature_columns": ("age",)}, {"categorical": ("city",)}]
)
def test_columns_that_are_asked_for_are_not_replaced(
    folder: Path, values: dict[str, tuple[str, ...]]
) -> None:
    write(folder, nodes="id,label\n007,cat\nb,\nc,dog\n")
    with pytest.raises(InputError, match="there is no column"):
        read_graph(folder, options=TableOptions(**values))


def test_categories_without_a_value_are_not_replaced(folder: Path) -> None:
    write(folder, nodes="id,city\n007,\nb,\nc,\n")
    with pytest.raises(InputError, match=r"no feature is left: .*\('city'\)"):
        read_graph(folder, options=TableOptions(categorical=("city",)))


def test_text_that_is_not_utf8(folder: Path) -> None:
    write(folder, nodes="id,city,f\na,Rome,1\nb,Köln,2\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"not UTF-8 \(byte 22, line 3\)"):
        read_graph(folder)
    write(folder, nodes="id,f\na,1\n".encode("utf-16"))
    with pytest.raises(InputError, match=r"not UTF-8 \(byte 0, line 1\)"):
        read_graph(folder)


def test_broken_parquet(folder: Path) -> None:
    (folder / "nodes.csv").unlink()
    (folder / "nodes.parquet").write_bytes(b"PAR1 nothing of the kind")
    with pytest.raises(InputError, match=r"nodes\.parquet: the Parquet file cannot"):
        read_graph(folder)


def test_missing_files_and_folders(folder: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.csv: there is no such file"):
        read_tables(folder / "gone.csv", folder / "edges.csv")
    with pytest.raises(InputError, match="this is a folder"):
        read_tables(folder, folder / "edges.csv")
    with pytest.raises(InputError, match=r"must be one of \.csv, \.tsv, \.parquet"):
        read_tables(folder / "nodes.csv", write_xlsx(folder))
    with pytest.raises(InputError, match="there is no such file or folder"):
        read_graph(folder / "gone")
    with pytest.raises(InputError, match="two tables; give nodes=… and edges=…, or"):
        read_graph(folder / "nodes.csv")
    with refused(param="edges", words="is missing"):
        read_graph(nodes=folder / "nodes.csv")
    with refused(param="nodes", words="is missing"):
        read_graph(edges=folder / "edges.csv")
    with pytest.raises(InputError, match="not both"):
        read_graph(folder, nodes=folder / "nodes.csv", edges=folder / "edges.csv")


def write_xlsx(folder: Path) -> Path:
    path = folder / "edges.xlsx"
    path.write_bytes(b"x")
    return path


def test_folders_lack_or_double_a_table(folder: Path) -> None:
    (folder / "nodes.tsv").write_text("id\tf\n")
    with pytest.raises(InputError, match=r"It has nodes\.csv and nodes\.tsv"):
        read_graph(folder)
    (folder / "nodes.tsv").unlink()
    (folder / "edges.csv").unlink()
    with pytest.raises(InputError, match=r"must hold one of edges\.csv.*It has none"):
        read_graph(folder)


def test_options_round_trip_through_json() -> None:
    options = TableOptions(
        label_column="z",
        feature_columns=("a", "b"),
        categorical=("c",),
        undirected=True,
    )
    stored = json.loads(json.dumps(options.to_json()))
    assert TableOptions.from_json(stored) == options
    assert TableOptions.from_json({}) == TableOptions()
    with pytest.raises(InputError, match=r"'id_colum'. Did you mean 'id_column'"):
        TableOptions.from_json({"id_colum": "id"})
    with pytest.raises(InputError, match="given together"):
        TableOptions(source_column="a")


def test_a_slip_among_numbers_is_an_error(folder: Path) -> None:
    write(folder, nodes="id,age\n007,7\nb,8\nc,abc\n", edges="source,target\n007,b\n")
    with pytest.raises(
        InputError, match=r"column 'age' holds numbers, but 'abc' at line 4; mend it"
    ):
        read_graph(folder)


def test_whole_numbers_with_a_point_are_the_same_labels(folder: Path) -> None:
    nodes = "id,f,label\n007,1,1.0\nb,2,0\nc,3,\nd,4,1\n"
    write(folder, nodes=nodes, edges="source,target\n007,b\n")
    graph = read_graph(folder)
    assert graph.classes.tolist() == [0, 1]
    assert graph.y.tolist() == [1, 0, -1, 1]


def test_a_small_parquet_file_of_many_rows_is_refused_unread(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 10**6
    rows = pa.table({"id": np.zeros(n, np.int64), "f": np.zeros(n, np.float32)})
    pq.write_table(rows, folder / "nodes.parquet")
    (folder / "nodes.csv").unlink()
    assert (folder / "nodes.parquet").stat().st_size < 20_000
    monkeypatch.setattr("h2gcn.sparse.memory.available_memory", lambda: 10**7)
    monkeypatch.setattr(pq.ParquetFile, "read", None)
    with pytest.raises(
        InputError,
        match=r"nodes\.parquet: its 1,000,000 rows would take about 104\.0 MB of "
        r"memory, and 10\.0 MB are free",
    ):
        read_graph(folder)


def test_a_long_text_of_many_cells_is_not_repeated(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = pa.array(["x" * 10_000] * 1000)
    table = pa.table({"id": np.arange(1000), "label": cells, "f": np.ones(1000)})
    pq.write_table(table, folder / "nodes.parquet")
    (folder / "nodes.csv").unlink()
    monkeypatch.setattr("h2gcn.sparse.memory.available_memory", lambda: 10**7)
    with pytest.raises(
        InputError, match=r"its 1,000 rows would take about 20\.0 MB of memory"
    ):
        read_graph(folder)


def test_a_text_file_that_memory_cannot_hold_is_not_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("h2gcn.sparse.memory.available_memory", lambda: 10)
    with pytest.raises(InputError, match=r"nodes\.csv: its \d+ columns would take"):
        read_graph(folder)


def test_many_columns_take_time_by_their_number(folder: Path) -> None:
    """Each is looked up in what is known, not in a list: that would take a minute."""
    names = [f"w{number}" for number in range(5000)]
    cells = ",".join(["1.5"] * 5000)
    ids = [line.split(",")[0] for line in NODES.splitlines()[1:3]]
    edges = f"source,target,{','.join(names)}\n{ids[0]},{ids[1]},{cells}\n"
    graph = read_graph(write(folder, edges=edges))
    assert graph.edge_columns is not None
    assert graph.edge_columns.names == tuple(names)
    assert graph.edge_columns.numeric == tuple(names)
    header = ",".join(f"f{number}" for number in range(100_000))
    (folder / "nodes.csv").write_text(f"id,{header}\n")
    with pytest.warns(
        H2GCNWarning, match=r"100,001 columns, .* being read, which take"
    ):
        assert len(open_table(folder / "nodes.csv").columns) == 100_001
    (folder / "nodes.csv").write_text(f"id,{header},f99999\n")
    with (
        pytest.warns(H2GCNWarning),
        pytest.raises(InputError, match="two columns are called 'f99999'"),
    ):
        open_table(folder / "nodes.csv")


def test_long_cells_are_cut_in_messages(folder: Path) -> None:
    long = "9" * 200_000
    for nodes, message in (
        (f"id,f\na,1\nb,2\nc,{long}x\n", "holds numbers, but '9999"),
        (f"id,f\na,1\nb,{long}\n", "column 'f' must hold a finite"),
        (f"id,f\n{long},1\n{long},2\n", r"the node id '9+…' \(200,000 char"),
        (f"id,{long}\na,1\n", "the header cannot be read"),
    ):
        with pytest.raises(InputError, match=message) as caught:
            read_graph(write(folder, nodes=nodes))
        assert len(str(caught.value)) < 2000


@pytest.mark.parametrize(
    "content",
    [
        b"\x93NUMPY\x01\x00",
        b"\x93NUMPY\x01\x00\x05\x00((((\n",
        b"\x93NUMPY\x01\x00\x88\x13" + b"(" * 5000,
        b"\x93NUMPY\x01\x00\x0a\x00{'descr': ",
        b"\x93NUMPY\x07\x00",
    ],
)
def test_damaged_files_of_features(folder: Path, content: bytes) -> None:
    (folder / "x.npy").write_bytes(content)
    with pytest.raises(InputError, match=r"x\.npy: cannot be read as an array"):
        read_graph(folder, features=folder / "x.npy")


def test_a_table_of_which_no_column_is_needed(folder: Path) -> None:
    write(folder, nodes="a,b\n1,2\n")
    with pytest.raises(InputError) as caught:
        read_graph(folder, options=TableOptions(feature_columns=()))
    assert str(caught.value).count(";") == 1  # of the name of the id column
    assert "no column of node ids" in str(caught.value)


def test_one_long_label_does_not_make_all_labels_long(folder: Path) -> None:
    """A matrix of the longest times their number would be 16 GB."""
    rows = "".join(f"n{number},label {number}\n" for number in range(20_000))
    nodes = f"id,label\n{rows}last,{'x' * 200_000}\n"
    graph = read_graph(write(folder, nodes=nodes, edges="source,target\nn0,n1\n"))
    assert graph.n_classes == 20_001
    assert len(max(graph.classes, key=len)) == 200_000


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"id_column": 7}, "a name or None"),
        ({"categorical": "city"}, "names"),
        ({"categorical": [1]}, "names"),
        ({"feature_columns": 5}, "names or None"),
        ({"undirected": "no"}, "True or False"),
        ({"fill_values": {"a": "b"}}, "numbers by name"),
        ({"edge_fill_values": [1]}, "numbers by name"),
    ],
)
def test_options_of_other_types(given: dict, rule: str) -> None:
    with refused(**only(given), words=f"must be {rule}, got"):
        TableOptions(**given)
    with refused(**only(given), words=f"must be {rule}, got"):
        TableOptions.from_json(given)
