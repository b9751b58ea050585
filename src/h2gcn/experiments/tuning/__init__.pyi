from .searching import (
    check_optuna as check_optuna,
    distinct as distinct,
    search as search,
    tune as tune,
)
from .trials import (
    Ranked as Ranked,
    TuneProgress as TuneProgress,
    rank as rank,
    sum_up as sum_up,
    without_test as without_test,
)
