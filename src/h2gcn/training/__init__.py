"""The training loop: batches, stopping rules, checkpoints and distributed training.

Optimizer and stopping rule are parameters, because the original programs differ: GCN
keeps the last weights and watches the mean validation loss, GAT watches loss and score,
GraphSAGE and MixHop take plain gradient steps.

A checkpoint is written after a whole epoch: weights, optimizer, random state, history
and best weights. Tensors are written first, under the name of their checksum; replacing
`checkpoint.json` makes them count, so a kill leaves the old state or the new one.

torch's threads spin while they wait, which takes several times as long where another
program is busy. So small graphs use one thread. For larger ones the command line sets
`OMP_WAIT_POLICY=PASSIVE` before torch is loaded; a library does not change the
environment of its host.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
