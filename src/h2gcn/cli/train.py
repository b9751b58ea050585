"""`h2gcn train`: fit a model, score it, save it."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from h2gcn import (
    __version__,
    auto,
    datasets,
    diagnosis,
    estimator,
    experiments,
    homophily,
    io,
    models,
    training,
)
from h2gcn.cli import options as src
from h2gcn.cli.console import (
    KEPT,
    SCORES,
    as_flags,
    contest_bar,
    percent,
    progress_bar,
    say,
    say_what_was_read,
    show_card,
    show_confusion,
    table,
    tell,
    tell_json,
)
from h2gcn.cli.options import (
    DEFAULT_MODEL,
    BatchSize,
    Device,
    MemoryLimit,
    RingCap,
    Seed,
    check_given,
    complete_model,
    find_settings,
    in_panel,
    in_range,
    is_benchmark,
    merge,
    parse_options,
)
from h2gcn.exceptions import H2GCNWarning, InputError

if TYPE_CHECKING:
    from h2gcn.auto import Leaderboard
    from h2gcn.cluster import Cluster, DistributedFitResult
    from h2gcn.estimator import CheckedFit, Evaluation, Judgement, NodeClassifier
    from h2gcn.graph import Graph, Split
    from h2gcn.training import Epoch, Position

__all__ = ["SplitRun", "command", "find_splits"]

_setting = in_panel("Settings of one model (default: the dataset's preset)")
N_RANDOM_SPLITS = 10
"""How many splits `--split all` draws for data that bring none."""
HARDLY = 0.1
"""A class of whose test nodes a smaller share was found is told."""


@src.with_tables
def command(
    source: src.Source = None,
    out: Annotated[
        Path | None, typer.Option(help="Save the model to this folder.")
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace what is already there."),
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(
            help="A name of 'h2gcn models', or auto: a dozen of them, the best answer "
            "together (default: auto; of a benchmark, the paper's h2gcn-1).",
            show_default=False,
            autocompletion=complete_model,
        ),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            help="Seconds that auto may take (default: by the size of the graph).",
            show_default=False,
        ),
    ] = None,
    refit: Annotated[
        bool,
        typer.Option(
            "--refit", help="auto: fit those that answer again, on all labels."
        ),
    ] = False,
    page: Annotated[
        Path | None,
        typer.Option(help="auto: write the leaderboard as a page (.html)."),
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option(help="Settings as 'h2gcn tune' writes them, instead of a preset."),
    ] = None,
    split: Annotated[
        str, typer.Option(help="Number of one of the data's splits, or 'all'.")
    ] = "0",
    seed: Seed = 0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Keep the state of the training here, to go on from."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoint.")
    ] = False,
    checkpoint_minutes: Annotated[
        float | None,
        typer.Option(
            help="How often to keep it (default: 2).",
            callback=in_range(0),
            show_default=False,
        ),
    ] = None,
    as_json: src.AsJson = False,
    quiet: src.Quiet = False,
    tables: src.Tables = src.Tables(),
    epochs: Annotated[int | None, _setting("At most so many epochs.")] = None,
    patience: Annotated[
        int | None, _setting("Epochs that the stopping rule waits.")
    ] = None,
    stopping: Annotated[
        str | None,
        _setting(
            "Chooses the epoch: score, settled, loss, loss-mean or loss-or-score."
        ),
    ] = None,
    optimizer: Annotated[str | None, _setting("adam or sgd.")] = None,
    learning_rate: Annotated[
        float | None, _setting("The optimiser's learning rate.")
    ] = None,
    l2: Annotated[float | None, _setting("Weight of the L2 penalty.")] = None,
    dropout: Annotated[float | None, _setting("Dropped share.")] = None,
    activation: Annotated[str | None, _setting("relu, elu or none.")] = None,
    hidden_channels: Annotated[int | None, _setting("Width of the embedding.")] = None,
    scaling: Annotated[
        str | None, _setting("Features: auto, rows, standard or none.")
    ] = None,
    metric: Annotated[
        str | None,
        _setting("The validation score: accuracy, macro_f1, roc_auc or pr_auc."),
    ] = None,
    class_weight: Annotated[
        str | None,
        _setting(
            "balanced: rare classes weigh as much as others in training, and are said "
            "more often; probabilities stay those of the data."
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        _setting(
            "An option of the model's own; repeat for more.", metavar="NAME=VALUE"
        ),
    ] = None,
    batch_size: BatchSize = None,
    ring_cap: RingCap = None,
    memory_limit: MemoryLimit = None,
    device: Device = None,
    cluster: src.Workers = None,
) -> str | None:
    """Train a model on SOURCE, report how good it is, and save it.

    Your own data are given to auto, which fits a dozen models and lets the best
    answer; --model names one. Nodes without a label are left for 'h2gcn predict'.
    Data that bring no split are split 60/20/20, each class alike; 'all' then means
    ten such splits. With --test-after the model is trained on the graph as it was
    then, and tested on the labels that came later. Ctrl-C and SIGTERM keep the
    best so far, and say so. With --cluster, workers train H2GCN, each on rows of
    the graph, or make the ring table, for models that take one and for those
    members of auto that do.
    """
    own = parse_options(option or [])
    given = {
        "epochs": epochs,
        "patience": patience,
        "stopping": stopping,
        "optimizer": optimizer,
        "learning_rate": learning_rate,
        "l2": l2,
        "dropout": dropout,
        "activation": activation,
        "hidden_channels": hidden_channels,
        "scaling": scaling,
        "metric": metric,
        "class_weight": class_weight,
        "batch_size": batch_size,
        "ring_cap": ring_cap,
        "memory_limit": memory_limit,
    }
    of_one = [name for name, value in given.items() if value is not None]
    of_one += ["option"] if own else []
    of_one += ["checkpoint"] if checkpoint is not None else []
    note = ""
    if model is None and settings is None:
        model, note = _default_model(source, of_one)
    model, base = find_settings(settings, model)
    check_given(model, given)
    src.check_workers(cluster, model, train=True)
    if model == estimator.AUTO:
        given |= {"time_limit": time_limit, "refit": refit}
        if checkpoint is not None:
            raise InputError("--checkpoint is for one model, and --model is auto.")
        if own:
            raise InputError("--option is for one model, and --model is auto.")
        src.check_page(page, force=force)
    else:
        _check_for_auto(
            model, {"time-limit": time_limit, "refit": refit or None, "page": page}
        )
    if quiet:
        warnings.simplefilter("ignore", H2GCNWarning)
    options = tables.options()
    goes_on = False
    if out is not None:
        estimator.check_target(out)
        goes_on = resume and estimator.holds_model(out)
        if not force:
            _check_new(out, resume)
    checkpoints = _find_checkpoints(checkpoint, resume, checkpoint_minutes)
    graph = src.load_source(source, tables, options, memory_limit)
    if base is None:
        # By the name that was asked for: one's own file may be called texas.npz.
        base = _preset(source, model)
    config = merge(base or {}, given | {"device": device}, own)
    # Benchmarks are as the paper has them, however large their rings are.
    config.setdefault("ring_cap", "exact" if is_benchmark(source) else "auto")
    numbers = _split_numbers(split, graph)
    past = src.past_of(graph, options)
    later = src.later_than(past, graph, options)
    mapped = src.seen_by_workers(source, tables, graph)
    graphs = [(graph, mapped)]
    graphs += [] if past is graph else [(past, None)]
    spreads = model != estimator.AUTO and models.is_distributable(
        models.find_model(model)
    )
    team = None
    with src.over_workers(cluster, [] if spreads else graphs, memory_limit) as found:
        if found is not None and spreads:
            team = Team(found, mapped if past is graph else None)
        runs = _run_splits(
            *(graph, past, model, numbers, seed, config, checkpoints, team),
            note=note,
            quiet=quiet,
        )
    interrupted = _interruption(runs, len(numbers))
    best = max(runs, key=lambda run: float(run.classifier.val_score_))
    if out is not None:
        out = _save(best, out, graph, interrupted, later, force=force, goes_on=goes_on)
    if page is not None:
        _write_page(page, graph, best, force=force)
    result = _report(graph, model, runs) | {"interrupted": interrupted is not None}
    result["out"] = None if out is None else str(out)
    if later is not None:
        result["time"] = later
    if team is not None:
        result["cluster"] = [asdict(fit) for fit in team.told]
    _warn_of_missed_classes(result)
    if as_json:
        tell_json(result)
    else:
        if interrupted is not None:
            tell(f"{interrupted}: these are the scores of the best so far")
        _show(result, graph)
        for fit in team.told if team is not None else ():
            tell(_cluster_line(fit))
        if out is not None:
            _say_saved(out, best, graph)
        if page is not None:
            tell(f"wrote {page}")
    return None if interrupted is None else KEPT


def _default_model(source: str | None, of_one: list[str]) -> tuple[str | None, str]:
    """Return the model where none is named: the paper's for benchmarks, else auto.

    What is a setting of one model takes H2GCN, as ever; the note that is returned with
    it says so.
    """
    if is_benchmark(source):
        return None, ""
    free = {"scaling", "metric", "memory_limit", "ring_cap"}
    for_one = [name for name in of_one if name not in free]
    if not for_one:
        return estimator.AUTO, ""
    flag = f"--{for_one[0].replace('_', '-')}"
    return None, (
        f"{flag} is for one model, so {DEFAULT_MODEL} is trained; without it, the best "
        "of a dozen would answer (--model auto)"
    )


def _check_for_auto(model: str, given: dict[str, object]) -> None:
    """Refuse what only auto has."""
    for name, value in given.items():
        if value is not None:
            raise InputError(f"--{name} is for --model auto. This is {model}.")


def _save(
    run: SplitRun,
    out: Path,
    graph: Graph,
    interrupted: str | None,
    later: Mapping[str, Any] | None,
    *,
    force: bool,
    goes_on: bool,
) -> Path:
    """Save a run and return where: beside, if another training was faster."""
    target, number = out, 1
    while True:
        replaces = force or (goes_on and number == 1)
        try:
            run.save(target, graph, interrupted, later, force=replaces)
        except InputError as error:
            taken = isinstance(error, io.AlreadyThere) or estimator.is_taken(target)
            if force or not taken:
                raise
            number += 1
            target = out.with_name(f"{out.name}-{number}")
        else:
            break
    if target != out:
        say(f"note: {out} was taken during the training; saved to {target}")
    return target


def _check_new(out: Path, resume: bool) -> None:
    """Refuse to replace a model, unless it is one that `--resume` goes on from."""
    if not estimator.holds_model(out):
        return
    if resume and estimator.read_manifest(out).extra.get("interrupted"):
        return
    raise InputError(
        "holds a model already; --force replaces it, another --out keeps it",
        where=str(out),
    )


def _preset(source: str | None, model: str) -> dict[str, Any]:
    """Return the setting of a model on a benchmark, {} for one's own data."""
    if source is None or not datasets.is_dataset(source):
        return {}
    if model == estimator.AUTO:
        return (
            {"metric": datasets.DATASETS[source].metric}
            if source in datasets.DATASETS
            else {}
        )
    return {**experiments.TO_THE_END, **experiments.find_preset(source, model)}


