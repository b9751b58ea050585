from .blocked import BlockedRing as BlockedRing
from .exact import (
    drawn_pattern as drawn_pattern,
    exact_rings as exact_rings,
    in_threads as in_threads,
    is_weighted as is_weighted,
    narrow as narrow,
    normalise as normalise,
    normalise_directed as normalise_directed,
    ring_blocks as ring_blocks,
    ring_rows as ring_rows,
    ring_sizes as ring_sizes,
    row_starts as row_starts,
    sampled_ring as sampled_ring,
)
from .footprint import (
    RING_CAP as RING_CAP,
    TRAIN as TRAIN,
    VAL as VAL,
    RingForecast as RingForecast,
    RingOptions as RingOptions,
    Work as Work,
    automatic_cap as automatic_cap,
    cap_words as cap_words,
    forecast_ring as forecast_ring,
    forecast_seconds as forecast_seconds,
    in_words as in_words,
    is_long as is_long,
)
from .plan import (
    CAPPED as CAPPED,
    CAPS as CAPS,
    DISK as DISK,
    MEMORY as MEMORY,
    ON_DEMAND as ON_DEMAND,
    Needs as Needs,
    RingPlan as RingPlan,
    build_rings as build_rings,
    check_memory as check_memory,
    plan_rings as plan_rings,
)
from .vicinity import (
    RowOperator as RowOperator,
    RowRule as RowRule,
    Vicinity as Vicinity,
)
