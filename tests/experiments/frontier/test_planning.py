"""Which splits of which benchmarks are run, in which order and for how long."""

from dataclasses import replace
from typing import Any

import pytest

from h2gcn import Graph
from h2gcn.auto import default_time_limit
from h2gcn.datasets import DATASETS
from h2gcn.exceptions import InputError
from h2gcn.experiments import BENCHMARKS, on_hand, plan_splits
from h2gcn.experiments.frontier import measuring
from h2gcn.experiments.frontier.measuring import find_time_limit
from h2gcn.experiments.running.graphs import MissingData
from support.toy_splits import failed_record, split_record


def test_all_of_it_is_ten_splits_of_eleven_benchmarks_the_large_ones_last() -> None:
    runs = plan_splits()
    assert len(runs) == 110
    assert [run.split for run in runs[:11]] == [*range(10), 0]
    assert tuple(dict.fromkeys(run.dataset for run in runs)) == BENCHMARKS
    assert BENCHMARKS[0] == "texas"
    assert BENCHMARKS[-3:] == ("squirrel", "pubmed", "tolokers")
    assert len({run.key for run in runs}) == 110


def test_a_run_is_scored_as_the_authors_of_the_benchmark_do() -> None:
    metrics = {run.dataset: run.config["metric"] for run in plan_splits()}
    assert metrics == {name: DATASETS[name].metric for name in BENCHMARKS}
    by_area = {name for name, metric in metrics.items() if metric == "roc_auc"}
    assert by_area == {"minesweeper", "tolokers"}


def test_a_part_keeps_the_order_and_has_no_split_twice() -> None:
    runs = plan_splits(["cora", "texas"], [2, 0, 2])
    places = [(run.dataset, run.split) for run in runs]
    assert places == [("texas", 0), ("texas", 2), ("cora", 0), ("cora", 2)]


def test_a_benchmark_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match=r"no benchmark of frontier\. .*'texas'"):
        plan_splits(["texsa"])


@pytest.mark.parametrize("number", [-1, 10])
def test_a_split_that_is_none_is_refused(number: int) -> None:
    with pytest.raises(InputError, match=rf"splits=\[{number}\]: they are 0 to 9"):
        plan_splits(None, [number])


def test_the_time_is_by_size_unless_more_is_needed_or_asked_for(
    small_graph: Graph,
) -> None:
    assert find_time_limit(small_graph, None) == default_time_limit(small_graph)
    assert find_time_limit(replace(small_graph, name="minesweeper"), None) == 600
    assert find_time_limit(replace(small_graph, name="squirrel"), None) == 400
    assert find_time_limit(replace(small_graph, name="squirrel"), 7.5) == 7.5


# --------------------------------------------------------------- which files are there


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the benchmarks that are opened; of them cora is not there."""
    names: list[str] = []

    def open_graph(name: str) -> None:
        names.append(name)
        if name == "cora":
            raise MissingData("cora: no file")

    monkeypatch.setattr(measuring, "open_graph", open_graph)
    monkeypatch.setattr(measuring, "find_checksum", lambda name: f"checksum of {name}")
    return names


def by_key(*records: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {record["key"]: record for record in records}


def test_what_is_not_there_is_left_out_with_the_reason(opened: list[str]) -> None:
    runs = plan_splits(["texas", "cora"], [0, 1])
    there, reasons = on_hand(runs, {})
    assert there == runs[:2]
    assert reasons == ["cora: no file"]
    assert opened == ["texas", "cora"]


def test_a_benchmark_that_is_done_is_not_opened(opened: list[str]) -> None:
    runs = plan_splits(["texas", "cora"], [0])
    records = by_key(split_record("cora", 0), failed_record("texas", 0))
    assert on_hand(runs, records) == (runs, [])
    assert opened == ["texas"]


def test_another_graph_of_the_same_name_is_refused(opened: list[str]) -> None:
    records = by_key(split_record("texas", 0, checksum="other"))
    with pytest.raises(InputError, match=r"texas .* checksum other, .* another out=…"):
        on_hand(plan_splits(["texas"], [0, 1]), records)
    assert opened == ["texas"]
