"""Tables out of a store alone: what is chosen, what counts, what is not run."""

from collections.abc import Callable
from typing import Any

import pytest

from h2gcn.experiments import EXPERIMENTS, Cell, Run, stored_result
from h2gcn.experiments.definition import PROTOCOLS

STANDARD = PROTOCOLS["standard"]
Records = list[dict[str, Any]]


def record(run: Run, val: float = 0.5, test: float | None = 0.5) -> dict[str, Any]:
    """Return the record of a run with these accuracies."""
    counts = [[1, 1, 60, 30], [2, 3, 60, 60]]
    found = {"key": run.key, **run.to_json(), "by_degree": counts}
    return found | {"val_accuracy": val, "test_accuracy": test, "version": "0.1.0"}


def synthetic(kind: str, model: str, h: str, graphs: int = 3) -> Records:
    """Return the records of a model at one h; graph r scores r tenths."""
    names = [f"{kind}/h{h}-r{r + 1}" for r in range(graphs)]
    settings = {name: STANDARD.settings(name, model) for name in names}
    return [
        record(Run("", name, model, only, 0), test=(r + 1) / 10)
        for r, (name, (only,)) in enumerate(settings.items())
    ]


def real(dataset: str, model: str, best: int, test: float = 0.5) -> Records:
    """Return the records that a cell needs; validation prefers one setting."""
    settings = STANDARD.settings(dataset, model)
    judged = [
        record(Run("real", dataset, model, setting, split), 0.6 + 0.2 * (i == best), 0)
        for i, setting in enumerate(settings)
        if len(settings) > 1
        for split in range(3)
    ]
    final = [
        record(Run("real", dataset, model, settings[best], split), 0.8, test)
        for split in range(10)
    ]
    return judged + final


def cells(name: str, records: Records) -> dict[tuple[str, str], Cell]:
    """Return the cells that were run."""
    (table,) = stored_result(name, STANDARD, records).tables
    return {
        (row, column): cell
        for row, column, cell in table.placed()
        if cell.mean is not None
    }


def test_a_cell_is_the_mean_of_its_graphs() -> None:
    found = cells("syn-cora", synthetic("syn-cora", "gcn", "0.10"))
    assert found.keys() == {("gcn", "0.10")}
    cell = found["gcn", "0.10"]
    assert cell.mean == pytest.approx(20)
    assert cell.std == pytest.approx(10)
    assert cell.paper == (37.14, 4.6)


def test_a_cell_that_lacks_a_run_is_not_run() -> None:
    assert cells("syn-cora", synthetic("syn-cora", "gcn", "0.10", graphs=2)) == {}
    failed = synthetic("syn-cora", "gcn", "0.10")
    failed[1] |= {"test_accuracy": None, "error": "ValueError"}
    assert cells("syn-cora", failed) == {}


def test_of_two_records_with_a_key_the_later_counts() -> None:
    records = synthetic("syn-cora", "gcn", "0.10")
    again = [one | {"test_accuracy": 0.9} for one in records[:1]]
    mean = cells("syn-cora", [*records, *again])["gcn", "0.10"].mean
    assert mean == pytest.approx(100 * (0.9 + 0.2 + 0.3) / 3)


def test_nothing_of_an_empty_store_is_run() -> None:
    for name in (*EXPERIMENTS, "ranks"):
        assert cells(name, []) == {}
        for figure in stored_result(name, STANDARD, []).figures:
            assert not any(one.mean for one in figure.series)


def test_the_setting_is_the_one_that_validation_prefers() -> None:
    result = stored_result("real", STANDARD, real("texas", "gcn", best=1))
    second = STANDARD.settings("texas", "gcn")[1]
    chosen = {"model": "gcn", "column": "texas", "config": second}
    assert result.settings == (chosen,)
    assert cells("real", real("texas", "gcn", best=1))["gcn", "texas"].n == 10


def test_nothing_is_chosen_while_the_grid_is_not_done() -> None:
    whole = real("texas", "gcn", best=1)
    assert cells("real", whole[1:]) == {}


def test_features_are_those_that_the_store_has_runs_on() -> None:
    families = ("syn-products", "syn-products-kinds", "syn-products-ogb")
    records: Records = []
    for family in families:
        # Each is nearer to the paper than those before it, and is taken instead.
        records += synthetic(family, "mlp", "0.20")
        found = cells("syn-products", records)
        assert found.keys() == {("mlp", "0.20")}
        assert found["mlp", "0.20"].runs == graphs(family)


def test_features_that_are_asked_for_are_taken() -> None:
    records = synthetic("syn-products", "mlp", "0.20")
    records += synthetic("syn-products-kinds", "mlp", "0.30")
    for family, column in (("syn-products", "0.20"), ("syn-products-kinds", "0.30")):
        table = stored_result("syn-products", STANDARD, records, family).tables[0]
        (found,) = [one for one in table.placed() if one[2].mean is not None]
        assert found[:2] == ("mlp", column)
        assert found[2].runs == graphs(family, column)
    real_runs = real("texas", "gcn", best=1)
    table = stored_result("real", STANDARD, real_runs, "syn-products").tables[0]
    assert table.row("gcn")["texas"].n == 10, "it is of no concern to others"


def graphs(family: str, h: str = "0.20") -> tuple[str, ...]:
    """Return the names of the three graphs of an h."""
    return tuple(f"{family}/h{h}-r{r}" for r in (1, 2, 3))


def test_degrees_are_those_of_the_runs_of_syn_products() -> None:
    found = cells("degree", synthetic("syn-products", "h2gcn-1", "0.20"))
    assert {key: cell.mean for key, cell in found.items()} == {
        ("h2gcn-1, h = 0.2", "1"): 50,
        ("h2gcn-1, h = 0.2", "2–3"): 100,
    }


@pytest.fixture(scope="module")
def both() -> Callable[[float], Records]:
    """Return all models on texas, and h2gcn-1 on cora too; gcn scores as asked."""

    def made(gcn: float) -> Records:
        models = EXPERIMENTS["real"].models
        scores = {model: 0.9 - i / 100 for i, model in enumerate(models)} | {"gcn": gcn}
        found = [r for m in models for r in real("texas", m, 0, scores[m])]
        return found + real("cora", "h2gcn-1", 0)

    return made


def test_ranks_are_over_what_all_models_were_run_on(
    both: Callable[[float], Records],
) -> None:
    (table,) = stored_result("ranks", STANDARD, both(0.99)).tables
    assert table.title.endswith("on texas")
    found = cells("ranks", both(0.99))
    assert found["gcn", "overall"].mean == 1
    assert found["h2gcn-1", "heterophily"].mean == 2
    assert ("h2gcn-1", "homophily") not in found
    fewer = [r for r in both(0.99) if r["model"] != "mlp"]
    assert cells("ranks", fewer) == {}
