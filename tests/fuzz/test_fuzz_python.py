"""Every argument of the Python interface, with values that nobody should give it.

A call returns, or raises an `InputError` that names the argument; nothing else.
"""

import copy
import inspect
import math
import re
import warnings
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given

from h2gcn import (
    Graph,
    NodeClassifier,
    Split,
    exact_rings,
    homophily,
    load_dataset,
    read_graph,
)
from h2gcn.estimator import check_fit
from h2gcn.exceptions import InputError
from h2gcn.models import MODELS
from support.graphs import adjacency


class Mute:
    """Cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


class Unequal:
    """Cannot be compared, nor hashed."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    __hash__ = None  # type: ignore[assignment]


def deep(levels: int) -> list[Any]:
    """Return a list in a list in a list, and so on."""
    nested: list[Any] = []
    for _ in range(levels):
        nested = [nested]
    return nested


def ring_graph(n: int = 30) -> Graph:
    """Return nodes in two alternating classes, with features that tell them."""
    y = np.arange(n) % 2
    x = np.random.default_rng(0).normal(size=(n, 4)) + 3 * y[:, None]
    edges = [(i, (i + step) % n) for i in range(n) for step in (1, 3)]
    return Graph(x=x, adj=adjacency(n, edges), y=y, name="small")


GRAPH = ring_graph()
WRONG: dict[str, Any] = {
    **{repr(one): one for one in (None, True, False, 0, -1, 1.5, 1j, "", "x", b"x")},
    **{"nan": math.nan, "inf": math.inf, "-inf": -math.inf},
    **{"2**31": 2**31, "2**63": 2**63, "10**400": 10**400, "-10**400": -(10**400)},
    **{"nul": "\0", "surrogate": "\udc80", "long": "x" * 5000, "home": "~nosuch/x"},
    **{"[]": [], "()": (), "{}": {}, "set": set(), "[[]]": [[]], "range": range(3)},
    **{"ragged": [[1], [1, 2]], "deep": deep(5000), "[None]": [None], "['a']": ["a"]},
    **{"[-1]": [-1], "[99]": [99], "[nan]": [math.nan], "[10**400]": [10**400]},
    **{"{1: 2}": {1: 2}, "{None: 1}": {None: 1}, "{'a': 1}": {"a": 1}},
    **{"int64": np.int64(5), "float32": np.float32(0.5), "nan64": np.float64("nan")},
    **{"[3]": np.zeros(3), "[2, 2]": np.zeros((2, 2)), "0-d": np.array(3)},
    **{"objects": np.array([object()]), "texts": np.array(["a", "b"])},
    **{"empty": np.zeros(0), "complex": np.zeros(3, complex), "mask": np.ones(7, bool)},
    **{"dates": np.array(["2020-01-01"], dtype="datetime64[D]")},
    **{"tensor": torch.zeros(3), "sparse": sp.csr_array((3, 3))},
    **{"object": object(), "type": dict, "lambda": lambda *_: None, "error": OSError()},
    **{"NotImplemented": NotImplemented, "mute": Mute(), "unequal": Unequal()},
    **{"graph": GRAPH, "split": Split([0, 1], [2, 3], [4, 5])},
}

Call = Callable[[Any], object]
CALLS: dict[str, Call] = {}
NAMES: dict[str, str] = {}
"""What a message must name, where that is not the argument."""


def classifier(model: str, name: str) -> Call:
    """Return a fit with a parameter of a model."""

    def call(value: Any) -> None:
        usual = {"epochs": 1, "random_state": 0, "time_limit": None}
        made = NodeClassifier(**({"model": model, **usual} | {name: value}))
        check_fit(made.get_params(), GRAPH, None)
        # A cap is compiled at its first use; the others may be of any size.
        if model == "mlp" and name not in ("epochs", "hidden_channels"):
            made.fit(GRAPH)

    return call


def option(model: str, name: str) -> Call:
    """Return a check of an option of a model."""
    return lambda value: NodeClassifier(model, options={name: value}).check_params()


def argument(function: Callable[..., Any], name: str, usual: dict[str, Any]) -> Call:
    """Return a call with one argument and the usual others; blocks are all made."""

    def call(value: Any) -> None:
        found = function(**(usual | {name: value}))
        if inspect.isgenerator(found):
            list(found)

    return call


def on_copy(fitted: NodeClassifier, method: str) -> Callable[..., Any]:
    """Return a method of a copy, so that no call changes what the next one sees."""
    return lambda **arguments: getattr(copy.copy(fitted), method)(**arguments)


for _name in NodeClassifier().get_params():
    for _model in ("h2gcn-1", "auto", "mlp"):
        CALLS[f"{_model}: {_name}"] = classifier(_model, _name)
for _model in ("gat", "mixhop", "h2gcn-1", "ring-table", "boosted-trees", "linbp"):
    for _name in MODELS[_model].options:
        CALLS[f"{_model} option: {_name}"] = option(_model, _name)
        NAMES[f"{_model} option: {_name}"] = ""  # a block of the recipe, or the rule

