from .columns import (
    END_NAMES as END_NAMES,
    ID_NAMES as ID_NAMES,
    TABLE_SUFFIXES as TABLE_SUFFIXES,
    TableOptions as TableOptions,
    split_names as split_names,
    text_array as text_array,
    text_codes as text_codes,
)
from .converting import (
    Conversion as Conversion,
    Progress as Progress,
    check_new_store as check_new_store,
    convert_tables as convert_tables,
)
from .parts import part_files as part_files
from .reading import (
    extend_graph as extend_graph,
    read_tables as read_tables,
    read_times as read_times,
    weighted as weighted,
)
from .sources import is_database as is_database, is_frame as is_frame
