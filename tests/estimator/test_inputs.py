"""Columns and labels of another graph, matched with those of the training graph."""

import re
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from h2gcn import Graph
from h2gcn.estimator import align_features
from h2gcn.estimator.inputs import match_labels
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import ReadRecord
from support.cases import each

TRAINED = ("age", "colour=blue", "colour=red", "height")


TABLES = {"categorical": ["colour"]}


def graph_of(
    names: tuple[str, ...], *, sparse: bool = False, tables: Any = TABLES
) -> Graph:
    """Return two nodes whose features in column j are j + 1 and 10·(j + 1)."""
    row = np.arange(1, len(names) + 1)
    x = np.stack([row, 10 * row])
    adj = np.array([[0, 1], [1, 0]])
    return Graph(
        x=sp.csr_array(x) if sparse else x,
        adj=adj,
        feature_names=names,
        name="new",
        record=ReadRecord(tables=tables),
    )


def dense(x: object) -> list[list[float]]:
    return (x.toarray() if sp.issparse(x) else x).tolist()


# -------------------------------------------------------------------------- columns


def test_the_same_columns_are_passed_through() -> None:
    graph = graph_of(TRAINED)
    assert align_features(graph, TRAINED) is graph.x


@each("sparse", [False, True])
def test_columns_in_another_order_are_reordered(sparse: bool) -> None:
    graph = graph_of(("height", "colour=red", "age", "colour=blue"), sparse=sparse)
    x = align_features(graph, TRAINED)
    assert sp.issparse(x) == sparse
    assert x.dtype == np.float32
    assert dense(x) == [[3, 4, 2, 1], [30, 40, 20, 10]]


def test_a_missing_column_is_named() -> None:
    message = (
        "new has 3 feature columns, the model was trained on 4: 1 missing ('height')"
    )
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        align_features(graph_of(("age", "colour=blue", "colour=red")), TRAINED)


@each("name", ["shoe size", "town=Ulm"])
def test_a_new_column_is_left_out(name: str) -> None:
    graph = graph_of((*TRAINED, name))
    told = f"columns that the model was not trained on are left out: {name!r}"
    with pytest.warns(H2GCNWarning, match=f"^{re.escape(told)}$"):
        x = align_features(graph, TRAINED)
    np.testing.assert_array_equal(x, graph.x[:, :4])


def test_a_column_more_is_an_error_where_columns_are_only_numbered() -> None:
    message = "new has 3 feature columns, the model was trained on 2: 1 new ('2')"
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        align_features(graph_of(("0", "1", "2")), ("0", "1"))


def test_missing_and_new_columns_are_told_together_and_only_some_by_name() -> None:
    names = tuple(f"f{i}" for i in range(8))
    message = (
        "new has 1 feature columns, the model was trained on 8: "
        "8 missing ('f0', 'f1', 'f2', 'f3', 'f4' and 3 more), 1 new ('g')"
    )
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        align_features(graph_of(("g",)), names)


@each("sparse", [False, True])
def test_a_category_that_is_absent_counts_as_zero(sparse: bool) -> None:
    graph = graph_of(("age", "colour=red", "height"), sparse=sparse)
    with pytest.warns(
        H2GCNWarning,
        match="categories that only one of the two graphs has: 'colour=blue'; absent "
        "ones count as zero, new ones are left out",
    ):
        x = align_features(graph, TRAINED)
    assert sp.issparse(x) == sparse
    assert dense(x) == [[1, 0, 2, 3], [10, 0, 20, 30]]


def test_a_category_that_is_new_is_left_out() -> None:
    graph = graph_of(("age", "colour=blue", "colour=green", "colour=red", "height"))
    with pytest.warns(H2GCNWarning, match="'colour=green'"):
        x = align_features(graph, TRAINED)
    assert dense(x) == [[1, 2, 4, 5], [10, 20, 40, 50]]


def test_a_categorical_column_that_is_gone_altogether_is_missing() -> None:
    with pytest.raises(InputError, match=r"2 missing \('colour=blue', 'colour=red'\)$"):
        align_features(graph_of(("age", "height")), TRAINED)


def test_a_column_that_changed_its_kind_is_not_a_category() -> None:
    told = r"1 missing \('age'\), 2 new \('age=old', 'age=young'\)"
    with pytest.raises(InputError, match=told):
        align_features(graph_of(("age=old", "age=young", *TRAINED[1:])), TRAINED)
    with pytest.raises(InputError, match=r"missing \('colour=blue', 'colour=red'\)"):
        align_features(graph_of(("age", "colour", "height")), TRAINED)


@each("tables", [{}, {"categorical": ["colour"]}])
def test_numbers_with_a_sign_of_equality_in_their_names_are_no_categories(
    tables: dict[str, Any],
) -> None:
    with pytest.raises(InputError, match=r"on 2: 1 missing \('f=2'\)$"):
        align_features(graph_of(("f=1",), tables=tables), ("f=1", "f=2"))
    with pytest.warns(H2GCNWarning, match="not trained on are left out: 'f=3'$"):
        align_features(graph_of(("f=1", "f=3"), tables=tables), ("f=1",))


def test_a_graph_that_is_from_no_table_may_lack_a_category() -> None:
    graph = Graph(x=np.eye(2), adj=np.eye(2)[::-1], feature_names=("f=1", "f=2"))
    with pytest.warns(H2GCNWarning, match="only one of the two graphs has: 'f=3'; "):
        x = align_features(graph, ("f=1", "f=2", "f=3"))
    assert dense(x) == [[1, 0, 0], [0, 1, 0]]


def test_reordering_alone_gives_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        align_features(graph_of(TRAINED[::-1]), TRAINED)


# --------------------------------------------------------------------------- labels


def labelled(y: list[int], classes: list[object]) -> Graph:
    n = len(y)
    return Graph(
        x=np.ones((n, 1)),
        adj=np.zeros((n, n)),
        y=np.array(y),
        classes=np.array(classes),
        node_ids=np.array([f"n{i}" for i in range(n)]),
        name="new",
    )


def test_labels_are_matched_by_name_not_by_number() -> None:
    graph = labelled([0, 1, 1, 2], ["b", "c", "a"])
    found = match_labels(graph, np.arange(4), np.array(["a", "b", "c"]))
    assert found.tolist() == [1, 2, 2, 0]
    assert match_labels(
        graph, np.array([3, 0]), np.array(["a", "b", "c"])
    ).tolist() == [
        0,
        1,
    ]


def test_numbers_match_their_text() -> None:
    graph = labelled([0, 1], ["10", "20"])
    assert match_labels(graph, np.arange(2), np.array([20, 10])).tolist() == [1, 0]


def test_labels_that_were_never_seen_are_named() -> None:
    graph = labelled([0, 1, 2], ["a", "x", "y"])
    message = "new has labels that the model never saw: 'x', 'y'; it knows 'a', 'b'"
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        match_labels(graph, np.arange(3), np.array(["a", "b"]))


def test_a_label_that_is_known_but_not_used_does_no_harm() -> None:
    graph = labelled([0, 0, 1], ["a", "x"])
    found = match_labels(graph, np.array([0, 1]), np.array(["b", "a"]))
    assert found.tolist() == [1, 1]


@each("nodes", [[0, 2], [False, False, True]])
def test_a_node_without_a_label_is_named(nodes: list[int]) -> None:
    graph = labelled([0, 1, -1], ["a", "b"])
    with pytest.raises(InputError, match=r"^new: node n2 has no label to score by$"):
        match_labels(graph, np.array(nodes), np.array(["a", "b"]))
