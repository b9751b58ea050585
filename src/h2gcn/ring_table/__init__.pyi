from .recipe import Schema as Schema, check_recipe as check_recipe
from .table import Input as Input, TableInput as TableInput, TableMaker as TableMaker
