"""What the diagnosis says, on graphs where the answer is plain."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, strategies as st

from h2gcn import Graph, Split, load_dataset
from h2gcn.cli import main
from h2gcn.cli.console import percent as score
from h2gcn.cli.diagnose import show
from h2gcn.diagnosis import ClassShare, diagnose, heat_palette, number, render_html
from h2gcn.diagnosis.advice import _ring, judge
from h2gcn.diagnosis.diagnosing import MEASURES, DegreeBin
from h2gcn.diagnosis.display import _luminance, card_facts
from h2gcn.diagnosis.numbers import percent, percents
from h2gcn.experiments import Result
from h2gcn.experiments.report import FACTS, card_views
from h2gcn.homophily import DegreeRange, RingShare
from h2gcn.io import write_npz, write_tables
from support.cases import each
from support.commands import Run
from support.graphs import NAMED, adjacency
from support.refusals import only, refused

EVIL = "<script>alert(1)</script>"
VOID = {"meta", "br", "hr", "img", "input", "link"}


def bipartite(**given: object) -> Graph:
    """Return K4,4 with a class on either side."""
    edges = [(u, v) for u in range(4) for v in range(4, 8)]
    given = {"y": np.arange(8) // 4, "name": "bipartite", **given}
    return Graph(x=np.eye(8), adj=adjacency(8, edges), **given)  # type: ignore[arg-type]


def two_cliques() -> Graph:
    """Return two K4 of a class each, joined by one edge."""
    edges = [(u, v) for k in (0, 4) for u in range(k, k + 4) for v in range(k, u)]
    return Graph(x=np.eye(8), adj=adjacency(8, [*edges, (0, 4)]), y=np.arange(8) // 4)


def unlabelled() -> Graph:
    return Graph(x=np.eye(5), adj=NAMED["star"])


def many_classes(n: int = 70) -> Graph:
    """Return a ring of n nodes, each a class of its own but the last two."""
    ring = adjacency(n + 1, [(i, (i + 1) % (n + 1)) for i in range(n + 1)])
    y = np.minimum(np.arange(n + 1), n - 1)
    names = [f"class number {k}" for k in range(n)]
    return Graph(x=np.eye(n + 1), adj=ring, y=y, classes=np.array(names))


GRAPHS = {
    "bipartite": bipartite(),
    "two cliques": two_cliques(),
    "no edges": Graph(x=np.eye(3), adj=NAMED["no edges"], y=[0, 1, 1]),
    "one class": Graph(x=np.eye(5), adj=NAMED["path"], y=[0] * 5),
    "one node": Graph(x=np.eye(1), adj=np.zeros((1, 1)), y=[0]),
    "unlabelled": unlabelled(),
    "partly labelled": Graph(x=np.eye(5), adj=NAMED["path"], y=[0, -1, 1, -1, 0]),
    "class without edges": Graph(
        x=np.eye(4), adj=NAMED["isolated last node"], y=[0, 1, 0, 2]
    ),
    "evil names": bipartite(classes=[EVIL, "[bold]b[/]"], name=EVIL),
    "seventy classes": many_classes(),
    "leaking split": bipartite(splits=(Split([0, 4], [1], [0, 5]),)),
}


# ----------------------------------------------------------------------------- verdict


def test_a_bipartite_graph_is_heterophilous_and_its_second_ring_alike() -> None:
    found = diagnose(bipartite())
    verdict = found.verdict
    assert (verdict.kind, verdict.neighbours) == ("heterophilous", "informative")
    assert found.measures == pytest.approx(  # there are logarithms among them
        {
            "edge_homophily": 0.0,
            "node_homophily": 0.0,
            "class_insensitive_homophily": 0.0,
            "adjusted_homophily": -1.0,
            "label_informativeness": 1.0,
            "label_smoothness": 1.0,
            "feature_smoothness": 0.5,  # two of eight columns, twice
        }
    )
    assert found.compatibility == ((0.0, 1.0), (1.0, 0.0))
    assert found.classes == (ClassShare("0", 4, 0.0), ClassShare("1", 4, 0.0))
    near, far = found.rings
    assert (near.entries, near.homophily, near.chance, near.adjusted) == (
        32,
        0,
        0.5,
        -1,
    )
    assert (far.entries, far.homophily, far.chance, far.adjusted) == (24, 1, 0.5, 1)
    assert (near.labelled, far.labelled) == (near.entries // 2, far.entries // 2)
    assert verdict.models == (
        *("auto", "h2gcn-1", "h2gcn-2", "mlp", "linbp", "ring-table"),
    )
    assert [design.helps for design in verdict.designs] == [True, True, True]
    text = "\n".join(verdict.sentences)
    assert "D1, ego and neighbours kept apart" in text
    assert "100% of the pairs two hops apart are alike, against 0%" in text
    assert "rests on 16 edges" in text


def test_two_cliques_are_homophilous() -> None:
    found = diagnose(two_cliques())
    assert found.verdict.kind == "homophilous"
    assert found.measures["edge_homophily"] == 12 / 13
    assert found.measures["adjusted_homophily"] == pytest.approx(11 / 13)
    assert found.verdict.models == (
        *("auto", "h2gcn-1", "h2gcn-2", "mlp", "gcn", "label-propagation"),
        "ring-table",
    )
    # Ring 2 joins only the bridge's ends with the other clique.
    assert found.rings[1].homophily == 0.0
    assert [design.helps for design in found.verdict.designs] == [False, False, True]


def test_a_graph_in_between_is_mixed() -> None:
    # Two triangles joined by two edges: 6 of 8 edges are alike, chance gives half.
    edges = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (0, 3), (1, 4)]
    graph = Graph(x=np.eye(6), adj=adjacency(6, edges), y=[0, 0, 0, 1, 1, 1])
    found = diagnose(graph)
    # Rounding may put 0.5 on either side; one more edge leaves no doubt.
    more = Graph(x=np.eye(6), adj=adjacency(6, [*edges, (2, 5)]), y=graph.y)
    assert found.measures["adjusted_homophily"] == pytest.approx(0.5)
    assert diagnose(more).measures["adjusted_homophily"] == pytest.approx(1 / 3)
    assert diagnose(more).verdict.kind == "mixed"
    assert "gcn" in diagnose(more).verdict.models


def test_neighbours_that_say_nothing_leave_it_to_the_features() -> None:
    # Each node has as many neighbours of its class as of the other, at one hop and two.
    whole = np.ones((8, 8)) - np.eye(8) - np.kron(np.eye(4), [[0, 1], [1, 0]])
    verdict = diagnose(Graph(x=np.eye(8), adj=whole, y=[0, 0, 1, 1] * 2)).verdict
    assert (verdict.kind, verdict.neighbours) == ("heterophilous", "weak")
    ring = adjacency(8, [(i, (i + 1) % 8) for i in range(8)])
    graph = Graph(x=np.eye(8), adj=ring, y=[0, 0, 1, 1] * 2)
    verdict = diagnose(graph, hops=1).verdict
    assert (verdict.kind, verdict.neighbours) == ("heterophilous", "uninformative")
    assert "say almost nothing" in verdict.summary[1]
    assert "have to decide" in verdict.summary[1]
    assert "If mlp" in verdict.advice[-1]
    # Two hops away all are of the other class: features are not all there is.
    assert "but those of other nodes nearby do" in diagnose(graph).verdict.summary[1]


def test_a_second_ring_that_is_alike_only_by_chance_is_said_to_be() -> None:
    # A star whose leaves are of one class but for one: its second ring is all leaves.
    n = 101
    star = adjacency(n, [(0, leaf) for leaf in range(1, n)])
    graph = Graph(x=np.eye(n), adj=star, y=[1, 1] + [0] * (n - 2))
    far = diagnose(graph).rings[1]
    assert far.homophily == pytest.approx(0.98)
    assert far.adjusted == pytest.approx(-1 / 99)
    design = diagnose(graph).verdict.designs[1]
    assert design.helps is False
    assert "but at that distance chance would give 98%" in design.reason


@each(
    ("name", "kind", "words", "models"),
    [
        ("no edges", "undefined", "there are no edges", ("auto", "mlp")),
        ("one class", "undefined", "of a single class", ()),
        ("one node", "undefined", "of a single class", ()),
        ("unlabelled", "unlabelled", "Nothing is labelled", ()),
        (
            "partly labelled",
            "undefined",
            "no edge joins two labelled nodes",
            ("auto", "h2gcn-1", "h2gcn-2", "mlp", "gcn", "ring-table"),
        ),
    ],
)
def test_where_homophily_has_no_value_the_verdict_says_why(
    name: str, kind: str, words: str, models: tuple[str, ...]
) -> None:
    found = diagnose(GRAPHS[name])
    assert found.verdict.kind == kind
    assert found.verdict.neighbours is None
    assert found.verdict.designs == ()
    assert words in found.verdict.summary[0]
    assert found.verdict.models == models
    assert found.measures["adjusted_homophily"] is None
    assert found.undefined["adjusted_homophily"]


def test_edges_within_a_single_class_are_no_verdict_on_the_others() -> None:
    graph = Graph(x=np.eye(4), adj=NAMED["isolated last node"], y=[0, 0, 0, 1])
    found = diagnose(graph)
    assert found.verdict.kind == "undefined"
    assert "lie in a single class" in found.verdict.summary[0]
    assert found.measures["edge_homophily"] == 1.0
    assert found.compatibility == ((1.0, 0.0), (None, None))
    assert found.classes[1] == ClassShare("1", 1, None)


def test_an_unlabelled_graph_has_structure_only() -> None:
    found = diagnose(unlabelled())
    assert found.measures.pop("feature_smoothness") == pytest.approx(0.8)
    assert set(found.measures.values()) == {None}
    assert set(found.undefined) == set(MEASURES) - {"feature_smoothness"}
    assert set(found.undefined.values()) == {"nothing is labelled"}
    assert found.compatibility is None
    assert found.degree_homophily == found.classes == ()
    assert [ring.note for ring in found.rings] == ["nothing is labelled"] * 2
    assert [ring.entries for ring in found.rings] == [8, 12]
    assert found.degrees == (DegreeBin(0, 0, 0), DegreeBin(1, 1, 4), *_bins((2, 3, 0)))


def _bins(*rows: tuple[int, int, int]) -> tuple[DegreeBin, ...]:
    return (*(DegreeBin(*row) for row in rows), DegreeBin(4, 7, 1))


def test_twins_and_leakage_are_cautions() -> None:
    graph = bipartite(splits=(Split([0, 4], [1], [2]),))
    (_, twins) = diagnose(graph).verdict.cautions
    assert twins.startswith("Twins: 100.0% of the test nodes")
    cautions = diagnose(GRAPHS["leaking split"]).verdict.cautions
    assert "worthless results: 1 node is in more than one part" in cautions[1]


# ------------------------------------------------------------------- words and numbers

NEAR_ENDS = st.sampled_from([0.0, 1e-9, 0.004, 0.495, 0.4951, 0.505, 0.996, 1 - 1e-9])
MANY = 10**18
"""Pairs enough that no gap is noise."""
SHARES = st.floats(0, 1) | st.integers(0, 100).map(lambda k: k / 100) | NEAR_ENDS


def shown(text: str) -> float:
    """Return the number of a text; a bound stands for what is a little inside it."""
    inside = {"<": -1e-9, ">": 1e-9}.get(text[0], 0.0)
    return float(text.strip("<>%")) + inside


def verdict_of(share: float, chance: float, informativeness: float) -> tuple[str, ...]:
    """Return the kind, and the two sentences that tell measures."""
    adjusted = (share - chance) / (1 - chance)
    rings = [RingShare(1, 2 * MANY, True, share, chance, adjusted, "", MANY)]
    verdict = judge(bipartite(), adjusted, informativeness, rings, (), MANY)
    return (verdict.kind, *verdict.summary)


@given(share=SHARES, chance=SHARES, informativeness=SHARES)
def test_no_sentence_contradicts_its_numbers(
    share: float, chance: float, informativeness: float
) -> None:
    assume(chance < 1 - 1e-6)
    kind, alike, told = verdict_of(share, chance, informativeness)
    found = re.search(
        r"\((\S+) of the edges .* give (\S+); .* homophily (\S+)\)", alike
    )
    assert found is not None
    own, by_chance, adjusted = map(shown, found.groups())
    words = alike.partition("(")[0]
    assert words.lower().startswith(kind)
    assert ("most neighbours are unlike" in words) <= (own < 50)
    assert ("most neighbours are alike" in words) <= (own >= 50)
    assert ("about half" in words) <= (49 <= own <= 51)
    # Against one half only where there is something to be said against chance.
    by_chance_only = "no more alike than by chance" in words
    assert ("most" in words or "about half" in words) == (not by_chance_only)
    assert ("more often than by chance" in words) == (
        own > by_chance and not by_chance_only
    )
    assert ("less often than by chance" in words) == (
        own < by_chance and not by_chance_only
    )
    assert by_chance_only <= (abs(own - by_chance) <= 3)
    assert ("without preference" in words) <= (abs(adjusted) <= 0.1 + 1e-6)
    assert (kind == "homophilous") == (adjusted >= 0.5)
    assert (kind == "heterophilous") <= (adjusted <= 0.1 and own <= 50)
    assert (kind == "mixed") <= (adjusted < 0.5)
    value = shown(re.search(r"informativeness (\S+?)\)", told)[1])  # type: ignore[index]
    assert ("almost nothing" in told) <= (value < 0.02)
    assert ("says little" in told) <= (value < 0.1)
    assert ("says something" in told) == (0.1 <= value < 0.5)
    assert ("says much" in told) == (value >= 0.5)
    assert ("unlike" in told) <= (own < 50)
    for text, exact in ((found[1], share), (found[2], chance)):
        assert (text.startswith("0%")) <= (exact < 1e-11)
        assert (text.startswith("100%")) <= (exact > 1 - 1e-11)


@given(near=SHARES, far=SHARES, chance=SHARES)
def test_the_second_rings_sentence_does_not_contradict_its_numbers(
    near: float, far: float, chance: float
) -> None:
    assume(chance < 1 - 1e-6)
    adjusted = (far - chance) / (1 - chance)
    rings = [
        RingShare(1, 2, True, near, 0.5, 2 * near - 1, "", 1),
        RingShare(2, 2, True, far, chance, adjusted, "", MANY),
    ]
    design = _ring(rings)
    own = shown(design.reason.split()[0])
    found = re.search(r"chance would give (\S+?%)", design.reason)
    if found is not None:
        by_chance = shown(found[1])
        assert bool(design.helps) <= (own > by_chance)
        assert ("no sign" in design.reason) <= (own <= by_chance + 3)
        assert ("little sign" in design.reason) <= (own > by_chance)
    assert ("sign of a gain" in design.reason) == (not design.helps)


@each(
    ("share", "chance", "kind", "said"),
    [
        (0.79, 0.77, "mixed", "neighbours are no more alike than by chance (79%"),
        (0.94, 0.95, "mixed", "most neighbours are alike, but less often than by"),
        (
            0.06,
            0.27,
            "heterophilous",
            "unlike, and alike less often than by chance",
        ),
        (
            0.12,
            0.02,
            "heterophilous",
            "unlike, but alike more often than by chance",
        ),
        (0.22, 0.21, "heterophilous", "are no more alike than by chance (22%"),
        (0.50, 0.50, "heterophilous", "are no more alike than by chance (50%"),
        (0.985, 0.98, "mixed", "more often than by chance (98.5% of the edges"),
        (0.81, 0.18, "homophilous", "most neighbours are alike, more often than by"),
    ],
)
def test_neighbours_are_told_against_one_half_and_against_chance(
    share: float, chance: float, kind: str, said: str
) -> None:
    found, sentence, _ = verdict_of(share, chance, 0.3)
    assert found == kind
    assert said in sentence


@given(value=st.floats(-1, 1), digits=st.integers(0, 4))
def test_nothing_is_rounded_to_all_or_none(value: float, digits: int) -> None:
    text = number(value, digits)
    whole = min((0.0, 1.0, -1.0), key=lambda w: abs(value - w))
    if text[0] in "<>":
        bound = float(text[1:])
        assert value < bound if text[0] == "<" else value > bound
        assert abs(bound - whole) == pytest.approx(10.0**-digits)
    else:
        assert abs(float(text) - value) <= 0.5 * 10.0**-digits + 1e-12
        assert float(text) not in (0, 1, -1) or abs(value - whole) <= 1e-12
        assert not text.startswith("-0") or float(text) < 0


def test_numbers_as_they_are_shown() -> None:
    assert [number(v, 2) for v in (0.998, 1.0, 0.9949, 0.004, 0.0, -0.0, None)] == [
        *(">0.99", "1.00", "0.99", "<0.01", "0.00", "0.00", "–"),
    ]
    assert number(1 / 3 + 1 / 3 + 1 / 3 - 1e-16, 2) == "1.00"
    assert [percent(v) for v in (0.997, 1.0, 0.003, 0.0)] == [
        *(">99%", "100%", "<1%", "0%"),
    ]
    assert percents(0.7949, 0.7946) == ("79.49%", "79.46%")
    assert percents(0.9999, 0.9998) == ("99.99%", "99.98%")


def test_a_share_near_one_is_not_all_of_it_anywhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Two cliques of 40 joined by an edge: 1,560 of 1,561 edges join equal labels.
    blocks = np.kron(np.eye(2), np.ones((40, 40))) - np.eye(80)
    blocks[0, 40] = blocks[40, 0] = 1
    names = ["first", "second"]
    graph = Graph(x=np.eye(80), adj=blocks, y=np.arange(80) // 40, classes=names)
    found = diagnose(graph)
    show(found)
    out = capsys.readouterr().out
    assert ">99% of the edges join equal labels" in " ".join(out.split())
    assert "adjusted homophily >0.99" in " ".join(out.split())
    assert re.search(r"first +>0\.99 +<0\.01", out)
    page = parse(render_html(found).partition("<body>")[2].partition("</body>")[0]).text
    assert ">99% of the edges join equal labels" in page
    for text in (out, page):
        assert "100%" not in text
        assert "1.00" not in text.replace("1.000", "")  # by degree: all alike, but two


# ------------------------------------------------------------------------- large rings


def hub_graph(n: int = 20_001) -> Graph:
    """Return a star with a path through its leaves."""
    leaves = np.arange(1, n)
    ends = np.r_[np.zeros(n - 1, int), leaves[:-1]], np.r_[leaves, leaves[1:]]
    half = sp.coo_array((np.ones(len(ends[0]), np.float32), ends), shape=(n, n))
    x, names = np.ones((n, 1)), np.array(["ring_cap=hub", *map(str, leaves)])
    return Graph(x=x, adj=(half + half.T).tocsr(), y=np.arange(n) % 2, node_ids=names)


def test_a_hubs_ring_is_a_warning_with_its_size_its_reason_and_a_remedy() -> None:
    found = diagnose(hub_graph())
    (finding,) = [one for one in found.audit.findings if one.kind == "large_rings"]
    assert (finding.severity, finding.count) == ("warning", found.forecast.entries[1])
    assert finding.message in found.verdict.cautions
    times = round(found.forecast.entries[1] / found.forecast.entries[0])
    for told in (
        f"The 2-hop ring holds about {finding.count:,} entries, {times:,} times those",
        "takes about 9.2 GB",
        "node ring_cap=hub is a hub of 20,000 neighbours",
        "With ring_cap=64, which samples 64 entries per node, it takes about",
    ):
        assert told in finding.message
    severities = [one.severity for one in found.audit.findings]
    assert severities == sorted(severities, key=("error", "warning", "note").index)
    assert "large_rings" in json.dumps(found.to_json())
    assert parse(render_html(found)).text.count(finding.message) == 2


def test_the_command_line_names_its_own_option(tmp_path: Path, run: Run) -> None:
    write_npz(hub_graph(), tmp_path / "hub.npz")
    page = tmp_path / "hub.html"
    _, out, _ = run("diagnose", tmp_path / "hub.npz", "--json", "--html", page)
    told = json.loads(out)
    (caution,) = told["verdict"]["cautions"]
    assert caution in [one["message"] for one in told["audit"]["findings"]]
    assert caution in told["verdict"]["sentences"]
    assert "node ring_cap=hub is a hub" in caution
    assert "With --ring-cap 64, which" in caution
    assert caution in parse(page.read_text("utf-8")).text
    _, out, _ = run("diagnose", tmp_path / "hub.npz")
    assert " ".join(out.split()).count("With --ring-cap 64, which") == 2


def test_rings_are_large_by_the_memory_there_is_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not diagnose(GRAPHS["bipartite"]).audit.findings
    star = adjacency(80, [(0, leaf) for leaf in range(1, 80)])
    graph = Graph(x=np.eye(80), adj=star, y=np.arange(80) % 2)
    monkeypatch.setattr("h2gcn.diagnosis.auditing.available_memory", lambda: 4 * 10**5)
    found = diagnose(graph, hops=3)
    (told,) = [f.message for f in found.audit.findings if f.severity == "warning"]
    assert told.startswith("The rings of 2 to 3 hops hold 6,162 entries, 39 times")
    # A cap of 64 would leave most of a ring of 78.
    assert "With ring_cap=16" in told
    # A ring of four entries a node is below every cap.
    monkeypatch.setattr("h2gcn.diagnosis.auditing.available_memory", lambda: 10**3)
    path = Graph(x=np.eye(5), adj=NAMED["star"], y=[0, 1, 0, 1, 0])
    (told,) = [f.message for f in diagnose(path).audit.findings if f.count == 12]
    assert told.endswith(
        "node 0 is a hub of 4 neighbours, at most two hops apart. "
        "The model h2gcn-s1 leaves it out."
    )


def test_several_hubs_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("h2gcn.diagnosis.auditing.available_memory", lambda: 10**3)
    edges = [
        (hub, leaf) for hub in range(3) for leaf in range(5 * hub + 3, 5 * hub + 8)
    ]
    graph = Graph(x=np.eye(18), adj=adjacency(18, edges), y=np.arange(18) % 2)
    (told,) = [
        f.message for f in diagnose(graph).audit.findings if f.severity != "note"
    ]
    assert "2 hubs have from 5 to 5 neighbours (node 0), at most two hops" in told


# ------------------------------------------------------------------------------- parts


@each("graph", GRAPHS.values(), ids=GRAPHS)
def test_every_node_is_in_one_bin_of_the_histogram(graph: Graph) -> None:
    bins = diagnose(graph).degrees
    assert sum(part.count for part in bins) == graph.n_nodes
    assert [part.low for part in bins] == [0, *(2**i for i in range(len(bins) - 1))]
    for part in bins:
        inside = (part.low <= graph.degrees) & (graph.degrees <= part.high)
        assert part.count == inside.sum()


def test_homophily_by_degree() -> None:
    found = diagnose(two_cliques())
    assert found.degree_homophily == (
        DegreeRange(2, 3, 6, 1.0),
        DegreeRange(4, 7, 2, 0.75),
    )


def test_a_ring_over_the_limit_is_left_out_and_named() -> None:
    found = diagnose(bipartite(), max_ring_entries=23)
    assert found.rings[1].labelled is None
    assert found.rings[0].homophily == 0.0
    far = found.rings[1]
    assert (far.entries, far.exact, far.homophily) == (24, True, None)
    assert (
        far.note == "left out, as it would hold 24 entries, more than the limit of 23"
    )
    assert found.verdict.designs[1].helps is None
    assert far.note in found.verdict.designs[1].reason
    assert any(far.note in sentence for sentence in found.verdict.sentences)
    assert diagnose(bipartite(), max_ring_entries=24).rings[1].homophily == 1.0


def test_rings_beyond_one_left_out_are_left_out_too() -> None:
    graph = Graph(x=np.eye(5), adj=NAMED["path"], y=[0, 1, 0, 1, 0])
    shares = [ring.homophily for ring in diagnose(graph, hops=3).rings]
    assert shares == [0.0, 1.0, 0.0]
    rings = diagnose(graph, hops=3, max_ring_entries=5).rings
    assert [ring.homophily for ring in rings] == [0.0, None, None]
    assert rings[2].note == "left out, as ring 2 was"


def test_a_ring_is_looked_at_some_rows_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = diagnose(bipartite()).rings
    monkeypatch.setattr("h2gcn.rings.rings.ITER_ENTRIES", 1)
    assert diagnose(bipartite()).rings == whole


def test_without_the_second_ring_nothing_is_said_about_it() -> None:
    found = diagnose(bipartite(), hops=1)
    assert len(found.rings) == len(found.forecast.entries) == 1
    assert found.verdict.designs[1].helps is None


@each("given", [{"hops": 0}, {"max_ring_entries": -1}])
def test_parameters_are_checked(given: dict[str, int]) -> None:
    with refused(**only(given), words="must be an integer"):
        diagnose(bipartite(), **given)


@each("graph", GRAPHS.values(), ids=GRAPHS)
def test_json_survives_a_round_trip(graph: Graph) -> None:
    plain = diagnose(graph).to_json()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["verdict"]["sentences"]
    assert set(plain["measures"]) == set(MEASURES)


# -------------------------------------------------------------------------------- page


class _Balanced(HTMLParser):
    """Checks that every tag is closed, and keeps tags and texts."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def parse(page: str) -> _Balanced:
    parser = _Balanced()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


