from .apart import (
    aligned as aligned,
    in_blocks as in_blocks,
    linear as linear,
    pieces as pieces,
)
from .attention import attend as attend, attention_bytes as attention_bytes
from .compiling import compiled as compiled, told_of_compiling as told_of_compiling
from .dropping import (
    Draw as Draw,
    dropout as dropout,
    dropout_linear as dropout_linear,
    random_problem as random_problem,
    random_state as random_state,
    seeded as seeded,
    set_random_state as set_random_state,
)
from .kernels import fetch as fetch, lowest_bit as lowest_bit, mix as mix
from .large import (
    LaidOut as LaidOut,
    RowSums as RowSums,
    Whole as Whole,
    kept_workspace as kept_workspace,
)
from .mapped import Input as Input, MappedFeatures as MappedFeatures
from .memory import (
    available_memory as available_memory,
    check_room as check_room,
    first_of as first_of,
    gigabytes as gigabytes,
    keep_freed_memory as keep_freed_memory,
    reserve as reserve,
    room_within as room_within,
    steady_memory as steady_memory,
)
from .operator import (
    DroppedOperator as DroppedOperator,
    LinearMap as LinearMap,
    Operator as Operator,
    Target as Target,
    csr_tensor as csr_tensor,
    product as product,
    sums_by_column as sums_by_column,
    to_tensor as to_tensor,
)
from .rounds import Paths as Paths, Sheet as Sheet
from .rows import (
    in_order as in_order,
    in_threads as in_threads,
    own_threads as own_threads,
    row_starts as row_starts,
    sorted_csr as sorted_csr,
    take_columns as take_columns,
    take_rows as take_rows,
)
