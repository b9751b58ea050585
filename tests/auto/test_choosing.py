"""Who answers, worked out by hand on a few nodes and on many."""

import numpy as np
import pytest

from h2gcn.auto import Choice, choose
from h2gcn.auto.contest import MANY_NODES, ROUNDS, by_node
from support.cases import each


def sure_of(y: np.ndarray, right: np.ndarray, share: float = 0.9) -> np.ndarray:
    """Return two columns: `share` for the true class where `right`, else for the other.

    What is sure is never wholly so, so that no node alone decides.
    """
    own = np.where(right, share, 1 - share)
    found = np.empty((len(y), 2))
    found[np.arange(len(y)), y] = own
    found[np.arange(len(y)), 1 - y] = 1 - own
    return found


def scores(y: np.ndarray, p: np.ndarray, metric: str) -> float:
    """Return a metric by its definition."""
    said = p.argmax(axis=1)
    if metric == "accuracy":
        return float((said == y).mean())
    if metric == "log_loss":
        return float(np.mean([np.log(row[c]) for row, c in zip(p, y, strict=True)]))
    if metric == "macro_f1":
        parts = []
        for c in np.union1d(y, said):
            hit = ((said == c) & (y == c)).sum()
            parts.append(2 * hit / ((said == c).sum() + (y == c).sum()))
        return float(np.mean(parts))
    ones, zeros = p[y == 1, 1], p[y == 0, 1]
    wins = (ones[:, None] > zeros).sum() + 0.5 * (ones[:, None] == zeros).sum()
    return float(wins / (len(ones) * len(zeros)))


Y = np.arange(40) % 2


def test_the_best_answers_alone_where_nodes_tell_it_from_others() -> None:
    half = np.arange(40) < 20
    found = {
        "poor": sure_of(Y, half),
        "good": sure_of(Y, np.ones(40, dtype=bool)),
        "even": np.full((40, 2), 0.5),
    }
    choice = choose(found, Y)
    assert choice.weights == {"good": 1.0}
    assert choice.metric == "log_loss"
    expected = {"good": np.log(0.9), "even": np.log(0.5)}
    expected["poor"] = (np.log(0.9) + np.log(0.1)) / 2
    assert choice.scores == pytest.approx(expected)
    assert choice.gaps["good"] == 0.0
    assert choice.gaps["poor"] == pytest.approx((np.log(0.9) - np.log(0.1)) / 2)
    assert choice.errors["good"] == 0.0
    # Against one that is the same for all nodes, the gap is the same on all.
    assert choice.errors["even"] == pytest.approx(0.0, abs=1e-12)


def test_the_error_is_that_of_the_difference_node_by_node() -> None:
    rng = np.random.default_rng(0)
    hard = rng.uniform(0.2, 0.95, 400)  # for all members alike
    y = np.zeros(400, dtype=int)
    shares = {"a": hard, "b": hard * rng.uniform(0.8, 1.0, 400)}
    found = {name: np.column_stack([p, 1 - p]) for name, p in shares.items()}
    choice = choose(found, y)
    ratio = np.log(shares["a"] / shares["b"])
    assert choice.errors["b"] == pytest.approx(ratio.std() / np.sqrt(400), rel=0.2)
    assert choice.weights == {"a": 1.0}, "b is worse on every node"
    # Apart they would not be told: each alone is far less certain.
    alone = np.log(shares["a"]).std() / np.sqrt(400)
    assert choice.errors["b"] < alone / 4


def test_those_within_one_standard_error_answer_alike() -> None:
    # a and b are right on 15 nodes, each on other ones; c is right on 5 of them.
    places = np.arange(40)
    found = {
        "a": sure_of(Y, places < 15),
        "b": sure_of(Y, places >= 25),
        "c": sure_of(Y, places < 5),
    }
    choice = choose(found, Y)
    assert choice.weights == {"a": 0.5, "b": 0.5}
    assert choice.gaps["c"] > choice.errors["c"] > 0


