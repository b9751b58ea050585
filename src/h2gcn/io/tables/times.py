"""Columns of times: dates or numbers, and dates as features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from h2gcn.exceptions import InputError
from h2gcn.graph import ISO_TIME
from h2gcn.io.mistakes import Mistakes, excerpt
from h2gcn.io.tables.columns import InputTable, Roles
from h2gcn.io.tables.features import NUMBER, Filler, kind_of, matches

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Times", "date_features", "parse_times"]

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
            f"{file.path}: column {excerpt(name)} must hold {WHAT}. It holds nothing."
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
        f"{file.path}: column {excerpt(name)} must hold {rule}. "
        f"Got {excerpt(column[row].as_py())} at {file.place(row)}."
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
            f"{file.path}: column {excerpt(name)} must hold {WHAT}. It holds nothing."
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
    filler: Filler | None = None,
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
        Fills empty cells by the median day; None refuses them.
    """
    found: dict[str, NDArray[np.float32]] = {}
    for name in roles.dates:
        with mistakes.of(file.path):
            times = parse_times(file, name, table[name])
            if not times.are_dates:
                raise InputError(
                    f"{file.path}: column {excerpt(name)} holds numbers, not dates; "
                    "it can be a feature as it is."
                )
            found |= _numbers_of(file, name, times, filler)
    return found


def _numbers_of(
    file: InputTable, name: str, times: Times, filler: Filler | None
) -> dict[str, NDArray[np.float32]]:
    dates, missing = times.values, times.missing
    days = np.where(missing, np.nan, dates.astype(np.int64) / DAY_US)
    if filler is not None:
        # Median and number are those of days, as of any other column.
        filled = filler.fill(name, days.astype(np.float32)).astype(np.float64)
        days = np.where(missing, filled, days)
        dates = (days * DAY_US).astype(np.int64).astype("datetime64[us]")
    elif missing.any():
        row = int(np.argmax(missing))
        raise InputError(
            f"{file.path}: column {excerpt(name)} must hold a date in each row. Got a "
            f"missing value at {file.place(row)}. fill_missing=True puts the median of "
            "the column there."
        )
    year = dates.astype("datetime64[Y]")
    begins, ends = (one.astype("datetime64[us]") for one in (year, year + 1))
    in_year = (dates - begins) / (ends - begins)
    in_week = (days + 3) % 7 / 7  # 1970 began on a Thursday
    waves = {
        f"{name} ({wave} of {unit})": turn(2 * np.pi * part)
        for unit, part in (("year", in_year), ("week", in_week))
        for wave, turn in (("sine", np.sin), ("cosine", np.cos))
    }
    columns = {f"{name} (days)": days, **waves}
    return {label: values.astype(np.float32) for label, values in columns.items()}
