"""Several processes that train one model: as one would, and all alike to the bit."""

from __future__ import annotations

import math
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
from h2gcn.graph import CSR
from h2gcn.models import H2GCN
from h2gcn.models.h2gcn import ring_operators
from h2gcn.rings import ComputedOperator, NeighborIndex, RowRule
from h2gcn.sparse import Operator, Target, seeded, to_tensor
from h2gcn.training import (
    SpreadOperator,
    TrainConfig,
    Workers,
    balanced,
    count_blocks,
    cut_nodes,
    train,
)
from support.cases import each

Work = Callable[[Workers], Any]
GRAPH = generate_graph(n_nodes=120, homophily=0.3, seed=3)


def _go(rank: int, work: Work, blocks: list[int], folder: str, size: int) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/group", rank=rank, world_size=size
    )
    torch.save(work(Workers(blocks)), f"{folder}/{rank}.pt")
    dist.barrier()  # nobody leaves before all have come
    dist.destroy_process_group()


def together(work: Work, blocks: list[int], folder: Path, size: int) -> list[Any]:
    """Return what each of several processes found."""
    mp.start_processes(
        _go, (work, blocks, str(folder), size), nprocs=size, start_method="fork"
    )
    return [
        torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(size)
    ]


def model_of(dropout: float, rounds: int, **more: Any) -> H2GCN:
    with seeded(1):
        return H2GCN(
            GRAPH.n_features,
            GRAPH.n_classes,
            hidden_channels=8,
            rounds=rounds,
            final=range(rounds + 1),
            dropout=dropout,
            **more,
        )


def capped_ring() -> CSR:
    """Return a ring that is not symmetric: five entries of each row at most."""
    near = NeighborIndex(GRAPH.adj)
    rows = ComputedOperator(near, RowRule(hop=2), max_neighbors=5, seed=2)
    return rows.take(np.arange(len(GRAPH.y)))


Rings = tuple[CSR, ...]


def rings_of(kind: str) -> Rings:
    first, second = ring_operators(GRAPH.adj, self_loops=kind == "self-loops")
    return first, capped_ring() if kind == "capped" else second


CONFIG = TrainConfig(epochs=12, learning_rate=0.05, class_weight="balanced")
BLOCKS = [0, 32, 64, 96, 120]


def alone(model: H2GCN, rings: Rings, x: Any) -> tuple[Any, torch.Tensor]:
    operators = [Operator(op) for op in rings]
    x = to_tensor(x)
    result = train(model, x, operators, GRAPH.y, GRAPH.splits[0], CONFIG, seed=5)
    with torch.no_grad():
        return result, model(x, operators)


def operators_of(rings: Rings, workers: Workers) -> list[SpreadOperator]:
    """Return what a worker has of some operators."""
    found = []
    for ring in rings:
        rows, turned = CSR(ring[workers.own]), None
        if (abs(ring - ring.T) > 0).nnz:
            turned = workers.transposed(rows)
            assert (turned != CSR(ring.T)[workers.own]).nnz == 0
        found.append(SpreadOperator(rows, workers, turned=turned))
    return found


def spread(make: Callable[[], H2GCN], rings: Rings, x: Any) -> Work:
    def work(workers: Workers) -> Any:
        model, operators = make(), operators_of(rings, workers)
        own = to_tensor(x[workers.own])
        split = GRAPH.splits[0]
        result = train(
            model, own, operators, GRAPH.y, split, CONFIG, seed=5, crew=workers
        )
        logits = workers.logits(model, own, operators, np.arange(len(GRAPH.y)))
        return result.best_epoch, result.history, logits, model.state_dict()

    return work


