from .attention import attend as attend, attention_bytes as attention_bytes
from .kernels import jit as jit
from .mapped import Input as Input, MappedFeatures as MappedFeatures
from .masks import (
    Mask as Mask,
    dropout as dropout,
    dropout_linear as dropout_linear,
    sample_mask as sample_mask,
)
from .memory import (
    available_memory as available_memory,
    check_memory as check_memory,
    format_bytes as format_bytes,
    limit_memory as limit_memory,
    steady_memory as steady_memory,
    tune_allocator as tune_allocator,
)
from .operator import (
    LinearMap as LinearMap,
    Operator as Operator,
    WeightedOperator as WeightedOperator,
    product as product,
    spmm as spmm,
    to_tensor as to_tensor,
)
from .propagation import (
    NO_GRAPH as NO_GRAPH,
    Propagation as Propagation,
    StepCache as StepCache,
    classify_first as classify_first,
)
from .threads import run_in_threads as run_in_threads
