"""A train/validation/test split in which every class has its share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from h2gcn._validation import check_integer, check_real
from h2gcn.exceptions import InputError
from h2gcn.graph.graph import Split

__all__ = ["stratified_split"]

_TRAIN, _VAL, _TEST = range(3)


def stratified_split(
    y: ArrayLike,
    fractions: Sequence[float] = (0.6, 0.2, 0.2),
    seed: int | np.random.SeedSequence = 0,
) -> Split:
    """Split the labelled nodes at random, each class by the same fractions.

    Parts are sized by the largest remainder, class by class. Every class is in
    train; a class of two nodes is in train and val; val is never empty where two
    nodes have a label, if need be at the cost of a class of one node.

    Parameters
    ----------
    y
        Class index of each node, [n]; -1 is unlabelled and in no part.
    fractions
        Shares of train, val and test. Where they sum to less than 1, the rest of
        the nodes is in no part.
    seed
        The same seed gives the same split.

    Returns
    -------
    Split
        Sorted node indices.

    Examples
    --------
    >>> stratified_split([0] * 10 + [1] * 5 + [-1], (0.6, 0.2, 0.2), seed=0).sizes
    (9, 3, 3)
    """
    shares = _check_fractions(fractions)
    if not isinstance(seed, np.random.SeedSequence):
        seed = check_integer("stratified_split", "seed", seed, 0)
    labels = np.asarray(y)
    nodes = np.flatnonzero(labels >= 0)
    if not nodes.size:
        raise InputError("stratified_split: 'y' has no labelled node.")
    # Shuffled first, then sorted by class: a random order within each class.
    nodes = np.random.default_rng(seed).permutation(nodes)
    nodes = nodes[np.argsort(labels[nodes], kind="stable")]
    _, counts = np.unique(labels[nodes], return_counts=True)
    sizes = np.array([_part_sizes(int(count), shares) for count in counts])
    if not sizes[:, _VAL].any() and nodes.size > 1:
        largest = int(counts.argmax())
        _give_to_val(sizes[largest], int(counts[largest]))
    starts = np.cumsum(counts) - counts
    cuts = np.column_stack([starts, starts[:, None] + np.cumsum(sizes, axis=1)])
    parts = (
        np.concatenate([nodes[cut[part] : cut[part + 1]] for cut in cuts])
        for part in (_TRAIN, _VAL, _TEST)
    )
    return Split(*map(np.sort, parts))


def _part_sizes(count: int, shares: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the sizes of the three parts of a class of `count` nodes."""
    if count <= 2:
        return np.array([1, count - 1, 0])
    # The small number keeps 0.29 * 100 = 28.999… from losing its 29th node.
    quotas = shares * count + 1e-9
    sizes = np.floor(quotas).astype(np.int64)
    missing = int(np.floor(quotas.sum() + 0.5)) - int(sizes.sum())
    sizes[np.argsort(sizes - quotas, kind="stable")[:missing]] += 1
    if not sizes[_TRAIN]:
        if sizes.sum() == count:
            sizes[sizes.argmax()] -= 1
        sizes[_TRAIN] = 1
    return sizes


def _give_to_val(sizes: NDArray[np.int64], count: int) -> None:
    """Give val one node: of no part if there is one, else of train, else of test."""
    if sizes.sum() == count:
        donor = _TEST if sizes[_TRAIN] == 1 and sizes[_TEST] else _TRAIN
        sizes[donor] -= 1
    sizes[_VAL] += 1


def _check_fractions(fractions: Sequence[float]) -> NDArray[np.float64]:
    must = "The 'fractions' parameter of stratified_split must"
    if np.shape(fractions) != (3,):
        raise InputError(f"{must} be three numbers. Got {fractions!r} instead.")
    shares = [
        check_real("stratified_split", "fractions", share, interval)
        for share, interval in zip(
            fractions, ("(0, 1]", "(0, 1]", "[0, 1]"), strict=True
        )
    ]
    if sum(shares) > 1 + 1e-9:
        raise InputError(f"{must} sum to at most 1. Got {fractions!r} instead.")
    return np.array(shares)
