"""All results of a folder as one HTML page that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from h2gcn import __version__
from h2gcn.diagnosis import heat_palette
from h2gcn.experiments.display import axes as axes, report_views as views
from h2gcn.experiments.display.charts import chart
from h2gcn.experiments.display.report_cards import FACTS, card_views
from h2gcn.experiments.display.result_files import read_results
from h2gcn.experiments.display.styles import STYLES

__all__ = ["count_cells", "read_results", "render_html", "summary_line"]


def render_html(results: Sequence[Mapping[str, Any]]) -> str:
    """Return results as a self-contained HTML page.

    All names are escaped, and the page's policy lets no script run but its own.

    Parameters
    ----------
    results
        Results as `result.json` holds them.
    """
    environment = Environment(
        loader=PackageLoader("h2gcn.experiments.display"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script, cards = _script(), card_views(results)
    return environment.get_template("report.html").render(
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        version=__version__,
        axes=axes,
        styles=STYLES,
        palette=heat_palette(),
        kinds=_kinds(results),
        by_experiment=views.counts_by_experiment(results),
        by_model=views.counts_by_model(results),
        headline=_headline(results),
        places={result["experiment"]: i for i, result in enumerate(results)},
        experiments=[_experiment(result) for result in results],
        facts=list(FACTS.values()),
        cards=cards,
        matrices=[card for card in cards if card.matrix],
        environment=views.environment_columns(results),
        results=results,
    )


def count_cells(results: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many cells count as what, by "better", "within", "worse" and so on."""
    total = _total(results)
    return {kind: total[kind] for kind in views.KINDS if total[kind]}


def summary_line(results: Sequence[Mapping[str, Any]]) -> str:
    """Return in one line how many cells count as what."""
    told = [f"{n:,} {views.KINDS[kind]}" for kind, n in count_cells(results).items()]
    return f"{_count(len(results), 'experiment')}; cells: {', '.join(told) or 'none'}"


def _headline(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what came out, a sentence each."""
    total, models = _total(results), views.counts_of_models(results)
    judged = models["better"] + models["within"] + models["worse"]
    others = total["within"] - models["within"] + total["differs"]
    experiments = _count(len(results), "experiment")
    said = [f"{experiments}; no figure of a model beside the paper's."]
    if judged:
        said = [
            f"{experiments}, {_count(judged, 'figure')} of models beside the paper's: "
            f"{models['within']:,} within one standard deviation or equal, "
            f"{models['better']:,} better, {models['worse']:,} worse."
        ]
    if others:
        said.append(
            f"{_count(others, 'figure')} of graphs and theorems beside the paper's: "
            f"{others - total['differs']:,} in agreement, {total['differs']:,} not."
        )
    failed = sum(len(result.get("failed") or ()) for result in results)
    if total["not run"]:
        said.append(f"{_count(total['not run'], 'cell')} of the tables not run.")
    if failed:
        said.append(f"{_count(failed, 'run')} failed.")
    protocols = sorted({str(r.get("protocol") or "not known") for r in results})
    said.append(f"Protocol: {', '.join(protocols)}.")
    return said


def _total(results: Sequence[Mapping[str, Any]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for count in views.counts_by_experiment(results):
        total.update(count.counts)
    return total


def _count(n: int, thing: str) -> str:
    return f"{n:,} {thing}" if n == 1 else f"{n:,} {thing}s"


def _experiment(result: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": result["experiment"],
        "title": result.get("title") or result["experiment"],
        "protocol": result.get("protocol") or "not known",
        "notes": result.get("notes") or [],
        "tables": [views.table_view(table) for table in result.get("tables") or ()],
        "charts": [chart(figure) for figure in result.get("figures") or ()],
        "not_run": result.get("not_run") or [],
        "failed": result.get("failed") or [],
    }


def _kinds(results: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the kinds of cells to show; rare ones only where there are any."""
    found = _total(results).keys()
    always = {"better", "within", "worse", "not run"}
    return {k: name for k, name in views.KINDS.items() if k in found | always}


def _script() -> str:
    text = (
        files("h2gcn.experiments.display")
        .joinpath("templates/report.js")
        .read_text("utf-8")
    )
    return text.replace("\r\n", "\n")
