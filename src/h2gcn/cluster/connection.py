"""Where workers are: a Ray cluster that is started here, or one that is there."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from secrets import token_hex
from tempfile import TemporaryFile
from typing import IO, Any, Self

from h2gcn.exceptions import H2GCNWarning, InputError, short_repr
from h2gcn.sparse import format_bytes

__all__ = [
    "ATTEMPTS",
    "ENVIRONMENT",
    "Cluster",
    "Machine",
    "check_place",
    "workers_that_fit",
]

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
"""Of a worker from its first breath: read when torch is loaded, and never again."""
ATTEMPTS = 2
"""How often work is begun whose process dies under it."""
MOST_WORKERS = 1024
"""Of one machine; more is a slip of the keyboard."""

_SECONDS_TO_REACH = 4.0
_SECONDS_TO_ANSWER = 120.0
"""A worker must have been started by then, and have loaded this package."""
_SECONDS_TO_END = 10.0
"""A task that was ended is gone by then."""
_IMPATIENCE = {
    "RAY_NUM_REDIS_GET_RETRIES": "3",
    "RAY_gcs_rpc_server_connect_timeout_s": "1",
    "RAY_py_gcs_connect_timeout_s": "4",
}
"""Ray itself goes on for minutes; it reads these as it is imported."""
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_ON_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""With it, Ray takes 127.0.0.1 for this machine on every system, not its address."""
_TOKEN = token_hex(32)
"""Of all clusters that this process starts: other users of the machine have no say."""
_SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _SETTINGS
"""How HTTP/2 begins, on both sides: with a frame of settings, here none."""
_STDERR = 2
_REFUSALS = (ImportError, OSError, OverflowError, RuntimeError, ValueError)
"""What a connection may end with, besides Ray's own errors."""
_LOCAL = re.compile(r"local:([0-9]{1,6})")


def check_place(place: str) -> int | None:
    """Return how many workers to start here, None for a cluster that is elsewhere.

    Parameters
    ----------
    place
        `local:N`, `host:port`, or `auto` for the cluster that runs on this machine.

    Examples
    --------
    >>> check_place("local:2"), check_place("10.0.0.1:6379")
    (2, None)
    """
    if not (isinstance(place, str) and place.startswith("local")):
        return None
    if place.startswith("localhost:"):
        return None
    found = _LOCAL.fullmatch(place)
    if found is None or not 1 <= int(found[1]) <= MOST_WORKERS:
        raise InputError(
            "a cluster is local:N, N workers of this machine, such as local:2, or "
            f"host:port, or auto, got {short_repr(place)}"
        )
    return int(found[1])


@dataclass(frozen=True)
class Machine:
    """A machine of a cluster.

    Parameters
    ----------
    address
        As Ray knows it.
    workers
        How many tasks it takes at a time.
    free
        Bytes of memory that were free when it was asked.
    """

    address: str
    workers: int
    free: int


