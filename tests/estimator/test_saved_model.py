"""Saved classifiers: whole, checked, and nothing that can run."""

import errno
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load as load_tensors

from h2gcn import Graph, NodeClassifier, __version__, read_graph
from h2gcn.estimator import load_bundle, read_manifest, save_bundle
from h2gcn.estimator.saved_model import MANIFEST, WEIGHTS
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import CSR
from h2gcn.io import TableOptions, files, write_npz
from h2gcn.training import signed, to_bytes
from h2gcn.training.manifest import digest
from support.cases import each
from support.commands import Run, fails
from support.graphs import adjacency

N = 30


def ring_graph(classes: list[Any] | None = None, *, counts: bool = False) -> Graph:
    """Return a ring with real features, or with counts that are mostly zero."""
    rng = np.random.default_rng(0)
    y = np.arange(N) % 2
    x = rng.normal(size=(N, 4)) + 3 * y[:, None]
    if counts:
        x = (rng.random((N, 8)) < 0.3) * 1.0
    edges = [(i, (i + 1) % N) for i in range(N)]
    known = None if classes is None else np.array(classes)
    return Graph(x=x, adj=adjacency(N, edges), y=y, classes=known)


def fit(graph: Graph, **options: Any) -> NodeClassifier:
    return NodeClassifier(**{"epochs": 3, "random_state": 0} | options).fit(graph)


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Return the graph of the classifier."""
    return ring_graph()


@pytest.fixture(scope="module")
def clf(graph: Graph) -> NodeClassifier:
    """Return a fitted classifier."""
    return fit(graph)


def save(clf: NodeClassifier, folder: Path) -> Path:
    """Return where a classifier was saved."""
    clf.save(folder / "model")
    return folder / "model"


@pytest.fixture
def saved(clf: NodeClassifier, tmp_path: Path) -> Path:
    """Return the folder of a saved classifier."""
    return save(clf, tmp_path)


def raw(path: Path) -> dict[str, Any]:
    """Return the manifest of a model as it is in the file, without its checksum."""
    manifest: dict[str, Any] = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    del manifest["sha256"]
    return manifest


def edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a value of the manifest as an editor would."""
    file = path / MANIFEST
    manifest = json.loads(file.read_text(encoding="utf-8"))
    change(manifest)
    file.write_text(json.dumps(manifest), encoding="utf-8")


# ---------------------------------------------------------------------- there and back


@each("classes", [None, [10, -3], ["no", "yes"], ["nein", "schön"]])
@each("model", ["h2gcn-2", "gcn", "h2gcn-nonlinear", "mlp"])
def test_a_round_trip_keeps_every_bit(
    tmp_path: Path, classes: list[Any] | None, model: str
) -> None:
    graph = ring_graph(classes)
    clf = fit(graph, model=model)
    clf.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    logits = clf.predict_logits(graph)
    assert loaded.predict_logits(graph).tobytes() == logits.tobytes()
    assert loaded.classes_.tolist() == clf.classes_.tolist()
    assert loaded.classes_.dtype.kind == clf.classes_.dtype.kind
    assert loaded.predict(graph).tolist() == clf.predict(graph).tolist()
    assert loaded.score(graph) == clf.score(graph)


def test_what_was_learned_comes_back(clf: NodeClassifier, saved: Path) -> None:
    loaded = NodeClassifier.load(str(saved))
    assert isinstance(loaded, NodeClassifier)
    assert loaded.get_params() == {**clf.params_, "verbose": False}
    for name in ("n_features_in_", "feature_names_in_", "best_epoch_", "val_score_"):
        assert getattr(loaded, name) == getattr(clf, name)
    assert loaded.seed_ == clf.seed_
    assert not loaded.module_.training


def test_numpy_options_and_labels_by_id_come_back(tmp_path: Path) -> None:
    graph = ring_graph()
    given = {"scale": np.float64(0.4), "steps": np.int64(3)}
    clf = NodeClassifier("linbp", options=given, random_state=0).fit(graph)
    clf.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    assert {**given, **loaded.options} == loaded.options
    assert type(loaded.options["steps"]) is int
    assert loaded.seeds_ == clf.seeds_
    logits = clf.predict_logits(graph)
    assert loaded.predict_logits(graph).tobytes() == logits.tobytes()


