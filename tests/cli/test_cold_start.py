"""What a command waits for before it begins: libraries that it loads, kernels."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from h2gcn import Graph
from h2gcn.io import write_npz

pytestmark = pytest.mark.slow

CODE = """
import json, sys
from h2gcn.cli import main
code = main(sys.argv[1:])
packages = {name.partition(".")[0] for name in sys.modules}
parts = {"scipy.optimize", "scipy.stats", "torch._dynamo"} & set(sys.modules)
print(json.dumps(sorted(packages | parts)))
sys.exit(code)
"""
"""Runs a command and tells what it has loaded, in a line at the end."""

NEVER = {
    *("sklearn", "lightgbm", "scipy.stats", "pandas", "torch._dynamo", "sympy"),
    *("torch_geometric", "networkx", "matplotlib", "optuna", "ray", "duckdb"),
}
"""Not for a small graph and one model, whatever the command."""


def run(*arguments: object, **environment: str) -> tuple[set[str], str]:
    """Run a command as a program; return what it loaded, and its stderr."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1])), done.stderr


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    """Return a file with a ring of 40 nodes in two classes, eight without a label."""
    adj = np.roll(np.eye(40), 1, axis=1)
    y = np.where(np.arange(40) % 5, np.arange(40) // 2 % 2, -1)
    path = tmp_path / "ring.npz"
    write_npz(Graph(x=np.eye(40), adj=adj + adj.T, y=y), path)
    return path


def test_training_and_predicting_load_what_they_need(
    ring: Path, tmp_path: Path
) -> None:
    model, out = tmp_path / "model", tmp_path / "out.csv"
    loaded, _ = run("train", ring, "--model", "h2gcn-1", "--epochs", 2, "--out", model)
    assert not loaded & NEVER
    assert "torch" in loaded, "names are told as they are meant"
    loaded, _ = run("predict", model, ring, "--out", out)
    assert not loaded & (NEVER | {"scipy.optimize"})
    assert len(out.read_text().splitlines()) == 9


def test_nothing_is_loaded_to_show_the_commands() -> None:
    loaded, _ = run("--help")
    assert not loaded & (NEVER | {"numba", "torch"})
