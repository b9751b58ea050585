"""Graph diffusion: against the closed form, what is kept, and how far pushes go."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import torch
from hypothesis import given, settings, strategies as st

from h2gcn import Graph, NodeClassifier
from h2gcn.graph import EdgeColumns
from h2gcn.models import MODELS, Diffusion, diffused, gdc
from h2gcn.models.gdc import CAREFUL, KERNELS
from support.cases import each
from support.graphs import NAMED, adjacency, random_adjacency
from support.refusals import only, refused

Matrix = np.ndarray


def closed_form(
    adj: sp.csr_array, kernel: str, alpha: float = 0.15, time: float = 5.0
) -> Matrix:
    """Return S of all pairs in double precision, [n, n]."""
    a = adj.toarray().astype(float) + np.eye(adj.shape[0])
    root = np.diag(a.sum(axis=1) ** -0.5)
    t = root @ a @ root
    rest = np.eye(len(a)) - t
    if kernel == "heat":
        return np.asarray(scipy.linalg.expm(-time * rest))
    return alpha * np.linalg.inv(np.eye(len(a)) - (1 - alpha) * t)


def roots(adj: sp.csr_array) -> Matrix:
    return np.sqrt(np.asarray(adj.sum(axis=1)) + 1)


def sparsified(s: Matrix, top: int | None, threshold: float | None) -> Matrix:
    """Return what is kept of each row by looking at one value after the other."""
    kept = np.zeros_like(s)
    for i, row in enumerate(s):
        if threshold is not None:
            chosen = [j for j in range(len(row)) if row[j] >= threshold - 1e-12]
        else:
            last = sorted(row, reverse=True)[min(top, len(row)) - 1]
            chosen = [j for j in range(len(row)) if row[j] > last * (1 + 1e-6)]
            same = [j for j in range(len(row)) if abs(row[j] - last) <= last * 1e-6]
            chosen += same[: top - len(chosen)]
            chosen = [j for j in chosen if row[j] > 1e-12]
        kept[i, chosen] = row[chosen]
    return kept


@pytest.fixture
def always_pushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No graph is small."""
    monkeypatch.setattr(gdc, "EXACT", 0)


def some_graph(n: int = 300, m: int = 900, seed: int = 0) -> sp.csr_array:
    """Return a graph with a few hubs and a few nodes without an edge."""
    rng = np.random.default_rng(seed)
    share = (np.arange(n) + 3.0) ** -0.8
    ends = rng.choice(n, size=(2, m), p=share / share.sum())
    return adjacency(n, [(u, v) for u, v in ends.T.tolist() if u != v])


# ----------------------------------------------------------------------- all pairs


@each("named_adj", NAMED.values(), ids=NAMED)
@each("kernel", KERNELS)
@each(("alpha", "time"), [(0.15, 5.0), (0.5, 0.7), (0.01, 40.0)])
def test_a_small_graph_has_the_closed_form(
    named_adj: sp.csr_array, kernel: str, alpha: float, time: float
) -> None:
    made = Diffusion(kernel=kernel, alpha=alpha, time=time, top=10).kept(named_adj)
    expected = closed_form(named_adj, kernel, alpha, time)
    np.testing.assert_allclose(made.toarray(), expected, rtol=1e-7, atol=1e-9)


def test_two_joined_nodes_by_hand() -> None:
    # T is ½ everywhere, T² is T: S = αI + (1 - α)T.
    made = Diffusion(alpha=0.4).kept(adjacency(2, [(0, 1)])).toarray()
    np.testing.assert_allclose(made, [[0.7, 0.3], [0.3, 0.7]], rtol=1e-12)
    heat = Diffusion(kernel="heat", time=2.0).kept(adjacency(2, [(0, 1)])).toarray()
    far = (1 - np.exp(-2)) / 2
    np.testing.assert_allclose(heat, [[1 - far, far], [far, 1 - far]], rtol=1e-11)


@each("kernel", KERNELS)
def test_blocks_of_exact_rows_make_no_difference(
    monkeypatch: pytest.MonkeyPatch, kernel: str
) -> None:
    whole = Diffusion(kernel=kernel).kept(some_graph())
    monkeypatch.setattr(gdc, "BLOCK", 7)
    parts = Diffusion(kernel=kernel).kept(some_graph())
    np.testing.assert_allclose(parts.toarray(), whole.toarray(), rtol=1e-9, atol=1e-12)


