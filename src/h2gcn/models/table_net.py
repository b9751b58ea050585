"""Networks on the ring table: each block its own map, then gate, join, read out."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from h2gcn._validation import check_bool, check_choice, check_integer, check_real
from h2gcn.exceptions import InputError
from h2gcn.features import FeatureTable, Input, parse_blocks
from h2gcn.models.base import (
    ACTIVATIONS,
    MAX_WIDTH,
    ExactSum,
    NodeModule,
    Summand,
    dense_row,
    drop,
)
from h2gcn.sparse import NO_GRAPH, Propagation, dropout

__all__ = ["TableModule", "TableNet"]


class TableModule(NodeModule):
    """A module whose `x` is a ring table: it sees a node's row, and no graph.

    Parameters
    ----------
    in_channels
        Columns of each block of the table.
    out_channels
        Number of classes.
    """

    drops_input = False

    def __init__(self, in_channels: Sequence[int], out_channels: int) -> None:
        if not isinstance(in_channels, Sequence) or not in_channels:
            raise InputError(
                "must be the number of columns of each block of a table",
                param="in_channels",
                value=in_channels,
            )
        widths = tuple(check_integer("in_channels", width, 1) for width in in_channels)
        check_integer("out_channels", out_channels, 1)
        super().__init__(sum(widths), out_channels)
        self.widths = widths

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.widths}, {self.out_channels})"

    @property
    def reach(self) -> int | None:
        """No product with an operator: the table has them all."""
        return 0

    def embedding_width(self) -> int:
        """Return how many columns a row becomes."""
        return self.out_channels

    def working_bytes(self, n_nodes: int, n_targets: int) -> int:
        """Return about what a step holds: rows of the table, and their copies.

        A block with a column for each node is sparse: its rows are few entries.
        """
        columns = sum(width for width in self.widths if width != n_nodes)
        return 12 * columns * n_targets


def table_rows(x: FeatureTable, graph: Propagation) -> FeatureTable:
    """Return the rows of a table that are wanted."""
    if graph.index is None:
        return x
    return x.rows(graph.index.cpu().numpy())


NORMS = ("none", "l2", "layer")
JOINS = ("concat", "skip")


class TableNet(TableModule):
    """z_b = norm(drop(X_b) W_b + c_b); z = join_b(g_b z_b); out = MLP(drop(act(z))).

    X_b are the blocks of a node's row, g = softmax of learned numbers where there is a
    gate, else 1. Its presets are models of their own:

    - SIGN (Frasca et al. 2020): own features and powers of Â with self-loops, an
      activation on each block, no gate.
    - c-IGNN with one layer: powers of Â, layer norm and activation on each block,
      side by side.
    - LINKX (Lim et al. 2021): z = [z_A; z_X] W + z_A + z_X, with the adjacency row as
      a block.

    Parameters
    ----------
    in_channels
        Columns of each block of the table.
    out_channels
        Number of classes.
    table
        Which blocks, such as ego+ring1+labels; see `h2gcn.features.parse_blocks`.
    hidden_channels
        Width of each map.
    layers
        Linear maps of the read-out.
    gate
        Whether blocks are weighted by learned shares.
    norm
        Of each block: "l2" gives rows the length 1, "layer" mean 0 and deviation 1.
    join
        "concat", or "skip" as in LINKX.
    activation
        "relu", "elu" or "none".
    early
        Whether the activation acts on each block, before the gate.
    input_dropout
        Dropped share of the table's entries, while training.
    dropout
        Dropped share before each map of the read-out.
    """

    def __init__(
        self,
        in_channels: Sequence[int],
        out_channels: int,
        *,
        table: str = "ego+rings+degrees+labels",
        hidden_channels: int = 64,
        layers: int = 1,
        gate: bool = False,
        norm: str = "none",
        join: str = "concat",
        activation: str = "relu",
        early: bool = False,
        input_dropout: float = 0.0,
        dropout: float = 0.5,
    ) -> None:
        super().__init__(in_channels, out_channels)
        parse_blocks(table)
        check_bool("gate", gate)
        check_bool("early", early)
        check_integer("hidden_channels", hidden_channels, 1, MAX_WIDTH)
        check_integer("layers", layers, 1, 16)
        check_choice("norm", norm, NORMS)
        check_choice("join", join, JOINS)
        check_choice("activation", activation, ACTIVATIONS)
        for name, share in (
            ("input_dropout", input_dropout),
            ("dropout", dropout),
        ):
            check_real(name, share, "[0, 1)")
        self.table, self.hidden_channels, self.norm = table, hidden_channels, norm
        self.join, self.activation, self.early = join, activation, early
        self.input_dropout, self.dropout = input_dropout, dropout
        count, width = len(self.widths), hidden_channels
        self.maps = nn.ParameterList(_glorot(columns, width) for columns in self.widths)
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
            z = self._normalise(z, number)
            parts.append(act(z) if self.early else z)
        if self.gates is not None:
            shares = self.gates.softmax(dim=0)
            parts = [shares[b] * z for b, z in enumerate(parts)]
        return parts

    def exact_sum(self, x: Input, graph: Propagation, node: int) -> ExactSum | None:
        """Return the logits as a sum over blocks, where the read-out is one map of all.

        Without norm and activation the whole is linear, and they are a sum over
        columns, whatever joins the blocks.
        """
        del graph
        assert isinstance(x, FeatureTable)
        row = FeatureTable(
            {
                name: torch.from_numpy(dense_row(block, node))[None, :]
                for name, block in x.blocks.items()
            }
        )
        exact = deepcopy(self).cpu().double().eval()
        if self.activation == "none" and self.norm == "none":
            return exact._linear_sum(row)
        if self.join != "concat" or len(self.readout) > 1:
            return None
        act, readout = ACTIVATIONS[self.activation], exact.readout[0]
        assert isinstance(readout, nn.Linear)
        with torch.no_grad():
            parts = exact._parts(row)
            weights = readout.weight.split(self.hidden_channels, dim=1)
            sums = [Summand(readout.bias.numpy(), "bias")]
            for name, z, weight in zip(row.blocks, parts, weights, strict=True):
                seen = z if self.early else act(z)
                sums.append(Summand((seen @ weight.T)[0].numpy(), "", name))
        how = (
            "exact by block, each with its own shift; not by column or neighbour: each "
            "block has an activation or a norm before the read-out"
        )
        return ExactSum(tuple(sums), how)

    def _linear_sum(self, row: FeatureTable) -> ExactSum:
        """Return the sum over columns of a net without norm and activation."""
        blocks = {
            name: torch.zeros(block.shape, dtype=torch.float64, requires_grad=True)
            for name, block in row.blocks.items()
        }
        with torch.enable_grad():
            logits = self(replace(row, blocks=blocks), NO_GRAPH)[0]
            slopes = [
                torch.autograd.grad(logits[c], list(blocks.values()), retain_graph=True)
                for c in range(self.out_channels)
            ]
        sums = [Summand(logits.detach().numpy(), "bias")]
        for number, (name, block) in enumerate(row.blocks.items()):
            assert isinstance(block, Tensor)
            weight = torch.cat([of[number] for of in slopes]).T.numpy()
            sums.append(Summand.linear(name, block[0].numpy(), weight))
        how = "exact by block, by column and by neighbour: the net is linear"
        return ExactSum(tuple(sums), how)

    def _normalise(self, z: Tensor, number: int) -> Tensor:
        """Return rows of one scale, as `norm` says."""
        if self.norm == "l2":
            return functional.normalize(z, dim=1)
        if self.norm == "layer":
            normalised: Tensor = self.norms[number](z)
            return normalised
        return z

    def regularised(self) -> list[nn.Parameter]:
        """Return the weights of all maps; the gate and what shifts are free."""
        readout = [*self.readout, *([self.mix] if self.mix is not None else [])]
        return [*self.maps, *(layer.weight for layer in readout)]

    def embedding_width(self) -> int:
        """Return how many columns a row becomes."""
        return self.hidden_channels * len(self.widths)

    def working_bytes(self, n_nodes: int, n_targets: int) -> int:
        """Return about what a step holds: rows, dropped rows, and what they become."""
        del n_nodes
        return (12 * self.in_channels + 28 * self.embedding_width()) * n_targets


def _glorot(columns: int, width: int) -> nn.Parameter:
    """Return weights drawn as Glorot and Bengio do."""
    weight = nn.Parameter(torch.empty(columns, width))
    nn.init.xavier_uniform_(weight)
    return weight
