"""Which splits are run, and what comes of one: of `auto`, its members and others."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from h2gcn import __version__
from h2gcn._validation import nearest
from h2gcn.auto import default_time_limit
from h2gcn.datasets import DATASETS
from h2gcn.estimator import AUTO, NodeClassifier, evaluate, member_params
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.experiments.running import MissingData, Run, find_checksum, open_graph
from h2gcn.graph import Graph, Split
from h2gcn.training import Epoch, score

__all__ = [
    "ALPHA",
    "BENCHMARKS",
    "FRONTIER",
    "N_SPLITS",
    "PLAIN",
    "OneAfterAnother",
    "find_time_limit",
    "measure",
    "neighbour_columns",
    "on_hand",
    "own_columns",
    "plain_scores",
    "plan_splits",
]

Columns = NDArray[np.float64]
ABSENT = -50.0
"""The logarithm of the probability of a class that training has no node of."""


def own_columns(graph: Graph) -> Columns:
    """Return the features of each node, [n, F]."""
    x = graph.x if isinstance(graph.x, np.ndarray) else graph.x.toarray()
    return np.asarray(x, dtype=np.float64)


def neighbour_columns(graph: Graph) -> Columns:
    """Return features, their means over neighbours, the means of those, and degrees.

    A node without neighbours has zeros there. [n, 3F + 1]
    """
    own, degrees = own_columns(graph), graph.degrees
    shares = sp.diags_array(1 / np.maximum(degrees, 1)) @ graph.adj
    one = shares @ own
    return np.hstack([own, one, shares @ one, degrees[:, None]])


TREES = "boosted trees"
LARGE_TABLE, TREE_SPLITS = 1_000_000, 2
"""Own features of all nodes beyond which trees take minutes, and on how many splits
they are fitted then."""
_LEARNERS: dict[str, Callable[[int], Any]] = {
    "logistic regression": lambda seed: LogisticRegression(random_state=seed),
    TREES: lambda seed: HistGradientBoostingClassifier(random_state=seed),
}
"""As scikit-learn has them, without a parameter changed."""
_COLUMNS: dict[str, Callable[[Graph], Columns]] = {
    "own features": own_columns,
    "neighbours' means, degree": neighbour_columns,
}
PLAIN = tuple(f"{learner}, {columns}" for columns in _COLUMNS for learner in _LEARNERS)
"""The names of what is tried."""


def plain_scores(
    graph: Graph, split: Split, metric: str, seed: int = 0, *, trees: bool = True
) -> dict[str, dict[str, float]]:
    """Fit each of `PLAIN` on training nodes; return test score and seconds of each.

    Columns are standardised by the training nodes; validation nodes are not used.

    Parameters
    ----------
    graph
        With labels for the training and test nodes.
    split
        Its training nodes are fitted on, its test nodes scored.
    metric
        "accuracy", "roc_auc" or "macro_f1".
    seed
        Of what is drawn.
    trees
        Whether to fit boosted trees too.
    """
    found = {}
    for columns, make in _COLUMNS.items():
        table = make(graph)
        table = StandardScaler().fit(table[split.train]).transform(table)
        for learner, build in _LEARNERS.items():
            if learner == TREES and not trees:
                continue
            start = time.perf_counter()
            model = build(seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(table[split.train], graph.y[split.train])
            shares = model.predict_proba(table[split.test])
            logits = np.full((len(split.test), graph.n_classes), ABSENT)
            logits[:, model.classes_] = np.log(np.maximum(shares, np.exp(ABSENT)))
            found[f"{learner}, {columns}"] = {
                "test": score(metric, graph.y[split.test], logits.astype(np.float32)),
                "seconds": round(time.perf_counter() - start, 2),
            }
    return found


FRONTIER = "frontier"
"""How the experiment is called."""
BENCHMARKS = (
    *("texas", "wisconsin", "cornell-2020", "chameleon", "cora", "citeseer", "actor"),
    *("minesweeper", "squirrel", "pubmed", "tolokers"),
)
"""The small graphs first."""
N_SPLITS = 10
TIME_LIMITS = {"minesweeper": 600.0, "squirrel": 400.0}
"""Seconds where it takes more than the size of the graph would tell."""


def plan_splits(
    only: Sequence[str] | None = None, splits: Sequence[int] | None = None
) -> list[Run]:
    """Return the runs, benchmark by benchmark.

    What a split is run with besides, such as the time limit, is not part of its key: a
    split that is in the store is not run again.

    Parameters
    ----------
    only
        Benchmarks; None is all.
    splits
        Their numbers; None is all ten.
    """
    for name in only or ():
        if name not in BENCHMARKS:
            raise InputError(
                f"only={[name]}: no benchmark of {FRONTIER}.{nearest(name, BENCHMARKS)}"
                f" Benchmarks: {', '.join(BENCHMARKS)}."
            )
    for number in splits or ():
        if not 0 <= number < N_SPLITS:
            raise InputError(f"splits={[number]}: they are 0 to {N_SPLITS - 1}")
    numbers = range(N_SPLITS) if splits is None else sorted({*splits})
    return [
        Run(FRONTIER, name, AUTO, {"metric": DATASETS[name].metric}, number)
        for name in BENCHMARKS
        if only is None or name in only
        for number in numbers
    ]


def on_hand(
    runs: Sequence[Run], records: Mapping[str, Mapping[str, Any]]
) -> tuple[list[Run], list[str]]:
    """Return the runs whose files are there, and why the others are not run.

    Benchmarks that are done are not opened.

    Parameters
    ----------
    runs
        Of `plan_splits`.
    records
        Of the store, by key. Those on another graph of the same name are refused.
    """
    reasons: dict[str, str] = {}
    done = {key for key, record in records.items() if not record.get("error")}
    for name in dict.fromkeys(run.dataset for run in runs if run.key not in done):
        try:
            open_graph(name)
        except MissingData as error:
            reasons[name] = str(error)
            continue
        here = find_checksum(name)
        for record in records.values():
            if record["dataset"] == name and record.get("checksum", here) != here:
                raise InputError(
                    f"the splits of {name} in the store are of a graph with the "
                    f"checksum {record['checksum']}, and the one at hand has {here}; "
                    "another out=…, or the files of then."
                )
    return [run for run in runs if run.dataset not in reasons], list(reasons.values())


def find_time_limit(graph: Graph, asked: float | None) -> float:
    """Return the seconds that `auto` has on a split.

    Parameters
    ----------
    graph
        A benchmark.
    asked
        What was asked for; None is what the benchmark needs.
    """
    if asked is not None:
        return asked
    return TIME_LIMITS.get(graph.name, default_time_limit(graph))


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
    small = graph.n_nodes * graph.n_features <= LARGE_TABLE
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
        "chance_error": found.chance_error,
        "coverage": float(sets[np.arange(len(sets)), graph.y[split.test]].mean()),
        "set_size": float(sets.sum(axis=1).mean()),
        "members": _members(auto, graph, split, time_limit),
        "majority": _majority(graph, split, metric),
        "plain": plain_scores(
            graph, split, metric, seed, trees=small or run.split < TREE_SPLITS
        ),
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
