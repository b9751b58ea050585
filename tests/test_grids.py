"""The paper's grids: as many settings as its App. F has, all of them allowed."""

import pytest

from h2gcn import NodeClassifier
from h2gcn.datasets.catalogue import DATASETS
from h2gcn.experiments.grids import OWN_PATIENCE, find_grid
from h2gcn.models import ALIASES, MODELS

FAMILIES = (*DATASETS, "syn-cora/h0.10-r1", "syn-products/h0.10-r1", "my graph")


@pytest.mark.parametrize("model", [*MODELS, *ALIASES])
def test_every_setting_is_one_that_the_model_takes(model: str) -> None:
    for name in FAMILIES:
        grid = find_grid(name, model)
        assert grid, name
        assert all(grid[i] not in grid[:i] for i in range(len(grid))), "none twice"
        for setting in grid:
            NodeClassifier(model, **setting).check_params()


@pytest.mark.parametrize(
    ("name", "model", "count"),
    [
        ("texas", "h2gcn-1", 8),
        ("texas", "h2gcn-2", 8),
        ("texas", "gcn", 3),
        ("texas", "gcn-cheby", 6),
        ("texas", "gat", 1),
        ("texas", "graphsage", 2),
        ("texas", "mixhop", 2),
        ("texas", "mlp", 4),
        ("syn-cora/h0.10-r1", "gcn", 9),
        ("syn-cora/h0.10-r1", "gcn-cheby", 9),
        ("syn-cora/h0.10-r1", "gat", 12),
        ("syn-cora/h0.10-r1", "graphsage", 4),
        ("syn-cora/h0.10-r1", "mixhop", 2),
        ("syn-cora/h0.10-r1", "h2gcn-1", 2),
    ],
)
def test_as_many_settings_as_the_paper_has(name: str, model: str, count: int) -> None:
    assert len(find_grid(name, model)) == count


@pytest.mark.parametrize("model", ["gcn", "gcn-cheby", "graphsage"])
def test_jumping_knowledge_has_the_grid_of_the_plain_model(model: str) -> None:
    assert find_grid("cora", f"{model}-jk") == find_grid("cora", model)


def test_a_benchmark_brings_its_scaling_and_its_score() -> None:
    for setting in find_grid("minesweeper", "h2gcn-1"):
        assert (setting["scaling"], setting["metric"]) == ("standard", "roc_auc")
    for setting in find_grid("syn-cora/h0.10-r1", "mlp"):
        assert setting["scaling"] == "rows"


def test_ones_own_graph_is_trained_with_patience() -> None:
    for setting in find_grid("my graph", "h2gcn-2"):
        assert setting["patience"] == OWN_PATIENCE
    assert "patience" not in find_grid("texas", "h2gcn-2")[0]


def test_the_h2gcn_grid_of_the_real_benchmarks_is_the_papers() -> None:
    grid = find_grid("texas", "h2gcn-1")
    points = {(s["activation"], s["dropout"], s["l2"]) for s in grid}
    assert points == {
        (activation, dropout, l2)
        for activation in ("relu", "none")
        for dropout in (0.0, 0.5)
        for l2 in (1e-5, 5e-4)
    }


def test_options_of_the_model_are_set_apart() -> None:
    (setting,) = find_grid("texas", "gat")
    assert setting["options"] == {"heads": 8}
    assert "heads" not in setting
