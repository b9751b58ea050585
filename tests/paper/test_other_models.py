"""The table of the models that the paper does not run: a file is a cell."""

import json
from pathlib import Path
from typing import Any

import other_models as others

from h2gcn.experiments import Row, Table
from h2gcn.experiments.analysis import measured, not_run

REAL = Table(
    "real",
    "t",
    ("texas", "cora"),
    tuple(
        Row(model, (measured([0.5, 0.7], ["0", "1"], None), not_run(None)))
        for model in others.BESIDE
    ),
)


def write(folder: Path, dataset: str, model: str, **changes: Any) -> None:
    """Write what `h2gcn train --json` prints of ten splits."""
    scores = {"mean": 0.8123, "std": 0.0456, "n": 10}
    areas = {"mean": 0.9, "std": 0.01, "n": 10}
    found = {
        "config": {"metric": "accuracy", "options": {"coupling": 0.5, "seed": None}},
        "splits": [{}] * 10,
        "test_accuracy": scores,
        "test_roc_auc": areas,
    }
    path = folder / f"{dataset}-{model}.json"
    path.write_text(json.dumps(found | changes), "utf-8")


def cells(told: str, model: str) -> dict[str, str]:
    """Return the row of a model by dataset."""
    line = next(one for one in told.splitlines() if one.startswith(f"| {model} |"))
    return dict(zip(others.DATASETS, line.strip("| ").split(" | ")[1:], strict=True))


def test_a_file_is_a_cell_and_all_others_are_not_run(tmp_path: Path) -> None:
    write(tmp_path, "texas", "bp")
    told = others.others_table(tmp_path, REAL)
    row = cells(told, "bp")
    assert row.pop("texas") == "81.23 ± 4.56"
    assert {*row.values(), *cells(told, "gmnn").values()} == {"not run"}
    of = len(others.MODELS) * len(others.DATASETS)
    assert told.endswith(f"\n\n{of - 1} of {of} cells are not run.")
    assert others.others_settings(tmp_path) == "- bp on texas: coupling 0.5"


def test_the_score_is_the_one_that_the_dataset_is_judged_by(tmp_path: Path) -> None:
    write(tmp_path, "tolokers", "bp", config={"metric": "roc_auc"})
    told = others.others_table(tmp_path, REAL)
    assert cells(told, "bp")["tolokers"] == "90.00 ± 1.00"


def test_a_cell_of_fewer_splits_is_not_run(tmp_path: Path) -> None:
    write(tmp_path, "texas", "bp", splits=[{}] * 9)
    assert cells(others.others_table(tmp_path, REAL), "bp")["texas"] == "not run"


def test_rows_of_the_paper_stand_beside(tmp_path: Path) -> None:
    row = cells(others.others_table(tmp_path, REAL), "*h2gcn-1*")
    assert (row["texas"], row["cora"]) == ("60.00 ± 14.14", "not run")
    assert row["tolokers"] == "not run", "it is no benchmark of the paper"


def test_benchmarks_of_others_are_read_for_those_rows_too(tmp_path: Path) -> None:
    for dataset in ("tolokers", "cora"):
        write(tmp_path, dataset, "h2gcn-1", config={"metric": "roc_auc"})
    row = cells(others.others_table(tmp_path, REAL), "*h2gcn-1*")
    assert row["tolokers"] == "90.00 ± 1.00"
    assert row["cora"] == "not run", "the table of real benchmarks says so"


def test_nothing_is_said_to_be_missing_when_all_is_there(tmp_path: Path) -> None:
    for model in others.MODELS:
        for dataset in others.DATASETS:
            write(tmp_path, dataset, model)
    assert "not run." not in others.others_table(tmp_path, REAL)
