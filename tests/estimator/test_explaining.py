"""Reasons: terms that sum to the logit, and what changes where they do not."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import h2gcn.estimator.automatic
from h2gcn import Graph, NodeClassifier, Split
from h2gcn.auto import Member
from h2gcn.datasets import GaussianFeatures, generate_graph
from h2gcn.estimator import Explanation, Importance, Term, find_node
from h2gcn.estimator.automatic import Answering
from h2gcn.estimator.explaining import Asked
from h2gcn.exceptions import InputError
from support.cases import each

NAMES = ("age", "income", "plan=basic", "plan=gold")


def made(seed: int = 0, *, directed: bool = True, n: int = 60) -> Graph:
    """Return a graph with ids, names, directions and three classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    x = rng.normal(size=(n, 4)).astype(np.float32)
    x[:, 0] += y
    x[:, 2] = rng.random(n) < 0.5
    x[:, 3] = 1 - x[:, 2]
    upper = np.triu(rng.random((n, n)) < 3 / n, 1)
    turned = np.where(rng.random((n, n)) < 0.5, upper, upper.T * 0)
    one_way = sp.csr_array((turned + (upper - turned).T).astype(np.float32))
    return Graph(
        x=x,
        adj=sp.csr_array((upper | upper.T).astype(np.float32)),
        directed=one_way if directed else None,
        y=y,
        classes=np.array(["honest", "fraud", "odd"]),
        node_ids=np.array([f"p{i:02}" for i in range(n)]),
        feature_names=NAMES,
        name="people",
    )


def fitted(model: str, graph: Graph, **params: Any) -> NodeClassifier:
    given = {"epochs": 8, "random_state": 0} | params
    if model in ("logistic", "boosted-trees", "label-propagation", "linbp"):
        given.pop("epochs")
    with np.errstate(all="ignore"):
        return NodeClassifier(model, **given).fit(graph)


EXACT = (
    ("logistic", {}),
    ("boosted-trees", {}),
    ("h2gcn-1", {}),
    ("h2gcn-2", {"activation": "none"}),
    ("h2gcn-1", {"ring_cap": 2}),
    ("mlp", {"activation": "none"}),
    ("sgc", {}),
    ("gpr-gnn", {}),
    ("ring-table", {}),
    ("sign", {}),
    ("c-ignn", {}),
    ("label-propagation", {}),
    ("linbp", {}),
    ("zoobp", {}),
    ("decoupled-smoothing", {}),
    ("logistic", {"options": {"table": "ego+ring1.sum+ring2+power2+loops2"}}),
    ("logistic", {"options": {"table": "ego+ring1.max+adjacency+ring1.sum"}}),
    ("logistic", {"ring_cap": 2}),
    ("ring-table", {"ring_cap": 2}),
)


def total(found: Explanation, terms: tuple[Term, ...] | None = None) -> np.ndarray:
    parts = found.terms if terms is None else terms
    start = np.zeros(len(found.classes))
    return sum((np.array(term.values) for term in parts), start)


def check_sums(found: Explanation) -> None:
    """Check that all terms sum to the whole, and their parts to them."""
    logits = np.array(found.logits)
    wanted = np.exp(logits) if found.of == "share" else logits
    np.testing.assert_allclose(total(found), wanted, atol=1e-5)
    at = found.classes.index(found.label)
    for term in found.terms:
        assert term.value == term.values[at]
        for parts in (term.columns, term.nodes):
            if parts:
                np.testing.assert_allclose(
                    total(found, parts), term.values, atol=1e-5, err_msg=term.name
                )
                inner = [abs(p.value) for p in parts if p.group != "rest"]
                assert inner == sorted(inner, reverse=True)


@pytest.mark.filterwarnings("ignore:.* cannot be reached", "ignore:.* same label")
@pytest.mark.parametrize(("model", "params"), EXACT, ids=str)
@each("draw", [0, 1])
def test_terms_sum_to_the_logit(model: str, params: dict[str, Any], draw: int) -> None:
    seed = 2 * EXACT.index((model, params)) + draw
    graph = made(seed)
    clf = fitted(model, graph, **params)
    for node in (seed % 60, (seed + 17) % 60):
        found = clf.explain(graph, node)
        assert found.exact
        check_sums(found)
        np.testing.assert_array_equal(
            np.float32(found.logits), clf.predict_logits(graph, [node])[0]
        )
        np.testing.assert_allclose(
            found.probabilities, clf.predict_proba(graph, [node])[0], rtol=1e-6
        )
        assert found.said == clf.predict(graph, [node])[0] == found.label
        assert found.node_id == graph.node_ids[node]


