"""What is run: experiments, protocols, grids, presets, the paper's own figures.

The grids are those of the paper's App. F. Every model is trained with the optimiser
and the stopping rule of the program that the paper ran. TensorFlow's L2 loss has a
factor ½ that our penalty w·‖W‖² has not, so its weight 5e-4 is 2.5e-4 here. Where the
paper gives no grid (its table copies Geom-GCN's figures; SGC, label propagation, LinBP,
CPGNN and all that came later are not in it), the values are those of the model's own
paper or program, or a few that span its useful range.

`presets.json` holds one setting for each model and benchmark. Those of the real
benchmarks were found on validation nodes alone, by `paper/find_presets.py`; those of
the synthetic ones are the paper's, one for all values of h. `paper.json` holds the
paper's tables.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from h2gcn._validation import check_choice, nearest
from h2gcn.datasets import DATASETS
from h2gcn.estimator import NodeClassifier
from h2gcn.exceptions import InputError
from h2gcn.models import ALIASES, find_model

__all__ = [
    "EXPERIMENTS",
    "PROTOCOLS",
    "REAL",
    "REAL_MODELS",
    "SYNTHETIC_MODELS",
    "TO_THE_END",
    "Experiment",
    "Protocol",
    "Published",
    "Setting",
    "Unit",
    "classifier_of",
    "find_benchmarks",
    "find_experiments",
    "find_grid",
    "find_preset",
    "find_protocol",
    "flatten",
    "nest",
    "published",
    "published_rows",
]

WEB_PAGES = ("texas", "wisconsin", "cornell", "cornell-2020")
"""Graphs so small that training to the end costs nothing."""


@dataclass(frozen=True)
class Protocol:
    """How thoroughly an experiment is run.

    Parameters
    ----------
    name, summary
        What tables call it, and what it means.
    judged
        On how many splits of a real benchmark the grid is judged; None on all, 0
        not at all: the presets are taken.
    judged_on
        Exceptions by benchmark.
    splits
        How many splits of a real benchmark are reported; None all of them.
    graphs
        How many synthetic graphs for each value of h.
    synthetic_grid
        Whether the synthetic benchmarks' grids are run too; else the paper's choice
        for them is taken.
    patience
        Of settings that the paper trains to the end; None for as it did.
    epochs
        At most so many.
    homophily
        Values of h; None all of the paper's.
    datasets
        Real benchmarks; None all of the paper's.
    synthetic_nodes
        Size of the syn-products graphs; None the paper's 10,000.
    """

    name: str
    summary: str
    judged: int | None
    judged_on: Mapping[str, int] = field(default_factory=dict)
    splits: int | None = None
    graphs: int = 3
    synthetic_grid: bool = False
    patience: int | None = None
    epochs: int | None = None
    homophily: tuple[str, ...] | None = None
    datasets: tuple[str, ...] | None = None
    synthetic_nodes: int | None = None

    def settings(self, dataset: str, model: str) -> list[dict[str, Any]]:
        """Return the settings to choose from; one where there is no choice."""
        synthetic = dataset.startswith("syn-")
        choose = self.synthetic_grid if synthetic else self.judged != 0
        grid = find_grid(dataset, model) if choose else [find_preset(dataset, model)]
        return [self._adapted(dataset, setting) for setting in grid]

    def _adapted(self, dataset: str, setting: dict[str, Any]) -> dict[str, Any]:
        adapted = dict(setting)
        if self.epochs is not None:
            adapted["epochs"] = min(self.epochs, setting.get("epochs", self.epochs))
        if (
            self.patience is not None
            and setting.get("patience") is None
            and setting.get("optimizer") != "sgd"
            and dataset not in WEB_PAGES
        ):
            adapted["patience"] = self.patience
        return adapted


PROTOCOLS = {
    "paper": Protocol(
        "paper",
        "as the paper: 2,000 epochs, the whole grid on every split",
        judged=None,
        synthetic_grid=True,
    ),
    "standard": Protocol(
        "standard",
        "patience 100 where the paper has none (the web-page graphs are trained to the "
        "end), the grid judged on validation nodes of three splits (pubmed and "
        "squirrel: one), the winner run on all; synthetic graphs with the paper's "
        "settings",
        judged=3,
        judged_on={"pubmed": 1, "squirrel": 1},
        patience=100,
    ),
    "quick": Protocol(
        "quick",
        "a first look: at most 100 epochs, two splits, one graph for each h, "
        "syn-products with 2,000 nodes; the figures are not those of the paper",
        judged=0,
        splits=2,
        graphs=1,
        patience=100,
        epochs=100,
        homophily=("0.10", "0.30", "0.50", "0.70", "0.90"),
        datasets=("texas", "wisconsin", "cornell-2020", "citeseer", "cora"),
        synthetic_nodes=2_000,
    ),
}
"""By name."""


def find_protocol(name: str) -> Protocol:
    """Return a protocol by its name."""
    return PROTOCOLS[check_choice("protocol", name, PROTOCOLS)]


# -------------------------------------------------------------------------- experiments

Unit = tuple[str, int]
"""A graph and the number of one of its splits."""

ELEVEN = tuple(f"{h / 10:.2f}" for h in range(11))
REAL = (
    *("texas", "wisconsin", "actor", "squirrel", "chameleon"),
    *("cornell-2020", "cornell", "cora-full", "citeseer", "pubmed", "cora"),
)
"""The real benchmarks, in the order of the paper's table."""
SMALL_FIRST = (
    *("texas", "cornell-2020", "cornell", "wisconsin", "chameleon", "cora", "citeseer"),
    *("actor", "pubmed", "squirrel", "cora-full"),
)
N_SPLITS = {"cora-full": 3}
SYNTHETIC_MODELS = (
    *("h2gcn-1", "h2gcn-2", "graphsage", "gcn-cheby", "mixhop", "gcn", "gat", "mlp"),
)
REAL_MODELS = (
    *("h2gcn-1", "h2gcn-2", "graphsage", "gcn-cheby", "mixhop"),
    *("graphsage-jk", "gcn-cheby-jk", "gcn-jk", "gcn", "gat", "geom-gcn", "mlp"),
)
VARIANTS = (
    *("h2gcn-1", "h2gcn-2", "h2gcn-ns0", "h2gcn-ns1", "h2gcn-s1", "h2gcn-n1"),
    *("h2gcn-n0", "h2gcn-k0", "h2gcn-k1", "h2gcn-r2", "h2gcn-nonlinear"),
)


