"""Residual networks: what their statistics are of, and that they are kept."""

import numpy as np
import torch

from h2gcn import NodeClassifier
from models.oracles import sym, with_loops
from support.graphs import adjacency, make_graph
from support.models import assert_close, dense, logits, make, weights_of

# A triangle with a long tail, and an isolated last node.
GRAPH = make_graph(adjacency(7, [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (4, 5)]))


def test_training_takes_the_statistics_of_all_nodes_and_keeps_their_mean():
    for layers in (1, 3):
        options = {"layers": layers, "dropout": 0.0}
        module, x, operators = make("residual-gcn", GRAPH, **options)
        w = {key: value.copy() for key, value in weights_of(module).items()}
        found = logits(module.train(), x, operators, [5, 4])
        kept, g = weights_of(module), dense(GRAPH)
        s, h = sym(with_loops(g.adj)), g.x
        for k in range(layers):
            z = s @ h @ w[f"neighbors.{k}"] + h @ w[f"own.{k}"]
            for key, now in (
                (f"norms.{k}.running_mean", z.mean(axis=0)),
                (f"norms.{k}.running_var", z.var(axis=0, ddof=1)),
            ):
                assert_close(kept[key], 0.9 * w[key] + 0.1 * now, rtol=1e-4)
            z = (z - z.mean(axis=0)) / np.sqrt(z.var(axis=0) + 1e-5)
            h = np.maximum(z * w[f"norms.{k}.weight"] + w[f"norms.{k}.bias"], 0)
        expected = h @ w["classifier"] + w["bias"]
        assert_close(found, expected[[5, 4]], rtol=1e-4)
        logits(module.eval(), x, operators)
        for key, value in weights_of(module).items():
            np.testing.assert_array_equal(value, kept[key])


def test_the_best_epoch_is_kept_with_its_statistics(small_graph):
    clf = NodeClassifier("residual-gcn", epochs=8, random_state=0).fit(small_graph)
    # The same training ended at the best epoch has the same statistics.
    short = NodeClassifier("residual-gcn", epochs=clf.best_epoch_, random_state=0)
    short.fit(small_graph)
    statistics = zip(short.module_.buffers(), clf.module_.buffers(), strict=True)
    assert all(torch.equal(*pair) for pair in statistics)


def test_other_norms_have_no_statistics_and_train_in_batches(small_graph):
    for norm in ("layer", "none"):
        options = {"norm": norm}
        clf = NodeClassifier("residual-gcn", epochs=2, batch_size=1, options=options)
        assert np.isfinite(clf.fit(small_graph).predict_logits(small_graph)).all()
