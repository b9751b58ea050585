"""The feature table over workers: that of one process, whoever dies on the way."""

import os
import signal
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from h2gcn import Graph, NodeClassifier, read_graph
from h2gcn.cluster import Cluster, TableOverWorkers, share_graph, share_table, table
from h2gcn.estimator.inputs import build_input, feature_builder, fit_scaler
from h2gcn.exceptions import InputError
from h2gcn.features import FeatureTable
from h2gcn.io import write_store
from support.shared_graphs import make_graph

RECIPE = (
    "ego+rings+directions+degrees+labels+adjacency+ring1.sum+ring2.max+power2+loops3"
)
"""A block of every kind but what edges carry."""


def rows_of(graph: Graph, cap: int | None, kind: str) -> tuple[FeatureTable, Any]:
    """Return the rows of labelled nodes, as a fit is given them."""
    nodes, drawn = graph.labelled, (cap, 7)
    schema = feature_builder(graph, drawn).schema(RECIPE)
    scaler = fit_scaler(kind, graph.x, nodes[:100])
    names, device = graph.feature_names, torch.device("cpu")
    given = (graph, None, scaler, names, device, schema, drawn)
    found = build_input(*given, wanted=nodes)
    assert isinstance(found, FeatureTable)
    return found.rows(nodes), found


def numbers(block: Any) -> NDArray[np.float32]:
    """Return the numbers of a block, sparse or not."""
    dense = block.numpy() if isinstance(block, torch.Tensor) else block.scipy.toarray()
    return np.asarray(dense)


def test_a_table_is_that_of_one_process(each_cluster: Cluster) -> None:
    for sparse, cap, kind in (
        (False, None, "standard"),
        (False, 2, "rows"),
        (True, None, "rows"),
    ):
        graph = make_graph(sparse=sparse)
        expected, whole = rows_of(graph, cap, kind)
        assert whole.nodes is None
        graph = make_graph(sparse=sparse)  # another, for which nothing is kept
        told: list[int] = []

        def on_lot(done: int, total: int, told: list[int] = told) -> None:
            told += [done, total]

        with share_table(each_cluster, graph, on_lot=on_lot) as over:
            found, partly = rows_of(graph, cap, kind)
            once = told.copy()
            again, _ = rows_of(graph, cap, kind)
        assert partly.nodes is over.nodes
        assert list(found.blocks) == list(expected.blocks)
        for name, block in expected.blocks.items():
            assert type(found.blocks[name]) is type(block), name
            assert_close(numbers(found.blocks[name]), numbers(block), name)
            assert_close(numbers(again.blocks[name]), numbers(block), name)
        count = len(once) // 2
        assert once[::2] == list(range(1, count + 1)), "each lot is built once"
        assert set(once[1::2]) == {count}
        assert told == 2 * once, "blocks of labels are built for each fit"


def test_a_model_has_the_weights_of_one_process(each_cluster: Cluster) -> None:
    graph = make_graph()
    for model, more in (
        ("ring-table", {"epochs": 5}),
        ("logistic", {}),
    ):
        alone = NodeClassifier(model, random_state=1, **more).fit(make_graph())
        with share_table(each_cluster, graph):
            shared = NodeClassifier(model, random_state=1, **more).fit(graph)
            score = shared.score(graph)
        assert alone.module_ is not None
        assert shared.module_ is not None
        weights = shared.module_.state_dict()
        for name, weight in alone.module_.state_dict().items():
            assert_close(weights[name].numpy(), weight.numpy(), name)
        assert alone.val_score_ == shared.val_score_
        assert score == alone.score(graph)
        nodes = np.arange(0, graph.n_nodes, 3)  # some of them are not labelled
        assert_close(
            shared.predict_logits(graph, nodes), alone.predict_logits(graph, nodes)
        )


def assert_close(result: Any, expected: Any, name: str = "") -> None:
    assert_allclose(result, expected, rtol=1e-5, atol=1e-5, err_msg=name)


def test_the_lot_of_a_worker_that_dies_is_built_again(
    two_machines: Cluster, tmp_path: Path
) -> None:
    graph = make_graph()
    expected, _ = rows_of(graph, None, "standard")
    graph, note = make_graph(), tmp_path / "note"
    build_lot = table.build_lot

    def die_once(common: Any, nodes: Any) -> Any:
        if not note.exists():
            note.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return build_lot(common, nodes)

    with share_table(two_machines, graph) as over:
        over.task = die_once
        found, _ = rows_of(graph, None, "standard")
    assert note.exists()
    for name, block in expected.blocks.items():
        assert_close(numbers(found.blocks[name]), numbers(block), name)


