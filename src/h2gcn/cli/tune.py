"""`h2gcn tune`: find good settings on validation nodes."""

from __future__ import annotations

import json
import os
import shlex
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from h2gcn import (
    __version__,
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
    percent,
    progress_bar,
    runs_bar,
    say,
    say_what_was_read,
    table,
    tell,
    tell_json,
)
from h2gcn.cli.options import (
    BatchSize,
    Device,
    MemoryLimit,
    Model,
    RingCap,
    Seed,
    check_given,
    find_settings,
    in_panel,
    is_benchmark,
    merge,
)
from h2gcn.cli.train import SplitRun, find_splits
from h2gcn.exceptions import H2GCNWarning, InputError

if TYPE_CHECKING:
    from h2gcn.estimator import NodeClassifier
    from h2gcn.experiments import Ranked, Setting, TuneProgress
    from h2gcn.graph import Graph, Split

__all__ = ["TuneFolder", "command"]

N_TRIALS, N_SPLITS = 50, 3
_setting = in_panel("Settings (of every run, instead of the grid's)")
MAX_SHOWN, MAX_COLUMNS = 15, 5
"""Of the ranking's rows, and of the settings that have a column of their own."""
_FLAGS = {
    "id_column": "--id-column",
    "label_column": "--label-column",
    "feature_columns": "--feature-column",
    "categorical": "--categorical",
    "edge_features": "--edge-feature",
    "edge_categorical": "--edge-categorical",
    "edge_weight": "--edge-weight",
    "source_column": "--source-column",
    "target_column": "--target-column",
    "drop_unknown": "--drop-unknown",
    "fill_missing": "--fill-missing",
    "undirected": "--undirected",
    "date_features": "--date-feature",
    "split_column": "--split-column",
    "group_column": "--group-column",
    "time_column": "--time-column",
    "test_after": "--test-after",
    "val_after": "--val-after",
    "edge_time_column": "--edge-time-column",
}


@src.with_tables
def command(
    source: src.Source = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder for everything (default: tuned-<name>-<model>).",
            show_default=False,
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace the best of another search in there."),
    ] = False,
    model: Model = None,
    n_splits: Annotated[
        int | None,
        typer.Option(
            "--splits",
            help=f"On the first so many splits (default: {N_SPLITS}, or all if the "
            "data bring fewer).",
            min=1,
            show_default=False,
        ),
    ] = None,
    search: Annotated[
        str, typer.Option(help="grid: the paper's. optuna: that first, then beyond.")
    ] = "grid",
    trials: Annotated[
        int | None,
        typer.Option(
            help=f"Of --search optuna: settings to try, in all (default: {N_TRIALS}).",
            min=1,
            show_default=False,
        ),
    ] = None,
    seed: Seed = 0,
    as_json: src.AsJson = False,
    quiet: src.Quiet = False,
    tables: src.Tables = src.Tables(),
    epochs: Annotated[int | None, _setting("At most so many epochs.")] = None,
    patience: Annotated[
        int | None, _setting("Epochs that the stopping rule waits.")
    ] = None,
    scaling: Annotated[
        str | None,
        _setting(
            "Features: auto, rows, standard or none. Of one's own data all that "
            "make sense are tried."
        ),
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
    batch_size: BatchSize = None,
    ring_cap: RingCap = None,
    memory_limit: MemoryLimit = None,
    device: Device = None,
    cluster: src.Workers = None,
) -> str | None:
    """Find good settings of a model for SOURCE, by their scores on validation nodes.

    Test nodes are not looked at. Every run is kept as it ends, and so is the best
    setting with its model; the same command goes on where an earlier one was stopped,
    by Ctrl-C, SIGTERM or otherwise. Data that bring no split are split
    60/20/20, each class alike, as many times as --splits says. With --cluster,
    workers make the ring table of a model that takes one.
    """
    from h2gcn.graph import MAX_SPLITS

    if model == estimator.AUTO:
        raise InputError(
            "--model auto has nothing to tune: it is a fixed dozen of models, and "
            "'h2gcn train' takes it as it is. Name one of 'h2gcn models'."
        )
    if n_splits is not None and n_splits > MAX_SPLITS:
        raise InputError(f"--splits {n_splits:,}: at most {MAX_SPLITS:,}.")
    model, _ = find_settings(None, model)
    n_trials = _check_search(search, trials)
    given = {
        "epochs": epochs,
        "patience": patience,
        "scaling": scaling,
        "metric": metric,
        "class_weight": class_weight,
        "batch_size": batch_size,
        "ring_cap": ring_cap,
    }
    here: dict[str, Any] = {"memory_limit": memory_limit}
    check_given(model, given)
    src.check_workers(cluster, model)
    if out is not None:
        TuneFolder(out).check(force=force)
    if quiet:
        warnings.simplefilter("ignore", H2GCNWarning)
    options = tables.options()
    read = src.load_source(source, tables, options, memory_limit)
    graph = src.past_of(read, options)
    folder = TuneFolder(out or Path(f"tuned-{graph.name}-{model}".replace("/", "-")))
    folder.check(force=force)
    folder.check_search(model, seed, graph, force=force)
    numbers = range(_count_splits(n_splits, len(graph.splits)))
    if ring_cap is None or isinstance(ring_cap, str):
        # Settings hold what was chosen, for whoever trains by them.
        named = ring_cap or ("exact" if is_benchmark(source) else "auto")
        asked = estimator.NodeClassifier(model, ring_cap=named, **here)
        given["ring_cap"] = estimator.resolve_cap(asked.get_params(), graph)
    # By the name that was asked for: one's own file may be called texas.npz.
    scalings = estimator.other_scalings(graph.x) if scaling is None else ()
    found = experiments.find_grid(source or "", model, scalings)
    grid = experiments.distinct(merge(setting, given, {}) for setting in found)
    for setting in grid:
        classifier = experiments.classifier_of(
            model, setting, device=device or "auto", **here
        )
        classifier.check_params(graph.n_classes)
    estimator.check_labels(graph)
    if metric in training.OF_TWO_CLASSES and graph.n_classes != 2:
        # Otherwise every single run would fail, and be kept.
        raise InputError(
            f"--metric {metric}: for two classes. {graph.name} has {graph.n_classes}."
        )
    splits = [
        experiments.without_test(split) for split in find_splits(graph, numbers, seed)
    ]
    if not quiet:
        say_what_was_read(graph, splits)
    work = Tuning(
        *(graph, model, splits, seed, device or "auto", folder, quiet, here),
        force=force,
        replaces=force or estimator.holds_model(folder.model),
    )
    mapped = src.seen_by_workers(source, tables, graph) if graph is read else None
    with src.over_workers(cluster, [(graph, mapped)], memory_limit):
        work.rank(grid, n_trials)
        saved = work.save()
    result = _result_of(work, search, saved=saved)
    if as_json:
        tell_json(result)
    else:
        again = _source_arguments(source, tables)
        _show(result, graph, " ".join([again, *_machine_arguments(here)]))
    return KEPT if work.interrupted else None


