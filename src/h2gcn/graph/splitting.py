"""A train/validation/test split in which every class has its share, groups whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from h2gcn._validation import as_array, check_integer, check_real
from h2gcn.exceptions import InputError
from h2gcn.graph.graph import Split

__all__ = ["deal_groups", "groups_of_one", "stratified_split"]

_TRAIN, _VAL, _TEST = range(3)


def stratified_split(
    y: ArrayLike,
    fractions: Sequence[float] = (0.6, 0.2, 0.2),
    seed: int | np.random.SeedSequence = 0,
    *,
    groups: ArrayLike | None = None,
) -> Split:
    """Split the labelled nodes at random, each class by the same fractions.

    Parts are sized by the largest remainder, class by class. Every class is in
    train; a class of two nodes is in train and val; val is never empty where two
    nodes have a label, if need be at the cost of a class of one node.

    With `groups`, nodes of one group are in one part; sizes and classes come as near
    to their shares as that allows (see `deal_groups`), every class is in train and
    val is not empty where there are groups enough.

    Parameters
    ----------
    y
        Class index of each node, [n]; -1 is unlabelled and in no part.
    fractions
        Shares of train, val and test. Where they sum to less than 1, the rest of
        the nodes is in no part.
    seed
        The same seed gives the same split.
    groups
        A name or number for each node, [n]; "", None, NaN and numbers below 0 are in no
        group.

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
    if groups is not None:
        own = _group_numbers(groups, len(labels))[nodes]
        return _split_groups(nodes, own, labels[nodes], shares, seed)
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


def deal_groups(
    groups: NDArray[np.int64],
    y: NDArray[np.int64],
    shares: Sequence[float],
    seed: int | np.random.SeedSequence = 0,
) -> NDArray[np.int64]:
    """Return which part each node goes to, whole groups only, [m].

    Groups are dealt one after the other, the largest first, each to the part that has
    least of its classes: by how much the squares grow of what each part has too much
    or too little of each class.

    Parameters
    ----------
    groups, y
        Number of the group, and class, of each node, [m] each; who is in none (below 0)
        is dealt alone.
    shares
        Of the parts, in all 1; a part that has none gets none.
    seed
        Of the order in which groups of one size are dealt.

    Examples
    --------
    >>> deal_groups(np.array([0, 0, 1, 1, 1]), np.array([1, 1, 1, 1, 1]), [0.6, 0.4])
    array([1, 1, 0, 0, 0])
    """
    names, own = np.unique(groups_of_one(groups), return_inverse=True)
    classes, kind = np.unique(y, return_inverse=True)
    counts = np.zeros((len(names), len(classes)))
    np.add.at(counts, (own, kind), 1.0)
    sizes = counts.sum(axis=1)
    counts /= counts.sum(axis=0)
    order = np.random.default_rng(seed).permutation(len(names))
    order = order[np.argsort(-sizes[order], kind="stable")]
    wanted = np.asarray(shares, dtype=np.float64)
    parts = np.flatnonzero(wanted > 0)
    # How far each part is from its share of each class; below 0 is too little.
    beyond = np.repeat(-wanted[parts, None], len(classes), axis=1)
    held = -wanted[parts] * sizes.sum()
    place = np.empty(len(names), dtype=np.int64)
    for group in order:
        row = counts[group]
        growth = (2 * (beyond @ row) + row @ row) / wanted[parts]
        # Sums of the same shares in another order are equal.
        best = np.lexsort((held / wanted[parts], growth.round(9)))[0]
        place[group] = parts[best]
        beyond[best] += row
        held[best] += sizes[group]
    return place[own]


def groups_of_one(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return groups in which a node that is in none (below 0) has one of its own, [m].

    Examples
    --------
    >>> groups_of_one(np.array([4, -1, 4, -1])).tolist()
    [4, 6, 4, 8]
    """
    first = int(groups.max(initial=-1)) + 1
    return np.where(groups < 0, first + np.arange(len(groups)), groups)


def _group_numbers(groups: Any, n: int) -> NDArray[np.int64]:
    """Return the number of each node's group, [n], -1 for none."""
    given = as_array("stratified_split", "groups", groups)
    if given.shape != (n,):
        raise InputError(
            "The 'groups' parameter of stratified_split must have an entry for each of "
            f"the {n} nodes. Got shape {given.shape} instead."
        )
    if given.dtype.kind in "iuf":
        alone = ~(given >= 0)
    else:
        try:
            nothing = [bool(name is None or name != name) for name in given.tolist()]
            given = given.astype(str)
        except Exception:  # of an object that has no text
            raise InputError(
                "The 'groups' parameter of stratified_split must be names or numbers."
            ) from None
        alone = np.array(nothing, dtype=bool) | (given == "")
    _, numbers = np.unique(given, return_inverse=True)
    return np.where(alone, -1, numbers)


def _split_groups(
    nodes: NDArray[np.int64],
    groups: NDArray[np.int64],
    y: NDArray[np.int64],
    shares: NDArray[np.float64],
    seed: int | np.random.SeedSequence,
) -> Split:
    """Return a split of labelled nodes, [m], whose groups, [m], stay whole."""
    groups, rest = groups_of_one(groups), max(0.0, 1 - float(shares.sum()))
    place = deal_groups(groups, y, [*shares, rest if rest > 1e-9 else 0.0], seed)
    for label in np.unique(y):
        if not (place[y == label] == _TRAIN).any():
            _move(_smallest(groups, y == label), groups, place, _TRAIN)
    if not (place == _VAL).any() and len(np.unique(groups)) > 1:
        _move(_for_val(groups, y, place), groups, place, _VAL)
    return Split(*(np.sort(nodes[place == part]) for part in (_TRAIN, _VAL, _TEST)))


def _for_val(
    groups: NDArray[np.int64], y: NDArray[np.int64], place: NDArray[np.int64]
) -> int:
    """Return the group that val can best have: of train, one that it can spare."""
    outside = place != _TRAIN
    if outside.any():
        return _smallest(groups, outside)
    order = np.argsort(np.bincount(groups)[groups], kind="stable")
    for group in dict.fromkeys(groups[order].tolist()):
        if np.isin(y[groups == group], y[groups != group]).all():
            return int(group)
    return int(groups[order[0]])


def _smallest(groups: NDArray[np.int64], among: NDArray[np.bool_]) -> int:
    """Return the smallest of the groups that some nodes are of."""
    found, sizes = np.unique(groups, return_counts=True)
    there = np.isin(found, groups[among])
    return int(found[there][sizes[there].argmin()])


def _move(
    group: int, groups: NDArray[np.int64], place: NDArray[np.int64], part: int
) -> None:
    place[groups == group] = part


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
