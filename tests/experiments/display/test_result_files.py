"""Files of results: what is written is read again, what is not of the form refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from h2gcn.exceptions import InputError
from h2gcn.experiments import Result, read_results, render_html, write_result
from h2gcn.experiments.display import figures
from support.example_results import cell, figure, leave, result, small, table


def test_results_come_in_the_papers_order(tmp_path: Path) -> None:
    names = ("zeta", "theory", "real", "alpha", "syn-cora")
    leave(tmp_path, *(result(experiment=name) for name in names))
    (tmp_path / "notes").mkdir()
    (tmp_path / "runs.jsonl").touch()
    found = [given.experiment for given in read_results(tmp_path)]
    assert found == ["syn-cora", "real", "theory", "alpha", "zeta"]


def test_not_a_number_is_shown_as_no_value(tmp_path: Path) -> None:
    given = result(tables=[table({"a": [cell(float("nan"))]}, ["x"])])
    (read,) = read_results(leave(tmp_path, given))
    html = render_html([read])
    assert "<i>–</i>" in html
    assert "<td data-v" not in html


BAD: dict[str, Any] = {
    "not an object": ([1], "not an object"),
    "no name": ({"title": "x"}, "'experiment' is missing"),
    "tables": ({"experiment": "x", "tables": {}}, "'tables' is of the wrong kind"),
    "a table": ({"experiment": "x", "tables": [1]}, "table 0 must be an object"),
    "no rows": (
        result(tables=[{"name": "t", "title": "T", "columns": []}]),
        "table 0: 'rows' is missing",
    ),
    "cells": (
        result(tables=[table({"gcn": []}, ["texas"])]),
        "table 0: row 'gcn' has 0 cells, not 1",
    ),
    "a mean": (
        result(tables=[table({"gcn": [cell("x")]}, ["texas"])]),  # type: ignore[arg-type]
        "row 'gcn': 'mean' is of the wrong kind",
    ),
    "an interval": (
        result(tables=[table({"gcn": [cell(1.0, interval=[1.0])]}, ["texas"])]),
        "row 'gcn': 'interval' must be two numbers",
    ),
    "notes": (
        result(tables=[table({}, [], notes="x")]),
        "table 0: 'notes' is of the wrong kind",
    ),
    "series": (
        result(figures=[figure([{"name": "a", "x": [1], "mean": [1, 2]}])]),
        "series 'a': not as many values as 'x' has",
    ),
    "values": (
        result(figures=[figure([{"name": "a", "x": [1], "mean": ["2"]}])]),
        "series 'a': values must be numbers",
    ),
    "matrix": (
        result(cards={"a": {"compatibility": [[1, 2]]}}),
        "card 'a': 'compatibility' must be a square matrix",
    ),
    "failed": (result(failed=["x"]), "an entry of 'failed' must be an object"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_of_another_form_is_refused(name: str, tmp_path: Path) -> None:
    content, rule = BAD[name]
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "result.json").write_text(json.dumps(content))
    with pytest.raises(InputError) as error:
        read_results(tmp_path)
    assert rule in str(error.value)
    assert str(tmp_path / "x" / "result.json") in str(error.value)


def test_a_result_leaves_tables_and_figures(tmp_path: Path) -> None:
    given = Result.from_json(small())
    names = [path.name for path in write_result(tmp_path, given)]
    tables = ["result.json", "t.md", "t.csv", "t.tex"]
    assert names == [*tables, "f.svg", "f.png"]
    assert read_results(tmp_path) == [given]


def test_without_matplotlib_there_are_tables_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "find_spec", lambda _: None)
    names = [path.name for path in write_result(tmp_path, Result.from_json(small()))]
    assert names == ["result.json", "t.md", "t.csv", "t.tex"]
