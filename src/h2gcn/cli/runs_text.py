"""What `h2gcn train` tells of its runs: as JSON, as tables, and in notes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from h2gcn import __version__
from h2gcn.cli.output import SCORES, percent, table
from h2gcn.cli.runs import SplitRun, verdict
from h2gcn.diagnosis import number
from h2gcn.estimator import mean_and_deviation
from h2gcn.exceptions import H2GCNWarning
from h2gcn.graph import Graph
from h2gcn.homophily import graph_card
from h2gcn.models import find_model
from h2gcn.training import per_class

__all__ = ["report", "say_saved", "show", "warn_of_missed_classes"]

MAX_CLASSES_SHOWN = 12
HARDLY = 0.1
"""A class of whose test nodes a smaller share was found is told."""


def report(graph: Graph, model: str, runs: Sequence[SplitRun]) -> dict[str, Any]:
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
        **verdict(runs).to_json(),
        "version": __version__,
    }
    if graph.n_classes == 2:
        scores = [test.roc_auc for test in tests if test.roc_auc is not None]
        result["test_roc_auc"] = mean_and_deviation(scores)
    if tests:
        total = np.sum([test.confusion for test in tests], axis=0)
        classes = [str(label) for label in graph.classes]
        result["confusion"] = {"classes": classes, "counts": total.tolist()}
        result["per_class"] = [
            {"class": name} | row
            for name, row in zip(classes, per_class(total), strict=True)
        ]
    return result


def _split_row(run: SplitRun) -> dict[str, Any]:
    row = {
        "split": run.split,
        "best_epoch": run.classifier.best_epoch_,
        "epochs": run.classifier.n_iter_,
        "val_accuracy": run.val.accuracy,
        "test_accuracy": None if run.test is None else run.test.accuracy,
        "val_macro_f1": run.val.macro_f1,
        "test_macro_f1": None if run.test is None else run.test.macro_f1,
        "seconds": round(run.seconds, 3),
        "interrupted": run.classifier.interrupted_,
        "sizes": list(run.classifier.split_.sizes),
        "scaling": run.classifier.scaler_.kind,
    }
    if run.val.roc_auc is not None:
        row["val_roc_auc"] = run.val.roc_auc
        row["test_roc_auc"] = None if run.test is None else run.test.roc_auc
    return row


def show(result: Mapping[str, Any], graph: Graph) -> None:
    """Print the results as tables."""
    card = result["graph"]
    print(
        f"{graph.name}: {card['nodes']:,} nodes, {card['edges']:,} edges, "
        f"{card['labelled']:,} labelled, {card['classes']} classes, "
        f"h = {number(card['h'], 2)}, checksum {card['checksum']}"
    )
    if result["config"]["scaling"] == "auto" and find_model(result["model"]).trained:
        took = result["splits"][0]["scaling"]
        print(f"scaling of the features: {took}, by auto (--scaling sets another)")
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
    scores = (f"val {SCORES[metric]}", f"test {SCORES[metric]}")
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
        _show_confusion(result["confusion"], result["per_class"])
    for remark in result["remarks"]:
        print(f"Note: {remark}.")


def _show_confusion(
    confusion: Mapping[str, Any], classes: Sequence[Mapping[str, Any]]
) -> None:
    rows: list[tuple[object, ...]] = [
        (row["class"], *counts, percent(row["recall"]))
        for row, counts in zip(classes, confusion["counts"], strict=True)
    ]
    rows.append(("right %", *(percent(row["precision"]) for row in classes), ""))
    columns = ("", *confusion["classes"], "found %")
    table("true class (row), predicted (column)", columns, rows)


def warn_of_missed_classes(result: Mapping[str, Any]) -> None:
    """Say of which classes hardly a test node was found, and what may help."""
    missed = [
        f"{row['class']} ({round(row['recall'] * row['nodes'])} of {row['nodes']:,})"
        for row in result.get("per_class", ())
        if row["nodes"] and row["recall"] < HARDLY
    ]
    if not missed:
        return
    told = f"hardly found among the test nodes: {', '.join(missed)}"
    if result["config"]["class_weight"] is None and find_model(result["model"]).trained:
        told += (
            "; --class-weight balanced gives rare classes the weight of others (and "
            "probabilities that are too high), and --metric macro_f1 chooses the epoch "
            "by all of them"
        )
    warnings.warn(told, H2GCNWarning, stacklevel=2)


def say_saved(out: Path, run: SplitRun, graph: Graph) -> None:
    """Tell which run was saved, and what can be done with it."""
    print(f"saved to {out} (split {run.split})")
    n_unlabelled = graph.n_nodes - graph.labelled.size
    if n_unlabelled:
        print(f"{n_unlabelled:,} nodes have no label: h2gcn predict {out} …")
