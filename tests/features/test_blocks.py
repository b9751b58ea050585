"""Blocks: which names there are, what they stand for, what columns are called."""

from typing import Any

import pytest

from h2gcn.exceptions import InputError
from h2gcn.features import TableSchema, farthest_ring, parse_blocks, walk_extent
from h2gcn.features.blocks import AvailableParts
from support.cases import each

DIRECTIONS = ("out", "in", "out_out", "out_in", "in_out", "in_in")


@each(
    ("recipe", "blocks"),
    [
        ("ego", ("ego",)),
        ("ego+rings", ("ego", "ring1", "ring2")),
        ("directions", DIRECTIONS),
        ("adjacency", ("adjacency.ring1", "adjacency.out", "adjacency.in")),
        ("ring1+rings+ring1", ("ring1", "ring2")),
        ("ring3.max+out.min+in.sum", ("ring3.max", "out.min", "in.sum")),
        ("labels.ring3+labels.out_in", ("labels.ring3", "labels.out_in")),
        ("power1+loops16+hop2.mean", ("power1", "loops16", "hop2.mean")),
        ("degrees+edges+pagerank", ("degrees", "edges", "pagerank")),
        ("ego+numeric", ("ego", "ring1.max", "ring1.min", "ring1.std")),
        ("ego+rings-ring1", ("ego", "ring2")),
        ("ego+rings-rings+ring2", ("ego", "ring2")),
        ("rings-labels", ("ring1", "ring2")),
    ],
)
def test_a_recipe_names_blocks(recipe: str, blocks: tuple[str, ...]) -> None:
    assert parse_blocks(recipe) == blocks


def test_labels_stand_for_rings_and_directions() -> None:
    places = ("ring1", "ring2", *DIRECTIONS)
    assert parse_blocks("labels") == tuple(f"labels.{place}" for place in places)


