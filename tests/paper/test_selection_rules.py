"""How far the rule that chooses a setting moves a cell: by validation nodes alone."""

from typing import Any

import pytest
import selection_rules as rules


def records(*, better: int = 5) -> list[dict[str, Any]]:
    """Return the 80 runs; one setting is best on the last seven splits."""
    found = []
    for number, run in enumerate(rules.plan()):
        setting, split = divmod(number, rules.SPLITS)
        ahead = setting == (better if split >= rules.JUDGED else 2)
        accuracies = {"val_accuracy": 0.5 + ahead / 10, "test_accuracy": setting / 10}
        found.append({"key": run.key, **run.to_json(), **accuracies, "epochs": 2000})
    return found


def test_the_plan_is_the_whole_grid_of_the_paper_on_every_split() -> None:
    plan = rules.plan()
    assert len({run.key for run in plan}) == len(plan) == 80
    assert {run.split for run in plan} == {*range(10)}
    settings = {
        tuple(run.config[n] for n in ("activation", "dropout", "l2")) for run in plan
    }
    assert len(settings) == 8
    assert all(run.config.get("patience") is None for run in plan)


def test_nothing_is_said_while_a_run_is_missing() -> None:
    told = rules.rules_part(records()[1:])
    assert told == (
        "Not yet: 1 of 80 runs are missing (`python paper/selection_rules.py`)."
    )


def test_each_rule_chooses_by_validation_nodes() -> None:
    done = records()
    grid = [done[i : i + 10] for i in range(0, 80, 10)]
    own, ten, three = rules.by_rule(grid).values()
    assert own == pytest.approx([20] * 3 + [50] * 7)
    assert ten == pytest.approx([50] * 10)
    assert three == pytest.approx([20] * 10)
    # On a tie the first of the grid.
    tied = [[record | {"val_accuracy": 0.5} for record in one] for one in grid]
    assert all(values == [0] * 10 for values in rules.by_rule(tied).values())


def test_the_page_shows_what_each_rule_gives_beside_the_paper() -> None:
    told = rules.rules_part(records())
    assert (
        "| each split has the setting that is best on its own validation nodes | "
        in told
    )
    assert "| 41.00 ± 14.49 | −16.11 |" in told
    assert (
        "| not at all: the setting with the lowest test accuracy | 0.00 ± 0.00 |"
        in told
    )
    assert "| not at all: the one with the highest | 70.00 ± 0.00 | +12.89 |" in told
    assert "| the paper | 57.11 ± 1.58 | |" in told
    assert "differ by 30.0 points, and 0 of 3 come within" in told
    assert "On test nodes 2 of 8 settings reach that mean." in told
    grid = told.split("\n\n")[-1].splitlines()[2:]
    assert [line.split(" | ")[-1] for line in grid] == [
        f"{n} |" for n in (0, 0, 3, 0, 0, 7, 0, 0)
    ]
    low = [record | {"test_accuracy": 0.1} for record in records()]
    assert "None of the 8 settings reaches that mean" in rules.rules_part(low)
