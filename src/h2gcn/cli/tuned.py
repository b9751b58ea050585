"""What `h2gcn tune` does once it knows the graph, and the folder that it fills."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from h2gcn import __version__
from h2gcn.cli.output import progress_bar, runs_bar, say
from h2gcn.cli.runs import Run
from h2gcn.estimator import check_target, evaluate, read_manifest
from h2gcn.exceptions import InputError
from h2gcn.experiments import (
    Progress,
    Ranked,
    Setting,
    Store,
    classifier_of,
    search,
    tune,
)
from h2gcn.graph import Graph, Split
from h2gcn.homophily import graph_card
from h2gcn.io import atomic_write, check_not_stdout

__all__ = ["Folder", "Work"]


@dataclass(frozen=True)
class Folder:
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

    def check(self) -> None:
        """Refuse a folder that cannot be used, before the work is done."""
        check_not_stdout(self.path, "tuning needs a folder")
        if not self.path.parent.is_dir():
            parent = self.path.parent
            raise InputError(f"{self.path}: the folder {parent} does not exist")
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path}: is a file; a folder is needed")
        ours = {self.trials, self.best, self.model}
        if self.path.is_dir() and set(self.path.iterdir()) - ours:
            raise InputError(
                f"{self.path}: holds other files; tuning needs a folder of its own"
            )
        if self.path.is_dir():
            check_target(self.model)

    def make(self) -> None:
        """Make the folder if it is not there."""
        try:
            self.path.mkdir(exist_ok=True)
        except OSError as error:
            why = error.strerror or error
            raise InputError(f"{self.path}: cannot make this folder ({why})") from None


@dataclass
class Work:
    """Tuning of one model on one graph, kept in one folder."""

    graph: Graph
    model: str
    splits: Sequence[Split]
    seed: int
    device: str
    folder: Folder
    quiet: bool
    machine: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the classifiers about this machine, which settings leave out."""
    last: Progress | None = None
    """How far it is, or came."""

    def rank(self, grid: Sequence[Setting], n_trials: int | None) -> list[Ranked]:
        """Run the grid, or a search of so many settings; the best comes first."""
        self.folder.make()
        title = f"{self.graph.name} {self.model}"
        with (
            Store(self.folder.trials) as store,
            runs_bar(title, show=not self.quiet) as bar,
        ):

            def on_run(progress: Progress) -> None:
                if self.last is None and progress.found and not self.quiet:
                    found, total = progress.found, progress.total
                    say(f"{found} of {total} runs are there from before")
                self.last = progress
                bar(progress)

            given: dict[str, Any] = {"seed": self.seed, "store": store}
            given |= {"device": self.device, "machine": self.machine}
            given |= {"on_run": on_run}
            what = (self.graph, self.model, grid, self.splits)
            try:
                if n_trials is None:
                    ranking = tune(*what, **given)
                else:
                    ranking = search(*what, n_trials=n_trials, **given)
            except KeyboardInterrupt:
                if len(store):
                    say(
                        f"{len(store)} finished runs are in {self.folder.trials}; the "
                        "same command goes on from there"
                    )
                raise
        if ranking[0].mean is None:
            raise InputError(f"no setting can be used: {ranking[0].error}")
        return ranking

    def save(self, winner: Ranked) -> None:
        """Fit the winner on the first split and save it, if it is not there yet."""
        if self._is_saved(winner):
            return
        more = {**self.machine, "device": self.device, "random_state": self.seed}
        fitted = classifier_of(self.model, winner.setting, **more)
        title = f"{self.graph.name} {self.model} the best setting"
        start = time.perf_counter()
        with progress_bar(title, fitted.epochs, show=not self.quiet) as on_epoch:
            fitted.fit(self.graph, self.splits[0], on_epoch=on_epoch)
        if fitted.interrupted_:
            raise KeyboardInterrupt
        seconds = time.perf_counter() - start
        val = evaluate(fitted, self.graph, fitted.split_.val)
        run = Run(0, fitted, val, None, seconds)
        run.save(self.folder.model, self.graph)
        best = {
            "model": self.model,
            "settings": winner.setting,
            "validation": {
                "metric": fitted.metric,
                "mean": winner.mean,
                "std": winner.deviation,
                "n": winner.n,
            },
            "runs": winner.runs,
            "seed": self.seed,
            "dataset": graph_card(self.graph),
            "version": __version__,
        }
        # Last, so that it never names another setting than the model's.
        with atomic_write(self.folder.best) as beside:
            text = json.dumps(best, indent=1, ensure_ascii=False, allow_nan=False)
            beside.write_text(text + "\n", encoding="utf-8")

    def _is_saved(self, winner: Ranked) -> bool:
        try:
            best = json.loads(self.folder.best.read_text(encoding="utf-8"))
            tables = read_manifest(self.folder.model)["extra"]["tables"]
        except (OSError, ValueError, KeyError):
            return False
        known = best.get("runs") if isinstance(best, dict) else None
        return known == list(winner.runs) and tables == self.graph.record.tables
