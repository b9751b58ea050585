"""The contest: members fitted within a time limit, and who of them answers.

They are compared on nodes that they never saw; `choose` looks at probabilities and
labels alone.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from h2gcn.auto.portfolio import Member
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import Graph, Split, deal_groups, is_by_time, stratified_split
from h2gcn.training import Epoch, fit_temperature, score, softmax, stop_fits

__all__ = [
    "MANY_NODES",
    "ROUNDING",
    "Choice",
    "Contest",
    "Entry",
    "Progress",
    "by_node",
    "choose",
    "class_folds",
    "hold_contest",
]

MANY_NODES = 1000
"""Held-out nodes from which on weights are found, instead of all being equal."""
ROUNDS = 25
"""How many members the greedy choice adds, the same ones again and again."""
RESAMPLES = 200
BY_NODE = ("log_loss", "accuracy")
"""What is a mean over nodes; other metrics are resampled a quarter as often."""
ROUNDING = 1e-9
"""Sums are no better known than this."""
TINY = 1e-7
"""Probabilities are at least this: one sure mistake must not decide alone."""


@dataclass(frozen=True)
class Choice:
    """The members that answer, and how all of them stand.

    Parameters
    ----------
    weights
        Of the members that are in the answer, by name; they sum to one.
    scores
        Of each member, by name: larger is better. Minus the log-loss, or the metric.
    gaps
        How far each is behind the best.
    errors
        The standard error of that gap, nodes compared one by one.
    optimism
        By how much the best looks better on these nodes than on others, for having
        been chosen on them; None where there are too few nodes to tell.
    metric
        What was chosen by: log-loss where the metric asked for has no value.
    """

    weights: Mapping[str, float]
    scores: Mapping[str, float]
    gaps: Mapping[str, float]
    errors: Mapping[str, float]
    optimism: float | None
    metric: str

    def among(self, names: Collection[str]) -> Choice:
        """Return the choice with no others than some members in the answer."""
        kept = {name: w for name, w in self.weights.items() if name in names}
        if len(kept) == len(self.weights):
            return self
        total = sum(kept.values())
        return replace(self, weights={name: w / total for name, w in kept.items()})


def choose(
    found: Mapping[str, NDArray[np.float64]],
    y: NDArray[np.int64],
    metric: str = "log_loss",
    seed: int = 0,
) -> Choice:
    """Choose among members by their probabilities for held-out nodes.

    Those within one standard error of the best answer, all alike: that of the best's
    own score, or that of the gap. From a thousand nodes on, weights are found instead.

    Parameters
    ----------
    found
        Probabilities by member, [m, C] each, in the same order of nodes.
    y
        Classes of the nodes, [m].
    metric
        "log_loss", or a metric that the answer is to be good in.
    seed
        Of the resampling.
    """
    names = list(found)
    means_of = _means(found, y, metric)
    every = np.ones(len(y), dtype=np.int64)
    means = means_of(every)
    if np.isnan(means).any():  # nodes of one class have no ROC curve
        return choose(found, y, "log_loss", seed)
    rng = np.random.default_rng(seed)
    resampled, excess = [], []
    for _ in range(RESAMPLES if metric in BY_NODE else RESAMPLES // 4):
        times = np.bincount(rng.integers(len(y), size=len(y)), minlength=len(y))
        here, elsewhere = means_of(times), means_of((times == 0).astype(np.int64))
        if np.isfinite(here).all():
            resampled.append(here)
        # That nodes are easier than others by chance is the same for all.
        more = here - elsewhere
        excess.append(more[int(np.argmax(here))] - more.mean())
    best = int(np.argmax(means))
    gaps = means[best] - means
    errors, error = np.zeros(len(names)), 0.0
    if resampled:
        drawn = np.stack(resampled)
        errors = (drawn[:, [best]] - drawn).std(axis=0)
        error = float(drawn[:, best].std())
    near = [
        name
        for name, gap, own in zip(names, gaps, errors, strict=True)
        if gap <= max(error, own) + ROUNDING
    ]
    weights = dict.fromkeys(near, 1 / len(near))
    if len(y) >= MANY_NODES:
        weights = _greedy(found, y, metric)
    known = [float(value) for value in excess if np.isfinite(value)]
    return Choice(
        weights,
        dict(zip(names, means.tolist(), strict=True)),
        dict(zip(names, gaps.tolist(), strict=True)),
        dict(zip(names, errors.tolist(), strict=True)),
        sum(known) / len(known) if known else None,
        metric,
    )


def _means(
    found: Mapping[str, NDArray[np.float64]], y: NDArray[np.int64], metric: str
) -> Callable[[NDArray[np.int64]], NDArray[np.float64]]:
    """Return what scores all members on nodes that count so many times each."""
    if metric in BY_NODE:
        nodes = np.stack([by_node(metric, p, y) for p in found.values()])

        def means_of(times: NDArray[np.int64]) -> NDArray[np.float64]:
            total = int(times.sum())
            if not total:
                return np.full(len(nodes), np.nan)
            return np.asarray(nodes @ times / total, dtype=np.float64)

        return means_of
    logits = [_logits(p) for p in found.values()]

    def scores_of(times: NDArray[np.int64]) -> NDArray[np.float64]:
        drawn = np.repeat(np.arange(len(y)), times)
        if not drawn.size:
            return np.full(len(logits), np.nan)
        return np.array([score(metric, y[drawn], z[drawn]) for z in logits])

    return scores_of


def _logits(p: NDArray[np.float64]) -> NDArray[np.float32]:
    return np.asarray(np.log(np.maximum(p, TINY)), dtype=np.float32)


def by_node(
    metric: str, p: NDArray[np.float64], y: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return what each node adds to the score, [m]."""
    if metric == "accuracy":
        return np.asarray(p.argmax(axis=1) == y, dtype=np.float64)
    own = p[np.arange(len(y)), y]
    return np.asarray(np.log(np.maximum(own, TINY)), dtype=np.float64)


