"""A diagnosis as one HTML page that needs nothing else: no script, no other file."""

from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

from h2gcn import __version__
from h2gcn.diagnosis import words
from h2gcn.diagnosis.diagnosing import Diagnosis

__all__ = ["render_html"]

WIDTHS = (640, 350)
"""Widths of a chart in its own units, for wide screens and for phones."""
ROW = 24
STEPS = 20
"""The heat map has this many colours and one more."""
_BLUES = (
    "f7fbff",
    "deebf7",
    "c6dbef",
    "9ecae1",
    "6baed6",
    "4292c6",
    "2171b5",
    "08519c",
)
"""ColorBrewer's Blues: they differ by lightness, so that all eyes can order them."""
_CHARACTER = 7.6
"""About the width of a character in a chart."""


@dataclass(frozen=True)
class Bar:
    """A bar: its label at the left, its length, and the text at its end."""

    label: str
    y: int
    length: float
    text: str


@dataclass(frozen=True)
class Chart:
    """A horizontal bar chart, laid out."""

    label: str
    rows: str
    axis: str
    width: int
    left: float
    right: float
    middle: float
    height: int
    bars: tuple[Bar, ...]
    ticks: tuple[tuple[float, str], ...]


def render_html(diagnosis: Diagnosis) -> str:
    """Return a diagnosis as a self-contained HTML page.

    All names that come from the data are escaped.
    """
    environment = Environment(
        loader=PackageLoader("h2gcn.diagnosis"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    top = _heat_top(diagnosis)
    return environment.get_template("diagnosis.html").render(
        diagnosis=diagnosis,
        words=words,
        version=__version__,
        palette=heat_palette(),
        top=top,
        steps=[[_step(share, top) for share in row] for row in _shares(diagnosis)],
        upright=_upright(diagnosis),
        degree_chart=_degree_chart(diagnosis),
        homophily_chart=_homophily_chart(diagnosis),
        ring_chart=_ring_chart(diagnosis),
    )


def _degree_chart(diagnosis: Diagnosis) -> list[Chart]:
    counts = [part.count for part in diagnosis.degrees]
    labels = [words.degree_range(part.low, part.high) for part in diagnosis.degrees]
    top = _round_up(max(counts, default=0))
    return _charts(
        "Histogram of the degree",
        ("degree", "nodes"),
        labels,
        [count / top for count in counts],
        [f"{count:,}" for count in counts],
        [(part, f"{part * top:,.0f}") for part in (0, 0.5, 1) if part * top % 1 == 0],
    )


def _homophily_chart(diagnosis: Diagnosis) -> list[Chart]:
    parts = diagnosis.degree_homophily
    return _charts(
        "Node homophily by degree",
        ("labelled neighbours", "mean node homophily"),
        [words.degree_range(part.low, part.high) for part in parts],
        [part.homophily for part in parts],
        [
            f"{words.number(part.homophily, 2)} ({part.nodes:,} "
            f"{'node' if part.nodes == 1 else 'nodes'})"
            for part in parts
        ],
        [(0, "0"), (0.5, "0.5"), (1, "1")],
    )


def _ring_chart(diagnosis: Diagnosis) -> list[Chart]:
    known = [ring for ring in diagnosis.rings if ring.homophily is not None]
    return _charts(
        "Equal labels by distance",
        ("hops", "share of pairs with equal labels"),
        [str(ring.hop) for ring in known],
        [ring.homophily or 0.0 for ring in known],
        [
            f"{words.number(ring.homophily, 2)} (chance {words.number(ring.chance, 2)})"
            for ring in known
        ],
        [(0, "0"), (0.5, "0.5"), (1, "1")],
    )


def _charts(
    title: str,
    axes: tuple[str, str],
    labels: Sequence[str],
    lengths: Sequence[float],
    texts: Sequence[str],
    ticks: Sequence[tuple[float, str]],
) -> list[Chart]:
    """Lay out bars whose lengths are given as shares of the axis, in each width."""
    said = "; ".join(f"{a}: {b}" for a, b in zip(labels, texts, strict=True))
    label = f"{title}. {axes[0]}: {axes[1]}. {said}."
    left = 16 + _CHARACTER * max(map(len, labels), default=0)
    charts = []
    for width in WIDTHS:
        right = width - 10 - _CHARACTER * max(map(len, texts), default=0)
        half = _CHARACTER * len(axes[1]) / 2
        rows = zip(labels, lengths, texts, strict=True)
        charts.append(
            Chart(
                label=label,
                rows=axes[0],
                axis=axes[1],
                width=width,
                left=round(left, 1),
                right=round(right, 1),
                middle=round(max((left + right) / 2, half), 1),
                height=ROW * len(labels),
                bars=tuple(
                    Bar(name, ROW * row, round(length * (right - left), 1), text)
                    for row, (name, length, text) in enumerate(rows)
                ),
                ticks=tuple(
                    (round(left + at * (right - left), 1), text)
                    for at, text in _spaced(ticks, right - left)
                ),
            )
        )
    return charts


def _spaced(
    ticks: Sequence[tuple[float, str]], room: float
) -> Sequence[tuple[float, str]]:
    """Return the ticks, only the first and the last where the others have no room."""
    widest = _CHARACTER * max((len(text) + 1 for _, text in ticks), default=0)
    return ticks if room >= widest * (len(ticks) - 1) else [ticks[0], ticks[-1]]


def _round_up(count: int) -> int:
    """Return the next round number: 1, 2 or 5 with zeros."""
    power: int = 10 ** (len(str(max(count, 1))) - 1)
    return next(n * power for n in (1, 2, 5, 10) if n * power >= count)


def _shares(diagnosis: Diagnosis) -> tuple[tuple[float | None, ...], ...]:
    return diagnosis.compatibility or ()


def _heat_top(diagnosis: Diagnosis) -> float:
    """Return the share of the darkest colour: small where all shares are small."""
    highest = max((s or 0.0 for row in _shares(diagnosis) for s in row), default=0.0)
    return next(top for top in (0.1, 0.2, 0.5, 1.0) if top >= min(highest, 1.0))


def _step(share: float | None, top: float) -> int | None:
    return None if share is None else round(STEPS * min(share / top, 1.0))


def _upright(diagnosis: Diagnosis) -> bool:
    """Return whether the heat map's column heads must be turned to fit."""
    names = [found.name for found in diagnosis.classes]
    return max(map(len, names), default=0) > 6 or len(names) > 12


def heat_palette() -> list[tuple[str, str]]:
    """Return background and text colour of each step of the heat map."""
    anchors = [[int(blue[i : i + 2], 16) for i in (0, 2, 4)] for blue in _BLUES]
    palette = []
    for step in range(STEPS + 1):
        place = step / STEPS * (len(anchors) - 1)
        low = min(int(place), len(anchors) - 2)
        colour = [
            round(a + (b - a) * (place - low))
            for a, b in zip(anchors[low], anchors[low + 1], strict=True)
        ]
        light = _luminance(colour)
        # Whichever has the higher contrast by WCAG; it is at least 4.5.
        text = "#000" if (light + 0.05) ** 2 > 0.05 * 1.05 else "#fff"
        palette.append(("#" + bytes(colour).hex(), text))
    return palette


def _luminance(colour: Sequence[int]) -> float:
    linear = [
        c / 3294.6 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
