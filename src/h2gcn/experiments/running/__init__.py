"""Runs: planned, done side by side on one machine or a cluster, and stored."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
