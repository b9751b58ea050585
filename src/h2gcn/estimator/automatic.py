"""The model "auto": a portfolio of models, of which the best answer together."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from h2gcn.auto import (
    Contest,
    Leaderboard,
    Member,
    Progress,
    default_time_limit,
    find_portfolio,
    hold_contest,
    make_leaderboard,
)
from h2gcn.estimator.outputs import choose_decision
from h2gcn.estimator.parameters import (
    CheckedFit,
    Params,
    check_params,
    choose_cap,
    far_hops,
    resolve_seed,
)
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import Graph, Split
from h2gcn.models import find_model
from h2gcn.training import OF_TWO_CLASSES, softmax

__all__ = [
    "Answer",
    "Answering",
    "find_answer",
    "fit_on_all",
    "mean_blocks",
    "member_params",
]


_FOR_ALL = ("scaling", "metric", "memory_limit", "device", "calibrate")
TINY = 1e-12

Block = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Some nodes, [m], and their logits, [m, C]."""


@dataclass(frozen=True, eq=False)
class Answering:
    """A member that is in the answer.

    Parameters
    ----------
    name
        On the leaderboard.
    weight
        Of its probabilities in the mean.
    temperature
        What its logits are divided by.
    classifier
        A fitted `NodeClassifier`.
    """

    name: str
    weight: float
    temperature: float
    classifier: Any


@dataclass(frozen=True, eq=False)
class Answer:
    """What "auto" found.

    Parameters
    ----------
    members
        Those that answer.
    leaderboard
        How all of them stand.
    contest
        All that was tried, with the members that do not answer.
    held_out, y
        The nodes that it was chosen on, and their classes, [m].
    logits
        Logarithms of the mean probabilities there, with the offsets, [m, C].
    offsets
        What is added to the logits of each class, so that the largest one is the
        best to say, [C].
    ring_cap
        How many of each 2-hop ring its members draw; None for all.
    """

    members: tuple[Answering, ...]
    leaderboard: Leaderboard
    contest: Contest
    held_out: NDArray[np.int64]
    y: NDArray[np.int64]
    logits: NDArray[np.float32]
    offsets: NDArray[np.float64]
    ring_cap: int | None = None


def find_answer(
    graph: Graph,
    split: Split,
    params: Params,
    seed: int,
    make: Callable[..., Any],
    on_progress: Callable[[Progress], None] | None = None,
) -> Answer:
    """Hold the contest, and return who answers.

    Parameters
    ----------
    graph, split, params
        Checked.
    seed
        Of the members, the folds and the choice.
    make
        Returns an unfitted classifier of some parameters.
    on_progress
        See `hold_contest`.
    """
    cap = choose_cap(params["ring_cap"] or "auto", graph) if graph.adj.nnz else None

    def build(member: Member) -> Any:
        made = make(**member_params(member, params, seed))
        if cap is not None and far_hops(made.get_params()) > 1:
            made.set_params(ring_cap=cap)
        return made

    limit = params["time_limit"]
    asked = params["metric"]
    by = asked if asked in OF_TWO_CLASSES else "log_loss"
    contest = hold_contest(
        graph,
        split,
        find_portfolio(graph, params["scaling"]),
        build,
        time_limit=default_time_limit(graph) if limit is None else limit,
        metric=by,
        seed=seed,
        on_progress=on_progress,
    )
    members = _answering(contest)
    found = contest.probabilities
    mean = np.asarray(sum(one.weight * found[one.name] for one in members))
    offsets = np.zeros(mean.shape[1])
    if asked == "macro_f1":
        rule = choose_decision("macro_f1", mean, contest.y)
        offsets = np.log(np.diag(rule.gains))
    return Answer(
        tuple(members),
        make_leaderboard(contest, asked),
        contest,
        contest.held_out,
        contest.y,
        (np.log(np.maximum(mean, TINY)) + offsets).astype(np.float32),
        offsets,
        cap,
    )


def member_params(member: Member, params: Params, seed: int) -> dict[str, Any]:
    """Return the parameters of the `NodeClassifier` that a member is.

    Parameters
    ----------
    member
        A preset.
    params
        Of the "auto" that it is a member of.
    seed
        Of that one.
    """
    common = {name: params[name] for name in _FOR_ALL if name in params}
    return {"model": member.model, **common, "random_state": seed, **member.params}


def _answering(contest: Contest) -> list[Answering]:
    fitted = {entry.member.name: entry.fitted for entry in contest.entries}
    return [
        Answering(name, weight, contest.temperatures[name], fitted[name])
        for name, weight in contest.choice.weights.items()
    ]


