"""What a model is: its operators, its module, and what a user may set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

from torch import nn

from h2gcn.graph import CSR

__all__ = ["ModelSpec"]

SIZES = ("in_channels", "out_channels")
"""The arguments of a module that the graph decides."""


@dataclass(frozen=True)
class ModelSpec:
    """A model: two things, the operators of a graph and a module that uses them.

    Parameters
    ----------
    module
        The `nn.Module`, built with (in_channels, out_channels, **options).
    operators
        A pure function from an adjacency matrix to sparse matrices.
    fixed
        The arguments that make this model out of its module.
    designs
        Which of the paper's designs D1, D2, D3 it follows.
    summary, paper
        A line for `h2gcn models`.
    symmetric
        Whether the operators are symmetric matrices.
    inputs
        What `forward` takes as `x`: the "features" of the nodes, or the "labels" of
        the training nodes (one-hot, zero elsewhere).
    training
        Where its learning rate or L2 penalty differ from H2GCN's 0.01 and 5e-4.
    local
        Whether a node's logits depend on nothing outside its component.
    rings
        Whether the operators are the normalised rings `fixed["hops"]`.
    """

    module: type[nn.Module]
    operators: Callable[[CSR], tuple[CSR, ...]]
    summary: str
    designs: str = ""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    paper: str = "Zhu et al. 2020"
    symmetric: bool = True
    inputs: str = "features"
    training: Mapping[str, float] = field(default_factory=dict)
    local: bool = True
    rings: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """What a user may set, with the defaults."""
        parameters = signature(self.module).parameters
        return {
            name: parameter.default
            for name, parameter in parameters.items()
            if name not in SIZES and name not in self.fixed
        }

    @property
    def trained(self) -> bool:
        """Whether it learns from features; else it spreads the labels it is given."""
        return self.inputs == "features"

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
