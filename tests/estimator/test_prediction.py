"""Predictions in blocks: the same as at once, and never more than a block."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike
from torch import nn

from h2gcn import Graph, NodeClassifier
from h2gcn.datasets import GaussianFeatures, generate_graph
from h2gcn.estimator import build_operators, evaluate, plan_operators, prediction
from h2gcn.estimator.prediction import check_nodes
from h2gcn.exceptions import InputError
from h2gcn.io import write_prediction_blocks, write_predictions, writing
from h2gcn.models import MODELS
from h2gcn.sparse import Propagation
from h2gcn.training import brier, log_loss
from support.cases import each
from support.refusals import refused

# Not every node of these graphs is near a label; what is said then is tested elsewhere.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.* cannot be reached from any:h2gcn.exceptions.H2GCNWarning"
)


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Return 50 nodes in three classes."""
    return generate_graph(
        n_nodes=50, n_classes=3, features=GaussianFeatures(n_features=4), seed=3
    )


def chain(n: int = 3000) -> Graph:
    """Return a path, of which each node sees little."""
    rng = np.random.default_rng(0)
    ends = np.arange(n - 1)
    adj = sp.csr_array((np.ones(n - 1), (ends, ends + 1)), shape=(n, n))
    y = np.arange(n) % 2
    x = rng.normal(size=(n, 2)) + y[:, None]
    return Graph(x=x, adj=adj + adj.T, y=y, name="chain")


def rows_seen(module: nn.Module) -> list[int]:
    """Return a list that grows by the number of rows of each x the module is given."""
    seen: list[int] = []
    module.register_forward_pre_hook(
        lambda _, arguments: seen.append(arguments[0].shape[0])
    )
    return seen


# ------------------------------------------------------------------ logits


@pytest.mark.parametrize("name", MODELS)
def test_blocks_of_any_size_give_the_same_logits(graph: Graph, name: str) -> None:
    clf = NodeClassifier(name, epochs=2, random_state=0).fit(graph)
    whole = clf.predict_logits(graph)
    for size in (1, 7, 50, 1000):
        blocks = list(clf.predict_blocks(graph, block_size=size))
        assert max(len(nodes) for nodes, _ in blocks) == min(size, 50)
        assert np.concatenate([nodes for nodes, _ in blocks]).tolist() == [*range(50)]
        joined = np.concatenate([logits for _, logits in blocks])
        np.testing.assert_allclose(joined, whole, rtol=1e-5, atol=1e-5)


def test_some_nodes_come_in_the_order_that_was_asked_for(graph: Graph) -> None:
    clf = NodeClassifier("h2gcn-2", epochs=2, batch_size=8, random_state=0).fit(graph)
    whole = np.concatenate([part for _, part in clf.predict_blocks(graph)])
    index = np.array([40, 3, 3, 17, 0, 49])
    blocks = list(clf.predict_blocks(graph, index, block_size=4))
    assert [nodes.tolist() for nodes, _ in blocks] == [[40, 3, 3, 17], [0, 49]]
    joined = np.concatenate([logits for _, logits in blocks])
    np.testing.assert_allclose(joined, whole[index], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        clf.predict_logits(graph, index), whole[index], rtol=1e-5, atol=1e-5
    )
    mask = np.zeros(50, dtype=bool)
    mask[[1, 2]] = True
    assert [nodes.tolist() for nodes, _ in clf.predict_blocks(graph, mask)] == [[1, 2]]
    assert clf.predict_logits(graph, []).shape == (0, 3)
    assert list(clf.predict_blocks(graph, [])) == []


@each(
    ("nodes", "index"),
    [
        ([], []),
        (np.zeros(0), []),
        ((3, 1), [3, 1]),
        (np.array([49, 0], dtype=np.uint8), [49, 0]),
        (7, [7]),
        (np.arange(50) % 25 == 3, [3, 28]),
        ([False] * 50, []),
    ],
    ids=str,
)
def test_what_names_nodes(graph: Graph, nodes: ArrayLike, index: list[int]) -> None:
    found = check_nodes(graph, nodes)
    assert found.dtype == np.int64
    assert found.tolist() == index


