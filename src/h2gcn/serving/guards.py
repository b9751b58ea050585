"""What stands before the answers: limits, a token, hosts, and a count of it all.

Each is plain ASGI, so that it holds whatever the routes behind it are.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import os
import queue
import re
import secrets
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from h2gcn._validation import check_integer, check_real
from h2gcn.exceptions import InputError, shorten
from h2gcn.io import read_own

__all__ = [
    "Guard",
    "Limits",
    "Metrics",
    "Refused",
    "Worker",
    "is_loopback",
    "make_token",
    "read_token",
    "shown",
]

_T = TypeVar("_T")
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::\d*)?", re.ASCII)
SHORTEST_TOKEN = 16
"""Characters of a token, at least."""
LONGEST_TOKEN = 4096
OPEN = frozenset({"/", "/page.js", "/page.css", "/health"})
"""What is there without a token: no word of model or graph is in it."""
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
"""What every answer says to browsers."""
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""Seconds that the histogram of latencies counts up to."""


@dataclass(frozen=True)
class Limits:
    """What a request may ask for, and how many may ask at once.

    Parameters
    ----------
    body_bytes
        Bytes of the body of a request.
    ids
        Known nodes that a request names.
    new_nodes, new_edges
        New nodes of a request, and their edges.
    seconds
        How long a request may take, from its first byte on.
    at_once
        Requests that are answered at the same time; further ones are sent away.
    waiting
        Requests of those that may wait for what is computed one after the other.
    """

    body_bytes: int = 1_000_000
    ids: int = 1000
    new_nodes: int = 1000
    new_edges: int = 10_000
    seconds: float = 30.0
    at_once: int = 64
    waiting: int = 16

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "seconds":
                check_real(field.name, value, "(0, inf)")
            else:
                check_integer(field.name, value, 1)


class Refused(Exception):
    """A request that is not answered.

    Parameters
    ----------
    status
        Of HTTP.
    message
        Why, in one line.
    headers
        Further ones of the answer.
    """

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {name.replace("_", "-"): text for name, text in headers.items()}


# --------------------------------------------------------------------- hosts and tokens


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, as only itself can reach it."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def make_token() -> str:
    """Return a token that nobody can guess."""
    return secrets.token_urlsafe(32)


def read_token(file: Path | None = None) -> str | None:
    """Return the token of a file, else of $H2GCN_TOKEN, else None.

    Parameters
    ----------
    file
        Its first line is the token; blanks around it do not count.
    """
    if file is not None:
        try:
            content = read_own(file, LONGEST_TOKEN).decode("utf-8").strip()
        except UnicodeDecodeError:
            raise InputError("must hold a token in UTF-8", where=str(file)) from None
        return _checked(content, str(file))
    given = os.environ.get("H2GCN_TOKEN")
    return None if given is None else _checked(given.strip(), "H2GCN_TOKEN")


def _checked(token: str, where: str) -> str:
    # The value is a secret, and no message shows it.
    if len(token) < SHORTEST_TOKEN:
        raise InputError(
            f"a token must have at least {SHORTEST_TOKEN} characters",
            value=len(token),
            where=where,
        )
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise InputError(
            "a token must be one line of ASCII without blanks", where=str(where)
        )
    return token


def _host_of(header: str) -> str:
    """Return the host of a Host header, without its port; "" where it is none."""
    found = _HOST.fullmatch(header)
    return found[1].strip("[]").lower() if found else ""


# ------------------------------------------------------------------------ the counters


