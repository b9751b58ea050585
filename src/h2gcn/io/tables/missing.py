"""Numbers for the cells of a table that have none."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

__all__ = ["Filler"]


class Filler:
    """Fills the empty cells of columns with their medians, and remembers both.

    Parameters
    ----------
    values
        Numbers to use instead of a median, by column: those of another table, which
        a model was trained on.

    Examples
    --------
    >>> filler = Filler({"income": 7.0})
    >>> empty = np.array([1, np.nan, 3, 8], dtype=np.float32)
    >>> filler.fill("age", empty).tolist(), filler.fill("income", empty[:2]).tolist()
    ([1.0, 3.0, 3.0, 8.0], [1.0, 7.0])
    >>> filler.values, filler.notes()
    ({'income': 7.0, 'age': 3.0}, ("2 empty cells filled, of 'age' (1), 'income' (1)",))
    """

    def __init__(self, values: Mapping[str, float]) -> None:
        self.values = dict(values)
        self._filled: dict[str, int] = {}

    def fill(self, name: str, column: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return a column, [n], with a number in place of NaN if it has any number."""
        empty = np.isnan(column)
        if name not in self.values:
            if empty.all():
                return column
            self.values[name] = float(np.median(column[~empty]))
        if not empty.any():
            return column
        self._filled[name] = int(empty.sum())
        return np.where(empty, np.float32(self.values[name]), column)

    def notes(self) -> tuple[str, ...]:
        """Return how many cells of which columns were filled, as a note or none."""
        if not self._filled:
            return ()
        said = ", ".join(f"{name!r} ({n:,})" for name, n in self._filled.items())
        total = sum(self._filled.values())
        cells = "empty cell" if total == 1 else "empty cells"
        return (f"{total:,} {cells} filled, of {said}",)