@pytest.mark.parametrize("columns", [5, 150])
def test_lots_of_nodes_are_those_of_one_process(
    columns: int, each_cluster: Cluster
) -> None:
    """From 65,536 nodes on, rings are found by lots, and rows made of them there."""
    recipe, drawn = "ring2+ring2.max+ring1+degrees+labels.ring2", (8, 7)
    tables, told = [], list[int]()
    for shared in (False, True):
        graph = make_graph(70_000, columns, degree=2)
        nodes = graph.labelled[::3]  # few enough, for some lots, to see few others
        schema = feature_builder(graph, drawn).schema(recipe)
        scaler = fit_scaler("standard", graph.x, nodes[:100])
        names, device = graph.feature_names, torch.device("cpu")
        given = (graph, None, scaler, names, device, schema, drawn)
        over = share_table(
            each_cluster, graph, nodes, on_lot=lambda _, n: told.append(n)
        )
        with over if shared else nullcontext():
            tables.append(build_input(*given, wanted=nodes).rows(nodes))
    assert told[0] == 3 * each_cluster.workers
    expected, found = tables
    for name, block in expected.blocks.items():
        assert_close(numbers(found.blocks[name]), numbers(block), name)


def test_what_a_worker_refuses_is_told_in_a_line(two_machines: Cluster) -> None:
    graph = make_graph()
    graph.x[3, 140] = 1e30
    with (
        share_table(two_machines, graph),
        pytest.raises(InputError, match=r"column '140' is too large") as caught,
    ):
        rows_of(graph, None, "none")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("limit", "what"),
    [(1e-4, r"a table of 239 nodes takes about")],
)
def test_memory_of_a_worker_is_forecast(
    limit: float, what: str, two_machines: Cluster
) -> None:
    graph = make_graph()
    with (
        share_table(two_machines, graph, memory_limit=limit),
        pytest.raises(InputError, match=what),
    ):
        rows_of(graph, None, "none")


def test_a_store_is_mapped_by_the_workers(
    two_machines: Cluster, tmp_path: Path
) -> None:
    write_store(make_graph(), tmp_path / "store")
    graph = read_graph(tmp_path / "store")
    expected, _ = rows_of(make_graph(), None, "standard")
    with share_table(two_machines, graph, source=tmp_path / "store"):
        found, _ = rows_of(graph, None, "standard")
    for name, block in expected.blocks.items():
        assert_close(numbers(found.blocks[name]), numbers(block), name)
    other = make_graph(300)
    with (
        share_table(two_machines, other, source=tmp_path / "store"),
        pytest.raises(InputError, match="a worker finds another graph there"),
    ):
        rows_of(other, None, "standard")


def test_a_path_that_workers_do_not_see(two_machines: Cluster, tmp_path: Path) -> None:
    graph = make_graph()
    gone = tmp_path / "gone.npz"
    with (
        share_table(two_machines, graph, source=gone),
        pytest.raises(InputError, match=r"a worker cannot read the graph \(.*gone"),
    ):
        rows_of(graph, None, "none")


# ---------------------------------------------------------------------- without workers


def test_a_store_is_known_again_as_long_as_it_is_the_same(tmp_path: Path) -> None:
    nobody: Any = None
    write_store(make_graph(), tmp_path / "store")
    first, second = (
        share_graph(nobody, make_graph(), tmp_path / "store") for _ in range(2)
    )
    assert first.key == second.key, "a worker has it open already"
    other = share_graph(nobody, make_graph(300), tmp_path / "store")
    assert other.key != first.key, "and finds that it is another"
    os.utime(tmp_path / "store" / "manifest.json", (1, 1))
    assert share_graph(nobody, make_graph(), tmp_path / "store").key != first.key
    gone = [share_graph(nobody, make_graph(), tmp_path / "gone") for _ in range(2)]
    assert gone[0].key != gone[1].key


def test_a_table_is_let_go_with_its_graph() -> None:
    class Nobody:
        """Has no workers."""

        machines = ()

        def put(self, value: object) -> object:
            return value

    graph = make_graph(50, 4)
    nobody: Any = Nobody()
    makes = TableOverWorkers(nobody, graph, np.array([7, 3, 3]))
    assert makes.nodes.tolist() == [3, 7]
    assert all(value is not graph for value in vars(makes).values())
