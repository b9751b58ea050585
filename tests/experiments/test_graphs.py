"""The graphs of the experiments: the same by name, and plain words where not there."""

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest
import requests
from numpy.typing import NDArray

from h2gcn import load_dataset
from h2gcn.datasets import ProductsFeatures
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.experiments import runs
from h2gcn.experiments.runs import (
    MissingData,
    find_checksum,
    has_products,
    open_graph,
)
from h2gcn.graph import fingerprint
from h2gcn.homophily.measures import edge_homophily
from support.webkb import write_tiny_webkb


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty data root."""
    monkeypatch.setenv("H2GCN_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def send(*_: object, **__: object) -> None:
        raise requests.ConnectionError("no network")

    monkeypatch.setattr("requests.Session.send", send)
    monkeypatch.setattr("pooch.core.time.sleep", lambda _: None)


# ------------------------------------------------------------------------ generated


@pytest.mark.usefixtures("root")
def test_syn_products_is_generated_by_name() -> None:
    graph = open_graph("syn-products/h0.20-r2")
    assert graph.name == "syn-products/h0.20-r2"
    assert (graph.n_nodes, graph.n_classes, graph.n_features) == (10000, 10, 100)
    assert 59_640 <= graph.n_edges <= 59_648
    assert edge_homophily(graph) == pytest.approx(0.2, abs=0.01)
    assert [split.sizes for split in graph.splits] == [(2500, 2500, 5000)]
    assert find_checksum("syn-products/h0.20-r2") == fingerprint(graph)[:16]


@pytest.mark.usefixtures("root")
def test_a_smaller_syn_products_has_its_size_in_its_name() -> None:
    graph = open_graph("syn-products-2000/h1.00-r1")
    assert (graph.n_nodes, graph.n_classes) == (2000, 10)
    assert edge_homophily(graph) == 1.0


@pytest.mark.usefixtures("root")
def test_features_of_many_kinds_change_nothing_but_the_features() -> None:
    graph = open_graph("syn-products-kinds-2000/h0.20-r2")
    plain = open_graph("syn-products-2000/h0.20-r2")
    assert graph.name == "syn-products-kinds-2000/h0.20-r2"
    assert (graph.adj != plain.adj).nnz == 0
    np.testing.assert_array_equal(graph.y, plain.y)
    np.testing.assert_array_equal(graph.splits[0].test, plain.splits[0].test)
    assert graph.x.shape == plain.x.shape
    assert not np.array_equal(graph.x, plain.x)
    # Of a class of twenty means, each 9.5 long, little is left on average.
    means = [np.linalg.norm(graph.x[graph.y == c].mean(axis=0)) for c in range(10)]
    assert min(means) > 1
    assert max(means) < 5


@pytest.mark.usefixtures("root")
def test_a_name_stands_for_one_graph_for_ever() -> None:
    # Runs in a store are of these graphs: another one needs another name.
    def wiring(name: str) -> str:
        graph = open_graph(name)
        numbers = np.concatenate([graph.adj.indices, graph.y]).astype("<i8")
        return hashlib.sha256(numbers.tobytes()).hexdigest()[:16]

    assert wiring("syn-products/h0.20-r1") == "56dc92597db58233"
    assert wiring("syn-products/h0.20-r2") == "cf83205c3a741467"
    assert wiring("syn-products/h0.30-r1") == "033145f41be3a163"
    assert wiring("syn-products-kinds/h0.30-r1") == "033145f41be3a163"


@pytest.mark.usefixtures("root")
def test_the_last_graphs_are_remembered() -> None:
    names = [f"syn-products/h1.00-r{r}" for r in range(1, runs.REMEMBERED + 2)]
    first = open_graph(names[0])
    assert open_graph(names[0]) is first
    for name in names[1:]:
        open_graph(name)
    assert open_graph(names[0]) is not first
    assert fingerprint(open_graph(names[0])) == fingerprint(first)


@pytest.mark.data
def test_our_syn_cora_has_rows_of_cora(
    data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("H2GCN_DATA", str(data_root))
    cora, ours = open_graph("cora"), open_graph("syn-cora-own/h0.70-r1")
    assert fingerprint(cora) == fingerprint(load_dataset("cora"))
    assert (ours.n_nodes, ours.n_classes) == (1490, 5)
    assert edge_homophily(ours) == pytest.approx(0.7, abs=0.03)
    assert ours.feature_names == cora.feature_names
    rows = {row.tobytes() for row in cora.x.toarray()}
    assert {row.tobytes() for row in ours.x.toarray()} <= rows
    theirs = open_graph("syn-cora/h0.70-r1")
    assert theirs.n_nodes == ours.n_nodes


# -------------------------------------------------------------------------- missing


@pytest.mark.usefixtures("_offline")
@pytest.mark.parametrize(
    ("name", "folder", "way"),
    [
        ("texas", "texas/raw", r"set \$H2GCN_DATA to a folder that has them"),
        ("cornell-2020", "paper-2020/cornell/raw", "put them there"),
        ("syn-cora/h0.10-r1", "syn-cora/h0.10-r1.npz", "datasets.generate_graph"),
        ("syn-cora-own/h0.10-r1", "Cora/geom-gcn/raw", r"set \$H2GCN_DATA"),
    ],
)
def test_missing_data_are_named_with_their_place_and_the_way_to_them(
    root: Path, name: str, folder: str, way: str
) -> None:
    with pytest.raises(MissingData, match=way) as caught:
        open_graph(name)
    assert name in str(caught.value)
    assert str(root / folder) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["texsa", "syn-cora/h0.15-r1", "syn-products/h1.10-r1", "syn-products"]
)
@pytest.mark.usefixtures("root")
def test_a_wrong_name_is_not_missing_data(name: str) -> None:
    with pytest.raises(InputError, match="there is no dataset") as caught:
        open_graph(name)
    assert not isinstance(caught.value, MissingData)


def test_damaged_data_are_not_missing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("H2GCN_TRUST_DATA", "1")
    folder = root / "texas" / "raw"
    folder.mkdir(parents=True)
    write_tiny_webkb(folder, "texas")
    (folder / "out1_graph_edges.txt").write_text("a\tb\n0\tone\n")
    with (
        pytest.warns(H2GCNWarning, match="not that of the known files"),
        pytest.raises(InputError, match="damaged") as caught,
    ):
        open_graph("texas")
    assert not isinstance(caught.value, MissingData)


# --------------------------------------------------------------------- ogbn-products


def write_products(root: Path, labels: NDArray[np.int64], n_columns: int = 3) -> None:
    """Write files as OGB has them; a row's features are its number and its label."""
    folder = root / "ogbn_products" / "raw"
    folder.mkdir(parents=True)
    rows = np.zeros((len(labels), n_columns))
    rows[:, 0], rows[:, 1], rows[:, 2] = np.arange(len(labels)), labels, 0.5
    for name, table in (("node-feat", rows), ("node-label", labels[:, None])):
        with gzip.open(folder / f"{name}.csv.gz", "wt") as file:
            # Whole numbers are written without a point, as OGB has them at first.
            file.writelines(",".join(f"{v:g}" for v in row) + "\n" for row in table)


