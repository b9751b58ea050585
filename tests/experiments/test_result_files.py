"""Files of results: what is written is read again, what is not of the form refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from h2gcn.exceptions import InputError
from h2gcn.experiments import Result, figures, read_results, render_html, write_result
from support.cases import each
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
    "not an object": ([1], "it must be an object, got a list of 1"),
    "no name": ({"title": "x"}, "lacks experiment"),
    "tables": (
        {"experiment": "x", "tables": {}},
        "tables must be a list or null, got an object of 0",
    ),
    "a table": (
        {"experiment": "x", "tables": [1]},
        "tables.0 must be an object, got 1",
    ),
    "no rows": (
        result(tables=[{"name": "t", "title": "T", "columns": []}]),
        "lacks tables.0.rows",
    ),
    "cells": (
        result(tables=[table({"gcn": []}, ["texas"])]),
        "tables.0: row 'gcn' has 0 cells, not 1",
    ),
    "a mean": (
        result(tables=[table({"gcn": [cell("x")]}, ["texas"])]),  # type: ignore[arg-type]
        "tables.0.rows.0.cells.0.mean must be an integer or a number or null, got 'x'",
    ),
    "a mean without end": (
        result(tables=[table({"gcn": [cell(1e200)]}, ["texas"])]),
        "tables.0.rows.0.cells.0.mean must be a number <= 1000000000000000.0, got 1e+",
    ),
    "an interval": (
        result(tables=[table({"gcn": [cell(1.0, interval=[1.0])]}, ["texas"])]),
        "tables.0.rows.0.cells.0.interval must be a list of length 2, got a list of 1",
    ),
    "a verdict": (
        result(tables=[table({"gcn": [cell(1.0, verdict="good")]}, ["texas"])]),
        "tables.0.rows.0.cells.0.verdict: Invalid enum value 'good'",
    ),
    "decimals": (
        result(tables=[table({}, [], decimals=-1)]),
        "tables.0.decimals must be an integer >= 0, got -1",
    ),
    "notes": (
        result(tables=[table({}, [], notes="x")]),
        "tables.0.notes must be a list or null, got 'x'",
    ),
    "series": (
        result(figures=[figure([{"name": "a", "x": [1], "mean": [1, 2]}])]),
        "figures.0.series.0: not as many values as 'x' has",
    ),
    "names and numbers": (
        result(figures=[figure([{"name": "a", "x": [1, "b"], "mean": [1, 2]}])]),
        "figures.0.series.0: 'x' has names and numbers",
    ),
    "values": (
        result(figures=[figure([{"name": "a", "x": [1], "mean": ["2"]}])]),
        "figures.0.series.0.mean.0 must be an integer or a number or null, got '2'",
    ),
    "matrix": (
        result(cards={"a": {"compatibility": [[1, 2]]}}),
        "card 'a': 'compatibility' must be a square matrix",
    ),
    "a checksum": (
        result(cards={"a": {"checksum": ["x"]}}),
        "card 'a': checksum must be text or null, got a list of 1",
    ),
    "failed": (result(failed=["x"]), "failed.0 must be an object, got 'x'"),
    "a failed run": (
        result(failed=[{"error": 5}]),
        "a run that failed: error must be text, got 5",
    ),
}


@each("name", BAD)
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