CASES: dict[str, tuple[float, int, str, dict[str, Any]]] = {
    "h2gcn-2": (0.5, 2, "exact", {}),
    "h2gcn-2 without dropout": (0.0, 2, "exact", {}),
    "h2gcn-1": (0.4, 1, "exact", {}),
    "h2gcn-1 without dropout": (0.0, 1, "exact", {}),
    "self-loops": (0.5, 1, "self-loops", {"self_loops": True}),
    "capped rings": (0.5, 2, "capped", {}),
    "capped rings without dropout": (0.0, 2, "capped", {}),
    "an embedding each round": (0.5, 2, "exact", {"nonlinear": True}),
    "elu": (0.5, 1, "exact", {"activation": "elu"}),
}


@pytest.mark.parametrize("case", CASES)
def test_workers_train_as_one_process_does_and_to_the_bit_as_any_number_of_them(
    case: str, tmp_path: Path
) -> None:
    dropout, rounds, kind, more = CASES[case]
    rings = rings_of(kind)
    x = CSR(GRAPH.x) if case == "h2gcn-1" else GRAPH.x

    def make() -> H2GCN:
        return model_of(dropout, rounds, **more)

    result, logits = alone(make(), rings, x)
    found = []
    for size in (1, 2, 3):
        folder = tmp_path / str(size)
        folder.mkdir()
        found += together(spread(make, rings, x), BLOCKS, folder, size)
    for best, history, joined, weights in found:
        assert best == result.best_epoch
        torch.testing.assert_close(joined, logits, rtol=0, atol=1e-5)
        for ours, theirs in zip(history, result.history, strict=True):
            assert ours.loss == pytest.approx(theirs.loss, abs=1e-5)
            assert ours.val_score == theirs.val_score
        assert history == found[0][1]
        assert torch.equal(joined, found[0][2])
        assert all(torch.equal(found[0][3][name], of) for name, of in weights.items())


def test_more_workers_than_blocks_and_blocks_without_nodes(tmp_path: Path) -> None:
    def make() -> H2GCN:
        return model_of(0.5, 2)

    rings, found = rings_of("exact"), []
    for blocks, size in (([0, 64, 120], 1), ([0, 64, 120], 3), ([0, 64, 64, 120], 3)):
        folder = tmp_path / f"{len(blocks)}-{size}"
        folder.mkdir()
        found += together(spread(make, rings, GRAPH.x), blocks, folder, size)
    for _, history, logits, _ in found:
        assert history == found[0][1]
        assert torch.equal(logits, found[0][2])


@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_of_one_process(case: str, tmp_path: Path) -> None:
    dropout, rounds, kind, more = CASES[case]
    rings, index = rings_of(kind), np.sort(GRAPH.splits[0].train)
    labels = torch.from_numpy(GRAPH.y)[index]

    def gradients(workers: Workers | None) -> dict[str, torch.Tensor]:
        model = model_of(dropout, rounds, **more)
        with seeded(7):
            if workers is None:
                operators = [Operator(op) for op in rings]
                target = Target.of(operators, index)
                logits = model(to_tensor(GRAPH.x), operators, target)
                loss = torch.nn.functional.cross_entropy(logits, labels)
            else:
                x, own = to_tensor(GRAPH.x[workers.own]), operators_of(rings, workers)
                seen = workers.seen(x, own, index)
                here = torch.from_numpy(GRAPH.y)[seen.nodes]
                with workers.at_work():
                    logits = model(seen.x, seen.operators, seen.target)
                loss = workers.loss(logits, seen.nodes, here, None, len(index))
            loss.backward()
        return {name: weight.grad for name, weight in model.named_parameters()}

    one = gradients(None)
    for found in together(gradients, BLOCKS, tmp_path, 2):
        for name, grad in one.items():
            torch.testing.assert_close(found[name], grad, rtol=1e-5, atol=1e-6)


