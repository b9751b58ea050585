from .batches import (
    HasRows as HasRows,
    Subgraph as Subgraph,
    TakesRows as TakesRows,
    receptive_field as receptive_field,
)
from .calibration import (
    BINS as BINS,
    ReliabilityBin as ReliabilityBin,
    calibration_error as calibration_error,
    chance_error as chance_error,
    class_bins as class_bins,
    fit_temperature as fit_temperature,
    reliability_bins as reliability_bins,
    softmax as softmax,
)
from .checkpoint import (
    MANIFEST as MANIFEST,
    MINUTES as MINUTES,
    OF_THE_MACHINE as OF_THE_MACHINE,
    Checkpoint as Checkpoint,
    Position as Position,
    check_resume as check_resume,
    find_position as find_position,
    holds_state as holds_state,
    identify as identify,
)
from .distributed import (
    SINGLE as SINGLE,
    Communicator as Communicator,
    RowParallelOperator as RowParallelOperator,
    TorchGroup as TorchGroup,
    predict_rows as predict_rows,
    row_bounds as row_bounds,
)
from .intervals import (
    CONFIDENCE as CONFIDENCE,
    bootstrap as bootstrap,
    mean_interval as mean_interval,
    percentiles as percentiles,
    wilson as wilson,
)
from .limits import stop_fits as stop_fits
from .loop import Trainer as Trainer, TrainResult as TrainResult
from .manifest import (
    Sha256 as Sha256,
    plain as plain,
    read_signed as read_signed,
    read_tensors as read_tensors,
    signed as signed,
    to_bytes as to_bytes,
)
from .metrics import (
    OF_TWO_CLASSES as OF_TWO_CLASSES,
    average_precision as average_precision,
    brier as brier,
    confusion_matrix as confusion_matrix,
    log_loss as log_loss,
    macro_f1 as macro_f1,
    per_class as per_class,
    pr_auc as pr_auc,
    rarer_class as rarer_class,
    roc_auc as roc_auc,
    score as score,
)
from .module import (
    NodeModule as NodeModule,
    soft_cross_entropy as soft_cross_entropy,
    tensor_problem as tensor_problem,
)
from .optim import (
    TrainConfig as TrainConfig,
    class_weights as class_weights,
    node_loss as node_loss,
)
from .seeding import (
    draw_seed as draw_seed,
    random_problem as random_problem,
    random_state as random_state,
    seeded as seeded,
    set_random_state as set_random_state,
)
from .stopping import Epoch as Epoch
from .threads import is_small as is_small, threads_for as threads_for
