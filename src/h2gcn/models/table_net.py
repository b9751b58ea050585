"""Networks on feature tables: each block has a map; then gate, join and read out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from h2gcn.features import FeatureTable, Input
from h2gcn.models.base import ACTIVATIONS, drop, glorot
from h2gcn.models.decompose import (
    Contribution,
    Decomposition,
    constant,
    decompose_columns,
    to_numpy,
)
from h2gcn.models.options import (
    Activation,
    Dropout,
    Flag,
    InputDropout,
    Table,
    Width,
    at_least,
    one_of,
)
from h2gcn.sparse import NO_GRAPH, Propagation, dropout
from h2gcn.training import NodeModule


class TableModule(NodeModule):
    """A module whose `x` is a feature table: it sees a node's row, and no graph.

    Parameters
    ----------
    in_channels
        Columns of each block of the table.
    out_channels
        Number of classes.
    """

    receptive_field: int | None = 0
    inputs = "table"

    def __init__(self, in_channels: Sequence[int], out_channels: int) -> None:
        super().__init__(sum(in_channels), out_channels)
        self.widths = tuple(in_channels)

    def step_bytes(self, n_nodes: int, n_targets: int, entries: int) -> int:
        """Return the bytes of the targets' rows, and of copies of them.

        A block with a column for each node is sparse: its rows have few entries.
        """
        del entries
        columns = sum(width for width in self.widths if width != n_nodes)
        return 12 * columns * n_targets


def table_rows(x: FeatureTable, graph: Propagation) -> FeatureTable:
    """Return the rows of the target nodes."""
    return x if graph.index is None else x.rows(graph.index.cpu().numpy())


def multiply_table(table: FeatureTable, weight: Tensor) -> Tensor:
    """Return all columns of a table, side by side, times a weight, [m, k]."""
    blocks = list(table.blocks.values())
    parts = weight.split([block.shape[1] for block in blocks])
    products = [block @ part for block, part in zip(blocks, parts, strict=True)]
    return torch.stack(products).sum(dim=0)


class TableNet(TableModule):
    """A map for each block X_b of the table, weighed and joined, then an MLP.

        z_b = norm(dropout(X_b) W_b + c_b)
        z = g₁ z₁ ‖ g₂ z₂ ‖ …
        logits = MLP(dropout(σ(z)))

    g is the softmax of learned numbers with `gate`, else 1. Some presets are models of
    their own:

    - SIGN (Frasca et al. 2020): own features and powers of Â with self-loops, σ on each
      block, no gate.
    - c-IGNN (Gu et al. 2024) with one layer: powers of Â, layer norm and σ on each
      block, side by side.
    - LINKX (Lim et al. 2021): z = (z_A ‖ z_X) W + z_A + z_X, where the adjacency row is
      a block.
    """

    def __init__(
        self,
        in_channels: Sequence[int],
        out_channels: int,
        *,
        table: Table = "ego+rings+degrees+labels",  # noqa: ARG002
        hidden_channels: Annotated[Width, "Width of each map"] = 64,
        layers: Annotated[int, at_least(1, 16), "Linear maps of the read-out"] = 1,
        gate: Annotated[Flag, "Whether blocks are weighed by learned shares"] = False,
        norm: Annotated[
            str,
            one_of(("none", "l2", "layer")),
            "Rows of each block: none, l2 (length 1) or layer (mean 0, deviation 1)",
        ] = "none",
        join: Annotated[
            str,
            one_of(("concat", "skip")),
            "How blocks are joined: concat or skip (LINKX)",
        ] = "concat",
        activation: Activation = "relu",
        early: Annotated[Flag, "Whether the activation acts on each block"] = False,
        input_dropout: InputDropout = 0.0,
        dropout: Dropout = 0.5,
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.hidden_channels, self.norm, self.join = hidden_channels, norm, join
        self.activation, self.early = activation, early
        self.input_dropout, self.dropout = input_dropout, dropout
        count, width = len(self.widths), hidden_channels
        self.maps = nn.ParameterList(glorot(columns, width) for columns in self.widths)
        self.shifts = nn.Parameter(torch.zeros(count, width))
        self.gates = nn.Parameter(torch.zeros(count)) if gate else None
        self.norms = nn.ModuleList(
            nn.LayerNorm(width) for _ in range(count if norm == "layer" else 0)
        )
        self.mix = nn.Linear(count * width, width) if join == "skip" else None
        joined = count * width if join == "concat" else width
        sizes = [joined, *[width] * (layers - 1), out_channels]
        self.readout = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))

    def forward(self, x: FeatureTable, graph: Propagation) -> Tensor:
        """Return the logits of the target nodes, [m, C]."""
        rows = table_rows(x, graph)
        act = ACTIVATIONS[self.activation]
        parts = self._parts(rows)
        z = torch.cat(parts, dim=1)
        if self.mix is not None:
            z = torch.stack(parts).sum(dim=0) + self.mix(z)
        if not self.early or self.join != "concat":
            z = act(z)
        for number, layer in enumerate(self.readout):
            if number:
                z = act(z)
            z = layer(dropout(z, self.dropout, self.training))
        logits: Tensor = z
        return logits

    def _parts(self, rows: FeatureTable) -> list[Tensor]:
        """Return what each block becomes before all are joined, [m, p] each."""
        act = ACTIVATIONS[self.activation]
        parts = []
        for number, block in enumerate(rows.blocks.values()):
            dropped = drop(block, self.input_dropout, self.training)
            z = dropped @ self.maps[number] + self.shifts[number]
            z = self._normalize(z, number)
            parts.append(act(z) if self.early else z)
        if self.gates is not None:
            shares = self.gates.softmax(dim=0)
            parts = [shares[b] * z for b, z in enumerate(parts)]
        return parts

    def decompose(self, x: Input, graph: Propagation) -> Decomposition | None:
        """Split by block if one linear map reads all, or by column if all is linear.

        All is linear without norm and activation, whatever joins the blocks.
        """
        assert isinstance(x, FeatureTable)
        row = table_rows(x, graph)
        if self.activation == "none" and self.norm == "none":
            return self._decompose_columns(row)
        if self.join != "concat" or len(self.readout) > 1:
            return None
        act, readout = ACTIVATIONS[self.activation], self.readout[0]
        assert isinstance(readout, nn.Linear)
        contributions = [constant("bias", to_numpy(readout.bias))]
        weights = readout.weight.T.split(self.hidden_channels)
        for name, z, weight in zip(row.blocks, self._parts(row), weights, strict=True):
            read = to_numpy(z if self.early else act(z))
            contributions.append(Contribution("", read, to_numpy(weight), block=name))
        how = "exact by block; not by column or neighbor: blocks are not linear"
        return Decomposition(tuple(contributions), how)

    def _decompose_columns(self, row: FeatureTable) -> Decomposition:
        """Split a net without norm and activation, whose weights are its slopes."""

        def logits(z: Tensor) -> Tensor:
            blocks = z[None].split(self.widths, dim=1)
            table = FeatureTable(dict(zip(row.blocks, blocks, strict=True)))
            return self.forward(table, NO_GRAPH)[0]

        zeros = torch.zeros(self.in_channels, device=row.device)
        weight = to_numpy(torch.autograd.functional.jacobian(logits, zeros)).T
        bias = constant("bias", to_numpy(logits(zeros)))
        no_mean = np.zeros(self.in_channels)
        columns = decompose_columns(row, row.dense()[0], weight, no_mean)
        how = "exact by block, by column and by neighbor: the net is linear"
        return Decomposition((bias, *columns), how)

    def _normalize(self, z: Tensor, number: int) -> Tensor:
        """Return rows of one scale, as `norm` says."""
        if self.norm == "l2":
            return functional.normalize(z, dim=1)
        if self.norm == "layer":
            normalized: Tensor = self.norms[number](z)
            return normalized
        return z

    def decayed_parameters(self) -> list[nn.Parameter]:
        """Return the weights of all maps; gate, norms and what shifts are free."""
        readout = [*self.readout, *([self.mix] if self.mix is not None else [])]
        return [*self.maps, *(layer.weight for layer in readout)]

    def step_bytes(self, n_nodes: int, n_targets: int, entries: int) -> int:
        """Return the bytes of the rows, with dropout, and of what they become."""
        joined = 28 * self.hidden_channels * len(self.widths) * n_targets
        return super().step_bytes(n_nodes, n_targets, entries) + joined
