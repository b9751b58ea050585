"""Parts of the page of results as Markdown, out of tables."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

import worse_cells as reasons
from conclusion_checks import value
from conclusions import Conclusion
from disagreements import why
from other_models import setting_words

from h2gcn.experiments import Cell, Result, Table, category, ours, verdict

H2GCN = ("h2gcn-1", "h2gcn-2")
COUNTED = {
    "real": "the real benchmarks",
    "syn-cora": "syn-cora, the authors' graphs",
    "syn-cora-own": "syn-cora, our generator",
    "syn-products": "syn-products, twenty Gaussians a class",
    "ablation": "the variants, on the same",
}
COMPARED = {
    "syn-products": "syn-products, one Gaussian a class",
    "ablation": "the variants, on the same",
}
VERDICTS = {True: "Holds.", False: "Does not hold here.", None: "Not yet."}


def conclusions_list(
    conclusions: Iterable[Conclusion],
    tables: Mapping[str, Table],
    compared: Mapping[str, Table],
) -> str:
    """Return each conclusion with its verdict, our figures, and why it fails."""
    lines = []
    for i, one in enumerate(conclusions, start=1):
        lines.append(f"{i}. **{VERDICTS[one.holds]}** {one.sentence}")
        lines.append(f"    - Ours: {one.evidence}")
        by = {**tables, **compared} if one.compared else tables
        if one.holds is False and (reason := why(one.name, by)):
            lines.append(f"    - Why: {reason}")
        if one.beside:
            lines.append(f"    - Beside it: {one.beside}")
    return "\n".join(lines)


def counts_table(tables: Mapping[str, Table], compared: Mapping[str, Table]) -> str:
    """Return how many cells count as what, of H2GCN and of all rows."""
    heads = ("rows", "within 1 sd", "better", "worse", "within or better", "not run")
    lines = [f"| {' | '.join(heads)} |", f"| :-- |{' --: |' * (len(heads) - 1)}"]
    total: Counter[str] = Counter()
    for name in ("real", "syn-cora", "syn-products"):
        counts = _counts(tables[name], H2GCN)
        total.update(counts)
        lines.append(_count_row(f"H2GCN-1 and -2, {COUNTED[name]}", counts))
        if name == "syn-cora":
            lines.append(_count_row("**H2GCN-1 and -2, both of these**", total))
    lines.append(_count_row("**H2GCN-1 and -2, all three**", total))
    lines += [
        _count_row(f"all rows, {what}", _counts(tables[name]))
        for name, what in COUNTED.items()
    ]
    both = _counts(compared["syn-products"], H2GCN)
    lines.append(_count_row(f"H2GCN-1 and -2, {COMPARED['syn-products']}", both))
    lines += [
        _count_row(f"all rows, {what}", _counts(compared[name]))
        for name, what in COMPARED.items()
    ]
    return "\n".join(lines)


def worse_list(
    tables: Mapping[str, Table],
    noise: reasons.Noise,
    tried: Sequence[Mapping[str, Any]],
) -> str:
    """Return every cell of H2GCN that is worse than the paper's, with the reason."""
    lines = []
    for name in ("real", "syn-cora", "syn-products"):
        table = tables[name]
        found = list(_worse(table))
        shared = reasons.common(name, noise, tried)
        if found:
            lines.append(f"- {COUNTED[name]}{': ' * bool(shared)}{' '.join(shared)}")
        for model, column, cell in found:
            where = f"{model}, {column if name == 'real' else f'h = {float(column):g}'}"
            said = [f"{ours(cell, table)}, {verdict(cell, table)}"]
            reason = reasons.of_cell(name, model, column, noise, tried)
            said += [reason or reasons.NOT_KNOWN] if reason or not shared else []
            lines.append(f"  - {where}: {'; '.join(said)}.")
    return "\n".join(lines) or "- none."


def not_run_line(table: Table) -> str:
    """Return how much of a table is missing, "" where nothing is."""
    cells = list(table.cells)
    missing = sum(cell.mean is None for cell in cells)
    if not cells:
        return "Not run."
    if not missing:
        return ""
    return f"{missing} of {len(cells)} cells are not run, or not to the end."


def mlp_line(table: Table) -> str:
    """Return what MLP reaches in a table, over all of its columns, and in the paper."""
    cells = [cell for cell in table.row("mlp").values() if cell.mean is not None]
    if not cells:
        return "not run"
    here = fmean(value(cell) for cell in cells)
    there = fmean(cell.paper.mean for cell in cells if cell.paper is not None)
    return f"{here:.1f} % here, {there:.1f} % there"


def settings_table(result: Result) -> str:
    """Return the setting of each model on each benchmark."""
    lines = ["| model | benchmark | setting |", "| :-- | :-- | :-- |"]
    lines += [
        f"| {one['model']} | {one['column']} | {setting_words(one['config'])} |"
        for one in result.settings or ()
    ]
    return "\n".join(lines) if len(lines) > 2 else "None is chosen yet."


def _counts(table: Table, rows: Sequence[str] = ()) -> Counter[str]:
    return Counter(
        category(cell, table)
        for row in table.rows
        if not rows or row.name in rows
        for cell in row.cells
        if cell.paper is not None
    )


def _count_row(name: str, counts: Mapping[str, int]) -> str:
    good = counts["within"] + counts["better"]
    judged = good + counts["worse"]
    share = f"{good} of {judged} ({100 * good / judged:.0f} %)" if judged else "–"
    told = [str(counts[kind]) for kind in ("within", "better", "worse")]
    return f"| {' | '.join([name, *told, share, str(counts['not run'])])} |"


def _worse(table: Table) -> Iterator[tuple[str, str, Cell]]:
    for model, column, cell in table.placed():
        if model in H2GCN and category(cell, table) == "worse":
            yield model, column, cell
