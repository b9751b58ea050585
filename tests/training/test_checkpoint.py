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
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load as load_tensors

import h2gcn.training.loop
from h2gcn import NodeClassifier, Split
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


def new(model="h2gcn-1", **params):
    """Return a classifier whose epochs depend on dropout and on all that is kept."""
    given = {"epochs": 12, "hidden_channels": 4, "dropout": 0.5, "random_state": 3}
    return NodeClassifier(model, **(given | params))


def fit(graph, folder=None, **params):
    """Train anew, with a checkpoint in a folder if there is one."""
    return new(**params).fit(graph, SPLIT, checkpoint=folder)


def kill(graph, folder, at, *, resume=False, **params):
    """Train with a checkpoint after every epoch, and end it after one of them."""

    def on_epoch(epoch):
        if epoch.number == at:
            raise Killed

    kept = {"checkpoint": folder, "checkpoint_minutes": 0, "resume": resume}
    with pytest.raises(Killed):
        new(**params).fit(graph, SPLIT, on_epoch=on_epoch, **kept)


def resume(graph, folder, on_epoch=None, **params):
    kept = {"checkpoint": folder, "resume": True}
    return new(**params).fit(graph, SPLIT, on_epoch=on_epoch, **kept)


def check_same(one, other):
    """Check that two trainings gave the same to the bit."""
    for name in ("history_", "best_epoch_", "val_score_"):
        assert getattr(one, name) == getattr(other, name)
    states = one.module_.state_dict(), other.module_.state_dict()
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def stop_now(*_):
    raise KeyboardInterrupt


def edit(folder, change):
    """Change a manifest and sign it again."""
    file = folder / MANIFEST
    manifest = json.loads(file.read_text())
    change(manifest)
    manifest.pop("sha256")
    file.write_text(json.dumps(manifest | {"sha256": digest(manifest)}))


def test_training_goes_on_to_the_same_bits(small_graph, tmp_path):
    for i, (stopping, optimizer) in enumerate(product(RULES, OPTIMIZERS)):
        params = {"stopping": stopping, "optimizer": optimizer, "patience": 8}
        params |= {"epochs": 25}
        kill(small_graph, tmp_path / str(i), at=7, **params)
        assert find_position(tmp_path / str(i))[:2] == (7, False)
        done = resume(small_graph, tmp_path / str(i), **params)
        check_same(done, fit(small_graph, **params))


OWN = {"hidden_channels": None, "dropout": None}  # the model's own defaults
LABEL_STEPS = {"iterations": 2, "label_steps": 3, "temperature": 5.0}
AGREEMENT = {"rounds": 2, "agreement_steps": 3, "added": 6}


def test_models_go_on_from_any_epoch_to_the_same_bits(small_graph, tmp_path):
    for case, params in enumerate(
        (
            {"model": "mlp"},
            {"model": "gat", **OWN},
            {"model": "mixhop", "hidden_channels": None},
            {"model": "sgc", **OWN},
            {"model": "h2gcn-1", "batch_size": 5},
            {"model": "h2gcn-2", "learning_rate": 0.3},
            {"model": "residual-gcn"},
            {"model": "dir-gnn"},
            {"model": "correct-and-smooth"},
            {"model": "gdc"},
            {"model": "cpgnn"},
            {"model": "gmnn", "patience": 3, "options": LABEL_STEPS},
            {"model": "gam", "patience": 3, "options": AGREEMENT},
            {"model": "gam", "options": AGREEMENT | {"base": "gcn", "rounds": 1}},
        )
    ):
        whole = fit(small_graph, **params)
        for at in range(1, len(whole.history_), 1 if "options" in params else 4):
            folder = tmp_path / f"{case} {at}"
            kill(small_graph, folder, at, **params)
            check_same(resume(small_graph, folder, **params), whole)


def test_a_kill_within_steps_between_epochs_repeats_these_alone(
    small_graph, tmp_path, monkeypatch
):
    minimize, calls, epochs = Trainer.minimize, [], []

    def die(self, loss, *args):
        def dying():
            calls.append(1)
            if len(calls) == 50:
                raise Killed
            return loss()

        minimize(self, dying, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "minimize", die)
        kill(small_graph, tmp_path / "c", at=12, model="gmnn")
    note = lambda epoch: epochs.append(epoch.number)  # noqa: E731
    done = resume(small_graph, tmp_path / "c", note, model="gmnn")
    check_same(done, fit(small_graph, model="gmnn"))
    assert epochs == [*range(7, 13)]  # the first half is replayed without a step