def test_a_label_may_be_asked_for() -> None:
    graph = made()
    clf = fitted("logistic", graph)
    for number, label in enumerate(clf.classes_):
        found = clf.explain(graph, 3, label=label)
        assert found.label == label
        assert found.said == clf.predict(graph, [3])[0]
        assert found.logit == found.logits[number]
        assert found.probability == found.probabilities[number]
        check_sums(found)


# ---------------------------------------------------------------- names, neighbours


def by_name(terms: tuple[Term, ...]) -> dict[str, Term]:
    return {term.name: term for term in terms}


def test_blocks_columns_and_neighbours_of_logistic_have_names() -> None:
    graph = made(3, directed=False)
    clf = fitted(
        "logistic", graph, scaling="none", options={"table": "ego+rings+labels"}
    )
    node = int(np.argmax(graph.degrees))
    found = clf.explain(graph, node, label="fraud")
    terms = by_name(found.terms)
    assert list(terms) == [
        "bias",
        "own features",
        "mean over ring 1",
        "mean over ring 2",
        "training labels in ring 1",
        "training labels in ring 2",
    ]
    groups = [term.group for term in found.terms]
    assert groups == ["bias", "own features", "ring 1", "ring 2", "labels", "labels"]
    columns = by_name(terms["mean over ring 2"].columns)
    assert "mean of income over ring 2" in columns
    shares = by_name(terms["training labels in ring 1"].columns)
    assert "share of fraud among training nodes in ring 1" in shares
    ring = graph.node_ids[graph.adj[[node]].indices]
    mean = terms["mean over ring 1"]
    assert {term.name for term in mean.nodes} == set(ring)
    # By hand: a neighbour's part of the mean, against the mean of training nodes.
    module = clf.module_
    assert module is not None
    weight, scale, centre = (
        getattr(module, name).numpy().astype(float)
        for name in ("weight", "scale", "mean")
    )
    of_ring = slice(4, 8)
    effect = (scale[:, None] * weight)[of_ring]
    for term in mean.nodes:
        row = graph.x[find_node(graph, term.name)].astype(float)
        by_hand = (row - centre[of_ring]) @ effect / len(ring)
        np.testing.assert_allclose(term.values, by_hand, atol=1e-6)
    # Only training nodes have labels to tell; their number is nobody's alone.
    known = set(graph.node_ids[clf.split_.train])
    names = {
        t.name for t in terms["training labels in ring 1"].nodes if t.group != "rest"
    }
    assert names == known & set(ring)


def test_groups_join_the_blocks() -> None:
    graph = made(3)
    found = fitted("logistic", graph).explain(graph, 5)
    assert len(found.groups) < len(found.terms)
    groups = by_name(found.groups)
    assert {"bias", "own features", "directions", "degrees", "labels"} <= groups.keys()
    for group in found.groups:
        mine = [term for term in found.terms if term.group == group.group]
        np.testing.assert_allclose(group.values, total(found, tuple(mine)), atol=1e-9)
        assert len(group.columns) == sum(len(term.columns) for term in mine)
        if any(term.nodes for term in mine):
            whole = total(found, group.nodes)
            parts = [term for term in mine if term.nodes]
            np.testing.assert_allclose(whole, total(found, tuple(parts)), atol=1e-5)
    ids = [node.name for node in groups["labels"].nodes]
    assert len(ids) == len(set(ids))


@each("model", ["logistic", "boosted-trees"])
def test_of_two_classes_that_are_one_it_is_the_odds(model: str) -> None:
    graph = made(6)
    two = replace(graph, y=graph.y % 2, classes=np.array(["honest", "fraud"]))
    clf = fitted(model, two)
    honest, fraud = (clf.explain(two, 9, label=c) for c in ("honest", "fraud"))
    assert honest.of == fraud.of == "log-odds"
    assert honest.logit == 0
    assert fraud.whole == fraud.logit == -honest.whole != 0
    for found in (honest, fraud):
        whole = sum(term.value for term in found.terms)
        assert whole == pytest.approx(found.whole, abs=1e-5)
        for term in found.terms:
            for parts in (term.columns, term.nodes):
                if parts:
                    np.testing.assert_allclose(
                        total(found, parts), term.values, atol=1e-5
                    )
    for one, other in zip(honest.terms, fraud.terms, strict=True):
        assert one.value == -other.value


