"""Trainings that go on where they were killed, to the same bits."""

import errno
import hashlib
import json
import math
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load as load_tensors
from torch import nn

import h2gcn.training.loop
from h2gcn import Graph, NodeClassifier, Split
from h2gcn.cli import main
from h2gcn.estimator.parameters import build_module
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.io import files
from h2gcn.training import Checkpoint, Epoch, find_stage, to_bytes
from h2gcn.training.checkpoint import MANIFEST
from h2gcn.training.loop import OPTIMIZERS, make_optimizer
from h2gcn.training.manifest import digest
from h2gcn.training.state import TrainingState
from h2gcn.training.stopping import RULES, make_rule
from support.cases import each
from support.graphs import one_way
from support.refusals import refused

ONE = torch.ones(1, 3)
SPLIT = Split(train=np.arange(0, 12), val=np.arange(12, 20), test=np.arange(20, 30))


IDENTITY = {
    "version": "1",
    "graph": "g",
    "checksum": "0",
    "split": "0",
    "params": {"model": "mlp"},
    "directions": None,
}


class Killed(BaseException):
    """Ends a program at once: nothing but `finally` runs."""


def new(model: str = "h2gcn-1", **params: Any) -> NodeClassifier:
    """Return a classifier whose epochs depend on dropout and on all that is kept."""
    given = {"epochs": 12, "hidden_channels": 4, "dropout": 0.5, "random_state": 3}
    return NodeClassifier(model, **(given | params))


def stop_at(number: int, error: type[BaseException]) -> Callable[[Epoch], None]:
    def on_epoch(epoch: Epoch) -> None:
        if epoch.number == number:
            raise error

    return on_epoch


def kill(
    classifier: NodeClassifier, graph: Graph, folder: Path, at: int, **options: Any
) -> None:
    """Train with a checkpoint after every epoch, and end it after one of them."""
    with pytest.raises(Killed):
        classifier.fit(
            graph,
            SPLIT,
            on_epoch=stop_at(at, Killed),
            checkpoint=folder,
            checkpoint_minutes=0,
            **options,
        )


@pytest.fixture
def saved(small_graph: Graph, tmp_path: Path) -> Path:
    """Return the folder of a training that was killed after its second epoch."""
    kill(new(), small_graph, tmp_path / "c", at=2)
    return tmp_path / "c"


def resume(classifier: NodeClassifier, graph: Graph, folder: Path) -> NodeClassifier:
    return classifier.fit(graph, SPLIT, checkpoint=folder, resume=True)


