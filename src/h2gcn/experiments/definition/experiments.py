"""The experiments of the paper, its figures, and protocols to run them, as data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from h2gcn._validation import nearest
from h2gcn.exceptions import InputError
from h2gcn.experiments.definition.settings import find_grid, find_preset

__all__ = [
    "EXPERIMENTS",
    "PROTOCOLS",
    "REAL",
    "Experiment",
    "Protocol",
    "Published",
    "Unit",
    "find_benchmarks",
    "find_experiments",
    "find_protocol",
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
    if name not in PROTOCOLS:
        raise InputError(
            "The 'protocol' parameter of find_protocol must be "
            f"{', '.join(PROTOCOLS)}. Got {name!r}.{nearest(name, PROTOCOLS)}"
        )
    return PROTOCOLS[name]


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
            "The 'only' parameter of find_benchmarks names real benchmarks; "
            f"{experiments[0]} has none"
        )
    known = EXPERIMENTS["real"].shown(protocol)
    for name in only:
        if name not in known:
            raise InputError(
                f"only={[name]}: no such benchmark in the protocol {protocol.name}."
                f"{nearest(name, known)} Benchmarks: {', '.join(known)}."
            )
    return set(only)


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
    rows: dict[str, dict[str, Any]] = _figures()[table]
    return rows


def published(table: str, model: str, column: str) -> Published | None:
    """Return a cell of the paper, None where it has none."""
    cell = _figures().get(table, {}).get(model, {}).get(column)
    return None if cell is None else Published(*cell)


@cache
def _figures() -> dict[str, Any]:
    text = (
        files("h2gcn.experiments.definition").joinpath("paper.json").read_text("utf-8")
    )
    figures: dict[str, Any] = json.loads(text)
    return figures
