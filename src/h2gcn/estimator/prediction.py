"""Logits of as many nodes as one likes, a block of them at a time."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import Graph, slices
from h2gcn.models import NodeModule
from h2gcn.sparse import Input, LinearMap, Target
from h2gcn.training import gather, threads_for

__all__ = [
    "check_nodes",
    "join_blocks",
    "logits_in_blocks",
    "probabilities",
    "warn_of_unreached",
]

BLOCK = 65_536
"""How many nodes a block has where nothing else is said."""

FEW = 4096
"""Nodes whose rows of the operators are cut out; for more the whole graph is taken."""

Block = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Some nodes, [m], and their logits, [m, C]."""


def logits_in_blocks(
    module: NodeModule,
    x: Input,
    operators: Sequence[LinearMap],
    nodes: NDArray[np.int64] | None,
    block_size: int | None,
    device: torch.device,
    *,
    small: bool = False,
) -> Iterator[Block]:
    """Return nodes with their logits, in order and at most a block at a time.

    Without a block size the module sees the whole graph, once: as in a training
    without batches, its own layers are what takes memory. With one, it sees of the
    graph what each block needs (see `gather`), and with it memory is bound by the
    block; so it is only for modules that say how far they look.

    Parameters
    ----------
    module
        Trained.
    x
        Features, [n, F].
    operators
        The module's operators of the graph, [n, n] each.
    nodes
        Whose logits are wanted; None is all.
    block_size
        At most so many nodes at a time.
    device
        Where the module is.
    small
        Whether the graph is small enough for one thread, see `threads.is_small`.
    """
    n = x.shape[0]
    wanted = np.arange(n) if nodes is None else nodes
    size = BLOCK if block_size is None else block_size
    reach = module.reach
    module.eval()
    if block_size is not None and block_size < n and reach is not None:
        for part in slices(len(wanted), size):
            around = gather(x, operators, wanted[part], reach, device)
            yield (
                around.nodes,
                _forward(module, around.x, around.operators, around.target, small),
            )
    elif nodes is not None and len(nodes) <= min(size, FEW):
        target = Target.of(operators, nodes, device)
        yield nodes, _forward(module, x, operators, target, small)
    else:
        logits = _forward(module, x, operators, None, small)
        for part in slices(len(wanted), size):
            yield wanted[part], logits[wanted[part]]


# Around the module alone: what a generator sets would hold between its blocks too.
@torch.no_grad()
def _forward(
    module: NodeModule,
    x: Input,
    operators: Sequence[LinearMap],
    target: Target | None,
    small: bool,
) -> NDArray[np.float32]:
    with threads_for([x, *operators], small=small):
        logits: Tensor = module(x, operators, target)
    return logits.cpu().numpy()


def join_blocks(
    blocks: Iterable[Block], n_nodes: int, n_classes: int
) -> NDArray[np.float32]:
    """Return the logits of all blocks in one array, [n_nodes, n_classes]."""
    result = np.empty((n_nodes, n_classes), dtype=np.float32)
    done = 0
    for nodes, logits in blocks:
        result[done : done + len(nodes)] = logits
        done += len(nodes)
    return result


def probabilities(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the softmax of each row, [m, C]."""
    return torch.softmax(torch.from_numpy(logits), dim=1).numpy()


def check_nodes(graph: Graph, nodes: ArrayLike) -> NDArray[np.int64]:
    """Return node indices from indices or a mask of all nodes."""
    n = graph.n_nodes
    try:
        given = np.asarray(nodes).reshape(-1)
    except ValueError:  # rows of different lengths
        raise InputError("'nodes' must be one list of indices, or a mask.") from None
    if given.dtype == bool:
        if len(given) != n:
            raise InputError(
                f"'nodes' must have an entry for each of the {n:,} nodes of "
                f"{graph.name}, as it is a mask. Got {len(given):,} instead."
            )
        return np.flatnonzero(given)
    if given.size == 0:
        return np.zeros(0, dtype=np.int64)
    if given.dtype.kind not in "iu":
        raise InputError(
            f"'nodes' must be indices (integers) or a mask. Got {given.dtype} instead."
        )
    if not 0 <= given.min() <= given.max() < n:
        raise InputError(
            f"'nodes' must be indices from 0 to {n - 1}. "
            f"Got {given.min()} to {given.max()} instead."
        )
    return given.astype(np.int64)


def warn_of_unreached(reached: Tensor) -> None:
    """Say for how many nodes a model that spreads labels knows nothing."""
    count = int((~reached).sum())
    if count:
        nodes, them = ("node", "it") if count == 1 else ("nodes", "them")
        warnings.warn(
            f"{count:,} {nodes} cannot be reached from any labelled one: all classes "
            f"are equally likely for {them}",
            H2GCNWarning,
            stacklevel=3,
        )
