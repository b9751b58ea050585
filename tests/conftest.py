"""Small named graphs that all tests share, and where the benchmark data are."""

import gc
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
import scipy.sparse as sp
import torch

from h2gcn import Graph
from h2gcn.cli import main
from h2gcn.cluster import Cluster
from support.clusters import Clusters, fewer_workers
from support.commands import Run
from support.graphs import NAMED, adjacency

# The same examples everywhere: nobody's run fails on one that nobody else has seen.
# `make fuzz` looks for new ones.
hypothesis.settings.register_profile(
    "default",
    max_examples=20,
    derandomize=True,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(
    "fuzz",
    max_examples=2000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(
    "random",
    parent=hypothesis.settings.get_profile("fuzz"),
    max_examples=200,
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


class TorchRandom:
    """torch's generator, in the form in which hypothesis seeds one for each example."""

    seed = staticmethod(torch.manual_seed)
    getstate = staticmethod(torch.get_rng_state)
    setstate = staticmethod(torch.set_rng_state)


TORCH_RANDOM = TorchRandom()  # hypothesis itself holds no more than a weak reference
hypothesis.register_random(TORCH_RANDOM)

PORTABLE = {"sparse", "rings", "features", "models", "training"}
"""Folders of tests that compute: they also run with other instructions and threads."""
GROUPS = {
    "browser": "browser",
    "postgresql_server": "postgresql",
    "three_workers": "ray",
    "two_machines": "ray-two-machines",
}
"""Fixtures that only one process of a parallel run should set up."""

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
"""The system's own."""

THREADS = int(os.environ.get("H2GCN_TEST_THREADS", "1"))
"""Of torch: one, for tiny products wait longer for a second than they take."""


@pytest.fixture(params=NAMED, ids=lambda name: name.replace(" ", "-"))
def named_adj(request: pytest.FixtureRequest) -> sp.csr_array:
    """Each of the named graphs in turn."""
    return NAMED[request.param]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command; return its exit code, stdout and stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


@pytest.fixture
def small_graph() -> Graph:
    """Return 30 nodes in two alternating classes, with informative features."""
    rng = np.random.default_rng(0)
    n = 30
    y = np.arange(n) % 2
    edges = [(i, (i + 1) % n) for i in range(n)] + [(i, (i + 3) % n) for i in range(n)]
    x = rng.normal(size=(n, 4)) + 3 * y[:, None]
    return Graph(x=x, adj=adjacency(n, edges), y=y, name="small")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without looking for garbage, which took 5 of 16 seconds."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()  # what was collected is there to the end


@pytest.hookimpl(tryfirst=True)  # before they are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their folder and by the fixtures that they need."""
    # Those of one cluster follow one another, so that each is started once.
    for kind in ("three_workers", "two_machines"):
        items.sort(
            key=lambda item, kind=kind: kind in getattr(item, "fixturenames", ())
        )
    for item in items:
        if item.path.parent.name in PORTABLE:
            item.add_marker("portable")
        fixtures = set(getattr(item, "fixturenames", ()))
        if fixtures & {"data_root", "no_cluster", *GROUPS}:
            item.add_marker("slow")
        for fixture in fixtures & GROUPS.keys():
            item.add_marker(pytest.mark.xdist_group(GROUPS[fixture]))


@pytest.hookimpl(tryfirst=True)  # before any fixture
def pytest_runtest_setup() -> None:
    """Give every test the same threads and random numbers, whatever came before it."""
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start the system's Chromium, or leave the test out aloud."""
    if CHROMIUM is None:
        pytest.skip("left out: Chromium is not installed (apt-get install chromium)")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.skip("left out: Playwright is not installed (pip install playwright)")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox"],
            # Whether a container shows its scrollbar is one of the questions.
            ignore_default_args=["--hide-scrollbars"],
        )
        yield started
        started.close()


@pytest.fixture(scope="session")
def clusters() -> Iterator[Clusters]:
    """Keep a Ray cluster from test to test, and end it at last."""
    kept = Clusters()
    yield kept
    kept.end()


@pytest.fixture
def three_workers(clusters: Clusters) -> Cluster:
    return clusters.start("local")


@pytest.fixture
def local_cluster(three_workers: Cluster) -> Iterator[Cluster]:
    """Return a cluster of two workers of this machine."""
    with fewer_workers(three_workers, 2) as cluster:
        yield cluster


@pytest.fixture(params=[1, 2, 3])
def each_cluster(
    request: pytest.FixtureRequest, three_workers: Cluster
) -> Iterator[Cluster]:
    """Return a cluster of one worker, then of two, then of three."""
    with fewer_workers(three_workers, request.param) as cluster:
        yield cluster


@pytest.fixture
def two_machines(clusters: Clusters) -> Cluster:
    """Return a cluster of two machines of one worker each."""
    return clusters.start("two machines")


@pytest.fixture
def no_cluster(clusters: Clusters) -> None:
    """End the cluster that another test has left."""
    clusters.end()


@pytest.fixture(scope="session")
def data_root() -> Path:
    """Return the folder of the benchmark files, or leave the test out aloud."""
    root = os.environ.get("H2GCN_DATA")
    if not root or not Path(root).is_dir():
        pytest.skip("left out: the benchmark files are not there; set $H2GCN_DATA")
    return Path(root)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say plainly at the end what was left out, and why."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(
        str(report.longrepr).partition("left out: ")[2].strip("')")
        for report in skipped
        if "left out: " in str(report.longrepr)
    )
    for reason, number in reasons.items():
        terminalreporter.write_line(f"{number} tests were left out: {reason}.")
