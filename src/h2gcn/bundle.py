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
from safetensors import SafetensorError
from safetensors.torch import load, save

from h2gcn import __version__
from h2gcn.exceptions import InputError
from h2gcn.preparation import find_device
from h2gcn.scaling import Scaler
from h2gcn.seeds import Seeds
from h2gcn.training import seeded

if TYPE_CHECKING:
    from h2gcn.estimator import NodeClassifier

__all__ = ["load_bundle", "read_manifest", "save_bundle"]

FORMAT = 1
ELSEWHERE = ("ring_store", "memory_limit")
"""Parameters that speak of the machine of training, and are not saved."""
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
        Further facts for the manifest (how the tables were read, the card, …).
    """
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(classifier, "module_")
    check_target(path)
    scaler = classifier.scaler_
    tensors = {f"module.{k}": v for k, v in classifier.module_.state_dict().items()}
    if scaler.mean is not None and scaler.deviation is not None:
        tensors["scaler.mean"] = torch.from_numpy(scaler.mean)
        tensors["scaler.deviation"] = torch.from_numpy(scaler.deviation)
    weights = save({k: v.contiguous().cpu() for k, v in tensors.items()})
    params = _plain(classifier.params_ | dict.fromkeys(ELSEWHERE))
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
        "extra": extra or {},
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
    }
    manifest["sha256"] = _digest(manifest)
    _replace(path, {WEIGHTS: weights, MANIFEST: _json(manifest)})


def _replace(path: Path, files: dict[str, bytes]) -> None:
    """Write a folder beside, move an older one away, and take its name."""
    try:
        beside = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None
    older = beside.with_name(f"{beside.name}-older")
    try:
        for name, content in files.items():
            (beside / name).write_bytes(content)
        beside.chmod(0o755)
        if path.exists():
            path.rename(older)
        beside.rename(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None
    finally:
        # Whatever ended it, Ctrl-C too: the older one is never lost.
        if older.exists() and not path.exists():
            older.rename(path)
        shutil.rmtree(beside, ignore_errors=True)
        shutil.rmtree(older, ignore_errors=True)


def check_target(path: Path) -> None:
    """Refuse a folder that a bundle cannot be written to, before the work is done."""
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist")
    if path.name in ("", ".."):
        raise InputError(f"{path}: a model needs a folder of its own")
    if path.is_file():
        raise InputError(f"{path}: is a file; a model is saved as a folder")
    if path.is_dir() and {file.name for file in path.iterdir()} - {MANIFEST, WEIGHTS}:
        raise InputError(
            f"{path}: holds other files; a model needs a folder of its own"
        )
    _check_writable(path)


def _check_writable(path: Path) -> None:
    try:
        Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent)).rmdir()
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None


def read_manifest(path: Path) -> dict[str, Any]:
    """Read and check the manifest of a bundle."""
    file = path / MANIFEST
    if not file.is_file():
        raise InputError(f"{path}: not a saved model (no {MANIFEST} in it)")
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        raise InputError(f"{file}: truncated or not JSON") from None
    if not isinstance(manifest, dict) or "format" not in manifest:
        raise InputError(f"{file}: not the manifest of a saved model")
    if manifest["format"] != FORMAT:
        raise InputError(
            f"{file}: format {manifest['format']}; this version of h2gcn "
            f"({__version__}) reads format {FORMAT}"
        )
    if manifest.pop("sha256", None) != _digest(manifest):
        raise InputError(f"{file}: was changed after it was saved (checksum)")
    return manifest


def load_bundle(path: Path) -> NodeClassifier:
    """Read a classifier that `save_bundle` wrote, and check it."""
    from h2gcn.estimator import NodeClassifier

    manifest = read_manifest(path)
    if missing := _KEYS - manifest.keys():
        raise InputError(f"{path / MANIFEST}: lacks {', '.join(sorted(missing))}")
    file = path / WEIGHTS
    if not file.is_file():
        raise InputError(f"{file}: missing")
    weights = file.read_bytes()
    if hashlib.sha256(weights).hexdigest() != manifest["weights_sha256"]:
        raise InputError(f"{file}: truncated, or changed after it was saved (checksum)")
    try:
        tensors = load(weights)
    except SafetensorError as error:
        raise InputError(f"{file}: not a safetensors file ({error})") from None
    classifier = NodeClassifier(**manifest["params"])
    classifier.classes_ = np.asarray(manifest["classes"])
    classifier.feature_names_in_ = tuple(manifest["features"])
    classifier.n_features_in_ = len(manifest["features"])
    mean, deviation = tensors.get("scaler.mean"), tensors.get("scaler.deviation")
    classifier.scaler_ = Scaler(
        manifest["scaling"],
        None if mean is None else mean.numpy(),
        None if deviation is None else deviation.numpy(),
    )
    with seeded(0):  # weights are drawn before they are replaced
        module = classifier._build(classifier.n_features_in_, len(classifier.classes_))
    state = {
        name.removeprefix("module."): tensor
        for name, tensor in tensors.items()
        if name.startswith("module.")
    }
    try:
        module.load_state_dict(state)
    except RuntimeError:
        raise InputError(f"{file}: does not hold the weights of {module!r}") from None
    seeds = manifest.get("seeds")
    classifier.seeds_ = None if seeds is None else Seeds.from_json(seeds)
    classifier.params_ = classifier.get_params()
    classifier.device_ = _device_here(classifier.device)
    classifier.module_ = module.to(classifier.device_).eval()
    classifier.best_epoch_ = manifest["best_epoch"]
    classifier.val_score_ = manifest["val_score"]
    classifier.seed_ = manifest["seed"]
    return classifier


def _device_here(name: str) -> torch.device:
    """Return the device of training, or the best there is where it is not there."""
    try:
        return find_device(name)
    except InputError:
        return find_device("auto")


def _plain(value: Any) -> Any:
    """Return arrays and numpy's numbers as what JSON can hold, at any depth."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    return value


def _json(manifest: dict[str, Any]) -> bytes:
    return json.dumps(manifest, indent=1, ensure_ascii=False).encode()


def _digest(manifest: dict[str, Any]) -> str:
    text = json.dumps(manifest, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
