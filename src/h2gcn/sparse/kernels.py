"""Random draws, bits of words and what is on its way to the cache, compiled."""

from typing import Any

import numpy as np

from h2gcn.sparse.compiling import compiled, instruction

__all__ = ["count_bits", "drop", "fetch", "lowest_bit", "mix"]


@instruction
def fetch(_, array, place):  # type: ignore[no-untyped-def]
    """Have an element of an array on its way to the cache; nobody waits for it."""
    from numba.core import types

    def write(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        from llvmlite import ir  # type: ignore[import-untyped]
        from numba.np.arrayobj import make_array

        numbers = make_array(signature.args[0])(context, builder, given[0]).data
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        called = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        at = builder.bitcast(builder.gep(numbers, [given[1]]), byte)
        to_read, to_keep, data = (ir.Constant(word, number) for number in (0, 3, 1))
        builder.call(called, [at, to_read, to_keep, data])
        return context.get_dummy_value()

    del place
    return types.void(array, types.int64), write


@instruction
def lowest_bit(_, word):  # type: ignore[no-untyped-def]
    """Return the place of the lowest bit of a 64-bit word; of no bit, 64."""
    from numba.core import types

    def write(_: Any, builder: Any, __: Any, given: Any) -> Any:
        from llvmlite import ir

        return builder.cttz(given[0], ir.Constant(ir.IntType(1), 0))

    del word
    return types.int64(types.uint64), write


@instruction
def count_bits(_, word):  # type: ignore[no-untyped-def]
    """Return how many bits of a 64-bit word are set."""
    from numba.core import types

    def write(_: Any, builder: Any, __: Any, given: Any) -> Any:
        return builder.ctpop(given[0])

    del word
    return types.int64(types.uint64), write


@compiled
def mix(word):  # type: ignore[no-untyped-def]
    """Return a 64-bit word whose every bit depends on every bit of the given one."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


ONE = np.uint64(1)
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
THIRTY_TWO = np.uint64(32)
HALF = 2**15
WORD = 32
"""Columns that one draw is for: a bit each, or 16 bits that are made of it."""


@compiled
def drop(blocks, nodes, first, key, kept):  # type: ignore[no-untyped-def]
    """Make elements of some rows zero that are not kept, in place.

    Their columns are those from `first` on of the matrix that is dropped, in blocks of
    as many, [b, m, c]. Each node and
    32 columns have a word of their own. Where half of all elements are kept, a bit of
    it decides; else 16 bits of a number that is made of word and column. Numbers are
    given as integers of their bits, which are all kept or none, and places as unsigned
    ones: so eight or more are done together.
    """
    half, below, width = kept == HALF, np.uint32(kept), blocks.shape[2]
    one, odd, odder = np.int32(1), np.uint32(0x7FEB352D), np.uint32(0x846CA68B)
    fifteen, sixteen = np.uint32(15), np.uint32(16)
    for b in range(len(blocks)):
        rows, begun = blocks[b], first + b * width
        for i in range(len(nodes)):
            own = mix(key + mix(np.uint64(nodes[i]) + ONE))
            row, done = rows[i], 0
            while done < width:
                column = begun + done
                place = column % WORD
                many = min(width - done, WORD - place)
                word = mix(own + (np.uint64(column // WORD) + ONE) * GOLDEN)
                at, drawn = np.uint64(done), np.uint32(word >> THIRTY_TWO)
                if half:
                    bits = np.int32(drawn >> np.uint32(place))
                    if many == WORD:  # a number that is known: nothing is left over
                        for j in range(np.uint64(WORD)):
                            row[at + j] &= np.int32(-((bits >> np.int32(j)) & one))
                    else:
                        for j in range(np.uint64(many)):
                            row[at + j] &= np.int32(-((bits >> np.int32(j)) & one))
                else:
                    begin = drawn + np.uint32(place) * odd
                    for j in range(np.uint64(many)):
                        number = np.uint32(begin + np.uint32(np.uint32(j) * odd))
                        number = np.uint32((number ^ (number >> fifteen)) * odder)
                        number = np.uint32((number ^ (number >> sixteen)) * odd)
                        row[at + j] &= -np.int32((number >> sixteen) < below)
                done += many
