"""What a model is: a module and all that may be asked of it, operators, settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from inspect import signature
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from h2gcn._validation import check_integer
from h2gcn.features import Input, TableSchema
from h2gcn.graph import CSR, Graph
from h2gcn.models.decompose import Decomposition
from h2gcn.rings import RowRule, build_matrices, exact_rings, is_weighted
from h2gcn.sparse import Operator, Propagation, WeightedOperator, dropout

__all__ = [
    "ACTIVATIONS",
    "MAX_STEPS",
    "MAX_WIDTH",
    "MatrixMaker",
    "ModelSpec",
    "NodeModule",
    "Phase",
    "check_sizes",
    "drop",
    "soft_cross_entropy",
    "tensor_problem",
]


@dataclass(frozen=True)
class Phase:
    """A stretch of a training, of a module that is trained in several.

    Parameters
    ----------
    name
        What the module knows it by.
    steps
        How many steps it takes, of something that the validation nodes have no say in;
        None for a share of the epochs, each of which they judge.
    """

    name: str = ""
    steps: int | None = None


class NodeModule(nn.Module):
    """A module that gives each node of a graph its logits, and what else it offers.

    A model writes `forward(x, graph)`, and of what follows only what it
    has otherwise. Whoever trains a module, plans its memory or predicts with it asks
    for nothing that is not declared here.

    Parameters
    ----------
    in_channels, out_channels
        Number of input columns, of all blocks together where it takes a table, and
        of classes.

    Attributes
    ----------
    self_loops
        Whether a node may be in its own neighbourhoods. A forecast of memory counts
        such entries.
    drops_input
        Whether a step may hold a dropped copy of the input. A forecast of memory
        counts it, with its mask.
    renumbers
        Whether the graph may be given to it with other numbers of its nodes: nothing
        in it depends on them, but for `Propagation.node_ids`.
    edge_weights
        Whether edge weights, if any, count in its table.
    best_iteration
        Of a fit without epochs, how many iterations it kept; 0 where it has none.
    """

    self_loops: bool = True
    drops_input: bool = True
    renumbers: bool = False
    edge_weights: bool = True
    best_iteration: int = 0

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels

    @property
    def reach(self) -> int | None:
        """How many products with operators follow one another.

        None says that each logit depends on the whole graph: there are no batches.
        """
        return None

    def trained_first(self) -> NodeModule | None:
        """Return the part that is trained alone before the whole is, if there is one.

        It takes the same `x`, and no matrices.
        """
        return None

    def learner(self) -> NodeModule:
        """Return the part that epochs train and score; the whole, if nothing is said.

        It takes the same arguments and holds all weights: what the whole does
        with its logits is learned from nothing.
        """
        return self

    def initialise(
        self, x: Input, graph: Propagation, labels: Tensor, index: Tensor
    ) -> None:
        """Take from the training labels, once and before training, what is wanted.

        Parameters
        ----------
        x
            The input, [n, F]: a matrix, or a table, as `ModelSpec.inputs` says.
        graph
            All nodes, with the matrices of the graph, [n, n] each.
        labels
            Classes of the training nodes, [m].
        index
            The training nodes, [m].
        """

    def set_validation(self, labels: Tensor, index: Tensor) -> None:
        """Take the validation nodes before `initialise`, to stop a fit by.

        Parameters
        ----------
        labels, index
            Classes of the validation nodes, and the nodes, [m] each.
        """

    def phases(self) -> tuple[Phase, ...]:
        """Return the stretches of its training in order; the last one is judged.

        Those that are judged have equal shares of the epochs. After each of them the
        weights are the best so far; every phase has an optimiser that begins anew.
        """
        return (Phase(),)

    def prepare(
        self,
        phase: Phase,
        x: Input,
        graph: Propagation,
        labels: Tensor,
        index: Tensor,
        before: Mapping[str, Tensor],
    ) -> dict[str, Tensor]:
        """Return what the steps of a phase need, once and before the first of them.

        It may set weights anew too. No gradient is taken, and nothing is dropped.

        Parameters
        ----------
        phase
            One of `phases`.
        x, graph, labels, index
            As of `initialise`.
        before
            What it returned for the phase before; nothing for the first.
        """
        del phase, x, graph, labels, index, before
        return {}

    def objective(
        self,
        phase: Phase,
        x: Input,
        graph: Propagation,
        given: Mapping[str, Tensor],
        weights: Tensor | None,
    ) -> Tensor | None:
        """Return the loss that a step of a phase lowers, of the whole graph.

        None is the cross-entropy of the training nodes. Weights that the loss does not
        depend on stay as they are.

        Parameters
        ----------
        phase
            One of `phases`.
        x, graph
            As of `forward`, for all nodes.
        given
            What `prepare` returned for the phase.
        weights
            Of the classes, [C]; None where all count alike.
        """
        del phase, x, graph, given, weights
        return None

    def regularised(self) -> list[nn.Parameter]:
        """Return the weights that the L2 penalty acts on: all, if nothing is said."""
        return list(self.parameters())

    def penalty(self) -> Tensor | None:
        """Return what is added to the training loss as it is, None for nothing."""
        return None

    def reached(self, x: Input, graph: Propagation) -> Tensor | None:
        """Return which nodes the model knows anything about, [n], None for all."""
        del x, graph
        return None

    def decompose(self, x: Input, graph: Propagation) -> Decomposition | None:
        """Return the logits of the one target node as an exact sum, if they are one.

        `x` and `graph` are the whole graph, or the receptive field of the node. Called
        after `eval`.
        """
        del x, graph
        return None

    def embedding_width(self) -> int:
        """Return how many columns the input becomes, as its weights tell."""
        return _layer_widths(self)[0]

    def working_bytes(self, n_nodes: int, n_targets: int) -> int:
        """Return about what a training step holds beside its operators, in bytes.

        If nothing better is known, seven matrices for each layer.

        Parameters
        ----------
        n_nodes
            Nodes that the step sees.
        n_targets
            Those of them that are trained on.
        """
        del n_targets
        return 28 * sum(_layer_widths(self)) * n_nodes

    def entry_bytes(self) -> int:
        """Return the bytes a step holds for an entry of an operator that it weighs."""
        return 0

    def state_problem(self, state: Mapping[str, Tensor]) -> str | None:
        """Return why tensors of a file are not the state of this module, if so.

        Parameters
        ----------
        state
            By name, as `state_dict` has it.
        """
        return tensor_problem(state, self.state_dict())


def tensor_problem(
    found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]
) -> str | None:
    """Return in what tensors differ from those that are wanted, other than in numbers.

    Parameters
    ----------
    found
        Of a file, by name; they must be finite.
    wanted
        With the names, shapes and types that they must have.
    """
    for names, words in (
        (wanted.keys() - found.keys(), "is missing"),
        (found.keys() - wanted.keys(), "is none of its tensors"),
    ):
        if names:
            return f"{min(names)} {words}"
    for name, like in wanted.items():
        tensor = found[name]
        if tensor.shape != like.shape:
            return f"{name} has the shape {[*tensor.shape]}, not {[*like.shape]}"
        if tensor.dtype != like.dtype:
            return f"{name} has the type {_type(tensor)}, not {_type(like)}"
        if not bool(tensor.isfinite().all()):
            return f"{name} has numbers that are not finite"
    return None


def _type(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _layer_widths(module: NodeModule) -> tuple[int, int]:
    """Return how many columns the input becomes, and all later layers' together."""
    columns = module.in_channels
    weights = list(module.parameters())
    meets_input = [bool({columns, 2 * columns} & {*w.shape}) for w in weights]
    pairs = list(zip(weights, meets_input, strict=True))
    first = sum(w.numel() // columns for w, meets in pairs if meets)
    inner = sum(w.numel() for w, meets in pairs if not meets)
    return max(first, 1), inner // max(first, 1)


def soft_cross_entropy(
    logits: Tensor, shares: Tensor, weights: Tensor | None
) -> Tensor:
    """Return the mean cross-entropy of some nodes with shares of classes for a label.

    Parameters
    ----------
    logits, shares
        [m, C] each; the shares of a node sum to one.
    weights
        Of the classes, [C]; None where all count alike.
    """
    if weights is not None:
        shares = shares * weights.to(shares.dtype)
    return -(shares * logits.log_softmax(dim=1)).sum(dim=1).mean()


SIZES = ("in_channels", "out_channels")
"""The arguments of a module that the graph decides."""


@dataclass(frozen=True)
class MatrixMaker(ABC):
    """Makes matrices that are of the whole graph; its fields are options of the model.

    As a dataclass it is told apart by its values: the same options give matrices that
    need not be made twice.

    Attributes
    ----------
    symmetric
        Whether the matrices are.
    weighted
        Whether edge weights, if any, count.
    """

    symmetric: ClassVar[bool] = False
    weighted: ClassVar[bool] = True

    @abstractmethod
    def __call__(self, adj: CSR) -> tuple[CSR, ...]:
        """Return the matrices of a graph, [n, n] each."""

    def entries(self, adj: CSR) -> tuple[int, ...]:
        """Return about how many entries each matrix has, if they are not few."""
        return (int(adj.nnz),)

    def with_options(self, options: Mapping[str, Any]) -> MatrixMaker:
        """Return it with those of some options that are its own."""
        own = {part.name for part in fields(self)}
        return replace(self, **{name: options[name] for name in options if name in own})


@dataclass(frozen=True)
class ModelSpec:
    """A model: two things, the matrices of a graph and a module that uses them.

    Parameters
    ----------
    module
        The module, built with (in_channels, out_channels, **options).
    matrices
        The propagation matrices: a rule for each, where every row can be made without
        the others, or a `MatrixMaker`. Which matrix of a graph they are made of,
        `matrix_of` says.
    fixed
        The arguments that make this model out of its module.
    designs
        Which of the paper's designs D1, D2, D3 it follows.
    summary, paper
        A line for a list of models, and where it is from.
    inputs
        What `forward` takes as `x`: the "features" of the nodes, the "labels" of
        the training nodes (one-hot, zero elsewhere), or the "table" of the rings
        that its option `table` names.
    seeds
        Whether a model that takes a table is given the training labels themselves too
        (`FeatureTable.labels`), and how blocks of labels are counted: it
        spreads them, or counts them anew with labels that it guessed.
    defaults
        Options whose default is another than the module's.
    at_once
        Whether `initialise` is all of its training: there are no epochs.
    training
        Where its learning rate or L2 penalty differ from H2GCN's 0.01 and 5e-4.
    table
        The ring table that it takes, where no option says which.
    """

    module: type[NodeModule]
    matrices: tuple[RowRule, ...] | MatrixMaker
    summary: str
    designs: str = ""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    paper: str = "Zhu et al. 2020"
    inputs: str = "features"
    seeds: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict)
    at_once: bool = False
    training: Mapping[str, float] = field(default_factory=dict)
    table: str = ""

    def given(self, options: Mapping[str, Any] | None) -> ModelSpec:
        """Return the model as it is with some options: they may change its matrices.

        Parameters
        ----------
        options
            Those that are not the model's defaults, by name; None for none.
        """
        if not (options and isinstance(self.matrices, MatrixMaker)):
            return self
        return replace(self, matrices=self.matrices.with_options(options))

    def build_matrices(self, adj: CSR) -> tuple[CSR, ...]:
        """Return the propagation matrices, [n, n] each; `adj` is from `matrix_of`."""
        if isinstance(self.matrices, MatrixMaker):
            return self.matrices(adj)
        return build_matrices(self.matrices, adj)

    @property
    def rules(self) -> tuple[RowRule, ...] | None:
        """The rules of the matrices; None where a maker sees the whole graph."""
        return None if isinstance(self.matrices, MatrixMaker) else self.matrices

    @property
    def symmetric(self) -> bool:
        """Whether all matrices are symmetric."""
        if isinstance(self.matrices, MatrixMaker):
            return self.matrices.symmetric
        return all(rule.symmetric for rule in self.matrices)

    @property
    def directed(self) -> bool:
        """Whether it follows the directions of edges; a table has blocks that may."""
        if not self.rules:
            return self.inputs == "table"
        return any(rule.direction != "ring" for rule in self.rules)

    @property
    def weighted(self) -> bool:
        """Whether edge weights, if any, count."""
        if isinstance(self.matrices, MatrixMaker):
            return self.matrices.weighted
        rules = all(rule.weighted for rule in self.matrices)
        return rules and self.module.edge_weights

    @property
    def rings(self) -> bool:
        """Whether the matrices are rings that may be sampled or made on demand."""
        return bool(self.rules) and self.module.renumbers

    @property
    def sees_rows_alone(self) -> bool:
        """Whether it sees of a graph nothing but the rows of a table, a node each."""
        return self.inputs == "table" and self.rules == () and not self.seeds

    @property
    def spreads(self) -> bool:
        """Whether several processes can train it, each on rows of its own.

        Its module then does nothing across nodes but by products with operators, and
        drops by the names of nodes.
        """
        return self.rings and not self.directed and self.inputs == "features"

    def entries(self, matrix: CSR) -> tuple[int, ...]:
        """Return about how many entries each matrix has, where they are no rings.

        Parameters
        ----------
        matrix
            Of `matrix_of`, [n, n].
        """
        if isinstance(self.matrices, MatrixMaker):
            return self.matrices.entries(matrix)
        return (int(matrix.nnz),) * len(self.matrices)

    def matrix_of(self, graph: Graph) -> CSR:
        """Return the matrix of a graph that `build_matrices` takes, [n, n].

        Its directions where the model follows them and the graph has any, else its
        symmetric adjacency matrix; with what pairs weigh where both have it.
        """
        if self.directed and graph.directed is not None:
            weights, plain = graph.directed_weights, graph.directed
        else:
            weights, plain = graph.weights, graph.adj
        if weights is not None and self.weighted:
            return weights
        # Directions may have been given as numbers: only that they are there counts.
        return exact_rings(plain, hops=1)[0] if is_weighted(plain) else plain

    @property
    def options(self) -> dict[str, Any]:
        """What a user may set, with the defaults."""
        parameters = signature(self.module).parameters
        return {
            name: self.defaults.get(name, parameter.default)
            for name, parameter in parameters.items()
            if name not in SIZES and name not in self.fixed
        }

    def takes_labels(self, schema: TableSchema | None) -> bool:
        """Return whether training labels are part of what it sees.

        Parameters
        ----------
        schema
            Of the table that it takes, None for none.
        """
        if schema is None:
            return self.inputs == "labels"
        return self.seeds or schema.has_labels

    @property
    def trained(self) -> bool:
        """Whether it is trained in epochs; else it is ready once it has the labels."""
        return self.inputs != "labels" and not self.at_once

    @property
    def scaled(self) -> bool:
        """Whether it looks at features, and their scaling matters."""
        return self.inputs != "labels"

    @property
    def learning_rate(self) -> float:
        """The model's own, where none is given."""
        return self.training.get("learning_rate", 0.01)

    @property
    def l2(self) -> float:
        """The model's own weight of the L2 penalty, where none is given."""
        return self.training.get("l2", 5e-4)

    @property
    def settings(self) -> dict[str, Any]:
        """The options, and those of the training where there is any."""
        rates = {"learning_rate": self.learning_rate, "l2": self.l2}
        return self.options | (rates if self.trained else {})


MAX_WIDTH = 65_536
"""Of a hidden layer; more is a slip of the keyboard."""


MAX_STEPS = 10_000
"""Of what is repeated; more is a slip of the keyboard."""


def _identity(r: Tensor) -> Tensor:
    return r


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "elu": partial(functional.elu, inplace=True),
    "none": _identity,
}
"""σ by its name. Each overwrites what it is given: a large graph leaves no room."""


def check_sizes(in_channels: int, out_channels: int, hidden_channels: int) -> None:
    """Raise where the width of a layer is not a sensible number."""
    check_integer("in_channels", in_channels, 1)
    check_integer("out_channels", out_channels, 1)
    check_integer("hidden_channels", hidden_channels, 1, MAX_WIDTH)


def drop(
    x: Tensor | Operator, probability: float, training: bool
) -> Tensor | Operator | WeightedOperator:
    """Return features with a share dropped; of sparse ones, the stored entries.

    To drop a zero changes nothing, so both are the same dropout.
    """
    if not training or probability == 0:
        return x
    if isinstance(x, Tensor):
        return dropout(x, probability)
    return x.dropout(probability)
