"""PyG's `Data`, as an object and in files of `torch.save`."""

import os
import pickle
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from h2gcn import Graph, Split
from h2gcn.exceptions import InputError
from h2gcn.io import (
    from_pyg,
    read_graph,
    read_pt,
    to_pyg,
)

PARTS = ("train", "val", "test")

# PyG compiles a few functions with torch.jit when it is imported, which torch has
# deprecated; it is theirs to change. So it is imported inside the tests.
pytestmark = pytest.mark.filterwarnings(
    "ignore:`torch.jit.script` is deprecated:DeprecationWarning"
)


def labelled_graph(n_splits: int) -> Graph:
    splits = (
        Split(train=[0], val=[1], test=[2]),
        Split(train=[2], val=[0], test=[1]),
    )
    return Graph(
        x=[[1, 2], [3, 4], [5, 6]],
        adj=np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]),
        y=[1, -1, 0],
        splits=splits[:n_splits],
    )


@pytest.mark.parametrize("n_splits", [0, 1, 2])
def test_pyg_round_trip(n_splits: int) -> None:
    graph = labelled_graph(n_splits)
    data = graph.to_pyg()
    assert data.x.dtype == torch.float32
    assert data.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert data.y.tolist() == [1, -1, 0]
    assert ("train_mask" in data) == (n_splits > 0)
    if n_splits:
        shape = (3,) if n_splits == 1 else (3, 2)
        assert tuple(data.val_mask.shape) == shape
    data.validate()
    back = read_graph(data)
    assert np.array_equal(back.x, graph.x)
    assert (back.adj != graph.adj).nnz == 0
    assert np.array_equal(back.y, graph.y)
    assert [s.sizes for s in back.splits] == [s.sizes for s in graph.splits]
    assert [s.train.tolist() for s in back.splits] == [
        s.train.tolist() for s in graph.splits
    ]


def test_pyg_sparse_features_float_labels_and_one_test_mask() -> None:
    from torch_geometric.data import Data

    data = Data(
        x=torch.eye(40).to_sparse(),
        edge_index=torch.tensor([[0, 0, 3], [1, 1, 3]]),
        y=torch.full((40, 1), float("nan")),
        train_mask=torch.eye(40, dtype=torch.bool)[:, :2],
        val_mask=torch.eye(40, dtype=torch.bool)[:, 2:4],
        test_mask=torch.ones(40, dtype=torch.uint8),
    )
    data.y[:2] = torch.tensor([[1.0], [0.0]])
    graph = from_pyg(data, name="sparse")
    assert sp.issparse(graph.x)
    assert np.array_equal(graph.x.toarray(), np.eye(40))
    assert graph.y[:3].tolist() == [1, 0, -1]
    assert [split.sizes for split in graph.splits] == [(1, 1, 40)] * 2
    assert graph.record.duplicates_merged == 1
    assert graph.record.loops_dropped == 1
    assert graph.directed is not None
    assert to_pyg(graph).x.shape == (40, 40)
    data.x = torch.eye(40).to_sparse_csr()
    assert sp.issparse(from_pyg(data).x)


def test_pyg_without_labels() -> None:
    graph = from_pyg({"x": torch.eye(2), "edge_index": torch.tensor([[0], [1]])})
    assert graph.y.tolist() == [-1, -1]


PYG_MISTAKES = {
    "no x": ({"x": None}, "must have features, 'x'"),
    "no edges": ({"edge_index": None}, "must have an 'edge_index'"),
    "out of range": (
        {"edge_index": [[0], [3]]},
        "'edge_index': targets must .*got 3 at edge 0",
    ),
    "wrong shape": (
        {"edge_index": [[0, 1, 2]]},
        r"edge_index must be \[2, m\], got shape \(1, 3\)",
    ),
    "two labels a node": ({"y": [[0, 1], [1, 0], [0, 0]]}, "one a node"),
    "fractions": ({"y": [0.5, 1.0, 0.0]}, "fractions"),
    "masks": (
        {"train_mask": [True], "val_mask": [True, False], "test_mask": [True] * 3},
        "masks must be",
    ),
}


