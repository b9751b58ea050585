"""Plain edge lists: two ids a line, and no features."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import Graph, structural_features
from h2gcn.io.files import existing_file
from h2gcn.io.graph_parts import (
    adjacency_from_edges,
    doubtful_labels,
    order_classes,
)
from h2gcn.io.mistakes import excerpt, not_utf8, one_line
from h2gcn.io.tables import END_NAMES, ID_NAMES, text_array, text_codes
from h2gcn.sparse import check_memory, format_bytes

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read_edge_list"]

# What is not part of an edge: a pattern, its replacement, and bytes of which one is
# there wherever it matches. A search for these is a hundred times faster. Each looks
# at a byte a few times at most, so that no line, however odd, takes long.
_TIDY = (
    (re.compile(rb"(?m)^[ \t]*+[#%].*$"), b"", (b"#", b"%")),
    (re.compile(rb"(?m)^([^{\n]*+)\{.*\}[ \t]*$"), rb"\1", (b"{",)),
    (
        re.compile(rb"(?m)^[ \t]++|(?<![ \t])[ \t]++$"),
        b"",
        (b"\n ", b"\n\t", b" \n", b"\t\n"),
    ),
)
MANY_BYTES = 2**28
"""From where on reading takes longer than one waits without a word."""
COPIES = 4
"""How often a list is in memory, about, while edges are made of its text."""
_BLANKS = (re.compile(rb"[ \t]+"), b" ", (b"  ", b"\t"))


def read_edge_list(
    path: str | Path,
    labels: str | Path | None = None,
    *,
    undirected: bool = False,
) -> Graph:
    """Read a graph from a text file with the two ends of an edge on each line.

    Parameters
    ----------
    path
        Ids separated by blanks, tabs or commas; blanks around them are no part of
        them. What follows them on a line is not used, nor are lines that begin with
        `#` or `%`. The nodes are those that are named, in that order.
    labels
        A file of the same form with the id and the label of a node on each line.
        Nodes that no edge names are added; they are isolated.
    undirected
        Whether the edges have no direction.

    Returns
    -------
    Graph
        Its features, [n, 3], are made of the degrees; the record says so.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    file = existing_file(path)
    source, target = _read_pairs(file, "source", "target")
    if len(source) == 0:
        raise InputError("the list has no edges.", where=str(file))
    named = [source, target]
    if labels is not None:
        label_file = existing_file(labels)
        owner, label = _read_pairs(label_file, "id", "label")
        named.append(owner)
    # The ends of an edge side by side, so that the order is that of the lines.
    order = np.arange(2 * len(source)).reshape(2, -1).T.reshape(-1)
    both = pa.chunked_array(source.chunks + target.chunks, source.type).take(order)
    ids = pc.unique(pa.chunked_array([*both.chunks, *_chunks(named[2:])], both.type))
    adj, one_way, record = adjacency_from_edges(
        pc.index_in(source, value_set=ids).to_numpy(),
        pc.index_in(target, value_set=ids).to_numpy(),
        len(ids),
        directed=False if undirected else None,
    )
    x, names, note = structural_features(adj)
    y = np.full(len(ids), -1)
    classes = None
    if labels is not None:
        codes, values = text_codes(label)
        at = pc.index_in(owner, value_set=ids).to_numpy()
        if len(np.unique(at)) < len(at):
            raise InputError(f"{label_file}: a node is there twice.")
        if values:
            classes, rank = order_classes(values)
            y[at] = np.where(codes >= 0, rank[codes], -1)
    return Graph(
        x=x,
        adj=adj,
        directed=one_way,
        y=y,
        classes=classes,  # type: ignore[arg-type]
        node_ids=text_array(pa.chunked_array([ids])),
        feature_names=names,
        name=file.stem,
        record=replace(record, notes=(note, *doubtful_labels(classes, y))),
    )


def _chunks(columns: list[pa.ChunkedArray]) -> list[pa.Array]:
    return [chunk for column in columns for chunk in column.chunks]


def _read_pairs(
    file: Path, first: str, second: str
) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Return the first two columns of a list as text, [m] each."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as pacsv

    size = file.stat().st_size
    check_memory(f"{file}: this list", COPIES * size)
    if size > MANY_BYTES:
        warnings.warn(
            f"{file}: {format_bytes(size)} are being read, which takes a while",
            H2GCNWarning,
            stacklevel=3,
        )
    # Lines are emptied, not removed, so that their numbers stay.
    text = file.read_bytes().removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
    text = _tidy(b"\n" + text + b"\n", *_TIDY)[1:]
    opening = text.lstrip(b"\n").split(b"\n", 1)[0]
    delimiter = next((mark for mark in (b",", b"\t") if mark in opening), b" ")
    if delimiter == b" ":
        text, opening = _tidy(text, _BLANKS), _tidy(opening, _BLANKS)
    width = opening.count(delimiter) + 1
    if not opening:
        empty = pa.chunked_array([[]], pa.large_string())
        return empty, empty
    if width < 2:
        raise InputError(
            f"{file}: each line must hold {first} and {second}, got "
            f"{excerpt(opening.decode(errors='replace'))}"
        )
    try:
        table = pacsv.read_csv(
            pa.BufferReader(text),
            read_options=pacsv.ReadOptions(autogenerate_column_names=True),
            parse_options=pacsv.ParseOptions(delimiter=delimiter.decode()),
            convert_options=pacsv.ConvertOptions(
                include_columns=["f0", "f1"],
                column_types={"f0": pa.large_string(), "f1": pa.large_string()},
            ),
        )
    except pa.ArrowException as error:
        raise _explain(file, text, delimiter, width, error) from None
    columns = [pc.utf8_trim_whitespace(table[name]) for name in ("f0", "f1")]
    head = tuple(column[0].as_py().lower() for column in columns)
    if head in END_NAMES or (head[0] in ID_NAMES and second == "label"):
        columns = [column.slice(1) for column in columns]
    ends = [(columns[0], first)] + [(columns[1], second)] * (second != "label")
    for column, what in ends:
        if pc.any(pc.equal(column, "")).as_py():
            raise InputError(f"a line has no {what}.", where=str(file))
    return columns[0], columns[1]


def _tidy(
    text: bytes, *steps: tuple[re.Pattern[bytes], bytes, tuple[bytes, ...]]
) -> bytes:
    for pattern, replacement, signs in steps:
        if any(sign in text for sign in signs):
            text = pattern.sub(replacement, text)
    return text


def _explain(
    file: Path, text: bytes, delimiter: bytes, width: int, error: Exception
) -> InputError:
    broken = not_utf8(file)
    if broken is not None:
        return broken
    for number, line in enumerate(text.split(b"\n"), start=1):
        found = line.count(delimiter) + 1
        if line and found != width:
            return InputError(
                f"line {number} has {found} columns, those before have {width}.",
                where=str(file),
            )
    return InputError(f"the list cannot be read ({one_line(error)}).", where=str(file))
