"""H2GCN over workers of a cluster: the model of one process, and none is lost."""

from __future__ import annotations

import math
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from h2gcn import NodeClassifier
from h2gcn.cluster import Cluster, fit_over_workers
from h2gcn.datasets import generate_graph
from h2gcn.estimator import (
    CheckedFit,
    check_distributed,
    check_fit,
    estimate_distributed,
)
from h2gcn.exceptions import InputError
from h2gcn.graph import EdgeColumns, Graph
from h2gcn.io import write_store
from h2gcn.training import Epoch
from support.clusters import fewer_workers
from support.refusals import refused

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
"""Of Ray to itself."""

SETTING: dict[str, Any] = {
    "model": "h2gcn-2",
    "epochs": 8,
    "learning_rate": 0.05,
    "hidden_channels": 8,
    "scaling": "none",
    "random_state": 3,
}


@pytest.fixture(scope="module")
def graph() -> Graph:
    return generate_graph(n_nodes=150, homophily=0.2, seed=1)


def asked(graph: Graph, **more: Any) -> tuple[NodeClassifier, CheckedFit]:
    classifier = NodeClassifier(**SETTING | more)
    return classifier, check_fit(classifier.get_params(), graph, 0)


def alike(ours: NodeClassifier, one: NodeClassifier, graph: Graph) -> None:
    """Check that a classifier is the one that one process fits."""
    assert ours.best_epoch_ == one.best_epoch_
    assert ours.n_iter_ == one.n_iter_
    assert ours.val_score_ == one.val_score_
    logits = ours.predict_logits(graph), one.predict_logits(graph)
    np.testing.assert_allclose(*logits, atol=1e-5)
    assert ours.calibration_ is not None
    assert one.calibration_ is not None
    found = ours.calibration_.temperature, one.calibration_.temperature
    assert found[0] == pytest.approx(found[1], abs=1e-3)


def test_two_workers_fit_the_model_of_one_process(
    graph: Graph, local_cluster: Cluster, tmp_path: Path
) -> None:
    one = NodeClassifier(**SETTING).fit(graph, 0)
    ours, checked = asked(graph)
    epochs: list[Epoch] = []
    result = fit_over_workers(ours, checked, local_cluster, on_epoch=epochs.append)
    assert [epoch.number for epoch in epochs] == list(range(1, 9))
    assert ours.history_ == tuple(epochs)
    assert (result.workers, result.starts) == (2, 1)
    alike(ours, one, graph)
    # The logits of held-out nodes came with the model: no ring is built for them.
    test = graph.splits[0].test
    logits = ours.remembered(graph, test)
    assert logits is not None
    np.testing.assert_allclose(logits, one.predict_logits(graph, test), atol=1e-5)
    assert ours.score(graph, test) == one.score(graph, test)
    ours.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    assert np.array_equal(loaded.predict(graph), ours.predict(graph))
    # A step multiplies one block by two rings, then three by two; their gradients go
    # back. Validation multiplies a column per class for each of the six paths.
    n, n_val, n_classes = graph.n_nodes, len(graph.splits[0].val), graph.n_classes
    columns = 2 * (8 * 2 + 16 * 2) + 6 * n_classes
    weights = 8 * graph.n_features + 7 * 8 * graph.n_classes
    sent = 4 * (n // 2 * columns + math.ceil(n_val / 2) * n_classes + weights)
    assert result.forecast_sent == sent
    assert result.sent == pytest.approx(sent, rel=0.2)
    assert result.peak > 0


def test_estimates_fall_with_workers_and_draw_nothing(graph: Graph) -> None:
    _, checked = asked(graph)
    before = torch.get_rng_state()
    held, sent = zip(
        *(
            estimate_distributed(check_distributed(checked), count)
            for count in (1, 2, 4)
        ),
        strict=True,
    )
    assert sorted(held, reverse=True) == [*held]
    assert sent[0] == 0 < sent[1]
    assert torch.equal(torch.get_rng_state(), before)


def test_other_numbers_of_workers_go_on_from_a_checkpoint(
    graph: Graph, three_workers: Cluster, tmp_path: Path
) -> None:
    capped, state = {"ring_cap": 4, "patience": None}, tmp_path / "state"
    one = NodeClassifier(**SETTING | capped).fit(graph, 0)
    ours, checked = asked(graph, **capped)
    with fewer_workers(three_workers, 1) as single:
        fit_over_workers(*asked(graph, epochs=4, **capped), single, checkpoint=state)
    fit_over_workers(ours, checked, three_workers, checkpoint=state, resume=True)
    alike(ours, one, graph)
    other, checked = asked(graph, **capped | {"learning_rate": 0.1})
    for resume, rule in ((True, "learning_rate"), (False, "already holds")):
        with pytest.raises(InputError, match=rule):
            fit_over_workers(
                other, checked, three_workers, checkpoint=state, resume=resume
            )


def descendants(of: int) -> dict[int, str]:
    """Return the processes that a process began, and theirs, by number."""
    parents, names = {}, {}
    for folder in Path("/proc").iterdir():
        try:
            stat = (folder / "stat").read_text()
            names[int(folder.name)] = (folder / "cmdline").read_text()
        except (OSError, ValueError):
            continue
        parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])

    def is_one(process: int) -> bool:
        while process in parents:
            process = parents[process]
            if process == of:
                return True
        return False

    return {process: name for process, name in names.items() if is_one(process)}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc")
