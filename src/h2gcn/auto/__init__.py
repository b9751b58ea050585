"""The best answer for any graph: a few models, an honest choice, one prediction.

**Few fixed members, no search.** With 59 validation nodes one node is 1.7 points, and
the best of 64 equally good settings looks 6 to 9 points better than it is. So the
portfolio is a dozen presets that differ in what they see of the graph.

**Chosen by log-loss, within one standard error.** Members are compared node by node,
which leaves out what is hard for all of them. The answer is the plain average of those
that the validation nodes cannot tell from the best; where there are a thousand such
nodes, weights are found by adding members greedily. Nothing is stacked.

**Few validation nodes are not enough to choose by.** Then members are compared on
folds of training and validation nodes together, each of which holds back nodes that
its fits never saw. The answer is fitted on the split as it is.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
