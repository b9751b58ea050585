"""Why conclusions of the paper do not hold in our runs, as far as it is known."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from conclusion_checks import value
from worse_cells import paper_mean

from h2gcn.experiments import Table

Tables = Mapping[str, Table]
SHOWN = ("h2gcn-2", "h2gcn-1", "graphsage", "gcn-cheby", "gcn", "mlp")


def why(conclusion: str, tables: Tables, kinds: Mapping[str, Any]) -> str:
    """Return what is known of a conclusion that does not hold, "" where nothing is.

    Parameters
    ----------
    conclusion
        Its name.
    tables
        Those of the experiments, by name.
    kinds
        What `feature_kinds.py` kept.
    """
    if conclusion == "best-on-syn-products":
        return f"{_other_features(tables['syn-products'])} {_many_kinds(kinds)}"
    if conclusion == "first-round":
        return _level_in_the_paper(tables["ablation"], kinds)
    if conclusion == "importance-turns":
        return _nearer_neighbours(tables["ablation"], kinds)
    if conclusion == "apart-in-homophily":
        return _not_in_the_paper_either()
    if conclusion == "above-geom-gcn":
        return _geom_gcn_on_chameleon(tables["real"])
    return ""


def _other_features(table: Table) -> str:
    """Return how much more than H2GCN the baselines gain by our features."""
    low = [column for column in table.columns if float(column) < 0.5]
    said = ", ".join(
        f"{model} {fmean(_above_paper(table, model, low)):+.1f}" for model in SHOWN
    )
    return (
        "The features are not the paper's (see the section), and with them those that "
        "average the features of neighbours gain more than H2GCN. Ours less the "
        f"paper's, in points over these h: {said}. In the paper, too, GCN-Cheby leads "
        "at h = 0; on syn-cora, with features of Cora, it stays behind H2GCN."
    )


def _above_paper(table: Table, model: str, columns: Sequence[str]) -> list[float]:
    """Return by how much a model is above the paper's figure in each column."""
    cells = table.row(model)
    return [
        value(cells[column]) - paper_mean(table.name, model, column)
        for column in columns
    ]


def _many_kinds(kinds: Mapping[str, Any]) -> str:
    """Return what comes out with features of another kind, the paper's beside it."""
    shown, *others = sorted(kinds, key=int, reverse=True)
    found = _means(kinds[shown])
    led = sum(max(m, key=m.__getitem__).startswith("h2gcn") for m in found.values())
    said = "; ".join(f"h = {float(h):g}: {_models(m, h)}" for h, m in found.items())
    told = (
        f"With classes of {shown} Gaussians each instead of one, just as far apart as "
        "gives the MLP about its accuracy (`paper/feature_kinds.py`), H2GCN leads "
        f"these six models in {led} of {len(found)}; ours, and in brackets the "
        f"paper's: {said}. That number was chosen among 1, 5 and 20 as the one that "
        "comes nearest to the paper on the first graph of h = 0.1, so the figures of "
        "h = 0.1 are not independent of the choice."
    )
    for other in others:
        told += "".join(
            f" With {other} Gaussians at h = {float(h):g}: {_models(means, h)}."
            for h, means in _means(kinds[other]).items()
        )
    return told


def _means(kept: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the mean of each model for each h that has all of them."""
    found: dict[str, dict[str, float]] = {}
    for cell, accuracies in kept["cells"].items():
        model, h = cell.split(":")
        found.setdefault(h, {})[model] = fmean(accuracies)
    return {h: found[h] for h in sorted(found) if {*SHOWN} <= found[h].keys()}


def _models(means: Mapping[str, float], h: str) -> str:
    return ", ".join(
        f"{model} {means[model]:.1f} ({paper_mean('syn-products', model, h):.1f})"
        for model in SHOWN
    )


def _level_in_the_paper(table: Table, kinds: Mapping[str, Any]) -> str:
    without = {
        left: paper_mean("ablation", f"h2gcn-{left}", "0.00") for left in ("k0", "k1")
    }
    order = ("h2gcn-k0", "h2gcn-k1")
    said = _beside_paper(table, ("h2gcn-2", *order), ("0.00",))
    return (
        f"In the paper the two are level at h = 0: {without['k0']:.1f} without K0, "
        f"{without['k1']:.1f} without K1. {said}. "
        + _with_kinds(kinds, ("h2gcn-2", *order), "0.00", order)
    )


def _nearer_neighbours(table: Table, kinds: Mapping[str, Any]) -> str:
    high = [column for column in table.columns if 0.7 <= float(column) <= 0.9]
    models = ("h2gcn-1", "h2gcn-n0", "h2gcn-n1", "h2gcn-s1")
    return (
        f"{_beside_paper(table, models, high)} (h2gcn-s1 is the one without N2). So it "
        "is N2 that is missed less here than in the paper, and above h = 0.7 what is "
        "missed is small. "
        + _with_kinds(kinds, models, "0.70", ("h2gcn-s1", "h2gcn-n1"))
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


def _with_kinds(
    kinds: Mapping[str, Any], models: Sequence[str], h: str, order: Sequence[str]
) -> str:
    """Return what these variants reach at one h with features of many kinds.

    Parameters
    ----------
    kinds
        What `feature_kinds.py` kept.
    models
        Those that are shown.
    h
        The column.
    order
        Two of them, of which the first is the one that the paper finds worse.
    """
    number = max(kinds, key=int)
    kept = kinds[number]["cells"]
    means = {model: fmean(kept[f"{model}:{h}"]) for model in models}
    said = ", ".join(
        f"{model} {mean:.1f} ({paper_mean('ablation', model, h):.1f})"
        for model, mean in means.items()
    )
    as_paper = means[order[0]] < means[order[1]]
    return (
        f"With classes of {number} Gaussians, as above, they are at h = {float(h):g}, "
        f"in brackets the paper's: {said}. "
        + (
            "That is the paper's order, so the features seem to be the reason."
            if as_paper
            else "That is not the paper's order either, so the features do not seem to "
            "be the reason; what is, is not known."
        )
    )


def _beside_paper(table: Table, models: Sequence[str], columns: Sequence[str]) -> str:
    gaps = [
        f"{model} {', '.join(f'{v:+.1f}' for v in _above_paper(table, model, columns))}"
        for model in models
    ]
    hs = ", ".join(f"{float(column):g}" for column in columns)
    told = f"Ours less the paper's, in points at h = {hs}: {'; '.join(gaps)}"
    return told.replace(" -", " −")
