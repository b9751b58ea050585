"""The paper's conclusions, each held against tables of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import conclusion_checks as checks
from conclusion_checks import Cells

from h2gcn.experiments import EXPERIMENTS, Table
from h2gcn.experiments.analysis import GROUPS
from h2gcn.experiments.definition import REAL_MODELS, SYNTHETIC_MODELS

__all__ = ["CLAIMS", "NOT_YET", "Claim", "Conclusion", "conclude"]

NOT_YET = "not yet: runs are missing"
"""How the evidence of a conclusion begins that cannot be drawn."""

ELEVEN = EXPERIMENTS["syn-cora"].columns
TWELVE = EXPERIMENTS["ablation"].columns
BOTH = ("h2gcn-1", "h2gcn-2")
PLAIN = ("gcn", "gat")
DESIGNED = tuple(m for m in REAL_MODELS if m not in (*PLAIN, "geom-gcn", "mlp"))
"""Models with some of the designs D1 to D3; the paper sets Geom-GCN apart."""
TWENTY, ONE = "With twenty Gaussians a class", "With one Gaussian a class"
"""The two kinds of features that syn-products was run with."""
LEADS = "H2GCN is the best model, or level with it, in most settings of {}: {}."


@dataclass(frozen=True)
class Conclusion:
    """A claim of the paper, and what our runs say of it.

    Parameters
    ----------
    name, sentence
        The claim, in a word and in a sentence.
    holds
        Whether it holds here; None where runs are missing.
    evidence
        Our figures, or which cells are missing.
    beside
        Of a claim about syn-products, what runs with the other kind of features say.
    compared
        Whether it is those for comparison that it is judged by, since some of the
        others are missing.
    """

    name: str
    sentence: str
    holds: bool | None
    evidence: str
    beside: str = ""
    compared: bool = False


@dataclass(frozen=True)
class Claim:
    """What the paper says, and how it is checked.

    Parameters
    ----------
    name, sentence
        The claim, in a word and in a sentence.
    experiment
        The table that it is about.
    rows, columns
        The cells that it is about; no columns are all of the table's.
    check
        Gives from those cells whether it holds, and the figures.
    """

    name: str
    sentence: str
    experiment: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    check: Callable[[Cells], tuple[bool, str]]

    def missing(self, table: Table) -> tuple[int, int]:
        """Return how many of its cells a table lacks, and of how many."""
        cells = self._cells(table)
        columns = self.columns or table.columns or ("",)
        found = [
            cells.get(row, {}).get(column) for row in self.rows for column in columns
        ]
        return sum(cell is None or cell.mean is None for cell in found), len(found)

    def conclude(self, table: Table) -> Conclusion:
        """Return what a table says of the claim."""
        missing, of = self.missing(table)
        if missing:
            told = f"{NOT_YET} ({missing} of {of} cells of {self.experiment})."
            return Conclusion(self.name, self.sentence, None, told)
        return Conclusion(self.name, self.sentence, *self.check(self._cells(table)))

    def _cells(self, table: Table) -> Cells:
        wanted = self.columns or table.columns
        return {
            name: {c: cell for c, cell in table.row(name).items() if c in wanted}
            for name in (row.name for row in table.rows)
            if name in self.rows
        }


def _leads(
    name: str, setting: str, which: str, columns: tuple[str, ...]
) -> Iterator[Claim]:
    """Return that H2GCN leads in such settings, on both kinds of synthetic graphs."""
    for where in ("syn-cora", "syn-products"):
        yield Claim(
            f"{name}-on-{where}",
            LEADS.format(setting, f"{where}, {which}"),
            where,
            SYNTHETIC_MODELS,
            columns,
            partial(checks.best_or_level, ours=BOTH),
        )


CLAIMS = (
    Claim(
        "below-mlp",
        "Where neighbours are seldom alike (syn-cora, h ≤ 0.3), GCN, GAT and MixHop do "
        "worse than MLP, which does not look at the graph.",
        "syn-cora",
        ("gcn", "gat", "mixhop", "mlp"),
        ELEVEN[:6],
        checks.below_mlp,
    ),
    Claim(
        "none-above-mlp",
        "At h = 0.1 on syn-cora no model but H2GCN does better than MLP.",
        "syn-cora",
        SYNTHETIC_MODELS,
        ELEVEN[1:2],
        partial(checks.none_above_mlp, ours=BOTH),
    ),
    *_leads("best", "heterophily", "h < 0.5", ELEVEN[:5]),
    Claim(
        "best-on-real",
        LEADS.format("heterophily", "the six real ones"),
        "real",
        REAL_MODELS,
        GROUPS["heterophily"],
        partial(checks.best_or_level, ours=BOTH),
    ),
    *_leads("level", "homophily", "h ≥ 0.7", ELEVEN[7:]),
    *(
        Claim(
            f"perfect-heterophily-on-{where}",
            "All models that see the graph, but GCN and GAT, do better where no "
            f"neighbours are alike (h = 0) than at h = 0.1 to 0.3: {where}.",
            where,
            tuple(m for m in SYNTHETIC_MODELS if m not in (*PLAIN, "mlp")),
            ELEVEN[:4],
            checks.perfect_heterophily,
        )
        for where in ("syn-cora", "syn-products")
    ),
    Claim(
        "designs-help",
        "On each of the six real benchmarks of heterophily, the best model with some "
        "of the three designs is ahead of GCN and GAT, which have none.",
        "real",
        DESIGNED + PLAIN,
        GROUPS["heterophily"],
        partial(checks.designs_help, without=PLAIN),
    ),
    Claim(
        "ego-apart",
        "Keeping a node apart from its neighbours (design D1) is worth up to some 40 "
        "points, and something at every h < 0.7.",
        "ablation",
        ("h2gcn-1", "h2gcn-ns0", "h2gcn-s1", "h2gcn-ns1"),
        TWELVE[:7],
        checks.ego_apart,
    ),
    Claim(
        "apart-in-homophily",
        "H2GCN-1 is the best of the variants of design D1 in homophily, too (h ≥ 0.7; "
        "best or level).",
        "ablation",
        ("h2gcn-1", "h2gcn-s1", "h2gcn-ns0", "h2gcn-ns1"),
        TWELVE[7:],
        checks.apart_in_homophily,
    ),
    Claim(
        "every-neighbourhood",
        "Leaving out any of the node itself (N0), its 1-hop (N1) or its 2-hop "
        "neighbours (N2) costs accuracy (design D2; h ≤ 0.9, above which all but "
        "everything is right).",
        "ablation",
        ("h2gcn-1", "h2gcn-n0", "h2gcn-n1", "h2gcn-s1"),
        TWELVE[:10],
        checks.every_neighbourhood,
    ),
    Claim(
        "importance-turns",
        "Under heterophily (h < 0.5) N0 is missed most of the three; from h = 0.7 on "
        "the order is reversed: N2, N1, N0.",
        "ablation",
        ("h2gcn-1", "h2gcn-n0", "h2gcn-n1", "h2gcn-s1"),
        TWELVE[:5] + TWELVE[7:],
        checks.importance_turns,
    ),
    Claim(
        "all-rounds",
        "H2GCN-2, whose last layer sees all rounds (design D3), is the best of its "
        "variants, followed by the one without round 2 (K2).",
        "ablation",
        tuple(checks.ROUNDS.values()),
        TWELVE,
        checks.all_rounds,
    ),
    Claim(
        "first-round",
        "Of the rounds that the last layer sees (design D3), the node's own embedding "
        "(K0) is missed most at h ≤ 0.5.",
        "ablation",
        ("h2gcn-2", "h2gcn-k0", "h2gcn-k1", "h2gcn-1"),
        TWELVE[:6],
        checks.first_round,
    ),
    Claim(
        "degree-gap",
        "The gap in accuracy between nodes of low and of high degree is larger at "
        "h = 0.2 than at h = 0.8.",
        "degree",
        tuple(f"{model}, h = {h}" for model in BOTH for h in (0.2, 0.8)),
        (),
        partial(checks.degree_gap, models=BOTH),
    ),
    Claim(
        "linear-is-enough",
        "A non-linearity in every round does not make H2GCN-2 better.",
        "ablation",
        ("h2gcn-2", "h2gcn-nonlinear"),
        TWELVE,
        checks.linear_is_enough,
    ),
    Claim(
        "above-geom-gcn",
        "On each of the six real benchmarks of heterophily the best of the other "
        "models is ahead of Geom-GCN.",
        "real",
        REAL_MODELS,
        GROUPS["heterophily"],
        partial(checks.designs_help, without=("geom-gcn",)),
    ),
    Claim(
        "best-ranks",
        "H2GCN-1 and H2GCN-2 have the best average ranks over the real benchmarks.",
        "real",
        REAL_MODELS,
        sum(GROUPS.values(), ()),
        partial(checks.best_ranks, ours=BOTH),
    ),
)
"""In the order of the paper."""


def conclude(
    tables: Mapping[str, Table], compared: Mapping[str, Table]
) -> list[Conclusion]:
    """Return what tables say of each of the paper's conclusions.

    Parameters
    ----------
    tables
        Tables of ours by experiment, as `h2gcn.experiments.stored_result` makes them;
        those on syn-products with twenty Gaussians a class.
    compared
        Those with one, by experiment. A claim is judged by them where cells that it
        is about are missing in the others.
    """
    found = []
    for claim in CLAIMS:
        said = claim.conclude(tables[claim.experiment])
        if claim.experiment in compared:
            said = _beside(said, claim.conclude(compared[claim.experiment]))
        found.append(said)
    return found


def _beside(said: Conclusion, other: Conclusion) -> Conclusion:
    """Return a conclusion with what another kind of features says of it."""
    if said.holds is not None:
        return replace(
            said, evidence=f"{TWENTY}: {said.evidence}", beside=_told(ONE, other)
        )
    if other.holds is None:
        return said
    return replace(
        other,
        evidence=f"{ONE}: {other.evidence}",
        beside=_told(TWENTY, said),
        compared=True,
    )


def _told(features: str, said: Conclusion) -> str:
    if said.holds is None:
        return f"{features} {said.evidence}"
    verdict = "it holds, too" if said.holds else "it does not hold"
    return f"{features} {verdict}. {said.evidence}"
