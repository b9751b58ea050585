from .features import (
    BenchmarkFeatures as BenchmarkFeatures,
    FeatureSource as FeatureSource,
    GaussianFeatures as GaussianFeatures,
)
from .generator import PRESETS as PRESETS, generate_graph as generate_graph
from .products import ProductsFeatures as ProductsFeatures
