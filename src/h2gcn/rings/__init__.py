"""Exact i-hop neighbourhoods: found, forecast, capped, stored, computed on demand.

**A ring is a shortest distance.** The paper's formula I[A² − A − I > 0], taken to the
letter, keeps most 1-hop neighbours, since they are also reached by walks of length
two; two published ports compute that, or leave the diagonal in. Here each row is a
breadth-first search, compiled by numba, whose last step is taken on a bitmap of the
nodes: the row comes out sorted, and nothing is made that is not in the ring.
GraphBLAS's masked product took twice the time and memory once sorted and narrowed
(`benchmarks/rings.py` has it as a reference).

**Rings are refused, drawn, stored or computed again, as the forecast says.** A sample
of rows gives the size of a ring to a percent or two. What fits is kept in memory.
Else, with a folder, the pattern goes to a file, four bytes an entry, since a
normalised ring is D⁻¹ᐟ² S D⁻¹ᐟ² and the scaling can be done on the dense side; with
batches, rows are computed when a batch needs them; with neither, the fit does not
start, and the error says what would fit. A capped ring keeps for every node the
members with the smallest of random numbers that depend on seed, node and member alone:
no order and no block size changes it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