def test_one_that_is_a_little_worse_on_every_node_is_within_the_bests_error() -> None:
    rng = np.random.default_rng(0)
    hard = rng.uniform(0.2, 0.95, 100)
    found = {
        name: np.column_stack([factor * hard, 1 - factor * hard])
        for name, factor in (("a", 1.0), ("b", 0.98), ("c", 0.8))
    }
    choice = choose(found, np.zeros(100, dtype=int))
    error = np.log(hard).std() / np.sqrt(100)
    assert choice.errors["b"] < choice.gaps["b"] < error < choice.gaps["c"]
    assert choice.weights == {"a": 0.5, "b": 0.5}


def test_the_same_member_twice_is_in_the_answer_twice() -> None:
    rng = np.random.default_rng(3)
    p = rng.dirichlet([1, 1], 333)
    y = rng.integers(2, size=333)
    found = {str(i): p for i in range(13)}
    assert choose(found, y).weights == dict.fromkeys(found, 1 / 13)


@each("metric", ["log_loss", "accuracy", "macro_f1", "roc_auc"])
def test_scores_are_those_of_the_metric(metric: str) -> None:
    rng = np.random.default_rng(1)
    y = (rng.random(60) < 0.3).astype(int)
    found = {name: rng.dirichlet([2, 1], 60) for name in "abc"}
    choice = choose(found, y, metric)
    expected = {name: scores(y, p, metric) for name, p in found.items()}
    assert choice.metric == metric
    assert choice.scores == pytest.approx(expected, abs=1e-6)
    best = max(expected, key=expected.__getitem__)
    assert best in choice.weights
    assert choice.gaps == pytest.approx(
        {name: expected[best] - s for name, s in expected.items()}, abs=1e-6
    )
    assert sum(choice.weights.values()) == pytest.approx(1)


def test_the_metric_decides_who_is_best() -> None:
    # One orders all nodes rightly but says 0 of each, the other is right on most.
    y = np.repeat([0, 1], 20)
    order = np.column_stack([np.linspace(0.9, 0.6, 40), np.linspace(0.1, 0.4, 40)])
    most = sure_of(y, np.arange(40) % 8 > 0, 0.7)
    found = {"order": order, "most": most}
    assert choose(found, y, "roc_auc").weights == {"order": 1.0}
    assert choose(found, y, "accuracy").weights == {"most": 1.0}
    assert choose(found, y, "macro_f1").weights == {"most": 1.0}


def test_where_a_metric_has_no_value_the_log_loss_chooses() -> None:
    y = np.zeros(30, dtype=int)
    right = np.ones(30, dtype=bool)
    found = {"good": sure_of(y, right), "poor": sure_of(y, ~right)}
    choice = choose(found, y, "roc_auc")
    assert choice.metric == "log_loss"
    assert choice.weights == {"good": 1.0}


def test_one_sure_mistake_does_not_decide() -> None:
    y = np.zeros(100, dtype=int)
    p = np.tile([0.99, 0.01], (100, 1))
    p[0] = 0.0, 1.0
    choice = choose({"a": p, "even": np.full((100, 2), 0.5)}, y)
    assert choice.scores["a"] == pytest.approx((99 * np.log(0.99) + np.log(1e-7)) / 100)
    assert "a" in choice.weights


def test_what_each_node_adds() -> None:
    p = np.array([[0.75, 0.25], [0.5, 0.5], [0.0, 1.0]])
    y = np.array([1, 0, 0])
    np.testing.assert_allclose(
        by_node("log_loss", p, y), [np.log(0.25), np.log(0.5), np.log(1e-7)]
    )
    assert by_node("accuracy", p, y).tolist() == [0, 1, 0]


# ------------------------------------------------------------------------- many nodes


