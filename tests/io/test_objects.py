"""Graphs of other libraries: networkx, scipy, PyG; GraphML, edge lists, `.pt`."""

import os
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from h2gcn import Graph, Split
from h2gcn.exceptions import InputError
from h2gcn.io import (
    from_networkx,
    from_pyg,
    from_scipy,
    read_edge_list,
    read_graph,
    read_graphml,
    read_pt,
    to_pyg,
)

# PyG compiles a few functions with torch.jit when it is imported, which torch has
# deprecated; it is theirs to change. So it is imported inside the tests.
pytestmark = pytest.mark.filterwarnings(
    "ignore:`torch.jit.script` is deprecated:DeprecationWarning"
)


def pets() -> nx.Graph:
    graph = nx.Graph(name="pets")
    graph.add_node("b", label="cat", age=2, vec=[1.0, 0.0], town="Rome")
    graph.add_node("a", age=1.5, vec=[0.0, 2.0], town="Oslo")
    graph.add_node("c", label="dog", age=True, vec=[0.5, 1.0], town="Rome")
    graph.add_edges_from([("a", "b"), ("c", "c")])
    return graph


def test_networkx_attributes_are_features_and_labels() -> None:
    graph = from_networkx(pets())
    assert graph.name == "pets"
    assert graph.node_ids.tolist() == ["b", "a", "c"]
    assert graph.feature_names == ("age", "vec[0]", "vec[1]")
    assert graph.x.tolist() == [[2, 1, 0], [1.5, 0, 2], [1, 0.5, 1]]
    assert graph.classes.tolist() == ["cat", "dog"]
    assert graph.y.tolist() == [0, -1, 1]
    assert graph.adj.toarray().tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert graph.directed is None
    assert graph.record.loops_dropped == 1
    assert graph.record.notes == (
        "node attribute 'town' is not a number and is not used",
    )


def test_networkx_directed_multigraph_with_integer_nodes() -> None:
    source = nx.MultiDiGraph([(5, 3), (5, 3), (3, 5), (3, 4)])
    nx.set_node_attributes(source, 1.0, "f")
    nx.set_node_attributes(source, {5: 10, 3: 9, 4: 10}, "kind")
    graph = from_networkx(source, label="kind", features=["f"])
    assert graph.node_ids.tolist() == [5, 3, 4]
    assert graph.classes.tolist() == [9, 10]
    assert graph.y.tolist() == [1, 0, 1]
    assert graph.record.duplicates_merged == 1
    assert graph.record.symmetrised == 1
    assert graph.directed is not None
    assert graph.directed.nnz == 3


def test_networkx_attributes_with_commas_between_them() -> None:
    source = nx.Graph()
    source.add_node("a", **{"f": 1, "g": 2, "h,i": 3, "j": 4})
    graph = from_networkx(source, features=["g,f", "h,i"])
    assert graph.feature_names == ("g", "f", "h,i")
    assert graph.x.tolist() == [[2, 1, 3]]


def test_networkx_without_attributes_has_structural_features() -> None:
    graph = read_graph(nx.star_graph(3))
    assert graph.feature_names == ("log1p_degree", "log1p_neighbour_degree", "one")
    expected = [[np.log(4), np.log(2), 1]] + [[np.log(2), np.log(4), 1]] * 3
    np.testing.assert_allclose(graph.x, expected, rtol=1e-6)
    assert "no node features" in graph.record.notes[0]


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"age": None}, {}, r"'age' must be there at each node.*Node 'a' has None"),
        ({"age": float("nan")}, {}, r"'age' must be finite. Node 'a' has nan"),
        ({"vec": [1.0]}, {}, r"'vec' must be there at each node, of one length"),
        ({}, {"features": ["town"]}, r"'town' must be numbers. Got 'Rome'"),
        ({}, {"features": ["agee"]}, r"attribute 'agee'. Did you mean 'age'\?"),
        ({}, {"label": "species"}, "No node has an attribute 'species'"),
    ],
)
def test_networkx_mistakes(change: dict, options: dict, message: str) -> None:
    source = pets()
    source.nodes["a"].update(change)
    with pytest.raises(InputError, match=message):
        from_networkx(source, **options)


def test_networkx_nodes_that_are_the_same_text() -> None:
    with pytest.raises(InputError, match="same name"):
        from_networkx(nx.Graph([(1, "1")]))
    with pytest.raises(InputError, match="no nodes"):
        from_networkx(nx.Graph())


