"""The model "auto": a portfolio of models, of which the best answer together."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from h2gcn._validation import check_real
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
from h2gcn.estimator.decisions import choose_decision
from h2gcn.estimator.parameters import Params
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import Graph, Split

__all__ = [
    *("AUTO", "Answer", "Answering", "check_auto", "find_answer", "mean_blocks"),
    "member_params",
]

AUTO = "auto"
"""The name of this model."""

_ITS_OWN: Mapping[str, Any] = {
    "epochs": 2000,
    "patience": 100,
    "stopping": "score",
    "optimizer": "adam",
    **dict.fromkeys(
        ("learning_rate", "l2", "dropout", "activation", "hidden_channels", "options")
    ),
    **dict.fromkeys(("class_weight", "batch_size", "ring_cap", "ring_store")),
}
"""Parameters that each member has values of its own for, and their defaults."""
_FOR_ALL = ("scaling", "metric", "memory_limit", "device", "calibrate")
TINY = 1e-12


class Classifies(Protocol):
    """What is asked of a member that is fitted."""

    best_epoch_: int

    def predict_blocks(
        self,
        graph: Graph,
        nodes: Any = None,
        *,
        block_size: int | None = None,
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """Return nodes with their logits, a block after the other."""
        ...


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
    """

    members: tuple[Answering, ...]
    leaderboard: Leaderboard
    contest: Contest
    held_out: NDArray[np.int64]
    y: NDArray[np.int64]
    logits: NDArray[np.float32]
    offsets: NDArray[np.float64]


def check_auto(params: Params) -> None:
    """Refuse parameters that "auto" leaves to its members.

    Parameters
    ----------
    params
        Of a `NodeClassifier`, by name.
    """
    for name, default in _ITS_OWN.items():
        if params[name] != default:
            raise InputError(
                f"The '{name}' parameter of NodeClassifier does not go with model "
                "'auto': each of its members has its own. Name one model to set it."
            )
    if params["time_limit"] is not None:
        check_real("NodeClassifier", "time_limit", params["time_limit"], "(0, inf)")


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

    def build(member: Member) -> Any:
        return make(**member_params(member, params, seed))

    limit = params["time_limit"]
    asked = params["metric"]
    by = "log_loss" if asked == "accuracy" else asked
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
    if params["refit"]:
        members = [_refit(graph, split, one, build, contest) for one in members]
    found = contest.probabilities
    mean = np.asarray(sum(one.weight * found[one.name] for one in members))
    offsets = np.zeros(mean.shape[1])
    if asked == "macro_f1":
        rule = choose_decision("macro_f1", mean, contest.y)
        offsets = np.log(np.diag(rule.gains))
    return Answer(
        tuple(members),
        make_leaderboard(contest, asked, by),
        contest,
        contest.held_out,
        contest.y,
        (np.log(np.maximum(mean, TINY)) + offsets).astype(np.float32),
        offsets,
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


def _refit(
    graph: Graph,
    split: Split,
    member: Answering,
    build: Callable[[Member], Any],
    contest: Contest,
) -> Answering:
    """Fit a member on all labelled nodes, for as many epochs as were best before."""
    preset = next(e.member for e in contest.entries if e.member.name == member.name)
    epochs = member.classifier.best_epoch_
    if epochs:
        to_the_end = {"epochs": epochs, "patience": None, "stopping": "loss-mean"}
        preset = replace(preset, params={**preset.params, **to_the_end})
    nothing = np.array([], dtype=np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", H2GCNWarning)
        fitted = build(preset).fit_all(graph, Split(graph.labelled, split.val, nothing))
    return replace(member, classifier=fitted)


def mean_blocks(
    members: Sequence[Answering],
    offsets: NDArray[np.float64],
    graph: Graph,
    nodes: NDArray[np.int64] | None,
    block_size: int | None,
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Return nodes with the logarithms of the members' mean probabilities.

    Parameters
    ----------
    members
        With weights that sum to one.
    offsets
        What is added to the logits of each class, [C].
    graph, nodes, block_size
        As of `NodeClassifier.predict_blocks`.
    """
    streams = [
        one.classifier.predict_blocks(graph, nodes, block_size=block_size)
        for one in members
    ]
    for parts in zip(*streams, strict=True):
        mean = sum(
            one.weight * softmax(logits.astype(np.float64) / one.temperature, axis=1)
            for one, (_, logits) in zip(members, parts, strict=True)
        )
        logits = np.log(np.maximum(mean, TINY)) + offsets
        yield parts[0][0], logits.astype(np.float32)
