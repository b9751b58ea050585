"""npz archives: both layouts, a lossless round trip, nothing unpickled."""

import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from h2gcn import Graph, Split
from h2gcn.exceptions import InputError
from h2gcn.graph import EdgeColumns, ReadRecord
from h2gcn.io import read_graph, read_npz, write_npz

EDGE_LIST = {
    "node_features": np.arange(8, dtype=np.float32).reshape(4, 2),
    "node_labels": np.array([1, 0, 1, 0]),
    "edges": np.array([[0, 1], [1, 0], [2, 3], [3, 3]]),
}
PARTS = ("train", "val", "test")
SPLIT_MASKS = {
    "train_masks": np.array([[1, 0, 0, 0], [0, 1, 0, 0]], dtype=bool),
    "val_masks": np.array([[0, 1, 0, 0], [1, 0, 0, 0]], dtype=bool),
    "test_masks": np.array([[0, 0, 1, 1], [0, 0, 1, 1]], dtype=bool),
}


def csr_arrays(prefix: str, dense: list[list[float]]) -> dict[str, np.ndarray]:
    matrix = sp.csr_array(np.array(dense, dtype=np.float32))
    return {
        f"{prefix}_data": matrix.data,
        f"{prefix}_indices": matrix.indices,
        f"{prefix}_indptr": matrix.indptr,
        f"{prefix}_shape": np.array(matrix.shape),
    }


CSR_LAYOUT = {
    **csr_arrays("adj", [[0, 1, 0], [1, 0, 1], [0, 1, 0]]),
    **csr_arrays("attr", [[1, 0], [0, 0], [2, 3]]),
    "labels": np.array([0, 1, 1]),
}


def save(path: Path, **arrays: np.ndarray) -> Path:
    np.savez(path, **arrays)
    return path


def equal(a: Graph, b: Graph) -> bool:
    def same(one, other) -> bool:
        if sp.issparse(one) != sp.issparse(other) or (one is None) != (other is None):
            return False
        if one is None or sp.issparse(one):
            return one is None or (one != other).nnz == 0
        return np.array_equal(one, other) and one.dtype == other.dtype

    arrays = ("x", "adj", "directed", "y", "classes", "node_ids")
    return (
        all(same(getattr(a, field), getattr(b, field)) for field in arrays)
        and a.feature_names == b.feature_names
        and len(a.splits) == len(b.splits)
        and all(
            np.array_equal(s.parts[part], t.parts[part])
            for s, t in zip(a.splits, b.splits, strict=True)
            for part in s.parts
        )
    )


def test_edge_list_layout(tmp_path: Path) -> None:
    graph = read_graph(save(tmp_path / "mines.npz", **EDGE_LIST, **SPLIT_MASKS))
    assert graph.name == "mines"
    assert graph.adj.toarray().tolist() == [
        [0, 1, 0, 0],
        [1, 0, 0, 0],
        [0, 0, 0, 1],
        [0, 0, 1, 0],
    ]
    assert graph.directed is None
    assert graph.y.tolist() == [1, 0, 1, 0]
    assert graph.record.duplicates_merged == 1
    assert graph.record.loops_dropped == 1
    assert [split.train.tolist() for split in graph.splits] == [[0], [1]]
    assert graph.splits[1].test.tolist() == [2, 3]


def test_csr_layout(tmp_path: Path) -> None:
    split = {f"split_{part}": np.array([i]) for i, part in enumerate(("train", "val"))}
    path = save(tmp_path / "g.npz", **CSR_LAYOUT, **split, split_test=np.array([2]))
    graph = read_npz(path)
    assert graph.adj.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert graph.x.tolist() == [[1, 0], [0, 0], [2, 3]]
    assert graph.y.tolist() == [0, 1, 1]
    assert graph.splits[0].sizes == (1, 1, 1)
    assert graph.splits[0].test.tolist() == [2]


def test_csr_layout_that_is_directed_and_weighted(tmp_path: Path) -> None:
    adj = csr_arrays("adj", [[1, 5, 0], [0, 0, 0], [0, 1, 0]])
    graph = read_npz(save(tmp_path / "g.npz", **CSR_LAYOUT | adj))
    assert graph.adj.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert graph.directed is not None
    assert graph.record.loops_dropped == 1
    assert graph.record.symmetrised == 2
    assert graph.record.notes == ("edge weights are not used",)


