"""GMNN: one network from features to labels, one from neighbors' labels to labels."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional

from h2gcn.models.base import ACTIVATIONS, drop, uniform
from h2gcn.models.options import (
    Activation,
    Dropout,
    InputDropout,
    Steps,
    Width,
    between,
)
from h2gcn.sparse import Operator, Propagation
from h2gcn.training import NodeModule, Trainer, soft_cross_entropy

Temperature = Annotated[
    float, between("(0, inf)"), "Divides q's logits before labels are sampled"
]


class GMNN(NodeModule):
    """Graph Markov neural network (Qu, Bengio and Tang, ICML 2019).

        g(Z) = Â dropout(σ(Â dropout(Z) W₁)) W₂     with Â = D^-1/2 (A + I) D^-1/2
        q(y | X) = softmax(g_q(X))
        p(y | Y) = softmax(g_p(Y))

    Two networks of one form. q predicts. p sees labels only: it learns by its
    pseudolikelihood which labels are neighbors. First q is trained alone, then
    variational EM trains both in turn:

    - M-step: q samples labels Y for all nodes; training nodes keep their own. p is
      trained on all nodes to predict Y from Y.
    - E-step: the targets of q are the probabilities of p, and of training nodes the
      label. q is trained on all nodes.

    Taken from the authors' program: this order; labels are sampled once per M-step and
    are both input and target of p (Â has self-loops, so p sees a node's own label
    unless it is dropped); the probabilities as targets of q; the temperature; weights
    uniform up to one over the root of their number of outputs, no biases, the L2
    penalty on all of them; 16 hidden channels, half of the input dropped, and one
    iteration, as in all its runs. There, as here, q continues from its best epoch after
    it was trained alone; after later E-steps, there from its last epoch.

    Departures from the authors' program: all trainings of q have equal numbers of
    epochs (there 100 or 200, then 100), the M-step has `label_steps`; the optimizer is
    Adam with rate 0.01, as there for Pubmed, and starts anew in each step of EM. The
    best epoch is the best of all trainings of q, the first one included; ties go to the
    last. Labels are always sampled; there an option takes the most likely ones or the
    probabilities themselves.
    """

    receptive_field = 2

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: Width = 16,
        activation: Activation = "relu",
        input_dropout: InputDropout = 0.5,
        dropout: Dropout = 0.0,
        iterations: Annotated[Steps, "Number of EM iterations"] = 1,
        label_steps: Annotated[Steps, "Training steps of p per M-step"] = 100,
        temperature: Temperature = 0.1,
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.activation = activation
        self.input_dropout, self.dropout = input_dropout, dropout
        self.iterations, self.label_steps = iterations, label_steps
        self.temperature = temperature
        first, second = hidden_channels**-0.5, out_channels**-0.5
        self.q_first = uniform(first, in_channels, hidden_channels)
        self.q_second = uniform(second, hidden_channels, out_channels)
        self.p_first = uniform(first, out_channels, hidden_channels)
        self.p_second = uniform(second, hidden_channels, out_channels)

    def batch_problem(self) -> str:
        """Return why there are no batches."""
        return "it learns from all nodes of the graph"

    def fit(self, trainer: Trainer) -> None:
        """Train q alone, then p and q in turn."""
        first, *rest = trainer.split_epochs(1 + self.iterations)
        trainer.train(epochs=first)
        for epochs in rest:
            self._iterate(trainer, epochs)

    def _iterate(self, trainer: Trainer, epochs: int) -> None:
        """Do one M-step and one E-step."""
        x, graph, weights = trainer.x, trainer.graph, trainer.class_weights
        q = (self(x, graph) / self.temperature).softmax(dim=1)
        sampled = torch.multinomial(q, 1)[:, 0]
        one_hot = functional.one_hot(sampled, self.out_channels).to(q.dtype)
        labels = trainer.with_known(one_hot)
        trainer.minimize(
            lambda: soft_cross_entropy(self._p(labels, graph), labels, weights),
            [self.p_first, self.p_second],
            self.label_steps,
        )
        targets = trainer.with_known(self._p(labels, graph).softmax(dim=1))
        trainer.train(
            loss=lambda: soft_cross_entropy(self(x, graph), targets, weights),
            epochs=epochs,
        )

    def forward(self, x: Tensor | Operator, graph: Propagation) -> Tensor:
        """Return q's logits of the target nodes, [m, C]."""
        return self._network(x, graph, self.q_first, self.q_second)

    def _p(self, labels: Tensor, graph: Propagation) -> Tensor:
        """Return p's logits of all nodes, [n, C]."""
        return self._network(labels, graph, self.p_first, self.p_second)

    def _network(
        self, z: Tensor | Operator, graph: Propagation, first: Tensor, second: Tensor
    ) -> Tensor:
        """Return g(Z) of the target nodes."""
        dropped = drop(z, self.input_dropout, self.training)
        hidden = ACTIVATIONS[self.activation](graph.matrices[0] @ (dropped @ first))
        return graph.rows[0] @ (drop(hidden, self.dropout, self.training) @ second)