def test_neighbours_are_summed_over_all_terms() -> None:
    graph = made(3)
    found = fitted("h2gcn-2", graph).explain(graph, 5)
    assert found.neighbours
    values = {term.name: 0.0 for term in found.neighbours}
    for term in found.terms:
        for one in term.nodes:
            values[one.name] += one.value
    for one in found.neighbours:
        assert one.value == pytest.approx(values[one.name])
    sizes = [abs(one.value) for one in found.neighbours]
    assert sizes == sorted(sizes, reverse=True)


def test_a_node_without_neighbours_has_a_rest() -> None:
    graph = made(1, directed=False)
    bare = graph.adj.toarray()
    bare[7] = bare[:, 7] = 0
    graph = replace(graph, adj=sp.csr_array(bare))
    clf = fitted("logistic", graph, options={"table": "ego+ring1"})
    found = clf.explain(graph, 7)
    check_sums(found)
    (rest,) = by_name(found.terms)["mean over ring 1"].nodes
    assert rest.group == "rest"
    assert "of no single node" in rest.name
    assert found.neighbours == ()


def test_label_propagation_is_a_sum_of_shares() -> None:
    graph = made(2, directed=False)
    found = fitted("label-propagation", graph).explain(graph, 4)
    assert found.of == "share"
    assert "logarithm" in found.how
    check_sums(found)


@each("model", ["sgc", "gpr-gnn"])
def test_nodes_are_grouped_by_their_distance(model: str) -> None:
    graph = made(3)
    found = fitted(model, graph, options={"power": 3}).explain(graph, 5)
    ids, walks = graph.node_ids, np.eye(graph.n_nodes)[5]
    terms, seen = by_name(found.terms), np.zeros(graph.n_nodes, dtype=bool)
    assert len(terms) == 4 + (model == "sgc")
    for hop in range(4):
        name = f"ring {hop}" if hop else "own features"
        ring = set(ids[(walks > 0) & ~seen])
        assert {node.name for node in terms[name].nodes} == (ring if hop else set())
        assert bool(terms[name].columns) == (model == "sgc")
        seen |= walks > 0
        walks = graph.adj @ walks


@each(("model", "hops"), [("mlp", 0), ("h2gcn-1", 2), ("sgc", 2), ("gcn", 2)])
def test_an_explanation_reads_the_receptive_field_alone(model: str, hops: int) -> None:
    graph = made(3)
    clf, node = fitted(model, graph), 5
    members = Asked(clf, graph).around(node).members
    walks = np.eye(graph.n_nodes)[node]
    for _ in range(hops):
        walks = walks + graph.adj @ walks
    assert 0 < len(members) < graph.n_nodes
    np.testing.assert_array_equal(members, np.flatnonzero(walks))


def test_how_far_it_is_exact_is_said() -> None:
    graph = made()
    relu = fitted("h2gcn-1", graph).explain(graph, 0)
    assert "not by column" in relu.how
    assert not any(term.columns for term in relu.terms)
    linear = fitted("h2gcn-1", graph, activation="none").explain(graph, 0)
    assert "by column" in linear.how
    assert by_name(by_name(linear.terms)["own features"].columns).keys() <= {*NAMES}
    trees = fitted("boosted-trees", graph).explain(graph, 0)
    assert "Shapley" in trees.how


# ------------------------------------------------------------------ parts left out


