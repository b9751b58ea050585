from .checkpoint import (
    MINUTES as MINUTES,
    Checkpoint as Checkpoint,
    check_resume as check_resume,
)
from .fitting import fit_module as fit_module
from .identity import OF_THE_MACHINE as OF_THE_MACHINE, identify as identify
from .loop import TrainConfig as TrainConfig, TrainResult as TrainResult, train as train
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
from .pieces import gather as gather
from .state_files import Stage as Stage, find_stage as find_stage
from .stopping import Epoch as Epoch
from .threads import is_small as is_small, threads_for as threads_for
