"""Predictions and graphs as tables come back."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from h2gcn import Graph
from h2gcn.exceptions import InputError
from h2gcn.io import (
    atomic_write,
    prediction_table,
    read_graph,
    write_prediction_blocks,
    write_predictions,
    write_tables,
)

PROBABILITIES = np.array([[0.75, 0.25], [0.5, 0.5]], dtype=np.float32)


def test_predictions_as_csv(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    write_predictions(path, ["007", "b"], ["x", "y"], PROBABILITIES, ["x", "y"])
    assert path.read_text() == ("node,label,p_x,p_y\n007,x,0.75,0.25\nb,y,0.5,0.5\n")


def test_predictions_with_quotes(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    write_predictions(path, ['a "b"', "c,d"], [1, 2], PROBABILITIES, ["1,5", 2])
    assert path.read_text() == (
        'node,label,"p_1,5",p_2\n"a ""b""",1,0.75,0.25\n"c,d",2,0.5,0.5\n'
    )


def test_predictions_as_parquet(tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    ids = np.array(["007", "b"], dtype=object)
    write_predictions(path, ids, np.array([3, 4]), PROBABILITIES, [3, 4])
    assert pq.read_table(path).to_pydict() == {
        "node": ["007", "b"],
        "label": [3, 4],
        "p_3": [0.75, 0.5],
        "p_4": [0.25, 0.5],
    }


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["", "ä\N{GRINNING FACE}", "z"]),
        np.array(["x", 3, None], dtype=object),
        np.array([1, -2, 3], dtype=np.int16),
        np.array([1.5, -2.0, 3.0], dtype=">f8"),
        np.arange(6)[::2],
        np.array([True, False, True]),
    ],
)
def test_a_column_is_what_arrow_makes_of_it(labels: NDArray[Any]) -> None:
    nobody = np.zeros((3, 0), dtype=np.float32)
    found = prediction_table(np.arange(3), labels, nobody, np.array([]))["label"]
    texts = labels.astype(str) if labels.dtype.kind == "O" else labels
    wanted = pa.array(texts.astype(texts.dtype.newbyteorder("=")))
    found.validate(full=True)
    assert found.combine_chunks().equals(wanted)


def test_predictions_call_the_ids_as_asked(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    labels = ["x", "y"]
    for id_column, head in {
        "Person, id": '"Person, id",label,p_x,p_y',
        # Names that other columns have.
        "label": "node,label,p_x,p_y",
        "p_x": "node,label,p_x,p_y",
        "": "node,label,p_x,p_y",
    }.items():
        write_predictions(
            path, ["a", "b"], labels, PROBABILITIES, labels, id_column=id_column
        )
        assert path.read_text() == f"{head}\na,x,0.75,0.25\nb,y,0.5,0.5\n"
    blocks = [(np.array([1, 0]), np.array([0, 0]), PROBABILITIES)]
    write_prediction_blocks(
        path, np.array([" a", "b"]), np.array(labels), blocks, id_column="key"
    )
    assert path.read_text() == "key,label,p_x,p_y\nb,x,0.75,0.25\n a,x,0.5,0.5\n"


def test_predictions_mistakes(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"p\.xlsx: .*\.csv or \.parquet"):
        write_predictions(tmp_path / "p.xlsx", ["a"], ["x"], [[1.0]], ["x"])
    with pytest.raises(InputError, match=r"p: .*\.parquet, got ''"):
        write_predictions(tmp_path / "p", ["a"], ["x"], [[1.0]], ["x"])
    message = (
        r"^-: nothing is written to standard output; the file name must end in \.csv "
        r"or \.parquet$"
    )
    with pytest.raises(InputError, match=message):
        write_predictions("-", ["a"], ["x"], [[1.0]], ["x"])
    with pytest.raises(InputError, match=r"2 nodes and 3 classes, got shape \(2, 2\)"):
        write_predictions(
            tmp_path / "p.csv", ["a", "b"], ["x", "x"], PROBABILITIES, "xyz"
        )
    assert list(tmp_path.iterdir()) == []


def example(directed: bool = False, sparse: bool = False) -> Graph:
    adj = sp.csr_array(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=np.float32))
    x = np.array([[0.1, 1], [0, -2.5e-8], [1 / 3, 0]], dtype=np.float32)
    return Graph(
        x=sp.csr_array(x) if sparse else x,
        adj=adj,
        directed=sp.csr_array(sp.tril(adj)) if directed else None,
        y=[1, -1, 0],
        classes=np.array(["ham, raw", "spam"]),
        node_ids=np.array(["007", "b", "ü"]),
        feature_names=("f", "g=1"),
    )


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_tables_come_back(tmp_path: Path, directed: bool, sparse: bool) -> None:
    graph = example(directed, sparse)
    write_tables(graph, tmp_path / "pets")
    back = read_graph(tmp_path / "pets")
    dense = graph.x.toarray() if sparse else graph.x
    assert np.array_equal(back.x, dense)
    assert np.array_equal(back.y, graph.y)
    assert back.classes.tolist() == graph.classes.tolist()
    assert back.node_ids.tolist() == graph.node_ids.tolist()
    assert back.feature_names == graph.feature_names
    assert back.name == "pets"
    assert (back.adj != graph.adj).nnz == 0
    if directed:
        assert (back.directed != graph.directed).nnz == 0
    else:
        assert back.directed is None
    write_tables(back, tmp_path / "again")
    for name in ("nodes.csv", "edges.csv"):
        first, second = tmp_path / "pets" / name, tmp_path / "again" / name
        assert first.read_bytes() == second.read_bytes()