FITTED = NodeClassifier("h2gcn-1", epochs=2, random_state=0).fit(GRAPH)
METHODS = (
    *("predict", "predict_proba", "predict_logits", "predict_set", "predict_blocks"),
    *("score", "fit_on_all", "decide", "move", "check_params", "coverage_words"),
    *("classes_of", "probabilities_of"),
)
for _method in METHODS:
    _usual = {"kind": "top", "label": "1", "k": 3} if _method == "decide" else {}
    _names = inspect.signature(getattr(FITTED, _method)).parameters
    if _method != "decide" and "graph" in _names:
        _usual = {"graph": GRAPH}
    for _name in _names:
        call = argument(on_copy(FITTED, _method), _name, _usual)
        CALLS[f"{_method}: {_name}"] = call
for _kind in ("f1", "costs", "macro_f1"):
    for _name in ("label", "costs", "graph", "nodes", "k"):
        _usual = {"kind": _kind, "label": "1"}
        CALLS[f"decide {_kind}: {_name}"] = argument(FITTED.decide, _name, _usual)
CALLS["load: path"] = NodeClassifier.load
for _name in ("graph", "split", "on_epoch", "on_progress", "resume"):
    CALLS[f"fit: {_name}"] = argument(
        NodeClassifier("mlp", epochs=1, random_state=0).fit, _name, {"graph": GRAPH}
    )
_PATH = {
    "x": np.eye(3),
    "adj": np.diag([1, 1], 1) + np.diag([1, 1], -1),
    "y": [0, 1, 0],
}
for _name in inspect.signature(Graph).parameters:
    CALLS[f"Graph: {_name}"] = argument(Graph, _name, _PATH)
for _name in ("train", "val", "test"):
    _usual = {"train": [0], "val": [1], "test": [2]}
    CALLS[f"Split: {_name}"] = argument(Split, _name, _usual)
for _name in ("adj", "hops"):
    CALLS[f"exact_rings: {_name}"] = argument(exact_rings, _name, {"adj": GRAPH.adj})
CALLS["load_dataset: name"] = argument(load_dataset, "name", {"root": "nowhere"})
_TABLES = {"nodes": "nodes.csv", "edges": "edges.csv"}
for _name in inspect.signature(read_graph).parameters:
    _usual = {} if _name == "source" else _TABLES
    CALLS[f"read_graph: {_name}"] = argument(read_graph, _name, _usual)
    NAMES[f"read_graph: {_name}"] = ""  # or the file, or what it is
for _measure in homophily.__all__:
    function = getattr(homophily, _measure)
    if (
        inspect.isfunction(function)
        and "graph" in inspect.signature(function).parameters
    ):
        _usual = {
            name: {"matrix": GRAPH.adj, "path": "out"}.get(name, GRAPH)
            for name, one in inspect.signature(function).parameters.items()
            if one.default is inspect.Parameter.empty
        }
        for _name in inspect.signature(function).parameters:
            CALLS[f"{_measure}: {_name}"] = argument(function, _name, _usual)

# An argument that only goes with another is refused in words about both.
ELSEWHERE = re.compile(
    "model|class|graph|fit_on_all|rings|'ring_|forecast|learning rate|labelled node|"
    "needs 'costs'|this folder does not exist"
)


def outcome(place: str, value: Any) -> str | None:
    """Return what is wrong with how a call ends; None if nothing is."""
    call, name = CALLS[place], NAMES.get(place, place.rpartition(": ")[2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call(value)
        except InputError as error:
            told = str(error)
            if "\n" in told or len(told) > 3000:
                return f"{place}: not a line: {told[:200]!r}"
            if name not in told and not ELSEWHERE.search(told):
                return f"{place}: the argument is not named: {told!r}"
        except Exception as error:
            if place == "fit: on_epoch" and callable(value):
                return None  # it is the caller's own
            return f"{place}: {type(error).__name__}: {str(error)[:200]}"
    return None


@pytest.mark.parametrize("place", CALLS)
def test_every_wrong_value_is_refused_by_name(
    place: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = {key: outcome(place, value) for key, value in WRONG.items()}
    assert {key: wrong for key, wrong in found.items() if wrong} == {}


numbers = st.integers() | st.floats() | st.booleans() | st.none() | st.complex_numbers()
known = st.sampled_from(
    # Those that hypothesis itself cannot show are tried above.
    [value for key, value in WRONG.items() if key not in ("deep", "mute")]
)
values = st.recursive(
    numbers | st.text(max_size=30) | st.binary(max_size=9) | known,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3)
        | st.lists(inner, max_size=4).map(tuple)
        | st.lists(numbers, min_size=1, max_size=4).map(
            lambda entries: np.array(entries, dtype=object)
        )
    ),
    max_leaves=8,
)
BOUNDLESS = ("epochs", "patience", "n_estimators", "steps", "rounds", "path")
"""What may be large, and then takes long; paths are not to be made up."""


@given(
    place=st.sampled_from(
        [place for place in CALLS if place.rpartition(": ")[2] not in BOUNDLESS]
    ),
    value=values,
)
def test_any_value_is_taken_or_refused_by_name(place: str, value: Any) -> None:
    assert outcome(place, value) is None