def test_a_training_may_be_killed_more_than_once(small_graph, tmp_path, monkeypatch):
    scores = iter([0.1, 0.9, *[0.5] * 10] * 3)  # epoch 2 is the best, before any kill
    monkeypatch.setattr(h2gcn.training.loop, "score", lambda *_: next(scores))
    whole = fit(small_graph)
    kill(small_graph, tmp_path / "c", at=2)
    for at in (3, 9, 10):
        kill(small_graph, tmp_path / "c", at=at, resume=True)
    done = resume(small_graph, tmp_path / "c")
    assert done.best_epoch_ == 2
    check_same(done, whole)
    check_same(fit(small_graph, tmp_path / "d"), whole)


def test_ctrl_c_leaves_a_state_to_go_on_from(small_graph, tmp_path, monkeypatch):
    score, calls, folder = h2gcn.training.loop.score, [], tmp_path / "c"

    def interrupt(*arguments):
        calls.append(arguments)
        if len(calls) == 6:  # when the weights have made their sixth step
            raise KeyboardInterrupt
        return score(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(h2gcn.training.loop, "score", interrupt)
        assert fit(small_graph, folder).interrupted_
    assert find_position(folder).epoch == 5
    before = (folder / MANIFEST).read_bytes()
    with monkeypatch.context() as patch:  # right after going on
        patch.setattr(h2gcn.training.loop, "score", stop_now)
        cut = resume(small_graph, folder)
    assert cut.interrupted_
    assert len(cut.history_) == 5
    assert (folder / MANIFEST).read_bytes() == before
    check_same(resume(small_graph, folder), fit(small_graph))


def test_a_finished_training_is_not_repeated_and_may_be_longer(small_graph, tmp_path):
    whole = fit(small_graph, tmp_path / "c")
    check_same(resume(small_graph, tmp_path / "c", on_epoch=pytest.fail), whole)
    longer = resume(small_graph, tmp_path / "c", epochs=20)
    check_same(longer, fit(small_graph, epochs=20))
    # A training that its rule has stopped stays so.
    stopped = fit(small_graph, tmp_path / "s", epochs=50, patience=3)
    assert stopped.n_iter_ < 50
    assert find_position(tmp_path / "s").stopped
    check_same(resume(small_graph, tmp_path / "s", epochs=99, patience=3), stopped)
    # The length of a stage may change while the stage goes on, and not after it.
    kill(small_graph, tmp_path / "g", at=4, model="gmnn")
    folder = shutil.copytree(tmp_path / "g", tmp_path / "h")
    longer = {"model": "gmnn", "epochs": 20}
    check_same(resume(small_graph, folder, **longer), fit(small_graph, **longer))
    kill(small_graph, tmp_path / "g", at=8, model="gmnn", resume=True)
    with refused(words="stage 1 would have 10 steps, and it ended after 6"):
        resume(small_graph, tmp_path / "g", **longer)


def test_a_model_in_closed_form_leaves_nothing(small_graph, tmp_path):
    for model in ("label-propagation", "linbp", "bp", "ica"):
        for again in (False, True):
            classifier = NodeClassifier(model, random_state=0)
            classifier.fit(small_graph, SPLIT, checkpoint=tmp_path / "c", resume=again)
        assert not (tmp_path / "c").exists()


def test_it_is_written_first_then_every_few_minutes_and_last(
    small_graph, tmp_path, monkeypatch
):
    clock, seen = [0.0], []
    clocks = SimpleNamespace(monotonic=lambda: clock[0], perf_counter=lambda: clock[0])
    for module in ("checkpoint", "journal"):
        monkeypatch.setattr(f"h2gcn.training.{module}.time", clocks)

    def on_epoch(epoch):
        seen.append(find_position(tmp_path / "c").epoch)
        clock[0] += 30
        if epoch.number == 9:
            raise KeyboardInterrupt

    new().fit(small_graph, SPLIT, on_epoch=on_epoch, checkpoint=tmp_path / "c")
    assert seen == [1, 1, 1, 1, 5, 5, 5, 5, 9]
    clock[0] = 10_000.0
    done = resume(small_graph, tmp_path / "c")
    assert find_position(tmp_path / "c").epoch == 12
    assert done.seconds_ == 8 * 30  # the clock of epoch 9 was read before on_epoch


def test_numbers_without_end_are_read_as_they_were(tmp_path):
    epochs = (Epoch(1, 1 / 3, -math.inf, math.inf), Epoch(2, 5e-324, 0.1, math.inf))
    snapshot = Snapshot((), {}, {}, {}, {}, epochs, False, 1.0)
    checkpoint = Checkpoint(tmp_path / "c", IDENTITY, epochs=2)
    with checkpoint.held():
        checkpoint.keep(snapshot)
    found = Checkpoint(tmp_path / "c", IDENTITY, epochs=2, resume=True).found
    assert found.history == epochs
    text = (tmp_path / "c" / MANIFEST).read_text()
    json.loads(text, parse_constant=pytest.fail)  # called for what is not JSON


def failing(original, at, error):
    """Return a function that raises an error when it is called for the at-th time."""
    calls = []

    def function(*args, **options):
        calls.append(1)
        if len(calls) >= at:
            raise error
        return original(*args, **options)

    return function


def test_a_kill_while_it_is_written_leaves_the_one_before(
    small_graph, tmp_path, monkeypatch
):
    whole = fit(small_graph)
    # The state is renamed first, then the manifest; then the old state is removed.
    moments = ("replace", 1, 4), ("replace", 2, 4), ("replace", 3, 5), ("unlink", 1, 5)
    for name, at, epoch in moments:
        folder = tmp_path / f"{name}{at}"
        kill(small_graph, folder, at=4)
        with monkeypatch.context() as patch:
            die = failing(getattr(Path, name), at, Killed())
            patch.setattr(Path, name, die)
            kill(small_graph, folder, at=12, resume=True)
        assert find_position(folder).epoch == epoch
        assert len(list(folder.iterdir())) > 2  # something is left over
        check_same(resume(small_graph, folder), whole)
        assert len(list(folder.iterdir())) == 2


def test_a_disk_that_fails_ends_no_training(small_graph, tmp_path, monkeypatch):
    folder = tmp_path / "c"
    with monkeypatch.context() as patch:  # a kill before the first needs no resume
        patch.setattr(os, "fsync", failing(None, 1, Killed()))
        kill(small_graph, folder, at=12)
    assert list(folder.iterdir())
    kill(small_graph, folder, at=4)
    full = OSError(errno.ENOSPC, "No space left on device")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing(None, 1, full))
        with pytest.warns(H2GCNWarning, match=r"No space left .*; training goes on"):
            check_same(resume(small_graph, folder), fit(small_graph))
    assert find_position(folder).epoch == 4
    assert len(list(folder.iterdir())) == 2


