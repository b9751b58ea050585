"""The files of later benchmarks: exact graphs, PyG's, and one line for damage."""

import io
import os
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from h2gcn import Graph
from h2gcn.datasets import DATASETS, load_dataset
from h2gcn.datasets.formats import read_split_list
from h2gcn.datasets.later_formats import (
    BLOCK,
    _check_tags,
    _edges,
    _table,
    csv_blocks,
    quantile_classes,
)
from h2gcn.exceptions import InputError
from support.serving import serving
from support.tiny_benchmarks import TINY, mat, packed, split_list, write_files

pytestmark = pytest.mark.filterwarnings("ignore:.*they are read all the same")


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("code", [0, 8, 10, 19, 99])
def test_a_type_that_there_is_not_is_told(code: int, compressed: bool) -> None:
    """It would have scipy follow an address that is none, and end the program."""
    whole = io.BytesIO()
    scipy.io.savemat(whole, {"A": np.eye(3)}, do_compression=False)
    sound = whole.getvalue()
    _check_tags(io.BytesIO(sound))
    tag = sound.rindex(b"\x09\0\0\0\x48\0\0\0")  # of the numbers: doubles, 72 bytes
    damaged = sound[:tag] + bytes([code]) + sound[tag + 1 :]
    if compressed:
        packed = zlib.compress(damaged[128:])
        damaged = damaged[:128] + struct.pack("<II", 15, len(packed)) + packed
    with pytest.raises(InputError, match=f"it has no type {code}"):
        _check_tags(io.BytesIO(damaged))


def load(root: Path, name: str, **changed: bytes | str) -> Graph:
    """Return the graph of a tiny benchmark, some of its files changed."""
    write_files(root, TINY[name])
    for file, content in changed.items():
        (path,) = root.rglob(file.replace("__", "-"))
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return load_dataset(name, root=root, trust_data=True)


def pairs(matrix: Any) -> list[tuple[int, int]]:
    """Return where a matrix has entries."""
    return list(zip(*(end.tolist() for end in matrix.nonzero()), strict=True))


def dense(graph: Graph) -> list[list[float]]:
    """Return the features as lists."""
    x = graph.x if isinstance(graph.x, np.ndarray) else graph.x.toarray()
    return x.tolist()  # type: ignore[no-any-return]


def parts(graph: Graph) -> list[tuple[list[int], list[int], list[int]]]:
    """Return the splits as lists."""
    return [
        (split.train.tolist(), split.val.tolist(), split.test.tolist())
        for split in graph.splits
    ]


# -------------------------------------------------------------------------- the graphs


def test_a_filtered_graph_keeps_its_directions(tmp_path: Path) -> None:
    graph = load(tmp_path, "squirrel-filtered-directed")
    assert graph.directed is not None
    assert pairs(graph.directed) == [(0, 1), (1, 2), (4, 5)]
    assert graph.n_edges == 3
    assert graph.record.symmetrised == 3
    assert parts(graph) == [([0], [1], [2])]


def test_words_are_there_or_not_and_ten_splits_are_drawn(tmp_path: Path) -> None:
    parts = {}
    for name, matrix in (("adj", np.eye(10, k=1)), ("attr", np.eye(10, 3) * 7)):
        found = sp.csr_array(matrix)
        for part in ("data", "indices", "indptr", "shape"):
            parts[f"{name}_{part}"] = getattr(found, part)
    (folder := tmp_path / "CS" / "raw").mkdir(parents=True)
    names = np.array(["a"] * 10, dtype=object)  # a pickle that nobody asks for
    file = folder / "ms_academic_cs.npz"
    np.savez(file, labels=np.arange(10) % 2, node_names=names, **parts)
    graph = load_dataset("coauthor-cs", root=tmp_path, trust_data=True)
    assert dense(graph) == np.eye(10, 3).tolist()
    assert [split.sizes for split in graph.splits] == [(6, 2, 2)] * 10
    assert len({tuple(split.train) for split in graph.splits}) > 1
    told = "no split inside; 10 of 60/20/20 are drawn, class by class"
    assert graph.record.notes[0] == told


