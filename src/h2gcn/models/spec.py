"""What a model is: a module, the matrices it multiplies with, and what it reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

from h2gcn._validation import nearest
from h2gcn.exceptions import InputError
from h2gcn.features import TableSchema
from h2gcn.graph import CSR, Graph
from h2gcn.models.options import Option, options_of
from h2gcn.rings import RowRule, build_matrices, exact_rings, is_weighted
from h2gcn.training import NodeModule


@dataclass(frozen=True)
class MatrixMaker(ABC):
    """Makes matrices that need the whole graph; its fields are options of the model.

    Makers with the same options are equal, so that matrices need not be made twice.
    """

    symmetric: ClassVar[bool] = False
    weighted: ClassVar[bool] = True  # edge weights, if any, count

    @abstractmethod
    def __call__(self, adj: CSR) -> tuple[CSR, ...]:
        """Return the matrices of a graph, [n, n] each."""

    def entries(self, adj: CSR) -> tuple[int, ...]:
        """Return about how many entries each matrix with many has."""
        return (int(adj.nnz),)


@dataclass(frozen=True)
class ModelSpec:
    """A model: a module and the propagation matrices that it multiplies with.

    Parameters
    ----------
    module
        Built with (in_channels, out_channels, **options).
    summary, paper
        For a list of models.
    designs
        The paper's designs D1, D2, D3 that it follows.
    matrices
        A rule for each matrix, where every row can be made without the others, or a
        `MatrixMaker`.
    labels
        A model on a table also reads the training labels themselves
        (`FeatureTable.labels`): it spreads them, or counts them anew.
    fixed
        The arguments that make this model out of its module.
    defaults
        Options whose default differs from the module's.
    learning_rate, l2
        Defaults of the optimizer's rate and of the weight of the L2 penalty.
    """

    module: type[NodeModule]
    summary: str
    designs: str = ""
    paper: str = "Zhu et al. 2020"
    matrices: tuple[RowRule, ...] | MatrixMaker = ()
    labels: bool = False
    fixed: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    learning_rate: float = 0.01  # H2GCN's
    l2: float = 5e-4

    @property
    def inputs(self) -> str:
        """What the module takes as `x`, see `NodeModule`."""
        return self.module.inputs

    @property
    def epochs(self) -> bool:
        """Whether the module is trained in epochs."""
        return self.module.epochs

    # ------------------------------------------------------------------------- options

    @property
    def described_options(self) -> dict[str, Option]:
        """What a user may set, by name."""
        described = dict(options_of(self.module))
        if isinstance(self.matrices, MatrixMaker):
            described |= options_of(type(self.matrices))
        return {
            name: replace(option, default=self.defaults.get(name, option.default))
            for name, option in described.items()
            if name not in self.fixed
        }

    @property
    def options(self) -> dict[str, Any]:
        """The defaults of what a user may set, by name."""
        described = self.described_options
        return {name: option.default for name, option in described.items()}

    @property
    def params(self) -> dict[str, Any]:
        """The defaults of the options, and of the training where there is any."""
        rates = {"learning_rate": self.learning_rate, "l2": self.l2}
        return self.options | (rates if self.epochs else {})

    def check_options(self, options: Mapping[str, Any], name: str) -> dict[str, Any]:
        """Return options in their types, or raise; `name` is the model's."""
        described, checked = self.described_options, {}
        for option, value in options.items():
            if option not in described:
                known = ", ".join(sorted(described)) or "none"
                raise InputError(
                    f"the model {name} has no option {option[:100]!r}."
                    f"{nearest(option, described)} Its options: {known}."
                )
            checked[option] = described[option].check(option, value)
        return checked

    def build(
        self,
        in_channels: int | Sequence[int],
        out_channels: int,
        options: Mapping[str, Any],
    ) -> NodeModule:
        """Return a new module; `in_channels` are of each block of a table."""
        own = options_of(self.module).keys()
        given = {k: v for k, v in {**self.defaults, **options}.items() if k in own}
        return self.module(in_channels, out_channels, **given, **self.fixed)  # type: ignore[arg-type]

    # ------------------------------------------------------------------------ matrices

    def with_options(self, options: Mapping[str, Any] | None) -> ModelSpec:
        """Return the model with some options applied that change its matrices."""
        if not (options and isinstance(self.matrices, MatrixMaker)):
            return self
        own = {part.name for part in fields(self.matrices)}
        given = {name: options[name] for name in options if name in own}
        return replace(self, matrices=replace(self.matrices, **given))

    @property
    def rules(self) -> tuple[RowRule, ...] | None:
        """The rules of the matrices; None where a maker needs the whole graph."""
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
        """Whether edge weights, if any, count; labels are counted without them."""
        if isinstance(self.matrices, MatrixMaker):
            return self.matrices.weighted
        if self.labels and not self.matrices:
            return False
        return all(rule.weighted for rule in self.matrices)

    def matrix_of(self, graph: Graph) -> CSR:
        """Return the matrix of a graph that `build_matrices` takes, [n, n].

        It has the directions where the model follows them and the graph has any, and
        the edge weights where both have them.
        """
        if self.directed and graph.directed is not None:
            weights, plain = graph.directed_weights, graph.directed
        else:
            weights, plain = graph.weights, graph.adj
        if weights is not None and self.weighted:
            return weights
        # Directions may have been given as numbers: only that they are there counts.
        return exact_rings(plain, hops=1)[0] if is_weighted(plain) else plain

    def build_matrices(self, adj: CSR) -> tuple[CSR, ...]:
        """Return the propagation matrices, [n, n] each; `adj` is from `matrix_of`."""
        if isinstance(self.matrices, MatrixMaker):
            return self.matrices(adj)
        return build_matrices(self.matrices, adj)

    def entries(self, matrix: CSR) -> tuple[int, ...]:
        """Return about how many entries each matrix has, where they are not rings."""
        if isinstance(self.matrices, MatrixMaker):
            return self.matrices.entries(matrix)
        return (int(matrix.nnz),) * len(self.matrices)

    # -------------------------------------------------------------------------- inputs

    def takes_labels(self, schema: TableSchema | None) -> bool:
        """Return whether it reads training labels; `schema` is that of its table."""
        if schema is None:
            return self.inputs == "labels"
        return self.labels or schema.has_labels

    @property
    def is_tabular(self) -> bool:
        """Whether it sees nothing of a graph but rows of a table."""
        return self.inputs == "table" and not self.labels and self.rules == ()

    def table(self, options: Mapping[str, Any]) -> str:
        """Return the blocks of its table with some options."""
        return str({**self.options, **options, **self.fixed}["table"])
