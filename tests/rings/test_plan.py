"""Forecasts of rings, where they are kept, what is refused, and what would fit."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from h2gcn.datasets import GaussianFeatures, generate_graph
from h2gcn.estimator import build_operators, plan_operators
from h2gcn.exceptions import H2GCNWarning
from h2gcn.rings import (
    ComputedOperator,
    MemoryLimitError,
    NeighborIndex,
    RingForecast,
    RingOptions,
    RowRule,
    Workload,
    auto_max_neighbors,
    build_matrices,
    build_rings,
    check_memory,
    exact_rings,
    forecast_rings,
    plan,
    plan_rings,
    rules,
    training_bytes,
    usual_bytes,
)
from h2gcn.sparse import Operator
from support.graphs import NAMED, adjacency, random_adjacency
from support.memory import rings_too_large
from support.refusals import only, refused

N = 1001
STAR = NeighborIndex(adjacency(N, [(0, v) for v in range(1, N)]))
RINGS, ENTRIES = (RowRule(hop=1), RowRule(hop=2)), (2000, 1000 * 999)
WORK = Workload(n_train=600, n_val=200)
PREDICTION = Workload()


def needed(*, on_demand=False, chosen=RINGS, symmetric=True, **options):
    entries = [ENTRIES[rule.hop - 1] for rule in chosen]
    options = RingOptions(**{"workload": WORK, **options})
    ways = {"on_demand": on_demand, "symmetric": symmetric}
    return training_bytes(N, chosen, entries, options, **ways)


def planned(*, chosen=RINGS, **options):
    return plan_rings(STAR, chosen, RingOptions(**{"workload": WORK, **options}))


def refusal(**options):
    with pytest.raises(MemoryLimitError) as caught:
        planned(**options)
    assert "\n" not in str(caught.value)
    return caught.value


def proposed(**options):
    return [change for change, _ in refusal(**options).alternatives]


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(plan, "BLOCK_ENTRIES", 100)
    monkeypatch.setattr(rules, "BLOCK_ENTRIES", 100)


def test_a_forecast_that_counts_every_row_is_exact():
    for adj in (*NAMED.values(), *map(random_adjacency, range(10))):
        for hops in (1, 2, 3, 4):
            forecast = forecast_rings(adj, hops=hops, rows=max(adj.shape[0], 1))
            entries = tuple(ring.nnz for ring in exact_rings(adj, hops=hops))
            assert (forecast.entries, forecast.exact) == (entries, True)


def test_a_forecast_from_a_sample_is_close():
    features = GaussianFeatures(n_features=1)
    graph = generate_graph(n_nodes=5000, edges_per_node=4, features=features, seed=3)
    forecast = forecast_rings(graph.adj, rows=256)
    assert not forecast.exact
    assert forecast.entries[0] == graph.adj.nnz
    true = exact_rings(graph.adj)[1].nnz
    assert forecast.entries[1] == pytest.approx(true, rel=0.15)
    assert [type(number) for number in (*forecast.entries, forecast.bytes)] == [int] * 3
    sampled = RingForecast((1_000, 2_000_000_000), 72, exact=False)
    words = "about 2,000,001,000 entries in the rings 1 to 2, about 72 bytes"
    assert str(sampled) == words
    assert str(replace(sampled, exact=True)) == words.replace("about ", "")
    for options in ({"hops": 0}, {"hops": 2.5}, {"rows": 0}):
        with refused(**only(options)):
            forecast_rings(NAMED["path"], **options)


def test_rings_are_capped_by_their_entries_and_those_of_the_graph():
    for entries, n, k in (
        ((160_000, 400_000_000), 30_000, 64),  # a hub
        ((50_000_000, 4_000_000_000), 1_000_000, 64),  # average degree 50
        ((400_000, 49_999_999), 10_000, None),  # small
        ((1_000_001, 50_000_000), 10_000, None),  # not 50 times the graph
        ((1_000_000, 50_000_000), 10_000, 64),
        ((4_000_000, 199_999_999), 1_000_000, None),
        ((10_000_000, 200_000_000), 1_000_000, 64),  # whatever the graph
        ((10_000_000, 160_000_000), 1_000_000, None),  # average degree 10
        ((1_000_000, 200_000_000), 2_000_000, None),  # a cap would leave most of it
        ((1_038_000, 45_369_289), 11_758, None),  # tolokers
        ((2_000,), 1_000, None),  # no ring beyond the first
    ):
        assert auto_max_neighbors(RingForecast(entries, 0, exact=False), n) == k


def test_an_entry_is_a_value_and_a_column_in_each_copy():
    entry, total = 1.2 * 8, sum(ENTRIES)
    for workload, copies in (
        (PREDICTION, 1),
        (Workload(n_train=N), 3),
        (Workload(n_val=N), 2),
        (WORK, 1 + (2 * WORK.n_train + WORK.n_val) / N),
    ):
        assert needed(workload=workload) == round(entry * total * copies)
    transposed = needed(symmetric=False) - needed()
    assert transposed == pytest.approx(entry * total, abs=2)
    loops = [replace(rule, self_loops=True) for rule in RINGS]
    more = needed(chosen=loops, workload=PREDICTION) - needed(workload=PREDICTION)
    assert more == pytest.approx(entry * 2 * N, abs=2)
    for size, bytes_per_entry in ((2**31 - 1, 8), (2**31, 12)):  # int64 indices
        wide = training_bytes(N, RINGS[:1], [size], RingOptions())
        assert wide == round(1.2 * bytes_per_entry * size)
    usual = Workload(n_train=601, n_val=200)
    assert usual_bytes(N, ENTRIES) == needed(workload=usual)
    assert usual_bytes(N, ENTRIES, 4) < usual_bytes(N, ENTRIES) / 10


def test_what_makes_a_training_larger():
    base = needed()
    work = replace(WORK, step=lambda n, m, entries: 1000 * n + m + entries)
    step = 1000 * N + 600 + sum(ENTRIES)
    assert needed(workload=work) - base == pytest.approx(1.2 * step, abs=2)
    assert needed(workload=replace(WORK, features=10**6)) - base == 2.4 * 10**6
    assert needed(max_neighbors=4) < base / 10
    assert needed(on_demand=True) < base / 10
    # Of 8 nodes, one round takes 8 rows; two take those of all nodes around them.
    one, two = (
        needed(batch_size=8, workload=replace(WORK, receptive_field=rounds))
        for rounds in (1, 2)
    )
    assert one < base < two
    whole = replace(WORK, receptive_field=None)
    assert needed(batch_size=8, workload=whole) == base


MEASURE = """
import json, sys
import numpy as np, scipy.sparse as sp, torch
from memory import peak_increase
from h2gcn import Graph, NodeClassifier, Split
from h2gcn.rings import plan

