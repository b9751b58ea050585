"""New nodes of a request: the graph that they make, and each mistake in a line."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from h2gcn import Graph, NodeClassifier, Split, read_graph
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import CSR
from h2gcn.io import TableOptions, convert, extend_graph, write_npz
from h2gcn.serving import Answers
from h2gcn.serving.answers import Growing
from support.refusals import refused
from support.town import town, town_model

NODES = "id,age,plan,label\nann,3,gold,yes\nbob,5,free,no\ncleo,7,,yes\ndan,9,gold,no\n"
EDGES = "source,target,amount,kind\nann,bob,20,wire\nbob,cleo,5,cash\ndan,ann,1,wire\n"


@pytest.fixture(scope="module")
def payments(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Return four people who have paid each other."""
    folder = tmp_path_factory.mktemp("payments")
    (folder / "nodes.csv").write_text(NODES)
    (folder / "edges.csv").write_text(EDGES)
    return read_graph(folder, options=TableOptions(categorical=("plan",)))


def grown(graph: Graph, nodes: Any, edges: Any = ()) -> tuple[Graph, list[str]]:
    """Return a graph with new nodes, and the notes."""
    made, ids, notes = Growing(graph, lambda _: "").grown(nodes, edges)
    assert ids == [str(node["id"]) for node in nodes]
    return made, notes


def test_rows_are_read_as_the_tables_would_be(payments: Graph, tmp_path: Path) -> None:
    nodes = [{"id": "x", "age": 4, "plan": "free"}, {"id": "y", "age": 1.5}]
    edges = [
        {"source": "x", "target": "ann", "amount": 3, "kind": "cash"},
        {"source": "dan", "target": "y", "amount": 8, "kind": "wire"},
        {"source": "x", "target": "y", "amount": 1, "kind": "wire"},
    ]
    made, notes = grown(payments, nodes, edges)
    (tmp_path / "nodes.csv").write_text(NODES + "x,4,free,\ny,1.5,,\n")
    more = "x,ann,3,cash\ndan,y,8,wire\nx,y,1,wire\n"
    (tmp_path / "edges.csv").write_text(EDGES + more)
    whole = read_graph(tmp_path, options=TableOptions(categorical=("plan",)))
    assert notes == []
    assert made.feature_names == whole.feature_names
    np.testing.assert_array_equal(made.x, whole.x)
    assert (made.adj != whole.adj).nnz == 0
    assert made.directed is not None
    assert (made.directed != whole.directed).nnz == 0
    assert made.node_ids.tolist() == whole.node_ids.tolist()
    assert made.edge_columns is not None
    assert whole.edge_columns is not None
    assert made.edge_columns.names == whole.edge_columns.names
    np.testing.assert_array_equal(made.edge_columns.values, whole.edge_columns.values)
    assert payments.n_nodes == 4  # it stays as it is


def test_a_category_that_is_not_known_counts_as_none(payments: Graph) -> None:
    made, notes = grown(payments, [{"id": "x", "age": 1, "plan": "silver"}])
    assert made.x[-1].tolist() == [1, 0, 0, 0]
    assert notes == ["plan=silver is no category that the graph has; it counts as none"]


def test_a_number_may_be_a_category_and_true_a_number(payments: Graph) -> None:
    names = ("age", "plan=1", "plan=2", "plan=3")
    graph = replace(payments, feature_names=names)
    made, _ = grown(graph, [{"id": 7, "age": True, "plan": 2}])
    assert made.x[-1].tolist() == [1, 0, 1, 0]
    assert made.node_ids[-1] == "7"


def test_a_missing_number_is_filled_as_in_training(payments: Graph) -> None:
    tables = dict(payments.record.tables) | {"fill_values": {"age": 6.0}}
    tables |= {"fill_missing": True}
    graph = replace(payments, record=replace(payments.record, tables=tables))
    for node in ({"id": "x"}, {"id": "x", "age": None}):
        made, _ = grown(graph, [node])
        assert made.x[-1].tolist()[0] == 6.0


def test_what_a_sparse_row_lacks_is_zero() -> None:
    graph = replace(town(), x=CSR(sp.csr_array(town().x)))
    made, _ = grown(graph, [{"id": "x", "income": 2}])
    assert isinstance(made.x, sp.csr_array)
    assert made.x[[-1]].toarray().tolist() == [[0, 2]]


