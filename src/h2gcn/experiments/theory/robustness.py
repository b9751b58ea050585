"""Theorem 1 as tables and figures: perturbing constructed graphs."""

from collections.abc import Iterable, Sequence

from h2gcn import theory
from h2gcn.experiments.theory.entries import Entry, cell, figure, row, series, table

__all__ = ["robustness_figures", "robustness_tables"]

LAYERS = {"(A+I)XW": True, "AXW": False}
"""The two layers of the theorem, and whether they have self-loops."""
FIXED = {
    "homophily": "d = 20, 5 classes",
    "classes": "h = 0.1, d = 20",
    "degree": "h = 0.1, 5 classes",
}
"""What each of the appendix's plots holds fixed."""
TICKS = {"classes": [2, 5, 10, 15, 20]}
"""Where the axis would have halves of what is whole."""


def robustness_figures() -> list[Entry]:
    """Return the appendix's three plots: |δ| over h, the classes and the degree.

    Each point is found by perturbing a graph constructed for it; `paper` is the
    closed form.
    """
    homophily = [k / 50 for k in range(51)]
    classes, degrees = range(2, 21), range(1, 51)
    return [
        _plot("homophily", "h", homophily, [(h, 20, 5) for h in homophily]),
        _plot("classes", "number of classes", classes, [(0.1, 20, c) for c in classes]),
        _plot("degree", "degree d", degrees, [(0.1, d, 5) for d in degrees]),
    ]


def _plot(
    name: str, label: str, x: Iterable[float], cases: Sequence[tuple[float, int, int]]
) -> Entry:
    """Return |δ| of both layers at each (h, d, number of classes)."""
    lines = []
    for layer, loops in LAYERS.items():
        found = [theory.found_perturbation(*case, self_loops=loops) for case in cases]
        needed = [theory.perturbation_needed(*case, self_loops=loops) for case in cases]
        runs, paper = [[abs(amount)] for amount in found], [abs(a) for a in needed]
        lines.append(series(layer, x, runs, paper=paper))
    title = f"Theorem 1: the change that loses a node's class, {FIXED[name]}"
    drawn = figure(f"theorem-1-{name}", title, label, "|δ|", lines)
    return drawn | {"x_ticks": TICKS.get(name)}


def robustness_tables() -> list[Entry]:
    """Return what was found on graphs of whole edges, and the threshold of h."""
    cases = [(k / 5, 20, 5) for k in range(6)]
    cases += [(0.1, 20, c) for c in (2, 3, 4, 7, 10, 19)]
    rows = [
        row(f"h = {h:g}, d = {d}, {c} classes", _whole_edges(h, d, c))
        for h, d, c in cases
    ]
    columns = ["|δ1|, (A+I)XW", "|δ2|, AXW", "whole edges, (A+I)XW", "whole edges, AXW"]
    title = "Theorem 1: the smallest perturbation, found on graphs of whole edges"
    shapes = [(5, 2), (20, 2), (5, 5), (20, 5), (20, 10), (50, 10)]
    thresholds = [row(f"d = {d}, {c} classes", [_threshold(d, c)]) for d, c in shapes]
    return [
        table("theorem-1", title, "graph", columns, rows, decimals=4),
        table(
            "theorem-1-threshold",
            "Theorem 1: the h below which (A+I)XW is the less robust layer",
            "graph",
            ["h"],
            thresholds,
            decimals=6,
        ),
    ]


def _whole_edges(homophily: float, degree: int, n_classes: int) -> list[Entry]:
    """Return |δ| of both layers beside the closed form, and the edges that it takes."""
    adj, y = theory.regular_graph(homophily, degree, n_classes)
    amounts, edges = [], []
    for loops in LAYERS.values():
        weights = theory.fit_layer(adj, y, self_loops=loops)
        found = theory.smallest_perturbation(adj, y, weights, self_loops=loops)
        needed = theory.perturbation_needed(
            homophily, degree, n_classes, self_loops=loops
        )
        amounts.append(cell([abs(found)], paper=abs(needed)))
        flips = theory.edges_to_flip(adj, y, weights, self_loops=loops)
        if flips is None:
            edges.append(cell([], note="no number of edges makes another class win"))
        else:
            edges.append(
                cell([abs(flips)], note="taken away" if flips > 0 else "added")
            )
    return amounts + edges


def _threshold(degree: int, n_classes: int) -> Entry:
    found = theory.found_threshold(degree, n_classes)
    return cell([found], paper=theory.homophily_threshold(degree, n_classes))
