"""`python -m h2gcn`, and what shells complete."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from h2gcn.cli.options import (
    DATASETS as DATASET_NAMES,
    MODELS as MODEL_NAMES,
    complete_model,
    complete_source,
)
from h2gcn.datasets import DATASETS
from h2gcn.models import MODELS

WITHOUT_HEAVY = """
import sys
from h2gcn.cli import main
try:
    main([])
finally:
    heavy = {"torch", "numpy", "scipy", "sklearn", "pyarrow"} & set(sys.modules)
    assert not heavy, heavy
"""


def program(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_names_are_those_of_models_and_datasets() -> None:
    assert tuple(MODELS) == MODEL_NAMES
    assert tuple(DATASETS) == DATASET_NAMES


def test_models_are_completed() -> None:
    assert complete_model("gcn-c") == ["gcn-cheby", "gcn-cheby-jk"]
    assert complete_model("a") == ["auto", "acm-gcn"]
    assert complete_model("x") == []


def test_sources_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cornet").mkdir()
    for name in ("cornet/nodes.csv", "cornet/.hidden.csv", "cornet/a.txt", "cor.npz"):
        (tmp_path / name).touch()
    assert complete_source("cor") == [
        *("cornell", "cornell-2020", "cora", "cora-full", "cornell5"),
        *("cor.npz", "cornet/"),
    ]
    assert complete_source("cornet/") == ["cornet/nodes.csv"]
    assert complete_source("cornet/.h") == ["cornet/.hidden.csv"]
    assert complete_source("gone/x") == []


def test_the_module_is_the_command() -> None:
    done = program("-m", "h2gcn", "--version")
    assert done.returncode == 0
    assert done.stdout.startswith("h2gcn 0.")
    done = program("-m", "h2gcn", "train", "nowhere")
    assert done.returncode == 2
    assert "error: 'nowhere' is neither a dataset nor a file" in done.stderr


@pytest.mark.parametrize(
    ("shell", "environment", "told"),
    [
        (
            "bash",
            {"COMP_WORDS": "h2gcn train --model gcn-c", "COMP_CWORD": "3"},
            ["gcn-cheby", "gcn-cheby-jk"],
        ),
        (
            "fish",
            {
                "_TYPER_COMPLETE_ARGS": "h2gcn diagnose min",
                "_TYPER_COMPLETE_FISH_ACTION": "get-args",
            },
            ["minesweeper"],
        ),
    ],
)
def test_a_shell_completes_without_loading_anything_heavy(
    shell: str, environment: dict[str, str], told: list[str]
) -> None:
    asked = {"_H2GCN_COMPLETE": f"complete_{shell}", **environment}
    done = program("-c", WITHOUT_HEAVY, **asked)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == told


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_can_be_shown(shell: str) -> None:
    # Else it is the shell that the tests were started from, if it was one.
    named = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = program("-m", "h2gcn", "--show-completion", shell, **named)
    assert done.returncode == 0, done.stderr
    assert "_H2GCN_COMPLETE" in done.stdout