@each(
    ("model", "parts"),
    [
        ("gcn", ["own features", "ring 1", "ring 2", "its edges"]),
        ("gat", ["own features", "ring 1", "ring 2", "its edges"]),
        ("mixhop", ["own features", "ring 1", "ring 2", "its edges"]),
        ("h2gcn-nonlinear", ["own features", "ring 1", "ring 2", "its edges"]),
        ("mlp", ["own features"]),
        ("bp", ["labels", "its edges"]),
        (
            "correct-and-smooth",
            ["own features", "ring 1", "ring 2", "labels", "its edges"],
        ),
        ("ica", ["own features", "ring 1", "ring 2", "labels", "its edges"]),
        (
            "linkx",
            ["own features", "edges to single nodes", "edges from single nodes"],
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:.* cannot be reached")
def test_other_models_say_what_changes(model: str, parts: list[str]) -> None:
    graph = made(3)
    node = int(np.argmax(graph.degrees))
    clf = fitted(model, graph)
    found = clf.explain(graph, node)
    assert not found.exact
    assert found.how.startswith("not a sum: what changes when a part is left out")
    assert [term.name for term in found.terms][: len(parts)] == parts
    for term in found.terms:
        assert term.probability is not None
    if model == "mlp":
        assert {t.name for t in found.terms[0].columns} == {"age", "income", "plan"}


def test_what_is_left_out_is_what_the_average_node_has() -> None:
    graph = made(3)
    node = int(np.argmax(graph.degrees))
    clf = fitted("gcn", graph, scaling="none")
    found = by_name(clf.explain(graph, node).terms)
    x = graph.x.copy()
    x[node] = graph.x.mean(axis=0)
    ring = graph.x.copy()
    ring[graph.adj[[node]].indices] = graph.x.mean(axis=0)
    bare = graph.adj.toarray()
    bare[node] = bare[:, node] = 0
    full = clf.predict_logits(graph, [node])[0]
    for name, other in (
        ("own features", replace(graph, x=x)),
        ("ring 1", replace(graph, x=ring)),
        ("its edges", replace(graph, adj=sp.csr_array(bare), directed=None)),
    ):
        without = clf.predict_logits(other, [node])[0]
        np.testing.assert_allclose(found[name].values, full - without, atol=1e-5)
        shares = clf.probabilities_of(np.stack([full, without]))
        at = clf.classes_.tolist().index(clf.predict(graph, [node])[0])
        change = shares[0, at] - shares[1, at]
        assert found[name].probability == pytest.approx(change, abs=1e-5)


def test_a_table_without_its_edges_is_that_of_a_node_without_edges() -> None:
    graph = made(3, directed=False)
    node = int(np.argmax(graph.degrees))
    table = "ego+rings+degrees+labels+loops2+ring1.max"
    clf = fitted("linkx", graph, options={"table": table})
    found = by_name(clf.explain(graph, node).terms)
    bare = graph.adj.toarray()
    bare[node] = bare[:, node] = 0
    other = replace(graph, adj=sp.csr_array(bare))
    change = clf.predict_logits(graph, [node]) - clf.predict_logits(other, [node])
    np.testing.assert_allclose(found["its edges"].values, change[0], atol=1e-5)


@pytest.mark.filterwarnings("ignore:.* cannot be reached")
@each(
    ("model", "options"),
    [
        ("correct-and-smooth", {}),
        ("ica", {}),
        ("ica", {"table": "labels.ring1+labels.ring2"}),
        ("bp", {}),
    ],
)
def test_labels_and_edges_are_left_out_of_models_that_spread_labels(
    model: str, options: dict[str, Any]
) -> None:
    graph = made(3, directed=False)
    node = int(np.argmax(graph.degrees))
    clf = fitted(model, graph, options=options)
    found = by_name(clf.explain(graph, node).terms)
    full = clf.predict_logits(graph, [node])[0]
    bare = graph.adj.toarray()
    bare[node] = bare[:, node] = 0
    alone = clf.predict_logits(replace(graph, adj=sp.csr_array(bare)), [node])[0]
    np.testing.assert_allclose(found["its edges"].values, full - alone, atol=1e-4)
    # Labels within two steps are not known where those nodes have other ids.
    near = graph.adj[[node]].indices
    near = np.union1d(np.append(near, node), graph.adj[near].indices)
    ids = graph.node_ids.copy()
    ids[near] = [f"q{i:02}" for i in near]
    unknown = clf.predict_logits(replace(graph, node_ids=ids), [node])[0]
    np.testing.assert_allclose(found["labels"].values, full - unknown, atol=1e-4)
    assert np.abs(full - unknown).max() > 1e-3
    if "table" in options:
        assert {*found} == {"labels", "its edges"}


@each(
    "model", ["gcn", "mlp", "h2gcn-1", "logistic", "sgc", "correct-and-smooth", "ica"]
)
def test_sparse_features_have_the_reasons_of_dense_ones(model: str) -> None:
    graph = made(4)
    sparse = replace(graph, x=sp.csr_array(graph.x))
    clf = fitted(model, graph, scaling="none")
    for dense, other in zip(
        clf.explain(graph, 9).terms, clf.explain(sparse, 9).terms, strict=True
    ):
        assert dense.name == other.name
        np.testing.assert_allclose(dense.values, other.values, atol=1e-5)


def test_long_rows_of_columns_are_cut_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("h2gcn.estimator.explaining.COLUMNS", 2)
    graph = made()
    found = fitted("mlp", graph).explain(graph, 0)
    assert len(found.terms[0].columns) == 2
    assert found.notes == (
        "2 of 3 columns were left out one by one: those that are farthest from the "
        "average node's",
    )


# ------------------------------------------------------------------ auto


@pytest.fixture(scope="module")
def auto() -> tuple[NodeClassifier, Graph]:
    """Return an auto of a few members, and its graph."""
    cheap = (
        Member("logistic", "logistic", "all"),
        Member("label-propagation", "label-propagation", "labels"),
        Member("gcn", "gcn", "graph"),
    )
    graph = generate_graph(
        n_nodes=120, n_classes=3, features=GaussianFeatures(3, 1.0), seed=1
    )
    with pytest.MonkeyPatch.context() as patch:
        few = cheap[:2]
        patch.setattr(h2gcn.estimator.automatic, "find_portfolio", lambda *_: few)
        clf = NodeClassifier("auto", random_state=0).fit(graph)
    # Whoever the contest has chosen: all three answer here.
    clf.members_ = tuple(
        Answering(one.name, weight, temperature, fitted(one.model, graph))
        for one, weight, temperature in zip(
            cheap, (0.5, 0.2, 0.3), (1.2, 0.9, 1.0), strict=True
        )
    )
    return clf, graph


def test_auto_says_it_is_no_sum(auto: tuple[NodeClassifier, Graph]) -> None:
    clf, graph = auto
    found = clf.explain(graph, 5)
    assert not found.exact
    assert "logarithm of the members' mean probability" in found.how
    assert [one.name for one in found.members] == [one.name for one in clf.members_]
    exact = {one.name: one.explanation.exact for one in found.members}
    assert exact == {"logistic": True, "label-propagation": True, "gcn": False}
    for one in found.members:
        if one.explanation.exact:
            check_sums(one.explanation)
        assert one.explanation.label == found.label
    names = [term.name for term in found.terms]
    assert names[-1] == "its edges"
    assert {"own features", "ring 1", "ring 2", "labels", "degrees"} < {*names}


def test_the_members_probabilities_make_that_of_auto(
    auto: tuple[NodeClassifier, Graph],
) -> None:
    clf, graph = auto
    found = clf.explain(graph, 5)
    mean = sum(
        one.weight * np.array(one.explanation.probabilities) for one in found.members
    )
    np.testing.assert_allclose(np.log(mean), found.logits, atol=1e-5)


def test_what_is_left_out_of_auto_is_left_out_of_all_members(
    auto: tuple[NodeClassifier, Graph],
) -> None:
    clf, graph = auto
    node = 5
    alone = {
        one.name: NodeClassifier.explain(one.classifier, graph, node)
        for one in clf.members_
    }
    found = by_name(clf.explain(graph, node).terms)["own features"]
    shares = []
    for one in clf.members_:
        logits = np.array(alone[one.name].logits)
        if one.name == "gcn":
            logits -= by_name(alone["gcn"].terms)["own features"].values
        if one.name == "logistic":
            x = clf.members_[0].classifier
            table = x.explain(graph, node)
            assert table.exact
            own = by_name(table.terms)["own features"].values
            # Of the average node: what its own features give, in the mean.
            others = [
                by_name(x.explain(graph, v).terms)["own features"].values
                for v in range(graph.n_nodes)
            ]
            logits = logits - own + np.mean(others, axis=0)
        z = np.exp(logits / one.temperature)
        shares.append(one.weight * z / z.sum())
    wanted = np.array(clf.explain(graph, node).logits) - np.log(np.sum(shares, axis=0))
    np.testing.assert_allclose(found.values, wanted, atol=1e-5)


# ------------------------------------------------------------------ what it is


def test_an_explanation_is_frozen_and_goes_into_json() -> None:
    graph = made()
    found = fitted("logistic", graph).explain(graph, 0)
    with pytest.raises(FrozenInstanceError):
        found.exact = False  # type: ignore[misc]
    content = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert set(content) == {
        *("graph", "model", "node", "id", "label", "said", "classes", "exact", "of"),
        *("how", "logit", "probability", "logits", "probabilities", "temperature"),
        *("groups", "terms", "neighbours", "members", "notes"),
    }
    assert set(content["terms"][1]) == {
        *("name", "group", "value", "values", "probability", "columns", "nodes"),
    }
    short = found.to_json(top=1)
    for term, whole in zip(short["terms"], found.terms, strict=True):
        assert len(term["columns"]) <= 2
        if whole.columns:
            added = sum(one["value"] for one in term["columns"])
            assert added == pytest.approx(whole.value, abs=1e-5), "others are summed"
    assert short["terms"][1]["columns"][1]["name"] == "3 others"


def test_the_text_names_node_class_and_terms() -> None:
    graph = made()
    found = fitted("logistic", graph).explain(graph, 0)
    text = str(found)
    assert text.startswith(f"node p00 of people: {found.label}, ")
    for word in ("logistic", "own features", "mean of income over ring 1", "bias"):
        assert word in text
    assert text == found.text(5)
    assert len(found.text(0).splitlines()) == 1 + len(found.groups)


def test_a_loaded_model_has_the_same_reasons(tmp_path: Any) -> None:
    graph = made()
    clf = fitted("boosted-trees", graph)
    clf.save(tmp_path / "model")
    again = NodeClassifier.load(tmp_path / "model").explain(graph, 3)
    for one, other in zip(clf.explain(graph, 3).terms, again.terms, strict=True):
        np.testing.assert_allclose(one.values, other.values, atol=1e-9)


# ------------------------------------------------------------------ mistakes


def test_mistakes_are_told_in_a_line() -> None:
    graph = made()
    clf = fitted("logistic", graph)
    with pytest.raises(InputError, match=r"^node .*at most 59.* 60"):
        clf.explain(graph, 60)
    with pytest.raises(InputError, match=r"at least 0.*got -1"):
        clf.explain(graph, -1)
    with pytest.raises(InputError, match=r"no class 'frau'. Did you mean 'fraud'"):
        clf.explain(graph, 0, label="frau")
    other = replace(graph, feature_names=("a", "b", "c", "d"))
    with pytest.raises(InputError, match=r"trained on 4: .* missing \('age'"):
        clf.explain(other, 0)
    with pytest.raises(
        InputError, match=r"people: there is no node 'p0'. Did you mean"
    ):
        find_node(graph, "p0")
    with pytest.raises(InputError, match=r"no node '\?'. Its ids are such as 'p00'"):
        find_node(graph, "?")
    twice = replace(graph, node_ids=np.array(["a"] * 60))
    with pytest.raises(InputError, match=r"60 nodes have the id a"):
        find_node(twice, "a")
    assert find_node(graph, "p07") == 7


# ------------------------------------------------------------------ all nodes


def told(found: Importance) -> dict[str, Any]:
    return {row.name: row for row in found.rows}


def strong(seed: int = 0) -> tuple[Graph, Split]:
    """Return a graph whose class is in one column alone, and a split of it."""
    rng = np.random.default_rng(seed)
    n = 200
    y = rng.integers(2, size=n)
    x = rng.normal(size=(n, 3)).astype(np.float32)
    x[:, 1] += 6 * y
    upper = np.triu(rng.random((n, n)) < 2 / n, 1)
    graph = Graph(
        x=x,
        adj=sp.csr_array((upper | upper.T).astype(np.float32)),
        y=y,
        feature_names=("noise", "tells", "more noise"),
        name="strong",
    )
    every = rng.permutation(n)
    return graph, Split(every[:100], every[100:120], every[120:])


@each("model", ["logistic", "boosted-trees", "mlp", "ring-table"])
def test_the_column_that_tells_is_found(model: str) -> None:
    graph, split = strong()
    clf = NodeClassifier(model, random_state=0).fit(graph, split)
    found = clf.importance(graph, repeats=3)
    assert found.nodes == 80
    assert found.repeats == 3
    assert found.metric == "accuracy"
    assert found.score == pytest.approx(clf.score(graph))
    columns = [row for row in found.rows if row.kind == "column"]
    assert columns[0].name == "tells"
    assert columns[0].drop > 0.3
    assert columns[0].log_loss > 0.3
    assert columns[0].drop_error is not None
    assert columns[0].log_loss > 5 * max(row.log_loss for row in columns[1:])


def test_a_column_that_is_not_looked_at_has_no_importance() -> None:
    graph, split = strong()
    clf = NodeClassifier("logistic", random_state=0, options={"table": "ego"})
    clf.fit(graph, split)
    weight = clf.module_.weight  # type: ignore[union-attr]
    weight[0] = 0
    found = told(clf.importance(graph))["noise"]
    assert found.drop == 0
    assert found.log_loss == pytest.approx(0, abs=1e-9)


def test_the_graph_matters_where_only_neighbours_tell() -> None:
    graph = generate_graph(
        n_nodes=300, n_classes=2, homophily=0.95, features=GaussianFeatures(2, 0.3)
    )
    for model in ("gcn", "label-propagation", "logistic"):
        params = {} if model != "gcn" else {"epochs": 60}
        clf = NodeClassifier(model, random_state=0, **params).fit(graph)
        row = told(clf.importance(graph, repeats=3))["the graph as a whole"]
        assert row.kind == "graph"
        assert row.drop > 0.1, model


@each(
    ("model", "options"),
    [("correct-and-smooth", {}), ("ica", {}), ("ica", {"table": "labels.ring1"})],
)
def test_training_labels_and_the_graph_matter_to_models_that_spread_them(
    model: str, options: dict[str, Any]
) -> None:
    graph = generate_graph(
        n_nodes=300, n_classes=2, homophily=0.95, features=GaussianFeatures(2, 0.3)
    )
    clf = fitted(model, graph, options=options, epochs=30)
    rows = told(clf.importance(graph, repeats=3))
    assert rows["training labels"].drop > 0.1
    assert rows["the graph as a whole"].drop > 0.1
    assert ("all features" in rows) == ("table" not in options)
    assert rows.keys() >= ({"0", "1"} if "table" not in options else set())


def test_blocks_of_a_table_and_the_category_as_one() -> None:
    graph = made(1)
    table = told(fitted("logistic", graph).importance(graph, columns=5))
    assert {"own features", "mean over ring 1", "degrees"} <= table.keys()
    assert sum(row.kind == "column" for row in table.values()) == 5
    plain = told(fitted("gcn", graph).importance(graph))
    assert {"age", "income", "plan", "all features", "the graph as a whole"} == {*plain}


def test_permutations_are_seeded() -> None:
    graph = made(1)
    clf = fitted("logistic", graph)
    once, again, other = (
        clf.importance(graph, random_state=seed, columns=3) for seed in (0, 0, 1)
    )
    assert once == again
    assert once != other


def test_one_repeat_has_no_error_and_cut_columns_are_said() -> None:
    graph = made(1)
    found = fitted("logistic", graph).importance(graph, repeats=1, columns=2)
    assert all(row.log_loss_error is None for row in found.rows)
    assert len(found.notes) == 1
    assert found.notes[0].startswith("2 of ")
    assert found.notes[0].endswith("those that go most with what the model says")


def test_importance_of_auto(auto: tuple[NodeClassifier, Graph]) -> None:
    clf, graph = auto
    steps: list[tuple[int, int]] = []
    found = clf.importance(
        graph, repeats=2, on_step=lambda done, of: steps.append((done, of))
    )
    assert {"0", "1", "2", "all features", "training labels"} <= told(found).keys()
    assert "the graph as a whole" in told(found)
    assert found.score == pytest.approx(clf.score(graph))
    assert steps[-1] == (len(steps), len(steps)) == (2 * len(found.rows),) * 2
    content = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert set(content) == {
        *("graph", "model", "metric", "score", "log_loss", "nodes", "repeats"),
        *("rows", "notes"),
    }
    assert set(content["rows"][0]) == {
        *("name", "kind", "drop", "drop_error", "log_loss", "log_loss_error"),
    }


def test_importance_needs_nodes_that_training_did_not_see() -> None:
    graph = made()
    clf = fitted("logistic", graph)
    with pytest.raises(InputError, match=r"two or more held-out nodes.*got 1"):
        clf.importance(graph, [3])
    with pytest.raises(InputError, match=r"^nodes must name each node once"):
        clf.importance(graph, [3, 3])
    whole = Split(np.arange(0, 40), np.arange(40, 60), np.array([], dtype=np.int64))
    all_seen = NodeClassifier("logistic", random_state=0).fit(graph, whole)
    with pytest.raises(InputError, match="training saw all labelled nodes"):
        all_seen.importance(graph)
    with pytest.raises(InputError, match=r"^repeats .*got 0"):
        clf.importance(graph, repeats=0)
