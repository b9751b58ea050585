"""Where rings shall live: what is chosen, what is said, what is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from h2gcn.estimator import build_operators, plan_operators
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import CSR, Graph
from h2gcn.models.h2gcn import ring_operators as exact_operators
from h2gcn.rings import (
    BlockedRing,
    Needs,
    RingOptions,
    Work,
    build_rings,
    check_memory,
    plan as ring_plan,
    plan_rings,
)
from h2gcn.rings.footprint import SLACK
from h2gcn.sparse import Operator
from support.cases import each
from support.graphs import NAMED, adjacency, random_adjacency

STAR = adjacency(1001, [(0, v) for v in range(1, 1001)])
FIRST, SECOND = 2000, 1000 * 999
"""Entries of the star's rings."""
WORK = Work(width=1, n_train=600, n_val=200)
NEEDS = Needs(1001, (FIRST,), (SECOND,), WORK)
CPU = torch.device("cpu")


def storage(*, work: Work = WORK, **options: object) -> str:
    asked = RingOptions(work=work, **options)  # type: ignore[arg-type]
    return plan_rings(STAR, (1, 2), asked).storage


def build(adj: CSR, options: RingOptions) -> None:
    build_rings(adj, plan_rings(adj, (1, 2), options))


def operators(graph: Graph, model: str, **options: object) -> tuple[object, ...]:
    asked = RingOptions(**options)  # type: ignore[arg-type]
    return build_operators(plan_operators(graph, model, CPU, asked))


