"""Products of rows of which others have more: the same bits for any of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from h2gcn.graph import CSR
from h2gcn.sparse import (
    Operator,
    dropout_linear,
    in_blocks,
    linear,
)
from h2gcn.sparse.apart import current_blocks, pieces
from support.cases import each


def random(rows: int, columns: int, seed: int = 0) -> CSR:
    density = 0.2
    return CSR(sp.random_array((rows, columns), density=density, rng=seed).tocsr())


class Halves:
    """Two blocks, and what weights were found to be."""

    def __init__(self, at: int) -> None:
        self.at, self.shares = at, 0

    def parts(self, nodes: Tensor | None) -> list[slice]:
        """Return both."""
        end = 10 if nodes is None else len(nodes)
        at = self.at if nodes is None else int((nodes < self.at).sum())
        return [slice(0, at), slice(at, end)]

    def rows_of(self, x: Operator) -> list[Operator]:
        """Return both of a sparse matrix."""
        return [x.rows(np.arange(part.start, part.stop)) for part in self.parts(None)]

    def shared(self, weight: Tensor, count: int) -> Sequence[Tensor]:
        """Return copies, whose gradients torch adds up."""
        self.shares += 1
        return [weight.clone() for _ in range(count)]

    def dropped(self, *_: Any) -> Tensor:
        """Is not asked for here."""
        raise NotImplementedError


@each("kind", ["dense", "sparse"])
def test_blocks_give_the_same_product_and_gradient(kind: str) -> None:
    matrix = random(10, 6)
    x = Operator(matrix) if kind == "sparse" else torch.from_numpy(matrix.toarray())
    x = x.float() if isinstance(x, Tensor) else x
    weight = torch.randn(6, 3, generator=torch.Generator().manual_seed(2))
    found, halves = [], Halves(3)
    for blocks in (None, halves):
        own = weight.clone().requires_grad_()
        with in_blocks(blocks):
            assert current_blocks() is blocks
            product = linear(x, own)
        product.square().sum().backward()
        found.append((product.detach(), own.grad))
    assert current_blocks() is None
    assert halves.shares == 1
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two)


def test_some_nodes_are_cut_by_their_blocks_and_dropped_as_all_of_them() -> None:
    nodes = torch.tensor([0, 1, 4, 8])
    rows = torch.randn(4, 5, generator=torch.Generator().manual_seed(3))
    weight = torch.ones(5, 2)
    found = []
    for blocks in (None, Halves(2)):
        torch.manual_seed(4)
        own = rows.clone().requires_grad_()
        with in_blocks(blocks):
            product = dropout_linear([own], weight, 0.5, nodes=nodes)
            same = dropout_linear([own], weight, 0.5, False, nodes)
        (product.square() + same).sum().backward()
        found.append((product.detach(), same.detach(), own.grad))
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two)


def test_pieces_begin_where_memory_is_aligned() -> None:
    rows = torch.arange(21.0).view(7, 3).requires_grad_()
    cut = pieces(rows, [slice(0, 1), slice(1, 4), slice(4, 4), slice(4, 7)])
    assert [piece.data_ptr() % 64 for piece in cut if piece.numel()] == [0, 0, 0]
    assert torch.equal(torch.cat(tuple(cut)), rows)
    sum(((place + 1) * piece).sum() for place, piece in enumerate(cut)).backward()
    assert rows.grad is not None
    assert rows.grad[:, 0].tolist() == [1, 2, 2, 2, 4, 4, 4]
