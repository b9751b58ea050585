"""docs/frontier.md is what the store gives, and says what was wanted beside it."""

import json
from pathlib import Path
from typing import Any

import frontier_page
import pytest

from h2gcn.experiments import BENCHMARKS
from support.cases import each
from support.toy_splits import failed_record, member, split_record

ROOT = Path(__file__).parents[2]


def ten(dataset: str = "texas", test: float = 0.85, **more: Any) -> list[Any]:
    """Return all ten splits of a benchmark."""
    return [split_record(dataset, i, test, **more) for i in range(10)]


def line(page: str, beginning: str, number: int = 0) -> str:
    """Return a line of a page by how it begins."""
    found = [one for one in page.splitlines() if one.startswith(beginning)]
    return found[number]


def test_the_page_is_what_the_store_gives() -> None:
    page = frontier_page.page(frontier_page.read_splits(ROOT / "results"))
    kept = (ROOT / "docs/frontier.md").read_text("utf-8")
    assert page == kept, "docs/frontier.md is stale: make results"


def test_another_number_makes_another_page() -> None:
    one, other = (frontier_page.page([split_record(test=t)]) for t in (0.8, 0.7))
    assert one != other
    assert one == frontier_page.page([split_record(test=0.8)])


def test_without_a_store_all_is_not_run(tmp_path: Path) -> None:
    assert frontier_page.read_splits(tmp_path) == []
    page = frontier_page.page([])
    assert "**Not run**: none of the 110 splits is in the store." in page
    for name in BENCHMARKS:
        assert line(page, f"| {name} |").count("not run") == 5
    assert "{{" not in page


def test_a_folder_of_results_is_read_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "results" / "frontier").mkdir(parents=True)
    store = tmp_path / "results" / "frontier" / "runs.jsonl"
    store.write_text(json.dumps(split_record()) + "\n", "utf-8")
    monkeypatch.setattr(frontier_page, "ROOT", tmp_path)
    frontier_page.main()
    first = (tmp_path / "docs" / "frontier.md").read_text("utf-8")
    frontier_page.main()
    assert (tmp_path / "docs" / "frontier.md").read_text("utf-8") == first
    assert "1 of 110 splits, of version 0.1.0" in first
    assert "1 splits" in capsys.readouterr().out


def test_what_was_wanted_stands_beside_what_was_reached() -> None:
    members = {"mlp": member(0.5, 0.9, 0.87), "logistic": member(0.8, 0.5, 0.845)}
    page = frontier_page.page(ten(members=members))
    assert line(page, "| texas |") == (
        "| texas | 10 | 85.0 ± 0.0 | 84.0 | yes | 84.0 to 87.0 | +0.5 | −2.0 |"
    )
    assert line(page, "| texas |", 1).startswith(
        "| texas | 85.0 ± 0.0 | 87.3 | FSGNN | one setting for all ten splits"
    )
    assert line(page, "| texas |", 2) == "| texas | logistic | mlp |"


def test_what_is_missed_is_said_in_bold() -> None:
    page = frontier_page.page(ten(test=0.825))
    assert "| 84.0 | **no**, by 1.5 |" in line(page, "| texas |")


def test_exactly_what_was_wanted_is_reached() -> None:
    assert "| 84.0 | yes |" in line(frontier_page.page(ten(test=0.84)), "| texas |")


def test_some_splits_are_not_judged() -> None:
    page = frontier_page.page([*ten()[:3], failed_record("texas", 3)])
    assert line(page, "| texas |").startswith("| texas | 3 | 85.0 ± 0.0 | 84.0 | 3 of")
    assert "3 of 110 splits, of version 0.1.0 of this package; 1 failed." in page


def test_a_difference_is_over_the_splits_that_both_have() -> None:
    records = ten()[:2]
    records[1]["members"] = {"logistic": member(0.8, 0.5, 0.85)}
    records[1]["test"] = 0.1
    row = line(frontier_page.page(records), "| texas |")
    assert row.endswith("| +10.0 |")  # 85 less 75, on the split that has an MLP


def test_calibration_is_held_against_what_was_wanted() -> None:
    good, bad = {"calibration_error": 0.03}, {"calibration_error": 0.031}
    page = frontier_page.page(
        [
            *ten("cora", **good, coverage=0.88),
            *ten("actor", **bad),
            *ten("pubmed", coverage=0.93)[:2],
        ]
    )
    assert "- cora, calibration error: 0.030; wanted: at most 0.03; reached." in page
    assert "- actor, calibration error: 0.031; wanted: at most 0.03; **missed**" in page
    assert "- cora, coverage: 0.880; wanted: 0.88 to 0.92; reached." in page
    assert "- pubmed, coverage: 0.930; wanted: 0.88 to 0.92; 2 of 10 splits." in page


@each(("seconds", "said"), [(60.4, "reached"), (61, "**missed**")])
def test_the_time_is_held_against_what_was_wanted(seconds: float, said: str) -> None:
    page = frontier_page.page(ten(auto_seconds=seconds))
    shown = round(seconds)
    assert f"- texas, seconds: {shown}; wanted: at most 60; {said}." in page


def test_every_benchmark_has_goals_and_a_source() -> None:
    goals = json.loads(frontier_page.PUBLISHED.read_text("utf-8"))
    assert goals["benchmarks"].keys() == {*BENCHMARKS}
    models = {goal["model"] for goal in goals["benchmarks"].values()} - {None}
    named = [source.partition(":")[0].lower() for source in goals["sources"]]
    assert {model.lower() for model in models} == {*named}
    for goal in goals["benchmarks"].values():
        low, high = goal["band"]
        assert low < high
        assert goal["chosen"]