def test_rows_of_ogbn_products_go_to_classes_by_size(root: Path) -> None:
    sizes = {7: 30, 2: 20, 0: 10, 5: 9}
    rng = np.random.default_rng(1)
    labels = rng.permutation(np.repeat(list(sizes), list(sizes.values())))
    write_products(root, labels)
    y = rng.permutation(np.repeat([0, 1, 2], [4, 9, 6]))
    x, names = ProductsFeatures(root).draw(y, np.random.default_rng(0))
    assert names is None
    assert x.dtype == np.float32
    assert len(set(x[:, 0])) == len(y), "each row once"
    np.testing.assert_array_equal(labels[x[:, 0].astype(int)], x[:, 1])
    np.testing.assert_array_equal(x[:, 1], np.array([0, 7, 2])[y])
    again, _ = ProductsFeatures(root).draw(y, np.random.default_rng(0))
    np.testing.assert_array_equal(again, x)
    other, _ = ProductsFeatures(root).draw(y, np.random.default_rng(1))
    assert (other != x).any()


def test_the_large_file_is_read_once_for_a_graph(root: Path) -> None:
    write_products(root, np.arange(40) % 2)
    y = np.array([0, 1, 1])
    source = ProductsFeatures(root)
    first, _ = source.draw(y, np.random.default_rng(0))
    (source.folder / "node-feat.csv.gz").write_bytes(b"")
    again, _ = source.draw(y, np.random.default_rng(0))
    np.testing.assert_array_equal(again, first)


def test_syn_products_with_the_features_of_ogb_has_a_name_of_its_own(
    root: Path,
) -> None:
    assert not has_products()
    with pytest.raises(MissingData, match="features of ogbn-products are not there"):
        open_graph("syn-products-ogb/h0.50-r1")
    write_products(root, np.arange(10_500) % 10)
    assert has_products()
    assert open_graph("syn-products/h0.50-r1").n_features == 100
    graph = open_graph("syn-products-ogb/h0.50-r1")
    assert (graph.n_nodes, graph.n_features) == (10000, 3)
    assert len(set(graph.x[:, 0].tolist())) == 10000


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("node-feat", lambda data: data[: len(data) // 2], "the file is damaged"),
        ("node-feat", lambda _: b"not packed", "the file is damaged"),
        ("node-feat", lambda _: gzip.compress(b"1,2,3\n" * 9), "has 9 rows, fewer"),
        ("node-label", lambda _: gzip.compress(b""), "the file is damaged"),
        ("node-label", lambda _: gzip.compress(b"a\nb\n"), "the file is damaged"),
    ],
    ids=["cut off", "not packed", "too few rows", "no labels", "words"],
)
def test_damaged_files_of_ogbn_products_are_named(
    root: Path, name: str, damage: object, message: str
) -> None:
    write_products(root, np.arange(4000) % 2)
    path = root / "ogbn_products" / "raw" / f"{name}.csv.gz"
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    y = np.repeat([0, 1], 1500)
    with pytest.raises(InputError, match=message) as caught:
        ProductsFeatures(root).draw(y, np.random.default_rng(0))
    assert str(path) in str(caught.value)