def test_a_university_of_facebook(tmp_path: Path) -> None:
    graph = load(tmp_path, "penn94")
    assert graph.y.tolist() == [0, 1, 1, -1]
    assert graph.n_edges == 4
    assert graph.directed is None
    assert graph.feature_names[:5] == (
        *("status=1", "status=2"),
        *("major=0", "major=20", "major=30"),
    )
    assert graph.feature_names[-2:] == ("school=8", "school=9")
    assert graph.n_features == 14
    first = [1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 0]
    assert dense(graph)[0] == first
    assert parts(graph) == [([0, 3], [1], [2]), ([1], [2, 3], [0])]


def test_a_university_without_splits_has_five_of_ours(tmp_path: Path) -> None:
    graph = load(tmp_path, "reed98")
    assert len(graph.splits) == 5
    told = "no split inside; 5 of 50/25/25 are drawn, class by class"
    assert graph.record.notes == (told,)


def test_genius_is_directed_and_has_unlabelled_nodes(tmp_path: Path) -> None:
    graph = load(tmp_path, "genius")
    assert graph.y.tolist() == [0, 1, 1, -1]
    assert graph.directed is not None
    assert pairs(graph.directed) == [(0, 1), (1, 2), (2, 3)]
    assert (graph.record.duplicates_merged, graph.record.loops_dropped) == (1, 1)
    assert dense(graph) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert len(graph.splits) == 2


def test_patents_are_classes_of_years(tmp_path: Path) -> None:
    graph = load(tmp_path, "snap-patents")
    assert graph.y.tolist() == [3, 1, 4, 0]
    assert dense(graph) == np.eye(4, 3).tolist()
    assert graph.directed is not None
    assert pairs(graph.directed) == [(0, 1), (1, 0), (2, 3)]


def test_twitch_gamers_are_read_by_their_ids(tmp_path: Path) -> None:
    graph = load(tmp_path, "twitch-gamers")
    assert graph.feature_names == (
        *("views", "life_time", "created_at", "updated_at", "dead_account"),
        *("language", "affiliate"),
    )
    assert dense(graph) == [
        [7879, 969, 160216, 181012, 0, 0, 1],
        [500, 2699, 110519, 181008, 0, 1, 0],
        [386, 1344, 150126, 181001, 0, 2, 0],  # its line is the last
        [382502, 3149, 100227, 181012, 1, 0, 1],
    ]
    assert graph.y.tolist() == [1, 0, 0, 1]
    assert graph.directed is None
    assert pairs(graph.adj) == [(0, 1), (1, 0), (2, 3), (3, 2)]


def test_ogb_has_one_split_and_directions(tmp_path: Path) -> None:
    graph = load(tmp_path, "ogbn-arxiv")
    assert dense(graph) == [[0.5, 1], [2, 3], [4, 5], [6, 7]]
    assert graph.y.tolist() == [0, 1, 0, 2]
    assert parts(graph) == [([0, 3], [1], [2])]
    assert graph.directed is not None
    assert pairs(graph.directed) == [(0, 1), (0, 2), (3, 2)]
    assert graph.record.loops_dropped == 1


def test_products_have_no_directions(tmp_path: Path) -> None:
    graph = load(tmp_path, "ogbn-products")
    assert graph.directed is None
    assert graph.record.symmetrised == 0
    assert graph.n_edges == 3


def test_arxiv_year_is_arxiv_with_other_labels_and_splits(tmp_path: Path) -> None:
    graph = load(tmp_path, "arxiv-year")
    assert graph.y.tolist() == [1, 4, 3, 1]
    assert parts(graph) == [([0, 3], [1], [2]), ([1], [2, 3], [0])]
    assert graph.directed is not None
    of_arxiv = DATASETS["ogbn-arxiv"].files.items()
    assert of_arxiv <= DATASETS["arxiv-year"].files.items(), "one archive for both"