@each("graph", GRAPHS.values(), ids=GRAPHS)
def test_the_page_is_whole_and_needs_nothing_else(graph: Graph) -> None:
    page = render_html(diagnose(graph))
    parsed = parse(page)
    assert page.lstrip().startswith("<!DOCTYPE html>")
    assert "http://" not in page
    assert "https://" not in page
    assert "@import" not in page
    assert "url(" not in page
    assert not {"script", "link", "img", "iframe", "object"} & set(parsed.tags)
    names = {name for name, _ in parsed.attributes}
    assert not {"src", "href", "xlink:href", "onload"} & names
    assert ("lang", "en") in parsed.attributes
    labels = [name for name, _ in parsed.attributes].count("aria-label")
    assert labels > parsed.tags.count("svg") >= 1
    for sentence in diagnose(graph).verdict.summary:
        assert sentence in parsed.text


def test_names_are_escaped_on_the_page() -> None:
    page = render_html(diagnose(GRAPHS["evil names"]))
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert EVIL in parse(page).text


def test_the_page_of_an_unlabelled_graph_says_so() -> None:
    text = parse(render_html(diagnose(unlabelled()))).text
    assert "Nothing is labelled" in text
    assert "Which classes are joined" not in text


def test_cells_of_the_heat_map_are_legible() -> None:
    for background, text in heat_palette():
        shade = _luminance(bytes.fromhex(background[1:]))
        light, dark = (1.0, shade) if text == "#fff" else (shade, 0.0)
        assert (light + 0.05) / (dark + 0.05) >= 4.5
    lightness = [_luminance(bytes.fromhex(shade[1:])) for shade, _ in heat_palette()]
    assert lightness == sorted(lightness, reverse=True)


