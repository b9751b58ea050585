from .recipe import (
    Schema as Schema,
    check_recipe as check_recipe,
    farthest_ring as farthest_ring,
)
from .table import Input as Input, TableInput as TableInput, TableMaker as TableMaker