def test_a_checkpoint_of_another_training_is_refused(small_graph, tmp_path):
    graph, turned = (
        replace(small_graph, directed=one_way(small_graph.adj, seed)) for seed in (0, 1)
    )
    heads = OWN | {"options": {"heads": 2}}
    begun = {"h2gcn-1": {}, "dir-gnn": {}, "gat": heads}
    for model, params in begun.items():
        kill(graph, tmp_path / model, at=2, model=model, **params)
    other, cora = (replace(graph, x=graph.x + 1, name=n) for n in (graph.name, "cora"))
    swapped = Split(SPLIT.val, SPLIT.train, [])
    for model, changed, words in (
        ("h2gcn-1", {"dropout": 0.3}, "was made with dropout 0.5, not 0.3"),
        ("h2gcn-1", {"model": "gcn"}, "was made with model h2gcn-1, not gcn"),
        ("h2gcn-1", {"l2": 0.0}, "was made with l2 0.0005, not 0.0"),
        ("h2gcn-1", {"batch_size": 4}, "was made with batch_size None, not 4"),
        ("h2gcn-1", {"random_state": 4}, "was made with seed 3, not 4"),
        ("h2gcn-1", {"epochs": 1}, "is at epoch 2, beyond the 1 asked for"),
        ("gat", {"options": {"heads": 4}}, "heads 2, not 4"),
        ("h2gcn-1", {"graph": other}, "is of another graph (checksum"),
        ("h2gcn-1", {"graph": cora}, "(small, not cora)"),
        ("h2gcn-1", {"split": swapped}, "is of another split"),
        ("dir-gnn", {"graph": turned}, "edges have other directions"),
        ("dir-gnn", {"model": "gcn"}, "made with model dir-gnn, not gcn"),
    ):
        params = {"graph": graph, "split": SPLIT, "model": model} | begun[model]
        params |= changed
        data = params.pop("graph"), params.pop("split")
        with refused(words=words):
            new(**params).fit(*data, checkpoint=tmp_path / model, resume=True)
    folder = tmp_path / "dir-gnn"
    edit(folder, lambda it: it["identity"]["params"].update(h2gcn="0.0.9"))
    with refused(words="made with h2gcn 0.0.9"):
        resume(graph, folder, model="dir-gnn")
    edit(folder, lambda it: it.update(format=2))
    with refused(words="checkpoint.json: format 2; this version"):
        resume(graph, folder, model="dir-gnn")
    for seed in (None, np.random.RandomState(0)):
        with refused(words="needs a number as 'random_state'"):
            fit(graph, tmp_path / "c", random_state=seed)


