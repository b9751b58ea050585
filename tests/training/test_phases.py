"""Trainings in phases: their order and lengths, what chooses, and that none leaks."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from h2gcn import Graph, NodeClassifier, Split
from h2gcn.exceptions import InputError
from h2gcn.models import NodeModule, Phase
from h2gcn.models.gmnn import GMNN
from h2gcn.sparse import Operator, Propagation
from h2gcn.training import Epoch, TrainConfig, TrainResult, loop, train
from h2gcn.training.loop import make_optimizer
from support.cases import each
from support.graphs import NAMED

SPLIT = Split(train=np.arange(0, 12), val=np.arange(12, 20), test=np.arange(20, 30))
PHASED = ("gmnn", "gam")


# --------------------------------------------------------------------------- the loop


class Turns(NodeModule):
    """Learns with one weight, then with another, and writes down what it is asked.

    Parameters
    ----------
    phases
        Names, and how many steps; None for epochs.
    """

    def __init__(self, phases: Sequence[tuple[str, int | None]]) -> None:
        super().__init__(1, 2)
        self.weights = nn.ParameterDict(
            {name: torch.zeros(1, 2) for name in dict.fromkeys(n for n, _ in phases)}
        )
        self._phases = tuple(Phase(*one) for one in phases)
        self.asked: list[Any] = []

    def phases(self) -> tuple[Phase, ...]:
        """Return those that it was made with."""
        return self._phases

    def prepare(
        self,
        phase: Phase,
        x: Any,
        graph: Any,
        labels: Tensor,
        index: Tensor,
        before: Mapping[str, Tensor],
    ) -> dict[str, Tensor]:
        """Return how often it was called, and check that no gradient is taken."""
        del x, graph
        assert not torch.is_grad_enabled()
        assert not self.training
        count = before.get("count", torch.zeros(()))
        state = {name: w.detach().clone() for name, w in self.weights.items()}
        self.asked.append((phase.name, labels.tolist(), index.tolist(), state))
        return {"count": count + 1}

    def objective(
        self,
        phase: Phase,
        x: Any,
        graph: Any,
        given: Mapping[str, Tensor],
        weights: Tensor | None,
    ) -> Tensor | None:
        """Return a loss that moves the phase's weight by the rate in each step."""
        del graph, weights
        assert self.training
        assert torch.is_grad_enabled()
        self.asked.append((phase.name, given["count"].item()))
        return (x * 0).sum() + self.weights[phase.name].sum()

    def forward(self, x: Tensor, graph: Propagation) -> Tensor:
        """Return logits that all weights are in."""
        logits = x * sum(self.weights.values())
        return graph.pick(logits)


def run(module: NodeModule, **config: Any) -> TrainResult:
    x, y = torch.ones(6, 1), np.array([0, 1, 1, 0, 1, 0])
    split = Split([0, 2], [1, 3], [4, 5])
    given = {"optimizer": "sgd", "learning_rate": 0.5, "l2": 0.0} | config
    operators = (Operator(NAMED["disconnected"]),)
    return train(module, x, operators, y, split, TrainConfig(**given))


def test_phases_come_in_order_each_prepared_once() -> None:
    module = Turns([("a", None), ("b", 2), ("a", None)])
    result = run(module, epochs=5, stopping="loss-mean")
    assert len(result.history) == 5
    asked = [one if len(one) == 2 else one[0] for one in module.asked]
    assert asked == [
        *("a", ("a", 1), ("a", 1), ("a", 1)),
        *("b", ("b", 2), ("b", 2)),
        *("a", ("a", 3), ("a", 3)),
    ]


def test_training_labels_alone_are_shown() -> None:
    module = Turns([("a", None), ("b", 1), ("a", None)])
    run(module, epochs=4)
    shown = [one[1:3] for one in module.asked if len(one) == 4]
    assert shown == [([0, 1], [0, 2])] * 3


def test_only_what_a_loss_depends_on_is_changed() -> None:
    module = Turns([("a", None), ("b", 3), ("a", None)])
    run(module, epochs=4, stopping="loss-mean")
    np.testing.assert_allclose(module.weights["a"].detach(), -0.5 * 4)
    np.testing.assert_allclose(module.weights["b"].detach(), -0.5 * 3)


