"""Settings are chosen on validation scores, and tables report what was chosen."""

from typing import Any

import pytest

from h2gcn.experiments.definitions import EXPERIMENTS, Experiment
from h2gcn.experiments.plan import Run
from h2gcn.experiments.protocols import PROTOCOLS, Protocol
from h2gcn.experiments.results import accuracy_table, degree_result, line_figures
from h2gcn.experiments.selection import choose, final_runs, selection_runs

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
    by_degree = [[1, 1, 10, 5], [2, 3, 20, int(20 * accuracy)]]
    return {"test_accuracy": accuracy, "val_accuracy": 0.0, "by_degree": by_degree}


def test_the_table_reports_the_chosen_runs_beside_the_paper() -> None:
    columns = ["0.10", "0.20"]
    choices = choose(SYNTHETIC, STANDARD, columns, lambda _: None)
    reported = final_runs(SYNTHETIC, STANDARD, columns, choices)
    runs = reported["h2gcn-1", "0.10"]
    accuracies = [0.76, 0.77, 0.78]
    records = {r.key: made(a) for r, a in zip(runs, accuracies, strict=True)}
    table = accuracy_table(SYNTHETIC, STANDARD, reported, records)
    first, second, third = table["rows"][0]["cells"]
    assert first["mean"] == pytest.approx(77)
    assert first["runs"] == [f"syn-cora/h0.10-r{i}" for i in (1, 2, 3)]
    assert first["paper"] == {"mean": 76.82, "std": 1.3}
    assert first["verdict"] == "within"
    assert second["verdict"] == third["verdict"] == "not run"
    (figure,) = line_figures(SYNTHETIC, table)
    assert figure["series"][0]["x"] == [0.1]
    assert figure["series"][0]["paper"] == [76.82]


def test_a_cell_with_runs_missing_says_so() -> None:
    choices = choose(SYNTHETIC, STANDARD, ["0.10"], lambda _: None)
    reported = final_runs(SYNTHETIC, STANDARD, ["0.10"], choices)
    run = reported["h2gcn-1", "0.10"][0]
    table = accuracy_table(SYNTHETIC, STANDARD, reported, {run.key: made(0.5)})
    assert table["rows"][0]["cells"][0]["note"] == "1 of 3 runs"


def test_accuracy_by_degree_is_the_share_of_each_range() -> None:
    experiment, protocol = EXPERIMENTS["degree"], STANDARD
    choices = choose(experiment, protocol, experiment.columns, lambda _: None)
    reported = final_runs(experiment, protocol, experiment.columns, choices)
    records = {run.key: made(0.8) for runs in reported.values() for run in runs}
    table, figure = degree_result(protocol, reported, records)
    assert table["columns"] == ["1", "2–3"]
    assert [row["name"] for row in table["rows"]] == [
        f"{model}, h = {h}" for model in ("h2gcn-1", "h2gcn-2") for h in (0.2, 0.8)
    ]
    for row in table["rows"]:
        assert [cell["mean"] for cell in row["cells"]] == pytest.approx([50, 80])
    assert figure["kind"] == "bars"
    assert figure["series"][0]["x"] == ["1", "2–3"]


def test_experiments_share_runs() -> None:
    tiny = Protocol("tiny", "tiny", judged=0)
    keys = {}
    for name in ("table-1", "syn-cora"):
        experiment = EXPERIMENTS[name]
        choices = choose(experiment, tiny, ["0.10"], lambda _: None)
        reported = final_runs(experiment, tiny, ["0.10"], choices)
        keys[name] = {run.key for run in reported["gcn", "0.10"]}
    assert keys["table-1"] == keys["syn-cora"]
