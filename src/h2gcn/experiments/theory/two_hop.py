"""Theorem 2 as tables and a figure: labels two hops away, measured."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from h2gcn import theory
from h2gcn.datasets import PRESETS, generate_graph
from h2gcn.experiments.theory.entries import Entry, cell, figure, row, series, table
from h2gcn.graph import Graph

__all__ = ["Leads", "leads_of", "two_hop_entries"]

KINDS = ("trees", "generator")
"""The graphs that are drawn; on trees the theorem's assumptions hold exactly."""
NAMES = tuple(f"{of} class, {kind}" for kind in KINDS for of in ("own", "another"))
"""What is measured over all classes together."""
LEAD = tuple(f"smallest lead, {kind}" for kind in KINDS)
CLASSES = (
    "lead by P²",
    *(f"{of}, {kind}" for kind in KINDS for of in ("smallest lead", "noise", "behind")),
)
LEVEL = 0.05
"""The chance that noise alone puts any of the pairs behind beyond it, at most."""


@dataclass(frozen=True)
class Leads:
    """How far each class is ahead of each other at distance 2, in many graphs.

    Parameters
    ----------
    shares
        Row i: the labels two hops from class i, [C, C].
    smallest
        The least of share(i, i) − share(i, j) over the pairs of classes.
    noise
        How far that of this pair may be below 0 by chance.
    behind
        How many pairs are further below.
    """

    shares: NDArray[np.float64]
    smallest: float
    noise: float
    behind: int


def leads_of(pairs: NDArray[np.int64]) -> Leads:
    """Return the leads in graphs of one kind, and how much of them may be noise.

    Parameters
    ----------
    pairs
        What `theory.two_hop_pairs` returns for each of at least two graphs, [graphs,
        C, C].

    Examples
    --------
    >>> leads_of(np.array([[[1, 3], [3, 5]], [[1, 3], [3, 5]]])).behind
    1
    """
    shares, errors = theory.two_hop_shares(pairs)
    # A class without any pair has no lead; so has a class over itself.
    other = ~np.eye(len(shares), dtype=bool) & ~np.isnan(shares)
    leads = (shares.diagonal()[:, None] - shares)[other]
    noise = student.ppf(1 - LEVEL / len(leads), len(pairs) - 1) * errors[other]
    least = int(leads.argmin())
    return Leads(
        shares,
        float(leads[least]),
        float(noise[least]),
        int((leads < -noise - 1e-12).sum()),
    )


