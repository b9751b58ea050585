"""How claims that compare models are checked: from cells to a verdict with figures."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from h2gcn.experiments.analysis.cells import pairs
from h2gcn.experiments.analysis.claim_words import (
    Cells,
    ahead,
    begun,
    leader,
    margins,
    mean,
    noise_count,
    points,
    short,
    where,
)
from h2gcn.experiments.analysis.ranks import average_ranks

__all__ = [
    "below_mlp",
    "best_or_level",
    "best_ranks",
    "degree_gap",
    "designs_help",
    "none_above_mlp",
    "perfect_heterophily",
]


def below_mlp(cells: Cells) -> tuple[bool, str]:
    """Check that GCN, GAT and MixHop are below MLP at h ≤ 0.3."""
    said, holds = [], True
    for model in ("gcn", "gat", "mixhop"):
        under = margins(cells, "mlp", model)
        low = {h: gap for h, gap in under.items() if float(h) <= 0.3}
        holds &= min(low.values()) > 0
        most, least = max(low, key=low.__getitem__), min(low, key=low.__getitem__)
        until = [h for h, gap in under.items() if gap <= 0]
        seen = f"up to h = {short(list(under)[-1])} at least"
        said.append(
            f"{model} is {points(low[most])} below mlp at h = {short(most)} and "
            f"{points(low[least])} at h = {short(least)} "
            f"(beyond the noise at {noise_count(cells, 'mlp', model, low)}), and "
            + (f"no longer below at {where(until[0])}" if until else f"below {seen}")
        )
    return holds, f"{'; '.join(said)}."


def none_above_mlp(cells: Cells, ours: Sequence[str]) -> tuple[bool, str]:
    """Check that of all other models none has a larger mean than MLP."""
    (column,) = next(iter(cells.values()))
    others = [model for model in cells if model not in (*ours, "mlp")]
    first = leader(cells, others, column)
    lead = margins(cells, "mlp", first)[column]
    side, order = ("below", ("mlp", first)) if lead >= 0 else ("above", (first, "mlp"))
    beyond = "beyond" if ahead(cells, *order, column) else "within"
    own = ", ".join(mean(cells, model, column) for model in ours)
    told = (
        f"{mean(cells, 'mlp', column)}; the best of the others, "
        f"{mean(cells, first, column)}, is {points(abs(lead))} {side} it, {beyond} the "
        "noise"
    )
    return lead >= 0, f"{told}; {own}."


def perfect_heterophily(cells: Cells) -> tuple[bool, str]:
    """Check that every model's mean at h = 0 is above its mean at h = 0.1 to 0.3."""
    said, holds = [], True
    for model, row in cells.items():
        first, *weaker = (float(cell["mean"]) for cell in row.values())
        gain = first - fmean(weaker)
        holds &= gain > 0
        said.append(f"{model} {points(gain)}")
    return holds, f"More at h = 0 than on average there: {', '.join(said)}."


def best_or_level(cells: Cells, ours: Sequence[str]) -> tuple[bool, str]:
    """Check that one of our models is ahead, or level with the best, in most columns.

    Ahead and behind are beyond the noise; all else is level.
    """
    kinds: dict[str, list[str]] = {"ahead": [], "level": [], "behind": []}
    columns = list(next(iter(cells.values())))
    others = [model for model in cells if model not in ours]
    for column in columns:
        own, other = leader(cells, ours, column), leader(cells, others, column)
        kind = "level"
        if ahead(cells, own, other, column):
            kind = "ahead"
        elif ahead(cells, other, own, column):
            kind = "behind"
        both = f"{mean(cells, own, column)}, {mean(cells, other, column)}"
        kinds[kind].append(f"{where(column)} ({both})")
    first = [leader(cells, cells, column) in ours for column in columns]
    good = len(kinds["ahead"]) + len(kinds["level"])
    said = [
        f"{kind} in {len(found)} of {len(columns)}: {', '.join(found)}"
        for kind, found in kinds.items()
        if found
    ]
    by_mean = f"By the mean alone it is first in {sum(first)} of {len(columns)}."
    return 2 * good > len(columns), begun(f"{'; '.join(said)}. {by_mean}")


def designs_help(cells: Cells, without: Sequence[str]) -> tuple[bool, str]:
    """Check that models with some of the designs lead those without everywhere."""
    having = [model for model in cells if model not in without]
    said, holds, most = [], True, 0.0
    for column in next(iter(cells.values())):
        first, second = leader(cells, having, column), leader(cells, without, column)
        lead = margins(cells, first, second)[column]
        holds &= lead > 0
        most = max(most, lead)
        beyond = "" if ahead(cells, first, second, column) else ", within the noise"
        both = f"{mean(cells, first, column)}, {mean(cells, second, column)}"
        said.append(f"{column} ({both}{beyond})")
    return holds, f"By up to {points(most)}: {', '.join(said)}."


def degree_gap(cells: Cells, models: Sequence[str]) -> tuple[bool, str]:
    """Check that highest less lowest degree is more at h = 0.2 than at 0.8."""
    said, holds = [], True
    names = list(next(iter(cells.values())))
    for model in models:
        gaps = {}
        for h in (0.2, 0.8):
            row = cells[f"{model}, h = {h}"]
            gaps[h] = np.subtract(*pairs(row[names[-1]], row[names[0]]))
        holds &= bool(gaps[0.2].mean() > gaps[0.8].mean())
        told = [
            f"{points(gap.mean())} at h = {h} ({gap.min():.1f} to {gap.max():.1f})"
            for h, gap in gaps.items()
        ]
        said.append(f"{model} {', '.join(told)}")
    of = f"Accuracy at degree {names[-1]} less that at {names[0]}"
    return holds, f"{of}, in brackets from graph to graph: {'; '.join(said)}."


def best_ranks(cells: Cells, ours: Sequence[str]) -> tuple[bool, str]:
    """Check that our models have the best average ranks overall."""
    scores = {
        model: {column: float(cell["mean"]) for column, cell in row.items()}
        for model, row in cells.items()
    }
    ranks = average_ranks(scores)
    said = []
    for group in ("overall", "heterophily", "homophily"):
        order = sorted(ranks, key=lambda model: ranks[model][group])
        first = [f"{model} {ranks[model][group]:.1f}" for model in order[:4]]
        said.append(f"{group} {', '.join(first)}")
    others = [row["overall"] for model, row in ranks.items() if model not in ours]
    holds = all(ranks[model]["overall"] < min(others) for model in ours)
    return holds, f"The first four: {'; '.join(said)}."
