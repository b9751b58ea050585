from .adjacency import adjacency_from_edges as adjacency_from_edges
from .durable import (
    cannot_read as cannot_read,
    cannot_write as cannot_write,
    check_folder as check_folder,
    check_not_stdout as check_not_stdout,
    sync_folder as sync_folder,
    whole_file as whole_file,
    write_whole as write_whole,
)
from .edge_list import read_edge_list as read_edge_list
from .files import listed as listed
from .locks import lock as lock, locked as locked
from .networkx_io import from_networkx as from_networkx, read_graphml as read_graphml
from .npz import read_npz as read_npz, write_npz as write_npz
from .predictions import (
    write_prediction_blocks as write_prediction_blocks,
    write_predictions as write_predictions,
)
from .pt import read_pt as read_pt
from .pyg import from_pyg as from_pyg, to_pyg as to_pyg
from .reading import read_graph as read_graph
from .scipy_io import from_scipy as from_scipy
from .tables import TableOptions as TableOptions, read_tables as read_tables
from .write import (
    atomic_write as atomic_write,
    check_suffix as check_suffix,
    write_tables as write_tables,
)
