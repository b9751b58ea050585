"""Sparse products whose sums stay in the processor's registers.

Plain loops keep the sums of a row in memory: for every entry they are read and written
again. Here a row is summed some columns at a time, a tile, which LLVM is told to keep
in vectors. Where a product is a multiple of 16 columns wide, each of them is summed in
the order of entries, however many there are.

Rows of full matrices have most of their columns in common. Four of them that do are a
group (`group_rows`): a row of the dense matrix that was fetched is used four times. In
a normalized ring, rows differ by a factor where they have the same columns; so an entry
of a group is a column, who of the four has it, and one value for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from h2gcn.sparse.compiling import Compiled, compiled

__all__ = [
    "TOGETHER",
    "Groups",
    "columns_at_once",
    "group_rows",
    "write_groups",
    "write_rows",
]

FUSED = ("contract",)
"""Multiply and add in one instruction."""
TOGETHER = 4
"""Rows of a group."""
COLUMN = 28
"""Bits of a group's entry that name the column; the others tell who has it."""


class Tile(Compiled):
    """Sums the entries of sparse rows, each times some columns of a dense one.

    It is called with the address of where the entries begin, beside which stands
    where they end, those of the columns and the values of all entries, that of the
    dense matrix, the bytes from one of its rows to the next, the address of the sums,
    whether they begin with what is there, and of a group the addresses of its rows'
    numbers and factors and the bytes from the sums of one row to the next; else zeros.

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
        That are summed together: one, or a group.
    """

    def __init__(self, lanes: int, vectors: int, chains: int, rows: int = 1) -> None:
        self._lanes, self._vectors, self._chains = lanes, vectors, chains
        self._rows, self._made = rows, None

    def made(self) -> Any:
        """Return it as numba puts it into functions."""
        if self._made is None:
            from numba.core import types
            from numba.extending import intrinsic

            def tile(_, row, columns, values, dense, pitch, out, add, rows, by, to):  # type: ignore[no-untyped-def]
                del row, columns, values, dense, pitch, out, add, rows, by, to  # types
                return types.void(*[types.int64] * 10), self._write

            self._made = intrinsic(tile)
        return self._made

    def _write(self, context: Any, builder: Any, _: Any, given: Any) -> Any:
        from llvmlite import ir  # type: ignore[import-untyped]

        row, columns, values, dense, pitch, out, add, numbers, factors, to = given
        word, long = ir.IntType(32), ir.IntType(64)
        number = ir.FloatType()
        vector = ir.VectorType(number, self._lanes)
        undefined, step = ir.Constant(vector, ir.Undefined), 4 * self._lanes
        first = ir.Constant(ir.VectorType(word, self._lanes), [0] * self._lanes)
        offsets = [ir.Constant(long, step * place) for place in range(self._vectors)]
        grouped = self._rows > 1

        def place(address: Any, kind: Any) -> Any:
            return builder.inttoptr(address, kind.as_pointer())

        def loaded(address: Any, kind: Any) -> Any:
            return builder.load(place(address, kind), align=4)

        def everywhere(address: Any) -> Any:
            """Return a number in all places of a vector."""
            value = loaded(address, number)
            alone = builder.insert_element(undefined, value, ir.Constant(word, 0))
            return builder.shuffle_vector(alone, undefined, first)

        def added(value: Any, terms: Sequence[Any], sums: Sequence[Any]) -> list[Any]:
            products = (builder.fmul(value, term, flags=FUSED) for term in terms)
            return [
                builder.fadd(one, total, flags=FUSED)
                for one, total in zip(products, sums, strict=True)
            ]

        def with_entry(entry: Any, sums: Sequence[Any]) -> list[Any]:
            at = builder.mul(entry, ir.Constant(long, 4))
            column = builder.zext(loaded(builder.add(columns, at), word), long)
            having = builder.lshr(column, ir.Constant(long, COLUMN))
            if grouped:
                column = builder.and_(column, ir.Constant(long, 2**COLUMN - 1))
            given = builder.add(dense, builder.mul(column, pitch))
            terms = [loaded(builder.add(given, offset), vector) for offset in offsets]
            value = everywhere(builder.add(values, at))
            if not grouped:
                return added(value, terms, sums)
            terms = [builder.fmul(value, term) for term in terms]
            at_ones = builder.add(ones, builder.shl(having, ir.Constant(long, 4)))
            found = []
            for own in range(self._rows):
                one = everywhere(builder.add(at_ones, ir.Constant(long, 4 * own)))
                mine = sums[own * self._vectors : (own + 1) * self._vectors]
                found += added(one, terms, mine)
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
        if grouped:
            ones = _who_has_it(builder)
            at_rows = (
                builder.add(numbers, ir.Constant(long, 4 * own))
                for own in range(self._rows)
            )
            each = [builder.sext(loaded(at_row, word), long) for at_row in at_rows]
            outs = [builder.add(out, builder.mul(row, to)) for row in each]
        places = [builder.add(one, offset) for one in outs for offset in offsets]

        def there() -> list[Any]:
            """Return what the sums begin with."""
            found = (loaded(at_sums, vector) for at_sums in places)
            return [builder.select(begun, one, zero) for one in found]

        nothing = [zero] * len(places)
        sums = nothing if grouped else there()
        at, (sums, *others) = all_added(at, [sums, *[nothing] * (self._chains - 1)])
        for other in others:
            sums = [builder.fadd(*pair) for pair in zip(sums, other, strict=True)]
        if others:
            at, (sums,) = all_added(at, [sums])
        if grouped:
            at_each = (
                builder.add(factors, ir.Constant(long, 4 * own))
                for own in range(self._rows)
            )
            every = [everywhere(at) for at in at_each for _ in offsets]
            sums = [
                added(factor, [total], [before])[0]
                for factor, total, before in zip(every, sums, there(), strict=True)
            ]
        for total, at_sums in zip(sums, places, strict=True):
            builder.store(total, place(at_sums, vector), align=4)
        return context.get_dummy_value()


