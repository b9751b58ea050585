from .batches import HasRows as HasRows, TakesRows as TakesRows, gather as gather
from .checkpoint import (
    MINUTES as MINUTES,
    OF_THE_MACHINE as OF_THE_MACHINE,
    Checkpoint as Checkpoint,
    Sha256 as Sha256,
    Stage as Stage,
    check_resume as check_resume,
    find_stage as find_stage,
    identify as identify,
    plain as plain,
    read_signed as read_signed,
    read_tensors as read_tensors,
    signed as signed,
    to_bytes as to_bytes,
)
from .intervals import (
    CONFIDENCE as CONFIDENCE,
    bootstrap as bootstrap,
    mean_interval as mean_interval,
    percentiles as percentiles,
    wilson as wilson,
)
from .loop import (
    TrainConfig as TrainConfig,
    TrainResult as TrainResult,
    class_weights as class_weights,
    fit_module as fit_module,
    is_small as is_small,
    threads_for as threads_for,
    train as train,
)
from .metrics import (
    BINS as BINS,
    ReliabilityBin as ReliabilityBin,
    average_precision as average_precision,
    brier as brier,
    calibration_error as calibration_error,
    chance_error as chance_error,
    class_bins as class_bins,
    confusion_matrix as confusion_matrix,
    fit_temperature as fit_temperature,
    log_loss as log_loss,
    macro_f1 as macro_f1,
    per_class as per_class,
    pr_auc as pr_auc,
    rarer_class as rarer_class,
    reliability_bins as reliability_bins,
    roc_auc as roc_auc,
    score as score,
)
from .state import Epoch as Epoch
