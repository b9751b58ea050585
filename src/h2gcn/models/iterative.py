"""Iterative classification: predicted labels of neighbors are features of the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional

from h2gcn.exceptions import InputError
from h2gcn.features import FeatureTable, parse_blocks
from h2gcn.models.boosted_trees import BoostedTrees
from h2gcn.models.label_propagation import level_ties
from h2gcn.models.logistic_table import LogisticTable
from h2gcn.models.options import Check, at_least, one_of
from h2gcn.models.table_net import TableModule
from h2gcn.sparse import NO_GRAPH, Propagation
from h2gcn.training import Trainer

BASES: dict[str, Callable[..., TableModule]] = {
    # Beside a thousand words, the labels of neighbors would hardly count otherwise.
    "logistic": partial(LogisticTable, by_block=True),
    "boosted-trees": BoostedTrees,
}


def _check_table(name: str, table: str) -> str:
    """Return blocks of own features and labels nearby, or raise."""
    blocks = parse_blocks(table)
    labels = [block for block in blocks if block.startswith("labels.")]
    if not labels or set(blocks) - {"ego", *labels}:
        rule = (
            "must be labels nearby, such as labels.ring1, with own features or without"
        )
        raise InputError(rule, param=name, value=table)
    return table


class IterativeClassification(TableModule):
    """Iterative classification (Neville and Jensen, 2000; Lu and Getoor, ICML 2003).

        z_v⁽ᵗ⁾   = x_v ‖ shares of y⁽ᵗ⁾ among the neighbors of v
        y_v⁽ᵗ⁺¹⁾ = argmax f(z_v⁽ᵗ⁾)
        logits   = log softmax f(z⁽ᵀ⁾)

    f is fitted on the training nodes with the labels of training nodes around them.
    It predicts once with these labels alone (the bootstrap), and then with the labels
    that it predicted for all other nodes, until none changes, `rounds` times at most.
    Training nodes keep their labels. No node's own label is among its columns, and
    edge weights are not used. Logits that are the largest up to rounding are equal.

    Departures from the papers: as in Sen et al. (2008), Algorithm 1, one classifier
    serves the bootstrap and all rounds, where Lu and Getoor multiply one of features
    and one of links. Their counts are shares here, as the rounds see more labels than
    the fit does. A round predicts all labels at once, so that no result depends on an
    order; labels of two neighbors may then swap until the rounds end.
    """

    receptive_field = None
    epochs = False

    def __init__(
        self,
        in_channels: Sequence[int],
        out_channels: int,
        *,
        table: Annotated[
            str, Check(_check_table), "Labels nearby, with own features or without"
        ] = "ego+labels.ring1",
        base: Annotated[
            str, one_of(BASES), "The classifier: logistic or boosted-trees"
        ] = "logistic",
        rounds: Annotated[
            int, at_least(0, 1000), "How often all labels are predicted again, at most"
        ] = 10,
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.table, self.rounds = table, rounds
        self.base = BASES[base](in_channels, out_channels)

    def fit(self, trainer: Trainer) -> None:
        """Fit the classifier to the training nodes."""
        assert isinstance(trainer.x, FeatureTable)
        part = copy(trainer)
        part.x = _with_labels(trainer.x, trainer.x.labels)
        self.base.fit(part)
        trainer.best_iteration = part.best_iteration

    def forward(self, x: FeatureTable, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, C]."""
        known, labels = x.labels.any(dim=1, keepdim=True), x.labels
        logits = self._predict(x, labels)
        for _ in range(self.rounds):
            guessed = functional.one_hot(logits.argmax(dim=1), logits.shape[1])
            before, labels = labels, torch.where(known, x.labels, guessed.to(x.labels))
            if torch.equal(before, labels):
                break
            logits = self._predict(x, labels)
        return graph.pick(logits)

    def _predict(self, x: FeatureTable, labels: Tensor) -> Tensor:
        logits = self.base(_with_labels(x, labels), NO_GRAPH)
        return level_ties(logits.log_softmax(dim=1))


def _with_labels(x: FeatureTable, labels: Tensor) -> FeatureTable:
    """Return a table whose blocks of labels are the shares of these, [n, C].

    Their last column, how many labels there are, is zero: once all are predicted there
    are many more than the classifier was fitted to.
    """
    table = x.with_labels(labels)
    shares = {}
    for name in x.counters:
        columns = table.blocks[name]
        assert isinstance(columns, Tensor)
        shares[name] = functional.pad(columns[:, :-1], (0, 1))
    return replace(table, blocks={**table.blocks, **shares})