class Metrics:
    """Counts requests and how long they take; Prometheus reads it as text.

    Parameters
    ----------
    n_nodes
        How many nodes are known.
    """

    def __init__(self, n_nodes: int) -> None:
        self._n_nodes = n_nodes
        self._requests: dict[tuple[str, int], int] = defaultdict(int)
        self._buckets: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = defaultdict(float)
        self.at_once = 0

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count a request.

        Parameters
        ----------
        route
            What was asked for, as the application declares it: one of a few.
        status
            Of HTTP.
        seconds
            How long it took.
        """
        self._requests[route, status] += 1
        counts = self._buckets.setdefault(route, [0] * (len(BUCKETS) + 1))
        place = next((i for i, end in enumerate(BUCKETS) if seconds <= end), -1)
        counts[place] += 1
        self._seconds[route] += seconds

    def text(self) -> str:
        """Return all of it in the text format of Prometheus."""
        import psutil

        lines = ["# TYPE h2gcn_requests_total counter"]
        for (route, status), number in sorted(self._requests.items()):
            labels = f'route="{route}",status="{status}"'
            lines.append(f"h2gcn_requests_total{{{labels}}} {number}")
        lines.append("# TYPE h2gcn_request_seconds histogram")
        for route, counts in sorted(self._buckets.items()):
            total = 0
            for end, number in zip((*BUCKETS, "+Inf"), counts, strict=True):
                total += number
                labels = f'route="{route}",le="{end}"'
                lines.append(f"h2gcn_request_seconds_bucket{{{labels}}} {total}")
            label = f'{{route="{route}"}}'
            lines.append(f"h2gcn_request_seconds_sum{label} {self._seconds[route]:.6f}")
            lines.append(f"h2gcn_request_seconds_count{label} {total}")
        gauges = {
            "h2gcn_requests_now": self.at_once,
            "h2gcn_nodes_known": self._n_nodes,
            "process_resident_memory_bytes": psutil.Process().memory_info().rss,
        }
        for name, value in gauges.items():
            lines += [f"# TYPE {name} gauge", f"{name} {value}"]
        return "\n".join(lines) + "\n"


# -------------------------------------------------------------------------- the worker


class Worker:
    """One thread that computes what requests ask for, one after the other.

    A request that has run out of time is not begun; one that is being computed is
    computed to the end, for nobody, and those after it wait.

    Parameters
    ----------
    waiting
        How many may wait; further ones are refused.
    """

    def __init__(self, waiting: int) -> None:
        self._jobs: queue.Queue[tuple[asyncio.Future[Any], Callable[[], Any]]]
        self._jobs = queue.Queue(waiting)
        # It must not keep the program from ending.
        threading.Thread(target=self._work, daemon=True, name="h2gcn worker").start()

    async def do(self, work: Callable[[], _T]) -> _T:
        """Return what a function returns, called in the thread."""
        future: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        try:
            self._jobs.put_nowait((future, work))
        except queue.Full:
            raise Refused(
                503,
                f"{self._jobs.maxsize} requests wait already to be computed; ask again "
                "later",
                retry_after="1",
            ) from None
        return await future

    def _work(self) -> None:
        while True:
            future, work = self._jobs.get()
            if future.cancelled():
                continue
            result: Any = None
            failure: BaseException | None = None
            try:
                result = work()
            except BaseException as error:  # it is told to who has asked
                failure = error
            try:
                loop = future.get_loop()
                loop.call_soon_threadsafe(_settle, future, result, failure)
            except RuntimeError:  # the server has ended
                return


def _settle(
    future: asyncio.Future[Any], result: Any, failure: BaseException | None
) -> None:
    if future.done():
        return
    if failure is None:
        future.set_result(result)
    else:
        future.set_exception(failure)


# --------------------------------------------------------------------------- the guard


class Guard:
    """An application behind limits, a token and a check of hosts; counts what it does.

    Whatever fails is one line of JSON, `{"error": "…"}`.

    Parameters
    ----------
    app
        What answers.
    limits
        What a request may be.
    metrics
        Where it is counted.
    token
        What a request must carry; None lets all in.
    hosts
        Names that the Host header may have; None takes all. A page of somebody else
        whose name was made to lead to this machine is kept out by it.
    report
        Is told of an internal error in a line, with its traceback.
    """

    def __init__(
        self,
        app: Asgi,
        limits: Limits,
        metrics: Metrics,
        *,
        token: str | None = None,
        hosts: Collection[str] | None = None,
        report: Callable[[str, str], None] = lambda *_: None,
    ) -> None:
        self._app, self._limits, self._metrics = app, limits, metrics
        self._token = None if token is None else token.encode()
        self._hosts = None if hosts is None else {host.lower() for host in hosts}
        self._report = report

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or say why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0

        async def sending(message: dict[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message.get("headers", ()),
                    *((name.encode(), text.encode()) for name, text in HEADERS.items()),
                ]
            await send(message)

        metrics = self._metrics
        metrics.at_once += 1
        try:
            self._check(scope)
            async with asyncio.timeout(self._limits.seconds):
                await self._app(scope, self._counted(scope, receive), sending)
        except BaseException as error:
            if status or isinstance(error, asyncio.CancelledError):
                raise
            await _refuse(self._refusal(error), sending)
        finally:
            metrics.at_once -= 1
            route = getattr(scope.get("route"), "path", "other")
            metrics.count(route, status, time.perf_counter() - start)

    def _check(self, scope: Scope) -> None:
        """Raise where a request may not come in."""
        headers = dict(scope["headers"])
        if self._hosts is not None:
            host = headers.get(b"host", b"").decode("latin-1")
            if _host_of(host) not in self._hosts:
                known = ", ".join(sorted(self._hosts))
                raise Refused(
                    421, f"the Host header must be one of {known}, got {shown(host)}"
                )
        path: str = scope["path"]
        if path.startswith("/nodes/"):
            # An id may have slashes: it is taken out of the path before it is decoded.
            scope["path"] = scope["raw_path"].partition(b"?")[0].decode("latin-1")
        if self._token is not None and path not in OPEN:
            given = headers.get(b"authorization", b"")
            kind, _, found = given.partition(b" ")
            same = hmac.compare_digest(found.strip(), self._token)
            if kind.lower() != b"bearer" or not same:
                raise Refused(
                    401,
                    "a token is needed: Authorization: Bearer …",
                    www_authenticate="Bearer",
                )
        if self._metrics.at_once > self._limits.at_once and path != "/health":
            raise Refused(
                503,
                f"{self._limits.at_once} requests are being answered already; ask "
                "again later",
                retry_after="1",
            )

    def _counted(self, scope: Scope, receive: Receive) -> Receive:
        """Return what receives a body, and raises where it is too large."""
        limit = self._limits.body_bytes
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared[:20]) > limit:
            raise Refused(413, _too_large(limit, int(declared[:20])))
        total = 0

        async def counting() -> dict[str, Any]:
            nonlocal total
            message = await receive()
            total += len(message.get("body", b""))
            if total > limit:
                raise Refused(413, _too_large(limit, total))
            return message

        return counting

    def _refusal(self, error: BaseException) -> Refused:
        """Return what is said of a failure."""
        if isinstance(error, Refused):
            return error
        if isinstance(error, InputError):
            return Refused(400, str(error))
        if isinstance(error, TimeoutError):
            return Refused(504, f"took longer than {self._limits.seconds:g} s")
        if isinstance(error, MemoryError):
            return Refused(503, "out of memory")
        line = f"internal error: {type(error).__name__}: {error}"
        self._report(shorten(line), "".join(traceback.format_exception(error)))
        return Refused(500, "internal error; the server's log has more")


def shown(text: str) -> str:
    """Return a text of a request as a message shows it."""
    return repr(text if len(text) <= 100 else f"{text[:99]}…")


def _too_large(limit: int, found: int) -> str:
    return f"the body must have at most {limit:,} bytes, got {found:,} or more"


async def _refuse(refused: Refused, send: Send) -> None:
    body = json.dumps({"error": shorten(str(refused))}).encode()
    headers = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        **refused.headers,
    }
    start = [(name.encode(), text.encode()) for name, text in headers.items()]
    await send(
        {
            "type": "http.response.start",
            "status": refused.status,
            "headers": start,
        }
    )
    await send({"type": "http.response.body", "body": body})
