"""The files of a checkpoint: what they hold, and whether it is what is asked for."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from h2gcn.exceptions import InputError
from h2gcn.io import cannot_read, cannot_write, write_whole
from h2gcn.training.identity import Identity, difference
from h2gcn.training.manifest import read_signed, read_tensors, signed, to_bytes
from h2gcn.training.progress import Snapshot, Tensors
from h2gcn.training.stopping import Epoch

__all__ = [
    "MANIFEST",
    "Stage",
    "find_stage",
    "holds_state",
    "is_own",
    "read_state",
    "write_state",
]

FORMAT = 1
MANIFEST = "checkpoint.json"
_OWN = re.compile(r"(checkpoint\.json|state-[0-9a-f]{16}\.safetensors)(\.\w+\.part)?")
_FIELDS = {
    "identity": dict,
    "epoch": int,
    "stopped": bool,
    "seconds": float,
    "state_sha256": str,
}
_GROUPS = ("weights", "best_weights", "optimiser", "random")
"""The fields of a snapshot that are tensors by name."""


class Stage(NamedTuple):
    """How far the training of a checkpoint is, and whether its rule has stopped it."""

    epoch: int
    stopped: bool
    seconds: float


def is_own(name: str) -> bool:
    """Whether a file of this name may be a checkpoint's."""
    return _OWN.fullmatch(name) is not None


def holds_state(folder: Path) -> bool:
    """Whether there is a checkpoint in a folder."""
    file = folder / MANIFEST
    try:
        if file.is_dir():
            raise InputError(f"{file}: is a folder, not the manifest of a checkpoint")
        return file.exists()
    except OSError as error:
        raise cannot_read(file, error) from None


def find_stage(folder: Path) -> Stage | None:
    """Return how far the checkpoint of a folder is, None where there is none."""
    if not holds_state(folder):
        return None
    manifest = _read_manifest(folder)
    return Stage(manifest["epoch"], manifest["stopped"], manifest["seconds"])


def read_state(folder: Path, identity: Identity, epochs: int) -> Snapshot:
    """Return the state that a folder holds of a training.

    Parameters
    ----------
    folder
        With a checkpoint.
    identity
        What is trained; a checkpoint of anything else is refused.
    epochs
        How long it is trained at most; a checkpoint beyond that is refused.
    """
    manifest = _read_manifest(folder)
    made = manifest["identity"]
    if missing := identity.keys() - made.keys():
        lacking = ", ".join(sorted(missing))
        raise InputError(f"{folder / MANIFEST}: lacks {lacking} of what was trained")
    if words := difference(made, identity):
        raise InputError(f"{folder}: {words}")
    if manifest["epoch"] > epochs:
        raise InputError(
            f"{folder}: is at epoch {manifest['epoch']}, beyond the {epochs} asked for"
        )
    state = _state_file(folder, manifest)
    tensors = read_tensors(state, manifest["state_sha256"])
    groups: dict[str, Tensors] = {group: {} for group in _GROUPS}
    try:
        rows = tensors.pop("history").tolist()
        for key, tensor in tensors.items():
            group, _, name = key.partition(".")
            groups[group][name] = tensor
    except KeyError:
        raise InputError(f"{state}: does not hold the state of a training") from None
    return Snapshot(
        **groups,
        history=tuple(Epoch(number, *row) for number, row in enumerate(rows, start=1)),
        stopped=manifest["stopped"],
        seconds=manifest["seconds"],
    )


def write_state(folder: Path, identity: Identity, snapshot: Snapshot) -> None:
    """Put a state in the place of the one that a folder holds.

    The tensors lie beside the old ones, and count from the moment in which a new
    manifest takes the place of the old.
    """
    tensors = {
        f"{group}.{name}": tensor
        for group in _GROUPS
        for name, tensor in getattr(snapshot, group).items()
    }
    # As a tensor too, since JSON has no infinite numbers.
    rows = [(e.loss, e.val_score, e.val_loss) for e in snapshot.history]
    tensors["history"] = torch.tensor(rows, dtype=torch.float64)
    content = to_bytes(tensors)
    manifest = {
        "format": FORMAT,
        "identity": identity,
        "epoch": len(rows),
        "stopped": snapshot.stopped,
        "seconds": snapshot.seconds,
        "state_sha256": hashlib.sha256(content).hexdigest(),
    }
    state = _state_file(folder, manifest)
    write_whole(state, content)
    write_whole(folder / MANIFEST, signed(manifest))
    try:
        for file in folder.iterdir():
            # The state before, and what a kill may have left.
            if is_own(file.name) and file.name not in (MANIFEST, state.name):
                file.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from None


def _read_manifest(folder: Path) -> dict[str, Any]:
    file = folder / MANIFEST
    manifest = read_signed(file, "a checkpoint", FORMAT)
    lacking = [
        name
        for name, kind in _FIELDS.items()
        if not isinstance(manifest.get(name), kind)
    ]
    if lacking:
        raise InputError(f"{file}: lacks {', '.join(lacking)}")
    return manifest


def _state_file(folder: Path, manifest: Mapping[str, Any]) -> Path:
    return folder / f"state-{manifest['state_sha256'][:16]}.safetensors"
