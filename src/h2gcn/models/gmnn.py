"""GMNN: one network from features to labels, one from neighbors' labels to labels."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from h2gcn._validation import check_choice, check_integer, check_real
from h2gcn.features import Input
from h2gcn.models.base import (
    ACTIVATIONS,
    MAX_STEPS,
    NodeModule,
    Phase,
    check_sizes,
    drop,
    soft_cross_entropy,
)
from h2gcn.sparse import Operator, Propagation

__all__ = ["GMNN"]

ALONE, LABELS, FEATURES = "q alone", "p", "q"  # the phases: before, M-step, E-step


class GMNN(NodeModule):
    """Graph Markov neural network (Qu, Bengio and Tang, ICML 2019).

        g(Z) = Â dropout(σ(Â dropout(Z) W₁)) W₂     with Â = D^-1/2 (A + I) D^-1/2
        q(y | X) = softmax(g_q(X))
        p(y | Y) = softmax(g_p(Y))

    Two networks of one form. q predicts. p, which sees no features, learns by its
    pseudolikelihood how labels go together. Variational EM trains both in turn, here as
    phases:

    - q alone, on the labels of the training nodes;
    - M-step: labels Y are sampled from q for all nodes, those of training nodes are
      their own. p is trained on all nodes, to give each its label from Y;
    - E-step: the targets of q are the probabilities of p, and of training nodes the
      label. q is trained on all nodes.

    Taken from the authors' program: this order, the labels that are sampled once for
    each M-step and are both input and target of p (with self-loops, so that p sees a
    node's own unless it is dropped), the probabilities as targets of q, the
    temperature, weights uniform up to one over the root of their number of outputs and
    no biases, the L2 penalty on all of them, 16 hidden channels, half of the input
    dropped, and one iteration, as all its runs have it. There q goes on from its best
    epoch once it was trained alone, as it does here; later from its last.

    Departures from the authors' program: phases of q have equal shares of the epochs
    (there 100 or 200, then 100), the M-step `label_steps`; the optimizer is Adam with
    rate 0.01, as there for Pubmed, and starts anew in each phase. The best epoch is
    that of all phases, q alone among them; of equal ones the last. Labels are always
    sampled, there also the likeliest or the probabilities themselves by option.

    Parameters
    ----------
    in_channels, out_channels
        Number of features F and of classes |Y|.
    hidden_channels
        Width of the hidden layers.
    activation
        σ, "relu", "elu" or "none".
    input_dropout
        Dropped fraction of the first layer's input, while training.
    dropout
        Dropped fraction of the second layer's input, while training.
    iterations
        How many times the M-step and the E-step are done.
    label_steps
        Steps of an M-step.
    temperature
        Divides q's logits before labels are sampled; below 1 the likeliest classes are
        sampled more often.

    Notes
    -----
    Shapes: `x` [n, F] (a tensor or a sparse `Operator`), the matrix Â [n, n], logits
    [m, |Y|] of m target nodes.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = 16,
        activation: str = "relu",
        input_dropout: float = 0.5,
        dropout: float = 0.0,
        iterations: int = 1,
        label_steps: int = 100,
        temperature: float = 0.1,
    ) -> None:
        super().__init__(in_channels, out_channels)
        check_sizes(in_channels, out_channels, hidden_channels)
        self.activation = check_choice("activation", activation, ACTIVATIONS)
        self.input_dropout = check_real("input_dropout", input_dropout, "[0, 1)")
        self.dropout = check_real("dropout", dropout, "[0, 1)")
        self.iterations = check_integer("iterations", iterations, 1, MAX_STEPS)
        self.label_steps = check_integer("label_steps", label_steps, 1, MAX_STEPS)
        self.temperature = check_real("temperature", temperature, "(0, inf)")
        self.q_first = nn.Parameter(torch.empty(in_channels, hidden_channels))
        self.q_second = nn.Parameter(torch.empty(hidden_channels, out_channels))
        self.p_first = nn.Parameter(torch.empty(out_channels, hidden_channels))
        self.p_second = nn.Parameter(torch.empty(hidden_channels, out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        for weight in self.parameters():
            bound = weight.shape[1] ** -0.5
            nn.init.uniform_(weight, -bound, bound)

    @property
    def reach(self) -> int:
        """How many products with operators follow one another: one per layer."""
        return 2

    def phases(self) -> tuple[Phase, ...]:
        """Return q alone, then as many M-steps and E-steps as there are iterations."""
        em = (Phase(LABELS, self.label_steps), Phase(FEATURES))
        return (Phase(ALONE), *em * self.iterations)

    @torch.no_grad()
    def prepare(
        self,
        phase: Phase,
        x: Input,
        graph: Propagation,
        labels: Tensor,
        index: Tensor,
        before: Mapping[str, Tensor],
    ) -> dict[str, Tensor]:
        """Return the targets of p or of q, [n, |Y|]; rows are distributions."""
        if phase.name == ALONE:
            return {}
        if phase.name == LABELS:
            q = (self(x, graph) / self.temperature).softmax(dim=1)
            targets = self._one_hot(torch.multinomial(q, 1)[:, 0])
        else:
            targets = self._p(before["targets"], graph).softmax(dim=1)
        targets[index] = self._one_hot(labels)
        return {"targets": targets}

    def objective(
        self,
        phase: Phase,
        x: Input,
        graph: Propagation,
        given: Mapping[str, Tensor],
        weights: Tensor | None,
    ) -> Tensor | None:
        """Return the cross-entropy of all nodes with the targets."""
        if phase.name == ALONE:
            return None
        targets = given["targets"]
        learns_labels = phase.name == LABELS
        logits = self._p(targets, graph) if learns_labels else self(x, graph)
        return soft_cross_entropy(logits, targets, weights)

    def forward(self, x: Tensor | Operator, graph: Propagation) -> Tensor:
        """Return q's logits of the target nodes, [m, |Y|]."""
        return self._network(x, graph, self.q_first, self.q_second)

    def _p(self, labels: Tensor, graph: Propagation) -> Tensor:
        """Return p's logits of all nodes, [n, |Y|]."""
        return self._network(labels, graph, self.p_first, self.p_second)

    def _network(
        self,
        z: Tensor | Operator,
        graph: Propagation,
        first: Tensor,
        second: Tensor,
    ) -> Tensor:
        """Return g(Z) of the target nodes."""
        dropped = drop(z, self.input_dropout, self.training)
        hidden = ACTIVATIONS[self.activation](graph.matrices[0] @ (dropped @ first))
        return graph.rows[0] @ (drop(hidden, self.dropout, self.training) @ second)

    def _one_hot(self, labels: Tensor) -> Tensor:
        hot = functional.one_hot(labels, self.out_channels)
        return hot.to(self.q_first.dtype)