def _greedy(
    found: Mapping[str, NDArray[np.float64]], y: NDArray[np.int64], metric: str
) -> dict[str, float]:
    """Return weights by adding the member that helps most, again and again.

    After Caruana et al. 2004; the best of all rounds counts. The first round takes the
    best member, so that the answer is never worse than that.
    """

    def quality(p: NDArray[np.float64]) -> float:
        if metric in BY_NODE:
            return float(by_node(metric, p, y).mean())
        return score(metric, y, _logits(p))

    total = np.zeros_like(next(iter(found.values())))
    taken: list[str] = []
    best, length = -np.inf, 0
    for number in range(1, ROUNDS + 1):
        tried = {name: quality((total + p) / number) for name, p in found.items()}
        name = max(tried, key=tried.__getitem__)
        total = total + found[name]
        taken.append(name)
        if tried[name] > best + ROUNDING:
            best, length = tried[name], number
    kept = taken[:length]
    return {name: kept.count(name) / length for name in dict.fromkeys(kept)}


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
LONGER = 1.5
"""A fit on the whole split may take so many times as long as one on a fold took."""
NO_TIME, NO_MEMORY = "no time was left for it", "not enough memory"
INTERRUPTED = "interrupted"


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
        Whether Ctrl-C ended it. Those of the answer that were not fitted on the split
        by then are no longer in it.
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
    """A time limit, and the parts of it that a member and one of its fits may take."""

    def __init__(self, seconds: float) -> None:
        self.start = time.perf_counter()
        self.end = self.start + seconds
        self.member_end = self.fit_end = self.end
        self.fit_start = self.start
        self.cut = False
        """Whether the fit that goes on, or was the last, was ended for its time."""

    @property
    def left(self) -> float:
        """Seconds until the limit, below zero beyond it."""
        return self.end - time.perf_counter()

    def next_member(self, members_left: int, reserved: float, folds: int) -> None:
        """Give a member its share of what is left, but for some seconds.

        On folds, also but for what it takes to fit it once more.
        """
        share = max(LARGEST_SHARE, 1 / members_left)
        share *= folds / (folds + 1) if folds else 1
        self.member_end = time.perf_counter() + share * max(self.left - reserved, 0)

    def next_fit(self, fits: int) -> None:
        """Give a fit its share of the member's time; so many are still to come."""
        now = self.fit_start = time.perf_counter()
        self.fit_end = now + max(self.member_end - now, 0) / fits
        self.cut = False

    def last_fit(self, seconds: float) -> None:
        """Give a fit all that is left, and some seconds at least."""
        now = self.fit_start = time.perf_counter()
        self.fit_end = max(self.end, now + seconds)
        self.cut = False

    def is_up(self, share: float = 1.0) -> bool:
        """Return whether a share of the time of a fit is used up; it is cut then."""
        end = self.fit_start + share * (self.fit_end - self.fit_start)
        up = time.perf_counter() > end
        self.cut = self.cut or up
        return up

    def tick(self) -> None:
        """End a training whose time is up; its best epoch so far is kept."""
        if self.is_up():
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
        self._best: list[NDArray[np.float32]] = []

    def behind(self, rounds: Sequence[Split], logits: list[NDArray[np.float32]]) -> str:
        """Return why a member need not go on after some folds; empty if it must."""
        done = len(logits)
        if not self._best or done < LEAST_FOLDS or done == len(rounds):
            return ""
        own = self._losses(rounds, logits)
        best = self._losses(rounds, self._best[:done])  # a temperature of these folds
        gap = own - best
        error = gap.std() / np.sqrt(len(gap))
        if gap.mean() <= CLEARLY * error + ROUNDING:
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
        if not self._best or self._mean(rounds, logits) < self._mean(
            rounds, self._best
        ):
            self._best = logits

    def _mean(
        self, rounds: Sequence[Split], logits: list[NDArray[np.float32]]
    ) -> float:
        return float(self._losses(rounds, logits).mean())

    def _losses(
        self, rounds: Sequence[Split], logits: list[NDArray[np.float32]]
    ) -> NDArray[np.float64]:
        """Return the loss of each node that was held out in the first folds, [m]."""
        y = np.concatenate([self._y[one.test] for one in rounds[: len(logits)]])
        z = np.concatenate(logits)
        return -by_node("log_loss", _shares(z, fit_temperature(z, y)), y)


