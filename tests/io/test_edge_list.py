"""Plain edge lists."""

from pathlib import Path

import pytest

from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.io import (
    edge_list,
    read_edge_list,
    read_graph,
)


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
        (b"a\nb\n", "must hold source and target, got 'a'"),
        (b"a b\n# c\na b c\n", "line 3 has 3 columns, those before have 2"),
        (b"a b\n\xff c\n", r"not UTF-8 \(byte 4, line 2\)"),
    ],
)
def test_broken_edge_lists(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"bad\.txt: .*{message}"):
        read_edge_list(path)


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("c d " + "{" * 10**6, "line 2 has 3 columns"),
        ("c d " + "{" * 10**6 + "}" * 10**6 + " x", "line 2 has 4 columns"),
        ("c d " + "{" * 10**6 + "}" * 10**6, None),
        ("c" + " " * 10**6 + "d", None),
        ("c d" + " " * 10**6 + "e", "line 2 has 3 columns"),
        (" " * 10**6 + "c d" + "\t" * 10**6, None),
        (" " * 10**6 + "# a remark", "c d is not there"),
    ],
)
def test_long_lines_take_time_by_their_length(
    tmp_path: Path, line: str, outcome: str | None
) -> None:
    """A reader that looks back from each sign of a line would take hours."""
    file = tmp_path / "g.edgelist"
    file.write_text(f"a b\n{line}\n")
    if outcome is None:
        assert read_edge_list(file).node_ids.tolist() == ["a", "b", "c", "d"]
    elif outcome == "c d is not there":
        assert read_edge_list(file).node_ids.tolist() == ["a", "b"]
    else:
        with pytest.raises(InputError, match=outcome):
            read_edge_list(file)


@pytest.mark.parametrize("name", ["g.edgelist", "g.graphml"])
def test_a_file_that_memory_cannot_hold_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / name).write_text("a b\n" * 1000)
    monkeypatch.setattr("h2gcn.sparse.memory.available_memory", lambda: 5000)
    with pytest.raises(InputError, match=r"would take about .* and 5\.0 kB are free"):
        read_graph(tmp_path / name)


def test_a_long_list_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "g.edgelist").write_text("a b\n")
    monkeypatch.setattr(edge_list, "MANY_BYTES", 3)
    with pytest.warns(H2GCNWarning, match="4 bytes are being read, which takes a wh"):
        read_edge_list(tmp_path / "g.edgelist")
