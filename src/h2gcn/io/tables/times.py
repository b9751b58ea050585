"""Columns of times, and the splits that a node table brings: words, cuts, groups."""

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
from h2gcn.io.tables.features import NUMBER, PARTS, Filler, kind_of, matches

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Parts",
    "Times",
    "check_zone",
    "date_features",
    "date_names",
    "parse_times",
    "read_parts",
]

WHAT = "dates, such as 2024-06-01 or 2024-06-01 12:30, or numbers"
DAY_US = 86_400_000_000
"""Microseconds of a day."""


@dataclass(frozen=True, eq=False)
class Times:
    """A column of times.

    Parameters
    ----------
    values
        Dates (datetime64, in UTC if they have a time zone) or numbers, [n]; NaT or NaN
        where a cell is empty.
    zoned
        Whether they have a time zone.
    """

    values: NDArray[Any]
    zoned: bool

    @property
    def are_dates(self) -> bool:
        """Whether they are dates, and not numbers."""
        return bool(self.values.dtype.kind == "M")

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which cells are empty, [n]."""
        found = np.isnat(self.values) if self.are_dates else np.isnan(self.values)
        return np.asarray(found)

    @property
    def kind(self) -> str:
        """What they are, in words."""
        if not self.are_dates:
            return "numbers"
        return "dates with a time zone" if self.zoned else "dates without a time zone"


def parse_times(file: InputTable, name: str, column: pa.ChunkedArray) -> Times:
    """Return a column as times, or raise with the first cell that is none.

    Parameters
    ----------
    file, name
        The table and the name of the column, for messages.
    column
        Its cells: text of ISO 8601 or of numbers, or any of Arrow's dates or numbers.
    """
    import pyarrow as pa

    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        zone = kind.tz if pa.types.is_timestamp(kind) else None
        exact = column.cast(pa.timestamp("us", zone), safe=False)
        return Times(_as_array(exact), zone is not None)
    what = kind_of(column)
    if what == "nothing" or column.null_count == len(column):
        raise InputError(
            f"column {excerpt(name)} must hold {WHAT}. It holds nothing.",
            where=str(file.path),
        )
    if what == "numbers" and not pa.types.is_boolean(kind):
        numbers: NDArray[Any] = column.cast(pa.float64(), safe=False).to_numpy()
        large = np.flatnonzero(np.isinf(numbers))
        if large.size:
            raise _no_time(file, name, column, int(large[0]), WHAT)
        return Times(numbers, zoned=False)
    if what == "text":
        return _of_text(file, name, column)
    raise _no_time(file, name, column, 0, WHAT)


def _as_array(column: pa.ChunkedArray) -> NDArray[Any]:
    import pyarrow as pa

    plain = column.cast(pa.int64())
    values: NDArray[Any] = plain.fill_null(0).to_numpy().astype("datetime64[us]")
    values[column.is_null().to_numpy()] = np.datetime64("NaT")
    return values


def _no_time(
    file: InputTable, name: str, column: pa.ChunkedArray, row: int, rule: str
) -> InputError:
    return InputError(
        f"column {excerpt(name)} must hold {rule}, "
        f"got {excerpt(column[row].as_py())} at {file.place(row)}",
        where=str(file.path),
    )


def _of_text(file: InputTable, name: str, column: pa.ChunkedArray) -> Times:
    """Return the times of a column of text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    number, is_date = matches(column, NUMBER), matches(column, ISO_TIME)
    filled = matches(column, r"\S")
    other = filled & ~number & ~is_date
    if other.any():
        raise _no_time(file, name, column, int(np.argmax(other)), WHAT)
    if not filled.any():
        raise InputError(
            f"column {excerpt(name)} must hold {WHAT}. It holds nothing.",
            where=str(file.path),
        )
    if number.any() and is_date.any():
        rare, rule = number, "dates in all rows"
        if number.sum() > is_date.sum():
            rare, rule = is_date, "numbers in all rows"
        raise _no_time(file, name, column, int(np.argmax(rare)), rule)
    trimmed = pc.if_else(pa.array(filled), pc.utf8_trim_whitespace(column), None)
    if number.any():
        values: NDArray[Any] = trimmed.cast(pa.float64()).to_numpy()
        large = np.flatnonzero(np.isinf(values))
        if large.size:
            raise _no_time(file, name, column, int(large[0]), WHAT)
        return Times(values, zoned=False)
    zoned = matches(column, r"(Z|[+-]\d{2}:?\d{2})\s*$") & matches(column, ":")
    if zoned.any() and (is_date & ~zoned).any():
        bare = is_date & ~zoned
        rare, rule = bare, "dates with a time zone in all rows, as it has in most"
        if bare.sum() > zoned.sum():
            rare, rule = zoned, "dates without a time zone in all rows, as in most"
        raise _no_time(file, name, column, int(np.argmax(rare)), rule)
    return Times(_parse(file, name, column, trimmed), bool(zoned.any()))


