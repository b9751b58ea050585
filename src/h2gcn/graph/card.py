"""Cards for notebooks: a graph, or whatever has facts, in a few lines of HTML.

They take the colours of what surrounds them, so that they can be read on dark pages
too, and fetch nothing. All that is somebody's text is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from h2gcn.graph.checks import CSR

__all__ = ["alike", "html_bars", "html_card", "html_table"]

MOST_ENTRIES = 5_000_000
"""Entries of a graph up to which a card looks at all its edges."""
MOST_CLASSES = 12
"""Classes that a card lists."""
LONGEST = 200
"""Characters of a text that a card shows."""

_CARD = (
    "border:1px solid;border-radius:6px;margin:.3em 0;padding:.6em 1em;"
    "display:inline-block;max-width:56em;line-height:1.45;color:inherit;background:transparent"
)
_CELL = "padding:.1em .8em .1em 0;text-align:{};background:transparent;border:0"
_BAR = "display:inline-block;height:.7em;background:currentColor;opacity:.45;width:{}em"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def html_card(
    title: str,
    facts: Iterable[tuple[str, object]],
    more: Iterable[str] = (),
    notes: Sequence[str] = (),
) -> str:
    """Return a card.

    Parameters
    ----------
    title
        Its heading.
    facts
        Names and values; those that are None are left out.
    more
        HTML below, such as of `html_table`.
    notes
        Sentences, folded away.
    """
    from markupsafe import Markup

    rows = Markup("").join(
        Markup(
            '<tr style="background:transparent"><td style="{}">{}</td>'
            '<td style="{}">{}</td></tr>'
        ).format(_CELL.format("left"), name, _CELL.format("left"), _short(value))
        for name, value in facts
        if value is not None
    )
    parts = [
        Markup('<div style="{}"><b>{}</b>').format(_CARD, _short(title)),
        Markup('<table style="margin:.4em 0;border:0">{}</table>').format(rows),
        *map(Markup, more),
    ]
    if notes:
        listed = Markup("").join(Markup("<li>{}</li>").format(n) for n in notes)
        parts.append(
            Markup(
                "<details><summary>{} note{}</summary>"
                '<ul style="margin:.3em 0">{}</ul></details>'
            ).format(len(notes), "" if len(notes) == 1 else "s", listed)
        )
    return str(Markup("").join(parts) + Markup("</div>"))


def html_table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; its first column aligns left, the others right.

    Parameters
    ----------
    heads
        Names of the columns.
    rows
        Cells.
    """
    from markupsafe import Markup

    def line(tag: str, cells: Sequence[object]) -> Markup:
        sides = ["left", *["right"] * (len(cells) - 1)]
        return Markup('<tr style="background:transparent">{}</tr>').format(
            Markup("").join(
                Markup("<{} style='{}'>{}</{}>").format(
                    Markup(tag), _CELL.format(side), _short(cell), Markup(tag)
                )
                for side, cell in zip(sides, cells, strict=True)
            )
        )

    body = Markup("").join(line("td", row) for row in rows)
    return str(
        Markup('<table style="margin:.4em 0;border:0">{}{}</table>').format(
            line("th", heads), body
        )
    )


def html_bars(names: NDArray[Any], counts: NDArray[Any]) -> str:
    """Return how many there are of each class, with a bar; of many, the largest.

    Parameters
    ----------
    names
        Of the classes, [C].
    counts
        [C].
    """
    from markupsafe import Markup

    order = np.argsort(-counts, kind="stable")[:MOST_CLASSES]
    largest = max(int(counts.max(initial=0)), 1)
    rows = Markup("").join(
        Markup(
            '<tr style="background:transparent"><td style="{}">{}</td>'
            '<td style="{}">{:,}</td>'
            '<td style="{}"><span style="{}"></span></td></tr>'
        ).format(
            _CELL.format("left"),
            _short(names[k]),
            _CELL.format("right"),
            int(counts[k]),
            _CELL.format("left"),
            _BAR.format(f"{12 * counts[k] / largest:.2f}"),
        )
        for k in order
    )
    left = len(names) - len(order)
    rest = Markup("<div>and {:,} more classes</div>").format(left) if left else ""
    table = Markup('<table style="margin:.4em 0;border:0">{}</table>').format(rows)
    return str(table + rest)


def alike(adj: CSR, y: NDArray[np.int64]) -> tuple[float, float] | None:
    """Return the share of edges that join equal labels, and what chance would give.

    None where no edge joins two labels, or there are too many for a glance.

    Parameters
    ----------
    adj
        Symmetric, [n, n].
    y
        Classes, -1 for none, [n].
    """
    if not 0 < adj.nnz <= MOST_ENTRIES:
        return None
    first, second = np.repeat(y, np.diff(adj.indptr)), y[adj.indices]
    both = (first >= 0) & (second >= 0)
    if not both.any():
        return None
    ends = np.bincount(first[both]) / both.sum()
    return float((first[both] == second[both]).mean()), float((ends**2).sum())
