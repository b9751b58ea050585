"""A contest of members that are made up: who is fitted on what, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import numpy as np
import pytest

import h2gcn.auto.contest
from h2gcn import Graph, Split
from h2gcn.auto import Contest, Member, Progress, hold_contest
from h2gcn.auto.contest import FEW_NODES, FOLDS, LARGEST_SHARE
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import stratified_split
from h2gcn.training import Epoch, fit_temperature
from h2gcn.training.limits import time_is_up
from support.graphs import adjacency

# --------------------------------------------------------------- members, and a clock


class Clock:
    """A time that passes only when someone works."""

    now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock that contests look at."""
    made = Clock()
    fake = SimpleNamespace(perf_counter=made)
    monkeypatch.setattr(h2gcn.auto.contest, "time", fake)
    return made


@dataclass
class Act:
    """How a member behaves.

    `sure` is the probability that it gives to the true class of a node; `fails` is
    what the fit of that number raises, and `stops` where Ctrl-C comes in its epochs.
    A fit of `steps` has no epochs, and asks after each step whether its time is up.
    """

    sure: float = 0.8
    epochs: int = 0
    steps: int = 1
    seconds: float = 1.0
    fails: dict[int, BaseException] = field(default_factory=dict)
    stops: tuple[int, int] | None = None
    odd: bool = False


class Made:
    """A classifier that knows the answers; it notes what it is shown."""

    def __init__(self, name: str, act: Act, stage: Stage) -> None:
        self.name, self.act, self.stage = name, act, stage
        self.interrupted_ = False
        self.kept_ = 0

    def fit(
        self,
        graph: Graph,
        split: Split,
        *,
        on_epoch: Callable[[Epoch], None] | None = None,
    ) -> Made:
        """Work for as long as it is said to."""
        del graph
        number = sum(name == self.name for name, _ in self.stage.fits)
        self.stage.fits.append((self.name, split))
        if number in self.act.fails:
            raise self.act.fails[number]
        try:
            for epoch in range(1, self.act.epochs + 1):
                self.stage.clock.now += self.act.seconds
                self.kept_ = epoch
                if self.act.stops == (number, epoch):
                    raise KeyboardInterrupt
                if on_epoch is not None:
                    on_epoch(Epoch(epoch, 0.0, 0.0, 0.0))
        except KeyboardInterrupt:
            self.interrupted_ = True
        for step in range(0 if self.act.epochs else self.act.steps):
            self.stage.clock.now += self.act.seconds
            self.kept_ = step + 1
            if self.act.steps > 1 and time_is_up():
                break
        return self

    def predict_logits(self, graph: Graph, nodes: np.ndarray) -> np.ndarray:
        """Return the logits of what it is sure of."""
        self.stage.asked.append((self.name, nodes))
        own = np.where(nodes % 5, self.act.sure, 0.4)  # some are hard for all
        logits = np.zeros((len(nodes), graph.n_classes), dtype=np.float32)
        rest = (1 - own) / (graph.n_classes - 1)
        logits[np.arange(len(nodes)), graph.y[nodes]] = np.log(own / rest)
        return logits * np.nan if self.act.odd else logits


@dataclass
class Stage:
    """Members by name, in order, and what was asked of them."""

    acts: dict[str, Act]
    clock: Clock
    fits: list[tuple[str, Split]] = field(default_factory=list)
    asked: list[tuple[str, np.ndarray]] = field(default_factory=list)
    told: list[Progress] = field(default_factory=list)

    def make(self, member: Member) -> Made:
        """Return a classifier of a member."""
        return Made(member.name, self.acts[member.name], self)

    def hold(self, graph: Graph, split: Split, limit: float = 1e6) -> Contest:
        """Hold a contest."""
        members = [
            Member(name, name, "all", uses_graph=name != "mlp") for name in self.acts
        ]
        return hold_contest(
            graph,
            split,
            members,
            self.make,
            time_limit=limit,
            on_progress=self.told.append,
        )


def of_labels(y: np.ndarray) -> Graph:
    n = len(y)
    return Graph(x=np.zeros((n, 1)), adj=adjacency(n, [(0, 1)]), y=y, name="made")


def labelled(n: int, classes: int = 2) -> Graph:
    return of_labels(np.arange(n) % classes)


