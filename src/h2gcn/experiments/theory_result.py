"""The experiment "theory": the three theorems in numbers, as tables and figures."""

from typing import Any

from h2gcn._validation import check_choice
from h2gcn.experiments.theory_robustness import robustness_figures, robustness_tables
from h2gcn.experiments.theory_spectrum import spectrum_entries
from h2gcn.experiments.theory_two_hop import two_hop_entries

__all__ = ["theory_result"]

GRAPHS = {"quick": 5, "standard": 20, "paper": 50}
"""Random graphs of each kind for each value of h in Theorem 2."""
PAIRS = {"quick": 500, "standard": 5000, "paper": 20000}
"""Random pairs of labelings of each kind in Theorem 3."""

NOTES: list[str] = []


def theory_result(protocol: str) -> dict[str, Any]:
    """Check the three theorems in numbers and return what tables and figures show.

    Every number is found by trial or measured, and the `paper` beside it is the
    closed form.

    Parameters
    ----------
    protocol
        "quick", "standard" or "paper": how many random graphs and pairs are drawn.
    """
    protocol = check_choice("theory_result", "protocol", protocol, GRAPHS)
    two_hop_table, two_hop_figure = two_hop_entries(GRAPHS[protocol])
    spectrum_table, spectrum_figures = spectrum_entries(PAIRS[protocol])
    return {
        "experiment": "theory",
        "title": "The three theorems in numbers",
        "protocol": protocol,
        "notes": NOTES,
        "tables": [*robustness_tables(), two_hop_table, spectrum_table],
        "figures": [*robustness_figures(), two_hop_figure, *spectrum_figures],
        "cards": {},
        "not_run": [],
        "failed": [],
    }
