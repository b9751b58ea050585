"""The ring table: a row for each node, and what its neighbourhoods say in columns.

**Computed once, then an ordinary table.** Own features, their means over rings,
directions and powers, degrees, what edges carry, training labels nearby: blocks of
named columns, side by side. What learns on it needs no graph any more.

**A node never sees its own label.** Exact rings leave the node itself out, so the
labels of its neighbours are inputs like any other, and training nodes see them just
as other nodes do. Walks that follow directions may come back: they are counted in
whole numbers, and those that end at the node itself are taken away exactly. Sums of
means would leave a rest of rounding, which a tree can split by.

**Blocks are called by name** (`own+ring1+labels`), so that a recipe is a short text:
in a setting, on the command line, in a saved model.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