def refused(**options: object) -> str:
    with pytest.raises(InputError) as caught:
        storage(**options)  # type: ignore[arg-type]
    said = str(caught.value)
    assert "\n" not in said
    return said


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a ring that is never whole be read in blocks smaller than these rings."""
    monkeypatch.setattr(ring_plan, "BLOCK", 100)


# ------------------------------------------------------------------ what is chosen


def test_memory_comes_first() -> None:
    need = NEEDS.memory()
    assert storage(limit=need) == "memory"
    assert storage(limit=need, store=Path("rings")) == "memory"
    assert storage(limit=NEEDS.memory(8), on_demand=True, batch=8) == "memory"


def test_then_the_file_then_the_batches(tmp_path: Path) -> None:
    assert storage(limit=NEEDS.memory() - 1, store=tmp_path) == "disk"
    less = NEEDS.memory(8) - 1
    assert storage(limit=less, store=tmp_path, on_demand=True, batch=8) == "disk"
    assert storage(limit=less, on_demand=True, batch=8) == "on demand"


def test_the_training_counts_too() -> None:
    work = replace(WORK, step=lambda nodes, targets: 1000 * nodes + targets)
    need = replace(NEEDS, work=work).memory()
    assert need - NEEDS.memory() == round(SLACK * (1000 * 1001 + 600))
    assert storage(work=work, limit=need) == "memory"
    assert "will not fit in memory" in refused(work=work, limit=need - 1)


def test_more_rows_of_training_take_more() -> None:
    most = replace(WORK, n_train=950)
    need = replace(NEEDS, work=most).memory()
    assert need - NEEDS.memory() == pytest.approx(SLACK * 16 * SECOND * 0.35, rel=0.01)
    assert storage(work=most, limit=need) == "memory"
    refused(work=most, limit=need - 1)


def test_a_cap_is_a_cap() -> None:
    need = NEEDS.capped(4)
    assert need < NEEDS.memory() / 10
    assert storage(limit=need, cap=4) == "capped"
    assert refused(limit=need - 1, cap=4).startswith(
        "the capped rings will not fit in memory: "
    )


@each("cap", [None, 4])
@each("stored", [False, True])
def test_the_limit_holds_wherever_the_rings_are(
    cap: int | None, stored: bool, tmp_path: Path
) -> None:
    store = tmp_path if stored else None
    for batch in (None, 8):
        said = refused(
            cap=cap, store=store, limit=1, batch=batch, on_demand=batch is not None
        )
        assert "will not fit in memory" in said


@each("hops", [(), (1,)])
def test_ring_1_is_the_graph_itself(hops: tuple[int, ...]) -> None:
    need = Needs(1001, (FIRST,) * len(hops), (), WORK).memory()
    options = RingOptions(limit=need, work=WORK)
    plan = plan_rings(STAR, hops, options)
    assert (plan.storage, plan.forecast) == ("memory", None)


# ----------------------------------------------------------------- what is refused


def test_a_refusal_has_the_forecast_and_what_fits() -> None:
    limit = NEEDS.memory() - 1
    assert refused(limit=limit) == (
        "the rings will not fit in memory: 1,001,000 entries in the rings 1 to 2, 32.7 "
        "MB, and 0 bytes for the training, but the limit is 32.7 MB; what fits: "
        "ring_cap=64: 2.6 MB; ring_store=…: 160.2 kB and 4.0 MB on disk; "
        "batch_size=256: 11.2 MB; model='h2gcn-s1' (1-hop only): 110.4 kB"
    )


def test_only_what_fits_is_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    said = refused(limit=NEEDS.elsewhere())
    assert "ring_cap" not in said
    assert "batch_size" not in said
    assert "; what fits: ring_store=…: " in said
    monkeypatch.setattr(ring_plan, "available_memory", lambda: 5)
    assert ", but 5 bytes are free; nothing fits: " in refused()


def test_a_smaller_cap_or_batch_is_proposed() -> None:
    said = refused(cap=100, limit=NEEDS.capped(16) + 1)
    assert "what fits: ring_cap=16: " in said
    said = refused(batch=900, on_demand=True, limit=NEEDS.elsewhere(64) + 1)
    assert "batch_size=64: " in said
    assert "batch_size=256" not in said


def test_where_nothing_fits_that_is_said() -> None:
    work = replace(WORK, features=10**9)
    said = refused(work=work, limit=5e8)
    assert said.endswith("the limit is 500.0 MB; nothing fits: 2.4 GB at least")
    assert "model=" not in said


def test_without_a_graph_is_the_last_way() -> None:
    work = replace(WORK, width=10, step=lambda nodes, _: 10**6 * nodes)
    least = work.embedding_only(1001)
    said = refused(work=work, limit=least)
    assert said.endswith("what fits: model='mlp' (no graph): 348.3 kB")
    said = refused(work=work, limit=least - 1)
    assert said.endswith("model='mlp' and batch_size=256 (no graph): 89.1 kB")


def test_two_rounds_bring_nearly_all_rows_into_a_batch() -> None:
    # Of 8 nodes, one round needs 8 rows; two need those of all nodes around them.
    one, two = (replace(NEEDS, work=replace(WORK, reach=reach)) for reach in (1, 2))
    assert two.elsewhere(8) > 100 * (one.elsewhere(8) - one.elsewhere(1))
    limit = one.elsewhere(256) + 1
    said = refused(work=two.work, batch=900, on_demand=True, limit=limit)
    assert said.startswith(
        "a batch of 900 nodes will not fit in memory: 43.2 MB for about 1,001 rows "
        "of the rings (1,001,000 entries in the rings 1 to 2, "
    )
    assert "; batch_size" not in said
    assert "what fits: ring_cap=64: " in said
    assert "model='h2gcn-1' and batch_size=256: " in said
    assert storage(work=one.work, batch=256, on_demand=True, limit=limit) == "on demand"


def test_a_model_that_needs_the_whole_graph_has_no_batches() -> None:
    work = replace(WORK, reach=None)
    assert "batch_size" not in refused(work=work, limit=NEEDS.memory() - 1)


def test_a_model_without_rings_is_checked_too() -> None:
    work = replace(WORK, step=lambda nodes, _: 10**4 * nodes, width=10)
    needs = Needs(1001, (FIRST,), (), work)
    check_memory(1001, (FIRST,), RingOptions(limit=needs.memory(), work=work))
    with pytest.raises(InputError) as caught:
        check_memory(1001, (FIRST,), RingOptions(limit=needs.memory() - 1, work=work))
    assert str(caught.value) == (
        "the training will not fit in memory: 12.1 MB, but the limit is 12.1 MB; what "
        "fits: batch_size=256: 9.3 MB"
    )


def test_a_prediction_proposes_no_other_training() -> None:
    work = Work(width=1)
    needs = replace(NEEDS, work=work)
    limit = needs.elsewhere() + 1
    said = refused(work=work, on_demand=True, batch=900, limit=limit)
    assert said.endswith(f"what fits: no 'batch_size': {limit / 1e3:.1f} kB")
    assert storage(work=work, on_demand=True, limit=limit) == "on demand"
    assert "nothing fits: " in refused(work=work, on_demand=True, limit=1)


def test_a_refusal_comes_before_any_ring_is_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computed: list[str] = []
    monkeypatch.setattr(
        ring_plan, "normalised_ring", lambda *_, **__: computed.append("ring")
    )
    with pytest.raises(InputError, match="will not fit"):
        build(NAMED["path"], RingOptions(limit=1))
    assert computed == []


# ---------------------------------------------------------------------- what is made


@each("self_loops", [False, True])
@each(
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
    options: dict[str, object],
    kind: type,
    self_loops: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    adj = random_adjacency(9)
    if "store" in options:
        options = options | {"store": tmp_path}
    monkeypatch.setattr(Needs, "elsewhere", lambda *_: 0)
    plan = plan_rings(adj, (1, 2), RingOptions(**options))  # type: ignore[arg-type]
    rings = build_rings(adj, plan, self_loops=self_loops)
    assert isinstance(rings[0], Operator)
    assert isinstance(rings[1], kind)
    b = torch.randn(adj.shape[0], 3)
    exact = exact_operators(adj, hops=(1, 2), self_loops=self_loops)
    for ring, matrix in zip(rings, exact, strict=True):
        expected = torch.from_numpy(matrix.toarray()) @ b
        torch.testing.assert_close(ring @ b, expected, rtol=1e-5, atol=1e-6)


def test_the_choice_is_said(tmp_path: Path) -> None:
    limit = NEEDS.memory() - 1
    where = RingOptions(limit=limit, store=tmp_path, work=WORK)
    with pytest.warns(H2GCNWarning, match=r"would not fit in memory .* are kept in "):
        build(STAR, where)
    batches = RingOptions(limit=NEEDS.memory(8) - 1, on_demand=True, work=WORK, batch=8)
    with pytest.warns(H2GCNWarning, match=r"rows are computed when they are needed"):
        build(STAR, batches)
    with pytest.warns(
        H2GCNWarning, match=r"fit in memory \(1,001,000 .* MB\); .* not needed"
    ):
        build(STAR, replace(where, limit=1e9))


def test_a_file_is_for_the_processor(tmp_path: Path) -> None:
    options = RingOptions(limit=NEEDS.memory() - 1, store=tmp_path, work=WORK)
    with pytest.raises(InputError, match=r"add device='cpu', or train in batches"):
        plan_rings(STAR, (1, 2), options, device="mps")


def test_operators_are_remembered_by_what_was_asked(small_graph: Graph) -> None:
    first = operators(small_graph, "h2gcn-1", limit=1e12)
    # How much memory there is does not change what the rings are.
    again = operators(small_graph, "h2gcn-1", work=WORK)
    assert again is first
    capped = operators(small_graph, "h2gcn-1", cap=2)
    assert capped is not first
    assert np.diff(capped[1].scipy.indptr).max() == 2  # type: ignore[union-attr]


@each("model", ["mlp", "gcn", "h2gcn-s1", "h2gcn-1", "linbp"])
def test_operators_at_hand_are_checked_against_a_limit(
    model: str, small_graph: Graph
) -> None:
    work = replace(WORK, features=1000)
    operators(small_graph, model, work=work)
    with pytest.raises(InputError, match="will not fit in memory"):
        operators(small_graph, model, limit=100, work=work)


def test_the_forecast_of_the_plan_knows_the_split() -> None:
    few, many = (
        plan_rings(
            STAR, (1, 2), RingOptions(work=replace(WORK, n_train=count))
        ).forecast
        for count in (100, 950)
    )
    assert few is not None
    assert many is not None
    assert few.entries == many.entries == (FIRST, SECOND)
    assert many.bytes > 1.7 * few.bytes