def test_epochs_are_shared_and_the_first_have_one_more() -> None:
    for epochs, shares in ((7, (3, 2, 2)), (3, (1, 1, 1)), (2, (1, 1)), (1, (1,))):
        module = Turns([("a", None), ("b", None), ("c", None)])
        assert len(run(module, epochs=epochs).history) == epochs
        steps = [one[0] for one in module.asked if len(one) == 2]
        assert tuple(steps.count(name) for name in "abc")[: len(shares)] == shares


class Sliding(Turns):
    """One whose logits are right on validation nodes after its first epoch only."""

    def forward(self, x: Tensor, graph: Propagation) -> Tensor:
        """Return logits of two halves of nodes."""
        a = self.weights["a"][0, 0]
        right = torch.where((a < -0.4) & (a > -0.6), 1.0, -1.0)
        sign = torch.tensor([1.0, -1.0, 1.0, 1.0, 1.0, 1.0])[:, None]
        logits = torch.cat([right * sign, -right * sign], dim=1) + 0 * (x * a)
        return graph.pick(logits)


def test_a_phase_begins_with_the_best_weights_so_far() -> None:
    module = Sliding([("a", None), ("b", 2), ("b", None)])
    result = run(module, epochs=6)
    assert [epoch.val_score for epoch in result.history] == [1, 0, 0, 1, 1, 1]
    assert result.best_epoch == 6  # of equal ones the last
    began = [one[3] for one in module.asked if len(one) == 4]
    first = {name: w[0, 0].item() for name, w in began[1].items()}
    assert first == {"a": -0.5, "b": 0.0}  # not -1.5, where it ended
    second = {name: w[0, 0].item() for name, w in began[2].items()}
    assert second == {"a": -0.5, "b": -1.0}  # what was trained since is not lost


def test_the_optimiser_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[torch.optim.Optimizer] = []
    states: list[int] = []

    def make(*given: Any) -> torch.optim.Optimizer:
        made.append(make_optimizer(*given))
        return made[0]

    class Watching(Turns):
        def prepare(self, *given: Any) -> dict[str, Tensor]:
            states.append(len(made[0].state))
            return super().prepare(*given)

    monkeypatch.setattr(loop, "make_optimizer", make)
    module = Watching([("a", None), ("a", 2), ("a", None)])
    run(module, epochs=4, optimizer="adam")
    assert states == [0, 0, 0]
    assert len(made[0].state) == 1


def test_patience_ends_a_phase_not_the_training() -> None:
    module = Turns([("a", None), ("b", None)])
    result = run(module, epochs=100, patience=3)
    # The score never rises after the first epoch of each.
    assert len(result.history) == 2 * 4


def test_a_loss_that_diverges_before_an_epoch_is_an_error() -> None:
    class Diverging(Turns):
        def objective(self, phase: Phase, *given: Any) -> Tensor | None:
            loss = super().objective(phase, *given)
            return loss if phase.steps is None else loss * float("nan")

    with pytest.raises(InputError, match="training diverged in epoch 3 "):
        run(Diverging([("a", None), ("b", 1), ("a", None)]), epochs=4)


def test_an_interrupt_between_two_phases_keeps_the_best_epoch() -> None:
    class Stopped(Turns):
        def objective(self, phase: Phase, *given: Any) -> Tensor | None:
            if phase.steps is not None:
                raise KeyboardInterrupt
            return super().objective(phase, *given)

    module = Stopped([("a", None), ("b", 1), ("a", None)])
    result = run(module, epochs=4, stopping="loss-mean")
    assert result.interrupted
    assert (len(result.history), result.best_epoch) == (2, 2)
    np.testing.assert_allclose(module.weights["a"].detach(), -1.0)


# ------------------------------------------------------------------------ the models


def new(model: str, **params: Any) -> NodeClassifier:
    given = {"epochs": 12, "hidden_channels": 4, "random_state": 3} | params
    return NodeClassifier(model, **given)


def weights_of(clf: NodeClassifier) -> dict[str, bytes]:
    state = clf.module_.state_dict()
    return {name: tensor.numpy().tobytes() for name, tensor in state.items()}


