"""The command line on large graphs: batches, features in a file, mistakes with both."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from h2gcn.estimator import read_manifest
from h2gcn.io import TableOptions, read_graph, read_tables
from h2gcn.rings import plan
from support.commands import Run
from support.memory import rings_too_large

N = 40
QUICK = ("--epochs", 15, "-q")
LOUD = ("--epochs", 5)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two tables, and features in a file beside them."""
    data = tmp_path / "people"
    data.mkdir()
    kinds = np.arange(N) % 2
    lines = ["id,age,note,label"]
    lines += [f"p{i},{30 + i % 2},x,{'ab'[i % 2] if i % 4 else ''}" for i in range(N)]
    (data / "nodes.csv").write_text("\n".join(lines))
    edges = [f"p{i},p{(i + step) % N}" for i in range(N) for step in (1, 9)]
    (data / "edges.csv").write_text("\n".join(["source,target", *edges]))
    x = np.random.default_rng(0).normal(size=(N, 6)) + 2 * kinds[:, None]
    np.save(tmp_path / "x.npy", x.astype(np.float32))
    return data


def fails(result: tuple[int, str, str], *words: str) -> None:
    """Check that a command failed with one line that holds these words."""
    code, out, err = result
    assert code == 2, out
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("h2gcn: error: ")
    for word in words:
        assert word in line, line


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


# ------------------------------------------------------------------- batches


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_batches_from_training_to_predictions(
    run: Run, folder: Path, tmp_path: Path, suffix: str
) -> None:
    model = tmp_path / "model"
    code, _, err = run("train", folder, "--out", model, "--batch-size", 8, *QUICK)
    assert code == 0, err
    assert "batch_size" not in read_manifest(model).params
    said, files = set(), []
    for size in ("--batch-size 1", "", "--batch-size 1000"):
        out = tmp_path / f"p{len(files)}{suffix}"
        result = run("predict", model, folder, *size.split(), "-q", "--out", out)
        assert result[0] == 0, result[2]
        said.add(result[1].replace(str(out), "OUT"))
        files.append(out)
    (line,) = said
    assert line.startswith("10 nodes written to OUT; ")
    assert "% of 30 known labels agree" in line
    tables = [read(path) for path in files]
    for table in tables:
        assert [row["id"] for row in table] == [f"p{i}" for i in range(0, N, 4)]
        assert [r["label"] for r in table] == [r["label"] for r in tables[0]]
        for row, other in zip(table, tables[0], strict=True):
            for name in ("p_a", "p_b"):
                assert float(row[name]) == pytest.approx(float(other[name]), abs=1e-5)


def read(path: Path) -> list[dict[str, object]]:
    if path.suffix == ".csv":
        return list(csv.DictReader(path.read_text().splitlines()))
    import pyarrow.parquet as pq

    return list(pq.read_table(path).to_pylist())


