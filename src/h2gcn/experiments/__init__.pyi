from .definition import (
    EXPERIMENTS as EXPERIMENTS,
    REAL as REAL,
    TO_THE_END as TO_THE_END,
    Protocol as Protocol,
    Setting as Setting,
    classifier_of as classifier_of,
    find_benchmarks as find_benchmarks,
    find_experiments as find_experiments,
    find_grid as find_grid,
    find_preset as find_preset,
    find_protocol as find_protocol,
    flatten as flatten,
    published as published,
)
from .display import (
    RUNS as RUNS,
    check_protocol as check_protocol,
    count_cells as count_cells,
    read_results as read_results,
    render_html as render_html,
    show as show,
    summary_line as summary_line,
    why_no_figures as why_no_figures,
    write_result as write_result,
)
from .driver import (
    check_records as check_records,
    environment as environment,
    reproduce as reproduce,
    stored_result as stored_result,
)
from .frontier import (
    BENCHMARKS as BENCHMARKS,
    FRONTIER as FRONTIER,
    OneAfterAnother as OneAfterAnother,
    check_splits as check_splits,
    frontier_result as frontier_result,
    measure as measure,
    on_hand as on_hand,
    plain_scores as plain_scores,
    plan_splits as plan_splits,
)
from .results import (
    Cell as Cell,
    Figure as Figure,
    Result as Result,
    Row as Row,
    Series as Series,
    Table as Table,
)
from .running import (
    Event as Event,
    LocalPool as LocalPool,
    Pool as Pool,
    RayPool as RayPool,
    Run as Run,
    Store as Store,
    read_records as read_records,
    run_plan as run_plan,
)
from .tuning import (
    Ranked as Ranked,
    TuneProgress as TuneProgress,
    check_optuna as check_optuna,
    distinct as distinct,
    search as search,
    tune as tune,
    without_test as without_test,
)
