"""Saved models: a folder of safetensors and JSON, nothing that can run."""

from __future__ import annotations

import hashlib
import math
import os
import shutil
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from h2gcn import __version__
from h2gcn._validation import nearest
from h2gcn.auto import Leaderboard
from h2gcn.estimator.inputs import KnownLabels, KnownLabelsJson, Scaler, Seen
from h2gcn.estimator.outputs import Calibration
from h2gcn.estimator.parameters import SCALINGS
from h2gcn.exceptions import InputError
from h2gcn.features import TableSchema
from h2gcn.io import (
    Count,
    TableOptions,
    cannot_read,
    check_can_make,
    check_folder,
    conform,
    parse_json,
    read_own,
    recover_folder,
    replaced_folder,
    resolved,
)
from h2gcn.training import (
    OF_THE_MACHINE,
    NodeModule,
    Sha256,
    plain,
    read_signed,
    read_tensors,
    signed,
    tensor_problem,
    to_bytes,
)

__all__ = [
    "SavedMember",
    "SavedModel",
    "check_target",
    "holds_model",
    "is_taken",
    "load_weights",
    "member_folder",
    "read_manifest",
    "read_model",
    "write_model",
]

FORMAT = 1
MANIFEST, WEIGHTS, MEMBERS = "bundle.json", "weights.safetensors", "members"
NOT_SAVED = (*OF_THE_MACHINE, "batch_size")
"""Parameters that are up to the machine that predicts: no model says them."""

Positive = Annotated[float, msgspec.Meta(ge=1e-6, le=1e6)]
"""A temperature, or a weight."""
Offset = Annotated[float, msgspec.Meta(ge=-1e30, le=1e30)]
"""What is added to a logit."""


class CalibrationJson(msgspec.Struct):
    """The schema of how logits become probabilities."""

    temperature: Positive
    offsets: list[Offset]


class MemberJson(msgspec.Struct):
    """The schema of a member of "auto": where it is, and its part in the answer."""

    name: str
    weight: Positive
    temperature: Positive
    folder: Annotated[str, msgspec.Meta(pattern=r"^[0-9]+-[a-z0-9-]+\Z")]
    manifest_sha256: Sha256


class ModelJson(msgspec.Struct):
    """The schema of the manifest of a saved model; old ones have fewer fields."""

    params: dict[str, Any]
    classes: Annotated[list[str | int | float | bool], msgspec.Meta(min_length=1)]
    features: list[str]
    scaling: str
    best_epoch: Count
    val_score: float | None
    seed: Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
    extra: dict[str, Any]
    weights_sha256: Sha256
    seeds: KnownLabelsJson | None = None
    table: dict[str, Any] | None = None
    seen: str | None = None
    calibration: CalibrationJson | None = None
    members: list[MemberJson] = []
    leaderboard: Leaderboard | None = None
    offsets: list[Offset] = []

    def __post_init__(self) -> None:
        if len(set(map(str, self.classes))) < len(self.classes):
            raise ValueError("classes has a class twice")
        if self.seeds is not None and self.seeds.n_classes != len(self.classes):
            raise ValueError("seeds is not of these classes")
        for offsets in (self.offsets, self.calibration and self.calibration.offsets):
            if offsets and len(offsets) != len(self.classes):
                raise ValueError("offsets has not a number for each class")


