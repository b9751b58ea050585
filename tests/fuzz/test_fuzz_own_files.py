"""Every kind of our own files, with every field and tensor changed and signed again.

Each is read as if it were whole, or refused in a line; nothing else comes of it, and
nothing is written anywhere.
"""

import copy
import hashlib
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from safetensors.torch import load as load_tensors

import h2gcn.estimator.automatic
from h2gcn import Graph, NodeClassifier, Split
from h2gcn.auto import Member
from h2gcn.cli.options import find_settings
from h2gcn.cli.tune import TuneFolder
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.experiments import (
    Run,
    Store,
    check_records,
    check_splits,
    frontier_result,
    read_results,
    render_html,
    report,
    search,
    stored_result,
)
from h2gcn.experiments.definition import PROTOCOLS
from h2gcn.io import read_npz, write_npz, write_predictions
from h2gcn.training import find_position, signed, to_bytes
from support.example_results import small
from support.graphs import adjacency
from support.toy_splits import split_record

Steps = tuple[Any, ...]
"""Where in JSON a value is: names and places."""

N = 30
SPLIT = Split(train=np.arange(0, 12), val=np.arange(12, 20), test=np.arange(20, 30))
GONE = object()
"""A field that is not there."""
VALUES: list[Any] = [
    *(GONE, None, True, False, 0, 1, -1, -4, 2, 2**40, 2**70, 10**400, -(10**400)),
    *(0.0, -0.5, 0.5, 1.5, 1e-320, 1e300, math.nan, math.inf, -math.inf),
    *("", "x", "auto", "../../elsewhere", "0" * 64, "\x00", "é" * 5000),
    *([], [[]], [None], [0] * 300, ["a", "b"], {}, {"a": {}}, {"own": [1]}),
]
"""What a field is changed to: each type, and each end of what a type may hold."""


def deep(depth: int) -> Any:
    """Return lists in each other."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


VALUES += [deep(50), deep(200)]


def places(value: Any, at: Steps = ()) -> Iterator[Steps]:
    """Return where all values of JSON are; of a list, its first and last."""
    yield at
    if isinstance(value, dict):
        for name in value:
            yield from places(value[name], (*at, name))
    if isinstance(value, list):
        for index in sorted({0, len(value) - 1} if value else ()):
            yield from places(value[index], (*at, index))


def changed(content: Any, at: Steps, value: Any) -> Any:
    """Return JSON with the value of one place changed."""
    if not at:
        return {} if value is GONE else value
    content = copy.deepcopy(content)
    inner = content
    for step in at[:-1]:
        inner = inner[step]
    if value is GONE:
        del inner[at[-1]]
    else:
        inner[at[-1]] = value
    return content


def tensors_like(tensor: torch.Tensor) -> list[torch.Tensor | None]:
    """Return a tensor with another shape, type or numbers."""
    flat = tensor.reshape(-1)
    found: list[torch.Tensor | None] = [
        *(None, flat[:-1], torch.cat([flat, flat[:1]]), tensor[None], flat[:0]),
        *(tensor.to(kind) for kind in (torch.float64, torch.int64, torch.int32)),
        *(tensor.to(kind) for kind in (torch.uint8, torch.bool, torch.float16)),
        *(tensor * 0, tensor * 0 - 1, torch.ones(2), torch.ones(3, 3, 3)),
    ]
    if tensor.is_floating_point():
        ends = (math.nan, math.inf, -math.inf, 1e38, -1e38)
        found += [torch.full_like(tensor, end) for end in ends]
    elif tensor.dtype == torch.int64:
        ends64 = (2**62, -(2**62), 10**6, len(flat))
        found += [torch.full_like(tensor, end) for end in ends64]
    return found


def sign(file: Path, manifest: Any) -> None:
    """Write a manifest with its checksum, if it can have one."""
    if isinstance(manifest, dict):
        manifest = {name: v for name, v in manifest.items() if name != "sha256"}
        file.write_bytes(signed(manifest))
    else:
        file.write_text(json.dumps(manifest), encoding="utf-8")


def write(file: Path, content: Any) -> None:
    file.write_text(json.dumps(content), encoding="utf-8")


@cache
def workplace() -> Path:
    """Return a folder of this run of the tests."""
    return Path(tempfile.mkdtemp(prefix="h2gcn-fuzz-"))


@pytest.fixture(scope="session", autouse=True)  # tests of a module may come apart
def _clean() -> Iterator[None]:
    yield
    shutil.rmtree(workplace(), ignore_errors=True)


@contextmanager
def copied(folder: Path) -> Iterator[Path]:
    """Yield a copy of a folder, alone in another; nothing may be written beside it."""
    around = Path(tempfile.mkdtemp(dir=workplace()))
    there = around / "copy"
    shutil.copytree(folder, there)
    before = Path.cwd()
    os.chdir(around)
    try:
        yield there
        assert [path.name for path in around.iterdir()] == ["copy"]
        assert not (around.parent / "elsewhere").exists()
    finally:
        os.chdir(before)
        shutil.rmtree(around)


def good_or_refused(work: Callable[[], object]) -> None:
    """Do something that either goes well or ends in an `InputError` of one line."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", H2GCNWarning)
        warnings.simplefilter("ignore", RuntimeWarning)  # overflows of huge weights
        told = ""
        try:
            work()
        except InputError as error:
            told = str(error).strip()
        assert "\n" not in told
        assert len(told) < 2000


