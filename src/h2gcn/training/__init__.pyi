from .batches import gather as gather
from .checkpoint import (
    MINUTES as MINUTES,
    Checkpoint as Checkpoint,
    Stage as Stage,
    check_resume as check_resume,
    find_stage as find_stage,
)
from .identity import OF_THE_MACHINE as OF_THE_MACHINE, identify as identify
from .loop import (
    TrainConfig as TrainConfig,
    TrainResult as TrainResult,
    fit_module as fit_module,
    train as train,
)
from .manifest import (
    plain as plain,
    read_signed as read_signed,
    read_tensors as read_tensors,
    signed as signed,
    to_bytes as to_bytes,
)
from .metrics import (
    confusion_matrix as confusion_matrix,
    macro_f1 as macro_f1,
    per_class as per_class,
    roc_auc as roc_auc,
    score as score,
)
from .objective import class_weights as class_weights
from .probability_metrics import (
    BINS as BINS,
    ReliabilityBin as ReliabilityBin,
    average_precision as average_precision,
    brier as brier,
    calibration_error as calibration_error,
    chance_error as chance_error,
    class_bins as class_bins,
    log_loss as log_loss,
    pr_auc as pr_auc,
    reliability_bins as reliability_bins,
)
from .runtime import is_small as is_small, threads_for as threads_for
from .stopping import Epoch as Epoch
from .temperature import fit_temperature as fit_temperature
