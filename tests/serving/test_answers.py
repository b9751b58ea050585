"""What can be asked about a model and a graph, against the model itself."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from h2gcn import Graph, NodeClassifier
from h2gcn.exceptions import InputError
from h2gcn.serving import Answers
from support.refusals import refused
from support.town import EVIL, SLASHED, UNLABELLED, town, town_model


@pytest.fixture(scope="module")
def answers() -> Answers:
    """Return what is known of the town."""
    return Answers(town_model(), town(), {"test_accuracy": 0.75, "remarks": ["so so"]})


def rows_of(*names: str) -> list[int]:
    ids = town().node_ids.tolist()
    return [ids.index(name) for name in names]


# ----------------------------------------------------------------------- known nodes


def test_known_nodes_are_told_what_the_model_predicts(answers: Answers) -> None:
    names, model, graph = ["hub", EVIL, "alone"], town_model(), town()
    rows = rows_of(*names)
    found = answers.predict(names, alpha=0.2)
    assert [one.id for one in found.predictions] == names
    assert [one.label for one in found.predictions] == (
        model.predict(graph, rows).tolist()
    )
    told = [list(one.probabilities.values()) for one in found.predictions]
    np.testing.assert_allclose(told, model.predict_proba(graph, rows), atol=1e-6)
    assert list(found.predictions[0].probabilities) == model.classes_.tolist()
    sets = model.predict_set(graph, 0.2, rows, allow_empty=False)
    assert [one.set for one in found.predictions] == [
        model.classes_[row].tolist() for row in sets
    ]
    assert (found.alpha, found.coverage) == (0.2, model.coverage_words(0.2))
    assert found.notes == []


def test_a_node_is_told_with_its_truth_and_who_saw_it(answers: Answers) -> None:
    model, graph = town_model(), town()
    split = model.split_
    for name in map(str, graph.node_ids):
        (row,) = rows_of(name)
        found = answers.node(name)
        truth = None if name in UNLABELLED else str(graph.classes[graph.y[row]])
        assert found.truth == truth
        assert found.seen is bool(row in split.train or row in split.val)
        assert found.degree == int((graph.adj[[row]] != 0).sum())
        (same,) = answers.predict([name]).predictions
        told = (found.label, found.probabilities, found.set)
        assert told == (same.label, same.probabilities, same.set)
    assert answers.node("hub").degree == 30
    assert answers.node("alone").degree == 0


def test_an_unknown_node_is_named_with_the_nearest(answers: Answers) -> None:
    with pytest.raises(
        InputError,
        match=r"^town: there is no node 'hud'. Did you mean "
        r"'hub'\?$",
    ):
        answers.node("hud")
    with pytest.raises(InputError, match=r"^town: there are no nodes 'q', 'zz'\.$"):
        answers.predict(["hub", "q", "zz"])
    with pytest.raises(InputError, match=r"^town: there is no node 'x+…\.$"):
        answers.node("x" * 100_000)


@pytest.mark.parametrize(
    "alpha", [0, 1, -0.5, float("nan"), 1e-320, 1e-300, 0.9999999999999999]
)
def test_alpha_is_a_share(answers: Answers, alpha: float) -> None:
    for ask in (answers.predict, lambda names, a: answers.node(names[0], a)):
        with refused(param="alpha", value=alpha):
            ask(["hub"], alpha)


@pytest.mark.parametrize("alpha", [1e-6, 1 - 1e-6])
def test_alpha_may_be_close_to_the_ends(answers: Answers, alpha: float) -> None:
    assert answers.node("hub", alpha).alpha == alpha


def test_another_graph_has_no_sets(answers: Answers) -> None:
    other = replace(town(), x=town().x + 1, name="other")
    found = Answers(town_model(), other).node("hub")
    assert found.set is None
    assert "not the graph of the training" in found.coverage
    assert found.seen is answers.node("hub").seen  # by its id
    assert Answers(town_model(), other).facts().trained_here is False


def without(name: str) -> NodeClassifier:
    """Return the model as one that was saved without something."""
    made = NodeClassifier()
    made.__dict__.update(town_model().__dict__ | {name: None})
    return made


def test_an_older_model_has_no_sets_and_does_not_know_what_it_saw() -> None:
    found = Answers(without("calibration_"), town()).node("hub")
    assert found.set is None
    assert "does not have its validation nodes" in found.coverage
    older = Answers(without("seen_"), town())
    assert older.node("hub").seen is None
    assert older.node("hub").set is None
    assert older.facts().trained_here is None


def test_two_nodes_of_one_id_are_refused() -> None:
    ids = town().node_ids.copy()
    ids[1] = "hub"
    with pytest.raises(InputError, match="2 nodes have the id 'hub'"):
        Answers(town_model(), replace(town(), node_ids=ids))


def test_the_facts_are_those_of_model_and_graph(answers: Answers) -> None:
    facts = answers.facts()
    assert (facts.model, facts.graph, facts.nodes) == ("h2gcn-1", "town", 41)
    assert (facts.edges, facts.directed, facts.labelled) == (38, True, 38)
    assert facts.classes == ["honest", f"{EVIL} & co"]
    assert facts.features == ["age", "income"]
    assert facts.trained_here is True
    assert facts.scores["test_accuracy"] == 0.75
    assert facts.remarks == ["so so"]
    assert facts.val_score == town_model().val_score_


def test_numbers_are_ids_where_there_are_no_others(small_graph: Graph) -> None:
    model = NodeClassifier("mlp", epochs=2, random_state=0).fit(small_graph)
    assert Answers(model, small_graph).node("3").truth == "1"


# ---------------------------------------------------------------------------- search


@pytest.mark.parametrize(
    ("text", "limit", "found", "total"),
    [
        ("a0", 3, ["a00", "a01", "a02"], 10),
        ("HU", 20, ["hub"], 1),
        ("b", 20, ["b0", "b1", "hub"], 3),  # those that begin with it first
        ("a1", 1, ["a10"], 10),
        ("b1", 20, ["b1"], 1),
        ("<S", 20, [EVIL], 1),
        ("/y z?", 20, [SLASHED], 1),
        (".*", 20, [], 0),
        ("", 20, [], 0),
    ],
)
def test_ids_are_found_by_their_beginning_or_a_part(
    answers: Answers, text: str, limit: int, found: list[str], total: int
) -> None:
    result = answers.search(text, limit)
    assert (result.ids, result.total) == (found, total)


def test_the_id_itself_comes_first() -> None:
    ids = np.array([*(f"n1{i}" for i in range(40)), "n1"])
    answers = Answers(town_model(), replace(town(), node_ids=ids))
    assert answers.search("n1", 2).ids == ["n1", "n10"]


# ---------------------------------------------------------------------- surroundings


def names(found: Any, ring: int) -> list[str]:
    return [node.id for node in found.nodes if node.ring == ring]


def joined(found: Any) -> set[tuple[str, str, bool]]:
    ids = [node.id for node in found.nodes]
    return {(ids[e.source], ids[e.target], e.both) for e in found.edges}


def test_surroundings_are_rings_with_all_edges_among_them(answers: Answers) -> None:
    found = answers.surroundings("b0")
    assert names(found, 0) == ["b0"]
    assert set(names(found, 1)) == {"a00", "a01", "c"}
    assert names(found, 2) == ["hub"]
    assert joined(found) == {
        ("a00", "b0", False),
        ("a01", "b0", False),
        ("b0", "c", False),
        ("hub", "a00", False),
        ("hub", "a01", False),
    }
    assert len(found.edges) == 5
    assert (found.left_out, found.words) == ([0, 0], "")
    third = names(answers.surroundings("b0", hops=3), 3)
    assert set(third) == {f"a{i:02}" for i in range(2, 30)}


def test_an_edge_both_ways_is_told_once(answers: Answers) -> None:
    assert joined(answers.surroundings("b1", 1)) == {("b1", "a02", True)}


def test_known_labels_are_told_and_others_predicted(answers: Answers) -> None:
    found = {node.id: node for node in answers.surroundings("a02").nodes}
    assert found["hub"].known
    assert found["hub"].label == answers.node("hub").truth
    assert not found["b1"].known
    assert found["b1"].label == answers.node("b1").label
    said = answers.node("b1")
    assert found["b1"].probability == said.probabilities[said.label]
    assert found["hub"].degree == 30


def test_a_cap_leaves_room_for_the_second_ring_and_says_what_it_left_out(
    answers: Answers,
) -> None:
    # Labelled ones first: a04 has no label.
    found = answers.surroundings("hub", limit=10)
    first = ["a00", "a01", "a02", "a03", "a05", "a06", "a07"]
    assert names(found, 1) == first
    assert names(found, 2) == ["b0", "b1"]
    assert found.left_out == [23, 0]
    assert found.words == "not shown: 23 of 30 nodes 1 step away"


def test_nobody_is_shown_without_who_leads_there(answers: Answers) -> None:
    found = answers.surroundings("hub", limit=5)
    assert names(found, 1) == ["a00", "a01"]
    assert names(found, 2) == ["b0"]  # b1 hangs on a02
    assert found.left_out == [28, 1]
    assert found.words == (
        "not shown: 28 of 30 nodes 1 step away, 1 of 2 nodes 2 steps away"
    )


def test_a_node_alone_has_no_surroundings(answers: Answers) -> None:
    found = answers.surroundings("alone")
    assert names(found, 0) == ["alone"]
    assert (found.edges, found.left_out, found.words) == ([], [0, 0], "")


def test_of_very_large_rings_no_more_is_looked_at(
    answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("h2gcn.serving.answers._WALKED", 8)
    found = answers.surroundings("hub", limit=6)
    assert names(found, 1) == ["a00", "a01", "a02"]
    assert found.left_out == [None, None]
    assert found.words.startswith("not shown: all but 3 of very many nodes 1 step away")


# --------------------------------------------------------------------------- reasons


def test_reasons_are_those_of_the_model(answers: Answers) -> None:
    (row,) = rows_of("b0")
    found = answers.reasons("b0")
    assert found == town_model().explain(town(), row).to_json(10)
    assert (found["id"], found["exact"]) == ("b0", True)
    assert answers.reasons("b0") is found  # it is kept
    with pytest.raises(InputError, match="there is no node 'b00'"):
        answers.reasons("b00")
