"""Tuning: on validation nodes only, each run once, ranked by hand-made scores."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from h2gcn import Graph, NodeClassifier, Split, __version__
from h2gcn.exceptions import InputError
from h2gcn.experiments import (
    TO_THE_END,
    Ranked,
    Store,
    TuneProgress,
    definition,
    find_grid,
    search,
    tune,
    tuning,
)
from h2gcn.experiments.runs import read_records
from h2gcn.experiments.tuning import Space, Trials, rank
from h2gcn.homophily import graph_card
from h2gcn.models import MODELS
from support.cases import each
from support.graphs import one_way

GRID = [{"l2": l2, "epochs": 5} for l2 in (1e-3, 1e-4, 1e-5)]
SPLITS = [
    Split(np.arange(0, 12), np.arange(12, 20), np.arange(20, 30)),
    Split(np.arange(10, 24), np.arange(0, 8), np.arange(24, 30)),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the store is."""
    return tmp_path / "trials.jsonl"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    """Return an empty store."""
    with Store(path) as opened:
        yield opened


class Stub:
    """A classifier whose score is made up from its arguments."""

    score: Callable[["Stub"], float] = staticmethod(lambda _: 0.5)
    fits: int = 0
    metric = "accuracy"
    best_epoch_ = n_iter_ = 3
    interrupted_ = False

    def __init__(
        self,
        model: str = "gcn",
        *,
        device: str = "cpu",
        random_state: int | None = None,
        **setting: Any,
    ) -> None:
        del device
        self.model, self.random_state, self.setting = model, random_state, setting

    def check_params(self, n_classes: int) -> None:
        """Find nothing wrong."""
        del n_classes

    def get_params(self) -> dict[str, Any]:
        """Return those of the model: what is made up is no setting of it."""
        return NodeClassifier(self.model).get_params()

    def fit(self, graph: Graph, split: Split) -> None:
        """Make up a score, or raise what the score raises."""
        del graph
        assert split.test.size == 0
        Stub.fits += 1
        self.val_score_ = Stub.score(self)


@pytest.fixture
def scores(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[Callable[[Stub], float]], None]:
    """Replace classifiers by stubs; return what sets their score."""
    monkeypatch.setattr(definition, "NodeClassifier", Stub)
    monkeypatch.setattr(Stub, "fits", 0)

    def set_score(score: Callable[[Stub], float]) -> None:
        monkeypatch.setattr(Stub, "score", staticmethod(score))

    return set_score


# ------------------------------------------------------------------- what is looked at


def test_the_labels_of_test_nodes_change_nothing(
    small_graph: Graph, tmp_path: Path
) -> None:
    y = small_graph.y.copy()
    test = SPLITS[0].test
    y[test] = 1 - y[test]
    found = []
    for name, graph in (("a", small_graph), ("b", replace(small_graph, y=y))):
        with Store(tmp_path / name) as store:
            ranking = tune(graph, "h2gcn-1", GRID, SPLITS[:1], seed=0, store=store)
            found.append([(r.setting, r.mean) for r in ranking])
    assert found[0] == found[1]
    # The labels of validation nodes do matter: the test could fail.
    y = small_graph.y.copy()
    y[SPLITS[0].val] = 1 - y[SPLITS[0].val]
    graph = replace(small_graph, y=y)
    with Store(tmp_path / "c") as store:
        ranking = tune(graph, "h2gcn-1", GRID, SPLITS[:1], seed=0, store=store)
    assert [(r.setting, r.mean) for r in ranking] != found[0]


