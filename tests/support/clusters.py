"""Ray clusters of this machine, each with a real scheduler and a real object store."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any

from h2gcn.cluster import Cluster, connection

__all__ = ["Clusters", "fewer_workers"]


@contextmanager
def two_machines() -> Iterator[Cluster]:
    """Start two machines of one worker each, and connect to the first."""
    # Ray never lets go of a token: other tests of this process may have used it.
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": connection._TOKEN}
    with connection._loopback(wanted=True), connection._environment(token):
        import_module("ray._raylet").Config.initialize("")
        from ray import cluster_utils

        # On loopback, where Ray has been told that this is the machine.
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


class Clusters:
    """The cluster that this process is connected to: one at a time is all Ray allows.

    It is kept for the next test that wants the same one.
    """

    def __init__(self) -> None:
        self._kind: str | None = None
        self._running = ExitStack()
        self._cluster: Any = None

    def start(self, kind: str) -> Cluster:
        """Return the cluster of a kind, "local" or "two machines"."""
        if kind != self._kind:
            self.end()
            started = two_machines() if kind == "two machines" else Cluster("local:3")
            self._cluster = self._running.enter_context(started)
            self._kind = kind
        found: Cluster = self._cluster
        return found

    def end(self) -> None:
        """End the cluster that runs, if there is one."""
        self._kind = self._cluster = None
        self._running.close()


class FewerWorkers(Cluster):
    """A cluster of which no more than some workers are used.

    Parameters
    ----------
    cluster
        The cluster.
    workers
        How many of its workers are used.
    """

    def __init__(self, cluster: Cluster, workers: int) -> None:
        vars(self).update(vars(cluster))
        self._workers = workers

    @property
    def workers(self) -> int:
        return self._workers


@contextmanager
def fewer_workers(cluster: Cluster, workers: int) -> Iterator[Cluster]:
    """Reserve the other workers of a cluster, so that no task gets more than these."""
    from ray.util import placement_group, remove_placement_group

    reserved = cluster.workers - workers
    if not reserved:
        yield cluster
        return
    group = placement_group([{"CPU": 1}] * reserved)
    try:
        assert group.wait(60), "the workers are busy"
        yield FewerWorkers(cluster, workers)
    finally:
        remove_placement_group(group)
