"""Neighborhood features: a row of named columns for each node, for any classifier.

A table is a few blocks of columns side by side: a node's own features ("ego"), their
means over its rings, degrees, edge features, shares of the training labels nearby. A
block is a walk with a reduction at each step (`ring2.max`, `out_in`, `power2`), and
there is one way to compute it, for all nodes or for a few: `FeatureBuilder.values`.

No column depends on the node's own label. Rings and single directions do not contain
the node. Walks of two steps may return to it: labels are counted in whole numbers, from
which the returning walks are subtracted exactly.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
