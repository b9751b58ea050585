"""The figures of a result, drawn by matplotlib in the paper's layout.

matplotlib comes with the extra `bench`. Without it nothing here is drawn, and
`why_no_figures` says so. The report shows these same drawings. A second one, drawn to
be pointed at, took 500 lines to say again what the table beneath tells of every model.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from h2gcn.exceptions import InputError
from h2gcn.experiments.results import Figure, Series
from h2gcn.io import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

__all__ = [
    *("STYLES", "Style", "describe", "digest", "draw", "styles_of", "svg_text"),
    "why_no_figures",
]

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


def why_no_figures() -> str:
    """Return in one line what is needed to draw figures, "" where it is there."""
    if find_spec("matplotlib") is not None:
        return ""
    return "to draw figures, matplotlib is needed: pip install 'h2gcn[bench]'"


def draw(
    figure: Figure,
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
        A figure of a result.
    path_stem
        The files' name without their suffix.
    suffixes
        Which files.
    """
    if why := why_no_figures():
        raise InputError(why)
    import matplotlib as mpl

    files = [Path(f"{path_stem}{suffix}") for suffix in suffixes]
    # Only within this block: nothing of a host's own figures changes.
    with mpl.rc_context(_SETTINGS):
        drawn = _draw(figure)
        for file in files:
            with atomic_write(file) as beside:
                drawn.savefig(
                    beside, dpi=DOTS_PER_INCH, metadata=_metadata(figure, file.suffix)
                )
    return files


def svg_text(figure: Figure) -> str:
    """Return a figure as SVG without its title, for a page that tells it."""
    import matplotlib as mpl

    text = io.StringIO()
    with mpl.rc_context(_SETTINGS):
        drawn = _draw(replace(figure, title=""))
        drawn.savefig(text, format="svg", metadata=_metadata(figure, ".svg"))
    return text.getvalue()


def describe(figure: Figure) -> str:
    """Return in words what a figure shows, for those who do not see it.

    Examples
    --------
    >>> line = Series("gcn", (0.1, 0.9), (37.25, 95.0))
    >>> describe(Figure("f", "Accuracy", "h", "accuracy (%)", (line,)))
    'Accuracy: accuracy (%) over h. gcn: from 37.2 at 0.1 to 95 at 0.9.'
    """
    said = []
    for one in figure.series:
        there = [(x, y) for x, y in zip(one.x, one.mean, strict=True) if y is not None]
        if there:
            (first, low), (last, high) = there[0], there[-1]
            told = f"from {low:.3g} at {first} to {high:.3g} at {last}"
            said.append(f"{one.name}: {told if len(there) > 1 else f'{low:.3g}'}")
    axes = f"{figure.y_label or 'y'} over {figure.x_label or 'x'}"
    return f"{figure.title}: {axes}. {'; '.join(said) or 'Not run'}."


def digest(figure: Figure) -> str:
    """Return 16 hexadecimal digits of what a figure shows, to six digits a number.

    The same figure is another file where fonts differ; its digest is the same.

    Examples
    --------
    >>> one, other = (
    ...     Figure("f", "t", "x", "y", (Series("gcn", (0.1,), (mean,)),))
    ...     for mean in (1 / 3, 0.33333333)
    ... )
    >>> digest(one) == digest(other)
    True
    """
    told = _rounded(figure.to_json())
    text = json.dumps(told, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _rounded(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(part) for part in value]
    return f"{value:.6g}" if isinstance(value, float) else value


def _metadata(figure: Figure, suffix: str) -> dict[str, Any]:
    # A date would make two equal figures differ.
    told = {"Title": figure.title}
    if suffix == ".svg":
        return told | {"Date": None, "Identifier": digest(figure)}
    return told | {"Software": None}


def _draw(figure: Figure) -> Drawing:
    from matplotlib.figure import Figure as Drawing
    from matplotlib.lines import Line2D

    places = styles_of([one.name for one in figure.series])
    there = [
        (one, STYLES[place])
        for one, place in zip(figure.series, places, strict=True)
        if has_values(one.mean)
    ]
    series, styles = [one for one, _ in there], [style for _, style in there]
    per_row = _per_row([one.name for one in series])
    rows = math.ceil((len(series) + 1) / per_row)
    drawn = Drawing(figsize=(WIDTH, HEIGHT + ROW * rows), layout="constrained")
    axes = drawn.add_subplot()
    axes.set_title(fill(_text(figure.title), LONGEST), fontsize=11)
    axes.set_xlabel(_text(figure.x_label or ""))
    axes.set_ylabel(_text(figure.y_label or ""))
    if not series:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "not run", ha="center", va="center")
        return drawn
    shown = (_bars if figure.bars else _lines)(axes, series, styles)
    if any(has_values(one.paper) for one in series):
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
        x = [places[v] if places else float(v) for v in one.x]
        mean, std = floats(one.mean), floats(one.std, len(x))
        low = [m - s for m, s in zip(mean, std, strict=True)]
        high = [m + s for m, s in zip(mean, std, strict=True)]
        axes.fill_between(x, low, high, color=style.colour, alpha=0.15, linewidth=0)
        paper = floats(one.paper, len(x))
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
        shown.append((line, _text(one.name)))
    return shown