def test_all_nodes_are_predicted_once(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from h2gcn.models import H2GCN

    model, out = tmp_path / "model", tmp_path / "p.csv"
    run("train", folder, "--out", model, "--model", "mlp", "--batch-size", 8, *QUICK)
    seen: list[int] = []
    forward = H2GCN.forward

    def spy(self: H2GCN, x: np.ndarray, *more: object) -> object:
        seen.append(len(x))
        return forward(self, x, *more)

    monkeypatch.setattr(H2GCN, "forward", spy)
    run("predict", model, folder, "--all", "-q", "--out", out, "--batch-size", 8)
    assert seen == [8] * 5
    assert [row["id"] for row in rows(out)] == [f"p{i}" for i in range(N)]


def test_mistakes_with_batches(run: Run, folder: Path, tmp_path: Path) -> None:
    fails(
        run("train", folder, "--batch-size", 41, *QUICK),
        "error: --batch-size must be at most the graph's 40 nodes, got 41",
    )
    for size in (0, -1):
        fails(
            run("train", folder, "--batch-size", size, *QUICK),
            f"error: --batch-size must be an integer, at least 1, got {size}",
        )
    fails(
        run("train", folder, "--batch-size", 8, "--model", "mixhop", *QUICK),
        "error: --batch-size does not go with model 'mixhop': ",
    )
    model = tmp_path / "mixhop"
    assert run("train", folder, "--model", "mixhop", "--out", model, *QUICK)[0] == 0
    fails(
        run("predict", model, folder, "--out", tmp_path / "p.csv", "--batch-size", 8),
        "error: --batch-size does not go with model 'mixhop': ",
    )
    fails(
        run("train", folder, "--batch-size", 8, "--model", "label-propagation", "-q"),
        "label-propagation has no epochs: --batch-size has no meaning for it",
    )
    fails(run("predict", tmp_path, folder, "--batch-size", 0), "'--batch-size'", "1")


# ------------------------------------------------------------- features in a file


def test_features_in_a_file_replace_the_columns(folder: Path, tmp_path: Path) -> None:
    graph = read_graph(folder, features=tmp_path / "x.npy")
    assert isinstance(graph.x, np.memmap)
    assert graph.feature_names == tuple("012345")
    assert graph.x.tolist() == np.load(tmp_path / "x.npy").tolist()
    assert graph.node_ids[:2].tolist() == ["p0", "p1"]
    assert graph.y[:4].tolist() == [-1, 1, 0, 1]
    assert not any("note" in sentence for sentence in graph.record.sentences())
    both = folder / "nodes.csv", folder / "edges.csv"
    same = read_tables(*both, features=str(tmp_path / "x.npy"))
    assert same.x.tolist() == graph.x.tolist()


def test_a_table_of_ids_alone(folder: Path, tmp_path: Path) -> None:
    (folder / "nodes.csv").write_text("\n".join(["id", *(f"p{i}" for i in range(N))]))
    graph = read_graph(folder, features=tmp_path / "x.npy")
    assert graph.n_features == 6
    assert not graph.labelled.size


def test_other_numbers_are_read_into_memory_aloud(folder: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(2 * N).reshape(N, 2))
    graph = read_graph(folder, features=tmp_path / "x.npy")
    assert type(graph.x) is np.ndarray
    assert graph.x[-1].tolist() == [78, 79]
    (note,) = graph.record.notes[:1]
    assert note == "x.npy holds int64 and was read into memory; float32 stays a file"


@pytest.mark.parametrize("batches", [(), ("--batch-size", 8)], ids=["whole", "batches"])
def test_train_and_predict_with_features_in_a_file(
    run: Run, folder: Path, tmp_path: Path, batches: tuple[object, ...]
) -> None:
    model, out, x = tmp_path / "model", tmp_path / "p.csv", tmp_path / "x.npy"
    tables = "--nodes", folder / "nodes.csv", "--edges", folder / "edges.csv"
    code, _, err = run(
        "train", *tables, "--features", x, "--out", model, *batches, *QUICK
    )
    assert code == 0, err
    manifest = read_manifest(model)
    assert manifest.features == list("012345")
    assert TableOptions.from_json(manifest.extra["tables"]).feature_columns is None
    code, said, err = run("predict", model, folder, "--features", x, "-q", "--out", out)
    assert code == 0, err
    assert "10 nodes written" in said
    assert {row["label"] for row in rows(out)} == {"a"}
    code, told, err = run("diagnose", *tables, "--features", x, "--json")
    assert code == 0, err
    assert json.loads(told)["card"]["features"] == 6
    # Without the file, the table's own column is what there is.
    fails(
        run("predict", model, folder, "-q", "--out", tmp_path / "other.csv"),
        "1 feature columns, the model was trained on 6",
    )


def test_mistakes_with_features(run: Run, folder: Path, tmp_path: Path) -> None:
    def train(*more: object) -> tuple[int, str, str]:
        return run("train", folder, "--features", x, *more, *QUICK)

    x = tmp_path / "gone.npy"
    fails(train(), "gone.npy: there is no such file")
    x = folder
    fails(train(), "people: this is a folder")
    x = tmp_path / "x.npy"
    fails(train("--feature-column", "age"), "x.npy", "'age'", "--feature-column")
    fails(train("--categorical", "note"), "x.npy", "'note'", "--categorical")
    whole = x.read_bytes()
    x.write_bytes(whole[:-4])
    fails(train(), "x.npy: cannot be read as an array of numpy, .npy (")
    x.write_text("1,2\n3,4\n")
    fails(train(), "x.npy: cannot be read as an array of numpy, .npy (")
    np.savez(x.with_suffix(".npz"), x=np.eye(N))
    x = x.with_suffix(".npz")
    fails(train(), "x.npz: cannot be read as an array of numpy, .npy (")
    x = tmp_path / "x.npy"
    np.save(x, np.array([{}] * N, dtype=object))
    fails(train(), "x.npy: cannot be read as an array of numpy, .npy (")
    np.save(x, np.full((N, 2), "a"))
    fails(train(), "x.npy: must hold numbers, got dtype <U1")
    for shape in ((N,), (N, 2, 2)):
        np.save(x, np.ones(shape, dtype=np.float32))
        fails(train(), "x.npy: must be a matrix", f"got shape {shape}")
    np.save(x, np.ones((N - 1, 2), dtype=np.float32))
    fails(
        train(),
        "x.npy: must have a row for each of the 40 nodes of nodes.csv, got 39 rows",
    )
    np.save(x, np.full((N, 2), np.nan, dtype=np.float32))
    fails(train(), "must be finite, got nan in row 0, column 0")
    fails(
        run("train", "texas", "--features", x, *QUICK),
        "texas is a dataset with features of its own",
    )
    np.savez(tmp_path / "g.npz", x=np.eye(2))
    fails(
        run("train", tmp_path / "g.npz", "--features", x, *QUICK),
        "x.npy: a file of features needs a node table",
        "g.npz",
    )


# ------------------------------------------------------------ rings that are large


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--ring-cap", 0), ("error: --ring-cap must be", "at least 1", "got 0")),
        (
            ("--ring-cap", 4, "--model", "gcn"),
            ("error: --ring-cap is for", "'gcn' has none"),
        ),
        (("--memory-limit", 0), ("error: --memory-limit must be", "got 0")),
        (("--memory-limit", 5e-6), ("will not fit in memory", "the limit is 5.0 kB")),
    ],
)
def test_bad_options_for_rings(
    run: Run, folder: Path, options: tuple[object, ...], words: tuple[str, ...]
) -> None:
    fails(run("train", folder, *QUICK, *options), *words)