@cache
def graph() -> Graph:
    rng = np.random.default_rng(0)
    y = np.arange(N) % 2
    x = rng.normal(size=(N, 4)) + 3 * y[:, None]
    edges = [(i, (i + step) % N) for i in range(N) for step in (1, 3)]
    ids = [f"p{i}" for i in range(N)]
    return Graph(x=x, adj=adjacency(N, edges), y=y, name="g", node_ids=ids)


# --------------------------------------------------------------------- saved models

MODELS = ("h2gcn-1", "gat", "label-propagation", "linbp", "boosted-trees", "logistic")
CHEAP = (
    Member("logistic", "logistic", "own", {"options": {"table": "ego"}}, False),
    Member("label-propagation", "label-propagation", "labels of neighbours"),
)


@cache
def saved(model: str) -> Path:
    """Return the folder of a saved model."""
    params: dict[str, Any] = {"random_state": 0}
    if model in ("h2gcn-1", "gat"):
        params |= {"epochs": 2, "hidden_channels": 4}
    if model == "boosted-trees":
        params["options"] = {"n_estimators": 3}
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", H2GCNWarning)
        patch.setattr(h2gcn.estimator.automatic, "find_portfolio", lambda *_: CHEAP)
        clf = NodeClassifier(model, **params).fit(graph(), SPLIT)
    clf.save(workplace() / model)
    return workplace() / model


def manifests(model: str) -> list[Path]:
    """Return the manifests of a model, its own and those of its members."""
    return sorted(
        file.relative_to(saved(model)) for file in saved(model).rglob("bundle.json")
    )


def seal(folder: Path) -> None:
    """Make the checksums of an auto right again after a member was changed."""
    file = folder / "bundle.json"
    manifest = json.loads(file.read_text("utf-8"))
    for member in manifest["members"]:
        content = (folder / "members" / member["folder"] / "bundle.json").read_bytes()
        member["manifest_sha256"] = hashlib.sha256(content).hexdigest()
    sign(file, manifest)


def load_and_predict(folder: Path) -> None:
    clf = NodeClassifier.load(folder)
    logits = clf.predict_logits(graph())
    assert logits.shape == (N, len(clf.classes_))
    clf.predict_proba(graph())


@given(st.data())
def test_fields_of_a_model(data: st.DataObject) -> None:
    model = data.draw(st.sampled_from((*MODELS, "auto")))
    name = data.draw(st.sampled_from(manifests(model)))
    content = json.loads((saved(model) / name).read_text("utf-8"))
    at = data.draw(st.sampled_from(list(places(content))))
    value = data.draw(st.sampled_from(VALUES))
    with copied(saved(model)) as folder:
        sign(folder / name, changed(content, at, value))
        if len(name.parts) > 1:
            seal(folder)
        good_or_refused(lambda: load_and_predict(folder))


