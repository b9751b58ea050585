"""What the paper measured, as data, and the tools that run and show it.

**A run is what defines it.** Its key is the hash of graph, model, arguments, split and
seed; the experiment is not part of it, so that Table 1 and Figure 2 share their runs.
The store is append-only JSON lines, synced one by one and locked; of two lines with a
key the later counts. Only the driver writes it, whatever did the work: processes of
this machine, or a Ray cluster.

**Results are data before they are pictures.** A `result.json` is left; tables, figures
and the report are made from that alone, and can be made again without running
anything.

**Nothing is bold inside the noise.** The leader of a column is set in bold only where
the paired 95 % confidence interval of its lead is above zero against every other model
of the same graphs and splits, and only where all of them were run. Splits of one graph
share most of their training nodes; the interval is widened for it, by Nadeau and
Bengio's correction.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
