"""What to say of a node, given its probabilities: by what a mistake costs.

The likeliest class is right most often, and that is all it is best for. A
`DecisionRule` is for something else: macro-F1, F1 of a class, the k nodes that are
surest of a class, or costs. Those for F1 are chosen on held-out nodes, where they do a
little better than they will elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from h2gcn._validation import check_choice, check_integer
from h2gcn.exceptions import InputError
from h2gcn.training import confusion_matrix, macro_f1

__all__ = ["DECISIONS", "DecisionRule", "choose_decision"]

DECISIONS = ("macro_f1", "f1", "top", "costs")
"""What a decision can be for."""

FACTORS = np.exp(np.linspace(-4, 4, 65))
"""What the probability of a class is multiplied by, to be tried: 1/55 to 55."""

ROUNDS = 10
"""How often the factor of each class is chosen anew, at most."""

GAIN = 1e-9
"""What a score must rise by to count: less may be a sum in another order."""


@dataclass(frozen=True, eq=False)
class DecisionRule:
    """A rule from probabilities to classes.

    The class with the largest p · `gains` is said; but where a class is singled out,
    it is said exactly of the nodes whose probability of it reaches the `threshold`, or
    is among the `top` largest, and of others the best of the rest.

    Parameters
    ----------
    kind
        One of `DECISIONS`.
    gains
        What it is worth to say a class (column) of a node of a class (row), [C, C].
    singled
        Index of the class that is singled out, or None.
    threshold, top
        By what it is; one of them is None.
    held_out, usual
        The F1 that it is for, on the held-out nodes, and what the likeliest class
        gives there; None for a kind that is not chosen by them.
    """

    kind: str
    gains: NDArray[np.float64]
    singled: int | None = None
    threshold: float | None = None
    top: int | None = None
    held_out: float | None = None
    usual: float | None = None

    @classmethod
    def from_costs(cls, costs: ArrayLike) -> DecisionRule:
        """Return the decision with the smallest expected cost.

        Parameters
        ----------
        costs
            What it costs to say a class (column) of a node of a class (row), [C, C].

        Examples
        --------
        To miss class 1 costs nine times as much as to suspect it in vain, so that a
        tenth is enough:

        >>> decision = DecisionRule.from_costs([[0, 1], [9, 0]])
        >>> decision(np.array([[0.89, 0.11], [0.91, 0.09]])).tolist()
        [1, 0]
        """
        try:
            matrix = np.array(costs, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("'costs' must be a square table of numbers.") from None
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
            raise InputError(
                "'costs' must be a square table, a row for each true class and a "
                f"column for each that is said. Got shape {matrix.shape} instead."
            )
        if not np.isfinite(matrix).all():
            raise InputError("'costs' must be finite numbers.")
        return cls("costs", -matrix)

    @property
    def by_rows(self) -> bool:
        """Whether what is said of a node depends on that node alone."""
        return self.top is None

    def __call__(self, probabilities: NDArray[np.floating]) -> NDArray[np.int64]:
        """Return the index of the class to say of each node, [n].

        Parameters
        ----------
        probabilities
            [n, C]; for `top` those of all nodes that it is to be chosen among.
        """
        n_classes = len(self.gains)
        if probabilities.ndim != 2 or probabilities.shape[1] != n_classes:
            raise InputError(
                f"the decision is for {n_classes} classes. Got probabilities of shape "
                f"{probabilities.shape} instead."
            )
        worth = probabilities.astype(np.float64) @ self.gains
        if self.singled is None:
            return np.asarray(worth.argmax(axis=1))
        share = probabilities[:, self.singled].astype(np.float64)
        worth[:, self.singled] = -np.inf
        said = np.asarray(worth.argmax(axis=1))
        if self.top is not None:
            # Of equal ones the first nodes are taken.
            said[np.argsort(-share, kind="stable")[: self.top]] = self.singled
        if self.threshold is not None:
            said[share >= self.threshold] = self.singled
        return said


def choose_decision(
    kind: str,
    probabilities: NDArray[np.floating],
    y: NDArray[np.int64],
    *,
    index: int | None = None,
    k: int | None = None,
    costs: ArrayLike | None = None,
) -> DecisionRule:
    """Return the decision that is best for something, by held-out nodes.

    Parameters
    ----------
    kind
        "macro_f1" gives each class a factor, found one class after the other; "f1"
        gives the class `index` a threshold; "top" says it of the `k` nodes with the
        largest probability of it; "costs" is `DecisionRule.from_costs`. The last two
        need no held-out nodes.
    probabilities
        Of the held-out nodes, calibrated, [m, C].
    y
        Their classes, [m].
    index, k, costs
        What the kind asks for, and no other.
    """
    check_choice("choose_decision", "kind", kind, DECISIONS)
    _check_asked(kind, {"a class": index, "'k'": k, "'costs'": costs})
    n_classes = probabilities.shape[1]
    if kind == "costs":
        decision = DecisionRule.from_costs(costs)  # type: ignore[arg-type]
        if len(decision.gains) != n_classes:
            raise InputError(
                f"'costs' must have a row and a column for each of the {n_classes} "
                f"classes. Got {len(decision.gains)} instead."
            )
        return decision
    if kind == "top":
        top = check_integer("choose_decision", "k", k, 1)
        return DecisionRule("top", np.eye(n_classes), index, top=top)
    if not len(y):
        raise InputError(f"there is no held-out node to choose for {kind} by")
    if kind == "f1":
        assert index is not None
        return _for_f1(probabilities, y, index)
    return _for_macro_f1(probabilities, y)


def _check_asked(kind: str, given: dict[str, object]) -> None:
    needs = {"f1": ["a class"], "top": ["a class", "'k'"], "costs": ["'costs'"]}
    for name, value in given.items():
        needed = name in needs.get(kind, [])
        if needed and value is None:
            raise InputError(f"a decision for {kind} needs {name}")
        if not needed and value is not None:
            raise InputError(f"a decision for {kind} does not go with {name}")


def _for_macro_f1(
    probabilities: NDArray[np.floating], y: NDArray[np.int64]
) -> DecisionRule:
    """Choose the factor of one class after the other, until none of them gains."""
    n_classes = probabilities.shape[1]
    shares = probabilities.astype(np.float64)
    counts = np.bincount(y, minlength=n_classes)
    as_it_is = np.ones(n_classes)
    # All classes as if they were of the same size: often near the best.
    alike = np.where(counts > 0, len(y) / np.maximum(counts, 1), 1.0)
    found = [_climb(shares, y, start) for start in (as_it_is, alike / alike.max())]
    best, factors = max(found, key=lambda one: round(one[0], 9))
    usual = _reached(y, shares.argmax(axis=1), n_classes)
    return DecisionRule("macro_f1", np.diag(factors), held_out=best, usual=usual)


def _climb(
    shares: NDArray[np.float64], y: NDArray[np.int64], factors: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """Return the macro-F1 that changes of one factor at a time lead to, and factors."""
    n_classes, nodes = shares.shape[1], np.arange(len(y))
    # Of equal scores the factor nearest to 1 is kept, so they are tried in that order.
    tried = sorted(FACTORS, key=lambda factor: round(abs(np.log(factor)), 9))
    best = _reached(y, (shares * factors).argmax(axis=1), n_classes)
    for _ in range(ROUNDS):
        before = best
        for c in range(n_classes):
            others = shares * factors
            others[:, c] = -1.0
            second = others.argmax(axis=1)
            rival = others[nodes, second]
            for factor in tried:
                own = shares[:, c] * factor
                said = np.where(
                    (own > rival) | ((own == rival) & (c < second)), c, second
                )
                score = _reached(y, said, n_classes)
                if score > best + GAIN:
                    best = score
                    factors = np.where(np.arange(n_classes) == c, factor, factors)
        if best <= before + GAIN:
            break
    return best, factors


def _reached(y: NDArray[np.int64], said: NDArray[np.int64], n_classes: int) -> float:
    return macro_f1(confusion_matrix(y, said, n_classes))


def _for_f1(
    probabilities: NDArray[np.floating], y: NDArray[np.int64], index: int
) -> DecisionRule:
    """Choose a threshold in the middle between two probabilities of held-out nodes."""
    share, true = probabilities[:, index].astype(np.float64), y == index
    if not true.any():
        raise InputError(
            "no held-out node is of the class that F1 is asked for; a threshold for "
            "it cannot be chosen"
        )
    order = np.argsort(-share, kind="stable")
    hits, said = np.cumsum(true[order]), np.arange(1, len(y) + 1)
    f1 = 2 * hits / (said + true.sum())
    ranked = share[order]
    # A threshold cannot be between equal probabilities; below all of them it is 0.
    f1[:-1][ranked[:-1] == ranked[1:]] = -1.0
    middles = np.append((ranked[:-1] + ranked[1:]) / 2, 0.0)
    best = np.flatnonzero(f1 >= f1.max() - GAIN)
    threshold = float(middles[best[np.abs(middles[best] - 0.5).argmin()]])
    usual = probabilities.argmax(axis=1) == index
    plain = 2 * (usual & true).sum() / (usual.sum() + true.sum())
    return DecisionRule(
        "f1",
        np.eye(probabilities.shape[1]),
        index,
        threshold=threshold,
        held_out=float(f1.max()),
        usual=float(plain),
    )
