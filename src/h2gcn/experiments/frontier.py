"""How far `auto` gets on the benchmarks, beside its members and scikit-learn.

A run is a split: one fit of `auto`, and from it the score of the answer, of every
member, and of what a user would do without this package. So three ways to choose one
member can be set beside each other: on each split by its own validation nodes, by the
mean over splits, and by test nodes, as nobody may.
"""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
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
from h2gcn.estimator import (
    AUTO,
    NodeClassifier,
    evaluate,
    mean_and_deviation,
    member_params,
)
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.experiments.results import Cell, Result, Row, Table
from h2gcn.experiments.runs import (
    MissingData,
    Run,
    Seconds,
    Share,
    check_kind,
    find_checksum,
    open_graph,
)
from h2gcn.graph import Graph, Split
from h2gcn.io import Count, Finite
from h2gcn.training import Epoch, score

__all__ = [
    "ALPHA",
    "BENCHMARKS",
    "BY_TEST",
    "FRONTIER",
    "MEAN_VALIDATION",
    "N_SPLITS",
    "PER_SPLIT",
    "PLAIN",
    "OneAfterAnother",
    "check_splits",
    "find_time_limit",
    "frontier_result",
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
HUGE_TABLE = 10_000_000
"""Own features of all nodes beyond which trees take an hour a split: on none."""
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
        "accuracy", "roc_auc", "pr_auc" or "macro_f1".
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
    cells = graph.n_nodes * graph.n_features
    trees = cells <= (HUGE_TABLE if run.split < TREE_SPLITS else LARGE_TABLE)
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
        "plain": plain_scores(graph, split, metric, seed, trees=trees),
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


# --------------------------------------------------------------- from records to tables

Record = Mapping[str, Any]
Value = Callable[[Record], float | None]
"""A figure of a split; None where it has none."""

PER_SPLIT = "best member, per split"
MEAN_VALIDATION = "best member, by mean validation"
BY_TEST = "best member, by test (not allowed)"
PROTOCOL = "one fit of auto a split"
NOTES = (
    "Test scores in percent: ROC-AUC on minesweeper and tolokers, accuracy elsewhere. "
    "On split i the seed is i.",
    "auto answers with what it chose on that split alone.",
    f"One member: '{PER_SPLIT}' is on each split the one that is best on its own "
    "held-out nodes; by mean validation, one for all splits, has seen test nodes of "
    "each, since splits overlap; by test is what nobody may choose by, and shows what "
    "luck adds. Best on held-out nodes is the smallest log-loss, or the largest "
    "ROC-AUC where that is the score.",
    "scikit-learn: its defaults, on standardised columns and training nodes alone; "
    "its trees on the first two splits where the table is large, on none where they "
    "would take an hour.",
)


class SplitMemberJson(msgspec.Struct):
    """The schema of what is known of a member on a split."""

    validation: Share | None
    log_loss: Finite | None
    test: Share | None
    weight: Share


class PlainJson(msgspec.Struct):
    """The schema of what scikit-learn gets on a split."""

    test: Share | None


class FailedSplitJson(msgspec.Struct):
    """The schema of the record of a split that failed."""

    key: str
    experiment: str
    dataset: str
    model: str
    split: Count
    seconds: Seconds
    version: str
    error: str | None = None
    checksum: str | None = None


class SplitJson(FailedSplitJson, kw_only=True):
    """The schema of the record of a split."""

    metric: str
    time_limit: Seconds
    auto_seconds: Seconds
    chosen_by: str
    folds: Count
    test: Share | None
    members: dict[str, SplitMemberJson]
    plain: dict[str, PlainJson]
    majority: Share | None
    log_loss: Finite | None
    calibration_error: Finite | None
    coverage: Share | None
    set_size: Finite | None


def check_splits(path: object, records: Iterable[Record]) -> None:
    """Refuse records that are not of splits.

    Parameters
    ----------
    path
        Where they are from, for the message.
    records
        Of a store.
    """
    for record in records:
        kind = FailedSplitJson if record.get("error") else SplitJson
        check_kind(kind, path, [record])


def frontier_result(
    records: Iterable[Record], environment: Mapping[str, str] | None = None
) -> Result:
    """Return the tables of the splits that are done.

    Parameters
    ----------
    records
        Of a store; of two of one split the later one counts.
    environment
        What the figures may depend on, where it is known.
    """
    found = {(r["dataset"], r["split"]): r for r in records}
    done: dict[str, list[Record]] = {
        name: [
            found[name, number]
            for number in range(N_SPLITS)
            if not found.get((name, number), {"error": True}).get("error")
        ]
        for name in BENCHMARKS
    }
    failed = tuple(
        {name: record[name] for name in ("key", "dataset", "model", "split")}
        | {"error": str(record["error"]).strip().splitlines()[-1]}
        for record in found.values()
        if record.get("error")
    )
    return Result(
        FRONTIER,
        "The best answer: auto, its members and scikit-learn",
        PROTOCOL,
        __version__,
        environment or {},
        NOTES,
        (_answers(done), _plain(done), _probabilities(done), *_member_tables(done)),
        failed=failed,
    )


# ------------------------------------------------------------------------- the tables


def _answers(done: Mapping[str, Sequence[Record]]) -> Table:
    columns = ("splits", "auto", PER_SPLIT, MEAN_VALIDATION, BY_TEST)
    named = ("h2gcn-1", "mlp", "majority")
    rows = []
    for name, records in done.items():
        rows.append(
            Row(
                name,
                (
                    _count(records),
                    _percent(records, _of("test")),
                    _percent(records, _test_of_best),
                    _one_member(records, _quality),
                    _one_member(records, _test),
                    *(_percent(records, _test_of(model)) for model in named[:2]),
                    _percent(records, _of("majority")),
                ),
            )
        )
    return Table(
        "frontier",
        "auto and one member alone",
        (*columns, *named),
        tuple(rows),
        corner="benchmark",
        unit="percent",
        decimals=1,
    )


def _plain(done: Mapping[str, Sequence[Record]]) -> Table:
    def of(name: str) -> Value:
        return lambda record: record["plain"].get(name, {}).get("test")

    rows = [
        Row(
            name,
            (
                _count(records),
                _percent(records, _of("test")),
                *(_percent(records, of(plain)) for plain in PLAIN),
            ),
        )
        for name, records in done.items()
    ]
    return Table(
        "scikit-learn",
        "auto and scikit-learn on columns made by hand",
        ("splits", "auto", *PLAIN),
        tuple(rows),
        corner="benchmark",
        unit="percent",
        decimals=1,
    )


def _probabilities(done: Mapping[str, Sequence[Record]]) -> Table:
    names = {
        "calibration error": _of("calibration_error"),
        "of it by chance": lambda record: record.get("chance_error"),
        "coverage of 90 % sets": _of("coverage"),
        "classes in a set": _of("set_size"),
        "log-loss": _of("log_loss"),
    }
    timed = {"seconds": _of("auto_seconds"), "time limit, seconds": _of("time_limit")}
    rows = [
        Row(
            name,
            (
                _count(records),
                *(_cell(records, value) for value in names.values()),
                *(_cell(records, value, whole=True) for value in timed.values()),
            ),
        )
        for name, records in done.items()
    ]
    return Table(
        "probabilities",
        "Probabilities and time of auto",
        ("splits", *names, *timed),
        tuple(rows),
        corner="benchmark",
        decimals=3,
    )


def _member_tables(done: Mapping[str, Sequence[Record]]) -> tuple[Table, Table]:
    """Return test scores of every member, and its weight in the answer."""
    every = dict.fromkeys(
        member for records in done.values() for r in records for member in r["members"]
    )

    def weight(member: str) -> Value:
        return lambda record: record["members"].get(member, {}).get("weight")

    def table(name: str, title: str, of: Callable[[str], Value]) -> Table:
        rows = [
            Row(
                member,
                tuple(_percent(records, of(member)) for records in done.values()),
            )
            for member in every
        ]
        return Table(
            name, title, tuple(done), tuple(rows), "member", "percent", decimals=1
        )

    return (
        table("members", "Every member", _test_of),
        table("weights", "The weight of each member in the answer", weight),
    )


# --------------------------------------------------------------------- what cells hold


def _of(name: str) -> Value:
    return lambda record: record[name]


def _test_of(member: str) -> Value:
    return lambda record: record["members"].get(member, {}).get("test")


def _quality(record: Record, member: Mapping[str, Any]) -> float | None:
    """Return how good a member is on held-out nodes; larger is better."""
    if record["chosen_by"] == "log_loss":
        return None if member["log_loss"] is None else -member["log_loss"]
    value: float | None = member["validation"]
    return value


def _test(_: Record, member: Mapping[str, Any]) -> float | None:
    value: float | None = member["test"]
    return value


def _test_of_best(record: Record) -> float | None:
    """Return the test score of the member that is best on held-out nodes."""
    known = {
        name: quality
        for name, member in record["members"].items()
        if (quality := _quality(record, member)) is not None
        and member["test"] is not None
    }
    if not known:
        return None
    best = max(known, key=known.__getitem__)
    value: float = record["members"][best]["test"]
    return value


def _one_member(
    records: Sequence[Record],
    quality: Callable[[Record, Mapping[str, Any]], float | None],
) -> Cell:
    """Return the cell of the member with the best mean over splits, and its name.

    Only members that are known on every split count.
    """
    means = {}
    for name in records[0]["members"] if records else ():
        here = [record["members"].get(name) for record in records]
        values = [
            quality(record, member)
            for record, member in zip(records, here, strict=True)
            if member is not None and member["test"] is not None
        ]
        known = [value for value in values if value is not None]
        if len(known) == len(records):
            means[name] = sum(known) / len(known)
    if not means:
        return Cell(verdict="none" if records else "not run")
    best = max(means, key=means.__getitem__)
    return _percent(records, _test_of(best), note=best)


def _count(records: Sequence[Record]) -> Cell:
    n = len(records)
    return Cell(mean=n, n=n) if n else Cell(verdict="not run")


def _percent(records: Sequence[Record], value: Value, note: str = "") -> Cell:
    return _cell(records, value, 100.0, note)


def _cell(
    records: Sequence[Record],
    value: Value,
    factor: float = 1.0,
    note: str = "",
    *,
    whole: bool = False,
) -> Cell:
    """Return mean and deviation over the splits that have a value."""
    known = {
        record["split"]: factor * figure
        for record in records
        if (figure := value(record)) is not None
    }
    if not known:
        return Cell(verdict="none" if records else "not run")
    told = mean_and_deviation(list(known.values()))
    mean, std = told["mean"], told["std"]
    assert mean is not None
    if len(known) < len(records):
        note = f"{len(known)} of {len(records)} splits"
    return Cell(
        round(mean) if whole else mean,
        None if whole else std,
        len(known),
        tuple(known.values()),
        tuple(f"split {number}" for number in known),
        note=note,
    )
