"""Compiled summaries of rows; importing it loads numba."""

from h2gcn.sparse import jit

__all__ = ["write_extremes"]


@jit
def write_extremes(starts, columns, dense, sign, out):  # type: ignore[no-untyped-def]
    """Write the largest (sign 1) or smallest (sign -1) values of each row."""
    for i in range(len(starts) - 1):
        for e in range(starts[i], starts[i + 1]):
            values = dense[columns[e]]
            for j in range(dense.shape[1]):
                if e == starts[i] or sign * values[j] > sign * out[i, j]:
                    out[i, j] = values[j]
