"""Damaged files of benchmarks: one line with the file, the rule and what was found."""

import gzip
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from h2gcn.datasets import ProductsFeatures, load_dataset
from h2gcn.exceptions import InputError
from support.commands import Run
from support.tiny_benchmarks import PRODUCTS, TINY, write_files

pytestmark = pytest.mark.filterwarnings("ignore:.*they are read all the same")

NODES, EDGES = "out1_node_feature_label.txt", "out1_graph_edges.txt"
SPLIT = "texas_split_0.6_0.2_3.npz"
HEAD = "node_id\tfeature\tlabel\n"


def put(root: Path, name: str, file: str, content: bytes | str) -> Path:
    """Write a tiny benchmark with one file changed; return that file."""
    write_files(root, TINY[name])
    (path,) = root.rglob(file)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def said_of(root: Path, name: str, file: str, content: bytes | str) -> str:
    """Return the message about a benchmark with one file changed."""
    path = put(root, name, file, content)
    with pytest.raises(InputError) as caught:
        load_dataset(name, root=root, trust_data=True)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path}: "), message
    return message.removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        (NODES, "", "there are no nodes in it."),
        (NODES, "half of it", "there are no nodes in it."),
        (NODES, b"head\n\xff\t1\t0\n", "the file is damaged ('utf-8' codec can't"),
        (
            *(NODES, HEAD + "0\t1,0\t0\n1\t1,0\n"),
            "a line must hold id, features, label, 3 cells, got 2 in line 3",
        ),
        (NODES, HEAD + "0\t1,0\tx\n", "the file is damaged (invalid literal"),
        (NODES, HEAD + "0\t1,0\t0\n0\t1,0\t0\n", "the node ids must be 0 to 1, each"),
        (NODES, HEAD + "99999999999\t1,0\t0\n", "the node ids must be 0 to 0, each"),
        (NODES, HEAD + f"{10**30}\t1,0\t0\n", "the file is damaged (Python int too"),
        (NODES, HEAD + f"{'9' * 5000}\t1,0\t0\n", "the file is damaged (Exceeds the"),
        (
            *(NODES, HEAD + "0\t1,0\t0\n1\t1\t0\n"),
            "every node must have the same number of values, at most 1,000,000, "
            "got 1 to 2",
        ),
        (NODES, HEAD + "0\t1,one\t0\n", "the file is damaged (could not convert"),
        (NODES, HEAD + "0\tnan,1\t0\n", "the values must be finite in single"),
        (NODES, HEAD + "0\t1e39,1\t0\n", "the values must be finite in single"),
        (
            EDGES,
            "head\n0\t1\n0\n",
            "a line must hold source, target, 2 cells, got 1",
        ),
        (EDGES, "head\n0\t1.5\n", "the file is damaged (invalid literal for int()"),
        (EDGES, "head\n0\t4\n", "targets must lie in 0 … 3, as there are 4 nodes, got"),
        (
            EDGES,
            "head\n-1\t0\n",
            "sources must lie in 0 … 3, as there are 4 nodes, got",
        ),
        (SPLIT, b"", "the file is empty."),
        (SPLIT, b"half of it", "this is not an npz archive, or it is cut short."),
    ],
)
def test_text_files(tmp_path: Path, file: str, content: str, said: str) -> None:
    assert said_of(tmp_path, "texas", file, content).startswith(said)


def test_words_are_numbers_of_columns(tmp_path: Path) -> None:
    for words, found in (("0,99999999999", "0 to 99999999999"), ("-1,3", "-1 to 3")):
        content = HEAD + "".join(f"{node}\t{words}\t0\n" for node in range(4))
        assert said_of(tmp_path, "actor", NODES, content) == (
            f"the numbers of words must be 0 to 999,999, got {found}"
        )


@pytest.mark.parametrize(
    ("masks", "said"),
    [
        ({"val_mask": None}, "'val_mask' is missing."),
        (
            {"val_mask": np.ones(3)},
            "val_mask must be [4], numbers, got shape (3,) and dtype float64",
        ),
        (
            {"val_mask": np.array(["a"] * 4)},
            "val_mask must be [4], numbers, got shape (4,) and dtype <U1",
        ),
    ],
)
def test_splits(tmp_path: Path, masks: dict[str, Any], said: str) -> None:
    whole = {f"{part}_mask": np.ones(4) for part in ("train", "val", "test")} | masks
    np.savez(tmp_path / "m.npz", **{k: v for k, v in whole.items() if v is not None})
    content = (tmp_path / "m.npz").read_bytes()
    assert said_of(tmp_path / "root", "texas", SPLIT, content) == said


def flipped(name: str) -> bytes:
    """Return the one file of a benchmark with a bit flipped in what is compressed."""
    (content,) = TINY[name].values()
    place = content.index(
        b"node_labels.npy" if name == "minesweeper" else b"labels.npy"
    )
    changed = bytearray(content)
    changed[place + 40] ^= 0xFF
    return bytes(changed)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("minesweeper", "minesweeper.npz"),
        ("cora-full", "cora.npz"),
        ("syn-cora/h0.10-r1", "h0.10-r1.npz"),
    ],
)
def test_a_flipped_bit_in_an_archive(tmp_path: Path, name: str, file: str) -> None:
    assert said_of(tmp_path, name, file, flipped(name)).startswith(
        "the archive cannot be read"
    )


