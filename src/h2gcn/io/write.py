"""Files that are there whole or not at all; graphs as tables."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from h2gcn.exceptions import InputError
from h2gcn.graph import Graph
from h2gcn.io.durable import check_not_stdout
from h2gcn.io.table_writer import TableWriter, needs_quotes

__all__ = ["atomic_write", "check_suffix", "write_tables"]


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a path beside `path` to write to; it takes the name at the end.

    Whoever reads `path` sees the old file or the whole new one. On an exception the
    new one is removed and the old one stays.

    Parameters
    ----------
    path
        The file to write; its folder must be there.
    """
    target = Path(path).expanduser()
    # The suffix stays last: some writers look at it.
    beside = target.with_name(
        f".{target.stem}.{secrets.token_hex(4)}.tmp{target.suffix}"
    )
    try:
        if target.is_dir():
            raise InputError(f"{target}: this is a folder; a file name is needed.")
        # Made here, and not by the writer, so that the message is ours.
        beside.open("xb").close()
    except OSError as error:
        why = error.strerror or error
        raise InputError(f"{target.parent}: cannot write here ({why}).") from None
    try:
        yield beside
        beside.replace(target)
    except OSError as error:
        beside.unlink(missing_ok=True)
        why = error.strerror or error
        raise InputError(f"{target}: cannot be written ({why}).") from None
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def check_suffix(path: str | Path, suffixes: Sequence[str]) -> str:
    """Return the suffix of a file to write if it is one of `suffixes`, else raise."""
    suffix = Path(path).suffix.lower()
    rule = f"the file name must end in {' or '.join(suffixes)}."
    check_not_stdout(path, rule)
    if suffix not in suffixes:
        found = repr(suffix) if suffix else "no ending"
        raise InputError(f"{path}: {rule} Got {found} instead.")
    return suffix


def write_tables(graph: Graph, folder: str | Path) -> None:
    """Write a graph as `nodes.csv` and `edges.csv` into a folder, made if need be.

    Parameters
    ----------
    graph
        Its nodes are written with the columns `id`, `label` (empty: unlabelled)
        and one a feature; its edges as `source` and `target`: with their
        directions where it has any, else each both ways.
    folder
        Its parent must be there.
    """
    target = Path(folder).expanduser()
    taken = {"id", "label"}
    for name in graph.feature_names:
        if name in taken:
            raise InputError(
                f"Graph {graph.name!r}: two columns of nodes.csv would be {name!r}; "
                "rename the feature."
            )
        taken.add(name)
    try:
        target.mkdir(exist_ok=True)
    except OSError as error:
        why = error.strerror or error
        raise InputError(f"{target}: cannot make this folder ({why}).") from None
    dense = graph.x if isinstance(graph.x, np.ndarray) else graph.x.toarray()
    label = np.full(graph.n_nodes, "", dtype=object)
    label[graph.labelled] = graph.classes[graph.y[graph.labelled]].astype(str)
    nodes = {"id": graph.node_ids, "label": label}
    nodes |= {name: dense[:, j] for j, name in enumerate(graph.feature_names)}
    pairs = graph.adj if graph.directed is None else graph.directed
    ends = sp.coo_array(pairs).coords
    edges = {
        name: graph.node_ids[end]
        for name, end in zip(("source", "target"), ends, strict=True)
    }
    for name, columns in (("nodes.csv", nodes), ("edges.csv", edges)):
        quoted = any(needs_quotes(column) for column in columns.values())
        with (
            atomic_write(target / name) as beside,
            TableWriter(beside, quoted=quoted) as table,
        ):
            table.write(columns)
