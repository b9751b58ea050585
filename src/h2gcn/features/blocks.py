"""The grammar of blocks: names, groups, column names, and the schema of a table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

import msgspec

from h2gcn._validation import nearest
from h2gcn.exceptions import InputError, short_repr
from h2gcn.io import conform

__all__ = [
    "DIRECTIONS",
    "GROUPS",
    "RINGS",
    "Block",
    "TableSchema",
    "block_group",
    "describe_block",
    "farthest_ring",
    "parse_blocks",
    "walk_extent",
]

RINGS = ("ring1", "ring2", "ring3")
DIRECTIONS = ("out", "in", "out_out", "out_in", "in_out", "in_in")
MAX_STEPS = 16  # of powerK, loopsK and hopK; more is a typo

GROUPS: dict[str, tuple[str, ...]] = {
    "rings": ("ring1", "ring2"),
    "directions": DIRECTIONS,
    "labels": tuple(f"labels.{place}" for place in ("ring1", "ring2", *DIRECTIONS)),
    "adjacency": ("adjacency.ring1", "adjacency.out", "adjacency.in"),
    "numeric": ("ring1.max", "ring1.min", "ring1.std"),
}
"""Names that stand for several blocks."""

_SINGLE = ("ego", "degrees", "pagerank", "edges")
_REDUCED = re.compile(r"(ring[1-3]|out|in)\.(mean|sum|max|min|std)")
_WALK = re.compile(r"(power|loops)(\d{1,3})|hop(\d{1,3})\.(mean|sum|max|min)")
_NOUNS = {"mean": "means", "sum": "sums", "max": "largest", "min": "smallest"}
_NOUNS["std"] = "standard deviations"
_ADJECTIVES = {"mean": "mean", "sum": "sum", "max": "largest", "min": "smallest"}
_ADJECTIVES["std"] = "standard deviation"


@dataclass(frozen=True)
class Block:
    """Some columns of a table: a walk from each node, with a reduction at each step.

    Parameters
    ----------
    name
        Its name in the grammar of `parse_blocks`.
    kind
        "features" where it reduces the features of other nodes; else "ego", "degrees",
        "pagerank", "edges", "labels" or "adjacency".
    steps
        The walk, a ring or a direction for each step; the first starts at the node.
    reduce
        At each step: "mean", "sum", "max", "min" or "std"; "power" and "loops" are
        products with D^-1/2 A D^-1/2, without and with self-loops.
    numeric
        Whether it reduces the numeric columns alone.
    """

    name: str
    kind: str = "features"
    steps: tuple[str, ...] = ()
    reduce: str = "mean"
    numeric: bool = False

    @classmethod
    def parse(cls, name: str) -> Block | None:
        """Return the block of this name, None if there is none."""
        kind, _, place = name.partition(".")
        if name in _SINGLE:
            return cls(name, name)
        if name in RINGS:
            return cls(name, steps=(name,))
        if name in DIRECTIONS:
            return cls(name, steps=tuple(name.split("_")))
        if kind == "labels" and place in (*RINGS, *DIRECTIONS):
            return cls(name, "labels", tuple(place.split("_")))
        if name in GROUPS["adjacency"]:
            return cls(name, "adjacency", (place,))
        if _REDUCED.fullmatch(name):
            return cls(name, "features", (kind,), place, place in ("max", "min", "std"))
        walk = _WALK.fullmatch(name)
        if walk is None or not 1 <= int(walk[2] or walk[3]) <= MAX_STEPS:
            return None
        steps = ("ring1",) * int(walk[2] or walk[3])
        return cls(name, "features", steps, walk[1] or walk[4])

    @property
    def after_first_step(self) -> Block:
        """The rest of the walk."""
        return replace(self, steps=self.steps[1:])

    @property
    def directed(self) -> bool:
        """Whether it needs the directions of edges."""
        return bool({"out", "in"} & set(self.steps))

    @property
    def place(self) -> str:
        """The ring or direction where a walk without repetition ends."""
        return "_".join(self.steps)


def parse_blocks(blocks: str) -> tuple[str, ...]:
    """Return the names of the blocks in a description, groups written out, each once.

    Parameters
    ----------
    blocks
        Blocks or groups, each added by "+" or removed by "-":
        `ego+rings+labels-labels.ring2`. `ego` are the node's features. A place
        (`ring1` … `ring3`, `out`, `in`, `out_in` …) is their mean there, and
        `ring1.max`, `.min`, `.sum`, `.std` another reduction; max, min and std take at
        most 300 numeric columns. `power2` is Â²x, `loops2` the same with self-loops,
        `hop2.max` the maximum over neighbors of their maxima. `labels.PLACE` are shares
        of the training labels, `adjacency.PLACE` one column per node; `degrees`,
        `pagerank` and `edges` (edge features) stand alone. Groups: rings, directions,
        labels, adjacency, numeric.

    Examples
    --------
    >>> parse_blocks("ego+rings+labels.out_in-ring1")
    ('ego', 'ring2', 'labels.out_in')
    """
    text: object = blocks  # also what a caller without types passes
    text = text if isinstance(text, str) else short_repr(text)
    names: dict[str, None] = {}
    for sign, term in re.findall(r"(^|[+-])([^+-]*)", text):
        for name in GROUPS.get(term, (term,)):
            if Block.parse(name) is None:
                raise _unknown_block(name)
            if sign == "-":
                names.pop(name, None)
            else:
                names[name] = None
    if not names:
        raise InputError("must name at least one block", param="blocks", value=blocks)
    return tuple(names)


def _unknown_block(name: str) -> InputError:
    places = (*RINGS, *DIRECTIONS)
    known = [*_SINGLE, *places, *GROUPS, "power2", "loops2", "hop2.max"]
    return InputError(
        f"there is no feature block {short_repr(name)}.{nearest(name, known)} "
        f"Blocks: {', '.join((*_SINGLE, *places, *GROUPS))}; "
        "PLACE.sum, .max, .min, .std; labels.PLACE; powerK, loopsK, hopK.max."
    )


def _block(name: str) -> Block:
    """Return the block of a name that was parsed before."""
    block = Block.parse(name)
    assert block is not None
    return block


def farthest_ring(blocks: Iterable[str]) -> int:
    """Return the farthest ring whose members any of the blocks needs, 0 for none.

    Examples
    --------
    >>> farthest_ring(["ego"]), farthest_ring(["ring1", "labels.ring2", "degrees"])
    (0, 2)
    """
    rings = [step for name in blocks for step in _block(name).steps if step in RINGS]
    walked = [name for name in blocks if _WALK.fullmatch(name)]
    return max((int(ring[-1]) for ring in rings), default=1 if walked else 0)


@dataclass(frozen=True)
class AvailableParts:
    """What a graph has to fill blocks with."""

    features: bool = True
    numeric: bool = True
    edges: bool = True
    directions: bool = True
    labels: bool = True
    edge_features: bool = True

    def can_fill(self, block: Block) -> bool:
        """Return whether there is anything for a block."""
        if block.kind == "ego":
            return self.features
        if not self.edges or (block.directed and not self.directions):
            return False
        if block.kind == "features":
            return self.features and (self.numeric or not block.numeric)
        needs = {"labels": self.labels, "edges": self.edge_features}
        return needs.get(block.kind, True)

    def select(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the blocks that can be filled.

        `adjacency.ring1` gives way to the two directions if they are among them.
        """
        names = [name for name in names if self.can_fill(_block(name))]
        if {"adjacency.out", "adjacency.in"} & set(names):
            names = [name for name in names if name != "adjacency.ring1"]
        return tuple(names)


