"""The grammar of blocks, and the schema of a table: its blocks and their columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

from msgspec import Meta

from h2gcn._validation import nearest
from h2gcn.exceptions import InputError, short_repr
from h2gcn.io import conform

RINGS = ("ring1", "ring2", "ring3")
DIRECTIONS = ("out", "in", "out_out", "out_in", "in_out", "in_in")
EXTREMES = ("max", "min", "std")  # they take numeric columns alone
POWERS = ("power", "loops")
MAX_STEPS = 16  # of powerK and loopsK; more is a typo

# Names that stand for several blocks.
GROUPS: dict[str, tuple[str, ...]] = {
    "rings": ("ring1", "ring2"),
    "directions": DIRECTIONS,
    "labels": tuple(f"labels.{place}" for place in ("ring1", "ring2", *DIRECTIONS)),
    "adjacency": ("adjacency.ring1", "adjacency.out", "adjacency.in"),
    "numeric": ("ring1.max", "ring1.min", "ring1.std"),
}


@dataclass(frozen=True)
class Block:
    """Some columns of a table: a walk from each node, with a reduction at each step.

    Reductions are "mean", "sum", "max", "min", "std", "count" (of labels), and "power"
    and "loops": products with D^-1/2 A D^-1/2, without and with self-loops.
    """

    name: str  # in the grammar of `parse_blocks`
    kind: str  # ego, features (of other nodes), labels, adjacency, degrees, …
    steps: tuple[str, ...] = ()  # rings or directions; the first starts at the node
    reduce: str = "mean"

    @property
    def numeric(self) -> bool:
        """Whether it reduces the numeric columns alone."""
        return self.reduce in EXTREMES

    @property
    def directed(self) -> bool:
        """Whether it needs the directions of edges."""
        return bool({"out", "in"} & set(self.steps))

    @property
    def hop(self) -> int:
        """The farthest ring of a step; 0 for the node itself."""
        rings = [int(step[-1]) for step in self.steps if step in RINGS]
        return max(rings, default=min(len(self.steps), 1))


def _all_blocks() -> Iterator[Block]:
    yield Block("ego", "ego")
    yield Block("degrees", "degrees", ("ring2",))
    yield Block("edges", "edges", ("ring1",))
    for place in (*RINGS, *DIRECTIONS):
        steps = tuple(place.split("_"))
        yield Block(place, "features", steps)
        yield Block(f"labels.{place}", "labels", steps, "count")
        if len(steps) == 1:
            for reduce in ("mean", "sum", *EXTREMES):
                yield Block(f"{place}.{reduce}", "features", steps, reduce)
    for name in GROUPS["adjacency"]:
        yield Block(name, "adjacency", (name.partition(".")[2],), "sum")
    for k in range(1, MAX_STEPS + 1):
        for reduce in POWERS:
            yield Block(f"{reduce}{k}", "features", ("ring1",) * k, reduce)


BLOCKS = {block.name: block for block in _all_blocks()}


def parse_blocks(blocks: str) -> tuple[str, ...]:
    """Return the names of the blocks in a description, groups written out, each once.

    Parameters
    ----------
    blocks
        Blocks or groups, each added by "+" or removed by "-":
        `ego+rings+labels-labels.ring2`. `ego` are the node's features. A place
        (`ring1` … `ring3`, `out`, `in`, `out_in` …) is their mean there, and
        `ring1.max`, `.min`, `.sum`, `.std` another reduction; max, min and std take at
        most 300 numeric columns. `power2` is Â²x, `loops2` the same with self-loops.
        `labels.PLACE` are shares of the training labels, `adjacency.PLACE` one column
        per node; `degrees` and `edges` (edge features) stand alone. Groups: rings,
        directions, labels, adjacency, numeric.

    Examples
    --------
    >>> parse_blocks("ego+rings+labels.out_in-ring1")
    ('ego', 'ring2', 'labels.out_in')
    """
    names: dict[str, None] = {}
    for sign, term in re.findall(r"(^|[+-])([^+-]*)", str(blocks)):
        for name in GROUPS.get(term, (term,)):
            if name not in BLOCKS:
                raise _unknown_block(name)
            names.pop(name, None) if sign == "-" else names.setdefault(name)
    if not names:
        raise InputError("must name at least one block", param="blocks", value=blocks)
    return tuple(names)


def _unknown_block(name: str) -> InputError:
    places = (*RINGS, *DIRECTIONS)
    known = ("ego", "degrees", "edges", *places, *GROUPS)
    return InputError(
        f"there is no feature block {short_repr(name)}."
        f"{nearest(name, [*known, *BLOCKS])} Blocks: {', '.join(known)}; "
        "PLACE.sum, .max, .min, .std; labels.PLACE; powerK, loopsK."
    )


def farthest_ring(blocks: Iterable[str]) -> int:
    """Return the farthest ring whose members any of the blocks needs, 0 for none.

    Examples
    --------
    >>> farthest_ring(["ego"]), farthest_ring(["ring1", "labels.ring2", "degrees"])
    (0, 2)
    """
    listed = set(blocks) - {"degrees", "edges"}  # these list no members
    return max((BLOCKS[name].hop for name in listed), default=0)


@dataclass(frozen=True)
class TableSchema:
    """The blocks of a table as a model was trained on it, and their columns.

    `nodes` is a checksum of the nodes if the table has their adjacency, whose columns
    mean nothing in another graph.
    """

    blocks: Annotated[tuple[str, ...], Meta(min_length=1)]
    features: tuple[str, ...]
    classes: tuple[str, ...]
    edge_columns: tuple[str, ...] = ()  # of block `edges`
    numeric: tuple[str, ...] = ()  # the features that max, min and std are taken of
    directed: bool = False  # whether `degrees` has a column for each direction
    n_nodes: Annotated[int, Meta(ge=0, lt=2**31)] = 0  # width of an adjacency block
    nodes: str | None = None

    @property
    def parsed(self) -> tuple[Block, ...]:
        """The blocks."""
        return tuple(BLOCKS[name] for name in self.blocks)

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of columns of each block."""
        widths = {
            "degrees": 4 if self.directed else 2,
            "edges": len(self.edge_columns),
            "labels": len(self.classes) + 1,
            "adjacency": self.n_nodes,
        }
        return tuple(
            widths.get(block.kind, len(self._features(block))) for block in self.parsed
        )

    @property
    def width(self) -> int:
        """Number of columns."""
        return sum(self.widths)

    @property
    def has_labels(self) -> bool:
        """Whether training labels are among its columns."""
        return any(block.kind == "labels" for block in self.parsed)

    def select(self, names: Sequence[str]) -> TableSchema:
        """Return the schema of those of some blocks that are in it."""
        return replace(self, blocks=tuple(n for n in self.blocks if n in names))

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads: all but features and classes."""
        content = asdict(self)
        del content["features"], content["classes"]
        return content

    @classmethod
    def from_json(
        cls, content: object, features: tuple[str, ...], classes: tuple[str, ...]
    ) -> TableSchema:
        """Return what `to_json` wrote; raises if the content is not a valid schema."""
        damaged = "the blocks of the feature table are damaged"
        if not isinstance(content, dict):
            raise InputError(damaged)
        names = {"features": features, "classes": classes}
        schema = conform(cls, content | names, damaged)
        if (
            not BLOCKS.keys() >= set(schema.blocks)
            or len(set(schema.blocks)) != len(schema.blocks)
            or not set(schema.numeric) <= set(features)
            or 0 in schema.widths
        ):
            raise InputError(damaged)
        return schema

    def column_names(self, node_ids: Sequence[Any] = ()) -> list[str]:
        """Return the name of each column; blocks of adjacency have those of nodes."""
        names: list[str] = []
        for block in self.parsed:
            if block.kind == "adjacency":
                n = self.n_nodes
                ids = [*node_ids[:n], *range(len(node_ids), n)]
                names += [f"edge {_from_or_to(block)} {node}" for node in ids]
            else:
                names += self._names(block)
        return names

    def _names(self, block: Block) -> Sequence[str]:
        if block.kind == "ego":
            return self.features
        if block.kind == "edges":
            return self.edge_columns
        if block.kind == "degrees":
            places = ["ring1", "ring2"] + self.directed * ["out", "in"]
            return [f"number of nodes {_where(place)} (log)" for place in places]
        if block.kind == "labels":
            end = f"among training nodes {_where(*block.steps)}"
            shares = [f"share of {label} {end}" for label in self.classes]
            return [*shares, end.replace("among", "number of") + " (log)"]
        value, over = REDUCTIONS[block.reduce], _over(block)
        return [f"{value} of {name} {over}" for name in self._features(block)]

    def _features(self, block: Block) -> tuple[str, ...]:
        return self.numeric if block.numeric else self.features


REDUCTIONS = {
    "mean": "mean",
    "sum": "sum",
    "max": "largest value",
    "min": "smallest value",
    "std": "standard deviation",
    "power": "smoothed value",
    "loops": "value smoothed with own",
}
KINDS = {"ego": "own features", "edges": "edge features"}


def describe_block(name: str) -> str:
    """Return what a block holds, in words.

    Examples
    --------
    >>> describe_block("ring2"), describe_block("labels.ring1")
    ('mean over ring 2', 'training labels in ring 1')
    """
    block = BLOCKS[name]
    if block.kind == "labels":
        return f"training labels {_where(*block.steps)}"
    if block.kind == "adjacency":
        return f"edges {_from_or_to(block)} single nodes"
    if block.kind == "features":
        return f"{REDUCTIONS[block.reduce]} {_over(block)}"
    return KINDS.get(name, name)


def block_group(name: str) -> str:
    """Return which larger part of a table a block belongs to.

    Examples
    --------
    >>> block_group("ring2.max"), block_group("out_in"), block_group("labels.out")
    ('ring 2', 'directions', 'labels')
    """
    block = BLOCKS[name]
    if block.kind != "features":
        return KINDS.get(name, block.kind)
    return "directions" if block.directed else _over(block).removeprefix("over ")


def _place(*steps: str) -> str:
    """Return "ring 2", or "edges out then in"."""
    if steps[0] in RINGS:
        return f"ring {steps[0][-1]}"
    return f"edges {' then '.join(steps)}"


def _where(*steps: str) -> str:
    """Return "in ring 2", or "reached by edges out then in"."""
    return f"{'in' if steps[0] in RINGS else 'reached by'} {_place(*steps)}"


def _over(block: Block) -> str:
    """Return "over ring 2", "over edges out then in" or "over 2 steps"."""
    if block.reduce not in POWERS:
        return f"over {_place(*block.steps)}"
    count = len(block.steps)
    return f"over {count} step{'s' * (count != 1)}"


def _from_or_to(block: Block) -> str:
    return "from" if block.steps == ("in",) else "to"


def walk_extent(schema: TableSchema) -> tuple[int, int]:
    """Return the steps of the longest walk and the farthest ring of a step, or 0, 0."""
    steps = max(len(block.steps) for block in schema.parsed)
    return steps, max(block.hop for block in schema.parsed)
