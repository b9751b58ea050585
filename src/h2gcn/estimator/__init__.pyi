from .automatic import AUTO as AUTO, member_params as member_params
from .calibration import Calibration as Calibration
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
    load_bundle as load_bundle,
    save_bundle as save_bundle,
)
from .conformal import (
    aps_scores as aps_scores,
    coverage_range as coverage_range,
    coverage_words as coverage_words,
    draws as draws,
    prediction_sets as prediction_sets,
    quantile as quantile,
)
from .decisions import (
    DECISIONS as DECISIONS,
    DecisionRule as DecisionRule,
    choose_decision as choose_decision,
)
from .inputs import (
    align_features as align_features,
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
    Judgement as Judgement,
    evaluate as evaluate,
    mean_and_deviation as mean_and_deviation,
    probabilities as probabilities,
)
from .probability_scores import (
    GroupCalibration as GroupCalibration,
    ProbabilityScores as ProbabilityScores,
)
from .quick import quick_fit as quick_fit
from .saved_model import (
    check_target as check_target,
    holds_model as holds_model,
    read_manifest as read_manifest,
)
from .scaling import (
    Scaler as Scaler,
    choose_scaling as choose_scaling,
    other_scalings as other_scalings,
)
from .tables import input_width as input_width, table_schema as table_schema
