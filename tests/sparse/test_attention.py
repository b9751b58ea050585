"""Sums over neighbors with learned weights, against the dense formula."""

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from h2gcn.graph import CSR
from h2gcn.sparse import Operator, attend
from h2gcn.sparse.attention import row_softmax, weighted_sums
from h2gcn.training import seeded
from support.cases import each

SLOPE = 0.2


def pattern(m: int = 9, n: int = 12) -> Operator:
    """Return a random pattern without empty rows, but with an empty column."""
    dense = np.random.default_rng(0).random((m, n)) < 0.3
    dense[:, 0], dense[:, 2] = True, False
    return Operator(CSR(sp.csr_array(dense.astype(np.float32))))


def parts(operator: Operator, heads: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    m, n = operator.shape
    generator = torch.Generator().manual_seed(1)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).requires_grad_()

    return draw(m, heads), draw(n, heads), draw(n, heads, width)


def dense_alpha(operator: Operator, source: Tensor, neighbor: Tensor) -> Tensor:
    """Return the softmax over each row of all scores, [m, n, k]."""
    scores = source[:, None] + neighbor[None]
    scores = torch.where(scores > 0, scores, SLOPE * scores)
    outside = torch.from_numpy(operator.scipy.toarray() == 0)
    return scores.masked_fill(outside[:, :, None], -torch.inf).softmax(dim=1)


def with_gradients(out: Tensor, given: tuple[Tensor, ...]) -> list[Tensor]:
    outer = torch.randn(out.shape, generator=torch.Generator().manual_seed(2))
    return [out, *torch.autograd.grad((out * outer).sum(), given)]


@each(("heads", "width"), [(1, 1), (1, 7), (3, 5), (8, 8), (9, 3)])
def test_attention_is_the_dense_formula(heads: int, width: int) -> None:
    operator = pattern()
    given = parts(operator, heads, width)
    ours = with_gradients(attend(operator, *given, slope=SLOPE), given)
    alpha = dense_alpha(operator, *given[:2])
    dense = torch.einsum("mnk,nkd->mkd", alpha, given[2])
    for one, other in zip(ours, with_gradients(dense, given), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_weights_and_what_is_summed_are_dropped_without_bias() -> None:
    operator = pattern()
    given = tuple(part.detach() for part in parts(operator, 8, 4))
    expected = attend(operator, *given, slope=SLOPE)
    with seeded(0):
        draws = [attend(operator, *given, slope=SLOPE, p=0.5) for _ in range(3000)]
    assert not torch.equal(draws[0], draws[1])
    mean = torch.stack(draws).mean(dim=0)
    torch.testing.assert_close(mean, expected, rtol=0, atol=0.1)


@each("p", [0.0, 0.4])
def test_gradients_are_the_numerical_ones(p: float) -> None:
    operator = pattern(4, 6)
    given = tuple(
        part.detach().double().requires_grad_() for part in parts(operator, 2, 3)
    )

    def run(*given: Tensor) -> Tensor:
        with seeded(5):
            return attend(operator, *given, slope=SLOPE, p=p)

    assert torch.autograd.gradcheck(run, given)


def test_softmax_and_sums_of_empty_rows() -> None:
    operator = Operator(CSR(sp.csr_array(np.array([[0, 1], [0, 0]], np.float32))))
    assert row_softmax(operator, torch.tensor([[3.0]])).tolist() == [[1]]
    sums = weighted_sums(operator, torch.tensor([[2.0]]), torch.ones(2, 1, 3))
    assert sums.tolist() == [[[2, 2, 2]], [[0, 0, 0]]]
    empty = Operator(CSR((3, 2), dtype=np.float32))
    assert row_softmax(empty, torch.zeros(0, 2)).shape == (0, 2)
    sums = weighted_sums(empty, torch.zeros(0, 2), torch.ones(2, 2, 3))
    assert torch.equal(sums, torch.zeros(3, 2, 3))


@each("size", [1e4, -1e4])
def test_scores_of_any_size_have_a_finite_softmax(size: float) -> None:
    operator = pattern()
    given = parts(operator, 2, 8)
    out = attend(operator, size * given[0], *given[1:], slope=SLOPE)
    for found in with_gradients(out, given):
        assert found.isfinite().all()


def test_nan_stays_nan() -> None:
    operator = pattern()
    source, neighbor, z = (part.detach() for part in parts(operator, 2, 8))
    neighbor[7] = torch.nan
    rows, columns = operator.coo
    out = attend(operator, source, neighbor, z, slope=SLOPE)
    assert out[rows[columns == 7]].isnan().all()
