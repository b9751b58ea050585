"""A cluster is started, reached, or told to be missing, in a line each."""

import os
import signal
import socket
import threading
from importlib import import_module

import psutil
import pytest

from h2gcn.cluster import Cluster, Machine, check_place, connection, workers_that_fit
from h2gcn.exceptions import H2GCNWarning, InputError

needs_no_cluster = pytest.mark.usefixtures("no_cluster")


@pytest.fixture(autouse=True)
def without_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each test begin as a program does, whatever was started before it."""
    monkeypatch.setattr(connection, "_OWN_TOKEN", [])


@needs_no_cluster
@pytest.mark.parametrize(
    "where",
    [
        *("127.0.0.1:1", "nowhere.invalid:6379", "nonsense", "127.0.0.1"),
        *("127.0.0.1:99999999", "[::1]:1", "", "host:²"),
    ],
)
def test_a_cluster_that_is_not_there(where: str) -> None:
    with pytest.raises(InputError, match="no Ray cluster can be reached") as caught:
        Cluster(where)
    assert repr(where) in str(caught.value)
    assert "\n" not in str(caught.value)


@needs_no_cluster
@pytest.mark.parametrize("speaks", [False, True])
def test_what_is_there_is_not_ray(
    speaks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_SECONDS_TO_REACH", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def answer() -> None:
            with server.accept()[0] as line:
                line.sendall(b"220 mail.example ESMTP\r\n")

        if speaks:
            threading.Thread(target=answer, daemon=True).start()
        why = "what answers there is not Ray" if speaks else "timed out"
        with pytest.raises(InputError, match=why):
            Cluster(f"127.0.0.1:{port}")


@needs_no_cluster
def test_the_environment_is_as_it_was_afterwards() -> None:
    before = dict(os.environ)
    with pytest.raises(InputError):
        Cluster("127.0.0.1:1")
    assert dict(os.environ) == before


def test_a_cluster_under_the_address_of_the_machine_is_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Ray:
        """Is there, under an address that others know."""

        class exceptions:
            RayError = OSError

        class util:
            get_node_ip_address = staticmethod(lambda: "192.0.2.7")

        def init(self, **_: object) -> None:
            pass

    monkeypatch.setattr(connection, "_check_answer", lambda *_: None)
    with pytest.warns(H2GCNWarning, match="Ray listens to others too"):
        connection._connect(Ray(), "127.0.0.1:6379")
    connection._connect(Ray(), "192.0.2.7:6379")


def test_without_ray_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"pip install 'h2gcn\[ray\]'"):
        Cluster()


def test_what_sigterm_does_stays_as_the_program_has_it() -> None:
    class Ray:
        """Sets a handler of its own, as Ray does."""

        class exceptions:
            RayError = OSError

        def init(self, **_: object) -> None:
            signal.signal(signal.SIGTERM, lambda *_: None)

    def ours(*_: object) -> None:
        pass

    signal.signal(signal.SIGTERM, ours)
    try:
        connection._connect(Ray(), "auto")
        assert signal.getsignal(signal.SIGTERM) is ours
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


# ----------------------------------------------------------------- what a place may be


@pytest.mark.parametrize(
    "place", ["local", "local:", "local:0", "local:-1", "local:two", "local:99999"]
)
def test_a_slip_in_local_is_told(place: str) -> None:
    with pytest.raises(InputError, match="a cluster is local:N") as caught:
        check_place(place)
    assert repr(place) in str(caught.value)


def test_what_is_started_here_and_what_is_elsewhere() -> None:
    assert check_place("local:3") == 3
    for place in ("localhost:6379", "auto", "10.0.0.1:6379", "ray://head:10001"):
        assert check_place(place) is None


# ------------------------------------------------------------------------------ memory

TWO = [Machine("10.0.0.1", 4, 10**9), Machine("10.0.0.2", 2, 3 * 10**9)]


def test_workers_that_have_the_memory_are_counted() -> None:
    assert workers_that_fit(TWO, "a table", 2 * 10**8, 2 * 10**8) == 6


def test_how_many_workers_would_do_is_said() -> None:
    with pytest.raises(InputError) as caught:
        workers_that_fit(TWO, "a table", 2 * 10**8, 3 * 10**8)
    assert str(caught.value) == (
        "a table takes about 500.0 MB a worker, 200.0 MB of it shared by those of a "
        "machine; 10.0.0.1 has 1.0 GB free for 4: 4 workers of 6 would do"
    )


def test_that_none_would_fit_is_said() -> None:
    with pytest.raises(InputError, match="none would fit"):
        workers_that_fit(TWO, "a table", 0, 4 * 10**9)


def test_a_limit_is_for_each_worker() -> None:
    with pytest.raises(InputError, match=r"memory_limit=0\.4 allows less"):
        workers_that_fit(TWO, "a table", 2 * 10**8, 3 * 10**8, limit=0.4)


# ----------------------------------------------------------------------- a real cluster


def test_a_worker_with_other_versions_is_told() -> None:
    here = {"python": "3.11.9", "h2gcn": "0.2.0", "torch": "2.6.0", "free": 1}
    there = {"python": "3.11.9", "h2gcn": None, "torch": "2.7.0", "free": None}
    with pytest.raises(InputError) as caught:
        connection._compare("10.0.0.3", here, there)
    assert str(caught.value) == (
        "the worker at 10.0.0.3 has other versions: h2gcn is missing (here 0.2.0), "
        "torch 2.7.0 (here 2.6.0); install the same on all machines of the cluster"
    )


def double(number: int) -> int:
    """Return twice a number, or complain."""
    if number == 13:
        raise InputError("thirteen is not doubled")
    return 2 * number


def listeners() -> set[str]:
    """Return where this process and those it started are heard."""
    this = psutil.Process()
    found = set()
    for process in (this, *this.children(recursive=True)):
        try:
            sockets = process.net_connections()
        except psutil.Error:  # gone meanwhile
            continue
        heard = [one for one in sockets if one.status == psutil.CONN_LISTEN]
        found |= {one.laddr.ip.rpartition(":")[2] for one in heard}
    return found


# One test, for a cluster takes longer to start than all of this.
@pytest.mark.slow
@pytest.mark.xdist_group("ray")
@needs_no_cluster
def test_a_local_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    # As in a program that has imported Ray before, where this machine is others' too.
    constants = import_module("ray._private.ray_constants")
    monkeypatch.setattr(constants, "ENABLE_RAY_CLUSTER", True)
    before, handler = dict(os.environ), signal.getsignal(signal.SIGTERM)
    children = {one.pid for one in psutil.Process().children()}
    with Cluster("local:2") as cluster:
        assert cluster.workers == 2
        assert [(one.address, one.workers) for one in cluster.machines] == [
            ("127.0.0.1", 2)
        ]
        assert cluster.machines[0].free > 0
        found = dict(cluster.each(double, [(n,) for n in range(6)], "double"))
        assert found == {n: 2 * n for n in range(6)}
        with pytest.raises(InputError, match=r"^thirteen is not doubled$"):
            list(cluster.each(double, [(13,)], "double"))
        assert listeners() == {"127.0.0.1"}, "to this machine alone"

        # Who joins it leaves it as it is; another one cannot be beside it.
        with Cluster("auto") as joined:
            assert joined.workers == 2
        assert cluster.workers == 2
        with pytest.raises(InputError, match="connected to a Ray cluster already"):
            Cluster("local:1")

        # The same function says something else elsewhere.
        driver = os.getpid()

        def asks() -> object:
            def ask() -> dict[str, object]:
                here = os.getpid() == driver
                return {"h2gcn": "0.2.0" if here else "0.1.0", "free": 1}

            return ask

        monkeypatch.setattr(connection, "_asks", asks)
        with pytest.raises(InputError, match=r"h2gcn 0\.1\.0 \(here 0\.2\.0\)"):
            Cluster("auto")
    with pytest.raises(InputError, match="whose token Ray keeps, and cannot reach"):
        Cluster("127.0.0.1:6379")
    assert dict(os.environ) == before
    assert signal.getsignal(signal.SIGTERM) is handler
    assert {one.pid for one in psutil.Process().children()} <= children
