"""What `h2gcn train` does with its splits, one after the other, and tells of them."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from h2gcn import __version__
from h2gcn.auto import Leaderboard, render_leaderboard
from h2gcn.cli.console import (
    SCORES,
    contest_bar,
    percent,
    progress_bar,
    say,
    say_what_was_read,
    table,
    tell,
)
from h2gcn.cli.wording import as_flags
from h2gcn.diagnosis import number, reliability_svg
from h2gcn.estimator import (
    AUTO,
    CheckedFit,
    Evaluation,
    Judgement,
    NodeClassifier,
    check_fit,
    evaluate,
    mean_and_deviation,
    resolve_seed,
    resolve_split,
    save_bundle,
)
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import Graph, Split
from h2gcn.homophily import graph_card
from h2gcn.io import atomic_write, cannot_write, check_folder
from h2gcn.models import find_model
from h2gcn.training import MINUTES, Epoch, Stage, check_resume, find_stage, per_class

__all__ = [
    "Checkpoints",
    "SplitRun",
    "find_checkpoints",
    "find_splits",
    "interruption",
    "judge_runs",
    "report",
    "run_splits",
    "say_saved",
    "show",
    "warn_of_missed_classes",
    "write_page",
]


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
            **judge_runs([self]).to_json(),
            "epochs": self.classifier.n_iter_,
            "interrupted": interrupted is not None,
            "ending": interrupted or "finished",
        }
        save_bundle(self.classifier, path, extra=extra)


def judge_runs(runs: Sequence[SplitRun]) -> Judgement:
    """Judge the model by its test nodes; where there are none, by validation nodes."""
    params = runs[0].classifier.params_
    calibrated = params["calibrate"] and all(
        run.classifier.calibration_ for run in runs
    )
    balanced = params["class_weight"] == "balanced" and not calibrated
    tests = [run.test for run in runs if run.test is not None]
    if tests:
        return Judgement.of(tests, "test nodes", balanced=balanced)
    found = [run.val for run in runs]
    return Judgement.of(found, "validation nodes", balanced=balanced)


def run_splits(
    graph: Graph,
    model: str,
    numbers: Sequence[int],
    seed: int,
    config: Mapping[str, Any],
    checkpoints: Checkpoints | None = None,
    *,
    note: str = "",
    quiet: bool,
) -> list[SplitRun]:
    """Fit a model on each of some splits; a run of split i is seeded by seed + i.

    What "auto" is to fit once more on all labels is scored before. The note is said
    once it is known that there will be a training.
    """
    again = bool(config.get("refit"))
    config = {name: value for name, value in config.items() if name != "refit"}
    fits = [_check(graph, model, number, seed, config) for number in numbers]
    if not _has_epochs(model):
        checkpoints = None  # it is done in one go
    if checkpoints is not None:
        checkpoints.open(numbers)
    if not quiet:
        if note:
            say(f"note: {note}")
        say_what_was_read(graph, [checked.split for _, checked in fits])
    runs: list[SplitRun] = []
    try:
        for number, (fitted, checked) in zip(numbers, fits, strict=True):
            seconds = _fit(fitted, checked, number, checkpoints, quiet=quiet)
            used = fitted.split_
            test = evaluate(fitted, graph, used.test) if used.test.size else None
            val = evaluate(fitted, graph, used.val)
            if again and not fitted.interrupted_:
                start = time.perf_counter()
                fitted.fit_on_all(graph)
                seconds += time.perf_counter() - start
            runs.append(SplitRun(number, fitted, val, test, seconds))
            if fitted.interrupted_:
                kept = "the best so far is kept"
                if checkpoints is not None:
                    kept += ", and --resume goes on"
                say(f"interrupted{_epoch_of(fitted)}; {kept}")
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
        said += _epoch_of(last.classifier)
    if asked == 1:
        return said
    if last.classifier.interrupted_:
        said += f" of split {last.split}"
    return f"{said}; {whole} of {asked} splits are whole"


def _has_epochs(model: str) -> bool:
    return model != AUTO and find_model(model).trained


def _is_scaled(model: str) -> bool:
    return model != AUTO and find_model(model).scaled


def _epoch_of(classifier: NodeClassifier) -> str:
    return "" if classifier.members_ else f" in epoch {classifier.n_iter_}"


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
    if classifier.model == AUTO:
        with contest_bar(title, show=not quiet) as on_progress:
            classifier.fit_checked(checked, on_progress=on_progress)
        return time.perf_counter() - start
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


@dataclass(frozen=True)
class Checkpoints:
    """Where checkpoints are, and whether to go on from them.

    Parameters
    ----------
    folder
        That of split 0 is `folder/split-0`, and so on.
    resume
        Go on from those that are there; splits without one are begun.
    minutes
        How often they are written.
    """

    folder: Path
    resume: bool
    minutes: float

    def open(self, splits: Sequence[int]) -> None:
        """Make the folder, or say why these splits cannot be trained with it."""
        held = [number for number in splits if find_stage(self._of(number)) is not None]
        check_resume(self._of((held or splits)[0]), bool(held), self.resume)
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise cannot_write(self.folder, error) from None

    def close(self) -> None:
        """Remove the folder where no split has left anything in it.

        An empty one that was there before goes too: nothing is lost with it.
        """
        with suppress(OSError):  # it is not empty
            self.folder.rmdir()

    def stage(self, split: int) -> Stage | None:
        """Return how far a split is that is gone on with; None for a new one."""
        return find_stage(self._of(split)) if self.resume else None

    def arguments(self, split: int) -> dict[str, Any]:
        """Return the arguments of `NodeClassifier.fit` for a split."""
        return {
            "checkpoint": self._of(split),
            "resume": self.stage(split) is not None,
            "checkpoint_minutes": self.minutes,
        }

    def _of(self, split: int) -> Path:
        return self.folder / f"split-{split}"


def find_checkpoints(
    folder: Path | None, resume: bool, minutes: float | None
) -> Checkpoints | None:
    """Return what the options of the command line ask for, None without a folder."""
    if folder is None:
        options = {"--resume": resume, "--checkpoint-minutes": minutes is not None}
        for name in (name for name, given in options.items() if given):
            raise InputError(
                f"{name} needs --checkpoint, the folder of the checkpoints"
            )
        return None
    check_folder(folder, "a checkpoint", re.compile(r"split-\d+").fullmatch)
    return Checkpoints(folder, resume, MINUTES if minutes is None else minutes)


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
        **_probability_means(tests),
        **judge_runs(runs).to_json(),
        "version": __version__,
    }
    boards = [run.classifier.leaderboard_ for run in runs]
    found = [board.to_json() for board in boards if board is not None]
    if found:
        result["leaderboards"] = found
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


def _probability_means(tests: Sequence[Evaluation]) -> dict[str, Any]:
    """Return how good the probabilities of test nodes are, in the mean of splits."""
    found = [test.probabilities for test in tests]
    areas = [one.mean_pr_auc for one in found]
    return {
        "test_pr_auc": mean_and_deviation([area for area in areas if area is not None]),
        "test_log_loss": mean_and_deviation([one.log_loss for one in found]),
        "test_brier": mean_and_deviation([one.brier for one in found]),
        "test_calibration_error": mean_and_deviation(
            [one.calibration_error for one in found]
        ),
        "chance_calibration_error": mean_and_deviation(
            [one.chance_error for one in found]
        ),
    }


def _split_row(run: SplitRun) -> dict[str, Any]:
    calibration = run.classifier.calibration_
    classes = [str(label) for label in run.classifier.classes_]
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
        "temperature": None if calibration is None else calibration.temperature,
        "test_probabilities": None
        if run.test is None
        else run.test.probabilities.to_json(classes),
    }
    if run.val.roc_auc is not None:
        row["val_roc_auc"] = run.val.roc_auc
        row["test_roc_auc"] = None if run.test is None else run.test.roc_auc
    return row


def show(result: Mapping[str, Any], graph: Graph) -> None:
    """Print the results as tables."""
    card = result["graph"]
    tell(
        f"{graph.name}: {card['nodes']:,} nodes, {card['edges']:,} edges, "
        f"{card['labelled']:,} labelled, {card['classes']} classes, "
        f"h = {number(card['h'], 2)}, checksum {card['checksum']}"
    )
    for board in result.get("leaderboards", ()):
        _show_leaderboard(Leaderboard.from_json(board))
    if result["config"]["scaling"] == "auto" and _is_scaled(result["model"]):
        took = result["splits"][0]["scaling"]
        tell(f"scaling of the features: {took}, by auto (--scaling sets another)")
    metric = result["config"]["metric"]
    epoch = ("best epoch",) if result["model"] != AUTO else ()
    rows = [
        (
            row["split"],
            "/".join(map(str, row["sizes"])),
            *(row["best_epoch"] for _ in epoch),
            percent(row.get(f"val_{metric}")),
            percent(row.get(f"test_{metric}")),
            f"{row['seconds']:.1f}",
        )
        for row in result["splits"]
    ]
    scores = (f"val {SCORES[metric]}", f"test {SCORES[metric]}")
    columns = ("split", "train/val/test", *epoch, *scores, "seconds")
    table(f"{result['model']} on {graph.name}", columns, rows)
    names = {
        "accuracy": "test_accuracy",
        "macro F1": "test_macro_f1",
        "ROC-AUC": "test_roc_auc",
        "PR-AUC": "test_pr_auc",
        "always the largest class": "majority_baseline",
    }
    summary = [
        (name, percent(result[key]["mean"], result[key]["std"]))
        for name, key in names.items()
        if key in result
    ]
    table(f"test nodes of {len(result['splits'])} split(s)", ("", "%"), summary)
    if result["test_log_loss"]["n"]:
        tell(_probability_line(result))
    if "confusion" in result and graph.n_classes <= MAX_CLASSES_SHOWN:
        _show_confusion(result["confusion"], result["per_class"])
    for remark in result["remarks"]:
        tell(f"Note: {remark}.")


def _show_leaderboard(board: Leaderboard) -> None:
    """Print how the members of auto stand, and what that says."""
    heads = ("", "answers", SCORES[board.metric], "log-loss", "behind", "seconds")
    rows = [
        (
            row.name,
            f"{100 * row.weight:.0f} %" if row.weight else "",
            percent(row.score),
            "" if row.log_loss is None else f"{row.log_loss:.3f}",
            board.behind(row) if row.gap else "",
            f"{row.seconds:.1f}",
        )
        for row in board.rows
        if row.log_loss is not None
    ]
    rows.append(("always the largest class", "", percent(board.majority), "", "", ""))
    table(f"leaderboard, on {board.held_out}", heads, rows)
    for row in board.rows:
        if row.note:
            tell(f"{row.name}: {as_flags(row.note)}")
    for sentence in (board.answering, board.graph, board.caution):
        if sentence:
            tell(sentence)


def _probability_line(result: Mapping[str, Any]) -> str:
    """Return in a line how good the probabilities of the test nodes are."""
    loss, brier, error, chance = (
        f"{result[name]['mean']:.3f}"
        for name in (
            *("test_log_loss", "test_brier", "test_calibration_error"),
            "chance_calibration_error",
        )
    )
    return (
        f"probabilities: log-loss {loss}, Brier {brier}, calibration error {error} "
        f"(chance alone gives {chance})"
    )


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
    if result["model"] == AUTO and result["config"]["metric"] != "macro_f1":
        told += "; --metric macro_f1 chooses and decides by all classes alike"
    elif result["config"]["class_weight"] is None and _has_epochs(result["model"]):
        told += (
            "; --class-weight balanced gives rare classes the weight of others, and "
            "--metric macro_f1 chooses the epoch by all of them"
        )
    warnings.warn(told, H2GCNWarning, stacklevel=2)


def _for_page(run: SplitRun) -> tuple[list[tuple[str, str]], str]:
    """Return what a page tells of the test nodes, and a picture of it."""
    if run.test is None:
        return [], ""
    test, found = run.test, run.test.probabilities
    facts = [
        ("nodes", f"{test.nodes:,}"),
        ("accuracy", f"{percent(test.accuracy)} %"),
        ("macro F1", f"{percent(test.macro_f1)} %"),
        ("ROC-AUC", f"{percent(test.roc_auc)} %"),
        ("always the largest class", f"{percent(test.majority)} %"),
        ("log-loss", number(found.log_loss, 3)),
        ("Brier score", number(found.brier, 3)),
        ("calibration error", number(found.calibration_error, 3)),
    ]
    shown = [fact for fact in facts if fact[0] != "ROC-AUC" or test.roc_auc is not None]
    return shown, reliability_svg(found.bins)


def write_page(path: Path, graph: Graph, run: SplitRun) -> None:
    """Write the leaderboard of a run of auto as a page."""
    board = run.classifier.leaderboard_
    assert board is not None
    facts, picture = _for_page(run)
    page = render_leaderboard(board, graph.name, facts, picture)
    with atomic_write(path) as beside:
        beside.write_text(page, encoding="utf-8")


def say_saved(out: Path, run: SplitRun, graph: Graph) -> None:
    """Tell which run was saved, and what can be done with it."""
    tell(f"saved to {out} (split {run.split})")
    n_unlabelled = graph.n_nodes - graph.labelled.size
    if n_unlabelled:
        tell(f"{n_unlabelled:,} nodes have no label: h2gcn predict {out} …")
