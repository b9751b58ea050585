"""A small graph with names that would like to run, and a model of it to be served."""

from functools import cache
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from h2gcn import Graph, NodeClassifier
from h2gcn.io import write_tables

__all__ = ["EVIL", "SLASHED", "UNLABELLED", "leave_town", "town", "town_model"]

EVIL = "<script>alert(1)</script>"
SLASHED = "x/y z?q=1#é%2F"
UNLABELLED = ("a04", "b1", "alone")


@cache
def town() -> Graph:
    """Return a hub with 30 neighbours, two nodes behind these, and some apart.

    hub -> a00 … a29; a00 -> b0, a01 -> b0, a02 <-> b1; b0 -> c; EVIL -> SLASHED; alone;
    d0 -> d1 -> d2 -> d3.
    """
    spokes = [f"a{i:02}" for i in range(30)]
    ids = ["hub", *spokes, "b0", "b1", "c", EVIL, SLASHED, "alone"]
    ids += [f"d{i}" for i in range(4)]
    pairs = [("hub", name) for name in spokes]
    pairs += [("a00", "b0"), ("a01", "b0"), ("a02", "b1"), ("b1", "a02"), ("b0", "c")]
    pairs += [(EVIL, SLASHED), ("d0", "d1"), ("d1", "d2"), ("d2", "d3")]
    n, place = len(ids), {name: row for row, name in enumerate(ids)}
    rows = [place[source] for source, _ in pairs]
    columns = [place[target] for _, target in pairs]
    ones = np.ones(len(pairs))
    directed = sp.csr_array((ones, (rows, columns)), shape=(n, n))
    y = np.arange(n) % 2
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=n) + 2 * y, rng.normal(size=n)])
    y[[place[name] for name in UNLABELLED]] = -1
    return Graph(
        x=x,
        adj=((directed + directed.T) > 0).astype(float),
        directed=directed,
        y=y,
        classes=np.array(["honest", f"{EVIL} & co"]),
        node_ids=np.array(ids),
        feature_names=("age", "income"),
        name="town",
    )


@cache
def town_model() -> NodeClassifier:
    """Return a model of it; the same one each time, which nobody may change."""
    return NodeClassifier("h2gcn-1", epochs=40, random_state=0).fit(town())


def leave_town(folder: Path) -> Path:
    """Write the tables of the town and its model into a folder; return the model's."""
    write_tables(town(), folder)
    town_model().save(folder / "model")
    return folder / "model"
