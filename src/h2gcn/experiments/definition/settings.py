"""A setting in its two forms: as arguments, and as one flat row of values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from h2gcn.estimator import NodeClassifier

__all__ = ["TO_THE_END", "Setting", "classifier_of", "flatten", "nest"]

Setting = Mapping[str, Any]
"""Arguments of a `NodeClassifier`, but without `patience` there is none."""
TO_THE_END: Setting = {"patience": None}
"""What a setting has that names no patience: most of the paper's runs never stop."""


def classifier_of(model: str, setting: Setting, **more: Any) -> NodeClassifier:
    """Return a new classifier with a setting, trained to the end unless it says so.

    Parameters
    ----------
    model
        A name of `h2gcn.models.MODELS`.
    setting
        As the grids, the presets and the stored runs have it.
    more
        Further arguments of `NodeClassifier`, where the setting has none of the name.
    """
    return NodeClassifier(model, **{**TO_THE_END, **more, **setting})


def flatten(setting: Setting) -> dict[str, Any]:
    """Return a setting with the model's options beside the arguments."""
    flat = {name: value for name, value in setting.items() if name != "options"}
    return flat | dict(setting.get("options") or {})


def nest(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as arguments of `NodeClassifier`, the others as options."""
    arguments = _arguments()
    setting = {name: values[name] for name in values if name in arguments}
    options = {name: values[name] for name in values if name not in arguments}
    return setting | ({"options": options} if options else {})


@cache
def _arguments() -> frozenset[str]:
    # scikit-learn reads the signature each time, and a grid asks a hundred times.
    return frozenset(NodeClassifier().get_params())
