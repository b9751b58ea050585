"""The numbers of a diagnosis as short texts, for the terminal and the HTML page."""

from h2gcn.diagnosis.diagnosing import MEASURES, Diagnosis
from h2gcn.diagnosis.numbers import NONE, number, percent
from h2gcn.diagnosis.recommending import METRIC_WORDS, PLACES, QuickFit, QuickScore
from h2gcn.rings import RingForecast
from h2gcn.sparse import gigabytes

__all__ = [
    "NEIGHBOURS",
    "NONE",
    "card_facts",
    "degree_range",
    "direction_rows",
    "expectation",
    "measure_rows",
    "number",
    "percent",
    "quick_heads",
    "quick_rows",
    "quick_sentence",
    "ring_rows",
]

NEIGHBOURS = {
    "informative": "neighbours informative",
    "weak": "neighbours weakly informative",
    "uninformative": "neighbours uninformative",
}
"""What `Verdict.neighbours` says, in two or three words."""


def degree_range(low: int, high: int) -> str:
    """Return a range of degrees.

    Examples
    --------
    >>> degree_range(1, 1), degree_range(2, 3)
    ('1', '2–3')
    """
    return str(low) if low == high else f"{low}–{high}"


def expectation(helps: bool | None) -> str:
    """Return what to expect of a design, in a word or two."""
    return {True: "helps", False: "little to gain", None: "not known"}[helps]


def measure_rows(diagnosis: Diagnosis) -> list[tuple[str, str, str]]:
    """Return name, value and meaning of each measure, or why it has no value."""
    return [
        (
            key.replace("_", " ").replace("class insensitive", "class-insensitive"),
            number(diagnosis.measures[key]),
            diagnosis.undefined.get(key, meaning),
        )
        for key, meaning in MEASURES.items()
    ]


def ring_rows(diagnosis: Diagnosis) -> list[tuple[str, ...]]:
    """Return a row for each ring.

    Hops, pairs, those with two labels, their share alike, chance, adjusted, what one
    label tells of the other, and note.
    """
    return [
        (
            str(ring.hop),
            ("" if ring.exact else "about ") + f"{ring.entries // 2:,}",
            NONE if ring.labelled is None else f"{ring.labelled:,}",
            number(ring.homophily),
            number(ring.chance),
            number(ring.adjusted),
            number(ring.informativeness),
            ring.note,
        )
        for ring in diagnosis.rings
    ]


def direction_rows(diagnosis: Diagnosis) -> list[tuple[str, ...]]:
    """Return a row for each path along directions.

    Path, whose labels they are, walks, their share alike, chance, what the label at the
    end tells of the one at the beginning, and note.
    """
    return [
        (
            one.path,
            PLACES[one.path],
            f"{one.walks:,}",
            number(one.homophily),
            number(one.chance),
            number(one.informativeness),
            one.note,
        )
        for one in diagnosis.directions
    ]


def quick_sentence(quick: QuickFit) -> str:
    """Return what was fitted, on how many nodes, and how long it took."""
    if quick.note:
        return f"Nothing was fitted: {quick.note}."
    metric = METRIC_WORDS[quick.metric]
    return (
        f"{metric[0].upper()}{metric[1:]} on {quick.held_out} that the models were not "
        f"fitted to; always saying the largest class has {percent(quick.majority, 1)}. "
        f"It took {quick.seconds:.1f} s; after {quick.time_limit:g} s no further model "
        "is begun."
    )


def quick_heads(quick: QuickFit) -> tuple[str, ...]:
    """Return the heads of `quick_rows`."""
    return ("model", "sees", METRIC_WORDS[quick.metric], "behind", "seconds", "note")


def quick_rows(quick: QuickFit) -> list[tuple[str, ...]]:
    """Return a row for each model of a quick fit.

    Model, what it sees, its score, how far it is behind the best with the standard
    error of that, seconds, and note.
    """
    return [
        (
            row.name,
            row.sees,
            NONE if row.score is None else percent(row.score, 1),
            _behind(row),
            f"{row.seconds:.1f}",
            row.note,
        )
        for row in quick.rows
    ]


def _behind(row: QuickScore) -> str:
    if row.behind is None or row.behind_error is None:
        return NONE
    if not row.behind and not row.behind_error:
        return ""
    return f"{100 * row.behind:.1f} ± {100 * row.behind_error:.1f}"


def card_facts(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """Return the card's counts, a name and a text each."""
    card = diagnosis.card
    directed = card["directed_edges"]
    degree = float(card["mean_degree"])  # type: ignore[arg-type]
    given = "" if directed is None else f" ({directed:,} with directions)"
    sizes = card["split_sizes"]
    mean = ", the mean of them" if card["splits"] != 1 else ""
    parts = f" (train, val, test: {', '.join(map(str, sizes))}{mean})" if sizes else ""  # type: ignore[call-overload]
    return [
        ("nodes", f"{card['nodes']:,}"),
        ("labelled nodes", f"{card['labelled']:,}"),
        ("classes", f"{card['classes']:,}"),
        ("features", f"{card['features']:,}"),
        ("edges", f"{card['edges']:,}{given}"),
        ("edges between labelled nodes", f"{diagnosis.labelled_edges:,}"),
        ("degree", f"mean {number(degree, 1)}, highest {card['max_degree']:,}"),
        ("nodes without neighbours", f"{card['isolated']:,}"),
        ("splits", f"{card['splits']:,}{parts}"),
        ("rings", _forecast(diagnosis.forecast)),
        ("checksum", str(card["checksum"])),
    ]


def _forecast(forecast: RingForecast) -> str:
    about = "" if forecast.exact else "about "
    return (
        f"{about}{sum(forecast.entries):,} entries up to {len(forecast.entries)} hops, "
        f"{gigabytes(forecast.bytes)} to train on them"
    )
