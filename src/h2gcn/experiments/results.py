"""What an experiment leaves, as data: results, their tables, figures and cells.

`result.json` holds a `Result`. What version 0.1.0 wrote is read, and the same result is
written as the same bytes: names stand in the order of then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec

from h2gcn.experiments.definition import Published
from h2gcn.io import conform, shown

__all__ = ["Cell", "Figure", "Result", "Row", "Series", "Table"]

Json = dict[str, Any]


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
    def from_json(cls, content: object) -> Cell:
        """Return what `to_json` wrote; all but the mean may be missing."""
        return conform(CellJson, content, "cell").made()


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
    def from_json(cls, content: object) -> Table:
        """Return what `to_json` wrote; name, title, columns and rows must be there."""
        return conform(TableJson, content, "table").made()


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
    def from_json(cls, content: object) -> Figure:
        """Return what `to_json` wrote; name, title and series must be there."""
        return conform(FigureJson, content, "figure").made()


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
    def from_json(cls, content: object, where: object = "result") -> Result:
        """Return what `to_json` wrote; all but the experiment may be missing.

        Parameters
        ----------
        content
            Of a file, whatever that holds.
        where
            The file, for messages.

        Raises
        ------
        InputError
            Where a part has another form; the message says which.
        """
        return conform(ResultJson, content, where).made()


# ---------------------------------------------------------------- as files hold them

Number = Annotated[float, msgspec.Meta(ge=-1e15, le=1e15)]
"""A figure of a table; more is no figure."""
Whole = Annotated[int, msgspec.Meta(ge=-(10**15), le=10**15)]
Figures = list[Whole | Number | None]
"""Figures by run or by place; None where there is none."""


class PublishedJson(msgspec.Struct):
    """The schema of a figure of the paper."""

    mean: Whole | Number | None
    std: Whole | Number | None = None


class CellJson(msgspec.Struct):
    """The schema of a cell."""

    mean: Whole | Number | None
    std: Whole | Number | None = None
    n: Whole | None = None
    values: list[Whole | Number] | None = None
    runs: list[str] | None = None
    paper: PublishedJson | None = None
    verdict: Literal["better", "within", "worse", "none", "not run"] | None = None
    difference: Whole | Number | None = None
    best: bool | None = None
    note: str | None = None
    overlap: Whole | Number | None = None
    against: str | None = None
    interval: tuple[Whole | Number, Whole | Number] | None = None

    def made(self) -> Cell:
        """Return the cell."""
        paper = None
        if self.paper is not None and self.paper.mean is not None:
            paper = Published(self.paper.mean, self.paper.std)
        return Cell(
            self.mean,
            self.std,
            self.n or 0,
            tuple(self.values or ()),
            tuple(self.runs or ()),
            paper,
            self.verdict or ("not run" if self.mean is None else "none"),
            self.difference,
            bool(self.best),
            self.note or "",
            self.overlap,
            self.against,
            self.interval,
        )


class RowJson(msgspec.Struct):
    """The schema of a row."""

    name: str
    cells: list[CellJson]


class TableJson(msgspec.Struct):
    """The schema of a table."""

    name: str
    title: str
    columns: list[str]
    rows: list[RowJson]
    corner: str | None = None
    unit: str | None = None
    decimals: Annotated[int, msgspec.Meta(ge=0, le=15)] | None = None
    notes: list[str] | None = None
    matrices: dict[str, dict[str, Any]] | None = None

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                counts = f"{len(row.cells)} cells, not {len(self.columns)}"
                raise ValueError(f"row {shown(row.name)} has {counts}")

    def made(self) -> Table:
        """Return the table."""
        return Table(
            self.name,
            self.title,
            tuple(self.columns),
            tuple(Row(r.name, tuple(c.made() for c in r.cells)) for r in self.rows),
            "model" if self.corner is None else self.corner,
            self.unit or "",
            2 if self.decimals is None else self.decimals,
            None if self.notes is None else tuple(self.notes),
            self.matrices,
        )


class SeriesJson(msgspec.Struct):
    """The schema of a series."""

    name: str
    x: list[Whole | Number | str]
    mean: Figures
    std: Figures | None = None
    runs: list[list[Whole | Number] | None] | None = None
    paper: Figures | None = None

    def __post_init__(self) -> None:
        for values in (self.mean, self.std, self.runs, self.paper):
            if values is not None and len(values) != len(self.x):
                raise ValueError(f"not as many values as 'x' has {len(self.x)}")
        if len({isinstance(x, str) for x in self.x}) > 1:
            raise ValueError("'x' has names and numbers")

    def made(self) -> Series:
        """Return the series."""
        return Series(
            self.name,
            tuple(self.x),
            tuple(self.mean),
            None if self.std is None else tuple(self.std),
            None if self.runs is None else tuple(self.runs),
            None if self.paper is None else tuple(self.paper),
        )


class FigureJson(msgspec.Struct):
    """The schema of a figure."""

    name: str
    title: str
    series: list[SeriesJson]
    x_label: str | None = None
    y_label: str | None = None
    x_ticks: list[Whole | Number] | None = None
    kind: Literal["lines", "bars"] | None = None

    def made(self) -> Figure:
        """Return the figure."""
        return Figure(
            self.name,
            self.title,
            self.x_label,
            self.y_label,
            tuple(one.made() for one in self.series),
            None if self.x_ticks is None else tuple(self.x_ticks),
            self.kind,
        )


class CardJson(msgspec.Struct):
    """The schema of what is shown of a graph's card."""

    checksum: str | None = None
    class_names: list[str] | None = None
    compatibility: list[list[Number | None]] | None = None

    def __post_init__(self) -> None:
        matrix = self.compatibility or []
        if any(len(row) != len(matrix) for row in matrix):
            raise ValueError("'compatibility' must be a square matrix")


class FailedJson(msgspec.Struct):
    """The schema of a run that failed."""

    dataset: str = ""
    model: str = ""
    split: Whole | None = None
    error: str = ""


class ResultJson(msgspec.Struct):
    """The schema of `result.json`."""

    experiment: str
    title: str | None = None
    protocol: str | None = None
    version: str | None = None
    environment: dict[str, str | Whole | Number] | None = None
    notes: list[str] | None = None
    tables: list[TableJson] | None = None
    figures: list[FigureJson] | None = None
    cards: dict[str, dict[str, Any]] | None = None
    not_run: list[str] | None = None
    failed: list[dict[str, Any]] | None = None
    checksums: dict[str, str] | None = None
    settings: list[dict[str, Any]] | None = None
    interrupted: bool | None = None

    def __post_init__(self) -> None:
        for name, card in (self.cards or {}).items():
            conform(CardJson, card, f"card {shown(name)}")
        for run in self.failed or ():
            conform(FailedJson, run, "a run that failed")

    def made(self) -> Result:
        """Return the result."""
        return Result(
            self.experiment,
            self.title or "",
            self.protocol or "",
            self.version or "",
            self.environment or {},
            tuple(self.notes or ()),
            tuple(table.made() for table in self.tables or ()),
            tuple(figure.made() for figure in self.figures or ()),
            self.cards or {},
            tuple(self.not_run or ()),
            tuple(self.failed or ()),
            self.checksums,
            None if self.settings is None else tuple(self.settings),
            bool(self.interrupted),
        )
