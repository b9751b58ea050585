"""Label propagation against its formula, its closed form and PyG's module."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.models.label_propagation import LabelPropagation, normalised_adjacency
from h2gcn.sparse import Operator, Target
from support.cases import each
from support.graphs import NAMED, adjacency
from support.refusals import only, refused

Matrix = NDArray[np.float64]

# A square with a chord, a tail, and a node of its own.
SIX = adjacency(6, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 4)])
GRAPHS = {**NAMED, "six": SIX}


def operators_of(adj: sp.csr_array) -> tuple[Operator, ...]:
    return tuple(Operator(s, symmetric=True) for s in normalised_adjacency(adj))


def one_hot(n: int, labels: dict[int, int], c: int = 3) -> Tensor:
    x = torch.zeros(n, c)
    for node, label in labels.items():
        x[node, label] = 1
    return x


def some_labels(n: int) -> Tensor:
    return one_hot(n, {0: 1, n - 1: 2})


def smoothing(adj: sp.csr_array) -> Matrix:
    """Return D^-1/2 A D^-1/2, densely."""
    a = adj.toarray().astype(float)
    degree = a.sum(axis=1)
    root = np.array([d**-0.5 if d else 0 for d in degree])
    return root[:, None] * a * root


def propagated(
    adj: sp.csr_array, y: Matrix, alpha: float, steps: int, hops: int
) -> Matrix:
    s = np.linalg.matrix_power(smoothing(adj), hops)
    f = y
    for _ in range(steps):
        f = alpha * s @ f + (1 - alpha) * y
    return f


def log_shares(f: Matrix) -> Matrix:
    rows = [row / row.sum() if row.sum() else np.full(len(row), 1 / 3) for row in f]
    return np.log(np.maximum(rows, 1e-12))


@each("adj", GRAPHS.values(), ids=GRAPHS)
@each("hops", [1, 2])
@each(("alpha", "steps"), [(0.9, 50), (0.3, 3), (0.5, 1)])
def test_logits_are_the_logarithms_of_what_was_propagated(
    adj: sp.csr_array, hops: int, alpha: float, steps: int
) -> None:
    n = adj.shape[0]
    x, operators = some_labels(n), operators_of(adj)
    expected = log_shares(propagated(adj, x.double().numpy(), alpha, steps, hops))
    module = LabelPropagation(3, 3, alpha=alpha, steps=steps, hops=hops)
    index = np.array([n - 1, 0, 0])
    target = Target.of(operators, index)
    for mode in (module.eval, module.train):
        mode()
        logits = module(x, operators)
        assert logits.dtype == torch.float32
        np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)
        some = module(x, operators, target)
        np.testing.assert_array_equal(some, logits[index])


@each("adj", GRAPHS.values(), ids=GRAPHS)
def test_many_steps_give_the_closed_form(adj: sp.csr_array) -> None:
    n = adj.shape[0]
    x = some_labels(n)
    inverse = np.linalg.inv(np.eye(n) - 0.8 * smoothing(adj))
    expected = log_shares(0.2 * inverse @ x.double().numpy())
    logits = LabelPropagation(3, 3, alpha=0.8, steps=200)(x, operators_of(adj))
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)


@each("adj", GRAPHS.values(), ids=GRAPHS)
def test_pygs_module_gives_the_same(adj: sp.csr_array) -> None:
    from torch_geometric.nn import LabelPropagation as Reference

    x = some_labels(adj.shape[0])
    (s,) = normalised_adjacency(adj)
    entries = s.tocoo()
    edge_index = torch.from_numpy(np.stack([entries.row, entries.col])).long()
    theirs = Reference(num_layers=7, alpha=0.6)(
        x,
        edge_index,
        edge_weight=torch.from_numpy(entries.data),
        post_step=lambda f: f,  # else values are cut off at 1
    )
    ours = LabelPropagation(3, 3, alpha=0.6, steps=7)(x, operators_of(adj))
    expected = log_shares(theirs.double().numpy())
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)


def test_a_hub_still_tells_the_classes_apart_that_both_exceed_one() -> None:
    leaves = 60
    star = adjacency(leaves + 1, [(0, v) for v in range(1, leaves + 1)])
    labels = {v: int(v > 25) for v in range(1, leaves + 1)}
    x = one_hot(leaves + 1, labels, 2)
    f = propagated(star, x.double().numpy(), 0.9, 50, 1)
    assert f[0, 1] > f[0, 0] > 1
    logits = LabelPropagation(2, 2)(x, operators_of(star))
    assert logits[0, 1] - logits[0, 0] == pytest.approx(np.log(35 / 25), rel=1e-4)


def test_nodes_that_no_label_reaches_have_equal_scores() -> None:
    logits = LabelPropagation(3, 3)(one_hot(6, {1: 2}), operators_of(SIX))
    np.testing.assert_allclose(logits[5], np.log(1 / 3), rtol=1e-6)
    assert logits[:5].argmax(dim=1).tolist() == [2] * 5
    assert logits.min() == pytest.approx(np.log(1e-12))


def test_two_hops_pass_labels_over_neighbours_that_differ() -> None:
    path = NAMED["path"]
    x = one_hot(5, {0: 0, 1: 1}, 2)
    one, two = (
        LabelPropagation(2, 2, hops=hops)(x, operators_of(path)) for hops in (1, 2)
    )
    assert one.argmax(dim=1).tolist()[2:] == [1, 1, 1]
    assert two.argmax(dim=1).tolist() == [0, 1, 0, 1, 0]


@each("adj", GRAPHS.values(), ids=GRAPHS)
def test_the_operator_is_the_normalised_adjacency(adj: sp.csr_array) -> None:
    (s,) = normalised_adjacency(adj)
    assert s.dtype == np.float32
    np.testing.assert_allclose(s.toarray(), smoothing(adj), rtol=1e-6)
    np.testing.assert_array_equal(s.toarray(), s.toarray().T)


@each(
    ("options", "words"),
    [
        ({"in_channels": 5}, "out_channels, 3"),
        ({"in_channels": 0}, "at least 1"),
        ({"out_channels": 0}, "at least 1"),
        ({"alpha": 1.0}, ""),
        ({"alpha": 0}, ""),
        ({"steps": 0}, "at most 10000"),
        ({"hops": 3}, "at least 1 and at most 2"),
    ],
)
def test_bad_options_are_named(options: dict[str, float], words: str) -> None:
    with refused(**only(options), words=words):
        LabelPropagation(**({"in_channels": 3, "out_channels": 3} | options))


@each("adj", GRAPHS.values(), ids=GRAPHS)
@each("hops", [1, 2])
def test_the_nodes_that_are_reached_have_a_score(adj: sp.csr_array, hops: int) -> None:
    n = adj.shape[0]
    x = one_hot(n, {0: 1})
    scores = propagated(adj, x.double().numpy(), 0.9, 50, hops)
    module = LabelPropagation(3, 3, steps=50, hops=hops)
    reached = module.reached(x, operators_of(adj))
    assert reached.tolist() == (scores.sum(axis=1) > 0).tolist()


@each("swapped", [False, True])
def test_rounding_does_not_decide_between_classes_that_are_level(swapped: bool) -> None:
    # Node 1 hears of 0 and of 2, one of them a little louder than the other.
    x = one_hot(3, {0: 0, 2: 1})
    for more, tie in ((1e-6, True), (1e-4, False)):
        row = [1 + more, 0, 1] if not swapped else [1, 0, 1 + more]
        unlike = Operator(sp.csr_array(np.array([[0] * 3, row, [0] * 3])))
        logits = LabelPropagation(3, 3, steps=1)(x, (unlike,))[1]
        assert (logits[0] == logits[1]) == tie
        assert int(logits.argmax()) == (0 if tie else int(swapped))
        assert logits[2] == pytest.approx(np.log(1e-12))
