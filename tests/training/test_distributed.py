"""Processes that share the rows of a graph train the model that one process trains."""

from __future__ import annotations

import os
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from h2gcn.datasets import generate_graph
from h2gcn.graph import CSR
from h2gcn.models import H2GCN, find_model
from h2gcn.rings import NeighborIndex, RowRule
from h2gcn.sparse import Operator, Propagation, to_tensor
from h2gcn.training import (
    SINGLE,
    Checkpoint,
    RowParallelOperator,
    TorchGroup,
    TrainConfig,
    Trainer,
    identify,
    predict_rows,
    row_bounds,
    seeded,
)
from h2gcn.training.batches import own_rows as take_own

GRAPH = generate_graph(n_nodes=120, homophily=0.3, seed=3)
ALL = np.arange(120)
SPLIT = GRAPH.splits[0]
CONFIG = TrainConfig(epochs=12, learning_rate=0.05, class_weight="balanced")
PARAMS = {"model": "h2gcn-2", "options": {}, "random_state": 5, "epochs": 12}
Rings = tuple[CSR, ...]


def _run(rank, work, bounds, folder):
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/group",
        rank=rank,
        world_size=len(bounds) - 1,
    )
    torch.save(work(TorchGroup(bounds)), f"{folder}/{rank}.pt")
    dist.barrier()  # no process leaves before all have arrived
    dist.destroy_process_group()


def in_processes(work, bounds, folder):
    """Return what `work` returns in each process."""
    folder.mkdir()
    size, task = len(bounds) - 1, (work, bounds, str(folder))
    mp.start_processes(_run, task, nprocs=size, start_method="fork")
    return [torch.load(folder / f"{i}.pt", weights_only=False) for i in range(size)]


def capped_ring():
    """Return a ring with at most five entries per row: it is not symmetric."""
    return RowRule(hop=2).rows(NeighborIndex(GRAPH.adj), max_neighbors=5, seed=2)


EXACT = find_model("h2gcn-1").build_matrices(GRAPH.adj)
CAPPED = EXACT[0], capped_ring()
WITH_LOOPS = find_model("h2gcn-ns0").build_matrices(GRAPH.adj)
CASES = {
    "h2gcn-2": (EXACT, {"rounds": 2}),
    "h2gcn-2 without dropout": (EXACT, {"rounds": 2, "dropout": 0.0}),
    "h2gcn-1, sparse features": (EXACT, {"rounds": 1}),
    "h2gcn-1 without dropout": (EXACT, {"rounds": 1, "dropout": 0.0}),
    "self-loops": (WITH_LOOPS, {"rounds": 1, "self_loops": True}),
    "capped rings": (CAPPED, {"rounds": 2}),
    "capped rings without dropout": (CAPPED, {"rounds": 2, "dropout": 0.0}),
    "an embedding per round": (EXACT, {"rounds": 2, "nonlinear": True}),
    "elu": (EXACT, {"rounds": 1, "activation": "elu"}),
}


def make_model(*, rounds, dropout=0.5, **options):
    with seeded(1):
        return H2GCN(
            GRAPH.n_features,
            GRAPH.n_classes,
            hidden_channels=8,
            rounds=rounds,
            final=tuple(range(rounds + 1)),
            dropout=dropout,
            **options,
        )


def features(case, nodes=slice(None)):
    x = CSR(GRAPH.x) if "sparse" in case else GRAPH.x
    return to_tensor(x[nodes])


def own_rows(rings, group):
    return [RowParallelOperator(CSR(ring[group.own]), group) for ring in rings]


def train_all(group):
    results = {}
    for case, (rings, options) in CASES.items():
        model, operators = make_model(**options), own_rows(rings, group)
        x = features(case, group.own)
        result = Trainer(
            model, x, operators, GRAPH.y, SPLIT, CONFIG, seed=5, comm=group
        ).run()
        logits = predict_rows(model, x, operators, ALL, group)
        results[case] = result, logits, model.state_dict()
    return results


@pytest.mark.parametrize(
    "bounds", [[0, 120], [0, 50, 120], [0, 30, 31, 120], [0, 0, 120]]
)
def test_processes_train_the_model_of_one_process(bounds, tmp_path):
    by_rank = in_processes(train_all, bounds, tmp_path / "run")
    for case, (rings, options) in CASES.items():
        model, operators = make_model(**options), [Operator(ring) for ring in rings]
        x = features(case)
        one = Trainer(model, x, operators, GRAPH.y, SPLIT, CONFIG, seed=5).run()
        with torch.no_grad():
            expected = model(x, Propagation(operators))
        for results in by_rank:
            result, logits, weights = results[case]
            assert result.best_epoch == one.best_epoch, case
            assert result.val_score == one.val_score, case
            torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5)
            for epoch, reference in zip(result.history, one.history, strict=True):
                assert epoch.loss == pytest.approx(reference.loss, abs=1e-5), case
                assert epoch.val_loss == pytest.approx(reference.val_loss, abs=1e-5)
            for name, weight in by_rank[0][case][2].items():
                assert torch.equal(weights[name], weight), "all ranks keep the same"


