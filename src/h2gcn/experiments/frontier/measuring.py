"""One split: a fit of `auto`, and what came of it, of its members and of others."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from h2gcn import __version__
from h2gcn.estimator import NodeClassifier, evaluate, member_params
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.experiments.frontier.plain_tables import plain_scores
from h2gcn.experiments.frontier.planning import find_time_limit
from h2gcn.experiments.running import Run, find_checksum, open_graph
from h2gcn.graph import Graph, Split
from h2gcn.training import Epoch, score

__all__ = ["ALPHA", "OneAfterAnother", "measure"]

ALPHA = 0.1
"""The share of nodes whose class a set may miss."""


class OneAfterAnother:
    """Runs done in this process, with all of its threads.

    Parameters
    ----------
    work
        What is done with a run.
    """

    size = 1

    def __init__(self, work: Callable[[Run], dict[str, Any]]) -> None:
        self._work = work
        self._run: Run | None = None

    @property
    def running(self) -> int:
        """How many runs are under way."""
        return int(self._run is not None)

    def submit(self, run: Run) -> None:
        """Keep a run until it is waited for."""
        self._run = run

    def next(self) -> tuple[Run, dict[str, Any]]:
        """Do the run that was submitted."""
        run = self._run
        assert run is not None, "nothing was submitted"
        record = self._work(run)
        self._run = None
        return run, record


def measure(run: Run, time_limit: float | None = None) -> dict[str, Any]:
    """Return the record of a split; of one that fails, with the traceback as `error`.

    Parameters
    ----------
    run
        Of `plan_splits`.
    time_limit
        Seconds for `auto`; None is what the benchmark needs.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C. What `auto` would answer by then is not the answer.
    """
    start = time.perf_counter()
    record = {"key": run.key, **run.to_json(), "version": __version__}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", H2GCNWarning)
            graph = open_graph(run.dataset)
            found = _measure(graph, run, find_time_limit(graph, time_limit))
    except Exception:  # whatever it is, the other splits go on
        found = {"error": traceback.format_exc()}
    return record | {"seconds": round(time.perf_counter() - start, 2)} | found


def _measure(graph: Graph, run: Run, time_limit: float) -> dict[str, Any]:
    split, metric = graph.splits[run.split], run.config["metric"]
    seed = run.seed + run.split
    auto = NodeClassifier(
        "auto", metric=metric, time_limit=time_limit, random_state=seed
    )
    start = time.perf_counter()
    auto.fit(graph, split)
    seconds = time.perf_counter() - start
    if auto.interrupted_:
        raise KeyboardInterrupt
    found = evaluate(auto, graph, split.test).probabilities
    sets = auto.predict_set(graph, ALPHA, split.test)
    board = auto.leaderboard_
    assert board is not None
    return {
        "metric": metric,
        "time_limit": round(time_limit, 2),
        "auto_seconds": round(seconds, 2),
        "chosen_by": board.chosen_by,
        "folds": board.folds,
        "held_out": board.nodes,
        "validation": auto.val_score_,
        "test": auto.score(graph, split.test),
        "log_loss": found.log_loss,
        "calibration_error": found.calibration_error,
        "coverage": float(sets[np.arange(len(sets)), graph.y[split.test]].mean()),
        "set_size": float(sets.sum(axis=1).mean()),
        "members": _members(auto, graph, split, time_limit),
        "majority": _majority(graph, split, metric),
        "plain": plain_scores(graph, split, metric, seed),
        "checksum": find_checksum(run.dataset),
    }


def _members(
    auto: NodeClassifier, graph: Graph, split: Split, time_limit: float
) -> dict[str, Any]:
    """Return what is known of each member, in the order of the portfolio.

    Where members were compared on folds, only those that answer are fitted on the
    split; and for some there may have been no time. They are fitted here, for the
    record.
    """
    contest, board = auto.contest_, auto.leaderboard_
    assert contest is not None
    assert board is not None
    rows = {row.name: row for row in board.rows}
    members = {}
    for entry in contest.entries:
        row, fitted, note = rows[entry.member.name], entry.fitted, entry.why
        if fitted is None:
            params = member_params(entry.member, auto.get_params(), auto.seed_)
            try:
                fitted = _fit(NodeClassifier(**params), graph, split, time_limit)
            except InputError as error:
                note = str(error)
        members[row.name] = {
            "validation": row.score,
            "log_loss": row.log_loss,
            "test": None if fitted is None else fitted.score(graph, split.test),
            "weight": row.weight,
            "seconds": row.seconds,
            "note": note,
        }
    return members


def _fit(
    classifier: NodeClassifier, graph: Graph, split: Split, time_limit: float
) -> NodeClassifier:
    """Fit one member, until its time is up; the best epoch by then is kept."""
    end, late = time.perf_counter() + time_limit, False

    def on_epoch(_: Epoch) -> None:
        nonlocal late
        if time.perf_counter() > end:
            late = True
            raise KeyboardInterrupt

    classifier.fit(graph, split, on_epoch=on_epoch)
    if classifier.interrupted_ and not late:
        raise KeyboardInterrupt  # not the clock's
    return classifier


def _majority(graph: Graph, split: Split, metric: str) -> float:
    """Return the test score of the classes' shares among the training nodes."""
    counts = np.bincount(graph.y[split.train], minlength=graph.n_classes)
    guess: NDArray[np.float32] = np.tile(
        (counts / counts.sum()).astype(np.float32), (len(split.test), 1)
    )
    return score(metric, graph.y[split.test], guess)