def test_a_flipped_bit_is_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    path = put(tmp_path, "minesweeper", "minesweeper.npz", flipped("minesweeper"))
    monkeypatch.setenv("H2GCN_DATA", str(tmp_path))
    code, out, err = run("diagnose", "minesweeper", "--trust-data")
    *notes, error = err.splitlines()
    assert (code, out, len(notes)) == (2, "", 1)
    assert error.startswith(f"h2gcn: error: {path}: the archive cannot be read (")


# ------------------------------------------------------------------------- Planetoid


def test_a_tiny_planetoid_graph(tmp_path: Path) -> None:
    write_files(tmp_path, TINY["cora"])
    with pytest.warns(match="not that of the known files"):
        graph = load_dataset("cora", root=tmp_path, trust_data=True)
    # The first row of tx is node 4, the second node 2; node 3 is described nowhere.
    assert graph.x.toarray().tolist() == [[1, 0], [0, 2], [4, 0], [0, 0], [0, 3]]
    assert graph.y.tolist() == [0, 1, 1, -1, 0]
    assert graph.n_edges == 3
    assert graph.record.duplicates_merged == 1
    assert graph.splits[9].val.tolist() == [1]  # and not node 3, which has no label


INDEX = "it must hold the 2 nodes of tx, each once, in 2 to 5, got "


@pytest.mark.parametrize(
    ("part", "content", "said"),
    [
        ("test.index", "", INDEX),
        ("test.index", "4\n4\n", INDEX),
        ("test.index", "4\n1\n", INDEX),
        ("test.index", "4\n99999999999\n", INDEX),
        ("test.index", "4\ntwo\n", "the file is damaged (invalid literal for int()"),
        ("allx", pickle.dumps(np.eye(3))[:-20], "not a pickle of arrays"),
        ("allx", pickle.dumps([1]), "it must hold a matrix."),
        (
            "tx",
            pickle.dumps(np.eye(2, 3), 4),
            "must have 2 columns, as allx has, got",
        ),
        ("ally", pickle.dumps(np.eye(3), 4), "must be [2, classes], got shape (3, 3)"),
        (
            "ty",
            pickle.dumps(np.zeros((2, 0)), 4),
            "must be [2, classes], got shape",
        ),
        (
            "graph",
            pickle.dumps({0: [5]}),
            "targets must lie in 0 … 4, as",
        ),
        ("graph", pickle.dumps({0: [10**30]}), "the file is damaged (Python int too"),
    ],
)
def test_planetoid_files(
    tmp_path: Path, part: str, content: bytes | str, said: str
) -> None:
    assert said_of(tmp_path, "cora", f"ind.cora.{part}", content).startswith(said)


# ---------------------------------------------------------------------- ogbn-products

FEATURES, LABELS = PRODUCTS  # their places


def packed(text: bytes) -> bytes:
    """Return a packed text, the same at any time."""
    return gzip.compress(text, mtime=0)


@pytest.mark.parametrize(
    ("place", "content", "said"),
    [
        (LABELS, packed(b""), "the file is damaged (Empty CSV file)"),
        (LABELS, packed(b"0\n1.5\n"), "labels must be whole numbers"),
        (LABELS, packed(b"0\n1e30\n"), "labels must be whole numbers"),
        (LABELS, packed(b"0\nnan\n"), "it must hold finite numbers"),
        (LABELS, PRODUCTS[LABELS][:15], "the file is damaged"),
        (FEATURES, b"no gzip", "the file is damaged (Not a gzipped file"),
        (FEATURES, packed(b"1,2\n3\n"), "the file is damaged"),
        (
            FEATURES,
            packed(b"1\n"),
            "it has 1 rows, fewer than node-label",
        ),
        (
            FEATURES,
            packed(b"," * 10**6),
            "it must have at most 1,000,000",
        ),
    ],
)
def test_products_files(tmp_path: Path, place: str, content: bytes, said: str) -> None:
    write_files(tmp_path, PRODUCTS | {place: content})
    with pytest.raises(InputError) as caught:
        ProductsFeatures(tmp_path).draw(np.array([0, 1]), np.random.default_rng(0))
    assert str(caught.value).startswith(f"{tmp_path / place}: {said}")


def test_labels_of_products_are_not_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("h2gcn.datasets.synthetic.MOST_ROWS", 3)
    write_files(tmp_path, PRODUCTS)
    with pytest.raises(InputError) as caught:
        ProductsFeatures(tmp_path).draw(np.array([0, 1]), np.random.default_rng(0))
    assert str(caught.value) == f"{tmp_path / LABELS}: must hold at most 3 labels"


@pytest.mark.parametrize("content", [b"", b"damaged", None])
def test_drawn_rows_that_are_damaged_are_drawn_again(
    tmp_path: Path, content: bytes | None
) -> None:
    write_files(tmp_path, PRODUCTS)

    def draw() -> list[list[float]]:
        y = np.array([0, 1, 1])
        x, _ = ProductsFeatures(tmp_path).draw(y, np.random.default_rng(0))
        return x.tolist()  # type: ignore[no-any-return]

    first = draw()
    (kept,) = (tmp_path / "ogbn_products" / "drawn").iterdir()
    if content is None:
        np.save(kept, np.zeros((2, 2)))
    else:
        kept.write_bytes(content)
    assert draw() == first
    assert np.load(kept).tolist() == first
