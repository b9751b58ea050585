"""Ray clusters of this machine, each with a real scheduler and a real object store."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any

from h2gcn.cluster import Cluster, connection

__all__ = ["Clusters", "FewerWorkers"]


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
            started = two_machines() if kind == "two machines" else Cluster("local:2")
            self._cluster = self._running.enter_context(started)
            self._kind = kind
        found: Cluster = self._cluster
        return found

    def end(self) -> None:
        """End the cluster that runs, if there is one."""
        self._kind = self._cluster = None
        self._running.close()


class FewerWorkers:
    """A cluster of which no more than some workers are used.

    Parameters
    ----------
    cluster
        The cluster.
    workers
        How many of its workers are used.
    """

    def __init__(self, cluster: Cluster, workers: int) -> None:
        self._cluster, self.workers = cluster, workers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)
