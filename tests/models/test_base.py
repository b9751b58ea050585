"""What is declared of every module, and what holds where a model says nothing."""

import numpy as np
import torch
from torch import Tensor, nn

from h2gcn.graph import Split
from h2gcn.models import MODELS, NodeModule, Phase, build_model, find_model
from h2gcn.sparse import Operator
from h2gcn.training import TrainConfig, fit_module
from support.cases import each
from support.graphs import NAMED

WHOLE = {
    *("mixhop", "label-propagation", "label-propagation-2hop", "linbp", "bp", "zoobp"),
    *("decoupled-smoothing", "correct-and-smooth", "ica"),
}
"""Models that see the whole graph at once."""


class Linear(NodeModule):
    """A model that says nothing of itself."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, out_channels)
        self.weight = nn.Parameter(torch.zeros(in_channels, out_channels))

    def forward(self, x: Tensor, operators: object, target: object = None) -> Tensor:
        """Return the logits of all nodes, or of the target's."""
        del operators
        logits = x @ self.weight
        return logits if target is None else logits[target.index]  # type: ignore[attr-defined]


def test_a_model_that_says_nothing() -> None:
    module = Linear(3, 2)
    assert module.reach is None
    assert module.trained_first() is None
    assert module.learner() is module
    assert module.penalty() is None
    assert module.phases() == (Phase(),)
    given = module.prepare(
        Phase(), torch.eye(3), (), torch.tensor([0]), torch.arange(1), {}
    )
    assert given == {}
    assert module.objective(Phase(), torch.eye(3), (), given, None) is None
    assert module.reached(torch.eye(3), ()) is None
    assert [weight.shape for weight in module.regularised()] == [(3, 2)]
    assert module.embedding_width() == 2
    assert module.working_bytes(100, 10) == 28 * 2 * 100
    assert module.entry_bytes() == 0
    assert module.self_loops
    assert module.drops_input


def test_a_model_that_says_nothing_is_trained() -> None:
    module, x, y = Linear(2, 2), torch.eye(2).repeat(3, 1), np.arange(6) % 2
    split = Split(np.arange(4), np.arange(4, 6), np.zeros(0, dtype=np.int64))
    operators = (Operator(NAMED["disconnected"]),)
    result = fit_module(module, x, operators, y, split, TrainConfig(epochs=5))
    assert result.val_score == 1.0


class Opposite(NodeModule):
    """What its learner says, turned around."""

    def __init__(self) -> None:
        super().__init__(2, 2)
        self.part = Linear(2, 2)

    def learner(self) -> Linear:
        """Return the part that is trained."""
        return self.part

    def forward(self, x: Tensor, operators: object, target: object = None) -> Tensor:
        """Return the negative logits."""
        return -self.part(x, operators, target)


def test_epochs_train_the_learner_and_the_whole_is_scored() -> None:
    module, x, y = Opposite(), torch.eye(2).repeat(3, 1), np.arange(6) % 2
    split = Split(np.arange(4), np.arange(4, 6), np.zeros(0, dtype=np.int64))
    operators = (Operator(NAMED["disconnected"]),)
    seen: list[float] = []
    result = fit_module(
        module,
        x,
        operators,
        y,
        split,
        TrainConfig(epochs=5),
        on_epoch=lambda epoch: seen.append(epoch.val_score),
    )
    assert seen == [epoch.val_score for epoch in result.history] == [1.0] * 5
    assert result.val_score == 0.0
    assert result.best_epoch >= 1
    assert result.seconds > 0
    assert not module.training


@each("name", MODELS)
def test_every_model_keeps_what_is_declared(name: str) -> None:
    takes = find_model(name).inputs
    width = 3 if takes == "labels" else 7
    module = build_model(name, (2, 5) if takes == "table" else width, 3, {})
    assert isinstance(module, NodeModule)
    assert (module.in_channels, module.out_channels) == (width, 3)
    assert (module.reach is None) == (name in WHOLE)
    own = {id(weight) for weight in module.parameters()}
    assert {id(weight) for weight in module.regularised()} <= own
    assert module.working_bytes(1000, 100) >= module.working_bytes(100, 100) > 0
    assert module.embedding_width() >= 1
    first = module.trained_first()
    assert (first is not None) == (name == "cpgnn")
    assert first is None or {id(weight) for weight in first.parameters()} < own
    learner = module.learner()
    assert (learner is not module) == (name == "correct-and-smooth")
    assert {id(weight) for weight in learner.parameters()} == own
    assert (module.entry_bytes() > 0) == (name in ("gat", "bp", "gam"))
    phases = module.phases()
    assert phases[-1].steps is None  # nothing is trained for nothing
    assert (len(phases) > 1) == (name in ("gmnn", "gam"))


def test_an_entry_of_attention_takes_bytes_for_each_head() -> None:
    module = build_model("gat", 7, 3, {"heads": 4, "out_heads": 2})
    assert module.entry_bytes() == 2 * 32 + 48 * 4 + 16 * 8