def test_a_folder_of_graphland(tmp_path: Path) -> None:
    graph = load(tmp_path, "tolokers-2")
    # Numbers, shares of them, then categories: two values are one column.
    names = ("age", "rate", "sex=1", "country=0", "country=2", "country=7")
    assert graph.feature_names == names
    assert dense(graph) == [
        [30, 0.5, 0, 0, 1, 0],
        [30, 0.25, 1, 1, 0, 0],  # its age is missing, and 30 is the most frequent
        [41, 0.25, 1, 0, 0, 1],
        [30, 0.25, 0, 1, 0, 0],
    ]
    assert graph.y.tolist() == [1, 0, -1, 0]
    assert graph.classes.tolist() == [0, 1]
    assert graph.directed is None
    assert graph.record.duplicates_merged == 1
    # RL, RH and TH, without the node that has no label.
    assert parts(graph) == [([0], [1], [3]), ([0, 3], [1], []), ([0], [1, 3], [])]


def test_graphland_with_many_categories_is_sparse(tmp_path: Path) -> None:
    rows = "".join(f"{i},{i},0.5\n" for i in range(200))
    files = {
        "info.yaml": "target_name: 'y'\nnumerical_features_names: [a]\n"
        'fraction_features_names: []\ncategorical_features_names:\n  - "kind"\n',
        "features.csv": "id,kind,a\n" + rows,
        "targets.csv": "id,y\n" + "".join(f"{i},{5 + i % 3}\n" for i in range(200)),
        "edgelist.csv": "u,v,w\n0,1,7\n5,199,7\n",
        **{
            f"split_masks_{split}.csv": ",train,val,test\n"
            + "".join(f"{i},True,False,False\n" for i in range(200))
            for split in ("RL", "RH", "TH")
        },
    }
    folder = tmp_path / "web-topics" / "raw" / "web-topics"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    graph = load_dataset("web-topics", root=tmp_path, trust_data=True)
    assert sp.issparse(graph.x)
    assert graph.x.shape == (200, 201)
    assert np.array_equal(graph.x.toarray()[:, 1:], np.eye(200))
    assert graph.classes.tolist() == [5, 6, 7]
    assert graph.directed is not None
    assert pairs(graph.directed) == [(0, 1), (5, 199)]


# --------------------------------------------------------------------------- PyG's own

PYG: dict[str, tuple[str, dict[str, Any]]] = {
    "penn94": ("LINKXDataset", {"name": "penn94"}),
    "reed98": ("LINKXDataset", {"name": "reed98"}),
    "genius": ("LINKXDataset", {"name": "genius"}),
    "coauthor-cs": ("Coauthor", {"name": "CS"}),
    "tolokers-2": (
        "GraphLandDataset",
        {"name": "tolokers-2", "numerical_features_transform": None},
    ),
}


@pytest.mark.parametrize("name", PYG)
def test_the_graphs_are_those_that_pyg_reads(tmp_path: Path, name: str) -> None:
    import torch_geometric.datasets
    from torch_geometric.utils import remove_self_loops, to_undirected

    graph = load(tmp_path, name)
    class_name, arguments = PYG[name]
    kind = getattr(torch_geometric.datasets, class_name)
    land = name == "tolokers-2"
    for number, setting in enumerate(("RL", "RH", "TH") if land else ("",)):
        more = {"split": setting} if land else {}
        (data,) = kind(str(tmp_path), **arguments, **more)
        edges = to_undirected(
            remove_self_loops(data.edge_index)[0], num_nodes=len(data.y)
        )
        assert np.array_equal(np.stack(graph.adj.tocoo().coords), edges.numpy())
        assert np.array_equal(np.array(dense(graph), dtype=np.float32), data.x.numpy())
        labelled = graph.labelled
        assert np.array_equal(graph.y[labelled], data.y.numpy()[labelled])
        if "train_mask" not in data:
            continue
        for split in graph.splits[number:] if land else graph.splits:
            for part, index in split.parts.items():
                masks = data[f"{part}_mask"].numpy().reshape(len(data.y), -1)
                column = 0 if land else graph.splits.index(split)
                assert np.array_equal(index, np.flatnonzero(masks[:, column]))
            if land:
                break


# ------------------------------------------------------------------------------- years


