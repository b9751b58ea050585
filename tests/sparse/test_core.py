"""A ring without its dense core has the same products."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from h2gcn.graph import CSR
from h2gcn.sparse import Operator, core
from support.cases import each

N, IN_CORE = 40, 24


@pytest.fixture(autouse=True)
def _small_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "MIN_ENTRIES", 0)


def ring(missing: float = 0.1, outside: float = 0.1, seed: int = 0) -> CSR:
    """Return a normalized ring in which most pairs of scattered nodes are."""
    rng = np.random.default_rng(seed)
    nodes = rng.permutation(N)[:IN_CORE]
    pairs = rng.random((N, N)) < outside
    pairs[np.ix_(nodes, nodes)] = rng.random((IN_CORE, IN_CORE)) >= missing
    pairs = np.triu(pairs, 1) | np.triu(pairs, 1).T
    scale = 1 / np.sqrt(np.maximum(pairs.sum(axis=1), 1))
    return CSR(sp.csr_array(pairs * np.outer(scale, scale), dtype=np.float32))


@each("missing", [0.0, 0.1, 0.3])
@each("index", [None, [3, 1, 1], []])
def test_products_and_gradients_are_those_of_the_matrix(
    missing: float, index: list[int] | None
) -> None:
    plain = ring(missing)
    operator = Operator(plain, symmetric=True).for_many_products()
    assert operator.for_many_products() is operator
    rest, u = core.split_core(plain)  # type: ignore[misc]
    assert rest.nnz < 3 / 4 * plain.nnz
    np.testing.assert_allclose(
        rest.toarray() + np.outer(u, u), plain.toarray(), atol=1e-7
    )
    dense = torch.from_numpy(plain.toarray()).double()
    if index is not None:
        operator, dense = operator.rows(np.array(index, dtype=np.int64)), dense[index]
    h = torch.randn(N, 3, dtype=torch.float64, requires_grad=True)
    outer = torch.randn(len(dense), 3, dtype=torch.float64)
    for ours, theirs in (
        (operator @ h, dense @ h),
        (operator.T @ outer, dense.T @ outer),
        *(
            zip(
                torch.autograd.grad(operator @ h, h, outer),
                torch.autograd.grad(dense @ h, h, outer),
                strict=True,
            )
        ),
    ):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)
    assert (operator.scipy != plain[slice(None) if index is None else index]).nnz == 0


def test_a_matrix_without_such_a_core_stays_as_it_is() -> None:
    others = {
        "a core that is half empty": ring(missing=0.6, outside=0.4),
        "other values": CSR(ring() * 2),
        "few entries": CSR((N, N), dtype=np.float32),
        "hardly any in a row": CSR(sp.identity(N, dtype=np.float32, format="csr")),
    }
    h = torch.randn(N, 3)
    for name, matrix in others.items():
        assert core.split_core(matrix) is None, name
        operator = Operator(matrix, symmetric=True)
        assert torch.equal(operator.for_many_products() @ h, operator @ h), name
