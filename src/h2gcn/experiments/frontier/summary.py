"""From the records of splits to tables: a row a benchmark, what was done a column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from h2gcn import __version__
from h2gcn.estimator import mean_and_deviation
from h2gcn.experiments.frontier.measuring import BENCHMARKS, FRONTIER, N_SPLITS, PLAIN
from h2gcn.experiments.results import Cell, Result, Row, Table
from h2gcn.experiments.running import Seconds, Share, check_kind
from h2gcn.io import Count, Finite

__all__ = ["BY_TEST", "MEAN_VALIDATION", "PER_SPLIT", "check_splits", "frontier_result"]

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
    "its trees on the first two splits where the table is large.",
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
        (_answers(done), _plain(done), _probabilities(done), *_members(done)),
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


def _members(done: Mapping[str, Sequence[Record]]) -> tuple[Table, Table]:
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
