"""Clusters of this machine, each with a real scheduler and a real object store."""

from collections.abc import Iterator

import pytest

from h2gcn.cluster import Cluster


@pytest.fixture(scope="module", params=[1, 2, 3])
def each_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Start a cluster of one worker, then of two, then of three."""
    with Cluster(f"local:{request.param}") as cluster:
        yield cluster