def test_what_describes_the_machine_does_not_count(small_graph, tmp_path):
    whole = fit(small_graph)
    # Directions mean nothing to a model that does not follow them.
    directed = replace(small_graph, directed=one_way(small_graph.adj, 0))
    here = {"device": "cpu", "memory_limit": 1.0}
    for i, (graph, params) in enumerate(((small_graph, here), (directed, {}))):
        kill(graph, tmp_path / str(i), at=5)
        check_same(resume(small_graph, tmp_path / str(i), **params), whole)
    np.save(tmp_path / "x.npy", small_graph.x)
    mapped = replace(small_graph, x=np.load(tmp_path / "x.npy", mmap_mode="r"))
    kill(mapped, tmp_path / "e", at=5)
    logits = resume(small_graph, tmp_path / "e").predict_logits(small_graph)
    np.testing.assert_allclose(logits, whole.predict_logits(small_graph), atol=1e-4)


def test_a_folder_that_cannot_be_used_is_refused_and_left_as_it_is(
    small_graph, tmp_path, monkeypatch
):
    def check(words, path=tmp_path / "c", *, split=SPLIT, resume=False, **params):
        with refused(words=words):
            new(**params).fit(small_graph, split, checkpoint=path, resume=resume)

    before = {"notes.txt", "used"}
    (tmp_path / "notes.txt").write_text("mine")
    kill(small_graph, tmp_path / "used", at=2)
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
            fit(small_graph, tmp_path / "c")
    assert {path.name for path in tmp_path.iterdir()} == before

    refuse = failing(None, 1, PermissionError(errno.EACCES, "Permission denied"))
    for where in ("h2gcn.training.checkpoint.TemporaryFile", "pathlib.Path.mkdir"):
        with monkeypatch.context() as patch:
            patch.setattr(where, refuse)
            check("c: cannot be written (Permission denied)")
    (tmp_path / "c" / MANIFEST).mkdir(parents=True)
    check("this is a folder, not a file", resume=True)


def test_a_folder_is_checked_before_the_rings_are_made(
    small_graph, tmp_path, monkeypatch
):
    kill(small_graph, tmp_path / "c", at=2)
    monkeypatch.setattr("h2gcn.estimator.classifier.build_operators", pytest.fail)
    fresh = replace(small_graph)
    with refused(words="was made with dropout 0.5, not 0.1"):
        resume(fresh, tmp_path / "c", dropout=0.1)
    with refused(words="already holds a checkpoint"):
        fit(fresh, tmp_path / "c")


locks = pytest.mark.skipif(files.fcntl is None, reason="no locks here")


@locks
def test_a_folder_in_use_is_refused(small_graph, tmp_path):
    folder, seen = tmp_path / "c", []

    def another(_):
        for again in (False, True):
            with refused(words=f"{folder}: another program is writing to it") as caught:
                new().fit(small_graph, SPLIT, checkpoint=folder, resume=again)
            seen.append(caught)

    one = new().fit(small_graph, SPLIT, on_epoch=another, checkpoint=folder)
    assert len(seen) == 2 * 12
    check_same(one, fit(small_graph))
    check_same(resume(small_graph, folder), one)


@locks
def test_of_two_that_begin_at_once_one_is_refused(tmp_path):
    one, two = (Checkpoint(tmp_path / "c", IDENTITY, epochs=2) for _ in range(2))
    with one.held():
        with pytest.raises(InputError, match="another program"), two.held():
            pytest.fail("both are in")
        assert (tmp_path / "c").is_dir()
    assert not (tmp_path / "c").exists()