@hypothesis.given(
    st.lists(st.integers(1960, 2020) | st.none(), min_size=1, max_size=40).filter(any),
    st.integers(1, 6),
)
def test_classes_of_years_are_those_of_linkx(years: list[Any], count: int) -> None:
    values = np.array([np.nan if year is None else year for year in years])
    expected = np.full(len(values), -1)
    lower = -np.inf
    for k in range(count):  # interval by interval, as its program does
        upper = np.nanquantile(values, (k + 1) / count) if k < count - 1 else np.inf
        for node, value in enumerate(values):
            if lower <= value < upper:
                expected[node] = k
        lower = upper
    assert quantile_classes(values, count).tolist() == expected.tolist()


def test_years_are_numbers() -> None:
    for values in ([np.inf, 1.0], [np.nan]):
        with pytest.raises(InputError, match=r"^years must be finite numbers"):
            quantile_classes(np.array(values), 5)


# ------------------------------------------------------------------------------ damage


def said_of(root: Path, name: str, file: str, content: bytes | str) -> str:
    """Return the message about a tiny benchmark with one file changed."""
    with pytest.raises(InputError) as caught:
        load(root, name, **{file: content})
    message = str(caught.value)
    assert "\n" not in message
    (path,) = root.rglob(file)
    assert message.startswith(f"{path}: "), message
    return message.removeprefix(f"{path}: ")


RING = sp.csc_matrix(np.eye(4, k=1))
INFO = np.ones((4, 7))
SPARSE_RING = sp.csc_matrix((np.ones(1), np.array([9]), np.array([0, 1, 1, 1, 1])))


def broken_sparse() -> bytes:
    """Return a .mat file with a sparse matrix whose entry is in no row."""
    whole = io.BytesIO()
    matrix = sp.csc_matrix(
        (np.ones(1), np.array([2]), np.array([0, 1, 1, 1, 1])), (4, 4)
    )
    scipy.io.savemat(whole, {"A": matrix, "local_info": INFO})
    content = whole.getvalue()
    # The one number of a row, as an integer of four bytes with its head.
    row = b"\x05\x00\x04\x00\x02\x00\x00\x00"
    assert content.count(row) == 1
    return content.replace(row, row[:4] + b"\x63\x00\x00\x00")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is damaged ("),
        (b"half of it", "the file is damaged ("),
        (TINY["penn94"]["penn94/raw/data.mat"][:-30], "the file is damaged ("),
        (mat(local_info=INFO), "'A' is missing. Variables: 'local_info'."),
        (mat(A=RING), "'local_info' is missing. Variables: 'A'."),
        (
            mat(A=np.array([{"a": 1}], dtype=object), local_info=INFO),
            "A must hold numbers, got cell",
        ),
        (mat(A="a text", local_info=INFO), "A must hold numbers, got char"),
        (mat(A={"a": 1.0}, local_info=INFO), "A must hold numbers, got struct"),
        (
            mat(A=RING, local_info=INFO * 1j),
            "local_info must hold numbers, got complex128",
        ),
        (mat(A=np.eye(4), local_info=INFO), "A must be a sparse square, got shape"),
        (
            mat(A=sp.csc_matrix(np.eye(4, 3)), local_info=INFO),
            "A must be a sparse square, got shape (4, 3)",
        ),
        (
            mat(A=RING, local_info=INFO[:3]),
            "local_info must be [4, 7], whole numbers, got shape (3, 7)",
        ),
        (mat(A=RING, local_info=INFO / 2), "local_info must hold whole numbers"),
        (
            mat(A=RING, local_info=INFO * np.nan),
            "local_info must hold whole numbers",
        ),
        (mat(A=RING, local_info=sp.csc_matrix(INFO)), "local_info must be dense"),
        (broken_sparse(), "the file is damaged ("),
    ],
)
def test_files_of_facebook(tmp_path: Path, content: bytes, said: str) -> None:
    assert said_of(tmp_path, "reed98", "data.mat", content).startswith(said)


