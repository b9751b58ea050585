"""`h2gcn generate`: synthetic graphs of a chosen homophily."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from h2gcn.cli.console import download_bar, tell, tell_json
from h2gcn.cli.options import AsJson, TrustData, in_range

__all__ = ["command"]

OTHER_FILES = {
    *(".csv", ".tsv", ".parquet", ".graphml", ".pt", ".edgelist", ".txt"),
    *(".npy", ".json", ".xlsx", ".gz", ".zip"),
}
"""Names that end so are meant for files, of kinds that are not written."""


def command(
    out: Annotated[
        Path,
        typer.Option(
            help="An .npz file, or a folder for nodes.csv and edges.csv.",
            show_default=False,
        ),
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Replace a graph that is already there.")
    ] = False,
    preset: Annotated[
        str | None, typer.Option(help="The paper's: syn-cora or syn-products.")
    ] = None,
    homophily: Annotated[
        float, typer.Option(help="Chance that a link stays in its class, 0 to 1.")
    ] = 0.1,
    compatibility: Annotated[
        Path | None,
        typer.Option(
            help="A CSV file with a whole matrix of classes by classes, in place of "
            "--homophily."
        ),
    ] = None,
    n_nodes: Annotated[
        int | None,
        typer.Option(
            "--nodes",
            help="Number of nodes (default: 1490).",
            callback=in_range(high=1_000_000_000),
        ),
    ] = None,
    n_classes: Annotated[
        int | None, typer.Option("--classes", help="Number of classes (default: 5).")
    ] = None,
    edges_per_node: Annotated[
        int | None, typer.Option(help="Links that each new node makes (default: 2).")
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="A dataset whose rows become the features; default: class-conditional "
            "Gaussians."
        ),
    ] = None,
    trust_data: TrustData = False,
    n_features: Annotated[
        int,
        typer.Option(help="Columns of the Gaussians.", callback=in_range(high=65_536)),
    ] = 100,
    separation: Annotated[
        float, typer.Option(help="Length of the Gaussians' class means.")
    ] = 2.28,
    unlabelled: Annotated[
        float, typer.Option(help="Share of nodes whose label is left out.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same graph.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Grow a graph by the paper's rule: preferential attachment with a taste."""
    import numpy as np

    from h2gcn import __version__
    from h2gcn._validation import check_choice, check_real
    from h2gcn.datasets import (
        PRESETS,
        BenchmarkFeatures,
        FeatureSource,
        GaussianFeatures,
        generate_graph,
        load_dataset,
    )
    from h2gcn.homophily import graph_card
    from h2gcn.io import check_new, write_npz, write_tables

    check_out(out)
    for file in _files(out):
        check_new(file, force=force)
    shape: dict[str, Any] = {}
    if preset is not None:
        check_choice("preset", preset, PRESETS)
        shape |= dict(PRESETS[preset])
    given = {
        "n_nodes": n_nodes,
        "n_classes": n_classes,
        "edges_per_node": edges_per_node,
    }
    changed = {name: value for name, value in given.items() if value is not None}
    if changed:
        shape.pop("start_nodes", None)
    shape.update(changed)
    check_real("unlabelled", unlabelled, "[0, 1)")
    source: FeatureSource = GaussianFeatures(n_features, separation)
    if features is not None:
        with download_bar() as progress:
            lender = load_dataset(
                features, trust_data=trust_data or None, progress=progress
            )
        source = BenchmarkFeatures(lender)
    graph = generate_graph(
        **shape,
        homophily=homophily,
        compatibility=None if compatibility is None else read_matrix(compatibility),
        features=source,
        seed=seed,
        name=out.stem,
    )
    if unlabelled:
        from dataclasses import replace

        hidden = np.random.default_rng(seed).random(graph.n_nodes) < unlabelled
        graph = replace(graph, y=np.where(hidden, -1, graph.y), splits=())
    if len(_files(out)) == 1:
        write_npz(graph, out, force=force)
    else:
        write_tables(graph, out, force=force)
    if as_json:
        result = {"out": str(out), "seed": seed, "graph": graph_card(graph)}
        tell_json(result | {"version": __version__})
    else:
        tell(f"{graph!r} written to {out}")


def _files(out: Path) -> list[Path]:
    """Return the files that a graph becomes."""
    if out.suffix.lower() == ".npz":
        return [out]
    return [out / "nodes.csv", out / "edges.csv"]


def check_out(out: Path) -> None:
    """Refuse a name that is neither an .npz file's nor a folder's."""
    from h2gcn.exceptions import InputError
    from h2gcn.io import check_not_stdout

    rule = (
        "--out must be a folder, which gets nodes.csv and edges.csv, or a file that "
        "ends in .npz"
    )
    check_not_stdout(out, rule)
    # A folder may have a point in its name, as graph-h0.1 has.
    if out.suffix.lower() in OTHER_FILES and not out.is_dir():
        raise InputError(rule, value=out.suffix, where=str(out))


def read_matrix(path: Path) -> list[list[float]]:
    """Read a compatibility matrix: rows of numbers, separated by commas."""
    import csv

    from h2gcn.exceptions import InputError
    from h2gcn.io import existing_file

    try:
        with existing_file(path).open(encoding="utf-8-sig", newline="") as file:
            return [[float(cell) for cell in row] for row in csv.reader(file) if row]
    except InputError:
        raise
    except OSError as error:
        raise InputError(
            f"cannot be read ({error.strerror})", where=str(path)
        ) from None
    except (ValueError, csv.Error) as error:
        raise InputError(f"not a table of numbers ({error})", where=str(path)) from None
