"""The figures of a result as SVG and PNG, in the paper's layout."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from h2gcn.experiments.display.series import Series, categories, floats, has_values
from h2gcn.experiments.display.styles import STYLES, Style, styles_of
from h2gcn.io import atomic_write

__all__ = ["digest", "draw"]

WIDTH, HEIGHT = 6.4, 4.3
"""Inches, without the legend."""
ROW = 0.24
"""Inches that a row of the legend takes."""
DOTS_PER_INCH = 200
MANY, MARKED = 25, 12
"""A line with more points than the first has about as many markers as the second."""
LONGEST = 72
"""Characters in a line of the title."""
PER_ROW = 4
"""Names in a row of the legend; fewer where they are long."""
FAINT = "#444444"
_SIZES = {"*": 7.5, "P": 6.5, "X": 6.5}
"""Of markers that look smaller than others of their size."""
_SETTINGS: dict[Any, Any] = {
    # The same figure is the same file: no random ids.
    "svg.hashsalt": "h2gcn",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "legend.handlelength": 3.2,
}


def draw(
    figure: Mapping[str, Any],
    path_stem: str | Path,
    suffixes: Sequence[str] = (".svg", ".png"),
) -> list[Path]:
    """Draw a figure of a result; return the files, an SVG and a PNG.

    Lines are means with a band of one standard deviation, bars have a whisker of the
    same length; what the paper has is dotted. The SVG tells the `digest` of what it
    shows, as its identifier.

    Parameters
    ----------
    figure
        A figure as `result.json` holds it.
    path_stem
        The files' name without their suffix.
    suffixes
        Which files.
    """
    files = [Path(f"{path_stem}{suffix}") for suffix in suffixes]
    # Only within this block: nothing of a host's own figures changes.
    with mpl.rc_context(_SETTINGS):
        drawn = _draw(figure)
        for file in files:
            # A date would make two equal figures differ.
            svg = file.suffix == ".svg"
            told = {"Title": str(figure["title"])}
            kind = {"Date": None, "Identifier": digest(figure)}
            with atomic_write(file) as beside:
                drawn.savefig(
                    beside,
                    dpi=DOTS_PER_INCH,
                    metadata=told | (kind if svg else {"Software": None}),
                )
    return files


def digest(figure: Mapping[str, Any]) -> str:
    """Return 16 hexadecimal digits of what a figure shows, to six digits a number.

    The same figure is another file where fonts differ; its digest is the same.

    Examples
    --------
    >>> line = {"name": "gcn", "x": [0.1], "mean": [1 / 3], "std": [None]}
    >>> one, other = ({"title": "t", "series": [line | {"mean": [mean]}]}
    ...               for mean in (1 / 3, 0.33333333))
    >>> digest(one) == digest(other)
    True
    """
    text = json.dumps(_rounded(figure), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _rounded(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(part) for part in value]
    return f"{value:.6g}" if isinstance(value, float) else value


def _draw(figure: Mapping[str, Any]) -> Figure:
    places = styles_of([str(one["name"]) for one in figure["series"]])
    there = [
        (one, STYLES[place])
        for one, place in zip(figure["series"], places, strict=True)
        if has_values(one["mean"])
    ]
    series, styles = [one for one, _ in there], [style for _, style in there]
    per_row = _per_row([str(one["name"]) for one in series])
    rows = math.ceil((len(series) + 1) / per_row)
    drawn = Figure(figsize=(WIDTH, HEIGHT + ROW * rows), layout="constrained")
    axes = drawn.add_subplot()
    axes.set_title(fill(_text(figure["title"]), LONGEST), fontsize=11)
    axes.set_xlabel(_text(figure.get("x_label") or ""))
    axes.set_ylabel(_text(figure.get("y_label") or ""))
    if not series:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "not run", ha="center", va="center")
        return drawn
    bars = figure.get("kind", "lines") == "bars"
    shown = (_bars if bars else _lines)(axes, series, styles)
    if any(has_values(one.get("paper")) for one in series):
        dotted = Line2D([], [], color=FAINT, linestyle=":", linewidth=1.3)
        shown.append((dotted, "the paper"))
    _ticks(axes, figure, series)
    handles, labels = zip(*shown, strict=True)
    drawn.legend(handles, labels, loc="outside lower center", ncols=per_row, fontsize=9)
    return drawn


def _lines(
    axes: Axes, series: Sequence[Series], styles: Sequence[Style]
) -> list[tuple[Any, str]]:
    """Draw lines with bands; return what the legend shows."""
    shown: list[tuple[Any, str]] = []
    places = categories(series)
    for one, style in zip(series, styles, strict=True):
        x = [places[v] if places else float(v) for v in one["x"]]
        mean, std = floats(one["mean"]), floats(one.get("std"), len(x))
        low = [m - s for m, s in zip(mean, std, strict=True)]
        high = [m + s for m, s in zip(mean, std, strict=True)]
        axes.fill_between(x, low, high, color=style.colour, alpha=0.15, linewidth=0)
        paper = floats(one.get("paper"), len(x))
        axes.plot(x, paper, color=style.colour, ls=":", lw=1.3, alpha=0.55)
        (line,) = axes.plot(
            x,
            mean,
            color=style.colour,
            dashes=style.dashes or (None, None),
            linewidth=1.6,
            marker=style.marker,
            markersize=_SIZES.get(style.marker, 5),
            markeredgecolor="white",
            markeredgewidth=0.5,
            markevery=1 if len(x) <= MANY else math.ceil(len(x) / MARKED),
        )
        shown.append((line, _text(one["name"])))
    return shown


def _bars(
    axes: Axes, series: Sequence[Series], styles: Sequence[Style]
) -> list[tuple[Any, str]]:
    """Draw groups of bars; return what the legend shows."""
    shown: list[tuple[Any, str]] = []
    places = categories(series, always=True)
    width = 0.8 / len(series)
    axes.grid(visible=False, axis="x")
    for i, (one, style) in enumerate(zip(series, styles, strict=True)):
        at = [places[v] + (i - (len(series) - 1) / 2) * width for v in one["x"]]
        std = floats(one.get("std"), len(at))
        look: dict[str, Any] = {"facecolor": style.colour, "edgecolor": "white"}
        look["hatch"] = style.hatch
        axes.bar(at, floats(one["mean"]), width * 0.92, **look)
        axes.errorbar(at, floats(one["mean"]), std, fmt="none", ecolor=FAINT, lw=1)
        for x, value in zip(at, floats(one.get("paper"), len(at)), strict=True):
            ends = [x - width / 2, x + width / 2]
            axes.plot(ends, [value, value], color="black", ls=":", lw=1.3)
        shown.append((Patch(**look), _text(one["name"])))
    return shown


def _ticks(axes: Axes, figure: Mapping[str, Any], series: Sequence[Series]) -> None:
    bars = figure.get("kind", "lines") == "bars"
    places = categories(series, always=bars)
    ticks = figure.get("x_ticks")
    if places:
        texts = [_text(name) for name in places]
        tilted = sum(map(len, texts)) > 60
        axes.set_xticks(
            list(places.values()),
            texts,
            rotation=30 if tilted else 0,
            ha="right" if tilted else "center",
        )
    elif ticks:
        axes.set_xticks([float(t) for t in ticks], [f"{float(t):g}" for t in ticks])


def _per_row(names: Sequence[str]) -> int:
    longest = max([9, *map(len, names)])
    return max(1, min(PER_ROW, 76 // (longest + 8), len(names) + 1))


def _text(text: object) -> str:
    """Return a name that is not read as mathematics."""
    return str(text).replace("$", r"\$")