def test_rows_on_demand_are_announced(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "training_bytes", rings_too_large)
    code, _, err = run("train", folder, *LOUD, "--batch-size", 8)
    assert code == 0
    assert "their rows are computed when they are needed" in err


def test_predictions_have_the_options_about_the_machine(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model"
    assert run("train", folder, "--out", model, *QUICK)[0] == 0
    predict = "predict", model, folder, "--out", tmp_path / "p.csv"
    fails(
        run(*predict, "-q", "--memory-limit", 5e-6),
        "the rings will not fit in memory: the prediction takes ",
        "but the limit is 5.0 kB; nothing fits",
    )
    fails(run(*predict, "-q", "--memory-limit", 0), "--memory-limit must", "got 0")
    assert run(*predict)[0] == 0
    exact = rows(tmp_path / "p.csv")
    monkeypatch.setattr(plan, "training_bytes", rings_too_large)
    code, _, err = run(*predict, "--force")
    assert code == 0
    assert "computed when they are needed" in err
    assert [row["label"] for row in rows(tmp_path / "p.csv")] == [
        row["label"] for row in exact
    ]


def test_json_holds_the_options(run: Run, folder: Path) -> None:
    code, out, _ = run("train", folder, *QUICK, "--ring-cap", 3, "--json")
    assert code == 0
    assert json.loads(out)["config"]["ring_cap"] == 3
