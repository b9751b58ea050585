"""The loss next to torch's own."""

import pytest
import torch
from torch.nn import functional

from h2gcn.training.objective import node_loss
from support.cases import each


@each("scale", [1.0, 1e4], ids=["small", "large"])
@each("classes", [1, 2, 7])
def test_the_loss_is_torchs_cross_entropy(classes: int, scale: float) -> None:
    torch.manual_seed(0)
    logits = scale * torch.randn(30, classes + 1)[:, :classes]
    logits.requires_grad_()
    labels = torch.randint(classes, (30,))
    before = logits.detach().clone()
    ours = node_loss(logits, labels, None)
    theirs = functional.cross_entropy(logits, labels)
    torch.testing.assert_close(ours, theirs)
    (found,) = torch.autograd.grad(3 * ours, logits)
    (expected,) = torch.autograd.grad(3 * theirs, logits)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert torch.equal(logits, before)


def test_a_label_that_is_no_class_is_an_error() -> None:
    with pytest.raises(IndexError, match="not the number of a class"):
        node_loss(torch.zeros(2, 3), torch.tensor([0, 3]), None)


def test_the_loss_of_what_is_not_a_number_is_none() -> None:
    for logit in (torch.nan, torch.inf):
        logits = torch.tensor([[0.0, logit], [0.0, 1.0]])
        assert node_loss(logits, torch.tensor([0, 1]), None).isnan()


def test_floats_of_64_bits_are_left_to_torch() -> None:
    logits = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0, 1, 2, 2])
    expected = functional.cross_entropy(logits, labels)
    torch.testing.assert_close(node_loss(logits, labels, None), expected)
