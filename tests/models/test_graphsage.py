"""GraphSAGE: its samples of neighbors, replayed."""

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.models.graphsage import GraphSAGE, mean_adjacency
from h2gcn.sparse import Operator
from support.cases import each
from support.graphs import adjacency
from support.models import logits
from support.refusals import only, refused

Matrix = NDArray[np.float64]
FEATURES, WIDTH, CLASSES = 5, 8, 3
SIX = adjacency(6, [(0, 1), (0, 2), (1, 2), (2, 3), (2, 4)])
"""A triangle, of which one corner has two more neighbours; an isolated last node."""


def build(
    *,
    jumping: bool = False,
    dropout: float = 0.0,
    sample: int | None = None,
    activation: str = "relu",
) -> GraphSAGE:
    torch.manual_seed(0)
    return GraphSAGE(
        FEATURES,
        CLASSES,
        hidden_channels=WIDTH,
        activation=activation,
        dropout=dropout,
        sample=sample,
        jumping=jumping,
    )


def operators_of(adj: sp.csr_array) -> tuple[Operator, ...]:
    return tuple(Operator(a) for a in mean_adjacency(adj))


def features(n: int) -> Tensor:
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.normal(size=(n, FEATURES)).astype(np.float32))


def oracle(
    module: GraphSAGE,
    x: Matrix,
    means: tuple[Matrix, Matrix],
) -> Matrix:
    """Return the logits from the means of each layer, in double."""
    w = {name: p.detach().double().numpy() for name, p in module.named_parameters()}
    act = {"relu": lambda h: np.maximum(h, 0), "none": lambda h: h}[module.activation]
    h1 = act(np.hstack([x, means[0] @ x]) @ w["first"])
    h2 = act(np.hstack([h1, means[1] @ h1]) @ w["second"])
    return (np.hstack([h1, h2]) if module.jumping else h2) @ w["classifier"]


# ------------------------------------------------------------------------- samples


@each("jumping", [False, True])
@each("index", [None, [2, 5, 2, 0]], ids=["all", "target"])
def test_while_training_each_layer_draws_its_own_neighbours(
    jumping: bool, index: list[int] | None
) -> None:
    x, operators = features(6), operators_of(SIX)
    module = build(jumping=jumping, sample=2).train()
    chosen = np.arange(6) if index is None else np.array(index)
    last = operators[0] if index is None else operators[0].rows(chosen)
    torch.manual_seed(7)
    first = (operators[0].sample(2) @ torch.eye(6)).double().numpy()
    second = (last.sample(2) @ torch.eye(6)).double().numpy()
    torch.manual_seed(7)
    found = logits(module, x, operators, index).detach().numpy()
    assert (first != second if index is None else first[chosen] != second).any()
    for row, (node, mean) in enumerate(zip(chosen, second, strict=True)):
        means = np.zeros((6, 6))
        means[node] = mean
        expected = oracle(module, x.double().numpy(), (first, means))[node]
        np.testing.assert_allclose(found[row], expected, rtol=1e-5, atol=1e-5)


def test_every_step_draws_anew() -> None:
    x, operators = features(6), operators_of(SIX)
    module = build(sample=1).train()
    torch.manual_seed(0)
    draws = torch.stack([logits(module, x, operators) for _ in range(20)])
    assert len(draws[:, 2].unique(dim=0)) > 1
    torch.manual_seed(0)
    again = torch.stack([logits(module, x, operators) for _ in range(20)])
    assert torch.equal(draws, again)


def test_evaluation_takes_all_neighbours() -> None:
    x, operators = features(6), operators_of(SIX)
    sampled, whole = build(sample=1).eval(), build().eval()
    torch.testing.assert_close(
        logits(sampled, x, operators), logits(whole, x, operators)
    )


def test_a_sample_as_large_as_the_largest_degree_is_everybody() -> None:
    x, operators = features(6), operators_of(SIX)
    torch.testing.assert_close(
        logits(build(sample=4).train(), x, operators), logits(build(), x, operators)
    )


@each("jumping", [False, True])
def test_gradients_reach_every_weight_through_a_sample(jumping: bool) -> None:
    module, operators = build(jumping=jumping, sample=1).train(), operators_of(SIX)
    found = logits(module, features(6), operators, [0, 2, 3])
    torch.nn.functional.cross_entropy(found, torch.arange(3)).backward()
    for name, weight in module.named_parameters():
        assert torch.isfinite(weight.grad).all(), name
        assert weight.grad.abs().max() > 0, name


@each("options", [{"sample": 0}, {"sample": 2.5}])
def test_bad_options_are_named(options: dict[str, object]) -> None:
    with refused(**only(options)):
        GraphSAGE(5, 3, **options)
