"""Instructions that compiled functions call: bits of words, and what is fetched."""

import numpy as np

from h2gcn.sparse.compiling import compiled
from h2gcn.sparse.kernels import count_bits, fetch, lowest_bit
from support.cases import each


@compiled
def _bits(words, lowest, counts):  # type: ignore[no-untyped-def]
    for i in range(len(words)):
        lowest[i], counts[i] = lowest_bit(words[i]), count_bits(words[i])


@compiled
def _sum_fetched(numbers, places):  # type: ignore[no-untyped-def]
    total = 0
    for i in range(len(places)):
        fetch(numbers, places[i])
        if 0 <= places[i] < len(numbers):
            total += numbers[places[i]]
    return total


@each("word", [0, 1, 12, 2**63, 2**64 - 1, 0x8000_0000_0001_0000])
def test_bits_of_a_word(word: int) -> None:
    lowest, counts = np.empty((2, 1), dtype=np.int64)
    _bits(np.array([word], dtype=np.uint64), lowest, counts)
    text = f"{word:064b}"
    assert lowest[0] == (64 if word == 0 else 63 - text.rindex("1"))
    assert counts[0] == text.count("1")


def test_what_is_fetched_stays_as_it_is_and_may_be_beyond_the_end() -> None:
    numbers = np.arange(10, dtype=np.int32)
    assert _sum_fetched(numbers, np.array([3, 9, 1000, -5])) == 12
    assert np.array_equal(numbers, np.arange(10))
