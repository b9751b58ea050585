"""Compiled breadth-first search and sampling; importing it loads numba.

numba's cache looks at the file of the function that Python calls, and at no other:
what a kernel calls is in this file too, so that no change goes unnoticed.
"""

from typing import Any

import numpy as np
from numba.core import types
from numba.cpython.unsafe.numbers import trailing_zeros
from numba.extending import intrinsic

from h2gcn.sparse import jit

ONE, LOW, SIX = np.uint64(1), np.uint64(63), np.uint64(6)
TWELVE, EIGHTEEN = np.uint64(12), np.uint64(18)
THIRTY_TWO = np.uint64(32)
LOW_HALF = np.uint64(0xFFFFFFFF)
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
CACHE_LINE = 16  # neighbors


@intrinsic
def prefetch(_, array, index):  # type: ignore[no-untyped-def]
    """Start to load `array[index]` into the cache; the index is not checked."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        from llvmlite import ir  # type: ignore[import-untyped]
        from numba.np.arrayobj import make_array

        data = make_array(signature.args[0])(context, builder, args[0]).data
        pointer, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, word, word, word])
        called = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        address = builder.bitcast(builder.gep(data, [args[1]]), pointer)
        read, keep, of_data = (ir.Constant(word, number) for number in (0, 3, 1))
        builder.call(called, [address, read, keep, of_data])
        return context.get_dummy_value()

    del index
    return types.void(array, types.int64), generate


@jit
def hash64(word):  # type: ignore[no-untyped-def]
    """Return a 64-bit word whose every bit depends on every bit of the given one."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@jit
def prefetch_next(starts, neighbors, nodes, i):  # type: ignore[no-untyped-def]
    """Load what the searches from the next two nodes read: rows lie anywhere."""
    if i + 2 < len(nodes):
        for e in range(starts[nodes[i + 2]], starts[nodes[i + 2] + 1]):
            prefetch(starts, neighbors[e])
    if i + 1 < len(nodes):
        for e in range(starts[nodes[i + 1]], starts[nodes[i + 1] + 1]):
            row = starts[neighbors[e]]
            prefetch(neighbors, row)
            prefetch(neighbors, row + CACHE_LINE)


@jit
def mark(marks, node):  # type: ignore[no-untyped-def]
    """Set the bit of a node, one for its 64 nodes, and one for the 4096 around it."""
    bits, words, groups = marks
    node = np.uint64(node)
    bits[node >> SIX] |= ONE << (node & LOW)
    words[node >> TWELVE] |= ONE << ((node >> SIX) & LOW)
    groups[node >> EIGHTEEN] |= ONE << ((node >> TWELVE) & LOW)


@jit
def read_marks(marks, out):  # type: ignore[no-untyped-def]
    """Write the marked nodes, ascending, and clear them; return how many there are."""
    bits, words, groups = marks
    size = 0
    for top in range(len(groups)):
        group = groups[top]
        groups[top] = 0
        while group:
            middle = np.uint64(top) << SIX | trailing_zeros(group)
            group &= group - ONE
            word = words[middle]
            words[middle] = 0
            while word:
                bottom = middle << SIX | trailing_zeros(word)
                word &= word - ONE
                rest = bits[bottom]
                bits[bottom] = 0
                while rest:
                    out[size] = bottom << SIX | trailing_zeros(rest)
                    rest &= rest - ONE
                    size += 1
    return size


@jit
def search(starts, neighbors, node, steps, bits, near):  # type: ignore[no-untyped-def]
    """Write the nodes at most `steps` away by distance; return where the last begin.

    Their bits are set afterwards.
    """
    near[0], first, last = node, 0, 1
    bits[np.uint64(node) >> SIX] |= ONE << (np.uint64(node) & LOW)
    for _ in range(steps):
        end = last
        for place in range(first, last):
            for e in range(starts[near[place]], starts[near[place] + 1]):
                reached = np.uint64(neighbors[e])
                word = bits[reached >> SIX]
                more = word | (ONE << (reached & LOW))
                if word != more:
                    bits[reached >> SIX] = more
                    near[end] = reached
                    end += 1
        first, last = last, end
    return first, last