# ------------------------------------------------------------------------ command line


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the tables of a small graph."""
    write_tables(bipartite(classes=["cat", EVIL]), tmp_path / "tables")
    return tmp_path / "tables"


@each("graph", GRAPHS.values(), ids=GRAPHS)
def test_the_terminal_page_fits_80_columns(
    graph: Graph, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    found = diagnose(graph)
    show(found)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out
    flat = " ".join(out.split())
    for sentence in found.verdict.summary:
        assert sentence in flat
    for name, _ in card_facts(found):
        assert name in out


def test_names_are_not_markup_on_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(diagnose(bipartite(classes=["[bold]b[/]", "\x1b[31mred :smile:"])))
    out = capsys.readouterr().out
    assert "[bold]b[/]" in out
    assert "\\x1b[31mred :smile:" in out


def test_many_classes_are_shown_by_their_extremes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(diagnose(many_classes()))
    out = capsys.readouterr().out
    assert "most alike within: class number 69 0.50" in out
    assert "and 50 others." in out


def test_columns_go_by_letters_where_names_are_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    graph = many_classes(12)
    names = [f"a rather long name of class {k}" for k in range(12)]
    show(diagnose(Graph(x=graph.x, adj=graph.adj, y=graph.y, classes=names)))
    lines = capsys.readouterr().out.splitlines()
    (head,) = [line for line in lines if line.startswith("from \\ to")]
    assert head.split()[3:] == list("abcdefghijkl")
    first = next(line for line in lines if line.startswith("a  a rather"))
    assert first.split()[-12:] == ["0.00", "0.50", *["0.00"] * 9, "0.50"]
    assert any(line.startswith(f"l  {names[-1]}") for line in lines)


def test_undefined_measures_are_a_dash_with_a_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(diagnose(GRAPHS["no edges"]))
    captured = capsys.readouterr()
    (line,) = [x for x in captured.out.splitlines() if x.startswith("adjusted")]
    assert " ".join(line.split()[2:]) == "– no edge joins two labelled nodes"
    (line,) = [x for x in captured.out.splitlines() if x.startswith("feature smooth")]
    assert " ".join(line.split()[2:]) == "– there is no edge"
    assert captured.err == ""


def test_smoothness_is_told_in_text_json_and_on_the_page(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = diagnose(bipartite())
    show(found)
    out = capsys.readouterr().out
    page = parse(render_html(found)).text
    for name, value in (("label smoothness", "1.000"), ("feature smoothness", "0.500")):
        (line,) = [x for x in out.splitlines() if x.startswith(name)]
        assert line.split()[2] == value
        assert f"{name}{value}" in page
    assert found.to_json()["measures"]["label_smoothness"] == 1.0
    assert "features are; 0 is equal" in " ".join(out.split())


def test_the_command_prints_the_verdict_first(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", str(folder), "--undirected"]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[0].startswith("Diagnosis of ")
    assert captured.out.splitlines()[2].startswith("Heterophilous: ")
    assert "undefined" not in captured.err


def test_json_is_alone_on_stdout_and_the_page_is_written(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "page.html"
    assert main(["diagnose", str(folder), "--json", "--html", str(target)]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert found["verdict"]["kind"] == "heterophilous"
    assert {row["name"] for row in found["classes"]} == {"cat", EVIL}
    assert str(target) in captured.err
    assert EVIL in parse(target.read_text(encoding="utf-8")).text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "tables"]


@pytest.mark.parametrize("name", ["page.pdf", "missing/page.html"])
def test_a_page_that_cannot_be_written_is_one_line(
    name: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", str(folder), "--html", str(tmp_path / name)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


# ---------------------------------------------------------------------- benchmark data


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "kind", "neighbours"),
    [
        ("texas", "heterophilous", "informative"),
        ("cora", "homophilous", "informative"),
        ("actor", "heterophilous", "uninformative"),
    ],
)
def test_verdicts_on_benchmarks(
    name: str, kind: str, neighbours: str, data_root: Path
) -> None:
    verdict = diagnose(load_dataset(name, root=data_root)).verdict
    assert (verdict.kind, verdict.neighbours) == (kind, neighbours)


@pytest.mark.data
def test_the_second_ring_of_texas(data_root: Path) -> None:
    found = diagnose(load_dataset("texas", root=data_root))
    near, far = found.rings
    assert near.homophily == pytest.approx(0.061, abs=5e-4)
    assert far.homophily == pytest.approx(0.571, abs=5e-4)
    # Most of it is the size of the largest class; the page must not hide that.
    assert far.chance == pytest.approx(0.537, abs=5e-4)
    assert "chance would give 54%" in found.verdict.designs[1].reason


def test_only_pairs_with_two_labels_are_compared() -> None:
    adj = adjacency(4, [(0, 1), (1, 2), (2, 3)])
    graph = Graph(x=np.eye(4), adj=adj, y=[0, 1, -1, 0])
    near, far = diagnose(graph).rings
    assert (near.entries // 2, near.labelled) == (3, 1)
    assert (far.entries // 2, far.labelled) == (2, 1)
    assert diagnose(replace(graph, y=[0, -1, 1, -1])).rings[0].labelled == 0


def test_sizes_of_several_splits_are_their_mean_and_told_as_such() -> None:
    one, two = Split([0, 4], [1], [2]), Split([0, 4, 5], [1], [2, 3, 6])
    for splits, expected in (
        ((one,), "1 (train, val, test: 2, 1, 1)"),
        ((one, two), "2 (train, val, test: 2, 1, 2, the mean of them)"),
        ((), "0"),
    ):
        found = diagnose(bipartite(splits=splits))
        told = dict(card_facts(found))
        assert told["splits"] == expected
        assert told["rings"].startswith("56 entries up to 2 hops")


def test_scores_and_cards_follow_the_same_rule() -> None:
    assert [score(v) for v in (0.99998, 1.0, 0.00001, 0.0)] == [
        *(">99.99", "100.00", "<0.01", "0.00"),
    ]
    assert score(0.5, 0.00001) == "50.00 ± <0.01"
    (card,) = card_views([Result("x", cards={"g": {"h": 0.9999, "nodes": 1}})])
    told = dict(zip(FACTS, card.facts, strict=True))
    assert (told["h"], told["nodes"]) == ((0.9999, ">0.99"), (1, "1"))