def test_graphml_round_trip(tmp_path: Path) -> None:
    source = pets()
    for _, row in source.nodes(data=True):
        del row["vec"]
        row["age"] = float(row["age"])
    nx.write_graphml(source, tmp_path / "zoo.graphml")
    graph = read_graph(tmp_path / "zoo.graphml")
    assert graph.name == "zoo"
    assert graph.node_ids.tolist() == ["b", "a", "c"]
    assert graph.x.tolist() == [[2], [1.5], [1]]
    assert graph.y.tolist() == [0, -1, 1]
    assert graph.n_edges == 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_graphml_with_a_doctype_is_refused(tmp_path: Path, encoding: str) -> None:
    text = (
        f'<?xml version="1.0" encoding="{encoding}"?>\n'
        '<!DOCTYPE g [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>\n'
        '<graphml><graph edgedefault="undirected"><node id="&b;"/></graph></graphml>'
    )
    path = tmp_path / "bomb.graphml"
    path.write_bytes(text.encode(encoding))
    with pytest.raises(InputError, match=r"bomb\.graphml: .*DOCTYPE"):
        read_graphml(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<graphml><graph>", "not well-formed XML"),
        ("hello", "not well-formed XML"),
        ("<svg/>", "this is not GraphML"),
        (
            '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
            '<graph edgedefault="undirected"/></graphml>',
            "no nodes",
        ),
    ],
)
def test_broken_graphml(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.graphml"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_graphml(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    "text",
    [
        "# a comment\nx 007 1\n007   y 3.5\n\n",
        "x\t007\t1\n007\ty\t1\n",
        "source,target\nx, 007\n007,y\n",
        "x 007 {}\n007 y {'weight': 3}\n",
        "% first\r\n  x 007  \r\n007 y\r\n",
    ],
    ids=["blanks", "tabs", "commas", "networkx", "windows"],
)
def test_edge_lists(tmp_path: Path, text: str) -> None:
    path = tmp_path / "web.edgelist"
    path.write_bytes(text.encode())
    graph = read_graph(path)
    assert graph.name == "web"
    assert graph.node_ids.tolist() == ["x", "007", "y"]
    assert graph.adj.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert graph.record.symmetrised == 2
    assert graph.x.shape == (3, 3)
    assert "no node features" in graph.record.notes[0]


def test_edge_list_with_labels(tmp_path: Path) -> None:
    (tmp_path / "e.txt").write_text("1 2\n2 1\n")
    (tmp_path / "l.csv").write_text("id,label\n2,red\n9,blue\n1,\n")
    graph = read_edge_list(
        tmp_path / "e.txt", labels=tmp_path / "l.csv", undirected=True
    )
    assert graph.node_ids.tolist() == ["1", "2", "9"]
    assert graph.classes.tolist() == ["blue", "red"]
    assert graph.y.tolist() == [-1, 1, 0]
    assert graph.degrees.tolist() == [1, 1, 0]
    assert graph.record.duplicates_merged == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"# nothing\n", "has no edges"),
        (b"a\nb\n", "must hold source and target. Got 'a'"),
        (b"a b\n# c\na b c\n", "line 3 has 3 columns, those before have 2"),
        (b"a b\n\xff c\n", r"not UTF-8 \(byte 4, line 2\)"),
    ],
)
def test_broken_edge_lists(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"bad\.txt: .*{message}"):
        read_edge_list(path)


def test_scipy_matrix_of_any_kind() -> None:
    weighted = sp.lil_matrix((3, 3))
    weighted[0, 0], weighted[0, 1], weighted[2, 1] = 2.0, -0.5, 3.0
    graph = from_scipy(weighted, np.eye(3), ["b", None, "a"], name="any")
    assert graph.adj.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert graph.directed is not None
    assert graph.y.tolist() == [1, -1, 0]
    assert graph.classes.tolist() == ["a", "b"]
    assert graph.record.loops_dropped == 1
    assert graph.record.notes == ("edge weights are not used",)
    assert graph.name == "any"


def test_scipy_symmetric_matrix_has_no_directions() -> None:
    graph = from_scipy(np.ones((2, 2)), np.eye(2), [0, 1])
    assert graph.directed is None
    assert graph.n_edges == 1
    triangle = from_scipy(np.triu(np.ones((3, 3))), np.eye(3), directed=False)
    assert triangle.directed is None
    assert triangle.n_edges == 3


@pytest.mark.parametrize(
    ("adj", "message"),
    [
        (np.ones((2, 3)), "must be square"),
        ([[0, np.nan], [0, 0]], "NaN"),
        ([["a", "b"], ["c", "d"]], "numbers"),
    ],
)
def test_scipy_mistakes(adj: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_scipy(adj, np.eye(2))


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


def test_edge_attributes_are_not_used_aloud() -> None:
    data = {
        "x": np.eye(2),
        "edge_index": np.array([[0], [1]]),
        "edge_attr": np.ones(1),
    }
    note = "edge weights and attributes are not used"
    assert note in from_pyg(data).record.notes
    graph = nx.Graph()
    graph.add_edge("a", "b", weight=2)
    assert note in from_networkx(graph).record.notes


def test_a_label_that_is_not_required_may_be_absent() -> None:
    graph = nx.path_graph(3)
    with pytest.raises(InputError, match="No node has an attribute 'species'"):
        from_networkx(graph, label="species")
    read = from_networkx(graph, label="species", label_required=False)
    assert read.labelled.size == 0
