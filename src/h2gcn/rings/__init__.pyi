from .neighbors import (
    ComputedOperator as ComputedOperator,
    NeighborIndex as NeighborIndex,
    distinct as distinct,
)
from .plan import (
    CAPPED as CAPPED,
    CAPS as CAPS,
    IN_MEMORY as IN_MEMORY,
    LARGE_BYTES as LARGE_BYTES,
    MAX_NEIGHBORS as MAX_NEIGHBORS,
    ON_DEMAND as ON_DEMAND,
    SLACK as SLACK,
    TRAIN_FRACTION as TRAIN_FRACTION,
    VAL_FRACTION as VAL_FRACTION,
    MemoryLimitError as MemoryLimitError,
    RingForecast as RingForecast,
    RingOptions as RingOptions,
    RingPlan as RingPlan,
    Workload as Workload,
    auto_max_neighbors as auto_max_neighbors,
    build_rings as build_rings,
    check_memory as check_memory,
    forecast_rings as forecast_rings,
    operator_bytes as operator_bytes,
    plan_rings as plan_rings,
    training_bytes as training_bytes,
)
from .rings import (
    exact_rings as exact_rings,
    inverse_sqrt as inverse_sqrt,
    is_weighted as is_weighted,
    iter_ring as iter_ring,
    narrow as narrow,
    normalise as normalise,
    ring_rows as ring_rows,
    ring_sizes as ring_sizes,
)
from .rules import RowRule as RowRule, build_matrices as build_matrices
