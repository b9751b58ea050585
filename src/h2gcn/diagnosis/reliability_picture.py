"""A reliability picture: what was told against what came true, as inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from jinja2 import Environment, PackageLoader, StrictUndefined

from h2gcn.diagnosis.numbers import number

__all__ = ["reliability_svg"]

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
    environment = Environment(
        loader=PackageLoader("h2gcn.diagnosis"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("reliability.svg").render(
        title=title,
        label=f"{title}. {said or 'No nodes'}.",
        points=points,
        most=f"{most:,}",
    )
