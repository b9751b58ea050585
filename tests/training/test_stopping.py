"""Which epochs each stopping rule keeps, and after which it stops."""

from h2gcn.training import Epoch
from h2gcn.training.stopping import RULES, make_rule


def apply(rule, patience, scores, losses):
    """Return the numbers of the epochs that are kept, and of those that stop."""
    decide = make_rule(rule, patience)
    made = {
        number: decide(Epoch(number, 0.0, score, loss))
        for number, (score, loss) in enumerate(zip(scores, losses, strict=True), 1)
    }
    kept = [number for number, decision in made.items() if decision.keep]
    return kept, [number for number, decision in made.items() if decision.stop]


def test_each_rule_keeps_and_stops_as_its_program_does():
    rising = [0.1, 0.2, 0.3, 0.4, 0.5]
    cases = [
        # rule, patience, scores, losses, kept, first epoch that stops
        ("score", None, [0.5, 0.4, 0.5, 0.6, 0.5, 0.6], None, [1, 3, 4, 6], None),
        ("score", 2, [0.5, 0.6, 0.6, 0.6], None, [1, 2, 3, 4], 4),  # a tie is no rise
        ("score", 2, [0.5, 0.4, 0.6, 0.4, 0.3], None, [1, 3], 5),
        ("settled", 2, [0.5, 0.6, 0.6, 0.6], None, [1, 2, 3, 4], None),
        ("settled", 2, [0.5, 0.4, 0.4], None, [1], 3),
        ("settled", 2, [*rising, *[0.4] * 5], None, [1, 2, 3, 4, 5], 10),
        ("settled", 6, [*rising, *[0.4] * 6], None, [1, 2, 3, 4, 5], 11),
        ("loss", 2, None, [3.0, 2.0, 2.0, 1.0, 1.5, 1.2], [1, 2, 4], 6),
        # GCN's program counts from 0: epoch 4 is the first beyond a window of 2.
        ("loss-mean", 2, None, [1.0, 9.0, 9.0, 9.0], [1, 2, 3, 4], None),
        ("loss-mean", 2, None, [1.0, 5.0, 7.0, 6.0], [1, 2, 3, 4], None),
        ("loss-mean", 2, None, [1.0, 5.0, 7.0, 6.5], [1, 2, 3, 4], 4),
        ("loss-mean", 2, None, [9.0, 8.0, 7.0, 6.0, 5.0, 5.6], [*range(1, 7)], 6),
        (
            *("loss-or-score", None, [0.5, 0.6, 0.6, 0.5, 0.7]),
            *([1.0, 0.9, 0.95, 0.8, 0.8], [1, 2, 5], None),
        ),
        (
            *("loss-or-score", 2, [0.5, 0.5, 0.4, 0.4, 0.4]),
            *([1.0, 1.1, 0.9, 1.0, 1.0], [1], 5),
        ),
    ]
    for rule, patience, scores, losses, kept, stop in cases:
        n = len(scores or losses)
        found = apply(rule, patience, scores or [0.0] * n, losses or [0.0] * n)
        first_stop = found[1][0] if found[1] else None
        assert (found[0], first_stop) == (kept, stop), (rule, patience, scores, losses)


def test_every_rule_keeps_the_first_epoch_and_never_stops_without_patience():
    worse = [float(-i) for i in range(300)]
    for rule in RULES:
        kept, stops = apply(rule, None, worse, [-score for score in worse])
        assert kept[0] == 1
        assert stops == []
