"""What `h2gcn train` does with one split after the other."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from h2gcn.cli.checkpoints import Checkpoints
from h2gcn.cli.output import progress_bar, say, say_what_was_read
from h2gcn.estimator import (
    CheckedFit,
    Evaluation,
    NodeClassifier,
    Verdict,
    check_fit,
    evaluate,
    resolve_seed,
    resolve_split,
    save_bundle,
)
from h2gcn.graph import Graph, Split
from h2gcn.homophily import graph_card
from h2gcn.models import find_model
from h2gcn.training import Epoch

__all__ = ["SplitRun", "find_splits", "interruption", "run_splits", "verdict"]


@dataclass(frozen=True)
class SplitRun:
    """A classifier fitted on one split, and its scores."""

    split: int
    classifier: NodeClassifier
    val: Evaluation
    test: Evaluation | None
    seconds: float

    def save(self, path: Path, graph: Graph, interrupted: str | None = None) -> None:
        """Save the classifier with what it learned on and how well.

        `interrupted` says how it ended before its time, if it did.
        """
        extra = {
            "graph": graph_card(graph),
            "split": self.split,
            "val_accuracy": self.val.accuracy,
            "test_accuracy": None if self.test is None else self.test.accuracy,
            "split_sizes": list(self.classifier.split_.sizes),
            **verdict([self]).to_json(),
            "epochs": self.classifier.n_iter_,
            "interrupted": interrupted is not None,
            "ending": interrupted or "finished",
        }
        save_bundle(self.classifier, path, extra=extra)


def verdict(runs: Sequence[SplitRun]) -> Verdict:
    """Judge the model by its test nodes; where there are none, by validation nodes."""
    weight = runs[0].classifier.params_["class_weight"]
    tests = [run.test for run in runs if run.test is not None]
    if tests:
        return Verdict.of(tests, "test nodes", weight)
    return Verdict.of([run.val for run in runs], "validation nodes", weight)


def run_splits(
    graph: Graph,
    model: str,
    numbers: Sequence[int],
    seed: int,
    config: Mapping[str, Any],
    checkpoints: Checkpoints | None = None,
    *,
    quiet: bool,
) -> list[SplitRun]:
    """Fit a model on each of some splits; a run of split i is seeded by seed + i."""
    fits = [_check(graph, model, number, seed, config) for number in numbers]
    if not find_model(model).trained:
        checkpoints = None  # it is done in one go
    if checkpoints is not None:
        checkpoints.open(numbers)
    if not quiet:
        say_what_was_read(graph, [checked.split for _, checked in fits])
    runs: list[SplitRun] = []
    try:
        for number, (fitted, checked) in zip(numbers, fits, strict=True):
            seconds = _fit(fitted, checked, number, checkpoints, quiet=quiet)
            used = fitted.split_
            test = evaluate(fitted, graph, used.test) if used.test.size else None
            val = evaluate(fitted, graph, used.val)
            runs.append(SplitRun(number, fitted, val, test, seconds))
            if fitted.interrupted_:
                kept = "the best so far is kept"
                if checkpoints is not None:
                    kept += ", and --resume goes on"
                say(f"interrupted in epoch {fitted.n_iter_}; {kept}")
                break
    except KeyboardInterrupt:
        if not runs:
            raise
        say(f"interrupted; {len(runs)} of {len(numbers)} splits are kept")
    finally:
        if checkpoints is not None:
            checkpoints.close()
    return runs


def interruption(runs: Sequence[SplitRun], asked: int) -> str | None:
    """Return how runs on so many splits ended before their time; None if they did not.

    Parameters
    ----------
    runs
        What `run_splits` returned.
    asked
        How many splits it was given.
    """
    last = runs[-1]
    whole = len(runs) - last.classifier.interrupted_
    if whole == asked:
        return None
    said = "interrupted"
    if last.classifier.interrupted_:
        said += f" in epoch {last.classifier.n_iter_}"
    if asked == 1:
        return said
    if last.classifier.interrupted_:
        said += f" of split {last.split}"
    return f"{said}; {whole} of {asked} splits are whole"


def _check(
    graph: Graph, model: str, number: int, seed: int, config: Mapping[str, Any]
) -> tuple[NodeClassifier, CheckedFit]:
    """Return a classifier of a split, and what it can begin with, or say why not."""
    classifier = NodeClassifier(model, random_state=seed + number, **config)
    split = number if graph.splits else None
    return classifier, check_fit(classifier.get_params(), graph, split)


def _fit(
    classifier: NodeClassifier,
    checked: CheckedFit,
    number: int,
    checkpoints: Checkpoints | None,
    *,
    quiet: bool,
) -> float:
    """Fit a classifier on a split; return the seconds, those before a resume too."""
    more: dict[str, Any] = {}
    before, notes = 0.0, []
    if checkpoints is not None:
        more = checkpoints.arguments(number)
        stage = checkpoints.stage(number)
        if stage is not None:
            before = stage.seconds
            done = stage.stopped or stage.epoch == classifier.epochs
            words = "finished in" if done else "going on from"
            notes = [f"note: split {number}: {words} epoch {stage.epoch}"]
    title = f"{checked.graph.name} {classifier.model} split {number}"
    start = time.perf_counter()
    with progress_bar(title, classifier.epochs, show=not quiet) as show_epoch:

        def on_epoch(epoch: Epoch) -> None:
            # Not before it is known that the checkpoint is of this training.
            while notes and not quiet:
                say(notes.pop())
            if show_epoch is not None:
                show_epoch(epoch)

        classifier.fit_checked(checked, on_epoch=on_epoch, **more)
    if notes and not quiet:  # it was finished: there was no epoch
        say(notes.pop())
    return before + time.perf_counter() - start


def find_splits(graph: Graph, numbers: Sequence[int], seed: int) -> list[Split]:
    """Return some of the data's splits, or random ones where they bring none."""
    own = bool(graph.splits)
    return [
        resolve_split(graph, number if own else None, resolve_seed(seed + number))
        for number in numbers
    ]
