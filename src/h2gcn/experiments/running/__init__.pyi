from .graphs import (
    Available as Available,
    MissingData as MissingData,
    available_columns as available_columns,
    card_of as card_of,
    find_checksum as find_checksum,
    on_available_graphs as on_available_graphs,
    open_graph as open_graph,
)
from .pools import LocalPool as LocalPool, RayPool as RayPool
from .runner import Event as Event, Pool as Pool, run_plan as run_plan
from .runs import (
    Run as Run,
    RunJson as RunJson,
    Seconds as Seconds,
    Share as Share,
    Store as Store,
    check_kind as check_kind,
    key_of as key_of,
    read_records as read_records,
)
