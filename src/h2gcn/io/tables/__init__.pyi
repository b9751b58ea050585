from .columns import (
    END_NAMES as END_NAMES,
    ID_NAMES as ID_NAMES,
    text_codes as text_codes,
)
from .files import TABLE_SUFFIXES as TABLE_SUFFIXES
from .options import TableOptions as TableOptions, split_names as split_names
from .reading import read_tables as read_tables, text_array as text_array
