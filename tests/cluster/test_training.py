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
from h2gcn.cluster import Cluster, Spread, fit_over_workers
from h2gcn.datasets import generate_graph
from h2gcn.estimator import CheckedFit, check_fit
from h2gcn.exceptions import InputError
from h2gcn.graph import Graph
from h2gcn.io import write_store
from h2gcn.training import Epoch
from support.clusters import Clusters, fewer_workers

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


@pytest.fixture(scope="module")
def trained(
    graph: Graph, clusters: Clusters
) -> tuple[NodeClassifier, Spread, list[Epoch]]:
    """Return what two workers fit, and the epochs that were told."""
    ours, checked = asked(graph)
    seen: list[Epoch] = []
    with fewer_workers(clusters.start("local"), 2) as two:
        spread = fit_over_workers(ours, checked, two, on_epoch=seen.append)
    return ours, spread, seen


@pytest.mark.usefixtures("local_cluster")
def test_the_model_is_that_of_one_process(
    graph: Graph,
    trained: tuple[NodeClassifier, Spread, list[Epoch]],
    tmp_path: Path,
) -> None:
    one = NodeClassifier(**SETTING).fit(graph, 0)
    ours, spread, seen = trained
    assert [epoch.number for epoch in seen] == list(range(1, 9))
    assert ours.history_ == tuple(seen)
    assert (spread.workers, spread.starts) == (2, 1)
    alike(ours, one, graph)
    # What the workers said of nodes that were held out needs no ring here.
    test = graph.splits[0].test
    told = ours.remembered(graph, test)
    assert told is not None
    np.testing.assert_allclose(told, one.predict_logits(graph, test), atol=1e-5)
    assert ours.score(graph, test) == one.score(graph, test)
    ours.save(tmp_path / "model")
    again = NodeClassifier.load(tmp_path / "model")
    assert np.array_equal(again.predict(graph), ours.predict(graph))
    # Products of 8 and 16 columns, of a column a class for each path to be judged; back
    # the inner 16, and of training nodes a column a class. Weights are sums of doubles.
    n, n_train = graph.n_nodes, len(graph.splits[0].train)
    of_all = 8 + 16 + 16 + graph.n_classes * (2 + 4)
    weights = 8 * graph.n_features + 7 * 8 * graph.n_classes
    rows = n // 2 * of_all + math.ceil(n_train / 2) * graph.n_classes
    assert spread.forecast_sent == 4 * rows + 8 * weights
    forecast = spread.forecast_sent
    assert spread.sent == pytest.approx(forecast, rel=0.2)


def test_any_number_of_workers_fits_the_same_model_to_the_bit(
    graph: Graph, three_workers: Cluster, tmp_path: Path
) -> None:
    capped, state = {"ring_cap": 4, "patience": None}, tmp_path / "state"
    ours, checked = asked(graph, **capped)
    other, other_checked = asked(graph, **capped)
    with fewer_workers(three_workers, 2) as two:
        fit_over_workers(other, other_checked, two)
    with fewer_workers(three_workers, 1) as one:
        fit_over_workers(*asked(graph, epochs=4, **capped), one, checkpoint=state)
    fit_over_workers(ours, checked, three_workers, checkpoint=state, resume=True)
    assert ours.history_ == other.history_
    assert ours.best_epoch_ == other.best_epoch_
    weights = ours.module_.state_dict(), other.module_.state_dict()
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    told = [of.remembered(graph, graph.splits[0].test) for of in (ours, other)]
    assert told[0] is not None
    assert np.array_equal(*told)
    assert ours.calibration_.temperature == other.calibration_.temperature


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
def test_a_worker_that_dies_costs_the_epochs_since_the_checkpoint(
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

    spread = fit_over_workers(
        ours,
        checked,
        local_cluster,
        on_epoch=kill_one,
        checkpoint=tmp_path / "state",
        checkpoint_minutes=0,
    )
    assert killed
    assert spread.starts == 2
    alike(ours, one, graph)
    assert [epoch.number for epoch in ours.history_] == list(range(1, 201))

    # The checkpoint is that of a training that has ended: it goes on with more epochs.
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


def test_what_workers_find_wrong_is_told_in_a_line(
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


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"model": "gat"}, "the model gat with these options is not trained over"),
        ({"model": "auto"}, "the model auto with these options is not trained over"),
        ({"options": {"labels": True}}, "the model h2gcn-2 with these options is not"),
        ({"options": {"directed": True}}, "the model h2gcn-2 with these options is"),
        ({"batch_size": 10}, "^batch_size is for one"),
        ({"memory_limit": 1e-6}, "such workers would do|would help"),
    ],
)
def test_what_is_not_trained_over_workers(
    graph: Graph, local_cluster: Cluster, more: dict[str, Any], why: str
) -> None:
    if more.get("model") == "auto":
        ours = NodeClassifier("auto", random_state=1)
        checked = check_fit(ours.get_params(), graph, 0)
    else:
        ours, checked = asked(graph, **more)
    with pytest.raises(InputError, match=why):
        fit_over_workers(ours, checked, local_cluster)


def test_edges_that_weigh_are_not_for_workers(
    graph: Graph, local_cluster: Cluster
) -> None:
    from h2gcn.graph import EdgeColumns

    rows, columns = graph.adj.nonzero()
    ones = np.ones((len(rows), 1), dtype=np.float32)
    carried = EdgeColumns(rows, columns, ones, ("amount",))
    heavy = replace(graph, edge_columns=carried, edge_weight="amount")
    ours, checked = asked(heavy)
    with pytest.raises(InputError, match="its edges weigh what 'amount' says"):
        fit_over_workers(ours, checked, local_cluster)
