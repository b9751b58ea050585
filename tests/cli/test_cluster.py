"""Commands that share their work among the workers of a cluster."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from h2gcn import NodeClassifier, read_graph
from h2gcn.cluster import Cluster, TableOverWorkers
from h2gcn.features import TableSchema
from h2gcn.io import write_store, write_tables
from support.commands import Run
from support.shared_graphs import make_graph


@pytest.fixture
def cluster(three_workers: Cluster) -> str:
    """Return what commands of this process call the cluster that it is connected to."""
    assert three_workers.workers == 3
    return "auto"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the tables of a graph."""
    folder = tmp_path_factory.mktemp("data") / "town"
    write_tables(make_graph(columns=20), folder)
    return folder


def read_csv(file: Path) -> list[list[str]]:
    """Return the rows of a file."""
    with file.open(newline="") as stream:
        return list(csv.reader(stream))


def test_from_training_to_predictions(
    run: Run, cluster: str, folder: Path, tmp_path: Path
) -> None:
    train = ("train", folder, "--model", "ring-table", "--epochs", 5, "--json")
    models = {name: tmp_path / name for name in ("here", "there")}
    code, here, said = run(*train, "--out", models["here"])
    assert code == 0, said
    code, there, said = run(*train, "--out", models["there"], "--cluster", cluster)
    assert code == 0, said
    both = [json.loads(text)["splits"][0] for text in (here, there)]
    for row in both:
        del row["seconds"]
    assert both[0] == both[1], "the same scores, to the last digit"
    weights = [path / "weights.safetensors" for path in models.values()]
    assert weights[0].read_bytes() == weights[1].read_bytes()

    # One process, parts, and the parts joined.
    predict = ("predict", models["here"], folder, "--all")
    one, parts, joined = (tmp_path / name for name in ("a.csv", "parts", "b.csv"))
    assert run(*predict, "--out", one)[0] == 0
    over = (*predict, "--cluster", cluster)
    code, told, said = run(*over, "--out", parts, "--batch-size", 150)
    assert code == 0, said
    assert "400 nodes written to" in told
    assert "3 parts; " in told
    assert "known labels agree" in told
    names = [file.name for file in sorted(parts.glob("part-*"))]
    assert names == [f"part-{number:05d}.parquet" for number in range(3)]
    code, told, _ = run(*over, "--out", parts, "--batch-size", 150, "--json")
    assert json.loads(told)["cluster"]["found"] == 3, "nothing was made again"
    assert run(*over, "--one-file", "--out", joined)[0] == 0
    assert not (tmp_path / "b.csv.parts").exists()
    expected, rows = read_csv(one), read_csv(joined)
    table = pq.read_table(parts)
    assert rows[0] == expected[0] == table.column_names
    assert [row[:2] for row in rows] == [row[:2] for row in expected]
    assert table.column("id").to_pylist() == [row[0] for row in rows[1:]]
    for row, other in zip(rows[1:], expected[1:], strict=True):
        pairs = zip(row[2:], other[2:], strict=True)
        assert all(abs(float(a) - float(b)) < 1e-6 for a, b in pairs)

    # Only those without a label, where all are not asked for.
    code, told, said = run(*over[:3], *over[4:], "--out", tmp_path / "few")
    assert code == 0, said
    assert pq.read_table(tmp_path / "few").num_rows < 200


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ray, of itself
def test_workers_train_h2gcn(
    run: Run,
    cluster: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)  # workers are elsewhere
    store = Path("store")
    write_store(read_graph(folder), store)
    train = ("train", store, "--model", "h2gcn-1", "--epochs", 6, "--json")
    code, here, said = run(*train, "--out", tmp_path / "here")
    assert code == 0, said
    code, there, said = run(
        *(*train, "--out", tmp_path / "there", "--cluster", cluster),
        *("--checkpoint", tmp_path / "state"),
    )
    assert code == 0, said
    one, ours = (json.loads(text)["splits"][0] for text in (here, there))
    assert ours["best_epoch"] == one["best_epoch"]
    (spread,) = json.loads(there)["cluster"]
    assert (spread["workers"], spread["starts"]) == (3, 1)
    assert spread["sent"] > 0
    assert ours["test_accuracy"] == one["test_accuracy"]
    assert (tmp_path / "state" / "split-0" / "checkpoint.json").exists()
    predicted = [
        NodeClassifier.load(tmp_path / name).predict_proba(read_graph(folder))
        for name in ("here", "there")
    ]
    np.testing.assert_allclose(*predicted, atol=1e-4)


def test_tune_and_auto_take_the_table_from_workers(
    run: Run,
    cluster: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, make = [], TableOverWorkers._build

    def count(self: TableOverWorkers, common: Any) -> Any:
        made.append([*next(p for p in common if isinstance(p, TableSchema)).blocks])
        return make(self, common)

    monkeypatch.setattr(TableOverWorkers, "_build", count)
    code, told, said = run(
        *("tune", folder, "--model", "sign", "--splits", 1, "--epochs", 2),
        *("--scaling", "none", "--out", tmp_path / "tuned", "--json"),
        *("--cluster", cluster),
    )
    assert code == 0, said
    assert json.loads(told)["best"]["rank"] == 1
    assert made == [["ego", "loops1", "loops2", "loops3"]], "once for all settings"
    code, told, said = run(
        *("train", folder, "--time-limit", 4, "--json", "--cluster", cluster)
    )
    assert code == 0, said
    assert json.loads(told)["model"] == "auto"
    assert len(made) > 1
