from .perturbation import (
    edges_to_flip as edges_to_flip,
    fit_layer as fit_layer,
    found_perturbation as found_perturbation,
    found_threshold as found_threshold,
    homophily_threshold as homophily_threshold,
    optimal_weights as optimal_weights,
    perturbation_needed as perturbation_needed,
    regular_graph as regular_graph,
    smallest_perturbation as smallest_perturbation,
)
from .spectrum import (
    Signal as Signal,
    distinct_cuts as distinct_cuts,
    energy_above_cuts as energy_above_cuts,
    higher_energy_cuts as higher_energy_cuts,
    homophily_of_signal as homophily_of_signal,
    laplacian as laplacian,
    one_hot as one_hot,
    smoothness as smoothness,
)
from .two_hop import (
    block_model_two_hop as block_model_two_hop,
    broadcast_tree as broadcast_tree,
    is_homophily_dominant as is_homophily_dominant,
    measured_two_hop as measured_two_hop,
    two_hop_distribution as two_hop_distribution,
    two_hop_pairs as two_hop_pairs,
    two_hop_shares as two_hop_shares,
    uniform_compatibility as uniform_compatibility,
)
