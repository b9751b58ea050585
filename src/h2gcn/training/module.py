"""What the training loop, prediction and explanations need of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from torch import Tensor, nn

from h2gcn.features import Input
from h2gcn.sparse import Propagation

if TYPE_CHECKING:
    from h2gcn.models import Decomposition
    from h2gcn.training.loop import Trainer

__all__ = ["NodeModule", "soft_cross_entropy", "tensor_problem"]


class NodeModule(nn.Module):
    """A module that returns logits for the nodes of a graph.

    A model defines `forward(x, graph)`, where `x` is a matrix or a table and `graph` a
    `Propagation`, and overrides of the rest only what differs.

    Parameters
    ----------
    in_channels
        Number of input columns; of a table, those of all blocks together.

    Attributes
    ----------
    receptive_field
        How many products with propagation matrices follow one another: what a logit
        depends on is at most this many hops away. None if every logit needs the whole
        graph; such a model takes no batches.
    inputs
        What `forward` takes as `x`: the "features" of the nodes, a "table" of feature
        blocks, which the option `table` names, or the "labels" of the training nodes
        (one-hot, zero elsewhere).
    epochs
        Whether it is trained in epochs. If not, parameters of training do not apply.
    """

    receptive_field: int | None = None
    inputs: ClassVar[Literal["features", "table", "labels"]] = "features"
    epochs: ClassVar[bool] = True

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels

    def fit(self, trainer: Trainer) -> None:
        """Train the module: by default in epochs, on the loss of the training nodes."""
        trainer.train()

    def decayed_parameters(self) -> list[nn.Parameter]:
        """Return the parameters under the L2 penalty: by default all."""
        return list(self.parameters())

    def penalty(self) -> Tensor | None:
        """Return a term that is added to the training loss, if there is one."""
        return None

    def decompose(self, x: Input, graph: Propagation) -> Decomposition | None:
        """Return the logits of the one target node as an exact sum, if they are one.

        `x` and `graph` are the whole graph, or the receptive field of the node. Called
        in evaluation mode.
        """
        del x, graph
        return None

    def batch_problem(self) -> str | None:
        """Return why the module cannot be trained in batches, if so."""
        if self.receptive_field is None:
            return "each of its logits depends on all nodes of the graph"
        return None

    def step_bytes(self, n_nodes: int, n_targets: int, entries: int) -> int:
        """Return about how many bytes a training step holds beside matrices and input.

        The default is seven matrices for each layer, as wide as its weights, and at
        least as wide as the logits.

        Parameters
        ----------
        n_nodes
            Nodes that the step sees.
        n_targets
            Those that are trained on.
        entries
            Stored entries of the propagation matrices.
        """
        del n_targets, entries
        widths = sum(weight.shape[-1] for weight in self.parameters() if weight.dim())
        return 28 * max(widths, self.out_channels) * n_nodes


def soft_cross_entropy(
    logits: Tensor, targets: Tensor, weights: Tensor | None = None
) -> Tensor:
    """Return the mean cross-entropy with a distribution over classes for each node.

    `logits` and `targets` are [m, C], where rows of `targets` sum to one; `weights` of
    the classes are [C].
    """
    if weights is not None:
        targets = targets * weights.to(targets.dtype)
    return -(targets * logits.log_softmax(dim=1)).sum(dim=1).mean()


def tensor_problem(
    tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor]
) -> str | None:
    """Return why tensors of a file cannot replace the expected ones, if they cannot.

    Names, shapes and types must be the same, and all numbers finite. What a module
    stores as its extra state is checked by the module.
    """
    for name in sorted(expected.keys() ^ tensors.keys()):
        missing = name in expected
        return f"{name} {'is missing' if missing else 'is not one of its tensors'}"
    for name, like in expected.items():
        tensor = tensors[name]
        if name.endswith("_extra_state"):
            continue
        if tensor.shape != like.shape:
            return f"{name} has the shape {[*tensor.shape]}, not {[*like.shape]}"
        if tensor.dtype != like.dtype:
            types = [str(t.dtype).removeprefix("torch.") for t in (tensor, like)]
            return f"{name} has the type {types[0]}, not {types[1]}"
        if not bool(tensor.isfinite().all()):
            return f"{name} has numbers that are not finite"
    return None
