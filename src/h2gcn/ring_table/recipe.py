"""Recipes: which blocks a table has, by name, and what their columns are called."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import msgspec

from h2gcn._validation import nearest
from h2gcn.exceptions import InputError, short_repr
from h2gcn.io import conform
from h2gcn.ring_table.neighbourhoods import DIRECTIONS, RINGS

__all__ = [
    "GROUPS",
    "Schema",
    "block_group",
    "block_words",
    "check_recipe",
    "expand",
    "farthest_ring",
]

REDUCERS = ("sum", "max", "min")
MAX_STEPS = 16
"""Of powers and hops; more is a slip of the keyboard."""

GROUPS: dict[str, tuple[str, ...]] = {
    "rings": ("ring1", "ring2"),
    "directions": DIRECTIONS,
    "labels": tuple(f"labels.{place}" for place in ("ring1", "ring2", *DIRECTIONS)),
    "adjacency": ("adjacency.all", "adjacency.out", "adjacency.in"),
}
"""Names that stand for several blocks."""

_ALONE = ("own", "degrees", "edges", *GROUPS["adjacency"])
_PLACES = (*RINGS, *DIRECTIONS)
_STEPS = re.compile(r"(power|loops)(\d{1,3})|hop(\d{1,3})\.(mean|sum|max|min)")


def check_recipe(recipe: str) -> tuple[str, ...]:
    """Return the blocks that a recipe names, groups written out, each once.

    Parameters
    ----------
    recipe
        Names joined by "+", such as "own+rings+labels". `own` are a node's features;
        `ring1`, `out` and so on their means there, `ring1.max` another summary of
        them; `power2` is Â²x, `loops2` the same with self-loops; `hop2.max` the
        neighbours' largest of the neighbours' largest; `labels.ring1` the shares of
        training labels; `degrees`, `edges` and `adjacency` what they say.

    Examples
    --------
    >>> check_recipe("own+rings")
    ('own', 'ring1', 'ring2')
    """
    names: list[str] = []
    given = recipe if isinstance(recipe, str) else short_repr(recipe)
    for name in given.split("+"):
        names += GROUPS.get(name, (name,))
    for name in names:
        if not _is_block(name):
            known = [*_ALONE, *_PLACES, *GROUPS, "power2", "loops2", "hop2.max"]
            raise InputError(
                f"the ring table has no block {short_repr(name)}."
                f"{nearest(name, known)} "
                f"Blocks: {', '.join((*_ALONE[:3], *_PLACES, *GROUPS))}; "
                "RING.sum, .max, .min; labels.RING; powerK, loopsK, hopK.max."
            )
    return tuple(dict.fromkeys(names))


def _is_block(name: str) -> bool:
    place, _, reducer = name.partition(".")
    if name in _ALONE or name in _PLACES:
        return True
    if place in (*RINGS, "out", "in") and reducer in REDUCERS:
        return True
    if place == "labels":
        return reducer in _PLACES
    found = _STEPS.fullmatch(name)
    return found is not None and 1 <= int(found[2] or found[3]) <= MAX_STEPS


def farthest_ring(blocks: Iterable[str]) -> int:
    """Return the farthest ring that any of some blocks looks at, 0 for none.

    Degrees look at none: they are counted.

    Parameters
    ----------
    blocks
        Of `check_recipe`.

    Examples
    --------
    >>> farthest_ring(["own"]), farthest_ring(["ring1", "labels.ring2"])
    (0, 2)
    """
    places = {place for block in blocks for place in block.split(".")}
    return max((int(ring[-1]) for ring in places & set(RINGS)), default=0)


def is_computed(block: str) -> bool:
    """Return whether a block is made of the features of others."""
    others = ("own", "labels", "edges", "adjacency", "degrees")
    return block.partition(".")[0] not in others


def computed_blocks(schema: Schema) -> tuple[str, ...]:
    """Return the blocks of a table that are made of the features of others."""
    return tuple(block for block in schema.blocks if is_computed(block))


def is_one_step(block: str) -> bool:
    """Return whether the rows of a block are made of features in a single step.

    Examples
    --------
    >>> is_one_step("ring2.max"), is_one_step("out-in"), is_one_step("power1")
    (True, False, False)
    """
    return block.partition(".")[0] in (*RINGS, "out", "in")


def far_rings(blocks: Sequence[str]) -> dict[str, bool]:
    """Return which rings beyond the first blocks need, and if only their sizes are.

    Examples
    --------
    >>> far_rings(["own", "ring1", "degrees"]), far_rings(["labels.ring2", "degrees"])
    ({'ring2': True}, {'ring2': False})
    """
    named = {part for block in blocks for part in block.split(".")}
    found = {ring: False for ring in RINGS[1:] if ring in named}
    return {"ring2": True, **found} if "degrees" in named else found


def expand(
    blocks: Sequence[str],
    *,
    features: bool,
    edges: bool,
    directions: bool,
    labels: bool,
    carried: bool,
) -> tuple[str, ...]:
    """Return those of some blocks that a graph can fill.

    `adjacency.all` gives way to the two directions where both are there and asked for.

    Parameters
    ----------
    blocks
        Of `check_recipe`.
    features, edges, directions, labels, carried
        Whether it has features, edges, directions of edges, known labels, and
        columns of edges.
    """

    def can(name: str) -> bool:
        kind, _, place = name.partition(".")
        if kind == "own":
            return features
        if kind == "edges":
            return edges and carried
        if name == "degrees":
            return edges
        if kind == "labels":
            return edges and labels and (directions or place in RINGS)
        if kind == "adjacency":
            split = directions and {"adjacency.out", "adjacency.in"} & set(blocks)
            return edges and (directions if place != "all" else not split)
        return edges and features and (directions or kind not in DIRECTIONS)

    return tuple(name for name in blocks if can(name))


class BlocksJson(msgspec.Struct):
    """The schema of the blocks of a table in a file."""

    blocks: Annotated[list[str], msgspec.Meta(min_length=1)]
    widths: list[Annotated[int, msgspec.Meta(ge=1, lt=2**31)]]
    edge_columns: list[str]
    nodes: str | None


@dataclass(frozen=True)
class Schema:
    """The blocks of a table as a model was trained on it, and what they are made of.

    Parameters
    ----------
    blocks
        In order.
    widths
        How many columns each has.
    features
        Names of the graph's features.
    classes
        Names of its classes.
    edge_columns
        Names of what its edges carry.
    nodes
        A checksum of the nodes, where the table has their adjacency; else None. It is
        what those columns stand for: another graph has others.
    """

    blocks: tuple[str, ...]
    widths: tuple[int, ...]
    features: tuple[str, ...]
    classes: tuple[str, ...]
    edge_columns: tuple[str, ...] = ()
    nodes: str | None = None

    @property
    def width(self) -> int:
        """Columns of all blocks together."""
        return sum(self.widths)

    @property
    def has_labels(self) -> bool:
        """Whether training labels are among its columns."""
        return any(block.startswith("labels.") for block in self.blocks)

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` takes, features and classes left out."""
        content = asdict(self)
        del content["features"], content["classes"]
        return content

    @classmethod
    def from_json(
        cls, content: Any, features: tuple[str, ...], classes: tuple[str, ...]
    ) -> Schema:
        """Return what `to_json` wrote, or raise where it is not the schema of a table.

        Parameters
        ----------
        content
            Of a file, whatever that holds.
        features, classes
            Their names.
        """
        damaged = "the blocks of the ring table are damaged"
        told = conform(BlocksJson, content, damaged)
        blocks, widths = tuple(told.blocks), tuple(told.widths)
        edge_columns = tuple(told.edge_columns)
        found = cls(blocks, widths, features, classes, edge_columns, told.nodes)
        known = all(map(_is_block, blocks)) and len(set(blocks)) == len(blocks)
        if (
            not known
            or len(blocks) != len(widths)
            or any(
                width not in found._widths_of(block)
                for block, width in zip(blocks, widths, strict=True)
            )
        ):
            raise InputError(damaged)
        return found

    def _widths_of(self, block: str) -> Container[int]:
        """Return how many columns a block may have."""
        kind = block.partition(".")[0]
        if kind == "labels":
            return (len(self.classes) + 1,)
        if kind == "adjacency":
            return range(1, 2**31)
        if kind == "degrees":
            return tuple(_DEGREES)
        return (len(self.edge_columns if kind == "edges" else self.features),)

    def column_names(self, node_ids: Sequence[Any] = ()) -> list[str]:
        """Return the name of each column, in words.

        Parameters
        ----------
        node_ids
            Of the graph, for tables that have its adjacency.
        """
        names: list[str] = []
        for block, width in zip(self.blocks, self.widths, strict=True):
            if block.startswith("adjacency"):
                names += [_EDGE[block].format(node) for node in node_ids]
                names += [_EDGE[block].format(i) for i in range(len(node_ids), width)]
            else:
                names += self._names_of(block)
        return names

    def _names_of(self, block: str) -> list[str]:
        kind, _, more = block.partition(".")
        if block == "own":
            return list(self.features)
        if block == "edges":
            return list(self.edge_columns)
        if block == "degrees":
            width = dict(zip(self.blocks, self.widths, strict=True))[block]
            return [f"number of nodes {_in_words(p)} (log)" for p in _DEGREES[width]]
        if kind == "labels":
            where = _in_words(more)
            shares = [
                f"share of {c} among training nodes {where}" for c in self.classes
            ]
            return [*shares, f"number of training nodes {where} (log)"]
        found = _STEPS.fullmatch(block)
        if found is None:
            what = {"": "mean", "sum": "sum", "max": "largest", "min": "smallest"}[more]
            where = _over(kind)
        elif found[1]:
            what = (
                "smoothed value" if found[1] == "power" else "value smoothed with own"
            )
            where = f"over {found[2]} step{'s' if found[2] != '1' else ''}"
        else:
            words = {"mean": "mean", "sum": "sum", "max": "largest", "min": "smallest"}
            what = words[found[4]]
            where = "over neighbours" + (f", {found[3]} times" * (found[3] != "1"))
        return [f"{what} of {name} {where}" for name in self.features]