@pytest.fixture
def few() -> tuple[Graph, Split]:
    """Return 60 nodes with few to validate by."""
    graph = labelled(60, 3)
    return graph, stratified_split(graph.y, (0.6, 0.2, 0.2), seed=0)


@pytest.fixture
def many() -> tuple[Graph, Split]:
    """Return as many validation nodes as make folds needless."""
    n = 3 * FEW_NODES
    parts = np.array_split(np.arange(n), 3)
    return labelled(n), Split(*parts)


def why(found: Contest) -> dict[str, str]:
    return {entry.member.name: entry.why for entry in found.entries}


# ------------------------------------------------------------------------------ nodes


def test_each_node_is_held_out_once_and_never_seen_by_who_predicts_it(
    clock: Clock, few: tuple[Graph, Split]
) -> None:
    graph, split = few
    stage = Stage({"a": Act(0.9), "b": Act(0.6)}, clock)
    found = stage.hold(graph, split)
    known = np.sort(np.concatenate([split.train, split.val]))
    assert found.folds == FOLDS
    for name in "ab":
        fits = [s for who, s in stage.fits if who == name][:FOLDS]
        asked = [nodes for who, nodes in stage.asked if who == name]
        for fit, nodes in zip(fits, asked, strict=True):
            assert fit.test.tolist() == nodes.tolist()
            used = np.concatenate([fit.train, fit.val])
            assert not np.intersect1d(used, nodes).size
            assert np.sort(np.concatenate([used, nodes])).tolist() == known.tolist()
            assert set(graph.y[fit.train]) == {0, 1, 2}
            assert len(fit.train) / len(used) == pytest.approx(0.75, abs=0.06)
        assert np.sort(np.concatenate(asked)).tolist() == known.tolist()
        assert np.concatenate(asked).tolist() == found.held_out.tolist()
    assert found.y.tolist() == graph.y[found.held_out].tolist()


def test_test_nodes_are_never_seen(clock: Clock, few: tuple[Graph, Split]) -> None:
    graph, split = few
    stage = Stage({"a": Act(), "b": Act()}, clock)
    stage.hold(graph, split)
    folds, last = stage.fits[: 2 * FOLDS], stage.fits[2 * FOLDS :]
    seen = [np.concatenate([s.train, s.val, s.test]) for _, s in folds]
    seen += [nodes for _, nodes in stage.asked]
    assert not np.intersect1d(np.concatenate(seen), split.test).size
    # The answer is fitted on the split as it is.
    assert [name for name, _ in last] == ["a", "b"]
    assert all(fitted_on is split for _, fitted_on in last)


def test_folds_have_each_class_alike(clock: Clock) -> None:
    graph = labelled(200, 4)
    split = stratified_split(graph.y, (0.6, 0.2, 0.2), seed=1)
    stage = Stage({"a": Act()}, clock)
    stage.hold(graph, split)
    for _, fold in stage.fits[:FOLDS]:
        assert np.bincount(graph.y[fold.test]).tolist() == [8, 8, 8, 8]


