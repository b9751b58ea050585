from .checks import (
    check_labels as check_labels,
    check_split as check_split,
    find_device as find_device,
    find_seed as find_seed,
    find_split as find_split,
    find_work as find_work,
)
from .classifier import NodeClassifier as NodeClassifier
from .evaluation import (
    Evaluation as Evaluation,
    Verdict as Verdict,
    evaluate as evaluate,
    mean_and_deviation as mean_and_deviation,
)
from .known_labels import Seeds as Seeds
from .operators import find_operators as find_operators
from .parameters import (
    blank_module as blank_module,
    check_batches as check_batches,
    check_rings as check_rings,
)
from .prediction import probabilities as probabilities
from .saved_model import (
    check_target as check_target,
    holds_model as holds_model,
    load_bundle as load_bundle,
    read_manifest as read_manifest,
    save_bundle as save_bundle,
)
from .scaling import (
    Scaler as Scaler,
    choose_scaling as choose_scaling,
    other_scalings as other_scalings,
)
from .schema import (
    align_features as align_features,
    translate_labels as translate_labels,
)
