"""Sparse products whose sums stay in the processor's registers.

Plain loops keep the sums of a row in memory: for every entry they are read and written
again. Here a row is summed some columns at a time, a tile, which LLVM is told to keep
in vectors. Each column is summed in the same order, however wide the matrices are.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from h2gcn.sparse.compiling import Compiled, compiled

__all__ = ["write_rows"]

FUSED = ("contract",)
"""Multiply and add in one instruction."""


class Tile(Compiled):
    """Sums the entries of a sparse row, each times some columns of a dense one.

    It is called with the address of where the row's entries begin, beside which stands
    where they end, those of the columns and the values of all entries, that of the
    dense matrix, the bytes from one of its rows to the next, the address of the sums,
    and whether they begin with what is there.

    Parameters
    ----------
    lanes
        Columns that are one vector.
    vectors
        How many of those.
    chains
        Entries that are added apart from each other, and their sums at the end: one
        addition takes as long as four that do not wait for each other.
    """

    def __init__(self, lanes: int, vectors: int, chains: int) -> None:
        self._lanes, self._vectors, self._chains = lanes, vectors, chains
        self._made = None

    def made(self) -> Any:
        """Return it as numba puts it into functions."""
        if self._made is None:
            from numba.core import types
            from numba.extending import intrinsic

            def tile(_, row, columns, values, dense, pitch, out, add):  # type: ignore[no-untyped-def]
                del row, columns, values, dense, pitch, out, add  # their types
                return types.void(*[types.int64] * 7), self._write

            self._made = intrinsic(tile)
        return self._made

    def _write(self, context: Any, builder: Any, _: Any, given: Any) -> Any:
        from llvmlite import ir  # type: ignore[import-untyped]

        row, columns, values, dense, pitch, out, add = given
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
            at_entry = builder.mul(entry, ir.Constant(long, 4))
            column = builder.zext(loaded(builder.add(columns, at_entry), word), long)
            value = loaded(builder.add(values, at_entry), number)
            alone = builder.insert_element(undefined, value, ir.Constant(word, 0))
            value = builder.shuffle_vector(alone, undefined, first)
            given = builder.add(dense, builder.mul(column, pitch))
            terms = [loaded(builder.add(given, offset), vector) for offset in offsets]
            return [
                builder.fadd(builder.fmul(value, term, flags=FUSED), total, flags=FUSED)
                for term, total in zip(terms, sums, strict=True)
            ]

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
        there = [loaded(builder.add(out, offset), vector) for offset in offsets]
        sums = [builder.select(begun, found, zero) for found in there]
        zeros = [[zero] * self._vectors] * (self._chains - 1)
        at, (sums, *others) = all_added(at, [sums, *zeros])
        for other in others:
            sums = [builder.fadd(*pair) for pair in zip(sums, other, strict=True)]
        if others:
            at, (sums,) = all_added(at, [sums])
        for total, offset in zip(sums, offsets, strict=True):
            builder.store(total, place(builder.add(out, offset), vector), align=4)
        return context.get_dummy_value()


wide, narrow = Tile(16, 4, chains=1), Tile(16, 1, chains=2)
eight, four, one = (Tile(lanes, 1, chains=4) for lanes in (8, 4, 1))


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
                    wide(row, columns, values, read, pitch, written, add)
                    done += 64
                elif width - done >= 16:
                    narrow(row, columns, values, read, pitch, written, add)
                    done += 16
                elif width - done >= 8:
                    eight(row, columns, values, read, pitch, written, add)
                    done += 8
                elif width - done >= 4:
                    four(row, columns, values, read, pitch, written, add)
                    done += 4
                else:
                    one(row, columns, values, read, pitch, written, add)
                    done += 1
