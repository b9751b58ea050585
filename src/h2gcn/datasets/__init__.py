"""Graphs that are not the user's own: the benchmarks by name, and synthetic ones.

**Benchmarks are read from their raw files by readers of ours**; layout and addresses
are those of PyG's dataset classes. PyG merges duplicate edges before anyone can count
them, makes Citeseer's 15 empty nodes class 0, unpickles Planetoid's files without
restriction and keeps a pickled cache beside them; importing it takes seconds. A test
compares our graphs with PyG's.

**A file is known by its SHA-256 before it is opened**, downloaded or not: pooch brings
it over verified TLS, `sha256sums.txt` names it as `sha256sum -c` reads it, and another
one is refused unless it is trusted. Of a few files only a copy is known that was put
together from another source, and of those of cora-full and most later benchmarks
nothing: these are read with a note, and are refused where the graph has not the nodes
that are published (`SIZES`). Their readers are tested on small files of their formats.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
