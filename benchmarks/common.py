"""What the benchmarks share: medians, peak memory, the environment, tables."""

import json
import platform
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "results" / "bench"


def median_seconds(function: Callable[[], Any], repeats: int) -> float:
    """Return the median time of some calls, after one that does not count."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def paired_medians(
    first: Callable[[], Any], second: Callable[[], Any], repeats: int
) -> tuple[float, float]:
    """Return the median times of two functions that are called in turn.

    Whatever else the machine does then slows both alike.
    """
    first()
    second()
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for function, seconds in zip((first, second), times, strict=True):
            start = time.perf_counter()
            function()
            seconds.append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def peak_gigabytes() -> float:
    """Return the largest memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def in_a_process(function: Callable[..., Any], *arguments: object) -> Any:
    """Call a function in a process of its own, so that its peak memory is its own."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def environment() -> dict[str, Any]:
    """Return what the figures depend on."""
    packages = ("torch", "numpy", "scipy", "python-graphblas", "h2gcn")
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        **{name: version(name) for name in packages},
    }


def publish(name: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print rows as a table and write them with the environment as JSON."""
    columns = list(rows[0])
    shown = [[_text(row[column]) for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *shown, strict=True)]
    for line in [columns, *shown]:
        print("  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)))
    FOLDER.mkdir(parents=True, exist_ok=True)
    record = {"environment": environment(), "rows": list(rows)}
    (FOLDER / f"{name}.json").write_text(json.dumps(record, indent=1))


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if value < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