class _CallbackError(BaseException):
    """Carries an error of the caller's callback past handlers of a member's errors."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


@contextmanager
def _raising_callback_errors() -> Iterator[None]:
    try:
        yield
    except _CallbackError as carrier:
        raise carrier.error from None


@_raising_callback_errors()
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

    However short the time, members are fitted until one of them can answer; others
    are left out, and named, once time is up or where they do not fit into memory.
    Ctrl-C ends the contest with those that are done.

    Parameters
    ----------
    graph, split
        Checked. Test nodes are not looked at.
    members
        The portfolio, in order.
    make
        Returns an unfitted classifier of a member.
    time_limit
        In seconds, for it all. Fits stop early to keep it; the first member that
        can answer is fitted all the same.
    metric
        Of the choice; see `choose`.
    seed
        Of the folds and the choice.
    on_progress
        Called before each member, and now and then while it is fitted.
    """
    clock, race = _Clock(time_limit), _Race(graph.y)
    folds = _folds(graph, split, seed)
    rounds = folds or [split]
    entries: list[Entry] = []
    interrupted = False
    for number, member in enumerate(members):
        done = any(entry.logits is not None for entry in entries)
        # Whoever is chosen on folds is to be fitted once more.
        reserved = sum(e.seconds for e in entries) / len(folds) if folds else 0.0
        if done and clock.left <= reserved:
            entries.append(Entry(member, 0.0, None, None, NO_TIME))
            continue
        clock.next_member(len(members) - number, reserved, len(folds))
        tell = _teller(on_progress, clock, member.name, number + 1, len(members))
        try:
            entries.append(
                _enter(
                    graph, member, make, rounds, folds, clock, race, tell, must=not done
                )
            )
        except KeyboardInterrupt:
            if not done:
                raise
            interrupted = True
            entries += [
                Entry(late, 0.0, None, None, INTERRUPTED) for late in members[number:]
            ]
            break
    held = np.concatenate([one.test if folds else one.val for one in rounds])
    y = graph.y[held]
    logits = {e.member.name: e.logits for e in entries if e.logits is not None}
    if not logits:
        raise _nobody(graph, entries)
    temperatures = {name: fit_temperature(z, y) for name, z in logits.items()}
    found = {name: _shares(z, temperatures[name]) for name, z in logits.items()}
    choice = choose(found, y, metric, seed)
    if folds:
        tell = _teller(
            on_progress, clock, "those that answer", len(members), len(members)
        )
        entries, ended = _fit_chosen(graph, split, entries, make, choice, clock, tell)
        interrupted = interrupted or ended
        kept = [entry.member.name for entry in entries if entry.fitted is not None]
        if not kept:
            raise _nobody(
                graph, [e for e in entries if e.member.name in choice.weights]
            )
        choice = choice.among(kept)
    seconds = time.perf_counter() - clock.start
    return Contest(
        tuple(entries),
        choice,
        temperatures,
        found,
        held,
        y,
        len(folds),
        seconds,
        interrupted,
    )


