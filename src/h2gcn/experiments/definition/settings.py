"""Settings of models: what the paper tried on each benchmark, and what was best.

The grids are those of the paper's App. F. Every model is trained with the optimiser
and the stopping rule of the program that the paper ran. TensorFlow's L2 loss has a
factor ½ that our penalty w·‖W‖² has not, so its weight 5e-4 is 2.5e-4 here. Where the
paper gives no grid (its table copies Geom-GCN's figures; SGC, label propagation, LinBP,
CPGNN and all that came later are not in it), the values are those of the model's own
paper or program, or a few that span its useful range.

`presets.json` holds one setting for each model and benchmark. Those of the real
benchmarks were found on validation nodes alone, by `paper/find_presets.py`; those of
the synthetic ones are the paper's, one for all values of h.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from h2gcn.datasets import DATASETS
from h2gcn.estimator import NodeClassifier
from h2gcn.models import ALIASES, find_model

__all__ = [
    *("TO_THE_END", "Setting", "classifier_of", "find_grid", "find_preset", "flatten"),
    "nest",
]

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


# ------------------------------------------------------------------------------- grids

Axes = Mapping[str, Sequence[Any]]
"""The values of each argument of `NodeClassifier`, or option of the model."""

OWN_PATIENCE = 100
"""Epochs without a better score before a run ends on a graph nobody has tuned for."""

_BOTH = {"activation": ("relu", "none"), "dropout": (0.0, 0.5)}
_GCN_STOPS = {"stopping": ("loss-mean",), "patience": (40, 100, 200)}
_GAT = {
    "hidden_channels": (8,),
    "heads": (8,),
    "learning_rate": (0.005,),
    "l2": (2.5e-4,),
    "stopping": ("loss-or-score",),
    "patience": (100,),
    "epochs": (1500,),
}
_SAGE = {
    "hidden_channels": (64,),
    "optimizer": ("sgd",),
    "learning_rate": (0.1, 0.7),
    "l2": (0.0,),
    "epochs": (500,),
    "scaling": ("none",),
}
_MIXHOP = {
    "hidden_channels": (64, 192),
    "optimizer": ("sgd",),
    "learning_rate": (0.5,),
    "l2": (5e-4,),
    "patience": (50,),
    "epochs": (400,),
}
_GEOM_GCN = {
    "hidden_channels": (16,),
    "learning_rate": (0.05,),
    "l2": (2.5e-6,),
    "stopping": ("loss-or-score",),
    "patience": (100,),
    "epochs": (5000,),
}
_SMALL = {"hidden_channels": (32,), "l2": (2.5e-5,)}
_GEOM_GCN_BY_NAME: dict[str, Axes] = {
    "texas": _SMALL,
    "wisconsin": _SMALL,
    "cornell": _SMALL,
    "cornell-2020": _SMALL,
    "actor": {"hidden_channels": (32,)},
    "chameleon": {"hidden_channels": (48,)},
    "squirrel": {"hidden_channels": (48,)},
    "pubmed": {"hidden_channels": (64,)},
}
_CHEBY = {"hidden_channels": (64,), "max_degree": (2,), **_GCN_STOPS}
_GRAPH_ONLY: dict[str, list[Axes]] = {
    "label-propagation": [{"alpha": (0.1, 0.5, 0.9, 0.99)}],
    "label-propagation-2hop": [{"alpha": (0.1, 0.5, 0.9, 0.99)}],
    "linbp": [{"scale": (0.1, 0.5, 0.9)}],
}
_ON_TABLES: dict[str, list[Axes]] = {
    "ring-table": [{"dropout": (0.5, 0.7), "l2": (1e-5, 5e-4)}],
    "sign": [{"hidden_channels": (64, 256), "dropout": (0.2, 0.5), "l2": (0.0, 1e-5)}],
    "fsgnn": [
        {
            "learning_rate": (0.005, 0.01),
            "dropout": (0.5, 0.7),
            "l2": (0.0, 5e-5, 5e-4),
        }
    ],
    "faf": [{"hidden_channels": (64, 256), "dropout": (0.2, 0.5)}],
    "c-ignn": [{"input_dropout": (0.0, 0.5), "dropout": (0.2, 0.5)}],
    "linkx": [{"hidden_channels": (16, 64, 256), "l2": (5e-4,), "dropout": (0.5,)}],
    "logistic": [{"strength": (0.0, 0.1, 1.0, 10.0)}],  # 0 chooses one by folds
    "boosted-trees": [{"leaves": (7, 15, 31), "shrinkage": (0.05, 0.1)}],
}

_RESIDUAL = {
    "hidden_channels": (64,),
    "layers": (2, 4, 8),
    "dropout": (0.2, 0.5),
    "learning_rate": (0.01,),
    "l2": (0.0, 2.5e-4),
    "patience": (200,),
}
_DIR_GNN = {
    "hidden_channels": (64,),
    "layers": (3, 5),
    "alpha": (0.0, 0.5, 1.0),
    "jumping": ("max", "cat"),
    "normalise": (True,),
    "learning_rate": (0.005,),
    "l2": (0.0,),
    "patience": (400,),
}
_GPR_GNN = {
    "learning_rate": (0.002, 0.01, 0.05),
    "alpha": (0.1, 0.5, 0.9),
    "l2": (2.5e-4,),
    "patience": (200,),
    "epochs": (1000,),
}
_ACM_GCN = {
    "learning_rate": (0.01, 0.05),
    "dropout": (0.0, 0.5),
    "l2": (2.5e-5, 2.5e-4, 2.5e-3),
    "patience": (200,),
}

_REAL: dict[str, list[Axes]] = {
    "h2gcn": [{**_BOTH, "l2": (1e-5, 5e-4)}],
    "mlp": [{**_BOTH, "l2": (5e-4,)}],
    "gcn": [{"hidden_channels": (64,), **_GCN_STOPS, "l2": (2.5e-4,)}],
    "gcn-cheby": [{**_CHEBY, "l2": (5e-6, 2.5e-4)}],
    "graphsage": [_SAGE],
    "mixhop": [_MIXHOP],
    "gat": [_GAT],
    "geom-gcn": [_GEOM_GCN],
    "sgc": [{"learning_rate": (0.2,), "epochs": (100,), "l2": (0.0, 1e-6, 1e-5, 1e-4)}],
    "cpgnn": [{"dropout": (0.0, 0.5), "rounds": (1, 2), "l2": (5e-4,)}],
    "residual-gcn": [_RESIDUAL],
    "dir-gnn": [_DIR_GNN],
    "gpr-gnn": [_GPR_GNN],
    "acm-gcn": [_ACM_GCN],
    **_GRAPH_ONLY,
    **_ON_TABLES,
}
_CORA_FULL: dict[str, list[Axes]] = _REAL | {
    "h2gcn": [{**_BOTH, "l2": (1e-6, 1e-5)}],
    "mlp": [{**_BOTH, "l2": (1e-5,), "learning_rate": (0.05,)}],
    "gcn": [
        {"hidden_channels": (64,), **_GCN_STOPS, "l2": (5e-7, 5e-6, 2.5e-5)},
    ],
    "gcn-cheby": [{**_CHEBY, "l2": (5e-7, 5e-6, 2.5e-5)}],
    "graphsage": [{**_SAGE, "learning_rate": (0.7,), "epochs": (2000,)}],
    "mixhop": [{**_MIXHOP, "l2": (5e-5, 5e-4)}],
    "gat": [{**_GAT, "l2": (5e-6, 2.5e-5, 2.5e-4)}],
}
_SYN_CORA: dict[str, list[Axes]] = _REAL | {
    "h2gcn": [{"activation": ("relu",), "dropout": (0.0, 0.5), "l2": (5e-4,)}],
    "mlp": [{"activation": ("relu",), "dropout": (0.5,), "l2": (5e-4,)}],
    "gcn": [{"hidden_channels": (16, 32, 64), **_GCN_STOPS, "l2": (2.5e-4,)}],
    "gcn-cheby": [
        {
            "hidden_channels": (16, 32, 64),
            "dropout": (0.6,),
            "l2": (5e-6, 2.5e-4),
            "max_degree": (2,),
            "stopping": ("loss-mean",),
            "patience": (40,),
        },
        {
            "hidden_channels": (16, 32, 64),
            "dropout": (0.5,),
            "l2": (2.5e-4,),
            "max_degree": (3,),
            "stopping": ("loss-mean",),
            "patience": (40,),
        },
    ],
    "graphsage": [{**_SAGE, "hidden_channels": (64, 128)}],
    "gat": [{**_GAT, "hidden_channels": (8, 16, 32, 64), "heads": (1, 4, 8)}],
}
_SYN_PRODUCTS: dict[str, list[Axes]] = _SYN_CORA | {
    "gcn": _REAL["gcn"],
    "gcn-cheby": [{**_CHEBY, "patience": (40,), "l2": (2.5e-4,)}],
    "gat": [_GAT],
}
_OWN: dict[str, list[Axes]] = _REAL | {
    # Features of any scale, and plain gradient steps of 0.7, do not go together.
    "graphsage": [{"l2": (0.0, 1e-5), "dropout": (0.0, 0.5)}],
}
_SAME_AS = {
    "gcn-jk": "gcn",
    "gcn-cheby-jk": "gcn-cheby",
    "graphsage-jk": "graphsage",
    "residual-sage": "residual-gcn",
}
"""Jumping knowledge, or another mean, was put in without changing anything else."""


def find_grid(
    name: str, model: str, scalings: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return the settings to try, each the arguments of a `NodeClassifier`.

    Parameters
    ----------
    name
        A benchmark's name; any other is one's own graph, which gets the grid of the
        real benchmarks, with patience where the paper trains to the end.
    model
        A name of `h2gcn.models.MODELS`; one that no grid names is tried as it is.
    scalings
        On one's own graph, all is tried with each of these too, after "auto"; the
        benchmarks come as the paper scaled them.
    """
    spec = find_model(model)  # a misspelt name must not pass for a new model
    grids, common = _family(name)
    key = ALIASES.get(model, model)
    key = _SAME_AS.get(key, key)
    key = "h2gcn" if key.startswith("h2gcn") else key
    own = _GEOM_GCN_BY_NAME.get(name, {}) if key == "geom-gcn" else {}
    settings = [
        nest(common | dict(zip(axes, values, strict=True)))
        for axes in ({**axes, **own} for axes in grids.get(key, [{}]))
        for values in itertools.product(*axes.values())
    ]
    if grids is not _OWN or not spec.scaled:
        return settings
    more = [setting | {"scaling": name} for name in scalings for setting in settings]
    return settings + more


