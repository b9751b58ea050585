"""Tables of results: the same cells in Markdown, CSV, LaTeX and on the screen."""

import csv
import io
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st
from rich.console import Console

from h2gcn.experiments import Cell, Result, Table, show as show_table, tables
from h2gcn.experiments.definition import Published
from support.cases import each
from support.example_results import EVIL, as_paper, cell, result, small, table

Render = Callable[[dict[str, Any], Any], str]


def markdown(given: dict[str, Any], shown: Any) -> str:
    return tables.markdown(Result.from_json(given), Table.from_json(shown))


def csv_text(given: dict[str, Any], shown: Any) -> str:
    return tables.csv_text(Result.from_json(given), Table.from_json(shown))


def latex(given: dict[str, Any], shown: Any) -> str:
    return tables.latex(Result.from_json(given), Table.from_json(shown))


def show(given: dict[str, Any], shown: Any, *console: Console) -> None:
    show_table(Result.from_json(given), Table.from_json(shown), *console)


def screen(given: dict[str, Any], shown: Any, width: int = 80) -> str:
    """Return what `show` prints to a terminal without colours."""
    file = io.StringIO()
    show(given, shown, Console(file=file, width=width, markup=False, emoji=False))
    return file.getvalue()


FORMS: dict[str, Render] = {
    "markdown": markdown,
    "csv": csv_text,
    "latex": latex,
    "screen": screen,
}


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


# ------------------------------------------------------------------------------ cells


@each(
    ("given", "expected"),
    [
        ({"mean": 70.5, "std": 0.714}, ("70.50 ± 0.71", "–", "–")),
        ({"mean": 70.5}, ("70.50", "–", "–")),
        ({"mean": 2708}, ("2,708", "–", "–")),
        ({"mean": None, "verdict": "not run"}, ("not run", "–", "–")),
        # Run, and found to have no value.
        ({"mean": None, "verdict": "none"}, ("–", "–", "–")),
        (
            {"mean": 1.0, "paper": {"mean": 3.0, "std": 2.5}, "verdict": "within"}
            | {"difference": -2.0},
            ("1.00", "3.00 ± 2.50", "within 1 sd"),
        ),
        (
            {"mean": 3.8, "paper": {"mean": 3.8, "std": None}, "verdict": "within"}
            | {"difference": 0.0},
            ("3.80", "3.80", "as the paper"),
        ),
        # Judged by our deviation, since the paper has none.
        (
            {"mean": 3.9, "std": 0.2, "paper": {"mean": 3.8, "std": None}}
            | {"verdict": "within", "difference": 0.1},
            ("3.90 ± 0.20", "3.80", "within 1 sd"),
        ),
        (
            {"mean": 9.0, "paper": {"mean": 3.0, "std": None}, "verdict": "better"}
            | {"difference": 6.0},
            ("9.00", "3.00", "better by 6.00"),
        ),
        (
            {"mean": 1.0, "paper": {"mean": 3.0}, "verdict": "worse"}
            | {"difference": -2.004},
            ("1.00", "3.00", "worse by 2.00"),
        ),
        (
            {"mean": 1.0, "paper": {"mean": 3.0}, "verdict": "worse"},
            ("1.00", "3.00", "worse"),
        ),
        (
            {"mean": None, "paper": {"mean": 3.0}, "verdict": "not run"},
            ("not run", "3.00", "–"),
        ),
    ],
)
def test_a_cell_in_words(given: dict[str, Any], expected: tuple[str, ...]) -> None:
    one, where = Cell.from_json(given), Table.from_json(table({}, []))
    told = (tables.ours, tables.papers, tables.verdict)
    assert tuple(tell(one, where) for tell in told) == expected


def test_a_graph_is_not_better_with_more_nodes() -> None:
    where = Table("t", "T", ("nodes",), (), corner="dataset")
    more = Cell(3330, paper=Published(3327.0, None), verdict="better", difference=3.0)
    assert tables.category(more, where) == "differs"
    assert tables.verdict(more, where) == "differs by +3.00"
    assert (tables.ours(more, where), tables.papers(more, where)) == ("3,330", "3,327")
    fewer = replace(more, verdict="worse", difference=-3)
    assert tables.verdict(fewer, where) == "differs by −3"
    unjudged = replace(more, verdict="none")
    assert tables.category(unjudged, where) == "differs"
    assert tables.category(replace(more, verdict="within"), where) == "within"
    assert tables.category(Cell(5), where) == "none"


# -------------------------------------------------------------------------- all forms


@each("render", FORMS.values(), ids=FORMS)
def test_every_form_names_protocol_versions_and_notes(render: Render) -> None:
    given = small()
    text = " ".join(render(given, given["tables"][0]).split())
    for told in ("quick", "0.1.0", "2.6.0", "Example CPU", "Made up."):
        assert told in text


@each("render", FORMS.values(), ids=FORMS)
def test_every_form_has_the_notes_of_the_table(render: Render) -> None:
    shown = table({"a": [cell(1.0)]}, ["x"], notes=["A gap of 3 points."])
    assert render(result(), shown).count("A gap of 3 points.") == 1