def test_other_names_of_ids_and_ends_are_those_of_the_tables(payments: Graph) -> None:
    tables = dict(payments.record.tables)
    tables |= {"source_column": "payer", "target_column": "payee"}
    record = replace(payments.record, tables=tables, id_column="person")
    growing = Growing(replace(payments, record=record), lambda _: "")
    edge = {"payer": "x", "payee": "ann", "amount": 1, "kind": "wire"}
    made, ids, _ = growing.grown([{"person": "x", "age": 1}], [edge])
    assert ids == ["x"]
    assert made.adj[[4]].indices.tolist() == [0]


GOOD = {"id": "x", "age": 1}
EDGE = {"source": "x", "target": "ann", "amount": 1, "kind": "wire"}


@pytest.mark.parametrize(
    ("nodes", "edges", "told"),
    [
        ([{"age": 1}], [], r"^nodes\.0: lacks 'id', the id of a node$"),
        ([{"id": "", "age": 1}], [], r"^nodes\.0\.id: must be an id.* got ''"),
        ([{"id": 1.5, "age": 1}], [], r"^nodes\.0\.id: must be an id.* got 1\.5"),
        ([{"id": ["x"], "age": 1}], [], r"got a list of 1"),
        ([GOOD, GOOD], [], r"^nodes\.1: the id 'x' is there twice$"),
        (
            [GOOD | {"id": "bob"}],
            [],
            r"^nodes\.0: the id 'bob' is that of a known node",
        ),
        ([{"id": "x"}], [], r"^nodes\.0: lacks 'age', a number$"),
        ([GOOD | {"age": "old"}], [], r"^nodes\.0\.age: must be a finite.* got 'old'"),
        ([GOOD | {"age": 1e300}], [], r"^nodes\.0\.age: must be a finite number of 32"),
        ([GOOD | {"age": 10**400}], [], r"got an integer of more than 30 digits"),
        ([GOOD | {"age": {}}], [], r"got an object of 0"),
        ([GOOD | {"plan": 1.5}], [], r"^nodes\.0\.plan: must be text, a category"),
        ([GOOD | {"plan": True}], [], r"^nodes\.0\.plan: must be text, a category"),
        (
            [GOOD | {"agee": 1}],
            [],
            r"^nodes\.0: there is no column 'agee'\. Did you mean 'age'\?$",
        ),
        (
            [GOOD | {"zzz": 1}],
            [],
            r"^nodes\.0: there is no column 'zzz'\. There are age, plan\.$",
        ),
        ([GOOD], [{"source": "x"}], r"^edges\.0: lacks 'target', the id of a node$"),
        (
            [GOOD],
            [EDGE, EDGE | {"target": "eve"}],
            r"^edges\.1\.target: there is no node 'eve', neither known nor new\.$",
        ),
        ([GOOD], [EDGE | {"target": "x"}], r"^edges\.0: must join two nodes"),
        ([GOOD], [{"source": "x", "target": "ann"}], r"^edges\.0: lacks 'amount'"),
        ([GOOD], [EDGE | {"fee": 1}], r"^edges\.0: there is no column 'fee'"),
    ],
)
def test_a_mistake_is_one_line(
    payments: Graph, nodes: Any, edges: Any, told: str
) -> None:
    with pytest.raises(InputError, match=told):
        grown(payments, nodes, edges)


