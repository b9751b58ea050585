"""Splits that a node table brings: a column of words, times with a cut, or groups."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from h2gcn.exceptions import InputError
from h2gcn.graph import ISO_TIME, Split, moment, stratified_split, time_text
from h2gcn.io.mistakes import Mistakes, excerpt
from h2gcn.io.tables.columns import InputTable, Roles, TableOptions, as_text, text_codes
from h2gcn.io.tables.features import PARTS
from h2gcn.io.tables.times import Times, parse_times

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Parts", "check_zone", "read_parts"]

FOR_VAL = 0.25
"""The share of the training labels that are for validation where nothing says which."""


@dataclass(frozen=True, eq=False)
class Parts:
    """What a node table says of how its nodes are split.

    Parameters
    ----------
    splits
        One split, or none.
    times
        Of the nodes, [n], or None.
    groups
        Numbers of groups, [n], -1 for none; or None.
    notes
        What was left out or decided.
    """

    splits: tuple[Split, ...] = ()
    times: Times | None = None
    groups: NDArray[np.int64] | None = None
    notes: tuple[str, ...] = ()


def read_parts(
    file: InputTable,
    table: pa.Table,
    roles: Roles,
    options: TableOptions,
    y: NDArray[np.int64],
    classes: NDArray[Any] | None,
    mistakes: Mistakes,
) -> Parts:
    """Return how the nodes of a table are split, if it says so.

    Parameters
    ----------
    file, table, roles
        The node table, and what its columns are for.
    options
        Where the cut is, if times are one.
    y, classes
        Class index of each node, [n], -1 for none; and what they stand for.
    mistakes
        Gets those of each column.
    """
    if not options.to_train:
        return Parts()
    splits: list[Split] = []
    notes: list[str] = []
    times = groups = None
    with mistakes.of(file.path):
        if roles.split is not None:
            split, notes = _split_by_words(file, roles.split, table[roles.split], y)
            splits.append(split)
    with mistakes.of(file.path):
        if roles.group is not None:
            groups, _ = text_codes(as_text(file, roles.group, table[roles.group]))
            if not (groups >= 0).any():
                raise InputError(
                    f"{file.path}: column {excerpt(roles.group)} names no group."
                )
    with mistakes.of(file.path):
        if roles.time is not None:
            times = parse_times(file, roles.time, table[roles.time])
            notes += _undated(times, y)
            if options.test_after is not None:
                split, more = _split_by_time(file, times, options, y, classes)
                splits.append(split)
                notes += more
    return Parts(tuple(splits), times, groups, tuple(notes))


def _split_by_words(
    file: InputTable, name: str, column: pa.ChunkedArray, y: NDArray[np.int64]
) -> tuple[Split, list[str]]:
    """Return the split that a column of words says, and notes."""
    codes, words = text_codes(as_text(file, name, column))
    found = [PARTS.get(word.lower()) for word in words]
    if None in found:
        row = int(np.argmax(codes == found.index(None)))
        raise InputError(
            f"{file.path}: column {excerpt(name)} must say train, val or test, or "
            f"nothing. Got {excerpt(column[row].as_py())} at {file.place(row)}."
        )
    part_of = np.array([*found, ""])[codes]
    notes, parts = [], {}
    for part in ("train", "val", "test"):
        nodes = np.flatnonzero(part_of == part)
        parts[part] = nodes[y[nodes] >= 0]
        unlabelled = len(nodes) - len(parts[part])
        if unlabelled:
            one = unlabelled == 1
            have = (
                f"{unlabelled:,} {part} {'node has' if one else 'nodes have'} no label"
            )
            left = "and is left out" if one else "and are left out"
            test = "a node to predict" if one else "nodes to predict"
            notes.append(f"{have}: {test}" if part == "test" else f"{have} {left}")
    if not parts["train"].size:
        raise InputError(
            f"{file.path}: column {excerpt(name)} says train of no node that has a "
            "label."
        )
    if not parts["val"].size:
        parts["train"], parts["val"] = _draw(parts["train"], y)
        notes.append(
            f"column {excerpt(name)} says val of no node that has a label: "
            f"{_count(parts['val'], 'training node')}, drawn by class, will do for that"
        )
    return Split(**parts), notes


def _draw(
    train: NDArray[np.int64], y: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return training nodes without those that are drawn for validation, and these."""
    labels = np.full(len(y), -1)
    labels[train] = y[train]
    drawn = stratified_split(labels, (1 - FOR_VAL, FOR_VAL, 0))
    return drawn.train, drawn.val


