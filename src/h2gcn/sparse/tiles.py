"""Sparse products whose sums stay in the processor's registers.

Plain loops keep the sums of a row in memory: for every entry they are read and written
again. Here a row is summed some columns at a time, a tile, which LLVM is told to keep
in vectors. Where a product is a multiple of 16 columns wide, each of them is summed in
the order of entries, however many there are.

Rows of full matrices have most of their columns in common. Four of them that do are a
group (`group_rows`): for each column that one of them has stand four values, some zero,
and a row of the dense matrix that was fetched is used four times.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from h2gcn.sparse.compiling import Compiled, compiled

__all__ = ["TOGETHER", "Groups", "group_rows", "write_groups", "write_rows"]

FUSED = ("contract",)
"""Multiply and add in one instruction."""
TOGETHER = 4
"""Rows of a group."""


class Tile(Compiled):
    """Sums the entries of sparse rows, each times some columns of a dense one.

    It is called with the address of where the entries begin, beside which stands
    where they end, those of the columns and the values of all entries, that of the
    dense matrix, the bytes from one of its rows to the next, the address of the sums,
    whether they begin with what is there, and of a group the address of its rows'
    numbers and the bytes from the sums of one row to the next; else zeros.

    Parameters
    ----------
    lanes
        Columns that are one vector.
    vectors
        How many of those.
    chains
        Entries that are added apart from each other, and their sums at the end: one
        addition takes as long as four that do not wait for each other.
    rows
        That are summed together, with as many values for each entry.
    """

    def __init__(self, lanes: int, vectors: int, chains: int, rows: int = 1) -> None:
        self._lanes, self._vectors, self._chains = lanes, vectors, chains
        self._rows, self._made = rows, None

    def made(self) -> Any:
        """Return it as numba puts it into functions."""
        if self._made is None:
            from numba.core import types
            from numba.extending import intrinsic

            def tile(_, row, columns, values, dense, pitch, out, add, rows, to):  # type: ignore[no-untyped-def]
                del row, columns, values, dense, pitch, out, add, rows, to  # types
                return types.void(*[types.int64] * 9), self._write

            self._made = intrinsic(tile)
        return self._made

    def _write(self, context: Any, builder: Any, _: Any, given: Any) -> Any:
        from llvmlite import ir  # type: ignore[import-untyped]

        row, columns, values, dense, pitch, out, add, numbers, to = given
        word, long = ir.IntType(32), ir.IntType(64)
        number = ir.FloatType()
        vector = ir.VectorType(number, self._lanes)
        undefined, step = ir.Constant(vector, ir.Undefined), 4 * self._lanes
        first = ir.Constant(ir.VectorType(word, self._lanes), [0] * self._lanes)
        offsets = [ir.Constant(long, step * place) for place in range(self._vectors)]

        def place(address: Any, kind: Any) -> Any:
            return builder.inttoptr(address, kind.as_pointer())

        def loaded(address: Any, kind: Any) -> Any:
            return builder.load(place(address, kind), align=4)

        def with_entry(entry: Any, sums: Sequence[Any]) -> list[Any]:
            at_column = builder.mul(entry, ir.Constant(long, 4))
            column = builder.zext(loaded(builder.add(columns, at_column), word), long)
            given = builder.add(dense, builder.mul(column, pitch))
            terms = [loaded(builder.add(given, offset), vector) for offset in offsets]
            found = []
            for place in range(self._rows):
                at_value = builder.mul(entry, ir.Constant(long, 4 * self._rows))
                at_value = builder.add(at_value, ir.Constant(long, 4 * place))
                value = loaded(builder.add(values, at_value), number)
                alone = builder.insert_element(undefined, value, ir.Constant(word, 0))
                value = builder.shuffle_vector(alone, undefined, first)
                products = (builder.fmul(value, term, flags=FUSED) for term in terms)
                own = sums[place * self._vectors :]
                found += [
                    builder.fadd(one, total, flags=FUSED)
                    for one, total in zip(products, own, strict=False)
                ]
            return found

        def all_added(at: Any, chains: Sequence[Sequence[Any]]) -> tuple[Any, Any]:
            """Add entries, one to each chain, until too few are left."""
            before = builder.block
            head, body, done = (builder.append_basic_block("tile") for _ in range(3))
            builder.branch(head)
            builder.position_at_end(head)
            entry = builder.phi(long)
            held = [[builder.phi(vector) for _ in sums] for sums in chains]
            after = builder.add(entry, ir.Constant(long, len(chains)))
            builder.cbranch(builder.icmp_signed("<=", after, end), body, done)
            builder.position_at_end(body)
            found = [
                with_entry(builder.add(entry, ir.Constant(long, place)), sums)
                for place, sums in enumerate(held)
            ]
            builder.branch(head)
            for origin, place, sums in ((before, at, chains), (body, after, found)):
                entry.add_incoming(place, origin)
                for old, new in zip(chain(*held), chain(*sums), strict=True):
                    old.add_incoming(new, origin)
            builder.position_at_end(done)
            return entry, held

        end_of_row = builder.add(row, ir.Constant(long, 4))
        at, end = (
            builder.sext(loaded(place, word), long) for place in (row, end_of_row)
        )
        begun = builder.icmp_signed("!=", add, ir.Constant(long, 0))
        zero = ir.Constant(vector, [0.0] * self._lanes)
        outs = [out]
        if self._rows > 1:
            at_rows = (
                builder.add(numbers, ir.Constant(long, 4 * place))
                for place in range(self._rows)
            )
            each = [builder.sext(loaded(at_row, word), long) for at_row in at_rows]
            outs = [builder.add(out, builder.mul(row, to)) for row in each]
        places = [builder.add(one, offset) for one in outs for offset in offsets]
        there = [loaded(at_sums, vector) for at_sums in places]
        sums = [builder.select(begun, found, zero) for found in there]
        zeros = [[zero] * len(sums)] * (self._chains - 1)
        at, (sums, *others) = all_added(at, [sums, *zeros])
        for other in others:
            sums = [builder.fadd(*pair) for pair in zip(sums, other, strict=True)]
        if others:
            at, (sums,) = all_added(at, [sums])
        for total, at_sums in zip(sums, places, strict=True):
            builder.store(total, place(at_sums, vector), align=4)
        return context.get_dummy_value()


wide, narrow = Tile(16, 4, chains=1), Tile(16, 1, chains=1)
eight, four, one = (Tile(lanes, 1, chains=4) for lanes in (8, 4, 1))
wide_group, narrow_group, eight_group, four_group, one_group = (
    Tile(lanes, vectors, chains=1, rows=TOGETHER)
    for lanes, vectors in ((16, 4), (16, 1), (8, 1), (4, 1), (1, 1))
)


@compiled
def write_rows(products, first, last, width):  # type: ignore[no-untyped-def]
    """Write some rows of products of sparse matrices with dense ones.

    Parameters
    ----------
    products
        For each, the addresses of a sparse matrix's row starts, columns and values, of
        32 bits; the address of the dense one and the bytes from one of its rows to the
        next; the same of where it belongs; and whether it is added to what is there, 1
        or 0, [k, 8].
    first, last
        The rows from `first` on and before `last`.
    width
        Columns of each dense matrix.
    """
    for starts, columns, values, dense, pitch, out, to, add in products:
        for i in range(first, last):
            row, done = starts + 4 * i, 0
            while done < width:
                read, written = dense + 4 * done, out + i * to + 4 * done
                if width - done >= 64:
                    wide(row, columns, values, read, pitch, written, add, 0, 0)
                    done += 64
                elif width - done >= 16:
                    narrow(row, columns, values, read, pitch, written, add, 0, 0)
                    done += 16
                elif width - done >= 8:
                    eight(row, columns, values, read, pitch, written, add, 0, 0)
                    done += 8
                elif width - done >= 4:
                    four(row, columns, values, read, pitch, written, add, 0, 0)
                    done += 4
                else:
                    one(row, columns, values, read, pitch, written, add, 0, 0)
                    done += 1


@compiled
def write_groups(products, numbers, first, last, width):  # type: ignore[no-untyped-def]
    """Write the products of some groups of rows, as `write_rows`.

    Parameters
    ----------
    products
        As of `write_rows`, of matrices whose rows stand in the same groups.
    numbers
        The address of the rows' numbers, of 32 bits, group by group.
    first, last
        The groups from `first` on and before `last`.
    width
        Columns of each dense matrix.
    """
    for starts, columns, values, dense, pitch, out, to, add in products:
        for i in range(first, last):
            row, rows, done = starts + 4 * i, numbers + 4 * TOGETHER * i, 0
            while done < width:
                read, written = dense + 4 * done, out + 4 * done
                if width - done >= 64:
                    wide_group(
                        row, columns, values, read, pitch, written, add, rows, to
                    )
                    done += 64
                elif width - done >= 16:
                    narrow_group(
                        row, columns, values, read, pitch, written, add, rows, to
                    )
                    done += 16
                elif width - done >= 8:
                    eight_group(
                        row, columns, values, read, pitch, written, add, rows, to
                    )
                    done += 8
                elif width - done >= 4:
                    four_group(
                        row, columns, values, read, pitch, written, add, rows, to
                    )
                    done += 4
                else:
                    one_group(row, columns, values, read, pitch, written, add, rows, to)
                    done += 1


class Groups(NamedTuple):
    """A sparse matrix whose rows stand in groups of TOGETHER.

    Parameters
    ----------
    starts
        Where the entries of each group begin, and where the last ones end, [g + 1].
    columns, values
        Of each entry, [e] and [e, TOGETHER].
    rows
        Which they are, [g, TOGETHER]. The last group may have one several times.
    """

    starts: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: NDArray[np.float32]
    rows: NDArray[np.int32]


def group_rows(
    starts: NDArray[np.int32],
    columns: NDArray[np.int32],
    values: NDArray[np.float32],
    n_columns: int,
    least: float,
) -> Groups | None:
    """Return a matrix in groups of rows that are alike, None if they are not.

    Rows are sorted by the least of their columns in several random orders: two rows
    have the same one as likely as they have columns in common.

    Parameters
    ----------
    starts, columns, values
        Of the matrix, columns ascending.
    n_columns
        How many there are.
    least
        How many entries of rows an entry of a group must stand for, on average.
    """
    n_rows = len(starts) - 1
    rng, empty = np.random.default_rng(0), starts[:-1] == starts[1:]
    keys = []
    for _ in range(ORDERS):
        places = rng.permutation(n_columns).astype(np.int32)
        lowest = np.full(n_rows, n_columns, dtype=np.int32)
        begun = starts[:-1][~empty]
        lowest[~empty] = np.minimum.reduceat(places[columns], begun)
        keys.append(lowest)
    rows = np.lexsort(keys).astype(np.int32)
    rows = np.append(rows, np.repeat(rows[-1], -n_rows % TOGETHER))
    rows = rows.reshape(-1, TOGETHER).astype(np.int32)
    nothing, none = np.empty(0, np.int32), np.empty((0, TOGETHER), np.float32)
    sizes = np.zeros(len(rows) + 1, np.int32)
    _merge(starts, columns, values, rows, sizes[1:], nothing, none)
    begins = np.cumsum(sizes, dtype=np.int32)
    if len(columns) < least * begins[-1]:
        return None
    merged = np.empty(begins[-1], np.int32)
    each = np.zeros((begins[-1], TOGETHER), np.float32)
    _merge(starts, columns, values, rows, sizes[1:], merged, each)
    return Groups(begins, merged, each, rows)


ORDERS = 3
"""Random ones that tell which rows are alike."""


@compiled
def _merge(starts, columns, values, rows, sizes, out, out_values):  # type: ignore[no-untyped-def]
    """Count the columns of each group, and write them and their values if asked to."""
    at, end = np.empty(TOGETHER, np.int64), np.empty(TOGETHER, np.int64)
    wanted, to = len(out) > 0, 0
    for i in range(len(rows)):
        begun = to
        for j in range(TOGETHER):
            at[j], end[j] = starts[rows[i, j]], starts[rows[i, j] + 1]
        while True:
            column = np.int32(2**31 - 1)
            for j in range(TOGETHER):
                if at[j] < end[j]:
                    column = min(column, columns[at[j]])
            if column == np.int32(2**31 - 1):
                break
            for j in range(TOGETHER):
                if at[j] < end[j] and columns[at[j]] == column:
                    if wanted:
                        out_values[to, j] = values[at[j]]
                    at[j] += 1
            if wanted:
                out[to] = column
            to += 1
        sizes[i] = to - begun
