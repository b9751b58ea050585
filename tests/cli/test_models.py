"""Models from tables to predictions, by the commands that a user types."""

import csv
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from h2gcn import NodeClassifier
from h2gcn.models import MODELS
from support.commands import Run, fails

CLASSES = ("ash", "birch", "cedar")
SPREADING = [name for name, spec in MODELS.items() if spec.inputs == "labels"]
ON_TABLES = [name for name, spec in MODELS.items() if spec.inputs == "table"]


def named(numbers: Iterable[int]) -> list[str]:
    """Return ids that are no longer the same once they are read as numbers."""
    return [f"{number:03}" for number in numbers]


def write(
    folder: Path, ids: list[str], *, steps: tuple[int, ...], features: bool = True
) -> tuple[object, ...]:
    """Write two tables of trees in a ring; every fourth has no label.

    Returns the options that name the tables. A step of 3 joins trees of a kind.
    """
    rng, n = np.random.default_rng(0), len(ids)
    folder.mkdir()
    columns = ("height", "girth") if features else ()
    rows = [("id", "label", *columns)]
    for name in ids:
        kind, labelled = int(name) % 3, int(name) % 4
        numbers = [f"{kind + rng.normal(0, 0.5):.3f}" for _ in columns]
        rows.append((name, CLASSES[kind] if labelled else "", *numbers))
    ends = [(ids[i], ids[(i + step) % n]) for i in range(n) for step in steps]
    for name, table in (("nodes", rows), ("edges", [("source", "target"), *ends])):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows(table)
    return ("--nodes", folder / "nodes.csv", "--edges", folder / "edges.csv")


@pytest.fixture
def tables(tmp_path: Path) -> tuple[object, ...]:
    """Return the options that name two tables of the trees 000 to 059."""
    return write(tmp_path / "wood", named(range(60)), steps=(1, 3))


def train(run: Run, model: str, tables: tuple[object, ...], out: Path) -> str:
    """Train and save a model in a few steps; return what was said on stderr."""
    quick = ("--epochs", 3) if MODELS[model].epochs else ()
    code, _, notes = run(
        "train", *tables, "--model", model, *quick, "--out", out, "--force"
    )
    assert code == 0, notes
    return notes


def predict(
    run: Run, model: Path, tables: tuple[object, ...], out: str = "out.csv"
) -> tuple[list[str], np.ndarray, str]:
    """Predict into a new file; return ids, probabilities and the notes on stderr."""
    out = model.with_name(out)
    code, said, notes = run("predict", model, *tables, "--out", out)
    assert code == 0, notes
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert f"{len(rows)} nodes written" in said
    columns = [f"p_{name}" for name in CLASSES]
    assert list(rows[0]) == ["id", "label", *columns]
    shares = np.array([[float(row[name]) for name in columns] for row in rows])
    assert shares.min() >= 0
    assert shares.sum(axis=1) == pytest.approx(1)
    likeliest = [CLASSES[k] for k in shares.argmax(axis=1)]
    assert [row["label"] for row in rows] == likeliest
    return [row["id"] for row in rows], shares, notes


# One of each kind of input; for all models see tests/models/test_all_models.py.
@pytest.mark.parametrize(
    "model", ["h2gcn-2", "label-propagation", "ring-table", "ica", "linkx"]
)
def test_from_tables_to_predictions(
    run: Run, tables: tuple[object, ...], tmp_path: Path, model: str
) -> None:
    saved = tmp_path / "model"
    train(run, model, tables, saved)
    nodes, _, _ = predict(run, saved, tables)
    assert nodes == named(range(0, 60, 4))
    # Another wood, wired otherwise, in which twenty of the trees stand as well.
    other = write(tmp_path / "other", named(range(40, 100)), steps=(2, 3))
    if model == "linkx":  # its columns are the nodes of the first wood
        result = run("predict", saved, *other, "--out", tmp_path / "other.csv")
        fails(result, "the block 'adjacency', a column for each node", "another graph")
        return
    nodes, shares, _ = predict(run, saved, other, "other.csv")
    assert nodes == named(range(40, 100, 4))
    # Labels that were not found again would leave all classes equally likely.
    assert np.ptp(shares, axis=1).max() > 1e-4


