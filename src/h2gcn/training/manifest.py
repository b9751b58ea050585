"""Manifests with a checksum of their own, and tensors with a checksum in a manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from h2gcn import __version__
from h2gcn.exceptions import InputError
from h2gcn.io import conform, parse_json, read_own, shown
from h2gcn.sparse import available_memory

__all__ = [
    "Sha256",
    "digest",
    "plain",
    "read_signed",
    "read_tensors",
    "signed",
    "to_bytes",
]

MAX_MANIFEST_BYTES = 2**30  # a model that spreads labels stores the ids of its nodes
Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]

_T = TypeVar("_T")


def signed(manifest: dict[str, Any]) -> bytes:
    """Return a manifest as JSON, with its own checksum."""
    full = manifest | {"sha256": digest(manifest)}
    return json.dumps(full, indent=1, ensure_ascii=False).encode()


def digest(manifest: dict[str, Any]) -> str:
    """Return the checksum of a manifest, whatever the order of its names."""
    text = json.dumps(manifest, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def read_signed(file: Path, what: str, version: int, schema: type[_T]) -> _T:
    """Read what `signed` returned, and check its format and its checksum.

    `what` is for messages, such as "a saved model".
    """
    # NaN was a score that has no value.
    content = read_own(file, MAX_MANIFEST_BYTES)
    manifest = parse_json(content, file, constants=float)
    if not isinstance(manifest, dict) or "format" not in manifest:
        raise InputError(f"{file}: not the manifest of {what}")
    if manifest["format"] != version:
        raise InputError(
            f"{file}: format {shown(manifest['format'])}; this version of h2gcn "
            f"({__version__}) reads format {version}"
        )
    if manifest.pop("sha256", None) != digest(manifest):
        raise InputError(f"{file}: was changed after it was saved (checksum)")
    return conform(schema, manifest, file)


def to_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Return tensors that share no memory, in the safetensors format."""
    return save({name: t.contiguous().cpu() for name, t in tensors.items()})


def read_tensors(file: Path, sha256: str) -> dict[str, Tensor]:
    """Read tensors, and check their checksum."""
    content = read_own(file, available_memory())
    if hashlib.sha256(content).hexdigest() != sha256:
        raise InputError(f"{file}: truncated, or changed after it was saved (checksum)")
    try:
        return load(content)
    except SafetensorError as error:
        raise InputError(f"{file}: not a safetensors file ({error})") from None


def plain(value: Any) -> Any:
    """Convert numpy's arrays and numbers to what JSON can hold, at any depth."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    return value