def _split_numbers(text: str, graph: Graph) -> list[int]:
    n_splits = len(graph.splits)
    if text == "all":
        return list(range(n_splits or N_RANDOM_SPLITS))
    if not (text.isdecimal() and len(text) <= 9):
        raise InputError(
            "must be a number from 0 on, or 'all'", param="split", value=text[:60]
        )
    if int(text) >= max(n_splits, 1):
        rule = f"must be 0 to {n_splits - 1}, the splits of {graph.name}"
        if n_splits == 1:
            rule = f"must be 0, the only split of {graph.name}"
        elif not n_splits:
            rule = f"must be 0: {graph.name} has no split, so the seed draws one"
        raise InputError(rule, param="split", value=int(text))
    return [int(text)]


@dataclass(frozen=True)
class SplitRun:
    """A classifier fitted on one split, and its scores."""

    split: int
    classifier: NodeClassifier
    val: Evaluation
    test: Evaluation | None
    seconds: float

    @property
    def sizes(self) -> list[int]:
        """Numbers of training, validation and test nodes."""
        train, val, _ = self.classifier.split_.sizes
        # Later ones are not in the graph that it was trained on.
        return [train, val, 0 if self.test is None else self.test.nodes]

    def save(
        self,
        path: Path,
        graph: Graph,
        interrupted: str | None = None,
        later: Mapping[str, Any] | None = None,
        *,
        force: bool = True,
    ) -> None:
        """Save the classifier with what it learned on and how well.

        `interrupted` says how it ended before its time, if it did, and `later` what
        came after the time up to which it was trained.
        """
        extra = {
            "graph": homophily.graph_card(graph),
            "split": self.split,
            "val_accuracy": self.val.accuracy,
            "test_accuracy": None if self.test is None else self.test.accuracy,
            "split_sizes": self.sizes,
            **({} if later is None else {"time": dict(later)}),
            **_judge_runs([self]).to_json(),
            "epochs": self.classifier.n_iter_,
            "interrupted": interrupted is not None,
            "ending": interrupted or "finished",
        }
        estimator.save_bundle(self.classifier, path, extra=extra, force=force)


