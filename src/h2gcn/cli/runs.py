"""What `h2gcn train` does with one split after the other, and how it tells."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from h2gcn import __version__
from h2gcn.bundle import save_bundle
from h2gcn.card import graph_card
from h2gcn.cli.checkpoints import Checkpoints
from h2gcn.cli.output import percent, progress_bar, say, say_what_was_read, table
from h2gcn.estimator import NodeClassifier
from h2gcn.evaluation import Evaluation, evaluate, mean_and_deviation
from h2gcn.graph import Graph, Split
from h2gcn.models import find_model
from h2gcn.preparation import check_labels, find_seed, find_split
from h2gcn.training import Epoch

__all__ = [
    "Run",
    "find_splits",
    "report",
    "run_splits",
    "say_saved",
    "set_threads",
    "show",
]

MAX_CLASSES_SHOWN = 12
SMALL_GRAPH = 500_000
"""Walks of length two below which a graph counts as small."""


@dataclass(frozen=True)
class Run:
    """A classifier fitted on one split, and its scores."""

    split: int
    classifier: NodeClassifier
    val: Evaluation
    test: Evaluation | None
    seconds: float

    def save(self, path: Path, graph: Graph) -> None:
        """Save the classifier with what it learned on and how well."""
        extra = {
            "graph": graph_card(graph),
            "split": self.split,
            "val_accuracy": self.val.accuracy,
            "test_accuracy": None if self.test is None else self.test.accuracy,
        }
        save_bundle(self.classifier, path, extra=extra)


def run_splits(
    graph: Graph,
    model: str,
    numbers: Sequence[int],
    seed: int,
    config: Mapping[str, Any],
    checkpoints: Checkpoints | None = None,
    *,
    quiet: bool,
) -> list[Run]:
    """Fit a model on each of some splits; a run of split i is seeded by seed + i."""
    NodeClassifier(model, **config).check_params(graph.n_classes)
    check_labels(graph)
    splits = find_splits(graph, numbers, seed)
    if not find_model(model).trained:
        checkpoints = None  # it is done in one go
    if checkpoints is not None:
        checkpoints.open(numbers)
    if not quiet:
        say_what_was_read(graph, splits)
    set_threads(graph)
    runs: list[Run] = []
    try:
        for number, split in zip(numbers, splits, strict=True):
            fitted = NodeClassifier(model, random_state=seed + number, **config)
            seconds = _fit(fitted, graph, number, split, checkpoints, quiet=quiet)
            used = fitted.split_
            test = evaluate(fitted, graph, used.test) if used.test.size else None
            val = evaluate(fitted, graph, used.val)
            runs.append(Run(number, fitted, val, test, seconds))
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


def _fit(
    classifier: NodeClassifier,
    graph: Graph,
    number: int,
    split: Split,
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
    title = f"{graph.name} {classifier.model} split {number}"
    start = time.perf_counter()
    with progress_bar(title, classifier.epochs, show=not quiet) as show_epoch:

        def on_epoch(epoch: Epoch) -> None:
            # Not before it is known that the checkpoint is of this training.
            while notes and not quiet:
                say(notes.pop())
            if show_epoch is not None:
                show_epoch(epoch)

        classifier.fit(graph, split, on_epoch=on_epoch, **more)
    if notes and not quiet:  # it was finished: there was no epoch
        say(notes.pop())
    return before + time.perf_counter() - start


def find_splits(graph: Graph, numbers: Sequence[int], seed: int) -> list[Split]:
    """Return some of the data's splits, or random ones where they bring none."""
    return [
        find_split(graph, number if graph.splits else None, find_seed(seed + number))
        for number in numbers
    ]


def set_threads(graph: Graph) -> None:
    """Use one thread where handing out the work would cost more than it is worth."""
    import torch

    # Walks of length two bound the entries of the 2-hop ring.
    if int((graph.degrees**2).sum()) < SMALL_GRAPH:
        torch.set_num_threads(1)


