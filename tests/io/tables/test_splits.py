"""Splits, times, groups and dates of tables; columns and labels that are doubtful."""

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from h2gcn.exceptions import InputError
from h2gcn.graph import Graph
from h2gcn.io import TableOptions, read_graph
from h2gcn.io.graph_parts import doubtful_column, doubtful_labels


def read(folder: Path, nodes: str, edges: str = "", **options: Any) -> Graph:
    """Read tables: nodes as lines with blanks between cells, `-` for an empty cell."""

    def table(text: str) -> str:
        rows = [line.split() for line in text.strip().splitlines()]
        return "\n".join(",".join("" if c == "-" else c for c in row) for row in rows)

    (folder / "nodes.csv").write_text(table(nodes))
    (folder / "edges.csv").write_text(table(edges or "source target\na b"))
    return read_graph(folder, options=TableOptions(**options))


def parts(graph: Graph) -> list[list[str]]:
    """Return the ids of the parts of the only split."""
    (split,) = graph.splits
    return [graph.node_ids[part].tolist() for part in split.parts.values()]


# ----------------------------------------------------------------------- a split column

WORDS = """
id label f part
a  x     1 train
b  y     2 TRAIN
c  x     3 Val
d  y     4 dev
e  x     5 validation
f  y     6 valid
g  x     7 test
h  y     8 -
"""


def test_a_column_says_what_each_node_is_for(tmp_path: Path) -> None:
    graph = read(tmp_path, WORDS, split_column="part")
    assert parts(graph) == [["a", "b"], ["c", "d", "e", "f"], ["g"]]
    assert graph.feature_names == ("f",)
    assert graph.record.notes == ()
    assert graph.record.tables["split_column"] == "part"


def test_a_split_that_nobody_asked_for_is_noted(tmp_path: Path) -> None:
    graph = read(tmp_path, WORDS)
    assert graph.splits == ()
    assert graph.record.notes == (
        "column 'part' holds a split that is not used; split_column='part' takes it",
    )
    other = read(tmp_path, WORDS.replace("dev", "train-station"))
    assert other.record.notes == (
        "column 'part' holds text and is not used; categorical=['part'] one-hot "
        "encodes it",
    )


def test_nodes_without_labels_are_left_out_or_to_predict(tmp_path: Path) -> None:
    nodes = """
    id label f part
    a  x     1 train
    b  y     1 val
    c  -     1 train
    d  -     1 val
    e  -     1 val
    f  -     1 test
    g  -     1 test
    h  y     1 test
    """
    graph = read(tmp_path, nodes, split_column="part")
    assert parts(graph) == [["a"], ["b"], ["h"]]
    assert graph.record.notes == (
        "1 train node has no label and is left out",
        "2 val nodes have no label and are left out",
        "2 test nodes have no label: nodes to predict",
    )


