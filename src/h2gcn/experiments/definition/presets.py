"""The setting of each model on each benchmark, and those of one's own data.

`presets.json` holds them. Those of the real benchmarks were found on validation nodes
alone, by `benchmarks/find_presets.py`; those of the synthetic ones are the paper's, one
for all values of h.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from h2gcn.datasets import DATASETS
from h2gcn.experiments.definition.grids import OWN_PATIENCE, find_grid
from h2gcn.models import ALIASES

__all__ = ["OWN_DATA", "find_preset"]

OWN_DATA: dict[str, Any] = {"patience": OWN_PATIENCE}
"""A graph that nobody has tuned for: stop when validation no longer rises."""


def find_preset(name: str, model: str) -> dict[str, Any]:
    """Return the arguments of `NodeClassifier` for a graph's name and a model.

    A benchmark without a setting for the model gets the first one of its grid, with
    patience where the grid has none.
    """
    model = ALIASES.get(model, model)
    synthetic = (f for f in ("syn-cora", "syn-products") if name.startswith(f))
    family, known = next(synthetic, name), _presets()
    if family not in DATASETS and family not in known:
        return dict(OWN_DATA)
    grid = find_grid(name, model)
    common = {k: v for k, v in grid[0].items() if k in ("scaling", "metric")}
    own = known.get(family, {})
    if model not in own and model.startswith("h2gcn") and family.startswith("syn-"):
        # The paper runs the variants of the ablations as it runs H2GCN.
        model = "h2gcn-1"
    return common | own.get(model, OWN_DATA | grid[0])


@cache
def _presets() -> dict[str, dict[str, dict[str, Any]]]:
    text = (
        files("h2gcn.experiments.definition")
        .joinpath("presets.json")
        .read_text("utf-8")
    )
    presets: dict[str, dict[str, dict[str, Any]]] = json.loads(text)
    return presets