def _count_splits(asked: int | None, own: int) -> int:
    """Return how many splits to use of the data's own, or to draw if they have none."""
    if asked is None:
        return min(N_SPLITS, own or N_SPLITS)
    if 0 < own < asked:
        rule = f"must be at most {own}, as many as the data have"
        raise InputError(rule, param="splits", value=asked)
    return asked


def _check_search(search: str, trials: int | None) -> int | None:
    """Return how many settings to try, None for those of the grid."""
    if search not in ("grid", "optuna"):
        raise InputError("must be grid or optuna", param="search", value=search)
    if search == "optuna":
        experiments.check_optuna()
        return trials or N_TRIALS
    if trials is not None:
        raise InputError("--trials is for --search optuna; the grid is tried whole.")
    return None


@dataclass(frozen=True)
class TuneFolder:
    """Where the runs, the winner's settings and its model are."""

    path: Path

    @property
    def trials(self) -> Path:
        """Every run, as JSON lines."""
        return self.path / "trials.jsonl"

    @property
    def best(self) -> Path:
        """The settings of the winner."""
        return self.path / "best.json"

    @property
    def model(self) -> Path:
        """The model of the winner."""
        return self.path / "model"

    def check(self, *, force: bool) -> None:
        """Refuse a folder that cannot be used, before the work is done.

        Without `force`, one whose settings or model would be replaced although no
        search has left them.
        """
        io.check_not_stdout(self.path, "tuning needs a folder")
        io.usable_path(self.path)
        if not self.path.parent.is_dir():
            parent = self.path.parent
            raise InputError(
                f"the folder {parent} does not exist", where=str(self.path)
            )
        if self.path.exists() and not self.path.is_dir():
            raise InputError("is a file; a folder is needed", where=str(self.path))
        if not self.path.is_dir():
            return
        # What a program left that was killed is gone once these two are looked at.
        io.clear_unfinished(self.best)
        estimator.check_target(self.model)
        ours = {self.trials, self.best, self.model}
        if set(self.path.iterdir()) - ours:
            raise InputError(
                "holds other files; tuning needs a folder of its own",
                where=str(self.path),
            )
        if not force:
            self.check_replaced()

    def check_replaced(self) -> None:
        """Refuse to replace settings or a model that no search has left here."""
        if self.read_best().keys() >= {"model", "seed", "dataset", "runs"}:
            return
        if os.path.lexists(self.best):
            raise io.AlreadyThere.at_path(self.best)
        if estimator.holds_model(self.model) and not self.trials.exists():
            raise io.AlreadyThere.at_path(self.model)

    def check_search(self, model: str, seed: int, graph: Graph, *, force: bool) -> None:
        """Refuse a folder that holds the best of another search than this one."""
        from h2gcn.graph import fingerprint

        best = {} if force else self.read_best()
        card = best.get("dataset")
        before = {
            "graph": card.get("checksum") if isinstance(card, dict) else None,
            "model": _resolved(best.get("model")),
            "seed": best.get("seed"),
        }
        now = {
            "graph": fingerprint(graph)[:16],
            "model": _resolved(model),
            "seed": seed,
        }
        for name, value in before.items():
            if value is not None and value != now[name]:
                raise InputError(
                    f"holds the best of another search (its {name} is "
                    f"{str(value)[:60]}, not {now[name]}); --force replaces it, "
                    "another --out keeps it",
                    where=str(self.path),
                )

    def read_best(self) -> dict[str, Any]:
        """Return what best.json holds; nothing if it is not there, or no JSON."""
        try:
            best = io.parse_json(io.read_own(self.best), self.best)
        except InputError:
            return {}
        return best if isinstance(best, dict) else {}