def test_one_that_was_written_in_the_meantime_is_not_overwritten(small_graph, tmp_path):
    late = Checkpoint(tmp_path / "c", IDENTITY, epochs=2)
    fit(small_graph, tmp_path / "c")
    with pytest.raises(InputError, match="already holds a checkpoint"), late.held():
        pytest.fail("it was not looked at again")
    assert find_position(tmp_path / "c").epoch == 12


def test_a_damaged_checkpoint_is_refused(small_graph, tmp_path):
    saved = tmp_path / "c"
    kill(small_graph, saved, at=2)
    file, (state,) = saved / MANIFEST, saved.glob("*.safetensors")
    text, content = file.read_text(), state.read_bytes()
    changed_epoch = text.replace('"epoch": 2', '"epoch": 1')
    beyond = [{"epochs": 2, "limit": 2}]
    for damage, words in (
        (text[:100], "truncated or not JSON"),
        ("[]", "not the manifest of a checkpoint"),
        (changed_epoch, "was changed after it was saved"),
        (lambda it: it.pop("state_sha256"), "lacks state_sha256"),
        (lambda it: it.pop("stages"), "lacks stages"),
        (lambda it: it.update(stopped="no"), "stopped must be true or false"),
        (lambda it: it.update(epoch=0), "epoch must be an integer >= 1, got 0"),
        (lambda it: it.update(seconds=math.nan), "seconds must be a number >= 0.0"),
        (lambda it: it["identity"].pop("split"), "lacks identity.split"),
        (lambda it: it.update(stages=beyond), "stages do not match the history"),
    ):
        file.write_text(text if callable(damage) else damage)
        if callable(damage):
            edit(saved, damage)
        with refused(words=words):
            resume(small_graph, saved)
    file.write_text(text)
    state.write_bytes(content[:-1])
    with refused(words="truncated, or changed after it was saved"):
        resume(small_graph, saved)
    state.unlink()
    with refused(words="cannot be read (No such file"):
        resume(small_graph, saved)
    os.mkfifo(state)  # nothing waits for it
    with refused(words="this is a pipe, not a file"):
        resume(small_graph, saved)
    state.unlink()
    state.write_bytes(content)
    resume(small_graph, saved)


def change_tensor(folder, name, tensor):
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


def generator_state(left, position):
    """Return the state of torch's generator at another position in its numbers."""
    state = torch.get_rng_state()
    numbers = state.numpy()
    struct.pack_into("<i", numbers, 8, left)
    struct.pack_into("<Q", numbers, 16, position)
    return state


def test_a_tensor_that_does_not_fit_is_named(small_graph, tmp_path):
    nan, other = torch.tensor(math.nan), torch.ones(2)
    double = torch.ones(4, 4, dtype=torch.float64)
    infinite = torch.full((2, 3), math.inf, dtype=torch.float64)
    cases = [
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
        ("history", infinite - infinite, "history is not of 2 epochs"),
        ("something", other, "does not hold the state of a training"),
    ]
    params = {"stopping": "loss"}
    kill(small_graph, tmp_path / "made", at=2, **params)
    before = torch.get_rng_state()
    for i, (name, tensor, words) in enumerate(cases):
        folder = shutil.copytree(tmp_path / "made", tmp_path / str(i))
        change_tensor(folder, name, tensor)
        with refused(words=words) as caught:
            resume(small_graph, folder, **params)
        assert str(folder) in str(caught.value)
        assert name in str(caught.value) or name in ("history", "something")
        assert torch.equal(torch.get_rng_state(), before)
    kill(small_graph, tmp_path / "staged", at=8, model="gmnn")
    change_tensor(tmp_path / "staged", "stages.0.weights.q_first", None)
    with refused(words="cannot go on: stages.0.weights.q_first is missing"):
        resume(small_graph, tmp_path / "staged", model="gmnn")


@pytest.mark.slow
def test_kill_9_and_resume(tmp_path, capsys):
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
    whole = ["--out", str(tmp_path / "whole")]
    for name, more in (("resumed", [*kept, "--resume"]), ("whole", whole)):
        assert main([*options, *more]) == 0
        result = json.loads(capsys.readouterr().out)
        assert result.pop("out") == str(tmp_path / name)
        result["splits"][0].pop("seconds")
        weights = (tmp_path / name / "weights.safetensors").read_bytes()
        results.append((result, weights))
    assert results[0] == results[1]
