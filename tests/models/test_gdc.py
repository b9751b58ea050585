"""Graph diffusion against the closed form, and what its options change in a fit."""

from itertools import combinations

import numpy as np
import pytest
import scipy.linalg

from h2gcn import NodeClassifier
from h2gcn.models import Diffusion, gdc
from models.oracles import sym, with_loops
from support.graphs import NAMED, adjacency, make_graph, random_adjacency
from support.models import assert_close

KERNELS = ("pagerank", "heat")


def closed_form(adj, *, kernel="pagerank", alpha=0.15, time=5.0):
    """Return S of all pairs, [n, n]."""
    t = sym(with_loops(adj.toarray().astype(float)))
    if kernel == "heat":
        return scipy.linalg.expm(time * (t - np.eye(len(t))))
    return alpha * np.linalg.inv(np.eye(len(t)) - (1 - alpha) * t)


def largest(s, top):
    """Return the largest values of each row; of equal ones, the first."""
    kept = np.zeros_like(s)
    for i, row in enumerate(s):
        chosen = np.argsort(-row.astype(np.float32), kind="stable")[:top]
        kept[i, chosen] = np.where(row[chosen] > 1e-12, row[chosen], 0)
    return kept


@pytest.fixture
def approximate(monkeypatch):
    """Let no graph be small, and take rows in several blocks."""
    monkeypatch.setattr(gdc, "EXACT_NODES", 0)
    monkeypatch.setattr(gdc, "BLOCK", 70)


def graph_with_hubs(n=300, m=900):
    """Return a graph with a few hubs and a few nodes without an edge."""
    rng = np.random.default_rng(0)
    fraction = (np.arange(n) + 3.0) ** -0.8
    ends = rng.choice(n, size=(2, m), p=fraction / fraction.sum())
    return adjacency(n, [(u, v) for u, v in ends.T.tolist() if u != v])


def test_a_small_graph_has_the_largest_values_of_the_closed_form():
    graphs = {**NAMED, **{seed: random_adjacency(seed) for seed in range(5)}}
    graphs["weighted"] = make_graph(random_adjacency(5, 12, 0.2), weighted=True).weights
    cases = [{"alpha": alpha} for alpha in (0.01, 0.15, 0.5)]
    cases += [{"kernel": "heat", "time": time} for time in (0.7, 5.0, 40.0)]
    for title, adj in graphs.items():
        for options in cases:
            s = closed_form(adj, **options)
            for top in (1, 3, 64):
                diffusion = Diffusion(**options, top=top)
                found, (matrix,) = diffusion.sparsified(adj), diffusion(adj)
                expected, where = largest(s, top), f"{title}, {options}, {top}"
                assert_close(found.toarray(), expected, where)
                expected = expected / expected.sum(axis=1, keepdims=True)
                assert_close(matrix.toarray(), expected, where)
                assert matrix.dtype == np.float32


def test_two_joined_nodes_by_hand():
    # T is ½ everywhere, T² is T: S = αI + (1 - α)T.
    pair, far = adjacency(2, [(0, 1)]), (1 - np.exp(-2)) / 2
    for options, off in (({"alpha": 0.4}, 0.3), ({"kernel": "heat", "time": 2.0}, far)):
        found = Diffusion(**options).sparsified(pair).toarray()
        assert_close(found, np.array([[1 - off, off], [off, 1 - off]]))
    assert Diffusion()(adjacency(0, []))[0].shape == (0, 0)


def test_columns_of_the_authors_program_are_our_rows():
    adj, top = graph_with_hubs(40, 80), 6
    s = closed_form(adj)
    # As `get_top_k_matrix` does it: all but the largest of each column are zero.
    s[s.argsort(axis=0)[: len(s) - top], np.arange(len(s))] = 0
    (matrix,) = Diffusion(top=top)(adj)
    assert_close(matrix.toarray(), (s / s.sum(axis=0)).T)


def lower_numbers_first():
    star = adjacency(9, [(0, leaf) for leaf in range(1, 9)])
    found = Diffusion(top=4).sparsified(star)
    rows = [row.tolist() for row in np.split(found.indices, found.indptr[1:-1])]
    assert rows[0] == rows[1] == [0, 1, 2, 3]  # the hub's leaves are alike
    assert rows[8] == [0, 1, 2, 8]


def test_of_equal_values_the_lower_numbers_are_kept():
    lower_numbers_first()


@pytest.mark.usefixtures("approximate")
def test_a_larger_graph_has_nearly_the_closed_form():
    lower_numbers_first()
    cases = [{"alpha": alpha} for alpha in (0.05, 0.15, 0.9)]
    cases += [{"kernel": "heat", "time": time} for time in (0.3, 1.0, 5.0)]
    for adj in (*NAMED.values(), graph_with_hubs()):
        for options in cases:
            found = Diffusion(**options, top=300).sparsified(adj).toarray()
            truth = closed_form(adj, **options)
            assert (truth - found).min() > -1e-7  # values are a little too small
            assert (truth - found).max() < 20 * gdc.DROPPED
            # Of what the largest values hold, next to nothing is lost.
            best, ours = (np.argsort(-m, axis=1)[:, :8] for m in (truth, found))
            held = [
                np.take_along_axis(truth, chosen, 1).sum() for chosen in (ours, best)
            ]
            assert held[0] > 0.998 * held[1]


@pytest.mark.usefixtures("approximate")
def test_a_forecast_bounds_the_entries():
    assert Diffusion(top=3).entries(NAMED["path"]) == (15,)
    assert Diffusion(top=9).entries(NAMED["path"]) == (25,)
    large = graph_with_hubs()
    (matrix,) = Diffusion(top=8)(large)
    assert np.diff(matrix.indptr).max() == 8
    assert matrix.nnz <= Diffusion(top=8).entries(large)[0]


def test_a_fit_takes_the_options(small_graph):
    logits = [
        NodeClassifier("gdc", epochs=3, random_state=0, options=options)
        .fit(small_graph)
        .predict_logits(small_graph)
        for options in ({}, {"alpha": 0.5}, {"kernel": "heat"}, {"top": 3})
    ]
    for one, other in combinations(logits, 2):
        assert np.abs(one - other).max() > 1e-5
