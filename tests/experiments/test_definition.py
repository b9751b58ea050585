"""The paper's experiments as data, its grids, and what `h2gcn train` starts from."""

import ast
import functools
import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from h2gcn import NodeClassifier
from h2gcn.datasets import DATASETS
from h2gcn.exceptions import InputError
from h2gcn.experiments import (
    classifier_of,
    find_experiments,
    find_grid,
    find_preset,
    find_protocol,
    flatten,
)
from h2gcn.experiments.definition import (
    EXPERIMENTS,
    ORDER,
    OWN_PATIENCE,
    PROTOCOLS,
    _data,
    nest,
    published_rows,
)
from h2gcn.models import ALIASES, MODELS
from support.cases import each

PAPER, STANDARD, QUICK = (PROTOCOLS[name] for name in ("paper", "standard", "quick"))


@functools.cache
def _is_taken(model: str, setting: str) -> None:
    NodeClassifier(model, **ast.literal_eval(setting)).check_params()


def check(model: str, setting: Mapping[str, Any]) -> None:
    """Raise where a model does not take a setting; grids have most in common."""
    _is_taken(model, repr(dict(setting)))


def n_runs(name: str, protocol: str = "standard") -> int:
    """Return how many runs the table of an experiment reports."""
    experiment, how = EXPERIMENTS[name], PROTOCOLS[protocol]
    units = [u for c in experiment.shown(how) for u in experiment.units(c, how)]
    return len(units) * len(experiment.models)


def test_the_sizes_are_those_of_the_paper() -> None:
    assert n_runs("syn-cora") == n_runs("syn-products") == 33 * 8
    assert n_runs("ablation") == 36 * 11
    assert n_runs("table-1") == 2 * 3 * 7
    assert n_runs("degree") == 2 * 3 * 2
    # Ten benchmarks of ten splits, cornell beside its file of 2020, cora-full's three.
    assert n_runs("real") == (10 * 10 + 3) * 12


@each("name", EXPERIMENTS)
def test_rows_and_columns_are_those_of_the_papers_table(name: str) -> None:
    experiment = EXPERIMENTS[name]
    assert set(experiment.models) <= set(MODELS)
    if name == "degree":
        return
    paper = published_rows(experiment.paper)
    assert set(experiment.models) == set(paper)
    for row in paper.values():
        assert set(row) == set(experiment.columns) - {"cornell"}


@each("name", EXPERIMENTS)
def test_figures_show_models_of_the_table(name: str) -> None:
    for _, models in EXPERIMENTS[name].figures.values():
        assert set(models) <= set(EXPERIMENTS[name].models)


def test_graphs_are_named_by_benchmark_homophily_and_number() -> None:
    units = EXPERIMENTS["syn-cora"].units("0.10", STANDARD)
    assert units == [(f"syn-cora/h0.10-r{i}", 0) for i in (1, 2, 3)]
    units = EXPERIMENTS["syn-products"].units("1.00", QUICK)
    assert units == [("syn-products-2000/h1.00-r1", 0)]
    assert EXPERIMENTS["real"].units("texas", QUICK) == [("texas", 0), ("texas", 1)]


@each("protocol", PROTOCOLS)
@each("name", EXPERIMENTS)
def test_every_setting_of_a_plan_is_one_that_its_model_takes(
    name: str, protocol: str
) -> None:
    experiment, how = EXPERIMENTS[name], PROTOCOLS[protocol]
    for column in experiment.shown(how):
        dataset = experiment.units(column, how)[0][0]
        for model in experiment.models:
            settings = how.settings(dataset, model)
            assert settings
            for setting in settings:
                check(model, setting)


def test_the_paper_protocol_is_the_grid_as_it_is() -> None:
    for model in ("h2gcn-1", "gcn", "gat"):
        for dataset in ("cora", "syn-cora/h0.10-r1"):
            assert PAPER.settings(dataset, model) == find_grid(dataset, model)


