"""Sparse products that are quick in both directions, and the memory they use.

Speed is walled in here: whoever multiplies takes an `Operator` and asks no further.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
