"""PyG's `Data`, as an object and in files of `torch.save`."""

import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from h2gcn import Graph, Split
from h2gcn.exceptions import InputError
from h2gcn.io import (
    from_pyg,
    read_graph,
    read_pt,
    to_pyg,
)

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
    import torch

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
    import torch
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
    import torch

    graph = from_pyg({"x": torch.eye(2), "edge_index": torch.tensor([[0], [1]])})
    assert graph.y.tolist() == [-1, -1]


PYG_MISTAKES = {
    "no x": ({"x": None}, "must have features, 'x'"),
    "no edges": ({"edge_index": None}, "must have an 'edge_index'"),
    "out of range": ({"edge_index": [[0], [3]]}, "'edge_index': .*Got 3 at edge 0"),
    "wrong shape": ({"edge_index": [[0, 1, 2]]}, r"'edge_index' must be \[2, m\]"),
    "two labels a node": ({"y": [[0, 1], [1, 0], [0, 0]]}, "one a node"),
    "fractions": ({"y": [0.5, 1.0, 0.0]}, "fractions"),
    "masks": (
        {"train_mask": [True], "val_mask": [True, False], "test_mask": [True] * 3},
        "masks must be",
    ),
}


@pytest.mark.parametrize("mistake", PYG_MISTAKES)
def test_pyg_mistakes(tmp_path: Path, mistake: str) -> None:
    import torch

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
    with pytest.raises(InputError, match="Got 'int' instead"):
        read_graph(3)
    graph = labelled_graph(0)
    assert read_graph(graph) is graph


def test_pt_files(tmp_path: Path) -> None:
    import torch
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
    import torch

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
    import torch
    from torch_geometric.data import HeteroData

    torch.save(HeteroData(), tmp_path / "hetero.pt")
    with pytest.raises(InputError, match="other than the tensors of a PyG Data"):
        read_pt(tmp_path / "hetero.pt")


def test_broken_pt_files(tmp_path: Path) -> None:
    import torch

    path = tmp_path / "bad.pt"
    torch.save(to_pyg(labelled_graph(0)), path)
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], whole[:-100], b"hello", b"\x80\x02"):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"bad\.pt: .*not a file of torch\.save"):
            read_pt(path)
    torch.save([1, 2], path)
    with pytest.raises(InputError, match="Got 'list' instead"):
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
    import torch

    graph = with_edges(edge_attr=torch.ones(3, dtype=torch.bfloat16))
    assert graph.edge_columns is None
    (note,) = graph.record.notes
    assert note.startswith("'edge_attr' is left out: ")
    assert "BFloat16" in note


def test_without_pyg_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

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
