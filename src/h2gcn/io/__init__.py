"""Graphs from files and objects, and predictions into files.

`read_graph` finds the reader; each reader returns a `Graph` whose record says what was
merged, made symmetric and dropped.

**A label column decides what is predicted, never what is split away.** A file with a
training mask but no validation mask is refused rather than split anew, since its test
nodes could end in training.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
