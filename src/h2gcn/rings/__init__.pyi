from .neighbors import NeighborIndex as NeighborIndex
from .plan import (
    CAPS as CAPS,
    LARGE_BYTES as LARGE_BYTES,
    MAX_NEIGHBORS as MAX_NEIGHBORS,
    MemoryLimitError as MemoryLimitError,
    RingForecast as RingForecast,
    RingOptions as RingOptions,
    RingPlan as RingPlan,
    Workload as Workload,
    auto_max_neighbors as auto_max_neighbors,
    build_rings as build_rings,
    check_memory as check_memory,
    forecast_rings as forecast_rings,
    plan_rings as plan_rings,
    training_bytes as training_bytes,
    usual_bytes as usual_bytes,
)
from .rings import (
    exact_rings as exact_rings,
    is_weighted as is_weighted,
    iter_ring as iter_ring,
    ring_rows as ring_rows,
    ring_sizes as ring_sizes,
    row_blocks as row_blocks,
)
from .rules import (
    ComputedOperator as ComputedOperator,
    RowRule as RowRule,
    build_matrices as build_matrices,
)
