"""Sparse matrices times dense ones, dropout, attention, and the memory they take.

`Operator` is a constant sparse matrix: `S @ B` is one call of torch's `embedding_bag`,
and its gradient another with the transpose, which is built once. Dropout is decided by
a hash of (key, row, column). `dropout_linear` numbers rows by nodes of the whole graph:
there a node is dropped alike in any batch and process.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
