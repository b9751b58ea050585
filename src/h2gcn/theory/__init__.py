"""The three theorems of the paper, checked in numbers: one theorem a module.

Theorem 1 is `perturbation` (closed forms, and found by trial on a graph built for it),
Theorem 2 `two_hop`, Theorem 3 `spectrum`. Each module begins with the statement, and
with what it needs besides to be true in numbers.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
