"""The models of the paper, each a module and the operators it wants of a graph."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
