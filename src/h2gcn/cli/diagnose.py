"""`h2gcn diagnose`: what kind of graph this is, before anything is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from h2gcn.cli import options as src

__all__ = ["command"]


def command(
    source: src.Source = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write a page to this .html file, or replace it."
        ),
    ] = None,
    no_fit: Annotated[
        bool,
        typer.Option("--no-fit", help="Measure only: no quick fit of cheap models."),
    ] = False,
    nodes: src.Nodes = None,
    edges: src.Edges = None,
    id_column: src.IdColumn = None,
    label_column: src.LabelColumn = None,
    features: src.Features = None,
    trust_data: src.TrustData = False,
    feature: src.Feature = None,
    categorical: src.Categorical = None,
    source_column: src.SourceColumn = None,
    target_column: src.TargetColumn = None,
    drop_unknown: src.DropUnknown = False,
    undirected: src.Undirected = False,
    fill_missing: src.FillMissing = False,
    edge_feature: src.EdgeFeature = None,
    edge_categorical: src.EdgeCategorical = None,
) -> None:
    """Say what kind of graph SOURCE is, and what to do with it.

    Measures how alike neighbours are and what their labels tell, by class,
    degree, distance and direction; fits cheap models for some seconds, on
    nodes held out from those; and looks for what could mislead: twins
    across a split, classes too small, isolated nodes. Without labels only
    the structure can be told.
    """
    from h2gcn.cli.console import fitting_status, say, tell_json
    from h2gcn.cli.diagnosis_text import in_options
    from h2gcn.diagnosis import diagnose
    from h2gcn.io import atomic_write, check_suffix

    if html is not None:
        check_suffix(html, (".html", ".htm"))
    options = src.table_options(
        id_column,
        label_column,
        feature,
        categorical,
        source_column,
        target_column,
        drop_unknown,
        undirected,
        fill_missing,
        edge_feature,
        edge_categorical,
    )
    graph = src.load_source(source, nodes, edges, options, features, trust_data)
    quick = None
    if not no_fit and graph.labelled.size:
        from h2gcn.estimator import quick_fit

        with fitting_status() as tell:
            quick = quick_fit(graph, on_member=tell)
    diagnosis = in_options(diagnose(graph, quick=quick))
    if html is not None:
        from h2gcn.diagnosis import render_html

        page = render_html(diagnosis)
        with atomic_write(html) as beside:
            beside.write_text(page, encoding="utf-8")
        say(f"wrote {html}")
    if as_json:
        tell_json(diagnosis.to_json())
    else:
        from h2gcn.cli.diagnosis_text import show

        show(diagnosis)
