"""Which epoch each rule keeps, and after which it stops."""

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from h2gcn.training import Epoch
from h2gcn.training.stopping import RULES, Decision, PhasedRule, make_rule


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


def test_every_rule_keeps_the_first_epoch_and_goes_on_without_patience() -> None:
    worse = [float(-i) for i in range(300)]
    for rule in RULES:
        first, *later = decisions(rule, None, worse, [-loss for loss in worse])
        assert first == Decision(keep=True, stop=False)
        assert stopped(later) == []


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


def test_loss_mean_stops_above_the_mean_of_the_epochs_before() -> None:
    for losses, stops in (
        # Epoch 4 is the first that is beyond a window of 2, counted from 0.
        ([1.0, 9.0, 9.0, 9.0], []),
        ([1.0, 5.0, 7.0, 6.0], []),
        ([1.0, 5.0, 7.0, 6.5], [4]),
        ([9.0, 8.0, 7.0, 6.0, 5.0, 5.6], [6]),
        ([9.0, 8.0, 7.0, 6.0, 5.0, 5.5], []),
    ):
        assert stopped(decisions("loss-mean", 2, losses=losses)) == stops


def test_loss_keeps_and_waits_for_a_fall() -> None:
    made = decisions("loss", 2, losses=[3.0, 2.0, 2.0, 1.0, 1.5, 1.2])
    assert kept(made) == [1, 2, 4]
    assert stopped(made) == [6]


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


def scores(rule: PhasedRule, values: Sequence[float]) -> list[tuple[int, bool, bool]]:
    """Return the phase of each epoch, whether it was kept, and whether all is over."""
    found = []
    for number, value in enumerate(values, start=1):
        phase = rule.phase
        decision = rule(Epoch(number, 0.0, value, -value))
        found.append((phase, decision.keep, decision.stop))
    return found


def test_one_phase_is_the_rule_itself() -> None:
    rng = np.random.default_rng(0)
    for stopping, patience, _ in product(RULES, (None, 1, 3), range(5)):
        rule = make_rule(stopping, patience)
        phased = PhasedRule(stopping, patience, [5])
        assert phased.is_new_phase
        for number in range(1, 30):
            epoch = Epoch(number, 0.0, float(rng.integers(4)), float(rng.integers(4)))
            assert phased(epoch) == rule(epoch)
            assert not phased.is_new_phase


def test_a_phase_ends_with_its_epochs_and_the_last_one_does_not() -> None:
    rule = PhasedRule("score", None, [2, 3, 1])
    found = scores(rule, [0.5, 0.6, 0.1, 0.7, 0.7, 0.1, 0.2, 0.3])
    assert [phase for phase, _, _ in found] == [0, 0, 1, 1, 1, 2, 2, 2]
    kept = [True, True, False, True, True, False, False, False]
    assert [keep for _, keep, _ in found] == kept
    assert not any(stop for _, _, stop in found)


def test_patience_ends_a_phase_and_begins_anew() -> None:
    rule = PhasedRule("score", 2, [10, 10])
    found = scores(rule, [0.9, 0.1, 0.1, 0.2, 0.3, 0.4, 0.4, 0.4])
    # Two worse ones end the first; the second is below the first, but rises.
    assert [phase for phase, _, _ in found] == [0, 0, 0, 1, 1, 1, 1, 1]
    assert [stop for _, _, stop in found] == 7 * [False] + [True]
    assert [keep for _, keep, _ in found] == [True] + 7 * [False]


def test_the_window_of_a_mean_is_of_the_phase() -> None:
    rule = PhasedRule("loss-mean", 2, [4, 9])
    losses = [1.0, 1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.5]
    stops = [rule(Epoch(n, 0.0, 0.0, loss)).stop for n, loss in enumerate(losses, 1)]
    assert stops == 7 * [False] + [True]


def test_a_new_phase_is_fresh_until_its_first_epoch() -> None:
    rule = PhasedRule("score", None, [1, 2])
    assert (rule.phase, rule.is_new_phase) == (0, True)
    assert rule(Epoch(1, 0.0, 0.0, 0.0)) == Decision(keep=True, stop=False)
    assert (rule.phase, rule.is_new_phase) == (1, True)
    rule(Epoch(2, 0.0, 0.0, 0.0))
    assert (rule.phase, rule.is_new_phase) == (1, False)