def _judge_runs(runs: Sequence[SplitRun]) -> Judgement:
    """Judge the model by its test nodes; where there are none, by validation nodes."""
    balanced = any(estimator.is_balanced(run.classifier) for run in runs)
    tests = [run.test for run in runs if run.test is not None]
    if tests:
        return estimator.Judgement.of(tests, "test nodes", balanced=balanced)
    found = [run.val for run in runs]
    return estimator.Judgement.of(found, "validation nodes", balanced=balanced)


def _run_splits(
    graph: Graph,
    past: Graph,
    model: str,
    numbers: Sequence[int],
    seed: int,
    config: Mapping[str, Any],
    checkpoints: Checkpoints | None = None,
    team: Team | None = None,
    *,
    note: str = "",
    quiet: bool,
) -> list[SplitRun]:
    """Fit a model on each of some splits; a run of split i is seeded by seed + i.

    It is fitted on the past, and tested on the whole graph, which may be the same.
    What "auto" is to fit once more on all labels is scored before. The note is said
    once it is known that there will be a training.
    """
    again = bool(config.get("refit"))
    config = {name: value for name, value in config.items() if name != "refit"}
    fits = [_check(past, model, number, seed, config) for number in numbers]
    if not _has_epochs(model):
        checkpoints = None  # it is done in one go
    if checkpoints is not None:
        checkpoints.open(numbers)
    if not quiet:
        if note:
            say(f"note: {note}")
        say_what_was_read(past, [checked.split for _, checked in fits])
    runs: list[SplitRun] = []
    try:
        for number, (fitted, checked) in zip(numbers, fits, strict=True):
            seconds = _fit(fitted, checked, number, checkpoints, team, quiet=quiet)
            used = fitted.split_
            tested = used.test if past is graph else graph.splits[number].test
            test = estimator.evaluate(fitted, graph, tested) if tested.size else None
            val = estimator.evaluate(fitted, past, used.val)
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


