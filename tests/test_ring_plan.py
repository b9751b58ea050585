"""Where rings shall live: what is chosen, what is said, what is refused."""

from pathlib import Path

import numpy as np
import pytest
import torch

from conftest import NAMED, adjacency, random_adjacency
from h2gcn import ring_plan
from h2gcn.blocked_ring import BlockedRing
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import Graph
from h2gcn.models.h2gcn import ring_operators as exact_operators
from h2gcn.operators import find_operators
from h2gcn.ring_forecast import BYTES_PER_ENTRY, forecast_ring
from h2gcn.ring_plan import RingOptions, plan_rings, ring_operators
from h2gcn.sparse import Operator

STAR = adjacency(41, [(0, v) for v in range(1, 41)])
FIRST, SECOND = 80, 40 * 39
"""Entries of the star's rings."""
NEED = (FIRST + SECOND) * BYTES_PER_ENTRY
CPU = torch.device("cpu")


def place(**options: object) -> str:
    return plan_rings(STAR, (1, 2), RingOptions(**options))[0]  # type: ignore[arg-type]


def test_memory_comes_first() -> None:
    assert place(limit=NEED) == "memory"
    assert place(limit=NEED, store=Path("rings")) == "memory"
    assert place(limit=NEED, on_demand=True) == "memory"


def test_then_the_file_then_the_batches(tmp_path: Path) -> None:
    assert place(limit=NEED - 1, store=tmp_path) == "disk"
    assert place(limit=NEED - 1, store=tmp_path, on_demand=True) == "disk"
    assert place(limit=NEED - 1, on_demand=True) == "on demand"


def test_the_training_counts_too() -> None:
    assert place(limit=NEED + 100, work=100) == "memory"
    assert place(limit=NEED + 100, work=101, on_demand=True) == "on demand"


def test_a_cap_is_a_cap() -> None:
    need = (FIRST + 4 * 41) * BYTES_PER_ENTRY
    assert place(limit=need, cap=4) == "capped"
    with pytest.raises(InputError, match=r"capped rings will not fit in memory: "):
        place(limit=need - 1, cap=4)


@pytest.mark.parametrize("hops", [(), (1,)])
def test_ring_1_is_the_graph_itself(hops: tuple[int, ...]) -> None:
    assert plan_rings(STAR, hops, RingOptions(limit=1)) == ("memory", None)


def test_a_refusal_has_the_forecast_and_what_fits() -> None:
    with pytest.raises(InputError) as caught:
        place(limit=NEED - 1)
    said = str(caught.value)
    assert said.startswith(
        "the rings will not fit in memory: 1,640 entries in the rings 1 to 2, 0.0 GB, "
        "and 0.0 MB for the training, but the limit is 0.0 MB; what fits: "
    )
    assert "--ring-store DIR: 0.0 MB and 0.0 MB on disk" in said
    assert "--model h2gcn-s1 (D1 and D3, 1-hop only): 0.0 MB" in said
    assert "\n" not in said


def test_what_does_not_fit_is_not_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError) as caught:
        place(limit=FIRST * BYTES_PER_ENTRY, work=0)
    # A cap of 64 is no cap on this graph, and 1,024 nodes are more than it has.
    assert "--ring-cap" not in str(caught.value)
    assert "--batch-size" not in str(caught.value)
    assert "--ring-store" in str(caught.value)
    with pytest.raises(InputError, match=r"what fits: --model mlp"):
        place(limit=1)
    monkeypatch.setattr(ring_plan, "available_memory", lambda: 1)
    with pytest.raises(InputError, match=r"but 0\.0 MB are free"):
        place()


@pytest.mark.parametrize("self_loops", [False, True])
@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, Operator),
        ({"cap": 100}, Operator),
        ({"limit": 1, "on_demand": True}, BlockedRing),
        ({"limit": 1, "store": "rings"}, BlockedRing),
    ],
)
@pytest.mark.filterwarnings("ignore::h2gcn.exceptions.H2GCNWarning")
def test_all_of_them_are_the_same_matrix(
    options: dict[str, object], kind: type, self_loops: bool, tmp_path: Path
) -> None:
    adj = random_adjacency(9)
    if "store" in options:
        options = options | {"store": tmp_path}
    rings = ring_operators(
        adj,
        (1, 2),
        RingOptions(**options),  # type: ignore[arg-type]
        self_loops=self_loops,
    )
    assert isinstance(rings[0], Operator)
    assert isinstance(rings[1], kind)
    b = torch.randn(adj.shape[0], 3)
    exact = exact_operators(adj, hops=(1, 2), self_loops=self_loops)
    for ring, matrix in zip(rings, exact, strict=True):
        expected = torch.from_numpy(matrix.toarray()) @ b
        torch.testing.assert_close(ring @ b, expected, rtol=1e-5, atol=1e-6)


def test_the_choice_is_said(tmp_path: Path) -> None:
    with pytest.warns(H2GCNWarning, match=r"would not fit in memory .* are kept in "):
        ring_operators(STAR, (1, 2), RingOptions(limit=1, store=tmp_path))
    with pytest.warns(H2GCNWarning, match=r"rows are computed when they are needed"):
        ring_operators(STAR, (1, 2), RingOptions(limit=1, on_demand=True))
    with pytest.warns(H2GCNWarning, match=r"fit in memory \(1,640 .* not needed"):
        ring_operators(STAR, (1, 2), RingOptions(store=tmp_path))


def test_a_file_is_for_the_processor(tmp_path: Path) -> None:
    options = RingOptions(limit=1, store=tmp_path)
    with pytest.raises(InputError, match=r"add --device cpu, or train in batches"):
        ring_operators(STAR, (1, 2), options, device="mps")


def test_operators_are_remembered_by_what_was_asked(small_graph: Graph) -> None:
    first = find_operators(small_graph, "h2gcn-1", CPU, RingOptions(limit=1e12))
    # How much memory there is does not change what the rings are.
    again = find_operators(small_graph, "h2gcn-1", CPU, RingOptions(work=5))
    assert again is first
    capped = find_operators(small_graph, "h2gcn-1", CPU, RingOptions(cap=2))
    assert capped is not first
    assert np.diff(capped[1].scipy.indptr).max() == 2  # type: ignore[union-attr]


def test_a_refusal_comes_before_any_ring_is_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computed: list[str] = []
    monkeypatch.setattr(
        ring_plan, "normalised_ring", lambda *_, **__: computed.append("ring")
    )
    with pytest.raises(InputError, match="will not fit"):
        ring_operators(NAMED["path"], (1, 2), RingOptions(limit=1))
    assert computed == []


def test_the_forecast_of_the_plan_is_the_forecast() -> None:
    assert plan_rings(STAR, (1, 2), RingOptions())[1] == forecast_ring(STAR)
