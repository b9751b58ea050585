"""Features of a node table that are in a file of their own, numpy's `.npy`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from h2gcn.exceptions import InputError
from h2gcn.io.files import existing_file, one_line
from h2gcn.io.tables.files import TableFile

__all__ = ["map_features"]


def map_features(
    path: str | Path, nodes: TableFile, n_nodes: int
) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Return features mapped from a file, [n, F], and notes for the record.

    Parameters
    ----------
    path
        The file. float32 is read where it is needed only; other numbers are copied
        by the graph that is made of them.
    nodes
        The node table, whose rows the file has in the same order.
    n_nodes
        How many these are.
    """
    file = existing_file(path)
    try:
        x: NDArray[Any] = np.lib.format.open_memmap(file, mode="r")
    except (ValueError, OSError) as error:
        raise InputError(
            f"{file}: cannot be read as an array of numpy, .npy ({one_line(error)})."
        ) from None
    if x.dtype.kind not in "fiub":
        raise InputError(f"{file}: must hold numbers. Got dtype {x.dtype} instead.")
    if x.ndim != 2 or x.shape[1] == 0:
        raise InputError(
            f"{file}: must be a matrix with a column for each feature. "
            f"Got shape {x.shape} instead."
        )
    if len(x) != n_nodes:
        raise InputError(
            f"{file}: must have a row for each of the {n_nodes:,} nodes of "
            f"{nodes.path.name}. Got {len(x):,} rows instead."
        )
    if x.dtype == np.float32:
        return x, ()
    note = f"{file.name} holds {x.dtype} and was read into memory; float32 stays a file"
    return x, (note,)
