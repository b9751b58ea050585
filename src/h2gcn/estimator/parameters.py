"""What the parameters of a `NodeClassifier` mean for its model and its training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from h2gcn._validation import (
    check_integer,
    check_names,
    check_path,
    check_real,
    quoted,
)
from h2gcn.exceptions import InputError
from h2gcn.models import ModelSpec, NodeModule, build_model, find_model
from h2gcn.training import TrainConfig

__all__ = [
    "Params",
    "blank_module",
    "build_module",
    "check_batches",
    "check_rings",
    "resolve_params",
    "spec_of",
    "train_config",
]

MAX_CAP = 2**31 - 1
NAMED = ("dropout", "activation", "hidden_channels")
"""Options of models that have a parameter of their own."""

Params = Mapping[str, Any]
"""The parameters of a `NodeClassifier` by name."""


def spec_of(params: Params) -> ModelSpec:
    """Return the model that is meant, as it is with the options that were given."""
    return find_model(params["model"]).given(_options(params))


def _options(params: Params) -> Mapping[str, Any]:
    """Return the options that were given, {} for None, or raise."""
    if params["options"] is None:
        return {}
    check_names("NodeClassifier", "options", params["options"])
    given: Mapping[str, Any] = params["options"]
    return given


def resolve_params(params: Params) -> dict[str, Any]:
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
    if params["class_weight"] is not None and not spec.trained:
        raise InputError(
            "The 'class_weight' parameter of NodeClassifier does not go with model "
            f"{params['model']!r}: it has no epochs."
        )
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
        params["class_weight"],
        owner="NodeClassifier",
    )


def check_rings(params: Params) -> None:
    """Raise where a parameter about rings is out of range, or has no ring to act on."""
    owner, name = "NodeClassifier", params["model"]
    cap, store, limit = (
        params[key] for key in ("ring_cap", "ring_store", "memory_limit")
    )
    if cap is not None:
        check_integer(owner, "ring_cap", cap, 1, MAX_CAP)
    if store is not None and not _may_be_folder(store):
        raise InputError(
            f"The 'ring_store' parameter of {owner} must be a folder. Got "
            f"{quoted(store)} instead."
        )
    if limit is not None:
        check_real(owner, "memory_limit", limit, "(0, inf)")
    if cap is not None and store is not None:
        raise InputError(
            f"The 'ring_cap' and 'ring_store' parameters of {owner}: one or the other; "
            "a capped ring is small, and stays in memory."
        )
    spec = spec_of(params)
    wide = spec.rings and max(spec.fixed["hops"]) > 1
    for key in ("ring_cap", "ring_store"):
        if params[key] is not None and spec.rings and spec.directed:
            raise InputError(
                f"The '{key}' parameter of {owner} does not go with the option "
                "'directed': rings along directions are exact, and stay in memory."
            )
        if params[key] is not None and not wide:
            raise InputError(
                f"The '{key}' parameter of {owner} is for models with a 2-hop ring, "
                f"such as h2gcn-1. {name!r} has none."
            )


def _may_be_folder(path: object) -> bool:
    """Return whether a path is one of a folder, or of nothing yet."""
    if not isinstance(path, str | Path) or not str(path):
        return False
    return not check_path("NodeClassifier", "ring_store", path).is_file()


def check_batches(params: Params, module: NodeModule) -> None:
    """Raise where batches are asked for, and a module cannot be given any."""
    name = params["model"]
    possible = module.reach is not None and find_model(name).trained
    if params["batch_size"] is None or possible:
        return
    why = "each of its logits depends on all nodes of the graph"
    if not find_model(name).trained:
        why = "it has no epochs"
    raise InputError(
        f"The 'batch_size' parameter of NodeClassifier does not go with model {name!r}:"
        f" {why}."
    )


def blank_module(
    params: Params, width: int | Sequence[int], n_classes: int
) -> NodeModule:
    """Return a module of the right shapes that holds no numbers, and draws none."""
    with torch.device("meta"):
        return build_module(params, width, n_classes)


def build_module(
    params: Params, width: int | Sequence[int], n_classes: int
) -> NodeModule:
    """Return a new module of the model with the options that were given.

    Parameters
    ----------
    params
        Of a `NodeClassifier`, by name.
    width
        Columns of its input, of each block where that is a table.
    n_classes
        Number of classes.
    """
    spec = find_model(params["model"])
    named, options = _lift(params)
    if not spec.trained:  # it has neither, and says so
        named |= {name: params[name] for name in ("learning_rate", "l2")}
    given = {name: value for name, value in named.items() if value is not None}
    return build_model(params["model"], width, n_classes, given | options)


def _lift(params: Params) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options with a parameter of their own, and the others."""
    options = dict(_options(params))
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