def check_same(one: NodeClassifier, other: NodeClassifier) -> None:
    """Check that two trainings gave the same to the bit."""
    assert one.history_ == other.history_
    assert one.best_epoch_ == other.best_epoch_
    assert one.val_score_ == other.val_score_
    states = one.module_.state_dict(), other.module_.state_dict()
    assert states[0].keys() == states[1].keys()
    for name, tensor in states[0].items():
        assert torch.equal(tensor, states[1][name]), name


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a manifest and sign it again."""
    file = folder / MANIFEST
    manifest = json.loads(file.read_text())
    change(manifest)
    manifest.pop("sha256")
    file.write_text(json.dumps(manifest | {"sha256": digest(manifest)}))


# ------------------------------------------------------------------- to the same bits


@each("stopping", RULES)
def test_training_goes_on_to_the_same_bits(
    small_graph: Graph, tmp_path: Path, stopping: str
) -> None:
    for optimizer in OPTIMIZERS:
        folder = tmp_path / optimizer
        params = {"stopping": stopping, "optimizer": optimizer, "patience": 8}
        whole = new(epochs=25, **params).fit(small_graph, SPLIT)
        kill(new(epochs=25, **params), small_graph, folder, at=7)
        assert find_stage(folder)[:2] == (7, False)
        check_same(resume(new(epochs=25, **params), small_graph, folder), whole)


@each(
    ("model", "params"),
    [
        ("mlp", {}),
        ("gat", {"hidden_channels": None, "dropout": None}),
        ("mixhop", {"hidden_channels": None}),
        ("cpgnn", {}),
        ("sgc", {"hidden_channels": None, "dropout": None}),
        ("h2gcn-1", {"batch_size": 5}),
        ("h2gcn-2", {"learning_rate": 0.3}),
        ("residual-gcn", {}),
        ("residual-gcn", {"batch_size": 5}),
        ("dir-gnn", {}),
        ("gpr-gnn", {}),
        ("acm-gcn", {}),
        ("correct-and-smooth", {}),
        ("gdc", {}),
        ("gmnn", {}),
        ("gam", {}),
    ],
    ids=str,
)
def test_models_go_on(
    small_graph: Graph, tmp_path: Path, model: str, params: dict[str, Any]
) -> None:
    whole = new(model, **params).fit(small_graph, SPLIT)
    kill(new(model, **params), small_graph, tmp_path / "c", at=5)
    check_same(resume(new(model, **params), small_graph, tmp_path / "c"), whole)


def test_a_training_may_be_killed_more_than_once(
    small_graph: Graph, tmp_path: Path
) -> None:
    whole = new().fit(small_graph, SPLIT)
    kill(new(), small_graph, tmp_path / "c", at=2)
    for at in (3, 9, 10):
        kill(new(), small_graph, tmp_path / "c", at=at, resume=True)
    check_same(resume(new(), small_graph, tmp_path / "c"), whole)
    kept = new().fit(small_graph, SPLIT, checkpoint=tmp_path / "d")
    check_same(kept, whole)  # writing changes nothing


def test_the_best_epoch_may_lie_before_the_kill(
    small_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = iter([0.1, 0.9, *[0.5] * 10] * 2)
    monkeypatch.setattr(h2gcn.training.loop, "score", lambda *_: next(scores))
    whole = new().fit(small_graph, SPLIT)
    kill(new(), small_graph, tmp_path / "c", at=4)
    kill(new(), small_graph, tmp_path / "c", at=6, resume=True)
    done = resume(new(), small_graph, tmp_path / "c")
    assert done.best_epoch_ == 2
    check_same(done, whole)


def test_ctrl_c_in_the_middle_of_an_epoch(
    small_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    score, calls = h2gcn.training.loop.score, []

    def interrupt(*arguments: Any) -> float:
        calls.append(arguments)
        if len(calls) == 6:  # when the weights have made their sixth step
            raise KeyboardInterrupt
        return score(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(h2gcn.training.loop, "score", interrupt)
        cut = new().fit(small_graph, SPLIT, checkpoint=tmp_path / "c")
    assert cut.interrupted_
    assert find_stage(tmp_path / "c").epoch == 5
    done = resume(new(), small_graph, tmp_path / "c")
    assert not done.interrupted_
    check_same(done, new().fit(small_graph, SPLIT))


def test_ctrl_c_right_after_going_on(
    small_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill(new(), small_graph, tmp_path / "c", at=4)
    before = (tmp_path / "c" / MANIFEST).read_bytes()

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    def interrupted(*given: Any) -> nn.Module:
        module = build_module(*given)
        module.register_forward_hook(stop)
        return module

    monkeypatch.setattr("h2gcn.estimator.classifier.build_module", interrupted)
    cut = resume(new(), small_graph, tmp_path / "c")
    assert cut.interrupted_
    assert len(cut.history_) == 4
    assert (tmp_path / "c" / MANIFEST).read_bytes() == before


def test_finished_trainings(small_graph: Graph, tmp_path: Path) -> None:
    whole = new().fit(small_graph, SPLIT, checkpoint=tmp_path / "c")
    again = new().fit(
        small_graph,
        SPLIT,
        on_epoch=stop_at(13, Killed),
        checkpoint=tmp_path / "c",
        resume=True,
    )
    check_same(again, whole)
    assert again.seconds_ > 0
    # More epochs go on where fewer ended.
    longer = resume(new(epochs=20), small_graph, tmp_path / "c")
    check_same(longer, new(epochs=20).fit(small_graph, SPLIT))
    # A training that its rule has stopped stays so.
    stopped = new(epochs=50, patience=3)
    stopped.fit(small_graph, SPLIT, checkpoint=tmp_path / "s")
    assert stopped.n_iter_ < 50
    assert find_stage(tmp_path / "s").stopped
    longer = new(epochs=99, patience=3)
    check_same(resume(longer, small_graph, tmp_path / "s"), stopped)


def test_a_prior_is_not_trained_again(
    small_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill(new("cpgnn"), small_graph, tmp_path / "c", at=5)
    original, trained = h2gcn.training.loop.train, []

    def spy(model: nn.Module, *args: Any, **options: Any) -> Any:
        trained.append(type(model).__name__)
        return original(model, *args, **options)

    monkeypatch.setattr(h2gcn.training.loop, "train", spy)
    resume(new("cpgnn"), small_graph, tmp_path / "c")
    assert trained == ["CPGNN"]


def test_a_model_without_weights_leaves_nothing(
    small_graph: Graph, tmp_path: Path
) -> None:
    for model in ("label-propagation", "linbp", "bp", "ica"):
        for again in (False, True):
            classifier = NodeClassifier(model, random_state=0)
            classifier.fit(small_graph, SPLIT, checkpoint=tmp_path / "c", resume=again)
        assert not (tmp_path / "c").exists()


def test_the_seconds_are_those_of_both_parts(
    small_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    clocks = SimpleNamespace(perf_counter=lambda: clock[0], monotonic=lambda: 0.0)
    for module in ("checkpoint", "loop", "state"):
        monkeypatch.setattr(f"h2gcn.training.{module}.time", clocks)

    def wait(epoch: Epoch) -> None:
        clock[0] += 10
        if epoch.number == 5:
            raise KeyboardInterrupt

    folder = tmp_path / "c"
    new().fit(small_graph, SPLIT, on_epoch=wait, checkpoint=folder)
    clock[0] = 1000.0
    done = new().fit(small_graph, SPLIT, on_epoch=wait, checkpoint=folder, resume=True)
    # The clock of epoch 5 was read before on_epoch, which waits.
    assert done.seconds_ == 40 + 7 * 10


# --------------------------------------------------------------------- when it is kept


def test_it_is_written_first_then_every_few_minutes_and_last(
    small_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, seen = [0.0], []
    clocks = SimpleNamespace(monotonic=lambda: clock[0], perf_counter=lambda: 0.0)
    monkeypatch.setattr("h2gcn.training.checkpoint.time", clocks)

    def on_epoch(_: Epoch) -> None:
        seen.append(find_stage(tmp_path / "c").epoch)
        clock[0] += 30

    new(epochs=12).fit(small_graph, SPLIT, on_epoch=on_epoch, checkpoint=tmp_path / "c")
    assert seen == [1, 1, 1, 1, 5, 5, 5, 5, 9, 9, 9, 9]
    assert find_stage(tmp_path / "c").epoch == 12


def test_numbers_without_end_are_read_as_they_were(tmp_path: Path) -> None:
    class One(nn.Linear):
        def regularised(self) -> list[nn.Parameter]:
            return [self.weight]

    model = One(2, 2)
    progress = TrainingState(
        model, make_optimizer("adam", model, 0.1, 0.0), make_rule("loss-or-score", 3)
    )
    epochs = (Epoch(1, 1 / 3, -math.inf, math.inf), Epoch(2, 5e-324, 0.1, math.inf))
    for epoch in epochs:
        progress.add(epoch)
    new_one = Checkpoint(tmp_path / "c", IDENTITY, epochs=2)
    with new_one.held():
        new_one.keep(progress)
    found = Checkpoint(tmp_path / "c", IDENTITY, epochs=2, resume=True).found
    assert found.history == epochs
    text = (tmp_path / "c" / MANIFEST).read_text()
    json.loads(text, parse_constant=pytest.fail)  # called for what is not JSON


@pytest.mark.parametrize("moment", ["written", "renamed", "named", "removed"])
def test_a_kill_while_it_is_written_leaves_the_one_before(
    small_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    folder = tmp_path / "c"
    kill(new(), small_graph, folder, at=4)
    calls: list[str] = []

    def dies(name: str, at: int) -> Callable[..., Any]:
        original = getattr(Path, name)

        def call(self: Path, *args: Any, **options: Any) -> Any:
            calls.append(name)
            if len(calls) == at:
                raise Killed
            return original(self, *args, **options)

        return call

    # The state is renamed first, then the manifest; then the old state is removed.
    name, at = {
        "written": ("replace", 1),
        "renamed": ("replace", 2),
        "named": ("replace", 3),
        "removed": ("unlink", 1),
    }[moment]
    with monkeypatch.context() as patch:
        patch.setattr(Path, name, dies(name, at))
        kill(new(), small_graph, folder, at=12, resume=True)
    assert find_stage(folder).epoch == (4 if moment in ("written", "renamed") else 5)
    assert len(list(folder.iterdir())) > 2  # something is left over
    done = resume(new(), small_graph, folder)
    check_same(done, new().fit(small_graph, SPLIT))
    assert len(list(folder.iterdir())) == 2


def test_a_kill_before_the_first_is_written_needs_no_resume(
    small_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", die)
        kill(new(), small_graph, tmp_path / "c", at=12)
    assert list((tmp_path / "c").iterdir())
    done = new().fit(small_graph, SPLIT, checkpoint=tmp_path / "c")
    check_same(done, new().fit(small_graph, SPLIT))
    assert len(list((tmp_path / "c").iterdir())) == 2


def test_a_full_disk_does_not_end_a_training(
    small_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill(new(), small_graph, tmp_path / "c", at=4)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.warns(H2GCNWarning, match=r"No space left .*; training goes on"):
            done = resume(new(), small_graph, tmp_path / "c")
    check_same(done, new().fit(small_graph, SPLIT))
    assert find_stage(tmp_path / "c").epoch == 4
    assert len(list((tmp_path / "c").iterdir())) == 2


# ----------------------------------------------------------------------- what it is of


def test_other_parameters_are_refused(small_graph: Graph, tmp_path: Path) -> None:
    kill(new(), small_graph, tmp_path / "c", at=5)
    for params, words in (
        ({"dropout": 0.3}, "was made with dropout 0.5, not 0.3"),
        ({"model": "h2gcn-2"}, "was made with model h2gcn-1, not h2gcn-2"),
        ({"l2": 0.0}, "was made with l2 0.0005, not 0.0"),
        ({"batch_size": 4}, "was made with batch_size None, not 4"),
        ({"random_state": 4}, "was made with seed 3, not 4"),
        ({"epochs": 3}, "is at epoch 5, beyond the 3 asked for"),
    ):
        with pytest.raises(InputError) as caught:
            resume(new().set_params(**params), small_graph, tmp_path / "c")
        assert str(caught.value) == f"{tmp_path / 'c'}: {words}"


def test_what_speaks_of_the_machine_does_not_count(
    small_graph: Graph, tmp_path: Path
) -> None:
    kill(new(), small_graph, tmp_path / "c", at=5)
    here = new(device="cpu", memory_limit=1.0)
    check_same(resume(here, small_graph, tmp_path / "c"), new().fit(small_graph, SPLIT))


def test_a_training_goes_on_where_features_and_rings_are_elsewhere(
    small_graph: Graph, tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", small_graph.x)
    mapped = replace(small_graph, x=np.load(tmp_path / "x.npy", mmap_mode="r"))
    kill(new(), mapped, tmp_path / "c", at=5)
    done = resume(new(), small_graph, tmp_path / "c")
    whole = new().fit(small_graph, SPLIT)
    np.testing.assert_allclose(
        done.predict_logits(small_graph), whole.predict_logits(small_graph), atol=1e-4
    )


def test_the_epochs_count_where_phases_or_a_prior_depend_on_them(
    small_graph: Graph, tmp_path: Path
) -> None:
    for model in ("cpgnn", "gmnn", "gam"):
        kill(new(model), small_graph, tmp_path / model, at=2)
        with pytest.raises(InputError, match=r"was made with epochs 12, not 20$"):
            resume(new(model, epochs=20), small_graph, tmp_path / model)


def test_options_of_a_model_are_named(small_graph: Graph, tmp_path: Path) -> None:
    params = {"hidden_channels": None, "options": {"heads": 2}}
    kill(new("gat", **params), small_graph, tmp_path / "c", at=2)
    other = new("gat", **(params | {"options": {"heads": 4}}))
    with pytest.raises(InputError, match=r"c: was made with heads 2, not 4$"):
        resume(other, small_graph, tmp_path / "c")


def test_other_directions_are_refused_by_a_model_that_follows_them(
    small_graph: Graph, tmp_path: Path
) -> None:
    graph, other = (
        replace(small_graph, directed=one_way(small_graph.adj, seed)) for seed in (0, 1)
    )
    kill(new("dir-gnn"), graph, tmp_path / "c", at=2)
    for changed in (other, small_graph):
        message = r": is of a graph whose edges have other directions$"
        with pytest.raises(InputError, match=message):
            resume(new("dir-gnn"), changed, tmp_path / "c")
    with pytest.raises(InputError, match=r"c: was made with model dir-gnn, not gcn$"):
        resume(new("gcn"), graph, tmp_path / "c")
    whole = new("dir-gnn").fit(graph, SPLIT)
    check_same(resume(new("dir-gnn"), graph, tmp_path / "c"), whole)


def test_directions_are_nothing_to_a_model_that_does_not_follow_them(
    small_graph: Graph, tmp_path: Path
) -> None:
    graph = replace(small_graph, directed=one_way(small_graph.adj, 0))
    kill(new("gcn"), graph, tmp_path / "c", at=2)
    whole = new("gcn").fit(small_graph, SPLIT)
    check_same(resume(new("gcn"), small_graph, tmp_path / "c"), whole)


def test_another_graph_split_or_version_is_refused(
    small_graph: Graph, saved: Path
) -> None:
    other = replace(small_graph, x=small_graph.x + 1)
    words = r"c: is of another graph \(checksum \w{16}, not checksum"
    with pytest.raises(InputError, match=words):
        resume(new(), other, saved)
    words = r"c: is of another graph \(small, not cora\)$"
    with pytest.raises(InputError, match=words):
        resume(new(), replace(other, name="cora"), saved)
    split = Split(SPLIT.val, SPLIT.train, SPLIT.test)
    with pytest.raises(InputError, match=r"c: is of another split$"):
        new().fit(small_graph, split, checkpoint=saved, resume=True)
    edit(saved, lambda it: it["identity"].update(version="0.0.9"))
    with pytest.raises(InputError, match=r"c: was made with h2gcn 0\.0\.9, not"):
        resume(new(), small_graph, saved)
    edit(saved, lambda it: it.update(format=2))
    with pytest.raises(InputError, match=r"checkpoint\.json: format 2; this version"):
        resume(new(), small_graph, saved)


def test_a_seed_that_cannot_come_again_is_refused(
    small_graph: Graph, tmp_path: Path
) -> None:
    for seed in (None, np.random.RandomState(0)):
        with pytest.raises(InputError, match="needs a number as 'random_state'"):
            new(random_state=seed).fit(small_graph, checkpoint=tmp_path / "c")


# ------------------------------------------------------------------- folders and files


def test_to_begin_and_to_go_on_are_not_mixed_up(
    small_graph: Graph, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="'resume' needs 'checkpoint', the folder"):
        new().fit(small_graph, resume=True)
    with pytest.raises(
        InputError, match=r"c: holds no checkpoint; leave out resume=True"
    ):
        resume(new(), small_graph, tmp_path / "c")
    assert not (tmp_path / "c").exists()
    kill(new(), small_graph, tmp_path / "c", at=2)
    with pytest.raises(
        InputError, match=r"c: already holds a checkpoint; add resume=True .* or choose"
    ):
        new().fit(small_graph, SPLIT, checkpoint=tmp_path / "c")


def test_a_folder_that_is_not_its_own(small_graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for path, words in [
        (tmp_path, r"holds other files; a checkpoint needs a folder of its own"),
        (tmp_path / "notes.txt", r"is a file; a checkpoint is saved as a folder"),
        (tmp_path / "no" / "c", r"the folder .*no does not exist"),
    ]:
        with pytest.raises(InputError, match=words):
            new().fit(small_graph, SPLIT, checkpoint=path)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_a_folder_that_cannot_be_written(
    small_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("h2gcn.training.checkpoint.TemporaryFile", refuse)
        words = r"c: cannot be written \(Permission denied\)"
        with pytest.raises(InputError, match=words):
            new().fit(small_graph, SPLIT, checkpoint=tmp_path / "c")
    assert not (tmp_path / "c").exists()

    def no_room(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", no_room)
    with pytest.raises(InputError, match=r"c: cannot be written \(No space left on"):
        new().fit(small_graph, SPLIT, checkpoint=tmp_path / "c")


def test_invalid_arguments(small_graph: Graph, tmp_path: Path) -> None:
    for path in (5, b"c", ["c"], ""):
        rule = "must be a folder" if path == "" else "must be a path"
        with refused(param="checkpoint", rule=rule, value=path):
            new().fit(small_graph, SPLIT, checkpoint=path)
    for minutes in (-1, math.inf, math.nan, "2"):
        with refused(param="checkpoint_minutes", value=minutes):
            new().fit(
                small_graph,
                SPLIT,
                checkpoint=tmp_path / "c",
                checkpoint_minutes=minutes,  # type: ignore[arg-type]
            )


def test_a_training_that_is_refused_leaves_no_folder(
    small_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = replace(small_graph, adj=0 * small_graph.adj)
    one_class = Split(SPLIT.train, np.array([12, 14]), SPLIT.test)
    before = set(tmp_path.iterdir())
    kept = {"checkpoint": tmp_path / "c"}
    with pytest.raises(InputError, match="the rings will not fit in memory"):
        new(memory_limit=1e-6).fit(small_graph, SPLIT, **kept)
    with pytest.raises(InputError, match="small: the graph has no edges"):
        new(memory_limit=1e-6).fit(alone, SPLIT, **kept)
    with pytest.raises(InputError, match="they are all of one"):
        new(metric="roc_auc").fit(small_graph, one_class, **kept)
    with monkeypatch.context() as patch:
        patch.setattr(h2gcn.training.loop, "score", stop_now)
        with pytest.raises(KeyboardInterrupt):
            new().fit(small_graph, SPLIT, **kept)
    assert set(tmp_path.iterdir()) == before
    (tmp_path / "c").mkdir()  # one's own is not removed
    with pytest.raises(InputError, match="they are all of one"):
        new(metric="roc_auc").fit(small_graph, one_class, **kept)
    assert (tmp_path / "c").is_dir()


def stop_now(*_: object) -> None:
    raise KeyboardInterrupt


def test_what_is_wrong_with_the_folder_is_said_before_the_rings_are_made(
    small_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill(new(), small_graph, tmp_path / "c", at=2)
    fresh = replace(small_graph)  # whose rings nobody remembers
    monkeypatch.setattr("h2gcn.estimator.classifier.build_operators", pytest.fail)
    with pytest.raises(InputError, match=r"was made with dropout 0\.5, not 0\.1"):
        resume(new(dropout=0.1), fresh, tmp_path / "c")
    with pytest.raises(InputError, match="already holds a checkpoint"):
        new().fit(fresh, SPLIT, checkpoint=tmp_path / "c")
    with pytest.raises(InputError, match="holds other files"):
        new().fit(fresh, SPLIT, checkpoint=tmp_path)


# ------------------------------------------------------------------ one at a time

locks = pytest.mark.skipif(files.fcntl is None, reason="no locks here")


@locks
@pytest.mark.parametrize("again", [False, True], ids=["begun", "resumed"])
def test_a_folder_in_use_is_refused(
    small_graph: Graph, tmp_path: Path, again: bool
) -> None:
    refused = []

    def another(_: Epoch) -> None:
        with pytest.raises(InputError) as caught:
            new().fit(small_graph, SPLIT, checkpoint=tmp_path / "c", resume=again)
        refused.append(str(caught.value))

    one = new().fit(small_graph, SPLIT, on_epoch=another, checkpoint=tmp_path / "c")
    check_same(one, new().fit(small_graph, SPLIT))
    assert refused == 12 * [
        f"{tmp_path / 'c'}: another program is writing to it; wait for it, or write to "
        "another place"
    ]
    check_same(resume(new(), small_graph, tmp_path / "c"), one)


@locks
def test_of_two_that_begin_at_once_one_is_refused(tmp_path: Path) -> None:
    one, two = (Checkpoint(tmp_path / "c", IDENTITY, epochs=2) for _ in range(2))
    with one.held():
        with pytest.raises(InputError, match="another program"), two.held():
            pytest.fail("both are in")
        assert (tmp_path / "c").is_dir()
    assert not (tmp_path / "c").exists()


def test_one_that_was_written_in_the_meantime_is_not_overwritten(
    small_graph: Graph, tmp_path: Path
) -> None:
    late = Checkpoint(tmp_path / "c", IDENTITY, epochs=2)
    new().fit(small_graph, SPLIT, checkpoint=tmp_path / "c")
    with pytest.raises(InputError, match="already holds a checkpoint"), late.held():
        pytest.fail("it was not looked at again")
    assert find_stage(tmp_path / "c").epoch == 12


def test_a_damaged_checkpoint(small_graph: Graph, saved: Path) -> None:
    file, (state,) = saved / MANIFEST, saved.glob("*.safetensors")
    text, content = file.read_text(), state.read_bytes()

    def check(words: str) -> None:
        with pytest.raises(InputError, match=words):
            resume(new(), small_graph, saved)

    for damaged, words in (
        (text[:100], "truncated or not JSON"),
        ("[]", "not the manifest of a checkpoint"),
        (text.replace('"epoch": 2', '"epoch": 1'), r"was changed .* \(checksum\)"),
    ):
        file.write_text(damaged)
        check(rf"checkpoint\.json: {words}")
    file.write_text(text)
    state.write_bytes(content[:-1])
    check(r"state-\w{16}\.safetensors: truncated, or changed after it was saved")
    state.unlink()
    check(r"state-\w{16}\.safetensors: cannot be read \(No such file")
    os.mkfifo(state)  # it is not waited for
    check(r"safetensors: this is a pipe, not a file\.$")
    state.unlink()
    state.write_bytes(content)
    resume(new(), small_graph, saved)


def test_a_manifest_of_another_form(small_graph: Graph, saved: Path) -> None:
    text = (saved / MANIFEST).read_text()
    changes: list[tuple[Callable[[dict[str, Any]], object], str]] = [
        (lambda it: it.pop("state_sha256"), "lacks state_sha256"),
        (lambda it: it.update(stopped="no"), "stopped must be true or false, got 'no'"),
        (lambda it: it.update(epoch=0), "epoch must be an integer >= 1, got 0"),
        (
            lambda it: it.update(seconds=math.nan),
            "seconds must be a number >= 0.0, got nan",
        ),
        (lambda it: it.update(identity=[]), "identity must be an object, got a list"),
        (lambda it: it["identity"].pop("split"), "lacks identity.split"),
    ]
    for change, words in changes:
        edit(saved, change)
        with pytest.raises(InputError) as caught:
            resume(new(), small_graph, saved)
        assert str(caught.value).startswith(f"{saved / MANIFEST}: {words}")
        (saved / MANIFEST).write_text(text)
    edit(saved, lambda it: it.pop("seconds"))
    with pytest.raises(InputError, match=r"checkpoint\.json: lacks seconds$"):
        find_stage(saved)


def change_tensors(
    folder: Path, change: Callable[[dict[str, torch.Tensor]], object]
) -> None:
    """Change the tensors of a checkpoint and sign it again."""
    (old,) = folder.glob("*.safetensors")
    tensors = load_tensors(old.read_bytes())
    change(tensors)
    content = to_bytes(tensors)
    sha256 = hashlib.sha256(content).hexdigest()
    edit(folder, lambda it: it.update(state_sha256=sha256))
    old.unlink()
    (folder / f"state-{sha256[:16]}.safetensors").write_bytes(content)


def with_place(left: int, place: int) -> torch.Tensor:
    """Return the state of torch's generator, with another place among its numbers."""
    state = torch.get_rng_state()
    for first, packed in (8, struct.pack("<i", left)), (16, struct.pack("<Q", place)):
        state[first : first + len(packed)] = torch.tensor([*packed], dtype=torch.uint8)
    return state


