"""Predictions as a table, all at once or block by block."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from h2gcn.exceptions import InputError
from h2gcn.io.table_writer import Columns, TableWriter, needs_quotes
from h2gcn.io.write import atomic_write, check_suffix

__all__ = ["write_prediction_blocks", "write_predictions"]

SUFFIXES = (".csv", ".parquet")


def write_predictions(
    path: str | Path,
    node_ids: ArrayLike,
    labels: ArrayLike,
    probabilities: ArrayLike,
    classes: ArrayLike,
    *,
    id_column: str | None = None,
) -> None:
    """Write predictions as a table: the id, `label` and `p_<class>` for each class.

    Parameters
    ----------
    path
        A file name that ends in `.csv` or `.parquet`.
    node_ids, labels
        Id and predicted label of each node, [n] each.
    probabilities
        Probability of each class, [n, C].
    classes
        The classes in the order of the columns of `probabilities`, [C].
    id_column
        What the column of the ids is called, such as `graph.record.id_column`; `node`
        if None, or if another column has the name.
    """
    check_suffix(path, SUFFIXES)
    ids, given, share = (np.asarray(a) for a in (node_ids, labels, probabilities))
    columns = _columns(ids, given, share, np.asarray(classes), id_column)
    quoted = needs_quotes(ids) or needs_quotes(given)
    with atomic_write(path) as beside, TableWriter(beside, quoted=quoted) as table:
        table.write(columns)


def write_prediction_blocks(
    path: str | Path,
    node_ids: NDArray[Any],
    classes: NDArray[Any],
    blocks: Iterable[tuple[NDArray[np.int64], NDArray[np.float32]]],
    *,
    id_column: str | None = None,
) -> None:
    """Write the same table from blocks, of which there is never more than one.

    Parameters
    ----------
    path
        A file name that ends in `.csv` or `.parquet`.
    node_ids
        Id of each node of the graph, [n].
    classes
        The classes in the order of the columns of probabilities, [C].
    blocks
        Nodes, [m], and their probabilities, [m, C]; the label is the likeliest class.
    id_column
        As of `write_predictions`.
    """
    check_suffix(path, SUFFIXES)
    quoted = needs_quotes(node_ids) or needs_quotes(classes)
    with atomic_write(path) as beside, TableWriter(beside, quoted=quoted) as table:
        for nodes, share in blocks:
            labels = classes[share.argmax(axis=1)]
            rows = _columns(node_ids[nodes], labels, share, classes, id_column)
            table.write(rows)


def _columns(
    node_ids: NDArray[Any],
    labels: NDArray[Any],
    share: NDArray[Any],
    classes: NDArray[Any],
    id_column: str | None,
) -> Columns:
    names = [str(name) for name in classes.tolist()]
    if share.shape != (len(node_ids), len(names)) or len(labels) != len(node_ids):
        raise InputError(
            f"Predictions must be [n, C] for {len(node_ids)} nodes and {len(names)} "
            f"classes. Got shape {share.shape} instead."
        )
    shares = {f"p_{name}": share[:, c] for c, name in enumerate(names)}
    if not id_column or id_column == "label" or id_column in shares:
        id_column = "node"
    return {id_column: node_ids, "label": labels, **shares}
