"""Settings are chosen on validation scores, and tables report what was chosen."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from h2gcn.experiments import Protocol, Run
from h2gcn.experiments.analysis.cells import choose, final_runs, selection_runs
from h2gcn.experiments.analysis.degrees import count, degree_result, merge_ranges
from h2gcn.experiments.analysis.tables import accuracy_table, line_figures
from h2gcn.experiments.definition.experiments import EXPERIMENTS, PROTOCOLS, Experiment

STANDARD, PAPER, QUICK = (PROTOCOLS[n] for n in ("standard", "paper", "quick"))
REAL = Experiment("real", "real", ("gcn", "gat"), ("texas", "pubmed"), paper="real")
SYNTHETIC = Experiment(
    "syn-cora",
    "synthetic",
    ("h2gcn-1",),
    ("0.10", "0.20", "0.30"),
    "syn-cora",
    "syn-cora",
    {"lines": ("lines", ("h2gcn-1",))},
)


def splits_of(runs: list[Run], dataset: str) -> set[int]:
    return {run.split for run in runs if run.dataset == dataset}


def test_the_grid_is_judged_on_as_many_splits_as_the_protocol_says() -> None:
    runs = selection_runs(REAL, STANDARD, REAL.columns)
    assert splits_of(runs, "texas") == {0, 1, 2}
    assert splits_of(runs, "pubmed") == {0}
    assert len(runs) == 3 * 3 + 3 * 1
    every = selection_runs(REAL, PAPER, REAL.columns)
    assert splits_of(every, "texas") == splits_of(every, "pubmed") == set(range(10))


def test_a_model_with_one_setting_needs_no_choice() -> None:
    assert {run.model for run in selection_runs(REAL, STANDARD, ["texas"])} == {"gcn"}
    assert selection_runs(REAL, QUICK, ["texas"]) == []


def test_the_best_mean_on_validation_nodes_wins() -> None:
    scores = {40: 0.5, 100: 0.7, 200: 0.6}
    choices = choose(
        REAL, STANDARD, ["texas"], lambda run: scores[run.config["patience"]]
    )
    assert choices["gcn", "texas"]["patience"] == 100
    assert choices["gat", "texas"] == STANDARD.settings("texas", "gat")[0]


def test_a_setting_that_failed_is_not_chosen() -> None:
    def score(run: Run) -> float | None:
        return None if run.config["patience"] == 100 and run.split == 1 else 0.5

    assert choose(REAL, STANDARD, ["texas"], score)["gcn", "texas"]["patience"] == 40


def test_on_synthetic_graphs_one_setting_serves_all_values_of_h() -> None:
    def score(run: Run) -> float:
        wanted = 0.5 if "h0.10" in run.dataset else 0.0
        return float(run.config["dropout"] == wanted)

    choices = choose(SYNTHETIC, PAPER, SYNTHETIC.columns, score)
    assert {setting["dropout"] for setting in choices.values()} == {0.0}


def made(accuracy: float) -> dict[str, Any]:
    by_degree = [[1, 1, 20, 10], [2, 3, 40, round(40 * accuracy)]]
    return {"test_accuracy": accuracy, "val_accuracy": 0.0, "by_degree": by_degree}


def test_the_table_reports_the_chosen_runs_beside_the_paper() -> None:
    columns = ["0.10", "0.20"]
    choices = choose(SYNTHETIC, STANDARD, columns, lambda _: None)
    reported = final_runs(SYNTHETIC, STANDARD, columns, choices)
    runs = reported["h2gcn-1", "0.10"]
    accuracies = [0.76, 0.77, 0.78]
    records = {r.key: made(a) for r, a in zip(runs, accuracies, strict=True)}
    table = accuracy_table(SYNTHETIC, STANDARD, reported, records)
    first, second, third = table.rows[0].cells
    assert first.mean == pytest.approx(77)
    assert first.runs == tuple(f"syn-cora/h0.10-r{i}" for i in (1, 2, 3))
    assert first.paper == (76.82, 1.3)
    assert first.verdict == "within"
    assert second.verdict == third.verdict == "not run"
    (figure,) = line_figures(SYNTHETIC, table)
    assert figure.series[0].x == (0.1,)
    assert figure.series[0].paper == (76.82,)


def test_a_cell_with_runs_missing_says_so() -> None:
    choices = choose(SYNTHETIC, STANDARD, ["0.10"], lambda _: None)
    reported = final_runs(SYNTHETIC, STANDARD, ["0.10"], choices)
    run = reported["h2gcn-1", "0.10"][0]
    table = accuracy_table(SYNTHETIC, STANDARD, reported, {run.key: made(0.5)})
    assert table.rows[0].cells[0].note == "1 of 3 runs"


def by_degree(
    counts: dict[str, list[list[int]]], models: tuple[str, ...] = ("h2gcn-1", "h2gcn-2")
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return table and figure where the runs at each h have these counts."""
    experiment = EXPERIMENTS["degree"]
    choices = choose(experiment, STANDARD, experiment.columns, lambda _: None)
    reported = final_runs(experiment, STANDARD, experiment.columns, choices)
    records = {
        run.key: {"test_accuracy": 0.5, "by_degree": counts[column]}
        for (model, column), runs in reported.items()
        for run in runs
        if model in models and column in counts
    }
    table, figure = degree_result(STANDARD, reported, records)
    return table.to_json(), figure.to_json()


