"""The forecast of the rings' size, against rings that are built."""

import pytest
import scipy.sparse as sp

from h2gcn.datasets import GaussianFeatures, generate_graph
from h2gcn.rings import RingForecast, exact_rings, forecast_ring
from h2gcn.rings.footprint import operator_bytes
from support.cases import each
from support.graphs import NAMED, random_adjacency
from support.refusals import only, refused


@each("named_adj", NAMED.values(), ids=NAMED)
@each("hops", [1, 2, 3, 4])
def test_a_forecast_that_counts_every_row_is_exact(
    named_adj: sp.csr_array, hops: int
) -> None:
    forecast = forecast_ring(named_adj, hops=hops)
    entries = tuple(ring.nnz for ring in exact_rings(named_adj, hops=hops))
    n = named_adj.shape[0]
    usual = sum(operator_bytes(size, n, train=0.6, val=0.2) for size in entries)
    assert forecast == RingForecast(entries, usual, exact=True)


@each("seed", range(10))
def test_a_forecast_that_counts_every_row_is_exact_on_random_graphs(seed: int) -> None:
    adj = random_adjacency(seed)
    entries = tuple(ring.nnz for ring in exact_rings(adj, hops=3))
    assert forecast_ring(adj, hops=3, rows=adj.shape[0]).entries == entries


def test_a_forecast_from_a_sample_is_close() -> None:
    graph = generate_graph(
        n_nodes=5000, edges_per_node=4, features=GaussianFeatures(n_features=1), seed=3
    )
    true = exact_rings(graph.adj)[1].nnz
    forecast = forecast_ring(graph.adj, rows=256)
    assert not forecast.exact
    assert forecast.entries[0] == graph.adj.nnz
    assert forecast.entries[1] == pytest.approx(true, rel=0.15)


def test_a_forecast_holds_python_integers() -> None:
    forecast = forecast_ring(NAMED["path"], rows=2)
    assert not forecast.exact
    assert [type(number) for number in (*forecast.entries, forecast.bytes)] == [int] * 3


def test_a_forecast_reads_as_a_sentence() -> None:
    counted = RingForecast((1_000, 2_000_000_000), 48_000_024_000, exact=True)
    assert str(counted) == "2,000,001,000 entries in the rings 1 to 2, 48.0 GB"
    guessed = RingForecast((1, 2), 72, exact=False)
    assert str(guessed) == "about 3 entries in the rings 1 to 2, about 72 bytes"
    small = RingForecast((1, 2), 7_200_000, exact=True)
    assert str(small) == "3 entries in the rings 1 to 2, 7.2 MB"


@each("options", [{"hops": 0}, {"hops": 2.5}, {"rows": 0}])
def test_forecast_names_the_bad_parameter(options: dict[str, int]) -> None:
    with refused(**only(options)):
        forecast_ring(NAMED["path"], **options)
