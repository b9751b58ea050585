"""What attention does with the entries of a sparse row, eight heads in a vector.

A number for each entry and head is one lane of a vector: eight heads lie side by side,
[nnz, 8], and cost what one would. Compilers do not find such short vectors in plain
loops, so each row's loop is written for LLVM (`RowLoop`). All arguments are addresses
and bytes; numbers are floats of 32 bits, places of 32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from h2gcn.sparse.compiling import Compiled, compiled

__all__ = [
    "LANES",
    "make_score_gradients",
    "make_shares",
    "write_dots",
    "write_scores",
    "write_sums",
    "write_turned",
]

LANES = 8
"""Heads of a vector, and columns of a head that is one."""
BYTES = 4 * LANES


class Code:
    """Writes what is done with vectors.

    Parameters
    ----------
    builder
        Of LLVM's code.
    """

    def __init__(self, builder: Any) -> None:
        from llvmlite import ir  # type: ignore[import-untyped]

        self._ir, self._builder = ir, builder
        self._word, self._long = ir.IntType(32), ir.IntType(64)
        self._number = ir.FloatType()
        self._vector = ir.VectorType(self._number, LANES)

    def constant(self, number: float) -> Any:
        """Return a vector of one number."""
        return self._ir.Constant(self._vector, [float(number)] * LANES)

    def at(self, address: Any, place: Any, step: int = BYTES) -> Any:
        """Return the address of an element, so many bytes each."""
        if isinstance(place, int):
            return self._builder.add(
                address, self._ir.Constant(self._long, step * place)
            )
        bytes_ = self._builder.mul(place, self._ir.Constant(self._long, step))
        return self._builder.add(address, bytes_)

    def row_at(self, address: Any, place: Any, pitch: Any) -> Any:
        """Return the address of a row, `pitch` bytes each."""
        return self._builder.add(address, self._builder.mul(place, pitch))

    def _pointer(self, address: Any, kind: Any) -> Any:
        return self._builder.inttoptr(address, kind.as_pointer())

    def word(self, address: Any) -> Any:
        """Return a whole number of 32 bits, not negative."""
        found = self._builder.load(self._pointer(address, self._word), align=4)
        return self._builder.zext(found, self._long)

    def long(self, address: Any) -> Any:
        """Return a whole number of 64 bits."""
        return self._builder.load(self._pointer(address, self._long), align=8)

    def load(self, address: Any) -> Any:
        """Return the vector at an address."""
        return self._builder.load(self._pointer(address, self._vector), align=4)

    def spread(self, number: Any) -> Any:
        """Return a vector of one number that is not known before."""
        undefined = self._ir.Constant(self._vector, self._ir.Undefined)
        first = self._ir.Constant(self._word, 0)
        alone = self._builder.insert_element(undefined, number, first)
        return self.shuffle(alone, undefined, [0] * LANES)

    def load_spread(self, address: Any) -> Any:
        """Return a vector of the one number at an address."""
        found = self._builder.load(self._pointer(address, self._number), align=4)
        return self.spread(found)

    def store(self, vector: Any, address: Any) -> None:
        """Write a vector to an address."""
        self._builder.store(vector, self._pointer(address, self._vector), align=4)

    def add(self, one: Any, other: Any) -> Any:
        """Return the sum; with a product, it is one instruction."""
        return self._builder.fadd(one, other, flags=("contract",))

    def subtract(self, one: Any, other: Any) -> Any:
        """Return the difference."""
        return self._builder.fsub(one, other, flags=("contract",))

    def multiply(self, one: Any, other: Any) -> Any:
        """Return the product."""
        return self._builder.fmul(one, other, flags=("contract",))

    def divide(self, one: Any, other: Any) -> Any:
        """Return the quotient."""
        return self._builder.fdiv(one, other)

    def where_above(self, one: Any, other: Any, yes: Any, no: Any) -> Any:
        """Return `yes` in the lanes where one is larger than the other, else `no`."""
        above = self._builder.fcmp_ordered(">", one, other)
        return self._builder.select(above, yes, no)

    def shuffle(self, one: Any, other: Any, lanes: Sequence[int]) -> Any:
        """Return lanes of two vectors, counted through."""
        mask = self._ir.Constant(self._ir.VectorType(self._word, LANES), list(lanes))
        return self._builder.shuffle_vector(one, other, mask)

    def totals(self, vectors: Sequence[Any]) -> Any:
        """Return the sum over each of eight vectors, one a lane.

        Halves of two are added at a time: seven steps for all, not three for each.
        """
        size = LANES
        while len(vectors) > 1:
            size //= 2
            # So far, runs of 2 · size lanes belong together.
            firsts = [lane for lane in range(2 * LANES) if lane % (2 * size) < size]
            seconds = [lane + size for lane in firsts]
            vectors = [
                self.add(self.shuffle(*pair, firsts), self.shuffle(*pair, seconds))
                for pair in zip(vectors[::2], vectors[1::2], strict=True)
            ]
        return vectors[0]

    def for_entries(
        self, row: Any, held: Sequence[Any], body: Callable[..., Sequence[Any]]
    ) -> list[Any]:
        """Do something with each entry of a row, and return what is held at the end.

        Parameters
        ----------
        row
            Where it stands at which entry the row begins, and beside it where it ends.
        held
            Vectors to begin with.
        body
            Takes an entry and what is held, and returns what is held after it.
        """
        builder, long = self._builder, self._long
        first, end = self.word(row), self.word(self.at(row, 1, 4))
        before = builder.block
        head, inside, done = (builder.append_basic_block("row") for _ in range(3))
        builder.branch(head)
        builder.position_at_end(head)
        entry = builder.phi(long)
        vectors = [builder.phi(self._vector) for _ in held]
        builder.cbranch(builder.icmp_signed("<", entry, end), inside, done)
        builder.position_at_end(inside)
        found = body(entry, *vectors)
        after = builder.add(entry, self._ir.Constant(long, 1))
        builder.branch(head)
        entry.add_incoming(first, before)
        entry.add_incoming(after, inside)
        for phi, old, new in zip(vectors, held, found, strict=True):
            phi.add_incoming(old, before)
            phi.add_incoming(new, inside)
        builder.position_at_end(done)
        return vectors


class RowLoop(Compiled):
    """A loop over the entries of one row, as compiled functions may call it.

    It is called with a tuple of addresses, and one of numbers.

    Parameters
    ----------
    write
        Takes `Code`, the addresses, and vectors of the numbers.
    """

    def __init__(self, write: Callable[..., None]) -> None:
        self._write, self._made = write, None
        self.__doc__, self.__name__ = write.__doc__, write.__name__

    def made(self) -> Any:
        """Return it as numba puts it into functions."""
        if self._made is None:
            from numba.core import cgutils, types
            from numba.extending import intrinsic

            def write(context: Any, builder: Any, _: Any, given: Any) -> Any:
                code = Code(builder)
                addresses, numbers = (cgutils.unpack_tuple(builder, g) for g in given)
                self._write(code, *addresses, *map(code.spread, numbers))
                return context.get_dummy_value()

            def row(_, addresses, numbers):  # type: ignore[no-untyped-def]
                return types.void(addresses, numbers), write

            self._made = intrinsic(row)
        return self._made


# ------------------------------------------------------------------------ loops of rows


@RowLoop
def score_row(code, row, columns, own, other, out, slope):  # type: ignore[no-untyped-def]
    """Write LeakyReLU(own + other), less the largest of the row."""
    mine = code.load(own)

    def score(entry: Any, top: Any) -> list[Any]:
        column = code.word(code.at(columns, entry, 4))
        found = code.add(mine, code.load(code.at(other, column)))
        bent = code.multiply(slope, found)
        found = code.where_above(found, bent, found, bent)
        code.store(found, code.at(out, entry))
        return [code.where_above(found, top, found, top)]

    (top,) = code.for_entries(row, [code.constant(-math.inf)], score)

    def less(entry: Any) -> list[Any]:
        place = code.at(out, entry)
        code.store(code.subtract(code.load(place), top), place)
        return []

    code.for_entries(row, [], less)


@RowLoop
def share_row(code, row, powers):  # type: ignore[no-untyped-def]
    """Divide numbers by their sum, in place."""

    def add(entry: Any, total: Any) -> list[Any]:
        return [code.add(total, code.load(code.at(powers, entry)))]

    (total,) = code.for_entries(row, [code.constant(0)], add)
    share = code.divide(code.constant(1), total)

    def scale(entry: Any) -> list[Any]:
        place = code.at(powers, entry)
        code.store(code.multiply(share, code.load(place)), place)
        return []

    code.for_entries(row, [], scale)


@RowLoop
def sum_row(code, row, columns, values, dense, pitch, out):  # type: ignore[no-untyped-def]
    """Write the sums of eight columns for each of eight heads."""

    def add(entry: Any, *sums: Any) -> list[Any]:
        column = code.word(code.at(columns, entry, 4))
        theirs, value = code.row_at(dense, column, pitch), code.at(values, entry)
        return [
            code.add(
                code.multiply(
                    code.load_spread(code.at(value, head, 4)),
                    code.load(code.at(theirs, head)),
                ),
                total,
            )
            for head, total in enumerate(sums)
        ]

    zeros = [code.constant(0)] * LANES
    for head, total in enumerate(code.for_entries(row, zeros, add)):
        code.store(total, code.at(out, head))


@RowLoop
def dot_row(code, row, columns, own, dense, pitch, out):  # type: ignore[no-untyped-def]
    """Write products of eight columns for each of eight heads."""
    mine = [code.load(code.at(own, head)) for head in range(LANES)]

    def dot(entry: Any) -> list[Any]:
        column = code.word(code.at(columns, entry, 4))
        theirs = code.row_at(dense, column, pitch)
        products = [
            code.multiply(vector, code.load(code.at(theirs, head)))
            for head, vector in enumerate(mine)
        ]
        code.store(code.totals(products), code.at(out, entry))
        return []

    code.for_entries(row, [], dot)


@RowLoop
def gradient_row(  # type: ignore[no-untyped-def]
    code, row, columns, own, other, shares, given, of_own, above, below
):
    """Turn gradients of shares into those of own + other, in place, and sum them."""
    mine, zero = code.load(own), code.constant(0)

    def add(entry: Any, total: Any) -> list[Any]:
        share, found = (code.load(code.at(of, entry)) for of in (shares, given))
        return [code.add(code.multiply(share, found), total)]

    (mean,) = code.for_entries(row, [zero], add)

    def bend(entry: Any, total: Any) -> list[Any]:
        column, place = code.word(code.at(columns, entry, 4)), code.at(given, entry)
        score = code.add(mine, code.load(code.at(other, column)))
        times = code.where_above(score, zero, above, below)
        share = code.load(code.at(shares, entry))
        found = code.multiply(share, code.subtract(code.load(place), mean))
        found = code.multiply(found, times)
        code.store(found, place)
        return [code.add(found, total)]

    (total,) = code.for_entries(row, [zero], bend)
    code.store(total, of_own)


@RowLoop
def turn_row(code, row, order, scores, weights, of_other, out):  # type: ignore[no-untyped-def]
    """Sum numbers from elsewhere, and write others from there to here."""

    def take(entry: Any, total: Any) -> list[Any]:
        place = code.long(code.at(order, entry, 8))
        code.store(code.load(code.at(weights, place)), code.at(out, entry))
        return [code.add(total, code.load(code.at(scores, place)))]

    (total,) = code.for_entries(row, [code.constant(0)], take)
    code.store(total, of_other)


# -------------------------------------------------------------------------- some of all


@compiled
def write_scores(first, last, starts, columns, own, other, out, slope):  # type: ignore[no-untyped-def]
    """Write the score of each entry and head, less the largest of its row."""
    for i in range(first, last):
        given = (starts + 4 * i, columns, own + BYTES * i, other, out)
        score_row(given, (slope,))


@compiled
def make_shares(first, last, starts, powers):  # type: ignore[no-untyped-def]
    """Divide the powers of each row by their sum, in place."""
    for i in range(first, last):
        share_row((starts + 4 * i, powers), ())


@compiled
def write_sums(first, last, starts, columns, values, dense, pitch, out):  # type: ignore[no-untyped-def]
    """Write sums over the entries of each row, `pitch` bytes of all heads' columns."""
    for i in range(first, last):
        given = (starts + 4 * i, columns, values, dense, pitch, out + pitch * i)
        sum_row(given, ())


@compiled
def write_dots(first, last, starts, columns, own, dense, pitch, out):  # type: ignore[no-untyped-def]
    """Write the product of a row of `own` and one of `dense` by entry and head."""
    for i in range(first, last):
        given = (starts + 4 * i, columns, own + pitch * i, dense, pitch, out)
        dot_row(given, ())


@compiled
def make_score_gradients(  # type: ignore[no-untyped-def]
    first,
    last,
    starts,
    columns,
    own,
    other,
    shares,
    found,
    of_own,
    above,
    below,
):
    """Turn gradients of shares into those of scores, in place, and sum them by row.

    They count `above` times where own + other is positive, and else `below` times.
    """
    for i in range(first, last):
        mine, sums = own + BYTES * i, of_own + BYTES * i
        given = (starts + 4 * i, columns, mine, other, shares, found, sums)
        gradient_row(given, (above, below))


@compiled
def write_turned(first, last, starts, order, scores, weights, of_other, out):  # type: ignore[no-untyped-def]
    """Sum gradients by column, and write weights in the order of the transpose."""
    for j in range(first, last):
        sums = of_other + BYTES * j
        turn_row((starts + 4 * j, order, scores, weights, sums, out), ())
