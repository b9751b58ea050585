"""Graph diffusion: which nodes are near by walks of every length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Annotated

import numpy as np
import scipy.sparse as sp

from h2gcn.graph import CSR, slices
from h2gcn.models.options import at_least, between, one_of
from h2gcn.models.spec import MatrixMaker

MAX_TIME = 100  # by then every component is uniform
MAX_TOP = 2**31 - 1
EXACT_NODES = 4096  # a dense matrix of all pairs is then 130 MB
BLOCK = 512  # rows at a time on larger graphs
DROPPED = 2e-4  # an entry of Tᵏ that would add less is dropped there
FLOOR = 1e-12  # smaller values are rounding


@dataclass(frozen=True)
class Diffusion(MatrixMaker):
    """The matrix of GDC, a sparsified graph diffusion (Gasteiger et al., NeurIPS 2019).

        T = D^-1/2 (A + I) D^-1/2
        S = Σ_k α (1 − α)ᵏ Tᵏ    = α (I − (1 − α) T)⁻¹    personalized PageRank
        S = Σ_k e⁻ᵗ tᵏ/k! Tᵏ     = exp(−t (I − T))        heat kernel

    Of each row, the `top` largest values are kept; of equal ones, those of the nodes
    with lower numbers. The matrix S̃ is what is kept, each row divided by its sum.

    Up to 4,096 nodes S is exact. Beyond, the sum is taken term by term, and an entry of
    Tᵏ is dropped once all terms to come would add less than 2e-4 to S by it. Values are
    then a little too small, and nodes at the edge of the `top` may be others.

    The model gdc is `GCN` with S̃ in the place of Â.

    Departures from the authors' program: there (`col_one`) columns sum to one, and a
    node reads its column; here it is the row. Its layers are PyG's, with biases, and
    only the input of the second is dropped. As there, the L2 penalty is on the first
    layer. It runs Cora, with 20 labels per class, at α = 0.05, the top 128 and a weight
    decay of 0.096; the defaults here, α = 0.15 and GCN's penalty, are for more labels,
    and in the range that the paper finds good for α.

    Examples
    --------
    >>> path = CSR(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=np.float32))
    >>> Diffusion(alpha=0.5, top=2)(path)[0].toarray().round(2)
    array([[0.79, 0.21, 0.  ],
           [0.21, 0.79, 0.  ],
           [0.  , 0.21, 0.79]], dtype=float32)
    """

    kernel: Annotated[
        str, one_of(("pagerank", "heat")), "Kind of diffusion: pagerank or heat"
    ] = "pagerank"
    alpha: Annotated[
        float, between("(0, 1)"), "Restart probability α of PageRank; larger is nearer"
    ] = 0.15
    time: Annotated[
        float,
        between(f"(0, {MAX_TIME}]"),
        "Time t of the heat kernel; larger is farther",
    ] = 5.0
    top: Annotated[int, at_least(1, MAX_TOP), "Largest values of a row to keep"] = 64

    def __call__(self, adj: CSR) -> tuple[CSR, ...]:
        """Return S̃ for a symmetric matrix without self-loops, [n, n]."""
        kept = self.sparsified(adj)
        kept.data /= np.repeat(kept.sum(axis=1), np.diff(kept.indptr))
        return (kept,)

    def sparsified(self, adj: CSR) -> CSR:
        """Return S with the largest values of each row alone, [n, n]."""
        n = adj.shape[0]
        if n == 0:
            return adj
        closed = CSR(adj.astype(np.float64) + sp.eye_array(n))
        scale = sp.diags_array(closed.sum(axis=1) ** -0.5)
        walk = CSR(scale @ closed @ scale)
        if n <= EXACT_NODES:
            blocks = [self._exact(walk)]
        else:
            blocks = [self._approximate(walk, rows) for rows in slices(n, BLOCK)]
        return CSR(sp.vstack([largest(block, self.top) for block in blocks]))

    def entries(self, adj: CSR) -> tuple[int, ...]:
        """Return how many entries the matrix has at most."""
        n = adj.shape[0]
        return (n * min(self.top, n),)

    def _exact(self, walk: CSR) -> CSR:
        """Return S where it is as large as the largest of each row."""
        from scipy.linalg import cho_factor, cho_solve
        from scipy.sparse.linalg import expm_multiply

        n = walk.shape[0]
        if self.kernel == "pagerank":
            factor = cho_factor(np.eye(n) - (1 - self.alpha) * walk.toarray())
            dense = cho_solve(factor, self.alpha * np.eye(n), overwrite_b=True)
        else:
            dense = expm_multiply(self.time * (walk - sp.eye_array(n)), np.eye(n))
        dense = dense.astype(np.float32)  # equal values differ by rounding
        least = np.sort(dense, axis=1)[:, -self.top :][:, :1]
        dense[dense < np.maximum(least, FLOOR)] = 0
        return CSR(dense)

    def _approximate(self, walk: CSR, rows: slice) -> CSR:
        """Return some rows of Σ_k θ_k Tᵏ, [m, n]."""
        power, rest = CSR(sp.eye_array(walk.shape[0], format="csr")[rows]), 1.0
        total = CSR(power.shape)
        for theta in self._weights():
            total = CSR(total + theta * power)
            rest -= theta  # the weight of all terms to come
            power = CSR(power @ walk)
            power.data[rest * power.data < DROPPED] = 0
            power.eliminate_zeros()
            if not power.nnz:
                break
        return total.astype(np.float32)

    def _weights(self) -> Iterator[float]:
        """Yield θ_0, θ_1, …, which sum to one."""
        theta = self.alpha if self.kernel == "pagerank" else float(np.exp(-self.time))
        for k in count(1):
            yield theta
            theta *= 1 - self.alpha if self.kernel == "pagerank" else self.time / k


def largest(matrix: CSR, top: int) -> CSR:
    """Return the largest entries of each row; of equal ones, the first columns."""
    sizes = np.diff(matrix.indptr)
    row = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((matrix.indices, -matrix.data, row))
    rank = np.arange(len(order)) - np.repeat(matrix.indptr[:-1], sizes)
    kept = order[rank < top]
    entries = matrix.data[kept], (row[kept], matrix.indices[kept])
    return CSR(entries, shape=matrix.shape)
