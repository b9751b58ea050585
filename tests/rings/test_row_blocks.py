"""Blocks of rows."""

import numpy as np
from hypothesis import given, strategies as st

from h2gcn.rings.exact import narrow, row_blocks


def test_indices_are_narrow_where_they_can_be() -> None:
    indices = np.array([0, 5])
    assert narrow(indices, 2**31 - 1).dtype == np.int32
    assert narrow(indices, 2**31) is indices
    small = indices.astype(np.int32)
    assert narrow(small, 5) is small


@given(st.lists(st.integers(0, 20), max_size=30), st.integers(1, 50))
def test_blocks_cover_the_rows_in_order(sizes: list[int], entries: int) -> None:
    blocks = row_blocks(np.array(sizes, dtype=np.int64), entries)
    covered = [row for first, last in blocks for row in range(first, last)]
    assert covered == list(range(len(sizes)))
    # A block exceeds what was asked for by no more than its last row.
    assert all(sum(sizes[a : b - 1]) <= entries for a, b in blocks if b - a > 1)
