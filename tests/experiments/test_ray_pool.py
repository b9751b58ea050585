"""A plan on a Ray cluster: a local one of two workers, started for these tests."""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from h2gcn.experiments import Run
from h2gcn.experiments.pools import execute
from h2gcn.experiments.runs import FORMAT, read_records
from support.toy_runs import toy
from support.webkb import write_tiny_webkb

pytestmark = pytest.mark.slow

PATIENCE = 300.0
"""Seconds after which what should happen never will."""

CLUSTER = """
import logging, sys
import ray
context = ray.init(
    address="local",  # and not one that other tests have begun
    num_cpus=2,
    include_dashboard=False,
    logging_level=logging.ERROR,
    log_to_driver=False,
    object_store_memory=100_000_000,
)
print(context.address_info["gcs_address"], flush=True)
sys.stdin.read()
"""
"""A cluster that lives until its input is closed."""

DRIVER = """
import json, signal, sys
import psutil
from h2gcn.experiments import Run
from h2gcn.experiments import RayPool
from h2gcn.experiments import run_plan
from h2gcn.experiments import Store
from support.toy_runs import play

# A shell that starts tests in the background has them ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

address, plan = sys.argv[1:]
runs = [Run.from_json(run) for run in json.loads(plan)]
running = []
with Store("runs.jsonl") as store, RayPool(address, work=play) as pool:
    sockets = psutil.Process().net_connections()
    heard = [one.laddr.ip for one in sockets if one.status == psutil.CONN_LISTEN]
    outcome = run_plan(
        runs, store, pool=pool, on_event=lambda event: running.append(event.running)
    )
counts = [outcome.found, outcome.done, len(outcome.failed), max(running)]
print(json.dumps([*counts, sorted({ip.rpartition(":")[2] for ip in heard})]))
"""


@pytest.fixture
def ray_environment() -> dict[str, str]:
    """Return an environment whose processes share a cluster, and nobody else does."""
    return {
        **{name: value for name, value in os.environ.items() if name != "H2GCN_DATA"},
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path]),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # on loopback
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_worker_niceness": "0",  # by default other tests would starve them
    }


def without(environment: dict[str, str], *names: str) -> dict[str, str]:
    """Return an environment without some of its variables."""
    return {name: v for name, v in environment.items() if name not in names}


@pytest.fixture
def address(ray_environment: dict[str, str]) -> Iterator[str]:
    """Start a cluster and return where it is."""
    with subprocess.Popen(
        [sys.executable, "-c", CLUSTER],
        env=ray_environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as cluster:
        assert cluster.stdout is not None
        place = cluster.stdout.readline().strip()
        assert place, "the cluster did not start"
        yield place
        cluster.communicate()


@pytest.fixture
def start(
    address: str, ray_environment: dict[str, str], tmp_path: Path
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a program that runs a plan on the cluster; return it."""
    folder = tmp_path / "data" / "texas" / "raw"
    folder.mkdir(parents=True)
    write_tiny_webkb(folder, "texas")
    drivers = []

    def call(runs: list[Run], **more: str) -> subprocess.Popen[str]:
        plan = json.dumps([run.to_json() for run in runs])
        driver = subprocess.Popen(
            [sys.executable, "-c", DRIVER, address, plan],
            cwd=tmp_path,
            env={
                **without(ray_environment, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"),
                "H2GCN_DATA": str(tmp_path / "data"),
                "H2GCN_TRUST_DATA": "1",
                **more,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        drivers.append(driver)
        return driver

    yield call
    for driver in drivers:
        driver.kill()
        driver.communicate()


def read_when(
    path: Path, condition: Callable[[str], Any], driver: subprocess.Popen[str]
) -> str:
    """Wait until a file that the driver's runs write is as it should be; return it."""
    end = time.monotonic() + PATIENCE
    while not (path.exists() and condition(path.read_text())):
        assert driver.poll() is None, driver.communicate()[1]
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.05)
    return path.read_text()


# One test, for the cluster takes longer to start than all of this.
@pytest.mark.filterwarnings("ignore:.*they are read all the same")
def test_a_plan_on_a_cluster(
    start: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    note, path = tmp_path / "note", tmp_path / "runs.jsonl"
    unlucky, deadly = toy("wait once", note=str(note)), toy("die")
    look, failing = toy("look"), toy("fail")
    real = Run("real", "texas", "gcn", {"epochs": 20}, split=1)
    others = [toy(split=number) for number in range(4)]
    plan = [unlucky, real, deadly, look, failing, *others]

    # A worker is killed in the middle, another one dies of its run whoever does it.
    driver = start(plan)
    victim = int(read_when(note, str.isdigit, driver))
    os.kill(victim, signal.SIGKILL)
    said, complaints = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 0, complaints
    *counts, heard = json.loads(said.splitlines()[-1])
    assert counts == [0, len(plan) - 2, 2, 2]
    assert heard == ["127.0.0.1"], "it listens to this machine alone"
    records = {record["key"]: record for record in read_records(path)}
    assert len(records) == path.read_bytes().count(b"\n") == len(plan)
    assert records[unlucky.key]["test_accuracy"] == 1.0, "begun once more"
    assert records[unlucky.key]["pid"] != victim
    assert records[deadly.key]["error"].startswith("Ray: ")
    assert records[failing.key]["error"].endswith("a toy that fails")
    environment = records[look.key]["environment"]
    assert environment["OMP_NUM_THREADS"] == "1"
    assert environment["OMP_WAIT_POLICY"] == "PASSIVE"
    monkeypatch.setenv("H2GCN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("H2GCN_TRUST_DATA", "1")
    seconds = records[real.key]["seconds"]
    assert records[real.key] == execute(real) | {"seconds": seconds, "format": FORMAT}

    # Ctrl-C, and the next start goes on.
    note.unlink()
    endless = toy("wait once", note=str(note), split=1)
    driver = start([*others, endless, look])
    read_when(note, str.isdigit, driver)
    driver.send_signal(signal.SIGINT)
    _, complaints = driver.communicate(timeout=PATIENCE)
    assert "KeyboardInterrupt" in complaints
    said, complaints = start([*others, endless, look]).communicate(timeout=PATIENCE)
    assert json.loads(said.splitlines()[-1])[:3] == [5, 6, 0], complaints

    # Another token: one line, and no traceback or log of Ray's beside it.
    _, complaints = start([look], RAY_AUTH_TOKEN="0" * 64).communicate(timeout=PATIENCE)
    assert "(its token is missing here, or is another)" in complaints.splitlines()[-1]
    assert "gcs_client" not in complaints
