"""The experiment "theory": the three theorems in numbers, as tables and figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from h2gcn import theory
from h2gcn._validation import check_choice
from h2gcn.datasets import PRESETS, generate_graph
from h2gcn.experiments.definition import Published
from h2gcn.experiments.results import Cell, Figure, Result, Row, Series, Table
from h2gcn.graph import CSR, Graph

__all__ = ["Leads", "leads_of", "theory_result"]

SAME = 1e-6
"""How near a number found by bisection must come to a closed form."""
GRAPHS = {"quick": 20, "standard": 50, "paper": 200}
"""Random graphs of each kind for each value of h in Theorem 2."""
PAIRS = {"quick": 500, "standard": 5000, "paper": 20000}
"""Random pairs of labelings of each kind in Theorem 3."""

NOTES = (
    "In tables and figures, the number is the one found by trial or measured, and the "
    "paper's is its closed form.",
    "Theorem 1: the layers were fitted by least squares to constructed graphs, and the "
    "edges of a node changed until its class was no longer ahead; where hd or "
    "(1 − h)d/(C − 1) is not a whole number, one edge of each kind has a fractional "
    "weight.",
    "Theorem 1, what the paper leaves out: the aggregated features are singular, not "
    "invertible, where δ = 0; at |δ| two classes are level, so |δ| + 1 whole edges are "
    "needed; and AXW at h = 0 is never flipped by taking edges away, because there are "
    "just δ2 of them.",
    "Theorem 1, the discussion of the plots: over the number of classes, δ keeps "
    "falling after 0 and it is |δ| that rises, and h = 0.1 is not a high homophily; "
    "over the degree, AXW is the more robust layer only from d = 5 on (level at 4).",
    "Theorem 2: on trees whose labels spread from node to node the assumptions hold "
    "exactly, and P² is the expectation. In the generator's graphs they hold only "
    "roughly. The first nodes, which become hubs, had few others to link to and are "
    "less homophilous than h, and many pairs at distance 2 meet through them; and "
    "distance exactly 2 leaves out walks of two steps that end at a neighbour. Under "
    "homophily the own class falls short of P² for that, by less in larger graphs (at "
    "h = 0.8 by 0.043, 0.016 and 0.007 with 1,490, 6,000 and 24,000 nodes; ten graphs "
    "each), and it still leads.",
    "Theorem 2 needs few triangles, which the paper does not say: two cliques of 10 "
    "joined by a perfect matching have h = 0.9, and nobody at distance 2 is of one's "
    "own class.",
    "Theorem 3, slips: sᵀLs is the sum over edges, half of what the paper writes, so "
    "h = 1 − sᵀLs/|E| for labels of 0 and 1; for one-hot labels [Y_t]_v should read "
    "[Y_s]_v. The proof is not touched. It needs no connected graph either.",
    "Theorem 3 says that there is a cut above which the less homophilous labels have "
    "more energy, and no more: most random pairs also have a cut at which the other "
    "one has more, as the table shows. Cuts between equal eigenvalues are left out, "
    "since the energy there depends on the choice of eigenvectors.",
)
"""What must be known to read the numbers, and where the paper's text slips."""

AFTER = 5
"""Where what was found on Theorem 2, class by class, stands among the notes."""


def theory_result(protocol: str) -> Result:
    """Check the three theorems in numbers and return what tables and figures show.

    Every number is found by trial or measured, and the `paper` beside it is the
    closed form.

    Parameters
    ----------
    protocol
        "quick", "standard" or "paper": how many random graphs and pairs are drawn.
    """
    protocol = check_choice("protocol", protocol, GRAPHS)
    two_hop_tables, two_hop_figure, by_class = two_hop_entries(GRAPHS[protocol])
    spectrum_table, spectrum_figures = spectrum_entries(PAIRS[protocol])
    return Result(
        "theory",
        "The three theorems in numbers",
        protocol,
        notes=(*NOTES[:AFTER], by_class, *NOTES[AFTER:]),
        tables=(*robustness_tables(), *two_hop_tables, spectrum_table),
        figures=(*robustness_figures(), two_hop_figure, *spectrum_figures),
    )


# ---------------------------------------------------------------------------- Theorem 1

