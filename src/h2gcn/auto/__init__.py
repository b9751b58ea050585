"""The best answer for any graph: a few models, an honest choice, one prediction.

**Few fixed members, no search.** With 59 validation nodes one node is 1.7 points, and
the best of 64 equally good settings looks 6 to 9 points better than it is. So the
portfolio is a dozen presets that differ in what they see of the graph.

**Chosen by log-loss, within one standard error.** The answer is the plain average of
the members whose score is within one standard error of the best's, or whose gap to it,
node by node, is. The mean of several that are about as good is better than any of them
more often than not, and the fewer the nodes, the more of them are in it. Where there
are a thousand nodes, weights are found by adding members greedily. Nothing is stacked.

**Few validation nodes are not enough to choose by.** Then members are compared on
folds of training and validation nodes together, each of which holds back nodes that
its fits never saw. The answer is fitted on the split as it is.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
