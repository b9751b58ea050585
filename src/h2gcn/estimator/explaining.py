"""Why a node is said to be of a class: an exact sum, or what changes without a part.

**A sum where there is one.** A module that is linear from some stage on says its logits
as an exact sum (`NodeModule.decompose`), and how far down it goes: blocks, paths of
rings, single neighbours, single columns. Nothing is approximated, and nothing masked.

**Else what changes when a part is left out**, and it is said so: in place of the part
stands what the average node of the graph has, or nothing. Such changes are no sum.
So it is for "auto" as a whole, whose answer is the logarithm of a mean of
probabilities; the sums of its members stand beside it.

**Over all nodes**, what matters is told by permutation, on nodes that training did not
see: what the score and the log-loss lose where a column, a block or the place in the
graph is another node's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import shortest_path
from torch import Tensor

from h2gcn._validation import nearest
from h2gcn.estimator.automatic import TINY, Answering
from h2gcn.estimator.inputs import (
    align_features,
    build_input,
    feature_builder,
    match_labels,
)
from h2gcn.estimator.operators import build_operators, plan_operators
from h2gcn.estimator.parameters import prediction_options
from h2gcn.estimator.prediction import join_blocks, logits_in_blocks
from h2gcn.exceptions import H2GCNWarning, InputError, short_repr
from h2gcn.features import FeatureTable, Input, block_group, describe_block
from h2gcn.graph import CSR, Graph
from h2gcn.models import Contribution, Decomposition, find_model
from h2gcn.sparse import NO_GRAPH, LinearMap, MappedFeatures, Operator, Propagation
from h2gcn.training import (
    NodeModule,
    Subgraph,
    is_small,
    log_loss,
    receptive_field,
    score,
    softmax,
)

__all__ = [
    "Explanation",
    "Importance",
    "ImportanceRow",
    "MemberReasons",
    "Term",
    "explain_node",
    "find_node",
    "measure_importance",
    "together",
]

Numbers = NDArray[np.float64]

LEFT_OUT = (
    "not a sum: what changes when a part is left out, and has what the average node "
    "of the graph has in its place"
)
OF_AUTO = (
    "not a sum: the answer is the logarithm of the members' mean probability, so this "
    "is what changes when a part is left out of all of them; each member's own reasons "
    "stand beside it"
)
WORK = 2_000_000
"""Rows that are computed at most to leave out one column after the other."""
COLUMNS = 100
"""Columns of a node that are left out one by one, at most."""


@dataclass(frozen=True)
class Term:
    """A part of an answer, and what it adds to it.

    Parameters
    ----------
    name
        In words: a block, a path of rings, a column, or the id of a node.
    value
        What it adds for the class that is asked about.
    values
        The same for each class, in the order of `Explanation.classes`.
    group
        The larger part that it belongs to: "own features", "ring 1", "labels" …
    columns, nodes
        What its single columns, and single nodes, add: each of the two sums to the
        whole, where there are any. Largest first.
    probability
        By how much the probability of the class is larger for it, where that is known.
    """

    name: str
    value: float
    values: tuple[float, ...]
    group: str = ""
    columns: tuple[Term, ...] = ()
    nodes: tuple[Term, ...] = ()
    probability: float | None = None

    def to_json(self, top: int | None = None) -> dict[str, Any]:
        """Return it as what JSON can hold, of columns and nodes the `top` largest."""
        return {
            "name": self.name,
            "group": self.group,
            "value": self.value,
            "values": list(self.values),
            "probability": self.probability,
            "columns": _largest(self.columns, top),
            "nodes": _largest(self.nodes, top),
        }


def _largest(terms: Sequence[Term], top: int | None) -> list[dict[str, Any]]:
    """Return the largest terms, and what all others add together."""
    shown = list(terms if top is None else terms[:top])
    if len(shown) < len(terms):
        shown.append(together(terms[len(shown) :]))
    return [{"name": t.name, "value": t.value, "values": [*t.values]} for t in shown]


def together(terms: Sequence[Term]) -> Term:
    """Return several terms as one."""
    values = np.sum([term.values for term in terms], axis=0)
    value = float(sum(term.value for term in terms))
    name = "1 other" if len(terms) == 1 else f"{len(terms):,} others"
    return Term(name, value, tuple(values.tolist()))


def summed(terms: Sequence[Term]) -> tuple[Term, ...]:
    """Return terms of one name as one, largest first."""
    named: dict[tuple[str, str], list[Term]] = {}
    for term in terms:
        named.setdefault((term.group, term.name), []).append(term)
    found = [
        replace(together(same), name=name, group=group)
        for (group, name), same in named.items()
    ]
    return tuple(sorted(found, key=lambda term: -abs(term.value)))


@dataclass(frozen=True)
class MemberReasons:
    """The reasons of a member of "auto".

    Parameters
    ----------
    name, weight
        The member, and the weight of its probabilities in the mean.
    explanation
        Its own. Its probabilities, which the mean is of, are by the temperature that
        it has as a member.
    """

    name: str
    weight: float
    explanation: Explanation


@dataclass(frozen=True)
class Explanation:
    """Why a model says of a node what it says.

    Parameters
    ----------
    graph, model
        Their names.
    node, node_id
        The node, by its index and by its id.
    label, said
        The class that is explained, and the one that the model says.
    classes
        All of them, as texts.
    exact
        Whether the terms sum to `whole`, to 1e-5.
    of
        What the terms are of: the "logit" of the class, the "share" whose logarithm it
        is, or the "log-odds", the logit less that of the other of two classes, where
        one of them always has the logit 0.
    how
        In a sentence how far it is exact, or what the terms are instead.
    terms
        The parts.
    logits, probabilities
        Of each class; probabilities are after the calibration.
    temperature
        By which logits were divided for them.
    members
        Of "auto": the reasons of those that answer.
    notes
        What else must be known, such as what was left out for its length.
    """

    graph: str
    model: str
    node: int
    node_id: str
    label: str
    said: str
    classes: tuple[str, ...]
    exact: bool
    of: str
    how: str
    terms: tuple[Term, ...]
    logits: tuple[float, ...]
    probabilities: tuple[float, ...]
    temperature: float
    members: tuple[MemberReasons, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def logit(self) -> float:
        """Of the class that is explained."""
        return self.logits[self.classes.index(self.label)]

    @property
    def whole(self) -> float:
        """What the terms of a sum that is exact are together."""
        if self.of == "share":
            return float(np.exp(self.logit))
        return 2 * self.logit - sum(self.logits) if self.of == ODDS else self.logit

    @property
    def probability(self) -> float:
        """Of the class that is explained."""
        return self.probabilities[self.classes.index(self.label)]

    @property
    def groups(self) -> tuple[Term, ...]:
        """The terms of each group as one, largest first.

        What changes without a part is no sum: such terms stay as they are.
        """
        if not self.exact:
            return tuple(sorted(self.terms, key=lambda term: -abs(term.value)))
        members: dict[str, list[Term]] = {}
        for term in self.terms:
            members.setdefault(term.group, []).append(term)
        found = []
        for name, terms in members.items():
            columns = [column for term in terms for column in term.columns]
            nodes = summed([node for term in terms for node in term.nodes])
            whole = together(terms)
            found.append(
                replace(
                    whole,
                    name=terms[0].name if len(terms) == 1 else name,
                    group=name,
                    columns=tuple(sorted(columns, key=lambda one: -abs(one.value))),
                    nodes=nodes,
                )
            )
        return tuple(sorted(found, key=lambda term: -abs(term.value)))

    @property
    def neighbours(self) -> tuple[Term, ...]:
        """What single nodes add over all terms together, largest first."""
        nodes = [node for term in self.terms for node in term.nodes]
        return summed([node for node in nodes if node.group != REST])

    def to_json(self, top: int | None = None) -> dict[str, Any]:
        """Return all as what JSON can hold.

        Parameters
        ----------
        top
            Of each term's columns and nodes the so many largest, and the others
            together; None is all.
        """
        return {
            "graph": self.graph,
            "model": self.model,
            "node": self.node,
            "id": self.node_id,
            "label": self.label,
            "said": self.said,
            "classes": list(self.classes),
            "exact": self.exact,
            "of": self.of,
            "how": self.how,
            "logit": self.logit,
            "probability": self.probability,
            "logits": list(self.logits),
            "probabilities": list(self.probabilities),
            "temperature": self.temperature,
            "groups": _largest(self.groups, None),
            "terms": [term.to_json(top) for term in self.terms],
            "neighbours": _largest(self.neighbours, top),
            "members": [
                {
                    "name": one.name,
                    "weight": one.weight,
                    "explanation": one.explanation.to_json(top),
                }
                for one in self.members
            ],
            "notes": list(self.notes),
        }

    def text(self, top: int = 5) -> str:
        """Return all in lines of plain text.

        Parameters
        ----------
        top
            How many columns and nodes of each term are shown.
        """
        lines = [
            f"node {self.node_id} of {self.graph}: {self.label}, "
            f"{100 * self.probability:.1f} % by {self.model} "
            f"(logit {self.logit:.3f}); {self.how}"
        ]
        for term in self.groups:
            lines.append(f"{term.value:+9.3f}  {term.name}")
            for parts in (term.columns, term.nodes):
                lines += [f"{one.value:+13.3f}  {one.name}" for one in parts[:top]]
        for one in self.members:
            inner = one.explanation.text(top).splitlines()
            lines.append(f"{one.name}, weight {one.weight:.2f}:")
            lines += [f"  {line}" for line in inner]
        return "\n".join([*lines, *self.notes])

    def __str__(self) -> str:
        return self.text()


REST = "rest"
"""The group of what a term has beside its nodes."""
ODDS = "log-odds"
"""What is explained where one of two classes always has the logit 0."""


def find_node(graph: Graph, name: str) -> int:
    """Return the index of a node by the text of its id."""
    ids = list(map(str, graph.node_ids.tolist()))
    if ids.count(name) > 1:
        raise InputError(f"{graph.name}: {ids.count(name)} nodes have the id {name}")
    if name not in ids:
        hint = nearest(name, ids) or f" Its ids are such as {short_repr(ids[0])}."
        raise InputError(f"{graph.name}: there is no node {short_repr(name)}.{hint}")
    return ids.index(name)


# ------------------------------------------------------------- what a model is asked


@dataclass(eq=False)
class Asked:
    """A fitted classifier, not "auto", and all that its module is given of a graph."""

    classifier: Any
    graph: Graph
    x: Input = field(init=False)
    operators: tuple[LinearMap, ...] = field(init=False)

    def __post_init__(self) -> None:
        fitted = self.classifier
        self.x = build_input(
            self.graph,
            fitted.seeds_,
            fitted.scaler_,
            fitted.feature_names_in_,
            fitted.device_,
            fitted.schema_,
            self.drawn,
            recount=self.seeds,
        )
        self.operators = self.operators_of(self.graph)
        self.module.eval()

    @property
    def drawn(self) -> tuple[int | None, int]:
        """At most how many of a ring it draws, None for all, and by which seed."""
        return self.classifier.params_["ring_cap"], self.classifier.seed_

    @property
    def module(self) -> NodeModule:
        """The trained module."""
        module: NodeModule = self.classifier.module_
        return module

    def operators_of(self, graph: Graph) -> tuple[LinearMap, ...]:
        """Return the operators of this graph, or of one of the same nodes."""
        fitted = self.classifier
        rings = prediction_options(fitted.params_, fitted.seed_, self.module)
        plan = plan_operators(
            graph,
            fitted.params_["model"],
            fitted.device_,
            rings,
            given=fitted.params_["options"],
        )
        return build_operators(plan)

    def around(self, node: int) -> Subgraph:
        """Return what the logits of a node depend on: its receptive field, or all."""
        nodes, reach = np.array([node]), self.module.receptive_field
        device = self.classifier.device_
        if reach is not None:
            return receptive_field(self.x, self.operators, nodes, reach, device)
        graph = Propagation(self.operators, torch.from_numpy(nodes).to(device))
        return Subgraph(self.x, graph, nodes, np.arange(self.graph.n_nodes))

    def logits(
        self,
        nodes: NDArray[np.int64],
        x: Input | None = None,
        operators: Sequence[LinearMap] | None = None,
    ) -> Numbers:
        """Return the logits of some nodes, [m, C], where it sees something else."""
        found = logits_in_blocks(
            self.module,
            self.x if x is None else x,
            self.operators if operators is None else operators,
            nodes,
            self.classifier.params_["batch_size"],
            self.classifier.device_,
            small=is_small(self.graph),
        )
        n_classes = len(self.classifier.classes_)
        return join_blocks(found, len(nodes), n_classes).astype(np.float64)

    @cached_property
    def seeds(self) -> bool:
        """Whether it takes a table and the training labels themselves beside it."""
        return find_model(self.classifier.params_["model"]).labels

    @cached_property
    def takes_labels(self) -> bool:
        """Whether it takes nothing but labels."""
        schema = self.classifier.schema_
        if schema is None:
            return self.classifier.seeds_ is not None
        return self.seeds and "ego" not in schema.blocks

    @cached_property
    def is_table(self) -> bool:
        """Whether it sees a node's row of a table alone, and no graph."""
        row = self.module.receptive_field == 0 and not self.operators
        return isinstance(self.x, FeatureTable) and row

    def input_with(self, graph: Graph) -> Input:
        """Return the input where labels are counted along the edges of a graph."""
        schema = self.classifier.schema_
        if not self.seeds or not schema.has_labels:
            return self.x
        assert isinstance(self.x, FeatureTable)
        rows = self.scaled_rows(np.arange(graph.n_nodes))
        known, classes = (each.cpu().numpy() for each in self.x.labels.max(dim=1))
        labels = np.where(known > 0, classes, -1)
        builder = feature_builder(graph, self.drawn)
        return builder.table(schema, rows, labels, device=self.x.device, recount=True)

    def scaled_rows(self, nodes: NDArray[np.int64]) -> NDArray[np.float32] | CSR:
        """Return the features of some nodes as the model takes them, [m, F]."""
        fitted = self.classifier
        rows = align_features(self.graph, fitted.feature_names_in_)[nodes]
        if isinstance(rows, np.ndarray):
            return np.asarray(fitted.scaler_(np.asarray(rows)))
        return CSR(fitted.scaler_(CSR(rows)))


