"""What the advice says, from what labels tell and from a quick fit."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from h2gcn import Graph
from h2gcn.cli.diagnose import show
from h2gcn.diagnosis import QuickFit, QuickScore, diagnose, render_html
from h2gcn.diagnosis.advice import place_sentences, recommend
from h2gcn.estimator import quick_fit
from h2gcn.graph import EdgeColumns
from h2gcn.io import write_npz
from support.cases import each
from support.commands import Run
from support.graphs import adjacency


def some_graph(**given: object) -> Graph:
    edges = [(u, v) for u in range(4) for v in range(4, 8)]
    whole = {"x": np.eye(8), "adj": adjacency(8, edges), "y": np.arange(8) // 4}
    return Graph(**{**whole, **given})  # type: ignore[arg-type]


def row(
    name: str, score: float | None, behind: float | None, error: float | None = 0.01
) -> QuickScore:
    model = name.removesuffix("-alone")
    graph = not name.endswith("alone")
    return QuickScore(name, model, "something", graph, score, behind, error, 0.5)


def fit(*rows: QuickScore, majority: float = 0.5, metric: str = "accuracy") -> QuickFit:
    return QuickFit(rows, metric, 400, 0, majority, 2.0, 20.0)


def advice(quick: QuickFit | None, graph: Graph | None = None) -> tuple[str, ...]:
    graph = some_graph() if graph is None else graph
    return recommend(graph, "mixed", {}, quick=quick)[1]


def test_the_first_advice_is_what_to_do_next() -> None:
    first = advice(None)[0]
    assert first.startswith("Next: train auto (h2gcn train on one's own data, ")
    assert "Expect" not in first
    quick = fit(row("linbp", 0.97, 0.0, 0.0), row("logistic-alone", 0.6, 0.37))
    first, helps = advice(quick)[:2]
    assert first.endswith(
        "Expect an accuracy of about 97% or more: linbp (something) has that on 400 "
        "nodes that it was not fitted to; always saying the largest class has 50%."
    )
    assert helps == (
        "The graph helps: accuracy 97% with it (linbp), 60% without (logistic-alone)."
    )


def test_what_is_no_better_than_the_largest_class_promises_nothing() -> None:
    quick = fit(row("linbp", 0.52, 0.0, 0.0), majority=0.5, metric="macro_f1")
    assert "Expect little: no quick model is surely better" in advice(quick)[0]
    assert "(macro F1 50%); linbp has 52% on 400 nodes" in advice(quick)[0]
    # Two standard errors of 0.56 on 400 nodes are just below five points.
    quick = fit(row("linbp", 0.56, 0.0, 0.0), majority=0.5, metric="roc_auc")
    assert "Expect a ROC-AUC of about 56% or more" in advice(quick)[0]


@each(
    ("rows", "said"),
    [
        (
            (row("logistic-alone", 0.7, 0.0, 0.0), row("linbp", 0.6, 0.1)),
            "The graph does not help the quick models: accuracy 60% with it",
        ),
        (
            (row("logistic-alone", 0.7, 0.0, 0.0), row("linbp", 0.69, 0.01)),
            "Whether the graph helps, these nodes cannot tell: accuracy 69% with it",
        ),
        (
            (row("linbp", 0.7, 0.0, 0.0), row("logistic-alone", 0.69, 0.01)),
            "Whether the graph helps, these nodes cannot tell: accuracy 70% with it",
        ),
    ],
)
def test_what_the_graph_adds(rows: tuple[QuickScore, ...], said: str) -> None:
    assert advice(fit(*rows))[1].startswith(said)


def test_nothing_is_said_of_the_graph_where_one_side_is_missing() -> None:
    for rows in (
        (row("linbp", 0.9, 0.0, 0.0),),
        (row("logistic-alone", 0.9, 0.0, 0.0), row("linbp", None, None, None)),
    ):
        assert not any("the graph helps" in one.lower() for one in advice(fit(*rows)))


def test_models_that_lead_are_advised_and_those_behind_are_not() -> None:
    told = {"ring1": (0.5, 0.0)}
    graph = some_graph()
    models, _ = recommend(graph, "heterophilous", told)
    assert models == ("auto", "h2gcn-1", "h2gcn-2", "mlp", "linbp", "ring-table")
    quick = fit(row("logistic", 0.9, 0.0, 0.0), row("linbp", 0.6, 0.3))
    models, said = recommend(graph, "heterophilous", told, quick=quick)
    assert models == ("auto", "logistic", "h2gcn-1", "h2gcn-2", "mlp", "ring-table")
    assert said[-1] == (
        "Of single models, compare logistic, h2gcn-1, h2gcn-2, mlp and ring-table."
    )
    models, _ = recommend(graph, "heterophilous", {}, quick=quick)
    assert "ring-table" in models  # the table leads
    models, _ = recommend(graph, "mixed", told, ["ring1"])
    assert models[4:] == ("gcn", "label-propagation", "ring-table")
    models, _ = recommend(graph, "mixed", {"ring1": (0.2, 0), "ring2": (0.5, 0)})
    assert models[4:] == ("gcn", "linbp", "ring-table")  # no label goes to unlike nodes
    told = {"ring1": (0.0, 0), "ring2": (0.5, 0), "out": (0.7, 0)}
    models, _ = recommend(graph, "heterophilous", told, ["ring2"])
    assert models[4:] == ("label-propagation-2hop", "ring-table", "dir-gnn")


TOLD = st.tuples(st.floats(0, 1), st.floats(0, 0.1))


@given(TOLD, TOLD, st.dictionaries(st.sampled_from(["out", "in", "out-in"]), TOLD))
def test_places_are_named_only_where_their_numbers_say_so(
    near: tuple[float, float],
    far: tuple[float, float],
    paths: dict[str, tuple[float, float]],
) -> None:
    told = {"ring1": near, "ring2": far, **paths}
    said = place_sentences(some_graph(), told)
    for sentence in said:
        numbers = [
            float(text.strip("<>")) for text in re.findall(r"[<>]?\d\.\d\d", sentence)
        ]
        if sentence.startswith("Labels two hops away tell more"):
            assert numbers[0] >= numbers[1] + 0.03
            assert far[0] - far[1] >= near[0] - near[1] + 0.05
        elif sentence.startswith("Directions matter"):
            assert numbers[0] >= numbers[1] + 0.03
            assert numbers[0] >= 0.1
        else:
            assert sentence.startswith("Labels along directions tell no more")
    assert (not paths) == (not any("irections" in sentence for sentence in said))


@each(
    ("told", "said"),
    [
        (
            {"ring1": (0.02, 0.0), "ring2": (0.35, 0.0)},
            "Labels two hops away tell more than neighbours' (label informativeness "
            "0.35 against 0.02): two-hop models can use them.",
        ),
        (
            {"ring1": (0.2, 0.0), "ring2": (0.1, 0.0), "out": (0.9, 0.0)},
            "Directions matter: labels of nodes that edges lead to tell most (label "
            "informativeness 0.90 against 0.20 without them), and only models that "
            "follow directions see them apart.",
        ),
        (
            {"ring1": (0.2, 0.0), "in-in": (0.24, 0.0), "out": (0.1, 0.0)},
            "Labels along directions tell no more than those of rings (label "
            "informativeness 0.24 at most); features along them may.",
        ),
    ],
)
def test_places_in_words(told: dict[str, tuple[float, float]], said: str) -> None:
    assert place_sentences(some_graph(), told) == [said]


def test_what_chance_gives_on_few_pairs_is_taken_off() -> None:
    told = {"ring1": (0.1, 0.0), "ring2": (0.3, 0.18)}
    assert place_sentences(some_graph(), told) == []


@each(
    ("names", "said"),
    [
        (
            ("amount",),
            "Edges carry a column (amount) that no measure here looks at; it",
        ),
        (
            tuple("abcde"),
            "Edges carry 5 columns (a, b, c and 2 others) that no measure",
        ),
    ],
)
def test_columns_of_edges_are_named(names: tuple[str, ...], said: str) -> None:
    columns = EdgeColumns([0], [4], np.ones((1, len(names))), names)
    (sentence,) = place_sentences(some_graph(edge_columns=columns), {})
    assert sentence.startswith(said)


def test_text_json_and_page_show_the_quick_fit_and_the_directions(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    late = QuickScore(
        "late", "logistic", "all", True, None, None, None, 0, "time is up"
    )
    quick = fit(row("linbp", 0.97, 0.0, 0.0), row("logistic-alone", 0.6, 0.37), late)
    along = np.triu(some_graph().adj.toarray())
    found = diagnose(some_graph(directed=along), quick=quick)
    show(found)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    flat = " ".join(out.split())
    page = " ".join(re.sub(r"<[^>]*>", " ", render_html(found)).split())
    took = "It took 2.0 s; after 20 s no further model is begun."
    for text in (flat, page):
        assert "Accuracy on 400 nodes that the models were not fitted to" in text
        assert took in text
        assert "37.0 ± 1.0" in text
        assert "time is up" in text
        assert "all of them begin in a single class" in text
    plain = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert plain["quick"]["rows"][0]["score"] == 0.97
    assert [one["path"] for one in plain["directions"]][:2] == ["out", "in"]
    assert plain["rings"][0]["informativeness"] == pytest.approx(1.0)
    assert plain["verdict"]["advice"][0].startswith("Next: ")


def test_why_nothing_was_fitted_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    none = QuickFit((), "accuracy", 0, 0, 0.0, 0.0, 20.0, "there is but one class")
    found = diagnose(some_graph(), quick=none)
    show(found)
    assert "Nothing was fitted: there is but one class." in capsys.readouterr().out
    assert "Nothing was fitted: there is but one class." in render_html(found)
    assert "Expect" not in found.verdict.advice[0]


def web(n: int = 300) -> Graph:
    """Return three classes, each of which leads to the next, with features of noise."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    along = np.zeros((n, n))
    for i in range(3 * n):
        u = i % n
        along[u, 3 * rng.integers(n // 3) + (y[u] + 1) % 3] = 1
    both = ((along + along.T) > 0).astype(float)
    return Graph(x=rng.normal(size=(n, 4)), adj=both, y=y, directed=along, name="web")


def test_a_web_whose_classes_lead_to_others_is_advised_to_follow_directions() -> None:
    graph = web()
    quick = quick_fit(graph)
    verdict = diagnose(graph, quick=quick).verdict
    assert verdict.kind == "heterophilous"
    assert quick.best is not None
    assert quick.best.score == pytest.approx(1, abs=0.03)
    assert verdict.advice[1].startswith("The graph helps: accuracy ")
    (said,) = [one for one in verdict.advice if one.startswith("Directions matter")]
    assert "tell most (label informativeness 1.00 against 0.3" in said
    assert {"ring-table", "dir-gnn"} <= set(verdict.models)


def test_a_bipartite_graph_is_advised_to_look_two_hops_away() -> None:
    # Users meet items of all kinds, and users of their own kind at the same items.
    rng = np.random.default_rng(0)
    users, items = 120, 60
    kind, shelf = np.arange(users) % 3, np.arange(items) % 3
    edges = [
        (u, users + item)
        for u in range(users)
        for item in np.flatnonzero(shelf == kind[u])[rng.permutation(20)[:4]]
    ]
    n = users + items
    y = np.r_[kind, rng.permutation(shelf)]
    x = rng.normal(size=(n, 2))
    graph = Graph(x=x, adj=adjacency(n, edges), y=y)
    advice = diagnose(graph).verdict.advice
    told = [one for one in advice if one.startswith("Labels two hops away tell more")]
    assert len(told) == 1
    assert "label-propagation-2hop" in diagnose(graph).verdict.models


def test_the_command_fits_unless_told_not_to(tmp_path: Path, run: Run) -> None:
    write_npz(web(), tmp_path / "web.npz")
    found = json.loads(run("diagnose", tmp_path / "web.npz", "--json")[1])
    assert {row["model"] for row in found["quick"]["rows"]} == {
        *("logistic", "label-propagation", "label-propagation-2hop", "linbp"),
    }
    assert "Expect an accuracy of about " in found["verdict"]["advice"][0]
    code, out, _ = run("diagnose", tmp_path / "web.npz", "--no-fit")
    assert code == 0
    assert "Quick fit" not in out
    assert "Next: train auto" in out
    assert "Expect" not in out
    code, out, _ = run("diagnose", tmp_path / "web.npz")
    assert "Quick fit" in out
