"""A node table and an edge table, CSV, TSV or Parquet, as a graph."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