def _shares(logits: NDArray[np.float32], temperature: float) -> NDArray[np.float64]:
    """Return the probabilities of logits, [m, C]."""
    return softmax(logits.astype(np.float64) / temperature)


def _nobody(graph: Graph, entries: Sequence[Entry]) -> InputError:
    first = entries[0]
    return InputError(
        f"{graph.name}: no model could be fitted; {first.member.name}: {first.why}"
    )


def _reason(graph: Graph, member: Member, error: Exception) -> str:
    """Return why a member is left out; warn if a bug may be the reason."""
    if isinstance(error, InputError | MemoryError):
        return str(error) or NO_MEMORY
    why = f"failed with {type(error).__name__}: {error}"
    warnings.warn(
        H2GCNWarning(f"{member.name} {why}", param="model", where=graph.name),
        stacklevel=2,
    )
    return why


def _folds(graph: Graph, split: Split, seed: int) -> list[Split]:
    """Return the splits that members are compared on, none for the split itself.

    Where it has few validation nodes, they are folds of training and validation nodes:
    each holds some back as its test part, and chooses epochs by a part of the others.
    Nodes that are too few for that, so that a fold would train on one class, are
    compared on the split; so are those of a split by time, to choose by later nodes.
    """
    if len(split.val) >= FEW_NODES or is_by_time(graph, split):
        return []
    nodes = np.concatenate([split.train, split.val])
    share = len(split.train) / len(nodes)
    found = []
    dealt = class_folds(graph.y, nodes, seed, graph.groups)
    for number, (rest, held) in enumerate(dealt if len(dealt) > 1 else ()):
        labels = np.full(graph.n_nodes, -1)
        labels[rest] = graph.y[rest]
        inner = stratified_split(
            labels, (share, 1 - share, 0), seed + number, groups=graph.groups
        )
        if len(np.unique(graph.y[inner.train])) < 2 or not inner.val.size:
            return []
        found.append(Split(inner.train, inner.val, held))
    return found


