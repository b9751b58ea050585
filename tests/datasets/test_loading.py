"""The benchmarks: found, checked, and the same graphs as PyG reads."""

import hashlib
import json
import sys
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from h2gcn.cli.console import download_bar
from h2gcn.datasets import DATASETS, SIZES, data_root, is_dataset, load_dataset
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.experiments.runs import open_graph
from support.commands import Run
from support.serving import serving
from support.tiny_benchmarks import AT_HAND
from support.webkb import write_tiny_webkb


def test_an_unknown_name_offers_the_nearest() -> None:
    with pytest.raises(InputError, match=r"no dataset 'texsa'\. Did you mean 'texas'"):
        load_dataset("texsa")


def serve_from(folder: Path, request: BaseHTTPRequestHandler) -> None:
    """Answer with a file of a folder."""
    file = folder / request.path.rpartition("/")[2]
    request.send_response(200 if file.is_file() else 404)
    content = file.read_bytes() if file.is_file() else b""
    request.send_header("Content-Length", str(len(content)))
    request.end_headers()
    request.wfile.write(content)


def at(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """Let texas be downloaded from an address."""
    info = DATASETS["texas"]
    files = {file: f"{address}/{file}" for file in info.files}
    monkeypatch.setitem(DATASETS, "texas", replace(info, files=files))


def test_missing_files_are_named_with_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(lambda _: None) as server:
        at(monkeypatch, server.address)
    with pytest.raises(InputError) as caught:
        load_dataset("texas", root=tmp_path)
    assert str(caught.value) == (
        f"texas: its files are not in {tmp_path / 'texas' / 'raw'} "
        "('out1_node_feature_label.txt', 'out1_graph_edges.txt' and 10 more), and "
        "downloading failed: "
        f"{server.address}/out1_node_feature_label.txt: there is no connection to "
        "127.0.0.1; or set $H2GCN_DATA to a folder that has them"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_looked_at_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    root = tmp_path / ("a" * 300)
    for name in ("texas", "syn-cora/h0.10-r1"):
        with pytest.raises(InputError, match=r"^root .*names have at most 255 bytes"):
            load_dataset(name, root=root)
    monkeypatch.setenv("H2GCN_DATA", str(root))
    with pytest.raises(InputError, match=r"^root .*names have at most 255 bytes"):
        open_graph("texas")
    assert run("datasets") == (
        2,
        "",
        f"h2gcn: error: {root}: cannot be read (File name too long)\n",
    )


def test_the_cornell_of_2020_is_never_downloaded(tmp_path: Path) -> None:
    # Whoever downloads gets the repaired file: its figures are another dataset's.
    with pytest.raises(InputError, match=r"cornell-2020: .*cannot be downloaded"):
        load_dataset("cornell-2020", root=tmp_path)


def test_a_download_is_read_from_its_raw_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (there := tmp_path / "there").mkdir()
    write_tiny_webkb(there, "texas")
    sums = {
        f"texas/raw/{file.name}": hashlib.sha256(file.read_bytes()).hexdigest()
        for file in there.iterdir()
    }
    monkeypatch.setattr("h2gcn.datasets.raw_files.known_checksums", lambda: sums)
    monkeypatch.delitem(SIZES, "texas")
    root, told = tmp_path / "root", set()
    with serving(lambda request: serve_from(there, request)) as server:
        at(monkeypatch, server.address)
        graph = load_dataset(
            "texas", root=root, progress=lambda file, *_: told.add(file)
        )
        assert len(server.asked) == 12
        load_dataset("texas", root=root)
        assert len(server.asked) == 12
    assert told == {file.name for file in there.iterdir()}
    assert graph.name == "texas"
    assert graph.n_nodes == 4
    assert graph.x.toarray().tolist() == [[1, 0], [0, 1], [0, 0], [1, 1]]
    assert graph.y.tolist() == [0, 1, 1, 0]
    assert graph.record.duplicates_merged == 1
    assert graph.record.loops_dropped == 1
    assert len(graph.splits) == 10
    assert graph.splits[0].test.tolist() == [3]


@pytest.fixture
def tiny_texas(tmp_path: Path) -> Path:
    """Return a root with a texas that is not the known one."""
    folder = tmp_path / "texas" / "raw"
    folder.mkdir(parents=True)
    write_tiny_webkb(folder, "texas")
    return tmp_path


def test_other_files_are_read_by_who_trusts_them(
    tiny_texas: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r"texas: .* is not the known file: its SHA"):
        load_dataset("texas", root=tiny_texas)
    with pytest.warns(H2GCNWarning, match="they are read all the same"):
        assert load_dataset("texas", root=tiny_texas, trust_data=True).n_nodes == 4
    monkeypatch.setenv("H2GCN_TRUST_DATA", "1")
    with pytest.warns(H2GCNWarning, match="they are read all the same"):
        assert load_dataset("texas", root=tiny_texas).n_nodes == 4
    with pytest.raises(InputError, match="is not the known file"):
        load_dataset("texas", root=tiny_texas, trust_data=False)
    with pytest.raises(InputError, match=r"^trust_data must"):
        load_dataset("texas", root=tiny_texas, trust_data="yes")  # type: ignore[arg-type]


def test_the_command_line_says_it_in_flags(
    tiny_texas: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setenv("H2GCN_DATA", str(tiny_texas))
    code, out, err = run("diagnose", "texas", "--no-fit", "--json")
    assert (code, json.loads(out)["exit_code"]) == (2, 2)
    assert err.count("\n") == 1
    assert "is not the known file: its SHA-256 is " in err
    assert "if it can be trusted, --trust-data (or $H2GCN_TRUST_DATA=1) reads it" in err
    code, _, err = run("diagnose", "texas", "--no-fit", "--json", "--trust-data")
    assert code == 0
    assert "h2gcn: note: texas: " in err
    code, _, err = run("diagnose", tiny_texas / "own.npz", "--trust-data")
    assert (code, err) == (
        2,
        "h2gcn: error: --trust-data is for datasets: files of your own have no known "
        "checksums\n",
    )


def test_the_features_of_generate_are_checked_too(
    tiny_texas: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setenv("H2GCN_DATA", str(tiny_texas))
    asked = ("generate", "--features", "texas", "--nodes", 4, "--classes", 2)
    asked = (*asked, "--edges-per-node", 1, "--out", tiny_texas / "out.npz")
    code, _, err = run(*asked)
    assert code == 2
    assert "is not the known file" in err
    code, _, err = run(*asked, "--trust-data")
    assert (code, "they are read all the same" in err) == (0, True)


def test_a_bar_is_shown_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with download_bar() as progress:
        assert progress is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with download_bar() as progress:
        assert progress is not None
        progress("first.txt", 500, 0)
        progress("nodes.txt", 500, 2000)
    out, err = capsys.readouterr()
    assert out == ""
    assert "nodes.txt" in err
    assert "0.5/2.0 kB" in err


def test_the_list_tells_what_is_checked(run: Run) -> None:
    import json

    code, out, _ = run("datasets", "--json")
    assert code == 0
    checked = {
        row["name"]: row["checksums_known"] for row in json.loads(out)["datasets"]
    }
    assert {name for name, known in checked.items() if known} == {
        *(set(AT_HAND) - {"cornell", "chameleon", "squirrel"}),
        "syn-cora/hX.XX-rN",
    }
    code, out, _ = run("datasets")
    assert "Sums: the checksums of all files are known" in out
    sums = {
        line.split()[0]: line.split()[2] for line in out.splitlines() if "  acc" in line
    }
    assert (sums["texas"], sums["cornell"], sums["penn94"]) == ("yes", "copy", "no")


def test_the_list_tells_how_large_they_are(run: Run) -> None:
    import json

    listed = json.loads(run("datasets", "--json")[1])["datasets"]
    told = {row["name"]: row for row in listed}
    assert told["ogbn-arxiv"]["published"] == {
        **{"nodes": 169_343, "edges": 1_166_243, "classes": 40}
    }
    assert told["reed98"]["published"] is None
    assert told["ogbn-arxiv"]["tested_on"] == "its format"
    assert told["cornell"]["tested_on"] == told["texas"]["tested_on"] == "its files"
    assert "22,662" in run("datasets")[1]


def test_the_list_fits_a_narrow_terminal(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("H2GCN_DATA", str(tmp_path))
    (tmp_path / "reed98" / "raw").mkdir(parents=True)
    (tmp_path / "reed98" / "raw" / "data.mat").touch()
    code, out, _ = run("datasets")
    assert code == 0
    lines = out.splitlines()[1:]
    assert max(map(len, lines)) <= 80
    rows = {line.split()[0]: line.split()[1:4] for line in lines if line.strip()}
    for name in DATASETS:  # none of them is cut or wrapped
        assert rows[name][0] == ("yes" if name == "reed98" else "no")
    assert rows["genius"] == ["no", "no", "AUC"]
    assert [line for line in lines if line in SOURCES] == SOURCES


SOURCES = list(dict.fromkeys(info.source for info in DATASETS.values()))


def test_the_list_tells_sources_and_licences(run: Run) -> None:
    import json

    listed = json.loads(run("datasets", "--json")[1])["datasets"]
    told = {row["name"]: (row["source"], row["licence"]) for row in listed}
    assert told["ogbn-arxiv"] == ("Hu et al. 2020 (OGB)", "ODC-BY")
    assert told["texas"] == ("Zhu et al. 2020", None)
    assert told["syn-cora/hX.XX-rN"] == ("Zhu et al. 2020", None)


@pytest.mark.filterwarnings("ignore:.*no SHA-256 of theirs is known")
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
    graph = load_dataset("cora-full", root=tmp_path, trust_data=True)
    assert [split.sizes for split in graph.splits] == [(10, 10, 20)] * 3
    assert graph.n_edges == n - 1
    told = "no split inside; 3 of 25/25/50 are drawn, class by class"
    assert graph.record.notes[0] == told


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


PYG: dict[str, tuple[str, str, dict[str, Any]]] = {
    "texas": ("WebKB", "", {"name": "texas"}),
    "wisconsin": ("WebKB", "", {"name": "wisconsin"}),
    "cornell": ("WebKB", "", {"name": "cornell"}),
    "cornell-2020": ("WebKB", "paper-2020", {"name": "cornell"}),
    "actor": ("Actor", "actor", {}),
    "chameleon": ("WikipediaNetwork", "", {"name": "chameleon"}),
    "squirrel": ("WikipediaNetwork", "", {"name": "squirrel"}),
    "cora": ("Planetoid", "", {"name": "Cora", "split": "geom-gcn"}),
    "citeseer": ("Planetoid", "", {"name": "CiteSeer", "split": "geom-gcn"}),
    "pubmed": ("Planetoid", "", {"name": "PubMed", "split": "geom-gcn"}),
    "minesweeper": ("HeterophilousGraphDataset", "", {"name": "Minesweeper"}),
    "tolokers": ("HeterophilousGraphDataset", "", {"name": "Tolokers"}),
    "cora-full": ("CitationFull", "", {"name": "Cora"}),
    "roman-empire": ("HeterophilousGraphDataset", "", {"name": "Roman-empire"}),
    "amazon-ratings": ("HeterophilousGraphDataset", "", {"name": "Amazon-ratings"}),
    "questions": ("HeterophilousGraphDataset", "", {"name": "Questions"}),
    "penn94": ("LINKXDataset", "", {"name": "penn94"}),
    "amherst41": ("LINKXDataset", "", {"name": "amherst41"}),
    "cornell5": ("LINKXDataset", "", {"name": "cornell5"}),
    "johns-hopkins55": ("LINKXDataset", "", {"name": "johnshopkins55"}),
    "reed98": ("LINKXDataset", "", {"name": "reed98"}),
    "genius": ("LINKXDataset", "", {"name": "genius"}),
    "coauthor-cs": ("Coauthor", "", {"name": "CS"}),
    "coauthor-physics": ("Coauthor", "", {"name": "Physics"}),
    "amazon-photo": ("Amazon", "", {"name": "Photo"}),
    "amazon-computers": ("Amazon", "", {"name": "Computers"}),
    **{
        name: ("GraphLandDataset", "", {"name": name, "split": "RL"})
        for name, info in DATASETS.items()
        if "GraphLand" in info.source
    },
}
"""PyG's class of each benchmark, where its root is under ours, and its arguments."""


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")
def test_the_addresses_are_those_of_pyg(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch_geometric.datasets

    asked: list[str] = []
    modules = ("webkb", "actor", "wikipedia_network", "heterophilous_graph_dataset")
    later = ("citation_full", "linkx_dataset", "coauthor", "amazon", "graphland")
    for module in (*modules, *later):
        place = f"torch_geometric.datasets.{module}.download_url"
        monkeypatch.setattr(place, lambda url, *_, **__: asked.append(url))
    for name in ("extract_zip", "os.unlink"):
        place = f"torch_geometric.datasets.graphland.{name}"
        monkeypatch.setattr(place, lambda *_: None)
    place = "torch_geometric.datasets.planetoid.fs.cp"
    monkeypatch.setattr(place, lambda url, *_: asked.append(url))
    nothing = {"_process": lambda *_: None, "load": lambda *_, **__: None}
    for name in set(PYG) - {"cornell-2020"}:
        asked.clear()
        class_name, _, arguments = PYG[name]
        kind = getattr(torch_geometric.datasets, class_name)
        type("Asking", (kind,), nothing)(str(tmp_path / name), **arguments)
        ours = {str(at).partition("#")[0] for at in DATASETS[name].files.values()}
        if name == "genius":  # of its splits PyG knows nothing
            ours -= {str(DATASETS[name].files["genius-splits.npy"])}
        assert set(asked) == ours, name


@pytest.mark.data
@pytest.mark.parametrize("name", AT_HAND)
def test_the_graphs_are_those_that_pyg_reads(
    data_root: Path, tmp_path: Path, name: str
) -> None:
    import torch_geometric.datasets
    from torch_geometric.utils import remove_self_loops, to_undirected

    class_name, subfolder, arguments = PYG[name]
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


def test_an_altered_synthetic_graph_is_refused(tmp_path: Path) -> None:
    from h2gcn.datasets import generate_graph
    from h2gcn.io import write_npz

    (tmp_path / "syn-cora").mkdir()
    write_npz(generate_graph(n_nodes=50), tmp_path / "syn-cora" / "h0.10-r1.npz")
    with pytest.raises(InputError, match=r"h0.10-r1.npz is not the known file"):
        load_dataset("syn-cora/h0.10-r1", root=tmp_path)
    with pytest.warns(H2GCNWarning, match="read all the same"):
        graph = load_dataset("syn-cora/h0.10-r1", root=tmp_path, trust_data=True)
    assert graph.n_nodes == 50