def test_labels_of_a_graph_without_ids_are_for_that_graph_alone(tmp_path: Path) -> None:
    graph = ring_graph()
    clf = NodeClassifier("label-propagation", random_state=0).fit(graph)
    clf.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    logits = clf.predict_logits(graph)
    assert loaded.predict_logits(graph).tobytes() == logits.tobytes()
    other = replace(graph, adj=CSR(graph.adj.shape))
    with pytest.raises(InputError, match="have no ids; only that graph can be predict"):
        loaded.predict(other)


@each("model", ["linbp", "correct-and-smooth", "ica"])
def test_a_model_that_spreads_labels_must_have_them(tmp_path: Path, model: str) -> None:
    clf = NodeClassifier(model, epochs=2, random_state=0).fit(ring_graph())
    clf.save(tmp_path / "model")
    manifest = raw(tmp_path / "model")
    manifest["seeds"] = None
    manifest["sha256"] = digest(manifest)
    (tmp_path / "model" / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(InputError) as caught:
        NodeClassifier.load(tmp_path / "model")
    assert str(caught.value) == (
        f"{tmp_path / 'model' / MANIFEST}: lacks the labels of the training nodes"
    )


def test_a_bundle_that_knows_nothing_of_edges_is_read(tmp_path: Path) -> None:
    graph = ring_graph()
    clf = NodeClassifier("label-propagation", random_state=0).fit(graph)
    clf.save(tmp_path / "model")
    manifest = raw(tmp_path / "model")
    assert len(manifest["seeds"].pop("edges")) == 64
    manifest["sha256"] = digest(manifest)
    (tmp_path / "model" / MANIFEST).write_text(json.dumps(manifest))
    loaded = NodeClassifier.load(tmp_path / "model")
    logits = clf.predict_logits(graph)
    assert loaded.predict_logits(graph).tobytes() == logits.tobytes()


def test_standard_scaling_is_stored(clf: NodeClassifier, saved: Path) -> None:
    loaded = NodeClassifier.load(saved)
    assert clf.scaler_.kind == loaded.scaler_.kind == "standard"
    assert clf.scaler_.mean is not None
    assert clf.scaler_.deviation is not None
    np.testing.assert_array_equal(loaded.scaler_.mean, clf.scaler_.mean)
    np.testing.assert_array_equal(loaded.scaler_.deviation, clf.scaler_.deviation)


@each("scaling", ["auto", "rows", "none"])
def test_other_scalings_need_no_numbers(tmp_path: Path, scaling: str) -> None:
    graph = ring_graph(counts=True)
    clf = fit(graph, scaling=scaling)
    clf.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    kind = "rows" if scaling == "auto" else scaling
    assert loaded.scaler_ == clf.scaler_
    assert (loaded.scaler_.kind, loaded.scaler_.mean) == (kind, None)
    assert loaded.scaling == scaling


def test_a_loaded_classifier_can_be_saved_and_fitted_again(
    clf: NodeClassifier, saved: Path, graph: Graph
) -> None:
    loaded = NodeClassifier.load(saved)
    loaded.save(saved)
    again = NodeClassifier.load(saved)
    logits = clf.predict_logits(graph)
    assert again.predict_logits(graph).tobytes() == logits.tobytes()
    assert again.fit(graph).predict_logits(graph).tobytes() == logits.tobytes()


def test_loading_twice_gives_two_classifiers(saved: Path, graph: Graph) -> None:
    one, two = NodeClassifier.load(saved), NodeClassifier.load(saved)
    logits = two.predict_logits(graph)
    with torch.no_grad():
        for weight in one.module_.parameters():
            weight.zero_()
    assert not one.predict_logits(graph).any()
    assert two.predict_logits(graph).tobytes() == logits.tobytes()


def test_a_bundle_is_two_files_of_tensors_and_text(
    clf: NodeClassifier, saved: Path
) -> None:
    assert sorted(file.name for file in saved.iterdir()) == [
        "bundle.json",
        "weights.safetensors",
    ]
    manifest = json.loads((saved / MANIFEST).read_text(encoding="utf-8"))
    assert manifest["format"] == 1
    assert manifest["version"] == __version__
    assert manifest["classes"] == [0, 1]
    machine = {"batch_size", "device", "memory_limit"}
    assert manifest["params"].keys() == clf.params_.keys() - machine
    assert manifest["params"].items() <= clf.params_.items()
    tensors = load_tensors((saved / WEIGHTS).read_bytes())
    assert set(tensors) == {
        *("module.embedding", "module.classifier"),
        *("scaler.mean", "scaler.deviation"),
        *("seen.rows", "seen.test"),
        *("held_out.nodes", "held_out.probabilities", "held_out.y"),
    }


@each("ids", [None, [f"ö{i}" for i in range(N)]])
def test_a_saved_model_knows_which_nodes_it_saw(
    tmp_path: Path, ids: list[str] | None
) -> None:
    graph = replace(ring_graph(), node_ids=ids)
    clf = fit(graph)
    clf.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    assert loaded.seen_ is not None
    nodes, seen = loaded.seen_.unseen(graph)
    assert nodes.tolist() == clf.split_.test.tolist()
    assert seen == len(clf.split_.train) + len(clf.split_.val)
    assert (loaded.seen_.ids is None) == (ids is None)
    assert loaded.score(graph) == clf.score(graph, clf.split_.test)
    turned = replace(
        graph, x=graph.x[::-1], node_ids=None if ids is None else ids[::-1]
    )
    nodes, seen = loaded.seen_.unseen(turned)
    left_out = 0 if ids is None else len(clf.split_.train) + len(clf.split_.val)
    assert (len(nodes), seen) == (N - left_out, left_out)


def test_a_model_of_before_scores_all_labelled_nodes_aloud(
    clf: NodeClassifier, saved: Path
) -> None:
    weights = load_tensors((saved / WEIGHTS).read_bytes())
    content = to_bytes({n: t for n, t in weights.items() if not n.startswith("seen.")})
    (saved / WEIGHTS).write_bytes(content)
    manifest = json.loads((saved / MANIFEST).read_text(encoding="utf-8"))
    del manifest["sha256"], manifest["seen"]
    manifest["weights_sha256"] = hashlib.sha256(content).hexdigest()
    (saved / MANIFEST).write_bytes(signed(manifest))
    loaded = NodeClassifier.load(saved)
    graph = ring_graph()
    with pytest.warns(
        H2GCNWarning, match="without a word of which nodes it was trained"
    ):
        assert loaded.score(graph) == clf.score(graph, np.arange(graph.n_nodes))
    loaded.save(saved)
    assert NodeClassifier.load(saved).seen_ is None


def test_nothing_is_left_beside_the_bundle(saved: Path) -> None:
    assert [path.name for path in saved.parent.iterdir()] == ["model"]


def test_further_facts_are_kept(clf: NodeClassifier, tmp_path: Path) -> None:
    extra = {"columns": ["a", "ö"], "nested": {"depth": 2.5}}
    save_bundle(clf, tmp_path / "model", extra=extra)
    assert read_manifest(tmp_path / "model").extra == {"tables": {}} | extra
    assert load_bundle(tmp_path / "model").classes_.tolist() == [0, 1]


def test_a_generator_as_random_state_is_saved_as_its_seed(
    tmp_path: Path, graph: Graph
) -> None:
    clf = fit(graph, random_state=np.random.RandomState(3))
    clf.save(tmp_path / "model")
    assert NodeClassifier.load(tmp_path / "model").random_state == clf.seed_


@each("options", [{"hidden_channels": np.int64(4)}, {"dropout": np.float32(0.5)}])
def test_parameters_of_numpys_types_can_be_saved(
    tmp_path: Path, graph: Graph, options: dict[str, Any]
) -> None:
    fit(graph, **options).save(tmp_path / "model")
    params = NodeClassifier.load(tmp_path / "model").get_params()
    for name, value in options.items():
        assert params[name] == value


def test_loading_leaves_the_global_generator_as_it_was(saved: Path) -> None:
    torch.manual_seed(3)
    state = torch.get_rng_state()
    NodeClassifier.load(saved)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_model_of_a_gpu_is_read_where_there_is_none(
    clf: NodeClassifier,
    graph: Graph,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setitem(clf.params_, "device", "cuda")
    clf.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    assert loaded.device == "auto"
    logits = clf.predict_logits(graph)
    assert loaded.predict_logits(graph).tobytes() == logits.tobytes()


# ----------------------------------------------------------------------------- damage


@each("kept", [0, 7, 100, -1])
def test_truncated_weights_are_found(
    clf: NodeClassifier, tmp_path: Path, kept: int
) -> None:
    saved = save(clf, tmp_path)
    file = saved / WEIGHTS
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(
        InputError,
        match=r"weights\.safetensors: truncated, or changed after it was saved",
    ):
        NodeClassifier.load(saved)


@each("place", [0.0, 0.3, 0.999])
def test_a_flipped_bit_is_found(
    clf: NodeClassifier, tmp_path: Path, place: float
) -> None:
    saved = save(clf, tmp_path)
    file = saved / WEIGHTS
    data = bytearray(file.read_bytes())
    data[int(place * len(data))] ^= 1
    file.write_bytes(data)
    with pytest.raises(InputError, match=r"weights\.safetensors: .*\(checksum\)"):
        NodeClassifier.load(saved)


@each(
    "change",
    [
        lambda manifest: manifest.update(val_score=1.5),
        lambda manifest: manifest["classes"].reverse(),
        lambda manifest: manifest["params"].update(dropout=0.1),
        lambda manifest: manifest.update(weights_sha256="0" * 64),
        lambda manifest: manifest.pop("sha256"),
        lambda manifest: manifest.update(note="hello"),
    ],
)
def test_an_edited_manifest_is_found(
    clf: NodeClassifier, tmp_path: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    saved = save(clf, tmp_path)
    edit(saved, change)
    with pytest.raises(
        InputError, match=r"bundle\.json: was changed after it was saved \(checksum\)"
    ):
        NodeClassifier.load(saved)


def test_a_manifest_that_is_only_laid_out_anew_is_still_good(
    saved: Path, clf: NodeClassifier
) -> None:
    edit(saved, lambda _: None)
    assert NodeClassifier.load(saved).params_ == clf.params_


@each("kept", [0, 1, 100, -2])
def test_a_truncated_manifest_is_found(
    clf: NodeClassifier, tmp_path: Path, kept: int
) -> None:
    saved = save(clf, tmp_path)
    file = saved / MANIFEST
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(InputError, match=r"bundle\.json: truncated or not JSON"):
        NodeClassifier.load(saved)


def test_a_manifest_that_is_not_text_is_found(saved: Path) -> None:
    (saved / MANIFEST).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"bundle\.json: truncated or not JSON"):
        NodeClassifier.load(saved)


@each("text", ["[]", '"bundle"', '{"name": "another tool"}'])
def test_a_manifest_of_something_else_is_found(
    clf: NodeClassifier, tmp_path: Path, text: str
) -> None:
    saved = save(clf, tmp_path)
    (saved / MANIFEST).write_text(text, encoding="utf-8")
    with pytest.raises(
        InputError, match=r"bundle\.json: not the manifest of a saved model"
    ):
        NodeClassifier.load(saved)


def test_another_format_is_named(saved: Path) -> None:
    edit(saved, lambda manifest: manifest.update(format=2))
    with pytest.raises(
        InputError,
        match=rf"bundle\.json: format 2; this version of h2gcn \({__version__}\) reads "
        r"format 1",
    ):
        NodeClassifier.load(saved)


def test_missing_files_are_named(saved: Path) -> None:
    (saved / WEIGHTS).unlink()
    with pytest.raises(InputError, match=r"model/weights\.safetensors: cannot be read"):
        NodeClassifier.load(saved)
    (saved / MANIFEST).unlink()
    with pytest.raises(
        InputError, match=r"model: not a saved model \(no bundle\.json in it\)"
    ):
        NodeClassifier.load(saved)


@each("kind", ["nothing", "empty folder", "file"])
def test_a_path_that_is_not_a_bundle(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "thing"
    if kind == "empty folder":
        path.mkdir()
    elif kind == "file":
        path.write_text("text", encoding="utf-8")
    why = {
        "nothing": r"thing: this folder does not exist\.$",
        "empty folder": r"thing: not a saved model \(no bundle\.json in it\)$",
        "file": r"thing: not a saved model \(a file; a model is a folder\)$",
    }
    with pytest.raises(InputError, match=why[kind]):
        NodeClassifier.load(path)


def test_weights_of_another_model_are_found(
    saved: Path, graph: Graph, tmp_path: Path
) -> None:
    """Check a bundle whose checksums are right and whose parts do not fit."""
    fit(graph, model="gcn").save(tmp_path / "mixed")
    manifest = raw(tmp_path / "mixed")
    manifest["params"]["model"] = "h2gcn-1"
    manifest["sha256"] = digest(manifest)
    (tmp_path / "mixed" / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(
        InputError,
        match=r"weights\.safetensors: does not hold the weights of H2GCN: "
        r"module\.\w+ is missing$",
    ):
        NodeClassifier.load(tmp_path / "mixed")
    assert NodeClassifier.load(saved).model == "h2gcn-1"


# ------------------------------------------------------------- what does not fit


def sign(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the manifest of a model and sign it again."""
    manifest = raw(path)
    change(manifest)
    (path / MANIFEST).write_bytes(signed(manifest))


def change_tensors(path: Path, changes: dict[str, torch.Tensor | None]) -> None:
    """Change tensors of a model, and sign it again."""
    tensors = load_tensors((path / WEIGHTS).read_bytes())
    for name, tensor in changes.items():
        tensors.pop(name, None)
        if tensor is not None:
            tensors[name] = tensor
    content = to_bytes(tensors)
    (path / WEIGHTS).write_bytes(content)
    sha256 = hashlib.sha256(content).hexdigest()
    sign(path, lambda manifest: manifest.update(weights_sha256=sha256))


ONES = torch.ones(4)
BAD_TENSORS: dict[str, tuple[str, torch.Tensor | None, str]] = {
    "weights of NaN": (
        "module.embedding",
        torch.full((4, 64), torch.nan),
        "does not hold the weights of H2GCN: module.embedding has numbers that are not "
        "finite",
    ),
    "weights of another type": (
        "module.embedding",
        torch.ones(4, 64, dtype=torch.int64),
        "does not hold the weights of H2GCN: module.embedding has the type int64, not "
        "float32",
    ),
    "weights of another shape": (
        "module.embedding",
        torch.ones(64, 4),
        "does not hold the weights of H2GCN: module.embedding has the shape [64, 4], "
        "not [4, 64]",
    ),
    "more weights": (
        "module.more",
        ONES,
        "does not hold the weights of H2GCN: module.more is not one of its tensors",
    ),
    "a scaler of zero": (
        "scaler.deviation",
        ONES - 1,
        "scaler.deviation has numbers that are not above 0",
    ),
    "a scaler of NaN": (
        "scaler.mean",
        torch.nan * ONES,
        "scaler.mean has numbers that are not finite",
    ),
    "a short scaler": (
        "scaler.mean",
        ONES[:3],
        "scaler.mean has the shape [3], not [4]",
    ),
    "no scaler": ("scaler.mean", None, "scaler.mean is missing"),
    "nodes below 0": (
        "seen.rows",
        torch.tensor([-1]),
        "seen.rows has numbers out of range",
    ),
    "nodes that are no numbers of nodes": (
        "seen.test",
        ONES,
        "seen.test has the type float32, not int64",
    ),
    "a matrix of nodes": (
        "seen.test",
        torch.ones(2, 2, dtype=torch.int64),
        "seen.test has the shape [2, 2], not [2]",
    ),
    "a class that is not there": (
        "held_out.y",
        torch.full((6,), 2),
        "held_out.y has numbers out of range",
    ),
    "probabilities that are none": (
        "held_out.probabilities",
        torch.full((6, 2), 2.0),
        "held_out.probabilities has numbers that are none",
    ),
    "something else": ("other", ONES, "other is none of a model's tensors"),
}


@each("name", BAD_TENSORS)
def test_a_tensor_that_does_not_fit_is_named(
    clf: NodeClassifier, tmp_path: Path, name: str
) -> None:
    saved = save(clf, tmp_path)
    tensor, value, words = BAD_TENSORS[name]
    change_tensors(saved, {tensor: value})
    with pytest.raises(InputError) as caught:
        NodeClassifier.load(saved)
    assert str(caught.value) == f"{saved / WEIGHTS}: {words}"


BAD_FIELDS: dict[str, tuple[dict[str, Any], str]] = {
    "text for a number": (
        {"best_epoch": "7"},
        "best_epoch must be an integer, got '7'",
    ),
    "a seed below 0": ({"seed": -1}, "seed must be an integer >= 0, got -1"),
    "a list in a list": (
        {"classes": [[0], 1]},
        "classes.0 must be true or false or an integer or a number or text, got a list "
        "of 1",
    ),
    "a class twice": ({"classes": [1, "1"]}, "classes has a class twice"),
    "a number for a name": (
        {"features": ["a", "b", "c", 4]},
        "features.3 must be text, got 4",
    ),
    "another scaling": ({"scaling": "log"}, "no scaling is 'log'"),
    "no checksum": (
        {"weights_sha256": "../other"},
        r"weights_sha256 must be text matching regex '^[0-9a-f]{64}\\Z', "
        "got '../other'",
    ),
    "a temperature of zero": (
        {"calibration": {"temperature": 0.0, "offsets": [0.0, 0.0]}},
        "calibration.temperature must be a number >= 1e-06, got 0.0",
    ),
    "offsets of other classes": (
        {"calibration": {"temperature": 1.0, "offsets": [0.0]}},
        "offsets has not a number for each class",
    ),
    "tables that are none": (
        {"extra": {"tables": 3}},
        "extra.tables must be an object, got 3",
    ),
    "a column that is no name": (
        {"extra": {"tables": {"id_column": 3}}},
        "extra.tables.id_column must be text or null, got 3",
    ),
    "a column of another kind": (
        {"extra": {"tables": {"ids": "x"}}},
        "extra.tables: There is no table option 'ids'.",
    ),
    "a table of a model that has none": (
        {
            "table": {
                "blocks": ["ego"],
                "edge_columns": [],
                "numeric": [],
                "directed": False,
                "n_nodes": 4,
                "nodes": None,
            }
        },
        "has the blocks of the ring table",
    ),
    "offsets that are infinite": (
        {"offsets": [float("inf"), 0.0]},
        "offsets.0 must be a number <= 1e+30, got inf",
    ),
}


@each("name", BAD_FIELDS)
def test_a_field_of_another_form_is_named(
    clf: NodeClassifier, tmp_path: Path, name: str
) -> None:
    saved = save(clf, tmp_path)
    change, words = BAD_FIELDS[name]
    sign(saved, lambda manifest: manifest.update(change))
    with pytest.raises(InputError) as caught:
        NodeClassifier.load(saved)
    assert str(caught.value) == f"{saved / MANIFEST}: {words}"


@each(
    ("change", "words"),
    [
        ({"epochs": "2"}, "params.epochs must be an integer, got '2'"),
        (
            {"epochs": 0},
            "epochs must be an integer, at least 1, got 0",
        ),
        ({"options": [1]}, "params.options must be an object or null, got a list of 1"),
        ({"options": {"heads": 4}}, "the model h2gcn-1 has no option 'heads'."),
        ({"model": ["gcn"]}, "params.model must be text, got a list of 1"),
        ({"model": "auto"}, "epochs does not go"),
        ({"run": "rm"}, "params has no field 'run'"),
        ({"random_state": -4}, "params.random_state must be an integer >= 0, got -4"),
    ],
    ids=str,
)
def test_a_parameter_of_another_form_is_named(
    clf: NodeClassifier, tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    saved = save(clf, tmp_path)
    sign(saved, lambda manifest: manifest["params"].update(change))
    with pytest.raises(InputError) as caught:
        NodeClassifier.load(saved)
    assert str(caught.value).startswith(f"{saved / MANIFEST}: {words}")


def test_what_belongs_to_a_machine_does_not_come_out_of_a_model(
    run: Run, saved: Path, graph: Graph, tmp_path: Path
) -> None:
    """Check a model as version 0.1.0 wrote it, with words about its machine."""
    theirs = {
        "memory_limit": 1e-6,
        "batch_size": -4,
        "device": "cuda",
    }
    sign(saved, lambda manifest: manifest["params"].update(theirs))
    loaded = NodeClassifier.load(saved)
    own = NodeClassifier()
    for name in theirs:
        assert loaded.get_params()[name] == getattr(own, name)
        assert loaded.params_[name] == getattr(own, name)
    write_npz(graph, tmp_path / "g.npz")
    out = tmp_path / "p.csv"
    code, said, err = run(
        "predict", saved, tmp_path / "g.npz", "--all", "-q", "--out", out
    )
    assert code == 0, err
    assert "30 nodes written" in said
    assert len(out.read_text().splitlines()) == 31
    assert not (tmp_path / "theirs").exists()


def test_json_that_is_too_deep_is_told_in_a_line(run: Run, saved: Path) -> None:
    (saved / MANIFEST).write_text("[" * 100_000 + "]" * 100_000)
    result = run("predict", saved, "texas", "-q")
    fails(result, "bundle.json: is nested more than 64 deep")


# ----------------------------------------------------------------------- where to save


def test_a_bundle_replaces_a_bundle(saved: Path, graph: Graph) -> None:
    other = fit(graph, model="gcn")
    other.save(saved)
    loaded = NodeClassifier.load(saved)
    assert loaded.model == "gcn"
    logits = other.predict_logits(graph)
    assert loaded.predict_logits(graph).tobytes() == logits.tobytes()
    assert [path.name for path in saved.parent.iterdir()] == ["model"]


def test_an_empty_folder_is_taken(clf: NodeClassifier, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    clf.save(tmp_path / "model")
    assert NodeClassifier.load(tmp_path / "model").classes_.tolist() == [0, 1]


def test_a_folder_of_other_files_is_left_alone(
    clf: NodeClassifier, tmp_path: Path
) -> None:
    (tmp_path / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(
        InputError, match=r"holds other files; a model needs a folder of its own"
    ):
        clf.save(tmp_path)
    assert (tmp_path / "thesis.txt").read_text(encoding="utf-8") == "years of work"


def test_a_bundle_json_of_another_tool_is_left_alone(
    clf: NodeClassifier, tmp_path: Path
) -> None:
    (tmp_path / MANIFEST).write_text('{"entry": "main.js"}', encoding="utf-8")
    (tmp_path / "main.js").write_text("years of work", encoding="utf-8")
    with pytest.raises(InputError, match="holds other files"):
        clf.save(tmp_path)


@each("name", [MANIFEST, WEIGHTS])
def test_a_file_of_another_tool_with_one_of_our_names_is_left_alone(
    clf: NodeClassifier, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / name).write_text('{"entry": "main.js"}', encoding="utf-8")
    with pytest.raises(InputError, match="theirs: holds other files"):
        clf.save(folder)
    assert (folder / name).read_text(encoding="utf-8") == '{"entry": "main.js"}'


def test_a_file_is_left_alone(clf: NodeClassifier, tmp_path: Path) -> None:
    file = tmp_path / "model"
    file.write_text("text", encoding="utf-8")
    with pytest.raises(InputError, match=r"is a file; a model is saved as a folder"):
        clf.save(file)
    assert file.read_text(encoding="utf-8") == "text"


def test_the_folder_above_must_be_there(clf: NodeClassifier, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"model: the folder .*nowhere does not exist"):
        clf.save(tmp_path / "nowhere" / "model")
    assert list(tmp_path.iterdir()) == []


def fail(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def assert_refused_and_whole(path: Path, graph: Graph, clf: NodeClassifier) -> None:
    other = fit(graph, model="gcn")
    with pytest.raises(
        InputError, match=r"model: cannot be written \(No space left on device\)"
    ):
        other.save(path)
    assert [found.name for found in path.parent.iterdir()] == ["model"]
    logits = clf.predict_logits(graph)
    assert NodeClassifier.load(path).predict_logits(graph).tobytes() == logits.tobytes()


@pytest.mark.parametrize("step", ["write_bytes", "mkdir"])
def test_a_failure_to_write_leaves_the_old_bundle(
    clf: NodeClassifier,
    saved: Path,
    graph: Graph,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    monkeypatch.setattr(Path, step, fail)
    assert_refused_and_whole(saved, graph, clf)


def test_a_failure_to_rename_leaves_the_old_bundle(
    clf: NodeClassifier, saved: Path, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def fail_on_the_new(self: Path, target: Path) -> Path:
        # Only the last step fails: what moves the old bundle aside may work.
        if (
            Path(target) == saved
            and json.loads((self / MANIFEST).read_text(encoding="utf-8"))["params"][
                "model"
            ]
            == "gcn"
        ):
            fail()
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail_on_the_new)
    assert_refused_and_whole(saved, graph, clf)


def test_ctrl_c_between_the_renames_keeps_the_old_bundle(
    clf: NodeClassifier, saved: Path, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename, renamed = Path.rename, []

    def interrupt_the_second(self: Path, target: Path) -> Path:
        renamed.append(target)
        if len(renamed) == 2:
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", interrupt_the_second)
    with pytest.raises(KeyboardInterrupt):
        fit(graph, model="gcn").save(saved)
    assert [found.name for found in saved.parent.iterdir()] == ["model"]
    assert NodeClassifier.load(saved).model == clf.model


@pytest.mark.skipif(files.fcntl is None, reason="no locks here")
def test_a_model_that_lost_its_name_is_found_again(
    run: Run, clf: NodeClassifier, saved: Path
) -> None:
    """Check what a kill leaves between the two renames."""
    for find in (
        lambda: NodeClassifier.load(saved),
        lambda: fails(run("train", "x", "--out", saved), "holds a model already"),
        lambda: clf.save(saved),
    ):
        saved.rename(saved.with_name(".model-0123abcd.h2gcn-older"))
        find()
        assert NodeClassifier.load(saved).model == clf.model
        assert [path.name for path in saved.parent.iterdir()] == ["model"]


@pytest.mark.skipif(files.fcntl is None, reason="no locks here")
def test_what_a_killed_save_left_is_removed_and_nothing_else(
    clf: NodeClassifier, saved: Path
) -> None:
    around = saved.parent
    ours = ".model-0123abcd.h2gcn-part", ".model-4567abcd.h2gcn-older"
    others = ".model-20261118", ".model-89abcdef.h2gcn-part", ".model-original-older"
    for name in (*ours, *others):
        (around / name).mkdir()
        (around / name / WEIGHTS).write_bytes(b"half")
    (around / others[1] / "thesis.txt").write_text("years of work")
    clf.save(saved)
    assert {path.name for path in around.iterdir()} == {"model", *others}


def test_a_failure_to_make_a_folder_is_told(
    clf: NodeClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "mkdir", fail)
    with pytest.raises(
        InputError, match=r"model: cannot be written \(No space left on device\)"
    ):
        clf.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_manifest_that_lacks_something(saved: Path) -> None:
    manifest = raw(saved)
    del manifest["classes"]
    manifest["sha256"] = digest(manifest)
    (saved / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=r"bundle.json: lacks classes"):
        NodeClassifier.load(saved)


def test_the_folder_itself_is_no_name(clf: NodeClassifier) -> None:
    with pytest.raises(InputError, match="a model needs a folder of its own"):
        clf.save(".")


def test_a_model_of_python_predicts_tables_from_the_command_line(
    run: Run, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    kinds = np.arange(40) % 2
    plans, labels = np.array(["basic", "gold"])[kinds], np.array(["a", "b"])[kinds]
    labels[::5] = ""
    x = kinds + rng.normal(size=40)
    lines = [f"n{i},{x[i]:.3f},{plans[i]},{labels[i]}" for i in range(40)]
    (tmp_path / "nodes.csv").write_text("\n".join(["key,x,plan,kind", *lines]))
    ring = [f"n{i},n{(i + 1) % 40}" for i in range(40)]
    (tmp_path / "edges.csv").write_text("\n".join(["source,target", *ring]))
    options = TableOptions(id_column="key", label_column="kind", categorical=("plan",))
    graph = read_graph(tmp_path, options=options)
    with pytest.warns(H2GCNWarning, match="may be the label in other words: plan=bas"):
        clf = NodeClassifier("mlp", epochs=5, random_state=0).fit(graph)
    clf.save(tmp_path / "model")
    again = NodeClassifier.load(tmp_path / "model")
    kept = TableOptions.from_json(again.tables_)
    assert replace(kept, fill_values={}) == options
    assert kept.fill_values == {"x": pytest.approx(np.median(x), abs=1e-3)}
    out = tmp_path / "out.csv"
    code, _, told = run("predict", tmp_path / "model", tmp_path, "--out", out)
    assert code == 0, told
    written = [line.split(",") for line in out.read_text().split()[1:]]
    unlabelled = np.flatnonzero(graph.y < 0)
    assert [row[0] for row in written] == graph.node_ids[unlabelled].tolist()
    assert [row[1] for row in written] == clf.predict(graph, unlabelled).tolist()
    # A graph that was not read from tables says nothing of them.
    assert fit(ring_graph()).tables_ == {}


def test_other_formats_remember_the_columns_of_their_labels(
    run: Run, tmp_path: Path
) -> None:
    networkx = pytest.importorskip("networkx")
    ring = networkx.cycle_graph(40)
    for node, kind in ring.nodes(data=True):
        kind |= {"age": float(node % 2), "other": 1.0 * node}
        if node % 5:
            kind["kind"] = "ab"[node % 2]
    networkx.write_graphml(ring, tmp_path / "k.graphml")
    given = "--label-column", "kind", "--feature-column", "age", "--epochs", 5
    model, out = tmp_path / "model", tmp_path / "out.csv"
    assert run("train", tmp_path / "k.graphml", *given, "--out", model)[0] == 0
    code, said, _ = run("predict", model, tmp_path / "k.graphml", "--out", out)
    assert code == 0
    assert "8 nodes written" in said
    assert "of 32 known labels agree" in said


def test_a_model_is_loaded_while_another_one_is_trained(
    clf: NodeClassifier, tmp_path: Path
) -> None:
    clf.save(tmp_path / "model")
    loaded = []

    def load() -> None:
        loaded.append(NodeClassifier.load(tmp_path / "model"))

    def wait(_: object) -> None:
        thread = Thread(target=load)
        thread.start()
        thread.join(timeout=300)  # only a hang takes so long
        assert loaded

    NodeClassifier("mlp", epochs=1).fit(ring_graph(), on_epoch=wait)
    before = torch.get_rng_state()
    load()
    assert torch.equal(torch.get_rng_state(), before)
