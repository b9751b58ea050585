"""Saved models: a folder of safetensors and JSON, nothing that can run."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from h2gcn import __version__
from h2gcn._validation import nearest
from h2gcn.auto import Leaderboard
from h2gcn.estimator.calibration import Calibration
from h2gcn.estimator.inputs import Scaler
from h2gcn.estimator.known_labels import KnownLabels, Seen
from h2gcn.exceptions import InputError
from h2gcn.io import cannot_read, cannot_write, check_folder
from h2gcn.models import NodeModule
from h2gcn.ring_table import Schema
from h2gcn.training import (
    OF_THE_MACHINE,
    plain,
    read_signed,
    read_tensors,
    signed,
    to_bytes,
)

__all__ = [
    "SavedMember",
    "SavedModel",
    "check_target",
    "holds_model",
    "load_weights",
    "member_folder",
    "read_manifest",
    "read_model",
    "write_model",
]

FORMAT = 1
MANIFEST, WEIGHTS, MEMBERS = "bundle.json", "weights.safetensors", "members"
_KEYS = {
    *("params", "classes", "features", "scaling", "weights_sha256"),
    *("best_epoch", "val_score", "seed", "extra"),
}


@dataclass(frozen=True, eq=False)
class SavedModel:
    """All that is saved of a fitted classifier.

    Parameters
    ----------
    params
        Its parameters by name, those of the machine of training left out.
    classes
        The labels, [C].
    features
        Names of the feature columns.
    scaler
        The fitted scaling.
    weights
        The module's tensors by name.
    known_labels
        Of a model that takes labels, else None.
    schema
        Of the ring table of a model that takes one, else None.
    seen
        Which nodes training saw; older models were saved without.
    calibration
        How logits become probabilities; older models were saved without.
    best_epoch, val_score, seed
        Of the training.
    extra
        Further facts (the card, the scores, …), and under "tables" how the tables of
        the graph were read.
    members
        Of "auto": those that answer.
    leaderboard
        Of "auto": how all members stood, else None.
    offsets
        What "auto" adds to the logits of each class.
    """

    params: dict[str, Any]
    classes: NDArray[Any]
    features: tuple[str, ...]
    scaler: Scaler
    weights: dict[str, torch.Tensor]
    known_labels: KnownLabels | None
    schema: Schema | None
    seen: Seen | None
    calibration: Calibration | None
    best_epoch: int
    val_score: float
    seed: int
    extra: dict[str, Any]
    members: tuple[SavedMember, ...] = ()
    leaderboard: Leaderboard | None = None
    offsets: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class SavedMember:
    """A member of a saved "auto": its name, its part in the answer, and the model."""

    name: str
    weight: float
    temperature: float
    model: SavedModel


def write_model(path: Path, saved: SavedModel) -> None:
    """Write a model to a folder.

    It is written beside and then renamed, so that a folder of this name is always
    whole. One that is already there is replaced only if it is a saved model.
    """
    check_target(path)
    _replace(path, _files(saved))


def _files(saved: SavedModel) -> dict[str, bytes]:
    """Return the content of each file of a model, by its place in the folder."""
    scaler, seen, known = saved.scaler, saved.seen, saved.known_labels
    calibration = saved.calibration
    tensors = {f"module.{name}": t for name, t in saved.weights.items()}
    if scaler.mean is not None and scaler.deviation is not None:
        tensors["scaler.mean"] = torch.from_numpy(scaler.mean)
        tensors["scaler.deviation"] = torch.from_numpy(scaler.deviation)
    if seen is not None:
        tensors |= {f"seen.{name}": t for name, t in seen.to_tensors().items()}
    if calibration is not None:
        held_out = calibration.to_tensors()
        tensors |= {f"held_out.{name}": t for name, t in held_out.items()}
    weights = to_bytes(tensors)
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "version": __version__,
        "params": plain(saved.params | dict.fromkeys(OF_THE_MACHINE)),
        "classes": np.asarray(saved.classes).tolist(),
        "features": list(saved.features),
        "scaling": scaler.kind,
        "best_epoch": saved.best_epoch,
        "val_score": saved.val_score,
        "seed": saved.seed,
        "seeds": None if known is None else known.to_json(),
        "table": None if saved.schema is None else saved.schema.to_json(),
        "seen": None if seen is None else seen.graph,
        "calibration": None if calibration is None else calibration.to_json(),
        "extra": saved.extra,
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
    }
    if not isinstance(manifest["params"]["random_state"], int | None):
        manifest["params"]["random_state"] = saved.seed
    files = {WEIGHTS: weights}
    manifest["members"] = []
    for number, member in enumerate(saved.members):
        folder = member_folder(number, member.name)
        inside = _files(member.model)
        files |= {f"{folder}/{name}": part for name, part in inside.items()}
        manifest["members"].append(
            {
                "name": member.name,
                "weight": member.weight,
                "temperature": member.temperature,
                "folder": Path(folder).name,
                "manifest_sha256": hashlib.sha256(inside[MANIFEST]).hexdigest(),
            }
        )
    manifest["offsets"] = list(saved.offsets)
    board = saved.leaderboard
    manifest["leaderboard"] = None if board is None else board.to_json()
    return files | {MANIFEST: signed(manifest)}


def member_folder(number: int, name: str) -> str:
    """Return where in the folder of an "auto" a member is."""
    return f"{MEMBERS}/{number}-{name}"


def _replace(path: Path, files: dict[str, bytes]) -> None:
    """Write a folder beside, move an older one away, and take its name."""
    try:
        beside = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    except OSError as error:
        raise cannot_write(path, error) from None
    older = beside.with_name(f"{beside.name}-older")
    try:
        for name, content in files.items():
            (beside / name).parent.mkdir(parents=True, exist_ok=True)
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
    """Refuse a folder that a model cannot be written to, before the work is done."""
    own = {MANIFEST, WEIGHTS, MEMBERS} if holds_model(path) else set()
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
    """Read and check the manifest of a saved model."""
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


def read_model(path: Path) -> SavedModel:
    """Read a model that `write_model` wrote, and check it."""
    manifest = read_manifest(path)
    if missing := _KEYS - manifest.keys():
        raise InputError(f"{path / MANIFEST}: lacks {', '.join(sorted(missing))}")
    tensors = read_tensors(path / WEIGHTS, manifest["weights_sha256"])
    mean, deviation = tensors.get("scaler.mean"), tensors.get("scaler.deviation")
    known, graph = (manifest.get(name) for name in ("seeds", "seen"))  # newer than some
    nodes = _under("seen.", tensors)
    board = manifest.get("leaderboard")
    calibration, held_out = manifest.get("calibration"), _under("held_out.", tensors)
    return SavedModel(
        params=manifest["params"],
        classes=np.asarray(manifest["classes"]),
        features=tuple(manifest["features"]),
        scaler=Scaler(
            manifest["scaling"],
            None if mean is None else mean.numpy(),
            None if deviation is None else deviation.numpy(),
        ),
        weights=_under("module.", tensors),
        known_labels=None if known is None else KnownLabels.from_json(known),
        schema=_schema(manifest, path),
        seen=None if graph is None else Seen.from_tensors(graph, nodes),
        calibration=None
        if calibration is None
        else Calibration.from_tensors(calibration, held_out),
        best_epoch=manifest["best_epoch"],
        val_score=manifest["val_score"],
        seed=manifest["seed"],
        extra=manifest["extra"],
        members=tuple(
            _read_member(path, entry) for entry in manifest.get("members", ())
        ),
        leaderboard=None if board is None else Leaderboard.from_json(board),
        offsets=tuple(map(float, manifest.get("offsets", ()))),
    )


def _read_member(path: Path, entry: Mapping[str, Any]) -> SavedMember:
    """Read a member of "auto", and check that it is the one that was saved."""
    folder = str(entry["folder"])
    if re.fullmatch(r"\d+-[a-z0-9-]+", folder) is None:
        raise InputError(f"{path / MANIFEST}: {folder!r} is not a folder of a member")
    inside = path / MEMBERS / folder
    try:
        content = (inside / MANIFEST).read_bytes()
    except OSError as error:
        raise cannot_read(inside / MANIFEST, error) from None
    if hashlib.sha256(content).hexdigest() != entry["manifest_sha256"]:
        raise InputError(f"{inside / MANIFEST}: is not the member that was saved")
    return SavedMember(
        entry["name"], entry["weight"], entry["temperature"], read_model(inside)
    )


def _schema(manifest: Mapping[str, Any], path: Path) -> Schema | None:
    """Return the table of a saved model that has one."""
    table = manifest.get("table")
    if table is None:
        return None
    features = tuple(manifest["features"])
    classes = tuple(map(str, manifest["classes"]))
    try:
        return Schema.from_json(table, features, classes)
    except InputError as error:
        raise InputError(f"{path / MANIFEST}: {error}") from None


def load_weights(module: NodeModule, saved: SavedModel, path: Path) -> None:
    """Give a module the weights that were read from a folder."""
    try:
        module.load_state_dict(saved.weights, assign=True)
    except RuntimeError:
        file = path / WEIGHTS
        raise InputError(f"{file}: does not hold the weights of {module!r}") from None


def _under(prefix: str, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the tensors whose names begin with a prefix, without it."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