ENDS, FEATURES, LABELS = np.array([[0, 1], [1, 2]]), np.ones((4, 2)), np.arange(4)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"label": LABELS[:3]}, "label must have 4 values"),
        ({"label": sp.csc_matrix(np.ones((4, 1)))}, "label must have 4 values"),
        ({"label": LABELS / 3}, "label must hold whole numbers"),
        ({"edge_index": np.ones((3, 5))}, "edge_index must be [2, m], got shape"),
        ({"edge_index": ENDS + 7}, "sources must lie in 0 … 3, as there are 4 nodes"),
        ({"edge_index": ENDS + 2}, "targets must lie in 0 … 3, as there are 4 nodes"),
        ({"edge_index": ENDS + 2.0**60}, "edge_index must hold whole numbers"),
    ],
)
def test_files_of_linkx(tmp_path: Path, variables: dict[str, Any], said: str) -> None:
    whole = {"edge_index": ENDS, "node_feat": FEATURES, "label": LABELS} | variables
    found = said_of(tmp_path, "genius", "data.mat", mat(**whole))
    assert found.startswith(said)


def test_what_would_not_fit_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("h2gcn.sparse.memory.available_memory", lambda: 10**6)
    content = mat(edge_index=ENDS, node_feat=np.zeros((1000, 1000)), label=LABELS)
    assert said_of(tmp_path, "genius", "data.mat", content) == (
        "'node_feat', of shape (1000, 1000), would take about 16.0 MB of memory, and "
        "1.0 MB are free."
    )


SPLIT = "genius-splits.npy"