@pytest.mark.parametrize("model", SPREADING)
def test_labels_cannot_be_spread_over_strangers(
    run: Run, tables: tuple[object, ...], tmp_path: Path, model: str
) -> None:
    saved, out = tmp_path / "model", tmp_path / "out.csv"
    train(run, model, tables, saved)
    strangers = write(tmp_path / "other", named(range(60, 90)), steps=(1, 3))
    result = run("predict", saved, *strangers, "--out", out)
    fails(result, model, "spreads the labels of its training nodes")
    assert not out.exists()


@pytest.mark.parametrize("model", ["h2gcn-1", *SPREADING, *ON_TABLES])
def test_tables_without_features_will_do(run: Run, tmp_path: Path, model: str) -> None:
    bare = write(tmp_path / "bare", named(range(60)), steps=(1, 3), features=False)
    saved = tmp_path / "model"
    assert "the input has no node features" in train(run, model, bare, saved)
    nodes, _, notes = predict(run, saved, bare)
    assert nodes == named(range(0, 60, 4))
    assert "the input has no node features" in notes


def test_features_on_one_side_only(
    run: Run, tables: tuple[object, ...], tmp_path: Path
) -> None:
    bare = write(tmp_path / "bare", named(range(60)), steps=(1, 3), features=False)
    saved, out = tmp_path / "model", tmp_path / "out.csv"
    train(run, "h2gcn-1", bare, saved)
    result = run("predict", saved, *tables, "--out", out)
    fails(result, "3 missing ('log1p_degree'", "2 new ('height', 'girth')")
    train(run, "h2gcn-1", tables, saved)
    result = run("predict", saved, *bare, "--out", out)
    fails(result, "2 missing ('height', 'girth')")
    assert not out.exists()
    # Labels are spread by the edges alone, so features may come and go.
    train(run, "label-propagation", tables, saved)
    with_features = predict(run, saved, tables)
    without = predict(run, saved, bare, "bare.csv")
    assert with_features[0] == without[0]
    assert np.array_equal(with_features[1], without[1])


def test_the_blocks_of_a_table_are_an_option(
    run: Run, tables: tuple[object, ...], tmp_path: Path
) -> None:
    saved = tmp_path / "model"
    train(run, "logistic", (*tables, "--option", "table=ego+ring1"), saved)
    loaded = NodeClassifier.load(saved)
    assert loaded.schema_.blocks == ("ego", "ring1")
    assert loaded.seeds_ is None, "no label is in the table, and none is remembered"
    result = run("train", *tables, "--model", "sign", "--option", "table=ego+rings1")
    fails(result, "there is no feature block 'rings1'. Did you mean 'rings' or")


@pytest.mark.parametrize("model", ["logistic", "boosted-trees"])
def test_what_learns_in_one_go_has_no_epochs(
    run: Run, tables: tuple[object, ...], model: str
) -> None:
    for option, value in (("--epochs", 3), ("--class-weight", "balanced")):
        result = run("train", *tables, "--model", model, option, value)
        fails(result, f"the model {model} has no epochs: {option} has no meaning for")
    code, said, _ = run("train", *tables, "--model", model, "--scaling", "none")
    assert code == 0
    assert f"{model} on" in said


def test_the_list_of_models_shows_what_makes_a_preset(run: Run) -> None:
    code, said, _ = run("models")
    assert code == 0
    flat = " ".join(said.split())
    assert (
        "usual options, table ego+loops1+loops2+loops3, early true, and others" in flat
    )
    assert "scikit-learn; table ego+rings+directions+degrees+edges+labels" in flat