def test_tables_as_text(tmp_path: Path, small_graph: Graph) -> None:
    write_tables(small_graph, tmp_path)
    edges = (tmp_path / "edges.csv").read_text().splitlines()
    assert edges[:3] == ["source,target", "0,1", "0,3"]
    assert len(edges) == 1 + 2 * small_graph.n_edges
    assert (tmp_path / "nodes.csv").read_text().startswith("id,label,0,1,2,3\n0,0,")


def test_tables_mistakes(tmp_path: Path) -> None:
    graph = example()
    object.__setattr__(graph, "feature_names", ("label", "g"))
    with pytest.raises(InputError, match="would be 'label'; rename"):
        write_tables(graph, tmp_path / "x")
    with pytest.raises(InputError, match=r"cannot make this folder \(No such"):
        write_tables(example(), tmp_path / "gone" / "x")


def test_a_full_disk_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("old")
    with (
        pytest.raises(InputError, match=r"old.csv: cannot be written \(No space"),
        atomic_write(tmp_path / "old.csv"),
    ):
        raise OSError(28, "No space left on device")
    assert [path.name for path in tmp_path.iterdir()] == ["old.csv"]
    assert (tmp_path / "old.csv").read_text() == "old"


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_no_prediction_is_written_that_is_not_finite(
    tmp_path: Path, bad: float
) -> None:
    target = tmp_path / "p.csv"
    shares = np.full((8, 2), 0.5, dtype=np.float32)
    shares[1, 0] = shares[7, 1] = bad
    ids, labels, classes = np.arange(8), np.full(8, "x"), np.array(["x", "y"])
    told = "The probabilities of these nodes are not: '1', '7'."
    with pytest.raises(InputError, match=told):
        write_predictions(target, ids, labels, shares, classes)
    blocks = [
        (np.arange(4), np.zeros(4, dtype=np.int64), np.full((4, 2), 0.5, np.float32)),
        (np.arange(4), np.zeros(4, dtype=np.int64), shares[:4]),
    ]
    with pytest.raises(InputError, match="Predictions must be finite; nothing is wri"):
        write_prediction_blocks(target, ids, classes, blocks)
    assert list(tmp_path.iterdir()) == []
