"""The paper's experiments as data, and how thoroughly each protocol runs them."""

import pytest

from h2gcn import NodeClassifier
from h2gcn.exceptions import InputError
from h2gcn.experiments import find_experiments, find_grid, find_protocol
from h2gcn.experiments.definition.experiments import (
    EXPERIMENTS,
    ORDER,
    PROTOCOLS,
    published_rows,
)
from h2gcn.models import MODELS

PAPER, STANDARD, QUICK = (PROTOCOLS[name] for name in ("paper", "standard", "quick"))


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


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_rows_and_columns_are_those_of_the_papers_table(name: str) -> None:
    experiment = EXPERIMENTS[name]
    assert set(experiment.models) <= set(MODELS)
    if name == "degree":
        return
    paper = published_rows(experiment.paper)
    assert set(experiment.models) == set(paper)
    for row in paper.values():
        assert set(row) == set(experiment.columns) - {"cornell"}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_figures_show_models_of_the_table(name: str) -> None:
    for _, models in EXPERIMENTS[name].figures.values():
        assert set(models) <= set(EXPERIMENTS[name].models)


def test_graphs_are_named_by_benchmark_homophily_and_number() -> None:
    units = EXPERIMENTS["syn-cora"].units("0.10", STANDARD)
    assert units == [(f"syn-cora/h0.10-r{i}", 0) for i in (1, 2, 3)]
    units = EXPERIMENTS["syn-products"].units("1.00", QUICK)
    assert units == [("syn-products-2000/h1.00-r1", 0)]
    assert EXPERIMENTS["real"].units("texas", QUICK) == [("texas", 0), ("texas", 1)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", EXPERIMENTS)
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
                NodeClassifier(model, **setting).check_params()


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


@pytest.mark.parametrize("model", MODELS)
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
    rule = r"The 'protocol' parameter .* must be paper, standard, quick\. "
    with pytest.raises(InputError, match=rule):
        find_protocol("quik")
