"""`h2gcn tune`: find good settings on validation nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from h2gcn.cli import options as src
from h2gcn.cli.options import (
    BatchSize,
    Device,
    MemoryLimit,
    Model,
    RingCap,
    RingStore,
    Seed,
    check_given,
    find_settings,
    machine,
    merge,
)
from h2gcn.exceptions import H2GCNWarning, InputError

__all__ = ["command"]

N_TRIALS, N_SPLITS = 50, 3
_SETTINGS = "Settings (of every run, instead of the grid's)"


def _setting(help_text: str) -> Any:
    return typer.Option(help=help_text, rich_help_panel=_SETTINGS, show_default=False)


def command(
    source: src.Source = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder for everything (default: tuned-<name>-<model>).",
            show_default=False,
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace the best of another search in there."),
    ] = False,
    model: Model = None,
    n_splits: Annotated[
        int | None,
        typer.Option(
            "--splits",
            help=f"On the first so many splits (default: {N_SPLITS}, or all if the "
            "data bring fewer).",
            min=1,
            show_default=False,
        ),
    ] = None,
    search: Annotated[
        str, typer.Option(help="grid: the paper's. optuna: that first, then beyond.")
    ] = "grid",
    trials: Annotated[
        int | None,
        typer.Option(
            help=f"Of --search optuna: settings to try, in all (default: {N_TRIALS}).",
            min=1,
            show_default=False,
        ),
    ] = None,
    seed: Seed = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No notes, no progress bar.")
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
    epochs: Annotated[int | None, _setting("At most so many epochs.")] = None,
    patience: Annotated[
        int | None, _setting("Epochs that the stopping rule waits.")
    ] = None,
    scaling: Annotated[
        str | None,
        _setting(
            "Features: auto, rows, standard or none. Of one's own data all that "
            "make sense are tried."
        ),
    ] = None,
    metric: Annotated[
        str | None, _setting("The validation score: accuracy, macro_f1 or roc_auc.")
    ] = None,
    class_weight: Annotated[
        str | None,
        _setting(
            "balanced: rare classes weigh as much as others in training, and are said "
            "more often; probabilities stay those of the data."
        ),
    ] = None,
    batch_size: BatchSize = None,
    ring_cap: RingCap = None,
    ring_store: RingStore = None,
    memory_limit: MemoryLimit = None,
    device: Device = None,
) -> str | None:
    """Find good settings of a model for SOURCE, by their scores on validation nodes.

    Test nodes are not looked at. Every run is kept as it ends, and so is the best
    setting with its model; the same command goes on where an earlier one was stopped,
    by Ctrl-C, SIGTERM or otherwise. Data that bring no split are split
    60/20/20, each class alike, as many times as --splits says.
    """
    import warnings

    from h2gcn.cli.console import KEPT, say_what_was_read, tell_json
    from h2gcn.cli.train import find_splits
    from h2gcn.cli.tuned import (
        Folder,
        Tuning,
        machine_arguments,
        result_of,
        show,
        source_arguments,
    )
    from h2gcn.estimator import AUTO, check_labels, other_scalings
    from h2gcn.experiments import classifier_of, distinct, find_grid, without_test
    from h2gcn.graph import MAX_SPLITS

    if model == AUTO:
        raise InputError(
            "--model auto has nothing to tune: it is a fixed dozen of models, and "
            "'h2gcn train' takes it as it is. Name one of 'h2gcn models'."
        )
    if n_splits is not None and n_splits > MAX_SPLITS:
        raise InputError(f"--splits {n_splits:,}: at most {MAX_SPLITS:,}.")
    model, _ = find_settings(None, model)
    n_trials = _check_search(search, trials)
    given = {
        "epochs": epochs,
        "patience": patience,
        "scaling": scaling,
        "metric": metric,
        "class_weight": class_weight,
        "batch_size": batch_size,
        "ring_cap": ring_cap,
    }
    here = machine(ring_store, memory_limit)
    check_given(model, given)
    if out is not None:
        Folder(out).check()
    if quiet:
        warnings.simplefilter("ignore", H2GCNWarning)
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
    graph = src.load_source(
        source, nodes, edges, options, features, trust_data, memory_limit
    )
    folder = Folder(out or Path(f"tuned-{graph.name}-{model}".replace("/", "-")))
    folder.check()
    if not force:
        folder.check_search(model, seed, graph)
    numbers = range(_count_splits(n_splits, len(graph.splits)))
    # By the name that was asked for: one's own file may be called texas.npz.
    scalings = other_scalings(graph.x) if scaling is None else ()
    found = find_grid(source or "", model, scalings)
    grid = distinct(merge(setting, given, {}) for setting in found)
    for setting in grid:
        classifier = classifier_of(model, setting, device=device or "auto", **here)
        classifier.check_params(graph.n_classes)
    check_labels(graph)
    if metric == "roc_auc" and graph.n_classes != 2:
        # Otherwise every single run would fail, and be kept.
        raise InputError(
            f"--metric roc_auc: for two classes. {graph.name} has {graph.n_classes}."
        )
    splits = [without_test(split) for split in find_splits(graph, numbers, seed)]
    if not quiet:
        say_what_was_read(graph, splits)
    work = Tuning(graph, model, splits, seed, device or "auto", folder, quiet, here)
    work.rank(grid, n_trials)
    result = result_of(work, search, saved=work.save())
    if as_json:
        tell_json(result)
    else:
        paths = {"--nodes": nodes, "--edges": edges, "--features": features}
        again = source_arguments(source, paths, options)
        show(result, graph, " ".join([again, *machine_arguments(here)]))
    return KEPT if work.interrupted else None


def _count_splits(asked: int | None, own: int) -> int:
    """Return how many splits to use of the data's own, or to draw if they have none."""
    if asked is None:
        return min(N_SPLITS, own or N_SPLITS)
    if 0 < own < asked:
        raise InputError(f"--splits {asked}: the data have {own}.")
    return asked


def _check_search(search: str, trials: int | None) -> int | None:
    """Return how many settings to try, None for those of the grid."""
    from h2gcn.experiments import check_optuna

    if search not in ("grid", "optuna"):
        raise InputError(f"--search must be grid or optuna. Got {search!r}.")
    if search == "optuna":
        check_optuna()
        return trials or N_TRIALS
    if trials is not None:
        raise InputError("--trials is for --search optuna; the grid is tried whole.")
    return None