def test_validation_is_drawn_from_training_where_none_is_said(tmp_path: Path) -> None:
    rows = "\n".join(f"n{i} {'xy'[i % 2]} 1 train" for i in range(16))
    graph = read(
        tmp_path,
        f"id label f part\n{rows}\na x 1 test\nb x 1 -",
        split_column="part",
    )
    train, val, test = parts(graph)
    assert (len(train), len(val), test) == (12, 4, ["a"])
    assert np.bincount(graph.y[graph.splits[0].val]).tolist() == [2, 2]
    assert graph.record.notes == (
        "column 'part' says val of no node that has a label: 4 training nodes, drawn "
        "by class, will do for that",
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "d  y     4 dev",
            "d  y     4 holdout",
            r"nodes.csv: column 'part' must say train, val or test, or nothing, got "
            r"'holdout' at line 5$",
        ),
        (
            "a  x     1 train\nb  y     2 TRAIN",
            "a  x     1 val\nb  -     2 TRAIN",
            r"nodes.csv: column 'part' says train of no node that has a label\.$",
        ),
        ("part", "Part", r"there is no column 'part'. Did you mean 'Part'"),
    ],
)
def test_mistakes_of_a_split(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, WORDS.replace(old, new), split_column="part")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"split_column": "part", "feature_columns": ("part",)},
            r"column 'part' holds the split and cannot be a feature\.",
        ),
        (
            {"group_column": "part", "categorical": ("part",)},
            r"column 'part' holds the groups and cannot be a feature\.",
        ),
        (
            {"time_column": "f", "feature_columns": ("f",)},
            r"column 'f' holds the times and cannot be a feature\.",
        ),
        (
            {"split_column": "label"},
            r"nodes.csv: split_column cannot be column 'label', which holds something",
        ),
        (
            {"group_column": "part", "time_column": "part"},
            r"nodes.csv: time_column cannot be column 'part', which holds something",
        ),
        ({"test_after": 3}, "^test_after needs time_column=…$"),
        (
            {"time_column": "f", "val_after": 3},
            "^val_after needs test_after=…$",
        ),
        (
            {"split_column": "part", "group_column": "f"},
            "^group_column does not go with split_column=…: they are two ways to split",
        ),
        (
            {"split_column": "part", "time_column": "f", "test_after": 3},
            "^test_after does not go with split_column=…: they are two ways to split",
        ),
        (
            {"time_column": "f", "test_after": [3]},
            r"^test_after must be a date such as 2024-06-01 or a number, got \[3\]$",
        ),
        ({"time_column": 3}, "^time_column must be a name or None, got 3$"),
        ({"date_features": "d"}, "^date_features must be names, got 'd'$"),
    ],
)
def test_what_does_not_go_together(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, WORDS, **options)


def test_options_of_older_models_have_no_splits() -> None:
    old = {"id_column": None, "label_column": "y", "fill_missing": True}
    options = TableOptions.from_json(old)
    assert (options.split_column, options.test_after, options.date_features) == (
        *(None, None, ()),
    )
    new = TableOptions(time_column="t", test_after=date(2024, 6, 1), val_after="2024")
    assert new.test_after == "2024-06-01"
    assert TableOptions.from_json(new.to_json()) == new


# ------------------------------------------------------------------------------- groups


def test_groups(tmp_path: Path) -> None:
    nodes = "id label f house\na x 1 1\nb y 2 2\nc x 3 1\nd y 4 -"
    graph = read(tmp_path, nodes, group_column="house")
    assert graph.groups is not None
    assert graph.groups.tolist() == [0, 1, 0, -1]
    assert graph.feature_names == ("f",)
    with pytest.raises(InputError, match=r"nodes.csv: column 'none' names no group"):
        read(tmp_path, "id label none f\na x - 1\nb y - 2", group_column="none")


# -------------------------------------------------------------------------------- times

TIMED = """
id label f when
a  x     1 2024-01-01
b  y     2 2024-02-01
c  x     3 2024-03-01
d  y     4 2024-04-01
e  x     5 2024-05-01
f  y     6 2024-06-01
g  -     7 2024-06-02
h  y     8 -
"""
TIMED_EDGES = "source target at\na b 2024-01-05\nb c 2024-05-02\nc d -"


def test_labels_after_the_cut_are_for_testing(tmp_path: Path) -> None:
    graph = read(
        tmp_path,
        TIMED,
        TIMED_EDGES,
        time_column="when",
        test_after="2024-04-01",
        edge_time_column="at",
    )
    # Of five labels up to then the latest quarter, one; that day counts whole.
    assert parts(graph) == [["a", "b", "c", "h"], ["d"], ["e", "f"]]
    assert graph.times is not None
    assert str(graph.times[1].astype("datetime64[D]")) == "2024-02-01"
    assert np.isnat(graph.times).tolist() == [False] * 7 + [True]
    assert graph.edge_columns is not None
    assert graph.edge_columns.times is not None
    assert str(graph.edge_columns.times[1].astype("datetime64[D]")) == "2024-05-02"
    assert graph.edge_columns.names == ()
    assert graph.feature_names == ("f",)
    assert graph.record.notes == (
        "1 node has no time and is taken as always there, 1 of them labelled",
        "the labels after 2024-04-01 are for testing (2); of the 5 up to then those "
        "after 2024-03-01 are for validation (1)",
        "1 edge has no time and counts as always there",
    )