class SchemaJson(msgspec.Struct):
    """A schema in a file; features and classes are stored elsewhere."""

    blocks: Annotated[list[str], msgspec.Meta(min_length=1)]
    widths: list[Annotated[int, msgspec.Meta(ge=1, lt=2**31)]]
    edge_columns: list[str]
    numeric: list[str]
    nodes: str | None


@dataclass(frozen=True)
class TableSchema:
    """The blocks of a table as a model was trained on it, and their columns.

    Parameters
    ----------
    blocks
        Names of the blocks, in order.
    widths
        Number of columns of each block.
    features, classes
        Names of the graph's features and classes.
    edge_columns
        Names of the columns of block `edges`.
    numeric
        The features that max, min and std are taken of.
    nodes
        A checksum of the nodes if the table has their adjacency, else None: its columns
        mean nothing in another graph.
    """

    blocks: tuple[str, ...]
    widths: tuple[int, ...]
    features: tuple[str, ...]
    classes: tuple[str, ...]
    edge_columns: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    nodes: str | None = None

    @property
    def width(self) -> int:
        """Number of columns."""
        return sum(self.widths)

    @property
    def has_labels(self) -> bool:
        """Whether training labels are among its columns."""
        return any(block.kind == "labels" for block, _ in self.parsed())

    def parsed(self) -> list[tuple[Block, int]]:
        """Return each block with its width."""
        return [(_block(n), w) for n, w in zip(self.blocks, self.widths, strict=True)]

    def select(self, names: Sequence[str]) -> TableSchema:
        """Return the schema of those of some blocks that are in it."""
        pairs = [(block.name, w) for block, w in self.parsed() if block.name in names]
        blocks, widths = tuple(n for n, _ in pairs), tuple(w for _, w in pairs)
        return replace(self, blocks=blocks, widths=widths)

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads, without features and classes."""
        content = asdict(self)
        del content["features"], content["classes"]
        return content

    @classmethod
    def from_json(
        cls, content: object, features: tuple[str, ...], classes: tuple[str, ...]
    ) -> TableSchema:
        """Return what `to_json` wrote; raises if the content is not a valid schema."""
        damaged = "the blocks of the feature table are damaged"
        read = conform(SchemaJson, content, damaged)
        lists = (tuple(read.edge_columns), tuple(read.numeric))
        blocks, widths = tuple(read.blocks), tuple(read.widths)
        schema = cls(blocks, widths, features, classes, *lists, read.nodes)
        if (
            len(blocks) != len(widths)
            or len(set(blocks)) != len(blocks)
            or not all(map(Block.parse, blocks))
            or not set(schema.numeric) <= set(features)
            or not all(schema._fits(block, width) for block, width in schema.parsed())
        ):
            raise InputError(damaged)
        return schema

    def _fits(self, block: Block, width: int) -> bool:
        """Return whether a block may have so many columns."""
        if block.kind == "adjacency":
            return width >= 1
        if block.kind == "degrees":
            return width in _DEGREES
        return width == self.expected_width(block)

    def expected_width(self, block: Block) -> int:
        """Return the number of columns of a block other than adjacency and degrees."""
        widths = {
            "labels": len(self.classes) + 1,
            "edges": len(self.edge_columns),
            "pagerank": 1,
        }
        features = self.numeric if block.numeric else self.features
        return widths.get(block.kind, len(features))

    def column_names(self, node_ids: Sequence[Any] = ()) -> list[str]:
        """Return the name of each column.

        Parameters
        ----------
        node_ids
            Of the graph, for tables with its adjacency.
        """
        names: list[str] = []
        for block, width in self.parsed():
            if block.kind == "adjacency":
                end = "from" if block.place == "in" else "to"
                ids = [*node_ids[:width], *range(len(node_ids), width)]
                names += [f"edge {end} {node}" for node in ids]
            else:
                names += self._names(block, width)
        return names

    def _names(self, block: Block, width: int) -> list[str]:
        if block.kind == "ego":
            return list(self.features)
        if block.kind == "edges":
            return list(self.edge_columns)
        if block.kind == "pagerank":
            return ["PageRank (log)"]
        if block.kind == "degrees":
            return [f"number of nodes {_where(p)} (log)" for p in _DEGREES[width]]
        if block.kind == "labels":
            where = _where(block.place)
            shares = [
                f"share of {c} among training nodes {where}" for c in self.classes
            ]
            return [*shares, f"number of training nodes {where} (log)"]
        features = self.numeric if block.numeric else self.features
        return [f"{_reduction(block)} of {name} {_range(block)}" for name in features]


_DEGREES = {2: ("ring1", "ring2"), 4: ("ring1", "ring2", "out", "in")}


def describe_block(name: str) -> str:
    """Return what a block holds, in words.

    Examples
    --------
    >>> describe_block("ring2"), describe_block("labels.ring1")
    ('means over ring 2', 'training labels in ring 1')
    """
    block = _block(name)
    if block.kind == "labels":
        return f"training labels {_where(block.place)}"
    if block.kind == "adjacency":
        return f"edges {'from' if block.place == 'in' else 'to'} single nodes"
    single = {
        "ego": "own features",
        "degrees": "degrees",
        "pagerank": "PageRank",
        "edges": "edge features",
    }
    if block.kind in single:
        return single[block.kind]
    steps = _steps(len(block.steps))
    if block.reduce in ("power", "loops"):
        return f"smoothed over {steps}{' with own' * (block.reduce == 'loops')}"
    if name.startswith("hop"):
        return f"{_NOUNS[block.reduce]} of neighbors over {steps}"
    return f"{_NOUNS[block.reduce]} {_range(block)}"


def block_group(name: str) -> str:
    """Return which larger part of a table a block belongs to.

    Examples
    --------
    >>> block_group("ring2.max"), block_group("out_in"), block_group("labels.out")
    ('ring 2', 'directions', 'labels')
    """
    block = _block(name)
    single = {"ego": "own features", "edges": "edge features", "pagerank": "PageRank"}
    if block.kind != "features":
        return single.get(block.kind, block.kind)
    if _WALK.fullmatch(name):
        return _steps(len(block.steps))
    return "directions" if block.directed else f"ring {block.place[-1]}"


def walk_extent(schema: TableSchema) -> tuple[int, int]:
    """Return the number of steps of the longest walk, and the farthest ring of a step.

    Both are 0 if no block looks beyond the node itself.
    """
    steps, hop = 0, 0
    for block, _ in schema.parsed():
        rings = [int(step[-1]) for step in block.steps if step in RINGS]
        more = {"degrees": (1, 2), "edges": (1, 1), "pagerank": (MAX_STEPS, 1)}
        n, far = more.get(block.kind, (len(block.steps), max(rings, default=1)))
        if n:
            steps, hop = max(steps, n), max(hop, far)
    return steps, hop


def _steps(count: int) -> str:
    return f"{count} step{'s' * (count != 1)}"


def _where(place: str) -> str:
    """Return "in ring 2", or "reached by edges out"."""
    if place in RINGS:
        return f"in ring {place[-1]}"
    return f"reached by edges {place.replace('_', ' then ')}"


def _reduction(block: Block) -> str:
    if block.reduce in ("power", "loops"):
        return (
            "smoothed value" if block.reduce == "power" else "value smoothed with own"
        )
    return _ADJECTIVES[block.reduce]


def _range(block: Block) -> str:
    """Return "over ring 2", "over edges out then in" or "over 2 steps"."""
    count = len(block.steps)
    if block.reduce in ("power", "loops"):
        return f"over {_steps(count)}"
    if block.name.startswith("hop"):
        return "over neighbors" + f", {count} times" * (count != 1)
    if block.directed:
        return f"over edges {block.place.replace('_', ' then ')}"
    return f"over ring {block.place[-1]}"
