from .base import (
    ModelSpec as ModelSpec,
    NodeModule as NodeModule,
    Phase as Phase,
    tensor_problem as tensor_problem,
)
from .closed_form import stop_fits as stop_fits
from .decompose import Contribution as Contribution, Decomposition as Decomposition
from .gcn import GCN as GCN
from .gdc import Diffusion as Diffusion
from .h2gcn import H2GCN as H2GCN
from .registry import (
    ALIASES as ALIASES,
    MODELS as MODELS,
    build_model as build_model,
    find_model as find_model,
)