@given(st.data())
def test_tensors_of_a_model(data: st.DataObject) -> None:
    model = data.draw(st.sampled_from((*MODELS, "auto")))
    name = data.draw(st.sampled_from(manifests(model)))
    with copied(saved(model)) as folder:
        file = (folder / name).with_name("weights.safetensors")
        tensors = load_tensors(file.read_bytes())
        which = data.draw(st.sampled_from([*sorted(tensors), "module.more"]))
        like = tensors.pop(which, torch.ones(2))
        tensor = data.draw(st.sampled_from(range(len(tensors_like(like)))))
        found = tensors_like(like)[tensor]
        if found is not None:
            tensors[which] = found
        file.write_bytes(to_bytes(tensors))
        manifest = json.loads((folder / name).read_text("utf-8"))
        manifest["weights_sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
        sign(folder / name, manifest)
        if len(name.parts) > 1:
            seal(folder)
        good_or_refused(lambda: load_and_predict(folder))


# ---------------------------------------------------------------------- checkpoints

OPTIMISERS = ("adam", "sgd")


def new(optimizer: str) -> NodeClassifier:
    return NodeClassifier(
        "h2gcn-1", epochs=4, hidden_channels=4, optimizer=optimizer, random_state=0
    )


class Killed(BaseException):
    """Ends a program at once."""


@cache
def checkpoint(optimizer: str) -> Path:
    """Return the folder of a training that was killed after two epochs."""

    def stop(epoch: Any) -> None:
        if epoch.number == 2:
            raise Killed

    folder = workplace() / f"checkpoint-{optimizer}"
    with pytest.raises(Killed):
        new(optimizer).fit(
            graph(), SPLIT, on_epoch=stop, checkpoint=folder, checkpoint_minutes=0
        )
    return folder


def resume(folder: Path, optimizer: str) -> None:
    find_position(folder)
    new(optimizer).fit(graph(), SPLIT, checkpoint=folder, resume=True)


@given(st.data())
def test_fields_of_a_checkpoint(data: st.DataObject) -> None:
    content = json.loads((checkpoint("adam") / "checkpoint.json").read_text("utf-8"))
    at = data.draw(st.sampled_from(list(places(content))))
    value = data.draw(st.sampled_from(VALUES))
    with copied(checkpoint("adam")) as folder:
        sign(folder / "checkpoint.json", changed(content, at, value))
        good_or_refused(lambda: resume(folder, "adam"))


@given(st.data())
def test_tensors_of_a_checkpoint(data: st.DataObject) -> None:
    optimizer = data.draw(st.sampled_from(OPTIMISERS))
    with copied(checkpoint(optimizer)) as folder:
        (old,) = folder.glob("*.safetensors")
        tensors = load_tensors(old.read_bytes())
        more = "optimiser.0.momentum_buffer"
        which = data.draw(st.sampled_from([*sorted(tensors), more]))
        like = tensors.pop(which, torch.ones(4, 4))
        found = tensors_like(like)
        tensor = found[data.draw(st.sampled_from(range(len(found))))]
        if tensor is not None:
            tensors[which] = tensor
        content = to_bytes(tensors)
        sha256 = hashlib.sha256(content).hexdigest()
        old.unlink()
        (folder / f"state-{sha256[:16]}.safetensors").write_bytes(content)
        manifest = json.loads((folder / "checkpoint.json").read_text("utf-8"))
        sign(folder / "checkpoint.json", manifest | {"state_sha256": sha256})
        good_or_refused(lambda: resume(folder, optimizer))


# -------------------------------------------------- stores, results, settings, trials


def run_record() -> dict[str, Any]:
    config = PROTOCOLS["standard"].settings("texas", "gcn")[0]
    run = Run("real", "texas", "gcn", config, 0)
    counts = [[1, 1, 60, 30], [2, 3, 60, 60]]
    found = {"key": run.key, **run.to_json(), "selected": True, "by_degree": counts}
    found |= {"val_accuracy": 0.5, "test_accuracy": 0.5, "seconds": 1.0}
    found |= {"version": "0.1.0", "best_epoch": 3, "epochs": 5, "checksum": "abc"}
    return {"format": 1, **found, "reported_by": ["standard/real"]}


def read_runs(file: Path) -> None:
    with Store(file) as store:
        check_records(store)
        stored_result("real", PROTOCOLS["standard"], store.records)


def read_splits(file: Path) -> None:
    with Store(file) as store:
        check_splits(store.path, store.records)
        frontier_result(store.records)


SETTING = {"epochs": 1, "hidden_channels": 4, "options": {}}


@cache
def trial_record() -> dict[str, Any]:
    """Return the record of a trial that was made."""
    file = workplace() / "trials.jsonl"
    look(file)
    record: dict[str, Any] = json.loads(file.read_text("utf-8").splitlines()[0])
    return record


def look(file: Path) -> None:
    """Search no further than a setting."""
    with Store(file) as store:
        search(graph(), "mlp", [SETTING], [SPLIT], n_trials=1, seed=0, store=store)


def read_result_page(file: Path) -> None:
    folder = file.parent / "x"
    folder.mkdir()
    file.rename(folder / "result.json")
    try:
        with pytest.MonkeyPatch.context() as patch:
            if settings.default.max_examples < 100:  # to draw takes a second
                patch.setattr(report, "why_no_figures", lambda: "not drawn")
            render_html(read_results(file.parent))
    finally:
        (folder / "result.json").rename(file)
        folder.rmdir()


def read_settings(file: Path) -> None:
    model, found = find_settings(file, None)
    NodeClassifier(model, **(found or {})).check_params()


def read_best(file: Path) -> None:
    TuneFolder(file.parent).check_search("mlp", 0, graph(), force=False)


BEST = {
    "model": "mlp",
    "settings": {"epochs": 2, "l2": 0.1, "options": {"dropout": 0.5}},
    "interrupted": False,
    "runs": ["a"],
    "seed": 0,
    "dataset": {"checksum": "abc"},
}
FIGURED = small()
KINDS: dict[str, tuple[str, Callable[[], Any], Callable[[Path], None]]] = {
    "runs": ("runs.jsonl", run_record, read_runs),
    "splits": ("runs.jsonl", split_record, read_splits),
    "trials": ("trials.jsonl", trial_record, look),
    "result": ("result.json", lambda: FIGURED, read_result_page),
    "settings": ("best.json", lambda: BEST, read_settings),
    "best": ("best.json", lambda: BEST, read_best),
}


@pytest.mark.parametrize("kind", KINDS)
def test_fields_of_lines_results_and_settings(kind: str) -> None:
    name, make, read = KINDS[kind]
    content = make()

    @given(
        st.sampled_from(list(places(content))),
        st.sampled_from(VALUES),
        st.booleans(),
    )
    def try_one(at: Steps, value: Any, last: bool) -> None:
        folder = Path(tempfile.mkdtemp(dir=workplace()))
        write(folder / name, changed(content, at, value))
        if name.endswith("l") and not last:  # a whole line, not one that was cut off
            with (folder / name).open("a") as file:
                file.write("\n")
        before = sorted(path.name for path in folder.iterdir())
        good_or_refused(lambda: read(folder / name))
        assert sorted(path.name for path in folder.iterdir()) in (before, [])
        shutil.rmtree(folder)

    try_one()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000 + b"\n",
        b'{"a":' * 100_000 + b"\n",
        b'{"key": ' + b"9" * 100_000 + b"}\n",
        b"\xff\xfe\n",
        b'"\\ud800"\n',
        b"\n\n",
        b"null\n",
    ],
    ids=lambda content: repr(content[:8]),
)
def test_what_is_hardly_json(kind: str, content: bytes, tmp_path: Path) -> None:
    name, _, read = KINDS[kind]
    (tmp_path / name).write_bytes(content)
    good_or_refused(lambda: read(tmp_path / name))


