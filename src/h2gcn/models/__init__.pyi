from .decompose import Contribution as Contribution, Decomposition as Decomposition
from .gcn import GCN as GCN
from .gdc import Diffusion as Diffusion
from .h2gcn import H2GCN as H2GCN
from .registry import (
    ALIASES as ALIASES,
    MODELS as MODELS,
    build_model as build_model,
    find_model as find_model,
    is_distributable as is_distributable,
)
from .spec import MatrixMaker as MatrixMaker, ModelSpec as ModelSpec
