"""Theorem 3 as a table and figures: energy above the cuts of the spectrum."""

import numpy as np
from numpy.typing import NDArray

from h2gcn import theory
from h2gcn.datasets import generate_graph
from h2gcn.experiments.theory.entries import Entry, cell, figure, row, series, table
from h2gcn.graph import CSR

__all__ = ["spectrum_entries"]

KINDS = {"labels of 0 and 1": 2, "one-hot labels": 5}
"""The theorem and its extension, with the number of classes each is shown with."""
N_NODES = 600
POINTS = 101


def spectrum_entries(n_pairs: int) -> tuple[Entry, list[Entry]]:
    """Return the table of random pairs of labelings, and a figure for each kind.

    Parameters
    ----------
    n_pairs
        Pairs of random labelings of random graphs, for each kind of labels.
    """
    columns = ["above some cut", "above every cut", "t has more above some cut"]
    rows, figures = [], []
    for kind, classes in KINDS.items():
        flags = np.array([_random_pair(classes, seed) for seed in range(n_pairs)])
        shares = 100 * flags.mean(axis=0)
        note = f"{n_pairs:,} pairs"
        cells = [cell([shares[0]], paper=100.0, note=note)]
        cells += [cell([share], note=note) for share in shares[1:]]
        rows.append(row(kind, cells))
        figures.append(_two_labelings(kind, classes))
    title = "Theorem 3: random labelings with h_s < h_t, where s has the higher energy"
    return (
        table("theorem-3", title, "labels", columns, rows, decimals=1, unit="%"),
        figures,
    )


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


def _two_labelings(kind: str, classes: int) -> Entry:
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
        series(
            f"h = {theory.homophily_of_signal(graph.adj, signal):.2f}",
            shown,
            [[share] for share in energy[shown] / N_NODES],
        )
        for signal, energy in zip(signals, energies, strict=True)
    ]
    name = "theorem-3-one-hot" if classes > 2 else "theorem-3"
    return figure(
        name,
        f"Theorem 3: energy of two labelings of one graph, {kind}",
        "cut M: eigenvalues of the Laplacian below it",
        "energy above the cut, per node",
        lines,
    )


def _signal(labels: NDArray[np.int64], classes: int) -> theory.Signal:
    """Return two classes as 0 and 1, [n], more of them as one-hot rows, [n, C]."""
    return np.eye(classes)[labels] if classes > 2 else labels
