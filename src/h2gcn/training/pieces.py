"""The part of a graph that the logits of some nodes depend on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.graph import CSR
from h2gcn.sparse import Input, LinearMap, Operator, Target

__all__ = ["Piece", "gather"]


class Piece(NamedTuple):
    """What a module is called with, and the nodes whose logits come out.

    Parameters
    ----------
    x
        Features of the nodes of this piece.
    operators
        The operators among them.
    target
        Which of them are wanted.
    nodes
        The same as numbers of the graph, [m].
    """

    x: Input
    operators: Sequence[LinearMap]
    target: Target
    nodes: NDArray[np.int64]


def gather(
    x: Input,
    operators: Sequence[LinearMap],
    nodes: NDArray[np.int64],
    reach: int,
    device: torch.device,
) -> Piece:
    """Return what some nodes' logits depend on, as a smaller graph.

    Step by step outwards, `reach` times, the rows of the nodes that the last step
    brought in are taken from each operator, each row once. What is left out of the
    smaller graph, and the rows of those brought in last, which stay empty, can change
    only other nodes' logits.

    Parameters
    ----------
    x
        Features, [n, F].
    operators
        Of the whole graph, [n, n] each.
    nodes
        Whose logits are wanted, [m]; in any order, also repeatedly.
    reach
        How many products with operators follow one another in the module.
    device
        Where the piece shall be.

    Returns
    -------
    Piece
        With k nodes, in ascending order: x [k, F], operators [k, k], target [m, k].
    """
    inside = np.zeros(x.shape[0], dtype=bool)
    inside[nodes] = True
    fresh = np.flatnonzero(inside)
    steps: list[NDArray[np.int64]] = []
    taken: list[list[CSR]] = []
    for _ in range(reach):
        rows = [operator.take(fresh) for operator in operators]
        steps.append(fresh)
        taken.append(rows)
        before = inside.copy()
        _mark(inside, rows)
        fresh = np.flatnonzero(inside ^ before)

    members = np.flatnonzero(inside)
    place = np.empty(len(inside), dtype=np.int32)  # read for members alone
    place[members] = np.arange(len(members), dtype=np.int32)
    filled = np.concatenate([np.zeros(0, dtype=np.int64), *steps])
    # Which row of the stacked ones is a member's; the last one is empty.
    row = np.full(len(members), len(filled))
    row[place[filled]] = np.arange(len(filled))
    # One product is the target's alone: the operators among the members are not used.
    inner = row if reach > 1 else np.full_like(row, len(filled))
    at = place[nodes].astype(np.int64)
    among, wanted = [], []
    for _ in operators:
        # Off the list, so that no row is held in more forms than the next one needs.
        stacked = _stack([rows.pop(0) for rows in taken], place, len(members))
        among.append(Operator(CSR(stacked[inner]), device=device))
        wanted.append(Operator(CSR(stacked[row[at]]), device=device))
        del stacked
    target = Target(torch.from_numpy(at).to(device), tuple(wanted))
    return Piece(_rows(x, members), among, target, nodes)


def _mark(inside: NDArray[np.bool_], rows: list[CSR]) -> None:
    """Set the columns of all rows."""
    for matrix in rows:
        inside[matrix.indices] = True


def _stack(blocks: list[CSR], place: NDArray[np.int32], n_columns: int) -> CSR:
    """Return the blocks and an empty row below each other, columns renumbered."""
    empty = CSR((1, len(place)), dtype=np.float32)
    stacked = CSR(sp.vstack([*blocks, empty], format="csr"))
    blocks.clear()
    parts = stacked.data, place[stacked.indices], stacked.indptr
    return CSR(parts, shape=(stacked.shape[0], n_columns))


def _rows(x: Input, index: NDArray[np.int64]) -> Tensor | Operator:
    if isinstance(x, Tensor):
        return x[torch.from_numpy(index).to(x.device)]
    return x.rows(index)
