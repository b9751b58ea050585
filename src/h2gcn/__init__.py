"""H2GCN: node classification whether neighbours are alike or not."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from h2gcn import homophily
    from h2gcn.datasets import load_dataset
    from h2gcn.estimator import NodeClassifier
    from h2gcn.graph import Graph, Split
    from h2gcn.io import read_graph
    from h2gcn.rings import exact_rings

__version__ = "0.1.0"
__all__ = [
    "Graph",
    "NodeClassifier",
    "Split",
    "__version__",
    "exact_rings",
    "homophily",
    "load_dataset",
    "read_graph",
]

# Each public name is imported when it is first used, so that `h2gcn --help` and
# a script that only reads a graph do not wait for torch.
_HOMES = {
    "Graph": "h2gcn.graph",
    "NodeClassifier": "h2gcn.estimator",
    "Split": "h2gcn.graph",
    "exact_rings": "h2gcn.rings",
    "load_dataset": "h2gcn.datasets",
    "read_graph": "h2gcn.io",
}


def __getattr__(name: str) -> Any:
    if name == "homophily":
        return import_module("h2gcn.homophily")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'h2gcn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
