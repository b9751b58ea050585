"""`h2gcn train`: fit a model, score it, save it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from h2gcn.cli import options as src
from h2gcn.cli.options import (
    DEFAULT_MODEL,
    BatchSize,
    Device,
    MemoryLimit,
    RingCap,
    RingStore,
    Seed,
    check_given,
    find_settings,
    in_range,
    machine,
    merge,
    parse_options,
)
from h2gcn.exceptions import H2GCNWarning, InputError

__all__ = ["command"]

_SETTINGS = "Settings of one model (default: the dataset's preset)"
N_RANDOM_SPLITS = 10
"""How many splits `--split all` draws for data that bring none."""


def _setting(help_text: str) -> Any:
    return typer.Option(help=help_text, rich_help_panel=_SETTINGS, show_default=False)


def command(
    source: src.Source = None,
    out: Annotated[
        Path | None, typer.Option(help="Save the model to this folder.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a model that is there already.")
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(
            help="A name of 'h2gcn models', or auto: a dozen of them, the best answer "
            "together (default: auto; of a benchmark, the paper's h2gcn-1).",
            show_default=False,
        ),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            help="Seconds that auto may take (default: by the size of the graph).",
            show_default=False,
        ),
    ] = None,
    refit: Annotated[
        bool,
        typer.Option(
            "--refit", help="auto: fit those that answer again, on all labels."
        ),
    ] = False,
    page: Annotated[
        Path | None,
        typer.Option(help="auto: write the leaderboard as a page (.html)."),
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option(help="Settings as 'h2gcn tune' writes them, instead of a preset."),
    ] = None,
    split: Annotated[
        str, typer.Option(help="Number of one of the data's splits, or 'all'.")
    ] = "0",
    seed: Seed = 0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Keep the state of the training here, to go on from."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoint.")
    ] = False,
    checkpoint_minutes: Annotated[
        float | None,
        typer.Option(
            help="How often to keep it (default: 2).",
            callback=in_range(0),
            show_default=False,
        ),
    ] = None,
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
    stopping: Annotated[
        str | None,
        _setting("Chooses the epoch: score, loss, loss-mean or loss-or-score."),
    ] = None,
    optimizer: Annotated[str | None, _setting("adam or sgd.")] = None,
    learning_rate: Annotated[
        float | None, _setting("The optimiser's learning rate.")
    ] = None,
    l2: Annotated[float | None, _setting("Weight of the L2 penalty.")] = None,
    dropout: Annotated[float | None, _setting("Dropped share.")] = None,
    activation: Annotated[str | None, _setting("relu, elu or none.")] = None,
    hidden_channels: Annotated[int | None, _setting("Width of the embedding.")] = None,
    scaling: Annotated[
        str | None, _setting("Features: auto, rows, standard or none.")
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
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="An option of the model's own; repeat for more.",
            rich_help_panel=_SETTINGS,
            show_default=False,
        ),
    ] = None,
    batch_size: BatchSize = None,
    ring_cap: RingCap = None,
    ring_store: RingStore = None,
    memory_limit: MemoryLimit = None,
    device: Device = None,
) -> str | None:
    """Train a model on SOURCE, report how good it is, and save it.

    Your own data are given to auto, which fits a dozen models and lets the best
    answer; --model names one. Nodes without a label are left for 'h2gcn predict'.
    Data that bring no split are split 60/20/20, each class alike; 'all' then means
    ten such splits. Ctrl-C and SIGTERM keep the best so far, and say so.
    """
    import warnings

    from h2gcn.cli.console import KEPT, tell, tell_json
    from h2gcn.cli.runs import (
        find_checkpoints,
        interruption,
        report,
        run_splits,
        say_saved,
        show,
        warn_of_missed_classes,
        write_page,
    )
    from h2gcn.estimator import AUTO, check_target

    own = parse_options(option or [])
    given = {
        "epochs": epochs,
        "patience": patience,
        "stopping": stopping,
        "optimizer": optimizer,
        "learning_rate": learning_rate,
        "l2": l2,
        "dropout": dropout,
        "activation": activation,
        "hidden_channels": hidden_channels,
        "scaling": scaling,
        "metric": metric,
        "class_weight": class_weight,
        "batch_size": batch_size,
        "ring_cap": ring_cap,
        **machine(ring_store, memory_limit),
    }
    of_one = [name for name, value in given.items() if value is not None]
    of_one += ["option"] if own else []
    of_one += ["checkpoint"] if checkpoint is not None else []
    note = ""
    if model is None and settings is None:
        model, note = _default_model(source, of_one)
    model, base = find_settings(settings, model)
    check_given(model, given)
    if model == AUTO:
        given |= {"time_limit": time_limit, "refit": refit}
        if checkpoint is not None:
            raise InputError("--checkpoint is for one model, and --model is auto.")
        if own:
            raise InputError("--option is for one model, and --model is auto.")
        if page is not None:
            _check_page(page)
    else:
        _check_for_auto(
            model, {"time-limit": time_limit, "refit": refit or None, "page": page}
        )
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
    if out is not None:
        check_target(out)
        if not force:
            _check_new(out, resume)
    checkpoints = find_checkpoints(checkpoint, resume, checkpoint_minutes)
    graph = src.load_source(
        source, nodes, edges, options, features, trust_data, memory_limit
    )
    if base is None:
        # By the name that was asked for: one's own file may be called texas.npz.
        base = _preset(source, model)
    config = merge(base or {}, given | {"device": device}, own)
    numbers = _split_numbers(split, len(graph.splits))
    runs = run_splits(
        graph, model, numbers, seed, config, checkpoints, note=note, quiet=quiet
    )
    interrupted = interruption(runs, len(numbers))
    best = max(runs, key=lambda run: float(run.classifier.val_score_))
    if out is not None:
        best.save(out, graph, interrupted)
    if page is not None:
        write_page(page, graph, best)
    result = report(graph, model, runs) | {"interrupted": interrupted is not None}
    warn_of_missed_classes(result)
    if as_json:
        tell_json(result)
    else:
        if interrupted is not None:
            tell(f"{interrupted}: these are the scores of the best so far")
        show(result, graph)
        if out is not None:
            say_saved(out, best, graph)
        if page is not None:
            tell(f"wrote {page}")
    return None if interrupted is None else KEPT


def _default_model(source: str | None, of_one: list[str]) -> tuple[str | None, str]:
    """Return the model where none is named: the paper's for benchmarks, else auto.

    What is a setting of one model takes H2GCN, as ever; the note that is returned with
    it says so.
    """
    from h2gcn.datasets import is_dataset
    from h2gcn.estimator import AUTO

    if source is not None and (is_dataset(source) or source.startswith("syn-cora")):
        return None, ""
    free = {"scaling", "metric", "memory_limit"}
    for_one = [name for name in of_one if name not in free]
    if not for_one:
        return AUTO, ""
    flag = f"--{for_one[0].replace('_', '-')}"
    return None, (
        f"{flag} is for one model, so {DEFAULT_MODEL} is trained; without it, the best "
        "of a dozen would answer (--model auto)"
    )


def _check_for_auto(model: str, given: dict[str, object]) -> None:
    """Refuse what only auto has."""
    for name, value in given.items():
        if value is not None:
            raise InputError(f"--{name} is for --model auto. This is {model}.")


def _check_page(page: Path) -> None:
    """Refuse a page that cannot be written, before the work is done."""
    from h2gcn.io import check_suffix, usable_path

    check_suffix(page, (".html", ".htm"))
    if not usable_path(page).parent.is_dir():
        raise InputError(f"{page}: the folder {page.parent} does not exist")


def _check_new(out: Path, resume: bool) -> None:
    """Refuse to replace a model, unless it is one that `--resume` goes on from."""
    from h2gcn.estimator import holds_model, read_manifest

    if not holds_model(out):
        return
    if resume and read_manifest(out).extra.get("interrupted"):
        return
    raise InputError(
        f"{out}: holds a model already; --force replaces it, another --out keeps it"
    )


def _preset(source: str | None, model: str) -> dict[str, Any]:
    """Return the setting of a model on a benchmark, {} for one's own data."""
    from h2gcn.datasets import DATASETS, is_dataset
    from h2gcn.estimator import AUTO

    if source is None or not is_dataset(source):
        return {}
    if model == AUTO:
        return {"metric": DATASETS[source].metric} if source in DATASETS else {}
    from h2gcn.experiments import TO_THE_END, find_preset

    return {**TO_THE_END, **find_preset(source, model)}


def _split_numbers(text: str, n_splits: int) -> list[int]:
    if text == "all":
        return list(range(n_splits or N_RANDOM_SPLITS))
    if not (text.isdecimal() and len(text) <= 9):
        raise InputError(
            f"--split must be a number from 0 on, or 'all'. Got {text[:60]!r}."
        )
    if int(text) >= max(n_splits, 1):
        have = f"0 to {n_splits - 1}" if n_splits else "only split 0, drawn by the seed"
        raise InputError(f"--split {text}: the data have {have}.")
    return [int(text)]