@jit
def write_ring(starts, neighbors, node, hop, self_loop, marks, near, out):  # type: ignore[no-untyped-def]
    """Write the nodes at distance `hop`, ascending; return how many there are.

    The last step is taken on a bitmap, which sorts the nodes and is clear before and
    after.
    """
    bits = marks[0]
    first, last = search(starts, neighbors, node, hop - 1, bits, near)
    for place in range(first, last):
        for e in range(starts[near[place]], starts[near[place] + 1]):
            mark(marks, neighbors[e])
    for place in range(last):
        nearer = np.uint64(near[place])
        bits[nearer >> SIX] &= ~(ONE << (nearer & LOW))
    if self_loop:
        mark(marks, node)
    return read_marks(marks, out)


@jit
def count_rings(starts, neighbors, nodes, hop, sizes):  # type: ignore[no-untyped-def]
    """Count the nodes at distance `hop` of each of `nodes`."""
    n = len(starts) - 1
    bits, near = np.zeros((n >> 6) + 1, np.uint64), np.empty(n, np.int32)
    for i in range(len(nodes)):
        prefetch_next(starts, neighbors, nodes, i)
        first, last = search(starts, neighbors, nodes[i], hop, bits, near)
        sizes[i] = last - first
        for place in range(last):
            bits[np.uint64(near[place]) >> SIX] = 0


@jit
def fill_rings(starts, neighbors, nodes, hop, self_loops, k, seed, out, sizes):  # type: ignore[no-untyped-def]
    """Write at most `k` members of each ring, all if it is 0; return how many.

    The rings of `nodes` follow one another in `out`; `sizes` are of the whole rings.
    """
    n, end = len(starts) - 1, 0
    bits, words = np.zeros((n >> 6) + 1, np.uint64), np.zeros((n >> 12) + 1, np.uint64)
    marks, near = (
        (bits, words, np.zeros((n >> 18) + 1, np.uint64)),
        np.empty(n, np.int32),
    )
    ring, keys = np.empty(n if k else 0, np.int32), np.empty(n if k else 0, np.uint64)
    for i in range(len(nodes)):
        node = nodes[i]
        prefetch_next(starts, neighbors, nodes, i)
        if k == 0:
            free = out[end:]
            size = write_ring(
                starts, neighbors, node, hop, self_loops, marks, near, free
            )
            sizes[i] = size - self_loops
            end += size
            continue
        sizes[i] = write_ring(starts, neighbors, node, hop, False, marks, near, ring)
        for place in range(choose(ring[: sizes[i]], node, k, seed, keys)):
            mark(marks, ring[place])
        if self_loops:
            mark(marks, node)
        end += read_marks(marks, out[end:])
    return end


@jit
def choose(ring, node, k, seed, keys):  # type: ignore[no-untyped-def]
    """Move at most `k` members of a ring to its front; return how many.

    Each member has a random number of (seed, node, member); the `k` smallest count.
    Only numbers below a limit that somewhat more than `k` should pass are sorted; if
    too few pass, all are.
    """
    size = len(ring)
    if size <= k:
        return size
    own = hash64(np.uint64(seed) + hash64(np.uint64(node) + ONE))
    fraction = (k + 5 * np.sqrt(k) + 5) / size
    limit = np.uint64(fraction * 4294967296.0) if fraction < 1 else LOW_HALF
    kept = 0
    while True:
        for place in range(size):
            member = np.uint64(ring[place])
            number = hash64(own + (member + ONE) * GOLDEN) >> THIRTY_TWO
            if number <= limit:
                keys[kept] = number << THIRTY_TWO | member
                kept += 1
        if kept >= k:
            break
        limit, kept = LOW_HALF, 0
    keys[:kept].sort()
    for place in range(k):
        ring[place] = keys[place] & LOW_HALF
    return k