def _interruption(runs: Sequence[SplitRun], asked: int) -> str | None:
    """Return how runs on so many splits ended before their time; None if they did not.

    Parameters
    ----------
    runs
        What `_run_splits` returned.
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
    return model != estimator.AUTO and models.find_model(model).epochs


def _is_scaled(model: str) -> bool:
    return model != estimator.AUTO and models.find_model(model).inputs != "labels"


def _epoch_of(classifier: NodeClassifier) -> str:
    return "" if classifier.members_ else f" in epoch {classifier.n_iter_}"


def _check(
    graph: Graph, model: str, number: int, seed: int, config: Mapping[str, Any]
) -> tuple[NodeClassifier, CheckedFit]:
    """Return a classifier of a split, and what it can begin with, or say why not."""
    classifier = estimator.NodeClassifier(model, random_state=seed + number, **config)
    split = number if graph.splits else None
    return classifier, estimator.check_fit(classifier.get_params(), graph, split)


def _fit(
    classifier: NodeClassifier,
    checked: CheckedFit,
    number: int,
    checkpoints: Checkpoints | None,
    team: Team | None,
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
    if classifier.model == estimator.AUTO:
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

        if team is None:
            classifier.fit_checked(checked, on_epoch=on_epoch, **more)
        else:
            team.fit(classifier, checked, on_epoch=on_epoch, **more)
    if notes and not quiet:  # it was finished: there was no epoch
        say(notes.pop())
    return before + time.perf_counter() - start


def find_splits(graph: Graph, numbers: Sequence[int], seed: int) -> list[Split]:
    """Return some of the data's splits, or random ones where they bring none."""
    own = bool(graph.splits)
    return [
        estimator.resolve_split(
            graph, number if own else None, estimator.resolve_seed(seed + number)
        )
        for number in numbers
    ]