def test_killed_worker_resumes_from_the_checkpoint(
    graph: Graph, local_cluster: Cluster, tmp_path: Path
) -> None:
    longer = {"epochs": 200, "patience": None}
    one = NodeClassifier(**SETTING | longer).fit(graph, 0)
    ours, checked = asked(graph, **longer)
    killed: list[int] = []

    def kill_one(epoch: Epoch) -> None:
        if epoch.number >= 3 and not killed:
            workers = [
                process
                for process, name in descendants(os.getpid()).items()
                if "RayTrainWorker" in name
            ]
            assert len(workers) == 2
            killed.append(workers[1])
            os.kill(workers[1], signal.SIGKILL)

    result = fit_over_workers(
        ours,
        checked,
        local_cluster,
        on_epoch=kill_one,
        checkpoint=tmp_path / "state",
        checkpoint_minutes=0,
    )
    assert killed
    assert result.starts == 2
    alike(ours, one, graph)
    assert [epoch.number for epoch in ours.history_] == list(range(1, 201))

    # The checkpoint of a training that has ended goes on with more epochs.
    more, checked = asked(graph, epochs=203, patience=None)
    seen: list[Epoch] = []
    fit_over_workers(
        more,
        checked,
        local_cluster,
        on_epoch=seen.append,
        checkpoint=tmp_path / "state",
        resume=True,
    )
    assert [epoch.number for epoch in seen] == [201, 202, 203]
    with pytest.raises(InputError, match="already holds a checkpoint"):
        fit_over_workers(more, checked, local_cluster, checkpoint=tmp_path / "state")


def test_errors_of_workers_are_raised_in_the_program(
    graph: Graph, local_cluster: Cluster, tmp_path: Path
) -> None:
    ours, checked = asked(graph, learning_rate=1e30, optimizer="sgd")
    with pytest.raises(InputError, match="training diverged in epoch"):
        fit_over_workers(ours, checked, local_cluster)
    write_store(graph, tmp_path / "store")
    (tmp_path / "store" / "labels.npy").unlink()
    ours, checked = asked(graph)
    with pytest.raises(InputError, match=r"labels\.npy"):
        fit_over_workers(ours, checked, local_cluster, store=tmp_path / "store")


def test_fits_that_workers_do_not_take_are_refused(
    graph: Graph, local_cluster: Cluster
) -> None:
    untrained = "is not trained over workers"
    for more, rule in (
        ({"model": "gat"}, untrained),
        ({"batch_size": 10}, "is for one process"),
        ({"memory_limit": 1e-6}, "and there are 0.00 GB for each|takes about"),
    ):
        with pytest.raises(InputError, match=rule):
            fit_over_workers(*asked(graph, **more), local_cluster)
    auto = NodeClassifier("auto", random_state=1)
    checked = check_fit(auto.get_params(), graph, 0)
    with pytest.raises(InputError, match=untrained):
        fit_over_workers(auto, checked, local_cluster)
    rows, columns = graph.adj.nonzero()
    ones = np.ones((len(rows), 1), dtype=np.float32)
    weights = EdgeColumns(rows, columns, ones, ("amount",))
    weighted = replace(graph, edge_columns=weights, edge_weight="amount")
    with refused(param="edge_weight", words="workers count all alike"):
        fit_over_workers(*asked(weighted), local_cluster)
    with pytest.raises(InputError, match="'resume' needs 'checkpoint'"):
        fit_over_workers(*asked(graph), local_cluster, resume=True)
