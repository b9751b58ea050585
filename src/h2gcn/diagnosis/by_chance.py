"""Whether nodes are alike: the one rule by which a share is held against chance."""

import math
from typing import Literal

from h2gcn.diagnosis.numbers import percents

__all__ = ["Likeness", "adjusted_share", "is_close", "likeness"]

Likeness = Literal["alike", "unlike", "by chance"]
"""More often alike than by chance, less often, or neither."""

NEAR_CHANCE, NEAR_RATIO, NEAR_ADJUSTED = 0.0201, 0.25, 0.1
"""A share is close to chance if neither the gap is larger, nor its part of the larger
of the two, nor its part of all that chance leaves, as shown with two decimals."""
ERRORS = 2.0
"""So many standard errors are no proof of a difference."""


def likeness(share: float, chance: float, pairs: int) -> Likeness:
    """Return whether nodes are alike more often than chance makes them.

    They are neither alike nor unlike where the share is close to that of chance
    (`is_close`): 79 % where chance gives 77 is no preference, on however many edges.
    Nor where the gap is within two standard errors, √(chance (1 − chance) / pairs).

    Parameters
    ----------
    share
        Of the pairs with equal labels.
    chance
        The share that chance would give.
    pairs
        How many pairs were counted.

    Examples
    --------
    >>> likeness(0.79, 0.77, 10_000), likeness(0.81, 0.18, 10_000)
    ('by chance', 'alike')
    >>> likeness(0.06, 0.27, 300), likeness(0.67, 0.5, 9)
    ('unlike', 'by chance')
    """
    gap = share - chance
    error = math.sqrt(max(chance * (1 - chance), 0.0) / max(pairs, 1))
    if is_close(share, chance) or abs(gap) <= ERRORS * error:
        return "by chance"
    return "alike" if gap > 0 else "unlike"


def is_close(share: float, chance: float) -> bool:
    """Return whether a share is that of chance but for a margin of no importance.

    Examples
    --------
    >>> is_close(0.79, 0.77), is_close(0.03, 0.01), is_close(0.985, 0.98)
    (True, False, False)
    """
    gap = abs(share - chance)
    near = gap <= NEAR_CHANCE and gap <= NEAR_RATIO * max(share, chance)
    near = near and round(abs(adjusted_share(share, chance)), 2) <= NEAR_ADJUSTED
    texts = percents(share, chance)
    return near or texts[0] == texts[1]


def adjusted_share(share: float, chance: float) -> float:
    """Return (share − chance) / (1 − chance); 0 where chance leaves nothing."""
    return (share - chance) / (1 - chance) if chance < 1 else 0.0
