"""How claims about H2GCN's own designs are checked, on its variants."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from h2gcn.experiments.analysis.claim_words import (
    Cells,
    ahead,
    begun,
    margins,
    noise_count,
    points,
    short,
)

__all__ = [
    "all_rounds",
    "apart_in_homophily",
    "ego_apart",
    "every_neighbourhood",
    "first_round",
    "importance_turns",
    "linear_is_enough",
]

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
        name: fmean(cell["mean"] for cell in cells[model].values())
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
