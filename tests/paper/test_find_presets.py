"""How the presets of the benchmarks are found: by validation scores, on all splits."""

from typing import Any

import find_presets


def winner_of(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the winner's setting, as `find_presets.py --collect` keeps it."""
    dataset, model, setting = find_presets.winner_of(records)
    assert (dataset, model) == ("texas", "gcn")
    return dict(setting)


def records(l2: float, *scores: float | None) -> list[dict[str, Any]]:
    """Return a setting's runs, one a split; None is a failure."""
    return [
        {
            "key": f"{l2} {split}",
            "dataset": "texas",
            "model": "gcn",
            "config": {"scaling": "rows", "metric": "accuracy", "l2": l2},
            "seconds": 1.0,
            "val_score": score,
        }
        | ({"error": "training diverged"} if score is None else {})
        for split, score in enumerate(scores)
    ]


def test_the_best_mean_wins_and_what_the_benchmark_gives_is_left_out() -> None:
    runs = records(0.1, 0.5, 0.9) + records(0.2, 0.7, 0.8) + records(0.3, 0.8, 0.7)
    assert winner_of(runs) == {"l2": 0.2}, "on a tie the first"


def test_a_setting_that_did_not_run_everywhere_cannot_win() -> None:
    whole = records(0.1, 0.5, 0.5)
    assert winner_of(records(0.2, 0.9) + whole) == {"l2": 0.1}
    assert winner_of(records(0.2, 0.9, None) + whole) == {"l2": 0.1}


def test_presets_go_where_the_package_reads_them() -> None:
    assert find_presets.PRESETS.is_file()