def rich_graph(dense: bool, directed: bool) -> Graph:
    adj = sp.csr_array(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    x = np.array([[0.1, 0, -2], [0, 0, 0], [1, 1e-30, 3]], dtype=np.float32)
    return Graph(
        x=x if dense else sp.csr_array(x),
        adj=adj,
        directed=sp.csr_array(sp.triu(adj), dtype=np.float32) if directed else None,
        y=[1, -1, 0],
        classes=np.array(["über", "b"]),
        node_ids=np.array(["007", "x,y", "é"], dtype=object if directed else str),
        feature_names=("f", "g=h", "i"),
        splits=(
            Split(train=[0], val=[2], test=[]),
            Split(train=[2], val=[0], test=[1]),
        ),
    )


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("dense", [False, True])
def test_round_trip_is_lossless(tmp_path: Path, dense: bool, directed: bool) -> None:
    graph = rich_graph(dense, directed)
    write_npz(graph, tmp_path / "a.npz")
    back = read_npz(tmp_path / "a.npz")
    if directed:
        assert back.node_ids.tolist() == graph.node_ids.tolist()
        object.__setattr__(back, "node_ids", graph.node_ids)
    assert equal(graph, back)
    assert back.record.symmetrised == 0


def test_round_trip_of_the_shared_graph(tmp_path: Path, small_graph: Graph) -> None:
    write_npz(small_graph, tmp_path / "small.npz")
    assert equal(small_graph, read_npz(tmp_path / "small.npz"))


@pytest.mark.parametrize("ids", [None, list("abc"), ["0", "1", "2"], [2, 0, 1]])
def test_a_round_trip_gives_no_ids_and_takes_none(
    tmp_path: Path, ids: list[object] | None
) -> None:
    given = None if ids is None else np.array(ids)
    graph = replace(rich_graph(dense=True, directed=False), node_ids=given)
    assert graph.has_ids == replace(graph, name="copy").has_ids == (ids is not None)
    write_npz(graph, tmp_path / "g.npz")
    assert read_npz(tmp_path / "g.npz").has_ids == graph.has_ids


def test_only_npz_is_written(tmp_path: Path, small_graph: Graph) -> None:
    with pytest.raises(InputError, match=r"must end in \.npz"):
        write_npz(small_graph, tmp_path / "small.bin")


class Payload:
    """Unpickled, it would make a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("key", ["labels", "adj_data", "node_ids"])
def test_pickled_objects_are_not_run(tmp_path: Path, key: str) -> None:
    trap = np.array([Payload(tmp_path / "ran")] * 3, dtype=object)
    path = save(tmp_path / "trap.npz", **CSR_LAYOUT | {key: trap})
    with pytest.raises(InputError, match=r"holds pickled Python objects; only plain"):
        read_npz(path)
    assert not (tmp_path / "ran").exists()


def test_files_that_are_no_archive(tmp_path: Path) -> None:
    whole = save(tmp_path / "whole.npz", **EDGE_LIST).read_bytes()
    broken = tmp_path / "broken.npz"
    for content in (b"no archive at all", whole[: len(whole) // 2]):
        broken.write_bytes(content)
        with pytest.raises(InputError, match="not an npz archive, or it is cut short"):
            read_npz(broken)
    broken.write_bytes(b"")
    with pytest.raises(InputError, match="is empty"):
        read_npz(broken)
    with pytest.raises(InputError, match="no such file"):
        read_npz(tmp_path / "gone.npz")


def test_damage_inside_an_archive(tmp_path: Path) -> None:
    path = save(tmp_path / "damaged.npz", **EDGE_LIST)
    content = bytearray(path.read_bytes())
    at = content.index(EDGE_LIST["node_features"].tobytes())
    content[at] ^= 0xFF
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match=r"damaged\.npz: the archive cannot be read"):
        read_npz(path)


def test_missing_keys_are_listed(tmp_path: Path) -> None:
    path = save(tmp_path / "odd.npz", foo=np.eye(2), bar=np.eye(2))
    with pytest.raises(InputError, match=r"must hold node_features.*'foo', 'bar'"):
        read_npz(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"adj_indices": np.array([1, 0, 9, 1])}, "'adj_.*not a sound CSR"),
        ({"adj_indices": np.array([1, 0, -1, 1])}, "'adj_.*not a sound CSR"),
        ({"adj_indptr": np.array([0, 3, 1, 4])}, "'adj_.*not a sound CSR"),
        ({"adj_indptr": np.array([0, 1, 3])}, "adj_indptr must have 4 entries"),
        ({"attr_data": np.array([1.0])}, "'attr_.*not a sound CSR"),
        (
            {"attr_shape": np.array([3])},
            r"attr_shape must be two whole numbers, got shape \(1,\)$",
        ),
        ({"attr_shape": np.array([3, -1])}, r"two whole numbers, got \[3, -1\]$"),
        (
            {"attr_shape": np.array([3, np.nan])},
            r"two whole numbers, got \[3\.0, nan\]$",
        ),
        ({"attr_shape": np.array(["a", "b"])}, r"two whole numbers, got \['a', 'b'\]$"),
        ({"attr_is_dense": np.array([True, False])}, "must be one truth value"),
        ({"attr_is_dense": np.array("no")}, "must be one truth value"),
        ({"classes": np.array("a")}, "classes must be 1-D"),
        ({"labels": np.array([0, 1, 1j])}, "only numbers and text are read"),
        ({"labels": np.array([0, 1, 1e300])}, "must be classes; these hold 1e.300"),
        ({"train_masks": np.array(["a"] * 3)}, "are missing"),
        ({"adj_shape": np.array([3, 4])}, "must be square"),
        ({"labels": np.array([0, 1])}, "labels must have 3 entries"),
        ({"labels": np.eye(3)}, r"labels must have 3 entries, got shape \(3, 3\)$"),
        (
            {"split_train": np.array([7]), "split_val": np.array([1])}
            | {"split_test": np.array([0])},
            "names node 7, but there are 3",
        ),
        (
            {"split_train": np.array([0.5]), "split_val": np.array([1])}
            | {"split_test": np.array([0])},
            r"split_train must be node indices, got an array of shape \(1,\)",
        ),
    ],
)
def test_malformed_csr_layouts(tmp_path: Path, changes: dict, message: str) -> None:
    path = save(tmp_path / "bad.npz", **CSR_LAYOUT | changes)
    with pytest.raises(InputError, match=rf"bad\.npz: .*{message}"):
        read_npz(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edges": np.array([[0, 4]])}, "targets must lie in 0 … 3.*got 4 at edge 0$"),
        (
            {"edges": np.array([0, 1])},
            r"edges must be \[m, 2\], got an array of shape \(2,\)",
        ),
        ({"node_features": np.array(["a"] * 4)}, "node_features must be numbers"),
        ({"node_features": np.full((4, 1), np.nan)}, "finite"),
        (SPLIT_MASKS | {"val_masks": np.ones((2, 3), bool)}, "masks must be"),
        (SPLIT_MASKS | {"val_masks": np.full((2, 4), "a")}, "val_masks must be a mask"),
        ({"node_labels": np.zeros(5)}, "node_labels must have 4 entries"),
    ],
)
def test_malformed_edge_lists(tmp_path: Path, changes: dict, message: str) -> None:
    path = save(tmp_path / "bad.npz", **EDGE_LIST | changes)
    with pytest.raises(InputError, match=rf"bad\.npz: .*{message}"):
        read_npz(path)


@pytest.mark.data
def test_published_archives(data_root: Path) -> None:
    mines = read_npz(data_root / "minesweeper" / "raw" / "minesweeper.npz")
    assert (mines.n_nodes, mines.n_edges, len(mines.splits)) == (10000, 39402, 10)
    cora = read_npz(data_root / "syn-cora" / "h0.00-r1.npz")
    assert (cora.n_nodes, cora.n_edges, cora.n_classes) == (1490, 2968, 5)
    assert sp.issparse(cora.x)


def test_what_the_reader_did_is_kept(tmp_path: Path, small_graph: Graph) -> None:
    record = ReadRecord(edges_read=9, loops_dropped=2, notes=("a note",))
    write_npz(replace(small_graph, record=record), tmp_path / "g.npz")
    assert read_npz(tmp_path / "g.npz").record == record


def test_a_record_that_is_none(tmp_path: Path, small_graph: Graph) -> None:
    write_npz(small_graph, tmp_path / "g.npz")
    with np.load(tmp_path / "g.npz") as archive:
        arrays = dict(archive)
    path = save(tmp_path / "bad.npz", **arrays | {"record": np.array("{")})
    with pytest.raises(InputError, match="'record' is not the record of a reader"):
        read_npz(path)


def test_half_a_split_is_an_error(tmp_path: Path, small_graph: Graph) -> None:
    write_npz(small_graph, tmp_path / "g.npz")
    with np.load(tmp_path / "g.npz") as archive:
        arrays = dict(archive)
    for name in ("train_masks", "split_0_train"):
        given = np.eye(1, 30, dtype=bool) if name == "train_masks" else np.arange(3)
        path = save(tmp_path / "half.npz", **arrays | {name: given})
        with pytest.raises(InputError, match="are missing"):
            read_npz(path)


def test_the_name_of_the_id_column_comes_back(tmp_path: Path) -> None:
    graph = Graph(
        x=np.eye(2), adj=np.zeros((2, 2)), record=ReadRecord(id_column="person")
    )
    write_npz(graph, tmp_path / "g.npz")
    assert read_npz(tmp_path / "g.npz").record == graph.record
    # Older archives have a record without it.
    arrays = dict(np.load(tmp_path / "g.npz"))
    record = json.loads(str(arrays["record"]))
    del record["id_column"]
    older = save(tmp_path / "old.npz", **arrays | {"record": json.dumps(record)})
    assert read_npz(older).record.id_column is None


def carrying(**changes: Any) -> EdgeColumns:
    given = {
        "source": [0, 0, 1],
        "target": [1, 1, 2],
        "values": [[0.1, 1], [-2, 0], [1e-30, 1]],
        "names": ("über", "kind=x,y"),
    }
    return EdgeColumns(**given | changes)


@pytest.mark.parametrize(
    "columns",
    [
        carrying(),
        carrying(directed=False, categories=()),
        carrying(values=np.empty((3, 0)), names=()),
        EdgeColumns([], [], np.empty((0, 1)), ("w",)),
    ],
)
def test_what_edges_carry_comes_back(tmp_path: Path, columns: EdgeColumns) -> None:
    graph = replace(rich_graph(dense=True, directed=True), edge_columns=columns)
    write_npz(graph, tmp_path / "g.npz")
    back = read_npz(tmp_path / "g.npz").edge_columns
    assert back is not None
    for name in ("source", "target", "values"):
        one, other = getattr(columns, name), getattr(back, name)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    assert back.names == columns.names
    assert back.directed is columns.directed
    assert back.categories == columns.categories


@pytest.mark.parametrize(
    "times",
    [np.array(["2024-01-01", "NaT"], "datetime64[us]"), np.array([2.5, np.nan])],
)
def test_times_and_groups_are_kept(tmp_path: Path, times: np.ndarray) -> None:
    graph = Graph(
        x=np.eye(2),
        adj=[[0, 1], [1, 0]],
        times=times,
        groups=[7, -1],
        edge_columns=EdgeColumns(
            [0, 1], [1, 0], np.zeros((2, 0)), (), times=times[::-1]
        ),
    )
    write_npz(graph, tmp_path / "g.npz")
    back = read_npz(tmp_path / "g.npz")
    np.testing.assert_array_equal(back.times, times)
    np.testing.assert_array_equal(back.edge_columns.times, times[::-1])
    assert back.times.dtype == times.dtype
    assert back.groups.tolist() == [7, -1]


def test_dates_of_an_archive_are_whole_numbers(
    tmp_path: Path, small_graph: Graph
) -> None:
    write_npz(small_graph, tmp_path / "g.npz")
    with np.load(tmp_path / "g.npz") as archive:
        arrays = dict(archive)
    dates = np.zeros(small_graph.n_nodes)
    np.savez(tmp_path / "g.npz", **arrays, node_dates=dates)
    with pytest.raises(
        InputError, match=": node_dates must be microseconds, got an array"
    ):
        read_npz(tmp_path / "g.npz")


def test_archives_without_edge_columns_have_none(tmp_path: Path) -> None:
    write_npz(rich_graph(dense=True, directed=True), tmp_path / "g.npz")
    assert read_npz(tmp_path / "g.npz").edge_columns is None
    with np.load(tmp_path / "g.npz") as arrays:
        assert not [key for key in arrays.files if key.startswith("edge_")]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edge_values": None}, "edge_categories; edge_values is missing."),
        (
            {"edge_values": None, "edge_names": None},
            "edge_values and edge_names are missing.",
        ),
        ({"edge_target": np.array([1, 1, 3])}, "'target', names node 3, but there are"),
        ({"edge_values": np.ones((3, 1))}, ": values must have a row for each of 3"),
        ({"edge_source": np.array(["a", "b", "c"])}, ": source must be node indices"),
    ],
)
def test_malformed_edge_columns(tmp_path: Path, changes: dict, message: str) -> None:
    graph = replace(rich_graph(dense=True, directed=True), edge_columns=carrying())
    write_npz(graph, tmp_path / "g.npz")
    with np.load(tmp_path / "g.npz") as stored:
        arrays = dict(stored) | changes
    kept = {key: array for key, array in arrays.items() if array is not None}
    path = save(tmp_path / "bad.npz", **kept)
    with pytest.raises(InputError, match=message) as refused:
        read_npz(path)
    assert str(refused.value).startswith(str(path))


def raw_npy(header: bytes, body: bytes = b"") -> bytes:
    """Return an array file with any text for a header."""
    length = len(header).to_bytes(2, "little")
    return b"\x93NUMPY\x01\x00" + length + header + body


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (
            raw_npy(b"{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }"),
            r"'labels' is damaged: by its header it is \(3,\) of int64, but 0 bytes",
        ),
        (
            raw_npy(b"{'descr': '<i8', 'fortran_order': False, 'shape': (10**11,), }"),
            "the archive cannot be read",
        ),
        (
            raw_npy(
                b"{'descr': '<i8', 'fortran_order': False, 'shape': (100000000000,), }",
                bytes(24),
            ),
            "'labels' is damaged.*but 24 bytes follow",
        ),
        (
            raw_npy(b"{'descr': '<i8', 'fortran_order': False, 'shape': (-3, -1), }"),
            "'labels' is damaged",
        ),
        (
            raw_npy(b"{'descr': '|V8', 'fortran_order': False, 'shape': (3,), }", b""),
            "only numbers and text are read",
        ),
        (raw_npy(b"(" * 5000), "the archive cannot be read"),
        (raw_npy(b"{'descr': "), "the archive cannot be read"),
        (raw_npy(b"\xff\x00"), "the archive cannot be read"),
        (b"no array at all", "the archive cannot be read"),
        (b"", "the archive cannot be read"),
    ],
)
def test_headers_of_arrays_are_not_believed(
    tmp_path: Path, member: bytes, message: str
) -> None:
    arrays = {key: value for key, value in CSR_LAYOUT.items() if key != "labels"}
    path = save(tmp_path / "bad.npz", **arrays)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("labels.npy", member)
    with pytest.raises(InputError, match=rf"bad\.npz: .*{message}"):
        read_npz(path)


@pytest.mark.parametrize("key", [k for k in CSR_LAYOUT if k != "labels"])
def test_arrays_that_are_missing(tmp_path: Path, key: str) -> None:
    arrays = {name: value for name, value in CSR_LAYOUT.items() if name != key}
    with pytest.raises(InputError, match="must hold node_features"):
        read_npz(save(tmp_path / "bad.npz", **arrays))
    directed = key.replace("attr", "adj")
    arrays = CSR_LAYOUT | {
        name.replace("adj", "directed"): value
        for name, value in CSR_LAYOUT.items()
        if name.startswith("adj") and name not in (directed, "adj_shape")
    }
    path = save(tmp_path / "bad.npz", **arrays)
    gone = directed.replace("adj", "directed")
    if gone in ("directed_indptr", "directed_shape"):
        assert read_npz(path).n_nodes == 3
        return
    with pytest.raises(InputError, match=f"'{gone}' is missing"):
        read_npz(path)


def test_a_small_file_with_wide_features_is_refused_unread(tmp_path: Path) -> None:
    wide = {"attr_shape": np.array([3, 200_000_000_000])}
    for dense in ({}, {"attr_is_dense": np.array(True)}):
        path = save(tmp_path / "wide.npz", **CSR_LAYOUT | wide | dense)
        assert path.stat().st_size < 14_000
        with pytest.raises(
            InputError,
            match=r"wide\.npz: features of 3 nodes in 200,000,000,000 columns would "
            r"take about [\d,]+\.0 GB of memory, and .* are free\.",
        ):
            read_npz(path)


def test_a_large_array_that_nothing_needs_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb.npz"
    zeros = np.zeros(10**7, dtype=np.int64)
    np.savez_compressed(path, **CSR_LAYOUT | {"other": zeros})
    monkeypatch.setattr("h2gcn.sparse.memory.available_memory", lambda: 10**6)
    assert read_npz(path).n_nodes == 3
    np.savez_compressed(path, **CSR_LAYOUT | {"labels": zeros})
    with pytest.raises(InputError, match=": labels must have 3 entries, got shape"):
        read_npz(path)
    np.savez_compressed(path, **CSR_LAYOUT | {"adj_data": zeros})
    with pytest.raises(
        InputError, match=r"'adj_data', of shape \(10000000,\), would take about 240"
    ):
        read_npz(path)


def test_more_splits_than_can_be_meant(tmp_path: Path) -> None:
    masks = {f"{part}_masks": np.ones((10_001, 4), bool) for part in PARTS}
    with pytest.raises(InputError, match="at most 10,000 splits, got 10,001"):
        read_npz(save(tmp_path / "g.npz", **EDGE_LIST | masks))


@pytest.mark.parametrize(
    "change",
    [
        {"loops_dropped": "many"},
        {"edges_read": 1.5},
        {"notes": [1]},
        {"tables": []},
        {"id_column": 7},
        {"who": 1},
    ],
)
def test_records_of_other_types(
    tmp_path: Path, small_graph: Graph, change: dict[str, Any]
) -> None:
    write_npz(small_graph, tmp_path / "g.npz")
    arrays = dict(np.load(tmp_path / "g.npz"))
    record = json.loads(str(arrays["record"])) | change
    path = save(tmp_path / "bad.npz", **arrays | {"record": json.dumps(record)})
    with pytest.raises(InputError, match="'record' is not the record of a reader"):
        read_npz(path)


@pytest.mark.parametrize("kind", ["f2", ">f4", ">f8"])
def test_numbers_of_other_machines(tmp_path: Path, kind: str) -> None:
    changes = {"attr_data": CSR_LAYOUT["attr_data"].astype(kind)}
    changes |= {"adj_indices": CSR_LAYOUT["adj_indices"].astype(">i8")}
    changes |= {"attr_indices": CSR_LAYOUT["attr_indices"].astype("u8")}
    graph = read_npz(save(tmp_path / "g.npz", **CSR_LAYOUT | changes))
    assert graph.x.tolist() == [[1, 0], [0, 0], [2, 3]]
    assert graph.n_edges == 2


def test_a_matrix_without_entries_of_unsigned_indices(tmp_path: Path) -> None:
    empty = {
        "adj_data": np.zeros(0, np.float32),
        "adj_indices": np.zeros(0, np.uint64),
        "adj_indptr": np.zeros(4, np.uint64),
    }
    assert read_npz(save(tmp_path / "g.npz", **CSR_LAYOUT | empty)).n_edges == 0


def test_many_splits_take_time_by_their_number(tmp_path: Path) -> None:
    """The directory of the archive is read once, not once an array."""
    splits = {
        f"split_{number}_{part}": np.array([place])
        for number in range(300)
        for place, part in enumerate(PARTS)
    }
    graph = read_npz(save(tmp_path / "g.npz", **CSR_LAYOUT | splits))
    assert len(graph.splits) == 300
