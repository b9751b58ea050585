"""A cluster of two workers of this machine, for all tests of the room."""

from collections.abc import Iterator

import pytest

from h2gcn.cluster import Cluster


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    """Return a cluster that is started once."""
    pytest.importorskip("ray")
    with Cluster("local:2") as found:
        yield found
