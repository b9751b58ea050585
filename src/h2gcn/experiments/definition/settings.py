"""A setting in its two forms: as arguments, and as one flat row of values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from h2gcn.estimator import NodeClassifier

__all__ = ["Setting", "flatten", "nest"]

Setting = Mapping[str, Any]
"""Arguments of a `NodeClassifier`."""


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
