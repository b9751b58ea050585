"""Files and objects of users, damaged and hostile: a graph or one line, nothing else.

Valid files are changed byte by byte, member by member with checksums made right again,
and value by value. A case passes where the outcome is a sound graph or an `InputError`
in one line, in little memory.
"""

import io
import json
import random
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import torch

from h2gcn import Graph
from h2gcn.exceptions import InputError
from h2gcn.graph import EdgeColumns, Split, fingerprint
from h2gcn.io import (
    TableOptions,
    from_networkx,
    from_scipy,
    read_edge_list,
    read_graph,
    read_tables,
    write_npz,
)

ROOM = 2**30
"""Bytes that readers may think are free."""
MOST = 4 * 2**30
"""Bytes that they may really take."""

Draw = random.Random


fuzzed = hypothesis.given(seed=st.integers(0, 2**32 - 1))


@pytest.fixture(autouse=True, scope="module")
def little_memory() -> Iterator[None]:
    """Have forecasts see one gigabyte, and the process get no more than four."""
    resource = pytest.importorskip("resource")
    psutil = pytest.importorskip("psutil")
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = psutil.Process().memory_info().vms
    patch = pytest.MonkeyPatch()
    patch.setattr("h2gcn.sparse.memory.available_memory", lambda: ROOM)
    patch.setattr("h2gcn.io.pyg.available_memory", lambda: ROOM)
    resource.setrlimit(resource.RLIMIT_AS, (used + MOST, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)
    patch.undo()


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def outcome(read: Callable[[], Graph]) -> str:
    """Return "read" or the message; whatever else happens is a failure."""
    with warnings.catch_warnings():
        # Sums that overflow in silence are damage too; what others deprecate is not.
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        try:
            graph = read()
        except InputError as error:
            message = str(error)
        else:
            check_sound(graph)
            return "read"
    assert "\n" not in message
    assert 0 < len(message) < 6000
    return message


def check_sound(graph: Graph) -> None:
    """Check what all rooms take for granted."""
    n = graph.n_nodes
    assert len(fingerprint(graph, directions=True)) == 64
    assert graph.adj.shape == (n, n)
    assert len(graph.node_ids) == len(graph.y) == n
    assert len(graph.feature_names) == graph.n_features
    assert graph.y.max(initial=-1) < graph.n_classes
    x = graph.x if isinstance(graph.x, np.ndarray) else graph.x.data
    assert np.isfinite(x).all()
    assert all(isinstance(said, str) for said in graph.record.sentences())
    TableOptions.from_json(graph.record.tables)
    json.dumps(dict(graph.record.tables))
    assert "Graph(" in repr(graph)


# ------------------------------------------------------------------------------ damage

ODD = (
    *("", " ", "-1", "0", "nan", "inf", "-inf", "1e400", "9" * 30, "9" * 5000, "\t"),
    *("99999999999", "1.5", "\x00", "٣", "1_0", "0x1", "True", '"', "'", "\n", "\r"),
    *("{", "}", "#", "%", ",", ";", "|", "\ufeff", "\u2028", "=1+1", "é" * 70, "null"),
    *("<a>", "&amp;", "]]>", "../x", "id", "label", "source", "target", "a=b", "3e38"),
    "x" * 200_000,
)
"""Texts that have surprised readers of tables."""


def flip(content: bytes, draw: Draw) -> bytes:
    """Change some bits."""
    changed = bytearray(content or b"\0")
    for _ in range(draw.choice([1, 1, 2, 8, 64])):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def cut(content: bytes, draw: Draw) -> bytes:
    """Leave out a part, often the end."""
    first, last = sorted(draw.choices(range(len(content) + 1), k=2))
    return content[:first] + (b"" if draw.random() < 0.5 else content[last:])


def repeat(content: bytes, draw: Draw) -> bytes:
    """Have a part twice."""
    first, last = sorted(draw.choices(range(len(content) + 1), k=2))
    return content[:last] + content[first:]


def insert(content: bytes, draw: Draw) -> bytes:
    """Put a strange text somewhere."""
    at = draw.randrange(len(content) + 1)
    word = draw.choice(ODD).encode("utf-8", "surrogatepass")
    return content[:at] + word + content[at:]


def replace_cell(content: bytes, draw: Draw) -> bytes:
    """Put a strange text in the place of a cell."""
    text = content.decode("latin-1")
    separator = draw.choice([",", "\n", " ", "\t"])
    cells = text.split(separator)
    cells[draw.randrange(len(cells))] = draw.choice(ODD)
    return separator.join(cells).encode("utf-8", "replace")


def enlarge(content: bytes, draw: Draw) -> bytes:
    """Write a large number over four or eight bytes."""
    size = draw.choice([4, 8])
    at = draw.randrange(max(1, len(content) - size))
    largest = draw.choice([2**31 - 1, 2**31, 2**32 - 1, 10**9, 2**30, 2**16])
    return content[:at] + largest.to_bytes(size, "little") + content[at + size :]


BYTES = (flip, cut, repeat, insert, enlarge)
TEXTS = (flip, cut, repeat, insert, replace_cell, replace_cell)


def damaged(content: bytes, ways: tuple[Any, ...], draw: Draw) -> bytes:
    """Return a content after one or two changes."""
    for _ in range(draw.choice([1, 1, 1, 2])):
        content = draw.choice(ways)(content, draw)
    return content


def with_members(archive: bytes, draw: Draw, *, compress: bool = False) -> bytes:
    """Return an archive of which a member is damaged, gone or another's content.

    Its checksums are right again.
    """
    with zipfile.ZipFile(io.BytesIO(archive)) as given:
        members = {info.filename: given.read(info) for info in given.infolist()}
    name = draw.choice(list(members))
    how = draw.random()
    if how < 0.1:
        del members[name]
    elif how < 0.25:
        members[name] = members[draw.choice(list(members))]
    else:
        members[name] = damaged(members[name], BYTES, draw)
    target = io.BytesIO()
    kind = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(target, "w", kind) as new:
        for key, content in members.items():
            new.writestr(key, content)
    return target.getvalue()


# ------------------------------------------------------------------------ valid files

NODES = (
    "id,label,age,income,city\n007,cat,1.5,10,Rome\nb,,2,20,Oslo\nc,dog,3,30,\n"
    'd,cat,4,40,"a,b"\ne,dog,5,50,Rome\n'
)
EDGES = "source,target,amount,kind\n007,b,1.5,wire\nb,c,2,cash\nc,d,3,wire\nd,e,4,\n"
LIST = "# a remark\n% another\n1 2\n2   3\n  3 4 {'w': 1}\n4 5 \n\n1 6\n"
LABELS = "id label\n1 cat\n2 dog\n3 cat\n7 dog\n"


def graph() -> Graph:
    """Return a graph that has everything."""
    adj = np.zeros((5, 5), dtype=np.float32)
    for u, v in ((0, 1), (1, 2), (2, 3), (3, 4)):
        adj[u, v] = adj[v, u] = 1
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    carried = EdgeColumns([0, 1], [1, 2], [[1.5, 1], [2, 0]], ("amount", "kind=a"))
    return Graph(
        x=x,
        adj=adj,
        directed=sp.csr_array(np.triu(adj)),
        y=[0, 1, -1, 1, 0],
        classes=["cat", "dog"],
        node_ids=["007", "b", "c", "d", "e"],
        feature_names=("a", "b", "c"),
        splits=(Split([0], [1], [3]), Split([1], [0], [4])),
        edge_columns=carried,
    )


@cache
def npz_arrays() -> dict[str, np.ndarray]:
    with tempfile.TemporaryDirectory() as name:
        write_npz(graph(), Path(name) / "g.npz")
        with np.load(Path(name) / "g.npz") as arrays:
            return dict(arrays)


def platonov_arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    masks = rng.integers(0, 3, (2, 5))
    return {
        "node_features": rng.normal(size=(5, 3)).astype(np.float32),
        "node_labels": np.array([0, 1, 0, 1, 1]),
        "edges": np.array([[0, 1], [1, 2], [2, 3], [3, 4]]),
        "train_masks": masks == 0,
        "val_masks": masks == 1,
        "test_masks": masks == 2,
    }


@cache
def scipy_arrays() -> dict[str, np.ndarray]:
    with tempfile.TemporaryDirectory() as name:
        sp.save_npz(Path(name) / "g.npz", sp.csr_array(graph().adj))
        with np.load(Path(name) / "g.npz") as arrays:
            return dict(arrays)


def archive(arrays: dict[str, Any]) -> bytes:
    target = io.BytesIO()
    np.savez(target, **arrays)
    return target.getvalue()


def tensors() -> dict[str, Any]:
    mask = torch.tensor([0, 1, 2, 0, 1])
    return {
        "x": torch.arange(15.0).reshape(5, 3),
        "edge_index": torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]]),
        "y": torch.tensor([0, 1, -1, 1, 0]),
        "edge_attr": torch.ones(4, 2),
        "train_mask": mask == 0,
        "val_mask": mask == 1,
        "test_mask": mask == 2,
    }


