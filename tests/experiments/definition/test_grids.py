"""The paper's grids: the settings of its App. F, all of them allowed."""

import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from h2gcn import NodeClassifier
from h2gcn.datasets import DATASETS
from h2gcn.exceptions import InputError
from h2gcn.experiments import classifier_of, find_grid, find_preset, flatten
from h2gcn.experiments.definition.settings import OWN_PATIENCE, nest
from h2gcn.models import ALIASES, MODELS

FAMILIES = (*DATASETS, "syn-cora/h0.10-r1", "syn-products/h0.10-r1", "my graph")

# What App. F says, set by set, over what each program does when it is not told
# otherwise. TensorFlow's L2 loss has a factor ½; the weights of such programs are
# written as theirs, divided by two.
PROGRAMS: dict[str, dict[str, Any]] = {
    "h2gcn-1": {
        "hidden_channels": 64,
        "optimizer": "adam",
        "learning_rate": 0.01,
        "l2": 5e-4,
        "stopping": "score",
        "patience": None,
        "epochs": 2000,
    },
    "gcn": {
        "activation": "relu",
        "dropout": 0.5,
        "optimizer": "adam",
        "learning_rate": 0.01,
        "l2": 5e-4 / 2,
        "stopping": "loss-mean",
        "epochs": 2000,
    },
    "graphsage": {
        "activation": "relu",
        "dropout": 0.0,
        "optimizer": "sgd",
        "l2": 0.0,
        "stopping": "score",
        "patience": None,
        "scaling": "none",
    },
    "mixhop": {
        "powers": (0, 1, 2),
        "activation": "relu",
        "optimizer": "sgd",
        "learning_rate": 0.5,
        "l2": 5e-4,
        "stopping": "score",
        "patience": 50,
        "epochs": 400,
    },
    "gat": {
        "hidden_channels": 8,
        "heads": 8,
        "activation": "elu",
        "dropout": 0.6,
        "optimizer": "adam",
        "learning_rate": 0.005,
        "l2": 5e-4 / 2,
        "stopping": "loss-or-score",
        "patience": 100,
        "epochs": 1500,
    },
}
PROGRAMS["h2gcn-2"] = PROGRAMS["mlp"] = PROGRAMS["h2gcn-1"]
PROGRAMS["gcn-cheby"] = PROGRAMS["gcn"]
REAL, SYN_CORA = "texas", "syn-cora/h0.10-r1"
SYN_PRODUCTS, CORA_FULL = "syn-products/h0.10-r1", "cora-full"
SCALING = {REAL: "rows", CORA_FULL: "rows", SYN_CORA: "rows", SYN_PRODUCTS: "none"}
RELU_OR_NONE = ["relu", "none"]
STOPS = [40, 100, 200]
Sets = list[dict[str, list[Any]]]
APP_F: dict[tuple[str, str], Sets] = {
    (SYN_CORA, "h2gcn-1"): [{"activation": ["relu"], "dropout": [0.0, 0.5]}],
    (SYN_CORA, "h2gcn-2"): [{"activation": ["relu"], "dropout": [0.0, 0.5]}],
    (SYN_CORA, "gcn"): [{"hidden_channels": [16, 32, 64], "patience": STOPS}],
    (SYN_CORA, "gcn-cheby"): [
        {
            "hidden_channels": [16, 32, 64],
            "dropout": [0.6],
            "l2": [1e-5 / 2, 5e-4 / 2],
            "max_degree": [2],
            "patience": [40],
        },
        {
            "hidden_channels": [16, 32, 64],
            "dropout": [0.5],
            "l2": [5e-4 / 2],
            "max_degree": [3],
            "patience": [40],
        },
    ],
    (SYN_CORA, "graphsage"): [
        {"hidden_channels": [64, 128], "learning_rate": [0.1, 0.7], "epochs": [500]}
    ],
    (SYN_CORA, "mixhop"): [{"hidden_channels": [64, 192]}],
    (SYN_CORA, "gat"): [{"hidden_channels": [8, 16, 32, 64], "heads": [1, 4, 8]}],
    (SYN_CORA, "mlp"): [{"activation": ["relu"], "dropout": [0.5]}],
    (SYN_PRODUCTS, "h2gcn-1"): [{"activation": ["relu"], "dropout": [0.0, 0.5]}],
    (SYN_PRODUCTS, "h2gcn-2"): [{"activation": ["relu"], "dropout": [0.0, 0.5]}],
    (SYN_PRODUCTS, "gcn"): [{"hidden_channels": [64], "patience": STOPS}],
    (SYN_PRODUCTS, "gcn-cheby"): [
        {"hidden_channels": [64], "max_degree": [2], "patience": [40]}
    ],
    (SYN_PRODUCTS, "graphsage"): [
        {"hidden_channels": [64, 128], "learning_rate": [0.1, 0.7], "epochs": [500]}
    ],
    (SYN_PRODUCTS, "mixhop"): [{"hidden_channels": [64, 192]}],
    (SYN_PRODUCTS, "gat"): [{"hidden_channels": [8]}],
    (SYN_PRODUCTS, "mlp"): [{"activation": ["relu"], "dropout": [0.5]}],
    (REAL, "h2gcn-1"): [
        {"activation": RELU_OR_NONE, "dropout": [0.0, 0.5], "l2": [1e-5, 5e-4]}
    ],
    (REAL, "h2gcn-2"): [
        {"activation": RELU_OR_NONE, "dropout": [0.0, 0.5], "l2": [1e-5, 5e-4]}
    ],
    (REAL, "gcn"): [{"hidden_channels": [64], "patience": STOPS}],
    (REAL, "gcn-cheby"): [
        {
            "hidden_channels": [64],
            "l2": [1e-5 / 2, 5e-4 / 2],
            "max_degree": [2],
            "patience": STOPS,
        }
    ],
    (REAL, "graphsage"): [
        {"hidden_channels": [64], "learning_rate": [0.1, 0.7], "epochs": [500]}
    ],
    (REAL, "mixhop"): [{"hidden_channels": [64, 192]}],
    (REAL, "gat"): [{"hidden_channels": [8]}],
    (REAL, "mlp"): [{"activation": RELU_OR_NONE, "dropout": [0.0, 0.5]}],
    (CORA_FULL, "h2gcn-1"): [
        {"activation": RELU_OR_NONE, "dropout": [0.0, 0.5], "l2": [1e-5, 1e-6]}
    ],
    (CORA_FULL, "h2gcn-2"): [
        {"activation": RELU_OR_NONE, "dropout": [0.0, 0.5], "l2": [1e-5, 1e-6]}
    ],
    (CORA_FULL, "gcn"): [
        {
            "hidden_channels": [64],
            "patience": STOPS,
            "l2": [5e-5 / 2, 1e-5 / 2, 1e-6 / 2],
        }
    ],
    (CORA_FULL, "gcn-cheby"): [
        {
            "hidden_channels": [64],
            "l2": [5e-5 / 2, 1e-5 / 2, 1e-6 / 2],
            "max_degree": [2],
            "patience": STOPS,
        }
    ],
    (CORA_FULL, "graphsage"): [
        {"hidden_channels": [64], "learning_rate": [0.7], "epochs": [2000]}
    ],
    (CORA_FULL, "mixhop"): [{"hidden_channels": [64, 192], "l2": [5e-4, 5e-5]}],
    (CORA_FULL, "gat"): [
        {"hidden_channels": [8], "l2": [5e-4 / 2, 5e-5 / 2, 1e-5 / 2]}
    ],
    (CORA_FULL, "mlp"): [
        {
            "activation": RELU_OR_NONE,
            "dropout": [0.0, 0.5],
            "l2": [1e-5],
            "learning_rate": [0.05],
        }
    ],
}


