from .building import TableMaker as TableMaker
from .recipe import Schema as Schema, check_recipe as check_recipe
from .table_input import Input as Input, TableInput as TableInput