def report(graph: Graph, model: str, runs: Sequence[Run]) -> dict[str, Any]:
    """Return all results as one object for JSON; scores are fractions of 1."""
    tests = [run.test for run in runs if run.test is not None]
    seeds = [run.classifier.random_state for run in runs]
    result: dict[str, Any] = {
        "dataset": graph.name,
        "model": model,
        "config": runs[0].classifier.params_ | {"random_state": seeds},
        "graph": graph_card(graph),
        "splits": [_split_row(run) for run in runs],
        "test_accuracy": mean_and_deviation([test.accuracy for test in tests]),
        "test_macro_f1": mean_and_deviation([test.macro_f1 for test in tests]),
        "majority_baseline": mean_and_deviation([test.majority for test in tests]),
        "version": __version__,
    }
    if graph.n_classes == 2:
        scores = [test.roc_auc for test in tests if test.roc_auc is not None]
        result["test_roc_auc"] = mean_and_deviation(scores)
    if tests:
        total = np.sum([test.confusion for test in tests], axis=0)
        result["confusion"] = {
            "classes": [str(label) for label in graph.classes],
            "counts": total.tolist(),
        }
    return result


def _split_row(run: Run) -> dict[str, Any]:
    row = {
        "split": run.split,
        "best_epoch": run.classifier.best_epoch_,
        "epochs": run.classifier.n_iter_,
        "val_accuracy": run.val.accuracy,
        "test_accuracy": None if run.test is None else run.test.accuracy,
        "seconds": round(run.seconds, 3),
        "sizes": list(run.classifier.split_.sizes),
        "scaling": run.classifier.scaler_.kind,
    }
    if run.val.roc_auc is not None:
        row["val_roc_auc"] = run.val.roc_auc
        row["test_roc_auc"] = None if run.test is None else run.test.roc_auc
    return row


def show(result: dict[str, Any], graph: Graph) -> None:
    """Print the results as tables."""
    card = result["graph"]
    h = "–" if card["h"] is None else f"{card['h']:.2f}"
    print(
        f"{graph.name}: {card['nodes']:,} nodes, {card['edges']:,} edges, "
        f"{card['labelled']:,} labelled, {card['classes']} classes, h = {h}, "
        f"checksum {card['checksum']}"
    )
    metric = result["config"]["metric"]
    rows = [
        (
            row["split"],
            "/".join(map(str, row["sizes"])),
            row["best_epoch"],
            percent(row.get(f"val_{metric}")),
            percent(row.get(f"test_{metric}")),
            f"{row['seconds']:.1f}",
        )
        for row in result["splits"]
    ]
    unit = "%" if metric == "accuracy" else f"{metric} %"
    scores = (f"val {unit}", f"test {unit}")
    columns = ("split", "train/val/test", "best epoch", *scores, "seconds")
    table(f"{result['model']} on {graph.name}", columns, rows)
    names = {
        "accuracy": "test_accuracy",
        "macro F1": "test_macro_f1",
        "ROC-AUC": "test_roc_auc",
        "always the largest class": "majority_baseline",
    }
    summary = [
        (name, percent(result[key]["mean"], result[key]["std"]))
        for name, key in names.items()
        if key in result
    ]
    table(f"test nodes of {len(result['splits'])} split(s)", ("", "%"), summary)
    if "confusion" in result and graph.n_classes <= MAX_CLASSES_SHOWN:
        classes = result["confusion"]["classes"]
        counted = zip(classes, result["confusion"]["counts"], strict=True)
        rows = [(name, *counts) for name, counts in counted]
        table("true class (row), predicted (column)", ("", *classes), rows)


def say_saved(out: Path, run: Run, graph: Graph) -> None:
    """Tell which run was saved, and what can be done with it."""
    print(f"saved to {out} (split {run.split})")
    n_unlabelled = graph.n_nodes - graph.labelled.size
    if n_unlabelled:
        print(f"{n_unlabelled:,} nodes have no label: h2gcn predict {out} …")
