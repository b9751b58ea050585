"""What an experiment leaves, as data: results, their tables, figures and cells.

`result.json` holds a `Result`. What version 0.1.0 wrote is read, and the same result is
written as the same bytes: names stand in the order of then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from h2gcn.exceptions import InputError
from h2gcn.experiments.definition import Published

__all__ = ["Cell", "Figure", "Result", "Row", "Series", "Table"]

Json = dict[str, Any]
_NUMBER = (int, float, type(None))
_REQUIRED: Any = object()


@dataclass(frozen=True)
class Cell:
    """A figure of ours beside the paper's.

    Parameters
    ----------
    mean, std, n
        Of the runs; None is not run, or without a value. A mean that is a whole number
        is a count.
    values, runs
        The figure of each run, and what it was on.
    paper
        The paper's figure.
    verdict
        "better", "within", "worse", "none" (not judged) or "not run".
    difference
        Ours less the paper's.
    best
        Whether it leads its column beyond the noise.
    note
        What must be said of this cell.
    overlap
        Test nodes per training node of splits of one graph, 0 for separate graphs;
        None for a cell that is not set beside those of other rows.
    against, interval
        The best other row with the same runs, and the interval of the lead over it.
    """

    mean: float | None = None
    std: float | None = None
    n: int = 0
    values: tuple[float, ...] = ()
    runs: tuple[str, ...] = ()
    paper: Published | None = None
    verdict: str = "none"
    difference: float | None = None
    best: bool = False
    note: str = ""
    overlap: float | None = None
    against: str | None = None
    interval: tuple[float, float] | None = None

    def to_json(self) -> Json:
        """Return the cell as what JSON can hold."""
        paired = self.overlap is not None
        interval = None if self.interval is None else list(self.interval)
        return {
            "mean": self.mean,
            "std": self.std,
            "n": self.n,
            "values": list(self.values),
            "runs": list(self.runs),
            **({"overlap": self.overlap} if paired else {}),
            "paper": None if self.paper is None else self.paper._asdict(),
            "verdict": self.verdict,
            "difference": self.difference,
            "best": self.best,
            **({"against": self.against, "interval": interval} if paired else {}),
            "note": self.note,
        }

    @classmethod
    def from_json(cls, content: object) -> Self:
        """Return what `to_json` wrote; all but the mean may be missing."""
        mean = _take(content, "mean", _NUMBER)
        interval = _take(content, "interval", list, None)
        if interval is not None and len(interval) != 2:
            raise _Malformed("'interval' must be two numbers")
        paper = _take(content, "paper", dict, None)
        if paper is not None:
            paper = Published(
                _take(paper, "mean", _NUMBER), _take(paper, "std", _NUMBER, None)
            )
        return cls(
            mean=mean,
            std=_take(content, "std", _NUMBER, None),
            n=_take(content, "n", _NUMBER, 0),
            values=tuple(_take(content, "values", list, ())),
            runs=tuple(_take(content, "runs", list, ())),
            paper=None if paper is None or paper.mean is None else paper,
            verdict=_take(
                content, "verdict", str, "not run" if mean is None else "none"
            ),
            difference=_take(content, "difference", _NUMBER, None),
            best=bool(_take(content, "best", object, False)),
            note=_take(content, "note", str, ""),
            overlap=_take(content, "overlap", _NUMBER, None),
            against=_take(content, "against", str, None),
            interval=None if interval is None else (interval[0], interval[1]),
        )


@dataclass(frozen=True)
class Row:
    """A row of a table: its name, and a cell for each column."""

    name: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """A table: rows by columns.

    Parameters
    ----------
    name, title
        How it is called, and its heading.
    columns, rows
        What it shows.
    corner
        What the rows are: "model", or something that is not better or worse.
    unit, decimals
        Of its figures.
    notes
        What must be said of it; None where there never is anything.
    matrices
        What lies behind the rows, by kind and row; None where nothing does.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    corner: str = "model"
    unit: str = ""
    decimals: int = 2
    notes: tuple[str, ...] | None = None
    matrices: Mapping[str, Mapping[str, Any]] | None = None

    @property
    def cells(self) -> Iterator[Cell]:
        """All cells, row by row."""
        return (cell for row in self.rows for cell in row.cells)

    def placed(self) -> Iterator[tuple[str, str, Cell]]:
        """Return all cells with their rows and columns."""
        for row in self.rows:
            for column, cell in zip(self.columns, row.cells, strict=True):
                yield row.name, column, cell

    def row(self, name: str) -> dict[str, Cell]:
        """Return the cells of a row by column."""
        (found,) = (row for row in self.rows if row.name == name)
        return dict(zip(self.columns, found.cells, strict=True))

    def to_json(self) -> Json:
        """Return the table as what JSON can hold."""
        rows = [
            {"name": row.name, "cells": [cell.to_json() for cell in row.cells]}
            for row in self.rows
        ]
        return {
            "name": self.name,
            "title": self.title,
            "corner": self.corner,
            "columns": list(self.columns),
            "unit": self.unit,
            "decimals": self.decimals,
            "rows": rows,
            **({} if self.notes is None else {"notes": list(self.notes)}),
            **({} if self.matrices is None else {"matrices": dict(self.matrices)}),
        }

    @classmethod
    def from_json(cls, content: object) -> Self:
        """Return what `to_json` wrote; name, title, columns and rows must be there."""
        name, title = (_take(content, word, str) for word in ("name", "title"))
        columns = tuple(_take(content, "columns", list))
        notes = _take(content, "notes", list, None)
        return cls(
            name,
            title,
            columns,
            tuple(_row(row, len(columns)) for row in _take(content, "rows", list)),
            corner=_take(content, "corner", str, "model"),
            unit=_take(content, "unit", str, ""),
            decimals=_take(content, "decimals", int, 2),
            notes=None if notes is None else tuple(notes),
            matrices=_take(content, "matrices", dict, None),
        )


