"""`NodeClassifier`: scikit-learn's contract over graphs, saved models, evaluation.

**The rings of a graph live as long as the graph.** `fit`, `predict` and `score` mostly
see one graph, and its rings are the dear part: those asked for last are kept in a weak
table keyed by the graph, outside of estimators, which stay easy to copy, clone and
pickle.

**A model that spreads labels remembers them by id.** Label propagation, LinBP and
others without features get the training labels as their input; a saved model can spread
them over another graph with the same nodes, and refuses one without. Correct and smooth
and ICA, which look at features too, take one without as it is: nothing is known. Nodes
without ids are numbered, and a number says nothing about another graph: then only the
training graph is taken, by its edges.

**A score is of nodes that training did not see.** `score` without nodes takes the test
nodes of the graph of `fit`, and leaves out by id what training saw of any other. A
saved model keeps the rows, 64 bits of each id, and a checksum of the edges and of some
features, by which it knows its graph.

**Probabilities are those of the data, labels those of the training.** Validation nodes
fit one temperature, after class weights are undone; `predict` keeps to the logits, and
says something else only where a `DecisionRule` is given. The same nodes give prediction
sets their coverage, which is promised for the graph of `fit` alone.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
