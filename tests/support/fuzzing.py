"""How many cases the tests under fuzz/ try."""

import os

__all__ = ["cases"]


def cases(default: int) -> int:
    """Return the number of cases: that of $H2GCN_FUZZ, or the default."""
    return int(os.environ.get("H2GCN_FUZZ", default))
