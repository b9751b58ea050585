"""Features in a memory-mapped file: they stay there, are checked and scaled."""

from pathlib import Path

import numpy as np
import pytest
import torch

from h2gcn import Graph
from h2gcn.estimator import align_features, choose_scaling
from h2gcn.estimator.inputs import fit_scaler
from h2gcn.exceptions import InputError
from h2gcn.graph import checks, fingerprint
from h2gcn.sparse import MappedFeatures
from support.cases import each


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make blocks of a few rows, so that there are many."""
    monkeypatch.setattr(checks, "NUMBERS", 20)


def mapped(folder: Path, x: np.ndarray) -> np.memmap:
    path = folder / "x.npy"
    np.save(path, x)
    file = np.load(path, mmap_mode="r")
    assert isinstance(file, np.memmap)
    return file


def dense(n: int = 23, columns: int = 4) -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(n, columns)) * 3 + 1
    return x.astype(np.float32)


def ring(n: int) -> np.ndarray:
    adj = np.roll(np.eye(n), 1, axis=1)
    return adj + adj.T


def test_a_mapped_file_stays_one(tmp_path: Path) -> None:
    x = mapped(tmp_path, dense())
    graph = Graph(x=x, adj=ring(23))
    assert graph.x is x
    assert graph.feature_names == ("0", "1", "2", "3")
    assert align_features(graph, graph.feature_names) is x
    in_memory = Graph(x=dense(), adj=ring(23))
    assert fingerprint(graph) == fingerprint(in_memory)


@each("dtype", ["float64", "int32", ">f4"])
def test_other_numbers_are_copied(tmp_path: Path, dtype: str) -> None:
    x = mapped(tmp_path, np.arange(12).reshape(6, 2).astype(dtype))
    graph = Graph(x=x, adj=ring(6))
    assert type(graph.x) is np.ndarray
    assert graph.x.dtype == np.float32
    assert graph.x.tolist() == np.arange(12).reshape(6, 2).tolist()


@each("row", [0, 7, 22])
def test_what_is_not_finite_is_found_in_any_block(tmp_path: Path, row: int) -> None:
    x = dense()
    x[row, 2] = np.inf
    for given in (x, mapped(tmp_path, x)):
        with pytest.raises(InputError, match=f"got inf in row {row}, column 2"):
            Graph(x=given, adj=ring(23))


@each("kind", ["auto", "rows", "standard", "none"])
@each("counts", [False, True])
def test_a_file_is_scaled_as_an_array(tmp_path: Path, kind: str, counts: bool) -> None:
    x = dense()
    if counts:
        x = np.random.default_rng(1).poisson(0.3, size=(23, 4)).astype(np.float32)
    train = np.array([20, 3, 4, 11, 0, 1, 2, 7, 8, 9, 10])
    file = mapped(tmp_path, x)
    one, other = (fit_scaler(kind, given, train) for given in (x, file))
    assert one.kind == other.kind
    if kind == "auto":
        assert one.kind == ("rows" if counts else "standard")
    if one.mean is not None:
        np.testing.assert_array_equal(other.mean, one.mean)
        np.testing.assert_array_equal(other.deviation, one.deviation)
        rows = x[train].astype(np.float64)
        np.testing.assert_allclose(one.mean, rows.mean(axis=0), rtol=1e-6)
        np.testing.assert_allclose(one.deviation, rows.std(axis=0), rtol=1e-6)
    features = MappedFeatures(file, other)
    expected = one(x)
    torch.testing.assert_close(
        torch.cat([block for _, block in features.blocks()]), torch.from_numpy(expected)
    )
    index = np.array([22, 5, 5, 0])
    # Rows among other rows: their sums may be taken another way.
    np.testing.assert_allclose(features.rows(index), expected[index], rtol=1e-6)


@each("where", [0, 22])
def test_auto_sees_a_negative_number_in_any_block(where: int) -> None:
    x = np.zeros((23, 4), dtype=np.float32)
    x[:, 0] = x[:, 1] = 1
    assert choose_scaling(x) == "rows"
    x[where, 3] = -1
    assert choose_scaling(x) == "standard"
