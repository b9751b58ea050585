"""H2GCN: node classification whether neighbors are alike or not.

Each name is imported when it is first used, so that `h2gcn --help`, and a script that
only reads a graph, do not wait for torch.
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]
