"""Operators of a graph: planned once a fit, built once a graph."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from h2gcn import Graph, NodeClassifier
from h2gcn.estimator import build_operators, operators, plan_operators
from h2gcn.rings import RingOptions, plan as ring_plan
from support.cases import each
from support.graphs import one_way

CPU = torch.device("cpu")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what was called of those that look at a whole graph."""
    called: list[str] = []
    for module, name in (
        (ring_plan, "forecast_rings"),
        (operators, "plan_rings"),
        (operators, "check_memory"),
        (operators, "build_rings"),
    ):
        original = getattr(module, name)

        def count(
            *given: Any, name: str = name, original: Any = original, **more: Any
        ) -> Any:
            called.append(name)
            return original(*given, **more)

        monkeypatch.setattr(module, name, count)
    return called


@pytest.mark.parametrize("limit", [None, 1.0])
def test_a_fit_with_a_checkpoint_plans_once(
    small_graph: Graph, tmp_path: Path, calls: list[str], limit: float | None
) -> None:
    clf = NodeClassifier("h2gcn-1", epochs=2, random_state=0, memory_limit=limit)
    clf.fit(small_graph, checkpoint=tmp_path / "c")
    assert calls == ["plan_rings", "forecast_rings", "build_rings"]


@each(
    ("model", "expected"),
    [
        ("gcn", ["plan_rings", "build_rings"]),
        ("mlp", ["plan_rings", "build_rings"]),
        ("linbp", ["check_memory"]),
    ],
)
def test_a_model_without_rings_is_checked_once(
    small_graph: Graph, tmp_path: Path, calls: list[str], model: str, expected: Any
) -> None:
    calls.clear()
    clf = NodeClassifier(model, epochs=2, random_state=0)
    clf.fit(small_graph, checkpoint=tmp_path / model)
    assert calls == expected


@each(
    ("model", "options", "entries"),
    [
        ("mlp", {}, ()),
        ("gcn", {}, (120,)),
        ("dir-gnn", {}, (60, 60)),
        ("gam", {}, (120, 120)),
        ("h2gcn-ns0", {}, (120, 180)),
        ("gdc", {}, (900,)),
        ("gdc", {"top": 5}, (150,)),
    ],
)
def test_every_operator_is_forecast(
    small_graph: Graph,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    options: dict[str, object],
    entries: tuple[object, ...],
) -> None:
    graph = replace(small_graph, directed=one_way(small_graph.adj, 0))
    asked, training_bytes = [], ring_plan.training_bytes

    def spy(n: int, rules: Any, sizes: Any, *args: Any, **more: Any) -> int:
        asked.append((rules, tuple(sizes)))
        return training_bytes(n, rules, sizes, *args, **more)

    monkeypatch.setattr(ring_plan, "training_bytes", spy)
    made = build_operators(plan_operators(graph, model, CPU, given=options))
    rules, sizes = asked[-1]
    assert sizes == entries
    loops = [graph.n_nodes * rule.self_loops for rule in rules]
    stored = [size + more for size, more in zip(sizes, loops, strict=True)]
    assert [op.scipy.nnz for op in made] == stored


def test_options_of_operators_by_value(small_graph: Graph) -> None:
    graph, given = replace(small_graph), {"top": 3, "alpha": 0.2}
    made = build_operators(plan_operators(graph, "gdc", CPU, given=given))
    assert made[0].scipy.nnz == 3 * 30
    same = {"alpha": 0.2, "dropout": 0.1, "top": np.int64(3)}
    assert plan_operators(graph, "gdc", CPU, given=same).ready is made
    for other in ({}, {"top": 3}, {"top": 4, "alpha": 0.2}):
        assert plan_operators(graph, "gdc", CPU, given=other).ready is None


def test_what_is_in_memory_is_not_planned_again(
    small_graph: Graph, calls: list[str]
) -> None:
    clf = NodeClassifier("h2gcn-1", epochs=2, random_state=0).fit(small_graph)
    calls.clear()
    clf.predict(small_graph)
    clf.fit(small_graph)
    assert calls == []
    clf.predict(replace(small_graph))
    assert calls == ["plan_rings", "forecast_rings", "build_rings"]


def test_a_plan_builds_what_it_says(small_graph: Graph) -> None:
    plan = plan_operators(small_graph, "h2gcn-1", CPU)
    assert (plan.on_demand, plan.ready) == (False, None)
    made = build_operators(plan)
    again = plan_operators(small_graph, "h2gcn-1", CPU, RingOptions(limit=1e9))
    assert again.ready is made
    assert build_operators(again) is made
    other = plan_operators(small_graph, "h2gcn-1", CPU, RingOptions(max_neighbors=2))
    assert other.ready is None
