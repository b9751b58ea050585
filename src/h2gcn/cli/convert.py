"""`h2gcn convert`: tables of any size as a graph store."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from h2gcn.cli import options as src
from h2gcn.cli.console import as_flags, say, stage_bar, tell, tell_json

__all__ = ["command"]

_CUTS = ("test_after", "val_after")
"""What of `Tables` is for a training, not for a graph that is whole."""
_with_tables = partial(
    src.with_tables,
    only=[field.name for field in fields(src.Tables) if field.name not in _CUTS],
)


@_with_tables
def command(
    out: Annotated[
        Path,
        typer.Option(
            help="The store: a folder that is not there yet.", show_default=False
        ),
    ],
    source: src.Source = None,
    memory_limit: Annotated[
        float | None,
        src.large("Gigabytes that may be used; else half of what is free."),
    ] = None,
    scratch: Annotated[
        Path | None,
        src.large("A folder for files that are needed meanwhile; else in the store."),
    ] = None,
    as_json: src.AsJson = False,
    quiet: src.Quiet = False,
    tables: src.Tables = src.Tables(),
) -> None:
    """Convert tables to a graph store, which every command takes as SOURCE.

    --nodes and --edges may each be a file, a folder of parts or a pattern such as
    'edges/*.parquet'; SOURCE may be a folder with the folders nodes and edges. They
    are read in bounded memory, whatever their size. A conversion that was
    interrupted goes on where it was when the same command is given again.
    """
    from h2gcn.exceptions import InputError
    from h2gcn.io import convert
    from h2gcn.sparse import format_bytes

    graph: Any = source
    if source is not None and src.is_benchmark(source):
        graph = src.load_source(source, tables, tables.options(), memory_limit)
    elif tables.trust_data:
        raise InputError(
            "--trust-data is for datasets: files of your own have no known checksums"
        )
    with stage_bar(str(out), show=not quiet) as progress:
        built = convert(
            graph,
            out,
            nodes=tables.nodes,
            edges=tables.edges,
            options=tables.options(),
            features=tables.features,
            memory_limit=memory_limit,
            scratch=scratch,
            progress=progress,
        )
    said = built.record.sentences()
    if as_json:
        tell_json(
            {
                "out": str(out),
                "nodes": built.nodes,
                "edges": built.edges,
                "features": built.features,
                "classes": built.classes,
                "labelled": built.labelled,
                "bytes": built.bytes,
                "seconds": round(built.seconds, 3),
                "resumed": list(built.resumed),
                "edges_read": built.record.edges_read,
                "duplicates_merged": built.record.duplicates_merged,
                "loops_dropped": built.record.loops_dropped,
                "symmetrised": built.record.symmetrised,
                "unknown_dropped": built.record.unknown_dropped,
                "notes": [as_flags(note) for note in built.record.notes],
            }
        )
        return
    if not quiet:
        if built.resumed:
            say(f"note: {out}: done before: {', '.join(built.resumed)}")
        if said:
            say(f"note: {out}: {as_flags('; '.join(said))}")
    tell(
        f"{out}: {built.nodes:,} nodes, {built.edges:,} edges, {built.features:,} "
        f"features, {built.labelled:,} labelled, {built.classes:,} classes; "
        f"{format_bytes(built.bytes)} in {built.seconds:.1f} s"
    )