def _who_has_it(builder: Any) -> Any:
    """Return where a one or a zero stands for each row, for all bits there can be."""
    from llvmlite import ir
    from numba.core import cgutils

    number = ir.FloatType()
    bits = [
        float(having >> row & 1)
        for having in range(2**TOGETHER)
        for row in range(TOGETHER)
    ]
    table = ir.Constant(ir.ArrayType(number, len(bits)), bits)
    kept = cgutils.global_constant(builder, "who_has_it", table)
    return builder.ptrtoint(kept, ir.IntType(64))


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
                    wide(row, columns, values, read, pitch, written, add, 0, 0, 0)
                    done += 64
                elif width - done >= 16:
                    narrow(row, columns, values, read, pitch, written, add, 0, 0, 0)
                    done += 16
                elif width - done >= 8:
                    eight(row, columns, values, read, pitch, written, add, 0, 0, 0)
                    done += 8
                elif width - done >= 4:
                    four(row, columns, values, read, pitch, written, add, 0, 0, 0)
                    done += 4
                else:
                    one(row, columns, values, read, pitch, written, add, 0, 0, 0)
                    done += 1


@compiled
def write_groups(products, numbers, factors, first, last, width, most, slice_to):  # type: ignore[no-untyped-def]
    """Write the products of some groups of rows, as `write_rows`.

    Parameters
    ----------
    products
        As of `write_rows`, of matrices whose rows stand in the same groups.
    numbers, factors
        The addresses of the rows' numbers and of what they are multiplied with, of 32
        bits, group by group.
    first, last
        The groups from `first` on and before `last`.
    width
        Columns of each dense matrix.
    most
        Columns that are summed together, at most.
    slice_to
        The bytes from `most` columns of a dense matrix to the next ones.
    """
    for starts, columns, values, dense, pitch, out, to, add in products:
        done = 0
        while done < width:
            read = dense + done // most * slice_to + done % most * 4
            written, size = out + 4 * done, 1
            for lanes in (4, 8, 16, 64):
                if lanes <= min(width - done, most):
                    size = lanes
            for i in range(first, last):
                row, at = starts + 4 * i, 4 * TOGETHER * i
                rows, by = numbers + at, factors + at
                if size == 64:
                    wide_group(
                        row, columns, values, read, pitch, written, add, rows, by, to
                    )
                elif size == 16:
                    narrow_group(
                        row, columns, values, read, pitch, written, add, rows, by, to
                    )
                elif size == 8:
                    eight_group(
                        row, columns, values, read, pitch, written, add, rows, by, to
                    )
                elif size == 4:
                    four_group(
                        row, columns, values, read, pitch, written, add, rows, by, to
                    )
                else:
                    one_group(
                        row, columns, values, read, pitch, written, add, rows, by, to
                    )
            done += size


@cache
def columns_at_once() -> int:
    """Return how many columns of a group's sums there are registers for."""
    from llvmlite import binding
    from numba.core import config

    host = config.CPU_NAME is None  # or told to compute as another
    return 64 if host and binding.get_host_cpu_features().get("avx512f") else 16


class Groups(NamedTuple):
    """A sparse matrix whose rows stand in groups of TOGETHER.

    Parameters
    ----------
    starts
        Where the entries of each group begin, and where the last ones end, [g + 1].
    columns
        Of each entry, and in the bits from COLUMN on which rows have it, [e].
    values
        Of each entry; a row has it times its factor, [e].
    rows
        Which they are, [g, TOGETHER]. The last group may have one several times.
    factors
        Of each row, [g, TOGETHER].
    """

    starts: NDArray[np.int32]
    columns: NDArray[np.uint32]
    values: NDArray[np.float32]
    rows: NDArray[np.int32]
    factors: NDArray[np.float32]