def test_validation_after_a_time_and_edges_without(tmp_path: Path) -> None:
    graph = read(
        tmp_path,
        TIMED,
        time_column="when",
        test_after="2024-04-30 12:00",
        val_after="2024-02-01",
    )
    assert parts(graph) == [["a", "b", "h"], ["c", "d"], ["e", "f"]]
    assert graph.record.notes[1:] == (
        "the labels after 2024-04-30 12:00:00.000000 are for testing (2); of the 5 up "
        "to then those after 2024-02-01 are for validation (2)",
        "no column says when edges came up: all between nodes up to the cut count as "
        "there then; edge_time_column=… names one",
    )


def test_times_alone_make_no_split(tmp_path: Path) -> None:
    graph = read(tmp_path, TIMED, time_column="when")
    assert graph.splits == ()
    assert graph.times is not None


def test_labels_of_one_time_stay_together(tmp_path: Path) -> None:
    rows = [f"n{i} {'xy'[i % 2]} 1 {max(i, 6)}" for i in range(9)]
    graph = read(
        tmp_path,
        "id label f t\n" + "\n".join(rows),
        "source target\nn1 n2",
        time_column="t",
        test_after="8",
    )
    # A quarter would begin among those of 6: it begins after them.
    assert parts(graph)[1] == ["n7", "n8"]
    rows = [f"n{i} {'xy'[i % 2]} 1 {0 if i < 2 else 5}" for i in range(9)]
    nodes = "id label f t\n" + "\n".join(rows)
    edges = "source target\nn1 n2"
    graph = read(tmp_path, nodes, edges, time_column="t", test_after=5)
    assert parts(graph)[0] == ["n0", "n1"]
    graph = read(
        tmp_path, nodes.replace(" 0", " 5"), edges, time_column="t", test_after=5
    )
    assert graph.splits[0].sizes == (7, 2, 0)
    assert graph.record.notes[0] == (
        "no label is from after 5: how good a model is will not be told; of the 9 up "
        "to then some, drawn by class as all are of one time, are for validation (2)"
    )


def test_a_class_that_comes_later_cannot_be_learned(tmp_path: Path) -> None:
    nodes = "id label f t\na x 1 1\nb y 1 2\nc x 1 3\nd z 1 9"
    graph = read(tmp_path, nodes, time_column="t", test_after=3)
    assert "only later labels are of class z: it cannot be learned" in (
        graph.record.notes
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"test_after": "2023-12-31"},
            r"nodes.csv: no label is from 2023-12-31 or before, so that there is "
            r"nothing to train on; test_after=… must be later$",
        ),
        ({"test_after": "soon"}, r"^test_after must be a date such as 2024-06-01"),
        (
            {"test_after": "2024-04-01T00:00Z"},
            r"^test_after must be without a time zone, as the times of the nodes are",
        ),
        (
            {"test_after": "2024-04-01", "val_after": "2024-04-01"},
            r"no label is from after 2024-04-01 and not after 2024-04-01; "
            r"val_after=… must be another time$",
        ),
    ],
)
def test_cuts_that_cannot_be(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read(
            tmp_path,
            TIMED.replace("-\n", "2024-05-05\n"),
            time_column="when",
            **options,
        )


def test_a_training_part_that_is_empty(tmp_path: Path) -> None:
    nodes = TIMED.replace("h  y     8 -", "h y 8 2024-07-01")
    message = "no label is from 2023-01-01 or before; val_after=… must be another time"
    with pytest.raises(InputError, match=message):
        read(
            tmp_path,
            nodes,
            time_column="when",
            test_after="2024-04-01",
            val_after="2023-01-01",
        )


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["2024-03-01", "-", "1969-12-31"], ["2024-03-01", "NaT", "1969-12-31"]),
        (
            ["2024-03-01T12:30", "2024-03-01T13:00:00.123456789", "2024-03-02"],
            ["2024-03-01T12:30", "2024-03-01T13:00:00.123456", "2024-03-02"],
        ),
        (
            ["2024-03-01T12:30Z", "2024-03-01T12:30+02:00", "2024-03-01T12:30-0130"],
            ["2024-03-01T12:30", "2024-03-01T10:30", "2024-03-01T14:00"],
        ),
    ],
)
def test_dates_of_text(tmp_path: Path, cells: list[str], expected: list[str]) -> None:
    rows = "\n".join(f"{n} 1 {c}" for n, c in zip("abc", cells, strict=True))
    graph = read(tmp_path, f"id f t\n{rows}", time_column="t")
    np.testing.assert_array_equal(graph.times, np.array(expected, "datetime64[us]"))


