"""How each of the paper's claims is checked: from cells to a verdict with figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from h2gcn.experiments.cells import paired_interval
from h2gcn.experiments.ranks import average_ranks

__all__ = [
    "Cells",
    "below_mlp",
    "best_or_level",
    "best_ranks",
    "degree_gap",
    "ego_apart",
    "every_neighbourhood",
    "first_round",
    "linear_is_enough",
]

Cells = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Cells by row and column; all that a claim is about are there, and have been run."""

UP_TO = 35.0
"""Points that count as "some 40"."""


def below_mlp(cells: Cells) -> tuple[bool, str]:
    """Check that GCN, GAT and MixHop are below MLP at h ≤ 0.3."""
    said, holds = [], True
    for model in ("gcn", "gat", "mixhop"):
        under = _margins(cells, "mlp", model)
        low = {h: gap for h, gap in under.items() if float(h) <= 0.3}
        holds &= min(low.values()) > 0
        most, least = max(low, key=low.__getitem__), min(low, key=low.__getitem__)
        until = [h for h, gap in under.items() if gap <= 0]
        seen = f"up to h = {_h(list(under)[-1])} at least"
        said.append(
            f"{model} is {_points(low[most])} below mlp at h = {_h(most)} and "
            f"{_points(low[least])} at h = {_h(least)}, and "
            + (f"no longer below at h = {_h(until[0])}" if until else f"below {seen}")
        )
    return holds, f"{'; '.join(said)}."


def best_or_level(cells: Cells, ours: Sequence[str]) -> tuple[bool, str]:
    """Check that one of our models leads most columns, or is level with what does."""
    kinds: dict[str, list[str]] = {"best": [], "level": [], "behind": []}
    columns = list(next(iter(cells.values())))
    for column in columns:
        leader = max(cells, key=lambda model: float(cells[model][column]["mean"]))
        own = max(ours, key=lambda model: float(cells[model][column]["mean"]))
        if leader in ours:
            kinds["best"].append(
                f"{_where(column)} ({own} {_mean(cells, own, column)})"
            )
            continue
        kind = "behind" if _ahead(cells, leader, own, column) else "level"
        kinds[kind].append(
            f"{_where(column)} ({own} {_mean(cells, own, column)}, "
            f"{leader} {_mean(cells, leader, column)})"
        )
    good = len(kinds["best"]) + len(kinds["level"])
    said = [
        f"{kind} in {len(found)} of {len(columns)}: {', '.join(found)}"
        for kind, found in kinds.items()
        if found
    ]
    told = "; ".join(said) + (
        ". Level: the leader's lead is within the noise (95 %, paired)."
        if kinds["level"]
        else "."
    )
    return 2 * good > len(columns), _begun(told)


def ego_apart(cells: Cells) -> tuple[bool, str]:
    """Check that separation is ahead everywhere, and by some 40 points at most."""
    leads = {
        (f"{model} against {mixed}", h): gap
        for model, mixed in (("h2gcn-1", "h2gcn-ns0"), ("h2gcn-s1", "h2gcn-ns1"))
        for h, gap in _margins(cells, model, mixed).items()
    }
    (pair, h), most = max(leads.items(), key=lambda item: item[1])
    (other, where), least = min(leads.items(), key=lambda item: item[1])
    told = f"The largest lead is {_points(most)} ({pair}, h = {_h(h)})"
    if most < 40:
        told += ", so 40 are not quite reached"
    told += f"; the smallest is {_points(least)} ({other}, h = {_h(where)})."
    return least > 0 and most >= UP_TO, told


