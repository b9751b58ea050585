"""Products of a sparse matrix with a dense one whose rows lie far apart."""

from h2gcn.sparse.jit import compiled

__all__ = ["write_products"]


@compiled
def write_products(starts, columns, values, dense, out):  # type: ignore[no-untyped-def]
    """Write each row of a sparse matrix, times `dense`, to the same row of `out`.

    Four rows of `dense` are added together: the processor waits for all of them at
    once, where one by one it would wait for each.
    """
    width = dense.shape[1]
    for i in range(len(starts) - 1):
        row, at, end = out[i], starts[i], starts[i + 1]
        for j in range(width):
            row[j] = 0
        while at + 4 <= end:
            a, b, c, d = values[at], values[at + 1], values[at + 2], values[at + 3]
            of_a, of_b = dense[columns[at]], dense[columns[at + 1]]
            of_c, of_d = dense[columns[at + 2]], dense[columns[at + 3]]
            for j in range(width):
                row[j] += a * of_a[j] + b * of_b[j] + c * of_c[j] + d * of_d[j]
            at += 4
        while at < end:
            a, of_a = values[at], dense[columns[at]]
            for j in range(width):
                row[j] += a * of_a[j]
            at += 1
