"""One thread for small work, and the host's own after it."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Thread

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_info, threadpool_limits

from h2gcn import Graph, NodeClassifier, Split
from h2gcn.sparse import Operator
from h2gcn.training import seeded, seeding, threads, threads_for


@pytest.fixture(autouse=True)
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def operator(entries):
    return Operator(sp.csr_array(np.ones((1, entries), dtype=np.float32)))


def complete_graph(n):
    adj = sp.csr_array(np.ones((n, n)) - np.eye(n))
    split = Split([0, 1, 2, 3], [4], [5])
    return Graph(x=np.eye(n), adj=adj, y=np.arange(n) % 2, splits=(split,))


def test_small_work_has_one_thread(monkeypatch):
    monkeypatch.setattr(threads, "SMALL_ENTRIES", 10)
    x = torch.zeros(2, 3)
    for factors, small, expected in (
        ([x, operator(3)], False, 1),
        ([x, operator(4)], False, 3),
        ([operator(5), operator(5)], False, 3),
        ([object()], False, 3),
        ([object()], True, 1),
        ([], False, 1),
    ):
        with threads_for(factors, small=small):
            assert torch.get_num_threads() == expected
            with threads_for([]):
                assert torch.get_num_threads() == 1
            assert torch.get_num_threads() == expected
        assert torch.get_num_threads() == 3
    with pytest.raises(RuntimeError), threads_for([]):
        raise RuntimeError
    assert torch.get_num_threads() == 3


def test_a_fit_leaves_the_host_its_threads(monkeypatch):
    monkeypatch.setattr(threads, "SMALL_ENTRIES", 0)
    graph, seen = complete_graph(6), []
    clf = NodeClassifier("gcn", epochs=1).fit(
        graph, on_epoch=lambda _: seen.append(torch.get_num_threads())
    )
    clf.module_.register_forward_hook(lambda *_: seen.append(torch.get_num_threads()))
    clf.predict(graph)
    assert seen == [1, 1], "small by its walks, however large its features"
    monkeypatch.setattr(threads, "SMALL_WALKS", 0)
    clf.predict(graph)
    assert seen == [1, 1, 3]
    assert torch.get_num_threads() == 3


def test_a_graph_is_small_by_its_walks_of_length_two(monkeypatch):
    for limit, expected in ((150, False), (151, True)):  # 6 nodes · 5² walks
        monkeypatch.setattr(threads, "SMALL_WALKS", limit)
        assert threads.is_small(complete_graph(6)) is expected


def test_concurrent_threads_restore_the_number_of_the_host():
    inside, outside = Barrier(4), Barrier(4)

    def work(_):
        with threads_for([]):
            inside.wait()  # all are here before the first leaves
        outside.wait()
        return torch.get_num_threads()

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(work, range(4))) == {3}
    assert torch.get_num_threads() == 3


def blas_threads():
    pools = threadpool_info()
    return {pool["num_threads"] for pool in pools if pool["user_api"] == "blas"}


def test_logistic_fits_use_one_blas_thread_and_restore_those_of_the_host(monkeypatch):
    seen, fit = [], LogisticRegression.fit

    def spy(self, *args):
        seen.append(blas_threads())
        return fit(self, *args)

    monkeypatch.setattr(LogisticRegression, "fit", spy)
    x = np.random.default_rng(0).normal(size=(20, 3))
    graph = Graph(x=x, adj=complete_graph(20).adj, y=np.arange(20) % 2)
    with threadpool_limits(3, user_api="blas"):
        NodeClassifier("logistic").fit(graph)
        assert blas_threads() == {3}
    assert seen[0] == {1}
    before = blas_threads()
    with ThreadPoolExecutor(3) as pool:
        fits = [NodeClassifier("logistic", random_state=seed) for seed in range(9)]
        list(pool.map(lambda clf: clf.fit(graph), fits))
    assert blas_threads() == before


def test_concurrent_fits_draw_what_each_draws_alone():
    graph, before = complete_graph(6), torch.get_rng_state()

    def logits(seed):
        model = NodeClassifier("gcn", epochs=20, dropout=0.5, random_state=seed)
        return model.fit(graph).predict_logits(graph)

    alone = [logits(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(logits, range(4)))
    np.testing.assert_array_equal(together, alone)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_forked_process_waits_for_no_thread_that_it_does_not_have():
    held, done = Event(), Event()

    def hold():
        with seeded(0):
            held.set()
            done.wait(timeout=300)  # only a hang takes so long

    thread = Thread(target=hold)
    thread.start()
    assert held.wait(timeout=300)
    assert not seeding._LOCK.acquire(blocking=False)
    seeding._renew()  # as happens in the child
    with seeded(1):
        pass
    done.set()
    thread.join()


FORKS = """
import os, time, torch
from h2gcn import NodeClassifier

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
def test_a_forked_process_computes_with_one_thread():
    result = subprocess.run(
        [sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=300
    )
    assert (result.stdout, result.stderr) == ("1 2\n", "")
