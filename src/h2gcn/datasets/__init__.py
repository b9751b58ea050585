"""Graphs that are not the user's own: the benchmarks by name, and synthetic ones.

**Benchmarks are read from their raw files by readers of ours**; PyG's dataset classes
give the layout and download what is missing. PyG merges duplicate edges before anyone
can count them, makes Citeseer's 15 empty nodes class 0, unpickles Planetoid's files
without restriction and keeps a pickled cache beside them; importing it takes seconds.
A test compares our graphs with PyG's.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