def fit_on_all(
    graph: Graph, members: Sequence[Answering], make: Callable[..., Any]
) -> tuple[Answering, ...]:
    """Fit members on all labelled nodes, for as many epochs as were best before.

    Ctrl-C is raised: half of them is of no use.

    Parameters
    ----------
    graph
        That of their fit.
    members
        Those that answer.
    make
        Returns an unfitted classifier of some parameters.
    """
    # Validation nodes have no say: what is kept is the last epoch.
    everything = Split(graph.labelled, graph.labelled, np.array([], dtype=np.int64))
    found = []
    for one in members:
        params = one.classifier.get_params()
        epochs = one.classifier.best_epoch_
        if epochs and "n_estimators" in find_model(params["model"]).options:
            params["options"] = {**(params["options"] or {}), "n_estimators": epochs}
        elif epochs:
            params |= {"epochs": epochs, "patience": None, "stopping": "loss-mean"}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", H2GCNWarning)
            config, device = check_params(params, graph.n_classes)
            seed = resolve_seed(params["random_state"])
            asked = CheckedFit(graph, everything, params, config, device, seed)
            fitted = make(**params).fit_checked(asked)
        if fitted.interrupted_:
            raise KeyboardInterrupt
        found.append(replace(one, classifier=fitted))
    return tuple(found)


def mean_blocks(
    members: Sequence[Answering],
    offsets: NDArray[np.float64],
    graph: Graph,
    nodes: NDArray[np.int64] | None,
    block_size: int | None,
    alone: bool | None = None,
) -> Iterator[Block]:
    """Return nodes with the logarithms of the members' mean probabilities.

    On another graph than that of `fit` those that can only answer there are left out,
    and a warning names them.

    Parameters
    ----------
    members
        With weights that sum to one.
    offsets
        What is added to the logits of each class, [C].
    graph, nodes, block_size, alone
        As of `NodeClassifier.predict_blocks`.
    """
    streams: dict[str, Iterator[Block]] = {}
    refused: dict[str, InputError] = {}
    for one in members:
        try:
            with warnings.catch_warnings():
                if _spreads_labels(one) and not all(map(_spreads_labels, members)):
                    # Nodes that it cannot reach are left to the others.
                    warnings.simplefilter("ignore", H2GCNWarning)
                streams[one.name] = one.classifier.predict_blocks(
                    graph, nodes, block_size=block_size, alone=alone
                )
        except InputError as error:
            if not _is_bound(one, graph):
                raise
            refused[one.name] = error
    if not streams:
        raise next(iter(refused.values()))
    if refused:
        warnings.warn(
            f"{graph.name} is not the graph of fit, and only there {_listed(refused)} "
            f"can answer; here it is {_listed(streams)}",
            H2GCNWarning,
            stacklevel=3,
        )
    return _mean([one for one in members if one.name in streams], streams, offsets)


def _mean(
    members: Sequence[Answering],
    streams: Mapping[str, Iterator[Block]],
    offsets: NDArray[np.float64],
) -> Iterator[Block]:
    whole = sum(one.weight for one in members)
    for nodes, parts in _side_by_side([streams[one.name] for one in members]):
        mean = sum(
            one.weight / whole * softmax(z / one.temperature)
            for one, z in zip(members, parts, strict=True)
        )
        logits = np.log(np.maximum(mean, TINY)) + offsets
        yield nodes, logits.astype(np.float32)


def _side_by_side(
    streams: Sequence[Iterator[Block]],
) -> Iterator[tuple[NDArray[np.int64], list[NDArray[np.float32]]]]:
    """Return the same nodes of all streams, whatever blocks each of them comes in."""
    heads: list[Block | None] = [None] * len(streams)
    while True:
        for number, stream in enumerate(streams):
            head = heads[number]
            while head is None or not len(head[0]):
                head = next(stream, None)
                if head is None:
                    return
            heads[number] = head
        full = [head for head in heads if head is not None]
        size = min(len(nodes) for nodes, _ in full)
        yield full[0][0][:size], [logits[:size] for _, logits in full]
        heads = [(nodes[size:], logits[size:]) for nodes, logits in full]


def _spreads_labels(member: Answering) -> bool:
    return find_model(member.classifier.params_["model"]).inputs == "labels"


def _is_bound(member: Answering, graph: Graph) -> bool:
    """Return whether a member was refused for the graph being another one."""
    fitted = member.classifier
    by_node = fitted.schema_ is not None and fitted.schema_.nodes is not None
    same = fitted.seen_ is not None and fitted.seen_.is_of(graph)
    return (_spreads_labels(member) or by_node) and not same


def _listed(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
