"""The benchmarks: found, checked, and the same graphs as PyG reads."""

import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

from h2gcn.datasets import DATASETS, checksum, data_root, is_dataset, load_dataset
from h2gcn.datasets.planetoid import RestrictedUnpickler, read_planetoid
from h2gcn.exceptions import H2GCNWarning, InputError
from support.webkb import write_tiny_webkb

HERE = [name for name in DATASETS if name != "cora-full"]


def test_an_unknown_name_offers_the_nearest() -> None:
    with pytest.raises(InputError, match=r"no dataset 'texsa'\. Did you mean 'texas'"):
        load_dataset("texsa")


def test_missing_files_are_named_with_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch_geometric.datasets

    class Offline:
        def __init__(self, *_: object, **__: object) -> None:
            raise OSError("no network\nat all")

    monkeypatch.setattr(torch_geometric.datasets, "WebKB", Offline)
    with pytest.raises(InputError, match=r"12 of its files .*failed \(no network\)"):
        load_dataset("texas", root=tmp_path)


def test_without_pyg_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    with pytest.raises(InputError) as caught:
        load_dataset("texas", root=tmp_path)
    assert str(caught.value) == (
        f"texas: 12 of its files are not in {tmp_path / 'texas' / 'raw'} "
        "(out1_node_feature_label.txt, …); to download them, PyG is needed: "
        "pip install 'h2gcn[pyg]', or set $H2GCN_DATA to a folder that has them"
    )


def test_the_cornell_of_2020_is_never_downloaded(tmp_path: Path) -> None:
    # Whoever downloads gets the repaired file: its figures are another dataset's.
    with pytest.raises(InputError, match=r"cornell-2020: .*cannot be downloaded"):
        load_dataset("cornell-2020", root=tmp_path)


def test_a_download_is_read_from_its_raw_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch_geometric.datasets

    class Online:
        def __init__(self, root: str, name: str) -> None:
            folder = Path(root) / name / "raw"
            folder.mkdir(parents=True)
            write_tiny_webkb(folder, name)
            self._process()
            self.load(folder / "pickled")

        def _process(self) -> None:
            raise AssertionError("what was downloaded is read by us alone")

    monkeypatch.setattr(torch_geometric.datasets, "WebKB", Online)
    with pytest.warns(H2GCNWarning, match="not the ones of the catalogue"):
        graph = load_dataset("texas", root=tmp_path)
    assert graph.name == "texas"
    assert graph.n_nodes == 4
    assert graph.x.toarray().tolist() == [[1, 0], [0, 1], [0, 0], [1, 1]]
    assert graph.y.tolist() == [0, 1, 1, 0]
    assert graph.record.duplicates_merged == 1
    assert graph.record.loops_dropped == 1
    assert len(graph.splits) == 10
    assert graph.splits[0].test.tolist() == [3]


def test_cora_full_has_three_splits_of_its_own(tmp_path: Path) -> None:
    import scipy.sparse as sp

    folder = tmp_path / "cora" / "raw"
    folder.mkdir(parents=True)
    n = 40
    adj = sp.csr_array(np.diag(np.ones(n - 1), 1))
    attr = sp.csr_array(np.eye(n))
    parts = {}
    for name, matrix in (("adj", adj), ("attr", attr)):
        parts |= {
            f"{name}_data": matrix.data,
            f"{name}_indices": matrix.indices,
            f"{name}_indptr": matrix.indptr,
            f"{name}_shape": np.array(matrix.shape),
        }
    np.savez(folder / "cora.npz", labels=np.arange(n) % 2, **parts)
    graph = load_dataset("cora-full", root=tmp_path)
    assert [split.sizes for split in graph.splits] == [(10, 10, 20)] * 3
    assert graph.n_edges == n - 1


def test_planetoid_pickles_cannot_run_anything(tmp_path: Path) -> None:
    class Payload:
        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return Path.touch, (tmp_path / "executed",)

    (tmp_path / "ind.cora.test.index").write_text("0\n1\n")
    (tmp_path / "ind.cora.allx").write_bytes(pickle.dumps(Payload()))
    with pytest.raises(InputError, match=r"ind.cora.allx: the pickle names .*pathlib"):
        read_planetoid(tmp_path, "cora")
    assert not (tmp_path / "executed").exists()


def test_planetoid_pickles_cannot_forge_memory(tmp_path: Path) -> None:
    # ndarray(shape, dtype('O'), buffer) would take bytes for the address of an object.
    forged = b"cnumpy\nndarray\n((I1\ntcnumpy\ndtype\n(S'O'\ntR(S'AAAAAAAA'\ntR."
    (tmp_path / "ind.cora.test.index").write_text("0\n1\n")
    (tmp_path / "ind.cora.allx").write_bytes(forged)
    with pytest.raises(InputError, match=r"ind.cora.allx: not a Planetoid file"):
        read_planetoid(tmp_path, "cora")


def test_a_truncated_pickle_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "ind.cora.test.index").write_text("0\n1\n")
    (tmp_path / "ind.cora.allx").write_bytes(pickle.dumps(np.eye(3))[:-20])
    with pytest.raises(InputError, match="not a Planetoid file"):
        read_planetoid(tmp_path, "cora")


