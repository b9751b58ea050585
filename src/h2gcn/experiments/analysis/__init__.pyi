from .cells import (
    Choices as Choices,
    NotRun as NotRun,
    Records as Records,
    Reported as Reported,
    choose as choose,
    final_runs as final_runs,
    lead as lead,
    pairs as pairs,
    selection_runs as selection_runs,
)
from .degrees import degree_result as degree_result
from .tables import (
    GROUPS as GROUPS,
    accuracy_table as accuracy_table,
    average_ranks as average_ranks,
    line_figures as line_figures,
    ranks_table as ranks_table,
    real_statistics as real_statistics,
    synthetic_statistics as synthetic_statistics,
)