def test_numbers_as_times(tmp_path: Path) -> None:
    graph = read(tmp_path, "id f t\na 1 1718000000\nb 1 -\nc 1 .5", time_column="t")
    np.testing.assert_array_equal(graph.times, [1718000000.0, np.nan, 0.5])


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (np.array(["2024-01-01", "NaT"], "datetime64[D]"), ["2024-01-01", "NaT"]),
        (
            pa.array([0, None], pa.timestamp("ms", "Europe/Berlin")),
            ["1970-01-01", "NaT"],
        ),
        (pa.array([1, None], pa.date64()), ["1970-01-01", "NaT"]),
        (pa.array(["2024-01-01", None], pa.string()), ["2024-01-01", "NaT"]),
        (
            pa.array(["2024-01-01", "2024-01-01"]).dictionary_encode(),
            ["2024-01-01"] * 2,
        ),
    ],
)
def test_dates_of_parquet(tmp_path: Path, column: Any, expected: list[str]) -> None:
    nodes = pa.table({"id": ["a", "b"], "f": [1, 2], "t": pa.array(column)})
    pq.write_table(nodes, tmp_path / "nodes.parquet")
    (tmp_path / "edges.csv").write_text("source,target\na,b")
    graph = read_graph(tmp_path, options=TableOptions(time_column="t"))
    np.testing.assert_array_equal(graph.times, np.array(expected, "datetime64[us]"))


WHAT = r"must hold dates, such as 2024-06-01 or 2024-06-01 12:30, or numbers"


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("2024-01-01 yesterday -", rf"column 't' {WHAT}, got 'yesterday' at line 3$"),
        (
            "2024-01-01 31.12.2024 -",
            rf"column 't' {WHAT}, got '31.12.2024' at line 3$",
        ),
        ("- 2024-01-01 2024-02-30", rf"{WHAT}, got '2024-02-30' at line 4$"),
        (
            "2024-01-01 2024-01-02 5",
            r"must hold dates in all rows, got '5' at line 4$",
        ),
        (
            "1 2024-01-02 5",
            r"must hold numbers in all rows, got '2024-01-02' at line 3$",
        ),
        ("- - -", rf"column 't' {WHAT}. It holds nothing\."),
        ("1 1e999 2", rf"column 't' {WHAT}, got '1e999' at line 3$"),
        (
            "2024-01-01T10:00Z 2024-01-01T10:00+01:00 2024-01-01",
            r"must hold dates with a time zone in all rows, as it has in most, got "
            r"'2024-01-01' at line 4$",
        ),
        (
            "2024-01-01T10:00Z 2024-01-01T10:00 2024-01-01",
            r"must hold dates without a time zone in all rows, as in most, got "
            r"'2024-01-01T10:00Z' at line 2$",
        ),
    ],
)
def test_what_is_no_time(tmp_path: Path, cells: str, message: str) -> None:
    rows = "\n".join(f"{n} 1 {c}" for n, c in zip("abc", cells.split(), strict=True))
    with pytest.raises(InputError, match=message):
        read(tmp_path, f"id f t\n{rows}", time_column="t")