@dataclass(frozen=True)
class Series:
    """A line or the bars of a figure.

    Parameters
    ----------
    name
        What the legend calls it.
    x
        Numbers, or names.
    mean, std, runs, paper
        At each x; std, runs and paper may be None altogether.
    """

    name: str
    x: tuple[Any, ...]
    mean: tuple[float | None, ...]
    std: tuple[float | None, ...] | None = None
    runs: tuple[Sequence[float] | None, ...] | None = None
    paper: tuple[float | None, ...] | None = None

    def to_json(self) -> Json:
        """Return the series as what JSON can hold."""
        runs = self.runs
        return {
            "name": self.name,
            "x": list(self.x),
            "mean": list(self.mean),
            "std": None if self.std is None else list(self.std),
            "runs": None
            if runs is None
            else [None if one is None else list(one) for one in runs],
            "paper": None if self.paper is None else list(self.paper),
        }

    @classmethod
    def from_json(cls, content: object) -> Self:
        """Return what `to_json` wrote; name, x and mean must be there."""
        with _at("a series"):
            name, x = _take(content, "name", str), _take(content, "x", list)
            mean = _take(content, "mean", list)
        with _at(f"series {name!r}"):
            others = {n: _take(content, n, list, None) for n in ("std", "paper")}
            runs = _take(content, "runs", list, None)
            lists = [v for v in (mean, *others.values(), runs) if v is not None]
            if any(len(values) != len(x) for values in lists):
                raise _Malformed("not as many values as 'x' has")
            for values in (mean, *others.values()):
                if not all(isinstance(value, _NUMBER) for value in values or ()):
                    raise _Malformed("values must be numbers")
        return cls(
            name,
            tuple(x),
            tuple(mean),
            runs=None if runs is None else tuple(runs),
            **{n: None if v is None else tuple(v) for n, v in others.items()},
        )


@dataclass(frozen=True)
class Figure:
    """A figure: series over one axis.

    Parameters
    ----------
    name, title
        How its files are called, and its heading.
    x_label, y_label, x_ticks
        Of its axes; None where matplotlib may choose.
    series
        What it shows.
    kind
        "lines", "bars", or None: lines too.
    """

    name: str
    title: str
    x_label: str | None
    y_label: str | None
    series: tuple[Series, ...]
    x_ticks: tuple[float, ...] | None = None
    kind: str | None = None

    @property
    def bars(self) -> bool:
        """Whether it shows bars."""
        return self.kind == "bars"

    def to_json(self) -> Json:
        """Return the figure as what JSON can hold."""
        x: Json = {"x_label": self.x_label}
        y: Json = {"y_label": self.y_label}
        ticks = {"x_ticks": None if self.x_ticks is None else list(self.x_ticks)}
        if self.kind is None:
            axes = x | ticks | y
        else:
            axes = {"kind": self.kind} | x | y | ({} if self.bars else ticks)
        series = [one.to_json() for one in self.series]
        return {"name": self.name, "title": self.title, **axes, "series": series}

    @classmethod
    def from_json(cls, content: object) -> Self:
        """Return what `to_json` wrote; name, title and series must be there."""
        name, title = (_take(content, word, str) for word in ("name", "title"))
        series = _take(content, "series", list)
        ticks = _take(content, "x_ticks", list, None)
        return cls(
            name,
            title,
            _take(content, "x_label", str, None),
            _take(content, "y_label", str, None),
            tuple(map(Series.from_json, series)),
            x_ticks=None if ticks is None else tuple(ticks),
            kind=_take(content, "kind", str, None),
        )