def _bars(
    axes: Axes, series: Sequence[Series], styles: Sequence[Style]
) -> list[tuple[Any, str]]:
    """Draw groups of bars; return what the legend shows."""
    from matplotlib.patches import Patch

    shown: list[tuple[Any, str]] = []
    places = categories(series, always=True)
    width = 0.8 / len(series)
    axes.grid(visible=False, axis="x")
    for i, (one, style) in enumerate(zip(series, styles, strict=True)):
        at = [places[v] + (i - (len(series) - 1) / 2) * width for v in one.x]
        std = floats(one.std, len(at))
        look: dict[str, Any] = {"facecolor": style.colour, "edgecolor": "white"}
        look["hatch"] = style.hatch
        axes.bar(at, floats(one.mean), width * 0.92, **look)
        axes.errorbar(at, floats(one.mean), std, fmt="none", ecolor=FAINT, lw=1)
        for x, value in zip(at, floats(one.paper, len(at)), strict=True):
            ends = [x - width / 2, x + width / 2]
            axes.plot(ends, [value, value], color="black", ls=":", lw=1.3)
        shown.append((Patch(**look), _text(one.name)))
    return shown


def _ticks(axes: Axes, figure: Figure, series: Sequence[Series]) -> None:
    places = categories(series, always=figure.bars)
    if places:
        texts = [_text(name) for name in places]
        tilted = sum(map(len, texts)) > 60
        axes.set_xticks(
            list(places.values()),
            texts,
            rotation=30 if tilted else 0,
            ha="right" if tilted else "center",
        )
    elif figure.x_ticks:
        ticks = [float(t) for t in figure.x_ticks]
        axes.set_xticks(ticks, [f"{t:g}" for t in ticks])


def _per_row(names: Sequence[str]) -> int:
    longest = max([9, *map(len, names)])
    return max(1, min(PER_ROW, 76 // (longest + 8), len(names) + 1))


def _text(text: object) -> str:
    """Return a name that is not read as mathematics."""
    return str(text).replace("$", r"\$")


# ------------------------------------------------------------- what a series has

Values = Sequence[float | None] | None


def has_values(values: Values) -> bool:
    """Return whether any of the values is there."""
    return any(value is not None for value in values or ())


def floats(values: Values, n: int = 0) -> list[float]:
    """Return values with NaN for what is not there; n of them if there are none.

    Examples
    --------
    >>> floats([1, None]), floats(None, 2)
    ([1.0, nan], [nan, nan])
    """
    if values is None:
        return [math.nan] * n
    return [math.nan if value is None else float(value) for value in values]


def categories(series: Sequence[Series], *, always: bool = False) -> dict[Any, int]:
    """Return the place of each x that is a name; {} where all x are numbers.

    Parameters
    ----------
    series
        The series of a figure.
    always
        Take numbers for names too, as bars do.
    """
    x = [value for one in series for value in one.x]
    if not always and all(isinstance(value, (int, float)) for value in x):
        return {}
    return {value: place for place, value in enumerate(dict.fromkeys(x))}


# -------------------------------------------------------------- how a model looks


@dataclass(frozen=True)
class Style:
    """A way to draw a series.

    Parameters
    ----------
    colour
        On white.
    marker
        matplotlib's name of the marker.
    dashes
        Lengths of strokes and gaps in points; () is a solid line.
    hatch
        matplotlib's pattern of a bar.
    """

    colour: str
    marker: str
    dashes: tuple[float, ...]
    hatch: str


STYLES = (
    Style("#d55e00", "o", (), ""),
    Style("#0072b2", "s", (), "///"),
    Style("#009e73", "^", (6, 2), "..."),
    Style("#b0478a", "D", (6, 2), "xxx"),
    Style("#b87a00", "v", (8, 2, 2, 2), "\\\\\\"),
    Style("#3590c8", "P", (8, 2, 2, 2), "|||"),
    Style("#7a1f4d", "X", (3, 1.5), "---"),
    Style("#4d4d4d", "*", (10, 3), "+++"),
    Style("#3d9b91", "<", (3, 1.5), "oo"),
    Style("#332288", ">", (10, 3), "//"),
    Style("#85852a", "h", (8, 2, 2, 2, 2, 2), ".."),
    Style("#8b5a2b", "d", (8, 2, 2, 2, 2, 2), "xx"),
)
"""After Okabe and Ito, and Tol, for all eyes; marker and dashes tell them in grey.

Dots are left to the paper's lines.
"""

_PLACES = {
    **{"h2gcn-1": 0, "h2gcn-2": 1, "graphsage": 2, "gcn-cheby": 3, "mixhop": 4},
    **{"gcn": 5, "gat": 6, "mlp": 7, "graphsage-jk": 8, "gcn-cheby-jk": 9},
    **{"gcn-jk": 10, "geom-gcn": 11, "h2gcn-s1": 2, "h2gcn-ns0": 4, "h2gcn-ns1": 3},
    **{"h2gcn-n0": 5, "h2gcn-n1": 6, "h2gcn-k0": 4, "h2gcn-k1": 2, "h2gcn-r2": 3},
    "h2gcn-nonlinear": 7,
}
"""Of models that are shown together no two are the same."""


def styles_of(names: Sequence[str]) -> list[int]:
    """Return the place in `STYLES` of each name: a model's own, else the next free.

    Beyond as many names as styles, they come again.

    Examples
    --------
    >>> styles_of(["mine", "h2gcn-1", "mine too"])
    [1, 0, 2]
    """
    known = {name: _PLACES[name] for name in names if name in _PLACES}
    taken = set(known.values())
    free = [place for place in range(len(STYLES)) if place not in taken]
    used: set[int] = set()
    places: list[int] = []
    for name in names:
        place = known.get(name)
        if place is None or place in used:
            place = free.pop(0) if free else len(places) % len(STYLES)
        used.add(place)
        places.append(place)
    return places
