"""A trained classifier as a folder: safetensors and JSON, nothing that can run."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from h2gcn import __version__
from h2gcn.exceptions import InputError
from h2gcn.scaling import Scaler

if TYPE_CHECKING:
    from h2gcn.estimator import NodeClassifier

__all__ = ["load_bundle", "read_manifest", "save_bundle"]

FORMAT = 1
MANIFEST, WEIGHTS = "bundle.json", "weights.safetensors"


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
    params = classifier.get_params()
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
        "extra": extra or {},
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
    }
    manifest["sha256"] = _digest(manifest)
    try:
        beside = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None
    try:
        (beside / WEIGHTS).write_bytes(weights)
        text = json.dumps(manifest, indent=1, ensure_ascii=False)
        (beside / MANIFEST).write_text(text, encoding="utf-8")
        beside.chmod(0o755)
        if path.exists():
            shutil.rmtree(path)
        beside.rename(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def check_target(path: Path) -> None:
    """Refuse a folder that a bundle cannot be written to, before the work is done."""
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist")
    if path.is_file():
        raise InputError(f"{path}: is a file; a model is saved as a folder")
    if path.is_dir() and any(path.iterdir()) and not (path / MANIFEST).is_file():
        raise InputError(
            f"{path}: holds other files; a model needs a folder of its own"
        )


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
    from h2gcn.estimator import NodeClassifier, find_device

    manifest = read_manifest(path)
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
    module = classifier._build(classifier.n_features_in_, len(classifier.classes_))
    prefix = "module."
    state = {
        k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)
    }
    try:
        module.load_state_dict(state)
    except RuntimeError:
        raise InputError(f"{file}: does not hold the weights of {module!r}") from None
    # A model that was trained on a GPU is read where there is none.
    wanted = classifier.device
    if wanted == "cuda" and not torch.cuda.is_available():
        wanted = "cpu"
    classifier.module_ = module.to(find_device(wanted)).eval()
    classifier.best_epoch_ = manifest["best_epoch"]
    classifier.val_score_ = manifest["val_score"]
    classifier.seed_ = manifest["seed"]
    return classifier


def _digest(manifest: dict[str, Any]) -> str:
    text = json.dumps(manifest, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
