"""What later versions are compared with, and the script that writes it."""

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
CASES = """
0.12s call     tests/io/test_a.py::test_one[x y]
0.01s setup    tests/io/test_a.py::test_one[x y]
0.00s call     tests/io/test_a.py::test_two
0.20s call     tests/test_b.py::test_three
"""


@pytest.fixture
def baseline(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("baseline")


@pytest.mark.parametrize("outcome", ["3 passed", "1 failed, 2 passed, 1 skipped"])
def test_durations_count_the_cases_of_files_and_folders(
    baseline: ModuleType, outcome: str
) -> None:
    found = baseline.durations(f"{CASES}==== {outcome} in 1.20s ====\n")
    assert found["measured"] == {
        "tests/test_b.py": {"seconds": 0.2, "cases": 1},
        "tests/io": {"seconds": 0.1, "cases": 2},
        "tests/io/test_a.py": {"seconds": 0.1, "cases": 2},
    }


@pytest.mark.parametrize("outcome", ["4 passed", "1 failed, 1 passed"])
def test_durations_of_other_cases_than_ran_are_refused(
    baseline: ModuleType, outcome: str
) -> None:
    with pytest.raises(SystemExit, match=r"durations of 3 cases, but: .*passed"):
        baseline.durations(f"{CASES}==== {outcome} in 1.20s ====\n")


def test_the_stored_cases_are_all_that_were_collected() -> None:
    tests = json.loads((ROOT / "results" / "baseline-0.1.json").read_text())["tests"]
    files = {name: row for name, row in tests["measured"].items() if ".py" in name}
    assert sum(row["cases"] for row in files.values()) == tests["collected"] > 13_000
    assert tests["commit"] == "68cd010"
