"""The contest: members fitted within a time limit, compared on nodes they never saw."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from h2gcn.auto.choosing import Choice, by_node, choose
from h2gcn.auto.portfolio import Member
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import Graph, Split, stratified_split
from h2gcn.training import Epoch

__all__ = ["Contest", "Entry", "Progress", "hold_contest"]

FEW_NODES = 500
"""Validation nodes below which folds of training and validation nodes are used."""
FOLDS = 5
LEAST_FOLDS = 2
"""After so many folds a member may be given up."""
QUICK = 1.0
"""Seconds below which a member goes on all the same, for the leaderboard."""
CLEARLY = 3.0
"""How many standard errors behind the best so far it must be for that."""
LARGEST_SHARE = 0.4
"""Of the time that is left, the most that one member may take."""


class Fitted(Protocol):
    """What the contest asks of a classifier."""

    interrupted_: bool

    def fit(
        self,
        graph: Graph,
        split: Split,
        *,
        on_epoch: Callable[[Epoch], None] | None = None,
    ) -> Any:
        """Fit it on a split."""
        ...

    def predict_logits(
        self, graph: Graph, nodes: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Return logits of some nodes."""
        ...


@dataclass(frozen=True)
class Progress:
    """Where a contest is.

    Parameters
    ----------
    member
        The one that is fitted.
    number, members
        Which of how many it is.
    left
        Seconds until the time limit.
    """

    member: str
    number: int
    members: int
    left: float


@dataclass(frozen=True, eq=False)
class Entry:
    """A member after the contest.

    Parameters
    ----------
    member
        The preset.
    seconds
        That it took.
    logits
        For the held-out nodes, [m, C]; None if it was left out.
    fitted
        Fitted on the split; None if it was left out, or not chosen.
    why
        Why it was left out or cut short, else empty.
    """

    member: Member
    seconds: float
    logits: NDArray[np.float32] | None
    fitted: Any
    why: str = ""


@dataclass(frozen=True, eq=False)
class Contest:
    """The outcome.

    Parameters
    ----------
    entries
        All members, in order.
    choice
        Who answers.
    temperatures
        Of each member that has logits, by name.
    probabilities
        Those of the held-out nodes at that temperature, [m, C] each.
    held_out
        The held-out nodes, [m].
    y
        Classes of the held-out nodes, [m].
    folds
        How many folds they come from; 0 where they are the validation nodes.
    seconds
        Of it all.
    interrupted
        Whether Ctrl-C ended it.
    """

    entries: tuple[Entry, ...]
    choice: Choice
    temperatures: Mapping[str, float]
    probabilities: Mapping[str, NDArray[np.float64]]
    held_out: NDArray[np.int64]
    y: NDArray[np.int64]
    folds: int
    seconds: float
    interrupted: bool


class _Clock:
    """A time limit, and the share of it that one member may take."""

    def __init__(self, seconds: float) -> None:
        self.start = time.perf_counter()
        self.end = self.start + seconds
        self.member_end = self.end
        self.cut = False

    @property
    def left(self) -> float:
        return self.end - time.perf_counter()

    def next_member(self, members_left: int) -> None:
        share = max(LARGEST_SHARE, 1 / members_left)
        self.member_end = time.perf_counter() + share * max(self.left, 0)
        self.cut = False

    def tick(self, epoch: Epoch) -> None:
        """End a training whose time is up; its best epoch so far is kept."""
        del epoch
        if time.perf_counter() > self.member_end:
            self.cut = True
            raise KeyboardInterrupt


