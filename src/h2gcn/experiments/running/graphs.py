"""The graphs of the experiments by name: benchmarks, and those that are generated."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from pathlib import Path

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
from h2gcn.exceptions import InputError
from h2gcn.graph import Graph, fingerprint

__all__ = ["MissingData", "find_checksum", "has_products", "open_graph"]

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
