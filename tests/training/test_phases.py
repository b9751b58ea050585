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
from h2gcn.sparse import Operator
from h2gcn.training import Epoch, TrainConfig, TrainResult, loop, train
from h2gcn.training.loop import make_optimizer
from h2gcn.training.stopping import RULES, Decision, PhasedRule, make_rule
from support.cases import each
from support.graphs import NAMED

SPLIT = Split(train=np.arange(0, 12), val=np.arange(12, 20), test=np.arange(20, 30))
PHASED = ("gmnn", "gam")


def scores(rule: PhasedRule, values: Sequence[float]) -> list[tuple[int, bool, bool]]:
    """Return the phase of each epoch, whether it was kept, and whether all is over."""
    found = []
    for number, value in enumerate(values, start=1):
        phase = rule.phase
        decision = rule(Epoch(number, 0.0, value, -value))
        found.append((phase, decision.keep, decision.stop))
    return found


# --------------------------------------------------------------------------- the rule


@each("stopping", RULES)
@each("patience", [None, 1, 3])
@each("seed", range(5))
def test_one_phase_is_the_rule_itself(
    stopping: str, patience: int | None, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    rule, phased = make_rule(stopping, patience), PhasedRule(stopping, patience, [5])
    assert phased.is_new_phase
    for number in range(1, 30):
        epoch = Epoch(number, 0.0, float(rng.integers(4)), float(rng.integers(4)))
        assert phased(epoch) == rule(epoch)
        assert not phased.is_new_phase


def test_a_phase_ends_with_its_epochs_and_the_last_one_does_not() -> None:
    rule = PhasedRule("score", None, [2, 3, 1])
    found = scores(rule, [0.5, 0.6, 0.1, 0.7, 0.7, 0.1, 0.2, 0.3])
    assert [phase for phase, _, _ in found] == [0, 0, 1, 1, 1, 2, 2, 2]
    kept = [True, True, False, True, True, False, False, False]
    assert [keep for _, keep, _ in found] == kept
    assert not any(stop for _, _, stop in found)


def test_patience_ends_a_phase_and_begins_anew() -> None:
    rule = PhasedRule("score", 2, [10, 10])
    found = scores(rule, [0.9, 0.1, 0.1, 0.2, 0.3, 0.4, 0.4, 0.4])
    # Two worse ones end the first; the second is below the first, but rises.
    assert [phase for phase, _, _ in found] == [0, 0, 0, 1, 1, 1, 1, 1]
    assert [stop for _, _, stop in found] == 7 * [False] + [True]
    assert [keep for _, keep, _ in found] == [True] + 7 * [False]


def test_the_window_of_a_mean_is_of_the_phase() -> None:
    rule = PhasedRule("loss-mean", 2, [4, 9])
    losses = [1.0, 1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.5]
    stops = [rule(Epoch(n, 0.0, 0.0, loss)).stop for n, loss in enumerate(losses, 1)]
    assert stops == 7 * [False] + [True]


def test_a_new_phase_is_fresh_until_its_first_epoch() -> None:
    rule = PhasedRule("score", None, [1, 2])
    assert (rule.phase, rule.is_new_phase) == (0, True)
    assert rule(Epoch(1, 0.0, 0.0, 0.0)) == Decision(keep=True, stop=False)
    assert (rule.phase, rule.is_new_phase) == (1, True)
    rule(Epoch(2, 0.0, 0.0, 0.0))
    assert (rule.phase, rule.is_new_phase) == (1, False)


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
        operators: Any,
        labels: Tensor,
        index: Tensor,
        before: Mapping[str, Tensor],
    ) -> dict[str, Tensor]:
        """Return how often it was called, and check that no gradient is taken."""
        del x, operators
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
        operators: Any,
        given: Mapping[str, Tensor],
        weights: Tensor | None,
    ) -> Tensor | None:
        """Return a loss that moves the phase's weight by the rate in each step."""
        del operators, weights
        assert self.training
        assert torch.is_grad_enabled()
        self.asked.append((phase.name, given["count"].item()))
        return (x * 0).sum() + self.weights[phase.name].sum()

    def forward(self, x: Tensor, operators: object, target: Any = None) -> Tensor:
        """Return logits that all weights are in."""
        del operators
        logits = x * sum(self.weights.values())
        return logits if target is None else logits[target.index]


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

    def forward(self, x: Tensor, operators: object, target: Any = None) -> Tensor:
        """Return logits of two halves of nodes."""
        del operators
        a = self.weights["a"][0, 0]
        right = torch.where((a < -0.4) & (a > -0.6), 1.0, -1.0)
        sign = torch.tensor([1.0, -1.0, 1.0, 1.0, 1.0, 1.0])[:, None]
        logits = torch.cat([right * sign, -right * sign], dim=1) + 0 * (x * a)
        return logits if target is None else logits[target.index]


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
@each("seed", [0, 1])
def test_labels_beyond_training_teach_nothing(
    small_graph: Graph, model: str, seed: int
) -> None:
    # It keeps the last weights: validation labels have nothing to choose.
    params = {"stopping": "loss-mean", "patience": None}
    y = small_graph.y.copy()
    rng = np.random.default_rng(seed)
    y[12:] = rng.integers(2, size=18)
    y[12:14], y[20:22] = (0, 1), (0, 1)
    assert (y != small_graph.y).any()
    one = new(model, **params).fit(small_graph, SPLIT)
    other = new(model, **params).fit(replace(small_graph, y=y), SPLIT)
    assert weights_of(one) == weights_of(other)
    losses = [[epoch.loss for epoch in clf.history_] for clf in (one, other)]
    assert losses[0] == losses[1]


@each("model", PHASED)
def test_labels_of_test_nodes_change_nothing(small_graph: Graph, model: str) -> None:
    y = small_graph.y.copy()
    y[20:] = 1 - y[20:]
    one = new(model).fit(small_graph, SPLIT)
    other = new(model).fit(replace(small_graph, y=y), SPLIT)
    assert weights_of(one) == weights_of(other)
    assert one.history_ == other.history_


@each("model", PHASED)
def test_labels_of_training_nodes_do_teach(small_graph: Graph, model: str) -> None:
    y = small_graph.y.copy()
    y[0:2] = y[[1, 0]]
    params = {"stopping": "loss-mean", "patience": None}
    one = new(model, **params).fit(small_graph, SPLIT)
    other = new(model, **params).fit(replace(small_graph, y=y), SPLIT)
    assert weights_of(one) != weights_of(other)


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


@each("at", range(1, 12))
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
    small_graph: Graph, tmp_path: Path, model: str, options: dict[str, Any], at: int
) -> None:
    params = {"options": options, "patience": 3}
    whole = new(model, **params).fit(small_graph, SPLIT)
    assert len(whole.history_) > at
    kill(new(model, **params), small_graph, tmp_path / "c", at)
    again = new(model, **params).fit(
        small_graph, SPLIT, checkpoint=tmp_path / "c", resume=True
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


@each("model", PHASED)
def test_other_numbers_of_epochs_are_another_training(
    small_graph: Graph, tmp_path: Path, model: str
) -> None:
    kill(new(model), small_graph, tmp_path / "c", 2)
    with pytest.raises(InputError, match=r"c: was made with epochs 12, not 20$"):
        new(model, epochs=20).fit(
            small_graph, SPLIT, checkpoint=tmp_path / "c", resume=True
        )


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
