"""Cells beside the paper's, average ranks, and settings chosen on validation scores."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from h2gcn.experiments import Protocol, Row, Run, Table, find_protocol, published
from h2gcn.experiments.analysis import (
    accuracy_table,
    average_ranks,
    choose,
    count,
    degree_result,
    final_runs,
    lead,
    line_figures,
    mark_best,
    measured,
    merge_ranges,
    not_run,
    paired_interval,
    pairs,
    ranks_table,
    selection_runs,
    verdict,
)
from h2gcn.experiments.definition import (
    EXPERIMENTS,
    PROTOCOLS,
    Experiment,
    Published,
    published_rows,
)
from support.cases import each

SPLITS = ["split 0", "split 1", "split 2"]


def test_a_cell_is_mean_and_sample_deviation_in_percent() -> None:
    cell = measured([0.5, 0.7, 0.6], SPLITS, Published(59.0, 2.0))
    assert cell.mean == pytest.approx(60)
    assert cell.std == pytest.approx(10)
    assert (cell.n, cell.runs) == (3, tuple(SPLITS))
    assert cell.difference == pytest.approx(1)
    assert (cell.verdict, cell.best) == ("within", False)


def test_one_run_has_no_deviation() -> None:
    assert measured([0.5], ["split 0"], None).std is None


@each(
    ("mean", "paper", "said"),
    [
        (82.0, Published(80.0, 2.0), "within"),
        (82.01, Published(80.0, 2.0), "better"),
        (78.0, Published(80.0, 2.0), "within"),
        (77.99, Published(80.0, 2.0), "worse"),
        (80.0, Published(80.0, None), "within"),
        (79.9, Published(80.0, None), "worse"),
        (80.1, Published(80.0, None), "better"),
        # Beside a deviation of 0.00 every figure would be off.
        (99.9, Published(100.0, 0.0), "worse"),
        (80.0, None, "none"),
    ],
)
def test_the_verdict_is_by_one_deviation_of_the_paper(
    mean: float, paper: Published | None, said: str
) -> None:
    assert verdict(mean, paper) == said
    # Where the paper has a deviation, ours is no measure.
    if paper is not None and paper.std:
        assert verdict(mean, paper, 50.0) == said


@each("papers", [None, 0.0])
def test_without_a_deviation_of_the_paper_ours_is_the_measure(
    papers: float | None,
) -> None:
    paper = Published(80.0, papers)
    means = (78.9, 79.1, 80.9, 81.1)
    told = [verdict(mean, paper, 1.0) for mean in means]
    assert told == ["worse", "within", "within", "better"]
    nearly = [
        verdict(mean, paper, std) for mean in (80.004, 80.006) for std in (0.0, None)
    ]
    assert nearly == ["within", "within", "better", "better"]
    assert measured([0.78, 0.80], SPLITS[:2], paper).verdict == "within"
    assert measured([0.79], SPLITS[:1], paper).verdict == "worse"


def test_what_was_not_run_says_so_and_keeps_the_papers_figure() -> None:
    cell = not_run(Published(80.0, 2.0), "no data")
    assert (cell.verdict, cell.mean, cell.note) == ("not run", None, "no data")
    assert cell.paper == (80.0, 2.0)


def test_the_interval_is_scipys_paired_t_test() -> None:
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=10), rng.normal(size=10)
    expected = stats.ttest_rel(one, two).confidence_interval(0.95)
    np.testing.assert_allclose(paired_interval(one, two), tuple(expected))


def test_splits_that_overlap_widen_the_interval_by_nadeau_and_bengios_factor() -> None:
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=10), rng.normal(size=10)
    middle = float(np.mean(one - two))
    plain = paired_interval(one, two)
    wide = paired_interval(one, two, overlap=20 / 48)
    factor = math.sqrt((1 / 10 + 20 / 48) / (1 / 10))
    expected = [middle + factor * (end - middle) for end in plain]
    np.testing.assert_allclose(wide, expected)
    cells = [
        measured(values, [*"abcdefghij"], None, "", 20 / 48) for values in (one, two)
    ]
    np.testing.assert_allclose(lead(*cells), 100 * np.array(wide))


def test_each_real_benchmark_has_the_overlap_of_its_splits() -> None:
    real = EXPERIMENTS["real"]
    run = Run("real", "cora", "mlp", {}, 0)
    records = {run.key: {"test_accuracy": 0.5}}
    for column, overlap in (("cora", 20 / 48), ("cora-full", 2.0)):
        table = accuracy_table(
            real, find_protocol("standard"), {("mlp", column): [run]}, records
        )
        assert table.row("mlp")[column].overlap == overlap


def test_a_lead_is_paired_by_the_runs_and_not_by_their_place() -> None:
    one = measured([0.9, 0.8, 0.7], ["a", "b", "c"], None)
    two = measured([0.6, 0.7], ["c", "b"], None)
    assert pairs(one, two) == ([pytest.approx(80), pytest.approx(70)], [70, 60])
    np.testing.assert_allclose(lead(one, two), [10, 10])
    assert lead(one, measured([0.1], ["c"], None)) == (-math.inf, math.inf)


def test_a_single_pair_says_nothing() -> None:
    assert paired_interval([2.0], [1.0]) == (-math.inf, math.inf)


def test_the_best_is_marked_only_beyond_the_noise() -> None:
    steady = {
        "a": measured([0.81, 0.71, 0.91], SPLITS, None),
        "b": measured([0.80, 0.70, 0.90], SPLITS, None),
    }
    steady = mark_best(steady)
    assert [cell.best for cell in steady.values()] == [True, False]
    assert steady["a"].note == "ahead of b by 1.0 to 1.0 (95 %, paired)"
    noisy = {
        "a": measured([0.9, 0.7, 0.8], SPLITS, None),
        "b": measured([0.7, 0.9, 0.7], SPLITS, None),
    }
    noisy = mark_best(noisy)
    assert not any(cell.best for cell in noisy.values())


def test_the_best_must_lead_every_model_and_not_only_the_runner_up() -> None:
    cells = {
        "lead": measured([0.81, 0.81, 0.81], SPLITS, None),
        "steady": measured([0.80, 0.80, 0.80], SPLITS, None),
        "wild": measured([0.60, 0.90, 0.75], SPLITS, None),
    }
    assert mark_best({name: cells[name] for name in ("lead", "steady")})["lead"].best
    cells = mark_best(cells)
    assert not cells["lead"].best
    assert cells["lead"].against == "steady"


def test_nothing_is_best_while_a_model_is_not_run() -> None:
    cells = {
        "lead": measured([0.81, 0.71, 0.91], SPLITS, None),
        "same": measured([0.70, 0.60, 0.80], SPLITS, None),
        "missing": not_run(None),
    }
    cells = mark_best(cells)
    assert not any(cell.best for cell in cells.values())
    assert cells["lead"].note.startswith("ahead of same by 11.0 to 11.0")
    del cells["missing"]
    cells = mark_best(cells)
    assert cells["lead"].best


def test_a_model_with_other_runs_cannot_be_compared_and_leaves_no_best() -> None:
    cells = {
        "lead": measured([0.81, 0.71, 0.91], SPLITS, None),
        "other": measured([0.80, 0.82], SPLITS[:2], None),
        "same": measured([0.70, 0.60, 0.80], SPLITS, None),
    }
    cells = mark_best(cells)
    assert not any(cell.best for cell in cells.values())
    assert [cell.against for cell in cells.values()] == ["same", None, "lead"]


def test_each_cell_has_its_interval_against_the_best_other() -> None:
    rng = np.random.default_rng(1)
    cells = {
        name: measured(rng.uniform(0.5, 0.9, 3).tolist(), SPLITS, None)
        for name in "abcd"
    }
    cells = mark_best(cells)
    for name, cell in cells.items():
        others = {other: one.mean for other, one in cells.items() if other != name}
        assert cell.against == max(others, key=lambda other: others[other])
        paired = stats.ttest_rel(cell.values, cells[cell.against].values)
        expected = tuple(paired.confidence_interval(0.95))
        np.testing.assert_allclose(cell.interval, expected)


def test_one_pair_has_no_interval_and_what_was_not_run_nothing() -> None:
    cells = {
        "a": measured([0.9], SPLITS[:1], None),
        "b": measured([0.8], SPLITS[:1], None),
        "c": not_run(None),
    }
    cells = mark_best(cells)
    assert [cell.against for cell in cells.values()] == ["b", "a", None]
    assert [cell.interval for cell in cells.values()] == [None] * 3
    assert not cells["a"].best
    assert cells["a"].note == ""


def test_nothing_is_best_where_the_runs_are_of_different_splits() -> None:
    cells = {
        "a": measured([0.91, 0.92], SPLITS[:2], None),
        "b": measured([0.11, 0.12], SPLITS[1:], None),
    }
    cells = mark_best(cells)
    assert not cells["a"].best


def test_the_papers_average_ranks_come_out_of_its_own_table() -> None:
    real = {
        model: {name: cell[0] for name, cell in row.items() if cell is not None}
        for model, row in published_rows("real").items()
    }
    ranks = average_ranks(real)
    for model, row in published_rows("ranks").items():
        for group, rank in row.items():
            assert ranks[model][group] == pytest.approx(rank, abs=0.0501), (
                model,
                group,
            )


def test_the_table_of_ranks_counts_only_what_all_models_ran() -> None:
    cells = [measured([0.9], ["split 0"], None), measured([0.5], ["split 0"], None)]
    rows = (Row("h2gcn-1", tuple(cells)), Row("gcn", (cells[1], not_run(None))))
    real = Table("real", "", ("cora", "texas"), rows)
    table = ranks_table(real)
    shown = {row.name: [cell.mean for cell in row.cells] for row in table.rows}
    assert shown == {"h2gcn-1": [None, 1.0, 1.0], "gcn": [None, 2.0, 2.0]}
    assert table.title == "Average rank of the models on cora"


def test_the_papers_figures_are_found_by_model_and_column() -> None:
    assert published("real", "h2gcn-1", "texas") == (84.86, 6.77)
    assert published("real", "geom-gcn", "texas") == (67.57, None)
    assert published("real", "geom-gcn", "cora-full") is None
    assert published("syn-cora", "gcn", "0.10") == (37.14, 4.6)
    assert published("real", "sgc", "texas") is None


# ------------------------------------------------ settings and what is reported of them


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