def in_order(settings: list[dict[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(settings, key=lambda setting: str(sorted(setting.items())))


@pytest.mark.parametrize(("name", "model"), APP_F)
def test_the_grid_is_the_papers(name: str, model: str) -> None:
    common = {"metric": "accuracy", "scaling": SCALING[name]} | PROGRAMS[model]
    expected = [
        common | dict(zip(axes, values, strict=True))
        for axes in APP_F[name, model]
        for values in itertools.product(*axes.values())
    ]
    # As they are used, so that what a grid leaves to the model is looked at too.
    used = [
        flatten(classifier_of(model, setting).resolved_params())
        for setting in find_grid(name, model)
    ]
    names = expected[0].keys()
    found = [{option: setting[option] for option in names} for setting in used]
    assert in_order(found) == in_order(expected)
    for option in used[0].keys() - names:
        assert len({str(setting[option]) for setting in used}) == 1, option


@pytest.mark.parametrize("model", [*MODELS, *ALIASES])
def test_every_setting_is_one_that_the_model_takes(model: str) -> None:
    for name in FAMILIES:
        grid = find_grid(name, model)
        assert grid, name
        assert all(grid[i] not in grid[:i] for i in range(len(grid))), "none twice"
        for setting in grid:
            NodeClassifier(model, **setting).check_params()


@pytest.mark.parametrize("model", ["gcn", "gcn-cheby", "graphsage"])
def test_jumping_knowledge_has_the_grid_of_the_plain_model(model: str) -> None:
    assert find_grid("cora", f"{model}-jk") == find_grid("cora", model)


def test_a_benchmark_brings_its_scaling_and_its_score() -> None:
    for setting in find_grid("minesweeper", "h2gcn-1"):
        assert (setting["scaling"], setting["metric"]) == ("standard", "roc_auc")
    for setting in find_grid("syn-cora/h0.10-r1", "mlp"):
        assert setting["scaling"] == "rows"


def test_scalings_are_tried_on_ones_own_graph_alone() -> None:
    plain = find_grid("my graph", "mlp")
    more = find_grid("my graph", "mlp", ("none", "standard"))
    assert more[: len(plain)] == plain, "first, and as they were"
    assert [setting.get("scaling") for setting in more] == [
        *[None] * 4,
        *["none"] * 4,
        *["standard"] * 4,
    ]
    for name in FAMILIES[:-1]:
        assert find_grid(name, "mlp", ("none",)) == find_grid(name, "mlp")
    assert find_grid("x", "linbp", ("none",)) == find_grid("x", "linbp")


def test_a_setting_without_patience_trains_to_the_end() -> None:
    assert NodeClassifier().patience == OWN_PATIENCE
    assert classifier_of("gcn", {}).patience is None
    assert classifier_of("gcn", {"patience": 7}, patience=9).patience == 7
    assert classifier_of("gcn", {"l2": 0.1}, random_state=3).random_state == 3


def test_ones_own_graph_is_trained_with_patience() -> None:
    for setting in find_grid("my graph", "h2gcn-2"):
        assert setting["patience"] == OWN_PATIENCE
    assert "patience" not in find_grid("texas", "h2gcn-2")[0]


def test_options_of_the_model_are_set_apart() -> None:
    (setting,) = find_grid("texas", "gat")
    assert setting["options"] == {"heads": 8}
    assert "heads" not in setting


def test_a_setting_has_two_forms() -> None:
    flat = {"l2": 0.1, "heads": 4, "dropout": 0.5, "max_degree": 3}
    setting = {"l2": 0.1, "dropout": 0.5, "options": {"heads": 4, "max_degree": 3}}
    assert nest(flat) == setting
    assert flatten(setting) == flat
    assert nest({"l2": 0.1}) == {"l2": 0.1}, "no options where there are none"
    assert flatten({"l2": 0.1, "options": None}) == {"l2": 0.1}


def test_a_model_that_no_grid_names_is_tried_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(MODELS, "new", MODELS["gcn"])
    assert find_grid("my graph", "new") == [{"patience": OWN_PATIENCE}]
    assert find_grid("texas", "new") == [{"scaling": "rows", "metric": "accuracy"}]
    assert find_grid("syn-products/h0.10-r1", "new") == [{"scaling": "none"}]
    assert find_preset("texas", "new")["patience"] == OWN_PATIENCE


def test_a_misspelt_model_is_not_a_new_one() -> None:
    with pytest.raises(InputError, match="Did you mean 'gcn-cheby'"):
        find_grid("texas", "gcn-chebi")