def two_hop_entries(n_graphs: int) -> tuple[list[Entry], Entry, str]:
    """Return tables, figure and a note of Theorem 2, `paper` being P².

    On trees the theorem's assumptions hold exactly; the generator is the one of the
    paper's synthetic graphs (the size of syn-cora), with the theorem's matrix P. The
    first table has the own class and the mean of the others, the second each class
    beside each other, as the theorem has it; its shares are in its field "matrices".
    The note says whether the theorem holds so.

    Parameters
    ----------
    n_graphs
        Random graphs of each kind for each of eleven values of h.
    """
    classes = PRESETS["syn-cora"]["n_classes"]
    grid = [k / 10 for k in range(11)]
    runs: dict[str, list[list[float]]] = {name: [] for name in NAMES}
    exact: dict[str, list[float]] = {name: [] for name in NAMES}
    leads: list[list[Leads]] = []
    for h in grid:
        squared = theory.two_hop_distribution(theory.uniform_compatibility(classes, h))
        drawn = [_draw(h, seed) for seed in range(n_graphs)]
        measured = [
            [theory.measured_two_hop(graph) for graph in pair] for pair in drawn
        ]
        expected = [squared[0, 0], squared[0, 1]] * len(KINDS)
        for k, (name, value) in enumerate(zip(NAMES, expected, strict=True)):
            runs[name].append([values[k // 2][k % 2] for values in measured])
            exact[name].append(float(value))
        counts = [[*map(theory.two_hop_pairs, pair)] for pair in drawn]
        leads.append([leads_of(np.stack(of)) for of in zip(*counts, strict=True)])
    seeds = [f"seed {seed}" for seed in range(n_graphs)]
    rows = [
        row(
            f"h = {h:g}",
            [cell(runs[name][i], paper=exact[name][i], runs=seeds) for name in NAMES],
        )
        for i, h in enumerate(grid)
    ]
    lines = [series(name, grid, runs[name], paper=exact[name]) for name in NAMES]
    ahead = [a - b for a, b in zip(exact[NAMES[0]], exact[NAMES[1]], strict=True)]
    for k, name in enumerate(LEAD):
        smallest = [[of[k].smallest] for of in leads]
        lines.append(series(name, grid, smallest, paper=ahead))
    title = "Theorem 2: labels at distance 2, measured, beside P²"
    tables = [
        table("theorem-2", title, "homophily", NAMES, rows, decimals=4),
        _classes_table(grid, ahead, leads),
    ]
    label = "share of the nodes two hops away"
    drawn_figure = figure("theorem-2", title, "h", label, lines)
    return tables, drawn_figure, _note(grid, leads, n_graphs)


def _classes_table(
    grid: list[float], ahead: list[float], leads: list[list[Leads]]
) -> Entry:
    rows = []
    for h, lead, found in zip(grid, ahead, leads, strict=True):
        cells = [cell([lead])]
        for of in found:
            behind = cell([of.behind], paper=0) | {"mean": of.behind}
            cells += [cell([of.smallest]), cell([of.noise]), behind]
        rows.append(row(f"h = {h:g}", cells))
    title = "Theorem 2: each class beside each other, at distance 2"
    entry = table("theorem-2-classes", title, "homophily", CLASSES, rows, decimals=4)
    matrices = {
        kind: {
            f"h = {h:g}": [
                [None if np.isnan(share) else share for share in line]
                for line in found[k].shares.tolist()
            ]
            for h, found in zip(grid, leads, strict=True)
        }
        for k, kind in enumerate(KINDS)
    }
    return entry | {"matrices": matrices}


def _note(grid: list[float], leads: list[list[Leads]], n_graphs: int) -> str:
    """Say how the leads are to be read, and whether any class is behind another."""
    behind = {kind: [of[k] for of in leads] for k, kind in enumerate(KINDS)}
    beyond = sum(of.behind for found in behind.values() for of in found)
    holds = "no class is behind another beyond the noise, so that the theorem holds"
    if beyond:
        holds = f"{beyond} pairs of classes are the wrong way round beyond the noise"
    below = [
        f"h = {h:g}, {kind} (by {-of.smallest:.4f}; the noise is {of.noise:.4f})"
        for kind, found in behind.items()
        for h, of in zip(grid, found, strict=True)
        if of.smallest < 0
    ]
    least = f"behind at all: {'; '.join(below)}" if below else "none is behind at all"
    return (
        "Theorem 2, class by class: homophily-dominance asks that no class has any "
        "other one more often around it than its own. A lead is the share of the own "
        "class at distance 2 less that of one other; the smallest is of all pairs of "
        "classes. Noise is how far below 0 chance alone may put a lead, in any of the "
        "pairs, in 5 of 100 such rows (the standard error over the graphs, times "
        "Student's t), and behind is how many pairs are further below. In "
        f"{n_graphs} graphs of each kind {holds} in this form ({least}). By P² all "
        "leads are 0 at h = 1/C, and small beside it."
    )


def _draw(homophily: float, seed: int) -> tuple[Graph, Graph]:
    shape = PRESETS["syn-cora"]
    p = theory.uniform_compatibility(shape["n_classes"], homophily)
    tree = theory.broadcast_tree(shape["n_nodes"], p, seed=seed)
    return tree, generate_graph(**shape, compatibility=p, seed=seed)