@dataclass(frozen=True)
class Result:
    """What came of an experiment.

    Parameters
    ----------
    experiment, title, protocol
        What was run.
    version, environment
        What the figures may depend on: of this package, and of others.
    notes
        What must be known to read the figures.
    tables, figures
        What came out.
    cards
        Of the graphs by name, with their compatibility matrices.
    not_run
        What was left out, and why.
    failed
        Runs that failed: key, dataset, model, split, error.
    checksums
        Of the graphs that the runs were on; None where nothing is trained.
    settings
        The setting of each model and column: model, column, config.
    interrupted
        Whether it was ended before all was run.
    """

    experiment: str
    title: str = ""
    protocol: str = ""
    version: str = ""
    environment: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    cards: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    not_run: tuple[str, ...] = ()
    failed: tuple[Mapping[str, Any], ...] = ()
    checksums: Mapping[str, str] | None = None
    settings: tuple[Mapping[str, Any], ...] | None = None
    interrupted: bool = False

    def to_json(self) -> Json:
        """Return the result as `result.json` holds it."""
        told: Json = {
            "experiment": self.experiment,
            "protocol": self.protocol,
            "version": self.version,
            "environment": dict(self.environment),
            "notes": list(self.notes),
            "figures": [figure.to_json() for figure in self.figures],
            "cards": dict(self.cards),
            "not_run": list(self.not_run),
            "failed": list(self.failed),
            "title": self.title,
            "tables": [table.to_json() for table in self.tables],
        }
        if self.checksums is not None:
            told["checksums"] = dict(self.checksums)
        if self.settings is not None:
            told["settings"] = list(self.settings)
        if self.interrupted:
            told["interrupted"] = True
        return told

    @classmethod
    def from_json(cls, content: object) -> Self:
        """Return what `to_json` wrote; all but the experiment may be missing.

        Raises
        ------
        InputError
            Where a part has another form; the message says which.
        """
        if not isinstance(content, Mapping):
            raise _Malformed("not an object")
        experiment = _take(content, "experiment", str)
        cards = _take(content, "cards", dict, {})
        for name, card in cards.items():
            with _at(f"card {name!r}"):
                _check_card(card)
        failed = _take(content, "failed", list, ())
        if not all(isinstance(run, Mapping) for run in failed):
            raise _Malformed("an entry of 'failed' must be an object")
        settings = _take(content, "settings", list, None)
        return cls(
            experiment,
            **{
                name: str(content.get(name) or "")
                for name in ("title", "protocol", "version")
            },
            environment=_take(content, "environment", dict, {}),
            notes=tuple(_take(content, "notes", list, ())),
            tables=_parts(content, "table", Table),
            figures=_parts(content, "figure", Figure),
            cards=cards,
            not_run=tuple(_take(content, "not_run", list, ())),
            failed=tuple(failed),
            checksums=_take(content, "checksums", dict, None),
            settings=None if settings is None else tuple(settings),
            interrupted=bool(_take(content, "interrupted", object, False)),
        )


_Part = TypeVar("_Part", Table, Figure)


class _Malformed(InputError):
    """Something that is not what `to_json` writes."""


@contextmanager
def _at(place: str) -> Iterator[None]:
    """Tell where the mistake is."""
    try:
        yield
    except _Malformed as error:
        between = " " if str(error).startswith("must be") else ": "
        raise _Malformed(f"{place}{between}{error}") from None


def _take(
    content: object,
    name: str,
    kind: type | tuple[type, ...],
    default: Any = _REQUIRED,
) -> Any:
    """Return a value of an object; the default where there is none."""
    if not isinstance(content, Mapping):
        raise _Malformed("must be an object")
    value = content.get(name)
    if value is None and default is not _REQUIRED:
        return default
    if name not in content:
        raise _Malformed(f"{name!r} is missing")
    if not isinstance(value, kind):
        raise _Malformed(f"{name!r} is of the wrong kind")
    return value


def _parts(
    content: Mapping[str, Any], word: str, kind: type[_Part]
) -> tuple[_Part, ...]:
    found = []
    for i, part in enumerate(_take(content, f"{word}s", list, ())):
        with _at(f"{word} {i}"):
            found.append(kind.from_json(part))
    return tuple(found)


def _row(content: object, n: int) -> Row:
    with _at("a row"):
        name, cells = _take(content, "name", str), _take(content, "cells", list)
    if len(cells) != n:
        raise _Malformed(f"row {name!r} has {len(cells)} cells, not {n}")
    with _at(f"row {name!r}"):
        return Row(name, tuple(map(Cell.from_json, cells)))


def _check_card(card: object) -> None:
    matrix = _take(card, "compatibility", list, ())
    _take(card, "class_names", list, ())
    if not all(isinstance(row, list) and len(row) == len(matrix) for row in matrix):
        raise _Malformed("'compatibility' must be a square matrix")
