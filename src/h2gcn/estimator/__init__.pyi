from .automatic import AUTO as AUTO, member_params as member_params
from .calibration import (
    Calibration as Calibration,
    aps_scores as aps_scores,
    coverage_range as coverage_range,
    coverage_words as coverage_words,
    draws as draws,
    prediction_sets as prediction_sets,
    quantile as quantile,
)
from .checks import (
    CheckedFit as CheckedFit,
    check_fit as check_fit,
    check_labels as check_labels,
    check_split as check_split,
    estimate_work as estimate_work,
    resolve_device as resolve_device,
    resolve_seed as resolve_seed,
    resolve_split as resolve_split,
)
from .classifier import (
    NodeClassifier as NodeClassifier,
    check_types as check_types,
    load_bundle as load_bundle,
    save_bundle as save_bundle,
)
from .decisions import (
    DECISIONS as DECISIONS,
    DecisionRule as DecisionRule,
    choose_decision as choose_decision,
)
from .inputs import (
    Scaler as Scaler,
    align_features as align_features,
    choose_scaling as choose_scaling,
    input_width as input_width,
    other_scalings as other_scalings,
    table_schema as table_schema,
    translate_labels as translate_labels,
)
from .known_labels import KnownLabels as KnownLabels
from .operators import (
    build_operators as build_operators,
    plan_operators as plan_operators,
)
from .parameters import (
    blank_module as blank_module,
    check_batches as check_batches,
    check_rings as check_rings,
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
    read_manifest as read_manifest,
)
