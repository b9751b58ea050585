"""The settings that `h2gcn train` starts from."""

import pytest

from h2gcn import NodeClassifier
from h2gcn.datasets import DATASETS
from h2gcn.experiments import find_preset
from h2gcn.experiments.definition.settings import _presets
from h2gcn.models import MODELS


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", [*DATASETS, "syn-cora/h0.10-r1", "syn-products"])
def test_every_preset_is_one_that_the_model_takes(name: str, model: str) -> None:
    NodeClassifier(model, **find_preset(name, model)).check_params()


def test_every_setting_is_of_a_model_and_a_benchmark_that_exist() -> None:
    assert set(_presets()) <= {*DATASETS, "syn-cora", "syn-products"}
    for settings in _presets().values():
        assert set(settings) <= set(MODELS)


def test_a_benchmark_brings_its_scaling_and_metric() -> None:
    assert find_preset("minesweeper", "h2gcn-1")["metric"] == "roc_auc"
    assert find_preset("cora", "h2gcn-1")["scaling"] == "rows"
    assert find_preset("syn-products", "h2gcn-1")["scaling"] == "none"


def test_an_untuned_benchmark_gets_the_first_of_the_grid_with_patience() -> None:
    preset = find_preset("tolokers", "h2gcn-1")
    assert preset["patience"] == 100
    assert (preset["activation"], preset["dropout"]) == ("relu", 0.0)


@pytest.mark.parametrize("model", ["h2gcn-1", "h2gcn-2", "h2gcn-s0", "h2gcn-r2"])
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
