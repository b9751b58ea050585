"""Which epoch each rule keeps, and after which it stops."""

import math

from h2gcn.training import Epoch
from h2gcn.training.stopping import RULES, Decision, make_rule
from support.cases import each


def decisions(
    rule: str,
    patience: int | None,
    scores: list[float] | None = None,
    losses: list[float] | None = None,
) -> list[Decision]:
    """Show a rule one epoch after the other."""
    n = len(scores or losses or [])
    pairs = zip(scores or [0.0] * n, losses or [0.0] * n, strict=True)
    seen = make_rule(rule, patience)
    return [
        seen(Epoch(number, 0.0, score, loss))
        for number, (score, loss) in enumerate(pairs, start=1)
    ]


def kept(made: list[Decision]) -> list[int]:
    return [number for number, d in enumerate(made, start=1) if d.keep]


def stopped(made: list[Decision]) -> list[int]:
    return [number for number, d in enumerate(made, start=1) if d.stop]


@each("rule", RULES)
def test_the_first_epoch_is_always_kept(rule: str) -> None:
    assert decisions(rule, None, [0.0], [9.0]) == [Decision(keep=True, stop=False)]


@each("rule", RULES)
def test_without_patience_nothing_stops(rule: str) -> None:
    worse = [float(-i) for i in range(300)]
    made = decisions(rule, None, worse, [-loss for loss in worse])
    assert stopped(made) == []


def test_score_keeps_the_best_and_the_latest_on_a_tie() -> None:
    made = decisions("score", None, [0.5, 0.4, 0.5, 0.6, 0.5, 0.6])
    assert kept(made) == [1, 3, 4, 6]


def test_score_waits_for_a_rise_and_a_tie_is_none() -> None:
    assert stopped(decisions("score", 2, [0.5, 0.6, 0.6, 0.6])) == [4]
    assert stopped(decisions("score", 2, [0.5, 0.4, 0.6, 0.4, 0.3])) == [5]


def test_settled_keeps_what_score_keeps() -> None:
    scores = [0.5, 0.4, 0.5, 0.6, 0.5, 0.6]
    assert kept(decisions("settled", 2, scores)) == kept(
        decisions("score", None, scores)
    )


def test_settled_waits_for_a_tie_too() -> None:
    assert stopped(decisions("settled", 2, [0.5, 0.6, 0.6, 0.6])) == []
    assert stopped(decisions("settled", 2, [0.5, 0.4, 0.4])) == [3]


def test_settled_waits_as_long_again() -> None:
    rising = [0.1, 0.2, 0.3, 0.4, 0.5]
    made = decisions("settled", 2, [*rising, 0.4, 0.4, 0.4, 0.4, 0.4])
    assert stopped(made) == [10]
    assert stopped(decisions("settled", 6, [*rising, *[0.4] * 6])) == [11]


def test_loss_mean_keeps_every_epoch() -> None:
    assert kept(decisions("loss-mean", 2, losses=[3, 2, 4, 1])) == [1, 2, 3, 4]


@each(
    ("losses", "stops"),
    [
        # Epoch 4 is the first that is beyond a window of 2, counted from 0.
        ([1.0, 9.0, 9.0, 9.0], []),
        ([1.0, 5.0, 7.0, 6.0], []),
        ([1.0, 5.0, 7.0, 6.5], [4]),
        ([9.0, 8.0, 7.0, 6.0, 5.0, 5.6], [6]),
        ([9.0, 8.0, 7.0, 6.0, 5.0, 5.5], []),
    ],
)
def test_loss_mean_stops_above_the_mean_of_the_epochs_before(
    losses: list[float], stops: list[int]
) -> None:
    assert stopped(decisions("loss-mean", 2, losses=losses)) == stops


def test_loss_or_score_keeps_what_is_worse_in_neither() -> None:
    made = decisions(
        "loss-or-score", None, [0.5, 0.6, 0.6, 0.5, 0.7], [1.0, 0.9, 0.95, 0.8, 0.8]
    )
    assert kept(made) == [1, 2, 5]


def test_loss_or_score_waits_while_one_of_them_is_as_good_as_ever() -> None:
    scores = [0.5, 0.5, 0.4, 0.4, 0.4, 0.4]
    losses = [1.0, 1.1, 0.9, 1.0, 1.0, 1.0]
    assert stopped(decisions("loss-or-score", 2, scores, losses))[0] == 5
    assert stopped(decisions("loss-or-score", 4, scores, losses)) == []


def test_a_rule_starts_afresh_each_time() -> None:
    first = make_rule("score", 1)
    first(Epoch(1, 0.0, math.inf, 0.0))
    assert make_rule("score", 1)(Epoch(1, 0.0, 0.0, 0.0)) == Decision(True, False)
