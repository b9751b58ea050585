"""What cannot be shared among workers is told in a line, and nothing is begun."""

from pathlib import Path

import pytest

from h2gcn import NodeClassifier, read_graph
from h2gcn.cluster import connection
from h2gcn.io import write_tables
from support.commands import Run
from support.shared_graphs import make_graph


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the tables of a graph."""
    folder = tmp_path_factory.mktemp("data") / "town"
    write_tables(make_graph(60, 4), folder)
    return folder


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--cluster", "local:0"], "a cluster is local:N"),
        (["--cluster", "local:many"], "got 'local:many'"),
        (["--model", "gcn", "--cluster", "local:2"], "gcn has more than that"),
        (["--model", "gat", "--cluster", "local:2"], "Models that can: h2gcn-1"),
    ],
)
def test_training_that_workers_cannot_do(
    arguments: list[str], why: str, run: Run, folder: Path
) -> None:
    code, told, said = run("train", folder, *arguments)
    assert (code, told) == (2, "")
    assert why in said
    assert len(said.splitlines()) == 1


def test_tuning_that_workers_cannot_share(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    tune = ("tune", folder, "--model", "h2gcn-1", "--out", tmp_path / "tuned")
    code, told, said = run(*tune, "--cluster", "local:2")
    assert (code, told) == (2, "")
    assert "workers make the ring table, and h2gcn-1 has more than that" in said
    assert len(said.splitlines()) == 1


@pytest.mark.usefixtures("no_cluster")
def test_a_cluster_that_is_not_there(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_OWN_TOKEN", [])
    out = tmp_path / "model"
    train = ("train", folder, "--model", "sign", "--out", out, "--quiet")
    code, told, said = run(*train, "--cluster", "127.0.0.1:1")
    assert (code, told) == (2, "")
    assert "no Ray cluster can be reached at '127.0.0.1:1'" in said
    assert len(said.splitlines()) == 1
    assert not out.exists()


@pytest.fixture(scope="module")
def model(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a model in this process."""
    path = tmp_path_factory.mktemp("models") / "model"
    NodeClassifier("mlp", epochs=2, random_state=0).fit(read_graph(folder)).save(path)
    return path


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--one-file"], "--one-file is for --cluster"),
        (["--cluster", "local:1", "--out", "a.csv"], "--one-file makes one file"),
        (["--cluster", "local:1", "--one-file", "--out", "a.txt"], "must end in .csv"),
        (["--cluster", "local:1", "--guard-cells"], "--guard-cells is for one process"),
        (["--cluster", "local:1", "--device", "cuda"], "--device is for one process"),
        (["--cluster", "local:1", "--decision", "top=3:0"], "compares all nodes"),
        pytest.param(
            ["--cluster", "nonsense"],
            "no Ray cluster can be reached at 'nonsense'",
            marks=pytest.mark.slow,  # `make test` has no Ray
        ),
    ],
)
def test_predictions_that_workers_cannot_make(
    arguments: list[str],
    why: str,
    run: Run,
    folder: Path,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "_OWN_TOKEN", [])
    monkeypatch.chdir(tmp_path)
    code, told, said = run("predict", model, folder, "--quiet", *arguments)
    assert (code, told) == (2, "")
    assert why in said
    assert len(said.splitlines()) == 1
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_reproduce_takes_one_place(run: Run, tmp_path: Path) -> None:
    for more, why in (
        (["--cluster", "local:0"], "a cluster is local:N"),
        (["--cluster", "local:1", "--jobs", 2], "--jobs and --cluster: one or the"),
        (["--ray", "auto", "--jobs", 2], "--jobs and --ray: one or the other"),
        (["--ray", "auto", "--cluster", "auto"], "they are the same"),
    ):
        code, _, said = run("reproduce", "table-1", "--out", tmp_path / "r", *more)
        assert code == 2
        assert why in said
    assert not (tmp_path / "r").exists()
