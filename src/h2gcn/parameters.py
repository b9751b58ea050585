"""What the parameters of a `NodeClassifier` mean for its model and its training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from h2gcn.exceptions import InputError
from h2gcn.models import build_model, find_model
from h2gcn.training import TrainConfig

__all__ = ["build_module", "resolve", "train_config"]

NAMED = ("dropout", "activation", "hidden_channels")
"""Options of models that have a parameter of their own."""

Params = Mapping[str, Any]
"""The parameters of a `NodeClassifier` by name."""


def resolve(params: Params) -> dict[str, Any]:
    """Return parameters with the model's own in place of None."""
    named, options = _lift(params)
    resolved = {**params, **named}
    own = find_model(params["model"]).settings
    resolved |= {
        name: own[name] for name in own.keys() & resolved if resolved[name] is None
    }
    more = {name: own[name] for name in own if name not in resolved}
    return resolved | {"options": more | options}


def train_config(params: Params) -> TrainConfig:
    """Return how to train, the model's own rates in place of None."""
    spec = find_model(params["model"])
    rate, l2 = params["learning_rate"], params["l2"]
    return TrainConfig(
        params["epochs"],
        params["patience"],
        spec.learning_rate if rate is None else rate,
        spec.l2 if l2 is None else l2,
        params["metric"],
        params["optimizer"],
        params["stopping"],
        params["batch_size"],
    )


def build_module(params: Params, n_features: int, n_classes: int) -> nn.Module:
    """Return a new module of the model with the options that were given."""
    spec = find_model(params["model"])
    named, options = _lift(params)
    if not spec.trained:  # it has neither, and says so
        named |= {name: params[name] for name in ("learning_rate", "l2")}
    given = {name: value for name, value in named.items() if value is not None}
    width = n_features if spec.trained else n_classes
    return build_model(params["model"], width, n_classes, given | options)


def _lift(params: Params) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options with a parameter of their own, and the others."""
    options = dict(params["options"] or {})
    named = {name: params[name] for name in NAMED}
    for name in NAMED:
        if name not in options:
            continue
        if named[name] is not None:
            raise InputError(
                f"The '{name}' parameter of NodeClassifier is given twice: "
                f"{named[name]!r}, and {options[name]!r} in 'options'."
            )
        named[name] = options.pop(name)
    return named, options