@each("kernel", KERNELS)
@each("pushed", [False, True])
def test_what_pairs_weigh_counts(
    monkeypatch: pytest.MonkeyPatch, kernel: str, pushed: bool
) -> None:
    weights = NAMED["triangle with tail"].copy()
    rows, columns = weights.nonzero()
    weights.data = (1 + rows * columns % 3 + rows + columns).astype(np.float32)
    if pushed:
        monkeypatch.setattr(gdc, "EXACT", 0)
    made = Diffusion(kernel=kernel, tolerance=1e-9).kept(weights).toarray()
    np.testing.assert_allclose(made, closed_form(weights, kernel), atol=1e-7)


# ----------------------------------------------------------------------- what is kept


@each("kernel", KERNELS)
@each("top", [1, 2, 3, 7, 30])
def test_the_largest_of_each_row_are_kept(kernel: str, top: int) -> None:
    for seed in range(8):
        adj = random_adjacency(seed)
        made = Diffusion(kernel=kernel, top=top).kept(adj).toarray()
        expected = sparsified(closed_form(adj, kernel), top, None)
        np.testing.assert_allclose(made, expected, rtol=1e-6, atol=1e-10)


@each("kernel", KERNELS)
@each("threshold", [0.5, 0.1, 0.02, 1e-4])
def test_what_reaches_the_threshold_is_kept(kernel: str, threshold: float) -> None:
    made_of = Diffusion(kernel=kernel, sparsify="threshold", threshold=threshold)
    for seed in range(8):
        adj = random_adjacency(seed)
        expected = sparsified(closed_form(adj, kernel), None, threshold)
        made = made_of.kept(adj).toarray()
        np.testing.assert_allclose(made, expected, rtol=1e-6, atol=1e-10)


@each("pushed", [False, True])
def test_of_equal_values_the_lower_numbers_are_kept(
    monkeypatch: pytest.MonkeyPatch, pushed: bool
) -> None:
    if pushed:
        monkeypatch.setattr(gdc, "EXACT", 0)
    star = adjacency(9, [(0, leaf) for leaf in range(1, 9)])
    made = Diffusion(top=4, tolerance=1e-9).kept(star)
    rows = [row.tolist() for row in np.split(made.indices, made.indptr[1:-1])]
    assert rows[0] == [0, 1, 2, 3]  # the hub's leaves are alike
    assert rows[1] == [0, 1, 2, 3]
    assert rows[8] == [0, 1, 2, 8]


def test_rows_sum_to_one_and_a_node_that_keeps_nothing_has_itself() -> None:
    adj = NAMED["triangle with tail"]
    made_of = Diffusion(sparsify="threshold", threshold=0.4)
    kept, (operator,) = made_of.kept(adj).toarray(), made_of(adj)
    alone = kept.sum(axis=1) == 0
    assert alone.any()
    assert not alone.all()
    totals = np.where(alone, 1, kept.sum(axis=1))[:, None]
    expected = np.where(alone[:, None], np.eye(5), kept / totals)
    assert operator.dtype == np.float32
    np.testing.assert_allclose(operator.toarray(), expected, rtol=1e-6)


def test_columns_of_the_authors_program_are_our_rows() -> None:
    adj, top = some_graph(40, 80), 6
    s = closed_form(adj, "pagerank")
    # As `get_top_k_matrix` does it: all but the largest of each column are zero.
    s[s.argsort(axis=0)[: len(s) - top], np.arange(len(s))] = 0
    s = s / s.sum(axis=0)
    (operator,) = Diffusion(top=top)(adj)
    np.testing.assert_allclose(operator.toarray(), s.T, rtol=1e-5, atol=1e-8)


def test_no_value_comes_from_another_component() -> None:
    kept = Diffusion().kept(NAMED["disconnected"]).toarray()
    assert not kept[:3, 3:].any()
    assert (kept[:3, :3] > 0).all()


# ---------------------------------------------------------------------------- pushes