torch.set_num_threads(1)
needed, training_bytes = [], plan.training_bytes

def spy(*args, **options):
    needed.append(training_bytes(*args, **options))
    return needed[-1]

plan.training_bytes = spy

def fit(model, n, train):
    rng = np.random.default_rng(0)
    ends = rng.integers(n, size=(2, 7 * n))
    ends = ends[:, ends[0] != ends[1]]
    half = sp.coo_array((np.ones(ends.shape[1]), ends), shape=(n, n)).tocsr()
    adj = ((half + half.T) > 0).astype(np.float32)
    x = rng.normal(size=(n, 8)).astype(np.float32)
    graph = Graph(x=x, adj=adj, y=np.arange(n) % 3)
    parts = np.split(rng.permutation(n), [round(n * train), round(n * (train + 0.05))])
    split = Split(*map(np.sort, parts))
    classifier = NodeClassifier(model, epochs=2, random_state=0)
    grown = peak_increase(lambda: classifier.fit(graph, split))
    return needed[-1], grown and 1e9 * grown

model = sys.argv[1]
fit(model, 300, 0.48)  # what is loaded and compiled on the way
print(json.dumps([fit(model, 30_000, train) for train in (0.48, 0.9)]))
"""


@pytest.mark.slow
@pytest.mark.xdist_group("memory")
@pytest.mark.parametrize("model", ["h2gcn-1", "h2gcn-2", "h2gcn-ns0"])
def test_the_forecast_is_about_what_a_training_takes(model, tmp_path):
    script, root = tmp_path / "measure.py", Path(__file__).parents[2]
    script.write_text(MEASURE)
    paths = [str(root / "benchmarks"), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, str(script), model],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
    )
    for forecast, grown in json.loads(done.stdout):
        if grown is None:
            pytest.skip("the system does not tell the peak of a call")
        assert 0.5 * grown <= forecast <= 2 * grown


def test_memory_comes_first_then_rows_on_demand():
    assert not planned(limit=needed()).on_demand
    limit = needed(batch_size=8)
    assert not planned(batch_size=8, limit=limit).on_demand
    assert planned(batch_size=8, limit=limit - 1).on_demand
    limit = needed(on_demand=True, workload=PREDICTION)
    assert planned(workload=PREDICTION, limit=limit).on_demand
    # Neither every epoch on all nodes nor samples are computed on demand.
    refusal(limit=needed() - 1)
    limit = needed(max_neighbors=4)
    assert not planned(max_neighbors=4, limit=limit).on_demand
    words = str(refusal(max_neighbors=4, limit=limit - 1))
    assert words.startswith("the capped rings will not fit in memory: ")


def test_ring_1_is_the_graph_itself():
    for chosen in ((), RINGS[:1], (RowRule("out", norm="row", self_loops=True),)):
        limit = needed(chosen=chosen)
        assert planned(chosen=chosen, limit=limit).forecast is None
        words = str(refusal(chosen=chosen, limit=limit - 1))
        assert words.startswith("the training will not fit in memory: ")
    # Matrices without rules are checked too.
    limit = needed(chosen=RINGS[:1])
    options = RingOptions(limit=limit, workload=WORK)
    check_memory(N, ENTRIES[:1], options)
    for fewer, symmetric in ((1, True), (0, False)):
        smaller = replace(options, limit=limit - fewer)
        with pytest.raises(MemoryLimitError):
            check_memory(N, ENTRIES[:1], smaller, symmetric=symmetric)


def test_a_refusal_names_what_is_needed_what_is_free_and_what_would_fit():
    limit = needed() - 1
    error = refusal(limit=limit)
    assert (error.needed, error.available) == (needed(), limit)
    assert error.alternatives == (
        ({"ring_cap": 64}, needed(max_neighbors=64)),
        ({"batch_size": 256}, needed(batch_size=256)),
        ({"model": "h2gcn-s1"}, needed(chosen=RINGS[:1])),
    )
    assert str(error) == (
        "the rings will not fit in memory: the training takes 23.0 MB, with 1,001,000 "
        "entries in the rings 1 to 2, but the limit is 23.0 MB; what fits: "
        "ring_cap=64: 1.5 MB; batch_size=256: 20.7 MB; model='h2gcn-s1': 46.1 kB"
    )


def test_only_what_fits_is_proposed(monkeypatch):
    limit = needed(max_neighbors=16)
    assert proposed(limit=limit) == [{"ring_cap": 16}, {"model": "h2gcn-s1"}]
    # Smaller than what was asked for.
    assert {"ring_cap": 16} in proposed(max_neighbors=100, limit=limit)
    limit = needed(batch_size=64, on_demand=True)
    assert {"batch_size": 64} in proposed(batch_size=900, limit=limit)
    # Both together where neither is enough, and no batch if all nodes are needed.
    work = replace(WORK, step=lambda _, targets, __: 10**5 * targets)
    limit = needed(max_neighbors=64, batch_size=64, workload=work)
    both = {"ring_cap": 64, "batch_size": 64}
    assert both in proposed(max_neighbors=100, workload=work, limit=limit)
    whole = replace(WORK, receptive_field=None)
    assert {"batch_size": 256} not in proposed(workload=whole, limit=needed() - 1)
    # A model without a far ring, and a prediction, have no other rings or model.
    limit = needed(chosen=RINGS[:1], workload=work) - 1
    assert proposed(chosen=RINGS[:1], workload=work, limit=limit) == [
        {"batch_size": 256}
    ]
    assert proposed(chosen=RINGS[1:], limit=1) == [{"model": "h2gcn-s1"}]
    assert proposed(workload=PREDICTION, limit=1) == []
    monkeypatch.setattr(plan, "available_memory", lambda: 5)
    monkeypatch.setattr(RowRule, "rows", lambda *_, **__: pytest.fail("built"))
    assert str(refusal()).endswith("but 5 bytes are free; nothing fits")


@pytest.mark.filterwarnings("ignore::h2gcn.exceptions.H2GCNWarning")
def test_operators_in_memory_sampled_and_on_demand_are_the_same_matrix(monkeypatch):
    adj = random_adjacency(9)
    index, b = NeighborIndex(adj), torch.randn(adj.shape[0], 3)
    for options, kind in (
        ({}, Operator),
        ({"max_neighbors": 100}, Operator),
        ({"limit": 1e9}, ComputedOperator),
    ):
        if "limit" in options:
            monkeypatch.setattr(plan, "training_bytes", rings_too_large)
        for self_loops in (False, True):
            chosen = [RowRule(hop=hop, self_loops=self_loops) for hop in (1, 2)]
            made = plan_rings(index, chosen, RingOptions(**options))
            rings = build_rings(index, made)
            assert [type(ring) for ring in rings] == [Operator, kind]
            for ring, matrix in zip(rings, build_matrices(chosen, adj), strict=True):
                expected = torch.from_numpy(matrix.toarray()) @ b
                torch.testing.assert_close(ring @ b, expected, rtol=1e-5, atol=1e-6)


def test_sampled_rings_are_not_symmetric():
    (ring,) = build_rings(STAR, planned(chosen=RINGS[1:], max_neighbors=3))
    dense = torch.from_numpy(ring.scipy.toarray())
    torch.testing.assert_close(ring.T @ torch.ones(N, 1), dense.T.sum(1)[:, None])


@pytest.mark.filterwarnings("ignore::h2gcn.exceptions.H2GCNWarning")
def test_a_first_batch_does_not_count_the_whole_ring(monkeypatch):
    monkeypatch.setattr(plan, "training_bytes", rings_too_large)
    n = 3000
    index = NeighborIndex(adjacency(n, [(v, v + 1) for v in range(n - 1)]))
    options = RingOptions(limit=1e9, workload=WORK, batch_size=8)
    (ring,) = build_rings(index, plan_rings(index, RINGS[1:], options))
    ring.rows(np.arange(8)).take(np.arange(8))
    known = index.sizes("ring", 2, np.zeros(0, dtype=np.int64))
    assert np.flatnonzero(known >= 0).tolist() == list(range(10))


def test_large_rings_and_rows_on_demand_are_announced(monkeypatch):
    def build(**options):
        build_rings(STAR, planned(**options))

    with pytest.warns(H2GCNWarning, match="rows are computed when they are needed"):
        build(batch_size=8, limit=needed(batch_size=8) - 1)
    build()
    monkeypatch.setattr(plan, "LARGE_BYTES", 1e6)
    with pytest.warns(H2GCNWarning, match=r"1,001,000 entries.*; ring_cap=64 takes"):
        build()
    build(max_neighbors=4)  # no warning: this was asked for


def test_operators_are_cached_by_what_was_asked(small_graph):
    def operators(model="h2gcn-1", **options):
        cpu, asked = torch.device("cpu"), RingOptions(**options)
        return build_operators(plan_operators(small_graph, model, cpu, asked))

    first = operators(limit=1e12)
    # How much memory there is does not change what the rings are.
    assert operators(workload=WORK) is first
    capped = operators(max_neighbors=2)
    assert capped is not first
    assert np.diff(capped[1].scipy.indptr).max() == 2
    work = replace(WORK, features=1000)
    for model in ("mlp", "gcn", "h2gcn-s1", "h2gcn-1", "linbp"):
        operators(model, workload=work)
        with pytest.raises(MemoryLimitError):  # although the operators are at hand
            operators(model, limit=100, workload=work)
