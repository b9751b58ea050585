from .blocks import (
    Block as Block,
    TableSchema as TableSchema,
    block_group as block_group,
    describe_block as describe_block,
    farthest_ring as farthest_ring,
    parse_blocks as parse_blocks,
    walk_extent as walk_extent,
)
from .builder import FeatureBuilder as FeatureBuilder
from .ring_features import RingFeatures as RingFeatures
from .table import (
    FeatureTable as FeatureTable,
    Input as Input,
    LazyTable as LazyTable,
)
