"""Alike, unlike, or no more than by chance: the rule, its borders, and its words."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, strategies as st

from h2gcn import Graph
from h2gcn.diagnosis import diagnose, likeness
from support.cases import each

MANY = 10**18


@each(
    ("share", "chance", "pairs", "expected"),
    [
        (0.79, 0.77, MANY, "by chance"),  # two points are a margin of no importance
        (0.79005, 0.77, MANY, "by chance"),
        (0.7902, 0.77, MANY, "alike"),
        (0.75, 0.77, MANY, "by chance"),
        (0.7498, 0.77, MANY, "unlike"),
        (0.0399, 0.03, MANY, "by chance"),  # not quite a quarter of the larger
        (0.0401, 0.03, MANY, "alike"),  # more than a quarter of it
        (0.81, 0.79, MANY, "by chance"),  # a tenth of what chance leaves
        (0.995, 0.99, MANY, "alike"),  # half of it
        (0.985, 0.99, MANY, "unlike"),
        (0.5, 0.5, MANY, "by chance"),
        (1.0, 1.0, MANY, "by chance"),
        (1.0, 0.5, MANY, "alike"),
        (0.0, 0.5, MANY, "unlike"),
        (0.0, 1e-12, MANY, "by chance"),  # shown as the same
    ],
)
def test_the_margin(share: float, chance: float, pairs: int, expected: str) -> None:
    assert likeness(share, chance, pairs) == expected


@each("sign", [1, -1])
def test_two_standard_errors_are_no_proof(sign: int) -> None:
    # At chance 1/2 the standard error of 100 pairs is 5 points.
    assert likeness(0.5 + sign * 0.0999, 0.5, 100) == "by chance"
    found = likeness(0.5 + sign * 0.1001, 0.5, 100)
    assert found == ("alike" if sign > 0 else "unlike")
    assert likeness(0.5 + sign * 0.0999, 0.5, 101) == found
    assert likeness(0.5 + sign * 0.4, 0.5, 0) == "by chance"


SHARES = st.floats(0, 1) | st.integers(0, 100).map(lambda k: k / 100)


@given(SHARES, SHARES, st.integers(0, 10**6))
def test_the_word_is_that_of_the_sign_or_none(
    share: float, chance: float, pairs: int
) -> None:
    found = likeness(share, chance, pairs)
    assert (found == "alike") <= (share > chance)
    assert (found == "unlike") <= (share < chance)
    if found == "by chance":
        error = math.sqrt(chance * (1 - chance) / max(pairs, 1))
        assert abs(share - chance) <= max(0.0201, 2 * error) + 1e-12
    # More pairs never make a difference a matter of chance.
    assert likeness(share, chance, pairs * 4) == found or found == "by chance"


def shown(text: str) -> float:
    inside = {"<": -1e-9, ">": 1e-9}.get(text[0], 0.0)
    return float(text.strip("<>%")) + inside


@given(
    st.integers(0, 2**32 - 1),
    st.integers(4, 60),
    st.integers(2, 4),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_words_and_numbers_of_generated_graphs_agree(
    seed: int, n: int, classes: int, same: float, skew: float
) -> None:
    rng = np.random.default_rng(seed)
    shares = (1 - skew) * np.full(classes, 1 / classes) + skew * np.eye(classes)[0]
    y = rng.choice(classes, n, p=shares / shares.sum())
    y[:classes] = np.arange(classes)
    alike = y[:, None] == y[None, :]
    drawn = rng.random((n, n)) < np.where(alike, same, 1 - same) * 0.3
    adj = np.triu(drawn, 1)
    verdict = diagnose(Graph(x=np.eye(n), adj=(adj + adj.T).astype(float), y=y)).verdict
    edges = np.argwhere(adj)
    if verdict.kind == "undefined":
        return
    # Counted anew, an edge at a time.
    ends = y[edges]
    share = float((ends[:, 0] == ends[:, 1]).mean())
    mass = np.bincount(ends.ravel(), minlength=classes) / ends.size
    chance = float((mass**2).sum())
    error = math.sqrt(chance * (1 - chance) / len(edges))
    words, _, numbers = verdict.summary[0].partition("(")
    texts = re.match(r"(\S+) of the edges .* give (\S+);", numbers)
    assert texts is not None
    assert shown(texts[1]) == pytest.approx(100 * share, abs=1.0)
    assert shown(texts[2]) == pytest.approx(100 * chance, abs=1.0)
    said = {
        "more": "more often than by chance" in words,
        "less": "less often than by chance" in words,
        "close": "no more alike than by chance" in words,
        "few": "may be chance on" in words,
    }
    assert sum(said.values()) == 1
    assert said["more"] <= (share - chance > 2 * error)
    assert said["less"] <= (chance - share > 2 * error)
    assert said["close"] <= (abs(share - chance) <= 0.0202)
    assert said["few"] <= (abs(share - chance) <= 2 * error + 1e-12)
    assert ("most neighbours are alike" in words) <= (share > 0.5)
    assert ("most neighbours are unlike" in words) <= (share < 0.5)
