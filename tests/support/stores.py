"""Graphs that should be the same, part by part."""

from dataclasses import fields
from typing import Any

import numpy as np
import scipy.sparse as sp

from h2gcn import Graph, Split
from h2gcn.graph import EdgeColumns


def same(one: Any, other: Any) -> bool:
    """Tell whether two parts of graphs are equal, types and all."""
    if isinstance(one, EdgeColumns) and isinstance(other, EdgeColumns):
        names = [field.name for field in fields(EdgeColumns)]
        return all(same(getattr(one, name), getattr(other, name)) for name in names)
    if sp.issparse(one) or sp.issparse(other):
        return (
            sp.issparse(one)
            and sp.issparse(other)
            and one.shape == other.shape
            and all(
                np.array_equal(getattr(one, part), getattr(other, part))
                for part in ("indptr", "indices", "data")
            )
        )
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(
            one, other, equal_nan=one.dtype.kind in "fM"
        )
    if isinstance(one, tuple) and one and isinstance(one[0], Split):
        return len(one) == len(other) and all(
            same(getattr(a, part), getattr(b, part))
            for a, b in zip(one, other, strict=True)
            for part in ("train", "val", "test")
        )
    return bool(one == other)


def differing(one: Graph, other: Graph) -> list[str]:
    """Return which parts of two graphs differ."""
    names = [field.name for field in fields(Graph)]
    return [n for n in names if not same(getattr(one, n), getattr(other, n))]