# ------------------------------------------------------------------------------ kills

BEGIN = """
import os, sys
from pathlib import Path
import torch
from h2gcn import NodeClassifier, Split
from h2gcn.io import read_npz, write_predictions
from h2gcn.training import find_position
torch.set_num_threads(1)
folder = Path(sys.argv[1])
graph = read_npz(folder / "g.npz")
"""
SAVES = """
both = [NodeClassifier.load(folder / name) for name in ("one", "two")]
told = [(clf, clf.predict(graph), clf.predict_proba(graph)) for clf in both]
def work():
    while True:
        for clf, labels, shares in told:
            clf.save(folder / "model")
            table = graph.node_ids, labels, shares, clf.classes_
            write_predictions(folder / "p.csv", *table)
"""
"""Replaces a model and predictions until it is killed."""
TRAINS = """
NodeClassifier("mlp", epochs=1).fit(graph)  # loads what each child would load
def work():
    begun = find_position(folder / "c") is not None
    kept = {"checkpoint": folder / "c", "checkpoint_minutes": 0, "resume": begun}
    clf = NodeClassifier("mlp", dropout=0.5, patience=None, epochs=300, random_state=0)
    clf.fit(graph, **kept).save(folder / "model")
"""
"""Goes on with a training, and saves the model at its end."""
FORKS = """
for _ in sys.stdin:
    child = os.fork()
    if not child:
        work()
        os._exit(0)
    print(child, flush=True)
    os.waitpid(child, 0)
    print("gone", flush=True)
"""


