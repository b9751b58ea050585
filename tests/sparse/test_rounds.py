"""Rounds by hand next to what torch differentiates, and products that are tiled."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from h2gcn.graph import CSR
from h2gcn.sparse import LinearMap, Operator, Paths, seeded
from h2gcn.sparse.operator import TiledMatrix

NODES, WIDTH = 40, 16


@dataclass
class Elsewhere:
    """An operator of which nothing is known but its products."""

    operator: Operator

    def __matmul__(self, dense: Tensor) -> Tensor:
        return self.operator @ dense


def operators_of(n_rings: int, rows: np.ndarray | None = None) -> list[Operator]:
    """Return matrices that are not symmetric, some of their rows empty."""
    found = []
    for ring in range(n_rings):
        rng = np.random.default_rng(ring)
        dense = rng.random((NODES, NODES)) * (rng.random((NODES, NODES)) < 0.3)
        dense[ring::7] = 0
        matrix = CSR(sp.csr_array(dense.astype(np.float32)))
        found.append(Operator(matrix if rows is None else CSR(matrix[rows])))
    return found


def elsewhere(operators: Sequence[Operator]) -> list[LinearMap]:
    return [Elsewhere(op) for op in operators]  # type: ignore[misc]


@pytest.mark.parametrize("classes", [3, 8])
@pytest.mark.parametrize("probability", [0.0, 0.3, 0.5])
@pytest.mark.parametrize("some", [False, True], ids=["all", "some"])
@pytest.mark.parametrize(
    ("n_rings", "final"), [(2, (0, 1, 2)), (2, (0, 2)), (1, (1,)), (3, (0, 1, 3))]
)
def test_by_hand_is_what_torch_differentiates(
    n_rings: int, final: tuple[int, ...], some: bool, probability: float, classes: int
) -> None:
    torch.manual_seed(0)
    paths = Paths(n_rings, final)
    blocks = sum(n_rings**k for k in final)
    r = torch.randn(NODES, WIDTH, requires_grad=True)
    weight = torch.randn(blocks * WIDTH, classes, requires_grad=True)
    rows = np.array([3, 39, 3, 0, 21, 7]) if some else np.arange(NODES)
    index = torch.from_numpy(rows) if some else None
    rings, last = operators_of(n_rings), operators_of(n_rings, rows)

    def found(
        prepare: Callable[[Sequence[Operator]], Sequence[LinearMap]],
    ) -> list[Tensor]:
        ops, ends = prepare(rings), prepare(last)
        with seeded(4):
            if probability:
                logits = paths.dropped(r, weight, probability, ops, ends, index, index)
            else:
                logits = paths.outer(*paths.inner(r, weight, ops), ends, index)
        logits = logits[:, :classes]
        grads = torch.autograd.grad(logits.square().sum(), [r, weight])
        return [logits.detach(), *grads]

    ours, again, theirs = found(list), found(list), found(elsewhere)
    for one, other, expected in zip(ours, again, theirs, strict=True):
        assert torch.equal(one, other), "the same bits"
        scale = float(expected.abs().max())
        torch.testing.assert_close(one, expected, rtol=0, atol=1e-5 * scale)


@pytest.mark.parametrize("width", [16, 48, 64, 80, 128])
@pytest.mark.parametrize("threads", [1, 2])
def test_tiles_are_products(
    width: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("h2gcn.sparse.operator.SHARED", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    (operator,) = operators_of(1)
    matrix = operator.matrix
    assert isinstance(matrix, Tensor)
    tiled, dense = TiledMatrix(matrix), torch.randn(NODES, width)
    expected = torch.from_numpy(operator.scipy.toarray()) @ dense
    torch.testing.assert_close(tiled @ dense, expected)
    wide = torch.full((NODES, 3 * width), torch.nan)
    place = wide[:, width : 2 * width]
    tiled.write(dense, place)
    assert torch.equal(place, tiled @ dense)
    assert wide.isnan().sum() == 2 * NODES * width, "nothing beside it is touched"
    tiled.write(dense, place, add=True)
    torch.testing.assert_close(place, 2 * expected)


@pytest.mark.parametrize("width", [0, 1, 7, 17])
def test_other_widths_are_left_to_torch(width: int) -> None:
    (operator,) = operators_of(1)
    matrix = operator.matrix
    assert isinstance(matrix, Tensor)
    dense, out = torch.randn(NODES, width), torch.ones(NODES, width)
    expected = torch.from_numpy(operator.scipy.toarray()) @ dense
    torch.testing.assert_close(TiledMatrix(matrix) @ dense, expected)
    TiledMatrix(matrix).write(dense, out, add=True)
    torch.testing.assert_close(out, 1 + expected)


def test_only_long_rows_are_tiled(monkeypatch: pytest.MonkeyPatch) -> None:
    (operator,) = operators_of(1)
    assert isinstance(operator.matrix, Tensor)
    assert not TiledMatrix.suits(operator.matrix)
    monkeypatch.setattr("h2gcn.sparse.operator.SOME", 0)
    assert TiledMatrix.suits(operator.matrix)
    ring = Operator(CSR(sp.eye_array(NODES, dtype=np.float32).tocsr()))
    assert isinstance(ring.matrix, Tensor)
    assert not TiledMatrix.suits(ring.matrix)
