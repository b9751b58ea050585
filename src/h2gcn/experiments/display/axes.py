"""The axes of a chart on the page: where a value stands, and round ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "HEIGHT",
    "LEFT",
    "RIGHT",
    "TOP",
    "WIDTH",
    "Axis",
    "category_axis",
    "number_axis",
]

WIDTH, HEIGHT = 760.0, 340.0
"""Of the chart in its own units, without what stands beneath the x axis."""
LEFT, RIGHT, TOP = 66.0, 14.0, 12.0
TICKS = 6
"""About so many on an axis."""
MARGIN = 0.03
"""Of the axis, left free at both ends."""
CHARACTER = 7.0
"""About the width of a character."""


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high` that is drawn from `start` to `end`.

    Parameters
    ----------
    label
        What it shows.
    low, high, start, end
        Values, and where they stand.
    ticks
        Places and texts.
    tilted
        Whether the texts have no room side by side.
    """

    label: str
    low: float
    high: float
    start: float
    end: float
    ticks: tuple[tuple[float, str], ...] = ()
    tilted: bool = False

    def at(self, value: float) -> float:
        """Return where a value stands."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def number_axis(
    label: str,
    values: Sequence[float],
    span: tuple[float, float],
    ticks: Sequence[float] | None = None,
) -> Axis:
    """Return an axis that shows all values, with round ticks unless they are given."""
    least, most = min(values, default=0.0), max(values, default=1.0)
    if least == most:
        least, most = least - 0.5, most + 0.5
    margin = MARGIN * (most - least)
    # Bars stand on zero, without a gap.
    low = 0.0 if least == 0 and span[0] > span[1] else least - margin
    bare = Axis(label, low, most + margin, *span)
    chosen = [float(t) for t in ticks] if ticks else _round_ticks(low, most + margin)
    shown = tuple((round(bare.at(t), 1), _text(t, chosen)) for t in chosen)
    return Axis(label, low, most + margin, *span, shown)


def category_axis(label: str, names: Sequence[str], span: tuple[float, float]) -> Axis:
    """Return an axis with a place for each name."""
    bare = Axis(label, -0.5, len(names) - 0.5, *span)
    ticks = tuple((round(bare.at(i), 1), name) for i, name in enumerate(names))
    room = abs(span[1] - span[0]) / max(1, len(names))
    tilted = max(map(len, names), default=0) * CHARACTER > room
    return Axis(label, bare.low, bare.high, *span, ticks, tilted)


def _round_ticks(low: float, high: float) -> list[float]:
    """Return multiples of 1, 2 or 5 with zeros that lie within.

    Examples
    --------
    >>> _round_ticks(-0.03, 1.03)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    raw = (high - low) / TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(s * power for s in (1, 2, 5, 10) if s * power >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = max(0, -math.floor(math.log10(step)))
    return [round(i * step, digits) for i in range(first, last + 1)]


def _text(value: float, ticks: Sequence[float]) -> str:
    """Return a tick's text with as many decimals as its fellows."""
    if any(abs(t) >= 1e6 or 0 < abs(t) < 1e-4 for t in ticks):
        return f"{value:.3g}"
    texts = [f"{t:.6g}".partition(".")[2] for t in ticks]
    return f"{value:z.{max(map(len, texts), default=0)}f}".replace("-", "−")