@each("model", PHASED)
def test_only_labels_of_training_nodes_teach(small_graph: Graph, model: str) -> None:
    def fit(y: np.ndarray, **params: Any) -> NodeClassifier:
        return new(model, **params).fit(replace(small_graph, y=y), SPLIT)

    # It keeps the last weights: validation labels have nothing to choose.
    params = {"stopping": "loss-mean", "patience": None}
    one, others = fit(small_graph.y, **params), small_graph.y.copy()
    others[12:] = np.random.default_rng(0).integers(2, size=18)
    others[12:14], others[20:22] = (0, 1), (0, 1)
    assert (others != small_graph.y).any()
    other = fit(others, **params)
    assert weights_of(one) == weights_of(other)
    losses = [[epoch.loss for epoch in clf.history_] for clf in (one, other)]
    assert losses[0] == losses[1]
    taught = small_graph.y.copy()
    taught[0:2] = taught[[1, 0]]
    assert weights_of(one) != weights_of(fit(taught, **params))
    flipped = small_graph.y.copy()
    flipped[20:] = 1 - flipped[20:]
    assert fit(flipped).history_ == fit(small_graph.y).history_


class Killed(BaseException):
    """Ends a program at once."""


def kill(clf: NodeClassifier, graph: Graph, folder: Path, at: int) -> None:
    def on_epoch(epoch: Epoch) -> None:
        if epoch.number == at:
            raise Killed

    with pytest.raises(Killed):
        clf.fit(
            graph, SPLIT, on_epoch=on_epoch, checkpoint=folder, checkpoint_minutes=0
        )


@each(
    ("model", "options"),
    [
        ("gmnn", {"iterations": 2, "label_steps": 3, "temperature": 5.0}),
        ("gam", {"rounds": 2, "agreement_steps": 3, "added": 6}),
        ("gam", {"base": "gcn", "agreement_steps": 2, "added": 4}),
    ],
    ids=str,
)
def test_they_go_on_from_any_epoch_to_the_same_bits(
    small_graph: Graph, tmp_path: Path, model: str, options: dict[str, Any]
) -> None:
    params = {"options": options, "patience": 3}
    whole = new(model, **params).fit(small_graph, SPLIT)
    for at in range(1, 12):
        assert len(whole.history_) > at
        folder = tmp_path / str(at)
        kill(new(model, **params), small_graph, folder, at)
        again = new(model, **params).fit(
            small_graph, SPLIT, checkpoint=folder, resume=True
        )
        assert again.history_ == whole.history_
        assert again.best_epoch_ == whole.best_epoch_
        assert weights_of(again) == weights_of(whole)


def test_a_kill_between_phases_has_the_steps_taken_again(
    small_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = new("gmnn").fit(small_graph, SPLIT)
    original, calls = GMNN.objective, []

    def objective(self: GMNN, phase: Phase, *given: Any) -> Tensor | None:
        calls.append(phase.name)
        if calls.count("p") == 50:
            raise Killed
        return original(self, phase, *given)

    monkeypatch.setattr(GMNN, "objective", objective)
    with pytest.raises(Killed):
        new("gmnn").fit(
            small_graph, SPLIT, checkpoint=tmp_path / "c", checkpoint_minutes=0
        )
    monkeypatch.undo()
    again = new("gmnn").fit(small_graph, SPLIT, checkpoint=tmp_path / "c", resume=True)
    assert again.history_ == whole.history_
    assert weights_of(again) == weights_of(whole)


def test_nothing_that_is_given_is_saved_with_a_model(
    small_graph: Graph, tmp_path: Path
) -> None:
    for model in PHASED:
        clf = new(model).fit(small_graph, SPLIT)
        clf.save(tmp_path / model)
        loaded = NodeClassifier.load(tmp_path / model)
        other = replace(small_graph, x=np.asarray(small_graph.x)[::-1].copy())
        assert set(weights_of(loaded)) == set(weights_of(clf))
        assert np.isfinite(loaded.predict_logits(other)).all()


@each("model", PHASED)
def test_weights_of_classes_act_in_every_phase(small_graph: Graph, model: str) -> None:
    y = small_graph.y.copy()
    y[:12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]
    graph, found = replace(small_graph, y=y), []
    for weight in (None, "balanced"):
        clf = new(model, class_weight=weight, stopping="loss-mean", patience=None)
        found.append([epoch.loss for epoch in clf.fit(graph, SPLIT).history_])
    assert (np.abs(np.subtract(*found)) > 1e-6).all()