@dataclass(frozen=True)
class Experiment:
    """A table of the paper that is filled by training models.

    Parameters
    ----------
    name, title
        How it is called, and the heading of its table.
    models
        The rows.
    columns
        The columns: real benchmarks, or values of h.
    synthetic
        Which synthetic benchmark the columns are of; "" for real ones.
    paper
        Which of the paper's tables it stands beside.
    figures
        Figures of its rows over h: a title and the models of each.
    chosen_with
        The experiment over whose values of h the synthetic settings are chosen, where
        this one shows only some of them.
    """

    name: str
    title: str
    models: tuple[str, ...]
    columns: tuple[str, ...]
    synthetic: str = ""
    paper: str = ""
    figures: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    chosen_with: str = ""

    def chooser(self) -> Experiment:
        """Return the experiment with the columns that the choice is made over."""
        if not self.chosen_with:
            return self
        whole = EXPERIMENTS[self.chosen_with]
        return replace(whole, models=self.models, synthetic=self.synthetic)

    def shown(self, protocol: Protocol) -> list[str]:
        """Return the columns that a protocol runs, the small graphs first."""
        only = protocol.homophily if self.synthetic else protocol.datasets
        columns = self.columns if self.synthetic else SMALL_FIRST
        if only is None or self.chosen_with:
            return [column for column in columns if column in self.columns]
        return [column for column in columns if column in {*only} & {*self.columns}]

    def units(self, column: str, protocol: Protocol) -> list[Unit]:
        """Return the graphs and splits that a cell is the mean of."""
        if not self.synthetic:
            n = N_SPLITS.get(column, 10)
            return [(column, i) for i in range(min(n, protocol.splits or n))]
        kind = self.synthetic
        if kind.startswith("syn-products") and protocol.synthetic_nodes is not None:
            kind = f"{kind}-{protocol.synthetic_nodes}"
        return [(f"{kind}/h{column}-r{i + 1}", 0) for i in range(protocol.graphs)]


