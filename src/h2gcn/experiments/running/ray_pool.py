"""The processors of a Ray cluster that work on runs, one each."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from tempfile import TemporaryFile
from typing import IO, Any, Self

from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.experiments.running.local_pool import (
    ATTEMPTS,
    ENVIRONMENT,
    Record,
    failure,
    work,
)
from h2gcn.experiments.running.runs import Run

__all__ = ["RayPool"]

_SECONDS_TO_REACH = 4.0
_IMPATIENCE = {
    "RAY_NUM_REDIS_GET_RETRIES": "3",
    "RAY_gcs_rpc_server_connect_timeout_s": "1",
    "RAY_py_gcs_connect_timeout_s": "4",
}
"""Ray itself goes on for minutes; it reads these as it is imported."""
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_ON_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""With it, Ray takes 127.0.0.1 for this machine on every system, not its address."""
_SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _SETTINGS
"""How HTTP/2 begins, on both sides: with a frame of settings, here none."""
_STDERR = 2
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
        Where its host is 127.0.0.1 and it was started there, nothing is listened to
        from elsewhere.
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
        with _environment(_IMPATIENCE | (_ON_LOOPBACK if _is_local(address) else {})):
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


def _is_local(address: str) -> bool:
    """Return whether an address is on this machine, whatever it is called outside."""
    return _given(address).removeprefix("ray://").rpartition(":")[0] in _LOOPBACK


def _given(address: str) -> str:
    return os.environ.get("RAY_ADDRESS", address) if address == "auto" else address


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set those of some variables that are not, for a while."""
    missing = [name for name in variables if name not in os.environ]
    os.environ.update({name: variables[name] for name in missing})
    try:
        yield
    finally:
        for name in missing:
            os.environ.pop(name, None)


@contextmanager
def _stderr_in(file: IO[bytes]) -> Iterator[None]:
    """Write to a file for a while what anybody, Python or not, writes to stderr."""
    try:
        kept = os.dup(_STDERR)
    except OSError:  # there is none
        yield
        return
    os.dup2(file.fileno(), _STDERR)
    try:
        yield
    finally:
        os.dup2(kept, _STDERR)
        os.close(kept)


def _check_answer(host: str, port: int) -> None:
    """Raise an OSError where nothing answers as Ray does, which speaks HTTP/2."""
    with socket.create_connection((host, port), _SECONDS_TO_REACH) as line:
        line.sendall(_GREETING)
        if line.recv(len(_SETTINGS))[3:4] != _SETTINGS[3:4]:
            raise ConnectionError("what answers there is not Ray")


def _connect(ray: Any, address: str) -> None:
    """Connect to a cluster, or say in one line why that cannot be."""
    given = _given(address)
    host, _, port = given.removeprefix("ray://").rpartition(":")
    hint = "Ray's own command 'ray start' starts one, this machine as its head"
    handler = signal.getsignal(signal.SIGTERM)
    with TemporaryFile() as said:
        try:
            if given != "auto":
                if not (host and port.isdecimal()):
                    raise ValueError("an address is host:port, or auto")
                _check_answer(host.strip("[]"), int(port))
                hint = "where it asks for a token, RAY_AUTH_MODE=token is needed here"
            # What is not Python there says in many lines what is said below in one.
            with _stderr_in(said):
                ray.init(
                    address=address, logging_level=logging.ERROR, log_to_driver=False
                )
        except (ray.exceptions.RayError, *_REFUSALS) as error:
            why = str(error).strip().splitlines()[0] if str(error) else "no answer"
            said.seek(0)
            if b"InvalidAuthToken" in said.read():
                why = "its token is missing here, or is another"
                hint = "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN say it"
            raise InputError(
                f"no Ray cluster can be reached at {given!r} ({why}); {hint}"
            ) from None
        finally:
            # What SIGTERM does is for the program to say; Ray puts its own in place.
            if callable(handler) and signal.getsignal(signal.SIGTERM) is not handler:
                signal.signal(signal.SIGTERM, handler)
    if _is_local(address) and ray.util.get_node_ip_address() not in _LOOPBACK:
        warnings.warn(
            f"the Ray cluster at {given} was started under the address of this "
            "machine, so that Ray listens to others too; started with "
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 in its environment, it does not",
            H2GCNWarning,
            stacklevel=3,
        )