@each("render", FORMS.values(), ids=FORMS)
def test_every_form_has_the_verdict_of_every_cell(render: Render) -> None:
    given = as_paper("syn-cora")
    (shown,) = given["tables"]
    text = render(given, shown)
    cells = [one for row in shown["rows"] for one in row["cells"]]
    for kind in ("better", "within", "worse"):
        n = sum(one["verdict"] == kind for one in cells)
        assert n > 0
        told = "within 1 sd" if kind == "within" else rf"{kind} by \d"
        assert len(re.findall(f",{kind}," if render is csv_text else told, text)) == n


@each("render", FORMS.values(), ids=FORMS)
def test_what_was_not_run_is_said_in_every_form(render: Render) -> None:
    given = small()
    assert render(given, given["tables"][0]).count("not run") == 1


@each("render", FORMS.values(), ids=FORMS)
def test_an_empty_table_is_no_error(render: Render) -> None:
    assert "quick" in render(result(), table({"gcn": []}, [])) or render is csv_text
    assert render(result(), table({}, ["texas"]))


@each("render", FORMS.values(), ids=FORMS)
def test_missing_fields_are_no_error(render: Render) -> None:
    bare = {"name": "t", "title": "T", "columns": ["a"]}
    rows = [{"name": "gcn", "cells": [{"mean": None}]}]
    assert "gcn" in render({"experiment": "t"}, {**bare, "rows": rows})


# --------------------------------------------------------------------------- Markdown


def test_markdown_sets_ours_above_the_papers() -> None:
    given = small()
    lines = markdown(given, given["tables"][0]).splitlines()
    assert lines[:9] == [
        "# A title",
        "",
        "| model     |            texas |           cora |          own |",
        "| :-------- | ---------------: | -------------: | -----------: |",
        "| h2gcn-1   | **70.50 ± 0.71** |   72.25 ± 0.35 |  9.50 ± 0.71 |",
        "| · paper   |     70.00 ± 1.00 |   70.00 ± 1.00 |            – |",
        "| · verdict |      within 1 sd | better by 2.25 |            – |",
        "| gcn       |     64.00 ± 1.41 |        not run | 10.25 ± 0.35 |",
        "| · paper   |     70.00 ± 1.00 |   70.00 ± 1.00 |            – |",
    ]
    assert "- Mean ± sample standard deviation of 2 runs, in %." in lines
    assert "- Runs: split 0, split 1." in lines
    assert "- h2gcn-1, texas: ahead of gcn." in lines
    assert any("texas (183 nodes, 279 edges, 3 classes, h 0.11" in ln for ln in lines)


def test_only_best_cells_are_bold() -> None:
    given = as_paper("syn-cora")
    (shown,) = given["tables"]
    best = sum(one["best"] for row in shown["rows"] for one in row["cells"])
    assert markdown(given, shown).count("**") == 2 * best
    assert latex(given, shown).count(r"\textbf{") == best
    for row in shown["rows"]:
        for one in row["cells"]:
            one["best"] = False
    assert "**" not in markdown(given, shown)
    assert r"\textbf" not in latex(given, shown)


def test_a_note_that_cells_share_is_said_once() -> None:
    noted, other = cell(1.0, note="500 pairs"), cell(1.0, note="alone.")
    text = markdown(
        result(), table({"a": [noted, other], "b": [noted, noted]}, ["x", "y"])
    )
    assert "- a, x; b, x; b, y: 500 pairs.\n- a, y: alone.\n" in text
    text = markdown(
        result(), table({"a": [noted, cell(note="")], "b": [noted] * 2}, ["x", "y"])
    )
    assert "- every cell: 500 pairs.\n" in text


def test_verdicts_are_explained_only_where_rows_are_models() -> None:
    one = cell(1.0, paper={"mean": 1.0, "std": None}, verdict="within", difference=0.0)
    shown = {"a": [one]}
    text = markdown(result(), table(shown, ["x"]))
    assert "Verdict on ours" in text
    assert "the paper's deviation; ours where it gives none, or 0.00" in text
    other = markdown(result(), table(shown, ["x"], corner="graph"))
    assert "Verdict on ours" not in other
    assert "- In %.\n" in other


def test_rows_without_figures_of_the_paper_are_one_line() -> None:
    shown = table({"a": [cell(1.0)], "b": [cell(2.0)]}, ["x"])
    assert markdown(result(), shown).count("\n|") == 4


@given(name=st.text(max_size=12), column=st.text(max_size=12))
def test_no_name_breaks_a_markdown_table(name: str, column: str) -> None:
    shown = table({name: [cell(1.0)]}, [column])
    rows = [
        line for line in markdown(result(), shown).split("\n") if line.startswith("|")
    ]
    assert len(rows) == 3
    for row in rows:
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 3


# --------------------------------------------------------------------------- CSV, LaTeX


