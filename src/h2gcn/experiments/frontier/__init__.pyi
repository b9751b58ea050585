from .measuring import (
    BENCHMARKS as BENCHMARKS,
    FRONTIER as FRONTIER,
    PLAIN as PLAIN,
    OneAfterAnother as OneAfterAnother,
    measure as measure,
    on_hand as on_hand,
    plain_scores as plain_scores,
    plan_splits as plan_splits,
)
from .summary import check_splits as check_splits, frontier_result as frontier_result
