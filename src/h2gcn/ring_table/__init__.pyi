from .neighbourhoods import column_slices as column_slices
from .recipe import (
    Schema as Schema,
    block_group as block_group,
    block_words as block_words,
    check_recipe as check_recipe,
    farthest_ring as farthest_ring,
)
from .table import (
    Blocks as Blocks,
    Input as Input,
    SomeRows as SomeRows,
    TableInput as TableInput,
    TableMaker as TableMaker,
    table_rules as table_rules,
)
