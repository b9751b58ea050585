"""`h2gcn predict`: label nodes with a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from h2gcn.cli import source as src

__all__ = ["command"]


def command(
    model_dir: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder that 'h2gcn train' saved.")
    ],
    source: src.Source = None,
    out: Annotated[
        Path, typer.Option(help="The file to write, .csv or .parquet.")
    ] = Path("predictions.csv"),
    every_node: Annotated[
        bool, typer.Option("--all", help="Every node, not only the unlabelled ones.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes.")] = False,
    nodes: src.Nodes = None,
    edges: src.Edges = None,
    drop_unknown: src.DropUnknown = False,
) -> None:
    """Predict the unlabelled nodes of SOURCE with the model in DIR.

    SOURCE may be the graph that the model was trained on, or another one with the
    same columns; tables are read as they were for training. The file has a row for
    each node: its id, the label, a probability for each class.
    """
    import warnings
    from dataclasses import replace

    import numpy as np

    from h2gcn.bundle import load_bundle, read_manifest
    from h2gcn.cli.output import percent, say_what_was_read
    from h2gcn.evaluation import evaluate
    from h2gcn.exceptions import H2GCNWarning, InputError
    from h2gcn.io import TableOptions, write_predictions
    from h2gcn.io.write import check_suffix

    if quiet:
        warnings.simplefilter("ignore", H2GCNWarning)
    check_suffix(out, (".csv", ".parquet"))
    manifest = read_manifest(model_dir)
    classifier = load_bundle(model_dir)
    options = TableOptions.from_json(manifest["extra"].get("tables", {}))
    options = replace(
        options,
        drop_unknown=options.drop_unknown or drop_unknown,
        label_required=False,
    )
    graph = src.load_source(source, nodes, edges, options)
    wanted = np.arange(graph.n_nodes) if every_node else np.flatnonzero(graph.y < 0)
    if wanted.size == 0:
        raise InputError(
            f"{graph.name}: every node has a label; --all predicts them all the same"
        )
    if graph.labelled.size:
        scores = evaluate(classifier, graph, graph.labelled)
        known = (
            f"; {percent(scores.accuracy)} % of {scores.nodes:,} known labels agree "
            "(any training nodes included)"
        )
    else:
        known = ""
    probabilities = classifier.predict_proba(graph, wanted)
    labels = classifier.classes_of(probabilities)
    if not quiet:
        say_what_was_read(graph)
    write_predictions(
        out, graph.node_ids[wanted], labels, probabilities, classifier.classes_
    )
    print(f"{wanted.size:,} nodes written to {out}{known}")
