"""Why conclusions of the paper do not hold in our runs, as far as it is known."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from conclusion_checks import value
from worse_cells import paper_mean

from h2gcn.experiments import Table

Tables = Mapping[str, Table]
ON_SYN_PRODUCTS = {
    *("level-on-syn-products", "perfect-heterophily-on-syn-products", "ego-apart"),
    *("every-neighbourhood", "all-rounds", "degree-gap"),
}
"""The other conclusions that are drawn from its graphs."""
SHOWN = ("h2gcn-2", "h2gcn-1", "graphsage", "gcn-cheby", "gcn", "mlp")


UNKNOWN = "The features are not the paper's; whether that is the reason is not known."
BY_FEATURES = (
    "It depends on the features, which are not the paper's: with one Gaussian a class, "
    "on graphs made alike, it holds."
)


def why(conclusion: str, tables: Tables) -> str:
    """Return what is known of a conclusion that does not hold, "" where nothing is.

    Parameters
    ----------
    conclusion
        Its name.
    tables
        Those of the experiments that it was judged by, by name.
    """
    if conclusion == "best-on-syn-products":
        return _other_features(tables["syn-products"])
    if conclusion == "first-round":
        return _level_in_the_paper(tables["ablation"])
    if conclusion == "importance-turns":
        return _nearer_neighbours(tables["ablation"])
    if conclusion == "apart-in-homophily":
        return _not_in_the_paper_either()
    if conclusion == "above-geom-gcn":
        return _geom_gcn_on_chameleon(tables["real"])
    if conclusion == "linear-is-enough":
        return BY_FEATURES
    return UNKNOWN if conclusion in ON_SYN_PRODUCTS else ""


def kinds_chosen(kinds: Mapping[str, Any], h: str = "0.10") -> str:
    """Return how the number of Gaussians was chosen, with what was tried.

    Parameters
    ----------
    kinds
        What `feature_kinds.py` kept.
    h
        Where it was chosen.
    """
    most = max(kinds, key=int)
    found = {number: _means(kept) for number, kept in kinds.items()}
    led = sum(
        max(means, key=means.__getitem__).startswith("h2gcn")
        for means in found[most].values()
    )
    said = "; ".join(
        f"with {number}: {_models(one[h], h)}" for number, one in found.items()
    )
    hs = ", ".join(f"{float(column):g}" for column in found[most])
    return (
        f"{most} Gaussians came nearer to the paper than 1 and than 5 on the first "
        f"graph of h = {float(h):g}, which is how the number was chosen "
        "(`paper/feature_kinds.py`), so the figures there are not independent of the "
        f"choice. At that h, on three graphs and in brackets in the paper, {said}. In "
        f"that trial, of these six models, H2GCN led at {led} of {len(found[most])} "
        f"values of h ({hs}) with {most} Gaussians."
    )


def _means(kept: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the mean of each model for each h that has all of them."""
    found: dict[str, dict[str, float]] = {}
    for cell, accuracies in kept["cells"].items():
        model, h = cell.split(":")
        found.setdefault(h, {})[model] = fmean(accuracies)
    return {
        h: {model: found[h][model] for model in SHOWN}
        for h in sorted(found)
        if {*SHOWN} <= found[h].keys()
    }


def _models(means: Mapping[str, float], h: str) -> str:
    return ", ".join(
        f"{model} {mean:.1f} ({paper_mean('syn-products', model, h):.1f})"
        for model, mean in means.items()
    )


def _other_features(table: Table) -> str:
    """Return how much more than H2GCN the baselines gain by our features."""
    low = [column for column in table.columns if float(column) < 0.5]
    gains = {model: fmean(_above_paper(table, model, low)) for model in SHOWN}
    said = ", ".join(f"{model} {gain:+.1f}" for model, gain in gains.items())
    more = ", and with them GCN-Cheby gains more than H2GCN"
    return (
        f"The features are not the paper's (see the section)"
        f"{more if gains['gcn-cheby'] > gains['h2gcn-2'] else ''}. Ours less the "
        f"paper's, in points over these h: {said}. In the paper, too, GCN-Cheby leads "
        "at h = 0; on syn-cora, with features of Cora, it stays behind H2GCN."
    ).replace(" -", " −")


def _above_paper(table: Table, model: str, columns: Sequence[str]) -> list[float]:
    """Return by how much a model is above the paper's figure in each column."""
    cells = table.row(model)
    return [
        value(cells[column]) - paper_mean(table.name, model, column)
        for column in columns
    ]


def _level_in_the_paper(table: Table) -> str:
    without = {
        left: paper_mean("ablation", f"h2gcn-{left}", "0.00") for left in ("k0", "k1")
    }
    said = _beside_paper(table, ("h2gcn-2", "h2gcn-k0", "h2gcn-k1"), ("0.00",))
    return (
        f"In the paper the two are level at h = 0: {without['k0']:.1f} without K0, "
        f"{without['k1']:.1f} without K1. {said}."
    )


def _nearer_neighbours(table: Table) -> str:
    high = [column for column in table.columns if 0.7 <= float(column) <= 0.9]
    models = ("h2gcn-1", "h2gcn-n0", "h2gcn-n1", "h2gcn-s1")
    cells = {model: table.row(model)["0.70"] for model in models}
    whole, in_paper = value(cells["h2gcn-1"]), paper_mean("ablation", models[0], "0.70")
    costs = ", ".join(
        f"{name} {whole - value(cells[model]):.1f} points here and "
        f"{in_paper - paper_mean('ablation', model, '0.70'):.1f} in the paper"
        for name, model in (("N1", "h2gcn-n1"), ("N2", "h2gcn-s1"))
    )
    return (
        f"{_beside_paper(table, models, high)} (h2gcn-s1 is the one without N2). At "
        f"h = 0.7 leaving out costs {costs}; above it, what is missed is small. Why "
        "2-hop neighbours are missed less here is not known."
    )


def _not_in_the_paper_either() -> str:
    high = ("0.80", "0.90", "0.99", "1.00")
    said = "; ".join(
        f"h = {float(h):g}: h2gcn-ns0 {paper_mean('ablation', 'h2gcn-ns0', h):.2f}, "
        f"h2gcn-1 {paper_mean('ablation', 'h2gcn-1', h):.2f}"
        for h in high
    )
    return f"The paper's own table says the same above h = 0.7: {said}."


def _geom_gcn_on_chameleon(table: Table) -> str:
    models = ("geom-gcn", "gcn-cheby-jk", "h2gcn-2")
    said = ", ".join(
        f"{model} {gap:+.1f}"
        for model in models
        for gap in _above_paper(table, model, ("chameleon",))
    )
    return (
        f"Ours less the paper's, in points on chameleon: {said}. The paper did not run "
        "Geom-GCN, but copied its figures (see beneath the table of real benchmarks)."
    ).replace(" -", " −")


def _beside_paper(table: Table, models: Sequence[str], columns: Sequence[str]) -> str:
    gaps = [
        f"{model} {', '.join(f'{v:+.1f}' for v in _above_paper(table, model, columns))}"
        for model in models
    ]
    hs = ", ".join(f"{float(column):g}" for column in columns)
    told = f"Ours less the paper's, in points at h = {hs}: {'; '.join(gaps)}"
    return told.replace(" -", " −")
