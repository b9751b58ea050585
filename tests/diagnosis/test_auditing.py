"""What the audit finds, on graphs where the answer is plain."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, strategies as st

from h2gcn import Graph, Split
from h2gcn.diagnosis import audit
from h2gcn.diagnosis.auditing import Audit, Finding, find_twins, label_features
from h2gcn.exceptions import InputError
from h2gcn.graph import equal_groups, row_keys
from support.cases import each
from support.graphs import NAMED, adjacency

SPLIT = Split(train=[0, 1], val=[2], test=[3])


def path_graph(**given: object) -> Graph:
    """Return a path of five nodes, each with features of its own."""
    given = {"x": np.eye(5), "adj": NAMED["path"], "y": [0, 1, 0, 1, 0], **given}
    return Graph(**given)  # type: ignore[arg-type]


def found(report: Audit, kind: str) -> Finding:
    """Return the one finding of a kind."""
    (finding,) = [finding for finding in report.findings if finding.kind == kind]
    return finding


def kinds(report: Audit) -> set[str]:
    return {finding.kind for finding in report.findings}


def test_a_sound_graph_has_no_findings() -> None:
    split = Split(train=[0, 1], val=[2, 3], test=[4, 5])
    ring = adjacency(6, [(i, (i + 1) % 6) for i in range(6)])
    graph = Graph(x=np.eye(6), adj=ring, y=[0, 1, 0, 1, 0, 1], splits=(split,))
    assert audit(graph) == Audit("graph", 1, 0.0, ())


def test_without_splits_there_is_no_twin_share() -> None:
    report = audit(path_graph())
    assert report == Audit("graph", 0, None, ())


def test_errors_come_first() -> None:
    split = Split(train=[0, 1], val=[1], test=[1, 4])
    graph = Graph(x=np.ones((5, 1)), adj=NAMED["path"], y=[0, 1, 0, 1, -1])
    severities = [finding.severity for finding in audit(graph, split).findings]
    assert severities == sorted(severities, key=["error", "warning", "note"].index)
    assert [finding.kind for finding in audit(graph, split).errors] == ["leakage"]


# ------------------------------------------------------------------------------- twins


def test_twins_are_equal_neighbours_and_labels() -> None:
    # The leaves 1 to 4 of the star all have the one neighbour 0. Leaf 3 has the label
    # of the training leaf 1; leaf 4 has another; the hub 0 has no twin.
    graph = Graph(x=np.eye(5), adj=NAMED["star"], y=[0, 1, 1, 1, 0])
    split = Split(train=[1], val=[2], test=[0, 3, 4])
    (twins,) = find_twins(graph, [split])
    assert twins.tolist() == [3]
    report = audit(graph, split)
    assert report.twin_share == pytest.approx(1 / 3)
    assert found(report, "twins") == Finding(
        "twins",
        "warning",
        "33.3% of the test nodes have a training node with the same neighbours and "
        "the same label: 3.",
        1,
    )


def test_twins_look_at_the_directions_where_there_are_any() -> None:
    # Undirected, 0 and 2 of the path 0-1-2 are twins. Directed 0→1→2, node 0 points
    # at 1 and node 2 at nothing.
    directed = sp.csr_array(np.diag([1.0, 1.0], 1))
    path = adjacency(3, [(0, 1), (1, 2)])
    split = Split(train=[0], val=[1], test=[2])
    undirected = Graph(x=np.eye(3), adj=path, y=[0, 0, 0])
    with_directions = Graph(x=np.eye(3), adj=path, y=[0, 0, 0], directed=directed)
    assert find_twins(undirected, [split])[0].tolist() == [2]
    assert find_twins(with_directions, [split])[0].tolist() == []


def test_nodes_without_out_neighbours_are_no_twins() -> None:
    graph = Graph(x=np.eye(3), adj=NAMED["no edges"], y=[0, 0, 0])
    assert find_twins(graph, [Split([0], [1], [2])])[0].tolist() == []


def test_unlabelled_nodes_are_no_twins() -> None:
    graph = Graph(x=np.eye(5), adj=NAMED["star"], y=[0, -1, -1, -1, -1])
    assert find_twins(graph, [Split([1], [2], [3])])[0].tolist() == []


def test_a_leaked_node_is_not_its_own_twin() -> None:
    graph = path_graph()
    assert find_twins(graph, [Split([0, 1], [2], [1])])[0].tolist() == []


def test_weights_of_directions_do_not_matter() -> None:
    directed = sp.csr_array(np.array([[0, 0, 2.0], [0, 0, 5.0], [0, 0, 0]]))
    triangle = adjacency(3, [(0, 2), (1, 2)])
    graph = Graph(x=np.eye(3), adj=triangle, directed=directed, y=[0, 0, 1])
    assert find_twins(graph, [Split([0], [2], [1])])[0].tolist() == [1]


def test_the_twin_share_is_the_mean_over_splits() -> None:
    # In the star, leaf 3 has a twin in training in the first split and not in the
    # second; the third has no test part and does not count.
    splits = (
        Split(train=[1], val=[2], test=[3]),
        Split(train=[0], val=[2], test=[3]),
        Split(train=[1], val=[2], test=[]),
    )
    graph = Graph(x=np.eye(5), adj=NAMED["star"], y=[0, 1, 1, 1, 1], splits=splits)
    report = audit(graph)
    assert report.n_splits == 3
    assert report.twin_share == 0.5
    assert "50.0% of the test nodes (mean over" in found(report, "twins").message


@given(st.integers(0, 10_000))
def test_twins_equal_a_search_of_all_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dense = np.triu(rng.random((9, 9)) < 0.3, 1)
    graph = Graph(
        x=np.eye(9), adj=dense | dense.T, directed=dense, y=rng.integers(-1, 2, 9)
    )
    parts = np.split(rng.permutation(9), [3, 5])
    expected = [
        test
        for test in parts[2]
        if graph.y[test] >= 0
        and dense[test].any()
        and any(
            (dense[test] == dense[train]).all() and graph.y[test] == graph.y[train]
            for train in parts[0]
        )
    ]
    assert find_twins(graph, [Split(*parts)])[0].tolist() == expected


# ------------------------------------------------------------------ splits and classes


def test_a_node_in_two_parts_is_an_error() -> None:
    finding = found(audit(path_graph(), Split([0, 1], [1, 2], [3, 0])), "leakage")
    assert (finding.severity, finding.count) == ("error", 2)
    assert (
        finding.message == "2 nodes are in more than one part of the same split: 0, 1."
    )


def test_findings_say_in_which_splits() -> None:
    graph = path_graph(
        splits=(Split([0, 1], [2, 3], [4]), Split([0, 1], [2, 3], [3])),
        node_ids=np.array(list("vwxyz")),
    )
    message = found(audit(graph), "leakage").message
    assert message == (
        "1 node is in more than one part of the same split, in 1 of 2 splits (1): y."
    )


def test_unlabelled_nodes_in_a_split() -> None:
    finding = found(
        audit(path_graph(y=[0, 1, -1, -1, 0]), SPLIT), "unlabelled_in_split"
    )
    assert (finding.severity, finding.count) == ("warning", 2)
    assert finding.message == "2 nodes of a split have no label: 2, 3."


def test_classes_missing_from_parts_are_named() -> None:
    graph = path_graph(y=[0, 0, 0, 1, 1], classes=np.array(["cat", "dog", "owl"]))
    report = audit(graph, Split(train=[0, 1], val=[2, 3], test=[4]))
    train = found(report, "class_missing_from_train")
    assert train == Finding(
        "class_missing_from_train",
        "warning",
        "1 class has no node in the train part: dog.",
        1,
    )
    assert "class_missing_from_val" not in kinds(report)
    assert found(report, "class_missing_from_test").severity == "note"
    # A class that names no node at all is said once, not for every part.
    assert found(report, "empty_class").message == "1 class names no node: owl."


def test_classes_of_a_single_node() -> None:
    finding = found(audit(path_graph(y=[0, 0, 0, 1, 2])), "single_node_class")
    assert finding.message == "2 classes have a single labelled node each: 1, 2."
    assert finding.severity == "warning"


def test_a_split_of_another_graph_is_refused() -> None:
    with pytest.raises(InputError, match="names node 7, but 'graph' has 5 nodes"):
        audit(path_graph(), Split([0], [1], [7]))


# ------------------------------------------------------------------ nodes and features


def test_isolated_nodes_and_at_most_three_examples() -> None:
    graph = Graph(x=np.eye(6), adj=adjacency(6, [(0, 1)]), y=[0, 1, 0, 1, 0, 1])
    finding = found(audit(graph), "isolated")
    assert finding.message == "4 nodes have no neighbour: 2, 3, 4 and 1 more."
    assert (finding.severity, finding.count) == ("note", 4)


@each("kind", [np.asarray, sp.csr_array])
def test_features_that_say_nothing(kind: type) -> None:
    # Rows 1 and 3 are zero; row 4 repeats row 0; column 2 is always zero. Two zero
    # rows are not counted as repeating each other.
    x = np.array(
        [[1, 2, 0], [0, 0, 0], [2, 1, 0], [0, 0, 0], [1, 2, 0]], dtype=np.float32
    )
    report = audit(path_graph(x=kind(x), feature_names=("age", "size", "none")))
    assert found(report, "zero_features").message.endswith("zero features: 1, 3.")
    assert found(report, "duplicate_features").message == (
        "1 node repeats the features of an earlier node: 4."
    )
    assert found(report, "constant_features").message == (
        "1 feature has the same value at every node: none."
    )


@each("kind", [np.asarray, sp.csr_array])
def test_a_column_of_ones_is_constant(kind: type) -> None:
    x = np.c_[np.arange(5), np.ones(5)]
    assert found(audit(path_graph(x=kind(x))), "constant_features").count == 1


def test_stored_zeros_and_duplicates_are_seen_through() -> None:
    # Row 0 stores 1 + 1 at column 0, row 1 stores 2; row 2 stores only a zero.
    entries = ([1.0, 1.0, 2.0, 0.0, 3.0, 4.0], [0, 0, 0, 1, 1, 1], [0, 2, 3, 4, 5, 6])
    report = audit(path_graph(x=sp.csr_array(entries, shape=(5, 2))))
    assert found(report, "duplicate_features").count == 1
    assert found(report, "zero_features").message.endswith(": 2.")


def test_a_single_node_has_no_constant_columns() -> None:
    graph = Graph(x=np.ones((1, 3)), adj=np.zeros((1, 1)), y=[0])
    assert kinds(audit(graph)) == {"isolated", "single_node_class"}


@given(st.integers(0, 10_000))
def test_equal_rows_are_those_of_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-1, 2, size=(12, 2)).astype(np.float32) * np.float32(0.1)
    _, expected = np.unique(x + 0.0, axis=0, return_inverse=True)
    for matrix in (x, sp.csr_array(x)):
        groups = equal_groups(*row_keys(matrix))
        same = groups[:, None] == groups
        np.testing.assert_array_equal(same, expected[:, None] == expected)


def test_blocks_of_dense_rows_have_the_same_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = np.random.default_rng(0).normal(size=(11, 3)).astype(np.float32)
    whole = row_keys(x)
    monkeypatch.setattr("h2gcn.graph.graph._BLOCK", 7)
    np.testing.assert_array_equal(row_keys(x), whole)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "share"), [("chameleon", 0.6658), ("squirrel", 0.6115)]
)
def test_twins_of_the_benchmarks(data_root: Path, name: str, share: float) -> None:
    from h2gcn.datasets import load_dataset

    # Self-loops are dropped when the files are read. Were they out-neighbours too, the
    # shares would be 0.687 and 0.632: nodes that point at each other would be twins.
    report = audit(load_dataset(name, root=data_root))
    assert report.twin_share == pytest.approx(share, abs=5e-4)
    assert found(report, "twins").severity == "warning"
    assert report.errors == ()


def test_several_splits_that_are_not_the_graphs() -> None:
    graph = Graph(x=np.eye(5), adj=NAMED["star"], y=[0, 1, 1, 1, 1])
    splits = [Split([1], [0], [2]), Split([0], [1], [2])]
    found = audit(graph, splits)
    assert found.n_splits == 2
    assert found.twin_share == 0.5


# ------------------------------------------------------------ features that are labels


@each("kind", [np.array, sp.csr_array], ids=["dense", "sparse"])
def test_features_that_give_the_label_away(kind: type) -> None:
    y = np.random.default_rng(0).permutation(
        np.repeat([0, 1, 2, -1], [400, 30, 12, 50])
    )
    noise = np.random.default_rng(1).integers(0, 2, y.size)
    columns = {
        "copy": y,
        "code": np.array([5, 0, 5, 9])[y],
        "flag": y == 2,
        "noise": noise,
        "mostly": np.where(np.arange(y.size) == np.flatnonzero(y == 0)[-1], 1, y),
        "constant": np.ones(y.size),
        "zero": np.zeros(y.size),
    }
    x = np.column_stack(list(columns.values())).astype(np.float32)
    ring = adjacency(y.size, [(i, (i + 1) % y.size) for i in range(y.size)])
    graph = Graph(x=kind(x), adj=ring, y=y, feature_names=tuple(columns))
    warning = found(audit(graph), "label_features")
    assert warning.severity == "warning"
    assert warning.message == (
        "3 features seem to follow from the label alone, and may be the label in other "
        "words: copy, code, flag."
    )


def test_a_label_for_each_node_makes_no_feature_a_label() -> None:
    ring = adjacency(40, [(i, (i + 1) % 40) for i in range(40)])
    x = np.random.default_rng(0).normal(size=(40, 5))
    assert not label_features(Graph(x=x, adj=ring, y=np.arange(40))).size
    twice = np.repeat(np.arange(20), 2)
    assert label_features(Graph(x=twice[:, None], adj=ring, y=twice)).size == 1


def test_features_in_a_file_are_looked_at_some_rows_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("h2gcn.graph.checks.NUMBERS", 6)
    y = np.repeat([0, 1], 30)
    np.save(tmp_path / "x.npy", np.column_stack([y, y, y]).astype(np.float32))
    x = np.load(tmp_path / "x.npy", mmap_mode="r+")
    x[29, 1] = x[31, 2] = 7  # the last of a class, and one of the other
    ring = adjacency(60, [(i, (i + 1) % 60) for i in range(60)])
    assert label_features(Graph(x=x, adj=ring, y=y)).tolist() == [0]


def test_a_few_nodes_may_follow_the_label_by_chance() -> None:
    y = np.repeat([0, 1], [100, 9])
    ring = adjacency(109, [(i, (i + 1) % 109) for i in range(109)])
    assert not label_features(Graph(x=y[:, None], adj=ring, y=y)).size
    nothing = Graph(x=y[:, None], adj=ring)
    assert not label_features(nothing).size
    one = Graph(x=y[:, None], adj=ring, y=np.zeros(109, dtype=int))
    assert not label_features(one).size
