from .available import (
    AtHand as AtHand,
    card_of as card_of,
    look as look,
    with_the_graphs_there as with_the_graphs_there,
)
from .local_pool import LocalPool as LocalPool
from .plan import Run as Run
from .ray_pool import RayPool as RayPool
from .runner import Event as Event, Pool as Pool, run_plan as run_plan
from .store import Store as Store, key_of as key_of