def test_parquet_columns_that_are_no_times(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target\na,b")
    for column in ([True, False], pa.array([1, 2], pa.duration("s"))):
        nodes = pa.table({"id": ["a", "b"], "f": [1, 2], "t": column})
        pq.write_table(nodes, tmp_path / "nodes.parquet")
        with pytest.raises(InputError, match=rf"{WHAT}, got .* at row 1$"):
            read_graph(tmp_path, options=TableOptions(time_column="t"))


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ("5", r"edges.csv: the times of edges are numbers, but those of nodes, in "),
        (
            "2024-01-01T10:00Z",
            r"are dates with a time zone, but .* are dates without a",
        ),
        ("never", rf"edges.csv: column 'at' {WHAT}, got 'never' at line 2$"),
    ],
)
def test_times_of_edges_must_be_like_those_of_nodes(
    tmp_path: Path, edges: str, message: str
) -> None:
    options = {"time_column": "when", "edge_time_column": "at"}
    with pytest.raises(InputError, match=message):
        read(tmp_path, TIMED, f"source target at\na b {edges}", **options)


def test_a_time_of_edges_is_neither_end_nor_feature(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'source' holds the ends of edges and cannot"):
        read(tmp_path, TIMED, TIMED_EDGES, edge_time_column="source")
    with pytest.raises(InputError, match="'at' holds the times of edges and cannot be"):
        read(tmp_path, TIMED, TIMED_EDGES, edge_time_column="at", edge_features=("at",))
    with pytest.raises(InputError, match=r"edges.csv: there is no column 'on'"):
        read(tmp_path, TIMED, TIMED_EDGES, edge_time_column="on")


def test_none_of_it_is_needed_to_predict(tmp_path: Path) -> None:
    options = {
        "time_column": "when",
        "edge_time_column": "at",
        "test_after": "2024-04-01",
        "to_train": False,
    }
    bare = read(tmp_path, "id f\na 1\nb 2", **options)
    assert (bare.splits, bare.times) == ((), None)
    assert bare.edge_columns is not None  # as in training
    # It is no feature either, nor looked at.
    same = read(
        tmp_path, "id f when\na 1 7\nb 2 x", "source target at\na b 3", **options
    )
    assert same.feature_names == ("f",)
    assert same.times is None
    assert same.edge_columns is not None
    assert same.edge_columns.names == ()
    words = {"split_column": "part", "to_train": False}
    assert read(tmp_path, WORDS, **words).splits == ()


def test_only_tables_have_such_columns(tmp_path: Path) -> None:
    path = tmp_path / "g.edgelist"
    path.write_text("a b\n")
    with pytest.raises(InputError, match="time_column is for a node table and an"):
        read_graph(path, options=TableOptions(time_column="t"))
    options = TableOptions(time_column="t", to_train=False)
    assert read_graph(path, options=options).n_nodes == 2


# -------------------------------------------------------------------- dates as features


def test_dates_become_numbers_on_request(tmp_path: Path) -> None:
    nodes = "id f born\na 1 1970-01-02\nb 2 2023-07-02T12:00"
    graph = read(tmp_path, nodes)
    assert graph.feature_names == ("f",)
    graph = read(tmp_path, nodes, date_features=("born",))
    assert graph.feature_names == (
        "f",
        "born (days)",
        "born (sine of year)",
        "born (cosine of year)",
        "born (sine of week)",
        "born (cosine of week)",
    )
    # A Friday, the second day of a year; and a Sunday noon, the middle of one.
    x = np.asarray(graph.x)
    np.testing.assert_allclose(x[:, 1], [1, 19540.5])
    angles = 2 * np.pi * np.array([1 / 365, 182.5 / 365])
    np.testing.assert_allclose(x[:, 2], np.sin(angles), atol=1e-6)
    np.testing.assert_allclose(x[:, 3], np.cos(angles), atol=1e-6)
    angles = 2 * np.pi * np.array([4, 6.5]) / 7
    np.testing.assert_allclose(x[:, 4], np.sin(angles), atol=1e-6)
    np.testing.assert_allclose(x[:, 5], np.cos(angles), atol=1e-6)


def test_dates_that_nobody_asked_for_are_noted(tmp_path: Path) -> None:
    graph = read(tmp_path, "id label f born\na x 1 1970-01-02\nb y 2 2023-07-02")
    assert graph.record.notes == (
        "column 'born' holds dates or times and is not used; date_features=['born'] "
        "makes numbers of it",
    )


def test_the_time_of_a_node_may_be_a_feature_too(tmp_path: Path) -> None:
    graph = read(tmp_path, TIMED.replace("8 -", "8 2024-07-01"), time_column="when")
    assert graph.feature_names == ("f",)
    graph = read(
        tmp_path,
        TIMED.replace("8 -", "8 2024-07-01"),
        time_column="when",
        date_features=("when",),
    )
    assert graph.feature_names[:2] == ("f", "when (days)")
    assert graph.times is not None


def test_missing_dates(tmp_path: Path) -> None:
    nodes = "id f d\na 1 1970-01-02\nb 2 -\nc 3 1970-01-04"
    message = "column 'd' must hold a date in each row, got a missing value at line 3; "
    with pytest.raises(InputError, match=message + "fill_missing=True puts the median"):
        read(tmp_path, nodes, date_features=("d",))
    graph = read(tmp_path, nodes, date_features=("d",), fill_missing=True)
    assert np.asarray(graph.x)[:, 1].tolist() == [1, 2, 3]
    assert graph.record.tables["fill_values"]["d"] == 2
    assert graph.record.notes[0] == "1 empty cell filled, of 'd' (1)"


def test_date_features_must_be_dates(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="column 'f' holds numbers, not dates; it can"):
        read(tmp_path, "id f\na 1\nb 2", date_features=("f",))
    with pytest.raises(InputError, match="there is no column 'd'"):
        read(tmp_path, "id f\na 1\nb 2", date_features=("d",))
    with pytest.raises(InputError, match="'label' holds the labels and cannot be a"):
        read(tmp_path, "id label\na 1\nb 2", date_features=("label",))


# ------------------------------------------------------ what may be meant to be another


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("customer_no", np.arange(40) % 9, "keys, by its name"),
        ("customerId", np.arange(40) % 9, "keys, by its name"),
        ("Phone", 10**9 + np.arange(40) % 9, "keys, by its name"),
        ("zip", 10000 + np.arange(40) % 9, "codes, by its name"),
        ("zip_code", np.arange(40) % 9, "codes, by its name"),
        ("ZIP_2020", np.arange(40) % 9, "codes, by its name"),
        ("id_count", np.arange(40) % 9, ""),
        ("paid", np.arange(40) % 9, ""),
        ("country_code", np.arange(40) % 2, ""),  # 0 and 1 are what they are
        ("no", np.arange(19) % 9, ""),  # too few rows
        ("area_id", np.arange(40) / 3, ""),  # fractions are amounts
        ("n", 3 * np.arange(40), "keys, as it rises from row to row"),
        ("n", 7.0 - np.arange(40), "keys, as it falls from row to row"),
        ("n", np.random.default_rng(0).permutation(49), ""),
        (
            "n",
            np.random.default_rng(0).permutation(50),
            "keys, as no value is there twice",
        ),
        ("n", np.r_[np.arange(60), 7], ""),
        ("t", 1.7e9 + np.arange(40) % 9, "times, as seconds since 1970"),
        ("t", 1.7e12 + np.arange(40) % 9, "times, as milliseconds since 1970"),
        ("t", 1.7e15 + np.arange(40) % 9, "times, as microseconds since 1970"),
        ("d", 20240601 + np.arange(40) % 9, "dates, as numbers such as 20240601"),
        ("d", 20240699 + np.arange(40) % 9, ""),
        ("n", np.r_[3.0 * np.arange(40), np.nan], "keys, as it rises from row to row"),
        ("n", np.arange(40, dtype=np.uint8)[::-1], "keys, as it falls from row to row"),
        ("f", np.full(40, np.inf), ""),
        ("f", np.full(40, 3), ""),
    ],
)
def test_what_numbers_seem_to_be(
    name: str, values: np.ndarray[Any, Any], expected: str
) -> None:
    assert doubtful_column(name, values) == expected


