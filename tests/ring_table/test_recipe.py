"""Recipes: which names there are, what they stand for, what columns are called."""

from typing import Any

import pytest

from h2gcn.exceptions import InputError
from h2gcn.ring_table import Schema, check_recipe
from h2gcn.ring_table.recipe import expand
from support.cases import each

DIRECTIONS = ("out", "in", "out-out", "out-in", "in-out", "in-in")


@each(
    ("recipe", "blocks"),
    [
        ("own", ("own",)),
        ("own+rings", ("own", "ring1", "ring2")),
        ("directions", DIRECTIONS),
        ("adjacency", ("adjacency.all", "adjacency.out", "adjacency.in")),
        ("ring1+rings+ring1", ("ring1", "ring2")),
        ("ring3.max+out.min+in.sum", ("ring3.max", "out.min", "in.sum")),
        ("labels.ring3+labels.out-in", ("labels.ring3", "labels.out-in")),
        ("power1+loops16+hop2.mean", ("power1", "loops16", "hop2.mean")),
        ("degrees+edges", ("degrees", "edges")),
    ],
)
def test_a_recipe_names_blocks(recipe: str, blocks: tuple[str, ...]) -> None:
    assert check_recipe(recipe) == blocks


def test_labels_stand_for_rings_and_directions() -> None:
    places = ("ring1", "ring2", *DIRECTIONS)
    assert check_recipe("labels") == tuple(f"labels.{place}" for place in places)


@each(
    ("recipe", "name", "hint"),
    [
        ("own+rngs", "rngs", " Did you mean 'rings'"),
        ("ring4", "ring4", " Did you mean 'ring"),
        ("own+", "", ""),
        ("own + ring1", "own ", " Did you mean 'own'"),
        ("labels.ring4", "labels.ring4", ""),
        ("labels.max", "labels.max", ""),
        ("out-in.max", "out-in.max", ""),
        ("power0", "power0", " Did you mean 'power2'?"),
        ("loops17", "loops17", " Did you mean 'loops2'?"),
        ("hop2", "hop2", " Did you mean 'hop2.max'"),
        ("hop2.median", "hop2.median", " Did you mean 'hop2.max'?"),
        ("own.max", "own.max", ""),
        ("xyzzy", "xyzzy", ""),
    ],
)
def test_a_name_that_is_none(recipe: str, name: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        check_recipe(recipe)
    said = str(caught.value)
    assert said.startswith(f"the ring table has no block {name!r}.{hint}")
    assert said.endswith("RING.sum, .max, .min; labels.RING; powerK, loopsK, hopK.max.")
    assert "Blocks: own, degrees, edges, ring1, ring2, ring3, out, in, out-out" in said


def test_what_is_no_text_is_no_recipe() -> None:
    with pytest.raises(InputError, match="the ring table has no block '3'"):
        check_recipe(3)  # type: ignore[arg-type]


ALL = {"features": True, "edges": True, "directions": True, "labels": True}
WHOLE = (
    *("own", "ring1", "out", "out-in", "power2", "loops1", "hop1.sum", "ring2.max"),
    *("degrees", "edges", "labels.ring1", "labels.in", "adjacency.all"),
    *("adjacency.out", "adjacency.in"),
)


@each(
    ("lacks", "left_out"),
    [
        ((), {"adjacency.all"}),
        (
            ("features",),
            {
                *("own", "ring1", "out", "out-in", "power2", "loops1", "hop1.sum"),
                *("ring2.max", "adjacency.all"),
            },
        ),
        (("edges",), set(WHOLE) - {"own"}),
        (
            ("directions",),
            {"out", "out-in", "labels.in", "adjacency.out", "adjacency.in"},
        ),
        (("labels",), {"labels.ring1", "labels.in", "adjacency.all"}),
        (("carried",), {"edges", "adjacency.all"}),
    ],
)
def test_what_a_graph_lacks_is_left_out(
    lacks: tuple[str, ...], left_out: set[str]
) -> None:
    has = ALL | {"carried": True} | dict.fromkeys(lacks, False)
    expected = tuple(name for name in WHOLE if name not in left_out)
    assert expand(WHOLE, **has) == expected


def test_the_adjacency_of_both_ends_can_be_had_of_a_directed_graph() -> None:
    blocks = expand(("own", "adjacency.all"), **ALL, carried=False)
    assert blocks == ("own", "adjacency.all")


def test_every_column_has_a_name_in_words() -> None:
    blocks = {
        "own": 2,
        "ring1": 2,
        "ring2.max": 2,
        "out-in": 2,
        "power1": 2,
        "loops3": 2,
        "hop1.mean": 2,
        "hop2.min": 2,
        "degrees": 4,
        "edges": 1,
        "labels.ring2": 3,
        "labels.in-out": 3,
        "adjacency.all": 3,
    }
    schema = Schema(
        tuple(blocks),
        tuple(blocks.values()),
        ("age", "income"),
        ("no", "yes"),
        ("amount",),
    )
    names = schema.column_names(["ann", "bob"])
    assert len(names) == len(set(names)) == schema.width == 30
    assert names[:2] == ["age", "income"]
    assert names[3] == "mean of income over ring 1"
    assert names[5] == "largest of income over ring 2"
    assert names[7] == "mean of income over edges out then in"
    assert names[9] == "smoothed value of income over 1 step"
    assert names[11] == "value smoothed with own of income over 3 steps"
    assert names[13] == "mean of income over neighbours"
    assert names[15] == "smallest of income over neighbours, 2 times"
    assert names[16:20] == [
        "number of nodes in ring 1 (log)",
        "number of nodes in ring 2 (log)",
        "number of nodes reached by edges out (log)",
        "number of nodes reached by edges in (log)",
    ]
    assert names[20] == "amount"
    assert names[21:24] == [
        "share of no among training nodes in ring 2",
        "share of yes among training nodes in ring 2",
        "number of training nodes in ring 2 (log)",
    ]
    assert names[24] == "share of no among training nodes reached by edges in then out"
    assert names[27:] == ["edge to ann", "edge to bob", "edge to 2"]


SCHEMA = Schema(
    ("own", "degrees", "labels.ring1"), (2, 4, 3), ("a", "b"), ("no", "yes"), (), "x1"
)


def test_a_schema_comes_back_from_json() -> None:
    content = SCHEMA.to_json()
    assert set(content) == {"blocks", "widths", "edge_columns", "nodes"}
    assert Schema.from_json(content, ("a", "b"), ("no", "yes")) == SCHEMA
    assert SCHEMA.has_labels
    assert not Schema(("own",), (2,), ("a", "b"), ("no", "yes")).has_labels


@each(
    "change",
    [
        {"blocks": ["own", "degrees"]},
        {"blocks": ["own", "degrees", "labels.ring9"]},
        {"blocks": ["own", "own", "labels.ring1"]},
        {"blocks": None},
        {"widths": [2, 4, 4]},
        {"widths": [3, 4, 3]},
        {"widths": [2, 3, 3]},
        {"widths": [2.0, 4, 3]},
        {"widths": 9},
        {"nodes": 7},
    ],
)
def test_a_damaged_schema_is_refused(change: dict[str, Any]) -> None:
    content = SCHEMA.to_json() | change
    with pytest.raises(InputError, match="the blocks of the ring table are damaged"):
        Schema.from_json(content, ("a", "b"), ("no", "yes"))


@each("content", [[], "table", 3, {}])
def test_what_is_no_schema_is_refused(content: object) -> None:
    with pytest.raises(InputError, match="the blocks of the ring table are damaged"):
        Schema.from_json(content, (), ())
