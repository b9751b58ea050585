"""How alike neighbours are: pure functions from a graph to numbers.

Only edges between two labelled nodes count, but for the smoothness of features. Where a
measure has no value it is NaN, and an `UndefinedMeasureWarning` says which measure and
why.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