class Cluster:
    """Workers of a Ray cluster, of one core each; a context manager.

    Its machines must have this package, in the versions of python, h2gcn, torch and
    numpy that are here: results are compared to the last bit.

    Parameters
    ----------
    place
        `local:N` starts a cluster of N workers on this machine, bound to loopback and
        without a dashboard, and ends it again. `host:port` is one that is there, `auto`
        the one that runs on this machine: they stay. Where a host is 127.0.0.1 and the
        cluster was started there, nothing is listened to from elsewhere.

    Attributes
    ----------
    place
        As it was given.
    machines
        Those that there were at the start.
    """

    def __init__(self, place: str = "auto") -> None:
        count = check_place(place)
        if find_spec("ray") is None:
            raise InputError(
                "to use a cluster, Ray is needed: pip install 'h2gcn[ray]'"
            )
        self.place = place
        before = set(os.environ)
        self._handler = signal.getsignal(signal.SIGTERM)
        here = count is not None or _is_local(place)
        more = _ours() if count else (_ON_LOOPBACK if here else {})
        with _environment(_IMPATIENCE | more), _loopback(here):
            self._ray: Any = import_module("ray")
            self._joined = bool(self._ray.is_initialized())
            if self._joined and place != "auto":
                raise InputError(
                    f"this program is connected to a Ray cluster already, and {place} "
                    "is another; 'auto' is the one that it is connected to"
                )
            if not self._joined:
                _check_token(place, count)
                _connect(self._ray, place, count)
        self._set = set(os.environ) - before
        try:
            self.machines = _look(self._ray)
        except BaseException:
            self.close()
            raise

    @property
    def workers(self) -> int:
        """How many tasks are done at a time, as far as is known now."""
        return max(int(self._ray.cluster_resources().get("CPU", 0)), 1)

    def put(self, value: Any) -> Any:
        """Hand a value over, once for all tasks that are given what is returned."""
        return self._ray.put(value)

    def submit(self, function: Callable[..., Any], *given: Any, name: str) -> Any:
        """Have a function called by a worker; return what to ask for the result by.

        Parameters
        ----------
        function
            One that can be imported, and may be called again where a worker dies.
        given
            Its arguments; what `put` returned stands for the value.
        name
            What Ray calls the task.
        """
        task = self._ray.remote(
            num_cpus=1,
            max_retries=ATTEMPTS - 1,
            runtime_env={"env_vars": ENVIRONMENT},
        )
        return task(function).options(name=f"h2gcn {name}").remote(*given)

    def actor(self, kind: Callable[..., Any], *given: Any) -> Any:
        """Make an object in a process of its own, beside this program.

        Parameters
        ----------
        kind
            Its class.
        given
            What it is made with.
        """
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = self._ray.get_runtime_context().get_node_id()
        beside = NodeAffinitySchedulingStrategy(here, soft=False)
        made = self._ray.remote(num_cpus=0)(kind)
        return made.options(scheduling_strategy=beside).remote(*given)

    def wait(self, under_way: Iterable[Any]) -> Any:
        """Wait until one of some tasks is done, and return which."""
        # Ray prints to stdout that a worker died, among the results of a program.
        with redirect_stdout(sys.stderr):
            (first, *_), _ = self._ray.wait(list(under_way))
        return first

    def result(self, task: Any) -> Any:
        """Return what a task returned, or raise in a line what it came to."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(task)
        except errors.RayTaskError as error:
            if isinstance(error.cause, InputError):
                raise InputError(str(error.cause)) from None
            raise error.cause from error
        except errors.OutOfMemoryError:
            raise InputError(
                "a worker had not enough memory, and was ended more than once; fewer "
                "workers a machine leave more for each"
            ) from None
        except errors.RayError as error:
            why = " ".join(str(error).split())
            raise InputError(
                f"a worker died at the same task {ATTEMPTS} times; is there enough "
                f"memory? ({why[:200]})"
            ) from None

    def each(
        self, function: Callable[..., Any], given: Iterable[tuple[Any, ...]], name: str
    ) -> Iterator[tuple[int, Any]]:
        """Call a function with each of some arguments; return results as they come.

        Parameters
        ----------
        function, name
            As of `submit`.
        given
            The arguments of each call. Few more are under way than there are workers.

        Returns
        -------
        Iterator
            Which call it was, and its result.
        """
        waiting = enumerate(given)
        under_way: dict[Any, int] = {}

        def fill() -> None:
            room = 2 * self.workers - len(under_way)
            for number, arguments in islice(waiting, max(room, 0)):
                under_way[self.submit(function, *arguments, name=name)] = number

        fill()
        try:
            while under_way:
                first = self.wait(under_way)
                number = under_way.pop(first)
                found = self.result(first)
                fill()  # first, so that no worker waits for what is done with it
                yield number, found
        finally:
            self.cancel(under_way)

    def cancel(self, tasks: Iterable[Any]) -> None:
        """End tasks that are under way, and leave out those that wait.

        When it returns, none of them writes anything any more.
        """
        tasks = list(tasks)
        for task in tasks:
            self._ray.cancel(task, force=True)
        if tasks:
            with redirect_stdout(sys.stderr):
                self._ray.wait(
                    tasks,
                    num_returns=len(tasks),
                    timeout=_SECONDS_TO_END,
                    fetch_local=False,
                )

    def close(self) -> None:
        """End the connection, and the cluster where it was started here."""
        if not self._joined:
            self._ray.shutdown()
            with suppress(ValueError, TypeError):  # not in the main thread
                signal.signal(signal.SIGTERM, self._handler)
            for name in self._set:  # by Ray, for as long as it runs
                os.environ.pop(name, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def workers_that_fit(
    machines: Iterable[Machine],
    what: str,
    shared: int,
    each: int,
    limit: float | None = None,
) -> int:
    """Return how many workers have memory for a task, or raise where some have not.

    Parameters
    ----------
    machines
        Of a cluster.
    what
        What is made, for messages.
    shared
        Bytes that the workers of a machine share, such as a mapped graph.
    each
        Bytes that each of them takes besides.
    limit
        Gigabytes that a worker may take, what it shares included; None is what is
        free.
    """
    machines = list(machines)
    takes = f"{what} takes about {format_bytes(shared + each)} a worker"
    if shared:
        takes += f", {format_bytes(shared)} of it shared by those of a machine"
    if limit is not None and shared + each > limit * 1e9:
        raise InputError(f"{takes}; memory_limit={limit:g} allows less")
    fit = [
        min(one.workers, max(0, one.free - shared) // max(each, 1)) for one in machines
    ]
    for one, count in zip(machines, fit, strict=True):
        if count < one.workers:
            would = f"{sum(fit)} workers of {sum(m.workers for m in machines)} would do"
            if not sum(fit):
                would = "none would fit: it takes machines with more memory"
            raise InputError(
                f"{takes}; {one.address} has {format_bytes(one.free)} free for "
                f"{one.workers}: {would}"
            )
    return sum(fit)


# ---------------------------------------------------------------------- the connection


def _is_local(address: str) -> bool:
    """Return whether an address is on this machine, whatever it is called outside."""
    return _given(address).removeprefix("ray://").rpartition(":")[0] in _LOOPBACK


def _given(address: str) -> str:
    return os.environ.get("RAY_ADDRESS", address) if address == "auto" else address


def _ours() -> dict[str, str]:
    """Return the environment in which a cluster is started here.

    It tells nobody of itself, does not try for ever, and takes nobody's orders who has
    not its token: Ray asks for one by itself, and would leave it in a file.
    """
    theirs = any(name.startswith("RAY_AUTH_") for name in os.environ)
    return {
        **_ON_LOOPBACK,
        **({} if theirs else {"RAY_AUTH_TOKEN": _TOKEN}),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_task_oom_retries": "2",
        "RAY_worker_niceness": "0",
    }


_OWN_TOKEN: list[str] = []
"""Where a cluster was started with our token; Ray never lets go of it."""


def _check_token(place: str, count: int | None) -> None:
    """Refuse a cluster without a token in a program that has used one."""
    mode = os.environ.get("RAY_AUTH_MODE", "")
    if count is not None and os.environ.get("RAY_AUTH_TOKEN") == _TOKEN:
        _OWN_TOKEN.append(place)
    elif count is None and _OWN_TOKEN and mode != "token":
        raise InputError(
            f"this program has started {_OWN_TOKEN[0]}, whose token Ray keeps, and "
            f"cannot reach {place} any more; another program can"
        )


@contextmanager
def _loopback(wanted: bool) -> Iterator[None]:
    """Have Ray take 127.0.0.1 for this machine, also where it was imported before."""
    if not wanted:
        yield
        return
    constants: Any = import_module("ray._private.ray_constants")
    before = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


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


def _connect(ray: Any, address: str, count: int | None = None) -> None:
    """Connect to a cluster or start one, or say in one line why that cannot be."""
    given = _given(address)
    host, _, port = given.removeprefix("ray://").rpartition(":")
    hint = "Ray's own command 'ray start' starts one, this machine as its head"
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    handler = signal.getsignal(signal.SIGTERM)
    with TemporaryFile() as said:
        try:
            if count is not None:
                hint = "is there room in memory and in the folder for temporary files?"
                with _stderr_in(said):
                    ray.init(
                        address="local",
                        num_cpus=count,
                        include_dashboard=False,
                        _node_ip_address="127.0.0.1",
                        **quiet,
                    )
                if ray.util.get_node_ip_address() not in _LOOPBACK:
                    ray.shutdown()
                    raise RuntimeError("Ray would listen to other machines")
                return
            if given != "auto":
                if not (host and port.isdecimal()):
                    raise ValueError("an address is host:port, auto or local:N")
                _check_answer(host.strip("[]"), int(port))
                hint = "where it asks for a token, RAY_AUTH_MODE=token is needed here"
            # What is not Python there says in many lines what is said below in one.
            with _stderr_in(said):
                ray.init(address=address, **quiet)
        except (ray.exceptions.RayError, *_REFUSALS) as error:
            why, hint = _why(error, hint)
            said.seek(0)
            if b"InvalidAuthToken" in said.read():
                why = "its token is missing here, or is another"
                hint = "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN say it"
            done = "started" if count is not None else "reached"
            raise InputError(
                f"no Ray cluster can be {done} at {given!r} ({why}); {hint}"
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


def _why(error: BaseException, hint: str) -> tuple[str, str]:
    """Return in a few words why there is no connection, and what to do."""
    text = str(error).strip()
    if text.startswith("Version mismatch"):
        why = " ".join(text.split())[:300].rstrip(".")
        return why, "all machines need the same versions of Ray and Python"
    return (text.splitlines()[0] if text else "no answer"), hint


# ------------------------------------------------------------------------- its machines


def _look(ray: Any) -> tuple[Machine, ...]:
    """Ask each machine for its versions and memory; raise where it has others."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = [node for node in ray.nodes() if node["Alive"]]
    ask = _asks()
    here = ask()
    task = ray.remote(num_cpus=0, max_retries=1)(ask)
    asked = [
        task.options(
            name="h2gcn versions",
            scheduling_strategy=NodeAffinitySchedulingStrategy(
                node["NodeID"], soft=False
            ),
        ).remote()
        for node in there
    ]
    try:
        with redirect_stdout(sys.stderr):
            told = ray.get(asked, timeout=_SECONDS_TO_ANSWER)
    except ray.exceptions.GetTimeoutError:
        raise InputError(
            "the cluster answers, but its workers do not, after "
            f"{_SECONDS_TO_ANSWER:.0f} seconds; 'ray status' there says why"
        ) from None
    except ray.exceptions.RayError as error:
        why = " ".join(str(error).split())[:200]
        raise InputError(f"the cluster answers, but its workers fail ({why})") from None
    machines = []
    for node, found in zip(there, told, strict=True):
        address = str(node["NodeManagerAddress"])
        _compare(address, here, found)
        count = int(node["Resources"].get("CPU", 0))
        if count:
            machines.append(Machine(address, count, int(found["free"] or 0)))
    if not machines:
        raise InputError("the cluster has no worker: no machine of it has a core free")
    return tuple(machines)


def _compare(address: str, here: Mapping[str, Any], there: Mapping[str, Any]) -> None:
    """Raise where a machine has other versions than this one."""
    names = [name for name in here if name != "free"]
    other = [
        f"{name} {there[name] or 'is missing'} (here {here[name]})"
        for name in names
        if there[name] != here[name]
    ]
    if other:
        raise InputError(
            f"the worker at {address} has other versions: {', '.join(other)}; install "
            "the same on all machines of the cluster"
        )


def _asks() -> Callable[[], dict[str, Any]]:
    """Return what a machine is asked, sent as text: it may not have this package."""

    def ask() -> dict[str, Any]:
        import platform
        from importlib import metadata

        told: dict[str, Any] = {"python": platform.python_version()}
        for name in ("h2gcn", "torch", "numpy"):
            try:
                told[name] = metadata.version(name)
            except metadata.PackageNotFoundError:
                told[name] = None
        told["free"] = None
        try:
            from h2gcn import __version__
            from h2gcn.sparse import available_memory

            told["h2gcn"] = __version__
            told["free"] = available_memory()
        except ImportError:
            told["h2gcn"] = None
        return told

    return ask