def class_folds(
    y: NDArray[np.int64],
    nodes: NDArray[np.int64],
    seed: int,
    groups: NDArray[np.int64] | None = None,
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return folds of nodes, class by class: the others, and those that are held back.

    Parameters
    ----------
    y
        Classes of all nodes, [n].
    nodes
        Those that are shared out, each held back once, [m].
    seed
        Of the order in which they are.
    groups
        Numbers of groups that stay whole, [n]; -1 is none. Where these are fewer than
        folds, there are as many folds as groups.
    """
    if groups is not None:
        place = deal_groups(groups[nodes], y[nodes], [1 / FOLDS] * FOLDS, seed)
        return [
            (nodes[place != number], nodes[place == number])
            for number in np.unique(place)
        ]
    nodes = np.random.default_rng(seed).permutation(nodes)
    nodes = nodes[np.argsort(y[nodes], kind="stable")]
    fold = np.arange(len(nodes)) % FOLDS
    return [
        (nodes[fold != number], nodes[fold == number])
        for number in range(min(FOLDS, len(nodes)))
    ]


def _teller(
    on_progress: Callable[[Progress], None] | None,
    clock: _Clock,
    name: str,
    number: int,
    members: int,
) -> Callable[[], None]:
    def tell() -> None:
        if on_progress is None:
            return
        try:
            on_progress(Progress(name, number, members, max(clock.left, 0)))
        except Exception as error:
            raise _CallbackError(error) from error

    return tell


def _watch(clock: _Clock, tell: Callable[[], None]) -> Callable[[Epoch], None]:
    """Return what is called after each epoch of a fit."""

    def on_epoch(epoch: Epoch) -> None:
        if epoch.number % 10 == 1:
            tell()
        clock.tick()

    return on_epoch


def _enter(
    graph: Graph,
    member: Member,
    make: Callable[[Member], Fitted],
    rounds: Sequence[Split],
    folds: Sequence[Split],
    clock: _Clock,
    race: _Race,
    tell: Callable[[], None],
    *,
    must: bool,
) -> Entry:
    """Fit a member on each round, and let it predict the nodes that are held out.

    `must`: time or no time, as nobody else can answer yet.
    """
    start = time.perf_counter()
    logits: list[NDArray[np.float32]] = []
    fitted = None
    cut = False

    def left_out(why: str) -> Entry:
        return Entry(member, time.perf_counter() - start, None, None, why)

    for number, one in enumerate(rounds):
        if number and not must and clock.left <= 0:
            return left_out(NO_TIME)
        tell()
        clock.next_fit(len(rounds) - number)
        fitted = make(member)
        try:
            with warnings.catch_warnings(), stop_fits(clock.is_up):
                warnings.simplefilter("ignore", H2GCNWarning)  # said once, before
                fitted.fit(graph, one, on_epoch=_watch(clock, tell))
                held = one.test if folds else one.val
                logits.append(fitted.predict_logits(graph, held))
        except Exception as error:
            return left_out(_reason(graph, member, error))
        if fitted.interrupted_ and not clock.cut:
            raise KeyboardInterrupt  # not the clock's
        cut = cut or clock.cut
        if not np.isfinite(logits[-1]).all():
            return left_out("its logits are not finite")
        slow = time.perf_counter() - start > QUICK and member.uses_graph
        behind = race.behind(rounds, logits) if slow else ""
        if behind:
            return left_out(behind)
    race.finish(rounds, logits)
    return Entry(
        member,
        time.perf_counter() - start,
        np.concatenate(logits),
        None if folds else fitted,
        "cut short, as its time was up" if cut else "",
    )


def _fit_chosen(
    graph: Graph,
    split: Split,
    entries: Sequence[Entry],
    make: Callable[[Member], Fitted],
    choice: Choice,
    clock: _Clock,
    tell: Callable[[], None],
) -> tuple[list[Entry], bool]:
    """Fit those that were chosen on folds on the split itself; say if Ctrl-C came.

    The heaviest go first, so that Ctrl-C loses the least; without any there is nothing
    to answer with, and it is raised.
    """
    found = {entry.member.name: entry for entry in entries}
    ended = False
    for name in sorted(choice.weights, key=lambda name: -choice.weights[name]):
        entry, done = found[name], any(e.fitted is not None for e in found.values())
        if ended:
            found[name] = replace(entry, why=INTERRUPTED)
            continue
        start = time.perf_counter()
        tell()
        # Where folds were cut, no longer than they were; else until it is done.
        clock.last_fit((1 if entry.why else LONGER) * entry.seconds / FOLDS)
        fitted = make(entry.member)
        try:
            with warnings.catch_warnings(), stop_fits(clock.is_up):
                warnings.simplefilter("ignore", H2GCNWarning)
                fitted.fit(graph, split, on_epoch=_watch(clock, tell))
        except Exception as error:
            why = _reason(graph, entry.member, error)
            found[name] = replace(entry, why=why)
            continue
        except KeyboardInterrupt:
            if not done:
                raise
            ended = True
        ended = ended or (fitted.interrupted_ and not clock.cut)
        if ended and done:  # half a fit is better than none, but not than others
            found[name] = replace(entry, why=INTERRUPTED)
            continue
        seconds = entry.seconds + time.perf_counter() - start
        found[name] = replace(entry, seconds=seconds, fitted=fitted)
    return list(found.values()), ended
