"""A model on a graph, with an epoch of ours and of each reference to be timed.

An epoch is a training step on the training nodes, then the loss and the accuracy of the
validation nodes. All programs share one set of weights. Ours has the loss and the Adam
of our training, the references those of torch, whose Adam is the fused one too.
"""

from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch
from literal import (
    LiteralH2GCN,
    message_bytes,
    message_passing,
    sparse_products,
    to_torch,
)
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from traffic import Rows, Shapes

from h2gcn import Graph, load_dataset
from h2gcn.datasets import PRESETS, generate_graph
from h2gcn.estimator import build_operators, plan_operators
from h2gcn.estimator.inputs import fit_scaler
from h2gcn.models import H2GCN, build_model, find_model
from h2gcn.sparse import StepCache
from h2gcn.sparse.operator import to_tensor
from h2gcn.training.batches import FullBatch, Subgraph
from h2gcn.training.optim import OPTIMIZERS
from h2gcn.training.threads import threads_for

GRAPHS = ("cora", "chameleon", "pubmed", "squirrel", "syn-products")
MODELS = ("h2gcn-1", "h2gcn-2")
HIDDEN = 64
CPU = torch.device("cpu")


def load(name: str) -> Graph:
    """Return a benchmark, or a graph like syn-products."""
    if name == "syn-products":
        return generate_graph(**PRESETS["syn-products"], homophily=0.2, name=name)
    return load_dataset(name)


class Case:
    """A model on the first split of a graph.

    Parameters
    ----------
    graph, model
        The graph, and "h2gcn-1" or "h2gcn-2".
    dropout
        Of the final representation.
    layout
        In which the literal algorithm stores its matrices.
    """

    def __init__(
        self, graph: Graph, model: str, dropout: float, layout: str = "csr"
    ) -> None:
        self.graph, self.split, self.layout = graph, graph.splits[0], layout
        self.features = fit_scaler("auto", graph.x, self.split.train)(graph.x)
        self.rings = find_model(model).build_matrices(graph.adj)
        torch.manual_seed(0)
        options = {"dropout": dropout, "hidden_channels": HIDDEN}
        module = build_model(model, graph.n_features, graph.n_classes, options)
        assert isinstance(module, H2GCN)
        self.module = module
        x, operators = (
            to_tensor(self.features),
            build_operators(plan_operators(graph, model, CPU)),
        )
        self._cache: StepCache = {}
        batches = FullBatch(x, operators, self.split, cache=self._cache)
        self._train, self._val = next(batches.steps(1)), next(batches.validation())
        self._ours = OPTIMIZERS["adam"](module.parameters(), fused=True)
        self._theirs = torch.optim.Adam(module.parameters(), fused=True)

    @cached_property
    def literal(self) -> LiteralH2GCN:
        """The literal algorithm on torch's sparse products."""
        return LiteralH2GCN(self.module, sparse_products(self.rings, self.layout))

    @cached_property
    def pyg(self) -> LiteralH2GCN:
        """The literal algorithm on PyG's message passing."""
        return LiteralH2GCN(self.module, message_passing(self.rings))

    @property
    def pyg_bytes(self) -> int:
        """About how much memory PyG's messages take."""
        return message_bytes(self.rings, self.module)

    @property
    def shapes(self) -> Shapes:
        """What the traffic of an epoch depends on."""

        def rows(part: slice | NDArray[np.int64]) -> Rows:
            cut = [ring[part] for ring in self.rings]
            return Rows(cut[0].shape[0], tuple(int(ring.nnz) for ring in cut))

        module, x = self.module, self.features
        return Shapes(
            features=module.in_channels,
            feature_entries=getattr(x, "nnz", None),
            hidden=module.hidden_channels,
            classes=module.out_channels,
            rounds=module.rounds,
            nodes=rows(slice(None)),
            train=rows(self.split.train),
            val=rows(self.split.val),
        )

    def difference(self, reference: LiteralH2GCN) -> float:
        """Return how far a logit that an epoch computes is from the reference's."""
        self._cache.clear()
        self.module.eval()
        reference.eval()
        with torch.no_grad():
            theirs = reference(self._plain_x)
            found = [
                self.module(piece.x, piece.graph)
                - theirs[torch.from_numpy(piece.nodes)]
                for piece in (self._train, self._val)
            ]
        return max(float(gap.abs().max()) for gap in found)

    def our_epoch(self) -> None:
        """Run an epoch of ours."""

        def logits(piece: Subgraph) -> Tensor:
            out: Tensor = self.module(piece.x, piece.graph)
            return out

        with threads_for([self._train.x, *self._train.graph.matrices]):
            self._epoch(self.module, logits, self._ours, functional.cross_entropy)

    def literal_epoch(self) -> None:
        """Run an epoch of the literal algorithm."""
        self._whole_epoch(self.literal)

    def pyg_epoch(self) -> None:
        """Run an epoch of the literal algorithm on PyG's message passing."""
        self._whole_epoch(self.pyg)

    def _whole_epoch(self, module: LiteralH2GCN) -> None:
        x = self._plain_x

        def logits(piece: Subgraph) -> Tensor:
            out: Tensor = module(x)[torch.from_numpy(piece.nodes)]
            return out

        self._epoch(module, logits, self._theirs, functional.cross_entropy)

    @cached_property
    def _plain_x(self) -> Tensor:
        return to_torch(self.features, self.layout)

    def _epoch(
        self,
        module: nn.Module,
        logits: Callable[[Subgraph], Tensor],
        optimiser: torch.optim.Optimizer,
        loss: Callable[[Tensor, Tensor], Tensor],
    ) -> None:
        y = torch.from_numpy(self.graph.y)
        train, val = self._train, self._val
        module.train()
        optimiser.zero_grad(set_to_none=True)
        loss(logits(train), y[train.nodes]).backward()
        optimiser.step()
        self._cache.clear()
        module.eval()
        with torch.no_grad():
            out, wanted = logits(val), y[val.nodes]
            loss(out, wanted).item()
            (out.argmax(dim=1) == wanted).float().mean().item()