def _mean_of(x: Input | Operator) -> Tensor:
    """Return the mean of all rows, [F]."""
    if isinstance(x, Tensor):
        return x.mean(dim=0)
    if isinstance(x, MappedFeatures):
        total = sum(block.sum(dim=0) for _, block in x.blocks())
        assert isinstance(total, Tensor)
        return total / x.shape[0]
    assert isinstance(x, Operator)
    mean = np.asarray(x.scipy.mean(axis=0), dtype=np.float32).reshape(-1)
    return torch.from_numpy(mean).to(x.device)


def features_of(x: Input) -> Tensor | Operator | MappedFeatures:
    """Return the features that go through operators, of whichever input."""
    return x.blocks["ego"] if isinstance(x, FeatureTable) else x


def with_features(x: Input, features: Tensor | Operator) -> Input:
    """Return an input with other features."""
    if isinstance(x, FeatureTable):
        return replace(x, blocks={**x.blocks, "ego": features})
    return features


def labels_of(x: Input) -> Tensor:
    """Return the known labels of a model that takes them, one-hot, [n, C]."""
    if isinstance(x, FeatureTable):
        return x.labels
    assert isinstance(x, Tensor)
    return x


def with_labels(x: Input, labels: Tensor) -> Input:
    """Return an input with other labels; those in columns stay as they are."""
    return replace(x, labels=labels) if isinstance(x, FeatureTable) else labels


