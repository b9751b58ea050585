"""One thread for small work, and those that were there before, after it."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Thread
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from h2gcn import Graph, NodeClassifier, Split
from h2gcn.models import build_model
from h2gcn.ring_table import TableInput
from h2gcn.sparse import Operator, dropping, rows, seeded
from h2gcn.training import loop, threads_for
from support.cases import each


@pytest.fixture(autouse=True)
def three_threads() -> object:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def operator(entries: int) -> Operator:
    return Operator(sp.csr_array(np.ones((1, entries), dtype=np.float32)))


@each(
    ("factors", "expected"),
    [
        ([torch.zeros(2, 3), operator(3)], 1),
        ([torch.zeros(2, 3), operator(4)], 3),
        ([operator(5), operator(5)], 3),
        ([object()], 3),
        ([], 1),
    ],
)
def test_small_work_has_one_thread(
    factors: list[object], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "SMALL", 10)
    with threads_for(factors):
        assert torch.get_num_threads() == expected
    assert torch.get_num_threads() == 3


@each(("model", "torch_threads", "products"), [("gcn", 3, 3), ("h2gcn-2", 1, 3)])
def test_where_products_are_ours_torch_has_little_to_do(
    model: str, torch_threads: int, products: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "SMALL", 10)
    module = build_model(model, 3, 2, {})
    rings = [operator(5), operator(5)]
    with loop.threads_of(module, torch.zeros(2, 3), rings):
        assert torch.get_num_threads() == torch_threads
        assert rows.count_threads() == products
    with loop.threads_of(module, torch.zeros(4, 3), rings):
        assert torch.get_num_threads() == 3, "the features are large themselves"
    elsewhere: list[Any] = [object()]
    with loop.threads_of(module, torch.zeros(2, 3), elsewhere):
        assert torch.get_num_threads() == 3
    assert torch.get_num_threads() == rows.count_threads() == 3


def test_inside_of_others_nothing_changes() -> None:
    with threads_for([]):
        with threads_for([]):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3
    with threads_for([object()], small=True):
        assert torch.get_num_threads() == 1


def test_a_graph_is_small_by_its_walks_of_length_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    adj = sp.csr_array(np.ones((4, 4)) - np.eye(4))
    graph = Graph(x=np.eye(4), adj=adj, y=[0, 1, 0, 1])  # 4 nodes · 3² walks
    for limit, expected in ((36, False), (37, True)):
        monkeypatch.setattr(loop, "SMALL_GRAPH", limit)
        assert loop.is_small(graph) is expected


def test_a_small_graph_has_one_thread_however_large_its_features(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "SMALL", 0)
    adj = sp.csr_array(np.ones((6, 6)) - np.eye(6))
    split = Split([0, 1, 2, 3], [4], [5])
    graph = Graph(x=np.eye(6), adj=adj, y=[0, 1, 0, 1, 0, 1], splits=(split,))
    seen = []
    clf = NodeClassifier("gcn", epochs=1).fit(
        graph, on_epoch=lambda _: seen.append(torch.get_num_threads())
    )
    clf.module_.register_forward_hook(lambda *_: seen.append(torch.get_num_threads()))
    clf.predict(graph)
    assert seen == [1, 1]
    monkeypatch.setattr(loop, "SMALL_GRAPH", 0)
    clf.predict(graph)
    assert seen == [1, 1, 3]
    assert torch.get_num_threads() == 3


def test_they_are_given_back_after_an_error() -> None:
    with pytest.raises(RuntimeError), threads_for([]):
        raise RuntimeError
    assert torch.get_num_threads() == 3


def test_each_of_several_gives_them_back_in_its_own_thread() -> None:
    inside, outside = Barrier(4), Barrier(4)

    def work(_: int) -> int:
        with threads_for([]):
            inside.wait()  # all are here before the first leaves
        outside.wait()
        return torch.get_num_threads()

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(work, range(4))) == {3}
    assert not loop._BEFORE
    assert torch.get_num_threads() == 3


def blas_threads() -> set[int]:
    pools = threadpool_info()
    return {pool["num_threads"] for pool in pools if pool["user_api"] == "blas"}


def test_a_logistic_fit_uses_one_blas_thread_and_restores_those_of_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []
    rows_of = TableInput.rows

    def spy(self: TableInput, nodes: np.ndarray) -> TableInput:
        seen.append(blas_threads())
        return rows_of(self, nodes)

    monkeypatch.setattr(TableInput, "rows", spy)
    x = np.random.default_rng(0).normal(size=(20, 3))
    adj = sp.csr_array(np.ones((20, 20)) - np.eye(20))
    graph = Graph(x=x, adj=adj, y=np.arange(20) % 2)
    with threadpool_limits(3, user_api="blas"):
        NodeClassifier("logistic").fit(graph)
        assert blas_threads() == {3}
    assert seen[0] == {1}


def test_learners_side_by_side_restore_the_blas_threads_of_the_host() -> None:
    x = np.random.default_rng(0).normal(size=(20, 3))
    adj = sp.csr_array(np.ones((20, 20)) - np.eye(20))
    graph = Graph(x=x, adj=adj, y=np.arange(20) % 2)
    before = blas_threads()
    with ThreadPoolExecutor(3) as pool:
        fits = [NodeClassifier("logistic", random_state=seed) for seed in range(9)]
        list(pool.map(lambda clf: clf.fit(graph), fits))
    assert blas_threads() == before


def test_training_on_a_small_graph_has_one_thread() -> None:
    seen = []
    adj = sp.csr_array(np.ones((6, 6)) - np.eye(6))
    split = Split([0, 1, 2, 3], [4], [5])
    graph = Graph(x=np.eye(6), adj=adj, y=[0, 1, 0, 1, 0, 1], splits=(split,))
    NodeClassifier("gcn", epochs=1).fit(
        graph, on_epoch=lambda _: seen.append(torch.get_num_threads())
    )
    assert seen == [1]
    assert torch.get_num_threads() == 3


def test_fits_side_by_side_draw_what_each_draws_alone() -> None:
    adj = sp.csr_array(np.ones((6, 6)) - np.eye(6))
    split = Split([0, 1, 2, 3], [4], [5])
    graph = Graph(x=np.eye(6), adj=adj, y=[0, 1, 0, 1, 0, 1], splits=(split,))
    before = torch.get_rng_state()

    def logits(seed: int) -> np.ndarray:
        model = NodeClassifier("gcn", epochs=20, dropout=0.5, random_state=seed)
        return model.fit(graph).predict_logits(graph)

    alone = [logits(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(logits, range(4)))
    np.testing.assert_array_equal(together, alone)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_forked_process_waits_for_no_thread_that_it_does_not_have() -> None:
    held, done = Event(), Event()

    def hold() -> None:
        with seeded(0):
            held.set()
            done.wait(timeout=300)  # only a hang takes so long

    thread = Thread(target=hold)
    thread.start()
    assert held.wait(timeout=300)
    assert not dropping._TURN.acquire(blocking=False)
    dropping._renew()  # as happens in the child
    with seeded(1):
        pass
    done.set()
    thread.join()


FORKS = """
import os, time, torch
from h2gcn.sparse import Operator

torch.set_num_threads(2)
x = torch.ones(2000, 2000)
x.softmax(dim=1)  # starts the threads of OpenMP
child = os.fork()
if not child:
    x.softmax(dim=1)
    os._exit(torch.get_num_threads())
for _ in range(300):
    done, status = os.waitpid(child, os.WNOHANG)
    if done:
        break
    time.sleep(0.1)
else:
    os.kill(child, 9)
    raise SystemExit("it hangs")
print(os.waitstatus_to_exitcode(status), torch.get_num_threads())
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no system that forks")
def test_a_forked_process_computes_with_one_thread() -> None:
    found = subprocess.run(
        [sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=300
    )
    assert (found.stdout, found.stderr) == ("1 2\n", "")
