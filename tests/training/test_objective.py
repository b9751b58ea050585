"""The loss and the optimiser next to torch's own."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

from h2gcn.training.objective import Adam, node_loss


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


def test_adam_has_the_bits_of_torchs() -> None:
    torch.manual_seed(0)
    ours = nn.ParameterList([torch.randn(5, 3), torch.randn(4), torch.randn(2, 2)])
    theirs = copy.deepcopy(ours)
    optimisers = []
    for kind, weights in ((Adam, ours), (torch.optim.Adam, theirs)):
        first, *others = weights
        groups = [
            {"params": [first], "weight_decay": 0.1},
            {"params": others, "weight_decay": 0.0},
        ]
        optimisers.append(kind(groups, lr=0.05, fused=True))
    for step in range(6):
        # The last weight has a gradient only now and then, as where phases train parts.
        for place, (mine, torchs) in enumerate(zip(ours, theirs, strict=True)):
            grad = torch.randn_like(mine)
            has = place < 2 or step in (3, 5)
            mine.grad, torchs.grad = (grad, grad.clone()) if has else (None, None)
        for optimiser in optimisers:
            optimiser.step()
        for mine, torchs in zip(ours, theirs, strict=True):
            assert torch.equal(mine, torchs)
    mine, torchs = (optimiser.state_dict()["state"] for optimiser in optimisers)
    assert mine.keys() == torchs.keys()
    for place, state in torchs.items():
        assert all(torch.equal(mine[place][name], state[name]) for name in state)
    optimisers[0].zero_grad()
    assert all(weight.grad is None for weight in ours)
