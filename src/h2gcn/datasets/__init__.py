"""Graphs that are not the user's own: the benchmarks by name, and synthetic ones."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
