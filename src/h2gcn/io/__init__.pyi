from .conversion import convert as convert
from .dispatch import find_node_table as find_node_table, read_graph as read_graph
from .edge_list import read_edge_list as read_edge_list
from .files import (
    AlreadyThere as AlreadyThere,
    Count as Count,
    Finite as Finite,
    atomic_write as atomic_write,
    cannot_read as cannot_read,
    cannot_write as cannot_write,
    check_can_make as check_can_make,
    check_folder as check_folder,
    check_new as check_new,
    check_not_stdout as check_not_stdout,
    check_suffix as check_suffix,
    clear_unfinished as clear_unfinished,
    conform as conform,
    decode as decode,
    existing_file as existing_file,
    lock as lock,
    locked as locked,
    new_folder as new_folder,
    parse_json as parse_json,
    plain_path as plain_path,
    read_own as read_own,
    recover_folder as recover_folder,
    replaced_folder as replaced_folder,
    resolved as resolved,
    shown as shown,
    sync_folder as sync_folder,
    usable_path as usable_path,
    whole_file as whole_file,
    write_whole as write_whole,
)
from .graph_parts import (
    adjacency_from_edges as adjacency_from_edges,
    check_features_room as check_features_room,
    fit_layout as fit_layout,
    from_scipy as from_scipy,
    worth_sparse as worth_sparse,
)
from .mistakes import listed as listed
from .networkx_io import from_networkx as from_networkx, read_graphml as read_graphml
from .npz import Archive as Archive, read_npz as read_npz, write_npz as write_npz
from .pyg import from_pyg as from_pyg, read_pt as read_pt, to_pyg as to_pyg
from .store import (
    ArrayFile as ArrayFile,
    is_store as is_store,
    open_store as open_store,
    recover_store as recover_store,
    write_store as write_store,
)
from .tables import (
    Conversion as Conversion,
    Progress as Progress,
    TableOptions as TableOptions,
    convert_tables as convert_tables,
    extend_graph as extend_graph,
    is_database as is_database,
    read_tables as read_tables,
    read_times as read_times,
)
from .writing import (
    join_predictions as join_predictions,
    prediction_table as prediction_table,
    write_prediction_blocks as write_prediction_blocks,
    write_predictions as write_predictions,
    write_tables as write_tables,
)