NAN, OTHER = torch.tensor(math.nan), torch.ones(2)
DOUBLE = torch.ones(4, 4, dtype=torch.float64)
SHORT = torch.zeros(16, dtype=torch.uint8)
INFINITE = torch.full((2, 3), math.inf, dtype=torch.float64)
BAD_TENSORS: tuple[tuple[str, torch.Tensor | None, str], ...] = (
    ("optimizer.0.exp_avg", OTHER, "has the shape [2], not [4, 4]"),
    ("optimizer.0.exp_avg_sq", DOUBLE, "has the type float64, not float32"),
    ("optimizer.1.exp_avg", None, "is missing"),
    ("optimizer.9.exp_avg", OTHER, "is none of its tensors"),
    ("optimizer.0.exp_avg_sq", -torch.ones(4, 4), "has squares below 0"),
    ("optimizer.0.step", torch.tensor(0.5), "is not a number of steps"),
    ("weights.embedding", NAN.expand(4, 4), "has numbers that are not finite"),
    ("best_weights.embedding", torch.ones(4, 5), "has the shape [4, 5], not [4, 4]"),
    ("weights.classifier", None, "is missing"),
    ("random.cpu", None, "is missing"),
    ("random.cpu", SHORT, "is not the state of a generator"),
    ("random.cpu", with_place(624, 624), "is not the state of a generator"),
    ("history", INFINITE, "has no epoch that is the best"),
)


