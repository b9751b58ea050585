"""The experiments of the paper, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from h2gcn._validation import nearest
from h2gcn.exceptions import InputError
from h2gcn.experiments.definition.protocols import Protocol

__all__ = [
    *("EXPERIMENTS", "REAL", "Experiment", "Unit"),
    *("find_benchmarks", "find_experiments"),
]

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