def every_neighbourhood(cells: Cells) -> tuple[bool, str]:
    """Check that H2GCN-1 is above the variants without a neighbourhood at every h."""
    said, holds = [], True
    for name, variant in (("N0", "h2gcn-n0"), ("N1", "h2gcn-n1"), ("N2", "h2gcn-s1")):
        lost = _margins(cells, "h2gcn-1", variant)
        most = max(lost, key=lost.__getitem__)
        gains = [f"{_h(h)} ({_points(-gap)})" for h, gap in lost.items() if gap <= 0]
        holds &= not gains
        told = (
            f"without {name} {_points(fmean(lost.values()))} are lost on average, "
            f"{_points(lost[most])} at h = {_h(most)}"
        )
        said.append(told + (f", but none at h = {', '.join(gains)}" if gains else ""))
    return holds, _begun(f"{'; '.join(said)} (h from 0 to 0.9).")


def first_round(cells: Cells) -> tuple[bool, str]:
    """Check that at no h K1 or K2 is missed more than K0, beyond the noise."""
    variants = {"K0": "h2gcn-k0", "K1": "h2gcn-k1", "K2": "h2gcn-1"}
    lost = {
        name: _margins(cells, "h2gcn-2", variant) for name, variant in variants.items()
    }
    against = [
        f"At h = {_h(h)} {name} is missed more than K0 beyond the noise, by "
        f"{_points(lost[name][h] - own)}."
        for h, own in lost["K0"].items()
        for name in ("K1", "K2")
        if _ahead(cells, variants["K0"], variants[name], h)
    ]
    said = [
        f"{name} {', '.join(f'{gap:.1f}' for gap in gaps.values())}"
        for name, gaps in lost.items()
    ]
    hs = ", ".join(map(_h, lost["K0"]))
    told = f"Points lost without each, at h = {hs}: {'; '.join(said)}."
    return not against, " ".join([told, *against])


def degree_gap(cells: Cells, models: Sequence[str]) -> tuple[bool, str]:
    """Check that highest less lowest degree is more at h = 0.2 than at 0.8."""
    said, holds = [], True
    names = list(next(iter(cells.values())))
    for model in models:
        gaps = []
        for h in (0.2, 0.8):
            row = cells[f"{model}, h = {h}"]
            gaps.append(row[names[-1]]["mean"] - row[names[0]]["mean"])
        holds &= gaps[0] > gaps[1]
        said.append(
            f"{model} {_points(gaps[0])} at h = 0.2, {_points(gaps[1])} at h = 0.8"
        )
    told = f"Accuracy at degree {names[-1]} less that at {names[0]}: {'; '.join(said)}."
    return holds, told


def linear_is_enough(cells: Cells) -> tuple[bool, str]:
    """Check that the non-linear variant is nowhere ahead beyond the noise."""
    model, variant = "h2gcn-2", "h2gcn-nonlinear"
    leads = _margins(cells, model, variant)
    ahead = [h for h in leads if _ahead(cells, variant, model, h)]
    behind = [h for h in leads if _ahead(cells, model, variant, h)]
    told = (
        f"{model} is ahead of {variant} by {_points(fmean(leads.values()))} on average "
        f"over {len(leads)} values of h; beyond the noise (95 %, paired) at "
        f"{len(behind)} of them, and behind at {len(ahead)}"
    )
    told += f" (h = {', '.join(map(_h, ahead))})." if ahead else "."
    return not ahead and fmean(leads.values()) >= 0, told


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


def _margins(cells: Cells, model: str, other: str) -> dict[str, float]:
    """Return by how much a model's mean is above another's in each column."""
    return {
        h: cell["mean"] - cells[other][h]["mean"] for h, cell in cells[model].items()
    }


def _ahead(cells: Cells, model: str, other: str, column: str) -> bool:
    """Return whether a model is ahead of another beyond the noise."""
    first, second = cells[model][column]["values"], cells[other][column]["values"]
    return paired_interval(first, second)[0] > 0


def _mean(cells: Cells, model: str, column: str) -> str:
    return f"{cells[model][column]['mean']:.1f}"


def _points(value: float) -> str:
    return f"{value:z.1f} points".replace("-", "−")


def _h(column: str) -> str:
    return f"{float(column):g}"


def _where(column: str) -> str:
    return f"h = {_h(column)}" if column[0].isdigit() else column


def _begun(text: str) -> str:
    return text[:1].upper() + text[1:]
