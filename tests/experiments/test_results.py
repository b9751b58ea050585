"""Results as data: what JSON holds comes back, and the same is written as ever."""

import json
from pathlib import Path
from typing import Any

from h2gcn.experiments import Cell, Figure, Result, Series, Table
from h2gcn.experiments.definition import Published
from support.cases import each
from support.example_results import as_paper, result, small

ROOT = Path(__file__).parents[2]
MEASURED = (
    *("mean", "std", "n", "values", "runs", "overlap", "paper", "verdict"),
    *("difference", "best", "against", "interval", "note"),
)
"""What stands in a cell of accuracies, in this order."""


@each("given", [small(), as_paper("syn-cora"), as_paper("real")])
def test_what_json_holds_comes_back(given: dict[str, Any]) -> None:
    read = Result.from_json(json.loads(json.dumps(given)))
    assert Result.from_json(json.loads(json.dumps(read.to_json()))) == read
    assert read.tables[0].to_json() == {"corner": "model"} | given["tables"][0]


@each("name", ["statistics", "theory"])
def test_results_that_are_kept_can_be_read(name: str) -> None:
    text = (ROOT / "results" / name / "result.json").read_text("utf-8")
    read = Result.from_json(json.loads(text))
    assert read.experiment == name
    assert sum(cell.mean is not None for table in read.tables for cell in table.cells)


def test_the_theorems_are_written_as_they_were() -> None:
    text = (ROOT / "results" / "theory" / "result.json").read_text("utf-8")
    again = Result.from_json(json.loads(text)).to_json()
    assert json.dumps(again, ensure_ascii=False, allow_nan=False) == text.rstrip()


def test_a_cell_beside_other_rows_says_so_and_others_do_not() -> None:
    assert tuple(Cell(overlap=0.0).to_json()) == MEASURED
    left_out = ("overlap", "against", "interval")
    assert tuple(Cell().to_json()) == tuple(n for n in MEASURED if n not in left_out)


def test_names_stand_in_the_order_of_ever() -> None:
    over_h = Figure("f", "t", "x", "y", (Series("a", (1,), (2.0,)),), (0.0, 1.0))
    assert list(over_h.to_json()) == [
        *("name", "title", "x_label", "x_ticks", "y_label", "series")
    ]
    bars = Figure("f", "t", "x", "y", (), kind="bars")
    assert list(bars.to_json()) == [
        *("name", "title", "kind", "x_label", "y_label", "series")
    ]
    table = Table("t", "T", (), ())
    assert "notes" not in table.to_json()
    assert list(result()) != list(Result.from_json(result()).to_json())
    assert list(Result("t").to_json()) == [
        *("experiment", "protocol", "version", "environment", "notes", "figures"),
        *("cards", "not_run", "failed", "title", "tables"),
    ]


def test_what_is_missing_has_no_value() -> None:
    assert Cell.from_json({"mean": None}) == Cell(verdict="not run")
    assert Cell.from_json({"mean": 1}) == Cell(1)
    assert Cell.from_json({"mean": 1, "paper": {"mean": None}}) == Cell(1)
    given = {"mean": 1, "paper": {"mean": 2.0}}
    assert Cell.from_json(given).paper == Published(2.0, None)
    assert Result.from_json({"experiment": "bare"}) == Result("bare")
