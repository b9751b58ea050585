"""Why conclusions of the paper do not hold in our runs, as far as it is known."""

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from results_reasons import paper_mean

Tables = Mapping[str, Mapping[str, Any]]
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
        return _level_in_the_paper()
    return ""


def _other_features(table: Mapping[str, Any]) -> str:
    """Return how much more than H2GCN the baselines gain by our features."""
    gains = {}
    for model in SHOWN:
        (row,) = (row for row in table["rows"] if row["name"] == model)
        gaps = [
            cell["mean"] - paper_mean("syn-products", model, column)
            for column, cell in zip(table["columns"], row["cells"], strict=True)
            if float(column) < 0.5
        ]
        gains[model] = fmean(gaps)
    said = ", ".join(f"{model} {gain:+.1f}" for model, gain in gains.items())
    return (
        "The features are not the paper's (see the section), and with them those that "
        "average the features of neighbours gain more than H2GCN. Ours less the "
        f"paper's, in points over these h: {said}. In the paper, too, GCN-Cheby leads "
        "at h = 0; on syn-cora, with features of Cora, it stays behind H2GCN."
    )


def _many_kinds(kinds: Mapping[str, Any]) -> str:
    """Return what comes out with features of another kind, the paper's beside it."""
    found: dict[str, dict[str, float]] = {}
    for cell, accuracies in kinds["cells"].items():
        model, h = cell.split(":")
        found.setdefault(h, {})[model] = fmean(accuracies)
    said, led = [], 0
    for h, means in sorted(found.items()):
        if not {*SHOWN} <= means.keys():
            continue
        models = ", ".join(
            f"{model} {means[model]:.1f} ({paper_mean('syn-products', model, h):.1f})"
            for model in SHOWN
        )
        said.append(f"h = {float(h):g}: {models}")
        led += max(means, key=means.__getitem__).startswith("h2gcn")
    return (
        f"With classes of {kinds['kinds']} Gaussians each instead of one, just as far "
        "apart as gives the MLP its accuracy (`benchmarks/feature_kinds.py`), H2GCN "
        f"leads these six models in {led} of {len(said)}; ours, and in brackets the "
        f"paper's: {'; '.join(said)}. That number was chosen: of 1, 5 and 20 it is the "
        "one that comes nearest to the paper, and with 5 GCN-Cheby still led on the "
        "one graph that was tried."
    )


def _level_in_the_paper() -> str:
    without = {
        left: paper_mean("ablation", f"h2gcn-{left}", "0.00") for left in ("k0", "k1")
    }
    return (
        f"In the paper the two are level at h = 0: {without['k0']:.1f} without K0, "
        f"{without['k1']:.1f} without K1."
    )
