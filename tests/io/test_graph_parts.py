"""End points and matrices become simple undirected graphs; an oracle agrees."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, strategies as st

from h2gcn.exceptions import InputError
from h2gcn.io import adjacency_from_edges, from_scipy

Edges = list[tuple[int, int]]


def pairs(matrix) -> set[tuple[int, int]]:
    return set(zip(*(ends.tolist() for ends in matrix.nonzero()), strict=True))


def read(edges: Edges, n: int, directed: bool | None):
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    return adjacency_from_edges(ends[:, 0], ends[:, 1], n, directed=directed)


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=40),
    st.integers(7, 9),
    st.sampled_from([None, True, False]),
)
def test_equals_the_set_of_pairs(edges: Edges, n: int, directed: bool | None) -> None:
    adj, one_way, record = read(edges, n, directed)
    proper = [(u, v) for u, v in edges if u != v]
    both = set(proper) | {(v, u) for u, v in proper}
    assert pairs(adj) == both
    assert record.edges_read == len(edges)
    loops = [(u, v) for u, v in edges if u == v]
    assert record.loops_dropped == len(set(loops))
    repeated_loops = len(loops) - len(set(loops))
    if directed is False:
        assert one_way is None
        assert record.symmetrised == 0
        assert record.duplicates_merged == len(proper) - len(both) // 2 + repeated_loops
    else:
        single = {(u, v) for u, v in proper if (v, u) not in proper}
        assert record.symmetrised == len(single)
        repeated = len(proper) - len(set(proper))
        assert record.duplicates_merged == repeated + repeated_loops
        assert (one_way is None) == (not single)
        if one_way is not None:
            assert pairs(one_way) == set(proper)


def test_format_of_the_matrices() -> None:
    adj, one_way, _ = read([(3, 0), (3, 0), (2, 2), (0, 1)], 5, None)
    assert one_way is not None
    for matrix in (adj, one_way):
        assert matrix.shape == (5, 5)
        assert matrix.data.dtype == np.float32
        assert matrix.indices.dtype == matrix.indptr.dtype == np.int32
        assert matrix.has_sorted_indices
        assert (matrix.data == 1).all()


def test_no_edges_leave_an_empty_matrix() -> None:
    adj, one_way, record = adjacency_from_edges([], [], 3)
    assert adj.shape == (3, 3)
    assert adj.nnz == 0
    assert one_way is None
    assert record.edges_read == 0


@pytest.mark.parametrize(
    ("sources", "targets", "message"),
    [
        ([0, 3], [1, 1], r"^sources must lie in 0 … 2.*got 3 at edge 1"),
        ([0], [-1], r"^targets must lie in 0 … 2.*got -1 at edge 0"),
        ([0, 1], [1], r"same length, got 2 and 1"),
        ([0.5], [1], r"integers.*float64"),
    ],
)
def test_mistakes_are_told(sources: list, targets: list, message: str) -> None:
    with pytest.raises(InputError, match=message):
        adjacency_from_edges(sources, targets, 3)


def test_scipy_matrix_of_any_kind() -> None:
    weighted = sp.lil_matrix((3, 3))
    weighted[0, 0], weighted[0, 1], weighted[2, 1] = 2.0, -0.5, 3.0
    graph = from_scipy(weighted, np.eye(3), ["b", None, "a"], name="any")
    assert graph.adj.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert graph.directed is not None
    assert graph.y.tolist() == [1, -1, 0]
    assert graph.classes.tolist() == ["a", "b"]
    assert graph.record.loops_dropped == 1
    assert graph.record.notes == ("edge weights are not used",)
    assert graph.name == "any"


def test_scipy_symmetric_matrix_has_no_directions() -> None:
    graph = from_scipy(np.ones((2, 2)), np.eye(2), [0, 1])
    assert graph.directed is None
    assert graph.n_edges == 1
    triangle = from_scipy(np.triu(np.ones((3, 3))), np.eye(3), directed=False)
    assert triangle.directed is None
    assert triangle.n_edges == 3


@pytest.mark.parametrize(
    ("adj", "message"),
    [
        (np.ones((2, 3)), "must be square"),
        ([[0, np.nan], [0, 0]], "NaN"),
        ([["a", "b"], ["c", "d"]], "numbers"),
    ],
)
def test_scipy_mistakes(adj: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_scipy(adj, np.eye(2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"x": np.ones((2, 1), complex)},
            "^x must hold real numbers, got dtype complex",
        ),
        ({"x": sp.csr_array(np.ones((2, 1), complex))}, "^x must hold real numbers"),
        ({"adj": np.ones((2, 2), "f2")}, "^adj must be a matrix of numbers"),
    ],
)
def test_numbers_that_no_graph_can_have(change: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_scipy(**{"adj": np.zeros((2, 2)), "x": np.eye(2)} | change)