@contextmanager
def killed(program: str, folder: Path) -> Iterator[Callable[[float | None], None]]:
    """Give what has a child of a program work, and kills it after some seconds.

    None leaves it to end by itself.
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", BEGIN + program + FORKS, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    to, of = parent.stdin, parent.stdout

    def kill(after: float | None) -> None:
        to.write("go\n")
        to.flush()
        child = int(of.readline())
        if after is not None:
            time.sleep(after)
            with suppress(ProcessLookupError):  # it has ended before
                os.kill(child, signal.SIGKILL)
        assert of.readline() == "gone\n"

    try:
        yield kill
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.communicate()


@pytest.mark.slow
def test_a_save_that_is_killed_leaves_one_model_or_the_other(tmp_path: Path) -> None:
    write_npz(graph(), tmp_path / "g.npz")
    logits = set()
    for name, epochs in (("one", 2), ("two", 3)):
        clf = NodeClassifier("mlp", epochs=epochs, random_state=0).fit(graph(), SPLIT)
        clf.save(tmp_path / name)
        logits.add(clf.predict_logits(graph()).tobytes())
    clf.save(tmp_path / "model")
    draw = random.Random(0)
    with killed(SAVES, tmp_path) as kill:
        for _ in range(settings.default.max_examples):
            kill(draw.uniform(0, 0.1))
            found = NodeClassifier.load(tmp_path / "model")
            assert found.predict_logits(graph()).tobytes() in logits
            if (tmp_path / "p.csv").exists():
                assert len((tmp_path / "p.csv").read_text().splitlines()) == N + 1
    clf.save(tmp_path / "model")
    shares = clf.predict_proba(graph())
    labels = clf.predict(graph())
    write_predictions(
        tmp_path / "p.csv", graph().node_ids, labels, shares, clf.classes_
    )
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"g.npz", "one", "two", "model", "p.csv"}


@pytest.mark.slow
def test_a_training_killed_again_and_again_ends_as_one_that_was_not(
    tmp_path: Path,
) -> None:
    draw = random.Random(1)
    write_npz(graph(), tmp_path / "g.npz")
    with killed(TRAINS, tmp_path) as kill:
        for _ in range(settings.default.max_examples):
            kill(draw.uniform(0, 0.25))
        kill(None)
    options = {"dropout": 0.5, "patience": None, "epochs": 300, "random_state": 0}
    torch.set_num_threads(1)
    whole = NodeClassifier("mlp", **options).fit(read_npz(tmp_path / "g.npz"))
    whole.save(tmp_path / "whole")
    weights = [
        (tmp_path / name / "weights.safetensors").read_bytes()
        for name in ("whole", "model")
    ]
    assert weights[0] == weights[1]