def _count(nodes: NDArray[np.int64], what: str) -> str:
    return f"{len(nodes):,} {what}{'' if len(nodes) == 1 else 's'}"


def _undated(times: Times, y: NDArray[np.int64]) -> list[str]:
    missing = times.missing
    count, labelled = int(missing.sum()), int((missing & (y >= 0)).sum())
    if not count:
        return []
    one = count == 1
    return [
        f"{count:,} {'node has' if one else 'nodes have'} no time and "
        f"{'is' if one else 'are'} taken as always there, {labelled:,} of them labelled"
    ]


def check_zone(times: Times, name: str, time: Any) -> None:
    """Raise where a time has a zone and those that it is compared with have none."""
    parts = re.match(ISO_TIME, str(time))
    if times.are_dates and not times.zoned and parts is not None and parts["zone"]:
        raise InputError(
            f"'{name}' must be without a time zone, as the times of the nodes are. Got "
            f"{excerpt(time)} instead."
        )


def _split_by_time(
    file: InputTable,
    times: Times,
    options: TableOptions,
    y: NDArray[np.int64],
    classes: NDArray[Any] | None,
) -> tuple[Split, list[str]]:
    """Return training, validation and test labels by time, and notes."""
    values = times.values
    check_zone(times, "test_after", options.test_after)
    cut = moment("test_after", options.test_after, values)
    labelled = np.flatnonzero(y >= 0)
    late = values[labelled] > cut
    known, test = labelled[~late], labelled[late]
    told = time_text(cut)
    if not known.size:
        raise InputError(
            f"{file.path}: no label is from {told} or before, so that there is nothing "
            "to train on; 'test_after' must be later."
        )
    if options.val_after is None:
        train, val, how = _latest(known, values, times.missing, y)
    else:
        check_zone(times, "val_after", options.val_after)
        first = moment("val_after", options.val_after, values)
        train, val = known[~(values[known] > first)], known[values[known] > first]
        how = f"those after {time_text(first)}"
        for part, where in (
            (train, f"is from {time_text(first)} or before"),
            (val, f"is from after {time_text(first)} and not after {told}"),
        ):
            if not part.size:
                raise InputError(
                    f"{file.path}: no label {where}; 'val_after' must be another time."
                )
    tested = f"the labels after {told} are for testing ({len(test):,})"
    if not test.size:
        tested = f"no label is from after {told}: how good a model is will not be told"
    notes = [
        f"{tested}; of the {len(known):,} up to then {how} are for validation "
        f"({len(val):,})"
    ]
    unknown = np.setdiff1d(y[test], y[train])
    if unknown.size and classes is not None:
        names = ", ".join(str(label) for label in classes[unknown])
        notes.append(f"only later labels are of class {names}: it cannot be learned")
    return Split(train, val, test), notes


def _latest(
    known: NDArray[np.int64],
    values: NDArray[Any],
    missing: NDArray[np.bool_],
    y: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], str]:
    """Return the earlier labels, the latest quarter, and how that is told.

    Labels of one time stay together, so that it may be less than a quarter.
    """
    dated = np.sort(values[known[~missing[known]]])
    if dated.size:
        place = min(len(known) - int(FOR_VAL * len(known)), len(known) - 1)
        # Those without a time are the earliest.
        place -= len(known) - len(dated)
        latest = dated[max(place - 1, 0)]
        if latest == dated[-1]:
            before = dated[dated < latest]
            latest = before[-1] if before.size else latest
        late = values[known] > latest
        if late.any() and not late.all():
            return known[~late], known[late], f"those after {time_text(latest)}"
    train, val = _draw(known, y)
    return train, val, "some, drawn by class as all are of one time,"
