from .measuring import OneAfterAnother as OneAfterAnother, measure as measure
from .plain_tables import PLAIN as PLAIN, plain_scores as plain_scores
from .planning import (
    BENCHMARKS as BENCHMARKS,
    FRONTIER as FRONTIER,
    on_hand as on_hand,
    plan_splits as plan_splits,
)
from .summary import check_splits as check_splits, frontier_result as frontier_result