def rows_of(x: Tensor | Operator | MappedFeatures, index: NDArray[np.int64]) -> Any:
    """Return some rows in the form that the whole has."""
    if isinstance(x, Tensor):
        return x[torch.from_numpy(index).to(x.device)]
    return x.rows(index)


# ------------------------------------------------------------- one node


def explain_node(
    classifier: Any, graph: Graph, node: int, label: int | None
) -> Explanation:
    """Return why a fitted classifier says of a node what it says.

    Parameters
    ----------
    classifier
        A fitted `NodeClassifier`.
    graph
        The graph of `fit`, or another.
    label
        The index of the class that is explained; None is the one that is predicted.
    """
    logits = classifier.predict_logits(graph, [node])[0]
    index = int(logits.argmax()) if label is None else label
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore", H2GCNWarning)  # the prediction has said it
        if classifier.members_:
            return _of_auto(classifier, graph, node, index, logits)
        asked = Asked(classifier, graph)
        around = asked.around(node)
        found = asked.module.decompose(around.x, around.graph)
        if found is None:
            left_out = _LeftOut(asked, around)
            terms = left_out.terms(index)
            told: dict[str, Any] = {"exact": False, "of": "logit", "how": LEFT_OUT}
            told["notes"] = left_out.notes
        else:
            odds = _as_odds(found)
            of = found.scale if odds is None else ODDS
            terms = _terms(asked, around, index, odds or found)
            told = {"exact": True, "of": of, "how": found.how}
    return _explanation(classifier, graph, node, index, logits, terms, **told)


def _explanation(
    classifier: Any,
    graph: Graph,
    node: int,
    index: int,
    logits: NDArray[np.float32],
    terms: tuple[Term, ...],
    **told: Any,
) -> Explanation:
    classes = tuple(map(str, classifier.classes_.tolist()))
    fitted = classifier.calibration_
    return Explanation(
        graph=graph.name,
        model=classifier.params_["model"],
        node=node,
        node_id=str(graph.node_ids[node]),
        label=classes[index],
        said=classes[int(logits.argmax())],
        classes=classes,
        terms=terms,
        logits=tuple(logits.astype(np.float64).tolist()),
        probabilities=tuple(
            classifier.probabilities_of(logits[None, :])[0].astype(float).tolist()
        ),
        temperature=1.0 if fitted is None else float(fitted.temperature),
        **told,
    )


