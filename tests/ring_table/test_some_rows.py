"""Rows of a block, and slices of its columns, have the bits of the whole block."""

import numpy as np
from numpy.testing import assert_array_equal

from h2gcn.ring_table import TableMaker, column_slices
from support.cases import each
from support.shared_graphs import make_graph

BLOCKS = (
    *("ring1", "ring2", "ring3", "out", "in", "out-in", "in-out", "ring1.sum"),
    *("ring2.max", "out.min", "hop2.max", "hop2.mean", "power1", "power3", "loops2"),
)


@each("cap", [None, 3])
@each(
    ("n", "columns", "degree"),
    # Few columns are filled up where rows are long, many are multiplied by our kernel.
    [(800, 3, 12), (800, 61, 12), (800, 150, 4), (66_000, 13, 36), (66_000, 150, 2)],
)
def test_rows_and_slices_of_blocks(
    n: int, columns: int, degree: int, cap: int | None
) -> None:
    graph = make_graph(n, columns, degree=degree)
    whole, some = TableMaker(graph, cap, 1), TableMaker(graph, cap, 1)
    nodes = np.flatnonzero(np.arange(n) % 29 == 3)
    for block in BLOCKS if n < 1000 else ("ring1", "out-in", "hop2.max", "power1"):
        expected = whole._values(block, columns, graph.x)[nodes]
        for part in column_slices(columns):
            x = np.ascontiguousarray(graph.x[:, part])
            found = some.some_rows(block, x.shape[1], x, nodes)
            assert_array_equal(found, expected[:, part], f"{block} {part}")


def test_no_rows_at_all() -> None:
    graph = make_graph(60, 5)
    none = np.zeros(0, dtype=np.int64)
    for cap in (None, 2):
        found = TableMaker(graph, cap).some_rows("ring2", 5, graph.x, none)
        assert found.shape == (0, 5)
