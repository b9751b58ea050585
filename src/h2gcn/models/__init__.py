"""The models by name: what each is built from, and which operators it wants."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import nn

from h2gcn._validation import nearest
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR
from h2gcn.models.gcn import GCN, renormalised_adjacency
from h2gcn.models.h2gcn import H2GCN, ring_operators

__all__ = ["GCN", "H2GCN", "MODELS", "ModelSpec", "find_model"]


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
    """

    module: type[nn.Module]
    operators: Callable[[CSR], tuple[CSR, ...]]
    summary: str
    designs: str = ""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    paper: str = "Zhu et al. 2020"
    symmetric: bool = True


def _h2gcn(
    summary: str,
    designs: str,
    *,
    hops: tuple[int, ...] = (1, 2),
    rounds: int = 1,
    final: tuple[int, ...] = (0, 1),
    self_loops: bool = False,
    nonlinear: bool = False,
) -> ModelSpec:
    fixed = {
        "hops": hops,
        "rounds": rounds,
        "final": final,
        "self_loops": self_loops,
        "nonlinear": nonlinear,
    }
    operators = partial(ring_operators, hops=hops, self_loops=self_loops)
    return ModelSpec(H2GCN, operators, summary, designs, fixed)


MODELS: dict[str, ModelSpec] = {
    "h2gcn-1": _h2gcn("one round; also S0 and K2 of the ablations", "D1 D2 D3"),
    "h2gcn-2": _h2gcn("two rounds", "D1 D2 D3", rounds=2, final=(0, 1, 2)),
    "mlp": _h2gcn("no graph: H2GCN with no round", "", hops=(), rounds=0, final=(0,)),
    "gcn": ModelSpec(
        GCN,
        renormalised_adjacency,
        "two layers, each node mixed with its neighbours",
        paper="Kipf and Welling 2017",
    ),
    "h2gcn-s1": _h2gcn("h2gcn-1 without the 2-hop ring; also N2", "D1 D3", hops=(1,)),
    "h2gcn-ns0": _h2gcn(
        "rings with the node itself, no separate ego", "D2", final=(1,), self_loops=True
    ),
    "h2gcn-ns1": _h2gcn(
        "1-hop ring with the node itself, no separate ego",
        "",
        hops=(1,),
        final=(1,),
        self_loops=True,
    ),
    "h2gcn-n0": _h2gcn("h2gcn-1 without the ego", "D2", final=(1,)),
    "h2gcn-n1": _h2gcn("h2gcn-1 without the 1-hop ring", "D1 D2 D3", hops=(2,)),
    "h2gcn-k0": _h2gcn("h2gcn-2 without round 0", "D2 D3", rounds=2, final=(1, 2)),
    "h2gcn-k1": _h2gcn("h2gcn-2 without round 1", "D1 D2 D3", rounds=2, final=(0, 2)),
    "h2gcn-r2": _h2gcn("h2gcn-2 with round 2 alone", "D2", rounds=2, final=(2,)),
    "h2gcn-nonlinear": _h2gcn(
        "h2gcn-2, every round embedded anew",
        "D1 D2 D3",
        rounds=2,
        final=(0, 1, 2),
        nonlinear=True,
    ),
}
"""Every model that `--model` takes."""

ALIASES = {
    "h2gcn-s0": "h2gcn-1",
    "h2gcn-k2": "h2gcn-1",
    "h2gcn-n2": "h2gcn-s1",
}
"""The paper's other names for the same models."""


def find_model(name: str) -> ModelSpec:
    """Return a model by name (or by the paper's other name for it)."""
    key = ALIASES.get(name, name)
    if key not in MODELS:
        known = [*MODELS, *ALIASES]
        raise InputError(
            f"there is no model {name!r}.{nearest(str(name), known)} "
            f"Models: {', '.join(MODELS)}."
        )
    return MODELS[key]
