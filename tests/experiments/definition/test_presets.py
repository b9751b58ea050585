"""The settings that `h2gcn train` starts from."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from h2gcn import NodeClassifier
from h2gcn.datasets import DATASETS
from h2gcn.experiments import find_preset
from h2gcn.experiments.definition.settings import OWN_DATA, _presets
from h2gcn.models import MODELS


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "name", [*DATASETS, "syn-cora/h0.10-r1", "syn-products", "own"]
)
def test_every_preset_is_one_that_the_model_takes(name: str, model: str) -> None:
    NodeClassifier(model, **find_preset(name, model)).check_params()


def test_every_setting_is_of_a_model_and_a_benchmark_that_exist() -> None:
    assert set(_presets()) <= {*DATASETS, "syn-cora", "syn-products"}
    for settings in _presets().values():
        assert set(settings) <= set(MODELS)


def test_own_data_stop_by_patience() -> None:
    assert find_preset("my-graph", "h2gcn-1") == OWN_DATA == {"patience": 100}


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


# ----------------------------------------------------------------- how they are found


def winner_of(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the winner's setting, as `find_presets.py --collect` keeps it."""
    script = Path(__file__).parents[3] / "benchmarks" / "find_presets.py"
    spec = spec_from_file_location("find_presets", script)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    dataset, model, setting = module.winner_of(records)
    assert (dataset, model) == ("texas", "gcn")
    return dict(setting)


def records(l2: float, *scores: float | None) -> list[dict[str, Any]]:
    """Return a setting's runs, one a split; None is a failure."""
    return [
        {
            "key": f"{l2} {split}",
            "dataset": "texas",
            "model": "gcn",
            "config": {"scaling": "rows", "metric": "accuracy", "l2": l2},
            "seconds": 1.0,
            "val_score": score,
        }
        | ({"error": "training diverged"} if score is None else {})
        for split, score in enumerate(scores)
    ]


def test_the_best_mean_wins_and_what_the_benchmark_gives_is_left_out() -> None:
    runs = records(0.1, 0.5, 0.9) + records(0.2, 0.7, 0.8) + records(0.3, 0.8, 0.7)
    assert winner_of(runs) == {"l2": 0.2}, "on a tie the first"


def test_a_setting_that_did_not_run_everywhere_cannot_win() -> None:
    whole = records(0.1, 0.5, 0.5)
    assert winner_of(records(0.2, 0.9) + whole) == {"l2": 0.1}
    assert winner_of(records(0.2, 0.9, None) + whole) == {"l2": 0.1}
