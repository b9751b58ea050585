from .connection import (
    ATTEMPTS as ATTEMPTS,
    ENVIRONMENT as ENVIRONMENT,
    Cluster as Cluster,
    Machine as Machine,
    check_place as check_place,
    workers_that_fit as workers_that_fit,
)
from .training import (
    Spread as Spread,
    fit_over_workers as fit_over_workers,
)
