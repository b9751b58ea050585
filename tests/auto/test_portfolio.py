"""The members that a graph is given, by what it has to look at."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import h2gcn.auto.portfolio as portfolio
from h2gcn import Graph, NodeClassifier
from h2gcn.auto import default_time_limit, find_portfolio
from h2gcn.auto.portfolio import WIDE
from support.cases import each
from support.graphs import adjacency, one_way

N = 12
EDGES = adjacency(N, [(i, (i + 1) % N) for i in range(N)])
NO_EDGES = adjacency(N, [])


def graph(
    features: int = 4, adj: sp.csr_array = EDGES, *, directed: bool = False
) -> Graph:
    x = np.random.default_rng(0).normal(size=(N, features))
    way = one_way(adj, 0) if directed else None
    return Graph(x=x, adj=adj, directed=way, y=np.arange(N) % 2)


KINDS = {
    "features and edges": graph(),
    "directed": graph(directed=True),
    "wide": graph(WIDE + 1),
    "wide and directed": graph(WIDE + 1, directed=True),
    "no edges": graph(4, NO_EDGES),
    "no edges, wide": graph(WIDE + 1, NO_EDGES),
    "counts": Graph(
        x=sp.csr_array(np.eye(N, dtype=np.float32)), adj=EDGES, y=np.arange(N) % 2
    ),
}


def names(of: Graph, scaling: str = "auto") -> list[str]:
    return [member.name for member in find_portfolio(of, scaling)]


@each("kind", KINDS)
@each("scaling", ["auto", "rows", "standard", "none"])
def test_every_member_can_be_built_and_fits_the_graph(kind: str, scaling: str) -> None:
    found = find_portfolio(KINDS[kind], scaling)
    assert found
    assert len({member.name for member in found}) == len(found) <= 16
    for member in found:
        assert member.sees
        NodeClassifier(member.model, **member.params).check_params(2)
        asked = member.params.get("scaling", scaling)
        assert scaling == "auto" or asked == scaling, member.name


@each("kind", KINDS)
def test_the_quick_ones_go_first(kind: str) -> None:
    found = names(KINDS[kind])
    assert found[0] == (
        "logistic" if kind.startswith("no edges") else "label-propagation"
    )
    slow = {"h2gcn-1", "h2gcn-2", "c-ignn", "residual-gcn", "ring-table"}
    places = [i for i, name in enumerate(found) if name in slow]
    quick = {"label-propagation", "label-propagation-2hop", "linbp"}
    assert all(found.index(name) < min(places) for name in quick & set(found))


def test_those_without_the_graph_are_floors() -> None:
    found = {member.name: member for member in find_portfolio(graph())}
    alone = [name for name, member in found.items() if not member.uses_graph]
    assert alone == ["mlp", "boosted-trees-alone"]
    assert {"h2gcn-1", "h2gcn-2", "linbp", "ring-table", "residual-gcn"} <= set(found)


def test_without_edges_nobody_looks_at_them() -> None:
    for kind in ("no edges", "no edges, wide"):
        found = find_portfolio(KINDS[kind])
        assert not any(member.uses_graph for member in found)
        assert {"mlp", "logistic"} <= {member.name for member in found}


def test_directions_are_looked_at_where_there_are_any() -> None:
    def tables(of: Graph) -> str:
        return " ".join(
            member.params.get("options", {}).get("table", "")
            for member in find_portfolio(of)
        )

    assert "directions" in tables(graph(directed=True))
    assert "directions" not in tables(graph())
    assert "out" not in tables(graph())


def test_the_adjacency_has_no_columns_in_large_graphs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "ring-table-adjacency" not in names(graph()), "nor in small ones"
    monkeypatch.setattr(portfolio, "FEW_NODES", N)
    assert "ring-table-adjacency" in names(graph())
    monkeypatch.setattr(portfolio, "MANY_NODES", N - 1)
    assert "ring-table-adjacency" not in names(graph())


@pytest.mark.parametrize(
    ("n_edges", "seconds"), [(12, 180), (999_999, 180), (10**6, 600), (10**9, 600)]
)
def test_default_time_limit_is_longer_from_a_million_edges_on(
    n_edges: int, seconds: float
) -> None:
    of: Any = SimpleNamespace(n_nodes=10**7, n_edges=n_edges)
    assert default_time_limit(of) == seconds


def test_counts_in_a_small_graph_stay_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def recipes(scaling: str = "auto") -> dict[str, tuple[str, float | None]]:
        found = find_portfolio(KINDS["counts"], scaling)
        return {
            m.name: (m.params["scaling"], m.params.get("l2"))
            for m in found
            if m.name in ("mlp", "h2gcn-1", "h2gcn-2", "c-ignn", "acm-gcn")
        }

    raw = ("none", 5e-3)
    assert recipes() == {
        **dict.fromkeys(("mlp", "h2gcn-1", "h2gcn-2", "c-ignn"), raw),
        "acm-gcn": ("auto", None),
    }
    assert {*recipes("rows").values()} == {("rows", None)}  # as was asked for
    monkeypatch.setattr(portfolio, "FEW_NODES", N)
    found = recipes()
    assert found["mlp"] == found["h2gcn-1"] == ("auto", None)
    assert found["h2gcn-2"] == found["c-ignn"] == ("none", None)
