"""Labels that are remembered by node id, and given to another graph."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from h2gcn import Graph
from h2gcn.estimator import KnownLabels, inputs
from h2gcn.exceptions import InputError
from support.cases import each
from support.graphs import adjacency

CPU = torch.device("cpu")


def path_graph(ids: list[object], y: list[int]) -> Graph:
    n = len(ids)
    edges = [(i, i + 1) for i in range(n - 1)]
    return Graph(
        x=np.ones((n, 1)),
        adj=adjacency(n, edges),
        y=y,
        classes=["red", "green", "blue"],
        node_ids=np.array(ids),
        name="path",
    )


KNOWN = KnownLabels.of(
    path_graph(["a", "b", "c", "d"], [2, 0, 1, -1]), np.array([0, 2]), "m"
)


def test_rows_are_one_hot_for_the_seeds_and_zero_elsewhere() -> None:
    graph = path_graph(["a", "b", "c", "d"], [2, 0, 1, -1])
    expected = [[0, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert KNOWN.one_hot(graph, CPU).tolist() == expected


def test_another_graph_is_given_the_labels_of_the_ids_it_shares() -> None:
    other = path_graph(["z", "c", "y"], [0, 0, 0])
    assert KNOWN.one_hot(other, CPU).tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 0]]


def test_a_graph_without_any_of_the_nodes_is_refused() -> None:
    with pytest.raises(
        InputError,
        match=r"path: m spreads the labels of its training nodes, by their ids, and "
        r"none of those 2 nodes \(such as a\) is in this graph",
    ):
        KNOWN.one_hot(path_graph(["x", "y"], [0, 1]), CPU)


def numbered(n: int, y: list[int], name: str = "numbered") -> Graph:
    edges = [(i, i + 1) for i in range(n - 1)]
    return Graph(x=np.ones((n, 1)), adj=adjacency(n, edges), y=y, name=name)


ONLY = r": m spreads .* the training graph's nodes have no ids; only that graph can be"


def test_a_graph_without_ids_is_known_by_its_edges() -> None:
    seeds = KnownLabels.of(numbered(4, [1, 0, 1, 0]), np.array([0, 3]), "m")
    again = KnownLabels.from_json(json.loads(json.dumps(seeds.to_json())))
    assert again == seeds
    for same in (numbered(4, [0] * 4), replace(numbered(4, [0] * 4), name="copy")):
        rows = again.one_hot(same, CPU)
        assert rows.tolist() == [[0, 1], [0, 0], [0, 0], [1, 0]]


@each(
    "other",
    [
        numbered(5, [0] * 5, "other"),
        Graph(x=np.eye(4), adj=adjacency(4, [(0, 1), (2, 3)]), name="other"),
        replace(numbered(4, [0] * 4, "other"), node_ids=np.array(list("0123"))),
    ],
    ids=["larger", "other edges", "ids of its own"],
)
def test_labels_of_a_graph_without_ids_are_for_no_other(other: Graph) -> None:
    seeds = KnownLabels.of(numbered(4, [1, 0, 1, 0]), np.array([0, 3]), "m")
    with pytest.raises(InputError, match="^other" + ONLY):
        KnownLabels.from_json(seeds.to_json()).one_hot(other, CPU)


def test_seeds_of_older_files_go_by_ids_alone() -> None:
    content = KnownLabels.of(numbered(4, [1, 0, 1, 0]), np.array([0, 3]), "m").to_json()
    del content["edges"]
    rows = KnownLabels.from_json(content).one_hot(numbered(2, [0, 0]), CPU)
    assert rows.tolist() == [[0, 1], [0, 0]]


def test_ids_of_older_files_have_no_blanks_around_them() -> None:
    trained = path_graph([" a", "b", "c "], [2, 0, 1])
    seeds = KnownLabels.of(trained, np.array([0, 2]), "m")
    expected = [[0, 0, 1], [0, 0, 0], [0, 1, 0]]
    assert seeds.one_hot(trained, CPU).tolist() == expected
    # Now ids are compared as they are written,
    bare = path_graph(["a", "b", "c"], [2, 0, 1])
    with pytest.raises(InputError, match="none of those 2 nodes"):
        KnownLabels.from_json(seeds.to_json()).one_hot(bare, CPU)
    # and were not when a file says nothing of it.
    content = KnownLabels.of(bare, np.array([0, 2]), "m").to_json()
    del content["trimmed"]
    older = KnownLabels.from_json(content)
    assert older.one_hot(trained, CPU).tolist() == expected
    assert older.one_hot(bare, CPU).tolist() == expected
    both = path_graph(["a", " a"], [0, 1])
    assert older.one_hot(both, CPU).tolist() == [[0, 0, 1], [0, 0, 0]]


def test_two_nodes_with_one_id_are_refused() -> None:
    twice = path_graph(["a", "b", "a"], [0, 1, 2])
    message = "path: labels are remembered by node id, and 2 nodes have the id a"
    with pytest.raises(InputError, match=message):
        KnownLabels.of(twice, np.array([0, 1]), "m")
    with pytest.raises(InputError, match=message):
        KNOWN.one_hot(twice, CPU)


def test_ids_of_others_may_be_the_same() -> None:
    graph = path_graph(["a", "b", "b"], [0, 1, 2])
    seeds = KnownLabels.of(graph, np.array([0]), "m")
    assert seeds.one_hot(graph, CPU).tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_ids_of_any_kind_are_found_a_block_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inputs, "PART", 2)
    odd = ["é", "\ud800", "a\0b", "", "1", "x" * 300]
    for ids in (odd, list(range(7, 13)), [0.5, 1.0, 2.5, 3.0, 4.0, 1e300]):
        graph = path_graph(ids, [0, 1, 2, 0, 1, 2])
        seeds = KnownLabels.of(graph, np.array([1, 4, 5]), "m")
        assert seeds.classes_in(graph).tolist() == [-1, 1, -1, -1, 1, 2]


def test_numbers_are_ids_too_and_json_keeps_them() -> None:
    seeds = KnownLabels.of(path_graph([10, 20, 30], [0, 1, 2]), np.array([1]), "m")
    again = KnownLabels.from_json(json.loads(json.dumps(seeds.to_json())))
    assert again == seeds
    graph = path_graph([20, 5], [0, 1])
    assert again.one_hot(graph, CPU).tolist() == [[0, 1, 0], [0, 0, 0]]
