"""Fits of modules without a classifier around them, and rehearsals of fits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from h2gcn.graph import Split
from h2gcn.sparse import Operator
from h2gcn.training import NodeModule, TrainConfig, Trainer, TrainResult

__all__ = ["Stage", "rehearse", "train_module"]


def train_module(
    module: NodeModule,
    x: Any,
    operators: Sequence[Operator],
    y: Any,
    index: Any,
    *,
    seed: int = 0,
    **config: Any,
) -> TrainResult:
    """Train a module on some nodes, [m], and validate it on all others."""
    arguments = x, operators, np.asarray(y), _split(len(y), index)
    return Trainer(module, *arguments, TrainConfig(**config), seed=seed).run()


@dataclass(frozen=True)
class Stage:
    """A stage of a fit that `rehearse` recorded without a step.

    It would take `length` epochs or steps on `loss`, None for the loss of the training
    nodes. The gradient reaches the weights in `learners`. The module began the stage
    with `weights`.
    """

    kind: str
    length: int | None
    loss: float | None
    learners: frozenset[str]
    weights: dict[str, Tensor]


def rehearse(
    module: NodeModule,
    x: Any,
    operators: Sequence[Operator],
    y: Any,
    index: Any,
    *,
    seed: int = 0,
    **config: Any,
) -> list[Stage]:
    """Return the stages of a fit on some nodes, [m]; none of them takes a step."""
    arguments = x, operators, np.asarray(y), _split(len(y), index)
    trainer = _Rehearsal(module, *arguments, TrainConfig(**config), seed=seed)
    trainer.stages = []
    trainer.run()
    return trainer.stages


class _Rehearsal(Trainer):
    stages: list[Stage]

    def train(self, module=None, *, loss=None, epochs=None):
        assert module is None
        self._add_stage("train", epochs, loss, self.module)

    def pretrain(self, part, epochs):
        self._add_stage("pretrain", epochs, None, part)

    def minimize(self, loss, parameters, steps):
        self._add_stage("minimize", steps, loss, self.module)
        given = {id(weight) for weight in parameters}
        named = self.module.named_parameters()
        assert {name for name, w in named if id(w) in given} == self.stages[-1].learners

    def _add_stage(self, kind, length, loss, part):
        named, value = dict(self.module.named_parameters()), None
        learning = {id(weight) for weight in part.parameters()}
        if loss is not None:
            self.module.train().zero_grad()
            with torch.enable_grad():
                result = loss()
                result.backward()
            value = result.item()
            learning = {id(w) for w in named.values() if w.grad is not None}
            self.module.eval()
        learners = frozenset(name for name, w in named.items() if id(w) in learning)
        weights = {name: w.detach().clone() for name, w in named.items()}
        self.stages.append(Stage(kind, length, value, learners, weights))


def _split(n: int, index: Any) -> Split:
    train, nobody = np.asarray(index, dtype=np.int64), np.zeros(0, dtype=np.int64)
    val = np.setdiff1d(np.arange(n), train)
    return Split(train, val if len(val) else train, nobody)
