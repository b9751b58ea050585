from .searching import (
    check_optuna as check_optuna,
    distinct as distinct,
    search as search,
    tune as tune,
)
from .trials import Progress as Progress, Ranked as Ranked, without_test as without_test
