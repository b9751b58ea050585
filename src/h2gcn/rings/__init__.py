"""Exact i-hop rings: built, sampled, or computed on demand, and how large they will be.

A ring is a shortest distance. The paper's formula I[A² − A − I > 0], taken to the
letter, keeps most 1-hop neighbors, since walks of length two lead to them too. Here
each row is a breadth-first search whose last step is taken on a bitmap of the nodes.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