def _parse(
    file: InputTable, name: str, column: pa.ChunkedArray, trimmed: pa.ChunkedArray
) -> NDArray[Any]:
    """Return the dates of text that looks like dates, in UTC, [n]."""
    import pyarrow as pa
    import pyarrow.compute as pc

    text = pa.large_string()
    parts = pc.extract_regex(trimmed.cast(text), ISO_TIME)
    day, clock, zone = (
        pc.struct_field(parts, part) for part in ("day", "time", "zone")
    )
    clock = pc.if_else(pc.equal(clock, ""), pa.scalar("00:00", text), clock)
    # Arrow reads no more digits than the unit has, and points only.
    clock = pc.replace_substring_regex(clock, r"[.,](\d{1,6})\d*$", r".\1")
    texts = pc.binary_join_element_wise(day, clock, pa.scalar("T", text))
    try:
        found = _as_array(texts.cast(pa.timestamp("us")))
    except pa.ArrowInvalid:
        raise _no_time(file, name, column, _first_bad(texts), WHAT) from None
    shifts = pc.replace_substring_regex(zone, r"^([+-]\d{2}):?(\d{2})$", r"\1\2")
    values = pc.unique(shifts).drop_null()
    codes = pc.fill_null(pc.index_in(shifts, value_set=values), -1).to_numpy()
    minutes = np.array([*map(_minutes, values.to_pylist()), 0])
    shifted: NDArray[Any] = found - minutes[codes].astype("timedelta64[m]")
    return shifted


def _minutes(zone: str) -> int:
    """Return how far a time zone such as +0130 is ahead of UTC."""
    if zone in ("", "Z"):
        return 0
    size = 60 * int(zone[1:3]) + int(zone[3:5])
    return -size if zone[0] == "-" else size


def _first_bad(texts: pa.ChunkedArray) -> int:
    """Return the first row that is no date, such as one of the 30th of February."""
    import pyarrow as pa

    for row, text in enumerate(texts):
        try:
            text.cast(pa.timestamp("us"))
        except pa.ArrowInvalid:
            return row
    return 0


def date_features(
    file: InputTable,
    table: pa.Table,
    roles: Roles,
    mistakes: Mistakes,
    filler: Filler,
) -> dict[str, NDArray[np.float32]]:
    """Return numbers for the columns of dates that were asked for, [n] by name.

    Of each: the days since 1970 began, and sine and cosine of where it is in its year
    and in its week (Monday is 0), so that December is near January.

    Parameters
    ----------
    file, table, roles
        The node table, and what its columns are for.
    mistakes
        Gets those of each column.
    filler
        Keeps the median day, and fills empty cells with it or refuses them.
    """
    found: dict[str, NDArray[np.float32]] = {}
    for name in roles.dates:
        with mistakes.of(file.path):
            if name in filler.kept and _is_empty(table[name]):
                nothing = np.full(table.num_rows, "NaT", dtype="datetime64[us]")
                times = Times(nothing, zoned=False)
            else:
                times = parse_times(file, name, table[name])
            if not times.are_dates:
                raise InputError(
                    f"column {excerpt(name)} holds numbers, not dates; "
                    "it can be a feature as it is.",
                    where=str(file.path),
                )
            found |= _numbers_of(file, name, times, filler)
    return found


def _is_empty(column: pa.ChunkedArray) -> bool:
    """Tell whether no cell of a column holds anything but blanks."""
    if column.null_count == len(column):
        return True
    return kind_of(column) == "text" and not matches(column, r"\S").any()


def _numbers_of(
    file: InputTable, name: str, times: Times, filler: Filler
) -> dict[str, NDArray[np.float32]]:
    dates, missing = times.values, times.missing
    days = np.where(missing, np.nan, dates.astype(np.int64) / DAY_US)
    # Median and number are those of days, as of any other column.
    filled = filler.fill(name, days.astype(np.float32)).astype(np.float64)
    if missing.any():
        days = np.where(missing, filled, days)
        row = int(np.argmax(missing))
        error = filler.no_median(name, file, row)
        if error is not None:
            raise error
    if filler.fills:
        dates = (days * DAY_US).astype(np.int64).astype("datetime64[us]")
    elif missing.any():
        raise InputError(
            f"column {excerpt(name)} must hold a date in each row, got a missing value "
            f"at {file.place(row)}",
            where=str(file.path),
            hint="fill_missing=True puts the median of the column there",
        )
    year = dates.astype("datetime64[Y]")
    begins, ends = (one.astype("datetime64[us]") for one in (year, year + 1))
    in_year = (dates - begins) / (ends - begins)
    in_week = (days + 3) % 7 / 7  # 1970 began on a Thursday
    turns = [
        turn(2 * np.pi * part)
        for part in (in_year, in_week)
        for turn in (np.sin, np.cos)
    ]
    columns = zip(date_names(name), [days, *turns], strict=True)
    return {label: values.astype(np.float32) for label, values in columns}


def date_names(name: str) -> tuple[str, ...]:
    """Return what the numbers are called that a column of dates becomes."""
    waves = ("sine of year", "cosine of year", "sine of week", "cosine of week")
    return tuple(f"{name} ({part})" for part in ("days", *waves))


# ------------------------------------------------------------------------------- splits


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
                    f"column {excerpt(roles.group)} names no group.",
                    where=str(file.path),
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
            f"column {excerpt(name)} must say train, val or test, or nothing, "
            f"got {excerpt(column[row].as_py())} at {file.place(row)}",
            where=str(file.path),
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
            f"column {excerpt(name)} says train of no node that has a label.",
            where=str(file.path),
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
            "must be without a time zone, as the times of the nodes are",
            param=name,
            value=time,
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
            f"no label is from {told} or before, so that there is nothing to train on",
            where=str(file.path),
            hint="test_after=… must be later",
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
                    f"no label {where}",
                    where=str(file.path),
                    hint="val_after=… must be another time",
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