def _as_odds(found: Decomposition) -> Decomposition | None:
    """Return the sum for the log-odds where one of two classes has none of its own.

    What makes one of two classes likelier makes the other less likely, and fits that
    know only two give all weights to one of them.
    """
    if found.scale != "logit" or not found.contributions:
        return None
    used = np.any([part.values for part in found.contributions], axis=0)
    if len(used) != 2 or used.sum() != 1:
        return None
    signs = np.where(used, 1.0, -1.0)
    parts = (
        replace(part, weight=part.weight[:, used] * signs)
        for part in found.contributions
    )
    return replace(found, contributions=tuple(parts))


def _terms(
    asked: Asked, around: Subgraph, index: int, found: Decomposition
) -> tuple[Term, ...]:
    """Return the parts of an exact sum with their names."""
    fitted, graph, node = asked.classifier, asked.graph, int(around.nodes[0])
    schema = fitted.schema_
    of_block: dict[str, list[str]] = {}
    if schema is not None:
        names, first = schema.column_names(graph.node_ids), 0
        for block, width in zip(schema.blocks, schema.widths, strict=True):
            of_block[block] = names[first : first + width]
            first += width
    terms = []
    for part in _by_distance(graph, around, found.contributions):
        columns: tuple[Term, ...] = ()
        if part.has_columns:
            names = of_block.get(part.block, list(fitted.feature_names_in_))
            columns = _single(names, part.by_column, index)
        by_node = _by_node(asked, around, part)
        near: tuple[Term, ...] = ()
        if by_node is not None and by_node[0].tolist() != [node]:
            near = _of_nodes(graph, *by_node, part.values, index)
        terms.append(
            Term(
                part.name or describe_block(part.block),
                float(part.values[index]),
                tuple(part.values.tolist()),
                block_group(part.block) if part.block else part.name,
                columns,
                near,
            )
        )
    return tuple(terms)


def _by_distance(
    graph: Graph, around: Subgraph, parts: Sequence[Contribution]
) -> Iterator[Contribution]:
    """Split contributions without a name by how far away their nodes are."""
    for part in parts:
        if part.name or part.block:
            yield part
            continue
        assert around.members is not None
        adj = graph.adj[around.members][:, around.members]
        start = np.searchsorted(around.members, around.nodes)
        hops = shortest_path(adj, unweighted=True, indices=start)
        hops = hops.reshape(-1)[part.nodes]
        for hop in np.unique(hops).astype(int):
            name = f"ring {hop}" if hop else "own features"
            yield part.select(hops == hop, name)


def _single(
    names: Sequence[str], values: Numbers | None, index: int
) -> tuple[Term, ...]:
    """Return terms with names, largest first; what adds nothing is left out."""
    if values is None:
        return ()
    some = np.flatnonzero(values.any(axis=1))
    order = some[np.argsort(-np.abs(values[some, index]), kind="stable")]
    return tuple(
        Term(names[at], float(values[at, index]), tuple(values[at].tolist()))
        for at in order.tolist()
    )


def _of_nodes(
    graph: Graph,
    nodes: NDArray[np.int64],
    by_node: Numbers,
    whole: Numbers,
    index: int,
) -> tuple[Term, ...]:
    """Return what single nodes add, and what none of them does."""
    names = list(map(str, graph.node_ids[nodes].tolist()))
    terms = _single(names, by_node, index)
    rest = whole - by_node.sum(axis=0)
    large = max(1.0, np.abs(by_node).max(initial=0), np.abs(whole).max(initial=0))
    if np.abs(rest).max(initial=0) > 1e-6 * large:  # more than rounding
        named = "of no single node: empty, or a number of nodes"
        terms += (Term(named, float(rest[index]), tuple(rest.tolist()), group=REST),)
    return terms


def _by_node(
    asked: Asked, around: Subgraph, part: Contribution
) -> tuple[NDArray[np.int64], Numbers] | None:
    """Split a contribution by node; a linear one of a block by those it is made of."""
    assert around.members is not None
    if part.nodes is not None:
        return around.members[part.nodes], part.by_node
    if part.mean is None or part.block == "ego":
        return None
    builder = feature_builder(asked.graph, asked.drawn)
    members = builder.members(part.block, int(around.nodes[0]))
    if members is None:
        return None
    assert isinstance(asked.x, FeatureTable)
    nodes, weights = members
    if part.block.startswith("labels"):
        known = asked.x.labels[torch.from_numpy(nodes)].cpu().numpy().astype(np.float64)
        heard = weights[:, None] * known
        seen = heard.any(axis=1)
        nodes, heard = nodes[seen], heard[seen] / max(heard.sum(), 1)
        classes = heard.shape[1]
        against = heard.sum(axis=1)[:, None] * part.mean[:classes]
        return nodes, (heard - against) @ part.weight[:classes]
    rows = asked.scaled_rows(nodes).astype(np.float64)
    return nodes, weights[:, None] * (rows @ part.weight - part.mean @ part.weight)


# ------------------------------------------------------------- parts left out


EDGES = "its edges"


