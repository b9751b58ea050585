from .card import html_card as html_card, html_table as html_table
from .checks import (
    CSR as CSR,
    MAX_SPLITS as MAX_SPLITS,
    Features as Features,
    check_split_count as check_split_count,
    first_beyond as first_beyond,
    first_repeated as first_repeated,
    row_slices as row_slices,
    slices as slices,
)
from .edges import (
    STRUCTURAL as STRUCTURAL,
    EdgeColumns as EdgeColumns,
    edge_aggregates as edge_aggregates,
    structural_features as structural_features,
    structural_rows as structural_rows,
    unchecked_edges as unchecked_edges,
)
from .graph import (
    Graph as Graph,
    Growth as Growth,
    ReadRecord as ReadRecord,
    Split as Split,
    canonical as canonical,
    category_columns as category_columns,
    check_edge_weight as check_edge_weight,
    check_is_graph as check_is_graph,
    column_of as column_of,
    equal_groups as equal_groups,
    fingerprint as fingerprint,
    grown_from as grown_from,
    grown_matrix as grown_matrix,
    row_keys as row_keys,
    split_fingerprint as split_fingerprint,
    unchecked_graph as unchecked_graph,
    weighted_by as weighted_by,
)
from .splitting import (
    ISO_TIME as ISO_TIME,
    deal_groups as deal_groups,
    groups_of_one as groups_of_one,
    is_by_time as is_by_time,
    moment as moment,
    stratified_split as stratified_split,
    time_text as time_text,
    until as until,
)
