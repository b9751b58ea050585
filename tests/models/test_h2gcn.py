"""H2GCN: its variants, what the paper says of them, and dropout of some nodes."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from h2gcn.models import H2GCN, MODELS
from h2gcn.rings import RowRule, build_matrices
from h2gcn.sparse import Operator
from models.oracles import ORACLES, h2gcn
from support.cases import each
from support.dropout import mask_of
from support.graphs import GRAPHS, make_graph, random_adjacency
from support.models import (
    assert_close,
    batch_logits,
    dense,
    logits,
    make,
    propagation,
    settings,
    some_nodes,
    weights_of,
)

WIDTHS = {
    "h2gcn-1": 3,
    "h2gcn-2": 7,
    "mlp": 1,
    "h2gcn-s1": 2,
    "h2gcn-ns0": 2,
    "h2gcn-ns1": 1,
    "h2gcn-n0": 2,
    "h2gcn-n1": 2,
    "h2gcn-k0": 6,
    "h2gcn-k1": 5,
    "h2gcn-r2": 4,
    "h2gcn-nonlinear": 3,
}
"""How many embeddings wide the final representation is."""


def test_weights_are_as_wide_as_the_paper_says():
    assert set(WIDTHS) == {n for n, spec in MODELS.items() if spec.module is H2GCN}
    for name, width in WIDTHS.items():
        module, _, _ = make(name, GRAPHS["path"])
        expected = {"embedding": (5, 8), "classifier": (8 * width, 3)}
        if name == "h2gcn-nonlinear":
            expected |= {f"round_embeddings.{k}": (24, 8) for k in (0, 1)}
        assert {n: w.shape for n, w in module.state_dict().items()} == expected
    for rounds in range(4):
        module = H2GCN(
            5, 3, hidden_channels=8, rounds=rounds, final=tuple(range(rounds + 1))
        )
        assert module.classifier.shape == ((2 ** (rounds + 1) - 1) * 8, 3)


def test_three_rounds_over_three_rings():
    graph = make_graph(random_adjacency(8, 12, 0.15))
    variant = {"hops": (1, 2, 3), "final": (0, 2, 3)}
    module = H2GCN(5, 3, hidden_channels=4, dropout=0.0, rounds=3, **variant)
    matrices = build_matrices([RowRule(hop=hop) for hop in (1, 2, 3)], graph.adj)
    assert all(matrix.nnz for matrix in matrices)
    operators = tuple(Operator(matrix, symmetric=True) for matrix in matrices)
    x, nodes = torch.from_numpy(graph.x), some_nodes(12)
    weights = weights_of(module)
    expected = h2gcn(weights, dense(graph), settings("h2gcn-1", {}), **variant)
    for training in (False, True):
        module.train(training)
        assert_close(logits(module, x, operators), expected)
        assert_close(logits(module, x, operators, nodes), expected[nodes])


def test_dropout_of_some_nodes_is_by_their_numbers_and_so_are_gradients():
    graph, nodes, step = GRAPHS["random"], [11, 0, 6], 1e-30
    rng = np.random.default_rng(0)
    for name, share in product(WIDTHS, (0.5, 0.3)):
        module, x, operators = make(name, graph, dropout=share)
        weights, width = weights_of(module), module.classifier.shape[0]
        torch.manual_seed(9)
        mask = mask_of(torch.tensor(nodes), width, share).numpy()
        assert len(np.unique(mask)) == 2  # else nothing would be tested

        def drop(h, p, by_node, mask=mask):  # noqa: ARG001
            return h[nodes] * mask

        arguments = dense(graph), settings(name, {}), drop
        torch.manual_seed(9)
        found = logits(module.train(), x, operators, nodes)
        assert_close(found, ORACLES[name](weights, *arguments), name)
        found.sum().backward()
        for key, weight in module.named_parameters():
            direction = rng.choice([-1.0, 1.0], size=tuple(weight.shape))
            moved = weights | {key: weights[key] + 1j * step * direction}
            there = ORACLES[name](moved, *arguments).imag / step
            ours = weight.grad.double().numpy()
            error = abs((ours * direction).sum() - there.sum())
            assert error <= 1e-4 * np.abs(ours).sum(), (name, key)


@each("nonlinear", [False, True])
@each("final", [(0,), (0, 1), (1,), (0, 1, 2), (2,), (0, 2)], ids=str)
def test_every_choice_of_rounds_in_batches(final, nonlinear):
    graph = make_graph(random_adjacency(3, 20, 0.15))
    variant = {"final": final, "nonlinear": nonlinear}
    rounds = max(final)
    module = H2GCN(5, 3, hidden_channels=4, dropout=0.0, rounds=rounds, **variant)
    x, operators = torch.from_numpy(graph.x), propagation("h2gcn-2", graph)
    expected = h2gcn(
        weights_of(module), dense(graph), settings("h2gcn-1", {}), **variant
    )
    for training in (False, True):
        module.train(training)
        assert_close(logits(module, x, operators), expected)
        found = batch_logits(module, x, operators, [4, 17, 0])
        assert_close(found, expected[[4, 17, 0]])


def test_without_rounds_the_graph_has_no_influence():
    mlp, x, operators = make("mlp", GRAPHS["random"])
    assert operators == ()
    none = H2GCN(5, 3, hidden_channels=8, rounds=0, final=(0,)).eval()
    none.load_state_dict(mlp.state_dict())
    expected = torch.relu(x @ mlp.embedding) @ mlp.classifier
    torch.testing.assert_close(logits(mlp, x, ()), expected)
    for seed in range(3):
        other = make_graph(random_adjacency(seed, 12, 0.2))
        found = logits(none, x, propagation("h2gcn-1", other))
        torch.testing.assert_close(found, expected)


# ------------------------------------------------- what two calls have in common


@each("name", ["h2gcn-1", "h2gcn-2", "h2gcn-nonlinear"])
@each("dropout", [0.0, 0.5])
def test_what_an_evaluation_leaves_to_a_step_changes_nothing(name, dropout):
    graph, nodes = GRAPHS["random"], [11, 0, 6]
    module, _, operators = make(name, graph, dropout=dropout)
    x = Operator(sp.csr_array(graph.x))

    def evaluate(cache):
        with torch.no_grad():
            return logits(module.eval(), x, operators, nodes, cache)

    def step(cache):
        torch.manual_seed(3)
        found = logits(module.train(), x, operators, nodes, cache)
        return torch.autograd.grad(found.square().sum(), list(module.parameters()))

    expected, gradients = evaluate(None), step(None)
    cache = {}
    torch.testing.assert_close(evaluate(cache), expected)
    assert cache
    for ours, theirs in zip(step(cache), gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_the_rounds_that_the_classifier_reads_end_with_the_last():
    for rounds, final in ((5, (0, 1)), (2, (2, 0)), (2, (0, 2, 2)), (1, ()), (0, (1,))):
        with pytest.raises(ValueError, match=f"ascend to rounds={rounds}"):
            H2GCN(5, 3, rounds=rounds, final=final)
