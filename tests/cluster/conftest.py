"""Clusters of this machine, each with a real scheduler and a real object store."""

from collections.abc import Iterator
from importlib import import_module

import pytest

from h2gcn.cluster import Cluster, connection


@pytest.fixture(scope="module", params=[1, 2, 3])
def each_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Start a cluster of one worker, then of two, then of three."""
    with Cluster(f"local:{request.param}") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def two_machines() -> Iterator[Cluster]:
    """Start two machines of one worker each, and connect to the first."""
    # Ray never lets go of a token: other tests of this process may have used it.
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": connection._TOKEN}
    with connection._loopback(wanted=True), connection._environment(token):
        import_module("ray._raylet").Config.initialize("")
        yield from start_two_machines()


def start_two_machines() -> Iterator[Cluster]:
    """Start them on loopback, where Ray has been told that this is the machine."""
    from ray import cluster_utils

    quiet = {"num_cpus": 1, "include_dashboard": False}
    store = {"object_store_memory": 200_000_000, "node_ip_address": "127.0.0.1"}
    machines = cluster_utils.Cluster(
        initialize_head=True, head_node_args={**quiet, **store}
    )
    machines.add_node(**quiet, **store)
    try:
        with Cluster(machines.address) as cluster:
            yield cluster
    finally:
        machines.shutdown()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Start a cluster of two workers."""
    with Cluster("local:2") as found:
        yield found
