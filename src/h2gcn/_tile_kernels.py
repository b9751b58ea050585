"""Products of a sparse matrix with a dense one, a block of columns at a time."""

from h2gcn._compiled import compiled

__all__ = ["add_products", "split_rows"]


@compiled
def split_rows(starts, columns, width, splits):  # type: ignore[no-untyped-def]
    """Write where the part of each row within each block of columns begins.

    Block b holds the columns from b·width on; splits[b, i] is the place of row i's
    first entry there, and splits[-1, i] where the row ends. Columns are sorted.
    """
    blocks = len(splits) - 1
    for i in range(len(starts) - 1):
        at, end = starts[i], starts[i + 1]
        for block in range(blocks):
            splits[block, i] = at
            while at < end and columns[at] < (block + 1) * width:
                at += 1
        splits[blocks, i] = end


@compiled
def add_products(begin, end, columns, values, dense, out):  # type: ignore[no-untyped-def]
    """Add to each row of `out` the entries [begin, end) of its row, times `dense`."""
    for i in range(len(begin)):
        row = out[i]
        for at in range(begin[i], end[i]):
            value, other = values[at], dense[columns[at]]
            for j in range(len(row)):
                row[j] += value * other[j]
