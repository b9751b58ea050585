"""Graph diffusion, who is near whom by walks of every length, and GDC, a GCN on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from h2gcn._validation import check_choice, check_integer, check_real
from h2gcn.graph import CSR, slices
from h2gcn.models.base import MatrixMaker
from h2gcn.models.gcn import GCN

__all__ = ["GDC", "KERNELS", "Diffusion"]

KERNELS = ("pagerank", "heat")
MAX_TIME = 100.0  # by then every component is uniform
MAX_TOP = 2**31 - 1
EXACT_NODES = 4096  # a dense matrix of all pairs is then 130 MB
BLOCK = 512  # rows at a time on larger graphs
DROPPED = 2e-4  # an entry of Tᵏ that would add less is dropped there
FLOOR = 1e-12  # values below are rounding
TIE = 1e-6  # relative difference that rounding can make

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Diffusion(MatrixMaker):
    """A graph diffusion, sparsified (Gasteiger et al., NeurIPS 2019).

        T = D^-1/2 (A + I) D^-1/2
        S = Σ_k α (1 − α)ᵏ Tᵏ    = α (I − (1 − α) T)⁻¹    personalized PageRank
        S = Σ_k e⁻ᵗ tᵏ/k! Tᵏ     = exp(−t (I − T))        heat kernel

    Of each row, which is a column too, the `top` largest values are kept; of equal
    ones, those of the nodes with lower numbers. The operator is what is kept, each row
    divided by its sum. In the authors' program (`col_one`) columns sum to one, and a
    column is what a node hears of others: the row here.

    Up to 4,096 nodes S is exact. Beyond, the sum is taken term by term, and an entry of
    Tᵏ is dropped once all terms to come would add less than 2e-4 to S by it. Values are
    then too small, never too large. This takes about a millisecond per node.

    Parameters
    ----------
    kernel
        "pagerank" or "heat".
    alpha
        α of PageRank, in (0, 1): the larger, the nearer to the node itself.
    time
        t of the heat kernel: the larger, the farther.
    top
        How many values of a row are kept.

    Examples
    --------
    >>> path = CSR(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=np.float32))
    >>> Diffusion(alpha=0.5, top=2)(path)[0].toarray().round(2)
    array([[0.79, 0.21, 0.  ],
           [0.21, 0.79, 0.  ],
           [0.  , 0.21, 0.79]], dtype=float32)
    """

    kernel: str = "pagerank"
    alpha: float = 0.15
    time: float = 5.0
    top: int = 64

    def __post_init__(self) -> None:
        check_choice("kernel", self.kernel, KERNELS)
        check_real("alpha", self.alpha, "(0, 1)")
        check_real("time", self.time, f"(0, {MAX_TIME:g}]")
        check_integer("top", self.top, 1, MAX_TOP)

    def __call__(self, adj: CSR) -> tuple[CSR, ...]:
        """Return what is kept, each row divided by its sum, as the only operator."""
        kept = self.kept(adj)
        values = kept.data / np.repeat(kept.sum(axis=1), np.diff(kept.indptr))
        matrix = values.astype(np.float32), kept.indices, kept.indptr
        return (CSR(matrix, shape=kept.shape),)

    def kept(self, adj: CSR) -> CSR:
        """Return S with what is kept of each row, [n, n], float64.

        `adj` is symmetric, without self-loops, [n, n]: ones, or edge weights.
        """
        n = adj.shape[0]
        walk = transitions(adj)
        if 0 < n <= EXACT_NODES:
            blocks = [self._exact(walk)]
        else:
            blocks = [self._approximate(walk, rows) for rows in slices(n, BLOCK)]
        kept = [largest(block, self.top) for block in blocks]
        return CSR(sp.vstack(kept, format="csr")) if kept else CSR(walk)

    def entries(self, adj: CSR) -> tuple[int, ...]:
        """Return how many entries the operator has, at most."""
        n = adj.shape[0]
        return (n * min(self.top, n),)

    def _exact(self, walk: CSR) -> CSR:
        from scipy import linalg
        from scipy.sparse.linalg import expm_multiply

        n = walk.shape[0]
        if self.kernel == "pagerank":
            factor = linalg.cho_factor(np.eye(n) - (1 - self.alpha) * walk.toarray())
            dense = linalg.cho_solve(factor, self.alpha * np.eye(n), overwrite_b=True)
        else:
            generator = sp.csr_array(self.time * (walk - sp.eye_array(n)))
            dense = expm_multiply(generator, np.eye(n))
        top = min(self.top, n)
        least = np.partition(dense, n - top, axis=1)[:, n - top, None]
        dense[dense < np.maximum(least * (1 - TIE), FLOOR)] = 0
        return CSR(dense)

    def _approximate(self, walk: CSR, rows: slice) -> CSR:
        """Return some rows of Σ_k θ_k Tᵏ, [m, n]."""
        n, m = walk.shape[0], rows.stop - rows.start
        some = np.ones(m), np.arange(rows.start, rows.stop), np.arange(m + 1)
        power, rest = sp.csr_array(some, shape=(m, n)), 1.0
        total = sp.csr_array((m, n))
        for theta in self._weights():
            total = total + theta * power
            rest -= theta  # the weight of all terms to come
            power = sp.csr_array(power @ walk)
            power.data[rest * power.data < DROPPED] = 0
            power.eliminate_zeros()
            if not power.nnz:
                break
        return CSR(total)

    def _weights(self) -> Iterator[float]:
        """Yield θ_0, θ_1, …, which sum to one."""
        theta = self.alpha if self.kernel == "pagerank" else float(np.exp(-self.time))
        for k in count(1):
            yield theta
            theta *= 1 - self.alpha if self.kernel == "pagerank" else self.time / k


def transitions(adj: CSR) -> CSR:
    """Return T = D^-1/2 (A + I) D^-1/2, [n, n], float64."""
    closed = CSR(adj.astype(np.float64) + sp.eye_array(adj.shape[0]))
    scale = sp.diags_array(np.asarray(closed.sum(axis=1)) ** -0.5)
    return CSR(scale @ closed @ scale)


def largest(matrix: CSR, top: int) -> CSR:
    """Return the `top` largest entries of each row; of equal ones, the first columns.

    Entries are equal if they are in single precision.
    """
    m = matrix.shape[0]
    sizes = np.diff(matrix.indptr)
    row = np.repeat(np.arange(m), sizes)
    order = np.lexsort((matrix.indices, -matrix.data.astype(np.float32), row))
    rank = np.arange(len(order)) - np.repeat(matrix.indptr[:-1], sizes)
    kept = np.sort(order[rank < top])
    entries = matrix.data[kept], (row[kept], matrix.indices[kept])
    result = CSR(sp.csr_array(entries, shape=matrix.shape))
    result.sort_indices()
    return result


class GDC(GCN):
    """GCN with graph diffusion convolution (Gasteiger et al., NeurIPS 2019).

        logits = S̃ dropout(σ(S̃ dropout(X) W₁)) W₂

    where the rows of S̃ are what is kept of a diffusion, divided by their sums, see
    `Diffusion`. The module is our GCN; the options of the diffusion act on its operator
    alone.

    Departures from the authors' program: its layers are PyG's, with biases, and only
    the input of the second is dropped. As there, the L2 penalty is on the first layer.
    It runs Cora, with 20 labels a class, at α = 0.05, the top 128 and a weight decay of
    0.096; the defaults here, α = 0.15 and GCN's penalty, are for more labels, and in
    the range that the paper finds good for α.

    Parameters
    ----------
    in_channels, out_channels
        Number of features F and of classes |Y|.
    hidden_channels
        Width of the hidden layer.
    activation
        σ, "relu", "elu" or "none".
    dropout
        Dropped fraction of each layer's input, while training.
    kernel
        The diffusion: "pagerank" or "heat".
    alpha
        α of PageRank, in (0, 1): the larger, the nearer to the node itself.
    time
        t of the heat kernel: the larger, the farther.
    top
        How many values of a row are kept.

    Notes
    -----
    Shapes: `x` [n, F] (a tensor or a sparse `Operator`), the operator S̃ [n, n], logits
    [m, |Y|] of m target nodes.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = 64,
        activation: str = "relu",
        dropout: float = 0.5,
        kernel: str = Diffusion.kernel,
        alpha: float = Diffusion.alpha,
        time: float = Diffusion.time,
        top: int = Diffusion.top,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            hidden_channels=hidden_channels,
            activation=activation,
            dropout=dropout,
        )
        self.diffusion = Diffusion(kernel, alpha, time, top)
