"""The loss next to torch's own."""

import pytest
import torch
from torch.nn import functional

from h2gcn.training.objective import node_loss


@pytest.mark.parametrize("scale", [1.0, 1e4], ids=["small", "large"])
@pytest.mark.parametrize("classes", [1, 2, 7])
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