@each(
    ("recipe", "name", "hint"),
    [
        ("ego+rngs", "rngs", " Did you mean 'rings'"),
        ("ring4", "ring4", " Did you mean 'ring"),
        ("ego+", "", ""),
        ("ego + ring1", "ego ", " Did you mean 'ego'"),
        ("labels.ring4", "labels.ring4", ""),
        ("labels.max", "labels.max", ""),
        ("out_in.max", "out_in.max", ""),
        ("power0", "power0", " Did you mean 'power2'?"),
        ("loops17", "loops17", " Did you mean 'loops2'?"),
        ("hop2", "hop2", " Did you mean 'hop2.max'"),
        ("hop2.median", "hop2.median", " Did you mean 'hop2.max'?"),
        ("ego.max", "ego.max", ""),
        ("xyzzy", "xyzzy", ""),
    ],
)
def test_a_name_that_is_none(recipe: str, name: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_blocks(recipe)
    rule = caught.value.rule
    assert rule.startswith(f"there is no feature block {name!r}.{hint.rstrip('?')}")
    assert "Blocks: ego, degrees, pagerank, edges, ring1" in rule


def test_a_table_without_blocks_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        parse_blocks("rings-ring1-ring2")
    assert caught.value.param == "blocks"


def test_what_is_no_text_is_no_recipe() -> None:
    with pytest.raises(InputError, match="no feature block '3'"):
        parse_blocks(3)  # type: ignore[arg-type]


WHOLE = (
    *("ego", "ring1", "out", "out_in", "power2", "loops1", "hop1.sum", "ring2.max"),
    *("degrees", "edges", "labels.ring1", "labels.in", "adjacency.ring1"),
    *("adjacency.out", "adjacency.in"),
)


@each(
    ("lacks", "left_out"),
    [
        ((), {"adjacency.ring1"}),
        (
            ("features",),
            {
                *("ego", "ring1", "out", "out_in", "power2", "loops1", "hop1.sum"),
                *("ring2.max", "adjacency.ring1"),
            },
        ),
        (("edges",), set(WHOLE) - {"ego"}),
        (
            ("directions",),
            {"out", "out_in", "labels.in", "adjacency.out", "adjacency.in"},
        ),
        (("labels",), {"labels.ring1", "labels.in", "adjacency.ring1"}),
        (("edge_features",), {"edges", "adjacency.ring1"}),
        (("numeric",), {"ring2.max", "adjacency.ring1"}),
    ],
)
def test_what_a_graph_lacks_is_left_out(
    lacks: tuple[str, ...], left_out: set[str]
) -> None:
    has = AvailableParts(**dict.fromkeys(lacks, False))
    expected = tuple(name for name in WHOLE if name not in left_out)
    assert has.select(WHOLE) == expected


def test_the_adjacency_of_both_ends_can_be_had_of_a_directed_graph() -> None:
    blocks = AvailableParts().select(("ego", "adjacency.ring1"))
    assert blocks == ("ego", "adjacency.ring1")


def test_every_column_has_a_name_in_words() -> None:
    blocks = {
        "ego": 2,
        "ring1": 2,
        "ring2.max": 1,
        "ring1.std": 1,
        "pagerank": 1,
        "out_in": 2,
        "power1": 2,
        "loops3": 2,
        "hop1.mean": 2,
        "hop2.min": 2,
        "degrees": 4,
        "edges": 1,
        "labels.ring2": 3,
        "labels.in_out": 3,
        "adjacency.ring1": 3,
    }
    schema = TableSchema(
        tuple(blocks),
        tuple(blocks.values()),
        ("age", "income"),
        ("no", "yes"),
        ("amount",),
        ("income",),
    )
    names = schema.column_names(["ann", "bob"])
    assert len(names) == len(set(names)) == schema.width == 31
    for name in (
        "age",
        "mean of income over ring 1",
        "largest of income over ring 2",
        "standard deviation of income over ring 1",
        "PageRank (log)",
        "mean of income over edges out then in",
        "smoothed value of income over 1 step",
        "value smoothed with own of income over 3 steps",
        "mean of income over neighbors",
        "smallest of income over neighbors, 2 times",
        "number of nodes in ring 1 (log)",
        "number of nodes reached by edges in (log)",
        "amount",
        "share of yes among training nodes in ring 2",
        "number of training nodes in ring 2 (log)",
        "share of no among training nodes reached by edges in then out",
    ):
        assert name in names
    assert names[-3:] == ["edge to ann", "edge to bob", "edge to 2"]


SCHEMA = TableSchema(
    ("ego", "degrees", "labels.ring1"),
    (2, 4, 3),
    ("a", "b"),
    ("no", "yes"),
    (),
    (),
    "x1",
)


def test_a_schema_comes_back_from_json() -> None:
    content = SCHEMA.to_json()
    assert set(content) == {"blocks", "widths", "edge_columns", "numeric", "nodes"}
    assert TableSchema.from_json(content, ("a", "b"), ("no", "yes")) == SCHEMA
    assert SCHEMA.has_labels
    assert not TableSchema(("ego",), (2,), ("a", "b"), ("no", "yes")).has_labels


@each(
    "change",
    [
        {"blocks": ["ego", "degrees"]},
        {"blocks": ["ego", "degrees", "labels.ring9"]},
        {"blocks": ["ego", "ego", "labels.ring1"]},
        {"blocks": None},
        {"widths": [2, 4, 4]},
        {"widths": [3, 4, 3]},
        {"widths": [2, 3, 3]},
        {"widths": [2.0, 4, 3]},
        {"widths": 9},
        {"nodes": 7},
        {"numeric": ["c"]},
    ],
)
def test_a_damaged_schema_is_refused(change: dict[str, Any]) -> None:
    content = SCHEMA.to_json() | change
    with pytest.raises(InputError, match="the blocks of the feature table are damaged"):
        TableSchema.from_json(content, ("a", "b"), ("no", "yes"))


@each("content", [[], "table", 3, {}])
def test_what_is_no_schema_is_refused(content: object) -> None:
    with pytest.raises(InputError, match="the blocks of the feature table are damaged"):
        TableSchema.from_json(content, (), ())


def test_how_far_a_table_looks() -> None:
    def extent(*blocks: str) -> tuple[int, int]:
        return walk_extent(TableSchema(blocks, (1,) * len(blocks), ("a",), ()))

    assert extent("ego") == (0, 0)
    assert extent("ego", "ring2.max") == (1, 2)
    assert extent("labels.out_in", "adjacency.ring1") == (2, 1)
    assert extent("degrees", "hop3.mean") == (3, 2)
    assert farthest_ring(["ego", "degrees"]) == 0
    assert farthest_ring(["power2", "labels.ring3"]) == 3
