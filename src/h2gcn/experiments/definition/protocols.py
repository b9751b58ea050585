"""How thoroughly an experiment is run: as the paper did, as a rule, or for a look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from h2gcn._validation import nearest
from h2gcn.exceptions import InputError
from h2gcn.experiments.definition.settings import find_grid, find_preset

__all__ = ["PROTOCOLS", "Protocol", "find_protocol"]

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