def gradients(case, index, group=None):
    rings, options = CASES[case]
    model, comm = make_model(**options), SINGLE if group is None else group
    whole = [Operator(ring) for ring in rings]
    operators = whole if group is None else own_rows(rings, group)
    x = features(case, comm.own)
    part = take_own(x, operators, index, comm.own)
    with seeded(7):
        logits = model(part.x, part.graph)
    labels = torch.from_numpy(GRAPH.y)[part.nodes]
    loss = torch.nn.functional.cross_entropy(logits, labels, reduction="sum")
    (loss / len(index)).backward()
    weights = dict(model.named_parameters())
    return {name: comm.all_reduce(weight.grad) for name, weight in weights.items()}


def test_gradients_are_those_of_one_process(tmp_path):
    index = np.sort(SPLIT.train)

    def work(group):
        return {case: gradients(case, index, group) for case in CASES}

    for by_case in in_processes(work, [0, 40, 120], tmp_path / "run"):
        for case in CASES:
            for name, grad in gradients(case, index).items():
                close = {"rtol": 1e-5, "atol": 1e-6}
                torch.testing.assert_close(by_case[case][name], grad, **close)


def test_product_exchanges_own_rows_and_their_gradient(tmp_path):
    adjacency = CSR(GRAPH.adj)

    def work(group):
        operator = RowParallelOperator(CSR(adjacency[group.own]), group)
        dense = torch.ones(operator.shape[1], 3, requires_grad=True)
        before = group.bytes_sent
        product = operator @ dense
        product.sum().backward()
        return product, dense.grad, group.bytes_sent - before

    first, second = in_processes(work, [0, 40, 120], tmp_path / "run")
    degrees = torch.from_numpy(GRAPH.degrees).float()[:, None].expand(-1, 3)
    for part in range(2):
        assert torch.equal(torch.cat([first[part], second[part]]), degrees)
    assert (first[2], second[2]) == (4 * 3 * 120, 4 * 3 * 120)


def test_logits_of_any_nodes_in_any_order(tmp_path):
    index = np.array([110, 3, 60, 3, 41])
    model, operators = make_model(rounds=1), [Operator(ring) for ring in EXACT]
    with torch.no_grad():
        expected = model.eval()(features(""), Propagation(operators))[index]

    def work(group):
        own = own_rows(EXACT, group)
        return predict_rows(model, features("", group.own), own, index, group)

    for logits in in_processes(work, [0, 40, 120], tmp_path / "run"):
        torch.testing.assert_close(logits, expected, rtol=0, atol=1e-6)


def test_rank_zero_decides_where_a_training_goes_on(tmp_path):
    rings, options = CASES["h2gcn-2"]
    identity, folder = identify(PARAMS, GRAPH, SPLIT, directed=False), tmp_path / "c"
    folder.mkdir()

    def work(group):
        operators, x = own_rows(rings, group), features("", group.own)
        results = []
        for epochs, resume in ((5, False), (12, True), (12, None)):
            model, saved = make_model(**options), None
            if group.rank == 0 and resume is not None:
                saved = Checkpoint(folder, identity, epochs=epochs, resume=resume)
            config = TrainConfig(epochs=epochs, learning_rate=0.05)
            data = model, x, operators, GRAPH.y, SPLIT, config
            result = Trainer(*data, seed=5, checkpoint=saved, comm=group).run()
            results.append((result.history, model.state_dict()))
        return results

    for _, (history, weights), (expected, reference) in in_processes(
        work, [0, 70, 120], tmp_path / "run"
    ):
        assert history == expected
        assert all(torch.equal(weights[name], reference[name]) for name in weights)


def test_row_bounds_balance_the_costs():
    for size in (1, 2, 3, 7):
        costs = np.random.default_rng(size).integers(1, 50, 400)
        bounds = row_bounds(costs, size)
        assert (bounds[0], bounds[-1], len(bounds)) == (0, 400, size + 1)
        parts = [costs[first:last].sum() for first, last in pairwise(bounds)]
        assert max(parts) <= costs.sum() / size + 2 * costs.max()
    assert row_bounds(np.array([9.0]), 3) == [0, 1, 1, 1]
    assert row_bounds(np.array([]), 2) == [0, 0, 0]
