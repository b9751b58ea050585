"""What comes before the loop: a prior, a look at the labels, or no loop at all."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import h2gcn.training.fitting
import h2gcn.training.progress
from h2gcn.graph import Split
from h2gcn.models import build_model, find_model
from h2gcn.sparse import Operator
from h2gcn.training import Epoch, TrainConfig, fit_module
from h2gcn.training.loop import TrainResult
from support.graphs import NAMED

Y = np.array([0, 1, 0, 1, 0])
SPLIT = Split(np.array([0, 1, 4]), np.array([2, 3]), np.array([], dtype=np.int64))


def operators_of(name: str) -> tuple[Operator, ...]:
    return tuple(Operator(m) for m in find_model(name).operators(NAMED["path"]))


def test_a_model_without_weights_is_scored_and_not_trained() -> None:
    seeds = torch.zeros(5, 2)
    seeds[[0, 1, 4], [0, 1, 0]] = 1
    module = build_model("label-propagation", 2, 2, {"alpha": 0.1})
    result = fit_module(
        module, seeds, operators_of("label-propagation"), Y, SPLIT, TrainConfig()
    )
    assert result.best_epoch == 0
    assert result.history == ()
    assert result.val_score == 0.0  # each is next to the other class


def test_the_prior_is_trained_first_and_the_labels_are_shown_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    module = build_model("cpgnn", 3, 2, {})
    original = h2gcn.training.fitting.train

    def spy(model: nn.Module, *args: object, **options: object) -> TrainResult:
        calls.append("prior" if model is module.prior else "whole")
        return original(model, *args, **options)  # type: ignore[arg-type]

    def initialise(_: Tensor, __: object, labels: Tensor, index: Tensor) -> None:
        assert not torch.is_grad_enabled()
        assert labels.tolist() == [0, 1, 0]
        assert index.tolist() == [0, 1, 4]
        calls.append("labels")

    monkeypatch.setattr(h2gcn.training.fitting, "train", spy)
    monkeypatch.setattr(module, "initialise", initialise)
    config = TrainConfig(epochs=3)
    fit_module(module, torch.eye(5)[:, :3], operators_of("cpgnn"), Y, SPLIT, config)
    assert calls == ["prior", "labels", "whole"]


def test_the_seconds_are_those_of_the_prior_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    module = build_model("cpgnn", 3, 2, {})
    original = h2gcn.training.fitting.train

    def slow(model: nn.Module, *args: object, **options: object) -> TrainResult:
        clock[0] += 100 if model is module.prior else 0
        return original(model, *args, **options)  # type: ignore[arg-type]

    def wait(_: Epoch) -> None:
        clock[0] += 7

    monkeypatch.setattr(h2gcn.training.fitting, "train", slow)
    clocks = SimpleNamespace(perf_counter=lambda: clock[0])
    monkeypatch.setattr(h2gcn.training.fitting, "time", clocks)
    monkeypatch.setattr(h2gcn.training.progress, "time", clocks)
    config = TrainConfig(epochs=3)
    x = torch.eye(5)[:, :3]
    result = fit_module(
        module, x, operators_of("cpgnn"), Y, SPLIT, config, on_epoch=wait
    )
    assert result.seconds == 100 + 3 * 7
    assert len(result.history) == 3


def test_ctrl_c_in_the_prior_ends_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = TrainResult(1, 0.5, (), 0.1, interrupted=True)
    monkeypatch.setattr(h2gcn.training.fitting, "train", lambda *_, **__: cut)
    module = build_model("cpgnn", 3, 2, {})
    with pytest.raises(KeyboardInterrupt):
        fit_module(
            module,
            torch.eye(5)[:, :3],
            operators_of("cpgnn"),
            Y,
            SPLIT,
            TrainConfig(epochs=3),
        )
