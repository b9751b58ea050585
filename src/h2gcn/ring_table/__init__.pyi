from .recipe import Schema as Schema, check_recipe as check_recipe
from .some_rows import SomeRows as SomeRows, table_rules as table_rules
from .table import Input as Input, TableInput as TableInput, TableMaker as TableMaker
