from .advice import CAPS as CAPS, Needs as Needs
from .blocked import BlockedRing as BlockedRing
from .exact import (
    exact_rings as exact_rings,
    normalise as normalise,
    normalise_directed as normalise_directed,
    ring_rows as ring_rows,
)
from .footprint import RingOptions as RingOptions, Work as Work
from .forecast import (
    TRAIN as TRAIN,
    VAL as VAL,
    RingForecast as RingForecast,
    forecast_ring as forecast_ring,
)
from .plan import (
    CAPPED as CAPPED,
    DISK as DISK,
    MEMORY as MEMORY,
    ON_DEMAND as ON_DEMAND,
    RingPlan as RingPlan,
    build_rings as build_rings,
    check_memory as check_memory,
    plan_rings as plan_rings,
)