def test_a_tensor_that_does_not_fit_is_named(
    small_graph: Graph, tmp_path: Path
) -> None:
    params, made = {"stopping": "loss"}, tmp_path / "made"
    kill(new(**params), small_graph, made, at=2)
    for i, (name, tensor, words) in enumerate(BAD_TENSORS):
        folder = shutil.copytree(made, tmp_path / str(i))

        def change(
            tensors: dict[str, torch.Tensor],
            name: str = name,
            tensor: torch.Tensor | None = tensor,
        ) -> None:
            tensors.pop(name, None)
            if tensor is not None:
                tensors[name] = tensor.clone()

        change_tensors(folder, change)
        before = torch.get_rng_state()
        with pytest.raises(InputError) as caught:
            resume(new(**params), small_graph, folder)
        assert str(caught.value) == f"{folder}: cannot go on: {name} {words}"
        assert torch.equal(torch.get_rng_state(), before)


NOT_NEEDED = "prepared is not what the steps of the phase need"


def test_what_a_phase_prepared_is_checked(small_graph: Graph, tmp_path: Path) -> None:
    kill(new("gmnn"), small_graph, tmp_path / "made", at=8)
    infinite = "prepared.targets has numbers that are not finite"
    for i, (tensor, words) in enumerate(
        (
            (None, NOT_NEEDED),
            (torch.ones(4, 2), NOT_NEEDED),
            (torch.full((30, 2), math.inf), infinite),
        )
    ):
        folder = shutil.copytree(tmp_path / "made", tmp_path / str(i))

        def change(
            tensors: dict[str, torch.Tensor], tensor: torch.Tensor | None = tensor
        ) -> None:
            assert tensors.pop("prepared.targets").shape == (30, 2)
            if tensor is not None:
                tensors["prepared.targets"] = tensor.clone()

        change_tensors(folder, change)
        with pytest.raises(InputError) as caught:
            resume(new("gmnn"), small_graph, folder)
        assert str(caught.value) == f"{folder}: cannot go on: {words}"