class _Race:
    """Ends folds of members that are behind already, so that others have the time.

    Parameters
    ----------
    y
        Classes of all nodes, [n].
    """

    def __init__(self, y: NDArray[np.int64]) -> None:
        self._y = y
        self._best: list[NDArray[np.float64]] = []

    def behind(self, rounds: Sequence[Split], logits: list[NDArray[np.float32]]) -> str:
        """Return why a member need not go on after some folds; empty if it must."""
        done = len(logits)
        if not self._best or done < LEAST_FOLDS or done == len(rounds):
            return ""
        own = np.concatenate(self._losses(rounds, logits))
        best = np.concatenate(self._best[:done])
        gap = own - best
        error = gap.std() / np.sqrt(len(gap))
        if gap.mean() <= CLEARLY * error:
            return ""
        return (
            f"given up after {done} of {len(rounds)} folds, clearly behind: log-loss "
            f"{own.mean():.2f}, against {best.mean():.2f} of the best so far"
        )

    def finish(
        self, rounds: Sequence[Split], logits: list[NDArray[np.float32]]
    ) -> None:
        """Take a member that has been through all folds for the best, if it is."""
        if len(rounds) == 1:
            return
        own = self._losses(rounds, logits)
        means = [np.concatenate(one).mean() for one in (own, self._best) if one]
        if not self._best or means[0] < means[1]:
            self._best = own

    def _losses(
        self, rounds: Sequence[Split], logits: list[NDArray[np.float32]]
    ) -> list[NDArray[np.float64]]:
        """Return the loss of each held-out node, by fold."""
        labels = [self._y[one.test] for one in rounds[: len(logits)]]
        heat = fit_temperature(np.concatenate(logits), np.concatenate(labels))
        return [
            -by_node("log_loss", softmax(z, heat), y)
            for z, y in zip(logits, labels, strict=True)
        ]


def hold_contest(
    graph: Graph,
    split: Split,
    members: Sequence[Member],
    make: Callable[[Member], Fitted],
    *,
    time_limit: float,
    metric: str = "log_loss",
    seed: int = 0,
    on_progress: Callable[[Progress], None] | None = None,
) -> Contest:
    """Fit members one after the other, compare them, choose who answers.

    The first member is always fitted; others are left out, and named, once time is up
    or where they do not fit into memory. Ctrl-C ends the contest with those that are
    done.

    Parameters
    ----------
    graph, split
        Checked. Test nodes are not looked at.
    members
        The portfolio, in order.
    make
        Returns an unfitted classifier of a member.
    time_limit
        In seconds, for it all.
    metric
        Of the choice; see `choose`.
    seed
        Of the folds and the choice.
    on_progress
        Called before each member, and now and then while it is fitted.
    """
    clock, race = _Clock(time_limit), _Race(graph.y)
    rounds = list(_rounds(graph, split, seed))
    folds = len(rounds) if rounds[0] is not split else 0
    entries: list[Entry] = []
    interrupted = False
    for number, member in enumerate(members):
        if entries and clock.left <= 0:
            entries.append(Entry(member, 0.0, None, None, "no time was left for it"))
            continue
        clock.next_member(len(members) - number)
        tell = _teller(on_progress, clock, member, number, len(members))
        try:
            entries.append(
                _enter(graph, member, make, rounds, folds, clock, race, tell)
            )
        except KeyboardInterrupt:
            if not any(entry.logits is not None for entry in entries):
                raise
            interrupted = True
            entries += [
                Entry(late, 0.0, None, None, "interrupted") for late in members[number:]
            ]
            break
    held = np.concatenate([one.test if folds else one.val for one in rounds])
    y = graph.y[held]
    logits = {e.member.name: e.logits for e in entries if e.logits is not None}
    if not logits:
        raise InputError(
            f"{graph.name}: no model could be fitted; the first: {entries[0].why}"
        )
    temperatures = {name: fit_temperature(z, y) for name, z in logits.items()}
    found = {name: softmax(z, temperatures[name]) for name, z in logits.items()}
    choice = choose(found, y, metric, seed)
    if folds:
        entries = [
            _refit(graph, split, entry, make, choice, interrupted) for entry in entries
        ]
    seconds = time.perf_counter() - clock.start
    return Contest(
        tuple(entries),
        choice,
        temperatures,
        found,
        held,
        y,
        folds,
        seconds,
        interrupted,
    )