def _resolved(model: Any) -> Any:
    """Return a model's own name where it is called by another."""
    return models.ALIASES.get(model, model) if isinstance(model, str) else None


@dataclass
class Tuning:
    """Tuning of one model on one graph, kept in one folder."""

    graph: Graph
    model: str
    splits: Sequence[Split]
    seed: int
    device: str
    folder: TuneFolder
    quiet: bool
    machine: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the classifiers about this machine, which settings leave out."""
    force: bool = False
    """Whether settings that are not of this search are replaced."""
    replaces: bool = False
    """Whether a model in the folder is replaced: one of this folder's own searches."""
    last: TuneProgress | None = None
    """How far it is, or came."""
    ranking: list[Ranked] = field(default_factory=list)
    """The settings done so far, the best first."""
    interrupted: bool = False
    """Whether it was ended before all was done."""

    def rank(self, grid: Sequence[Setting], n_trials: int | None) -> None:
        """Run the grid, or a search of so many settings; the best comes first.

        The best so far is saved whenever there is a new one, whatever ends the
        program. Ctrl-C ends the search, if there is a best.
        """
        title = f"{self.graph.name} {self.model}"
        with (
            io.new_folder(self.folder.path),
            experiments.Store(self.folder.trials) as store,
            runs_bar(title, show=not self.quiet) as bar,
        ):

            def on_run(progress: TuneProgress) -> None:
                if self.last is None and progress.found and not self.quiet:
                    found, total = progress.found, progress.total
                    say(f"{found} of {total} runs are there from before")
                self.last = progress
                bar(progress)

            given: dict[str, Any] = {"seed": self.seed, "store": store}
            given |= {"device": self.device, "machine": self.machine}
            given |= {"on_run": on_run, "on_ranking": self._keep}
            what = (self.graph, self.model, grid, self.splits)
            try:
                if n_trials is None:
                    self.ranking = experiments.tune(*what, **given)
                else:
                    self.ranking = experiments.search(*what, n_trials=n_trials, **given)
            except KeyboardInterrupt:
                if len(store):
                    say(
                        f"interrupted; {len(store)} finished runs are in "
                        f"{self.folder.trials}; the same command goes on from there"
                    )
                if not self.ranking or self.ranking[0].mean is None:
                    raise
                self.interrupted = True
        if self.ranking[0].mean is None:
            raise InputError(f"no setting can be used: {self.ranking[0].error}")

    def save(self) -> bool:
        """Save the winner, and that it is the winner; return whether it is saved.

        After an interruption nothing is fitted for it any more.
        """
        winner = self.ranking[0]
        if not self.interrupted:
            try:
                if not self._is_saved(winner):
                    self._save(winner, self._fit(winner, show=not self.quiet))
                if self.folder.read_best().get("interrupted"):
                    self._write_best(winner, interrupted=False, force=True)
            except KeyboardInterrupt:
                say("interrupted; the same command goes on from there")
                self.interrupted = True
        return self._is_saved(winner)

    def _keep(self, ranking: list[Ranked], fitted: NodeClassifier | None) -> None:
        """Save the best so far."""
        self.ranking = ranking
        if ranking[0].mean is not None and not self._is_saved(ranking[0]):
            # A bar is on the screen already, and there is room for one.
            self._save(ranking[0], fitted or self._fit(ranking[0], show=False))

    def _fit(self, winner: Ranked, *, show: bool) -> NodeClassifier:
        """Fit the winner on the first split."""
        more = {**self.machine, "device": self.device, "random_state": self.seed}
        fitted = experiments.classifier_of(self.model, winner.setting, **more)
        title = f"{self.graph.name} {self.model} the best setting"
        with progress_bar(title, fitted.epochs, show=show) as on_epoch:
            fitted.fit(self.graph, self.splits[0], on_epoch=on_epoch)
        if fitted.interrupted_:
            raise KeyboardInterrupt
        return fitted

    def _save(self, winner: Ranked, fitted: NodeClassifier) -> None:
        """Save a model, and its settings."""
        val = estimator.evaluate(fitted, self.graph, fitted.split_.val)
        run = SplitRun(0, fitted, val, None, fitted.seconds_)
        if not self.force:
            self.folder.check_replaced()
        # Removed first and written last, so that it never names another setting than
        # the model's.
        self.folder.best.unlink(missing_ok=True)
        run.save(self.folder.model, self.graph, force=self.replaces)
        self.replaces = True
        self._write_best(winner, interrupted=True, force=self.force)

    def _write_best(self, winner: Ranked, *, interrupted: bool, force: bool) -> None:
        """Write the settings of the winner; `interrupted` until all is done."""
        best = {
            "model": self.model,
            "settings": winner.setting,
            "interrupted": interrupted,
            "validation": {
                "metric": experiments.classifier_of(self.model, winner.setting).metric,
                "mean": winner.mean,
                "std": winner.deviation,
                "n": winner.n,
            },
            "runs": winner.runs,
            "seed": self.seed,
            "dataset": homophily.graph_card(self.graph),
            "version": __version__,
        }
        with io.atomic_write(self.folder.best, force=force) as beside:
            text = json.dumps(best, indent=1, ensure_ascii=False, allow_nan=False)
            beside.write_text(text + "\n", encoding="utf-8")

    def _is_saved(self, winner: Ranked) -> bool:
        if self.folder.read_best().get("runs") != list(winner.runs):
            return False
        try:
            tables = estimator.read_manifest(self.folder.model).extra["tables"]
        except (InputError, KeyError):
            return False
        return bool(tables == self.graph.record.tables)


