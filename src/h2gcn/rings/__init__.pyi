from .blocked import BlockedRing as BlockedRing
from .exact import (
    exact_rings as exact_rings,
    normalise as normalise,
    normalise_directed as normalise_directed,
    ring_rows as ring_rows,
)
from .footprint import (
    TRAIN as TRAIN,
    VAL as VAL,
    RingForecast as RingForecast,
    RingOptions as RingOptions,
    Work as Work,
    forecast_ring as forecast_ring,
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
