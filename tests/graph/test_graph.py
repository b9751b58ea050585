"""A graph and its splits are checked once, when they are made, and then stay."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from h2gcn import Graph, Split
from h2gcn.exceptions import InputError
from h2gcn.graph import ReadRecord, category_columns
from h2gcn.graph.checks import MAX_CLASSES
from support.cases import each
from support.refusals import refused

PATH = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])


def path(**changes: Any) -> Graph:
    """Return a path of three nodes, with changes."""
    return Graph(**{"x": np.eye(3), "adj": PATH, "y": [0, 1, -1]} | changes)


def with_entry(row: int, column: int, value: float) -> np.ndarray:
    changed = PATH.astype(float)
    changed[row, column] = value
    return changed


@each(
    ("changes", "fields"),
    [
        ({"adj": np.ones((2, 3))}, {"words": "(2, 3)"}),
        ({"adj": with_entry(0, 1, 0.5)}, {"words": "0 and 1; h2gcn.io."}),
        ({"adj": with_entry(0, 0, 1.0)}, {"words": "self-loops; h2gcn.io."}),
        ({"adj": with_entry(0, 2, 1.0)}, {"words": "symmetric; h2gcn.io."}),
        ({"x": np.eye(2)}, {"words": "(2, 2)"}),
        ({"x": np.ones(3)}, {"words": "(3,)"}),
        ({"x": np.ones((3, 0))}, {"words": "at least one"}),
        ({"x": [["a"], ["b"], ["c"]]}, {"words": "must hold numbers"}),
        ({"x": with_entry(1, 2, np.nan)}, {"words": "nan in row 1, column 2"}),
        (
            {"x": sp.csr_array(with_entry(2, 0, np.inf))},
            {"words": "inf in row 2, column 0"},
        ),
        ({"y": [0.0, 1.0, 2.0]}, {"words": "dtype float64"}),
        ({"y": [[0, 1, 2]]}, {"words": "(1, 3)"}),
        ({"y": [0, 1]}, {"value": 2}),
        ({"y": [0, 1, -2]}, {"value": -2}),
        ({"y": [0, 1, MAX_CLASSES]}, {"value": MAX_CLASSES}),
        ({"node_ids": ["a"]}, {"value": 1}),
        ({"feature_names": ["a"]}, {"value": 1}),
        ({"feature_names": ["1", "b", 1]}, {"value": "1"}),
        ({"directed": np.eye(2)}, {"value": (2, 2)}),
    ],
)
def test_what_cannot_be_a_graph_is_refused(
    changes: dict[str, Any], fields: dict[str, Any]
) -> None:
    (param,) = changes
    with refused(param=param, **fields):
        path(**changes)


@each(
    ("changes", "message"),
    [
        ({"classes": ["a"]}, "'y' uses 2 classes, but 'classes' names 1"),
        (
            {"splits": [Split([0], [1], []), Split([0], [3], [])]},
            "split 1, part 'val' names node 3, but there are 3 nodes",
        ),
    ],
)
def test_what_does_not_go_together_in_a_graph(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        path(**changes)


@each("kind", [np.array, sp.csr_array])
@each(
    ("columns", "found"),
    [
        ([[1, 0, 0], [0, 1, 0], [5, 6, 7]], {"f=1": "f", "f=2": "f"}),
        ([[1, 0, 0], [0, 0, 0], [0, 1, 1]], {"f=1": "f", "f=2": "f", "g=1=2": "g"}),
        ([[1, 0, 0], [1, 1, 0], [0, 1, 0]], {"g=1=2": "g"}),  # a node has two
        ([[1, 0, 0], [0, -1, 0], [0, 1, 0]], {"g=1=2": "g"}),
        ([[1, 0, 0], [0, 2, 0], [0, 0.5, 0]], {}),
    ],
)
def test_categories_are_known_by_their_values(
    columns: list[list[float]], found: dict[str, str], kind: Any
) -> None:
    x, names = kind(np.array(columns).T), ["f=1", "f=2", "g=1=2"]
    assert category_columns(path(x=x, feature_names=names)) == found


def test_categories_of_tables_are_known_by_their_columns() -> None:
    graph = path(
        x=np.full((3, 3), 7.0),
        feature_names=["f=1", "a=b=c", "f"],
        record=ReadRecord(tables={"categorical": ["a=b"]}),
    )
    assert category_columns(graph) == {"a=b=c": "a=b"}


@each("kind", [np.array, sp.csr_array, sp.coo_array])
def test_a_graph_shares_nothing_with_what_it_was_made_of(kind: Any) -> None:
    x, adj = kind(np.eye(3, dtype=np.float32)), kind(PATH.astype(np.float32))
    y, ids, classes = np.array([0, 1, 1]), np.array([7, 8, 9]), np.array(["a", "b"])
    graph = path(x=x, adj=adj, y=y, node_ids=ids, classes=classes)
    for matrix in (x, adj):
        (matrix.data if sp.issparse(matrix) else matrix)[:] = np.nan
    y[:], ids[:], classes[:] = 0, 0, "c"
    dense = graph.x.toarray() if sp.issparse(graph.x) else graph.x
    np.testing.assert_array_equal(dense, np.eye(3))
    np.testing.assert_array_equal(graph.adj.toarray(), PATH)
    assert graph.y.tolist() == [0, 1, 1]
    assert graph.node_ids.tolist() == [7, 8, 9]
    assert graph.classes.tolist() == ["a", "b"]


def test_masks_and_indices_make_the_same_split() -> None:
    masks = Split([True, False, True], [False, True, False], [False] * 3)
    indices = Split([0, 2], [1], [])
    for part, index in indices.parts.items():
        assert index.dtype == np.int64
        np.testing.assert_array_equal(masks.parts[part], index)
    assert masks.sizes == (2, 1, 0)


@each(
    ("given", "words"),
    [
        ([0.9, 1.7], "dtype float64"),
        (["a"], "dtype <U1"),
        (np.ones((3, 2), dtype=bool), "shape (3, 2) and dtype bool"),
        (1, "shape ()"),
    ],
)
def test_what_cannot_be_a_split_is_refused(given: Any, words: str) -> None:
    with refused(param="val", words=words):
        Split([0], given, [2])


def test_a_split_has_no_negative_indices() -> None:
    with pytest.raises(InputError, match="'val' holds a negative node index"):
        Split([0], [-1], [2])


def test_splits_and_graphs_are_themselves_and_nothing_else() -> None:
    one, two = Split([0], [1], [2]), Split([0], [1], [2])
    assert one == one
    assert one != two
    assert len({one, two}) == 2
    assert path() != path()
