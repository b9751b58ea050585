from .loading import (
    DATASETS as DATASETS,
    SIZES as SIZES,
    SYN_CORA as SYN_CORA,
    DatasetInfo as DatasetInfo,
    Size as Size,
    data_root as data_root,
    is_dataset as is_dataset,
    load_dataset as load_dataset,
)
from .raw_files import known_checksums as known_checksums
from .synthetic import (
    PRESETS as PRESETS,
    BenchmarkFeatures as BenchmarkFeatures,
    FeatureSource as FeatureSource,
    GaussianFeatures as GaussianFeatures,
    ProductsFeatures as ProductsFeatures,
    generate_graph as generate_graph,
)