@pytest.mark.parametrize("mistake", PYG_MISTAKES)
def test_pyg_mistakes(tmp_path: Path, mistake: str) -> None:
    change, message = PYG_MISTAKES[mistake]
    data = to_pyg(labelled_graph(0))
    for key, value in change.items():
        data[key] = None if value is None else torch.tensor(value)
    with pytest.raises(InputError, match=message):
        from_pyg(data)
    torch.save(data, tmp_path / "bad.pt")
    with pytest.raises(InputError, match=rf"bad\.pt: .*{message}"):
        read_pt(tmp_path / "bad.pt")


def test_other_objects_are_refused() -> None:
    with pytest.raises(InputError, match=r"got int$"):
        read_graph(3)
    graph = labelled_graph(0)
    assert read_graph(graph) is graph


def test_pt_files(tmp_path: Path) -> None:
    from torch.serialization import get_safe_globals

    graph = labelled_graph(2)
    data = graph.to_pyg()
    before = set(get_safe_globals())
    contents = {
        "data": data,
        "dict": data.to_dict(),
        "processed": (data.to_dict(), None, type(data)),
    }
    for name, content in contents.items():
        torch.save(content, tmp_path / f"{name}.pt")
        back = read_graph(tmp_path / f"{name}.pt")
        assert back.name == name
        assert np.array_equal(back.x, graph.x)
        assert len(back.splits) == 2
    assert set(get_safe_globals()) == before