@pytest.mark.usefixtures("always_pushed")
@each("kernel", KERNELS)
@settings(max_examples=30)
@given(
    seed=st.integers(0, 10_000),
    tolerance=st.sampled_from([0.3, 1e-2, 1e-3, 1e-6]),
    alpha=st.sampled_from([0.05, 0.15, 0.9]),
    time=st.sampled_from([0.3, 3.0, 20.0]),
)
def test_pushes_are_below_the_truth_by_no_more_than_is_said(
    kernel: str, seed: int, tolerance: float, alpha: float, time: float
) -> None:
    adj = random_adjacency(seed)
    made = Diffusion(kernel=kernel, alpha=alpha, time=time, tolerance=tolerance)
    missing = closed_form(adj, kernel, alpha, time) - made.kept(adj).toarray()
    bound = tolerance * (CAREFUL if kernel == "heat" else 1) * roots(adj)
    assert missing.min() > -1e-9
    assert (missing <= bound + 1e-9).all()


@pytest.mark.usefixtures("always_pushed")
@each("kernel", KERNELS)
def test_a_threshold_bounds_the_tolerance(kernel: str) -> None:
    adj, threshold = some_graph(), 1e-4
    coarse = Diffusion(
        kernel=kernel, sparsify="threshold", threshold=threshold, tolerance=0.5
    )
    fine = replace(coarse, tolerance=threshold)
    assert (coarse.kept(adj) != fine.kept(adj)).nnz == 0
    s, bound = closed_form(adj, kernel), threshold * roots(adj)
    bound = bound * (CAREFUL if kernel == "heat" else 1)
    kept = coarse.kept(adj).toarray() > 0
    assert kept[s >= threshold + bound].all()
    assert not kept[s < threshold - 1e-9].any()


@pytest.mark.usefixtures("always_pushed")
@each("kernel", KERNELS)
def test_a_fine_tolerance_keeps_what_is_kept_of_the_truth(kernel: str) -> None:
    adj = some_graph()
    made = Diffusion(kernel=kernel, top=9, tolerance=1e-9).kept(adj).toarray()
    expected = sparsified(closed_form(adj, kernel), 9, None)
    np.testing.assert_allclose(made, expected, atol=1e-6)


@pytest.mark.usefixtures("always_pushed")
@each("kernel", KERNELS)
@each("sparsify", ["top", "threshold"])
def test_threads_change_no_bit(
    monkeypatch: pytest.MonkeyPatch, kernel: str, sparsify: str
) -> None:
    adj, made_of = some_graph(2000, 8000), Diffusion(kernel=kernel, sparsify=sparsify)
    calls: list[int] = []
    push = gdc._push_rows

    def counted(*given: object) -> object:
        calls.append(1)
        return push(*given)

    monkeypatch.setattr(gdc, "_push_rows", counted)
    before, made = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            calls.clear()
            torch.set_num_threads(threads)
            made.append(made_of.kept(adj))
            assert (len(calls) > 1) == (threads > 1)
    finally:
        torch.set_num_threads(before)
    one, three = made
    assert one.nnz > 2000
    assert one.data.tobytes() == three.data.tobytes()
    assert one.indices.tobytes() == three.indices.tobytes()
    assert one.indptr.tobytes() == three.indptr.tobytes()


@pytest.mark.usefixtures("always_pushed")
@each("kernel", KERNELS)
def test_renumbering_the_nodes_renumbers_what_is_found(kernel: str) -> None:
    adj = some_graph()
    order = np.random.default_rng(3).permutation(adj.shape[0])
    other = sp.csr_array(adj[order][:, order])
    made_of = Diffusion(kernel=kernel, sparsify="threshold", threshold=1e-3)
    kept = made_of.kept(adj).toarray()
    renumbered = made_of.kept(other).toarray()
    np.testing.assert_allclose(renumbered, kept[order][:, order], rtol=1e-9)


def test_a_large_graph_is_pushed_and_forecast() -> None:
    adj = some_graph(gdc.EXACT + 1, 12_000)
    made_of = Diffusion(top=8)
    (operator,) = made_of(adj)
    (entries,) = made_of.entries(adj)
    assert np.diff(operator.indptr).max() == 8
    assert entries == pytest.approx(operator.nnz, rel=0.2)
    by_threshold = Diffusion(sparsify="threshold", threshold=0.01)
    (entries,) = by_threshold.entries(adj)
    assert entries == pytest.approx(by_threshold(adj)[0].nnz, rel=0.2)


