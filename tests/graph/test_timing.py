"""A graph as it was at a time, and what a time is."""

from datetime import UTC, date, datetime

import numpy as np
import pytest

from h2gcn.exceptions import InputError
from h2gcn.graph import (
    EdgeColumns,
    Graph,
    Split,
    is_by_time,
    moment,
    structural_features,
    time_text,
    until,
)
from support.cases import each
from support.refusals import refused

DATES = np.array(["2024-05-31", "NaT"], dtype="datetime64[us]")
END = np.datetime64("2024-06-01T23:59:59.999999")


def graph_of(edges, times, *, edge_times=None, directed=True, **more) -> Graph:
    """Return a graph of directed edges; node i is called "n<i>"."""
    n = len(times)
    ways = np.zeros((n, n))
    for u, v in edges:
        ways[u, v] = 1
    both = np.maximum(ways, ways.T)
    source, target = map(list, zip(*edges, strict=True))
    columns = EdgeColumns(
        source,
        target,
        np.arange(len(edges))[:, None],
        ("number",),
        directed=directed,
        times=edge_times,
    )
    return Graph(
        x=np.arange(2 * n).reshape(n, 2),
        adj=both,
        directed=ways if directed else None,
        node_ids=[f"n{i}" for i in range(n)],
        times=times,
        edge_columns=columns,
        **{"y": np.arange(n) % 2} | more,
    )


def test_later_nodes_and_their_edges_are_not_there():
    graph = graph_of(
        [(0, 1), (1, 2), (3, 0)],
        [1, 5, 2, np.nan],
        groups=[4, 4, -1, 5],
        splits=(Split([0, 3], [2], [1]),),
    )
    past = until(graph, 2)
    assert past.node_ids.tolist() == ["n0", "n2", "n3"]
    assert past.adj.toarray().tolist() == [[0, 0, 1], [0, 0, 0], [1, 0, 0]]
    assert past.directed is not None
    assert past.directed.toarray().tolist() == [[0, 0, 0], [0, 0, 0], [1, 0, 0]]
    assert past.x.tolist() == [[0, 1], [4, 5], [6, 7]]
    assert past.y.tolist() == [0, 0, 1]
    assert past.groups.tolist() == [4, -1, 5]
    assert [part.tolist() for part in past.splits[0].parts.values()] == [
        [0, 2],
        [1],
        [],
    ]
    assert past.edge_columns.source.tolist() == [2]
    assert past.edge_columns.target.tolist() == [0]
    assert past.edge_columns.values.tolist() == [[2]]
    assert past.classes.tolist() == graph.classes.tolist()


def test_an_edge_is_there_from_its_first_time_on():
    edges = [(0, 1), (0, 1), (1, 0), (1, 2), (2, 0)]
    graph = graph_of(edges, [0, 0, 0], edge_times=[9, 3, 7, 8, np.nan])
    past = until(graph, 3)
    # The way back from 1 to 0 came later, and all between 1 and 2.
    assert past.directed.toarray().tolist() == [[0, 1, 0], [0, 0, 0], [1, 0, 0]]
    assert past.adj.toarray().tolist() == [[0, 1, 1], [1, 0, 0], [1, 0, 0]]
    assert past.edge_columns.values.ravel().tolist() == [1, 4]
    assert past.edge_columns.times[0] == 3
    assert until(graph, 9).adj.nnz == graph.adj.nnz


def test_edges_without_directions_are_cut_both_ways():
    graph = graph_of([(0, 1), (2, 1)], [0, 0, 0], edge_times=[1, 2], directed=False)
    assert until(graph, 1).adj.toarray().tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert until(graph, 1).directed is None


def test_features_made_of_degrees_are_made_anew():
    graph = graph_of([(0, 1), (0, 2)], [0, 0, 9])
    x, names, _ = structural_features(graph.adj)
    graph = graph_of([(0, 1), (0, 2)], [0, 0, 9])
    made = Graph(
        x=x,
        adj=graph.adj,
        feature_names=names,
        node_ids=graph.node_ids,
        times=graph.times,
    )
    expected = np.log(2)
    np.testing.assert_allclose(until(made, 1).x[:, 0], [expected, expected])
    assert made.x[0, 0] == pytest.approx(np.log(3))


