"""The ranking of `h2gcn tune`, as one object for JSON and as a table."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from h2gcn import __version__
from h2gcn.cli.output import SCORES, percent, table
from h2gcn.cli.tuned import Tuning
from h2gcn.estimator import choose_scaling
from h2gcn.experiments import Ranked, classifier_of, flatten
from h2gcn.graph import Graph
from h2gcn.homophily import graph_card
from h2gcn.io import TableOptions

__all__ = ["machine_arguments", "result_of", "show", "source_arguments"]

MAX_SHOWN, MAX_COLUMNS = 15, 5
"""Of the ranking's rows, and of the settings that have a column of their own."""
_FLAGS = {
    "id_column": "--id-column",
    "label_column": "--label-column",
    "feature_columns": "--feature-column",
    "categorical": "--categorical",
    "source_column": "--source-column",
    "target_column": "--target-column",
    "drop_unknown": "--drop-unknown",
    "fill_missing": "--fill-missing",
    "undirected": "--undirected",
}


def result_of(work: Tuning, search: str, *, saved: bool) -> dict[str, Any]:
    """Return all results as one object for JSON; scores are fractions of 1."""
    ranking = work.ranking
    best = classifier_of(work.model, ranking[0].setting)
    assert work.last is not None
    return {
        "dataset": work.graph.name,
        "model": work.model,
        "search": search,
        "metric": best.metric,
        "splits": len(work.splits),
        "scaling_auto": _scaling_auto(work.graph, ranking),
        "seed": work.seed,
        "runs": {"found": work.last.found, "new": work.last.done - work.last.found},
        "runs_missing": work.last.total - work.last.done,
        "interrupted": work.interrupted,
        "best": _row(1, ranking[0]),
        "ranking": [_row(place, result) for place, result in enumerate(ranking, 1)],
        "folder": str(work.folder.path),
        "saved": saved,
        "graph": graph_card(work.graph),
        "version": __version__,
    }


def _row(place: int, result: Ranked) -> dict[str, Any]:
    score = {"mean": result.mean, "std": result.deviation, "n": result.n}
    row = {"rank": place, "settings": dict(result.setting), "val_score": score}
    row |= {"seconds": round(result.seconds, 3), "runs": list(result.runs)}
    return row if result.error is None else row | {"error": result.error}


def show(result: Mapping[str, Any], graph: Graph, source: str) -> None:
    """Print the ranking, what was saved, and how to go on.

    Parameters
    ----------
    result
        What `result_of` returns.
    graph
        The graph.
    source
        The arguments that name it.
    """
    ranking = result["ranking"]
    # With all that was left to the model: a search sets what the grid does not.
    settings = [
        flatten(classifier_of(result["model"], row["settings"]).resolved_params())
        for row in ranking
    ]
    names, cells = _columns(settings)
    rows = [
        (
            row["rank"],
            *cell,
            percent(row["val_score"]["mean"]),
            percent(row["val_score"]["std"]),
            f"{row['seconds']:.1f}",
        )
        for row, cell in zip(ranking, cells, strict=True)
    ]
    score = f"val {SCORES[result['metric']]}"
    title = (
        f"{result['model']} on {result['dataset']}: {len(ranking)} setting(s), "
        f"validation nodes of {result['splits']} split(s)"
    )
    if result["interrupted"]:
        print(
            f"interrupted, with {result['runs_missing']} runs to go: this is the "
            "ranking so far"
        )
    columns = ("#", *names, score, "±", "s")
    table(title, columns, rows[:MAX_SHOWN], text=2 if names == ["setting"] else 0)
    folder = Path(result["folder"])
    if len(rows) > MAX_SHOWN:
        print(f"{len(rows) - MAX_SHOWN} more in {folder / 'trials.jsonl'}")
    if result["scaling_auto"] is not None:
        print(f"the scaling auto is {result['scaling_auto']} here")
    failed = [row["error"] for row in ranking if "error" in row]
    if failed:
        print(f"{len(failed)} failed, as the last one: {failed[-1]}")
    _say_saved(result, folder, graph, source)


def _scaling_auto(graph: Graph, ranking: Sequence[Ranked]) -> str | None:
    """Return what "auto" means here, if that and another scaling were tried."""
    tried = {result.setting.get("scaling", "auto") for result in ranking}
    return choose_scaling(graph.x) if "auto" in tried and len(tried) > 1 else None


def _columns(
    settings: Sequence[Mapping[str, Any]],
) -> tuple[list[str], list[list[str]]]:
    """Return names and cells of what varies; in one column where it is too much."""
    first = settings[0]
    varied = [
        name
        for name in first
        if any(setting.get(name) != first[name] for setting in settings)
    ]
    cells = [[_text(setting.get(name)) for name in varied] for setting in settings]
    if len(varied) > MAX_COLUMNS:
        texts = [
            ", ".join(map(" ".join, zip(varied, cell, strict=True))) for cell in cells
        ]
        return ["setting"], [[text] for text in texts]
    # On two lines, so that a usual terminal has room for all columns.
    return [name.replace("_", "\n") for name in varied], cells


def _say_saved(
    result: Mapping[str, Any], folder: Path, graph: Graph, source: str
) -> None:
    if not result["saved"]:
        print(
            f"saved to {folder}: trials.jsonl (every run); the model of rank 1 is not "
            "fitted yet, the same command does it"
        )
        return
    print(
        f"saved to {folder}: best.json (the settings of rank 1), model (fitted with "
        "them on split 0), trials.jsonl (every run)"
    )
    n_unlabelled = graph.n_nodes - graph.labelled.size
    best, model = (shlex.quote(str(folder / name)) for name in ("best.json", "model"))
    if n_unlabelled:
        print(f"{n_unlabelled:,} nodes have no label: h2gcn predict {model} …")
    print("No test node was looked at; for the score on those:")
    seed = f" --seed {result['seed']}" if result["seed"] else ""
    print(f"h2gcn train {source} --model {result['model']} --settings {best}{seed}")


def source_arguments(
    source: str | None, paths: Mapping[str, Path | None], options: TableOptions
) -> str:
    """Return the arguments that name a graph, to be copied into another command."""
    words = [] if source is None else [source]
    for flag, path in paths.items():
        words += [] if path is None else [flag, str(path)]
    for name, flag in _FLAGS.items():
        value = getattr(options, name)
        if value is True:
            words.append(flag)
        elif value:
            for text in [value] if isinstance(value, str) else value:
                words += [flag, text]
    return shlex.join(words)


def machine_arguments(given: Mapping[str, Any]) -> list[str]:
    """Return the options about this machine, to be copied into another command."""
    return [
        f"--{name.replace('_', '-')} {shlex.quote(str(value))}"
        for name, value in given.items()
        if value is not None
    ]


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if not isinstance(value, float):
        return str(value)
    if 0 < value < 0.001:
        digits, _, exponent = f"{value:.1e}".partition("e")
        return f"{digits.removesuffix('.0')}e{int(exponent)}"
    return f"{value:.2g}"
