from .by_ring import (
    DirectionShare as DirectionShare,
    RingShare as RingShare,
    direction_shares as direction_shares,
    ring_shares as ring_shares,
    walk_ends as walk_ends,
)
from .measures import (
    DegreeRange as DegreeRange,
    adjusted_homophily as adjusted_homophily,
    class_homophily as class_homophily,
    class_insensitive_homophily as class_insensitive_homophily,
    compatibility_matrix as compatibility_matrix,
    degree_homophily as degree_homophily,
    edge_ends as edge_ends,
    edge_homophily as edge_homophily,
    graph_card as graph_card,
    homophily_with_loops as homophily_with_loops,
    informativeness_by_chance as informativeness_by_chance,
    informativeness_of as informativeness_of,
    label_informativeness as label_informativeness,
    node_homophily as node_homophily,
    ring_homophily as ring_homophily,
)