def block_words(block: str) -> str:
    """Return what a block has, in words.

    Examples
    --------
    >>> block_words("ring2"), block_words("labels.ring1")
    ('means over ring 2', 'training labels in ring 1')
    """
    kind, _, more = block.partition(".")
    if kind == "labels":
        return f"training labels {_in_words(more)}"
    alone = {
        "own": "own features",
        "degrees": "degrees",
        "edges": "what its edges carry",
        "adjacency": f"edges {'from' if more == 'in' else 'to'} single nodes",
    }
    if kind in alone:
        return alone[kind]
    many = {"": "means", "mean": "means", "sum": "sums"}
    many |= {"max": "largest", "min": "smallest"}
    found = _STEPS.fullmatch(block)
    if found is None:
        return f"{many[more]} {_over(kind)}"
    steps = found[2] or found[3]
    where = f"over {steps} step{'' if steps == '1' else 's'}"
    if found[1]:
        return f"smoothed {where}{' with own' if found[1] == 'loops' else ''}"
    return f"{many[found[4]]} of neighbours {where}"


def block_group(block: str) -> str:
    """Return which larger part a block belongs to.

    Examples
    --------
    >>> block_group("ring2.max"), block_group("out-in"), block_group("labels.out")
    ('ring 2', 'directions', 'labels')
    """
    kind = block.partition(".")[0]
    if kind == "own":
        return "own features"
    if kind in RINGS:
        return f"ring {kind[-1]}"
    if kind in DIRECTIONS:
        return "directions"
    if kind == "edges":
        return "what edges carry"
    found = _STEPS.fullmatch(block)
    if found is None:
        return kind
    steps = found[2] or found[3]
    return f"{steps} step{'' if steps == '1' else 's'}"


_EDGE = {
    "adjacency.all": "edge to {}",
    "adjacency.out": "edge to {}",
    "adjacency.in": "edge from {}",
}
_DEGREES = {2: ("ring1", "ring2"), 4: ("ring1", "ring2", "out", "in")}


def _in_words(place: str) -> str:
    """Return "in ring 2", or "reached by edges out"."""
    if place in RINGS:
        return f"in ring {place[-1]}"
    return f"reached by edges {_path(place)}"


def _over(place: str) -> str:
    """Return "over ring 2", or "over edges out"."""
    return f"over ring {place[-1]}" if place in RINGS else f"over edges {_path(place)}"


def _path(place: str) -> str:
    return place.replace("-", " then ")