@each(
    ("given", "expected"),
    [
        ("2024-06-01", END),
        (" 2024-06-01 ", END),
        (date(2024, 6, 1), END),
        (np.datetime64("2024-06-01"), END),
        ("2024-06-01 12:30", np.datetime64("2024-06-01T12:30")),
        ("2024-06-01T12:30:00.5", np.datetime64("2024-06-01T12:30:00.5")),
        ("2024-06-01T12:30+02:00", np.datetime64("2024-06-01T10:30")),
        ("2024-06-01T12:30Z", np.datetime64("2024-06-01T12:30")),
        (datetime(2024, 6, 1, tzinfo=UTC), np.datetime64("2024-06-01")),
        (np.datetime64("2024-06-01T12", "h"), np.datetime64("2024-06-01T12")),
    ],
)
def test_what_a_date_is(given, expected):
    assert moment("cut", given, DATES) == expected


@each("given", ["", "soon", "2024-02-30", "01.06.2024", "20240601", 5, None, "2024-06"])
def test_what_a_date_is_not(given):
    with refused(param="cut", value=given, words="date"):
        moment("cut", given, DATES)


@each("given", ["", "soon", "2024-06-01", None, float("inf"), "nan"])
def test_what_a_number_is_not(given):
    with refused(param="cut", value=given, words="number"):
        moment("cut", given, np.array([1.0]))


def test_times_in_words():
    assert time_text(END) == "2024-06-01"
    assert time_text(np.datetime64("2024-06-01", "us")) == "2024-06-01"
    assert time_text(np.datetime64("2024-06-01T12:30", "us")).startswith(
        "2024-06-01 12"
    )
    assert time_text(1718000000.0) == "1718000000"
    assert time_text(0.5) == "0.5"


def test_whether_a_split_is_by_time():
    graph = graph_of([(0, 1)], [1, 2, 3, np.nan])
    assert is_by_time(graph, Split([0, 3], [1, 2], []))
    assert not is_by_time(graph, Split([0, 2], [1], []))
    assert not is_by_time(graph, Split([0], [1, 3], []))
    assert not is_by_time(graph, Split([0], [], [1]))
    assert is_by_time(graph, Split([3], [1], []))
    untimed = Graph(x=np.eye(2), adj=np.zeros((2, 2)))
    assert not is_by_time(untimed, Split([0], [1], []))


def test_what_until_needs():
    graph = graph_of([(0, 1)], [1, 2])
    with pytest.raises(InputError, match=r"until: no node of 'graph' is from before 0"):
        until(graph, 0)
    with refused(param="time", value="2024-06-01"):
        until(graph, "2024-06-01")
    with pytest.raises(InputError, match="until: 'graph' has no times"):
        until(Graph(x=np.eye(2), adj=np.zeros((2, 2))), 1)
    with pytest.raises(InputError, match="the nodes of 'graph' have no ids"):
        until(Graph(x=np.eye(2), adj=np.zeros((2, 2)), times=[1, 2]), 1)
    with refused(param="graph", value=type(None)):
        until(None, 1)


@each(
    ("times", "words"),
    [
        (["a", "b"], "dtype <U1"),
        ([1.0], "shape (1,)"),
        ([[1.0, 2.0]], "shape (1, 2)"),
        ([True, False], "dtype bool"),
    ],
)
def test_times_are_checked(times, words):
    with refused(param="times", words=words):
        Graph(x=np.eye(2), adj=np.zeros((2, 2)), times=times)
    with refused(param="times", words=words):
        EdgeColumns([0, 1], [1, 0], np.zeros((2, 0)), (), times=times)


def test_groups_are_numbers():
    with refused(param="groups", words="dtype <U1"):
        Graph(x=np.eye(2), adj=np.zeros((2, 2)), groups=["a", "b"])
    with refused(param="groups", value=1):
        Graph(x=np.eye(2), adj=np.zeros((2, 2)), groups=[1])
