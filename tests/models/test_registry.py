"""The table of models: names, other names, and what is said of each."""

import pytest

from h2gcn.exceptions import InputError
from h2gcn.models import ALIASES, MODELS, build_model, find_model
from support.graphs import GRAPHS
from support.refusals import refused


def test_models_are_found_by_their_names_and_the_papers():
    for name in MODELS:
        assert find_model(name) is MODELS[name]
    aliases = {"h2gcn-s0": "h2gcn-1", "h2gcn-k2": "h2gcn-1", "h2gcn-n2": "h2gcn-s1"}
    assert aliases == ALIASES
    for alias, name in aliases.items():
        assert find_model(alias) is MODELS[name]
        assert alias not in MODELS


def test_near_names_are_offered():
    for typed, meant in (
        ("h2gcn1", "'h2gcn-1'"),
        ("H2GCN-2", "'h2gcn-2'"),
        ("gnc", "'gcn'"),
        ("h2gcn-s", "'h2gcn-s0'"),
    ):
        with refused(words=meant) as caught:
            find_model(typed)
        assert "Did you mean" in str(caught.value)
        assert str(caught.value).endswith(f"Models: {', '.join(MODELS)}.")
    with pytest.raises(InputError, match=r"there is no model 'xyzzy'\. Models: h2gcn"):
        find_model("xyzzy")


def test_the_table_says_which_designs_a_model_follows():
    designs = {name: spec.designs for name, spec in MODELS.items()}
    expected = {
        **dict.fromkeys(("h2gcn-1", "h2gcn-2"), "D1 D2 D3"),
        **dict.fromkeys(("mlp", "gcn", "h2gcn-ns1"), ""),
        "graphsage": "D1",
        **dict.fromkeys(("gcn-cheby", "mixhop"), "D2"),
        **dict.fromkeys(("label-propagation-2hop", "decoupled-smoothing"), "D2"),
        "gcn-jk": "D3",
        "gcn-cheby-jk": "D2 D3",
        "graphsage-jk": "D1 D3",
    }
    assert {name: designs[name] for name in expected} == expected
    assert all(spec.summary and spec.paper for spec in MODELS.values())


def test_dir_gnn_and_tables_follow_directions_where_there_are_any():
    tables = {name for name, spec in MODELS.items() if "table" in spec.options}
    for title in ("directed", "random"):
        graph = GRAPHS[title]
        for name, spec in MODELS.items():
            follows = name in {"dir-gnn", *tables} and graph.directed is not None
            expected = graph.directed if follows else graph.adj
            assert spec.matrix_of(graph) is expected, name


def test_modules_keep_their_sizes():
    for name, spec in MODELS.items():
        width = {"labels": 3, "table": (2, 5)}.get(spec.inputs, 7)
        module = build_model(name, width, 3, {})
        columns = sum(width) if spec.inputs == "table" else width
        assert (module.in_channels, module.out_channels) == (columns, 3)