class _LeftOut:
    """What a classifier predicts of a node where a part of its input is left out."""

    def __init__(self, asked: Asked, around: Subgraph) -> None:
        self.asked, self.node = asked, int(around.nodes[0])
        self.x, self._graph = around.x, around.graph
        self.notes: tuple[str, ...] = ()
        adj = asked.graph.adj
        first = adj.indices[adj.indptr[self.node] : adj.indptr[self.node + 1]]
        second = np.unique(CSR(adj[first]).indices)
        beyond = np.setdiff1d(second, np.append(first, self.node))
        self._has_edges = len(first) > 0
        assert around.members is not None
        self._place, *rings = (
            np.flatnonzero(np.isin(around.members, nodes))
            for nodes in (around.nodes, first, beyond)
        )
        self.rings = dict(zip(("ring 1", "ring 2"), rings, strict=True))
        self.full = self._ask(self.x)

    def _ask(self, x: Input) -> Numbers:
        """Return the logits of the node, [C]."""
        logits: Tensor = self.asked.module(x, self._graph)
        return logits[0].cpu().numpy().astype(np.float64)

    @cached_property
    def parts(self) -> dict[str, str]:
        """What can be left out, by its name, with the group that it belongs to."""
        fitted = self.asked.classifier
        found: dict[str, str] = {}
        if self.asked.is_table:
            found |= {
                describe_block(block): block_group(block)
                for block in fitted.schema_.blocks
            }
        elif self.asked.takes_labels:
            found["labels"] = "labels"
        else:
            found["own features"] = "own features"
            if self.asked.module.receptive_field != 0:
                found |= {name: name for name, ring in self.rings.items() if len(ring)}
        if isinstance(self.x, FeatureTable) and not self.asked.is_table:
            found["labels"] = "labels"
        of_graph = self.asked.module.receptive_field != 0
        if self.asked.is_table:
            of_graph = any(block != "ego" for block in fitted.schema_.blocks)
        if self._has_edges and of_graph:
            found[EDGES] = EDGES
        return found

    def without(self, name: str) -> Numbers:
        """Return the logits where a part, or a group of parts, is left out, [C]."""
        if name == EDGES:
            return self._without_edges()
        if self.asked.is_table:
            fitted = self.asked.classifier
            blocks = [
                block
                for block in fitted.schema_.blocks
                if name in (describe_block(block), block_group(block))
            ]
            return self._ask(self._averaged(blocks)) if blocks else self.full
        if name == "labels":
            return self._without_labels()
        if name not in self.parts:
            return self.full
        rows = self._place if name == "own features" else self.rings[name]
        return self._ask(self._replaced(rows))

    def _averaged(self, blocks: Sequence[str]) -> FeatureTable:
        """Return the node's row with some blocks as the average node has them."""
        whole = self.asked.x
        assert isinstance(whole, FeatureTable)
        assert isinstance(self.x, FeatureTable)
        means = {name: _mean_of(whole.blocks[name])[None, :] for name in blocks}
        return replace(self.x, blocks={**self.x.blocks, **means}, counters={})

    @cached_property
    def _mean(self) -> Tensor:
        return _mean_of(features_of(self.asked.x))

    def _replaced(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64] | None = None
    ) -> Input:
        """Return the input with some rows, or a few of their columns, of the mean."""
        features = features_of(self.x)
        some = np.arange(features.shape[1]) if columns is None else columns
        if isinstance(features, Operator):
            part = features.scipy[rows][:, some].toarray()
            change = self._mean.cpu().numpy()[some] - part
            at = np.repeat(rows, len(some)), np.tile(some, len(rows))
            step = sp.csr_array((change.reshape(-1), at), shape=features.shape)
            changed = CSR(features.scipy + step)
            return with_features(self.x, Operator(changed, device=features.device))
        if isinstance(features, MappedFeatures):
            features = features.rows(np.arange(features.shape[0]))
        new = features.clone()
        new[torch.from_numpy(rows)[:, None], torch.from_numpy(some)] = self._mean[some]
        return with_features(self.x, new)

    def _without_labels(self) -> Numbers:
        """Return the logits where no label within two steps is known."""
        if isinstance(self.x, FeatureTable) and not self.asked.seeds:
            near = [block for block in self.x.blocks if block.startswith("labels")]
            empty = {
                name: torch.zeros_like(self.x.blocks[name])  # type: ignore[arg-type]
                for name in near
            }
            return self._ask(replace(self.x, blocks={**self.x.blocks, **empty}))
        if not self.asked.takes_labels and not self.asked.seeds:
            return self.full
        changed = labels_of(self.x).clone()
        for ring in (self._place, *self.rings.values()):
            changed[torch.from_numpy(ring)] = 0
        return self._ask(with_labels(self.x, changed))

    def _without_edges(self) -> Numbers:
        """Return the logits as if the node had no edge."""
        if self.asked.is_table:
            # An empty neighbourhood is zero in every block; loops keep the node itself.
            assert isinstance(self.x, FeatureTable)
            own = self.asked.scaled_rows(np.array([self.node]))
            dense = own if isinstance(own, np.ndarray) else own.toarray()
            mine = torch.from_numpy(dense.astype(np.float32)).to(self.x.device)
            blocks = {
                name: mine
                if name == "ego" or name.startswith("loops")
                else torch.zeros(tuple(block.shape), device=self.x.device)
                for name, block in self.x.blocks.items()
            }
            return self._ask(replace(self.x, blocks=blocks, counters={}))
        if self.asked.module.receptive_field == 0:
            return self.full
        graph, directed = self.asked.graph, self.asked.graph.directed
        if directed is not None:
            directed = _without(directed, self.node)
        adj = _without(graph.adj, self.node)
        alone = Graph(x=graph.x, adj=adj, directed=directed)
        at, operators = np.array([self.node]), self.asked.operators_of(alone)
        logits = self.asked.logits(at, self.asked.input_with(alone), operators)
        return logits.reshape(-1)

    def terms(self, index: int) -> tuple[Term, ...]:
        """Return what each part adds, for the class with that index."""
        terms = []
        for name, group in self.parts.items():
            columns = self._columns(index) if name == "own features" else ()
            term = self._change(name, group, self.without(name), index)
            terms.append(replace(term, columns=columns))
        return tuple(terms)

    def _change(self, name: str, group: str, without: Numbers, index: int) -> Term:
        shares = self.asked.classifier.probabilities_of
        return _change(name, group, self.full, without, index, shares)

    def _columns(self, index: int) -> tuple[Term, ...]:
        """Return what changes when one column after the other is left out."""
        if self.asked.is_table:
            return ()
        fitted, features = self.asked.classifier, features_of(self.x)
        row = rows_of(features, self._place)
        dense = (
            row if isinstance(row, Tensor) else torch.from_numpy(row.scipy.toarray())
        )
        off = (dense[0].cpu() - self._mean.cpu()).abs().numpy()
        groups = grouped(fitted.feature_names_in_)
        sizes = {name: float(off[of].max()) for name, of in groups.items()}
        order = [n for n in sorted(sizes, key=lambda n: -sizes[n]) if sizes[n] > 0]
        most = max(1, min(COLUMNS, WORK // max(features.shape[0], 1)))
        if len(order) > most:
            self.notes = (
                f"{most:,} of {len(order):,} columns were left out one by one: those "
                "that are farthest from the average node's",
            )
        terms = []
        for name in order[:most]:
            without = self._ask(self._replaced(self._place, groups[name]))
            terms.append(self._change(name, "", without, index))
        return tuple(sorted(terms, key=lambda term: -abs(term.value)))


def _without(matrix: CSR, node: int) -> CSR:
    """Return a matrix without the entries of a node's row and column."""
    kept = np.ones(matrix.shape[0], dtype=np.float32)
    kept[node] = 0
    others = sp.diags_array(kept)
    alone = CSR(others @ matrix @ others)
    alone.eliminate_zeros()
    return alone


def _change(
    name: str,
    group: str,
    full: Numbers,
    without: Numbers,
    index: int,
    shares: Callable[[NDArray[np.float32]], NDArray[np.float32]],
) -> Term:
    """Return what a part adds: the answer with it, less the one without."""
    both = shares(np.stack([full, without]).astype(np.float32))[:, index]
    values = full - without
    return Term(
        name,
        float(values[index]),
        tuple(values.tolist()),
        group,
        probability=float(both[0]) - float(both[1]),
    )


def grouped(names: Sequence[str]) -> dict[str, NDArray[np.int64]]:
    """Return the columns by name, those of one category together.

    Examples
    --------
    >>> [*grouped(("age", "plan=gold", "plan=basic"))]
    ['age', 'plan']
    """
    found: dict[str, list[int]] = {}
    for column, name in enumerate(names):
        found.setdefault(name.partition("=")[0], []).append(column)
    return {name: np.array(columns) for name, columns in found.items()}


# ------------------------------------------------------------- auto


def _of_auto(
    classifier: Any, graph: Graph, node: int, index: int, logits: NDArray[np.float32]
) -> Explanation:
    """Return the reasons of all members, and what changes for all of them together."""
    able: list[tuple[Answering, _LeftOut]] = []
    reasons = []
    for one in classifier.members_:
        try:
            asked = Asked(one.classifier, graph)
            left_out = _LeftOut(asked, asked.around(node))
        except InputError:  # it can only answer on the graph of fit
            continue
        able.append((one, left_out))
        found = explain_node(one.classifier, graph, node, index)
        cooled = softmax(np.array(found.logits) / one.temperature)
        told = {"probabilities": tuple(cooled.tolist()), "temperature": one.temperature}
        reasons.append(MemberReasons(one.name, one.weight, replace(found, **told)))

    def answer(asked: Callable[[_LeftOut], Numbers]) -> Numbers:
        parts = [asked(left_out)[None, :] for _, left_out in able]
        members = [one for one, _ in able]
        return combined(members, parts, classifier.offsets_).reshape(-1)

    groups = dict.fromkeys(
        group for _, left_out in able for group in left_out.parts.values()
    )
    if groups.pop(EDGES, "") is None:
        groups[EDGES] = None  # last
    full = answer(lambda left_out: left_out.full)
    terms = tuple(
        _change(
            name,
            name,
            full,
            answer(lambda left_out, name=name: left_out.without(name)),  # type: ignore[misc]
            index,
            classifier.probabilities_of,
        )
        for name in groups
    )
    return _explanation(
        classifier,
        graph,
        node,
        index,
        logits,
        terms,
        exact=False,
        of="logit",
        how=OF_AUTO,
        members=tuple(reasons),
    )


def combined(
    members: Sequence[Answering], parts: Sequence[Numbers], offsets: Numbers
) -> Numbers:
    """Return the logits of "auto" of its members' logits, [m, C] each."""
    whole = sum(one.weight for one in members)
    mean = sum(
        one.weight / whole * softmax(z / one.temperature)
        for one, z in zip(members, parts, strict=True)
    )
    return np.asarray(np.log(np.maximum(mean, TINY)) + offsets)


# ----------------------------------------------------------------------- over all nodes


@dataclass(frozen=True)
class ImportanceRow:
    """What a part is worth: what is lost where it is another node's.

    Parameters
    ----------
    name
        In words.
    kind
        "block", "column" or "graph".
    drop, drop_error
        By how much the metric falls in the mean, and the standard error of that over
        the repeats; None where it has no value.
    log_loss, log_loss_error
        By how much the log-loss rises.
    """

    name: str
    kind: str
    drop: float | None
    drop_error: float | None
    log_loss: float
    log_loss_error: float | None

    def to_json(self) -> dict[str, Any]:
        """Return the fields by name."""
        return dict(vars(self))


@dataclass(frozen=True)
class Importance:
    """Which blocks and columns matter, by permutation on held-out nodes.

    Parameters
    ----------
    graph, model, metric
        Their names.
    score, log_loss
        With nothing permuted; the score is None where it has no value.
    nodes, repeats
        How many nodes were scored, and how often each part was permuted.
    rows
        The parts, those first that the log-loss needs most.
    notes
        What else must be known, such as columns that were not tried.
    """

    graph: str
    model: str
    metric: str
    score: float | None
    log_loss: float
    nodes: int
    repeats: int
    rows: tuple[ImportanceRow, ...]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return all as what JSON can hold."""
        return vars(self) | {
            "rows": [row.to_json() for row in self.rows],
            "notes": list(self.notes),
        }


def measure_importance(
    classifier: Any,
    graph: Graph,
    nodes: NDArray[np.int64],
    *,
    repeats: int,
    columns: int,
    seed: int,
    on_step: Callable[[int, int], None] | None = None,
) -> Importance:
    """Return which parts matter, by permutation.

    Parameters
    ----------
    classifier
        A fitted `NodeClassifier`.
    graph
        The graph of `fit`, or another.
    nodes
        Labeled nodes that training did not see, [m].
    repeats
        How often each part is permuted.
    columns
        Maximal number of single columns that are tried.
    on_step
        Called after each permutation with how many are done, and of how many.
    """
    y = match_labels(graph, nodes, classifier.classes_)
    offsets = classifier.offsets_
    members = [
        one or Answering("", 1.0, 1.0, classifier)
        for one in (classifier.members_ or (None,))
    ]
    able, shuffles = [], []
    refused: InputError | None = None
    for one in members:
        try:
            asked = Asked(one.classifier, graph)
            shuffles.append(_Shuffled(asked, nodes, bool(classifier.members_)))
            able.append(one)
        except InputError as error:
            refused = error
    if refused is not None and (not able or not classifier.members_):
        raise refused

    def answer(asked: Callable[[_Shuffled], Numbers]) -> NDArray[np.float32]:
        parts = [asked(shuffled) for shuffled in shuffles]
        if not classifier.members_:
            return parts[0].astype(np.float32)
        return combined(able, parts, offsets).astype(np.float32)

    metric = classifier.params_["metric"]

    def measured(logits: NDArray[np.float32]) -> tuple[float, float]:
        shares = classifier.probabilities_of(logits)
        return score(metric, y, logits), log_loss(y, shares)

    with torch.no_grad():
        full = answer(lambda shuffled: shuffled.full)
        base, loss = measured(full)
        units = dict.fromkeys(
            unit for shuffled in shuffles for unit in shuffled.units()
        )
        single, notes = _telling(shuffles, full, columns)
        every = [*units, *single]
        rows, done = [], 0
        for number, (name, kind) in enumerate(every):
            drops, rises = [], []
            for repeat in range(repeats):
                draw = (seed, number, repeat)
                logits = answer(
                    lambda shuffled, name=name, kind=kind, draw=draw: shuffled.logits(  # type: ignore[misc]
                        name, kind, np.random.default_rng(draw)
                    )
                )
                now, rise = measured(logits)
                drops.append(base - now)
                rises.append(rise - loss)
                done += 1
                if on_step is not None:
                    on_step(done, repeats * len(every))
            known = not np.isnan(drops).any()
            rows.append(
                ImportanceRow(
                    name,
                    kind,
                    float(np.mean(drops)) if known else None,
                    _error(drops) if known else None,
                    float(np.mean(rises)),
                    _error(rises),
                )
            )
    rows.sort(key=lambda row: -row.log_loss)
    return Importance(
        graph.name,
        classifier.params_["model"],
        metric,
        None if np.isnan(base) else base,
        loss,
        len(nodes),
        repeats,
        tuple(rows),
        notes,
    )


def _error(values: Sequence[float]) -> float | None:
    """Return the standard error of a mean; None of one value."""
    if len(values) < 2:
        return None
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


WHOLE_GRAPH = "the graph as a whole"
ALL_FEATURES = "all features"
KNOWN_LABELS = "training labels"
Unit = tuple[str, str]
"""What is permuted, and its kind."""


class _Shuffled:
    """What a classifier says of held-out nodes where parts are other nodes'.

    Of a table, rows of blocks or columns change places among the held-out nodes. Of
    features that go through a graph, a column is permuted over all nodes; for the graph
    as a whole each node keeps its features and gets the place of another. With
    `several` models, a feature is permuted in all blocks of a table together, so that
    it is in the same way for each of them.
    """

    def __init__(self, asked: Asked, nodes: NDArray[np.int64], several: bool) -> None:
        self.asked, self.nodes, self.several = asked, nodes, several
        self.x = asked.x
        if asked.is_table:
            assert isinstance(asked.x, FeatureTable)
            self.x = asked.x.rows(nodes)
        with torch.no_grad():
            self.full = self._ask(self.x, nodes)

    def _ask(self, x: Input, nodes: NDArray[np.int64]) -> Numbers:
        if self.asked.is_table:
            logits: Tensor = self.asked.module(x, NO_GRAPH)
            return logits.cpu().numpy().astype(np.float64)
        return self.asked.logits(nodes, x)

    def units(self) -> Iterator[Unit]:
        """Return what can be permuted as a whole."""
        edges = self.asked.graph.adj.nnz > 0
        if self.asked.takes_labels:
            yield KNOWN_LABELS, "block"
            yield WHOLE_GRAPH, "graph"
            return
        if self.asked.is_table:
            blocks = self.asked.classifier.schema_.blocks
            if self.several:
                yield ALL_FEATURES, "block"
                kinds = {block.partition(".")[0] for block in blocks}
                for kind, name in (
                    ("labels", KNOWN_LABELS),
                    ("degrees", describe_block("degrees")),
                    ("edges", describe_block("edges")),
                ):
                    if kind in kinds:
                        yield name, "block"
            else:
                yield from ((describe_block(block), "block") for block in blocks)
            if set(blocks) - {"ego"}:
                yield WHOLE_GRAPH, "graph"
            return
        yield ALL_FEATURES, "block"
        if isinstance(self.x, FeatureTable):
            yield KNOWN_LABELS, "block"
        if edges and self.asked.module.receptive_field != 0:
            yield WHOLE_GRAPH, "graph"

    @cached_property
    def _of_features(self) -> list[str]:
        """The blocks that have a column for each feature."""
        other = ("labels", "degrees", "edges", "adjacency")
        blocks: Sequence[str] = self.asked.classifier.schema_.blocks
        return [block for block in blocks if not block.startswith(other)]

    @cached_property
    def columns(self) -> dict[str, dict[str, NDArray[np.int64]]]:
        """Single columns of a table by name: in which block they are, and where."""
        schema = self.asked.classifier.schema_
        names = schema.column_names(self.asked.graph.node_ids)
        found: dict[str, dict[str, NDArray[np.int64]]] = {}
        first = 0
        for block, width in zip(schema.blocks, schema.widths, strict=True):
            for column in range(width):
                name = names[first + column]
                while name in found:  # a feature may be called as any other column
                    name = f"{name} ({describe_block(block)})"
                found[name] = {block: np.array([column])}
            first += width
        return found

    @cached_property
    def features(self) -> dict[str, NDArray[np.int64]]:
        """Features by name, those of one category together."""
        return grouped(self.asked.classifier.feature_names_in_)

    def logits(self, name: str, kind: str, rng: np.random.Generator) -> Numbers:
        """Return the logits of the held-out nodes with a part permuted, [m, C]."""
        if self.asked.is_table:
            return self._of_table(name, kind, rng)
        order = rng.permutation(self.asked.graph.n_nodes)
        if kind == "graph":
            return self._elsewhere(order)
        if self.asked.takes_labels and name != KNOWN_LABELS:
            return self.full
        if self.asked.takes_labels or (self.asked.seeds and name == KNOWN_LABELS):
            known = labels_of(self.x)
            seeds = np.flatnonzero(known.any(dim=1).cpu().numpy())
            changed = known.clone()
            changed[torch.from_numpy(seeds)] = known[rng.permutation(seeds)]
            return self._ask(with_labels(self.x, changed), self.nodes)
        if isinstance(self.x, FeatureTable) and name == KNOWN_LABELS:
            near = [block for block in self.x.blocks if block.startswith("labels")]
            moved = {block: rows_of(self.x.blocks[block], order) for block in near}
            elsewhere = replace(self.x, blocks={**self.x.blocks, **moved})
            return self._ask(elsewhere, self.nodes)
        features = features_of(self.x)
        if name == ALL_FEATURES:
            x = with_features(self.x, rows_of(features, order))
            return self._ask(x, self.nodes)
        if name not in self.features or isinstance(features, MappedFeatures):
            return self.full
        permuted = _permuted(features, self.features[name], order)
        return self._ask(with_features(self.x, permuted), self.nodes)

    def _elsewhere(self, order: NDArray[np.int64]) -> Numbers:
        """Return the logits where each node has the place of another in the graph."""
        if self.asked.module.receptive_field == 0 and not self.asked.takes_labels:
            return self.full
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        x = self.x
        if self.asked.seeds:
            x = with_labels(x, labels_of(x)[torch.from_numpy(order)])
        if not (self.asked.takes_labels and isinstance(x, FeatureTable)):
            x = with_features(x, rows_of(features_of(x), order))
        return self._ask(x, place[self.nodes])

    def _of_table(self, name: str, kind: str, rng: np.random.Generator) -> Numbers:
        assert isinstance(self.x, FeatureTable)
        order = rng.permutation(len(self.nodes))
        blocks = self.asked.classifier.schema_.blocks
        where: Mapping[str, NDArray[np.int64] | None]
        if kind == "graph":
            where = {block: None for block in blocks if block != "ego"}
        elif kind == "column":
            where = self._columns_of(name)
        elif name == ALL_FEATURES:
            where = dict.fromkeys(self._of_features)
        else:
            where = {
                block: None
                for block in blocks
                if name == describe_block(block)
                or (name == KNOWN_LABELS and block.startswith("labels"))
            }
        if not where:
            return self.full
        moved = {
            block: rows_of(self.x.blocks[block], order)
            if columns is None
            else _permuted(self.x.blocks[block], columns, order)
            for block, columns in where.items()
        }
        x = replace(self.x, blocks={**self.x.blocks, **moved}, counters={})
        return self._ask(x, self.nodes)

    def _columns_of(self, name: str) -> Mapping[str, NDArray[np.int64] | None]:
        """Return where a column is: a feature is in every block of features."""
        if self.several:
            return dict.fromkeys(self._of_features, self.features[name])
        return self.columns[name]


def _permuted(
    x: Tensor | Operator, columns: NDArray[np.int64], order: NDArray[np.int64]
) -> Tensor | Operator:
    """Return a matrix with some columns in another order of rows."""
    if isinstance(x, Tensor):
        changed = x.clone()
        some = torch.from_numpy(columns)
        changed[:, some] = x[torch.from_numpy(order)][:, some]
        return changed
    matrix = x.scipy
    part = CSR(matrix[:, columns])
    spread = sp.csr_array(
        (np.ones(len(columns), np.float32), (np.arange(len(columns)), columns)),
        shape=(len(columns), matrix.shape[1]),
    )
    moved = CSR(matrix + CSR(part[order] - part) @ spread)
    moved.eliminate_zeros()
    return Operator(moved, device=x.device)


def _telling(
    shuffles: Sequence[_Shuffled],
    logits: NDArray[np.float32],
    most: int,
) -> tuple[list[Unit], tuple[str, ...]]:
    """Return the single columns to try: those that go most with the answers."""
    first = next((one for one in shuffles if not one.asked.takes_labels), None)
    if first is None or most == 0:
        return [], ()
    if first.several or not first.asked.is_table:
        features = features_of(first.asked.x) if not first.asked.is_table else None
        if isinstance(features, MappedFeatures):
            return [], ("features in a file of their own are permuted together only",)
        rows = first.asked.scaled_rows(first.nodes)
        groups = first.features
        found = _correlations(rows, logits)
        strength = {name: float(found[of].max()) for name, of in groups.items()}
    else:
        assert isinstance(first.x, FeatureTable)
        found = np.concatenate(
            [
                _correlations(
                    b.cpu().numpy() if isinstance(b, Tensor) else b.scipy, logits
                )
                for b in first.x.blocks.values()
            ]
        )
        strength = dict(zip(first.columns, found.tolist(), strict=True))
    order = [n for n in sorted(strength, key=lambda n: -strength[n]) if strength[n] > 0]
    notes: tuple[str, ...] = ()
    if len(order) > most:
        notes = (
            f"{most:,} of {len(order):,} columns were tried: those that go most with "
            "what the model says",
        )
    return [(name, "column") for name in order[:most]], notes


def _correlations(
    rows: NDArray[np.float32] | CSR, logits: NDArray[np.float32]
) -> Numbers:
    """Return how much each column goes with some class's logits, [F]."""
    z = logits.astype(np.float64)
    z = z - z.mean(axis=0)
    z /= np.maximum(np.sqrt((z**2).mean(axis=0)), 1e-12)
    if isinstance(rows, np.ndarray):
        rows = rows.astype(np.float64)
        deviation = rows.std(axis=0)
    else:
        mean = np.asarray(rows.mean(axis=0)).reshape(-1)
        square = np.asarray(rows.multiply(rows).mean(axis=0)).reshape(-1)
        deviation = np.sqrt(np.maximum(square - mean**2, 0))
    covariance = np.abs(np.asarray(rows.T @ z)).max(axis=1) / max(len(z), 1)
    varies = deviation > 1e-9
    return np.asarray(np.where(varies, covariance / np.where(varies, deviation, 1), 0))
