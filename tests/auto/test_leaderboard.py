"""What the leaderboard says, in numbers, in words and on a page."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

from h2gcn.auto import (
    Choice,
    Contest,
    Leaderboard,
    Member,
    Standing,
    choose,
    make_leaderboard,
    render_leaderboard,
)
from h2gcn.auto.contest import Entry
from support.cases import each


def held(
    shares: dict[str, np.ndarray],
    y: np.ndarray,
    metric: str = "log_loss",
    without_graph: tuple[str, ...] = ("mlp",),
    left_out: tuple[str, ...] = (),
) -> Contest:
    """Return the outcome of a contest with these probabilities."""
    entries = [
        Entry(
            Member(
                name,
                f"model-{name}",
                f"what {name} sees",
                {},
                name not in without_graph,
            ),
            1.234,
            np.log(p).astype(np.float32),
            None,
        )
        for name, p in shares.items()
    ]
    entries += [
        Entry(Member(name, name, "much"), 0.0, None, None, "no time was left for it")
        for name in left_out
    ]
    choice = choose(shares, y, metric)
    ones = dict.fromkeys(shares, 1.0)
    nodes = np.arange(len(y))
    return Contest(tuple(entries), choice, ones, shares, nodes, y, 5, 9.876, False)


def shares(own: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return two columns, with so much for the true class of each node."""
    found = np.empty((len(y), 2))
    found[np.arange(len(y)), y], found[np.arange(len(y)), 1 - y] = own, 1 - own
    return found


Y = np.array([0, 0, 0, 0, 0, 0, 1, 1])
GOOD = shares(np.array([0.9] * 6 + [0.8, 0.3]), Y)
POOR = shares(np.array([0.6] * 6 + [0.4, 0.4]), Y)


@pytest.fixture
def board() -> Leaderboard:
    found = {"mlp": POOR, "ring-table": GOOD}
    return make_leaderboard(held(found, Y, left_out=("h2gcn-2",)), "accuracy")


def test_a_line_for_each_member_the_best_first(board: Leaderboard) -> None:
    best, second, last = board.rows
    assert [row.name for row in board.rows] == ["ring-table", "mlp", "h2gcn-2"]
    loss = -np.mean([np.log(0.9)] * 6 + [np.log(0.8), np.log(0.3)])
    other = -np.mean([np.log(0.6)] * 6 + [np.log(0.4)] * 2)
    assert best.log_loss == pytest.approx(loss)
    assert best.score == 7 / 8
    assert (best.gap, best.gap_error) == (0.0, 0.0)
    assert (best.model, best.sees) == ("model-ring-table", "what ring-table sees")
    assert second.log_loss == pytest.approx(other)
    assert second.gap == pytest.approx(other - loss)
    assert second.gap_error is not None
    assert second.gap_error > 0
    assert second.score == 6 / 8
    assert last == Standing(
        "h2gcn-2", "h2gcn-2", "much", *[None] * 4, 0.0, 0.0, "no time was left for it"
    )
    assert sum(row.weight for row in board.rows) == pytest.approx(1)
    assert (best.seconds, board.seconds) == (1.23, 9.88)


def test_floors_and_where_it_comes_from(board: Leaderboard) -> None:
    assert board.majority == 6 / 8
    assert (board.metric, board.chosen_by) == ("accuracy", "log_loss")
    assert (board.nodes, board.folds) == (8, 5)
    assert board.held_out == "8 training and validation nodes, in 5 folds"
    whole = replace(board, folds=0, nodes=1234)
    assert whole.held_out == "1,234 validation nodes"


@each(
    ("metric", "majority"), [("macro_f1", 3 / 7), ("roc_auc", 0.5), ("accuracy", 0.75)]
)
def test_the_largest_class_by_each_metric(metric: str, majority: float) -> None:
    found = make_leaderboard(held({"a": GOOD}, Y, metric), metric)
    assert found.majority == pytest.approx(majority)
    assert found.chosen_by == metric


def test_what_has_no_value_is_none() -> None:
    y = np.zeros(8, dtype=int)
    found = make_leaderboard(held({"a": shares(np.full(8, 0.7), y)}, y), "roc_auc")
    assert found.majority is None
    assert found.rows[0].score is None
    json.dumps(found.to_json(), allow_nan=False)
    one = make_leaderboard(held({"a": GOOD[:1]}, Y[:1]), "accuracy")
    assert one.optimism is None
    assert one.caution == "How much too good the best looks, so few nodes cannot tell."


def test_json_and_back(board: Leaderboard) -> None:
    content = json.loads(json.dumps(board.to_json(), allow_nan=False))
    assert Leaderboard.from_json(content) == board
    assert content["rows"][0]["name"] == "ring-table"


# ------------------------------------------------------------------------------ words


def weighted(board: Leaderboard, *weights: float) -> Leaderboard:
    rows = zip(board.rows, weights, strict=True)
    return replace(board, rows=tuple(replace(r, weight=w) for r, w in rows))


def test_who_answers(board: Leaderboard) -> None:
    assert weighted(board, 1, 0, 0).answering == "ring-table answers alone."
    assert weighted(board, 0.5, 0.5, 0).answering == (
        "ring-table and mlp answer together, by the plain mean of probabilities."
    )
    assert weighted(board, 0.5, 0.3, 0.2).answering == (
        "ring-table, mlp and h2gcn-2 answer together, by a weighted mean of "
        "probabilities."
    )