def _result_of(work: Tuning, search: str, *, saved: bool) -> dict[str, Any]:
    """Return all results as one object for JSON; scores are fractions of 1."""
    ranking = work.ranking
    best = experiments.classifier_of(work.model, ranking[0].setting)
    assert work.last is not None
    return {
        "dataset": work.graph.name,
        "model": work.model,
        "search": search,
        "metric": best.metric,
        "splits": len(work.splits),
        "scaling_auto": _scaling_auto(work.graph, ranking),
        "seed": work.seed,
        "runs": {"found": work.last.found, "new": work.last.done - work.last.found},
        "runs_missing": work.last.total - work.last.done,
        "interrupted": work.interrupted,
        "best": _row(1, ranking[0]),
        "ranking": [_row(place, result) for place, result in enumerate(ranking, 1)],
        "folder": str(work.folder.path),
        "saved": saved,
        "graph": homophily.graph_card(work.graph),
        "version": __version__,
    }


def _row(place: int, result: Ranked) -> dict[str, Any]:
    score = {"mean": result.mean, "std": result.deviation, "n": result.n}
    row = {"rank": place, "settings": dict(result.setting), "val_score": score}
    row |= {"seconds": round(result.seconds, 3), "runs": list(result.runs)}
    return row if result.error is None else row | {"error": result.error}


