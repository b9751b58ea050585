"""Optimizers step as torch's own do, and load no compiler for it."""

import subprocess
import sys
from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn

from h2gcn.models import NodeModule
from h2gcn.training.optimizers import OPTIMIZERS, make_optimizer
from support.cases import each

TORCHS = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}


class Linear(NodeModule):
    """One weight that is penalised, and one that is not."""

    def __init__(self) -> None:
        super().__init__(5, 3)
        generator = torch.Generator().manual_seed(0)
        self.weight = nn.Parameter(torch.randn(5, 3, generator=generator))
        self.bias = nn.Parameter(torch.zeros(3))

    def regularised(self) -> list[nn.Parameter]:
        """Return the weight alone."""
        return [self.weight]


def steps(model: Linear, optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Return the weights after some steps."""
    x = torch.randn(7, 5, generator=torch.Generator().manual_seed(1))
    for _ in range(20):
        optimizer.zero_grad(set_to_none=True)
        (x @ model.weight + model.bias).square().sum().backward()
        optimizer.step()
    return [model.weight, model.bias]


@each("name", OPTIMIZERS)
def test_steps_are_torchs_to_the_bit(name: str) -> None:
    ours, theirs = Linear(), Linear()
    groups = [
        {"params": [theirs.weight], "weight_decay": 0.02},
        {"params": [theirs.bias], "weight_decay": 0.0},
    ]
    reference = TORCHS[name](groups, lr=0.01, fused=True)
    optimizer = make_optimizer(name, ours, 0.01, 0.01)
    assert isinstance(optimizer, TORCHS[name])
    pairs = zip(steps(ours, optimizer), steps(theirs, reference), strict=True)
    for own, wanted in pairs:
        assert torch.equal(own, wanted)
        assert own.requires_grad


@each("name", OPTIMIZERS)
def test_a_state_is_gone_on_from(name: str) -> None:
    model, other = Linear(), Linear()
    first, second = (make_optimizer(name, one, 0.01, 0.0) for one in (model, other))
    steps(model, first)
    other.load_state_dict(model.state_dict())
    second.load_state_dict(deepcopy(first.state_dict()))
    pairs = zip(steps(model, first), steps(other, second), strict=True)
    assert all(torch.equal(*pair) for pair in pairs)


@pytest.mark.slow
def test_no_compiler_is_loaded() -> None:
    program = (
        "import sys, torch\n"
        "from h2gcn.training.optimizers import OPTIMIZERS\n"
        "for kind in OPTIMIZERS.values():\n"
        "    weight = torch.nn.Parameter(torch.ones(3))\n"
        "    optimizer = kind([weight], lr=0.1)\n"
        "    weight.sum().backward()\n"
        "    optimizer.step()\n"
        "    optimizer.zero_grad()\n"
        "    optimizer.load_state_dict(optimizer.state_dict())\n"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_weights_without_a_gradient_are_left_alone() -> None:
    torch.manual_seed(0)
    ours = nn.ParameterList([torch.randn(5, 3), torch.randn(4), torch.randn(2, 2)])
    theirs = deepcopy(ours)
    optimisers = []
    for kind, weights in ((OPTIMIZERS["adam"], ours), (torch.optim.Adam, theirs)):
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