def test_how_far_behind(board: Leaderboard) -> None:
    row = replace(board.rows[1], gap=0.12345, gap_error=0.04)
    assert board.behind(row) == "0.123 ± 0.040"
    assert replace(board, chosen_by="roc_auc").behind(row) == "12.35 ± 4.00"
    assert board.behind(board.rows[2]) == ""


def test_how_much_too_good(board: Leaderboard) -> None:
    told = "The best of so many looks better than it is, by about "
    assert replace(board, optimism=0.0213).caution == f"{told}0.021 of log-loss."
    # Less than nothing is by chance.
    assert replace(board, optimism=-0.1).caution == f"{told}0.000 of log-loss."
    points = replace(board, optimism=0.0213, chosen_by="macro_f1").caution
    assert points == f"{told}2.1 points of macro F1."


@each(
    ("with_it", "said"),
    [
        (0.9, "The graph helps: log-loss 0.105 and accuracy 100.0 % with it (ring); "),
        (0.3, "The graph does not help here: log-loss 1.204 and accuracy 0.0 % with"),
    ],
)
def test_what_the_graph_adds(with_it: float, said: str) -> None:
    y = np.arange(50) % 2
    found = {
        "poor": shares(np.full(50, 0.2), y),
        "ring": shares(np.full(50, with_it), y),
        "mlp": shares(np.full(50, 0.6), y),
    }
    sentence = make_leaderboard(held(found, y), "accuracy").graph
    assert sentence.startswith(said)
    assert sentence.endswith("log-loss 0.511 and accuracy 100.0 % without (mlp).")


def test_whether_the_graph_helps_cannot_always_be_told() -> None:
    y = np.arange(50) % 2
    turns = np.where(np.arange(50) < 25, 0.6, 0.7)
    found = {"ring": shares(turns, y), "mlp": shares(turns[::-1], y)}
    sentence = make_leaderboard(held(found, y), "accuracy").graph
    assert sentence.startswith("Whether the graph helps, these nodes cannot tell: log-")


@each("without", [(), ("a", "b")])
def test_nothing_is_said_of_the_graph_where_nobody_does_without(
    without: tuple[str, ...],
) -> None:
    contest = held({"a": GOOD, "b": POOR}, Y, without_graph=without)
    assert make_leaderboard(contest, "accuracy").graph == ""


# --------------------------------------------------------------------------- the page


def parse(page: str) -> ET.Element:
    """Read a page as XML, in which all that is opened must be closed."""
    body = page.removeprefix("<!DOCTYPE html>")
    for tag in ("charset", "http-equiv", "name"):
        body = body.replace(f"<meta {tag}", f"<meta/><x {tag}")
    lines = [
        line.replace(">", "/>") if line.startswith("<meta/><x") else line
        for line in body.splitlines()
    ]
    text = "\n".join(lines).replace("<meta//>", "").replace("//>", "/>")
    return ET.fromstring(text)


def test_the_page_is_well_formed_and_whole(board: Leaderboard) -> None:
    page = render_leaderboard(
        board, "my-graph", [("accuracy", "87.50 %")], "<svg><g/></svg>"
    )
    tree = parse(page)
    cells = [["".join(c.itertext()) for c in row] for row in tree.iter("tr")]
    assert cells[0][0] == "member"
    best, second = board.rows[:2]
    assert cells[1] == [
        *("ring-table", "100 %", "87.50"),
        *(f"{best.log_loss:.3f}", "", "1.2", "what ring-table sees"),
    ]
    assert cells[2][4] == board.behind(second)
    assert cells[-1][:4] == ["always the largest class", "", "75.00", ""]
    text = " ".join(" ".join(tree.itertext()).split())
    for said in (
        board.answering,
        board.graph,
        board.caution,
        "h2gcn-2: no time was left for it",
        "On 8 training and validation nodes, in 5 folds; chosen by log-loss.",
        "Which models answer for my-graph",
        "87.50 %",
    ):
        assert said in text, said
    assert list(tree.iter("svg")), "the picture is markup and not text"
    assert "<script" not in page
    assert "default-src 'none'" in page


def test_names_cannot_break_out_of_the_page(board: Leaderboard) -> None:
    evil = "<script>alert('&')</script>"
    rows = tuple(replace(row, name=evil, sees=evil, note=evil) for row in board.rows)
    odd = replace(board, rows=rows, graph=evil)
    page = render_leaderboard(odd, evil, [(evil, evil)])
    assert "<script" not in page
    parse(page)
    assert page.count("&lt;script&gt;") >= 10


def test_a_page_with_nothing_more(board: Leaderboard) -> None:
    page = render_leaderboard(replace(board, graph="", majority=None), "g")
    parse(page)
    assert "On test nodes" not in page
    assert "svg" not in page
    assert "<td>–</td>" in page


def test_choices_of_one_metric_are_told_by_it() -> None:
    found = make_leaderboard(held({"a": GOOD, "b": POOR}, Y, "roc_auc"), "roc_auc")
    page = render_leaderboard(found, "g")
    assert "chosen by ROC-AUC." in page
    assert "<th>ROC-AUC %</th>" in page


def test_a_choice_is_kept_as_it_was_made() -> None:
    contest = held({"a": GOOD, "b": POOR}, Y)
    odd = Choice(
        {"b": 1.0}, {}, {"a": 0.1, "b": 0.0}, {"a": 0.2, "b": 0.0}, 0.5, "accuracy"
    )
    board = make_leaderboard(replace(contest, choice=odd), "macro_f1")
    assert [row.name for row in board.rows] == ["b", "a"]
    assert [row.weight for row in board.rows] == [1.0, 0.0]
    assert (board.optimism, board.chosen_by) == (0.5, "accuracy")
