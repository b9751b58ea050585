from .connection import (
    ATTEMPTS as ATTEMPTS,
    ENVIRONMENT as ENVIRONMENT,
    Cluster as Cluster,
    Machine as Machine,
    check_place as check_place,
    workers_that_fit as workers_that_fit,
)
from .graphs import (
    SharedGraph as SharedGraph,
    at_work as at_work,
    graph_bytes as graph_bytes,
    share_graph as share_graph,
)
from .prediction import (
    Part as Part,
    Predicted as Predicted,
    join_parts as join_parts,
    predict_parts as predict_parts,
)
from .table import TableOverWorkers as TableOverWorkers, share_table as share_table
from .training import (
    DistributedFitResult as DistributedFitResult,
    fit_over_workers as fit_over_workers,
)
