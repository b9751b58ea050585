"""How many requests a second `h2gcn serve` answers, how late, and in what memory.

A random graph of 100,000 nodes, average degree 10, ten classes and 64 features
(graphs.py) with a small H2GCN-1 is served by the command itself in a process of its
own, on a free port of 127.0.0.1. A few connections, kept open by this process, ask one
request after the other: client and server share the machine's cores. Every kind of
request is asked for a number of seconds, or a number of times, whichever comes first;
then the server is ended. "server CPU" is what a request takes of the processor: it is
the same on a machine that has other things to do.

    python benchmarks/serving.py --seconds 10 --connections 8
"""

import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from common import judge, parser, publish
from graphs import random_graph

from h2gcn import NodeClassifier
from h2gcn.io import write_npz

WANTED = 200.0
"""Requests a second of known nodes."""
KNOWN = "GET /nodes/{id}"
PROGRAM = (sys.executable, "-c", "from h2gcn.cli import entry_point; entry_point()")
Request = Callable[[np.random.Generator], tuple[str, str, Any]]


def main() -> None:
    """Serve a model, ask, publish."""
    options = parser(__doc__)
    options.add_argument("--nodes", type=int, default=100_000)
    options.add_argument("--model", default="h2gcn-1")
    options.add_argument("--connections", type=int, default=8)
    options.add_argument("--seconds", type=float, default=10.0, help="of each kind")
    options.add_argument("--requests", type=int, default=20_000, help="of each kind")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        graph = prepare(Path(folder), chosen.nodes, chosen.model)
        command = [*PROGRAM, "serve", str(Path(folder, "model")), str(graph)]
        start = time.perf_counter()
        with subprocess.Popen(
            [*command, "--port", "0", "--quiet"], stdout=subprocess.PIPE, text=True
        ) as server:
            try:
                assert server.stdout is not None
                found = re.search(r":(\d+)$", server.stdout.readline().strip())
                assert found, "the server has not begun"
                ready = time.perf_counter() - start
                rows = measure(int(found[1]), server.pid, chosen)
            finally:
                server.terminate()
    for row in rows:
        row["start s"] = ready
    publish("serving", rows, folder=chosen.out)
    for row in rows:
        if row["request"] == KNOWN:
            judge(f"requests a second, {KNOWN}", row["a second"], WANTED, least=True)


def prepare(folder: Path, n_nodes: int, model: str) -> Path:
    """Write a graph and a model of it; return the file of the graph."""
    warnings.filterwarnings("ignore")
    graph = random_graph(n_nodes)
    NodeClassifier(model, epochs=3, random_state=0).fit(graph).save(folder / "model")
    write_npz(graph, folder / "graph.npz")
    return folder / "graph.npz"


def kinds(n_nodes: int) -> dict[str, Request]:
    """Return what is asked, by name."""

    def one(rng: np.random.Generator) -> int:
        return int(rng.integers(n_nodes))

    def new(rng: np.random.Generator) -> tuple[str, str, Any]:
        numbers = rng.standard_normal(64).round(3).tolist()
        node = {"id": "new", **{str(i): value for i, value in enumerate(numbers)}}
        edges = [{"source": "new", "target": str(one(rng))} for _ in range(3)]
        return "POST", "/predict", {"nodes": [node], "edges": edges}

    return {
        KNOWN: lambda rng: ("GET", f"/nodes/{one(rng)}", None),
        "POST /predict, 10 ids": lambda rng: (
            "POST",
            "/predict",
            {"ids": [str(one(rng)) for _ in range(10)]},
        ),
        "POST /predict, 1,000 ids": lambda rng: (
            "POST",
            "/predict",
            {"ids": [str(one(rng)) for _ in range(1000)]},
        ),
        "GET /nodes/{id}/surroundings": lambda rng: (
            "GET",
            f"/nodes/{one(rng)}/surroundings",
            None,
        ),
        "GET /search": lambda rng: ("GET", f"/search?q={one(rng) // 100}", None),
        "GET /nodes/{id}/reasons": lambda rng: (
            "GET",
            f"/nodes/{one(rng)}/reasons",
            None,
        ),
        "POST /predict, a new node": new,
    }


def measure(port: int, process: int, chosen: Any) -> list[dict[str, Any]]:
    """Ask each kind of request; return its row."""
    rows = []
    for name, kind in kinds(chosen.nodes).items():
        asyncio.run(load(port, kind, 1, 20, 5.0))  # compiled, cached, imported
        before = cpu_seconds(process)
        times, failed, seconds = asyncio.run(
            load(port, kind, chosen.connections, chosen.requests, chosen.seconds)
        )
        spent = cpu_seconds(process) - before
        memory = psutil.Process(process).memory_info().rss
        late = np.percentile(times, [50, 99]) if times else [np.nan, np.nan]
        rows.append(
            {
                "request": name,
                "connections": chosen.connections,
                "requests": len(times),
                "failed": failed,
                "a second": len(times) / seconds,
                "p50 ms": 1e3 * float(late[0]),
                "p99 ms": 1e3 * float(late[1]),
                "server CPU ms": 1e3 * spent / max(len(times) + failed, 1),
                "memory MB": memory / 1e6,
            }
        )
        print(f"{name}: done", flush=True)
    return rows


def cpu_seconds(process: int) -> float:
    """Return what a process has taken of the processor, whatever else that does."""
    times = psutil.Process(process).cpu_times()
    return float(times.user + times.system)


async def load(
    port: int, kind: Request, connections: int, requests: int, seconds: float
) -> tuple[list[float], int, float]:
    """Ask over some connections; return latencies, failures and seconds."""
    times: list[float] = []
    failed = 0
    start = time.perf_counter()

    async def asking(seed: int) -> None:
        nonlocal failed
        rng = np.random.default_rng(seed)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while len(times) + failed < requests:
            begun = time.perf_counter()
            if begun - start > seconds:
                break
            status = await ask(reader, writer, *kind(rng))
            if status == 200:
                times.append(time.perf_counter() - begun)
            else:
                failed += 1
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*(asking(seed) for seed in range(connections)))
    return times, failed, time.perf_counter() - start


async def ask(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    method: str,
    path: str,
    body: Any,
) -> int:
    """Send a request over an open connection; return the status of the answer."""
    content = b"" if body is None else json.dumps(body).encode()
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    writer.write(head.encode() + content)
    answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    length = re.search(r"content-length: (\d+)", answer, re.IGNORECASE)
    assert length, answer
    await reader.readexactly(int(length[1]))
    return int(answer.split()[1])


if __name__ == "__main__":
    main()