EXPERIMENTS: dict[str, Experiment] = {
    e.name: e
    for e in (
        Experiment(
            "table-1",
            "Test accuracy at low and high homophily (syn-cora)",
            ("gcn", "gat", "gcn-cheby", "graphsage", "mixhop", "mlp", "h2gcn-2"),
            ("0.10", "0.70"),
            "syn-cora",
            "table-1",
            chosen_with="syn-cora",
        ),
        Experiment(
            "syn-cora",
            "Test accuracy over homophily on syn-cora",
            SYNTHETIC_MODELS,
            ELEVEN,
            "syn-cora",
            "syn-cora",
            {"syn-cora": ("syn-cora", SYNTHETIC_MODELS)},
        ),
        Experiment(
            "syn-cora-own",
            "Test accuracy over homophily on graphs of our generator like syn-cora",
            SYNTHETIC_MODELS,
            ELEVEN,
            "syn-cora-own",
            "syn-cora",
            {"syn-cora-own": ("syn-cora, our generator", SYNTHETIC_MODELS)},
        ),
        Experiment(
            "syn-products",
            "Test accuracy over homophily on syn-products",
            SYNTHETIC_MODELS,
            ELEVEN,
            "syn-products",
            "syn-products",
            {"syn-products": ("syn-products", SYNTHETIC_MODELS)},
        ),
        Experiment(
            "ablation",
            "Variants of H2GCN on syn-products",
            VARIANTS,
            (*ELEVEN[:10], "0.99", "1.00"),
            "syn-products",
            "ablation",
            {
                "ablation-d1": (
                    "D1: ego and neighbours apart",
                    ("h2gcn-1", "h2gcn-s1", "h2gcn-ns0", "h2gcn-ns1"),
                ),
                "ablation-d2": (
                    "D2: neighbourhoods left out",
                    ("h2gcn-1", "h2gcn-n0", "h2gcn-n1", "h2gcn-s1"),
                ),
                "ablation-d3": (
                    "D3: rounds left out",
                    ("h2gcn-2", "h2gcn-k0", "h2gcn-k1", "h2gcn-1", "h2gcn-r2"),
                ),
            },
        ),
        Experiment(
            "degree",
            "Test accuracy by degree on syn-products",
            ("h2gcn-1", "h2gcn-2"),
            ("0.20", "0.80"),
            "syn-products",
            "syn-products",
            chosen_with="syn-products",
        ),
        Experiment(
            "real",
            "Test accuracy on real benchmarks",
            REAL_MODELS,
            REAL,
            paper="real",
        ),
    )
}
"""Those that train models, by name."""

DERIVED = ("ranks", "statistics", "theory")
"""Those that are worked out of others' runs, of the data, or of nothing."""

ORDER = (
    *("statistics", "theory", "table-1", "syn-cora", "syn-cora-own", "real", "ranks"),
    *("ablation", "degree", "syn-products"),
)
"""In which `all` runs them: the quick ones first."""

APART = ("frontier",)
"""Not of the paper, with a store of its own, and no part of `all`."""


def find_experiments(name: str) -> list[str]:
    """Return the experiments that a name stands for."""
    if name == "all":
        return list(ORDER)
    if name not in ORDER:
        known = [*ORDER, "all", *APART]
        raise InputError(
            f"there is no experiment {name!r}.{nearest(name, known)} "
            f"Experiments: {', '.join(known)}."
        )
    return [name]


def find_benchmarks(
    only: Sequence[str], experiments: Sequence[str], protocol: Protocol
) -> set[str]:
    """Return the real benchmarks that are asked for, checked."""
    if not {"real", "ranks"} & {*experiments}:
        raise InputError(
            f"names real benchmarks; {experiments[0]} has none", param="only"
        )
    known = EXPERIMENTS["real"].shown(protocol)
    for name in only:
        if name not in known:
            raise InputError(
                f"only={[name]}: no such benchmark in the protocol {protocol.name}."
                f"{nearest(name, known)} Benchmarks: {', '.join(known)}."
            )
    return set(only)


# ------------------------------------------------------------------ the paper's figures


class Published(NamedTuple):
    """A cell of the paper, in percent; the deviation is None where it gives none."""

    mean: float
    std: float | None


