from .neighbourhoods import RingRows as RingRows, column_slices as column_slices
from .recipe import (
    Schema as Schema,
    block_group as block_group,
    block_words as block_words,
    check_recipe as check_recipe,
    computed_blocks as computed_blocks,
    far_rings as far_rings,
    farthest_ring as farthest_ring,
    is_one_step as is_one_step,
)
from .table import (
    Blocks as Blocks,
    Input as Input,
    Made as Made,
    MakesRows as MakesRows,
    SomeRows as SomeRows,
    TableInput as TableInput,
    TableMaker as TableMaker,
    table_rules as table_rules,
)
