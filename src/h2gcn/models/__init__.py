"""The models of the paper, each a module and the operators it wants of a graph."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from h2gcn._validation import nearest
from h2gcn.exceptions import InputError
from h2gcn.models.catalogue import ALIASES, MODELS
from h2gcn.models.gcn import GCN
from h2gcn.models.h2gcn import H2GCN
from h2gcn.models.spec import ModelSpec

__all__ = [
    "ALIASES",
    "GCN",
    "H2GCN",
    "MODELS",
    "ModelSpec",
    "build_model",
    "find_model",
]


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


def build_model(
    name: str, in_channels: int, out_channels: int, options: Mapping[str, Any]
) -> nn.Module:
    """Return a new module of a model, or say which options the model has.

    Parameters
    ----------
    name
        A name of `MODELS`.
    in_channels, out_channels
        Number of input columns and of classes.
    options
        What is not the model's default.
    """
    spec = find_model(name)
    for option in options:
        if option not in spec.options:
            have = ", ".join(sorted(spec.options)) or "none"
            raise InputError(
                f"the model {name} has no option {option!r}."
                f"{nearest(option, spec.options)} Its options: {have}."
            )
    return spec.module(in_channels, out_channels, **options, **spec.fixed)
