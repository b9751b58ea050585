"""An experiment from nothing, whatever it is made of."""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection
from importlib.metadata import version
from os import cpu_count
from typing import Any

from h2gcn import __version__
from h2gcn.exceptions import InputError
from h2gcn.experiments.analysis import (
    ranks_table,
    real_statistics,
    synthetic_statistics,
)
from h2gcn.experiments.definition import EXPERIMENTS, Protocol
from h2gcn.experiments.driver.trained import Execute, Result, graph_checksums, trained
from h2gcn.experiments.running import Store, card_of, with_the_graphs_there

__all__ = ["check_records", "environment", "reproduce"]

FIELDS = {
    *("key", "experiment", "dataset", "model", "config", "split", "seed", "selected"),
    *("val_accuracy", "test_accuracy", "seconds", "version"),
}
"""What every record of a run has."""


def reproduce(
    name: str,
    protocol: Protocol,
    store: Store,
    execute: Execute,
    on_result: Callable[[Result], object] = lambda _: None,
    left_out: Collection[str] = (),
) -> Result:
    """Return the result of an experiment, as `result.json` holds it.

    Parameters
    ----------
    name
        Of one experiment.
    protocol, store, execute, on_result, left_out
        As of `h2gcn.experiments.driver.trained.trained`.
    """

    def whole(made: Result) -> Result:
        return _common(name, protocol) | made

    if name == "theory":
        from h2gcn.experiments.theory import theory_result

        return whole(theory_result(protocol.name))
    if name == "statistics":
        return whole(_statistics(protocol, left_out))
    if name == "ranks":
        real = trained(EXPERIMENTS["real"], protocol, store, execute, left_out=left_out)
        return whole(_ranks(real))
    made = trained(
        EXPERIMENTS[name],
        protocol,
        store,
        execute,
        lambda so_far: on_result(whole(so_far)),
        left_out,
    )
    return whole(made)


def check_records(store: Store) -> None:
    """Refuse a store whose records are not of runs, or of two graphs of one name."""
    for record in store.records:
        if missing := FIELDS - record.keys():
            raise InputError(
                f"{store.path}: the record {record['key']} lacks "
                f"{', '.join(sorted(missing))}; another --out, or another file?"
            )
    graph_checksums(store, store.records)


def environment() -> dict[str, str]:
    """Return what the figures may depend on."""
    packages = ("torch", "numpy", "scipy", "numba", "scikit-learn")
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "system": platform.system(),
        "machine": platform.machine(),
        "cores": str(cpu_count()),
    }


def _common(name: str, protocol: Protocol) -> dict[str, Any]:
    return {
        "experiment": name,
        "protocol": protocol.name,
        "version": __version__,
        "environment": environment(),
        "notes": [],
        "figures": [],
        "cards": {},
        "not_run": [],
        "failed": [],
    }


def _ranks(real: Result) -> Result:
    kept = ("cards", "checksums", "not_run", "failed", "settings")
    return {
        "title": "Average rank of the models on real benchmarks",
        "notes": [
            "Heterophily: h ≤ 0.3; homophily: h ≥ 0.7. The benchmark of cornell is the "
            "one of 2020. Only benchmarks that all models were run on count.",
            *real["notes"],
        ],
        "tables": [ranks_table(real["tables"][0])],
        **{name: real[name] for name in kept},
    }


def _statistics(protocol: Protocol, left_out: Collection[str]) -> Result:
    real: dict[str, Any] = {}
    synthetic: dict[str, Any] = {}
    missing: list[str] = []
    families = (EXPERIMENTS["syn-cora"], EXPERIMENTS["syn-products"])
    names = dict.fromkeys(EXPERIMENTS["real"].columns, real)
    for experiment in (with_the_graphs_there(e, protocol) for e in families):
        for column in experiment.shown(protocol):
            names[experiment.units(column, protocol)[0][0]] = synthetic
    for name, cards in names.items():
        cards[name], reason = (None, "") if name in left_out else card_of(name)
        missing += [reason] if reason else []
    return {
        "title": "Statistics of the benchmarks",
        "notes": [
            "The paper counts self-loops as edges, and swaps the numbers of classes of "
            "Cora (7) and Citeseer (6).",
            "Of the synthetic graphs the paper says: syn-cora 1,490 nodes, 2,965 to "
            "2,968 edges, degrees 1 to 94, mean 3.98; syn-products 10,000 nodes, "
            "59,640 to 59,648 edges, degrees 1 to 336, mean 11.93.",
        ],
        "tables": [real_statistics(real), synthetic_statistics(synthetic)],
        "cards": {n: c for n, c in (real | synthetic).items() if c is not None},
        "not_run": missing,
    }
