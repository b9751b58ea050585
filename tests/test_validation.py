"""The checks that all rooms share: what they let through, and their words."""

from pathlib import Path

import numpy as np
import pytest

from h2gcn import Graph, NodeClassifier, exact_rings, homophily
from h2gcn._validation import (
    as_array,
    check_callable,
    check_choice,
    check_list,
    check_names,
    check_path,
    check_real,
)
from support.cases import each
from support.refusals import only, refused


def test_a_number_of_hundreds_of_digits_is_no_real_number() -> None:
    assert check_real("x", 10**300, "[0, inf)") == 1e300
    with refused(param="x", rule="must be in [0, inf)", value=10**400):
        check_real("x", 10**400, "[0, inf)")


def test_what_has_entries_is_a_list() -> None:
    assert check_list("x", (1, 2), "numbers") == [1, 2]
    assert check_list("x", np.arange(2), "numbers") == [0, 1]
    for wrong in ("ab", b"ab", {"a": 1}, 5, None, np.array(5)):
        with refused(param="x", rule="must be a list of numbers", value=wrong):
            check_list("x", wrong, "numbers")


def test_a_path_can_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert check_path("x", "~/a") == tmp_path / "a"
    assert check_path("x", Path("a/b")) == Path("a/b")
    assert check_path("x", "a" * 255).name == "a" * 255
    for wrong in (5, None, b"a", "a\0b"):
        with refused(param="x", rule="must be a path", value=wrong):
            check_path("x", wrong)
    long = "a/" + "é" * 128
    with refused(param="x", value=long, words="names have at most 255 bytes each"):
        check_path("x", long)
    with refused(param="x", words="must be a path (Could not determine home"):
        check_path("x", "~nosuchuser/a")


def test_functions_names_and_arrays() -> None:
    check_callable("x", None)
    check_callable("x", print)
    with refused(param="x", rule="must be a function, or None", value=5):
        check_callable("x", 5)
    check_names("x", {"a": 1})
    for wrong in ([("a", 1)], {1: "a"}, None):
        with refused(param="x", rule="must be a dict of values by name", value=wrong):
            check_names("x", wrong)
    with refused(param="x", rule="must be an array of one shape"):
        as_array("x", [[1], [1, 2]])


def test_a_misspelt_choice_is_told_the_nearest() -> None:
    choices = ("mean", "sum", "max")
    assert check_choice("join", "sum", choices) == "sum"
    with refused(param="join", value="mena", hint="did you mean 'mean' or 'max'?"):
        check_choice("join", "mena", choices)
    for wrong in (5, None, "sum\0", ["sum"]):
        with refused(param="join", rule="must be one of 'mean', 'sum', 'max'"):
            check_choice("join", wrong, choices)


@each(
    ("options", "words"),
    [
        ({"random_state": "x"}, "must be None, an integer from 0 to 2**32 - 1"),
        ({"random_state": -1}, "must be None, an integer from 0 to 2**32 - 1"),
        ({"options": [1]}, "must be a dict of values by name"),
        ({"options": {1: 2}}, "must be a dict of values by name"),
    ],
)
def test_a_classifier_names_the_parameter(
    options: dict[str, object], words: str, small_graph: Graph
) -> None:
    with refused(**only(options), words=words):
        NodeClassifier(**options).fit(small_graph)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": ["gcn"]}, "model must be the name of a model, got list"),
        ({"model": np.zeros(3)}, "model must be the name of a model, got ndarray"),
        ({"time_limit": np.zeros(3)}, "time_limit is for model 'auto'"),
    ],
)
def test_a_classifier_refuses_what_is_no_model(
    options: dict[str, object], words: str, small_graph: Graph
) -> None:
    with refused(words=words):
        NodeClassifier(**options).fit(small_graph)


def test_what_is_no_graph_is_refused_with_how_to_make_one(small_graph: Graph) -> None:
    fitted = NodeClassifier("mlp", epochs=1, random_state=0).fit(small_graph)
    for call in (
        fitted.predict,
        fitted.predict_blocks,
        fitted.predict_set,
        fitted.score,
        homophily.edge_homophily,
        homophily.graph_card,
    ):
        with refused(param="graph", value=np.ndarray, words="h2gcn.read_graph makes"):
            call(np.eye(3))  # type: ignore[operator]


def test_what_else_a_fitted_model_is_asked(small_graph: Graph, tmp_path: Path) -> None:
    fitted = NodeClassifier("mlp", epochs=1, random_state=0).fit(small_graph)
    for param, words, call in (
        (
            "decision",
            "must be a DecisionRule",
            lambda: fitted.predict(small_graph, decision=max),
        ),
        (
            "scores",
            "must be numbers, [n, 2]",
            lambda: fitted.classes_of(np.zeros(3)),
        ),
        (
            "logits",
            "must be numbers, [n, 2]",
            lambda: fitted.probabilities_of("x"),
        ),
        ("path", "must be a path", lambda: fitted.save(5)),
        ("kind", "must be one of", lambda: fitted.decide(np.zeros(3))),
        (
            "calibration",
            "must be indices",
            lambda: fitted.predict_set(small_graph, calibration=["x"]),
        ),
        (
            "resume",
            "must be True or False",
            lambda: fitted.fit(small_graph, checkpoint=tmp_path, resume="no"),
        ),
        (
            "on_epoch",
            "must be a function, or None",
            lambda: fitted.fit(small_graph, on_epoch=5),
        ),
    ):
        with refused(param=param, words=words):
            call()


@each(
    ("arguments", "words"),
    [
        ({"adj": "x"}, "must be a matrix of numbers, dense or scipy sparse"),
        ({"directed": [1]}, "must be a matrix of numbers"),
        ({"classes": 5}, "must be 1-D, got shape ()"),
        ({"node_ids": [["a"]]}, "must be 1-D, got shape (1, 1)"),
        ({"feature_names": "ab"}, "must be a list of names"),
        ({"splits": [5]}, "must be a tuple of Splits"),
        ({"name": 5}, "must be a text, got int"),
        ({"record": {}}, "must be a ReadRecord"),
        ({"x": [[10**400]]}, "must hold numbers"),
    ],
)
def test_a_graph_names_the_argument(arguments: dict[str, object], words: str) -> None:
    usual = {"x": np.eye(2), "adj": np.eye(2)[::-1], "y": [0, 1]}
    with refused(param=next(iter(arguments)), words=words):
        Graph(**(usual | arguments))  # type: ignore[arg-type]


def test_rings_of_no_matrix_or_without_end() -> None:
    with refused(param="adj", words="must be a square matrix of numbers"):
        exact_rings(np.zeros((2, 3)))  # type: ignore[arg-type]
    with refused(param="hops", value=2**31, words="at most 1000"):
        exact_rings(np.eye(2)[::-1], hops=2**31)  # type: ignore[arg-type]