def test_a_history_of_other_epochs(small_graph: Graph, tmp_path: Path) -> None:
    kill(new(), small_graph, tmp_path / "made", at=2)
    histories = (
        torch.zeros(3, 3, dtype=torch.float64),
        torch.zeros(2, 3),
        torch.full((2, 3), math.nan, dtype=torch.float64),
        torch.zeros(6, dtype=torch.float64),
    )
    for i, history in enumerate(histories):
        folder = shutil.copytree(tmp_path / "made", tmp_path / str(i))
        change_tensors(folder, lambda it, new=history: it.update(history=new))
        with pytest.raises(
            InputError, match=r"\w{16}\.safetensors: history is not of 2 epochs$"
        ):
            resume(new(), small_graph, folder)


def test_tensors_of_something_else(small_graph: Graph, tmp_path: Path) -> None:
    kill(new(), small_graph, tmp_path / "c", at=2)
    for tensors in ({"weights.a": ONE}, {"history": ONE, "b": 2 * ONE}):
        content = to_bytes(tensors)
        sha256 = hashlib.sha256(content).hexdigest()
        edit(tmp_path / "c", lambda it, new=sha256: it.update(state_sha256=new))
        (tmp_path / "c" / f"state-{sha256[:16]}.safetensors").write_bytes(content)
        with pytest.raises(
            InputError, match=r"\w{16}\.safetensors: does not hold the state of a train"
        ):
            resume(new(), small_graph, tmp_path / "c")


