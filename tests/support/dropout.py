"""Which elements `dropout_linear` keeps, computed one by one in whole numbers."""

import torch

WORD = 2**64


def mixed(word: int) -> int:
    """Return a word of 64 bits, mixed, by whole numbers of any size."""
    word %= WORD
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % WORD
    return word ^ (word >> 31)


def is_kept(key: int, node: int, column: int, kept: int) -> bool:
    """Return whether an element is kept, one by one and slowly."""
    own = mixed(key + mixed(node + 1))
    bits = mixed(own + (column // 32 + 1) * 0x9E3779B97F4A7C15) >> 32
    if kept == 2**15:
        return bool(bits >> (column % 32) & 1)
    number = (bits + column % 32 * 0x7FEB352D) % 2**32
    number = (number ^ (number >> 15)) * 0x846CA68B % 2**32
    number = (number ^ (number >> 16)) * 0x7FEB352D % 2**32
    return number >> 16 < kept


def mask_of(nodes: torch.Tensor, width: int, probability: float) -> torch.Tensor:
    """Return what the rows are multiplied with, drawn as `dropout_linear` does."""
    key, kept = int(torch.randint(2**63 - 1, ())), round((1 - probability) * 2**16)
    mask = [[is_kept(key, n, j, kept) for j in range(width)] for n in nodes.tolist()]
    return torch.tensor(mask).reshape(len(nodes), width) * (2**16 / kept)