def test_accuracy_by_degree_is_the_share_of_each_range() -> None:
    counts = [[1, 1, 20, 10], [2, 3, 40, 32]]
    table, figure = by_degree({"0.20": counts, "0.80": counts})
    assert table["columns"] == ["1", "2–3"]
    assert [row["name"] for row in table["rows"]] == [
        f"{model}, h = {h}" for model in ("h2gcn-1", "h2gcn-2") for h in (0.2, 0.8)
    ]
    for row in table["rows"]:
        assert [cell["mean"] for cell in row["cells"]] == pytest.approx([50, 80])
        notes = [cell["note"] for cell in row["cells"]]
        assert notes == ["60 test nodes", "120 test nodes"]
    graphs = [f"syn-products/h0.20-r{i}" for i in (1, 2, 3)]
    assert table["rows"][0]["cells"][0]["runs"] == graphs
    assert figure["kind"] == "bars"
    assert figure["series"][0]["x"] == ["1", "2–3"]


def test_ranges_of_few_nodes_are_merged_and_counted_together() -> None:
    many = [
        [0, 0, 1, 0],
        [1, 1, 99, 50],
        [2, 3, 100, 90],
        [4, 7, 10, 9],
        [8, 15, 10, 3],
    ]
    table, _ = by_degree({"0.20": many, "0.80": many})
    # 3 · (10 + 10) test nodes at the top; 3 · 1 at the bottom are too few.
    assert table["columns"] == ["0–1", "2–3", "≥ 4"]
    for row in table["rows"]:
        assert [cell["mean"] for cell in row["cells"]] == pytest.approx([50, 90, 60])
        assert row["cells"][2]["note"] == "60 test nodes"


def test_a_range_must_hold_enough_nodes_in_every_row_that_was_run() -> None:
    many, few = [[1, 1, 99, 50], [2, 3, 99, 50]], [[1, 1, 99, 50], [2, 3, 16, 8]]
    assert by_degree({"0.20": many, "0.80": few})[0]["columns"] == ["≥ 1"]
    table, _ = by_degree({"0.20": many})
    assert table["columns"] == ["1", "2–3"]
    assert [cell["mean"] for cell in table["rows"][1]["cells"]] == [None, None]


@given(
    st.lists(
        st.lists(st.lists(st.integers(0, 90), min_size=6, max_size=6), max_size=3),
        min_size=1,
        max_size=3,
    )
)
def test_merged_ranges_hold_every_node_once(rows: list[list[list[int]]]) -> None:
    bounds = [(0, 0), (1, 1), (2, 3), (4, 7), (8, 15), (16, 31)]
    runs = [
        [[(*b, n, 0) for b, n in zip(bounds, run, strict=True) if n] for run in row]
        for row in rows
    ]
    merged = merge_ranges(runs)
    for row in runs:
        held = [sum(count(run, degrees)[0] for run in row) for degrees in merged]
        assert sum(held) == sum(n for run in row for *_, n, _ in run)
        assert len(merged) < 2 or not row or min(held) >= 50


def test_the_gap_between_the_ends_stands_beside_the_papers() -> None:
    wide = [[1, 1, 100, 60], [2, 3, 100, 1], [4, 7, 100, 74]]
    narrow = [[1, 1, 100, 92], [2, 3, 100, 1], [4, 7, 100, 90]]
    table, _ = by_degree({"0.20": wide, "0.80": narrow}, ("h2gcn-1",))
    assert table["notes"] == [
        "h2gcn-1, accuracy at degree 4–7 less that at 1: 14.0 points at h = 0.2 "
        "(the paper: 13); −2.0 points at h = 0.8 (the paper: less than 3)."
    ]
    both, _ = by_degree({"0.20": wide})
    assert "h = 0.2 (the paper: 10)." in both["notes"][1]


def test_one_range_has_no_gap_and_no_runs_have_no_range() -> None:
    table, _ = by_degree({"0.20": [[1, 1, 10, 5], [2, 3, 10, 5]]})
    assert table["columns"] == ["≥ 1"]
    assert table["notes"] == [
        "Too few test nodes for two ranges of degrees, 50 in each."
    ]
    nothing, _ = by_degree({})
    assert (nothing["columns"], nothing["notes"]) == ([], [])


def test_experiments_share_runs() -> None:
    tiny = Protocol("tiny", "tiny", judged=0)
    keys = {}
    for name in ("table-1", "syn-cora"):
        experiment = EXPERIMENTS[name]
        choices = choose(experiment, tiny, ["0.10"], lambda _: None)
        reported = final_runs(experiment, tiny, ["0.10"], choices)
        keys[name] = {run.key for run in reported["gcn", "0.10"]}
    assert keys["table-1"] == keys["syn-cora"]