def _show(result: Mapping[str, Any], graph: Graph, source: str) -> None:
    """Print the ranking, what was saved, and how to go on.

    Parameters
    ----------
    result
        What `_result_of` returns.
    graph
        The graph.
    source
        The arguments that name it.
    """
    ranking = result["ranking"]
    # With all that was left to the model: a search sets what the grid does not.
    settings = [
        experiments.flatten(
            experiments.classifier_of(
                result["model"], row["settings"]
            ).resolved_params()
        )
        for row in ranking
    ]
    names, cells = _columns(settings)
    rows = [
        (
            row["rank"],
            *cell,
            percent(row["val_score"]["mean"]),
            percent(row["val_score"]["std"]),
            f"{row['seconds']:.1f}",
        )
        for row, cell in zip(ranking, cells, strict=True)
    ]
    score = f"val {SCORES[result['metric']]}"
    title = (
        f"{result['model']} on {result['dataset']}: {len(ranking)} setting(s), "
        f"validation nodes of {result['splits']} split(s)"
    )
    if result["interrupted"]:
        tell(
            f"interrupted, with {result['runs_missing']} runs to go: this is the "
            "ranking so far"
        )
    columns = ("#", *names, score, "±", "s")
    table(title, columns, rows[:MAX_SHOWN], text=2 if names == ["setting"] else 0)
    folder = Path(result["folder"])
    if len(rows) > MAX_SHOWN:
        tell(f"{len(rows) - MAX_SHOWN} more in {folder / 'trials.jsonl'}")
    if result["scaling_auto"] is not None:
        tell(f"the scaling auto is {result['scaling_auto']} here")
    failed = [row["error"] for row in ranking if "error" in row]
    if failed:
        tell(f"{len(failed)} failed, as the last one: {failed[-1]}")
    _say_saved(result, folder, graph, source)


def _scaling_auto(graph: Graph, ranking: Sequence[Ranked]) -> str | None:
    """Return what "auto" means here, if that and another scaling were tried."""
    tried = {result.setting.get("scaling", "auto") for result in ranking}
    return (
        estimator.choose_scaling(graph.x)
        if "auto" in tried and len(tried) > 1
        else None
    )


def _columns(
    settings: Sequence[Mapping[str, Any]],
) -> tuple[list[str], list[list[str]]]:
    """Return names and cells of what varies; in one column where it is too much."""
    first = settings[0]
    varied = [
        name
        for name in first
        if any(setting.get(name) != first[name] for setting in settings)
    ]
    cells = [[_text(setting.get(name)) for name in varied] for setting in settings]
    if len(varied) > MAX_COLUMNS:
        texts = [
            ", ".join(map(" ".join, zip(varied, cell, strict=True))) for cell in cells
        ]
        return ["setting"], [[text] for text in texts]
    # On two lines, so that a usual terminal has room for all columns.
    return [name.replace("_", "\n") for name in varied], cells


def _say_saved(
    result: Mapping[str, Any], folder: Path, graph: Graph, source: str
) -> None:
    if not result["saved"]:
        tell(
            f"saved to {folder}: trials.jsonl (every run); the model of rank 1 is not "
            "fitted yet, the same command does it"
        )
        return
    tell(
        f"saved to {folder}: best.json (the settings of rank 1), model (fitted with "
        "them on split 0), trials.jsonl (every run)"
    )
    n_unlabelled = graph.n_nodes - graph.labelled.size
    best, model = (shlex.quote(str(folder / name)) for name in ("best.json", "model"))
    if n_unlabelled:
        tell(f"{n_unlabelled:,} nodes have no label: h2gcn predict {model} …")
    tell("No test node was looked at; for the score on those:")
    seed = f" --seed {result['seed']}" if result["seed"] else ""
    tell(f"h2gcn train {source} --model {result['model']} --settings {best}{seed}")


def _source_arguments(source: str | None, tables: src.Tables) -> str:
    """Return the arguments that name a graph, to be copied into another command."""
    paths = {
        "--nodes": tables.nodes,
        "--edges": tables.edges,
        "--features": tables.features,
    }
    options = tables.options()
    words = [] if source is None else [source]
    for flag, path in paths.items():
        words += [] if path is None else [flag, str(path)]
    for name, flag in _FLAGS.items():
        value = getattr(options, name)
        if value is True:
            words.append(flag)
        elif value:
            for text in [value] if isinstance(value, str) else value:
                words += [flag, text]
    return shlex.join(words)


def _machine_arguments(given: Mapping[str, Any]) -> list[str]:
    """Return the options about this machine, to be copied into another command."""
    return [
        f"--{name.replace('_', '-')} {shlex.quote(str(value))}"
        for name, value in given.items()
        if value is not None
    ]


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if not isinstance(value, float):
        return str(value)
    if 0 < value < 0.001:
        digits, _, exponent = f"{value:.1e}".partition("e")
        return f"{digits.removesuffix('.0')}e{int(exponent)}"
    return f"{value:.2g}"
