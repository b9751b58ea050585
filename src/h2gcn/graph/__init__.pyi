from .blocks import row_slices as row_slices, slices as slices
from .checks import CSR as CSR, Features as Features
from .checksums import (
    fingerprint as fingerprint,
    split_fingerprint as split_fingerprint,
)
from .graph import Graph as Graph, ReadRecord as ReadRecord, Split as Split
from .rows import (
    canonical as canonical,
    equal_groups as equal_groups,
    row_keys as row_keys,
)
from .splitting import stratified_split as stratified_split
