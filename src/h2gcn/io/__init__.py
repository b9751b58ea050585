"""Graphs from files and objects, and predictions into files.

`read_graph` finds the reader; each reader returns a `Graph` whose record says what was
merged, made symmetric and dropped.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