class Payload:
    """Unpickled, it would make a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("legacy", [False, True])
def test_pt_pickles_are_not_run(tmp_path: Path, legacy: bool) -> None:
    data = to_pyg(labelled_graph(0))
    data.extra = Payload(tmp_path / "ran")
    path = tmp_path / "trap.pt"
    torch.save(data, path, _use_new_zipfile_serialization=not legacy)
    with pytest.raises(InputError, match="other than the tensors of a PyG") as caught:
        read_pt(path)
    assert "mkdir" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "ran").exists()


def test_pt_refuses_classes_that_pyg_allows_everywhere(tmp_path: Path) -> None:
    from torch_geometric.data import HeteroData

    torch.save(HeteroData(), tmp_path / "hetero.pt")
    with pytest.raises(InputError, match="other than the tensors of a PyG Data"):
        read_pt(tmp_path / "hetero.pt")


def test_broken_pt_files(tmp_path: Path) -> None:
    path = tmp_path / "bad.pt"
    torch.save(to_pyg(labelled_graph(0)), path)
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], whole[:-100], b"hello", b"\x80\x02"):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"bad\.pt: .*not a file of torch\.save"):
            read_pt(path)
    torch.save([1, 2], path)
    with pytest.raises(InputError, match=r"got list$"):
        read_pt(path)


def test_half_a_split_is_not_dropped_in_silence() -> None:
    mask = np.array([True, False])
    data = {
        "x": np.eye(2),
        "edge_index": np.array([[0], [1]]),
        "train_mask": mask,
        "test_mask": ~mask,
    }
    with pytest.raises(InputError, match=r"val_mask is missing\. Take the validation"):
        from_pyg(data)


def with_edges(**carried: Any) -> Graph:
    """Return a graph of three edges, one of them a loop, that carry something."""
    ends = np.array([[0, 0, 1], [1, 0, 0]])
    return from_pyg({"x": np.eye(2), "edge_index": ends} | carried)


def test_what_edges_carry_is_kept() -> None:
    graph = with_edges(
        edge_attr=np.array([[1, 2], [3, 4], [5, 6]]), edge_weight=np.array([7, 8, 9.5])
    )
    found = graph.edge_columns
    assert found is not None
    assert (found.source.tolist(), found.target.tolist()) == ([0, 1], [1, 0])
    assert found.names == ("0", "1", "edge_weight")
    assert found.values.tolist() == [[1, 2, 7], [5, 6, 9.5]]
    assert found.categories == ()
    assert found.directed
    assert graph.record.notes == (
        "edge columns '0', '1', 'edge_weight' are kept for models that use what edges "
        "carry",
    )
    one = with_edges(edge_attr=np.array([True, False, False])).edge_columns
    assert one is not None
    assert (one.names, one.values.tolist()) == (("0",), [[1], [0]])
    assert with_edges().edge_columns is None


def test_a_graph_without_edges_may_have_edge_attributes() -> None:
    ends = np.empty((2, 0), dtype=int)
    data = {"x": np.eye(2), "edge_index": ends, "edge_attr": np.empty((0, 3))}
    found = from_pyg(data).edge_columns
    assert found is not None
    assert found.values.shape == (0, 3)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (np.ones((2, 1)), r"its shape is \(2, 1\), and there are 3 edges"),
        (np.ones((3, 1, 1)), r"its shape is \(3, 1, 1\), and there are 3 edges"),
        (np.array(["a", "b", "c"]), "it holds <U1, not numbers"),
        (np.array([1, np.nan, 2]), "it holds numbers that are not finite, in 32 bits"),
        (np.array([1, 1e300, 2]), "it holds numbers that are not finite, in 32 bits"),
    ],
)
def test_edge_attributes_that_cannot_be_used(given: Any, why: str) -> None:
    graph = with_edges(edge_attr=given)
    assert graph.edge_columns is None
    (note,) = graph.record.notes
    assert re.fullmatch(f"'edge_attr' is left out: {why}", note)


def test_tensors_that_numpy_does_not_have_are_left_out() -> None:
    graph = with_edges(edge_attr=torch.ones(3, dtype=torch.bfloat16))
    assert graph.edge_columns is None
    (note,) = graph.record.notes
    assert note.startswith("'edge_attr' is left out: ")
    assert "BFloat16" in note


def test_without_pyg_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = labelled_graph(1)
    data = graph.to_pyg()
    torch.save(data, tmp_path / "data.pt")
    torch.save(data.to_dict(), tmp_path / "dict.pt")
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    with pytest.raises(InputError) as caught:
        to_pyg(graph)
    assert str(caught.value) == (
        "to make a PyG Data, PyG is needed: pip install 'h2gcn[pyg]'"
    )
    with pytest.raises(InputError) as caught:
        read_pt(tmp_path / "data.pt")
    assert str(caught.value) == (
        f"{tmp_path / 'data.pt'}: to read a PyG Data, PyG is needed: "
        "pip install 'h2gcn[pyg]'"
    )
    # What holds nothing of PyG's needs no PyG, and is refused as ever.
    assert read_pt(tmp_path / "dict.pt").n_edges == graph.n_edges
    torch.save({"x": Path("x")}, tmp_path / "other.pt")
    with pytest.raises(InputError, match="other than the tensors of a PyG Data"):
        read_pt(tmp_path / "other.pt")


def test_a_broken_pyg_speaks_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: str) -> None:
        raise ModuleNotFoundError("No module named 'aiohttp'", name="aiohttp")

    monkeypatch.setattr("h2gcn._validation.import_module", broken)
    with pytest.raises(ModuleNotFoundError, match="aiohttp"):
        to_pyg(labelled_graph(0))


def saved(folder: Path, **changes: Any) -> Path:
    """Write a graph of three nodes, with some of its tensors replaced."""
    tensors = {
        "x": torch.eye(3),
        "edge_index": torch.tensor([[0, 1], [1, 2]]),
        "y": torch.tensor([0, 1, 1]),
    }
    torch.save(tensors | changes, folder / "g.pt")
    return folder / "g.pt"


def wide(n_columns: int) -> Any:
    with torch.sparse.check_sparse_tensor_invariants():
        ends = torch.tensor([[0], [5]])
        return torch.sparse_coo_tensor(ends, torch.ones(1), (3, n_columns))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"x": wide(10**11)},
            "features of 3 nodes in 100,000,000,000 columns would take about 110,000.0 "
            "GB of memory, and",
        ),
        (
            {"x": torch.ones(1, 1).expand(3, 10**9)},
            "'x' has shape (3, 1000000000) and would take 12.0 GB of memory, but the "
            "file has 4 bytes of it.",
        ),
        (
            {"edge_index": torch.zeros(2, 1, dtype=torch.long).expand(2, 10**10)},
            "'edge_index' has shape (2, 10000000000) and would take 160.0 GB",
        ),
        (
            {"y": torch.zeros(1, dtype=torch.long).expand(10**7)},
            "y must have 3 entries, got 10000000",
        ),
        (
            {f"{p}_mask": torch.ones(3, 1).expand(3, 10**7) for p in PARTS},
            "a graph has at most 10,000 splits, got 10,000,000",
        ),
    ],
)
def test_small_files_of_large_tensors(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = saved(tmp_path, **change)
    assert path.stat().st_size < 10_000
    with pytest.raises(InputError) as refused:
        read_pt(path)
    assert str(refused.value).startswith(f"{path}: {message}")


def test_what_is_repeated_a_little_is_read(tmp_path: Path) -> None:
    path = saved(tmp_path, x=torch.ones(1, 2).expand(3, 2))
    assert read_pt(path).x.tolist() == [[1, 1]] * 3


def test_edge_attributes_that_would_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path, edge_attr=torch.ones(2, 1).expand(2, 10**6))
    monkeypatch.setattr("h2gcn.io.pyg.available_memory", lambda: 10**6)
    note = "'edge_attr' is left out: its shape is (2, 1000000), which takes 16.0 MB"
    assert note in read_pt(path).record.notes


def repacked(path: Path, change: Any, **given: Any) -> None:
    """Write an archive again, its members changed by a function of name and bytes."""
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(path, "w", **given) as archive:
        for name, content in members.items():
            archive.writestr(name, change(name, content))


def test_a_compressed_archive_is_not_loaded(tmp_path: Path) -> None:
    path = saved(tmp_path)
    repacked(path, lambda _, content: content, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(
        InputError, match=r"is compressed, and torch\.save compresses no"
    ):
        read_pt(path)


def test_a_tensor_that_reaches_beyond_its_file(tmp_path: Path) -> None:
    path = tmp_path / "g.pt"
    torch.save({"x": torch.arange(4.0)}, path)

    def longer(name: str, content: bytes) -> bytes:
        if not name.endswith("data.pkl"):
            return content
        many = b"J" + (2**28).to_bytes(4, "little")
        changed = content.replace(b"K\x04Q", many + b"Q")
        changed = changed.replace(b"K\x04\x85", many + b"\x85")
        assert changed != content
        return changed

    repacked(path, longer)
    with pytest.raises(InputError, match=r"not a file of torch\.save, or it is cut"):
        read_pt(path)


def test_sparse_indices_that_lead_outside(tmp_path: Path) -> None:
    matrix = wide(9)
    matrix._indices()[1] = 10**6
    with pytest.raises(InputError, match=r"not a file of torch\.save|not a sound"):
        read_pt(saved(tmp_path, x=matrix))


def test_a_pickle_that_makes_bytes_of_any_length(tmp_path: Path) -> None:
    path = saved(tmp_path)

    def longer(name: str, content: bytes) -> bytes:
        is_pickle = name.endswith("data.pkl")
        return pickle.dumps(bytearray(8), 2) if is_pickle else content

    repacked(path, longer)
    with pytest.raises(InputError, match=r"\(bytearray\); it was not loaded"):
        read_pt(path)


def test_an_archive_with_a_name_that_is_no_text(tmp_path: Path) -> None:
    path = saved(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"data.pkl", b"\xff\xfeta.pkl"))
    with pytest.raises(InputError, match=r"not a file of torch\.save"):
        read_pt(path)