@pytest.mark.data
@pytest.mark.parametrize("name", ["texas", "cora", "chameleon", "actor"])
def test_no_column_of_the_benchmarks_is_doubtful(data_root: Path, name: str) -> None:
    from h2gcn.datasets import load_dataset

    graph = load_dataset(name, root=data_root)
    columns = sp.csc_array(graph.x)
    for number in range(graph.n_features):
        values = columns[:, [number]].toarray().ravel()
        assert doubtful_column(f"w{number}", values) == ""
    assert doubtful_labels(graph.classes, graph.y) == ()


def test_doubtful_columns_are_noted_and_kept(tmp_path: Path) -> None:
    rows = "\n".join(f"n{i} {i % 7} {100 + i} {10 + i % 5}" for i in range(30))
    nodes, edges = f"id age number zip\n{rows}", "source target\nn1 n2"
    graph = read(tmp_path, nodes, edges)
    assert graph.feature_names == ("age", "number", "zip")
    assert graph.record.notes[0] == (
        "2 columns used as numbers may be none: 'number' (keys, as it rises from row "
        "to row), 'zip' (codes, by its name); feature_columns=… can name the columns "
        "to use, and categorical=['zip'] makes categories"
    )
    graph = read(tmp_path, nodes, edges, categorical=("zip",))
    assert graph.record.notes[0] == (
        "a column used as numbers may be none: 'number' (keys, as it rises from row to "
        "row); feature_columns=… can name the columns to use"
    )
    named = read(tmp_path, nodes, edges, feature_columns=("number", "zip"))
    again = read(tmp_path, nodes, edges, to_train=False)
    for one in (named, again):
        assert not any("may be none" in note for note in one.record.notes)


