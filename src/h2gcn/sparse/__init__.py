"""Sparse products that are quick in both directions, and the memory they use.

Speed is walled in here: whoever multiplies takes an `Operator` and asks no further.

**The transpose is built once.** The gradient of S·B with respect to B is Sᵀ·G. torch
transposes S in every step; an `Operator` keeps the transpose, and a symmetric one is
its own.

**Large products go through huge pages.** From 65,536 nodes on, the dense side of a
product is larger than most caches: every entry is a trip to memory, and one more to
find the page. The dense side is copied to huge pages, which are kept while a training
lasts (`large`); products of few columns are left to torch.

**Rounds are few calls.** The rounds of H2GCN and their gradients are written by hand
(`Sheet`): the products of all rings are one call, and go to where they belong, or are
added there; none is held to be added up later. Sums stay in registers, and rows that
are alike are summed together (`tiles`). What torch differentiates (`Paths`) is what all
other operators take, and what tests compare with. So it is with sums whose weights are
learnt (`attend`).

**Threads take parts of the rows, one after the other** (`share_out`), and are kept. Who
is late takes less, and nobody waits for who has not begun: other programs may have the
processor. Rows are summed alike whoever takes them.

**Dropout is drawn many bits at a time, and in place.** torch draws a number for every
element, which is slow on a processor; here one number a step decides, with the node and
the column, and `dropout_linear` joins, drops and multiplies some rows at a time.

**Features may stay in their file.** `MappedFeatures` is a factor like an `Operator`:
products, gradients and dropout read it block by block, batches read their rows.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
