"""How the paper's conclusions are checked: from cells to a verdict with figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

import numpy as np

from h2gcn.experiments import Cell
from h2gcn.experiments.analysis import average_ranks, lead, pairs

Cells = Mapping[str, Mapping[str, Cell]]
"""Cells by row and column; all that a claim is about are there, and have been run."""


UP_TO = 35.0
"""Points that count as "some 40"."""
MIXED = ("h2gcn-s1", "h2gcn-ns0", "h2gcn-ns1")
"""H2GCN-1 without its 2-hop neighbours, with the node among its own, and both."""
WITHOUT = {"N0": "h2gcn-n0", "N1": "h2gcn-n1", "N2": "h2gcn-s1"}
"""H2GCN-1 without the node itself, its 1-hop and its 2-hop neighbours."""
ROUNDS = {
    "H2GCN-2": "h2gcn-2",
    "K2": "h2gcn-1",
    "K0": "h2gcn-k0",
    "K1": "h2gcn-k1",
    "R2": "h2gcn-r2",
}
"""H2GCN-2; without round 2, the node itself, round 1; and with round 2 alone."""


# ------------------------------------------------------------ between models


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
        first, *weaker = (value(cell) for cell in row.values())
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
        model: {column: value(cell) for column, cell in row.items()}
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


# ---------------------------------------------------------- H2GCN's own designs


def ego_apart(cells: Cells) -> tuple[bool, str]:
    """Check that separation is ahead everywhere, and by some 40 points at most."""
    pairs = (("h2gcn-1", "h2gcn-ns0"), ("h2gcn-s1", "h2gcn-ns1"))
    leads = {
        (f"{model} against {mixed}", h): gap
        for model, mixed in pairs
        for h, gap in margins(cells, model, mixed).items()
    }
    (pair, h), most = max(leads.items(), key=lambda item: item[1])
    (other, at), least = min(leads.items(), key=lambda item: item[1])
    told = f"The largest lead is {points(most)} ({pair}, h = {short(h)})"
    if most < 40:
        told += f", so 40 are not quite reached ({UP_TO:g} count as some 40)"
    beyond = ", ".join(
        f"{model} against {mixed} at {noise_count(cells, model, mixed, cells[model])}"
        for model, mixed in pairs
    )
    told += f"; the smallest is {points(least)} ({other}, h = {short(at)})"
    return (
        least > 0 and most >= UP_TO,
        f"{told}. The lead is beyond the noise for {beyond} h.",
    )


def apart_in_homophily(cells: Cells) -> tuple[bool, str]:
    """Check that no variant of design D1 is ahead of H2GCN-1 beyond the noise."""
    return _nowhere_behind(cells, "h2gcn-1", MIXED)


def every_neighbourhood(cells: Cells) -> tuple[bool, str]:
    """Check that H2GCN-1 is above the variants without a neighbourhood at every h."""
    said, holds = [], True
    for name, variant in WITHOUT.items():
        lost = margins(cells, "h2gcn-1", variant)
        most = max(lost, key=lost.__getitem__)
        gains = [f"{short(h)} ({points(-gap)})" for h, gap in lost.items() if gap <= 0]
        holds &= not gains
        told = (
            f"without {name} {points(fmean(lost.values()))} are lost on average, "
            f"{points(lost[most])} at h = {short(most)}, "
            f"beyond the noise at {noise_count(cells, 'h2gcn-1', variant, lost)} h"
        )
        said.append(told + (f", but none at h = {', '.join(gains)}" if gains else ""))
    return holds, begun(f"{'; '.join(said)}.")


def importance_turns(cells: Cells) -> tuple[bool, str]:
    """Check that N0 is missed most at low h, and N2 most and N0 least at high h.

    What is not so, but within the noise, does not count against it.
    """
    lost = {
        name: margins(cells, "h2gcn-1", variant) for name, variant in WITHOUT.items()
    }
    against = [
        f"At h = {short(h)} {less} is missed more than {more}, by "
        f"{points(lost[less][h] - lost[more][h])}."
        for h in lost["N0"]
        for more, less in (
            (("N0", "N1"), ("N0", "N2"))
            if float(h) < 0.5
            else (("N2", "N1"), ("N2", "N0"), ("N1", "N0"))
        )
        if ahead(cells, WITHOUT[more], WITHOUT[less], h)
    ]
    return not against, " ".join([_lost(lost), *against])


def first_round(cells: Cells) -> tuple[bool, str]:
    """Check that at no h K1 or K2 is missed more than K0, beyond the noise."""
    lost = {
        name: margins(cells, "h2gcn-2", ROUNDS[name]) for name in ("K0", "K1", "K2")
    }
    against = [
        f"At h = {short(h)} {name} is missed more than K0 beyond the noise, by "
        f"{points(lost[name][h] - own)}."
        for h, own in lost["K0"].items()
        for name in ("K1", "K2")
        if ahead(cells, ROUNDS["K0"], ROUNDS[name], h)
    ]
    return not against, " ".join([_lost(lost), *against])


def all_rounds(cells: Cells) -> tuple[bool, str]:
    """Check that H2GCN-2 is the best, and then K2, by the mean over all h."""
    means = {
        name: fmean(value(cell) for cell in cells[model].values())
        for name, model in ROUNDS.items()
    }
    order = sorted(means, key=lambda name: -means[name])
    said = ", ".join(f"{name} {means[name]:.1f}" for name in order)
    held = [
        _nowhere_behind(cells, ROUNDS[name], [ROUNDS[n] for n in list(ROUNDS)[i + 1 :]])
        for i, name in enumerate(("H2GCN-2", "K2"))
    ]
    told = " ".join(evidence for _, evidence in held)
    return order[:2] == ["H2GCN-2", "K2"], f"Means over h: {said}. {told}"


def linear_is_enough(cells: Cells) -> tuple[bool, str]:
    """Check that the non-linear variant is nowhere ahead beyond the noise."""
    model, variant = "h2gcn-2", "h2gcn-nonlinear"
    leads = margins(cells, model, variant)
    better = [h for h in leads if ahead(cells, variant, model, h)]
    told = (
        f"{model} is ahead of {variant} by {points(fmean(leads.values()))} on average, "
        f"beyond the noise at {noise_count(cells, model, variant, leads)} h, and "
        f"behind at {len(better)}"
    )
    told += f" (h = {', '.join(map(short, better))})." if better else "."
    return not better and fmean(leads.values()) >= 0, told


def _nowhere_behind(
    cells: Cells, model: str, others: Iterable[str]
) -> tuple[bool, str]:
    """Return whether none is ahead of a model beyond the noise, and where one is."""
    behind = []
    for other in others:
        leads = margins(cells, other, model)
        found = [h for h in leads if ahead(cells, other, model, h)]
        behind += [f"{other} at h = {short(h)} (by {points(leads[h])})" for h in found]
    told = f"ahead of {model} beyond the noise: {', '.join(behind) or 'none'}."
    return not behind, begun(told)


def _lost(lost: dict[str, dict[str, float]]) -> str:
    """Return what is lost without each part at each h."""
    said = [
        f"{name} {', '.join(f'{gap:z.1f}' for gap in gaps.values())}"
        for name, gaps in lost.items()
    ]
    hs = ", ".join(map(short, next(iter(lost.values()))))
    return f"Points lost without each, at h = {hs}: {'; '.join(said)}."


# ---------------------------------------------------- leads, noise, and their words


def value(cell: Cell) -> float:
    """Return the mean of a cell, which has been run."""
    assert cell.mean is not None
    return cell.mean


def margins(cells: Cells, model: str, other: str) -> dict[str, float]:
    """Return by how much a model's mean is above another's in each column."""
    return {h: value(cell) - value(cells[other][h]) for h, cell in cells[model].items()}


def ahead(cells: Cells, model: str, other: str, column: str) -> bool:
    """Return whether a model is ahead of another beyond the noise."""
    return lead(cells[model][column], cells[other][column])[0] > 0


def noise_count(cells: Cells, model: str, other: str, columns: Iterable[str]) -> str:
    """Return at how many columns a model is ahead of another beyond the noise."""
    found = [ahead(cells, model, other, column) for column in columns]
    return f"{sum(found)} of {len(found)}"


def leader(cells: Cells, models: Iterable[str], column: str) -> str:
    """Return the model with the largest mean in a column."""
    return max(models, key=lambda model: value(cells[model][column]))


def mean(cells: Cells, model: str, column: str) -> str:
    """Return a model and its mean."""
    return f"{model} {value(cells[model][column]):.1f}"


def points(value: float) -> str:
    """Return a difference in percent as points."""
    return f"{value:z.1f} points".replace("-", "−")


def short(column: str) -> str:
    """Return a homophily without needless zeros."""
    return f"{float(column):g}"


def where(column: str) -> str:
    """Return a column as a place: a homophily, or a benchmark."""
    return f"h = {short(column)}" if column[0].isdigit() else column


def begun(text: str) -> str:
    """Return a text with a capital first letter."""
    return text[:1].upper() + text[1:]
