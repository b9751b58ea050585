"""A node table and an edge table, files, frames or queries, as a graph."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
