"""A trained classifier as a folder: safetensors and JSON, nothing that can run."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from h2gcn import __version__
from h2gcn._validation import nearest
from h2gcn.estimator.checks import find_device
from h2gcn.estimator.known_labels import Seeds, Seen
from h2gcn.estimator.parameters import blank_module
from h2gcn.estimator.scaling import Scaler
from h2gcn.exceptions import InputError
from h2gcn.io import cannot_read, cannot_write, check_folder
from h2gcn.training import (
    OF_THE_MACHINE,
    plain,
    read_signed,
    read_tensors,
    signed,
    to_bytes,
)

if TYPE_CHECKING:
    from h2gcn.estimator.classifier import NodeClassifier

__all__ = ["check_target", "holds_model", "load_bundle", "read_manifest", "save_bundle"]

FORMAT = 1
MANIFEST, WEIGHTS = "bundle.json", "weights.safetensors"
_KEYS = {
    *("params", "classes", "features", "scaling", "weights_sha256"),
    *("best_epoch", "val_score", "seed", "extra"),
}


def save_bundle(
    classifier: NodeClassifier, path: Path, *, extra: dict[str, Any] | None = None
) -> None:
    """Write a fitted classifier to a folder.

    It is written beside and then renamed, so that a folder of this name is always
    whole. One that is already there is replaced only if it is a bundle.

    Parameters
    ----------
    classifier
        Fitted.
    path
        The folder.
    extra
        Further facts for the manifest (the card, the scores, …).
    """
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(classifier, "module_")
    check_target(path)
    scaler = classifier.scaler_
    tensors = {f"module.{k}": v for k, v in classifier.module_.state_dict().items()}
    if scaler.mean is not None and scaler.deviation is not None:
        tensors["scaler.mean"] = torch.from_numpy(scaler.mean)
        tensors["scaler.deviation"] = torch.from_numpy(scaler.deviation)
    seen = classifier.seen_
    if seen is not None:
        tensors |= {f"seen.{name}": t for name, t in seen.to_tensors().items()}
    weights = to_bytes(tensors)
    params = plain(classifier.params_ | dict.fromkeys(OF_THE_MACHINE))
    if not isinstance(params["random_state"], int | None):
        params["random_state"] = classifier.seed_
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "version": __version__,
        "params": params,
        "classes": np.asarray(classifier.classes_).tolist(),
        "features": list(classifier.feature_names_in_),
        "scaling": scaler.kind,
        "best_epoch": classifier.best_epoch_,
        "val_score": classifier.val_score_,
        "seed": classifier.seed_,
        "seeds": None if classifier.seeds_ is None else classifier.seeds_.to_json(),
        "seen": None if seen is None else seen.graph,
        "extra": {"tables": classifier.tables_} | (extra or {}),
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
    }
    _replace(path, {WEIGHTS: weights, MANIFEST: signed(manifest)})


def _replace(path: Path, files: dict[str, bytes]) -> None:
    """Write a folder beside, move an older one away, and take its name."""
    try:
        beside = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    except OSError as error:
        raise cannot_write(path, error) from None
    older = beside.with_name(f"{beside.name}-older")
    try:
        for name, content in files.items():
            (beside / name).write_bytes(content)
        beside.chmod(0o755)
        if path.exists():
            path.rename(older)
        beside.rename(path)
    except OSError as error:
        raise cannot_write(path, error) from None
    finally:
        # Whatever ended it, Ctrl-C too: the older one is never lost.
        if older.exists() and not path.exists():
            older.rename(path)
        shutil.rmtree(beside, ignore_errors=True)
        shutil.rmtree(older, ignore_errors=True)


def check_target(path: Path) -> None:
    """Refuse a folder that a bundle cannot be written to, before the work is done."""
    own = {MANIFEST, WEIGHTS} if holds_model(path) else set()
    check_folder(path, "a model", own.__contains__)
    _check_writable(path)


def holds_model(path: Path) -> bool:
    """Return whether a folder is one that `save_bundle` wrote, damaged or not."""
    try:
        found = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.keys() >= _KEYS


def _check_writable(path: Path) -> None:
    try:
        Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent)).rmdir()
    except OSError as error:
        raise cannot_write(path, error) from None


def read_manifest(path: Path) -> dict[str, Any]:
    """Read and check the manifest of a bundle."""
    file = path / MANIFEST
    if not file.is_file():
        raise _not_a_model(path)
    return read_signed(file, "a saved model", FORMAT)


def _not_a_model(path: Path) -> InputError:
    """Return the error of a place where no model is, with where one may be."""
    try:
        if path.is_dir():
            inside = path / "model"  # as 'h2gcn tune' has it
            hint = f"; there is one in {inside}" if holds_model(inside) else ""
            why = f"not a saved model (no {MANIFEST} in it){hint}"
        elif path.exists():
            why = "not a saved model (a file; a model is a folder)"
        elif not path.parent.is_dir():
            why = f"the folder {path.parent} does not exist"
        else:
            models = [file.parent.name for file in path.parent.glob(f"*/{MANIFEST}")]
            why = f"this folder does not exist.{nearest(path.name, models)}"
    except OSError as error:
        return cannot_read(path, error)
    return InputError(f"{path}: {why}")


def load_bundle(path: Path) -> NodeClassifier:
    """Read a classifier that `save_bundle` wrote, and check it."""
    from h2gcn.estimator.classifier import NodeClassifier

    manifest = read_manifest(path)
    if missing := _KEYS - manifest.keys():
        raise InputError(f"{path / MANIFEST}: lacks {', '.join(sorted(missing))}")
    file = path / WEIGHTS
    tensors = read_tensors(file, manifest["weights_sha256"])
    classifier = NodeClassifier(**manifest["params"])
    classifier.classes_ = np.asarray(manifest["classes"])
    classifier.feature_names_in_ = tuple(manifest["features"])
    classifier.n_features_in_ = len(manifest["features"])
    classifier.tables_ = dict(manifest["extra"].get("tables", {}))
    mean, deviation = tensors.get("scaler.mean"), tensors.get("scaler.deviation")
    classifier.scaler_ = Scaler(
        manifest["scaling"],
        None if mean is None else mean.numpy(),
        None if deviation is None else deviation.numpy(),
    )
    shape = classifier.n_features_in_, len(classifier.classes_)
    module = blank_module(classifier.get_params(), *shape)
    try:
        module.load_state_dict(_under("module.", tensors), assign=True)
    except RuntimeError:
        raise InputError(f"{file}: does not hold the weights of {module!r}") from None
    seeds = manifest.get("seeds")
    classifier.seeds_ = None if seeds is None else Seeds.from_json(seeds)
    graph = manifest.get("seen")  # which bundles have not always had
    nodes = _under("seen.", tensors)
    classifier.seen_ = None if graph is None else Seen.from_tensors(graph, nodes)
    classifier.params_ = classifier.get_params()
    classifier.device_ = _device_here(classifier.device)
    classifier.module_ = module.to(classifier.device_).eval()
    classifier.best_epoch_ = manifest["best_epoch"]
    classifier.val_score_ = manifest["val_score"]
    classifier.seed_ = manifest["seed"]
    return classifier


def _under(prefix: str, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the tensors whose names begin with a prefix, without it."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def _device_here(name: str) -> torch.device:
    """Return the device of training, or the best there is where it is not there."""
    try:
        return find_device(name)
    except InputError:
        return find_device("auto")