def test_the_unpickler_reads_arrays_lists_and_dictionaries(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(pickle.dumps({1: [2, 3], "x": np.eye(2)}, protocol=3))
    with path.open("rb") as file:
        read = RestrictedUnpickler(file).load()
    assert read[1] == [2, 3]
    assert (read["x"] == np.eye(2)).all()


def test_the_root_is_the_environment_s_or_the_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("H2GCN_DATA", "/somewhere")
    assert data_root() == Path("/somewhere")
    monkeypatch.delenv("H2GCN_DATA")
    assert data_root().parts[-2:] == ("h2gcn", "data")


def test_names() -> None:
    assert is_dataset("texas")
    assert is_dataset("syn-cora/h0.10-r1")
    assert not is_dataset("syn-cora/nonsense")
    with pytest.raises(InputError, match="generate_graph makes graphs"):
        load_dataset("syn-cora/h0.10-r1", root="nowhere")
    with pytest.raises(InputError, match=r"Did you mean 'syn-cora/h0\.10-r"):
        load_dataset("syn-cora/h0.1-r1", root="nowhere")


@pytest.mark.data
@pytest.mark.parametrize("name", HERE)
def test_the_files_are_those_of_the_catalogue(data_root: Path, name: str) -> None:
    info = DATASETS[name]
    assert checksum(data_root / info.folder / f for f in info.files) == info.checksum


@pytest.mark.data
@pytest.mark.parametrize("name", HERE)
def test_the_graphs_are_those_that_pyg_reads(
    data_root: Path, tmp_path: Path, name: str
) -> None:
    import torch_geometric.datasets
    from torch_geometric.utils import remove_self_loops, to_undirected

    old_cornell = ("WebKB", "paper-2020", {"name": "cornell"})
    class_name, subfolder, arguments = DATASETS[name].pyg or old_cornell
    # PyG writes beside its raw files: it gets a copy of their folder.
    folder = DATASETS[name].folder
    (tmp_path / folder).mkdir(parents=True)
    for file in DATASETS[name].files:
        (tmp_path / folder / file).symlink_to(data_root / folder / file)
    data = getattr(torch_geometric.datasets, class_name)(
        str(tmp_path / subfolder), **arguments
    )[0]
    graph = load_dataset(name, root=data_root)
    edges = to_undirected(remove_self_loops(data.edge_index)[0], num_nodes=len(data.y))
    ours = graph.adj.tocoo()
    assert np.array_equal(np.stack(ours.coords), edges.numpy())
    x = graph.x if isinstance(graph.x, np.ndarray) else graph.x.toarray()
    assert np.array_equal(x, data.x.numpy())
    labelled = graph.labelled
    assert np.array_equal(graph.y[labelled], data.y.numpy()[labelled])
    assert graph.n_nodes - labelled.size == (15 if name == "citeseer" else 0)
    for number, split in enumerate(graph.splits):
        for part, index in split.parts.items():
            mask = data[f"{part}_mask"][:, number].numpy()
            assert np.array_equal(index, np.intersect1d(np.flatnonzero(mask), labelled))


@pytest.mark.data
def test_syn_cora_is_the_authors(data_root: Path) -> None:
    graph = load_dataset("syn-cora/h0.10-r1", root=data_root)
    assert (graph.n_nodes, graph.n_edges, graph.n_classes) == (1490, 2968, 5)
    assert graph.splits[0].sizes == (375, 370, 745)


@pytest.mark.data
def test_texas_lone_class_is_in_no_training_part_of_two_splits(data_root: Path) -> None:
    graph = load_dataset("texas", root=data_root)
    lone = np.flatnonzero(graph.y == 1)
    assert lone.size == 1
    tested = [i for i, split in enumerate(graph.splits) if lone[0] in split.test]
    assert tested == [2, 7]


@pytest.mark.parametrize(
    "file",
    [
        "out1_node_feature_label.txt",
        "out1_graph_edges.txt",
        "texas_split_0.6_0.2_3.npz",
    ],
)
@pytest.mark.parametrize("content", [b"", b"half of it"])
@pytest.mark.filterwarnings("ignore::h2gcn.exceptions.H2GCNWarning")
@pytest.mark.filterwarnings("ignore:loadtxt")
def test_damaged_files_are_one_line(tmp_path: Path, file: str, content: bytes) -> None:
    folder = tmp_path / "texas" / "raw"
    folder.mkdir(parents=True)
    write_tiny_webkb(folder, "texas")
    (folder / file).write_bytes(content)
    with pytest.raises(InputError, match=r"texas: a file in .* is damaged"):
        load_dataset("texas", root=tmp_path)


def test_an_altered_synthetic_graph_is_told(tmp_path: Path) -> None:
    from h2gcn.datasets import generate_graph
    from h2gcn.io import write_npz

    (tmp_path / "syn-cora").mkdir()
    write_npz(generate_graph(n_nodes=50), tmp_path / "syn-cora" / "h0.10-r1.npz")
    with pytest.warns(H2GCNWarning, match="not the ones of the catalogue"):
        load_dataset("syn-cora/h0.10-r1", root=tmp_path)
