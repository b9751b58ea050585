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

import h2gcn.training.loop
from h2gcn import Graph, NodeClassifier, Split
from h2gcn.cli import main
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.io import files
from h2gcn.training import Checkpoint, Epoch, Trainer, find_position, to_bytes
from h2gcn.training.checkpoint import MANIFEST
from h2gcn.training.journal import Snapshot
from h2gcn.training.manifest import digest
from h2gcn.training.optim import OPTIMIZERS
from h2gcn.training.stopping import RULES
from support.graphs import one_way
from support.refusals import refused

SPLIT = Split(train=np.arange(0, 12), val=np.arange(12, 20), test=np.arange(20, 30))
IDENTITY = {
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


# -------------------------------------------------------------------- the same bits


def test_training_goes_on_to_the_same_bits(small_graph: Graph, tmp_path: Path) -> None:
    for stopping in RULES:
        for optimizer in OPTIMIZERS:
            folder = tmp_path / stopping / optimizer
            folder.parent.mkdir(exist_ok=True)
            params = {"stopping": stopping, "optimizer": optimizer, "patience": 8}
            whole = new(epochs=25, **params).fit(small_graph, SPLIT)
            kill(new(epochs=25, **params), small_graph, folder, at=7)
            assert find_position(folder)[:2] == (7, False)
            check_same(resume(new(epochs=25, **params), small_graph, folder), whole)


OWN = {"hidden_channels": None, "dropout": None}  # the model's own defaults


@pytest.mark.parametrize(
    ("model", "params"),
    [
        ("mlp", {}),
        ("gat", OWN),
        ("mixhop", {"hidden_channels": None}),
        ("sgc", OWN),
        ("h2gcn-1", {"batch_size": 5}),
        ("h2gcn-2", {"learning_rate": 0.3}),
        ("residual-gcn", {}),
        ("dir-gnn", {}),
        ("correct-and-smooth", {}),
        ("gdc", {}),
        ("cpgnn", {}),
        (
            "gmnn",
            {
                "patience": 3,
                "options": {"iterations": 2, "label_steps": 3, "temperature": 5.0},
            },
        ),
        (
            "gam",
            {
                "patience": 3,
                "options": {"rounds": 2, "agreement_steps": 3, "added": 6},
            },
        ),
        ("gam", {"options": {"base": "gcn", "agreement_steps": 2, "added": 4}}),
    ],
)
def test_models_go_on_from_any_epoch_to_the_same_bits(
    small_graph: Graph, tmp_path: Path, model: str, params: dict[str, Any]
) -> None:
    whole = new(model, **params).fit(small_graph, SPLIT)
    for at in range(1, len(whole.history_), 1 if "options" in params else 4):
        folder = tmp_path / str(at)
        kill(new(model, **params), small_graph, folder, at=at)
        check_same(resume(new(model, **params), small_graph, folder), whole)


def test_a_kill_within_steps_between_epochs_repeats_these_alone(
    small_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = new("gmnn").fit(small_graph, SPLIT)
    minimize, calls = Trainer.minimize, []

    def die(self: Trainer, loss: Callable[[], Any], *args: Any) -> None:
        def dying() -> Any:
            calls.append(1)
            if len(calls) == 50:
                raise Killed
            return loss()

        minimize(self, dying, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "minimize", die)
        kill(new("gmnn"), small_graph, tmp_path / "c", at=12)
    epochs: list[int] = []
    again = new("gmnn").fit(
        *(small_graph, SPLIT),
        on_epoch=lambda epoch: epochs.append(epoch.number),
        checkpoint=tmp_path / "c",
        resume=True,
    )
    check_same(again, whole)
    assert epochs == [*range(7, 13)]  # the first half is replayed without a step


def test_a_training_may_be_killed_more_than_once(
    small_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = iter([0.1, 0.9, *[0.5] * 10] * 3)  # epoch 2 is the best, before any kill
    monkeypatch.setattr(h2gcn.training.loop, "score", lambda *_: next(scores))
    whole = new().fit(small_graph, SPLIT)
    kill(new(), small_graph, tmp_path / "c", at=2)
    for at in (3, 9, 10):
        kill(new(), small_graph, tmp_path / "c", at=at, resume=True)
    done = resume(new(), small_graph, tmp_path / "c")
    assert done.best_epoch_ == 2
    check_same(done, whole)
    check_same(new().fit(small_graph, SPLIT, checkpoint=tmp_path / "d"), whole)


def test_ctrl_c_leaves_a_state_to_go_on_from(
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
    assert find_position(tmp_path / "c").epoch == 5
    before = (tmp_path / "c" / MANIFEST).read_bytes()
    with monkeypatch.context() as patch:  # right after going on
        patch.setattr(h2gcn.training.loop, "score", stop_now)
        cut = resume(new(), small_graph, tmp_path / "c")
    assert cut.interrupted_
    assert len(cut.history_) == 5
    assert (tmp_path / "c" / MANIFEST).read_bytes() == before
    check_same(
        resume(new(), small_graph, tmp_path / "c"), new().fit(small_graph, SPLIT)
    )


def stop_now(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_finished_training_is_not_repeated_and_may_be_longer(
    small_graph: Graph, tmp_path: Path
) -> None:
    whole = new().fit(small_graph, SPLIT, checkpoint=tmp_path / "c")
    again = new().fit(
        *(small_graph, SPLIT),
        on_epoch=stop_at(13, Killed),
        checkpoint=tmp_path / "c",
        resume=True,
    )
    check_same(again, whole)
    longer = resume(new(epochs=20), small_graph, tmp_path / "c")
    check_same(longer, new(epochs=20).fit(small_graph, SPLIT))
    # A training that its rule has stopped stays so.
    stopped = new(epochs=50, patience=3)
    stopped.fit(small_graph, SPLIT, checkpoint=tmp_path / "s")
    assert stopped.n_iter_ < 50
    assert find_position(tmp_path / "s").stopped
    longer = new(epochs=99, patience=3)
    check_same(resume(longer, small_graph, tmp_path / "s"), stopped)
    # The length of a stage may change while the stage goes on, and not after it.
    kill(new("gmnn"), small_graph, tmp_path / "g", at=4)
    folder = shutil.copytree(tmp_path / "g", tmp_path / "h")
    longer = resume(new("gmnn", epochs=20), small_graph, folder)
    check_same(longer, new("gmnn", epochs=20).fit(small_graph, SPLIT))
    kill(new("gmnn"), small_graph, tmp_path / "g", at=8, resume=True)
    with refused(words="cannot go on: stage 1 had 6 epochs, not 10"):
        resume(new("gmnn", epochs=20), small_graph, tmp_path / "g")


def test_a_model_in_closed_form_leaves_nothing(
    small_graph: Graph, tmp_path: Path
) -> None:
    for model in ("label-propagation", "linbp", "bp", "ica"):
        for again in (False, True):
            classifier = NodeClassifier(model, random_state=0)
            classifier.fit(small_graph, SPLIT, checkpoint=tmp_path / "c", resume=again)
        assert not (tmp_path / "c").exists()


# ----------------------------------------------------------------- when it is written


def test_it_is_written_first_then_every_few_minutes_and_last(
    small_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, seen = [0.0], []
    clocks = SimpleNamespace(monotonic=lambda: clock[0], perf_counter=lambda: clock[0])
    for module in ("checkpoint", "journal"):
        monkeypatch.setattr(f"h2gcn.training.{module}.time", clocks)

    def on_epoch(epoch: Epoch) -> None:
        seen.append(find_position(tmp_path / "c").epoch)
        clock[0] += 30
        if epoch.number == 9:
            raise KeyboardInterrupt

    new().fit(small_graph, SPLIT, on_epoch=on_epoch, checkpoint=tmp_path / "c")
    assert seen == [1, 1, 1, 1, 5, 5, 5, 5, 9]
    clock[0] = 10_000.0
    done = resume(new(), small_graph, tmp_path / "c")
    assert find_position(tmp_path / "c").epoch == 12
    assert done.seconds_ == 8 * 30  # the clock of epoch 9 was read before on_epoch


def test_numbers_without_end_are_read_as_they_were(tmp_path: Path) -> None:
    epochs = (Epoch(1, 1 / 3, -math.inf, math.inf), Epoch(2, 5e-324, 0.1, math.inf))
    snapshot = Snapshot((), {}, {}, {}, {}, epochs, False, 1.0)
    checkpoint = Checkpoint(tmp_path / "c", IDENTITY, epochs=2)
    with checkpoint.held():
        checkpoint.keep(snapshot)
    found = Checkpoint(tmp_path / "c", IDENTITY, epochs=2, resume=True).found
    assert found.history == epochs
    text = (tmp_path / "c" / MANIFEST).read_text()
    json.loads(text, parse_constant=pytest.fail)  # called for what is not JSON


def test_a_kill_while_it_is_written_leaves_the_one_before(
    small_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = new().fit(small_graph, SPLIT)
    # The state is renamed first, then the manifest; then the old state is removed.
    for name, at, epoch in (
        ("replace", 1, 4),
        ("replace", 2, 4),
        ("replace", 3, 5),
        ("unlink", 1, 5),
    ):
        folder, calls = tmp_path / f"{name}{at}", []
        original = getattr(Path, name)
        kill(new(), small_graph, folder, at=4)

        def die(
            self: Path,
            *args: Any,
            original: Any = original,
            at: int = at,
            calls: list[int] = calls,
            **options: Any,
        ) -> Any:
            calls.append(1)
            if len(calls) == at:
                raise Killed
            return original(self, *args, **options)

        with monkeypatch.context() as patch:
            patch.setattr(Path, name, die)
            kill(new(), small_graph, folder, at=12, resume=True)
        assert find_position(folder).epoch == epoch
        assert len(list(folder.iterdir())) > 2  # something is left over
        check_same(resume(new(), small_graph, folder), whole)
        assert len(list(folder.iterdir())) == 2


def test_a_disk_that_fails_ends_no_training(
    small_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = new().fit(small_graph, SPLIT)

    def fails(error: BaseException) -> Callable[[int], None]:
        def fsync(_: int) -> None:
            raise error

        return fsync

    with monkeypatch.context() as patch:  # a kill before the first needs no resume
        patch.setattr(os, "fsync", fails(Killed()))
        kill(new(), small_graph, tmp_path / "c", at=12)
    assert list((tmp_path / "c").iterdir())
    kill(new(), small_graph, tmp_path / "c", at=4)
    full = OSError(errno.ENOSPC, "No space left on device")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails(full))
        with pytest.warns(H2GCNWarning, match=r"No space left .*; training goes on"):
            check_same(resume(new(), small_graph, tmp_path / "c"), whole)
    assert find_position(tmp_path / "c").epoch == 4
    assert len(list((tmp_path / "c").iterdir())) == 2


# ----------------------------------------------------------------- what it belongs to


def test_a_checkpoint_of_another_training_is_refused(
    small_graph: Graph, tmp_path: Path
) -> None:
    graph, other = (
        replace(small_graph, directed=one_way(small_graph.adj, seed)) for seed in (0, 1)
    )
    heads = OWN | {"options": {"heads": 2}}
    for begun, changed, words in (
        ({}, {"dropout": 0.3}, "was made with dropout 0.5, not 0.3"),
        ({}, {"model": "h2gcn-2"}, "was made with model h2gcn-1, not h2gcn-2"),
        ({}, {"l2": 0.0}, "was made with l2 0.0005, not 0.0"),
        ({}, {"batch_size": 4}, "was made with batch_size None, not 4"),
        ({}, {"random_state": 4}, "was made with seed 3, not 4"),
        ({}, {"epochs": 1}, "is at epoch 2, beyond the 1 asked for"),
        ({"model": "gat"} | heads, {"options": {"heads": 4}}, "heads 2, not 4"),
        ({}, {"graph": replace(graph, x=graph.x + 1)}, "is of another graph (checksum"),
        (
            {},
            {"graph": replace(graph, x=graph.x + 1, name="cora")},
            "(small, not cora)",
        ),
        ({}, {"split": Split(SPLIT.val, SPLIT.train, [])}, "is of another split"),
        ({"model": "dir-gnn"}, {"graph": other}, "edges have other directions"),
        ({"model": "dir-gnn"}, {"model": "gcn"}, "made with model dir-gnn, not gcn"),
    ):
        folder = tmp_path / hashlib.sha256(repr((begun, words)).encode()).hexdigest()
        kill(new(**begun), graph, folder, at=2)
        params = {"graph": graph, "split": SPLIT} | changed
        given = params.pop("graph"), params.pop("split")
        with refused(words=words):
            new(**begun).set_params(**params).fit(
                *given, checkpoint=folder, resume=True
            )
    for change, words in (
        (
            lambda it: it["identity"]["params"].update(h2gcn="0.0.9"),
            "made with h2gcn 0.0.9",
        ),
        (lambda it: it.update(format=2), "checkpoint.json: format 2; this version"),
    ):
        edit(folder, change)
        with refused(words=words):
            resume(new("dir-gnn"), graph, folder)
    for seed in (None, np.random.RandomState(0)):
        with refused(words="needs a number as 'random_state'"):
            new(random_state=seed).fit(graph, checkpoint=tmp_path / "c")


def test_what_describes_the_machine_does_not_count(
    small_graph: Graph, tmp_path: Path
) -> None:
    whole = new().fit(small_graph, SPLIT)
    kill(new(), small_graph, tmp_path / "c", at=5)
    here = new(device="cpu", memory_limit=1.0)
    check_same(resume(here, small_graph, tmp_path / "c"), whole)
    # Directions mean nothing to a model that does not follow them.
    directed = replace(small_graph, directed=one_way(small_graph.adj, 0))
    kill(new(), directed, tmp_path / "d", at=2)
    check_same(resume(new(), small_graph, tmp_path / "d"), whole)
    np.save(tmp_path / "x.npy", small_graph.x)
    mapped = replace(small_graph, x=np.load(tmp_path / "x.npy", mmap_mode="r"))
    kill(new(), mapped, tmp_path / "e", at=5)
    logits = resume(new(), small_graph, tmp_path / "e").predict_logits(small_graph)
    np.testing.assert_allclose(logits, whole.predict_logits(small_graph), atol=1e-4)


# ------------------------------------------------------------------ folders and files


def test_a_folder_that_cannot_be_used_is_refused_and_left_as_it_is(
    small_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(words: str, path: Any = tmp_path / "c", **options: Any) -> None:
        resumes = options.pop("resume", False)
        split = options.pop("split", SPLIT)
        with refused(words=words):
            new(**options).fit(small_graph, split, checkpoint=path, resume=resumes)

    before = {"notes.txt", "used"}
    (tmp_path / "notes.txt").write_text("mine")
    kill(new(), small_graph, tmp_path / "used", at=2)
    one_class = Split(SPLIT.train, [12, 14], SPLIT.test)
    check("c: holds no checkpoint; leave out resume=True", resume=True)
    check("'resume' needs 'checkpoint', the folder", None, resume=True)
    check("already holds a checkpoint; add resume=True", tmp_path / "used")
    check("holds other files; a checkpoint needs a folder", tmp_path)
    check("is a file; a checkpoint is saved as a folder", tmp_path / "notes.txt")
    check("no does not exist", tmp_path / "no" / "c")
    check("must be a path", 5)
    check("must be a folder", "")
    check("the rings will not fit in memory", memory_limit=1e-6)
    check("they are all of one", metric="roc_auc", split=one_class)
    with refused(param="checkpoint_minutes", value=-1):
        new().fit(small_graph, SPLIT, checkpoint=tmp_path / "c", checkpoint_minutes=-1)
    with monkeypatch.context() as patch:
        patch.setattr(h2gcn.training.loop, "score", stop_now)
        with pytest.raises(KeyboardInterrupt):
            new().fit(small_graph, SPLIT, checkpoint=tmp_path / "c")
    assert {path.name for path in tmp_path.iterdir()} == before

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    for where in ("h2gcn.training.checkpoint.TemporaryFile", "pathlib.Path.mkdir"):
        with monkeypatch.context() as patch:
            patch.setattr(where, refuse)
            check("c: cannot be written (Permission denied)")
    (tmp_path / "c" / MANIFEST).mkdir(parents=True)
    check("this is a folder, not a file", resume=True)


def test_a_folder_is_checked_before_the_rings_are_made(
    small_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill(new(), small_graph, tmp_path / "c", at=2)
    monkeypatch.setattr("h2gcn.estimator.classifier.build_operators", pytest.fail)
    fresh = replace(small_graph)
    with refused(words="was made with dropout 0.5, not 0.1"):
        resume(new(dropout=0.1), fresh, tmp_path / "c")
    with refused(words="already holds a checkpoint"):
        new().fit(fresh, SPLIT, checkpoint=tmp_path / "c")


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
    assert find_position(tmp_path / "c").epoch == 12


def test_a_damaged_checkpoint_is_refused(small_graph: Graph, tmp_path: Path) -> None:
    saved = tmp_path / "c"
    kill(new(), small_graph, saved, at=2)
    file, (state,) = saved / MANIFEST, saved.glob("*.safetensors")
    text, content = file.read_text(), state.read_bytes()
    for damaged, words in (
        (text[:100], "truncated or not JSON"),
        ("[]", "not the manifest of a checkpoint"),
        (text.replace('"epoch": 2', '"epoch": 1'), "was changed after it was saved"),
    ):
        file.write_text(damaged)
        with refused(words=words):
            resume(new(), small_graph, saved)
    for change, words in (
        (lambda it: it.pop("state_sha256"), "lacks state_sha256"),
        (lambda it: it.pop("stages"), "lacks stages"),
        (lambda it: it.update(stopped="no"), "stopped must be true or false"),
        (lambda it: it.update(epoch=0), "epoch must be an integer >= 1, got 0"),
        (lambda it: it.update(seconds=math.nan), "seconds must be a number >= 0.0"),
        (lambda it: it["identity"].pop("split"), "lacks identity.split"),
        (
            lambda it: it.update(stages=[{"epochs": 2, "limit": 2}]),
            "cannot go on: stages do not match the history",
        ),
    ):
        file.write_text(text)
        edit(saved, change)
        with refused(words=words):
            resume(new(), small_graph, saved)
    file.write_text(text)
    state.write_bytes(content[:-1])
    with refused(words="truncated, or changed after it was saved"):
        resume(new(), small_graph, saved)
    state.unlink()
    with refused(words="cannot be read (No such file"):
        resume(new(), small_graph, saved)
    os.mkfifo(state)  # nothing waits for it
    with refused(words="this is a pipe, not a file"):
        resume(new(), small_graph, saved)
    state.unlink()
    state.write_bytes(content)
    resume(new(), small_graph, saved)


def change_tensor(folder: Path, name: str, tensor: torch.Tensor | None) -> None:
    """Replace or remove a tensor of a checkpoint, and sign the checkpoint again."""
    (old,) = folder.glob("*.safetensors")
    tensors = load_tensors(old.read_bytes())
    tensors.pop(name, None)
    if tensor is not None:
        tensors[name] = tensor.clone()
    content = to_bytes(tensors)
    sha256 = hashlib.sha256(content).hexdigest()
    edit(folder, lambda it: it.update(state_sha256=sha256))
    old.unlink()
    (folder / f"state-{sha256[:16]}.safetensors").write_bytes(content)


def generator_state(left: int, position: int) -> torch.Tensor:
    """Return the state of torch's generator at another position in its numbers."""
    state = torch.get_rng_state()
    for first, packed in (
        (8, struct.pack("<i", left)),
        (16, struct.pack("<Q", position)),
    ):
        state[first : first + len(packed)] = torch.tensor([*packed], dtype=torch.uint8)
    return state


def test_a_tensor_that_does_not_fit_is_named(
    small_graph: Graph, tmp_path: Path
) -> None:
    nan, other = torch.tensor(math.nan), torch.ones(2)
    double = torch.ones(4, 4, dtype=torch.float64)
    infinite = torch.full((2, 3), math.inf, dtype=torch.float64)
    cases: list[tuple[str, torch.Tensor | None, str]] = [
        ("optimizer.0.exp_avg", other, "has the shape [2], not [4, 4]"),
        ("optimizer.0.exp_avg_sq", double, "has the type float64, not float32"),
        ("optimizer.1.exp_avg", None, "is missing"),
        ("optimizer.9.exp_avg", other, "is not one of its tensors"),
        ("optimizer.0.exp_avg_sq", -torch.ones(4, 4), "has squares below 0"),
        ("optimizer.0.step", torch.tensor(0.5), "is not a number of steps"),
        ("weights.embedding", nan.expand(4, 4), "has numbers that are not finite"),
        ("best_weights.embedding", torch.ones(4, 5), "has the shape [4, 5], not"),
        ("weights.classifier", None, "is missing"),
        ("random.cpu", None, "is missing"),
        ("random.cpu", torch.zeros(16, dtype=torch.uint8), "state of a generator"),
        ("random.cpu", generator_state(624, 624), "is not the state of a generator"),
        ("history", infinite, "no epoch of its history is the best"),
        ("history", torch.zeros(3, 3, dtype=double.dtype), "history is not of 2"),
        ("history", torch.zeros(2, 3), "history is not of 2 epochs"),
        ("history", torch.full((2, 3), math.nan, dtype=double.dtype), "is not of 2"),
        ("something", other, "does not hold the state of a training"),
    ]
    params = {"stopping": "loss"}
    kill(new(**params), small_graph, tmp_path / "made", at=2)
    before = torch.get_rng_state()
    for i, (name, tensor, words) in enumerate(cases):
        folder = shutil.copytree(tmp_path / "made", tmp_path / str(i))
        change_tensor(folder, name, tensor)
        with refused(words=words) as caught:
            resume(new(**params), small_graph, folder)
        assert str(folder) in str(caught.value)
        assert name in str(caught.value) or name in ("history", "something")
        assert torch.equal(torch.get_rng_state(), before)
    kill(new("gmnn"), small_graph, tmp_path / "staged", at=8)
    change_tensor(tmp_path / "staged", "stages.0.weights.q_first", None)
    with refused(words="cannot go on: stages.0.weights.q_first is missing"):
        resume(new("gmnn"), small_graph, tmp_path / "staged")


# ------------------------------------------------------------------- a process, killed


@pytest.mark.slow
def test_kill_9_and_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--out", str(tmp_path / "g.npz"), "--nodes", "300"]) == 0
    graph, position = str(tmp_path / "g.npz"), None
    options = ["train", graph, "--json", "-q", "--epochs", "200", "--dropout", "0.5"]
    kept = ["--checkpoint", str(tmp_path / "c"), "--out", str(tmp_path / "resumed")]
    program = "from h2gcn.cli import entry_point; entry_point()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, *options, *kept, "--checkpoint-minutes", "0"]
    )
    try:
        # Each look is at a manifest that is being replaced all the time.
        while position is None or position.epoch < 10:
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.01)
            position = find_position(tmp_path / "c" / "split-0")
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert find_position(tmp_path / "c" / "split-0").epoch < 200
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