def halves(n: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return members of which a knows one half of the nodes, and b the other."""
    y = np.arange(n) % 2
    first = np.arange(n) < n // 2
    known = sure_of(y, np.ones(n, dtype=bool))
    unknown = np.full((n, 2), 0.5)
    found = {
        "a": np.where(first[:, None], known, unknown),
        "b": np.where(first[:, None], unknown, known),
        "bad": sure_of(y, np.zeros(n, dtype=bool)),
    }
    return found, y


def test_weights_are_found_from_a_thousand_nodes_on() -> None:
    found, y = halves(MANY_NODES)
    found["a"] = 0.6 * found["a"] + 0.4 * np.full_like(found["a"], 0.5)
    few = {name: p[:-1] for name, p in found.items()}
    assert choose(few, y[:-1]).weights == {"b": 1.0}
    weights = choose(found, y).weights
    assert set(weights) == {"a", "b"}
    assert 0.5 < weights["b"] < 1
    assert sum(weights.values()) == pytest.approx(1)
    for weight in weights.values():  # so many rounds of so many
        assert any(
            weight == pytest.approx(i / length)
            for length in range(1, ROUNDS + 1)
            for i in range(1, length + 1)
        )


@each("metric", ["log_loss", "accuracy", "macro_f1", "roc_auc"])
@each("seed", range(3))
def test_found_weights_are_never_worse_than_the_best(metric: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = (rng.random(MANY_NODES) < 0.3).astype(int)
    found = {}
    for number in range(6):
        z = rng.normal(size=(MANY_NODES, 2)) + 0.3 * number * np.eye(2)[y]
        found[str(number)] = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    choice = choose(found, y, metric)
    mean = sum(weight * found[name] for name, weight in choice.weights.items())
    assert scores(y, mean, metric) >= max(choice.scores.values()) - 1e-6


def test_one_that_cannot_be_helped_answers_alone() -> None:
    y = np.arange(MANY_NODES) % 2
    found = {
        "bad": sure_of(y, np.zeros(MANY_NODES, dtype=bool)),
        "good": sure_of(y, np.ones(MANY_NODES, dtype=bool)),
    }
    assert choose(found, y).weights == {"good": 1.0}


# --------------------------------------------------------------------------- optimism


def guesses(members: int, n: int, seed: int) -> dict[str, np.ndarray]:
    """Return members that know nothing, and are sure of it in their own ways."""
    rng = np.random.default_rng(seed)
    return {str(i): rng.dirichlet([3, 3], n) for i in range(members)}


def test_the_best_of_many_equals_looks_too_good() -> None:
    y = np.random.default_rng(9).integers(2, size=60)
    found = [choose(guesses(12, 60, seed), y).optimism for seed in range(8)]
    assert all(value is not None and value > 0.02 for value in found)


def test_what_optimism_is_worth() -> None:
    # How much better the best of 12 equals is than they are: by new draws, not by
    # the nodes themselves.
    y = np.random.default_rng(9).integers(2, size=60)
    told, true = [], []
    for seed in range(20):
        choice = choose(guesses(12, 60, seed), y)
        values = np.array(list(choice.scores.values()))
        true.append(values.max() - values.mean())
        told.append(choice.optimism)
    # A resample is as far from the nodes as these are from all: about 1.6 times.
    assert 0.8 < np.mean(told) / np.mean(true) < 2.2


def test_one_member_is_not_chosen_at_all() -> None:
    y = np.random.default_rng(9).integers(2, size=60)
    assert choose(guesses(1, 60, 0), y).optimism == 0.0


def test_a_clear_winner_is_hardly_too_good() -> None:
    y = np.arange(60) % 2
    found = guesses(5, 60, 0) | {"good": sure_of(y, np.arange(60) % 10 > 0)}
    optimism = choose(found, y).optimism
    assert optimism is not None
    assert abs(optimism) < 0.05


def test_a_single_node_tells_nothing() -> None:
    choice = choose(guesses(3, 1, 0), np.array([1]))
    assert choice.optimism is None
    assert len(choice.weights) == 1


def test_the_same_seed_chooses_the_same() -> None:
    y = np.random.default_rng(9).integers(2, size=60)
    one, two = (choose(guesses(4, 60, 2), y, seed=5) for _ in range(2))
    assert one == two
    assert choose(guesses(4, 60, 2), y, seed=6).errors != one.errors


# ------------------------------------------------------------------------ fewer answer


def test_weights_of_those_that_are_left() -> None:
    choice = Choice({"a": 0.5, "b": 0.3, "c": 0.2}, {}, {}, {}, 0.0, "log_loss")
    assert choice.among(["a", "b", "c", "d"]) is choice
    assert choice.among(["c", "b"]).weights == pytest.approx({"b": 0.6, "c": 0.4})
