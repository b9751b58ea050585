"""How a diagnosis is shown: short texts, a page that needs nothing else, a picture.

The texts are for the terminal and the HTML page. The picture, of probabilities against
what came true, is inline SVG, as are the bars of a page of reasons. There is no script,
and no other file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from h2gcn import __version__
from h2gcn.diagnosis.advice import METRIC_WORDS, PLACES, QuickFit, QuickScore
from h2gcn.diagnosis.diagnosing import MEASURES, Diagnosis
from h2gcn.diagnosis.numbers import NONE, number, percent
from h2gcn.rings import RingForecast
from h2gcn.sparse import format_bytes

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = [
    "NEIGHBOURS",
    "NONE",
    "ReasonChart",
    "card_facts",
    "degree_range",
    "direction_rows",
    "expectation",
    "find_template",
    "measure_rows",
    "number",
    "percent",
    "quick_heads",
    "quick_rows",
    "quick_sentence",
    "reliability_svg",
    "render_html",
    "render_reasons",
    "ring_rows",
]

HOME = "h2gcn.diagnosis"
"""The room whose templates all pages may use."""

NEIGHBOURS = {
    "informative": "neighbours informative",
    "weak": "neighbours weakly informative",
    "uninformative": "neighbours uninformative",
}
"""What `Verdict.neighbours` says, in two or three """


def degree_range(low: int, high: int) -> str:
    """Return a range of degrees.

    Examples
    --------
    >>> degree_range(1, 1), degree_range(2, 3)
    ('1', '2–3')
    """
    return str(low) if low == high else f"{low}–{high}"


def expectation(helps: bool | None) -> str:
    """Return what to expect of a design, in a word or two."""
    return {True: "helps", False: "little to gain", None: "not known"}[helps]


def measure_rows(diagnosis: Diagnosis) -> list[tuple[str, str, str]]:
    """Return name, value and meaning of each measure, or why it has no value."""
    return [
        (
            key.replace("_", " ").replace("class insensitive", "class-insensitive"),
            number(diagnosis.measures[key]),
            diagnosis.undefined.get(key, meaning),
        )
        for key, meaning in MEASURES.items()
    ]


def ring_rows(diagnosis: Diagnosis) -> list[tuple[str, ...]]:
    """Return a row for each ring.

    Hops, pairs, those with two labels, their share alike, chance, adjusted, what one
    label tells of the other, and note.
    """
    return [
        (
            str(ring.hop),
            ("" if ring.exact else "about ") + f"{ring.entries // 2:,}",
            NONE if ring.labelled is None else f"{ring.labelled:,}",
            number(ring.homophily),
            number(ring.chance),
            number(ring.adjusted),
            number(ring.informativeness),
            ring.note,
        )
        for ring in diagnosis.rings
    ]


def direction_rows(diagnosis: Diagnosis) -> list[tuple[str, ...]]:
    """Return a row for each path along directions.

    Path, whose labels they are, walks, their share alike, chance, what the label at the
    end tells of the one at the beginning, and note.
    """
    return [
        (
            one.path,
            PLACES[one.path],
            f"{one.walks:,}",
            number(one.homophily),
            number(one.chance),
            number(one.informativeness),
            one.note,
        )
        for one in diagnosis.directions
    ]


def quick_sentence(quick: QuickFit) -> str:
    """Return what was fitted, on how many nodes, and how long it took."""
    if quick.note:
        return f"Nothing was fitted: {quick.note}."
    metric = METRIC_WORDS[quick.metric]
    return (
        f"{metric[0].upper()}{metric[1:]} on {quick.held_out} that the models were not "
        f"fitted to; always saying the largest class has {percent(quick.majority, 1)}. "
        f"It took {quick.seconds:.1f} s; after {quick.time_limit:g} s no further model "
        "is begun."
    )


def quick_heads(quick: QuickFit) -> tuple[str, ...]:
    """Return the heads of `quick_rows`."""
    return ("model", "sees", METRIC_WORDS[quick.metric], "behind", "seconds", "note")


def quick_rows(quick: QuickFit) -> list[tuple[str, ...]]:
    """Return a row for each model of a quick fit.

    Model, what it sees, its score, how far it is behind the best with the standard
    error of that, seconds, and note.
    """
    return [
        (
            row.name,
            row.sees,
            NONE if row.score is None else percent(row.score, 1),
            _behind(row),
            f"{row.seconds:.1f}",
            row.note,
        )
        for row in quick.rows
    ]


def _behind(row: QuickScore) -> str:
    if row.behind is None or row.behind_error is None:
        return NONE
    if not row.behind and not row.behind_error:
        return ""
    return f"{100 * row.behind:.1f} ± {100 * row.behind_error:.1f}"


def card_facts(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """Return the card's counts, a name and a text each."""
    card = diagnosis.card
    directed = card["directed_edges"]
    degree = float(card["mean_degree"])  # type: ignore[arg-type]
    given = "" if directed is None else f" ({directed:,} with directions)"
    sizes = card["split_sizes"]
    mean = ", the mean of them" if card["splits"] != 1 else ""
    parts = f" (train, val, test: {', '.join(map(str, sizes))}{mean})" if sizes else ""  # type: ignore[call-overload]
    return [
        ("nodes", f"{card['nodes']:,}"),
        ("labelled nodes", f"{card['labelled']:,}"),
        ("classes", f"{card['classes']:,}"),
        ("features", f"{card['features']:,}"),
        ("edges", f"{card['edges']:,}{given}"),
        ("edges between labelled nodes", f"{diagnosis.labelled_edges:,}"),
        ("degree", f"mean {number(degree, 1)}, highest {card['max_degree']:,}"),
        ("nodes without neighbours", f"{card['isolated']:,}"),
        ("splits", f"{card['splits']:,}{parts}"),
        ("rings", _forecast(diagnosis.forecast)),
        ("checksum", str(card["checksum"])),
    ]


