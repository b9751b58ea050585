"""What stopping early saves, and what it loses, next to training to the end.

Models are trained with the settings that one's own data get, to the last epoch. From
the history it follows what each rule would have trained and kept: the best validation
score, the latest on a tie, as `stopping="score"` has it. The test score of a choice
is that of a training which ends with the epoch that was chosen: up to there it is the
same training.

A rule waits so many epochs for the score to rise. Where ties count, it begins to wait
anew with each epoch that is as good as the best; "as long again" waits at least as
many epochs as came before the best.

    python benchmarks/stopping.py texas --models h2gcn-1 --splits 2
"""

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from statistics import mean
from typing import Any, NamedTuple

from common import parser, publish

from h2gcn import NodeClassifier, load_dataset
from h2gcn.training import Epoch


class Rule(NamedTuple):
    """How long to wait for a better epoch."""

    patience: float
    ties: bool = False
    as_long_again: bool = False


RULES = {
    "patience 100": Rule(100),
    "patience 200": Rule(200),
    "patience 500": Rule(500),
    "patience 200, ties count": Rule(200, ties=True),
    "as long again, ties count": Rule(200, ties=True, as_long_again=True),
}
TO_THE_END = Rule(math.inf)


class Choice(NamedTuple):
    """What a rule has trained, and kept of it."""

    epochs: int
    kept: Epoch


def choose(history: Sequence[Epoch], rule: Rule) -> Choice:
    """Return what a rule makes of a training."""
    kept = since = history[0]
    for epoch in history:
        if epoch.val_score > kept.val_score:
            kept = since = epoch
        elif epoch.val_score == kept.val_score:
            kept = epoch
            since = epoch if rule.ties else since
        again = since.number if rule.as_long_again else 0
        if epoch.number - since.number >= max(rule.patience, again):
            return Choice(epoch.number, kept)
    return Choice(len(history), kept)


class Run(NamedTuple):
    """A training to the end, and the test score of one that ends with an epoch."""

    history: Sequence[Epoch]
    test: Callable[[int], float]


def main() -> None:
    """Train to the end, judge the rules and publish a table."""
    options = parser(__doc__)
    options.add_argument("graphs", nargs="*", default=["texas", "wisconsin", "cornell"])
    options.add_argument("--models", nargs="+", default=["h2gcn-1", "h2gcn-2"])
    options.add_argument("--splits", type=int, default=3)
    options.add_argument("--epochs", type=int, default=2000)
    chosen = options.parse_args()
    warnings.filterwarnings("ignore")
    rows = []
    for name in chosen.graphs:
        pairs = itertools.product(chosen.models, range(chosen.splits))
        runs = [train(name, model, split, chosen.epochs) for model, split in pairs]
        rows += [row(name, rule, runs) for rule in RULES]
    publish("stopping", rows, folder=chosen.out, models=chosen.models)


def train(name: str, model: str, split: int, epochs: int) -> Run:
    """Train a model on a split to the end."""
    graph = load_dataset(name)

    @cache
    def fit(until: int) -> NodeClassifier:
        classifier = NodeClassifier(
            model, epochs=until, patience=None, calibrate=False, random_state=split
        )
        return classifier.fit(graph, split)

    def test(number: int) -> float:
        until = epochs if number == fit(epochs).best_epoch_ else number
        assert fit(until).best_epoch_ == number
        return fit(until).score(graph, graph.splits[split].test)

    return Run(fit(epochs).history_, test)


def row(name: str, rule: str, runs: Sequence[Run]) -> dict[str, Any]:
    """Return what a rule saves and loses on a graph."""
    ends = [choose(run.history, TO_THE_END) for run in runs]
    made = [choose(run.history, RULES[rule]) for run in runs]
    pairs = list(zip(made, ends, strict=True))
    tests = [
        run.test(one.kept.number) - run.test(end.kept.number)
        for run, (one, end) in zip(runs, pairs, strict=True)
    ]
    scores = [one.kept.val_score - end.kept.val_score for one, end in pairs]
    return {
        "graph": name,
        "rule": rule,
        "runs": len(runs),
        "epochs": mean(end.epochs for end in ends),
        "with the rule": mean(one.epochs for one in made),
        "same epoch": sum(one.kept == end.kept for one, end in pairs),
        "same score": scores.count(0),
        "val, points": 100 * mean(scores),
        "test, points": 100 * mean(tests),
    }


if __name__ == "__main__":
    main()
