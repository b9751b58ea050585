"""A figure of a result laid out for the page: paths, points, and what they tell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from h2gcn.experiments.display.axes import (
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    category_axis,
    number_axis,
)
from h2gcn.experiments.display.series import Series, categories, floats, has_values
from h2gcn.experiments.display.styles import MARKERS, STYLES, styles_of

__all__ = ["Chart", "Drawn", "Point", "chart"]

MANY = 25
"""A line with more points shows them only when they are pointed at."""


@dataclass(frozen=True)
class Point:
    """A point or bar: where it stands, what it tells, and its whisker and paper."""

    x: float
    y: float
    label: str
    low: float | None = None
    high: float | None = None
    paper: float | None = None


@dataclass(frozen=True)
class Drawn:
    """A series, laid out."""

    name: str
    place: int
    dashes: str
    marker: str
    dense: bool
    line: str
    band: str
    paper: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Chart:
    """A figure, laid out."""

    title: str
    bars: bool
    label: str
    x: Axis
    y: Axis
    bar: float
    series: tuple[Drawn, ...]
    has_paper: bool


def chart(figure: Mapping[str, Any]) -> Chart:
    """Lay out a figure of a result."""
    bars = figure.get("kind", "lines") == "bars"
    names = [str(one["name"]) for one in figure["series"]]
    there = [
        (one, place)
        for one, place in zip(figure["series"], styles_of(names), strict=True)
        if has_values(one["mean"])
    ]
    series = [one for one, _ in there]
    places = categories(series, always=bars)
    x_label, y_label = (str(figure.get(f"{axis}_label") or axis) for axis in "xy")
    span = (LEFT, WIDTH - RIGHT)
    if places:
        x = category_axis(x_label, list(map(str, places)), span)
    else:
        values = [float(v) for one in series for v in one["x"]]
        x = number_axis(x_label, values, span, ticks=figure.get("x_ticks"))
    heights = [value for one in series for value in _heights(one)]
    y = number_axis(y_label, [*heights, 0.0] if bars else heights, (HEIGHT, TOP))
    group = 0.8 * (x.at(1) - x.at(0)) if places else 0.0
    width = group / max(1, len(series)) if bars else 0.0
    drawn = tuple(
        _drawn(one, place, places, x, y, (i - (len(series) - 1) / 2) * width)
        for i, (one, place) in enumerate(there)
    )
    return Chart(
        title=str(figure["title"]),
        bars=bars,
        label=f"{figure['title']}: {y_label} over {x_label}. "
        f"Series: {', '.join(str(one['name']) for one in series) or 'none'}.",
        x=x,
        y=y,
        bar=round(0.92 * width, 1),
        series=drawn,
        has_paper=any(has_values(one.get("paper")) for one in series),
    )


def _drawn(
    one: Series,
    place: int,
    places: Mapping[Any, int],
    x: Axis,
    y: Axis,
    shift: float,
) -> Drawn:
    n = len(one["x"])
    at = [x.at(places[v] if places else float(v)) + shift for v in one["x"]]
    mean, std = floats(one["mean"]), floats(one.get("std"), n)
    paper = floats(one.get("paper"), n)
    low = [m - s for m, s in zip(mean, std, strict=True)]
    high = [m + s for m, s in zip(mean, std, strict=True)]
    style = STYLES[place]
    return Drawn(
        name=str(one["name"]),
        place=place,
        dashes=" ".join(f"{1.5 * length:g}" for length in style.dashes),
        marker=MARKERS[style.marker],
        dense=n > MANY,
        line=_path(at, mean, y),
        band=_band(at, low, high, y),
        paper=_path(at, paper, y),
        points=tuple(
            Point(
                round(at[i], 1),
                round(y.at(mean[i]), 1),
                _label(one, i, x.label),
                low=_where(low[i], y),
                high=_where(high[i], y),
                paper=_where(paper[i], y),
            )
            for i in range(n)
            if not math.isnan(mean[i])
        ),
    )


def _heights(one: Series) -> list[float]:
    """Return all heights that a series reaches."""
    n = len(one["x"])
    mean, std = floats(one["mean"]), floats(one.get("std"), n)
    spread = [0.0 if math.isnan(s) else s for s in std]
    reached = [m + s for m, s in zip(mean, spread, strict=True)]
    reached += [m - s for m, s in zip(mean, spread, strict=True)]
    return [v for v in [*reached, *floats(one.get("paper"), n)] if not math.isnan(v)]


def _where(value: float, y: Axis) -> float | None:
    return None if math.isnan(value) else round(y.at(value), 1)


def _unbroken(heights: Sequence[float]) -> list[list[int]]:
    """Return the places of heights that are there, cut where one is not."""
    runs: list[list[int]] = [[]]
    for i, height in enumerate(heights):
        if not math.isnan(height):
            runs[-1].append(i)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if len(run) > 1]


def _path(at: Sequence[float], heights: Sequence[float], y: Axis) -> str:
    return "".join(
        "M" + "L".join(f"{at[i]:.1f} {y.at(heights[i]):.1f}" for i in run)
        for run in _unbroken(heights)
    )


def _band(
    at: Sequence[float], low: Sequence[float], high: Sequence[float], y: Axis
) -> str:
    return "".join(
        "M"
        + "L".join(
            [f"{at[i]:.1f} {y.at(high[i]):.1f}" for i in run]
            + [f"{at[i]:.1f} {y.at(low[i]):.1f}" for i in reversed(run)]
        )
        + "z"
        for run in _unbroken(high)
    )


def _label(one: Series, i: int, x_label: str) -> str:
    """Return what a point tells: the model, x, mean ± std, n, the runs, the paper's."""
    n, x = len(one["x"]), one["x"][i]
    runs = (one.get("runs") or [None] * n)[i] or []
    std, paper = floats(one.get("std"), n)[i], floats(one.get("paper"), n)[i]
    largest = max(abs(v) for v in floats(one["mean"]) if not math.isnan(v))
    decimals = 2 if largest >= 10 else 3 if largest >= 1 else 4

    def text(value: float) -> str:
        return f"{value:z.{decimals}f}"

    mean = text(one["mean"][i]) + ("" if math.isnan(std) else f" ± {text(std)}")
    lines = [str(one["name"]), f"{x_label}: {x if isinstance(x, str) else f'{x:.4g}'}"]
    lines.append(mean + (f" (n = {len(runs)})" if runs else ""))
    if len(runs) > 1:
        lines.append(f"runs: {', '.join(map(text, runs))}")
    if not math.isnan(paper):
        lines.append(f"paper: {text(paper)}")
    return "\n".join(lines)
