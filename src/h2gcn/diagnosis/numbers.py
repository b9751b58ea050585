"""Shares and measures as short texts that never say more than is so.

One rule for all of them: what is not exactly 0 or 1 (100 %) is never shown as such.
Where rounding would do that, the bound is shown instead, ">0.99" or "<1%".
"""

__all__ = ["NONE", "number", "percent", "percents", "points", "rounded"]

NONE = "–"
"""What is shown where there is no value."""
EXACT = 1e-12
"""What arithmetic may leave of a difference that is none."""
MOST_DIGITS = 9
"""Decimals of a percentage after which two shares count as equal."""


def rounded(value: float, digits: int, full: float = 1.0) -> str:
    """Return a number with a fixed number of decimals, or the bound that it keeps.

    Parameters
    ----------
    value
        The number; `full` is all of it, 0 nothing.
    digits
        Number of decimals.
    full
        What, beside 0 and its negative, is only shown if it is so: 1, or 100.

    Examples
    --------
    >>> rounded(0.996, 2), rounded(1.0, 2), rounded(-0.001, 2), rounded(-0.999, 2)
    ('>0.99', '1.00', '>-0.01', '<-0.99')
    """
    text = f"{value:z.{digits}f}"
    shown = float(text)
    if shown not in (0, full, -full) or abs(value - shown) <= EXACT * full:
        return text
    step = 10.0**-digits
    if value > shown:
        return f"<{shown + step:.{digits}f}"
    return f">{shown - step:.{digits}f}"


def number(value: float | None, digits: int = 3) -> str:
    """Return a share or measure with a fixed number of decimals.

    Examples
    --------
    >>> number(0.25, 2), number(0.0001), number(0.0), number(None)
    ('0.25', '<0.001', '0.000', '–')
    """
    return NONE if value is None else rounded(value, digits)


def points(share: float | None) -> str:
    """Return a share in percent without the sign, for a column of them.

    Examples
    --------
    >>> points(0.574), points(0.99999), points(None)
    ('57.40', '>99.99', '–')
    """
    return NONE if share is None else rounded(100 * share, 2, 100)


def percent(share: float, digits: int = 0) -> str:
    """Return a share as a percentage.

    Examples
    --------
    >>> percent(0.574), percent(0.9996), percent(0.0004, 1), percent(1.0)
    ('57%', '>99%', '<0.1%', '100%')
    """
    return f"{rounded(100 * share, digits, 100)}%"


def percents(share: float, other: float) -> tuple[str, str]:
    """Return two shares as percentages, with the decimals that tell them apart.

    Examples
    --------
    >>> percents(0.57, 0.54), percents(0.572, 0.568), percents(0.5, 0.5)
    (('57%', '54%'), ('57.2%', '56.8%'), ('50%', '50%'))
    """
    for digits in range(MOST_DIGITS):
        texts = percent(share, digits), percent(other, digits)
        if texts[0] != texts[1]:
            return texts
    return percent(share), percent(other)
