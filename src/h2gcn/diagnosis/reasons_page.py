"""Reasons as one HTML page that needs nothing else: bars to both sides of zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from h2gcn import __version__

__all__ = ["ReasonChart", "render_reasons"]


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
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("h2gcn.diagnosis"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("reasons.html").render(
        title=title, facts=facts, notes=notes, charts=charts, version=__version__
    )
