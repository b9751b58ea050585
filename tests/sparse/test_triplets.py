"""Products on a device without CSR matrices: entries as triplets."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from h2gcn.sparse import Operator, operator as sparse_matrix
from h2gcn.sparse.operator import Triplets, row_softmax, weighted_sums
from support.cases import each
from support.graphs import GRAPHS
from support.models import logits, make


@pytest.fixture(params=["CSR", "triplets"])
def pattern(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Operator:
    """Return a pattern [4, 6] with an empty row, in both forms."""
    if request.param == "triplets":
        monkeypatch.setattr(sparse_matrix, "CSR_DEVICES", ())
    dense = np.zeros((4, 6), dtype=np.float32)
    dense[[0, 0, 0, 1, 3, 3], [5, 1, 2, 2, 0, 2]] = 1
    operator = Operator(sp.csr_array(dense))
    assert isinstance(operator.matrix, Triplets) == (request.param == "triplets")
    return operator


def test_edges_are_the_rows_and_columns_of_the_entries(pattern: Operator) -> None:
    rows, columns = pattern.edges
    assert rows.tolist() == [0, 0, 0, 1, 3, 3]
    assert columns.tolist() == [1, 2, 5, 2, 0, 2]
    assert rows.dtype == columns.dtype == torch.int64
    assert pattern.edges is pattern.edges  # made once


def on_pattern(pattern: Operator, values: Tensor, fill: float) -> Tensor:
    """Return values [k, nnz] as dense matrices [k, m, n]."""
    rows, columns = pattern.edges
    dense = values.new_full((len(values), *pattern.shape), fill)
    return dense.index_put((torch.arange(len(values))[:, None], rows, columns), values)


def test_the_softmax_is_over_each_row(pattern: Operator) -> None:
    scores = (3 * torch.randn(2, 6)).requires_grad_()
    outer = torch.randn(2, 6)
    ours = row_softmax(pattern, scores)
    dense = torch.softmax(on_pattern(pattern, scores, -math.inf)[:, [0, 1, 3]], dim=2)
    theirs = dense[:, [0, 0, 0, 1, 2, 2], pattern.edges[1]]
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(
        torch.autograd.grad(ours, scores, outer),
        torch.autograd.grad(theirs, scores, outer),
    )


def test_weighted_sums_and_their_gradients_are_the_dense_ones(
    pattern: Operator,
) -> None:
    weights = torch.randn(2, 6, requires_grad=True)
    dense = torch.randn(6, 2, 3, requires_grad=True)
    outer = torch.randn(4, 2, 3)
    ours = weighted_sums(pattern, weights, dense)
    matrices = on_pattern(pattern, weights, 0.0)
    theirs = torch.einsum("kmn,nkd->mkd", matrices, dense)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(
        torch.autograd.grad(ours, (weights, dense), outer),
        torch.autograd.grad(theirs, (weights, dense), outer),
    )


@each("devices", [("cpu",), ()], ids=["CSR", "triplets"])
def test_row_norms_are_the_lengths_of_the_rows(
    devices: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sparse_matrix, "CSR_DEVICES", devices)
    x = torch.randn(7, 4).relu()
    x[2] = 0
    operator = Operator(sp.csr_array(x.numpy()))
    assert isinstance(operator.matrix, Triplets) == (not devices)
    torch.testing.assert_close(operator.row_norms(), x.norm(dim=1))
    dropped = operator.dropout(0.5)
    expected = (dropped @ torch.eye(4)).norm(dim=1)
    assert not torch.allclose(expected, x.norm(dim=1))
    torch.testing.assert_close(dropped.row_norms(), expected)


def test_models_give_the_same_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("gat", "h2gcn-2", "mixhop"):
        expected = logits(*make(name, GRAPHS["random"]), [3, 0])
        with monkeypatch.context() as patch:
            patch.setattr(sparse_matrix, "CSR_DEVICES", ())
            module, x, operators = make(name, GRAPHS["random"])
            assert isinstance(operators[0].matrix, Triplets)
            found = logits(module, x, operators, [3, 0])
        torch.testing.assert_close(found, expected)