def published_rows(table: str) -> dict[str, dict[str, Any]]:
    """Return a table of the paper: models, then columns.

    Parameters
    ----------
    table
        "real", "ranks", "syn-cora", "syn-products", "ablation" or "table-1".
    """
    rows: dict[str, dict[str, Any]] = _data("paper.json")[table]
    return rows


def published(table: str, model: str, column: str) -> Published | None:
    """Return a cell of the paper, None where it has none."""
    cell = _data("paper.json").get(table, {}).get(model, {}).get(column)
    return None if cell is None else Published(*cell)


# ----------------------------------------------------------------------------- settings

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
    "bp": [{"coupling": (1.0, 0.5, 0.1), "class_prior": (1.0, 0.0)}],
    "zoobp": [{"scale": (0.5, 0.1, 0.9), "class_prior": (1.0, 0.0)}],
    "decoupled-smoothing": [{"variance": ("degree", "equal")}],
}
_CORRECT_AND_SMOOTH: list[Axes] = [
    {
        "base": ("mlp", "linear"),
        "correction": ("autoscale",),
        "correction_alpha": (0.9, 0.5),
        "smoothing_alpha": (0.8, 0.5),
    },
    {
        "base": ("mlp", "linear"),
        "correction": ("fixed",),
        "scale": (1.0, 10.0),
        "smoothing_alpha": (0.8, 0.5),
    },
]
"""The program draws both alphas from 0 to 1, and the scale up to 20."""
_ON_TABLES: dict[str, list[Axes]] = {
    "ring-table": [{"dropout": (0.5, 0.7), "l2": (1e-5, 5e-4)}],
    "sign": [{"hidden_channels": (64, 256), "dropout": (0.2, 0.5), "l2": (0.0, 1e-5)}],
    "c-ignn": [{"input_dropout": (0.0, 0.5), "dropout": (0.2, 0.5)}],
    "linkx": [{"hidden_channels": (16, 64, 256), "l2": (5e-4,), "dropout": (0.5,)}],
    "logistic": [{"C": (0.0, 10.0, 100.0, 1000.0)}],  # 0 chooses one by folds
    "boosted-trees": [{"num_leaves": (7, 15, 31), "learning_rate": (0.05, 0.1)}],
    "correct-and-smooth": _CORRECT_AND_SMOOTH,
    "ica": [
        {
            "base": ("logistic", "boosted-trees"),
            "table": ("ego+labels.ring1", "ego+labels.ring1+labels.ring2"),
        }
    ],
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
    "normalize": (True,),
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

_GDC = {"hidden_channels": (64,), "top": (64, 128), "l2": (2.5e-4, 0.05)}
_GDC_KERNELS: list[Axes] = [
    {"kernel": ("pagerank",), "alpha": (0.15, 0.05), **_GDC, "patience": (100,)},
    {"kernel": ("heat",), "time": (1.0, 3.0, 5.0), **_GDC, "patience": (100,)},
]
_GMNN = {
    "hidden_channels": (16, 64),
    "input_dropout": (0.5,),
    "dropout": (0.0, 0.5),
    "temperature": (0.1, 1.0),
    "learning_rate": (0.01, 0.05),
    "l2": (2.5e-4,),
    "patience": (100,),
}
_GAM: list[Axes] = [
    {
        "base": ("mlp", "gcn"),
        "hidden_channels": (128,),
        "lu": (weight,),
        "uu": (weight / 2,),
        "l2": (0.0,),
        "patience": (200,),
    }
    for weight in (0.1, 10.0, 100.0, 1000.0)
]
"""One weight in two: the program's runs have all of UU at half of LU."""

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
    "gdc": _GDC_KERNELS,
    "gmnn": [_GMNN],
    "gam": _GAM,
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
}
"""Jumping knowledge was put in without changing anything else."""


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
    own: dict[str, dict[str, Any]] = _data("presets.json").get(family, {})
    if model not in own and model.startswith("h2gcn") and family.startswith("syn-"):
        # The paper runs the variants of the ablations as it runs H2GCN.
        model = "h2gcn-1"
    return common | own.get(model, {"patience": OWN_PATIENCE} | grid[0])


@cache
def _data(name: str) -> dict[str, Any]:
    """Return what a file of JSON beside this one holds."""
    text = files("h2gcn.experiments").joinpath(name).read_text("utf-8")
    data: dict[str, Any] = json.loads(text)
    return data