@each(
    ("nodes", "words"),
    [
        ([True, False], "mask, got 2"),
        (np.ones(51, dtype=bool), "mask, got 51"),
        (np.zeros(0, dtype=bool), "mask, got 0"),
        ([1.7], "got float64"),
        ([1.0, 2.0], "got float64"),
        (["1"], "got <U1"),
        ([None], "got object"),
        ([10**30], "got object"),
        ([[1, 2], [3]], "one list"),
        ([0, 50], "from 0 to 49, got 0 to 50"),
        ([-1], "from 0 to 49, got -1 to -1"),
        (np.array([2**63], dtype=np.uint64), "got 9223372036854775808 to 92"),
    ],
    ids=str,
)
def test_what_names_no_nodes(graph: Graph, nodes: ArrayLike, words: str) -> None:
    clf = NodeClassifier("mlp", epochs=1, random_state=0).fit(graph)
    for ask in (clf.predict, clf.predict_proba, clf.predict_blocks, clf.score):
        with refused(param="nodes", words=words):
            ask(graph, nodes)


@each("nodes", [None, [4, 1, 30]])
def test_without_batches_the_logits_are_those_of_one_forward(
    graph: Graph, nodes: list[int] | None
) -> None:
    clf = NodeClassifier("h2gcn-1", epochs=2, random_state=0).fit(graph)
    operators = build_operators(plan_operators(graph, "h2gcn-1", clf.device_))
    target = None if nodes is None else torch.tensor(nodes)
    x = torch.from_numpy(clf.scaler_(graph.x))
    with torch.no_grad():
        expected = clf.module_(x, Propagation(operators, target)).numpy()
    found = clf.predict_logits(graph, nodes)
    if nodes is None:
        assert found.tobytes() == expected.tobytes()
    # Some nodes may be computed alone, in another order.
    np.testing.assert_allclose(found, expected, atol=1e-6)


# ------------------------------------------------------------------ memory


def test_what_the_module_sees_does_not_grow_with_the_nodes_asked_for() -> None:
    graph = chain()
    clf = NodeClassifier("h2gcn-2", epochs=1, batch_size=20, random_state=0).fit(graph)
    seen = rows_seen(clf.module_)
    largest = []
    for count in (20, 200, 3000):
        seen.clear()
        assert clf.predict_logits(graph, np.arange(count)).shape == (count, 2)
        assert len(seen) == count // 20
        largest.append(max(seen))
    assert largest[0] == 24  # two rounds of two hops, on the one side that there is
    assert largest[1:] == [28, 28]


def test_without_batches_the_graph_is_seen_once(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prediction, "BLOCK", 9)
    for name in ("h2gcn-1", "mixhop"):
        clf = NodeClassifier(name, epochs=1, random_state=0).fit(graph)
        seen = rows_seen(clf.module_)
        blocks = list(clf.predict_blocks(graph))
        assert seen == [50]
        assert [len(nodes) for nodes, _ in blocks] == [9, 9, 9, 9, 9, 5]
        some = list(clf.predict_blocks(graph, np.arange(30)))
        assert seen == [50, 50]
        assert [len(nodes) for nodes, _ in some] == [9, 9, 9, 3]


def test_each_block_is_made_when_it_is_asked_for(graph: Graph) -> None:
    clf = NodeClassifier("h2gcn-1", epochs=1, batch_size=10, random_state=0).fit(graph)
    seen = rows_seen(clf.module_)
    blocks = clf.predict_blocks(graph)
    assert seen == []
    next(blocks)
    assert len(seen) == 1
    assert torch.is_grad_enabled()  # what the module needs is not left switched off


def test_evaluation_in_blocks(graph: Graph) -> None:
    for data in (graph, chain(60)):  # three classes, and two with a curve
        clf = NodeClassifier("h2gcn-1", epochs=5, batch_size=7, random_state=0)
        clf.fit(data)
        index = clf.split_.test
        found = evaluate(clf, data, index)
        clf.params_["batch_size"] = None
        whole = evaluate(clf, data, index)
        assert found.accuracy == whole.accuracy == clf.score(data, index)
        assert found.confusion.tolist() == whole.confusion.tolist()
        assert found.macro_f1 == whole.macro_f1
        assert found.roc_auc == whole.roc_auc
        shares, y = clf.predict_proba(data, index), data.y[index]
        for one in (found, whole):
            told = one.probabilities
            assert told.log_loss == pytest.approx(log_loss(y, shares), rel=1e-4)
            assert told.brier == pytest.approx(brier(y, shares), rel=1e-4)
            assert sum(one.nodes for one in told.bins) == len(index)
            assert sum(one.nodes for one in told.by_class) == len(index)
            assert sum(one.nodes for one in told.by_degree) == len(index)
        assert (found.roc_auc is None) == (data is graph)


@each("size", [0, -1, 1.5])
def test_a_block_of_no_nodes(graph: Graph, size: object) -> None:
    clf = NodeClassifier("mlp", epochs=1, random_state=0).fit(graph)
    with pytest.raises(InputError, match=r"^block_size must be an integer, at least 1"):
        clf.predict_blocks(graph, block_size=size)  # type: ignore[arg-type]