def _forecast(forecast: RingForecast) -> str:
    about = "" if forecast.exact else "about "
    return (
        f"{about}{sum(forecast.entries):,} entries up to {len(forecast.entries)} hops, "
        f"{format_bytes(forecast.bytes)} to train on them"
    )


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
    top = _heat_top(diagnosis)
    return find_template("diagnosis.html").render(
        diagnosis=diagnosis,
        version=__version__,
        palette=heat_palette(),
        top=top,
        steps=[[_step(share, top) for share in row] for row in _shares(diagnosis)],
        upright=_upright(diagnosis),
        degree_chart=_degree_chart(diagnosis),
        homophily_chart=_homophily_chart(diagnosis),
        ring_chart=_ring_chart(diagnosis),
    )


def find_template(name: str, room: str = HOME) -> Template:
    """Return a template, which knows how a diagnosis is put into words.

    What it is filled with is escaped.

    Parameters
    ----------
    name
        Of its file in the folder `templates` of the room. It may include those of
        this room, such as `page.css`.
    room
        Such as "h2gcn.auto".
    """
    # Who reads the diagnosis in a terminal does not wait for it.
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    homes = dict.fromkeys((room, HOME))
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(home) for home in homes]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update({name: globals()[name] for name in __all__})
    return environment.get_template(name)