def test_many_doubtful_columns_are_counted(tmp_path: Path) -> None:
    heads = " ".join(f"k{i}_id" for i in range(11))
    rows = "\n".join(f"n{i} " + " ".join([str(i % 5)] * 11) for i in range(30))
    graph = read(tmp_path, f"id {heads}\n{rows}", "source target\nn1 n2")
    assert "11 columns used as numbers may be none: 'k0_id' (" in graph.record.notes[0]
    assert "'k7_id' (keys, by its name) and 3 more; " in graph.record.notes[0]


@pytest.mark.parametrize(
    ("classes", "count", "doubtful"),
    [
        (np.arange(21), 209, True),
        (np.arange(21), 210, False),
        (np.arange(20), 40, False),
        (np.arange(11) / 2, 10_000, True),
        (np.array([str(i / 2) for i in range(11)]), 10_000, True),
        (np.arange(10) / 2, 10, False),
        (np.array([f"c{i}" for i in range(50)]), 60, False),
    ],
)
def test_labels_that_look_like_amounts(
    classes: np.ndarray[Any, Any], count: int, doubtful: bool
) -> None:
    y = np.arange(count) % len(classes)
    notes = doubtful_labels(classes, np.r_[y, -1])
    assert bool(notes) == doubtful
    if doubtful:
        assert notes[0] == (
            f"the labels of {count:,} nodes are {len(classes)} different numbers, and "
            "are taken as classes, as nothing here predicts amounts; a few ranges, "
            "such as low and high, would do in their place"
        )


def test_labels_of_which_none_is_there_twice_are_refused(tmp_path: Path) -> None:
    rows = "\n".join(f"n{i} 1 {i * 1.5}" for i in range(30))
    nodes, edges = f"id f price\n{rows}", "source target\nn1 n2"
    message = (
        r"nodes.csv: the labels \(column 'price'\) are 30 different numbers in 30 "
        r"rows, and nothing here predicts amounts; .* another column by label_column=…$"
    )
    with pytest.raises(InputError, match=message):
        read(tmp_path, nodes, edges, label_column="price")
    told = {"label_column": "price", "to_train": False}
    assert len(read(tmp_path, nodes, edges, **told).classes) == 30