def saved(content: Any) -> bytes:
    target = io.BytesIO()
    torch.save(content, target)
    return target.getvalue()


def pyg_data() -> Any:
    from torch_geometric.data import Data

    return Data(**tensors())


def digraph() -> Any:
    made = nx.DiGraph()
    for name, label, age in (("a", "cat", 1), ("b", "dog", 2), ("c", "cat", 3)):
        made.add_node(name, label=label, age=age, weight=age / 2, tag="t", old=age > 1)
    made.add_edge("a", "b", amount=1.5, count=2)
    made.add_edge("b", "c", amount=2.5, count=3)
    return made


def graphml() -> bytes:
    return "\n".join(nx.generate_graphml(digraph())).encode()


def parquet(columns: dict[str, Any]) -> bytes:
    target = io.BytesIO()
    pq.write_table(pa.table(columns), target)
    return target.getvalue()


PARQUET_NODES = {
    "id": ["007", "b", "c", "d"],
    "label": ["cat", None, "dog", "cat"],
    "age": [1.5, 2.0, 3.0, 4.0],
}
PARQUET_EDGES = {"source": ["007", "b"], "target": ["b", "c"], "amount": [1, 2]}


# ------------------------------------------------------------------------------- tests


def test_what_is_not_damaged_is_read(folder: Path) -> None:
    contents = {
        "a.npz": archive(npz_arrays()),
        "b.npz": archive(platonov_arrays()),
        "a.pt": saved(tensors()),
        "b.pt": saved(pyg_data()),
        "a.graphml": graphml(),
        "a.edgelist": LIST.encode(),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
        assert outcome(lambda name=name: read_graph(folder / name)) == "read"
    (folder / "nodes.csv").write_text(NODES)
    (folder / "edges.csv").write_text(EDGES)
    assert outcome(lambda: read_graph(folder)) == "read"


def options(draw: Draw) -> TableOptions:
    """Return some way to read tables."""
    given: dict[str, Any] = {}
    if draw.random() < 0.3:
        given["categorical"] = draw.choice([("city",), ("city", "age"), ("label",)])
    if draw.random() < 0.2:
        given["feature_columns"] = draw.choice([("age",), ("age,income",), ()])
    if draw.random() < 0.2:
        given["edge_categorical"] = ("kind",)
    for name in ("drop_unknown", "undirected", "fill_missing"):
        given[name] = draw.random() < 0.3
    return TableOptions(**given)


@fuzzed
def test_text_tables(seed: int) -> None:
    draw = Draw(seed)
    with tempfile.TemporaryDirectory() as name:
        nodes, edges = Path(name) / "nodes.csv", Path(name) / "edges.csv"
        content = {nodes: NODES, edges: EDGES}
        mark = draw.choice([",", ",", ";", "\t", "|"])
        suffix = ".tsv" if mark == "\t" else ".csv"
        files = []
        broken = draw.choice([nodes, edges])
        for file, text in content.items():
            raw = text.replace(",", mark).encode()
            raw = damaged(raw, TEXTS, draw) if file == broken else raw
            files.append(file.with_suffix(suffix))
            files[-1].write_bytes(raw)
        outcome(lambda: read_tables(*files, options(draw)))


ODD_COLUMNS: tuple[Callable[[int], Any], ...] = (
    lambda n: pa.array([None] * n),
    lambda n: pa.array([True] * n),
    lambda n: pa.array([b"\xff\x00"] * n),
    lambda n: pa.array([[1, 2]] * n),
    lambda n: pa.array([{"a": 1}] * n),
    lambda n: pa.array([float("nan"), float("inf"), 3e38, -1e300][:n]),
    lambda n: pa.array([2**63] * n, pa.uint64()),
    lambda n: pa.array([-(2**63)] * n, pa.int64()),
    lambda n: pa.array(["x" * 70_000] * n),
    lambda n: pa.array(["1"] * n).dictionary_encode(),
    lambda n: pa.array([10**12] * n, pa.timestamp("us")),
    lambda n: pa.array([1] * n, pa.duration("s")),
    lambda n: pa.array([1.5] * n, pa.float16()),
    lambda n: pa.array(range(n), pa.int8()),
    lambda n: pa.array(["\ud800".encode("utf-8", "surrogatepass")] * n),
)


@fuzzed
def test_parquet_tables(seed: int) -> None:
    draw = Draw(seed)
    with tempfile.TemporaryDirectory() as name:
        files = {}
        broken = draw.choice(["nodes", "edges"])
        for stem, given in (("nodes", PARQUET_NODES), ("edges", PARQUET_EDGES)):
            columns: dict[str, Any] = dict(given)
            values = draw.random() < 0.5
            if stem == broken and values:
                key = draw.choice([*columns, "other", ""])
                n = len(columns["source" if stem == "edges" else "id"])
                columns[key] = draw.choice(ODD_COLUMNS)(n)
            content = parquet(columns)
            if stem == broken and not values:
                content = damaged(content, BYTES, draw)
            files[stem] = Path(name) / f"{stem}.parquet"
            files[stem].write_bytes(content)
        outcome(lambda: read_tables(**files, options=options(draw)))


ODD_ARRAYS: tuple[Any, ...] = (
    *(np.array(7), np.array("x"), np.array([]), np.zeros((0, 3)), np.zeros((3, 0))),
    *(np.full(5, np.nan), np.full(5, np.inf), np.full((5, 3), 3e38), np.full(5, 1e300)),
    *(np.array(["a"] * 5), np.array([b"a"] * 5), np.array(["x" * 300] * 5)),
    *(np.array([2**63] * 5, np.uint64), np.array([-(2**63)] * 5), np.ones(5, bool)),
    *(np.ones((5, 5, 5)), np.array([0, 9, 1]), np.array([-1, 0]), np.arange(5) + 0.5),
    *(np.array([1 + 2j] * 5), np.array(["2020-01-01"] * 5, "M8[D]"), np.ones(5, "f2")),
    *(np.zeros(5, "i4,f4"), np.array([10**12, 10**12]), np.array([5, 10**12])),
    *(np.ones((5, 3), ">f4"), np.arange(5, dtype=">i8"), np.arange(5, dtype=np.int8)),
    *(np.array("{}"), np.array("[" * 5000), np.array('{"notes": 1}'), np.array("null")),
    np.asfortranarray(np.ones((5, 3))),
    np.ones(5, np.longdouble),
)


@fuzzed
def test_npz(seed: int) -> None:
    draw = Draw(seed)
    layout = draw.choice([npz_arrays, npz_arrays, platonov_arrays, scipy_arrays])
    arrays: dict[str, Any] = dict(layout())
    how = draw.random()
    if how < 0.5:
        for _ in range(draw.choice([1, 1, 2])):
            key = draw.choice([*arrays, "train_masks", "split_train", "record"])
            if draw.random() < 0.15 and key in arrays:
                del arrays[key]
            elif draw.random() < 0.3 and key in arrays:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    kind = draw.choice(["f8", "f2", "U", "i1", "u8", "bool", "S"])
                    try:
                        arrays[key] = arrays[key].astype(kind)
                    except (TypeError, ValueError):
                        arrays[key] = arrays[key].reshape(-1)[::-1]
            else:
                arrays[key] = draw.choice(ODD_ARRAYS)
        content = archive(arrays)
    elif how < 0.8:
        content = with_members(archive(arrays), draw, compress=draw.random() < 0.5)
    else:
        content = damaged(archive(arrays), BYTES, draw)
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "g.npz"
        file.write_bytes(content)
        outcome(lambda: read_graph(file))


def odd_tensors() -> tuple[Any, ...]:
    sparse = torch.eye(5).to_sparse()
    with torch.sparse.check_sparse_tensor_invariants(False):
        outside = torch.sparse_coo_tensor([[0], [10**6]], [1.0], (5, 3))
    return (
        *(None, 7, "x", [], [1, 2], {"a": 1}, (1, 2), torch.tensor(3), float("nan")),
        *(torch.empty(0), torch.ones(5), torch.ones(5, 3, 2), torch.ones(0, 3)),
        *(torch.full((5, 3), torch.nan), torch.full((5, 3), 3e38), sparse, outside),
        *(torch.full((5, 3), 1e300, dtype=torch.float64), torch.ones(5, 3).bfloat16()),
        *(torch.ones(5, 3).to_sparse_csr(), torch.ones(5, 3, dtype=torch.complex64)),
        *(torch.ones(1, 1).expand(5, 10**8), torch.ones(1, 1).expand(10**8, 3)),
        *(torch.ones(5, 1).expand(5, 10**7), torch.tensor([[0, 9], [1, 1]])),
        *(torch.tensor([[0, -1], [1, 1]]), torch.tensor([[0.0, 1], [1, 1]])),
        *(torch.tensor([0, 1, 0, 1, 2**62]), torch.tensor([0.5] * 5), torch.eye(5)),
        *(torch.ones(5, 3, device="meta"), torch.ones(5, 3).half(), sparse.t()),
        torch.quantize_per_tensor(torch.ones(5, 3), 0.1, 0, torch.qint8),
    )


@pytest.mark.filterwarnings("ignore")
@fuzzed
def test_pt(seed: int) -> None:
    draw = Draw(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        content: Any = tensors()
        how = draw.random()
        if how < 0.5:
            for _ in range(draw.choice([1, 1, 2])):
                key = draw.choice([*content, "edge_weight"])
                if draw.random() < 0.1:
                    content.pop(key, None)
                else:
                    content[key] = draw.choice(odd_tensors())
        if draw.random() < 0.3:
            from torch_geometric.data import Data

            content = Data(**content)
        elif draw.random() < 0.1:
            content = draw.choice([(content, None), (content, {"x": 1}), [content], ()])
        raw = saved(content)
    if 0.5 <= how < 0.85:
        raw = with_members(raw, draw, compress=draw.random() < 0.1)
    elif how >= 0.85:
        raw = damaged(raw, BYTES, draw)
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "g.pt"
        file.write_bytes(raw)
        outcome(lambda: read_graph(file))


@fuzzed
def test_graphml(seed: int) -> None:
    draw = Draw(seed)
    words = (b"string", b"int", b"long", b"double", b"boolean", b"float", b"xs:int")
    content = graphml()
    if draw.random() < 0.5:
        content = content.replace(draw.choice(words[:4]), draw.choice(words))
    if draw.random() < 0.5:
        cells = content.split(b">")
        at = draw.randrange(len(cells))
        odd = draw.choice(ODD).encode()
        cells[at] = odd + cells[at][cells[at].find(b"<") :]
        content = b">".join(cells)
    else:
        content = damaged(content, TEXTS, draw)
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "g.graphml"
        file.write_bytes(content)
        outcome(lambda: read_graph(file))


@fuzzed
def test_edge_lists_and_labels(seed: int) -> None:
    draw = Draw(seed)
    with tempfile.TemporaryDirectory() as name:
        edges, labels = Path(name) / "g.edgelist", Path(name) / "labels.txt"
        given = {edges: LIST, labels: LABELS}
        broken = draw.choice([edges, edges, labels])
        for file, text in given.items():
            mark = draw.choice([" ", "\t", ","]) if file == broken else " "
            raw = text.replace(" ", mark).encode()
            file.write_bytes(damaged(raw, TEXTS, draw) if file == broken else raw)
        with_labels = broken == labels or draw.random() < 0.5
        undirected = draw.random() < 0.5
        outcome(
            lambda: read_edge_list(
                edges, labels if with_labels else None, undirected=undirected
            )
        )


ODD_VALUES: tuple[Any, ...] = (
    *(None, True, -1, 10**400, -(10**400), 1.5, float("nan"), float("inf"), 1e300, ""),
    *("x", [], [1, 2], [1, "a"], (1.0,), {"a": 1}, b"\xff", np.ones(3), np.array(2)),
    *(1 + 2j, np.float32(3e38), np.int64(5), [[1], [2]], object, "9" * 400, {1}),
)


@fuzzed
def test_networkx_objects(seed: int) -> None:
    draw = Draw(seed)
    made = draw.choice([nx.DiGraph, nx.Graph, nx.MultiGraph])(digraph())
    for _ in range(draw.choice([1, 1, 2, 3])):
        value = draw.choice(ODD_VALUES)
        key = draw.choice(["label", "age", "weight", "new", 7, ("a", "b")])
        how = draw.random()
        if how < 0.5:
            made.nodes[draw.choice(list(made.nodes))][key] = value
        elif how < 0.7:
            for node in made.nodes:
                made.nodes[node][key] = value
        elif how < 0.9:
            for *_, carried in made.edges(data=True):
                carried[key] = value
        else:
            made.add_edge("a", draw.choice([1, "1", (1, 2), 10**30, 1.5, "a", ""]))
    features = draw.choice([None, None, ["age"], ["new"], ["age, weight"], []])
    outcome(lambda: from_networkx(made, features=features))


@fuzzed
def test_features_in_a_file(seed: int) -> None:
    draw = Draw(seed)
    target = io.BytesIO()
    given = np.arange(15, dtype=np.float32).reshape(5, 3)
    if draw.random() < 0.4:
        given = draw.choice(ODD_ARRAYS)
    np.save(target, given)
    content = target.getvalue()
    if draw.random() < 0.7:
        content = damaged(content, BYTES, draw)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "nodes.csv").write_text(NODES)
        (folder / "edges.csv").write_text(EDGES)
        (folder / "x.npy").write_bytes(content)
        outcome(lambda: read_graph(folder, features=folder / "x.npy"))


@fuzzed
def test_matrices(seed: int) -> None:
    draw = Draw(seed)
    whole = graph()
    given: dict[str, Any] = {"adj": whole.adj, "x": whole.x, "y": whole.y}
    for _ in range(draw.choice([1, 1, 2])):
        value = draw.choice(ODD_ARRAYS)
        if draw.random() < 0.2 and value.ndim == 2 and value.dtype == np.float64:
            value = sp.coo_array(value)
        given[draw.choice(list(given))] = value
    outcome(lambda: from_scipy(**given))