def test_folds_keep_groups_whole(clock: Clock) -> None:
    graph = replace(labelled(200, 4), groups=np.arange(200) // 8)
    split = stratified_split(graph.y, seed=1, groups=graph.groups)
    stage = Stage({"a": Act()}, clock)
    assert stage.hold(graph, split).folds == FOLDS
    for _, fold in stage.fits[:FOLDS]:
        inside = [set(graph.groups[part]) for part in fold.parts.values()]
        assert sum(map(len, inside)) == len(set().union(*inside))
        assert len(fold.test) == 32


def test_one_group_cannot_be_folded(clock: Clock) -> None:
    graph = replace(labelled(200, 4), groups=np.zeros(200, dtype=int))
    split = stratified_split(graph.y, seed=1)
    assert Stage({"a": Act()}, clock).hold(graph, split).folds == 0


def test_a_split_by_time_is_compared_on_its_later_nodes(clock: Clock) -> None:
    graph = replace(labelled(200, 4), times=np.arange(200))
    by_time = Split(np.arange(120), np.arange(120, 160), np.arange(160, 200))
    stage = Stage({"a": Act(0.9), "b": Act(0.6)}, clock)
    found = stage.hold(graph, by_time)
    assert found.folds == 0
    assert found.held_out.tolist() == by_time.val.tolist()


def test_enough_validation_nodes_are_taken_as_they_are(
    clock: Clock, many: tuple[Graph, Split]
) -> None:
    graph, split = many
    stage = Stage({"a": Act(0.9), "b": Act(0.6)}, clock)
    found = stage.hold(graph, split)
    assert found.folds == 0
    assert found.held_out.tolist() == split.val.tolist()
    assert [(name, s is split) for name, s in stage.fits] == [("a", True), ("b", True)]
    assert found.choice.weights == {"a": 1.0}
    assert {e.member.name: e.fitted.name for e in found.entries} == {"a": "a", "b": "b"}


@pytest.mark.parametrize(
    "y",
    [
        [0, 0, 0, 0, 0, 0, 1, 0],  # its only training node of class 1 is never held out
        [0, 1, 0],
    ],
)
def test_nodes_too_few_for_folds_are_compared_on_the_split(
    clock: Clock, y: list[int]
) -> None:
    n = len(y)
    graph = of_labels(np.array(y))
    split = Split(np.arange(n - 1), [n - 1], [])
    stage = Stage({"a": Act()}, clock)
    found = stage.hold(graph, split)
    assert found.folds == 0
    assert found.held_out.tolist() == [n - 1]
    assert found.choice.weights == {"a": 1.0}


def test_a_class_of_two_nodes_is_in_the_training_part_of_each_fold(
    clock: Clock,
) -> None:
    y = np.array([0, 1] * 10 + [2, 2])
    graph = of_labels(y)
    split = stratified_split(y, (0.6, 0.4, 0.0), seed=0)
    stage = Stage({"a": Act()}, clock)
    assert stage.hold(graph, split).folds == FOLDS
    for _, fold in stage.fits[:FOLDS]:
        assert set(y[fold.train]) == {0, 1, 2}


# ------------------------------------------------------------------------------- time


def test_however_short_the_time_the_first_answers(
    clock: Clock, few: tuple[Graph, Split]
) -> None:
    stage = Stage({"a": Act(0.5), "b": Act(0.9), "c": Act(0.9)}, clock)
    found = stage.hold(*few, limit=0.001)
    assert found.choice.weights == {"a": 1.0}
    assert why(found) == {
        "a": "",
        "b": "no time was left for it",
        "c": "no time was left for it",
    }
    assert found.entries[0].fitted.name == "a"
    assert [entry.seconds for entry in found.entries] == [FOLDS + 1, 0, 0]
    assert not found.interrupted


def test_the_first_that_can_answer_does_if_others_cannot(
    clock: Clock, few: tuple[Graph, Split]
) -> None:
    fails = {0: InputError("too large")}
    stage = Stage({"a": Act(fails=fails), "b": Act(), "c": Act()}, clock)
    clock.now += 5
    found = stage.hold(*few, limit=0.001)
    assert found.choice.weights == {"b": 1.0}
    assert why(found) == {"a": "too large", "b": "", "c": "no time was left for it"}


def test_a_long_training_is_cut_and_its_best_epoch_kept(
    clock: Clock, many: tuple[Graph, Split]
) -> None:
    acts = {"a": Act(epochs=1000), "b": Act(epochs=3), "c": Act(0.3)}
    found = Stage(acts, clock).hold(*many, limit=100.0)
    assert why(found) == {"a": "cut short, as its time was up", "b": "", "c": ""}
    first = found.entries[0]
    assert first.fitted.kept_ == pytest.approx(LARGEST_SHARE * 100, abs=1)
    assert first.seconds == first.fitted.kept_
    assert not found.interrupted, "the clock is not the user"
    assert set(found.choice.weights) == {"a", "b"}


@pytest.mark.parametrize("place", [0, 1])
def test_a_long_fit_without_epochs_is_stopped(
    clock: Clock, many: tuple[Graph, Split], place: int
) -> None:
    acts = {"quick": Act(seconds=0.0), "slow": Act(steps=1000)}
    names = ["slow", "quick"] if place == 0 else ["quick", "slow"]
    found = Stage({name: acts[name] for name in names}, clock).hold(*many, limit=100.0)
    assert why(found) == {"quick": "", "slow": "cut short, as its time was up"}
    slow = found.entries[place]
    share = LARGEST_SHARE if place == 0 else 1.0
    assert slow.seconds == pytest.approx(share * 100, abs=1 + 10 * (place == 0))
    assert not found.interrupted


def test_folds_share_the_time_of_a_member(
    clock: Clock, few: tuple[Graph, Split]
) -> None:
    kept = []
    stage = Stage({"a": Act(epochs=1000), "b": Act(0.3), "c": Act(0.3)}, clock)
    make = stage.make

    def spy(member: Member) -> Made:
        made = make(member)
        if member.name == "a":
            kept.append(made)
        return made

    stage.make = spy  # type: ignore[method-assign]
    found = stage.hold(*few, limit=100.0)
    *folds, last = [one.kept_ for one in kept]
    assert len(folds) == FOLDS
    share = LARGEST_SHARE * 100 / (FOLDS + 1)
    assert all(abs(epochs - share) <= 1 for epochs in folds)
    # And what answers keeps to the limit too.
    assert last > max(folds)
    assert found.choice.weights == {"a": 1.0}
    assert found.seconds <= 101


def test_the_last_member_may_take_all_that_is_left(
    clock: Clock, few: tuple[Graph, Split]
) -> None:
    found = Stage({"a": Act(epochs=1000)}, clock).hold(*few, limit=120.0)
    assert 118 <= found.seconds <= 122
    first = found.entries[0]
    assert first.fitted.kept_ == pytest.approx(20, abs=2)
    assert first.why == "cut short, as its time was up"


def test_a_last_fit_is_given_as_long_as_a_fold_took(
    clock: Clock, few: tuple[Graph, Split]
) -> None:
    stage = Stage({"a": Act(epochs=10)}, clock)
    found = stage.hold(*few, limit=1.0)
    # Each fold was cut after an epoch, so the last fit is after two.
    assert found.entries[0].fitted.kept_ == 2
    assert why(found) == {"a": "cut short, as its time was up"}


def test_time_is_reserved_for_fitting_those_that_answer(
    clock: Clock, few: tuple[Graph, Split]
) -> None:
    acts = {name: Act(seconds=2.0) for name in "abcdefgh"}
    stage = Stage(acts, clock)
    found = stage.hold(*few, limit=48.0)
    # Of each, five fits and one more: twelve seconds.
    assert [name for name, text in why(found).items() if not text] == list("abcd")
    assert found.seconds == 48.0


def test_what_has_no_epochs_is_given_up_between_folds(
    clock: Clock, few: tuple[Graph, Split]
) -> None:
    stage = Stage({"a": Act(), "slow": Act(seconds=30.0), "c": Act()}, clock)
    found = stage.hold(*few, limit=40.0)
    assert why(found)["slow"] == "no time was left for it"
    assert sum(name == "slow" for name, _ in stage.fits) == 2
    assert found.entries[1].seconds == 60.0
    assert found.entries[1].logits is None


def test_progress_names_the_member_and_the_time_left(
    clock: Clock, many: tuple[Graph, Split]
) -> None:
    stage = Stage({"a": Act(seconds=10.0), "b": Act(epochs=12)}, clock)
    stage.hold(*many, limit=60.0)
    assert stage.told == [
        Progress("a", 1, 2, 60.0),
        Progress("b", 2, 2, 50.0),
        Progress("b", 2, 2, 49.0),
        Progress("b", 2, 2, 39.0),
    ]


@pytest.mark.parametrize("calls", [1, 2, 4])
def test_an_error_of_the_callback_ends_the_fit(
    clock: Clock, few: tuple[Graph, Split], calls: int
) -> None:
    def stop(progress: Progress) -> None:
        seen.append(progress)
        if len(seen) == calls:
            raise RuntimeError("stop")

    seen: list[Progress] = []
    stage = Stage({"a": Act(epochs=12), "b": Act()}, clock)
    members = [Member(name, name, "all", uses_graph=True) for name in stage.acts]
    with pytest.raises(RuntimeError, match="stop"):
        hold_contest(*few, members, stage.make, time_limit=60.0, on_progress=stop)
    assert len(seen) == calls


def test_progress_tells_of_the_last_fits(
    clock: Clock, few: tuple[Graph, Split]
) -> None:
    stage = Stage({"a": Act()}, clock)
    stage.hold(*few, limit=60.0)
    assert [at.member for at in stage.told] == ["a"] * FOLDS + ["those that answer"]
    assert [at.left for at in stage.told] == [60, 59, 58, 57, 56, 55]


# ------------------------------------------------------------ what is given up early


def test_slow_members_that_are_clearly_behind_are_given_up(
    clock: Clock, few: tuple[Graph, Split]
) -> None:
    stage = Stage({"good": Act(0.95), "poor": Act(0.2), "also": Act(0.95)}, clock)
    found = stage.hold(*few)
    assert why(found)["poor"].startswith(
        "given up after 2 of 5 folds, clearly behind: log-loss "
    )
    assert sum(name == "poor" for name, _ in stage.fits) == 2
    assert found.entries[1].logits is None
    assert set(found.choice.weights) == {"good", "also"}
    assert why(found)["also"] == "", "one that is as good goes on"


def test_quick_members_and_floors_are_never_given_up(
    clock: Clock, few: tuple[Graph, Split]
) -> None:
    quick = Stage({"good": Act(0.95), "poor": Act(0.2, seconds=0.1)}, clock)
    assert why(quick.hold(*few)) == {"good": "", "poor": ""}
    floor = Stage({"good": Act(0.95), "mlp": Act(0.2)}, clock)
    assert why(floor.hold(*few)) == {"good": "", "mlp": ""}


def test_on_the_split_itself_nobody_is_given_up(
    clock: Clock, many: tuple[Graph, Split]
) -> None:
    stage = Stage({"good": Act(0.95), "poor": Act(0.2)}, clock)
    assert why(stage.hold(*many)) == {"good": "", "poor": ""}


# --------------------------------------------------------------- what cannot be fitted


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (InputError("will not fit in memory"), "will not fit in memory"),
        (MemoryError(), "not enough memory"),
        (MemoryError("Unable to allocate 9 GiB"), "Unable to allocate 9 GiB"),
    ],
)
def test_members_that_cannot_be_fitted_are_left_out_and_named(
    clock: Clock, few: tuple[Graph, Split], error: Exception, said: str
) -> None:
    stage = Stage({"a": Act(), "large": Act(fails={1: error}), "c": Act()}, clock)
    found = stage.hold(*few)
    assert why(found) == {"a": "", "large": said, "c": ""}
    assert found.entries[1].logits is None
    assert found.entries[1].fitted is None
    assert set(found.choice.weights) == {"a", "c"}
    assert set(found.choice.scores) == set(found.probabilities) == {"a", "c"}


