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
from .driver import (
    check_records as check_records,
    environment as environment,
    reproduce as reproduce,
    stored_result as stored_result,
)
from .figures import digest as digest, draw as draw, why_no_figures as why_no_figures
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
from .pools import (
    Event as Event,
    LocalPool as LocalPool,
    Pool as Pool,
    RayPool as RayPool,
    run_plan as run_plan,
)
from .report import (
    RUNS as RUNS,
    check_protocol as check_protocol,
    count_cells as count_cells,
    is_results_page as is_results_page,
    read_result as read_result,
    read_results as read_results,
    render_html as render_html,
    summary_line as summary_line,
    write_result as write_result,
)
from .results import (
    Cell as Cell,
    Figure as Figure,
    Result as Result,
    Row as Row,
    Series as Series,
    Table as Table,
)
from .runs import Run as Run, Store as Store, read_records as read_records
from .tables import (
    category as category,
    markdown_grid as markdown_grid,
    ours as ours,
    show as show,
    verdict as verdict,
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
