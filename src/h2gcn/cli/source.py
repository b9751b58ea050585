"""The options that say which graph, shared by all commands that read one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from h2gcn.exceptions import InputError

if TYPE_CHECKING:
    from h2gcn.graph import Graph
    from h2gcn.io import TableOptions

__all__ = [
    "Categorical",
    "DropUnknown",
    "Edges",
    "Feature",
    "Features",
    "FillMissing",
    "IdColumn",
    "LabelColumn",
    "Nodes",
    "Source",
    "SourceColumn",
    "TargetColumn",
    "Undirected",
    "check_not_read",
    "load_source",
    "table_options",
]

_TABLES = "Tables"
Source = Annotated[
    str | None,
    typer.Argument(
        metavar="SOURCE",
        help="A dataset's name; an .npz, .graphml, .pt or .edgelist file; or a folder "
        "with nodes.* and edges.* (csv, tsv, parquet).",
        show_default=False,
    ),
]
Nodes = Annotated[
    Path | None, typer.Option(help="The node table.", rich_help_panel=_TABLES)
]
Edges = Annotated[
    Path | None, typer.Option(help="The edge table.", rich_help_panel=_TABLES)
]
IdColumn = Annotated[
    str | None,
    typer.Option(
        "--id-column",
        metavar="COLUMN",
        help="Column of the node ids (default: id, node or node_id).",
        rich_help_panel=_TABLES,
    ),
]
LabelColumn = Annotated[
    str | None,
    typer.Option(
        "--label-column",
        metavar="COLUMN",
        help="Column of the labels (default: label, class or y).",
        rich_help_panel=_TABLES,
    ),
]
Features = Annotated[
    Path | None,
    typer.Option(
        help="A .npy file of numbers, a row for each row of the node table, in place "
        "of its feature columns; float32 is not read into memory.",
        rich_help_panel=_TABLES,
    ),
]
Feature = Annotated[
    list[str] | None,
    typer.Option(
        "--feature-column",
        metavar="COLUMN",
        help="Feature columns: a,b or repeated (default: all numbers).",
        rich_help_panel=_TABLES,
    ),
]
Categorical = Annotated[
    list[str] | None,
    typer.Option(
        "--categorical",
        metavar="COLUMN",
        help="Columns to one-hot encode: a,b or repeated.",
        rich_help_panel=_TABLES,
    ),
]
SourceColumn = Annotated[
    str | None,
    typer.Option(
        "--source-column",
        metavar="COLUMN",
        help="Column where edges start (default: source, src, from, u).",
        rich_help_panel=_TABLES,
    ),
]
TargetColumn = Annotated[
    str | None,
    typer.Option(
        "--target-column",
        metavar="COLUMN",
        help="Column where edges end (default: target, dst, to, v).",
        rich_help_panel=_TABLES,
    ),
]
DropUnknown = Annotated[
    bool,
    typer.Option(
        "--drop-unknown",
        help="Drop edges to nodes that are not in the node table.",
        rich_help_panel=_TABLES,
    ),
]
FillMissing = Annotated[
    bool,
    typer.Option(
        "--fill-missing",
        help="Where a number is missing, take the median of its column.",
        rich_help_panel=_TABLES,
    ),
]
Undirected = Annotated[
    bool,
    typer.Option(
        "--undirected",
        help="The edges have no direction.",
        rich_help_panel=_TABLES,
    ),
]


def table_options(
    id_column: str | None,
    label_column: str | None,
    feature: list[str] | None,
    categorical: list[str] | None,
    source_column: str | None,
    target_column: str | None,
    drop_unknown: bool,
    undirected: bool,
    fill_missing: bool,
) -> TableOptions:
    """Return how the tables are to be read."""
    from h2gcn.io import TableOptions

    return TableOptions(
        id_column=id_column,
        label_column=label_column,
        feature_columns=tuple(feature) if feature else None,
        categorical=tuple(categorical or ()),
        source_column=source_column,
        target_column=target_column,
        drop_unknown=drop_unknown,
        undirected=undirected,
        fill_missing=fill_missing,
    )


def check_not_read(
    out: Path,
    source: str | None,
    nodes: Path | None,
    edges: Path | None,
    features: Path | None,
) -> None:
    """Refuse to write a file in the place of one that the same command reads."""
    given = [None if source is None else Path(source), nodes, edges, features]
    read = [path.expanduser() for path in given if path is not None]
    read += [path / out.name for path in read if out.stem in ("nodes", "edges")]
    target = out.expanduser()
    if target.is_file() and any(p.is_file() and p.samefile(target) for p in read):
        raise InputError(f"{out}: this command reads it; --out must be another file")


def load_source(
    source: str | None,
    nodes: Path | None,
    edges: Path | None,
    options: TableOptions,
    features: Path | None = None,
) -> Graph:
    """Read the graph: a benchmark by name, else a file, a folder or two tables."""
    from h2gcn._validation import nearest
    from h2gcn.datasets import DATASETS, is_dataset, load_dataset
    from h2gcn.io import read_graph

    if source is not None and nodes is None and edges is None:
        # A folder that is called as a dataset is meant by ./texas.
        if is_dataset(source) or source.startswith("syn-cora"):
            if features is not None:
                raise InputError(
                    f"{source} is a dataset with features of its own; --features is "
                    "for tables"
                )
            return load_dataset(source)
        if not Path(source).expanduser().exists() and not Path(source).suffix:
            raise InputError(
                f"{source!r} is neither a dataset nor a file or folder."
                f"{nearest(source, DATASETS)} 'h2gcn datasets' lists the datasets."
            )
    return read_graph(
        source, nodes=nodes, edges=edges, options=options, features=features
    )
