"""A plan on a Ray cluster: a local one of two workers, started for these tests."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from h2gcn.exceptions import InputError
from h2gcn.experiments import ray_pool
from h2gcn.experiments.ray_pool import RayPool
from h2gcn.experiments.runner import Event, run_plan
from h2gcn.experiments.store import Store
from toy_runs import play, toy

CLUSTER = """
import logging, sys
import ray
context = ray.init(
    num_cpus=2,
    include_dashboard=False,
    logging_level=logging.ERROR,
    log_to_driver=False,
    object_store_memory=100_000_000,
)
print(context.address_info["gcs_address"], flush=True)
sys.stdin.read()
"""
"""A cluster that lives until nobody is connected to its input."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a cluster and return where it is; one at a time on this machine."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with (shared / "ray.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cluster = subprocess.Popen(
            [sys.executable, "-c", CLUSTER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)},
            text=True,
        )
        assert cluster.stdout is not None
        yield cluster.stdout.readline().strip()
        cluster.communicate()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Open a store."""
    with Store(tmp_path / "runs.jsonl") as store:
        yield store


def test_a_plan_survives_the_death_of_workers(
    address: str, store: Store, tmp_path: Path
) -> None:
    note = tmp_path / "note"
    unlucky, deadly = toy("wait once", note=str(note)), toy("die")
    look, failing = toy("look"), toy("fail")
    others = [toy(split=number) for number in range(6)]
    plan = [unlucky, deadly, look, failing, *others]
    events: list[Event] = []
    killer = threading.Thread(target=kill_the_writer_of, args=(note,))
    killer.start()
    with RayPool(address, work=play) as pool:
        outcome = run_plan(plan, store, pool=pool, on_event=events.append)
        killer.join()
        again = run_plan(plan, store, pool=pool)
    assert {run.key for run in outcome.failed} == {deadly.key, failing.key}
    assert store[unlucky.key]["test_accuracy"] == 1.0, "begun once more"
    assert store[unlucky.key]["pid"] != int(note.read_text())
    assert "Ray: " in store[deadly.key]["error"]
    assert store[look.key]["environment"]["OMP_NUM_THREADS"] == "1"
    assert store[look.key]["environment"]["OMP_WAIT_POLICY"] == "PASSIVE"
    assert len({store[run.key]["pid"] for run in others} - {os.getpid()}) >= 1
    assert max(event.running for event in events) == 2
    assert (again.found, again.done) == (len(plan) - 2, len(plan) - 2)


def kill_the_writer_of(note: Path) -> None:
    for _ in range(3000):
        if note.exists() and note.read_text():
            os.kill(int(note.read_text()), signal.SIGKILL)
            return
        time.sleep(0.02)


@pytest.mark.parametrize("where", ["127.0.0.1:1", "nowhere.invalid:6379", "nonsense"])
def test_a_cluster_that_is_not_there(where: str) -> None:
    start = time.monotonic()
    with pytest.raises(InputError, match=f"no Ray cluster .* '{where}'") as caught:
        RayPool(where)
    assert "\n" not in str(caught.value)
    assert time.monotonic() - start < 30


def test_without_ray_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_pool, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"pip install 'h2gcn\[ray\]'"):
        RayPool()
