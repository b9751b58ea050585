"""Theorem 3: labels that differ along edges have energy at high frequencies.

**Statement.** s and t are two labelings of one undirected graph, as vectors of 0 and 1
or as one-hot rows, with edge homophily h_s < h_t. With the eigenvectors v_i of the
Laplacian L = D − A, in the order of their eigenvalues λ_0 ≤ λ_1 ≤ …, and c_i = sᵀv_i,
there is a cut M > 0 such that s has more energy above it:

    Σ_{i ≥ M} c_{s,i}² > Σ_{i ≥ M} c_{t,i}²   (summed over channels for one-hot rows).

It follows from sᵀLs = Σ_M (λ_M − λ_{M−1})·E_s(M), with E_s(M) the energy above M.

**The paper's slips.** sᵀLs is the sum of (s_u − s_v)² over edges; the paper sums over
ordered pairs, twice that. So h = 1 − sᵀLs/|E| for 0/1 labels, not 1 − sᵀLs/(2|E|),
and h = 1 − tr(YᵀLY)/(2|E|) for one-hot rows; in the latter's formula [Y_t]_v should be
[Y_s]_v. The order of h_s and h_t, and with it the proof, is not touched.
λ_0 < λ_1 means a connected graph; the proof does not need it.

**What it does not say.** One cut is enough for the definition, so each of two
labelings may have "higher energy" than the other, at different cuts; and a higher
energy at some cut does not imply the lower homophily. Between equal eigenvalues the
energy depends on the choice of eigenvectors; the proof's M always lies where two
differ (`distinct_cuts`). The text's reading, that heterophilous labels hold more at
high frequencies than at low ones, compares two parts of one signal: not the theorem.
"""

import numpy as np
from numpy.typing import NDArray

from h2gcn.graph import CSR

__all__ = [
    "Signal",
    "distinct_cuts",
    "energy_above_cuts",
    "higher_energy_cuts",
    "homophily_of_signal",
    "laplacian",
    "one_hot",
    "smoothness",
]

Signal = NDArray[np.float64] | NDArray[np.int64]
"""Values of 0 and 1 at nodes, [n], or one-hot rows, [n, C]."""


def laplacian(adj: CSR) -> NDArray[np.float64]:
    """Return L = D − A as a dense matrix, [n, n].

    Examples
    --------
    >>> laplacian(CSR([[0, 1], [1, 0]]))
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    dense = adj.toarray().astype(np.float64)
    return np.asarray(np.diag(dense.sum(axis=1)) - dense)


def one_hot(y: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return labels as one-hot rows, [n, C].

    Examples
    --------
    >>> one_hot(np.array([1, 0]))
    array([[0., 1.],
           [1., 0.]])
    """
    return np.asarray(np.eye(int(y.max()) + 1)[y])


def smoothness(adj: CSR, signal: Signal) -> float:
    """Return sᵀLs, the sum over edges of (s_u − s_v)², added up over channels.

    Examples
    --------
    >>> smoothness(CSR([[0, 1], [1, 0]]), np.array([0, 1]))
    1.0
    """
    return float((signal * (laplacian(adj) @ signal)).sum())


def homophily_of_signal(adj: CSR, signal: Signal) -> float:
    """Return the edge homophily of a labeling from its smoothness.

    1 − sᵀLs/|E| for labels of 0 and 1, 1 − tr(YᵀLY)/(2|E|) for one-hot rows, where
    an edge between two classes shows in two channels.

    Examples
    --------
    >>> path = CSR([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> homophily_of_signal(path, np.array([0, 0, 1]))
    0.5
    """
    ends = adj.nnz if signal.ndim == 2 else adj.nnz / 2
    return 1 - smoothness(adj, signal) / ends


def energy_above_cuts(
    adj: CSR, *signals: Signal
) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
    """Return the spectrum, and each signal's energy above every cut of it.

    Parameters
    ----------
    adj
        Adjacency matrix, [n, n].
    *signals
        One or more signals on its nodes.

    Returns
    -------
    eigenvalues : ndarray
        λ_0 ≤ λ_1 ≤ …, [n].
    energies : list of ndarray
        For each signal, E(M) = Σ_{i ≥ M} c_i² for M = 0, …, n − 1, [n].

    Examples
    --------
    >>> values, (energy,) = energy_above_cuts(CSR([[0, 1], [1, 0]]), np.array([0, 1]))
    >>> values.round(6), energy.round(6)
    (array([0., 2.]), array([1. , 0.5]))
    """
    values, vectors = np.linalg.eigh(laplacian(adj))
    energies = []
    for signal in signals:
        coefficients = vectors.T @ signal.reshape(len(signal), -1)
        power = (coefficients**2).sum(axis=1)
        energies.append(np.cumsum(power[::-1])[::-1])
    return values, energies


def distinct_cuts(eigenvalues: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the cuts M > 0 with λ_{M−1} < λ_M: those that no choice of basis moves.

    Examples
    --------
    >>> distinct_cuts(np.array([0.0, 3.0, 3.0, 5.0]))
    array([1, 3])
    """
    gap = 1e-9 * max(1.0, float(eigenvalues[-1]))
    return np.flatnonzero(np.diff(eigenvalues) > gap) + 1


def higher_energy_cuts(adj: CSR, s: Signal, t: Signal) -> NDArray[np.int64]:
    """Return the distinct cuts above which s has more energy than t.

    Theorem 3: not empty where the homophily of s is below that of t.

    Examples
    --------
    >>> path = CSR([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> higher_energy_cuts(path, np.array([0, 1, 0]), np.array([0, 0, 1]))
    array([2])
    """
    values, (above_s, above_t) = energy_above_cuts(adj, s, t)
    cuts = distinct_cuts(values)
    # Energies are sums of squares of at most n; what differs less is rounding.
    return cuts[above_s[cuts] > above_t[cuts] + 1e-9]
