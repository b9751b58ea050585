"""Forecasts of rings, where they are kept, what is refused, and what would fit."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from h2gcn.datasets import GaussianFeatures, generate_graph
from h2gcn.estimator import build_operators, plan_operators
from h2gcn.exceptions import H2GCNWarning
from h2gcn.graph import Graph
from h2gcn.rings import (
    ComputedOperator,
    MemoryLimitError,
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
    neighbors,
    operator_bytes,
    plan,
    plan_rings,
    training_bytes,
)
from h2gcn.sparse import Operator
from support.cases import each
from support.graphs import NAMED, adjacency, random_adjacency
from support.memory import rings_too_large
from support.refusals import only, refused

N = 1001
STAR = adjacency(N, [(0, v) for v in range(1, N)])
NEAR, FAR = [2000], [1000 * 999]
"""Entries of the star's rings."""
WORK = Workload(width=1, n_train=600, n_val=200)
CPU = torch.device("cpu")


def needed(*, computed: bool = False, far: list[int] = FAR, **options: Any) -> int:
    asked = RingOptions(**{"workload": WORK, **options})
    return training_bytes(N, NEAR, far, asked, computed=computed)


def storage(**options: Any) -> str:
    return plan_rings(
        STAR, (1, 2), RingOptions(**{"workload": WORK, **options})
    ).storage


def refusal(**options: Any) -> MemoryLimitError:
    with pytest.raises(MemoryLimitError) as caught:
        storage(**options)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "BLOCK_ENTRIES", 100)
    monkeypatch.setattr(neighbors, "BLOCK_ENTRIES", 100)


# --------------------------------------------------------------------------- forecasts


def test_a_forecast_that_counts_every_row_is_exact() -> None:
    for adj in (*NAMED.values(), *map(random_adjacency, range(10))):
        for hops in (1, 2, 3, 4):
            forecast = forecast_rings(adj, hops=hops, rows=max(adj.shape[0], 1))
            entries = tuple(ring.nnz for ring in exact_rings(adj, hops=hops))
            assert (forecast.entries, forecast.exact) == (entries, True)


def test_a_forecast_from_a_sample_is_close() -> None:
    features = GaussianFeatures(n_features=1)
    graph = generate_graph(n_nodes=5000, edges_per_node=4, features=features, seed=3)
    forecast = forecast_rings(graph.adj, rows=256)
    assert not forecast.exact
    assert forecast.entries[0] == graph.adj.nnz
    true = exact_rings(graph.adj)[1].nnz
    assert forecast.entries[1] == pytest.approx(true, rel=0.15)
    assert [type(number) for number in (*forecast.entries, forecast.bytes)] == [int] * 3


def test_a_forecast_reads_as_a_sentence() -> None:
    counted = RingForecast((1_000, 2_000_000_000), 48_000_024_000, exact=True)
    assert str(counted) == "2,000,001,000 entries in the rings 1 to 2, 48.0 GB"
    sampled = RingForecast((1, 2), 72, exact=False)
    assert str(sampled) == "about 3 entries in the rings 1 to 2, about 72 bytes"


@each("options", [{"hops": 0}, {"hops": 2.5}, {"rows": 0}])
def test_forecast_names_the_bad_parameter(options: dict[str, int]) -> None:
    with refused(**only(options)):
        forecast_rings(NAMED["path"], **options)


@each(
    ("entries", "n", "k"),
    [
        ((160_000, 400_000_000), 30_000, 64),  # a hub
        ((50_000_000, 4_000_000_000), 1_000_000, 64),  # average degree 50
        ((400_000, 49_999_999), 10_000, None),  # it is small
        ((1_000_001, 50_000_000), 10_000, None),  # not 50 times the graph
        ((1_000_000, 50_000_000), 10_000, 64),
        ((4_000_000, 199_999_999), 1_000_000, None),
        ((10_000_000, 200_000_000), 1_000_000, 64),  # whatever the graph
        ((10_000_000, 160_000_000), 1_000_000, None),  # average degree 10
        ((1_000_000, 200_000_000), 2_000_000, None),  # a cap would leave most of it
        ((1_038_000, 45_369_289), 11_758, None),  # tolokers
        ((396_706, 8_371_675), 5_201, None),  # squirrel
        ((62_742, 1_211_325), 2_277, None),  # chameleon
        ((2_000,), 1_000, None),  # no ring beyond the first
    ],
)
def test_the_rule_that_caps_rings(
    entries: tuple[int, ...], n: int, k: int | None
) -> None:
    assert auto_max_neighbors(RingForecast(entries, 0, exact=False), n) == k