def test_a_folder_in_place_of_the_manifest(small_graph: Graph, tmp_path: Path) -> None:
    file = tmp_path / "c" / MANIFEST
    file.mkdir(parents=True)
    for again in (False, True):
        with pytest.raises(InputError) as caught:
            new().fit(small_graph, SPLIT, checkpoint=tmp_path / "c", resume=again)
        assert str(caught.value) == (
            f"{file}: is a folder, not the manifest of a checkpoint"
        )
    assert file.is_dir()


@each("name", [MANIFEST, "state", "c"])
def test_what_may_not_be_read(
    small_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    kill(new(), small_graph, tmp_path / "c", at=2)
    what, original = "iterdir" if name == "c" else "open", Path.iterdir
    opened = Path.open

    def refuse(path: Path, *args: Any, **options: Any) -> Any:
        if path.name.startswith(name):
            raise PermissionError(errno.EACCES, "Permission denied")
        return (original if what == "iterdir" else opened)(path, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, what, refuse)
        with pytest.raises(
            InputError, match=rf"{name}.*: cannot be read \(Permission denied\)$"
        ):
            resume(new(), small_graph, tmp_path / "c")
    resume(new(), small_graph, tmp_path / "c")


# ------------------------------------------------------------------- a process, killed


@pytest.mark.slow
def test_kill_9_and_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--out", str(tmp_path / "g.npz"), "--nodes", "300"]) == 0
    graph, stage = str(tmp_path / "g.npz"), None
    options = ["train", graph, "--json", "-q", "--epochs", "200", "--dropout", "0.5"]
    kept = ["--checkpoint", str(tmp_path / "c"), "--out", str(tmp_path / "resumed")]
    program = "from h2gcn.cli import entry_point; entry_point()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, *options, *kept, "--checkpoint-minutes", "0"]
    )
    try:
        # Each look is at a manifest that is being replaced all the time.
        while stage is None or stage.epoch < 10:
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.01)
            stage = find_stage(tmp_path / "c" / "split-0")
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert find_stage(tmp_path / "c" / "split-0").epoch < 200
    assert not (tmp_path / "resumed").exists()
    capsys.readouterr()
    results = []
    for name, more in (
        ("resumed", [*kept, "--resume"]),
        ("whole", ["--out", str(tmp_path / "whole")]),
    ):
        assert main([*options, *more]) == 0
        result = json.loads(capsys.readouterr().out)
        assert result.pop("out") == str(tmp_path / name)
        result["splits"][0].pop("seconds")
        predict = ["predict", str(tmp_path / name), graph, "--all", "--out"]
        assert main([*predict, str(tmp_path / f"{name}.csv")]) == 0
        capsys.readouterr()
        weights = (tmp_path / name / "weights.safetensors").read_bytes()
        results.append((result, weights, (tmp_path / f"{name}.csv").read_bytes()))
    assert results[0] == results[1]
