"""Settings of a model, ranked on validation nodes: a grid, or a search beyond it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from h2gcn.exceptions import InputError
from h2gcn.experiments.definition import Setting
from h2gcn.experiments.running import Store
from h2gcn.experiments.tuning.trials import OnRanking, Progress, Ranked, Trials, rank
from h2gcn.graph import Graph, Split

__all__ = ["Progress", "Ranked", "check_optuna", "distinct", "rank", "search", "tune"]


def tune(
    graph: Graph,
    model: str,
    settings: Sequence[Setting],
    splits: Sequence[Split],
    *,
    seed: int,
    store: Store,
    device: str = "auto",
    machine: Mapping[str, Any] | None = None,
    on_run: Callable[[Progress], None] | None = None,
    on_ranking: OnRanking | None = None,
) -> list[Ranked]:
    """Fit a model with each of some settings on each of some splits; best first.

    The test part of a split is not looked at. A setting with a run that fails, as by
    divergence, comes last, and the others go on.

    Parameters
    ----------
    graph, model, splits, seed, store, device, machine, on_run, on_ranking
        As of `h2gcn.experiments.tuning.trials.Trials`.
    settings
        Arguments of `NodeClassifier`, as `find_grid` gives
        them.
    """
    trials = Trials(
        graph,
        model,
        splits,
        seed=seed,
        store=store,
        device=device,
        machine=machine,
        on_run=on_run,
        on_ranking=on_ranking,
    )
    trials.begin(settings)
    return rank([trials.run(setting) for setting in settings])


def search(
    graph: Graph,
    model: str,
    settings: Sequence[Setting],
    splits: Sequence[Split],
    *,
    n_trials: int,
    seed: int,
    store: Store,
    device: str = "auto",
    machine: Mapping[str, Any] | None = None,
    on_run: Callable[[Progress], None] | None = None,
    on_ranking: OnRanking | None = None,
) -> list[Ranked]:
    """Try given settings first, then what Optuna makes of the results; best first.

    The next setting follows from the seed and from what is in the store. So a search
    that was ended goes on as if it had not been, and stops at `n_trials` in all.

    Parameters
    ----------
    graph, model, splits, seed, store, device, machine, on_run, on_ranking
        As of `h2gcn.experiments.tuning.trials.Trials`.
    settings
        Tried first; what is not searched for is as in the first of them.
    n_trials
        How many settings to try, these included. There may be fewer, where the
        model has so few, or more in the store.
    """
    check_optuna()
    from h2gcn.experiments.tuning.space import Space

    trials = Trials(
        graph,
        model,
        splits,
        seed=seed,
        store=store,
        device=device,
        machine=machine,
        on_run=on_run,
        on_ranking=on_ranking,
    )
    space = Space(model, settings)
    first = list(settings[:n_trials])
    known = [record["config"] for record in store.records]
    more = distinct(setting for setting in known if space.holds(setting))
    more = [s for s in more if s not in first and trials.find(s) is not None]
    trials.begin(first + more, total=max(n_trials, len(first + more)))
    results = [trials.run(setting) for setting in first + more]
    while len(results) < n_trials:
        setting = space.propose(results, seed)
        if setting is None:
            break
        results.append(trials.run(setting))
    return rank(results)


def check_optuna() -> None:
    """Say how to install Optuna where it is not there."""
    if find_spec("optuna") is None:
        raise InputError(
            "to search beyond the grid, Optuna is needed: pip install 'h2gcn[tune]'"
        )


def distinct(settings: Iterable[Setting]) -> list[Setting]:
    """Return settings without repetitions, in the order of their first places."""
    found: list[Setting] = []
    for setting in settings:
        if setting not in found:
            found.append(setting)
    return found
