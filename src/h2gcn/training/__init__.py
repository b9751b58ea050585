"""The training loop: batches, objective, stopping rules, metrics, checkpoints.

**Optimiser and stopping rule belong to the setting.** GCN's program keeps the last
weights and watches the mean of the validation loss; GAT's waits for loss or accuracy;
GraphSAGE and MixHop take plain gradient steps. `stopping` and `optimizer` say so.

**A module may be trained in phases**, each with weights and an aim of its own. Those
that validation nodes judge share the epochs, and patience ends them one by one; the
epoch is chosen over all of them, and each begins with the best weights so far. What
others train is in no history. What a phase needs besides weights (labels that were
drawn, pairs) the loop holds, not the module, which knows no graph.

**A checkpoint is a whole epoch**: weights, optimiser, random state, history, best
weights, what the phase was given. The rule's state follows from the history, the order
of batches from seed and epoch. Tensors are written under their checksum's name, and
count once a `checkpoint.json` that names them has replaced the old one: a kill leaves
one or the other. It says what is trained, and anything else is refused. The folder is
locked while it is trained into. Ctrl-C comes in mid-epoch, so a copy of the last whole
epoch is at hand.

**What helps products, the loop does and nobody sees.** A module that `renumbers` gets
the whole graph in an order in which neighbours are close to each other in memory; the
target still names nodes as everybody else does, and dropout goes by those names. An
evaluation and the step after it have the same weights: what they share is made once,
while the module is `remembering`.

**Several processes may train one model** (`TorchGroup`), each with its rows of the
graph. They end with the same weights, equal to those of one process up to rounding.

**Threads wait quietly.** torch's threads spin while they wait, and where another
program is busy an epoch then takes several times as long. So small graphs use one
thread, and models whose products are ours leave torch one also on larger graphs with
few features, while products keep theirs (`threads_of`). For larger ones the command
line sets `OMP_WAIT_POLICY=PASSIVE` before torch is loaded: torch's wheels bring GNU's
OpenMP, which reads how to wait when it is loaded and has no call to change it later. A
library does not change its host's environment: set the variable yourself.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