def objects(*things: Any) -> bytes:
    """Return an npy file of objects."""
    array = np.empty(len(things), dtype=object)
    array[:] = things
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def plain(array: Any) -> bytes:
    """Return an npy file of numbers."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is damaged ("),
        (b"half of it", "the file is damaged ("),
        (split_list(([0], [1], [2]))[:-30], "not a pickle of arrays ("),
        (plain(np.eye(2)), "it must hold a list of splits, got (2, 2) of float64"),
        (objects(1, 2), "a split must hold 'train', numbers of nodes."),
        (objects({"train": np.arange(2)}), "a split must hold 'valid', numbers of"),
        (objects({"train": [1, 2]}), "a split must hold 'train', numbers of nodes."),
        (
            objects({"train": np.ones(2)}),
            "a split must hold 'train', numbers of nodes.",
        ),
        (
            split_list(([0], [1, 4], [2])),
            "the nodes of a split must lie in 0 … 3, got 1 to 4 in 'valid'",
        ),
        (
            split_list(([0], [-1], [2])),
            "the nodes of a split must lie in 0 … 3, got -1 to -1 in 'valid'",
        ),
        (objects(os.system), "the pickle names posix.system, which no array needs"),
        (objects(Path("a")), "the pickle "),
        (objects(*[{}] * 10_001), "a graph has at most 10,000 splits, got 10,001"),
    ],
)
def test_files_of_splits(tmp_path: Path, content: bytes, said: str) -> None:
    assert said_of(tmp_path, "genius", SPLIT, content).startswith(said)


def tensors(**parts: Any) -> bytes:
    """Return a file of one split whose parts are tensors, as torch pickles them."""
    import torch

    return objects({name: torch.as_tensor(part) for name, part in parts.items()})


def test_parts_of_splits_may_be_tensors(tmp_path: Path) -> None:
    import torch

    within = torch.arange(4)[2:]  # its numbers are those of all four
    content = tensors(train=within, valid=[1], test=np.array([0]))
    graph = load(tmp_path, "genius", **{SPLIT: content})
    assert parts(graph) == [([2, 3], [1], [0])]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda content: content, ""),
        (lambda content: content.replace(b"K\x00K\x02\x85", b"K\x01K\x02\x85"), "lie"),
        (lambda content: content.replace(b"K\x00K\x02\x85", b"K\x00K\x63\x85"), "lie"),
        (lambda content: content.replace(b"LongStorage", b"LongStoragf"), "cannot"),
        (lambda content: content.replace(b"torch\nLong", b"nomen\nLong"), "cannot"),
    ],
)
def test_tensors_that_are_not_sound(
    tmp_path: Path, change: Callable[[bytes], bytes], said: str
) -> None:
    content = tensors(train=[2, 3], valid=[1], test=[0])
    changed = change(content)
    if not said:
        assert load(tmp_path, "genius", **{SPLIT: changed}).n_nodes == 4
        return
    assert changed != content
    message = said_of(tmp_path, "genius", SPLIT, changed)
    assert message.startswith(("a tensor must lie inside", "a tensor cannot be read"))
    assert said in message


@pytest.mark.parametrize("train", [[[1, 2]], [0.5]])
def test_tensors_are_lists_of_whole_numbers(tmp_path: Path, train: Any) -> None:
    content = tensors(train=train, valid=[1], test=[0])
    assert said_of(tmp_path, "genius", SPLIT, content) in (
        "a tensor must be a list of numbers.",
        "a split must hold 'train', numbers of nodes.",
    )


def test_splits_are_not_longer_than_their_file(tmp_path: Path) -> None:
    same = dict.fromkeys(("train", "valid", "test"), np.arange(2000))
    (path := tmp_path / "s.npy").write_bytes(objects(*[same] * 900))
    with pytest.raises(InputError) as caught:
        read_split_list(path, 2000)
    said = "its splits are longer together than the file."
    assert str(caught.value) == f"{path}: {said}"


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("num-node-list.csv.gz", packed("4\n4\n"), "it must hold one count."),
        ("num-node-list.csv.gz", packed("-4\n"), "it must hold one count."),
        ("num-node-list.csv.gz", packed("4,4\n"), "it must hold one count."),
        ("num-node-list.csv.gz", packed("four\n"), "the file is damaged ("),
        ("num-node-list.csv.gz", b"4\n", "the file is damaged (Not a gzipped file"),
        ("num-edge-list.csv.gz", packed(""), "the file is damaged (Empty CSV file)"),
        ("edge.csv.gz", packed("0,1\n0,2\n"), "it must have 4 edges, got 2"),
        ("edge.csv.gz", packed("0,1\n" * 5), "it must have 4 edges, got more"),
        ("edge.csv.gz", packed("0,1,2\n" * 4), "an edge has two ends, got 3"),
        ("edge.csv.gz", packed("0\n" * 4), "an edge has two ends, got 1"),
        ("edge.csv.gz", packed("0,1.5\n" * 4), "the file is damaged ("),
        ("edge.csv.gz", packed("0,\n" * 4), "no cell may be empty."),
        (
            *("edge.csv.gz", packed("0,1\n" * 3 + "0,4\n")),
            "the ends of edges must lie in 0 … 3, as there are 4 nodes, got 4",
        ),
        (
            *("edge.csv.gz", packed("0,1\n" * 3 + "0,-1\n")),
            "the ends of edges must lie in 0 … 3, as there are 4 nodes, got -1",
        ),
        (
            *("edge.csv.gz", packed(f"0,{2**32}\n" * 4)),
            "the ends of edges must lie in 0 … 3, as there are 4 nodes, got 4294",
        ),
        ("edge.csv.gz", packed("0,1\n" * 4)[:-9], "the file is damaged ("),
        ("node-label.csv.gz", packed("0\n1\n"), "it must have 4 rows, got 2"),
        ("node-label.csv.gz", packed("0\n" * 5), "it must have 4 rows, got more"),
        ("node-label.csv.gz", packed("0,1\n" * 4), "a node has one label, got 2"),
        ("node-feat.csv.gz", packed("1,2\n" * 3), "it must have 4 rows, got 3"),
        ("node-feat.csv.gz", packed("1,nan\n" * 4), "it must hold finite numbers"),
        ("node-feat.csv.gz", packed("1,1e39\n" * 4), "it must hold finite numbers"),
        ("node-feat.csv.gz", packed("1,2\n3\n1,2\n3,4\n"), "the file is damaged ("),
        ("valid.csv.gz", packed("4\n"), "its nodes must lie in 0 … 3, got 4 to 4"),
        ("valid.csv.gz", packed("1,2\n"), "it must list nodes, at most 4, one a row."),
        (
            "valid.csv.gz",
            packed("1\n" * 5),
            "it must list nodes, at most 4, one a row.",
        ),
    ],
)
def test_files_of_ogb(tmp_path: Path, file: str, content: bytes, said: str) -> None:
    assert said_of(tmp_path, "ogbn-arxiv", file, content).startswith(said)


def test_counts_that_ask_for_too_much_are_refused(tmp_path: Path) -> None:
    files = {"num-node-list.csv.gz": packed(f"{10**15}\n")}
    with pytest.raises(InputError) as caught:
        load(tmp_path, "ogbn-arxiv", **files)
    path = tmp_path / "ogbn_arxiv" / "raw" / "node-label.csv.gz"
    said = "a table of shape (1000000000000000, 1) would take about 8,000,000.0 GB"
    assert str(caught.value).startswith(f"{path}: {said}")


GAMERS = TINY["twitch-gamers"]["twitch-gamers/raw/twitch-gamer_feat.csv"].decode()


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        (
            "feat",
            GAMERS.replace("views", "looks"),
            "the column 'views' is missing. Col",
        ),
        (
            "feat",
            GAMERS.replace(",3,1,EN", ",2,1,EN"),
            "the numeric ids must be 0 to 3",
        ),
        ("feat", GAMERS.replace("500,0", "500,2"), "mature must be 0 or 1"),
        ("feat", GAMERS.replace("500,0", ",0"), "no cell may be empty."),
        ("feat", GAMERS.replace("2011-05-19", "May"), "the file is damaged ("),
        ("feat", "", "the column 'views' is missing."),
        ("edges", "numeric_id_1\n0\n", "it must have two columns, got 1"),
        ("edges", "", "it must have two columns, got 0"),
        ("edges", "a,b\n0,4\n", "the ends of edges must lie in 0 … 3"),
    ],
)
def test_files_of_gamers(tmp_path: Path, file: str, content: str, said: str) -> None:
    name = f"twitch-gamer_{file}.csv"
    assert said_of(tmp_path, "twitch-gamers", name, content).startswith(said)


LAND = {
    place.rpartition("/")[2]: content.decode()
    for place, content in TINY["tolokers-2"].items()
}


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("info.yaml", "", "'target_name' is missing."),
        (
            "info.yaml",
            LAND["info.yaml"].replace("fraction_features_names", "fractions"),
            "'fraction_features_names' is missing.",
        ),
        (
            "info.yaml",
            LAND["info.yaml"].replace('"country"]', "country"),
            "it must name one target, and lists must end.",
        ),
        (
            "info.yaml",
            LAND["info.yaml"].replace(": banned", ":"),
            "it must name one target, and lists must end.",
        ),
        ("info.yaml", b"\xff", "the file is damaged ('utf-8' codec"),
        ("targets.csv", "id,other\n0,1\n", "the column 'banned' is missing. Columns:"),
        (
            "targets.csv",
            LAND["targets.csv"].replace("1.0", "1.5"),
            "the targets must be classes, whole numbers.",
        ),
        (
            "targets.csv",
            LAND["targets.csv"].replace("1.0", "inf"),
            "the targets must be classes, whole numbers.",
        ),
        (
            "split_masks_RH.csv",
            LAND["split_masks_RH.csv"].replace("val", "valid"),
            "the column 'val' is missing.",
        ),
        (
            "split_masks_TH.csv",
            ",train,val,test\n0,True,True,2\n",
            "the file is damaged",
        ),
        ("split_masks_TH.csv", ",train,val,test\n", "it must have 4 rows, got 0"),
        ("edgelist.csv", "source,target\n0,4\n", "the ends of edges must lie in 0 … 3"),
        ("edgelist.csv", "source\n0\n", "it must have two columns, got 1"),
        (
            "features.csv",
            LAND["features.csv"].replace("age", "year"),
            "the column 'age' is missing.",
        ),
        (
            "features.csv",
            LAND["features.csv"].replace("41", "inf"),
            "it must hold finite numbers.",
        ),
        (
            "features.csv",
            LAND["features.csv"].replace("41", "old"),
            "the file is damaged (",
        ),
        (
            "features.csv",
            LAND["features.csv"] + "4,0,30,0.25,0\n",
            "it must have 4 rows, got more",
        ),
    ],
)
def test_files_of_graphland(
    tmp_path: Path, file: str, content: str | bytes, said: str
) -> None:
    assert said_of(tmp_path, "tolokers-2", file, content).startswith(said)


def test_features_of_graphland_have_names_and_are_named_once(tmp_path: Path) -> None:
    info = "target_name: banned\n" + "".join(
        f"{kind}_features_names: [{names}]\n"
        for kind, names in (
            ("numerical", "{}"),
            ("fraction", ""),
            ("categorical", "{}"),
        )
    )
    for names, said in (
        ("", "there are no features."),
        ("age", "no feature may be named twice."),
    ):
        with pytest.raises(InputError) as caught:
            load(tmp_path, "tolokers-2", **{"info.yaml": info.format(names, names)})
        assert str(caught.value).endswith(f"features.csv: {said}")


# --------------------------------------------------------------------------- streaming


def test_a_large_table_is_read_in_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("h2gcn.datasets.later_formats.BLOCK", 2**12)
    rows = "".join(f"{i},{i % 7}\n" for i in range(5000))
    (path := tmp_path / "t.csv.gz").write_bytes(packed(rows))
    blocks = list(csv_blocks(path, "int64"))
    assert len(blocks) > 5
    table = np.concatenate(blocks)
    assert np.array_equal(table, np.stack([np.arange(5000), np.arange(5000) % 7], 1))


def test_the_reading_of_a_large_table_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("h2gcn.datasets.raw_files.SHOWN", 1)
    told: list[tuple[str, int, int]] = []
    for name in ("ogbn-arxiv", "genius"):
        write_files(tmp_path, TINY[name])
        progress = lambda *at: told.append(at)  # noqa: E731
        load_dataset(name, root=tmp_path, trust_data=True, progress=progress)
    ends = {title: (done, total) for title, done, total in told}
    for file in ("edge.csv.gz", "node-feat.csv.gz", "data.mat"):
        (path,) = tmp_path.rglob(file)
        done, total = ends[f"reading {file}"]
        assert done == total == path.stat().st_size


def test_features_of_ogb_are_held_once(tmp_path: Path) -> None:
    n, width = 20_000, 100
    write_files(tmp_path, TINY["ogbn-products"])
    raw = tmp_path / "ogbn_products" / "raw"
    (raw / "num-node-list.csv.gz").write_bytes(packed(f"{n}\n"))
    (raw / "node-label.csv.gz").write_bytes(packed("0\n1\n" * (n // 2)))
    line = ",".join(f"{i / 8}" for i in range(width)) + "\n"
    (raw / "node-feat.csv.gz").write_bytes(packed(line * n))
    # What it needs is loaded now.
    load_dataset("ogbn-products", root=tmp_path, trust_data=True)
    tracemalloc.start()
    table = _table(raw / "node-feat.csv.gz", n)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert table.dtype == np.float32
    assert table.shape == (n, width)
    assert peak < 1.2 * table.nbytes + 4 * BLOCK


def test_a_list_of_edges_grows_as_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("h2gcn.datasets.later_formats.BLOCK", 2**10)
    edges = [(i, (i * i + 1) % 97) for i in range(97)]
    rows = "".join(f"{u},{v}\n" for u, v in edges * 20)
    (path := tmp_path / "edges.csv").write_text("a,b\n" + rows)
    adj, one_way, record = _edges(path, 97, ("a", "b"), directed=None)
    expected = sp.coo_array((np.ones(97), np.array(edges).T), shape=(97, 97)).tocsr()
    expected.setdiag(0)
    expected.eliminate_zeros()
    assert one_way is not None
    assert pairs(one_way) == pairs(expected)
    assert pairs(adj) == pairs(expected + expected.T)
    assert record.edges_read == 97 * 20


# --------------------------------------------------------------------------- downloads


def test_a_benchmark_comes_out_of_its_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for place, content in TINY["tolokers-2"].items():
            archive.writestr(place.removeprefix("tolokers-2/raw/"), content)

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        request.wfile.write(file.getvalue())

    info = DATASETS["tolokers-2"]
    with serving(answer) as server:
        files = {
            name: str(at).replace("https://zenodo.org", server.address)
            for name, at in info.files.items()
        }
        monkeypatch.setitem(DATASETS, "tolokers-2", replace(info, files=files))
        graph = load_dataset("tolokers-2", root=tmp_path, trust_data=True)
        load_dataset("tolokers-2", root=tmp_path, trust_data=True)
    assert server.asked == ["/records/16895532/files/tolokers-2.zip"]
    assert graph.n_nodes == 4
    assert {file.name for file in (tmp_path / "tolokers-2").iterdir()} == {"raw"}