def test_the_standard_protocol_waits_where_the_paper_trains_to_the_end() -> None:
    assert {s["patience"] for s in STANDARD.settings("cora", "h2gcn-1")} == {100}
    assert {s["patience"] for s in STANDARD.settings("cora", "gcn")} == {40, 100, 200}
    assert all("patience" not in s for s in STANDARD.settings("texas", "h2gcn-1"))
    assert all("patience" not in s for s in STANDARD.settings("cora", "graphsage"))
    (setting,) = STANDARD.settings("syn-cora/h0.10-r1", "h2gcn-1")
    assert (setting["dropout"], setting["patience"]) == (0.0, 100)


@each("model", MODELS)
def test_the_quick_protocol_tries_one_setting_and_few_epochs(model: str) -> None:
    for dataset in ("cora", "syn-products-2000/h0.10-r1"):
        (setting,) = QUICK.settings(dataset, model)
        assert setting["epochs"] <= 100


def test_all_is_every_experiment_once() -> None:
    assert find_experiments("all") == list(ORDER)
    assert set(ORDER) == {*EXPERIMENTS, "ranks", "statistics", "theory"}
    assert find_experiments("real") == ["real"]


def test_an_unknown_experiment_offers_the_nearest() -> None:
    with pytest.raises(
        InputError, match=r"there is no experiment 'sin-cora'\. Did you mean 'syn-cora'"
    ):
        find_experiments("sin-cora")


def test_an_unknown_protocol_offers_the_nearest() -> None:
    rule = r"^protocol must be one of 'paper', 'standard', 'quick', got "
    with pytest.raises(InputError, match=rule):
        find_protocol("quik")


# -------------------------------------------------------------------- the paper's grids


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


@each(("name", "model"), APP_F)
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


@each("model", [*MODELS, *ALIASES])
def test_every_setting_is_one_that_the_model_takes(model: str) -> None:
    for name in FAMILIES:
        grid = find_grid(name, model)
        assert grid, name
        assert all(grid[i] not in grid[:i] for i in range(len(grid))), "none twice"
        for setting in grid:
            check(model, setting)


@each("model", ["gcn", "gcn-cheby", "graphsage"])
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


# ------------------------------------------------------------------------------ presets


@each("model", MODELS)
@each("name", [*DATASETS, "syn-cora/h0.10-r1", "syn-products"])
def test_every_preset_is_one_that_the_model_takes(name: str, model: str) -> None:
    check(model, find_preset(name, model))


def test_every_setting_is_of_a_model_and_a_benchmark_that_exist() -> None:
    assert set(_data("presets.json")) <= {*DATASETS, "syn-cora", "syn-products"}
    for settings in _data("presets.json").values():
        assert set(settings) <= set(MODELS)


def test_a_benchmark_brings_its_scaling_and_metric() -> None:
    assert find_preset("minesweeper", "h2gcn-1")["metric"] == "roc_auc"
    assert find_preset("cora", "h2gcn-1")["scaling"] == "rows"
    assert find_preset("syn-products", "h2gcn-1")["scaling"] == "none"


def test_an_untuned_benchmark_gets_the_first_of_the_grid_with_patience() -> None:
    preset = find_preset("tolokers", "h2gcn-1")
    assert preset["patience"] == 100
    assert (preset["activation"], preset["dropout"]) == ("relu", 0.0)


@each("model", ["h2gcn-1", "h2gcn-2", "h2gcn-s0", "h2gcn-r2"])
def test_the_papers_choices_hold_for_all_graphs_of_a_synthetic_benchmark(
    model: str,
) -> None:
    assert find_preset("syn-cora/h0.10-r1", model)["dropout"] == 0.0
    assert find_preset("syn-cora/h0.90-r2", model)["dropout"] == 0.0
    assert find_preset("syn-products", model)["dropout"] == 0.5
    assert find_preset("syn-cora/h0.90-r2", "gcn")["hidden_channels"] == 32


def test_a_preset_can_be_changed_without_harm() -> None:
    find_preset("cora", "h2gcn-1")["dropout"] = 0.9
    assert find_preset("cora", "h2gcn-1")["dropout"] == 0.5
