"""GDC, a GCN whose neighbours are those of a graph diffusion."""

from __future__ import annotations

from h2gcn.models.diffusion import Diffusion
from h2gcn.models.gcn import GCN

__all__ = ["GDC"]


class GDC(GCN):
    r"""GCN with graph diffusion convolution (Gasteiger et al., NeurIPS 2019).

    .. math::
        \text{logits} = \tilde S\, \mathrm{dropout}(\sigma(\tilde S\,
        \mathrm{dropout}(X) W_1)) W_2

    where the rows of S̃ are what is kept of a diffusion, divided by their sums: see
    `Diffusion` for it, for how it is found on large graphs and how exact it is there.
    The module is our GCN; the options of the diffusion act on its operator alone.

    Where it differs from the authors' program: there the layers are PyG's, with biases,
    and of what layers take the hidden one alone is dropped. As there, the L2 penalty is
    on the first layer. The program runs Cora, with 20 labels a class, at α = 0.05, the
    top 128 and a weight decay of 0.096; the defaults here, α = 0.15 and GCN's penalty,
    are for more labels, and within the range that the paper finds good for α.

    Parameters
    ----------
    in_channels, out_channels
        Number of features F and of classes |Y|.
    hidden_channels
        Width of the hidden layer.
    activation
        σ, "relu", "elu" or "none".
    dropout
        Dropped share of what each layer takes, while training.
    kernel
        The diffusion: "pagerank" or "heat".
    alpha
        α of PageRank, in (0, 1): the larger, the nearer to the node itself.
    time
        t of the heat kernel: the larger, the farther.
    sparsify
        What is kept of a row: its "top" values, or those above a "threshold".
    top
        How many values of a row are kept.
    threshold
        The least value that is kept.
    tolerance
        How exact a diffusion is on graphs of more than 4096 nodes, see `Diffusion`.

    Notes
    -----
    Shapes: `x` [n, F] (a tensor or a sparse `Operator`), the operator S̃ [n, n], logits
    [n, |Y|], or [m, |Y|] for a `Target` of m nodes.
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
        sparsify: str = Diffusion.sparsify,
        top: int = Diffusion.top,
        threshold: float = Diffusion.threshold,
        tolerance: float = Diffusion.tolerance,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            hidden_channels=hidden_channels,
            activation=activation,
            dropout=dropout,
        )
        self.diffusion = Diffusion(
            kernel, alpha, time, sparsify, top, threshold, tolerance
        )
