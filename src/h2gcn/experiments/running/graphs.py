"""The graphs of the experiments by name, and which of them can be had here."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from h2gcn.datasets import (
    DATASETS,
    PRESETS,
    SYN_CORA,
    BenchmarkFeatures,
    FeatureSource,
    GaussianFeatures,
    ProductsFeatures,
    data_root,
    generate_graph,
    load_dataset,
)
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.experiments.definition import Experiment, Protocol
from h2gcn.graph import Graph, fingerprint
from h2gcn.homophily import compatibility_matrix, graph_card

__all__ = [
    *("Available", "MissingData", "available_columns", "card_of", "find_checksum"),
    *("has_products", "on_available_graphs", "open_graph"),
]

REMEMBERED = 3
"""Graphs that a process keeps: those that its next runs are likely to be on."""

_GENERATED = re.compile(
    r"(?P<family>syn-products-ogb|syn-products|syn-cora-own)(-(?P<nodes>[1-9]\d{2,6}))?"
    r"/h(?P<h>0\.\d\d|1\.00)-r(?P<number>[1-9]\d*)"
)


class MissingData(InputError):
    """A dataset whose files are not there and could not be had."""


def open_graph(name: str) -> Graph:
    """Return a graph with its splits; the last few are remembered.

    Parameters
    ----------
    name
        A benchmark's, such as `cora` or `syn-cora/h0.10-r1`. Others are generated:
        `syn-products/h0.10-r1` (homophily 0.10, the first graph that has it) with
        Gaussian features, `syn-products-ogb/h0.10-r1` with those of ogbn-products,
        `syn-cora-own/h0.10-r1` with Cora's. `syn-products-2000/h0.10-r1` has 2,000
        nodes.

    Raises
    ------
    MissingData
        Where the files are not there; the message says where they should be.
    """
    return _open(name, data_root())


def find_checksum(name: str) -> str:
    """Return the first 16 digits of a graph's fingerprint."""
    return _checksum(name, data_root())


def has_products() -> bool:
    """Return whether the data root has the features of ogbn-products."""
    return ProductsFeatures(data_root()).available()


@lru_cache(maxsize=REMEMBERED)
def _open(name: str, root: Path) -> Graph:
    if (match := _GENERATED.fullmatch(name)) is None:
        return _load(name, root)
    family, h = match["family"], float(match["h"])
    shape = PRESETS["syn-cora" if family == "syn-cora-own" else "syn-products"].copy()
    if match["nodes"]:
        shape["n_nodes"] = int(match["nodes"])
    return generate_graph(
        **shape,
        homophily=h,
        features=_features(name, family, root),
        seed=1000 * int(match["number"]) + round(100 * h),
        name=name,
    )


@cache
def _checksum(name: str, root: Path) -> str:
    return fingerprint(_open(name, root))[:16]


def _features(name: str, family: str, root: Path) -> FeatureSource:
    if family == "syn-products":
        return GaussianFeatures()
    if family == "syn-products-ogb":
        products = ProductsFeatures(root)
        if not products.available():
            raise MissingData(f"{name}: the features of ogbn-products are not there")
        return products
    try:
        return BenchmarkFeatures(_open("cora", root))
    except MissingData as error:
        raise MissingData(f"{name} takes its features from {error}") from None


def _load(name: str, root: Path) -> Graph:
    try:
        return load_dataset(name, root=root)
    except InputError as error:
        with suppress(OSError):  # a place that cannot be looked at
            if any(not path.is_file() for path in _files(name, root)):
                raise MissingData(str(error)) from None
        raise


def _files(name: str, root: Path) -> list[Path]:
    """Return the files of a benchmark, none where there is no such benchmark."""
    if name in SYN_CORA:
        return [root / f"{name}.npz"]
    if name not in DATASETS:
        return []
    info = DATASETS[name]
    return [root / info.folder / file for file in info.files]


@dataclass
class Available:
    """What can be run of an experiment.

    Parameters
    ----------
    columns
        Those whose graphs are there, in the order to run them.
    cards
        Of the first graph of each.
    missing
        Why the others are not run.
    warnings
        What the readers warned of.
    """

    columns: list[str] = field(default_factory=list)
    cards: dict[str, Any] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def on_available_graphs(experiment: Experiment, protocol: Protocol) -> Experiment:
    """Return the experiment on the graphs that the data root has.

    The authors' syn-cora where all of its graphs are there, else ours; the features of
    ogbn-products for syn-products where they are there, else Gaussian ones.
    """
    if experiment.synthetic == "syn-products" and has_products():
        return replace(experiment, synthetic="syn-products-ogb")
    if experiment.synthetic != "syn-cora":
        return experiment
    try:
        for column in experiment.shown(protocol):
            for name, _ in experiment.units(column, protocol):
                open_graph(name)
    except MissingData:
        return replace(experiment, synthetic="syn-cora-own")
    return experiment


def available_columns(
    experiment: Experiment, protocol: Protocol, left_out: Collection[str] = ()
) -> Available:
    """Return which columns of an experiment can be run.

    Graphs that are `left_out` are not opened, which may mean to download them.
    """
    found, shown = Available(), experiment.shown(protocol)
    for column in shown:
        name = experiment.units(column, protocol)[0][0]
        if name in left_out:
            continue
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", H2GCNWarning)
            card, reason = card_of(name)
        found.warnings += [str(warning.message) for warning in said]
        if card is None:
            found.missing.append(reason)
        else:
            found.columns.append(column)
            found.cards[name] = card
    left = [column for column in experiment.columns if column not in shown]
    if left:
        reason = f"not part of the {protocol.name} protocol"
        found.missing.append(f"{', '.join(left)}: {reason}")
    return found


def card_of(name: str) -> tuple[dict[str, Any] | None, str]:
    """Return a graph's card with its compatibility matrix, or why there is none."""
    try:
        graph = open_graph(name)
    except MissingData as error:
        return None, str(error)
    card = dict(graph_card(graph))
    card["class_names"] = [str(label) for label in graph.classes]
    # A class without neighbours has a row without values, which JSON cannot hold.
    card["compatibility"] = [
        [None if value != value else round(float(value), 4) for value in row]
        for row in compatibility_matrix(graph)
    ]
    return card, ""
