"""The processors of a Ray cluster that work on runs, one each."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Self

from h2gcn.exceptions import InputError
from h2gcn.experiments.running.local_pool import (
    ATTEMPTS,
    ENVIRONMENT,
    Record,
    failure,
    work,
)
from h2gcn.experiments.running.runs import Run

__all__ = ["RayPool"]

_SECONDS_TO_REACH = 5.0
"""Ray itself goes on for minutes."""
_DATA = ("H2GCN_DATA", "H2GCN_TRUST_DATA")
"""Where the benchmarks are, and whether others than the known ones are read."""
_REFUSALS = (ImportError, OSError, OverflowError, RuntimeError, ValueError)
"""What a connection may end with, besides Ray's own errors."""


class RayPool:
    """A Ray cluster, whose machines must have this package and the data.

    A run whose worker dies is begun once more, elsewhere if need be. Where a machine
    does not set $H2GCN_DATA or $H2GCN_TRUST_DATA, it is as here.

    Parameters
    ----------
    address
        `host:port` of the cluster, or `auto` for the one that runs on this machine.
    work
        What is done with a run, a function that can be imported.
    """

    def __init__(
        self, address: str = "auto", *, work: Callable[[Run], Record] = work
    ) -> None:
        if find_spec("ray") is None:
            raise InputError(
                "to use a cluster, Ray is needed: pip install 'h2gcn[ray]'"
            )
        self._ray: Any = import_module("ray")
        _connect(self._ray, address)
        task = self._ray.remote(
            num_cpus=1,
            max_retries=ATTEMPTS - 1,
            runtime_env={"env_vars": ENVIRONMENT},
        )
        self._work = task(_do).options(name="h2gcn run")
        self._given = work
        self._runs: dict[Any, Run] = {}

    @property
    def size(self) -> int:
        """How many runs it takes: some in advance, so that a cluster may grow."""
        return 2 * self._processors

    @property
    def running(self) -> int:
        """How many runs are under way, so far as can be told from here."""
        return min(len(self._runs), self._processors)

    @property
    def _processors(self) -> int:
        return max(int(self._ray.cluster_resources().get("CPU", 0)), 1)

    def submit(self, run: Run) -> None:
        """Send a run to the cluster."""
        here = {name: os.environ[name] for name in _DATA if name in os.environ}
        self._runs[self._work.remote(self._given, run.to_json(), here)] = run

    def next(self) -> tuple[Run, Record]:
        """Wait for a run that was submitted to finish, and return its record."""
        # Ray prints to stdout that a worker died, among the results of a program.
        with redirect_stdout(sys.stderr):
            (first, *_), _ = self._ray.wait(list(self._runs))
        run = self._runs.pop(first)
        try:
            record: Record = self._ray.get(first)
        except self._ray.exceptions.RayError as error:
            record = failure(run, f"Ray: {error}")
        return run, record

    def close(self) -> None:
        """End what is under way, and the connection."""
        for reference in self._runs:
            self._ray.cancel(reference, force=True)
        self._runs = {}
        self._ray.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _do(
    work: Callable[[Run], Record], content: dict[str, Any], data: dict[str, str]
) -> Record:
    for name, value in data.items():
        os.environ.setdefault(name, value)
    return work(Run.from_json(content))


def _connect(ray: Any, address: str) -> None:
    """Connect to a cluster, or say in one line why that cannot be."""
    given = os.environ.get("RAY_ADDRESS", address) if address == "auto" else address
    host, _, port = given.removeprefix("ray://").rpartition(":")
    hint = "Ray's own command 'ray start' starts one, this machine as its head"
    handler = signal.getsignal(signal.SIGTERM)
    try:
        if host and port.isdigit():
            socket.create_connection((host, int(port)), _SECONDS_TO_REACH).close()
            hint = "where it asks for a token, set RAY_AUTH_MODE=token here too"
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    except (ray.exceptions.RayError, *_REFUSALS) as error:
        why = str(error).strip().splitlines()[0] if str(error) else "no answer"
        raise InputError(
            f"no Ray cluster can be reached at {given!r} ({why}); {hint}"
        ) from None
    finally:
        # What SIGTERM does is for the program to say; Ray puts its own in the place.
        if callable(handler) and signal.getsignal(signal.SIGTERM) is not handler:
            signal.signal(signal.SIGTERM, handler)