def test_no_classifier_is_given_a_test_part(
    small_graph: Graph, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    fit = NodeClassifier.fit

    def spy(self: NodeClassifier, graph: Graph, split: Split) -> NodeClassifier:
        seen.append(split.sizes)
        return fit(self, graph, split)

    monkeypatch.setattr(NodeClassifier, "fit", spy)
    tune(small_graph, "gcn", GRID[:1], SPLITS, seed=0, store=store)
    assert seen == [(12, 8, 0), (14, 8, 0)]


def test_a_record_says_all_that_defines_a_run(small_graph: Graph, store: Store) -> None:
    tune(small_graph, "h2gcn-1", GRID[:1], SPLITS, seed=7, store=store)
    record = store.records[1]
    clf = NodeClassifier("h2gcn-1", random_state=8, **GRID[0])
    clf.fit(small_graph, replace(SPLITS[1], test=[]))
    assert record.pop("seconds") > 0
    assert len(record.pop("key")) == 16
    assert record == {
        "format": 1,
        "dataset": "small",
        "checksum": graph_card(small_graph)["checksum"],
        "model": "h2gcn-1",
        "config": GRID[0],
        "split": 1,
        "seed": 8,
        "val_score": clf.val_score_,
        "val_accuracy": clf.val_score_,
        "best_epoch": clf.best_epoch_,
        "epochs": 5,
        "version": __version__,
    }


def test_the_accuracy_is_named_only_where_it_is_the_score(
    small_graph: Graph, store: Store
) -> None:
    setting = {"epochs": 2, "metric": "roc_auc"}
    tune(small_graph, "mlp", [setting], SPLITS[:1], seed=0, store=store)
    assert "val_accuracy" not in store.records[0]
    assert 0 <= store.records[0]["val_score"] <= 1


def test_a_key_changes_with_what_a_run_depends_on(
    small_graph: Graph, store: Store
) -> None:
    def key(
        graph: Graph = small_graph,
        model: str = "h2gcn-1",
        split: Split = SPLITS[0],
        seed: int = 0,
        **setting: Any,
    ) -> str:
        trials = Trials(graph, model, [split], seed=seed, store=store)
        return trials.key(setting, 0)

    same = key(l2=1e-4)
    assert key(l2=1e-4, graph=replace(small_graph, name="other")) == same
    assert key(l2=1e-4, split=replace(SPLITS[0], test=[29])) == same
    assert key(l2=1e-4, model="h2gcn-k2") == same, "the paper's other name"
    others = [
        key(l2=1e-5),
        key(l2=1e-4, seed=1),
        key(l2=1e-4, model="h2gcn-2"),
        key(l2=1e-4, split=SPLITS[1]),
        key(l2=1e-4, split=replace(SPLITS[0], val=np.arange(12, 19))),
        key(l2=1e-4, graph=replace(small_graph, x=np.ones((30, 4)))),
    ]
    assert len({same, *others}) == 7


def test_a_key_changes_with_directions_where_the_model_follows_them(
    small_graph: Graph, store: Store
) -> None:
    graphs = [
        replace(small_graph, directed=one_way(small_graph.adj, seed)) for seed in (0, 1)
    ]

    def keys(model: str, **setting: Any) -> set[str]:
        return {
            Trials(graph, model, SPLITS[:1], seed=0, store=store).key(setting, 0)
            for graph in (*graphs, small_graph)
        }

    assert len(keys("dir-gnn")) == 3
    assert len(keys("h2gcn-1")) == 1


def test_a_setting_with_directions_is_run(small_graph: Graph, store: Store) -> None:
    graph = replace(small_graph, directed=one_way(small_graph.adj, 0))
    tried = [{"epochs": 2}]
    (first,) = tune(graph, "dir-gnn", tried, SPLITS[:1], seed=0, store=store)
    assert first.error is None
    assert store.records[0]["checksum"] == graph_card(small_graph)["checksum"]


# --------------------------------------------------------------------------- ranking


def test_settings_are_ranked_by_the_mean_and_ties_by_the_grid(
    small_graph: Graph, store: Store, scores: Callable[..., None]
) -> None:
    table = {
        ("a", 0): 0.5,
        ("a", 1): 0.7,
        ("b", 0): 0.9,
        ("b", 1): 0.9,
        ("c", 0): 0.7,
        ("c", 1): 0.5,
        ("d", 0): 0.2,
        ("d", 1): 1.0,
    }
    scores(lambda clf: table[clf.setting["activation"], clf.random_state])
    grid = [{"activation": name} for name in "abcd"]
    ranking = tune(small_graph, "gcn", grid, SPLITS, seed=0, store=store)
    assert [r.setting["activation"] for r in ranking] == ["b", "a", "c", "d"]
    assert [r.mean for r in ranking] == pytest.approx([0.9, 0.6, 0.6, 0.6])
    assert ranking[1].deviation == pytest.approx(np.std([0.5, 0.7], ddof=1))
    assert [r.n for r in ranking] == [2] * 4
    assert all(r.error is None for r in ranking)
    keys = [record["key"] for record in store.records]
    assert ranking[0].runs == (keys[2], keys[3])


def test_equal_sums_in_another_order_are_a_tie() -> None:
    # 0.1 + 0.2 + 0.3 is 0.6000000000000001, the other way round it is 0.6.
    means = [(0.3 + 0.2 + 0.1) / 3, (0.1 + 0.2 + 0.3) / 3]
    assert means[0] < means[1]
    results = [Ranked({"l2": mean}, mean, None, 3, 0.0) for mean in means]
    assert rank(results) == results


def test_one_split_has_no_deviation(
    small_graph: Graph, store: Store, scores: Callable[..., None]
) -> None:
    scores(lambda _: 0.25)
    (found,) = tune(small_graph, "gcn", GRID[:1], SPLITS[:1], seed=0, store=store)
    assert (found.mean, found.deviation, found.n) == (0.25, None, 1)


# -------------------------------------------------------------------------- failures


def test_a_failure_is_recorded_and_comes_last(
    small_graph: Graph, store: Store, scores: Callable[..., None]
) -> None:
    def score(clf: Stub) -> float:
        if clf.setting["l2"] == 1e-3:
            raise InputError("training diverged in epoch 3")
        return 0.0

    scores(score)
    ranking = tune(small_graph, "gcn", GRID, SPLITS, seed=0, store=store)
    assert [r.setting["l2"] for r in ranking] == [1e-4, 1e-5, 1e-3]
    last = ranking[-1]
    assert (last.mean, last.n) == (None, 0)
    assert last.error == "training diverged in epoch 3"
    assert store.records[0]["error"] == last.error
    assert store.records[0]["val_score"] is None
    # Its other split is spared, and neither is tried again.
    assert Stub.fits == 1 + 2 * 2
    assert tune(small_graph, "gcn", GRID, SPLITS, seed=0, store=store) == ranking
    assert Stub.fits == 5


def test_a_training_that_diverges_is_such_a_failure(
    small_graph: Graph, store: Store
) -> None:
    grid = [{"learning_rate": 1e30, "epochs": 20, "optimizer": "sgd"}, GRID[0]]
    ranking = tune(small_graph, "gcn", grid, SPLITS[:1], seed=0, store=store)
    assert ranking[0].setting == GRID[0]
    assert "diverged" in str(ranking[1].error)


def test_a_score_without_a_value_is_a_failure(
    small_graph: Graph, store: Store, scores: Callable[..., None]
) -> None:
    scores(lambda _: float("nan"))
    (found,) = tune(small_graph, "gcn", GRID[:1], SPLITS[:1], seed=0, store=store)
    assert "no value on the validation nodes" in str(found.error)


def test_a_wrong_setting_is_refused_before_the_first_run(
    small_graph: Graph, store: Store
) -> None:
    grid = [GRID[0], {"dropout": 2.0}]
    with pytest.raises(InputError, match="dropout"):
        tune(small_graph, "gcn", grid, SPLITS, seed=0, store=store)
    assert store.records == []


def test_what_the_machine_cannot_do_is_not_recorded(
    small_graph: Graph, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from h2gcn.rings import plan as ring_plan

    monkeypatch.setattr(ring_plan, "available_memory", lambda: 1)
    with pytest.raises(InputError, match="will not fit in memory"):
        tune(small_graph, "h2gcn-1", GRID, SPLITS, seed=0, store=store)
    assert store.records == []


def test_a_capped_ring_is_tuned_where_the_exact_one_does_not_fit(
    small_graph: Graph, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from h2gcn.rings import plan as ring_plan

    def run(setting: dict[str, Any], **more: Any) -> None:
        grid = [{"epochs": 2, "hidden_channels": 1} | setting]
        tune(small_graph, "h2gcn-1", grid, SPLITS, seed=0, store=store, **more)

    def fits(limit: int, setting: dict[str, Any]) -> bool:
        monkeypatch.setattr(ring_plan, "available_memory", lambda: limit)
        try:
            run(setting)
        except InputError:
            return False
        return True

    limits = range(2_000, 200_000, 500)
    limit = next(limit for limit in limits if fits(limit, {"ring_cap": 1}))
    n_runs = len(store.records)
    assert n_runs == len(SPLITS)
    assert not any(record.get("error") for record in store.records)
    # Less than the exact ring takes, by whatever way the limit is told.
    assert not fits(limit, {})
    with pytest.raises(InputError, match=r"the limit is .* what fits: "):
        run({}, machine={"memory_limit": limit / 1e9})
    assert len(store.records) == n_runs


def test_the_machine_does_not_make_a_run_another(
    small_graph: Graph, store: Store
) -> None:
    grid = [{"epochs": 2}]
    for machine in (None, {"memory_limit": 1.0}):
        tune(small_graph, "h2gcn-1", grid, SPLITS, seed=0, store=store, machine=machine)
    assert len(store.records) == len(SPLITS)
    assert store.records[0]["config"] == {"epochs": 2}


def test_the_ranking_so_far_is_shown_with_the_best_classifier(
    small_graph: Graph, store: Store, scores: Callable[..., None]
) -> None:
    given = (small_graph, "gcn", GRID, SPLITS)
    scores(lambda clf: clf.setting["l2"])
    tune(small_graph, "gcn", GRID[1:2], SPLITS, seed=0, store=store)
    seen: list[tuple[list[float], bool]] = []

    def note(ranking: list[Ranked], fitted: NodeClassifier | None) -> None:
        if fitted is not None:  # the first split's, of the best
            assert fitted.random_state == 0
            setting = TO_THE_END | ranking[0].setting
            assert fitted.setting == setting  # type: ignore[attr-defined]
        seen.append(([one.setting["l2"] for one in ranking], fitted is not None))

    ranking = tune(*given, seed=0, store=store, on_ranking=note)
    order = [setting["l2"] for setting in GRID]
    arrival = [order[1], order[0], *order[2:]]
    assert seen == [
        (
            sorted(arrival[: n + 1], reverse=True),
            n > 0 and arrival[n] == max(arrival[: n + 1]),
        )
        for n in range(len(order))
    ]
    assert [one.setting["l2"] for one in ranking] == seen[-1][0]


# ---------------------------------------------------------------------------- going on


def test_a_second_start_does_only_what_is_missing(
    small_graph: Graph, path: Path, scores: Callable[..., None]
) -> None:
    def interrupt(clf: Stub) -> float:
        if Stub.fits == 4:
            raise KeyboardInterrupt
        return clf.setting["l2"]

    scores(interrupt)
    with Store(path) as store, pytest.raises(KeyboardInterrupt):
        tune(small_graph, "gcn", GRID, SPLITS, seed=0, store=store)
    assert len(read_records(path)) == 3
    scores(lambda clf: clf.setting["l2"])
    seen: list[TuneProgress] = []
    with Store(path) as store:
        ranking = tune(
            small_graph, "gcn", GRID, SPLITS, seed=0, store=store, on_run=seen.append
        )
        assert Stub.fits == 4 + 3
        assert len(store) == 6
        again = tune(small_graph, "gcn", GRID, SPLITS, seed=0, store=store)
    assert Stub.fits == 7
    assert again == ranking
    assert seen[0] == TuneProgress(done=3, total=6, found=3, best=None)
    assert [p.done for p in seen] == sorted(p.done for p in seen)
    assert seen[-1] == TuneProgress(done=6, total=6, found=3, best=1e-3)


def test_more_splits_add_to_those_that_are_there(
    small_graph: Graph, store: Store, scores: Callable[..., None]
) -> None:
    scores(lambda _: 0.5)
    tune(small_graph, "gcn", GRID, SPLITS[:1], seed=0, store=store)
    tune(small_graph, "gcn", GRID, SPLITS, seed=0, store=store)
    assert Stub.fits == 6


def test_an_interrupted_training_is_no_finished_run(
    small_graph: Graph, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from h2gcn.training import loop as training

    calls = itertools.count()

    def interrupt(*_: object) -> float:
        if next(calls) == 2:
            raise KeyboardInterrupt
        return 0.5

    monkeypatch.setattr(training, "score", interrupt)
    with pytest.raises(KeyboardInterrupt):
        tune(small_graph, "gcn", GRID, SPLITS, seed=0, store=store)
    assert store.records == []


# -------------------------------------------------------------------- beyond the grid


def preference(clf: Stub) -> float:
    """Score a setting: best at a learning rate of 0.03 without dropout."""
    rate = clf.setting.get("learning_rate", 0.01)
    distance = abs(np.log10(rate / 0.03)) + clf.setting.get("dropout", 0.5)
    return float(1 / (1 + distance))


def test_a_search_tries_the_grid_first_and_so_many_in_all(
    small_graph: Graph, store: Store, scores: Callable[..., None]
) -> None:
    scores(preference)
    arguments = (small_graph, "gcn", GRID, SPLITS)
    seen: list[TuneProgress] = []
    ranking = search(*arguments, n_trials=12, seed=0, store=store, on_run=seen.append)
    assert len(ranking) == 12
    assert Stub.fits == 12 * 2
    configs = [record["config"] for record in store.records[::2]]
    assert configs[:3] == GRID
    assert all(configs[i] not in configs[:i] for i in range(12)), "none twice"
    assert ranking[0].mean == max(r.mean for r in ranking if r.mean is not None)
    assert (seen[0].done, seen[0].total, seen[-1].done) == (0, 24, 24)


@pytest.mark.parametrize("stop", [3, 9, 16, 23])
def test_a_search_that_was_stopped_goes_on_as_if_it_had_not_been(
    small_graph: Graph, tmp_path: Path, scores: Callable[..., None], stop: int
) -> None:
    arguments = (small_graph, "gcn", GRID, SPLITS)
    scores(preference)
    with Store(tmp_path / "whole") as store:
        whole = search(*arguments, n_trials=14, seed=5, store=store)

    def interrupt(clf: Stub) -> float:
        if Stub.fits == 28 + stop:
            raise KeyboardInterrupt
        return preference(clf)

    scores(interrupt)
    with Store(tmp_path / "parts") as store, pytest.raises(KeyboardInterrupt):
        search(*arguments, n_trials=14, seed=5, store=store)
    scores(preference)
    with Store(tmp_path / "parts") as store:
        parts = search(*arguments, n_trials=14, seed=5, store=store)
        assert len(store) == 28
        more = search(*arguments, n_trials=15, seed=5, store=store)
        assert len(store) == 30
        fewer = search(*arguments, n_trials=4, seed=5, store=store)
        assert len(store) == 30
    assert [r.setting for r in parts] == [r.setting for r in whole]
    assert len(more) == len(fewer) == 15, "what is there is free"


def test_a_search_does_not_count_the_trials_of_another(
    small_graph: Graph, store: Store, scores: Callable[..., None]
) -> None:
    scores(preference)
    other = [setting | {"epochs": 99} for setting in GRID]
    search(small_graph, "gcn", other, SPLITS, n_trials=6, seed=0, store=store)
    search(small_graph, "mlp", GRID, SPLITS, n_trials=6, seed=0, store=store)
    found = search(small_graph, "gcn", GRID, SPLITS, n_trials=6, seed=0, store=store)
    assert len(found) == 6
    assert all(r.setting["epochs"] == 5 for r in found)


def test_another_seed_is_another_search(
    small_graph: Graph, store: Store, scores: Callable[..., None]
) -> None:
    scores(preference)
    found = [
        search(small_graph, "gcn", GRID, SPLITS, n_trials=8, seed=seed, store=store)
        for seed in (0, 1)
    ]
    assert len(store) == 2 * 8 * 2
    settings = [[r.setting for r in ranking] for ranking in found]
    assert [s for s in settings[0] if s in settings[1]] == [
        s for s in settings[0] if s in GRID
    ]


def test_a_search_finds_what_the_grid_has_not(
    small_graph: Graph, store: Store, scores: Callable[..., None]
) -> None:
    scores(preference)
    found = search(
        small_graph, "gcn", GRID, SPLITS[:1], n_trials=40, seed=0, store=store
    )
    grid = preference(Stub("gcn", device="cpu", **GRID[0]))
    assert found[0].mean is not None
    assert found[0].mean > grid + 0.3


def test_a_failed_trial_does_not_end_a_search(
    small_graph: Graph, store: Store, scores: Callable[..., None]
) -> None:
    def score(clf: Stub) -> float:
        if clf.setting.get("learning_rate", 0) > 0.02:
            raise InputError("training diverged in epoch 1")
        return 0.5

    scores(score)
    found = search(
        small_graph, "gcn", GRID, SPLITS[:1], n_trials=15, seed=0, store=store
    )
    assert len(found) == 15
    assert 0 < sum(r.error is not None for r in found) < 12


def test_a_search_without_optuna_says_how_to_get_it(
    small_graph: Graph, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"pip install 'h2gcn\[bench\]'"):
        search(small_graph, "gcn", GRID, SPLITS, n_trials=2, seed=0, store=store)


@each("name", ["texas", "syn-cora/h0.10-r1", "my graph"])
@each("model", MODELS)
def test_every_model_has_a_space_around_its_grid(model: str, name: str) -> None:
    grid = find_grid(name, model)
    space = Space(model, grid)
    assert space.axes
    results = [
        Ranked(setting, 0.5 + 0.01 * i, None, 1, 0.0) for i, setting in enumerate(grid)
    ]
    fixed = {"optimizer", "stopping", "patience", "epochs", "scaling", "metric"}
    for _ in range(5):
        setting = space.propose(results, seed=0)
        assert setting is not None
        assert space.holds(setting)
        NodeClassifier(model, **setting).check_params()
        for option in fixed:
            assert setting.get(option) == grid[0].get(option)
        results.append(Ranked(setting, 0.4, None, 1, 0.0))


def test_the_space_reaches_as_far_as_the_grid() -> None:
    sage = Space("graphsage", find_grid("texas", "graphsage")).axes
    assert (sage["learning_rate"].low, sage["learning_rate"].high) == (1e-3, 0.7)
    assert (sage["l2"].low, sage["l2"].high) == (1e-7, 1e-2), "0 is left to the grid"
    assert sage["hidden_channels"].choices == (16, 32, 64, 128, 256)
    gat = Space("gat", find_grid("syn-cora/h0.10-r1", "gat")).axes
    assert (gat["heads"].low, gat["heads"].high) == (1, 16)
    assert set(gat["activation"].choices) == {"relu", "none", "elu"}
    assert gat["hidden_channels"].choices == (4, 8, 16, 32, 64)
    spread = Space("label-propagation", find_grid("x", "label-propagation")).axes
    assert set(spread) == {"alpha", "steps"}
    assert (spread["alpha"].low, spread["alpha"].high) == (0.01, 0.99)


def test_numbers_of_a_search_can_be_read() -> None:
    space = Space("gcn", GRID)
    setting = space.propose([], seed=3)
    assert setting is not None
    numbers = [value for value in setting.values() if isinstance(value, float)]
    assert len(numbers) == 3
    assert all(value == float(f"{value:.3g}") for value in numbers)


def test_a_space_that_is_used_up_ends_the_search() -> None:
    space = Space("gcn", GRID)
    space.axes = {"hidden_channels": space.axes["hidden_channels"]}
    results: list[Ranked] = []
    while (setting := space.propose(results, seed=0)) is not None:
        results.append(Ranked(setting, 0.5, None, 1, 0.0))
        assert len(results) <= 5
    assert sorted(r.setting["hidden_channels"] for r in results) == [
        16,
        32,
        64,
        128,
        256,
    ]
