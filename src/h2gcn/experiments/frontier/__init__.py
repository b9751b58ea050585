"""How far `auto` gets on the benchmarks, beside its members and scikit-learn.

A run is a split: one fit of `auto`, and from it the score of the answer, of every
member, and of what a user would do without this package. So three ways to choose one
member can be set beside each other: on each split by its own validation nodes, by the
mean over splits, and by test nodes, as nobody may.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
