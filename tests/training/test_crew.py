"""Several processes that train one model: as one process would."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from h2gcn.datasets import generate_graph
from h2gcn.graph import CSR, Graph
from h2gcn.models import H2GCN
from h2gcn.models.h2gcn import ring_operators
from h2gcn.sparse import Operator, Target, seeded, to_tensor
from h2gcn.training import SpreadOperator, TrainConfig, Workers, balanced, train

Work = Callable[[Workers], Any]
GRAPH = generate_graph(n_nodes=120, homophily=0.3, seed=3)


def _go(rank: int, work: Work, bounds: list[int], folder: str) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    size = len(bounds) - 1
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/group", rank=rank, world_size=size
    )
    torch.save(work(Workers(bounds)), f"{folder}/{rank}.pt")
    dist.barrier()  # nobody leaves before all have come
    dist.destroy_process_group()


def together(work: Work, bounds: list[int], folder: Path) -> list[Any]:
    """Return what each of several processes found."""
    size = len(bounds) - 1
    mp.start_processes(
        _go, (work, bounds, str(folder)), nprocs=size, start_method="fork"
    )
    return [
        torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(size)
    ]


def model_of(graph: Graph, dropout: float, rounds: int) -> H2GCN:
    with seeded(1):
        return H2GCN(
            graph.n_features,
            graph.n_classes,
            hidden_channels=8,
            rounds=rounds,
            final=range(rounds + 1),
            dropout=dropout,
        )


def operators_of(graph: Graph) -> tuple[CSR, ...]:
    return ring_operators(graph.adj)


CONFIG = TrainConfig(epochs=12, learning_rate=0.05, class_weight="balanced")


def alone(dropout: float, rounds: int) -> tuple[Any, torch.Tensor]:
    model = model_of(GRAPH, dropout, rounds)
    operators = [Operator(op, symmetric=True) for op in operators_of(GRAPH)]
    x = to_tensor(GRAPH.x)
    result = train(model, x, operators, GRAPH.y, GRAPH.splits[0], CONFIG, seed=5)
    with torch.no_grad():
        return result, model(x, operators)


def spread(dropout: float, rounds: int) -> Work:
    def work(workers: Workers) -> Any:
        model = model_of(GRAPH, dropout, rounds)
        own = workers.own
        operators = [
            SpreadOperator(Operator(CSR(op[own])), workers)
            for op in operators_of(GRAPH)
        ]
        x = to_tensor(GRAPH.x[own])
        split = GRAPH.splits[0]
        result = train(
            model, x, operators, GRAPH.y, split, CONFIG, seed=5, crew=workers
        )
        with torch.no_grad():
            logits = workers.join(model(x, operators))
        return result.best_epoch, result.history, logits, workers.sent

    return work


@pytest.mark.parametrize("bounds", [[0, 120], [0, 50, 120], [0, 1, 60, 120]])
@pytest.mark.parametrize(("dropout", "rounds"), [(0.0, 2), (0.5, 2), (0.4, 1)])
def test_workers_train_as_one_process_does(
    dropout: float, rounds: int, bounds: list[int], tmp_path: Path
) -> None:
    result, logits = alone(dropout, rounds)
    found = together(spread(dropout, rounds), bounds, tmp_path)
    for best, history, joined, _ in found:
        assert best == result.best_epoch
        torch.testing.assert_close(joined, logits, rtol=0, atol=1e-5)
        for ours, theirs in zip(history, result.history, strict=True):
            assert ours.loss == pytest.approx(theirs.loss, abs=1e-5)
            assert ours.val_score == theirs.val_score
    assert all(torch.equal(found[0][2], one[2]) for one in found), "bit for bit alike"


def test_a_worker_may_have_no_nodes(tmp_path: Path) -> None:
    result, logits = alone(0.5, 1)
    found = together(spread(0.5, 1), [0, 0, 120], tmp_path)
    assert found[0][0] == result.best_epoch
    torch.testing.assert_close(found[1][2], logits, rtol=0, atol=1e-5)


def test_what_travels_is_what_the_products_need(tmp_path: Path) -> None:
    def product(workers: Workers) -> int:
        operator = SpreadOperator(Operator(CSR(GRAPH.adj[workers.own])), workers)
        dense = torch.ones(len(workers.own), 3, requires_grad=True)
        before = workers.sent
        total = operator @ dense + operator @ dense
        total.sum().backward()
        degrees = torch.from_numpy(GRAPH.degrees[workers.own])
        assert torch.equal(dense.grad, 2.0 * degrees[:, None].expand(-1, 3))
        return workers.sent - before

    sent = together(product, [0, 40, 120], tmp_path)
    # Gathered once: own rows to the other; back: what was found for the other's rows.
    assert sent == [4 * 3 * (40 + 80), 4 * 3 * (80 + 40)]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_costs_are_shared_alike(size: int) -> None:
    costs = np.random.default_rng(size).integers(1, 50, 400)
    bounds = balanced(costs, size)
    assert bounds[0] == 0
    assert bounds[-1] == len(costs)
    assert len(bounds) == size + 1
    parts = [costs[a:b].sum() for a, b in pairwise(bounds)]
    assert max(parts) <= costs.sum() / size + 2 * costs.max()
    assert balanced(np.array([9.0]), 3) == [0, 1, 1, 1]


def test_a_split_in_the_order_of_workers(tmp_path: Path) -> None:
    def order(workers: Workers) -> Any:
        split = workers.arrange(GRAPH.splits[0])
        here = [workers.own[workers.here(i)].tolist() for i in split.parts.values()]
        return [i.tolist() for i in split.parts.values()], here

    found = together(order, [0, 30, 120], tmp_path)
    for part, whole in enumerate(found[0][0]):
        assert whole == found[0][1][part] + found[1][1][part]
        given = list(GRAPH.splits[0].parts.values())[part]
        assert sorted(whole) == sorted(given.tolist())


def test_the_target_keeps_the_names_of_nodes() -> None:
    index = torch.tensor([2, 0])
    assert torch.equal(Target(index, ()).names, index)
    assert Target(index, (), torch.tensor([9, 4])).names.tolist() == [9, 4]
