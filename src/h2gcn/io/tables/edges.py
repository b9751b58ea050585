"""An edge table as an adjacency matrix, each end looked up in the node table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from h2gcn.exceptions import InputError
from h2gcn.graph import CSR, ReadRecord
from h2gcn.io.adjacency import adjacency_from_edges
from h2gcn.io.files import listed
from h2gcn.io.tables.columns import as_text, choose_ends
from h2gcn.io.tables.files import TableFile
from h2gcn.io.tables.options import TableOptions

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read_edges"]


def read_edges(
    file: TableFile, node_file: TableFile, ids: pa.ChunkedArray, options: TableOptions
) -> tuple[CSR, CSR | None, ReadRecord]:
    """Return the edges of a table between the nodes with the given ids.

    Parameters
    ----------
    file, node_file
        The edge table, and the node table for messages.
    ids
        The nodes' ids as text, [n], in the order of the nodes.
    options
        Names of the columns, and what is done about unknown nodes.

    Returns
    -------
    adj, one_way, record
        As of `adjacency_from_edges`.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    source, target, guessed = choose_ends(file, options)
    if guessed:
        _check_header(file, ids, (source, target))
    table = file.read((source, target), (source, target))
    if table.num_rows == 0:
        raise InputError(f"{file.path}: the table has no edges.")
    value_set = pa.chunked_array(ids).combine_chunks()
    ends, known = [], np.ones(table.num_rows, dtype=bool)
    for name in (source, target):
        column = as_text(file, name, table[name])
        found = pc.fill_null(pc.index_in(column, value_set=value_set), -1).to_numpy()
        unknown = found < 0
        if unknown.any():
            row = int(np.argmax(unknown))
            _check_unknown(file, node_file, name, column, row, options)
            known &= ~unknown
        ends.append(found)
    n_unknown = int(np.count_nonzero(~known))
    if n_unknown == table.num_rows:
        raise InputError(
            f"{file.path}: no edge joins two nodes of {node_file.path}; the ids of "
            "the two tables do not match."
        )
    rest = [name for name in file.named if name not in (source, target)]
    notes: list[str] = []
    if guessed:
        n_ends = min(len(np.unique(end)) for end in ends)
        _check_guess(file, value_set, (source, target), rest, n_ends)
        notes.append(
            f"the first two columns of {file.path.name}, {source!r} and {target!r}, "
            "are taken as the ends of the edges"
        )
    if rest:
        of = f"{listed(rest)} of {file.path.name}"
        one = len(rest) == 1
        notes.append(
            f"column {of} is not used" if one else f"columns {of} are not used"
        )
    adj, one_way, record = adjacency_from_edges(
        ends[0][known],
        ends[1][known],
        len(value_set),
        directed=False if options.undirected else None,
    )
    record = replace(
        record,
        edges_read=table.num_rows,
        unknown_dropped=n_unknown,
        notes=tuple(notes),
    )
    return adj, one_way, record


def _check_unknown(
    file: TableFile,
    node_file: TableFile,
    name: str,
    column: pa.ChunkedArray,
    row: int,
    options: TableOptions,
) -> None:
    """Raise for an end that is no node, unless such edges are to be dropped."""
    import pyarrow.compute as pc

    empty = pc.fill_null(pc.equal(column, ""), True).to_numpy()
    if empty.any():
        where = file.place(int(np.argmax(empty)))
        raise InputError(f"{file.path}: column {name!r} is empty at {where}.")
    if not options.drop_unknown:
        raise InputError(
            f"{file.path}: {file.place(row)} names node {column[row].as_py()!r} "
            f"(column {name!r}), which is not in {node_file.path}; --drop-unknown "
            "leaves such edges out."
        )


def _check_guess(
    file: TableFile, ids: pa.Array, ends: tuple[str, str], rest: list[str], n_ends: int
) -> None:
    """Raise where further columns may be ends: ids of nodes, of about as many.

    Where ids are numbers, so may weights be; but those take few values, and not half
    as many as the ends, `n_ends`.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not rest:
        return
    table = file.read(rest, rest)

    def may_be_end(name: str) -> bool:
        column, kinds = table[name], (pa.types.is_integer, pa.types.is_large_string)
        if not any(is_kind(column.type) for is_kind in (*kinds, pa.types.is_string)):
            return False
        if 2 * pc.count_distinct(column).as_py() <= n_ends:
            return False
        found = pc.is_in(as_text(file, name, column), value_set=ids)
        return bool(pc.all(found).as_py())

    alike = [name for name in rest if may_be_end(name)]
    if alike:
        raise InputError(
            f"{file.path}: columns {listed((*ends, *alike))} all hold ids of nodes; "
            "--source-column and --target-column say which are the ends of the edges."
        )


def _check_header(
    file: TableFile, ids: pa.ChunkedArray, names: tuple[str, str]
) -> None:
    """Raise where the header of an edge table is an edge itself."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pc.all(pc.is_in(pa.array(names, pa.large_string()), value_set=ids)).as_py():
        raise InputError(
            f"{file.path}: the first line names two nodes, {names[0]!r} and "
            f"{names[1]!r}, so a header such as source,target is missing."
        )