def test_features_that_were_made_of_edges_cannot_be_added_to(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,label\na,1\nb,2\n")
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    with pytest.raises(InputError, match="brought no features"):
        grown(read_graph(tmp_path), [{"id": "x"}])


# ---------------------------------------------------------------------- and predicted


def test_new_nodes_are_predicted_as_in_the_whole_graph() -> None:
    graph, model = town(), town_model()
    nodes = [
        {"id": "new", "age": 2.5, "income": -1},
        {"id": "newer", "age": 0, "income": 0.5},
    ]
    edges = [
        {"source": "new", "target": "hub"},
        {"source": "a00", "target": "new"},
        {"source": "newer", "target": "new"},
    ]
    found = Answers(model, graph).predict_new(nodes, edges)
    n = graph.n_nodes
    dense = np.zeros((n + 2, n + 2))
    assert graph.directed is not None
    dense[:n, :n] = graph.directed.toarray()
    dense[n, 0] = dense[1, n] = dense[n + 1, n] = 1
    whole = Graph(
        x=np.vstack([graph.x, [[2.5, -1], [0, 0.5]]]),
        adj=((dense + dense.T) > 0).astype(float),
        directed=dense,
        y=np.append(graph.y, [-1, -1]),
        classes=graph.classes,
        node_ids=np.append(graph.node_ids, ["new", "newer"]),
        feature_names=graph.feature_names,
    )
    expected = model.predict_proba(whole)[n:]
    told = [list(one.probabilities.values()) for one in found.predictions]
    np.testing.assert_allclose(told, expected, atol=2e-6)
    assert [one.id for one in found.predictions] == ["new", "newer"]
    assert [one.label for one in found.predictions] == (
        model.predict(whole)[n:].tolist()
    )
    assert [one.set for one in found.predictions] == [None, None]
    assert found.alpha is None
    assert found.coverage.startswith("no sets: ")


def test_what_is_noticed_of_new_nodes_is_told() -> None:
    graph = town()
    model = NodeClassifier("label-propagation", random_state=0).fit(graph)
    with pytest.warns(H2GCNWarning, match="1 node cannot be reached"):
        answers = Answers(model, graph)  # the one that is alone
    found = answers.predict_new([{"id": "x", "age": 1, "income": 1}], [])
    assert [note for note in found.notes if "cannot be reached" in note]
    assert set(found.predictions[0].probabilities.values()) == {0.5}


def test_new_nodes_of_a_graph_without_ids(small_graph: Graph) -> None:
    model = NodeClassifier("h2gcn-1", epochs=2, random_state=0).fit(small_graph)
    node = {"id": "x", "0": 1, "1": 2, "2": 3, "3": 4}
    edge = {"source": "x", "target": 3}
    found = Answers(model, small_graph).predict_new([node], [edge])
    assert [one.id for one in found.predictions] == ["x"]


def test_an_edge_to_nobody_tells_the_nearest() -> None:
    edge = {"source": "x", "target": "hud"}
    with pytest.raises(InputError, match=r"'hud', neither .* Did you mean 'hub'\?"):
        Answers(town_model(), town()).predict_new(
            [{"id": "x", "age": 1, "income": 1}], [edge]
        )


NAMED_NODES = (
    "customer,id,ratio=5,plan,label\n"
    "62,3,0.5,gold,yes\n5,1,1.5,free,no\n7,4,2.5,free,yes\n9,8,3.5,gold,no\n"
    "11,2,0.1,gold,yes\n13,6,2.2,free,no\n"
)
NAMED_EDGES = (
    "payer,payee,source,target,fee=1\n"
    "62,5,7,0.5,1\n5,7,62,1.5,3\n9,62,3,2.5,5\n11,13,9,0,2\n"
)


def test_named_columns_are_read_as_predict_reads_them(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(NAMED_NODES)
    (tmp_path / "edges.csv").write_text(NAMED_EDGES)
    options = TableOptions(
        id_column="customer",
        categorical=("plan",),
        source_column="payer",
        target_column="payee",
        edge_features=("source", "target", "fee=1"),
    )
    graph = read_graph(tmp_path, options=options)
    assert {"id", "ratio=5"} < set(graph.feature_names)
    assert graph.edge_columns is not None
    assert graph.edge_columns.names == ("source", "target", "fee=1")
    recipe = {"table": "ego+rings+edges", "C": 100.0}
    split = Split([0, 1, 2, 3], [4], [5])
    model = NodeClassifier("logistic", options=recipe, random_state=0)
    model.fit(graph, split)
    node = {"customer": "900", "id": 62, "ratio=5": 5, "plan": "gold"}
    edges = [
        {"payer": "62", "payee": "900", "source": 5, "target": 9, "fee=1": 3},
        {"payer": "900", "payee": "9", "source": 900, "target": 7, "fee=1": 0.5},
    ]
    (tmp_path / "new.csv").write_text("customer,id,ratio=5,plan\n900,62,5,gold\n")
    (tmp_path / "links.csv").write_text(
        "payer,payee,source,target,fee=1\n62,900,5,9,3\n900,9,900,7,0.5\n"
    )
    offline = extend_graph(graph, tmp_path / "new.csv", tmp_path / "links.csv")
    made, ids, notes = Growing(graph, lambda _: "").grown([node], edges)
    assert (ids, notes) == (["900"], [])
    np.testing.assert_array_equal(made.x, offline.x)
    assert (made.adj != offline.adj).nnz == 0
    assert made.edge_columns is not None
    assert offline.edge_columns is not None
    np.testing.assert_array_equal(made.edge_columns.values, offline.edge_columns.values)
    found = Answers(model, graph).predict_new([node], edges)
    served = list(found.predictions[0].probabilities.values())
    expected = model.predict_proba(offline, [graph.n_nodes])[0]
    np.testing.assert_allclose(served, expected, atol=2e-6)
    with pytest.raises(InputError, match="lacks 'ratio=5'"):
        Growing(graph, lambda _: "").grown([{"customer": "900", "id": 62}], [])


def test_generic_names_serve_where_no_column_has_them(payments: Graph) -> None:
    tables = dict(payments.record.tables) | {
        "source_column": "payer",
        "target_column": "payee",
    }
    record = replace(payments.record, tables=tables, id_column="person")
    growing = Growing(replace(payments, record=record), lambda _: "")
    edge = {"source": "x", "target": "ann", "amount": 1, "kind": "wire"}
    made, ids, _ = growing.grown([{"id": "x", "age": 1}], [edge])
    assert ids == ["x"]
    assert made.adj[[4]].indices.tolist() == [0]


@pytest.mark.parametrize("sparse", [False, True])
def test_a_number_of_no_table_may_have_a_sign_of_equality_in_its_name(
    sparse: bool,
) -> None:
    names = ["ratio=5", "kind=a", "kind=b"]
    x = np.array([[0.5, 1, 0], [3, 0, 1], [0, 0, 0]], dtype=np.float32)
    graph = Graph(
        x=CSR(x) if sparse else x,
        adj=np.ones((3, 3)) - np.eye(3),
        y=[0, 1, 0],
        node_ids=["p", "q", "r"],
        feature_names=names,
    )
    made, _ = grown(graph, [{"id": "x", "ratio=5": 4, "kind": "b"}])
    assert CSR(made.x).toarray()[-1].tolist() == [4, 0, 1]
    with refused(words="there is no column 'ratio'"):
        grown(graph, [{"id": "x", "ratio": "5"}])


def test_a_number_of_edges_beside_their_categories(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "edges.csv").write_text(
        "source,target,kind,kind=5\nann,bob,wire,1\nbob,cleo,cash,2\n"
    )
    graph = read_graph(tmp_path, options=TableOptions(edge_categorical=("kind",)))
    edge = {"source": "x", "target": "ann", "kind": "wire", "kind=5": 9}
    made, _ = grown(graph, [{"id": "x", "age": 1}], [edge])
    assert made.edge_columns is not None
    found = dict(
        zip(made.edge_columns.names, made.edge_columns.values[-1], strict=True)
    )
    assert found == {"kind=cash": 0, "kind=wire": 1, "kind=5": 9}


@pytest.mark.parametrize("form", ["tables", "store", "npz"])
def test_a_column_that_is_not_used_is_no_id(form: str, tmp_path: Path) -> None:
    tables = tmp_path / "nodes.csv", tmp_path / "edges.csv"
    tables[0].write_text("person,id,age,label\nann,bob,1,u\nbob,ann,2,v\n")
    tables[1].write_text("payer,payee,source,target\nann,bob,web,7\n")
    options = TableOptions(
        id_column="person",
        source_column="payer",
        target_column="payee",
        edge_features=(),
    )
    graph = read_graph(nodes=tables[0], edges=tables[1], options=options)
    assert graph.record.other_columns == ("id", "source", "target")
    if form == "npz":
        write_npz(graph, tmp_path / "graph.npz")
        graph = read_graph(tmp_path / "graph.npz")
    elif form == "store":
        built = tmp_path / "store"
        convert(folder=built, nodes=tables[0], edges=tables[1], options=options)
        graph = read_graph(built)
    growing = Growing(graph, lambda _: "")
    node, edge = {"person": "x", "age": 1}, {"payer": "x", "payee": "ann"}
    assert growing.grown([node], [edge])[1] == ["x"]
    with refused(words="nodes.0: lacks 'person', the id of a node"):
        growing.grown([{"id": "x", "age": 1}], [])
    with refused(words="edges.0: lacks 'payer', the id of a node"):
        growing.grown([node], [{"source": "x", "payee": "ann"}])
    with refused(words="edges.0: lacks 'payee', the id of a node"):
        growing.grown([node], [{"payer": "x", "target": "ann"}])
