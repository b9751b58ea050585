"""The three theorems of the paper, checked in numbers: one theorem a module.

Theorem 1 is `perturbation` (closed forms), `regular` and `flipping` (found by trial),
Theorem 2 `two_hop`, Theorem 3 `spectrum`. Each module begins with the statement, and
with what it needs besides to be true in numbers.
"""

from h2gcn.theory.flipping import (
    edges_to_flip,
    fit_layer,
    found_perturbation,
    found_threshold,
    smallest_perturbation,
)
from h2gcn.theory.perturbation import (
    homophily_threshold,
    optimal_weights,
    perturbation_needed,
)
from h2gcn.theory.regular import regular_graph
from h2gcn.theory.spectrum import (
    Signal,
    distinct_cuts,
    energy_above_cuts,
    higher_energy_cuts,
    homophily_of_signal,
    laplacian,
    one_hot,
    smoothness,
)
from h2gcn.theory.two_hop import (
    block_model_two_hop,
    broadcast_tree,
    is_homophily_dominant,
    measured_two_hop,
    two_hop_distribution,
    uniform_compatibility,
)

__all__ = [
    "Signal",
    "block_model_two_hop",
    "broadcast_tree",
    "distinct_cuts",
    "edges_to_flip",
    "energy_above_cuts",
    "fit_layer",
    "found_perturbation",
    "found_threshold",
    "higher_energy_cuts",
    "homophily_of_signal",
    "homophily_threshold",
    "is_homophily_dominant",
    "laplacian",
    "measured_two_hop",
    "one_hot",
    "optimal_weights",
    "perturbation_needed",
    "regular_graph",
    "smallest_perturbation",
    "smoothness",
    "two_hop_distribution",
    "uniform_compatibility",
]