def test_sums_do_not_depend_on_their_order(tmp_path: Path) -> None:
    parts = torch.randn(12, 50, generator=torch.Generator().manual_seed(1)).exp()
    parts[:, 0] = 0
    parts[3, 1] = math.inf

    def sums(order: list[int]) -> Work:
        def work(workers: Workers) -> Any:
            per = len(order) // workers.size
            own = order[workers.rank * per : (workers.rank + 1) * per]
            given = [parts[one] for one in own]
            infinite, finite = (
                (each[:2] for each in given),
                (each[2:] for each in given),
            )
            return workers.total([*infinite]), workers.total([*finite])

        return work

    wild, tame = [], []
    for number, size in enumerate((1, 2, 3, 4)):
        folder = tmp_path / str(size)
        folder.mkdir()
        order = np.random.default_rng(number).permutation(12).tolist()
        for infinite, finite in together(sums(order), [0, 120], folder, size):
            wild.append(infinite)
            tame.append(finite)
    exact = parts[:, 2:].double().sum(dim=0).float()
    assert all(torch.equal(one, tame[0]) for one in tame)
    torch.testing.assert_close(tame[0], exact, rtol=1e-7, atol=0)
    assert all(one[0] == 0 and not one[1].isfinite() for one in wild)


def test_what_travels_is_what_the_products_need(tmp_path: Path) -> None:
    def product(workers: Workers) -> int:
        operator = SpreadOperator(CSR(GRAPH.adj[workers.own]), workers)
        dense = torch.ones(len(workers.own), 3, requires_grad=True)
        before = workers.sent
        total = operator @ dense + operator @ dense
        total.sum().backward()
        degrees = torch.from_numpy(GRAPH.degrees[workers.own])
        assert torch.equal(dense.grad, 2.0 * degrees[:, None].expand(-1, 3))
        return workers.sent - before

    sent = together(product, [0, 40, 120], tmp_path, 2)
    # There and back each sends its own rows, once for both products.
    assert sent == [2 * 4 * 3 * 40, 2 * 4 * 3 * 80]


@each("size", [1, 2, 3, 7])
def test_costs_are_shared_alike(size: int) -> None:
    costs = np.random.default_rng(size).integers(1, 50, 400)
    bounds = balanced(costs, size)
    assert bounds[0] == 0
    assert bounds[-1] == len(costs)
    assert len(bounds) == size + 1
    parts = [costs[a:b].sum() for a, b in pairwise(bounds)]
    assert max(parts) <= costs.sum() / size + 2 * costs.max()
    assert balanced(np.array([9.0]), 3) == [0, 1, 1, 1]


def test_nodes_are_cut_by_the_graph_alone() -> None:
    counts = [count_blocks(n) for n in (1, 40, 120, 2708, 300_000, 10**8)]
    assert counts == [1, 1, 3, 12, 48, 240]
    costs = np.random.default_rng(1).integers(1, 50, 3000)
    blocks = cut_nodes(costs)
    assert (blocks[0], blocks[-1], len(blocks)) == (0, 3000, 13)
    assert all(first % 32 == 0 for first in blocks[:-1])
    parts = [costs[a:b].sum() for a, b in pairwise(blocks)]
    assert max(parts) <= costs.sum() / 12 + 32 * costs.max()
    assert cut_nodes(np.ones(5)) == [0, 5]


def test_a_split_in_the_order_of_nodes(tmp_path: Path) -> None:
    def order(workers: Workers) -> Any:
        split = workers.arrange(GRAPH.splits[0])
        here = [workers.own[workers.here(i)].tolist() for i in split.parts.values()]
        return [i.tolist() for i in split.parts.values()], here

    found = together(order, [0, 30, 120], tmp_path, 2)
    for part, whole in enumerate(found[0][0]):
        assert whole == found[0][1][part] + found[1][1][part]
        given = list(GRAPH.splits[0].parts.values())[part]
        assert whole == sorted(given.tolist())


def test_the_target_keeps_the_names_of_nodes() -> None:
    index = torch.tensor([2, 0])
    assert torch.equal(Target(index, ()).names, index)
    assert Target(index, (), torch.tensor([9, 4])).names.tolist() == [9, 4]
