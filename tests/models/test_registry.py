"""The table of models: their names, their options, and what is refused."""

import json
import math

import pytest
import torch

from h2gcn.features import FeatureBuilder
from h2gcn.models import ALIASES, MODELS, build_model, find_model
from support.graphs import GRAPHS
from support.refusals import refused


def build(name, options):
    """Return a new module for three classes."""
    width = {"labels": 3, "table": (2, 5)}.get(find_model(name).inputs, 7)
    return build_model(name, width, 3, options)


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
    with refused(words="there is no model 'xyzzy'. Models: h2gcn"):
        find_model("xyzzy")


def test_designs_are_those_of_the_paper():
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
    assert {name: MODELS[name].designs for name in expected} == expected
    assert all(spec.summary and spec.paper for spec in MODELS.values())


def test_dir_gnn_and_tables_follow_directions_where_there_are_any():
    tables = {name for name, spec in MODELS.items() if "table" in spec.options}
    for title in ("directed", "random"):
        graph = GRAPHS[title]
        for name, spec in MODELS.items():
            follows = name in {"dir-gnn", *tables} and graph.directed is not None
            expected = graph.directed if follows else graph.adj
            assert spec.matrix_of(graph) is expected, name


def test_without_columns_of_edges_the_default_table_has_all_but_those():
    blocks = MODELS["ring-table"].options["table"]
    for title in ("random", "directed"):
        builder = FeatureBuilder(GRAPHS[title])
        assert builder.schema(blocks) == builder.schema(blocks.replace("+edges", ""))


# ----------------------------------------------------------------------------- options


def test_defaults_are_accepted_and_described():
    for name, spec in MODELS.items():
        for option, described in spec.described_options.items():
            assert described.help, (name, option)
            assert not described.help.endswith("."), (name, option)
        defaults = json.loads(json.dumps(spec.options))
        assert spec.check_options(defaults, name) == spec.options
        plain, module = build(name, {}), build(name, defaults)
        shapes = [
            [w.shape for w in m.state_dict().values() if torch.is_tensor(w)]
            for m in (plain, module)
        ]
        assert shapes[0] == shapes[1]
        columns = {"labels": 3}.get(spec.inputs, 7)
        assert (module.in_channels, module.out_channels) == (columns, 3)


NEVER = (object(), math.nan, "no such value", -1, {}, b"1")
FRACTION = (1.5, 1, -0.1, "0.5", True)
# Values next to those that an option takes: of all models that have it, or of one.
REFUSED = {
    **dict.fromkeys(("dropout", "input_dropout", "propagation_dropout"), FRACTION),
    "hidden_channels": (0, 65_537, 2.5, True),
    "activation": ("tanh", "Relu", ""),
    "steps": (0, 10_001),
    "rounds": (10_001,),
    "power": (0, 129, 2.0),
    "layers": (0, 129, 1.5),
}
OWN_REFUSED = {
    "gcn-cheby": {"max_degree": (33, 1.5, True)},
    "gat": {"heads": (0, 2.0, 65_537), "out_heads": (0,)},
    "mixhop": {
        "powers": ((), [], (0, 0), (-1, 0), (0.5,), (True,), 2, "01"),
        "hidden_channels": (2,),  # a column for each power
    },
    "gpr-gnn": {"alpha": (0.0, 1)},
    "gdc": {"alpha": (0, 1.0), "time": (0.0, 101), "top": (0, 2.5, 2**31)},
    "acm-gcn": {"relu": ("never", True)},
    "dir-gnn": {"alpha": (1.5,), "jumping": ("lstm",), "normalize": (0, 1, "yes")},
    "residual-gcn": {"norm": ("graph",)},
    "cpgnn": {"rounds": (0,)},
    "gmnn": {"iterations": (0,), "label_steps": (0,), "temperature": (0,)},
    "label-propagation": {"alpha": (1.0, 0)},
    "ica": {"table": ("ego", "labels.ring1+degrees")},
    "ring-table": {"layers": (17,), "norm": ("batch",), "join": ("max",)},
}


@pytest.mark.parametrize("name", MODELS)
def test_values_that_an_option_does_not_take_are_refused_by_its_name(name):
    for option, default in MODELS[name].options.items():
        values = [*NEVER, *REFUSED.get(option, ())]
        own = OWN_REFUSED.get(name, {}).get(option, ())
        values += own
        values += ["false", 0, 1] if isinstance(default, bool) else []
        values += [None] if default is not None else []
        for value in values:
            fields = {"param": option, "value": value}
            names_block = option == "table" and value not in own
            with refused(**({} if names_block else fields)):
                build(name, {option: value})


def test_options_of_other_models_are_refused():
    everything = {option for spec in MODELS.values() for option in spec.options}
    for name, spec in MODELS.items():
        for option in everything - spec.options.keys():
            with refused(words=f"the model {name} has no option {option!r}"):
                build(name, {option: 1})
    with refused(words="Did you mean 'dropout'?"):
        build("gcn", {"dropuot": 0.5})
    with pytest.raises(Exception, match="no option 'jumping'"):
        build("gcn", {"jumping": True})  # fixed by the name of the model
