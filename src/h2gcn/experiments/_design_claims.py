"""How claims about H2GCN's own designs are checked, on its variants."""

from __future__ import annotations

from statistics import fmean

from h2gcn.experiments._claim_words import (
    Cells,
    ahead,
    begun,
    margins,
    noise_count,
    points,
    short,
)

__all__ = [
    "ego_apart",
    "every_neighbourhood",
    "first_round",
    "importance_turns",
    "linear_is_enough",
]

UP_TO = 35.0
"""Points that count as "some 40"."""
WITHOUT = {"N0": "h2gcn-n0", "N1": "h2gcn-n1", "N2": "h2gcn-s1"}
"""H2GCN-1 without the node itself, its 1-hop and its 2-hop neighbours."""


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
    variants = {"K0": "h2gcn-k0", "K1": "h2gcn-k1", "K2": "h2gcn-1"}
    lost = {
        name: margins(cells, "h2gcn-2", variant) for name, variant in variants.items()
    }
    against = [
        f"At h = {short(h)} {name} is missed more than K0 beyond the noise, by "
        f"{points(lost[name][h] - own)}."
        for h, own in lost["K0"].items()
        for name in ("K1", "K2")
        if ahead(cells, variants["K0"], variants[name], h)
    ]
    return not against, " ".join([_lost(lost), *against])


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


def _lost(lost: dict[str, dict[str, float]]) -> str:
    """Return what is lost without each part at each h."""
    said = [
        f"{name} {', '.join(f'{gap:z.1f}' for gap in gaps.values())}"
        for name, gaps in lost.items()
    ]
    hs = ", ".join(map(short, next(iter(lost.values()))))
    return f"Points lost without each, at h = {hs}: {'; '.join(said)}."
