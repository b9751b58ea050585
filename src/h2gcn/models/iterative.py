"""Iterative classification: predicted labels of neighbors are features of the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from h2gcn._validation import check_choice, check_integer
from h2gcn.exceptions import InputError
from h2gcn.features import FeatureTable, Input, parse_blocks
from h2gcn.models.boosted_trees import BoostedTrees
from h2gcn.models.label_propagation import TIE
from h2gcn.models.logistic_table import LogisticTable
from h2gcn.models.table_net import TableModule
from h2gcn.sparse import NO_GRAPH, Propagation

MAX_ROUNDS = 1000


class BlockLogistic(LogisticTable):
    """Logistic regression whose penalty treats blocks alike: D is that of the block.

    Beside a thousand words, the labels of neighbors would hardly count otherwise.
    """

    def group_sizes(self, varies: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return how many columns vary in the block of each column, [D]."""
        blocks = np.split(varies, np.cumsum(self.widths)[:-1])
        counts = [np.count_nonzero(block) for block in blocks]
        return np.repeat(counts, self.widths).astype(np.int64)


BASES: dict[str, type[TableModule]] = {
    "logistic": BlockLogistic,
    "boosted-trees": BoostedTrees,
}


class IterativeClassification(TableModule):
    """Iterative classification (Neville and Jensen, 2000; Lu and Getoor, ICML 2003).

        z_v⁽ᵗ⁾   = x_v ‖ shares of y⁽ᵗ⁾ among the neighbors of v
        y_v⁽ᵗ⁺¹⁾ = argmax f(z_v⁽ᵗ⁾)
        logits   = f(z⁽ᵀ⁾)

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

    Parameters
    ----------
    in_channels, out_channels
        Columns of each block of the table, and number of classes.
    table
        Blocks of labels nearby, with own features or without: ego+labels.ring1, or
        ego+labels.ring1+labels.ring2; see `h2gcn.features.parse_blocks`.
    base
        f, "logistic" (`BlockLogistic`) or "boosted-trees" (`BoostedTrees`).
    rounds
        How often all labels are predicted again, at most.
    """

    def __init__(
        self,
        in_channels: Sequence[int],
        out_channels: int,
        *,
        table: str = "ego+labels.ring1",
        base: str = "logistic",
        rounds: int = 10,
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.table = _check_table(table)
        check_choice("base", base, BASES)
        self.rounds = check_integer("rounds", rounds, 0, MAX_ROUNDS)
        self.base = BASES[base](self.widths, out_channels)

    edge_weights = False

    @property
    def reach(self) -> int | None:
        """None: labels go on from neighbor to neighbor."""
        return None

    def set_validation(self, labels: Tensor, index: Tensor) -> None:
        """Give the classifier the validation nodes, to stop its fit by."""
        self.base.set_validation(labels, index)

    def initialise(
        self, x: Input, graph: Propagation, labels: Tensor, index: Tensor
    ) -> None:
        """Fit the classifier to the training nodes."""
        assert isinstance(x, FeatureTable)
        self.base.initialise(_with_labels(x, x.labels), graph, labels, index)

    def forward(self, x: FeatureTable, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, C]."""
        known = x.labels.any(dim=1, keepdim=True)
        labels = x.labels
        logits = _level_ties(self.base(_with_labels(x, labels), NO_GRAPH))
        for _ in range(self.rounds):
            guessed = functional.one_hot(logits.argmax(dim=1), logits.shape[1])
            before, labels = labels, torch.where(known, x.labels, guessed.to(x.labels))
            if torch.equal(before, labels):
                break
            logits = _level_ties(self.base(_with_labels(x, labels), NO_GRAPH))
        return graph.pick(logits)

    def state_problem(self, state: Mapping[str, Tensor]) -> str | None:
        """Return why tensors of a file are not the state of its classifier, if so."""
        for name in state:
            if not name.startswith("base."):
                return f"{name} is none of its tensors"
        own = {name.removeprefix("base."): tensor for name, tensor in state.items()}
        problem = self.base.state_problem(own)
        return None if problem is None else f"base.{problem}"


def _check_table(table: str) -> str:
    """Return a recipe of own features and labels nearby, or raise."""
    blocks = parse_blocks(table)
    labels = [block for block in blocks if block.startswith("labels.")]
    if not labels or set(blocks) - {"ego", *labels}:
        raise InputError(
            "must be labels nearby, such as labels.ring1, with own features or without",
            param="table",
            value=table,
        )
    return table


def _with_labels(x: FeatureTable, labels: Tensor) -> FeatureTable:
    """Return a table whose blocks of labels are the shares of these, [n, C].

    Their last column, how many labels there are, is zero: once all are predicted there
    are many more than the classifier was fitted to.
    """
    table = x.with_labels(labels)
    for name in table.counters:
        columns = table.blocks[name]
        assert isinstance(columns, Tensor)
        columns[:, -1] = 0
    return table


def _level_ties(logits: Tensor) -> Tensor:
    """Return logits with those equal that are the largest up to rounding, [n, C]."""
    best = logits.amax(dim=1, keepdim=True)
    return torch.where(logits >= best - TIE * best.abs().clamp(min=1), best, logits)