LAYERS = {"(A+I)XW": True, "AXW": False}
"""The two layers of the theorem, and whether they have self-loops."""
FIXED = {
    "homophily": "d = 20, 5 classes",
    "classes": "h = 0.1, d = 20",
    "degree": "h = 0.1, 5 classes",
}
"""What each of the appendix's plots holds fixed."""
TICKS: dict[str, tuple[float, ...]] = {"classes": (2, 5, 10, 15, 20)}
"""Where the axis would have halves of what is whole."""


def robustness_figures() -> list[Figure]:
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
) -> Figure:
    """Return |δ| of both layers at each (h, d, number of classes)."""
    lines = []
    for layer, loops in LAYERS.items():
        found = [theory.found_perturbation(*case, self_loops=loops) for case in cases]
        needed = [theory.perturbation_needed(*case, self_loops=loops) for case in cases]
        runs, paper = [[abs(amount)] for amount in found], [abs(a) for a in needed]
        lines.append(line(layer, x, runs, paper=paper))
    title = f"Theorem 1: the change that loses a node's class, {FIXED[name]}"
    ticks = TICKS.get(name)
    return _figure(f"theorem-1-{name}", title, label, "|δ|", lines, ticks)


def robustness_tables() -> list[Table]:
    """Return what was found on graphs of whole edges, and the threshold of h."""
    cases = [(k / 5, 20, 5) for k in range(6)]
    cases += [(0.1, 20, c) for c in (2, 3, 4, 7, 10, 19)]
    rows = tuple(
        Row(f"h = {h:g}, d = {d}, {c} classes", tuple(_whole_edges(h, d, c)))
        for h, d, c in cases
    )
    columns = ("|δ1|, (A+I)XW", "|δ2|, AXW", "whole edges, (A+I)XW", "whole edges, AXW")
    title = "Theorem 1: the smallest perturbation, found on graphs of whole edges"
    shapes = [(5, 2), (20, 2), (5, 5), (20, 5), (20, 10), (50, 10)]
    thresholds = tuple(
        Row(f"d = {d}, {c} classes", (_threshold(d, c),)) for d, c in shapes
    )
    return [
        Table("theorem-1", title, columns, rows, corner="graph", decimals=4),
        Table(
            "theorem-1-threshold",
            "Theorem 1: the h below which (A+I)XW is the less robust layer",
            ("h",),
            thresholds,
            corner="graph",
            decimals=6,
        ),
    ]


def _whole_edges(homophily: float, degree: int, n_classes: int) -> list[Cell]:
    """Return |δ| of both layers beside the closed form, and the edges that it takes."""
    adj, y = theory.regular_graph(homophily, degree, n_classes)
    amounts, edges = [], []
    for loops in LAYERS.values():
        weights = theory.fit_layer(adj, y, self_loops=loops)
        found = theory.smallest_perturbation(adj, y, weights, self_loops=loops)
        needed = theory.perturbation_needed(
            homophily, degree, n_classes, self_loops=loops
        )
        amounts.append(checked_cell([abs(found)], paper=abs(needed)))
        flips = theory.edges_to_flip(adj, y, weights, self_loops=loops)
        if flips is None:
            edges.append(
                checked_cell([], note="no number of edges makes another class win")
            )
        else:
            edges.append(
                checked_cell([abs(flips)], note="taken away" if flips > 0 else "added")
            )
    return amounts + edges


def _threshold(degree: int, n_classes: int) -> Cell:
    found = theory.found_threshold(degree, n_classes)
    return checked_cell([found], paper=theory.homophily_threshold(degree, n_classes))


# ---------------------------------------------------------------------------- Theorem 2