@dataclass(frozen=True)
class Team:
    """Workers that train one model together.

    Parameters
    ----------
    cluster
        Whose workers they are.
    store
        The folder of the graph's store, if it has one.
    told
        How each training went.
    """

    cluster: Cluster
    store: str | None
    told: list[DistributedFitResult] = field(default_factory=list)

    def fit(self, classifier: NodeClassifier, checked: CheckedFit, **more: Any) -> None:
        """Fit a classifier in place; `more` is what `fit_over_workers` takes."""
        from h2gcn.cluster import fit_over_workers

        found = fit_over_workers(
            classifier, checked, self.cluster, store=self.store, **more
        )
        self.told.append(found)


def _cluster_line(fit: DistributedFitResult) -> str:
    """Return how a training went over workers, beside what was forecast."""
    from h2gcn.sparse import format_bytes

    again = "" if fit.starts == 1 else f", started {fit.starts} times"
    return (
        f"{fit.workers} workers{again}: each sent {format_bytes(fit.sent)} an epoch "
        f"(forecast: {format_bytes(fit.forecast_sent)}) and took up to "
        f"{format_bytes(fit.peak)} (forecast, without programs and mapped files: "
        f"{format_bytes(fit.forecast_bytes)})"
    )


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
        held = [
            number
            for number in splits
            if training.find_position(self._of(number)) is not None
        ]
        training.check_resume(self._of((held or splits)[0]), bool(held), self.resume)
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise io.cannot_write(self.folder, error) from None

    def close(self) -> None:
        """Remove the folder where no split has left anything in it.

        An empty one that was there before goes too: nothing is lost with it.
        """
        with suppress(OSError):  # it is not empty
            self.folder.rmdir()

    def stage(self, split: int) -> Position | None:
        """Return how far a split is that is gone on with; None for a new one."""
        return training.find_position(self._of(split)) if self.resume else None

    def arguments(self, split: int) -> dict[str, Any]:
        """Return the arguments of `NodeClassifier.fit` for a split."""
        return {
            "checkpoint": self._of(split),
            "resume": self.stage(split) is not None,
            "checkpoint_minutes": self.minutes,
        }

    def _of(self, split: int) -> Path:
        return self.folder / f"split-{split}"