@pytest.mark.parametrize("fit", [1, FOLDS])
def test_member_that_raises_is_dropped_with_a_warning(
    clock: Clock, few: tuple[Graph, Split], fit: int
) -> None:
    fails: dict[int, BaseException] = {fit: ZeroDivisionError("a bug")}
    stage = Stage({"a": Act(), "odd": Act(fails=fails)}, clock)
    with pytest.warns(H2GCNWarning) as caught:
        found = stage.hold(*few)
    (warning,) = (one.message for one in caught)
    assert isinstance(warning, H2GCNWarning)
    assert (warning.param, warning.where) == ("model", "made")
    assert why(found)["odd"] == "failed with ZeroDivisionError: a bug"
    assert found.choice.weights == {"a": 1.0}


def test_logits_that_are_no_numbers_are_left_out(
    clock: Clock, few: tuple[Graph, Split]
) -> None:
    stage = Stage({"odd": Act(odd=True), "b": Act()}, clock)
    found = stage.hold(*few)
    assert why(found) == {"odd": "its logits are not finite", "b": ""}
    assert found.choice.weights == {"b": 1.0}


def test_nobody_can_be_fitted(clock: Clock, few: tuple[Graph, Split]) -> None:
    stage = Stage(
        {
            "a": Act(fails={0: InputError("too large")}),
            "b": Act(fails={0: InputError("odd")}),
        },
        clock,
    )
    with pytest.raises(InputError, match=r"^made: no model could be fitted; a: too l"):
        stage.hold(*few)


