"""Rings that are nearly an outer product among some of their nodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from h2gcn.graph import CSR

__all__ = ["split_core"]

MIN_ENTRIES = 2**17
MIN_DENSITY = 1 / 16
MIN_SAVED = 1 / 4  # of the entries
TOLERANCE = 1e-6  # relative: a few roundings of a float32
ROUNDS = 4


def split_core(matrix: CSR) -> tuple[CSR, NDArray[np.float32]] | None:
    """Return R and u with A = R + u uᵀ where R has far fewer entries; else None.

    In a ring normalized by D^-1/2, the entry of a pair is 1/√(d_i d_j), d the entries
    of a row. Where almost all pairs of some nodes are in the ring, u uᵀ has the entries
    of these pairs, and R takes back the few that are not in the ring.

    Parameters
    ----------
    matrix
        A, symmetric, [n, n].
    """
    nnz, counts = matrix.nnz, np.diff(matrix.indptr)
    if nnz < max(MIN_ENTRIES, MIN_DENSITY * matrix.shape[0] ** 2):
        return None
    nodes = _core_nodes(matrix)
    factor = 1 / np.sqrt(counts[nodes])
    outer = np.outer(factor, factor)
    block = CSR(CSR(matrix[nodes])[:, nodes]).toarray()
    left = block - outer
    left[np.abs(left) <= TOLERANCE * outer] = 0
    rows, columns = np.nonzero(left != block)
    change = (left - block)[rows, columns].astype(np.float32)
    rest = matrix + CSR((change, (nodes[rows], nodes[columns])), shape=matrix.shape)
    rest.eliminate_zeros()
    if rest.nnz > (1 - MIN_SAVED) * nnz:
        return None
    u = np.zeros(len(counts), dtype=np.float32)
    u[nodes] = factor
    return CSR(rest), u


def _core_nodes(matrix: CSR) -> NDArray[np.intp]:
    """Return nodes whose rows each have entries for more than half of them."""
    ones = np.ones(matrix.nnz, dtype=np.float32)
    pattern = CSR((ones, matrix.indices, matrix.indptr), shape=matrix.shape)
    densest = int(np.diff(matrix.indptr).argmax())
    core = pattern[[densest]].toarray()[0] > 0
    for _ in range(ROUNDS):
        core = 2 * (pattern @ core.astype(np.float32)) > core.sum()
    return np.flatnonzero(core)