def _degree_chart(diagnosis: Diagnosis) -> list[Chart]:
    counts = [part.count for part in diagnosis.degrees]
    labels = [degree_range(part.low, part.high) for part in diagnosis.degrees]
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
        [degree_range(part.low, part.high) for part in parts],
        [part.homophily for part in parts],
        [
            f"{number(part.homophily, 2)} ({part.nodes:,} "
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
            f"{number(ring.homophily, 2)} (chance {number(ring.chance, 2)})"
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


SIDE, LEFT, FLOOR = 240, 46, 270
"""Side of the square of the template, and where it begins: its left and lower edge."""
BARS = 44
"""Height of the bar of the bin with the most nodes."""
MOST, LEAST = 7.0, 2.5
"""Radius of the point of that bin, and of the smallest one."""


@dataclass(frozen=True)
class Point:
    """A bin, laid out: its point, where the diagonal is there, and its bar."""

    x: float
    y: float
    level: float
    radius: float
    left: float
    width: float
    bar: float


class Bin(Protocol):
    """Nodes of which about the same was told."""

    @property
    def low(self) -> float:
        """Least probability."""
        ...

    @property
    def high(self) -> float:
        """Largest probability."""
        ...

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        ...

    @property
    def confidence(self) -> float | None:
        """Mean probability."""
        ...

    @property
    def accuracy(self) -> float | None:
        """Share that came true."""
        ...


def reliability_svg(bins: Sequence[Bin], title: str = "Reliability") -> str:
    """Return a picture of how often what was told came true, as an SVG element.

    A point for each bin with nodes: what was told at the bottom, what came true at the
    left, larger for more nodes; on the diagonal probabilities are right, below it too
    sure. Under it, bars say how many nodes each bin has. It needs no script and no
    other file, and takes its colours from the page: `--ink`, `--faint`, `--line` and
    `--bar`, where it has them.

    Parameters
    ----------
    bins
        Such as those of `h2gcn.training.reliability_bins`.
    title
        Written above; escaped.
    """
    filled = [
        (one, one.confidence, one.accuracy)
        for one in bins
        if one.confidence is not None and one.accuracy is not None
    ]
    most = max((one.nodes for one, _, _ in filled), default=0)
    said = "; ".join(
        f"told {number(told, 2)}, came true {number(true, 2)} ({one.nodes:,} "
        f"{'node' if one.nodes == 1 else 'nodes'})"
        for one, told, true in filled
    )
    points = [
        Point(
            x=round(LEFT + SIDE * told, 1),
            y=round(FLOOR - SIDE * true, 1),
            level=round(FLOOR - SIDE * told, 1),
            radius=round(max(LEAST, MOST * (one.nodes / most) ** 0.5), 1),
            left=round(LEFT + SIDE * one.low + 0.5, 1),
            width=round(SIDE * (one.high - one.low) - 1, 1),
            bar=round(max(BARS * one.nodes / most, 1.0), 1),
        )
        for one, told, true in filled
    ]
    return find_template("reliability.svg").render(
        title=title,
        label=f"{title}. {said or 'No nodes'}.",
        points=points,
        most=f"{most:,}",
    )


# ------------------------------------------------------------------ the page of reasons


@dataclass(frozen=True)
class ReasonChart:
    """Numbers of either sign, as bars.

    Parameters
    ----------
    title, note
        What they are, and what else is to be said of them; a note may be empty.
    rows
        A name, a number, and how that is written.
    closed
        Whether the reader has to open it.
    """

    title: str
    note: str
    rows: tuple[tuple[str, float, str], ...]
    closed: bool = False

    @property
    def bars(self) -> list[tuple[str, str, bool, float, float]]:
        """Name, text, whether it is below zero, left end and width in percent."""
        low, span = self._extent
        laid = []
        for name, value, text in self.rows:
            left, width = 100 * (low + min(value, 0.0)) / span, 100 * abs(value) / span
            laid.append((name, text, value < 0, round(left, 2), round(width, 2)))
        return laid

    @property
    def zero(self) -> float:
        """Where zero is, in percent of the width."""
        low, span = self._extent
        return round(100 * low / span, 2)

    @property
    def _extent(self) -> tuple[float, float]:
        """How far bars go below zero, and from there to the largest."""
        values = [value for _, value, _ in self.rows]
        low, high = max(0.0, -min(values, default=0)), max(0.0, *values, 0.0)
        return low, (low + high) or 1.0


def render_reasons(
    title: str,
    facts: Sequence[tuple[str, str]],
    notes: Sequence[str],
    charts: Sequence[ReasonChart],
) -> str:
    """Return reasons as a self-contained HTML page; all names are escaped.

    Parameters
    ----------
    title
        The heading.
    facts
        What is known, with its value.
    notes
        Sentences below them.
    charts
        The bars, in order.
    """
    return find_template("reasons.html", HOME).render(
        title=title, facts=facts, notes=notes, charts=charts, version=__version__
    )
