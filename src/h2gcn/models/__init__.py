"""The models of the paper: each is a module and the matrices it multiplies with.

**A model is two things**: a `RowRule` for each matrix, or a `MatrixMaker`, and a module
`forward(x, graph)` that holds no graph. `graph` is a `Propagation`: the matrices, the
target nodes, and their rows of the matrices. Training needs the last round only for the
training nodes, validation only for the validation nodes.

**The baselines are written on these products, and PyG's layers check them.** PyG's take
dense features only, transpose the graph in every step and compute all rows where
training needs a few. The tests load PyG's layer with the same weights and compare,
beside a dense oracle of the formula in numpy; `benchmarks/models.py` times both in one
run.

**A model is the one of its paper, as the authors' program ran it.** Where program and
paper differ, the docstring says which one it follows. Defaults are the model's own:
`NodeClassifier("gat")` is 8 heads × 8, ELU, dropout 0.6 and rate 0.005.

**The design space of H2GCN is one class.** Each variant of the paper is a named set of
arguments in `MODELS`. K2 is H2GCN-1, S0 too, and N2 is S1; these are aliases.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