def test_csv_has_a_line_a_cell_with_figures_as_they_are() -> None:
    given = as_paper("syn-cora")
    (shown,) = given["tables"]
    read = read_csv(csv_text(given, shown))
    assert len(read) == len(shown["rows"]) * len(shown["columns"])
    first, one = read[0], shown["rows"][0]["cells"][0]
    assert (first["row"], first["column"]) == ("h2gcn-1", "0.00")
    assert float(first["mean"]) == one["mean"]
    assert [float(v) for v in first["values"].split()] == one["values"]
    assert float(first["paper_std"]) == 0.89
    assert float(first["difference"]) == one["difference"]
    assert first["runs"].split("; ") == one["runs"] == [f"split {i}" for i in range(3)]
    assert first["against"] == one["against"] != ""
    interval = [float(first[f"interval_{end}"]) for end in ("low", "high")]
    assert interval == one["interval"]


def test_csv_repeats_protocol_and_versions_but_not_the_notes() -> None:
    given = small()
    read = read_csv(csv_text(given, given["tables"][0]))
    assert {line["protocol"] for line in read} == {"quick"}
    assert {line["version"] for line in read} == {"0.1.0"}
    assert [line["notes"] for line in read] == ["Made up.", *[""] * 5]


def test_csv_leaves_blank_what_is_not_there() -> None:
    given = small()
    (not_run,) = [
        line
        for line in read_csv(csv_text(given, given["tables"][0]))
        if line["verdict"] == "not run"
    ]
    assert (not_run["mean"], not_run["std"], not_run["values"]) == ("", "", "")
    assert (not_run["paper_mean"], not_run["best"]) == ("70.0", "no")
    blank = ("runs", "against", "interval_low", "interval_high")
    assert [not_run[name] for name in blank] == [""] * 4


def test_csv_keeps_names_with_commas_quotes_and_line_breaks() -> None:
    name = 'a,"b"\nc'
    (line,) = read_csv(csv_text(result(), table({name: [cell(1.0)]}, ["x"])))
    assert line["row"] == name


def test_latex_is_a_booktabs_table() -> None:
    given = small()
    text = latex(given, given["tables"][0])
    rules = [r"\toprule", r"\midrule", r"\bottomrule"]
    assert [text.count(rule) for rule in rules] == [1, 1, 1]
    assert r"h2gcn-1 & \textbf{70.50 $\pm$ 0.71} & 72.25 $\pm$ 0.35 & 9.50" in text
    assert r"\quad paper & 70.00 $\pm$ 1.00 & 70.00 $\pm$ 1.00 & -- \\" in text
    body = text[text.index(r"\toprule") : text.index(r"\bottomrule")]
    rows = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert [row.count("&") for row in rows] == [3] * len(rows) == [3] * 7


def test_a_wide_latex_table_lies_on_its_side() -> None:
    given = as_paper("syn-cora")
    text = latex(given, given["tables"][0])
    assert text.count("{sidewaystable}") == 2
    assert text.startswith(r"% \usepackage{booktabs,rotating}")
    assert "sideways" not in latex(small(), small()["tables"][0])


def test_latex_escapes_what_it_would_read() -> None:
    text = latex(result(notes=[]), table({r"50% & #1_{x}^2 ~\$": [cell(1.0)]}, ["≤"]))
    assert (
        r"50\% \& \#1\_\{x\}\textasciicircum{}2 \textasciitilde{}\textbackslash{}\$"
    ) in text
    assert r"$\leq$" in text
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")


# ----------------------------------------------------------------------------- screen


@each("width", [40, 80, 300])
def test_a_wide_table_is_cut_into_blocks_that_fit(width: int) -> None:
    given = as_paper("ablation")
    (shown,) = given["tables"]
    lines = screen(given, shown, width).splitlines()
    assert max(map(len, lines)) <= width
    heads = [line.split() for line in lines if line.startswith("model ")]
    assert [name for head in heads for name in head[1:]] == shown["columns"]
    assert len(heads) == 1 or width < 300
    # Not folded: each row is one line in each block.
    assert sum(line.startswith("h2gcn-nonlinear ") for line in lines) == len(heads)


def test_lines_of_the_paper_are_left_out_of_blocks_that_have_none() -> None:
    given = small()
    given["tables"][0]["columns"][2] = "own " * 10
    text = screen(given, given["tables"][0], 56)
    assert text.count("  paper ") == 2
    assert text.count("gcn ") >= 2


def test_names_are_not_markup_and_cannot_steer_the_terminal() -> None:
    shown = table({"[bold]b[/]\x1b[31m": [cell(1.0)]}, [":smile:"])
    text = screen(result(), shown)
    assert "[bold]b[/]�[31m" in text
    assert ":smile:" in text
    assert "\x1b" not in text


def test_show_prints_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    given = small()
    given["tables"][0]["rows"][0]["name"] = EVIL
    show(given, given["tables"][0])
    said = capsys.readouterr()
    assert "70.50 ± 0.71" in said.out
    assert said.err == ""
