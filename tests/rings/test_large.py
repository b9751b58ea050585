"""Rings that are far larger than their graph: the rule, the seconds, the words."""

import numpy as np
import pytest

from h2gcn.exceptions import H2GCNWarning
from h2gcn.rings import (
    RingForecast,
    RingOptions,
    Work,
    automatic_cap,
    build_rings,
    cap_words,
    exact as exact_module,
    exact_rings,
    footprint,
    forecast_ring,
    forecast_seconds,
    in_words,
    is_long,
    plan_rings,
    ring_blocks,
    sampled_ring,
    sampled_rows,
)
from h2gcn.rings.exact import capped_ring
from support.cases import each
from support.graphs import adjacency, random_adjacency

LEAVES = 200
STAR = adjacency(LEAVES + 1, [(0, v) for v in range(1, LEAVES + 1)])
"""Each leaf has 199 others in its 2-hop ring: 39,800 entries, a hundred times 400."""
HUB = RingForecast((160_000, 400_000_000), 9_300_000_000, exact=False)
"""One hub of 20,000 neighbours among 30,000 nodes."""


@pytest.fixture
def speeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a machine find ten million entries a second, and multiply 64 times that."""
    monkeypatch.setattr(footprint, "_speeds", lambda: (1e7, 64e7))


@each(
    ("entries", "n", "cap"),
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
def test_the_rule(entries: tuple[int, ...], n: int, cap: int | None) -> None:
    assert automatic_cap(RingForecast(entries, 0, exact=False), n) == cap


@pytest.mark.usefixtures("speeds")
def test_seconds_grow_with_the_entries() -> None:
    n = 1000
    work = Work(width=64, n_train=600, n_val=200)
    found = forecast_seconds(RingForecast((0, 10**8), 0, exact=True), n, work)
    # Found once; multiplied for training nodes, back, and for validation nodes.
    assert found.build == pytest.approx(10)
    assert found.epoch == pytest.approx(10 * (2 * 0.6 + 0.2))
    narrow = Work(width=32, n_train=600, n_val=200)
    half = forecast_seconds(RingForecast((0, 10**8), 0, exact=True), n, narrow)
    assert half.epoch == pytest.approx(found.epoch / 2)
    capped = forecast_seconds(RingForecast((0, 10**8), 0, exact=True), n, work, cap=100)
    # All of them are looked at to draw some, and few are multiplied.
    assert capped.build == found.build
    assert capped.epoch == pytest.approx(found.epoch / 1000)
    two = Work(width=64, n_train=600, n_val=200, reach=2)
    rounds = forecast_seconds(RingForecast((0, 10**8), 0, exact=True), n, two)
    assert rounds.epoch == pytest.approx(10 * 3 + 2 * found.epoch)


def test_a_machine_has_speeds() -> None:
    assert all(speed > 0 for speed in footprint._speeds())


@pytest.mark.usefixtures("speeds")
def test_what_is_long_is_told() -> None:
    small, gigabyte = 10**8, 10**9
    assert is_long(RingForecast((1, 10**6), gigabyte, exact=True), 1000)
    assert not is_long(RingForecast((1, 4 * 10**6), small, exact=True), 1000)
    assert not is_long(RingForecast((1, 4 * 10**7), small, exact=True), 1000)
    assert is_long(RingForecast((1, 5 * 10**7), small, exact=True), 1000)


def test_nothing_is_measured_for_small_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> tuple[float, float]:
        pytest.fail("measured")

    monkeypatch.setattr(footprint, "_speeds", never)
    assert not is_long(forecast_ring(STAR), LEAVES + 1)


def test_seconds_in_words() -> None:
    told = {0.4: "less than a second", 1: "about 1 second", 119: "about 119 seconds"}
    told |= {120: "about 2 minutes", 7200: "about 2 hours", 10**5: "about 28 hours"}
    assert {seconds: in_words(seconds) for seconds in told} == told


@pytest.mark.usefixtures("speeds")
def test_the_note_says_size_time_cap_and_how_to_have_all() -> None:
    assert cap_words(HUB, 30_000, 64) == (
        "the 2-hop ring would hold about 400,000,000 entries, 2,500 times those of the "
        "graph, take 9.3 GB, about 40 seconds to build and about 56 seconds an epoch "
        "of h2gcn-1: of each node's ring 64 are drawn instead, weighted by its true "
        "size (ring_cap=64); ring_cap='exact' takes all of them"
    )


@pytest.mark.usefixtures("speeds")
def test_exact_rings_that_take_long_are_told_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(footprint, "LONG_BYTES", 1e5)
    work = Work(width=64, n_train=100, n_val=40)
    plan = plan_rings(STAR, (1, 2), RingOptions(work=work))
    with pytest.warns(
        H2GCNWarning,
        match=r"the rings are large: 40,200 entries in the rings 1 to 2, .* MB; it "
        r"takes less than a second to build them and less than a second an epoch; "
        r"ring_cap=64 takes a sample",
    ):
        build_rings(STAR, plan)
    capped = plan_rings(STAR, (1, 2), RingOptions(cap=4, work=work))
    build_rings(STAR, capped)  # what was asked for is not told


# ------------------------------------------------------------------ rings in two ways


@each("seed", range(5))
def test_a_sample_is_what_a_capped_ring_draws(seed: int) -> None:
    adj = random_adjacency(seed + 20)
    drawn, capped = sampled_ring(adj, 3, seed=seed), capped_ring(adj, 3, seed=seed)
    assert np.array_equal(drawn.indices, capped.indices)
    # Each stands for as many as there are: rows sum to the true sizes.
    sizes = np.diff(exact_rings(adj)[1].indptr)
    np.testing.assert_allclose(drawn.sum(axis=1), sizes, rtol=1e-6)
    nodes = np.array([1, len(sizes) - 1, 1, 0])
    rows, found = sampled_rows(adj, 3, nodes, seed=seed)
    assert np.array_equal(rows.toarray(), drawn[nodes].toarray())
    assert found.tolist() == sizes[nodes].tolist()


def test_a_sample_of_all_is_the_ring() -> None:
    assert not (sampled_ring(STAR, LEAVES) != exact_rings(STAR)[1]).nnz


@each("hop", [2, 3])
def test_blocks_are_the_ring(hop: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_module, "RING_BLOCK", 4)
    adj = adjacency(8, [(v, v + 1) for v in range(7)])
    ring = exact_rings(adj, hops=hop)[hop - 1].toarray()
    parts = list(ring_blocks(adj, hop))
    assert len(parts) > 1
    assert np.array_equal(np.concatenate([p.toarray() for _, p in parts]), ring)
    assert [rows.start for rows, _ in parts[1:]] == [r.stop for r, _ in parts[:-1]]