def test_a_small_graph_is_forecast_without_a_look() -> None:
    assert Diffusion(top=3).entries(NAMED["path"]) == (15,)
    assert Diffusion(sparsify="threshold").entries(NAMED["path"]) == (25,)


# -------------------------------------------------------------- a graph for any model


def test_edges_of_a_diffused_graph_are_kept_pairs_and_weigh_what_they_say() -> None:
    adj = some_graph(30, 50)
    y = np.arange(30) % 3
    graph = Graph(x=np.eye(30), adj=adj, directed=sp.triu(adj), y=y, name="some")
    near = diffused(graph, Diffusion(top=4))
    kept = sparsified(closed_form(adj, "pagerank"), 4, None)
    expected = np.maximum(kept, kept.T)
    np.fill_diagonal(expected, 0)
    assert near.directed is None
    assert near.edge_weight == "diffusion"
    np.testing.assert_array_equal(near.adj.toarray(), expected > 0)
    mean = expected[expected > 0].mean()
    np.testing.assert_allclose(near.weights.toarray(), expected / mean, rtol=1e-5)
    np.testing.assert_array_equal(near.x, graph.x)
    np.testing.assert_array_equal(near.y, graph.y)
    assert near.name == "some"
    assert "edges are those of a diffusion" in near.record.sentences()[-1]
    assert graph.edge_weight is None


def test_walks_go_by_the_weights_of_a_graph_that_has_some() -> None:
    upper = sp.triu(NAMED["K4"]).tocoo()
    weights = np.array([[9.0], [1.0], [1.0], [1.0], [1.0], [9.0]])
    columns = EdgeColumns(*upper.coords, weights, ("amount",), directed=False)
    plain = Graph(x=np.eye(4), adj=NAMED["K4"])
    graph = replace(plain, edge_columns=columns, edge_weight="amount")
    by = Diffusion(top=2)
    far = diffused(graph, by).adj.toarray()
    expected = sparsified(closed_form(graph.weights, "pagerank"), 2, None) > 0
    np.testing.assert_array_equal(
        far > 0, (expected | expected.T) & ~np.eye(4, dtype=bool)
    )
    assert diffused(graph, by).n_edges < diffused(plain, by).n_edges


@each("name", ["gcn", "h2gcn-1", "graphsage", "gpr-gnn", "mixhop"])
def test_models_that_take_weights_run_on_it(small_graph: Graph, name: str) -> None:
    assert MODELS[name].weighted
    near = diffused(small_graph, Diffusion(top=6))
    clf = NodeClassifier(name, epochs=3, random_state=0).fit(near)
    logits = clf.predict_logits(near)
    alike = clf.predict_logits(replace(near, edge_weight=None))
    assert np.isfinite(logits).all()
    assert np.abs(logits - alike).max() > 1e-6


def test_a_graph_without_edges_stays_so() -> None:
    near = diffused(Graph(x=np.eye(3), adj=NAMED["no edges"]))
    assert (near.n_edges, near.edge_weight) == (0, None)


# -------------------------------------------------------------------------- mistakes


@each(
    "options",
    [
        {"kernel": "cold"},
        {"alpha": 0},
        {"alpha": 1.0},
        {"time": 0.0},
        {"time": 101},
        {"sparsify": "some"},
        {"top": 0},
        {"top": 2.5},
        {"threshold": 0.0},
        {"tolerance": 1.0},
    ],
)
def test_bad_options_are_named(options: dict[str, object]) -> None:
    with refused(**only(options)):
        Diffusion(**options)  # type: ignore[arg-type]


def test_what_is_no_graph_and_no_diffusion_is_named() -> None:
    with refused(param="graph", value=sp.csr_array):
        diffused(NAMED["path"])  # type: ignore[arg-type]
    graph = Graph(x=np.eye(5), adj=NAMED["path"])
    with refused(param="by", value=str):
        diffused(graph, "heat")  # type: ignore[arg-type]