@dataclass(frozen=True, eq=False)
class SavedModel:
    """All that is saved of a fitted classifier.

    Parameters
    ----------
    params
        Its parameters by name; those of a machine are not saved.
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
    schema: TableSchema | None
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


def write_model(path: Path, saved: SavedModel, *, force: bool = True) -> None:
    """Write a model to a folder.

    It is written beside and then renamed, so that a folder of this name is always
    whole. One that is already there is replaced only if it is a saved model, and only
    by `force`.
    """
    with resolved(path) as target:
        check_target(target)
        check = partial(check_target, target)
        with replaced_folder(target, _remove, check, force=force) as beside:
            for name, content in _files(saved).items():
                (beside / name).parent.mkdir(parents=True, exist_ok=True)
                (beside / name).write_bytes(content)


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
        "params": plain({n: v for n, v in saved.params.items() if n not in NOT_SAVED}),
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


def _recover(path: Path) -> None:
    """Give a model its name again, if a program was killed while it replaced it."""
    recover_folder(path, _remove)


def _remove(folder: Path) -> None:
    """Remove a folder that holds nothing but a model, or a part of one."""
    if {file.name for file in folder.iterdir()} <= {MANIFEST, WEIGHTS, MEMBERS}:
        shutil.rmtree(folder, ignore_errors=True)


def check_target(path: Path) -> None:
    """Refuse a folder that a model cannot be written to, before the work is done."""
    _recover(path)
    _check_files(path)
    check_can_make(path)


def is_taken(path: Path) -> bool:
    """Return whether something else than a model has a name."""
    try:
        _check_files(path)
    except InputError:
        return os.path.lexists(path)
    return False


def _check_files(path: Path) -> None:
    own = {MANIFEST, WEIGHTS, MEMBERS} if holds_model(path) else set()
    check_folder(path, "a model", own.__contains__)


def holds_model(path: Path) -> bool:
    """Return whether a folder is one that `save_bundle` wrote, damaged or not."""
    file = path / MANIFEST
    try:
        found = parse_json(read_own(file), file, constants=float)
    except InputError:
        return False
    return isinstance(found, dict) and found.keys() >= {
        *("params", "classes", "features", "scaling", "weights_sha256"),
        *("best_epoch", "val_score", "seed", "extra"),
    }


def read_manifest(path: Path) -> ModelJson:
    """Read and check the manifest of a saved model."""
    file = path / MANIFEST
    if not path.exists():
        _recover(path)
    if not file.exists():
        raise _not_a_model(path)
    found = read_signed(file, "a saved model", FORMAT, ModelJson)
    tables = found.extra.get("tables", {})
    conform(TableOptions, tables, file, "extra.tables")
    try:
        TableOptions.from_json(tables)
    except InputError as error:
        raise error.at("extra.tables").at(str(file)) from None
    return found


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
    return InputError(why, where=str(path))


def read_model(path: Path, *, alone: bool = True) -> SavedModel:
    """Read a model that `write_model` wrote, and check it.

    Parameters
    ----------
    path
        Its folder.
    alone
        Whether it is no member of another, and may have members.
    """
    manifest, file = read_manifest(path), path / WEIGHTS
    n_features, n_classes = len(manifest.features), len(manifest.classes)
    tensors = _Tensors(file, read_tensors(file, manifest.weights_sha256))
    if not alone and manifest.members:
        raise InputError("a member has members of its own", where=str(path / MANIFEST))
    return SavedModel(
        params={n: v for n, v in manifest.params.items() if n not in NOT_SAVED},
        classes=np.asarray(manifest.classes),
        features=tuple(manifest.features),
        scaler=tensors.scaler(manifest.scaling, n_features),
        weights=tensors.under("module"),
        known_labels=None if manifest.seeds is None else manifest.seeds.labels(),
        schema=_schema(manifest, path),
        seen=tensors.seen(manifest.seen),
        calibration=tensors.calibration(manifest.calibration, n_classes),
        best_epoch=manifest.best_epoch,
        val_score=math.nan if manifest.val_score is None else manifest.val_score,
        seed=manifest.seed,
        extra=manifest.extra,
        members=tuple(_read_member(path, manifest, one) for one in manifest.members),
        leaderboard=manifest.leaderboard,
        offsets=tuple(manifest.offsets),
    )


class _Tensors:
    """The tensors of a file, each checked as it is taken.

    Parameters
    ----------
    file
        Where they are from, for messages.
    found
        By name.
    """

    def __init__(self, file: Path, found: dict[str, torch.Tensor]) -> None:
        self._file, self._found = file, found
        for name in found:
            if name.partition(".")[0] not in ("module", "scaler", "seen", "held_out"):
                raise InputError(
                    f"{name} is none of a model's tensors", where=str(file)
                )

    def under(self, group: str) -> dict[str, torch.Tensor]:
        """Return the tensors of a group by name."""
        return {
            name.removeprefix(f"{group}."): tensor
            for name, tensor in self._found.items()
            if name.startswith(f"{group}.")
        }

    def scaler(self, kind: str, n_features: int) -> Scaler:
        """Return the scaling of features."""
        if kind not in SCALINGS or kind == "auto":
            raise InputError(
                f"no scaling is {kind!r}", where=str(self._file.parent / MANIFEST)
            )
        given = self.under("scaler")
        if kind != "standard" and not given:
            return Scaler(kind)
        mean, deviation = (
            self._array(f"scaler.{name}", torch.float32, n_features)
            for name in ("mean", "deviation")
        )
        if (deviation <= 0).any():
            raise InputError(
                "scaler.deviation has numbers that are not above 0",
                where=str(self._file),
            )
        return Scaler(kind, mean, deviation)

    def seen(self, graph: str | None) -> Seen | None:
        """Return which nodes training saw; older models were saved without."""
        if graph is None:
            return None
        rows, test = (self._nodes(f"seen.{name}") for name in ("rows", "test"))
        ids = None
        if "seen.ids" in self._found:
            ids = self._array("seen.ids", torch.int64, len(rows))
        return Seen(graph, rows, test, ids)

    def calibration(
        self, numbers: CalibrationJson | None, n_classes: int
    ) -> Calibration | None:
        """Return how logits become probabilities; older models were saved without."""
        if numbers is None:
            return None
        nodes = self._nodes("held_out.nodes")
        shares = self._array(
            "held_out.probabilities", torch.float32, len(nodes), n_classes
        )
        y = self._nodes("held_out.y", len(nodes), below=n_classes)
        if ((shares < 0) | (shares > 1 + 1e-5)).any():
            raise InputError(
                "held_out.probabilities has numbers that are none",
                where=str(self._file),
            )
        offsets = np.array(numbers.offsets, dtype=np.float64)
        return Calibration(numbers.temperature, offsets, nodes, shares, y)

    def _nodes(
        self, name: str, count: int | None = None, below: int = 2**40
    ) -> NDArray[np.int64]:
        """Return numbers of nodes, or of their classes, [m]."""
        found = self._array(name, torch.int64, count)
        if ((found < 0) | (found >= below)).any():
            raise InputError(f"{name} has numbers out of range", where=str(self._file))
        return found

    def _array(self, name: str, kind: torch.dtype, *shape: int | None) -> NDArray[Any]:
        """Return a tensor of a type and a shape, of which None is any length."""
        found = {n: t for n, t in self._found.items() if n == name}
        lengths = [*found[name].shape] if name in found else [0] * len(shape)
        wanted = [
            have if size is None else size
            for have, size in zip_longest(lengths[: len(shape)], shape)
        ]
        like = torch.empty([size or 0 for size in wanted], dtype=kind, device="meta")
        if problem := tensor_problem(found, {name: like}):
            raise InputError(f"{problem}", where=str(self._file))
        return found[name].numpy()


def _read_member(path: Path, whole: ModelJson, entry: MemberJson) -> SavedMember:
    """Read a member of "auto", and check that it is the one that was saved."""
    inside = path / MEMBERS / entry.folder
    content = read_own(inside / MANIFEST)
    if hashlib.sha256(content).hexdigest() != entry.manifest_sha256:
        raise InputError(
            "is not the member that was saved", where=str(inside / MANIFEST)
        )
    model = read_model(inside, alone=False)
    same = (whole.classes, whole.features)
    if (model.classes.tolist(), list(model.features)) != same:
        raise InputError("has other classes or features", where=str(inside / MANIFEST))
    return SavedMember(entry.name, entry.weight, entry.temperature, model)


def _schema(manifest: ModelJson, path: Path) -> TableSchema | None:
    """Return the table of a saved model that has one."""
    if manifest.table is None:
        return None
    features, classes = tuple(manifest.features), tuple(map(str, manifest.classes))
    try:
        return TableSchema.from_json(manifest.table, features, classes)
    except InputError as error:
        raise error.at(str(path / MANIFEST)) from None


def load_weights(module: NodeModule, saved: SavedModel, path: Path) -> None:
    """Give a module the weights that were read from a folder, if they are its own."""
    problem = tensor_problem(saved.weights, module.state_dict())
    try:
        if problem is None:
            module.load_state_dict(saved.weights, assign=True)
    except InputError as error:  # the module refuses its extra state
        problem = str(error)
    if problem is not None:
        raise InputError(
            f"does not hold the weights of {type(module).__name__}: module.{problem}",
            where=str(path / WEIGHTS),
        )