# ------------------------------------------------------------------------------- bytes


def test_an_entry_is_a_value_and_a_column() -> None:
    assert operator_bytes(1000) == 8000
    assert operator_bytes(1000, train=0.5) == 16_000  # with the transpose
    assert operator_bytes(1000, train=0.9, val=0.05) == pytest.approx(22_800)
    assert operator_bytes(1000, symmetric=False) == 16_000
    assert operator_bytes(2**31) == 12 * 2**31


def test_what_makes_a_training_larger() -> None:
    base = needed()
    assert base == pytest.approx(1.2 * 8 * (NEAR[0] + FAR[0]) * 2.4, rel=0.01)
    more_rows = needed(workload=replace(WORK, n_train=950))
    assert more_rows - base == pytest.approx(1.2 * 16 * FAR[0] * 0.35, rel=0.01)
    work = replace(WORK, step=lambda nodes, targets: 1000 * nodes + targets)
    assert needed(workload=work) - base == round(1.2 * (1000 * N + 600))
    assert needed(workload=replace(WORK, features=10**6)) - base == 2.4 * 10**6
    assert needed(workload=replace(WORK, entry=8)) > base + 8 * FAR[0]
    assert needed(max_neighbors=4) < base / 10
    assert needed(computed=True) < base / 10
    # Of 8 nodes, one round takes 8 rows; two take those of all nodes around them.
    one, two = (
        needed(batch_size=8, workload=replace(WORK, reach=reach)) for reach in (1, 2)
    )
    assert one < base < two


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
def test_the_forecast_is_about_what_a_training_takes(
    model: str, tmp_path: Path
) -> None:
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


# ----------------------------------------------------------------------------- choices


def test_memory_comes_first_then_rows_on_demand() -> None:
    assert storage(limit=needed()) == "memory"
    batches = {"batch_size": 8, "on_demand": True}
    limit = needed(batch_size=8)
    assert storage(limit=limit, **batches) == "memory"
    assert storage(limit=limit - 1, **batches) == "on demand"
    prediction = {"workload": Workload(width=1), "on_demand": True}
    limit = needed(computed=True, workload=Workload(width=1))
    assert storage(limit=limit, **prediction) == "on demand"


def test_a_cap_is_a_cap() -> None:
    limit = needed(max_neighbors=4)
    assert storage(limit=limit, max_neighbors=4) == "capped"
    assert "the capped rings" in str(refusal(limit=limit - 1, max_neighbors=4))


@each("hops", [(), (1,)])
def test_ring_1_is_the_graph_itself(hops: tuple[int, ...]) -> None:
    limit = training_bytes(N, NEAR * len(hops), (), RingOptions(workload=WORK))
    options = RingOptions(limit=limit, workload=WORK)
    chosen = plan_rings(STAR, hops, options)
    assert (chosen.storage, chosen.forecast) == ("memory", None)
    with pytest.raises(MemoryLimitError):
        plan_rings(STAR, hops, replace(options, limit=limit - 1))


def test_a_refusal_names_what_is_needed_what_is_free_and_what_would_fit() -> None:
    limit = needed() - 1
    error = refusal(limit=limit)
    assert (error.needed, error.available) == (needed(), limit)
    assert [change for change, _ in error.alternatives] == [
        {"ring_cap": 64},
        {"batch_size": 256},
        {"model": "h2gcn-s1"},
    ]
    sizes = [size for _, size in error.alternatives]
    assert sizes == [
        needed(max_neighbors=64),
        needed(batch_size=256),
        needed(far=[]),
    ]
    assert str(error) == (
        "the rings will not fit in memory: the training takes 23.1 MB, with 1,001,000 "
        "entries in the rings 1 to 2, but the limit is 23.1 MB; what fits: "
        "ring_cap=64: 1.6 MB; batch_size=256: 20.7 MB; model='h2gcn-s1': 74.9 kB"
    )


