"""networkx graphs and GraphML files."""

import re
import sys
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from h2gcn.exceptions import InputError
from h2gcn.io import (
    TableOptions,
    from_networkx,
    read_graph,
    read_graphml,
)
from support.cases import each
from support.refusals import refused


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
        ({}, {"features": ["town"]}, r"'town' must be numbers, got 'Rome'"),
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


def paid() -> nx.MultiDiGraph:
    """Return payments: two of a to b, one to itself, and what they carry."""
    graph = nx.MultiDiGraph()
    graph.add_edge("a", "b", amount=2, sure=True, kind="wire", big=1e300)
    graph.add_edge("a", "b", amount=3.5, sure=False, kind="card", big=1, odd=1)
    graph.add_edge("b", "b", amount=9, sure=True, kind="card", big=1, odd=1)
    return graph


def test_numbers_of_networkx_edges_are_kept() -> None:
    graph = from_networkx(paid())
    found = graph.edge_columns
    assert found is not None
    assert (found.source.tolist(), found.target.tolist()) == ([0, 0], [1, 1])
    assert found.names == ("amount", "sure")
    assert found.values.tolist() == [[2, 1], [3.5, 0]]
    assert found.directed
    assert graph.record.notes[-4:] == (
        "edge columns 'amount', 'sure' are kept for models that use what edges carry",
        "edge attribute 'kind' is left out: it is not a number",
        "edge attribute 'big' is left out: it is not finite, in 32 bits",
        "edge attribute 'odd' is left out: some edges do not have it",
    )
    both = from_networkx(nx.Graph(paid())).edge_columns
    assert both is not None
    assert not both.directed


def test_edge_attributes_by_name(tmp_path: Path) -> None:
    found = from_networkx(paid(), edge_features=["sure,amount"]).edge_columns
    assert found is not None
    assert found.names == ("sure", "amount")
    assert from_networkx(paid(), edge_features=()).edge_columns is None
    with pytest.raises(InputError, match=r"'amuont'\. Did you mean 'amount'"):
        from_networkx(paid(), edge_features=["amuont"])
    with pytest.raises(InputError, match=r"'kind' cannot be used: it is not a n"):
        from_networkx(paid(), edge_features=["kind"])
    nx.write_graphml(paid(), tmp_path / "paid.graphml")
    options = TableOptions(edge_features=("amount",))
    for source in (paid(), tmp_path / "paid.graphml"):
        read = read_graph(source, options=options).edge_columns
        assert read is not None
        assert read.names == ("amount",)
        assert read.values.tolist() == [[2], [3.5]]


def test_a_networkx_attribute_may_be_called_as_a_category() -> None:
    graph = nx.Graph()
    graph.add_edge("a", "b", **{"k=v": 7})
    found = from_networkx(graph).edge_columns
    assert found is not None
    assert found.numeric == ("k=v",)


def test_a_label_that_is_not_required_may_be_absent() -> None:
    graph = nx.path_graph(3)
    with pytest.raises(InputError, match="No node has an attribute 'species'"):
        from_networkx(graph, label="species")
    read = from_networkx(graph, label="species", label_required=False)
    assert read.labelled.size == 0


def test_graphml_without_networkx_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pets.graphml"
    nx.write_graphml(nx.path_graph(2), path)
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(InputError) as caught:
        read_graph(path)
    assert str(caught.value) == (
        f"{path}: to read GraphML, networkx is needed: pip install 'h2gcn[networkx]'"
    )


DIGITS = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="k" for="{where}" attr.name="n" attr.type="{kind}"/>
<graph edgedefault="undirected"><node id="a">{node}</node><node id="b">{node}</node>
<edge source="a" target="b">{edge}</edge></graph></graphml>"""


def digits(where: str, kind: str, count: int) -> str:
    data = f'<data key="k">{"9" * count}</data>'
    given = {"node": "", "edge": ""} | {where: data}
    return DIGITS.format(where=where, kind=kind, **given)


@pytest.mark.parametrize("kind", ["int", "long", "double", "boolean"])
@pytest.mark.parametrize("count", [400, 5000])
def test_graphml_numbers_of_hundreds_of_digits(
    tmp_path: Path, kind: str, count: int
) -> None:
    file = tmp_path / "g.graphml"
    file.write_text(digits("node", kind, count))
    with pytest.raises(InputError) as refused:
        read_graphml(file)
    message = str(refused.value)
    assert re.search(r"must be finite. Node 'a'|this is not GraphML", message)
    assert len(message) < 500 + len(str(file))


def test_graphml_edges_with_numbers_of_hundreds_of_digits(tmp_path: Path) -> None:
    file = tmp_path / "g.graphml"
    file.write_text(digits("edge", "int", 400))
    why = "edge attribute 'n' is left out: it is not finite, in 32 bits"
    assert why in read_graphml(file).record.notes


def test_networkx_nodes_that_are_huge_integers() -> None:
    graph = from_networkx(nx.Graph([(10**30, 1)]))
    assert graph.node_ids.tolist() == [str(10**30), "1"]


def test_networkx_attributes_of_odd_shapes() -> None:
    graph = pets()
    for number, node in enumerate(graph):
        graph.nodes[node]["one"] = np.array(number)
        graph.nodes[node]["mixed"] = [number] if number else number
        graph.nodes[node]["label"] = np.arange(2)
    made = from_networkx(graph, features=["mixed"])
    assert made.x.tolist() == [[n] for n in range(len(graph))]
    assert made.classes.tolist() == ["[0 1]"]
    with pytest.raises(InputError, match=r"'one' must be numbers, got array\(0\)"):
        from_networkx(graph, features=["one"])


def test_one_long_name_does_not_make_all_names_long() -> None:
    """An array of the longest times their number would be 16 GB."""
    graph = nx.path_graph([f"n{number}" for number in range(20_000)] + ["x" * 200_000])
    assert len(from_networkx(graph).node_ids[-1]) == 200_000


@each(
    ("attributes", "twice"),
    [({1: 1.0, "1": 2.0}, "1"), ({"v": [1.0, 2.0], "v[0]": 3.0}, "v[0]")],
)
def test_two_node_attributes_that_make_features_of_one_name_are_refused(
    attributes: dict[Any, Any], twice: str
) -> None:
    graph = nx.path_graph(2)
    nx.set_node_attributes(graph, dict.fromkeys(graph, attributes))
    with refused(param="features", value=twice, words="rename one of the node att"):
        from_networkx(graph)


def test_two_edge_attributes_of_one_name_are_refused() -> None:
    graph = nx.Graph()
    graph.add_edge("a", "b", **{"1": 5.0})
    graph.edges["a", "b"][1] = 7.0
    with refused(param="edge_features", value="1", words="rename one of the edge att"):
        from_networkx(graph)
    kept = from_networkx(graph, edge_features=["1", "1"]).edge_columns
    assert kept is not None
    assert (kept.names, kept.values.tolist()) == (("1",), [[5.0]])


def test_an_attribute_that_is_named_twice_is_one_feature() -> None:
    graph = from_networkx(pets(), features=["age", "age,vec"])
    assert graph.feature_names == ("age", "vec[0]", "vec[1]")
