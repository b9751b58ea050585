"""Which graphs of an experiment are at hand, and their cards."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

from h2gcn.exceptions import H2GCNWarning
from h2gcn.experiments.definition import Experiment, Protocol
from h2gcn.experiments.running.graphs import MissingData, has_products, open_graph
from h2gcn.homophily import compatibility_matrix, graph_card

__all__ = ["AtHand", "card_of", "look", "with_the_graphs_there"]


@dataclass
class AtHand:
    """What can be run of an experiment.

    Parameters
    ----------
    columns
        Those whose graphs are there, in the order to run them.
    cards
        Of the first graph of each.
    missing
        Why the others are not run.
    warnings
        What the readers warned of.
    """

    columns: list[str] = field(default_factory=list)
    cards: dict[str, Any] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def with_the_graphs_there(experiment: Experiment, protocol: Protocol) -> Experiment:
    """Return the experiment on the graphs that the data root has.

    The authors' syn-cora where all of its graphs are there, else ours; the features of
    ogbn-products for syn-products where they are there, else Gaussian ones.
    """
    if experiment.synthetic == "syn-products" and has_products():
        return replace(experiment, synthetic="syn-products-ogb")
    if experiment.synthetic != "syn-cora":
        return experiment
    try:
        for column in experiment.shown(protocol):
            for name, _ in experiment.units(column, protocol):
                open_graph(name)
    except MissingData:
        return replace(experiment, synthetic="syn-cora-own")
    return experiment


def look(
    experiment: Experiment, protocol: Protocol, left_out: Collection[str] = ()
) -> AtHand:
    """Look which columns of an experiment can be run.

    Graphs that are `left_out` are not opened, which may mean to download them.
    """
    found, shown = AtHand(), experiment.shown(protocol)
    for column in shown:
        name = experiment.units(column, protocol)[0][0]
        if name in left_out:
            continue
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", H2GCNWarning)
            card, reason = card_of(name)
        found.warnings += [str(warning.message) for warning in said]
        if card is None:
            found.missing.append(reason)
        else:
            found.columns.append(column)
            found.cards[name] = card
    left = [column for column in experiment.columns if column not in shown]
    if left:
        reason = f"not part of the {protocol.name} protocol"
        found.missing.append(f"{', '.join(left)}: {reason}")
    return found


def card_of(name: str) -> tuple[dict[str, Any] | None, str]:
    """Return a graph's card with its compatibility matrix, or why there is none."""
    try:
        graph = open_graph(name)
    except MissingData as error:
        return None, str(error)
    card = dict(graph_card(graph))
    card["class_names"] = [str(label) for label in graph.classes]
    # A class without neighbours has a row without values, which JSON cannot hold.
    card["compatibility"] = [
        [None if value != value else round(float(value), 4) for value in row]
        for row in compatibility_matrix(graph)
    ]
    return card, ""
