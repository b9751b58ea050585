"""A split gives every class its share, by the seed and nothing else."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from h2gcn.exceptions import InputError
from h2gcn.graph import deal_groups, stratified_split
from support.cases import each
from support.refusals import refused


def counts(part: np.ndarray, y: np.ndarray) -> list[int]:
    """Return the number of nodes of each class in a part."""
    return np.bincount(y[part], minlength=y.max() + 1).tolist()


def test_each_class_has_its_share():
    y = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [50, 30, 20]))
    split = stratified_split(y, (0.6, 0.2, 0.2), seed=3)
    assert counts(split.train, y) == [30, 18, 12]
    assert counts(split.val, y) == [10, 6, 4]
    assert counts(split.test, y) == [10, 6, 4]
    everything = np.concatenate(list(split.parts.values()))
    assert sorted(everything) == list(range(100))


@each(
    ("count", "fractions", "sizes"),
    [
        (1, (0.25, 0.25, 0.5), (1, 0, 0)),
        (2, (0.25, 0.25, 0.5), (1, 1, 0)),
        (2, (0.6, 0.2, 0.2), (1, 1, 0)),
        (3, (0.6, 0.2, 0.2), (2, 1, 0)),
        (298, (0.25, 0.25, 0.5), (75, 74, 149)),
        (100, (0.29, 0.29, 0.42), (29, 29, 42)),
        (10, (0.2, 0.3, 0.0), (2, 3, 0)),
        (10, (0.1, 0.1, 0.1), (1, 1, 1)),
        (3, (0.01, 0.01, 0.98), (1, 1, 1)),
        (3, (0.1, 0.1, 0.0), (1, 1, 0)),
    ],
)
def test_one_class_is_cut_by_the_largest_remainder(count, fractions, sizes):
    assert stratified_split([0] * count, fractions).sizes == sizes


def test_a_val_without_nodes_takes_one_of_the_largest_class():
    y = np.array([0, 1, 1, 1, 1, 2])
    split = stratified_split(y, (0.9, 0.05, 0.05))
    assert counts(split.val, y) == [0, 1, 0]
    assert counts(split.train, y) == [1, 3, 1]
    # Two classes of one node each: val is not empty, train is not either.
    assert stratified_split([0, 1]).sizes == (1, 1, 0)


def test_unlabelled_nodes_are_in_no_part():
    y = np.array([-1, 0, 1, -1, 0, 1, 0, 1, -1])
    split = stratified_split(y)
    assert all((y[part] >= 0).all() for part in split.parts.values())
    assert sum(split.sizes) == 6


def test_the_seed_decides():
    y = np.arange(100) % 3
    one, same, other = (stratified_split(y, seed=seed) for seed in (1, 1, 2))
    assert all(np.array_equal(one.parts[p], same.parts[p]) for p in one.parts)
    assert not np.array_equal(one.train, other.train)


@given(
    st.lists(st.integers(-1, 4), min_size=2, max_size=60),
    st.sampled_from([(0.6, 0.2, 0.2), (0.25, 0.25, 0.5), (0.1, 0.1, 0.8), (0.1,) * 3]),
    st.integers(0, 5),
)
def test_what_holds_for_any_labels(labels, fractions, seed):
    y = np.array(labels)
    labelled = np.flatnonzero(y >= 0)
    if labelled.size < 2:
        return
    split = stratified_split(y, fractions, seed)
    union = np.concatenate(list(split.parts.values()))
    assert len(set(union)) == len(union)
    assert set(union) <= set(labelled)
    if sum(fractions) > 0.99:
        assert len(union) == len(labelled)
    assert split.val.size
    assert split.train.size
    if len(labelled) > len(set(y[labelled])):  # else val must take a class's only node
        assert set(y[split.train]) == set(y[labelled])


@each(
    ("fractions", "value", "words"),
    [
        ((0.5, 0.5), (0.5, 0.5), ""),
        (0.6, 0.6, ""),
        ((0.0, 0.5, 0.5), 0.0, "(0, 1]"),
        ((0.5, -0.1, 0.5), -0.1, "(0, 1]"),
        ((0.5, 0.2, -0.1), -0.1, "[0, 1]"),
        ((0.5, 0.2, float("nan")), float("nan"), "[0, 1]"),
        ((0.6, 0.3, 0.2), (0.6, 0.3, 0.2), "at most 1"),
    ],
)
def test_bad_fractions(fractions, value, words):
    with refused(param="fractions", value=value, words=words):
        stratified_split([0, 1], fractions)


def test_labels_and_seed_are_checked():
    with pytest.raises(InputError, match="'y' has no labelled node"):
        stratified_split([-1, -1])
    with pytest.raises(InputError, match=r"^seed .*at least 0, got -1"):
        stratified_split([0, 1], seed=-1)


def torn(split, groups) -> bool:
    """Tell whether a group that is one (from 0 on) is in two parts."""
    inside = [set(groups[part][groups[part] >= 0]) for part in split.parts.values()]
    return len(set().union(*inside)) < sum(map(len, inside))


def test_groups_stay_whole_and_parts_keep_their_sizes():
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(100), rng.integers(1, 6, 100))
    y = (rng.random(len(groups)) < 0.3).astype(int)
    split = stratified_split(y, groups=groups, seed=4)
    assert not torn(split, groups)
    n = len(y)
    assert sum(split.sizes) == n
    for part, share in zip(split.parts.values(), (0.6, 0.2, 0.2), strict=True):
        assert abs(len(part) - share * n) <= 3
        assert abs(y[part].mean() - y.mean()) < 0.05


def test_names_of_groups_and_nodes_in_none():
    y = np.zeros(8, dtype=int)
    names = np.array(["a", "a", "a", "a", "", "", None, float("nan")], dtype=object)
    split = stratified_split(y, (0.5, 0.25, 0.25), groups=names)
    parts = [set(part.tolist()) for part in split.parts.values()]
    assert parts[0] == {0, 1, 2, 3}  # the group is train; others are dealt one by one
    assert [len(part) for part in parts] == [4, 2, 2]
    assert np.array_equal(
        stratified_split(y, groups=[5, 5, 5, 5, -1, -2, -1, -1]).train,
        stratified_split(y, groups=["a"] * 4 + [""] * 4).train,
    )


def test_one_group_of_a_class_goes_to_train():
    groups = np.array([0] * 10 + [1] * 10 + [2] * 2)
    y = np.array([0] * 20 + [1] * 2)
    split = stratified_split(y, (0.4, 0.5, 0.1), groups=groups)
    assert set(y[split.train]) == {0, 1}
    assert split.val.size


def test_val_gets_a_group_if_there_are_two():
    assert stratified_split([0, 0, 1, 1], groups=[0, 0, 1, 1]).val.size == 2
    assert stratified_split([0, 1, 0, 1], groups=[7, 7, 7, 7]).sizes == (4, 0, 0)
    # The one that train can spare.
    split = stratified_split([0, 0, 1, 0], (0.98, 0.01, 0.01), groups=[0, 0, 1, 2])
    assert split.val.tolist() == [3]


def test_the_seed_deals_groups():
    y, groups = np.arange(60) % 2, np.arange(60) // 2
    one, same, other = (stratified_split(y, seed=s, groups=groups) for s in (1, 1, 2))
    assert np.array_equal(one.train, same.train)
    assert not np.array_equal(one.train, other.train)


@given(
    st.lists(
        st.tuples(st.integers(-1, 3), st.integers(-1, 12)), min_size=2, max_size=60
    ),
    st.sampled_from([(0.6, 0.2, 0.2), (0.25, 0.25, 0.5), (0.1,) * 3, (0.75, 0.25, 0)]),
    st.integers(0, 5),
)
def test_what_holds_for_any_groups(nodes, fractions, seed):
    y, groups = map(np.array, zip(*nodes, strict=True))
    labelled = np.flatnonzero(y >= 0)
    if not labelled.size:
        return
    split = stratified_split(y, fractions, seed, groups=groups)
    assert not torn(split, groups)
    union = np.concatenate(list(split.parts.values()))
    assert len(set(union)) == len(union)
    assert set(union) <= set(labelled)
    if sum(fractions) > 0.99:
        assert len(union) == len(labelled)
    own = groups[labelled]
    n_groups = len(set(own[own >= 0])) + int((own < 0).sum())
    assert split.train.size
    assert bool(split.val.size) == (n_groups > 1)
    own = np.where(own < 0, 100 + np.arange(len(own)), own)
    classes = set(y[labelled])
    # A class of one group may be what val is left with.
    if all(len(set(own[y[labelled] == c])) > 1 for c in classes):
        assert set(y[split.train]) == classes
    if sum(fractions) > 0.99 and len(classes) == 1:
        wanted = fractions[0] * len(labelled)
        assert abs(len(split.train) - wanted) <= 2 * np.bincount(own).max()


def test_equal_parts_of_groups():
    groups = np.repeat(np.arange(12), 5)
    place = deal_groups(groups, np.zeros(60, dtype=int), [0.25] * 4)
    assert np.bincount(place).tolist() == [15, 15, 15, 15]
    none = deal_groups(groups, np.zeros(60, dtype=int), [0.5, 0, 0.5])
    assert np.bincount(none).tolist() == [30, 0, 30]


def test_groups_are_checked():
    with pytest.raises(InputError, match=r"^groups .*each of the 2 nodes, got .*3,"):
        stratified_split([0, 1], groups=[0, 1, 2])

    class Mute:
        def __str__(self):
            raise ValueError

    with pytest.raises(InputError, match=r"^groups must be names or numbers"):
        stratified_split([0, 1], groups=[Mute(), Mute()])
