"""What stopping early saves, and what it loses, next to training to the end.

Models are trained with the settings that one's own data get, to the last epoch. From
the history it follows what each rule would have trained and kept. The test score of a
choice is that of a training which ends with the epoch that was chosen: up to there it
is the same training.

    python benchmarks/stopping.py texas --models h2gcn-1 --splits 2
"""

import itertools
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from statistics import mean
from typing import Any, NamedTuple

from common import parser, publish

from h2gcn import NodeClassifier, load_dataset
from h2gcn.training import Epoch
from h2gcn.training.stopping import make_rule

RULES = {
    "score, patience 100": ("score", 100),
    "score, patience 200": ("score", 200),
    "score, patience 500": ("score", 500),
    "settled, patience 200": ("settled", 200),
}
TO_THE_END = ("score", None)


class Choice(NamedTuple):
    """What a rule has trained, and kept of it."""

    epochs: int
    kept: Epoch


def choose(history: Sequence[Epoch], stopping: str, patience: int | None) -> Choice:
    """Return what a rule makes of a training."""
    rule, kept = make_rule(stopping, patience), history[0]
    for epoch in history:
        decision = rule(epoch)
        kept = epoch if decision.keep else kept
        if decision.stop:
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
    ends = [choose(run.history, *TO_THE_END) for run in runs]
    made = [choose(run.history, *RULES[rule]) for run in runs]
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
        "val, points": round(100 * mean(scores), 2),
        "test, points": round(100 * mean(tests), 2),
    }


if __name__ == "__main__":
    main()
