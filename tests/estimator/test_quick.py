"""The quick fit: who is fitted, to which nodes, and what is said of it."""

import numpy as np
import pytest

from h2gcn import Graph, Split
from h2gcn.auto import quick_members
from h2gcn.estimator import quick, quick_fit
from h2gcn.exceptions import InputError
from h2gcn.graph import stratified_split
from support.cases import each
from support.graphs import adjacency


def blocks(
    n: int = 120, *, alike: bool = True, seed: int = 0, **given: object
) -> Graph:
    """Return two classes whose edges stay inside, or all lead to the other."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    same = y[:, None] == y[None, :]
    drawn = np.triu((rng.random((n, n)) < 0.1) & (same == alike), 1).astype(float)
    whole = {"x": rng.normal(size=(n, 3)), "adj": drawn + drawn.T, "y": y}
    return Graph(**{**whole, **given})  # type: ignore[arg-type]


def names(graph: Graph, **given: bool) -> list[str]:
    return [member.name for member in quick_members(graph, **given)]


def test_members_are_those_that_make_sense() -> None:
    graph = blocks()
    everything = [
        *("logistic-alone", "label-propagation", "linbp", "label-propagation-2hop"),
        "logistic",
    ]
    assert names(graph) == everything
    assert names(blocks(adj=np.zeros((120, 120)))) == ["logistic-alone"]
    assert "label-propagation-2hop" not in names(graph, far=False)
    near = quick_members(graph, far=False)[-1].params["options"]["table"]
    assert near == "ego+ring1+edges+labels.ring1"
    along = quick_members(blocks(directed=np.triu(graph.adj.toarray())))[-1]
    assert "directions" in along.params["options"]["table"].split("+")
    assert along.sees.endswith(", by directions")


def test_labels_of_alike_neighbours_are_found_to_decide() -> None:
    found = quick_fit(blocks())
    assert found.best is not None
    assert found.best.uses_graph
    assert found.best.score == pytest.approx(1.0, abs=0.02)
    scores = {row.name: row.score for row in found.rows}
    assert scores["logistic-alone"] == pytest.approx(0.5, abs=0.15)
    assert (found.metric, found.nodes, found.folds) == ("accuracy", 96, 5)
    assert found.majority == pytest.approx(0.5, abs=0.02)
    assert "logistic-alone" not in {row.name for row in found.leaders}
    shown = [row.score for row in found.rows]
    assert shown == sorted(shown, key=lambda score: -(score or 0.0))
    assert (found.best.behind, found.best.behind_error) == (0.0, 0.0)


def test_labels_that_are_drawn_are_not_found_to_tell_anything() -> None:
    # Were what is held out seen, the tables and propagation would know it.
    y = np.random.default_rng(1).integers(0, 2, 400)
    found = quick_fit(blocks(400, y=y))
    assert {row.name for row in found.rows if row.score is None} == set()
    assert all(abs(row.score - 0.5) < 0.12 for row in found.rows if row.score)


def test_test_nodes_are_never_looked_at() -> None:
    graph = blocks()
    nodes = np.random.default_rng(0).permutation(120)
    split = Split(nodes[:60], nodes[60:90], nodes[90:])
    y = graph.y.copy()
    y[split.test] = 1 - y[split.test]
    one, other = (
        quick_fit(Graph(x=graph.x, adj=graph.adj, y=labels, splits=(split,)))
        for labels in (graph.y, y)
    )
    assert one.nodes == other.nodes == 90
    assert [(row.name, row.score) for row in one.rows] == [
        (row.name, row.score) for row in other.rows
    ]


def test_many_validation_nodes_are_held_out_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quick, "HELD_OUT", 20)
    monkeypatch.setattr(quick, "MOST_ROWS", 50)
    found = quick_fit(blocks())
    assert (found.nodes, found.folds) == (24, 0)
    notes = {row.name: row.note for row in found.rows}
    assert notes["logistic"] == "fitted to 50 of 72 nodes"
    assert notes["linbp"] == ""


def test_what_is_too_large_is_left_out_and_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quick, "MOST_CELLS", 3 * 120)
    monkeypatch.setattr(quick, "MOST_PAIRS", 100)
    found = quick_fit(blocks())
    notes = {row.name: row.note for row in found.rows}
    assert notes["logistic"] == "left out, as its table would have 720 numbers"
    assert notes["logistic-alone"] == ""
    assert "label-propagation-2hop" not in notes
    assert found.rows[-1].name == "logistic"


def test_after_the_time_limit_no_model_is_begun() -> None:
    told: list[str] = []
    found = quick_fit(blocks(), time_limit=1e-9, on_member=told.append)
    assert told == ["logistic-alone"]
    assert [row.note for row in found.rows[1:]] == ["left out, as time was up"] * 4
    assert found.best is not None
    assert found.time_limit == 1e-9
    with pytest.raises(InputError, match=r"^time_limit must be in"):
        quick_fit(blocks(), time_limit=0)


@each(
    ("given", "said"),
    [
        ({"y": np.full(120, -1)}, "nothing is labelled"),
        (
            {"y": np.zeros(120, dtype=int)},
            "all labelled nodes beside test nodes are of a single class",
        ),
        (
            {"y": np.r_[0, 0, 0, 1, 1, 1, np.full(114, -1)]},
            "labelled nodes beside test nodes: 6, fewer than 10",
        ),
        (
            {"y": np.arange(120) // 2},
            "60 classes are too many for 120 labelled nodes",
        ),
    ],
)
def test_where_nothing_can_be_fitted_it_is_said(
    given: dict[str, object], said: str
) -> None:
    found = quick_fit(blocks(**given))
    assert (found.rows, found.best, found.note) == ((), None, said)


@each(
    ("counts", "metric"),
    [
        ((79, 21), "accuracy"),
        ((80, 20), "roc_auc"),
        ((80, 10, 10), "macro_f1"),
        ((79, 11, 10), "accuracy"),
    ],
)
def test_the_metric_is_another_where_most_are_of_one_class(
    counts: tuple[int, ...], metric: str
) -> None:
    y = np.repeat(np.arange(len(counts)), counts)
    assert quick._metric(y, len(counts)) == metric


def test_how_far_behind_is_told_with_its_standard_error() -> None:
    # Of 100 nodes the best has all, the other 80: the gap is 0.2 ± 0.04.
    y = np.arange(100) % 2
    best = np.eye(2, dtype=np.float32)[y]
    other = np.eye(2, dtype=np.float32)[np.where(np.arange(100) < 20, 1 - y, y)]
    one, two = quick_members(blocks())[:2]
    rows = quick._scored(
        [(one, other, 1.0, ""), (two, best, 2.0, "")], y, "accuracy", 0
    )
    assert [row.name for row in rows] == [two.name, one.name]
    assert rows[1].behind == pytest.approx(0.2)
    assert rows[1].behind_error == pytest.approx(0.04, rel=0.25)
    assert [row.leads for row in rows] == [True, False]


def test_a_path_of_nodes_is_small_enough_for_folds() -> None:
    n = 20
    path = adjacency(n, [(i, i + 1) for i in range(n - 1)])
    found = quick_fit(Graph(x=np.eye(n), adj=path, y=np.arange(n) // 10))
    assert (found.nodes, found.folds) == (16, 5)


def test_groups_and_times_stay_what_they_are() -> None:
    n = 40
    path = adjacency(n, [(i, i + 1) for i in range(n - 1)])
    y, rng = np.arange(n) // 10 % 2, np.random.default_rng(0)
    grouped = Graph(x=np.eye(n), adj=path, y=y, groups=np.arange(n) // 2)
    split = stratified_split(y, groups=grouped.groups)
    nodes = np.concatenate([split.train, split.val])
    for known, held in quick._rounds(grouped, split, nodes, 0):
        assert not set(grouped.groups[known]) & set(grouped.groups[held])
    timed = Graph(x=np.eye(n), adj=path, y=y, times=rng.permutation(n))
    order = np.argsort(timed.times)
    by_time = Split(order[:20], order[20:30], order[30:])
    ((known, held),) = quick._rounds(timed, by_time, order[:30], 0)
    assert known.tolist() == sorted(by_time.train)
    assert held.tolist() == sorted(by_time.val)
