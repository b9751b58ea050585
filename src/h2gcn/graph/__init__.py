"""Graphs, their splits, what their edges carry, and what tells two of them apart."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