def test_one_that_fails_on_the_split_is_no_longer_in_the_answer(
    clock: Clock, few: tuple[Graph, Split]
) -> None:
    fails = {FOLDS: InputError("odd")}
    stage = Stage({"a": Act(fails=fails), "b": Act(), "c": Act()}, clock)
    found = stage.hold(*few)
    assert found.choice.weights == {"b": 0.5, "c": 0.5}
    assert why(found) == {"a": "odd", "b": "", "c": ""}
    alone = Stage({"a": Act(fails=fails)}, clock)
    with pytest.raises(InputError, match=r"^made: no model could be fitted; a: odd$"):
        alone.hold(*few)


# ----------------------------------------------------------------------------- Ctrl-C


@pytest.mark.parametrize(
    "act",
    [
        Act(epochs=5, stops=(2, 3)),
        Act(fails={2: KeyboardInterrupt()}),
    ],
    ids=["in an epoch", "elsewhere"],
)
def test_ctrl_c_keeps_what_is_done(
    clock: Clock, few: tuple[Graph, Split], act: Act
) -> None:
    stage = Stage({"a": Act(), "b": Act(), "c": act, "d": Act()}, clock)
    found = stage.hold(*few)
    assert found.interrupted
    assert set(found.choice.weights) == {"a", "b"}
    assert why(found) == {"a": "", "b": "", "c": "interrupted", "d": "interrupted"}
    assert all(entry.fitted is not None for entry in found.entries[:2])