# ------------------------------------------------------------------- files

IDS = np.array(["a", "b,c", "d", 'e"f', "g"])
CLASSES = np.array(["x", "y"])
SHARES = np.array(
    [[0.5, 0.5], [0.25, 0.75], [1, 0], [0, 1], [0.125, 0.875]], dtype=np.float32
)


SAID = np.array([1, 1, 0, 0, 1])  # not always the likeliest


def in_blocks(size: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    for first in range(0, 5, size):
        nodes = np.arange(first, min(first + size, 5))
        yield nodes, SAID[nodes], SHARES[nodes]


@each("rows", [2, 100])
@each("ids", [IDS, np.arange(5), IDS.astype(object)], ids=repr)
@each("suffix", [".csv", ".parquet"])
def test_a_file_does_not_tell_its_blocks(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    suffix: str,
    ids: np.ndarray,
    rows: int,
) -> None:
    monkeypatch.setattr(writing, "ROWS", rows)
    whole = tmp_path / f"whole{suffix}"
    labels = CLASSES[SAID]
    write_predictions(whole, ids, labels, SHARES, CLASSES)
    for size in (1, 2, 5):
        path = tmp_path / f"{size}{suffix}"
        write_prediction_blocks(path, ids, CLASSES, in_blocks(size))
        if suffix == ".csv":
            assert path.read_bytes() == whole.read_bytes()
        else:
            assert pq.read_table(path).equals(pq.read_table(whole))
            groups = pq.ParquetFile(path).num_row_groups
            assert groups == {100: 1, 2: {1: 3, 2: 3, 5: 1}[size]}[rows]


@each("suffix", [".csv", ".parquet"])
def test_blocks_that_end_in_trouble_leave_the_old_file(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"p{suffix}"
    path.write_text("old")

    def broken() -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        yield from in_blocks(2)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_prediction_blocks(path, IDS, CLASSES, broken())
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(InputError, match=r"\.csv or \.parquet"):
        write_prediction_blocks(tmp_path / "p.txt", IDS, CLASSES, in_blocks(2))


# ------------------------------------------------------------------ numbers that break


@each("sparse", [False, True])
def test_features_that_are_too_large_are_named(graph: Graph, sparse: bool) -> None:
    clf = NodeClassifier("mlp", epochs=2, random_state=0).fit(graph)
    x = np.array(graph.x)
    x[17, 2] = -3e38
    ids = np.array([f"n{number}" for number in range(50)])
    x = sp.csr_array(x) if sparse else x
    odd = replace(graph, x=x, node_ids=ids, name="odd")
    with pytest.raises(
        InputError,
        match=r"odd: column '2' is too large at node 'n17': -3e\+38, and scaled "
        r"-[\dinfe.+]+\. Products of numbers beyond 1e\+18 do not fit 32 bits\.",
    ):
        clf.predict(odd)


def test_features_of_any_size_can_be_trained_on(graph: Graph) -> None:
    """They are scaled, so that only their differences count."""
    x = np.array(graph.x)
    large = replace(graph, x=x / np.abs(x).max() * 3e38)
    clf = NodeClassifier("mlp", epochs=2, scaling="standard", random_state=0)
    assert np.isfinite(clf.fit(large).predict_proba(large)).all()


@each("name", ["h2gcn-1", "mlp"])
def test_no_prediction_that_is_not_finite(graph: Graph, name: str) -> None:
    clf = NodeClassifier(name, epochs=2, random_state=0).fit(graph)
    assert clf.module_ is not None
    with torch.no_grad():
        for weight in clf.module_.parameters():
            weight.fill_(torch.nan)
    told = (
        "the model has no finite prediction for the nodes '0', '1', '2', '3', '4' and "
        "45 more; numbers among its weights or their features are too large."
    )
    for predicted in (clf.predict, clf.predict_proba, clf.predict_logits):
        with pytest.raises(InputError, match=told):
            predicted(graph)
    with pytest.raises(InputError, match=told):
        evaluate(clf, graph, np.arange(50))


def test_mapped_features_that_are_too_large(graph: Graph, tmp_path: Path) -> None:
    clf = NodeClassifier("mlp", epochs=2, random_state=0).fit(graph)
    x = np.array(graph.x, dtype=np.float32)
    x[17] = 3e38
    np.save(tmp_path / "x.npy", x)
    mapped = replace(graph, x=np.load(tmp_path / "x.npy", mmap_mode="r"))
    with pytest.raises(InputError, match="column '0' is too large at node '17': 3e"):
        clf.predict(mapped)
