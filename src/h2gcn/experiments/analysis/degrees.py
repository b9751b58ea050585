"""Accuracy by degree: ranges that hold enough test nodes, and the gap of their ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from h2gcn.experiments.analysis.cells import (
    Records,
    Reported,
    finished,
    measured,
    not_run,
    run_name,
)
from h2gcn.experiments.definition import EXPERIMENTS, Protocol
from h2gcn.experiments.results import Cell, Figure, Row, Series, Table

__all__ = ["Counts", "Degrees", "count", "degree_result", "gap_notes", "merge_ranges"]

LEAST = 50
"""Test nodes of a range; of fewer, a share says little."""

PAPER_GAPS = {
    ("h2gcn-1", "0.20"): "13",
    ("h2gcn-2", "0.20"): "10",
    ("h2gcn-1", "0.80"): "less than 3",
    ("h2gcn-2", "0.80"): "less than 3",
}
"""Points between the ends, as the paper has them in words."""

Counts = Sequence[Sequence[int]]
"""Of a run: lowest degree, highest degree, test nodes, those predicted right."""


class Degrees(NamedTuple):
    """A range of degrees, both ends included; None is no end.

    Examples
    --------
    >>> str(Degrees(1, 1)), str(Degrees(2, 7)), str(Degrees(64, None))
    ('1', '2–7', '≥ 64')
    """

    low: int
    high: int | None

    def __str__(self) -> str:
        if self.high is None:
            return f"≥ {self.low}"
        return f"{self.low}" if self.low == self.high else f"{self.low}–{self.high}"


def degree_result(
    protocol: Protocol, reported: Reported, records: Records
) -> tuple[Table, Figure]:
    """Return the table and the figure of accuracy by degree, a row a model and h.

    Ranges with few test nodes are merged; the notes of the table tell the gap between
    the highest and the lowest.
    """
    experiment = EXPERIMENTS["degree"]
    counted = {
        key: {
            run_name(run): records[run.key]["by_degree"]
            for run in runs
            if finished(records.get(run.key))
        }
        for key, runs in sorted(reported.items())
    }
    merged = merge_ranges([list(runs.values()) for runs in counted.values()])
    names = tuple(map(str, merged))
    cells = {
        key: tuple(_cell(runs, degrees) for degrees in merged)
        for key, runs in counted.items()
    }
    rows = tuple(
        Row(f"{model}, h = {float(column):g}", cells[model, column])
        for model, column in cells
    )
    table = Table(
        experiment.name,
        f"{experiment.title} ({protocol.name} protocol)",
        names,
        rows,
        corner="model \\ degree",
        unit="%",
        notes=tuple(gap_notes(names, cells)),
    )
    figure = Figure(
        experiment.name,
        experiment.title,
        "degree of the node",
        "test accuracy (%)",
        tuple(
            Series(
                row.name,
                names,
                tuple(cell.mean for cell in row.cells),
                tuple(cell.std for cell in row.cells),
                tuple(cell.values for cell in row.cells),
                (None,) * len(names),
            )
            for row in rows
        ),
        kind="bars",
    )
    return table, figure


def _cell(runs: Mapping[str, Counts], degrees: Degrees) -> Cell:
    """Return the accuracy of the runs that have test nodes in a range."""
    counts = {name: count(run, degrees) for name, run in runs.items()}
    shares = {name: right / n for name, (n, right) in counts.items() if n}
    if not shares:
        return not_run(None)
    nodes = sum(n for n, _ in counts.values())
    note = f"{nodes:,} test nodes"
    return measured(list(shares.values()), list(shares), None, note)


def count(run: Counts, degrees: Degrees) -> tuple[int, int]:
    """Return the test nodes of a run in a range, and those predicted right."""
    inside = [
        (n, right)
        for low, _, n, right in run
        if degrees.low <= low and (degrees.high is None or low <= degrees.high)
    ]
    return sum(n for n, _ in inside), sum(right for _, right in inside)


def merge_ranges(rows: Sequence[Sequence[Counts]], least: int = LEAST) -> list[Degrees]:
    """Merge neighbouring ranges until each holds enough test nodes in every row.

    Parameters
    ----------
    rows
        The counts of each run of each row; a row without runs does not count.
    least
        Test nodes that a range must hold, summed over the runs of a row. Only a
        single range may hold fewer.

    Examples
    --------
    >>> run = [(1, 1, 90, 9), (2, 3, 60, 9), (4, 7, 40, 9), (8, 15, 30, 9)]
    >>> [str(degrees) for degrees in merge_ranges([[run]])]
    ['1', '2–3', '≥ 4']
    """
    found = sorted(
        {(low, high) for runs in rows for run in runs for low, high, *_ in run}
    )
    parts: list[list[tuple[int, int]]] = []
    # From the top, where nodes are few; what is left over at the low end goes upwards.
    for degrees in reversed(found):
        if parts and _fewest(rows, parts[0]) < least:
            parts[0].insert(0, degrees)
        else:
            parts.insert(0, [degrees])
    if len(parts) > 1 and _fewest(rows, parts[0]) < least:
        parts[:2] = [parts[0] + parts[1]]
    merged = [Degrees(part[0][0], part[-1][1]) for part in parts]
    if parts and len(parts[-1]) > 1:
        merged[-1] = Degrees(merged[-1].low, None)
    return merged


def gap_notes(
    names: Sequence[str], rows: Mapping[tuple[str, str], Sequence[Cell]]
) -> list[str]:
    """Return how far apart the ends of the table are, a sentence a model.

    Parameters
    ----------
    names
        Of the ranges.
    rows
        The cells of each model and h.
    """
    if len(names) < 2:
        few = f"Too few test nodes for two ranges of degrees, {LEAST} in each."
        return [few] if names else []
    said = []
    for model, keys in groupby(rows, key=lambda key: key[0]):
        gaps = [gap for key in keys for gap in _gap(key, rows[key])]
        if gaps:
            said.append(
                f"{model}, accuracy at degree {names[-1]} less that at {names[0]}: "
                f"{'; '.join(gaps)}."
            )
    return said


def _gap(key: tuple[str, str], cells: Sequence[Cell]) -> Iterator[str]:
    low, high = cells[0].mean, cells[-1].mean
    if low is None or high is None:
        return
    paper = f" (the paper: {PAPER_GAPS[key]})" if key in PAPER_GAPS else ""
    points = f"{high - low:z.1f}".replace("-", "−")
    yield f"{points} points at h = {float(key[1]):g}{paper}"


def _fewest(rows: Sequence[Sequence[Counts]], part: Sequence[tuple[int, int]]) -> int:
    degrees = Degrees(part[0][0], part[-1][1])
    return min(sum(count(run, degrees)[0] for run in runs) for runs in rows if runs)
