"""The checks that all rooms share: what they let through, and their words."""

from pathlib import Path

import numpy as np
import pytest

from h2gcn import Graph, NodeClassifier, exact_rings, homophily
from h2gcn._validation import (
    LONGEST,
    as_array,
    check_callable,
    check_list,
    check_names,
    check_path,
    check_real,
    quoted,
)
from h2gcn.exceptions import InputError
from support.cases import each


class Mute:
    """Cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


def test_a_value_is_shown_on_a_line_and_not_all_of_a_long_one() -> None:
    assert quoted("a\nb") == r"'a\nb'"
    assert quoted(np.eye(2)) == "array([[1., 0.],        [0., 1.]])"
    assert quoted("x" * 1000) == "'" + "x" * (LONGEST - 2) + "…"
    assert quoted(Mute()) == "a Mute"
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    assert quoted(nested) == "a list"


def test_a_number_of_hundreds_of_digits_is_no_real_number() -> None:
    assert check_real("f", "x", 10**300, "[0, inf)") == 1e300
    with pytest.raises(InputError, match=r"'x' parameter of f must be in \[0, inf\)\."):
        check_real("f", "x", 10**400, "[0, inf)")


def test_what_has_entries_is_a_list() -> None:
    assert check_list("f", "x", (1, 2), "numbers") == [1, 2]
    assert check_list("f", "x", np.arange(2), "numbers") == [0, 1]
    for wrong in ("ab", b"ab", {"a": 1}, 5, None, np.array(5)):
        with pytest.raises(InputError, match="'x' parameter of f must be a list of nu"):
            check_list("f", "x", wrong, "numbers")


def test_a_path_can_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert check_path("f", "x", "~/a") == tmp_path / "a"
    assert check_path("f", "x", Path("a/b")) == Path("a/b")
    assert check_path("f", "x", "a" * 255).name == "a" * 255
    for wrong in (5, None, b"a", "a\0b"):
        with pytest.raises(
            InputError, match=r"'x' parameter of f must be a path\. Got"
        ):
            check_path("f", "x", wrong)
    with pytest.raises(InputError, match="names have at most 255 bytes each"):
        check_path("f", "x", "a/" + "é" * 128)
    with pytest.raises(InputError, match=r"must be a path \(.*home directory"):
        check_path("f", "x", "~nosuchuser/a")


def test_functions_names_and_arrays() -> None:
    check_callable("f", "x", None)
    check_callable("f", "x", print)
    with pytest.raises(
        InputError, match=r"must be a function, or None\. Got 5 instead"
    ):
        check_callable("f", "x", 5)
    check_names("f", "x", {"a": 1})
    for wrong in ([("a", 1)], {1: "a"}, None):
        with pytest.raises(InputError, match="must be a dict of values by name"):
            check_names("f", "x", wrong)
    with pytest.raises(InputError, match=r"must be an array of one shape\. Got "):
        as_array("f", "x", [[1], [1, 2]])


@each(
    ("arguments", "words"),
    [
        (
            {"random_state": "x"},
            "'random_state' parameter of NodeClassifier must be No",
        ),
        ({"random_state": -1}, r"must be None, an integer from 0 to 2\*\*32 - 1"),
        ({"options": [1]}, "'options' parameter of NodeClassifier must be a dict of"),
        (
            {"options": {1: 2}},
            r"must be a dict of values by name. Got \{1: 2\} instead",
        ),
        ({"model": ["gcn"]}, r"there is no model \['gcn'\]\. Models: "),
        ({"model": np.zeros(3)}, "there is no model array"),
        (
            {"time_limit": np.zeros(3)},
            "'time_limit' parameter of .* is for model 'auto'",
        ),
        ({"ring_store": "x" * 300}, "'ring_store' .* at most 255 bytes each"),
    ],
)
def test_a_classifier_names_the_parameter(
    arguments: dict[str, object], words: str, small_graph: Graph
) -> None:
    with pytest.raises(InputError, match=words):
        NodeClassifier(**arguments).fit(small_graph)


def test_what_is_no_graph_is_refused_with_how_to_make_one(small_graph: Graph) -> None:
    fitted = NodeClassifier("mlp", epochs=1, random_state=0).fit(small_graph)
    words = r"'graph' parameter of {} must be a Graph; h2gcn\.read_graph makes one"
    for owner, call in {
        "predict": fitted.predict,
        "predict_blocks": fitted.predict_blocks,
        "predict_set": fitted.predict_set,
        "score": fitted.score,
        "edge_homophily": homophily.edge_homophily,
        "graph_card": homophily.graph_card,
    }.items():
        with pytest.raises(InputError, match=words.format(owner)):
            call(np.eye(3))  # type: ignore[operator]


def test_what_else_a_fitted_model_is_asked(small_graph: Graph, tmp_path: Path) -> None:
    fitted = NodeClassifier("mlp", epochs=1, random_state=0).fit(small_graph)
    for call, words in (
        (
            lambda: fitted.predict(small_graph, decision=max),
            "'decision' .* a DecisionRule",
        ),
        (
            lambda: fitted.classes_of(np.zeros(3)),
            r"'scores' .* must be numbers, \[n, 2\]",
        ),
        (
            lambda: fitted.probabilities_of("x"),
            r"'logits' .* must be numbers, \[n, 2\]",
        ),
        (lambda: fitted.save(5), "'path' parameter of save must be a path"),
        (
            lambda: fitted.decide(np.zeros(3)),
            "'kind' parameter of decide must be one of",
        ),
        (
            lambda: fitted.predict_set(small_graph, calibration=["x"]),
            "'calibration' must be indices",
        ),
        (
            lambda: fitted.fit(small_graph, checkpoint=tmp_path, resume="no"),
            "'resume' parameter of fit must be True or False",
        ),
        (
            lambda: fitted.fit(small_graph, on_epoch=5),
            "'on_epoch' parameter of fit must be a function, or None",
        ),
    ):
        with pytest.raises(InputError, match=words):
            call()


@each(
    ("arguments", "words"),
    [
        (
            {"adj": "x"},
            "Graph: 'adj' must be a matrix of numbers, dense or scipy sparse",
        ),
        ({"directed": [1]}, "Graph: 'directed' must be a matrix of numbers"),
        ({"classes": 5}, r"Graph: 'classes' must be 1-D. Got shape \(\)"),
        ({"node_ids": [["a"]]}, r"Graph: 'node_ids' must be 1-D. Got shape \(1, 1\)"),
        ({"feature_names": "ab"}, "'feature_names' .* must be a list of names"),
        ({"splits": [5]}, "'splits' parameter of Graph must be a tuple of Splits"),
        ({"name": 5}, "'name' parameter of Graph must be a text. Got 'int' instead"),
        ({"record": {}}, "'record' parameter of Graph must be a ReadRecord"),
        ({"x": [[10**400]]}, "Graph: 'x' must hold numbers"),
    ],
)
def test_a_graph_names_the_argument(arguments: dict[str, object], words: str) -> None:
    usual = {"x": np.eye(2), "adj": np.eye(2)[::-1], "y": [0, 1]}
    with pytest.raises(InputError, match=words):
        Graph(**(usual | arguments))  # type: ignore[arg-type]


def test_rings_of_no_matrix_or_without_end() -> None:
    with pytest.raises(
        InputError, match="'adj' parameter of exact_rings must be a squ"
    ):
        exact_rings(np.zeros((2, 3)))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"and at most 1000\. Got 2147483648"):
        exact_rings(np.eye(2)[::-1], hops=2**31)  # type: ignore[arg-type]
