"""What the benchmarks share: medians of turns, the environment, tables."""

import argparse
import json
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

FOLDER = Path(__file__).parents[1] / "results" / "bench"
PACKAGES = (
    *("h2gcn", "torch", "numpy", "scipy", "numba"),
    *("torch-geometric", "python-graphblas"),
)


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that every benchmark has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, default=FOLDER, help="folder of the JSON (%(default)s)"
    )
    return parser


def medians_in_turns(
    functions: Mapping[str, Callable[[], Any]],
    repeats: int,
    *,
    burst: int = 1,
    seconds: float = math.inf,
    warm_up: bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the median of `times_in_turns` for each function."""
    times = times_in_turns(
        functions,
        repeats,
        burst=burst,
        seconds=seconds,
        warm_up=warm_up,
        clock=clock,
    )
    return {name: statistics.median(spent) for name, spent in times.items()}


def times_in_turns(
    functions: Mapping[str, Callable[[], Any]],
    repeats: int,
    *,
    burst: int = 1,
    seconds: float = math.inf,
    warm_up: bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Return the times of each function; they are called in turn.

    Whatever else the machine does then slows all alike.

    Parameters
    ----------
    functions
        What to time, by name.
    repeats
        How many turns each gets.
    burst
        How many calls in a row a turn is. All are timed; after the first of them the
        caches hold what this function uses, not what the others left there.
    seconds
        A function that has taken longer than this gets no further turn.
    warm_up
        Call each once before, which does not count.
    clock
        Whose seconds they are.
    """
    times: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values() if warm_up else ():
        function()
    for _ in range(repeats):
        for name, function in functions.items():
            if sum(times[name]) > seconds:
                continue
            for _ in range(burst):
                times[name].append(seconds_of(function, clock))
    return times


def seconds_of(
    function: Callable[[], Any], clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return how long a call takes."""
    start = clock()
    function()
    return clock() - start


def ratio(reference: float | None, ours: float | None) -> float | None:
    """Return how many times the reference is ours, None where one is not known."""
    return None if reference is None or ours is None else reference / ours


def environment() -> dict[str, Any]:
    """Return what the figures depend on."""
    import torch

    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory GB": round(psutil.virtual_memory().total / 1e9, 1),
        "threads": torch.get_num_threads(),
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY"),
        **{name: _version(name) for name in PACKAGES},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2] for line in lines if line.startswith("model name"))
    return next(names, platform.processor()).strip()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def publish(
    name: str,
    rows: Sequence[Mapping[str, Any]],
    *,
    folder: Path = FOLDER,
    **more: object,
) -> None:
    """Print rows as a Markdown table and write them as JSON.

    Parameters
    ----------
    name
        Of the file.
    rows
        All with the same columns; None is printed as "–".
    folder
        Where the file goes.
    more
        What else the file shall hold, beside the rows and the environment.
    """
    columns = list(rows[0])
    shown = [[_text(row[column]) for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *shown, strict=True)]
    rule = ["-" * width for width in widths]
    for line in [columns, rule, *shown]:
        cells = (cell.rjust(w) for cell, w in zip(line, widths, strict=True))
        print(f"| {' | '.join(cells)} |")
    folder.mkdir(parents=True, exist_ok=True)
    record = {"environment": environment(), **more, "rows": list(rows)}
    (folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")


def judge(what: str, value: float | None, limit: float, *, least: bool = False) -> None:
    """Print whether a figure keeps within what is asked of it.

    Parameters
    ----------
    what
        Its name.
    value
        The figure; nothing is said of None.
    limit
        What it may be at most, or with `least` must be at least.
    """
    if value is None:
        return
    kept = value >= limit if least else value <= limit
    asked = f"at {'least' if least else 'most'} {_text(limit)}"
    print(f"{'ok  ' if kept else 'MISS'} {what}: {_text(value)}, asked for {asked}")


def _text(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
