"""Checksums that say which graph it was, and which split."""

import hashlib

import numpy as np

from h2gcn.graph.graph import Graph, Split
from h2gcn.graph.rows import canonical

__all__ = ["fingerprint", "split_fingerprint"]


def fingerprint(graph: Graph) -> str:
    """Return the SHA-256 of a graph's edges, features and labels, 64 hex digits.

    Names, splits and directions do not count, nor does the index type of a sparse
    matrix. Dense and sparse features have different fingerprints.

    Examples
    --------
    >>> fingerprint(Graph(x=np.eye(2), adj=np.eye(2)[::-1], y=[0, 1]))[:8]
    '68b2e1e0'
    """
    adj, x = graph.adj, graph.x
    pieces = [np.array(x.shape), adj.indptr, adj.indices]
    if isinstance(x, np.ndarray):
        pieces.append(x)
    else:
        sparse = canonical(x)
        pieces += [sparse.indptr, sparse.indices, sparse.data]
    digest = hashlib.sha256()
    for piece in [*pieces, graph.y]:
        # One width and byte order, so that equal numbers are equal bytes.
        dtype = "<f4" if piece.dtype.kind == "f" else "<i8"
        digest.update(np.ascontiguousarray(piece, dtype=dtype).data)
    return digest.hexdigest()


def split_fingerprint(split: Split) -> str:
    """Return the SHA-256 of a split, 64 hex digits."""
    digest = hashlib.sha256()
    for index in split.parts.values():
        digest.update(f"{len(index)} ".encode())
        digest.update(np.ascontiguousarray(index, dtype="<i8").data)
    return digest.hexdigest()