def test_ctrl_c_after_the_clock_has_cut_a_fold_is_still_ctrl_c(
    clock: Clock, few: tuple[Graph, Split]
) -> None:
    stage = Stage({"a": Act(), "b": Act(epochs=1000, stops=(1, 2))}, clock)
    found = stage.hold(*few, limit=60.0)
    assert found.interrupted
    assert why(found)["b"] == "interrupted"


@pytest.mark.parametrize("number", [0, 4])
def test_ctrl_c_before_anybody_is_done_is_raised(
    clock: Clock, few: tuple[Graph, Split], number: int
) -> None:
    stage = Stage({"a": Act(epochs=9, stops=(number, 1)), "b": Act()}, clock)
    with pytest.raises(KeyboardInterrupt):
        stage.hold(*few)


@pytest.mark.parametrize(
    "act",
    [
        Act(epochs=5, stops=(FOLDS, 3)),
        Act(fails={FOLDS: KeyboardInterrupt()}),
    ],
    ids=["in an epoch", "elsewhere"],
)
def test_ctrl_c_in_the_last_fits_keeps_those_that_are_done(
    clock: Clock, few: tuple[Graph, Split], act: Act
) -> None:
    stage = Stage({"a": Act(), "b": act, "c": Act()}, clock)
    found = stage.hold(*few)
    assert found.interrupted
    assert found.choice.weights == {"a": 1.0}
    assert why(found) == {"a": "", "b": "interrupted", "c": "interrupted"}
    assert [e.fitted is None for e in found.entries] == [False, True, True]
    assert set(found.choice.scores) == {"a", "b", "c"}, "how they stand is known"


def test_ctrl_c_in_the_first_of_the_last_fits(
    clock: Clock, few: tuple[Graph, Split]
) -> None:
    # Half a fit is better than none.
    half = Stage({"a": Act(epochs=5, stops=(FOLDS, 3)), "b": Act()}, clock)
    found = half.hold(*few)
    assert found.choice.weights == {"a": 1.0}
    assert found.entries[0].fitted.kept_ == 3
    assert found.interrupted
    none = Stage({"a": Act(fails={FOLDS: KeyboardInterrupt()}), "b": Act()}, clock)
    with pytest.raises(KeyboardInterrupt):
        none.hold(*few)


# ------------------------------------------------------------------------- the outcome


def test_probabilities_are_those_of_each_members_temperature(
    clock: Clock, few: tuple[Graph, Split]
) -> None:
    stage = Stage({"a": Act(0.99), "b": Act(0.5)}, clock)
    found = stage.hold(*few)
    for entry in found.entries:
        name, logits = entry.member.name, entry.logits.astype(float)
        temperature = fit_temperature(logits, found.y)
        assert found.temperatures[name] == pytest.approx(temperature)
        powers = np.exp(logits / temperature)
        expected = powers / powers.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found.probabilities[name], expected, rtol=1e-6)
    assert found.temperatures["a"] < 0.9, "always right, it may be surer of it"
