"""One temperature makes probabilities as sure as they are right."""

import math

import numpy as np
import pytest

from h2gcn.training import fit_temperature, log_loss
from h2gcn.training.calibration import PRIOR_STD, TEMPERATURES
from support.cases import each


def softmax(z: np.ndarray) -> np.ndarray:
    powers = np.exp(z - z.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def drawn(n: int, scale: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return logits that are `scale` times those that the labels are drawn by."""
    rng = np.random.default_rng(seed)
    true = 2 * rng.normal(size=(n, 3))
    edges = softmax(true).cumsum(axis=1)
    y = (rng.random((n, 1)) > edges[:, :2]).sum(axis=1)
    return scale * true, y


@each("scale", [0.25, 1.0, 4.0])
def test_the_temperature_is_what_logits_are_too_large_by(scale: float) -> None:
    assert fit_temperature(*drawn(20_000, scale)) == pytest.approx(scale, rel=0.05)


def test_it_is_the_best_of_a_grid() -> None:
    logits, y = drawn(200, 3.0)

    def cost(t: float) -> float:
        loss = len(y) * log_loss(y, softmax(logits / t))
        return loss + math.log(t) ** 2 / (2 * PRIOR_STD**2)

    found = fit_temperature(logits, y)
    grid = np.exp(np.linspace(*map(math.log, TEMPERATURES), 2000))
    best = min(grid, key=cost)
    assert found == pytest.approx(best, rel=0.01)
    assert cost(found) <= cost(best) + 1e-6


def test_a_handful_of_nodes_hardly_moves_it() -> None:
    right = np.tile([3.0, 0.0], (5, 1))
    assert 0.8 < fit_temperature(right, np.zeros(5, dtype=int)) < 1
    assert 1 < fit_temperature(right, np.ones(5, dtype=int)) < 20
    many = np.tile([0.1, 0.0], (5000, 1))
    assert fit_temperature(many, np.zeros(5000, dtype=int)) < 0.1


def test_where_nothing_is_known_nothing_is_changed() -> None:
    assert fit_temperature(np.zeros((0, 3)), np.zeros(0, dtype=int)) == 1.0
    assert fit_temperature(np.zeros((9, 3)), np.zeros(9, dtype=int)) == 1.0
    odd = np.array([[np.nan, 0.0]])
    assert fit_temperature(odd, np.array([1])) == 1.0