def test_only_what_fits_is_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    def proposed(**options: Any) -> list[Any]:
        return [change for change, _ in refusal(**options).alternatives]

    assert proposed(limit=needed(max_neighbors=16)) == [
        {"ring_cap": 16},
        {"model": "h2gcn-s1"},
    ]
    # Smaller than what was asked for.
    limit = needed(max_neighbors=16)
    assert {"ring_cap": 16} in proposed(max_neighbors=100, limit=limit)
    limit = needed(batch_size=64, computed=True)
    assert {"batch_size": 64} in proposed(batch_size=900, on_demand=True, limit=limit)
    # Both together where neither is enough, and no batch if all nodes are needed.
    work = replace(WORK, step=lambda _, targets: 10**5 * targets)
    limit = needed(max_neighbors=64, batch_size=64, workload=work)
    both = {"ring_cap": 64, "batch_size": 64}
    assert both in proposed(max_neighbors=100, workload=work, limit=limit)
    whole = replace(WORK, reach=None)
    assert {"batch_size": 256} not in proposed(workload=whole, limit=needed() - 1)
    # A prediction has no other rings, and no other model.
    assert proposed(workload=Workload(width=1), on_demand=True, limit=1) == []
    monkeypatch.setattr(plan, "available_memory", lambda: 5)
    assert str(refusal()).endswith("but 5 bytes are free; nothing fits")


def test_a_model_without_rings_is_checked_too() -> None:
    work = replace(WORK, step=lambda nodes, _: 10**4 * nodes)
    limit = training_bytes(N, NEAR, (), RingOptions(workload=work))
    check_memory(N, NEAR, RingOptions(limit=limit, workload=work))
    with pytest.raises(MemoryLimitError) as caught:
        check_memory(N, NEAR, RingOptions(limit=limit - 1, workload=work))
    assert str(caught.value).startswith("the training will not fit in memory: ")
    assert [change for change, _ in caught.value.alternatives] == [{"batch_size": 256}]
    options = RingOptions(limit=limit, workload=work)
    with pytest.raises(MemoryLimitError):
        check_memory(N, NEAR, options, symmetric=False)


def test_nothing_is_built_before_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbors, "ring_rows", lambda *_, **__: pytest.fail("built"))
    assert refusal(limit=1).alternatives == ()


# ----------------------------------------------------------------------- what is built


@each("self_loops", [False, True])
@each(
    ("options", "kind"),
    [
        ({}, Operator),
        ({"max_neighbors": 100}, Operator),
        ({"limit": 1e9, "on_demand": True}, ComputedOperator),
    ],
)
@pytest.mark.filterwarnings("ignore::h2gcn.exceptions.H2GCNWarning")
def test_all_of_them_are_the_same_matrix(
    options: dict[str, Any],
    kind: type,
    self_loops: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "limit" in options:
        monkeypatch.setattr(plan, "training_bytes", rings_too_large)
    adj = random_adjacency(9)
    chosen = plan_rings(adj, (1, 2), RingOptions(**options))
    rings = build_rings(adj, chosen, self_loops=self_loops)
    assert [type(ring) for ring in rings] == [Operator, kind]
    b = torch.randn(adj.shape[0], 3)
    exact = build_matrices(
        [RowRule(hop=hop, self_loops=self_loops) for hop in (1, 2)], adj
    )
    for ring, matrix in zip(rings, exact, strict=True):
        expected = torch.from_numpy(matrix.toarray()) @ b
        torch.testing.assert_close(ring @ b, expected, rtol=1e-5, atol=1e-6)


def test_large_rings_and_rows_on_demand_are_announced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def build(**options: Any) -> None:
        asked = RingOptions(**{"workload": WORK, **options})
        build_rings(STAR, plan_rings(STAR, (1, 2), asked))

    batches = {"on_demand": True, "batch_size": 8}
    with pytest.warns(H2GCNWarning, match="rows are computed when they are needed"):
        build(limit=needed(batch_size=8) - 1, **batches)
    build()
    monkeypatch.setattr(plan, "LARGE_BYTES", 1e6)
    with pytest.warns(H2GCNWarning, match=r"1,001,000 entries.*; ring_cap=64 takes"):
        build()
    build(max_neighbors=4)  # no warning: this was asked for


def test_operators_are_cached_by_what_was_asked(small_graph: Graph) -> None:
    def operators(model: str = "h2gcn-1", **options: Any) -> tuple[Any, ...]:
        asked = RingOptions(**options)
        return build_operators(plan_operators(small_graph, model, CPU, asked))

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