def _find_checkpoints(
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
    io.check_folder(folder, "a checkpoint", re.compile(r"split-\d+").fullmatch)
    return Checkpoints(folder, resume, training.MINUTES if minutes is None else minutes)


def _report(graph: Graph, model: str, runs: Sequence[SplitRun]) -> dict[str, Any]:
    """Return all results as one object for JSON; scores are fractions of 1."""
    import numpy as np

    tests = [run.test for run in runs if run.test is not None]
    seeds = [run.classifier.random_state for run in runs]
    result: dict[str, Any] = {
        "dataset": graph.name,
        "model": model,
        "config": runs[0].classifier.params_ | {"random_state": seeds},
        "graph": homophily.graph_card(graph),
        "splits": [_split_row(run) for run in runs],
        "test_accuracy": estimator.mean_and_deviation(
            [test.accuracy for test in tests]
        ),
        "test_macro_f1": estimator.mean_and_deviation(
            [test.macro_f1 for test in tests]
        ),
        "majority_baseline": estimator.mean_and_deviation(
            [test.majority for test in tests]
        ),
        **_probability_means(tests),
        **_judge_runs(runs).to_json(),
        "version": __version__,
    }
    boards = [run.classifier.leaderboard_ for run in runs]
    found = [board.to_json() for board in boards if board is not None]
    if found:
        result["leaderboards"] = found
    if graph.n_classes == 2:
        scores = [test.roc_auc for test in tests if test.roc_auc is not None]
        result["test_roc_auc"] = estimator.mean_and_deviation(scores)
    if tests:
        total = np.sum([test.confusion for test in tests], axis=0)
        classes = [str(label) for label in graph.classes]
        result["confusion"] = {"classes": classes, "counts": total.tolist()}
        result["per_class"] = [
            {"class": name} | row
            for name, row in zip(classes, training.per_class(total), strict=True)
        ]
    return result


def _probability_means(tests: Sequence[Evaluation]) -> dict[str, Any]:
    """Return how good the probabilities of test nodes are, in the mean of splits."""
    found = [test.probabilities for test in tests]
    areas = [one.mean_pr_auc for one in found]
    return {
        "test_pr_auc": estimator.mean_and_deviation(
            [area for area in areas if area is not None]
        ),
        "test_log_loss": estimator.mean_and_deviation([one.log_loss for one in found]),
        "test_brier": estimator.mean_and_deviation([one.brier for one in found]),
        "test_calibration_error": estimator.mean_and_deviation(
            [one.calibration_error for one in found]
        ),
        "chance_calibration_error": estimator.mean_and_deviation(
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
        "sizes": run.sizes,
        "scaling": run.classifier.scaler_.kind,
        "temperature": None if calibration is None else calibration.temperature,
        "test_probabilities": None
        if run.test is None
        else run.test.probabilities.to_json(classes),
    }
    if len(classes) == 2:
        for name in training.OF_TWO_CLASSES:
            row[f"val_{name}"] = run.val.measures[name]
            row[f"test_{name}"] = None if run.test is None else run.test.measures[name]
    return row


def _show(result: Mapping[str, Any], graph: Graph) -> None:
    """Print the results as tables."""
    show_card(result["graph"])
    if "time" in result:
        later = result["time"]
        tell(
            f"trained on the graph up to {later['test_after']}: "
            f"{later['nodes_later']:,} nodes and {later['edges_later']:,} edges came "
            "later and were not there; test nodes are among them, in the whole graph"
        )
    for board in result.get("leaderboards", ()):
        _show_leaderboard(auto.Leaderboard.from_json(board))
    if result["config"]["scaling"] == "auto" and _is_scaled(result["model"]):
        took = result["splits"][0]["scaling"]
        tell(f"scaling of the features: {took}, by auto (--scaling sets another)")
    metric = result["config"]["metric"]
    epoch = ("best epoch",) if result["model"] != estimator.AUTO else ()
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
    if "confusion" in result:
        rows = result["per_class"]
        found, right = ([row[key] for row in rows] for key in ("recall", "precision"))
        show_confusion(result["confusion"], found, right)
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


def _warn_of_missed_classes(result: Mapping[str, Any]) -> None:
    """Say of which classes hardly a test node was found, and what may help."""
    missed = [
        f"{row['class']} ({round(row['recall'] * row['nodes'])} of {row['nodes']:,})"
        for row in result.get("per_class", ())
        if row["nodes"] and row["recall"] < HARDLY
    ]
    if not missed:
        return
    told = f"hardly found among the test nodes: {', '.join(missed)}"
    if result["model"] == estimator.AUTO and result["config"]["metric"] != "macro_f1":
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
        ("log-loss", diagnosis.number(found.log_loss, 3)),
        ("Brier score", diagnosis.number(found.brier, 3)),
        ("calibration error", diagnosis.number(found.calibration_error, 3)),
    ]
    shown = [fact for fact in facts if fact[0] != "ROC-AUC" or test.roc_auc is not None]
    return shown, diagnosis.reliability_svg(found.bins)


def _write_page(path: Path, graph: Graph, run: SplitRun, *, force: bool) -> None:
    """Write the leaderboard of a run of auto as a page."""
    board = run.classifier.leaderboard_
    assert board is not None
    facts, picture = _for_page(run)
    page = auto.render_leaderboard(board, graph.name, facts, picture)
    with io.atomic_write(path, force=force) as beside:
        beside.write_text(page, encoding="utf-8")


def _say_saved(out: Path, run: SplitRun, graph: Graph) -> None:
    """Tell which run was saved, and what can be done with it."""
    tell(f"saved to {out} (split {run.split})")
    n_unlabelled = graph.n_nodes - graph.labelled.size
    if n_unlabelled:
        tell(f"{n_unlabelled:,} nodes have no label: h2gcn predict {out} …")
