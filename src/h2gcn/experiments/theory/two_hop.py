"""Theorem 2 as a table and a figure: labels two hops away, measured."""

from h2gcn import theory
from h2gcn.datasets import PRESETS, generate_graph
from h2gcn.experiments.theory.entries import Entry, cell, figure, row, series, table

__all__ = ["two_hop_entries"]

NAMES = (
    "own class, trees",
    "another class, trees",
    "own class, generator",
    "another class, generator",
)
"""What is measured, in the order in which `_measure` returns it."""


def two_hop_entries(n_graphs: int) -> tuple[Entry, Entry]:
    """Return the table and the figure of Theorem 2, `paper` being P².

    On trees the theorem's assumptions hold exactly; the generator is the one of the
    paper's synthetic graphs (the size of syn-cora), with the theorem's matrix P.

    Parameters
    ----------
    n_graphs
        Random graphs of each kind for each of eleven values of h.
    """
    classes = PRESETS["syn-cora"]["n_classes"]
    grid = [k / 10 for k in range(11)]
    runs: dict[str, list[list[float]]] = {name: [] for name in NAMES}
    exact: dict[str, list[float]] = {name: [] for name in NAMES}
    for h in grid:
        p = theory.uniform_compatibility(classes, h)
        squared = theory.two_hop_distribution(p)
        measured = zip(*(_measure(h, seed) for seed in range(n_graphs)), strict=True)
        expected = [squared[0, 0], squared[0, 1]] * 2
        for name, values, value in zip(NAMES, measured, expected, strict=True):
            runs[name].append(list(values))
            exact[name].append(float(value))
    seeds = [f"seed {seed}" for seed in range(n_graphs)]
    rows = [
        row(
            f"h = {h:g}",
            [cell(runs[name][i], paper=exact[name][i], runs=seeds) for name in NAMES],
        )
        for i, h in enumerate(grid)
    ]
    lines = [series(name, grid, runs[name], paper=exact[name]) for name in NAMES]
    title = "Theorem 2: labels at distance 2, measured, beside P²"
    return (
        table("theorem-2", title, "homophily", NAMES, rows, decimals=4),
        figure("theorem-2", title, "h", "share of the nodes two hops away", lines),
    )


def _measure(homophily: float, seed: int) -> tuple[float, float, float, float]:
    shape = PRESETS["syn-cora"]
    p = theory.uniform_compatibility(shape["n_classes"], homophily)
    tree = theory.broadcast_tree(shape["n_nodes"], p, seed=seed)
    graph = generate_graph(**shape, compatibility=p, seed=seed)
    return *theory.measured_two_hop(tree), *theory.measured_two_hop(graph)
