"""Mistakes with checkpoints and stored rings on the command line: one line each."""

import json
from pathlib import Path

import numpy as np
import pytest

from h2gcn.io import files, locked
from h2gcn.training.checkpoint import MANIFEST
from support.commands import Run

N = 40
QUICK = ("--epochs", 3, "-q")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a folder with two tables, and features in a file beside them."""
    folder = tmp_path / "people"
    folder.mkdir()
    lines = ["id,age,label", *(f"p{i},{30 + i % 2},{'ab'[i % 2]}" for i in range(N))]
    (folder / "nodes.csv").write_text("\n".join(lines))
    edges = [f"p{i},p{(i + step) % N}" for i in range(N) for step in (1, 9)]
    (folder / "edges.csv").write_text("\n".join(["source,target", *edges]))
    x = np.random.default_rng(0).normal(size=(N, 6)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    return folder


@pytest.fixture
def kept(run: Run, data: Path, tmp_path: Path) -> Path:
    """Return the folder of a checkpoint of split 0, in c/split-0."""
    code, _, err = run("train", data, *QUICK, "--checkpoint", tmp_path / "c")
    assert code == 0, err
    return tmp_path / "c" / "split-0"


def fails(result: tuple[int, str, str], line: str) -> None:
    """Check that a command failed with this line, and nothing else."""
    code, out, err = result
    assert (code, out) == (2, "")
    assert err == f"h2gcn: error: {line}\n"


def test_a_place_that_holds_something_else(
    run: Run, data: Path, tmp_path: Path
) -> None:
    for path, words in [
        (data, "holds other files; a checkpoint needs a folder of its own"),
        (data / "nodes.csv", "is a file; a checkpoint is saved as a folder"),
        (tmp_path / "x" / "c", f"the folder {tmp_path / 'x'} does not exist"),
    ]:
        result = run("train", data, *QUICK, "--checkpoint", path)
        fails(result, f"{path}: {words}")
    assert sorted(file.name for file in data.iterdir()) == ["edges.csv", "nodes.csv"]


def test_files_beside_a_checkpoint_are_left_alone(
    run: Run, data: Path, kept: Path
) -> None:
    (kept / "mine.txt").write_text("mine")
    before = sorted(kept.iterdir())
    result = run("train", data, *QUICK, "--checkpoint", kept.parent, "--resume")
    fails(result, f"{kept}: holds other files; a checkpoint needs a folder of its own")
    assert sorted(kept.iterdir()) == before


@pytest.mark.parametrize("resume", [(), ("--resume",)], ids=["begun", "resumed"])
def test_a_damaged_checkpoint(
    run: Run, data: Path, kept: Path, resume: tuple[str, ...]
) -> None:
    command = ("train", data, *QUICK, "--checkpoint", kept.parent, *resume)
    file = kept / MANIFEST
    file.write_text("{")
    why = "Expecting property name enclosed in double quotes, line 1, column 2"
    fails(run(*command), f"{file}: truncated or not JSON ({why})")
    file.write_text(json.dumps({"format": 1}))
    fails(run(*command), f"{file}: was changed after it was saved (checksum)")
    file.unlink()
    file.mkdir()
    fails(run(*command), f"{file}: this is a folder, not a file.")


@pytest.mark.skipif(files.fcntl is None, reason="no locks here")
def test_a_checkpoint_in_use(run: Run, data: Path, kept: Path) -> None:
    with locked(kept):
        result = run("train", data, *QUICK, "--checkpoint", kept.parent, "--resume")
    fails(
        result,
        f"{kept}: another program is writing to it; wait for it, or write to another "
        "place",
    )


def test_features_that_moved_into_memory(run: Run, data: Path, tmp_path: Path) -> None:
    x, kept = tmp_path / "x.npy", ("--checkpoint", tmp_path / "c")
    command = ("train", data, *QUICK, "--features", x, *kept)
    assert run(*command)[0] == 0
    np.save(x, np.load(x).astype(np.float64))  # the same numbers
    assert run(*command, "--resume")[0] == 0
