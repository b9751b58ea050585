"""Graph diffusion against the closed form, and GDC, a GCN on it."""

from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import torch

from h2gcn import Graph, NodeClassifier
from h2gcn.models import Diffusion, build_model, find_model, gdc
from h2gcn.models.gdc import DROPPED, KERNELS
from h2gcn.sparse import Operator, Propagation
from support.cases import each
from support.graphs import NAMED, adjacency, random_adjacency
from support.refusals import only, refused

Matrix = np.ndarray
FEATURES, CLASSES = 5, 3


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


def largest(s: Matrix, top: int) -> Matrix:
    """Return the largest values of each row; of equal ones, the first."""
    kept = np.zeros_like(s)
    for i, row in enumerate(s):
        order = sorted(range(len(row)), key=lambda j: (-np.float32(row[j]), j))
        chosen = [j for j in order[:top] if row[j] > 1e-12]
        kept[i, chosen] = row[chosen]
    return kept


@pytest.fixture
def approximate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no graph be small, and take rows in several blocks."""
    monkeypatch.setattr(gdc, "EXACT_NODES", 0)
    monkeypatch.setattr(gdc, "BLOCK", 70)


def some_graph(n: int = 300, m: int = 900, seed: int = 0) -> sp.csr_array:
    """Return a graph with a few hubs and a few nodes without an edge."""
    rng = np.random.default_rng(seed)
    share = (np.arange(n) + 3.0) ** -0.8
    ends = rng.choice(n, size=(2, m), p=share / share.sum())
    return adjacency(n, [(u, v) for u, v in ends.T.tolist() if u != v])


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
def test_edge_weights_count(kernel: str) -> None:
    weights = NAMED["triangle with tail"].copy()
    rows, columns = weights.nonzero()
    weights.data = (1 + rows * columns % 3 + rows + columns).astype(np.float32)
    made = Diffusion(kernel=kernel).kept(weights).toarray()
    np.testing.assert_allclose(made, closed_form(weights, kernel), atol=1e-7)


@each("kernel", KERNELS)
@each("top", [1, 2, 3, 7, 30])
def test_the_largest_of_each_row_are_kept(kernel: str, top: int) -> None:
    for seed in range(8):
        adj = random_adjacency(seed)
        made = Diffusion(kernel=kernel, top=top).kept(adj).toarray()
        expected = largest(closed_form(adj, kernel), top)
        np.testing.assert_allclose(made, expected, rtol=1e-6, atol=1e-10)


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


def lower_numbers_first() -> None:
    star = adjacency(9, [(0, leaf) for leaf in range(1, 9)])
    made = Diffusion(top=4).kept(star)
    rows = [row.tolist() for row in np.split(made.indices, made.indptr[1:-1])]
    assert rows[0] == [0, 1, 2, 3]  # the hub's leaves are alike
    assert rows[1] == [0, 1, 2, 3]
    assert rows[8] == [0, 1, 2, 8]


def test_of_equal_values_the_lower_numbers_are_kept() -> None:
    lower_numbers_first()


@pytest.mark.usefixtures("approximate")
def test_of_equal_values_the_lower_numbers_are_kept_on_larger_graphs() -> None:
    lower_numbers_first()


@pytest.mark.usefixtures("approximate")
@each("kernel", KERNELS)
@each(("alpha", "time"), [(0.05, 1.0), (0.15, 5.0), (0.9, 0.3)])
def test_on_larger_graphs_values_are_a_little_too_small(
    kernel: str, alpha: float, time: float
) -> None:
    made_of = Diffusion(kernel=kernel, alpha=alpha, time=time, top=300)
    for adj in (*NAMED.values(), some_graph()):
        truth = closed_form(adj, kernel, alpha, time)
        s = made_of.kept(adj).toarray()
        assert (truth - s).min() > -1e-9
        assert (truth - s).max() < 20 * DROPPED
        # Of what the largest values hold, next to nothing is lost.
        top = min(8, len(truth))
        best, ours = (
            np.argsort(-m, axis=1, kind="stable")[:, :top] for m in (truth, s)
        )
        held = [np.take_along_axis(truth, chosen, 1).sum() for chosen in (ours, best)]
        assert held[0] > 0.998 * held[1]


@pytest.mark.usefixtures("approximate")
def test_a_forecast_bounds_the_entries() -> None:
    assert Diffusion(top=3).entries(NAMED["path"]) == (15,)
    assert Diffusion(top=9).entries(NAMED["path"]) == (25,)
    large = some_graph()
    (operator,) = Diffusion(top=8)(large)
    assert np.diff(operator.indptr).max() == 8
    np.testing.assert_allclose(operator.sum(axis=1), 1, rtol=1e-5)
    assert operator.nnz <= Diffusion(top=8).entries(large)[0]
    assert Diffusion()(adjacency(0, []))[0].shape == (0, 0)


@each(
    "options",
    [
        {"kernel": "cold"},
        {"alpha": 0},
        {"alpha": 1.0},
        {"time": 0.0},
        {"time": 101},
        {"top": 0},
        {"top": 2.5},
    ],
)
def test_bad_options_are_named(options: dict[str, object]) -> None:
    with refused(**only(options)):
        Diffusion(**options)  # type: ignore[arg-type]


def features(n: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, FEATURES, generator=torch.Generator().manual_seed(seed))


def dense_operator(adj: sp.csr_array, alpha: float, top: int) -> np.ndarray:
    """Return what is kept of PageRank, each row divided by its sum, [n, n]."""
    a = adj.toarray().astype(float) + np.eye(adj.shape[0])
    root = a.sum(axis=1) ** -0.5
    s = alpha * np.linalg.inv(np.eye(len(a)) - (1 - alpha) * root[:, None] * a * root)
    for row in s:
        row[np.argsort(-row, kind="stable")[top:]] = 0
    return s / s.sum(axis=1, keepdims=True)


@each("seed", range(4))
def test_logits_are_those_of_the_formula(seed: int) -> None:
    adj = random_adjacency(seed)
    n, options = adj.shape[0], {"alpha": 0.2, "top": n_kept(adj)}
    torch.manual_seed(0)
    module = build_model("gdc", FEATURES, CLASSES, {"hidden_channels": 8} | options)
    spec = find_model("gdc").given(options)
    operators = [Operator(matrix) for matrix in spec.build_matrices(adj)]
    x, s = features(n), dense_operator(adj, 0.2, n_kept(adj))
    w1, w2 = (w.detach().double().numpy() for w in (module.first, module.second))
    expected = s @ np.maximum(s @ x.double().numpy() @ w1, 0) @ w2
    module.eval()
    logits = module(x, Propagation(operators)).detach()
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)
    index = np.array([n - 1, 0])
    some = module(x, Propagation(operators, torch.as_tensor(index))).detach()
    np.testing.assert_allclose(some, expected[index], rtol=1e-4, atol=1e-5)


def n_kept(adj: sp.csr_array) -> int:
    """Return a number of neighbours that leaves some out, where there are several."""
    return max(adj.shape[0] // 2, 1)


@each(
    "options",
    [
        {"alpha": 0.5},
        {"kernel": "heat"},
        {"top": 3},
    ],
)
def test_a_fit_takes_the_options_and_a_saved_model_has_them(
    small_graph: Graph, tmp_path: Path, options: dict[str, object]
) -> None:
    plain = NodeClassifier("gdc", epochs=3, random_state=0).fit(small_graph)
    clf = NodeClassifier("gdc", epochs=3, random_state=0, options=options)
    logits = clf.fit(small_graph).predict_logits(small_graph)
    assert np.abs(logits - plain.predict_logits(small_graph)).max() > 1e-5
    clf.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    fresh = Graph(x=small_graph.x, adj=small_graph.adj, y=small_graph.y)
    assert loaded.predict_logits(fresh).tobytes() == logits.tobytes()
