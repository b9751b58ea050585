"""A leaderboard as one HTML page that needs nothing else: no script, no other file."""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from h2gcn import __version__
from h2gcn.auto.leaderboard import NAMES, Leaderboard
from h2gcn.diagnosis import NONE, rounded

__all__ = ["render_leaderboard"]


def render_leaderboard(
    board: Leaderboard,
    name: str,
    facts: Sequence[tuple[str, str]] = (),
    reliability: str = "",
) -> str:
    """Return a leaderboard as a self-contained page; all names are escaped.

    Parameters
    ----------
    board
        The leaderboard.
    name
        Of the graph.
    facts
        What else is to be told of the test nodes, with its value.
    reliability
        A picture of it, as SVG; empty for none.
    """
    environment = Environment(
        loader=PackageLoader("h2gcn.auto"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("leaderboard.html").render(
        board=board,
        name=name,
        facts=facts,
        reliability=Markup(reliability),
        score_name=NAMES[board.metric],
        percent=_percent,
        version=__version__,
    )


def _percent(value: float | None) -> str:
    return NONE if value is None else rounded(100 * value, 2, 100)