def _rounds(graph: Graph, split: Split, seed: int) -> Iterator[Split]:
    """Return the splits that members are compared on.

    The split itself where it has validation nodes enough. Else folds of training and
    validation nodes: each holds some back as its test part, and chooses epochs by a
    part of the others.
    """
    if len(split.val) >= FEW_NODES:
        yield split
        return
    nodes = np.concatenate([split.train, split.val])
    rng = np.random.default_rng(seed)
    nodes = rng.permutation(nodes)
    nodes = nodes[np.argsort(graph.y[nodes], kind="stable")]
    fold = np.arange(len(nodes)) % FOLDS
    share = len(split.train) / len(nodes)
    for number in range(FOLDS):
        rest = nodes[fold != number]
        labels = np.full(graph.n_nodes, -1)
        labels[rest] = graph.y[rest]
        inner = stratified_split(labels, (share, 1 - share, 0), seed + number)
        yield Split(inner.train, inner.val, nodes[fold == number])


def _teller(
    on_progress: Callable[[Progress], None] | None,
    clock: _Clock,
    member: Member,
    number: int,
    members: int,
) -> Callable[[], None]:
    def tell() -> None:
        if on_progress is not None:
            on_progress(Progress(member.name, number + 1, members, max(clock.left, 0)))

    return tell


def _enter(
    graph: Graph,
    member: Member,
    make: Callable[[Member], Fitted],
    rounds: Sequence[Split],
    folds: int,
    clock: _Clock,
    race: _Race,
    tell: Callable[[], None],
) -> Entry:
    """Fit a member on each round, and let it predict the nodes that are held out."""
    start = time.perf_counter()
    logits: list[NDArray[np.float32]] = []
    fitted = None

    def on_epoch(epoch: Epoch) -> None:
        if epoch.number % 10 == 1:
            tell()
        clock.tick(epoch)

    for one in rounds:
        tell()
        fitted = make(member)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", H2GCNWarning)  # said once, before
                fitted.fit(graph, one, on_epoch=on_epoch)
                held = one.test if folds else one.val
                logits.append(fitted.predict_logits(graph, held))
        except InputError as error:
            return Entry(member, time.perf_counter() - start, None, None, str(error))
        if fitted.interrupted_ and not clock.cut:
            raise KeyboardInterrupt  # not the clock's
        slow = time.perf_counter() - start > QUICK and member.uses_graph
        behind = race.behind(rounds, logits) if slow else ""
        if behind:
            return Entry(member, time.perf_counter() - start, None, None, behind)
    race.finish(rounds, logits)
    return Entry(
        member,
        time.perf_counter() - start,
        np.concatenate(logits),
        None if folds else fitted,
        "cut short, as its time was up" if clock.cut else "",
    )


def _refit(
    graph: Graph,
    split: Split,
    entry: Entry,
    make: Callable[[Member], Fitted],
    choice: Choice,
    interrupted: bool,
) -> Entry:
    """Fit a member that was chosen on folds on the split itself."""
    del interrupted
    if entry.member.name not in choice.weights:
        return entry
    start = time.perf_counter()
    fitted = make(entry.member)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", H2GCNWarning)
        fitted.fit(graph, split)
    seconds = entry.seconds + time.perf_counter() - start
    return Entry(entry.member, seconds, entry.logits, fitted, entry.why)


def fit_temperature(logits: NDArray[np.float32], y: NDArray[np.int64]) -> float:
    """TO MERGE."""
    from scipy.optimize import minimize_scalar

    z = logits.astype(np.float64)

    def loss(log_t: float) -> float:
        scaled = z / np.exp(log_t)
        scaled -= scaled.max(axis=1, keepdims=True)
        at = scaled[np.arange(len(y)), y] - np.log(np.exp(scaled).sum(axis=1))
        return float(-np.maximum(at, np.log(1e-7)).mean() + 0.5 * log_t**2 / len(y))

    return float(np.exp(minimize_scalar(loss, bounds=(-3, 5), method="bounded").x))


def softmax(logits: NDArray[np.float32], temperature: float) -> NDArray[np.float64]:
    """TO MERGE."""
    z = logits.astype(np.float64) / temperature
    z = np.exp(z - z.max(axis=1, keepdims=True))
    p: NDArray[np.float64] = z / z.sum(axis=1, keepdims=True)
    return p