def group_rows(
    starts: NDArray[np.int32],
    columns: NDArray[np.int32],
    values: NDArray[np.float32],
    n_columns: int,
    least: float,
) -> Groups | None:
    """Return a matrix in groups of rows that are alike, None if they are not.

    Rows are sorted by the least of their columns in several random orders: two rows
    have the same one as likely as they have columns in common. Those of a group must
    differ by a factor where they have the same columns.

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
    if n_columns > 2**COLUMN:
        return None
    rng, keys = np.random.default_rng(0), []
    for _ in range(ORDERS):
        places = rng.permutation(n_columns).astype(np.int32)
        keys.append(np.empty(n_rows, dtype=np.int32))
        _write_least(starts, columns, places, keys[-1])
    rows = np.lexsort(keys).astype(np.int32)
    rows = np.append(rows, np.repeat(rows[-1], -n_rows % TOGETHER))
    rows = rows.reshape(-1, TOGETHER).astype(np.int32)
    given, sizes = (starts, columns, values, rows), np.zeros(len(rows) + 1, np.int32)
    factors = np.zeros(rows.shape, np.float32)
    nothing, none = np.empty(0, np.uint32), np.empty(0, np.float32)
    _merge(*given, factors, sizes[1:], nothing, none)
    begins = np.cumsum(sizes, dtype=np.int32)
    if len(columns) < least * begins[-1]:
        return None
    _find_factors(*given, factors)
    merged, each = np.empty(begins[-1], np.uint32), np.empty(begins[-1], np.float32)
    if not _merge(*given, factors, sizes[1:], merged, each):
        return None
    return Groups(begins, merged, each, rows, factors)


ORDERS = 3
"""Random ones that tell which rows are alike."""
CLOSE = np.float32(1e-6)
"""How far a value may be from that of its group times the factor, times itself."""


@compiled
def _write_least(starts, columns, places, out):  # type: ignore[no-untyped-def]
    """Write the least place of the columns of each row; of none, how many there are."""
    for i in range(len(out)):
        least = len(places)
        for at in range(starts[i], starts[i + 1]):
            least = min(least, places[columns[at]])
        out[i] = least


LAST = np.int32(2**31 - 1)


@compiled
def _next_column(columns, at, end):  # type: ignore[no-untyped-def]
    """Return the least column that is next in one of the rows, LAST if none is."""
    column = LAST
    for j in range(TOGETHER):
        if at[j] < end[j]:
            column = min(column, columns[at[j]])
    return column


@compiled
def _find_factors(starts, columns, values, rows, factors):  # type: ignore[no-untyped-def]
    """Write by what factors the rows of each group differ; that of the first is one.

    One that is not known is zero. Rows that no columns tie to it have another first.
    """
    at = np.empty(TOGETHER, np.int64)
    end = np.empty(TOGETHER, np.int64)
    for i in range(len(rows)):
        unknown, found = TOGETHER, False
        while unknown > 0:
            if not found:
                j = 0
                while factors[i, j] != 0:
                    j += 1
                factors[i, j] = 1
                unknown -= 1
            found = False
            for j in range(TOGETHER):
                at[j], end[j] = starts[rows[i, j]], starts[rows[i, j] + 1]
            while unknown > 0:
                column = _next_column(columns, at, end)
                if column == LAST:
                    break
                value = np.float32(0)
                for j in range(TOGETHER):
                    there = at[j] < end[j] and columns[at[j]] == column
                    if there and value == 0 and factors[i, j] != 0:
                        value = values[at[j]] / factors[i, j]
                for j in range(TOGETHER):
                    if at[j] < end[j] and columns[at[j]] == column:
                        if value != 0 and factors[i, j] == 0 and values[at[j]] != 0:
                            factors[i, j] = values[at[j]] / value
                            unknown, found = unknown - 1, True
                        at[j] += 1


@compiled
def _merge(starts, columns, values, rows, factors, sizes, out, out_values):  # type: ignore[no-untyped-def]
    """Count the columns of each group, and write them and their values if asked to.

    Returns
    -------
    bool
        Whether factors tell the values of all rows, where they were asked for.
    """
    at, end = np.empty(TOGETHER, np.int64), np.empty(TOGETHER, np.int64)
    wanted, to = len(out) > 0, 0
    for i in range(len(rows)):
        begun = to
        for j in range(TOGETHER):
            at[j], end[j] = starts[rows[i, j]], starts[rows[i, j] + 1]
        while True:
            column = _next_column(columns, at, end)
            if column == LAST:
                break
            having, value = 0, np.float32(0)
            for j in range(TOGETHER):
                if at[j] < end[j] and columns[at[j]] == column:
                    if wanted:
                        given = values[at[j]]
                        if having == 0:
                            value = given / factors[i, j]
                        far = abs(value * factors[i, j] - given)
                        if not far <= CLOSE * abs(given):
                            return False
                        having |= 1 << j
                    at[j] += 1
            if wanted:
                out[to], out_values[to] = column | having << COLUMN, value
            to += 1
        sizes[i] = to - begun
    return True
