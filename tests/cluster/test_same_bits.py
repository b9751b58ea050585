"""H2GCN over one worker, two and three: one model, to the bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from h2gcn import NodeClassifier
from h2gcn.cluster import Cluster, fit_over_workers
from h2gcn.datasets import generate_graph
from h2gcn.estimator import check_fit

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
"""Of Ray to itself."""


def test_any_number_of_workers_fits_the_same_model_to_the_bit(tmp_path: Path) -> None:
    graph = generate_graph(n_nodes=150, homophily=0.2, seed=1)

    # By two; by one, and then on by three.
    def fitted(size: int, epochs: int, state: Path, *, resume: bool) -> NodeClassifier:
        ours = NodeClassifier(
            "h2gcn-2",
            epochs=epochs,
            patience=None,
            learning_rate=0.05,
            hidden_channels=8,
            ring_cap=4,
            random_state=3,
        )
        checked = check_fit(ours.get_params(), graph, 0)
        with Cluster(f"local:{size}") as cluster:
            fit_over_workers(ours, checked, cluster, checkpoint=state, resume=resume)
        return ours

    one = fitted(2, 12, tmp_path / "one", resume=False)
    fitted(1, 6, tmp_path / "two", resume=False)
    two = fitted(3, 12, tmp_path / "two", resume=True)
    assert one.history_ == two.history_
    assert one.best_epoch_ == two.best_epoch_
    weights = one.module_.state_dict(), two.module_.state_dict()
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    told = [of.remembered(graph, graph.splits[0].test) for of in (one, two)]
    assert told[0] is not None
    assert np.array_equal(*told)
    assert one.calibration_ is not None
    assert two.calibration_ is not None
    assert one.calibration_.temperature == two.calibration_.temperature