GRAPH_KINDS = ("trees", "generator")
"""The graphs that are drawn; on trees the theorem's assumptions hold exactly."""
NAMES = tuple(
    f"{of} class, {kind}" for kind in GRAPH_KINDS for of in ("own", "another")
)
"""What is measured over all classes together."""
LEAD = tuple(f"smallest lead, {kind}" for kind in GRAPH_KINDS)
CLASSES = (
    "lead by P²",
    *(
        f"{of}, {kind}"
        for kind in GRAPH_KINDS
        for of in ("smallest lead", "noise", "behind")
    ),
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


def two_hop_entries(n_graphs: int) -> tuple[list[Table], Figure, str]:
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
        expected = [squared[0, 0], squared[0, 1]] * len(GRAPH_KINDS)
        for k, (name, value) in enumerate(zip(NAMES, expected, strict=True)):
            runs[name].append([values[k // 2][k % 2] for values in measured])
            exact[name].append(float(value))
        counts = [[*map(theory.two_hop_pairs, pair)] for pair in drawn]
        leads.append([leads_of(np.stack(of)) for of in zip(*counts, strict=True)])
    seeds = [f"seed {seed}" for seed in range(n_graphs)]
    rows = tuple(
        Row(
            f"h = {h:g}",
            tuple(
                checked_cell(runs[name][i], paper=exact[name][i], runs=seeds)
                for name in NAMES
            ),
        )
        for i, h in enumerate(grid)
    )
    lines = [line(name, grid, runs[name], paper=exact[name]) for name in NAMES]
    ahead = [a - b for a, b in zip(exact[NAMES[0]], exact[NAMES[1]], strict=True)]
    for k, name in enumerate(LEAD):
        smallest = [[of[k].smallest] for of in leads]
        lines.append(line(name, grid, smallest, paper=ahead))
    title = "Theorem 2: labels at distance 2, measured, beside P²"
    tables = [
        Table("theorem-2", title, NAMES, rows, corner="homophily", decimals=4),
        _classes_table(grid, ahead, leads),
    ]
    label = "share of the nodes two hops away"
    drawn_figure = _figure("theorem-2", title, "h", label, lines)
    return tables, drawn_figure, _note(grid, leads, n_graphs)


def _classes_table(
    grid: list[float], ahead: list[float], leads: list[list[Leads]]
) -> Table:
    rows = []
    for h, lead, found in zip(grid, ahead, leads, strict=True):
        cells = [checked_cell([lead])]
        for of in found:
            behind = replace(checked_cell([of.behind], paper=0), mean=of.behind)
            cells += [checked_cell([of.smallest]), checked_cell([of.noise]), behind]
        rows.append(Row(f"h = {h:g}", tuple(cells)))
    title = "Theorem 2: each class beside each other, at distance 2"
    matrices = {
        kind: {
            f"h = {h:g}": [
                [None if np.isnan(share) else share for share in line]
                for line in found[k].shares.tolist()
            ]
            for h, found in zip(grid, leads, strict=True)
        }
        for k, kind in enumerate(GRAPH_KINDS)
    }
    return Table(
        "theorem-2-classes",
        title,
        CLASSES,
        tuple(rows),
        corner="homophily",
        decimals=4,
        matrices=matrices,
    )


def _note(grid: list[float], leads: list[list[Leads]], n_graphs: int) -> str:
    """Say how the leads are to be read, and whether any class is behind another."""
    behind = {kind: [of[k] for of in leads] for k, kind in enumerate(GRAPH_KINDS)}
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


# ---------------------------------------------------------------------------- Theorem 3

KINDS = {"labels of 0 and 1": 2, "one-hot labels": 5}
"""The theorem and its extension, with the number of classes each is shown with."""
N_NODES = 600
POINTS = 101


def spectrum_entries(n_pairs: int) -> tuple[Table, list[Figure]]:
    """Return the table of random pairs of labelings, and a figure for each kind.

    Parameters
    ----------
    n_pairs
        Pairs of random labelings of random graphs, for each kind of labels.
    """
    columns = ("above some cut", "above every cut", "t has more above some cut")
    rows, figures = [], []
    for kind, classes in KINDS.items():
        flags = np.array([_random_pair(classes, seed) for seed in range(n_pairs)])
        shares = 100 * flags.mean(axis=0)
        note = f"{n_pairs:,} pairs"
        cells = [checked_cell([shares[0]], paper=100.0, note=note)]
        cells += [checked_cell([share], note=note) for share in shares[1:]]
        rows.append(Row(kind, tuple(cells)))
        figures.append(_two_labelings(kind, classes))
    title = "Theorem 3: random labelings with h_s < h_t, where s has the higher energy"
    table = Table(
        "theorem-3", title, columns, tuple(rows), corner="labels", decimals=1, unit="%"
    )
    return table, figures


def _random_pair(classes: int, seed: int) -> tuple[bool, bool, bool]:
    """Compare two random labelings of a random graph at all its distinct cuts.

    Returns whether s, the less homophilous one, has more energy above some cut, above
    all of them, and whether t has more above some cut.
    """
    rng = np.random.default_rng([classes, seed])
    while True:
        n = rng.integers(4, 25)
        upper = np.triu(rng.random((n, n)) < rng.uniform(0.1, 0.9), 1)
        adj = CSR((upper | upper.T).astype(np.float32))
        y = rng.integers(classes, size=(2, n))
        s, t = (_signal(labels, classes) for labels in y)
        if not adj.nnz:
            continue
        gap = theory.smoothness(adj, s) - theory.smoothness(adj, t)
        if abs(gap) > 0.5:  # Smoothness is a whole number: anything less is equality.
            break
    if gap < 0:
        s, t = t, s
    more = theory.higher_energy_cuts(adj, s, t)
    less = theory.higher_energy_cuts(adj, t, s)
    cuts = theory.distinct_cuts(theory.energy_above_cuts(adj)[0])
    return len(more) > 0, len(more) == len(cuts), len(less) > 0


def _two_labelings(kind: str, classes: int) -> Figure:
    """Return the energies of a heterophilous and a homophilous labeling of one graph.

    A node has two labels, and its class for the generator is the pair of them. Links
    lead to an equal first label with probability 0.1 and, whatever that is, to an
    equal second label with probability 0.9.
    """
    first, second = (theory.uniform_compatibility(classes, h) for h in (0.1, 0.9))
    graph = generate_graph(
        n_nodes=N_NODES,
        n_classes=classes**2,
        edges_per_node=2,
        compatibility=np.kron(first, second),
    )
    signals = [_signal(labels, classes) for labels in np.divmod(graph.y, classes)]
    values, energies = theory.energy_above_cuts(graph.adj, *signals)
    cuts = theory.distinct_cuts(values)
    shown = cuts[np.linspace(0, len(cuts) - 1, POINTS).astype(int)]
    lines = [
        line(
            f"h = {theory.homophily_of_signal(graph.adj, signal):.2f}",
            shown,
            [[share] for share in energy[shown] / N_NODES],
        )
        for signal, energy in zip(signals, energies, strict=True)
    ]
    name = "theorem-3-one-hot" if classes > 2 else "theorem-3"
    return _figure(
        name,
        f"Theorem 3: energy of two labelings of one graph, {kind}",
        "cut M: eigenvalues of the Laplacian below it",
        "energy above the cut, per node",
        lines,
    )


def _signal(labels: NDArray[np.int64], classes: int) -> theory.Signal:
    """Return two classes as 0 and 1, [n], more of them as one-hot rows, [n, C]."""
    return np.eye(classes)[labels] if classes > 2 else labels


# ----------------------------------------------------------------- what all of them use


def checked_cell(
    values: Sequence[float],
    *,
    paper: float | None = None,
    runs: Sequence[str] = (),
    note: str = "",
) -> Cell:
    """Return the mean of what was measured beside the paper's closed form.

    The verdict is "within" where the two differ by at most one standard deviation
    over the runs; by rounding at most, where there is a single value.

    Examples
    --------
    >>> cell = checked_cell([0.5, 0.7], paper=0.5)
    >>> round(cell.difference, 6), cell.verdict
    (0.1, 'within')
    """
    mean = float(np.mean(values)) if len(values) else None
    std = float(np.std(values, ddof=1)) if len(values) > 1 else None
    difference = None if mean is None or paper is None else mean - paper
    verdict = "none"
    if difference is not None:
        verdict = "within" if abs(difference) <= max(std or 0, SAME) else "worse"
    return Cell(
        mean,
        std,
        len(values),
        tuple(float(value) for value in values),
        tuple(runs),
        None if paper is None else Published(paper, None),
        verdict,
        difference,
        note=note,
    )


def line(
    name: str,
    x: Iterable[float],
    runs: Sequence[Sequence[float]],
    *,
    paper: Sequence[float] | None = None,
) -> Series:
    """Return a line of a figure: at each x the mean over its runs.

    Examples
    --------
    >>> drawn = line("measured", [0.1, 0.2], [[1, 3], [2, 4]])
    >>> drawn.mean, [round(std, 3) for std in drawn.std]
    ((2.0, 3.0), [1.414, 1.414])
    """
    several = len(runs[0]) > 1
    return Series(
        name,
        tuple(float(value) for value in x),
        tuple(float(np.mean(values)) for values in runs),
        tuple(float(np.std(v, ddof=1)) for v in runs) if several else None,
        tuple([float(v) for v in values] for values in runs) if several else None,
        None if paper is None else tuple(float(value) for value in paper),
    )


def _figure(
    name: str,
    title: str,
    x_label: str,
    y_label: str,
    lines: Iterable[Series],
    ticks: tuple[float, ...] | None = None,
) -> Figure:
    return Figure(name, title, x_label, y_label, tuple(lines), ticks, kind="lines")