def _family(name: str) -> tuple[dict[str, list[Axes]], dict[str, Any]]:
    """Return the grids of a benchmark, and what all of its settings have."""
    if name in DATASETS:
        info = DATASETS[name]
        grids = _CORA_FULL if name == "cora-full" else _REAL
        return grids, {"scaling": info.scaling, "metric": info.metric}
    if name.startswith("syn-cora"):
        return _SYN_CORA, {"scaling": "rows"}
    if name.startswith("syn-products"):
        return _SYN_PRODUCTS, {"scaling": "none"}
    return _OWN, {"patience": OWN_PATIENCE}


# ----------------------------------------------------------------------------- presets


def find_preset(name: str, model: str) -> dict[str, Any]:
    """Return the arguments of `NodeClassifier` for a benchmark and a model.

    A benchmark without a setting for the model gets the first one of its grid, with
    patience where the grid has none.
    """
    model = ALIASES.get(model, model)
    synthetic = (f for f in ("syn-cora", "syn-products") if name.startswith(f))
    family = next(synthetic, name)
    grid = find_grid(name, model)
    common = {k: v for k, v in grid[0].items() if k in ("scaling", "metric")}
    own = _presets().get(family, {})
    if model not in own and model.startswith("h2gcn") and family.startswith("syn-"):
        # The paper runs the variants of the ablations as it runs H2GCN.
        model = "h2gcn-1"
    return common | own.get(model, {"patience": OWN_PATIENCE} | grid[0])


@cache
def _presets() -> dict[str, dict[str, dict[str, Any]]]:
    text = (
        files("h2gcn.experiments.definition")
        .joinpath("presets.json")
        .read_text("utf-8")
    )
    presets: dict[str, dict[str, dict[str, Any]]] = json.loads(text)
    return presets
