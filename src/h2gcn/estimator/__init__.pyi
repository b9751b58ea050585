from .automatic import member_params as member_params
from .classifier import (
    NodeClassifier as NodeClassifier,
    check_types as check_types,
    load_bundle as load_bundle,
    save_bundle as save_bundle,
)
from .cross_validation import (
    CrossValidation as CrossValidation,
    FoldScores as FoldScores,
    cross_validate as cross_validate,
)
from .evaluation import (
    ClassScores as ClassScores,
    Estimate as Estimate,
    GroupScores as GroupScores,
    ScoreCard as ScoreCard,
    SetCoverage as SetCoverage,
    TimeScores as TimeScores,
    class_rows as class_rows,
    group_rows as group_rows,
    is_balanced as is_balanced,
    render_scores as render_scores,
    score_lines as score_lines,
    score_rows as score_rows,
    set_line as set_line,
)
from .explaining import (
    Explanation as Explanation,
    Importance as Importance,
    ImportanceRow as ImportanceRow,
    MemberReasons as MemberReasons,
    Term as Term,
    find_node as find_node,
    together as together,
)
from .inputs import (
    BuildsTables as BuildsTables,
    Drawn as Drawn,
    KnownLabels as KnownLabels,
    Scaler as Scaler,
    SomeFeatures as SomeFeatures,
    align_features as align_features,
    choose_scaling as choose_scaling,
    feature_builder as feature_builder,
    other_scalings as other_scalings,
    scaling_key as scaling_key,
    table_schema as table_schema,
    tables_by as tables_by,
    translate_labels as translate_labels,
)
from .operators import (
    build_operators as build_operators,
    estimate_distributed as estimate_distributed,
    plan_operators as plan_operators,
)
from .outputs import (
    DECISIONS as DECISIONS,
    Calibration as Calibration,
    DecisionRule as DecisionRule,
    aps_scores as aps_scores,
    choose_decision as choose_decision,
    coverage_range as coverage_range,
    coverage_words as coverage_words,
    draws as draws,
    prediction_sets as prediction_sets,
    quantile as quantile,
)
from .parameters import (
    AUTO as AUTO,
    CheckedFit as CheckedFit,
    blank_module as blank_module,
    check_batches as check_batches,
    check_distributed as check_distributed,
    check_fit as check_fit,
    check_labels as check_labels,
    check_rings as check_rings,
    check_split as check_split,
    estimate_work as estimate_work,
    fit_options as fit_options,
    input_width as input_width,
    resolve_cap as resolve_cap,
    resolve_device as resolve_device,
    resolve_params as resolve_params,
    resolve_seed as resolve_seed,
    resolve_split as resolve_split,
    without_findings as without_findings,
)
from .prediction import (
    Evaluation as Evaluation,
    GroupCalibration as GroupCalibration,
    Judgement as Judgement,
    ProbabilityScores as ProbabilityScores,
    evaluate as evaluate,
    mean_and_deviation as mean_and_deviation,
    probabilities as probabilities,
)
from .quick import quick_fit as quick_fit
from .saved_model import (
    check_target as check_target,
    holds_model as holds_model,
    is_taken as is_taken,
    read_manifest as read_manifest,
)
from .showing import (
    contest_bar as contest_bar,
    epoch_bar as epoch_bar,
    live_bar as live_bar,
)
