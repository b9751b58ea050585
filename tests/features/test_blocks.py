"""Blocks: which names there are, what they stand for, what columns are called."""

from h2gcn.features import TableSchema, farthest_ring, parse_blocks, walk_extent
from support.refusals import refused

DIRECTIONS = ("out", "in", "out_out", "out_in", "in_out", "in_in")
RECIPES = {
    "ego+rings": ("ego", "ring1", "ring2"),
    "directions": DIRECTIONS,
    "labels": tuple(f"labels.{place}" for place in ("ring1", "ring2", *DIRECTIONS)),
    "adjacency": ("adjacency.ring1", "adjacency.out", "adjacency.in"),
    "ego+numeric": ("ego", "ring1.max", "ring1.min", "ring1.std"),
    "ring1+rings+ring1": ("ring1", "ring2"),
    "ring3.max+out.mean+in.sum": ("ring3.max", "out.mean", "in.sum"),
    "labels.ring3+labels.out_in": ("labels.ring3", "labels.out_in"),
    "power1+loops16": ("power1", "loops16"),
    "degrees+edges": ("degrees", "edges"),
    "ego+rings-rings+ring2": ("ego", "ring2"),
    "rings-labels": ("ring1", "ring2"),
}
UNKNOWN = {  # recipe: (the unknown name, a suggestion)
    "ego+rngs": ("rngs", "Did you mean 'rings'"),
    "ego + ring1": ("ego ", "Did you mean 'ego'"),
    "ring4": ("ring4", "Did you mean 'ring"),
    "loops17": ("loops17", "or 'loops16'?"),
    "power0": ("power0", "Did you mean 'power"),
    "pagerank": ("pagerank", ""),
    "ego+": ("", ""),
    "labels.max": ("labels.max", ""),
    "out_in.max": ("out_in.max", ""),
    "ego.max": ("ego.max", ""),
    "ring1.": ("ring1.", ""),
}


def test_recipes_name_blocks_and_unknown_names_get_a_suggestion():
    for recipe, blocks in RECIPES.items():
        assert parse_blocks(recipe) == blocks, recipe
    for recipe, (name, hint) in UNKNOWN.items():
        with refused(words=hint) as caught:
            parse_blocks(recipe)
        assert caught.value.rule.startswith(f"there is no feature block {name!r}.")
        assert "Blocks: ego, degrees, edges, ring1" in caught.value.rule
    with refused(words="no feature block '3'"):
        parse_blocks(3)
    with refused(param="blocks", value="rings-ring1-ring2"):
        parse_blocks("rings-ring1-ring2")


def test_extent_counts_steps_and_farthest_ring_counts_members():
    for blocks, extent, farthest in (
        ("ego", (0, 0), 0),
        ("ego+ring2.max", (1, 2), 2),
        ("labels.out_in+adjacency.ring1", (2, 1), 1),
        ("degrees", (1, 2), 0),
        ("degrees+power3", (3, 2), 1),
        ("power2+labels.ring3", (2, 3), 3),
    ):
        names = parse_blocks(blocks)
        assert walk_extent(TableSchema(names, ("a",), ())) == extent, blocks
        assert farthest_ring(names) == farthest, blocks


COLUMNS = {
    "ego": ["age", "income"],
    "ring2.sum": ["sum of age over ring 2", "sum of income over ring 2"],
    "ring2.max": ["largest value of income over ring 2"],
    "ring1.std": ["standard deviation of income over ring 1"],
    "out_in": [f"mean of {x} over edges out then in" for x in ("age", "income")],
    "power1": [f"smoothed value of {x} over 1 step" for x in ("age", "income")],
    "loops3": [
        f"value smoothed with own of {x} over 3 steps" for x in ("age", "income")
    ],
    "degrees": [
        *("number of nodes in ring 1 (log)", "number of nodes in ring 2 (log)"),
        "number of nodes reached by edges out (log)",
        "number of nodes reached by edges in (log)",
    ],
    "edges": ["amount"],
    "labels.in_out": [
        "share of no among training nodes reached by edges in then out",
        "share of yes among training nodes reached by edges in then out",
        "number of training nodes reached by edges in then out (log)",
    ],
    "adjacency.in": ["edge from ann", "edge from bob", "edge from 2"],
}
NAMES = ("age", "income"), ("no", "yes")
SCHEMA = TableSchema(
    tuple(COLUMNS), *NAMES, ("amount",), ("income",), directed=True, n_nodes=3
)


def test_columns_have_names_in_words():
    names = SCHEMA.column_names(["ann", "bob"])
    assert names == [name for block in COLUMNS.values() for name in block]
    assert SCHEMA.widths == tuple(map(len, COLUMNS.values()))
    assert SCHEMA.has_labels
    assert not SCHEMA.select(["ego", "degrees"]).has_labels


def test_a_schema_comes_back_from_json_and_a_damaged_one_is_refused():
    content = SCHEMA.to_json()
    assert not {"features", "classes"} & content.keys()
    assert TableSchema.from_json(content, *NAMES) == SCHEMA
    for damaged in (
        *([], "table", 3, {}),
        *(content | {"blocks": b} for b in (None, [], ["ring9"], ["ego", "ego"])),
        *(content | {"n_nodes": n} for n in (0, -1, 2.0, "3", 2**31)),
        *(content | {"numeric": names} for names in ([], ["c"], 1)),
        *(content | {"edge_columns": names} for names in ([], [1])),
        content | {"nodes": 7},
        content | {"directed": 1},
    ):
        with refused(words="blocks of the feature table are damaged"):
            TableSchema.from_json(damaged, *NAMES)
