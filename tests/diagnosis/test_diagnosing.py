"""What the diagnosis says, on graphs where the answer is plain."""

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from h2gcn import Graph, Split, load_dataset
from h2gcn.cli import main
from h2gcn.cli.diagnosis_text import show
from h2gcn.diagnosis import ClassShare, diagnose, heat_palette, render_html
from h2gcn.diagnosis.diagnosing import MEASURES, DegreeBin
from h2gcn.diagnosis.page import _luminance
from h2gcn.diagnosis.words import card_facts
from h2gcn.exceptions import InputError
from h2gcn.homophily import DegreeRange
from h2gcn.io import write_tables
from support.graphs import NAMED, adjacency

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


@pytest.fixture(params=GRAPHS, ids=lambda name: name.replace(" ", "-"))
def graph(request: pytest.FixtureRequest) -> Graph:
    """Each of the graphs above in turn."""
    return GRAPHS[request.param]


# ----------------------------------------------------------------------------- verdict


def test_a_bipartite_graph_is_heterophilous_and_its_second_ring_alike() -> None:
    found = diagnose(bipartite())
    verdict = found.verdict
    assert (verdict.kind, verdict.neighbours) == ("heterophilous", "informative")
    assert found.measures == {
        "edge_homophily": 0.0,
        "node_homophily": 0.0,
        "class_insensitive_homophily": 0.0,
        "adjusted_homophily": -1.0,
        "label_informativeness": 1.0,
    }
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
    assert verdict.models == ("h2gcn-1", "h2gcn-2", "mlp")
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
    assert found.verdict.models == ("h2gcn-1", "h2gcn-2", "mlp", "gcn")
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
    # Each node has one neighbour of its class and one of the other: all is chance.
    ring = adjacency(8, [(i, (i + 1) % 8) for i in range(8)])
    verdict = diagnose(Graph(x=np.eye(8), adj=ring, y=[0, 0, 1, 1] * 2)).verdict
    assert (verdict.kind, verdict.neighbours) == ("heterophilous", "uninformative")
    assert "say almost nothing" in verdict.summary[1]
    assert "If mlp" in verdict.advice


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


@pytest.mark.parametrize(
    ("name", "kind", "words", "models"),
    [
        ("no edges", "undefined", "there are no edges", ("mlp",)),
        ("one class", "undefined", "of a single class", ()),
        ("one node", "undefined", "of a single class", ()),
        ("unlabelled", "unlabelled", "Nothing is labelled", ()),
        (
            "partly labelled",
            "undefined",
            "no edge joins two labelled nodes",
            ("h2gcn-1", "h2gcn-2", "mlp", "gcn"),
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
    assert set(found.measures.values()) == {None}
    assert set(found.undefined) == set(MEASURES)
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


# ------------------------------------------------------------------------------- parts


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
    assert far.note in found.verdict.sentences[3]
    assert diagnose(bipartite(), max_ring_entries=24).rings[1].homophily == 1.0


def test_rings_beyond_one_left_out_are_left_out_too() -> None:
    graph = Graph(x=np.eye(5), adj=NAMED["path"], y=[0, 1, 0, 1, 0])
    shares = [ring.homophily for ring in diagnose(graph, hops=3).rings]
    assert shares == [0.0, 1.0, 0.0]
    rings = diagnose(graph, hops=3, max_ring_entries=5).rings
    assert [ring.homophily for ring in rings] == [0.0, None, None]
    assert rings[2].note == "left out, as ring 2 was"


def test_rings_that_do_not_fit_in_memory_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("h2gcn.homophily.by_ring.available_memory", lambda: 100)
    assert "more than fit in memory" in diagnose(bipartite()).rings[1].note


def test_without_the_second_ring_nothing_is_said_about_it() -> None:
    found = diagnose(bipartite(), hops=1)
    assert len(found.rings) == len(found.forecast.entries) == 1
    assert found.verdict.designs[1].helps is None


@pytest.mark.parametrize("given", [{"hops": 0}, {"max_ring_entries": -1}])
def test_parameters_are_checked(given: dict[str, int]) -> None:
    with pytest.raises(InputError, match=f"'{next(iter(given))}' parameter"):
        diagnose(bipartite(), **given)


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
    assert "�[31mred :smile:" in out


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
    assert captured.err == ""


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
        assert dict(card_facts(found))["splits"] == expected
