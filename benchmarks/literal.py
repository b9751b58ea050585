"""H2GCN as the paper writes it down: concatenate, then classify.

The reference of the other benchmarks, written once: every round of the whole graph,
torch's own sparse products and torch's own autograd through them; or the same with
PyG's message passing in place of the products.
"""

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from h2gcn.graph import CSR, Features
from h2gcn.models import H2GCN
from h2gcn.models.base import ACTIVATIONS

LAYOUTS = ("csr", "coo")
"""How torch may store a sparse matrix. Its products of CSR are the quicker ones."""
BYTES_PER_MESSAGE = 3 * 4
"""A message element is gathered, multiplied and, in the backward pass, made again."""

Aggregation = Callable[[Tensor], Tensor]


class LiteralH2GCN(nn.Module):
    """R(k) = A_1 R(k-1) ‖ A_2 R(k-1); logits = dropout(R(0) ‖ … ‖ R(K)) W_c.

    Parameters
    ----------
    module
        Our module; its weights are shared, not copied, so that logits can be compared
        and whoever trains one trains the other.
    aggregations
        A function for each ring, [n, w] to [n, w].
    """

    def __init__(self, module: H2GCN, aggregations: Sequence[Aggregation]) -> None:
        super().__init__()
        if module.nonlinear or module.final != tuple(range(module.rounds + 1)):
            raise ValueError(f"the literal algorithm is not written for {module!r}")
        self.embedding, self.classifier = module.embedding, module.classifier
        self.activation = ACTIVATIONS[module.activation]
        self.rounds, self.dropout = module.rounds, module.dropout
        self.aggregations = tuple(aggregations)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of all nodes, [n, C], from features [n, F]."""
        multiply = torch.mm if x.layout == torch.strided else torch.sparse.mm
        r = self.activation(multiply(x, self.embedding))
        rounds = [r]
        for _ in range(self.rounds):
            r = torch.cat([aggregate(r) for aggregate in self.aggregations], dim=1)
            rounds.append(r)
        final = torch.cat(rounds, dim=1)
        final = functional.dropout(final, self.dropout, self.training)
        return final @ self.classifier


def sparse_products(rings: Sequence[CSR], layout: str = "csr") -> list[Aggregation]:
    """Return torch's product with each normalised ring."""
    matrices = [to_torch(ring, layout) for ring in rings]

    def of(matrix: Tensor) -> Aggregation:
        return lambda r: torch.sparse.mm(matrix, r)

    return [of(matrix) for matrix in matrices]


def message_passing(rings: Sequence[CSR]) -> list[Aggregation]:
    """Return PyG's weighted sum over the neighbours of each normalised ring."""
    from torch_geometric.nn import MessagePassing

    class WeightedSum(MessagePassing):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(aggr="add")

        def forward(self, r: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
            out = self.propagate(edge_index, r=r, edge_weight=edge_weight)
            return cast(Tensor, out)

        def message(self, r_j: Tensor, edge_weight: Tensor) -> Tensor:
            return edge_weight.view(-1, 1) * r_j

    def of(ring: CSR) -> Aggregation:
        layer = WeightedSum()
        targets = np.repeat(np.arange(ring.shape[0]), np.diff(ring.indptr))
        edges = torch.from_numpy(np.stack([ring.indices.astype(np.int64), targets]))
        weights = torch.from_numpy(ring.data)
        return lambda r: cast(Tensor, layer(r, edges, weights))

    return [of(ring) for ring in rings]


def message_bytes(rings: Sequence[CSR], module: H2GCN) -> int:
    """Return about how much memory the messages of the widest round take."""
    width = module.hidden_channels * len(rings) ** max(module.rounds - 1, 0)
    return max(int(ring.nnz) for ring in rings) * int(width) * BYTES_PER_MESSAGE


def to_torch(x: Features, layout: str = "csr") -> Tensor:
    """Return features or a ring as torch's own tensor, dense or of a sparse layout."""
    if isinstance(x, np.ndarray):
        return torch.from_numpy(x)
    csr = torch.sparse_csr_tensor(
        torch.from_numpy(x.indptr),
        torch.from_numpy(x.indices),
        torch.from_numpy(x.data.astype(np.float32, copy=False)),
        size=x.shape,
    )
    return csr if layout == "csr" else csr.to_sparse_coo()
