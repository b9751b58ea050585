from .ranks import ranks_table as ranks_table
from .selection import (
    Choices as Choices,
    NotRun as NotRun,
    choose as choose,
    final_runs as final_runs,
    selection_runs as selection_runs,
)
from .statistics import (
    real_statistics as real_statistics,
    synthetic_statistics as synthetic_statistics,
)
