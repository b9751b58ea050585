"""Predictions over workers: each writes its own parts, and a manifest says it is all.

A folder of parts is a Parquet dataset like any other: what is not a part begins with
an underscore, which readers of such folders leave out.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass
from importlib import import_module
from operator import eq
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from h2gcn import __version__
from h2gcn._validation import check_integer
from h2gcn.cluster.connection import Cluster, workers_that_fit
from h2gcn.cluster.graphs import SharedGraph, at_work, graph_bytes, share_graph
from h2gcn.estimator import (
    DecisionRule,
    NodeClassifier,
    translate_labels,
)
from h2gcn.exceptions import InputError
from h2gcn.features import farthest_ring
from h2gcn.graph import Graph, fingerprint, slices
from h2gcn.io import (
    Count,
    atomic_write,
    cannot_read,
    cannot_write,
    check_folder,
    check_not_stdout,
    clear_unfinished,
    decode,
    join_predictions,
    locked,
    read_own,
    usable_path,
    write_prediction_blocks,
)
from h2gcn.models import find_model
from h2gcn.rings import forecast_rings

__all__ = ["Part", "Predicted", "join_parts", "predict_parts"]

MANIFEST = "_manifest.json"
PLAN = "_plan.json"
"""What the parts that are there are of, until the manifest says so."""
FORMAT = 1
LARGEST, SMALLEST, PARTS = 65_536, 1_024, 64
"""Nodes of a part, at most and at least, and parts that there are where both allow."""
TOGETHER = 4_096
"""Nodes that are predicted together where no more is made than they need."""
RING_ENTRY = 20
"""Bytes for an entry of a ring while it is made."""


class Part(msgspec.Struct, frozen=True):
    """A file of predictions.

    Parameters
    ----------
    file
        Its name.
    rows
        How many nodes it has.
    sha256
        Of its content.
    agreed
        How many of them have the label that is said of them.
    """

    file: str
    rows: Count
    sha256: str
    agreed: Count


class _PartsPlan(msgspec.Struct):
    """What parts are of; equal for all that may stand in one folder."""

    format: int
    version: str
    model: str
    model_sha256: str
    graph: str
    graph_sha256: str
    nodes_sha256: str
    rows: Count
    part_size: Count
    decision: str | None


class _PartsManifest(msgspec.Struct):
    """What is in a folder, once all parts are there."""

    plan: _PartsPlan
    columns: list[str]
    order: str
    parts: list[Part]


@dataclass(frozen=True)
class Predicted:
    """What came of a prediction over workers.

    Parameters
    ----------
    folder
        Where the parts are.
    parts
        All of them, in the order of the graph's nodes.
    found
        How many were there from before.
    known
        How many of the nodes have a label that the model knows.
    seconds
        How long it took.
    """

    folder: Path
    parts: tuple[Part, ...]
    found: int
    known: int
    seconds: float

    @property
    def rows(self) -> int:
        """How many nodes are predicted."""
        return sum(part.rows for part in self.parts)

    @property
    def agreed(self) -> int:
        """How many of them have the label that is said of them."""
        return sum(part.agreed for part in self.parts)

    def to_json(self) -> dict[str, Any]:
        """Return all as what JSON can hold."""
        return asdict(self) | {
            "folder": str(self.folder),
            "parts": [msgspec.to_builtins(part) for part in self.parts],
        }


def predict_parts(
    cluster: Cluster,
    classifier: NodeClassifier,
    graph: Graph,
    folder: str | Path,
    nodes: NDArray[np.int64] | None = None,
    *,
    decision: DecisionRule | None = None,
    decision_name: str | None = None,
    part_size: int | None = None,
    source: str | Path | None = None,
    memory_limit: float | None = None,
    on_part: Callable[[int, int], None] | None = None,
) -> Predicted:
    """Predict nodes of a graph over the workers of a cluster, in parts.

    Each worker writes its parts itself, `part-00000.parquet` and so on, with the rows
    of `h2gcn predict`; a manifest comes last. Parts that are in the folder already,
    of the same model, graph and nodes, are not made again.

    Parameters
    ----------
    cluster
        Whose workers.
    classifier
        Fitted.
    graph
        The graph of `fit`, or another.
    folder
        Where the parts go; all machines see it under this name. Made if need be.
    nodes
        Whose labels, ascending; None is all nodes.
    decision
        As of `NodeClassifier.predict`, one that is `by_rows`.
    decision_name
        How the manifest calls it.
    part_size
        Nodes of a part; None is by the number of nodes alone, so that parts are the
        same whatever the cluster.
    source
        As of `share_graph`.
    memory_limit
        Gigabytes that a worker may take; None is what its machine has free.
    on_part
        Called after each part, with how many are done and how many there are.
    """
    start = time.perf_counter()
    if decision is not None and not decision.by_rows:
        raise InputError(
            "the decision compares all nodes with each other, and no worker sees all: "
            "only one that looks at each node by itself can be made over workers."
        )
    if classifier.device_.type != "cpu":  # workers have cores
        classifier = deepcopy(classifier).move("cpu")
    wanted = np.arange(graph.n_nodes) if nodes is None else nodes
    size = _part_size(classifier, len(wanted), part_size)
    alone = _check_memory(cluster, classifier, graph, memory_limit)
    plan = _PartsPlan(
        FORMAT,
        __version__,
        classifier.params_["model"],
        _model_checksum(classifier),
        graph.name,
        fingerprint(graph, directions=True),
        hashlib.sha256(wanted.astype("<i8").tobytes()).hexdigest(),
        len(wanted),
        size,
        decision_name if decision is not None else None,
    )
    target = _make_folder(folder)
    expected = _expected(classifier, graph)[wanted]

    def labels() -> list[str | None]:
        names = [str(label) for label in classifier.classes_.tolist()]
        return [names[index] if index >= 0 else None for index in expected.tolist()]

    cuts = list(slices(len(wanted), size))
    with locked(target):
        found = _begin(target, plan, labels)
        numbers = [number for number in range(len(cuts)) if number not in found]
        done = len(found)
        if on_part is not None:
            on_part(done, len(cuts))
        if numbers:
            shared = share_graph(cluster, graph, source)
            job = _Job(
                shared,
                (cluster.put(classifier),),
                str(target.absolute()),
                plan.model_sha256,
                decision,
                size,
                alone,
            )
            common = cluster.put(job)
            given = (
                (common, number, wanted[cuts[number]], expected[cuts[number]])
                for number in numbers
            )
            for number, part in cluster.each(make_part, given, "part of a prediction"):
                done += 1
                found[numbers[number]] = _checked(target, part)
                if on_part is not None:
                    on_part(done, len(cuts))
        parts = tuple(found[number] for number in sorted(found))
        _finish(target, plan, parts)
    known = int(np.count_nonzero(expected >= 0))
    before = len(parts) - len(numbers)
    return Predicted(target, parts, before, known, time.perf_counter() - start)


def join_parts(predicted: Predicted, path: str | Path, *, force: bool = True) -> None:
    """Write all parts as one file, and remove them.

    Parameters
    ----------
    predicted
        What `predict_parts` returned.
    path
        A file name that ends in `.csv` or `.parquet`.
    force
        Whether a file that is already there is replaced.
    """
    folder = predicted.folder
    parts = [folder / part.file for part in predicted.parts]
    join_predictions(path, parts, force=force)
    try:
        for name in (MANIFEST, *(part.file for part in predicted.parts)):
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()
    except OSError as error:
        raise cannot_write(folder, error) from None


# ------------------------------------------------------------------------ of one worker


@dataclass(frozen=True)
class _Job:
    """What all tasks of a prediction share."""

    graph: SharedGraph
    classifier: tuple[Any, ...]
    folder: str
    key: str
    decision: DecisionRule | None
    size: int
    alone: bool | None

    def model(self) -> NodeClassifier:
        """Return the classifier, as this process has it."""
        if self.key not in _MODELS:
            _MODELS.clear()
            _MODELS[self.key] = import_module("ray").get(self.classifier[0])
        return _MODELS[self.key]


_MODELS: dict[str, NodeClassifier] = {}
"""The one that this process has at hand."""


def make_part(
    job: _Job,
    number: int,
    nodes: NDArray[np.int64],
    expected: NDArray[np.int64],
) -> Part:
    """Predict some nodes and write them: the task of a worker.

    Parameters
    ----------
    job
        What all tasks share.
    number
        Of the part.
    nodes
        Whose labels, [m].
    expected
        The classes that they have, -1 where that is not known, [m].
    """
    with at_work():
        graph, classifier = job.graph.open(), job.model()
        file = Path(job.folder) / f"part-{number:05d}.parquet"
        agreed = 0

        def blocks() -> Iterator[
            tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]
        ]:
            nonlocal agreed
            together = min(job.size, TOGETHER) if job.alone else job.size
            told, done = job.decision, 0
            for some, logits in classifier.predict_blocks(
                graph, nodes, block_size=together, alone=job.alone
            ):
                shares = classifier.probabilities_of(logits)
                said = logits.argmax(axis=1) if told is None else told(shares)
                agreed += int((said == expected[done : done + len(some)]).sum())
                done += len(some)
                yield some, said, shares

        write_prediction_blocks(
            file,
            graph.node_ids,
            classifier.classes_,
            blocks(),
            id_column=graph.record.id_column,
        )
        return Part(file.name, len(nodes), _file_checksum(file), agreed)


# --------------------------------------------------------------------- before and after


def _part_size(classifier: NodeClassifier, count: int, asked: int | None) -> int:
    """Return how many nodes a part has."""
    if asked is not None:
        return check_integer("part_size", asked, 1)
    fitted = [one.classifier for one in classifier.members_] or [classifier]
    if any(one.module_.receptive_field is None for one in fitted):
        return max(count, 1)  # each part would take as long as all of them
    return max(SMALLEST, min(LARGEST, -(-count // PARTS)))


def _expected(classifier: NodeClassifier, graph: Graph) -> NDArray[np.int64]:
    """Return the model's class of each node that has a label, else -1, [n]."""
    expected = np.full(graph.n_nodes, -1)
    labelled = graph.labelled
    expected[labelled], _ = translate_labels(graph, labelled, classifier.classes_)
    return expected


def _check_memory(
    cluster: Cluster, classifier: NodeClassifier, graph: Graph, limit: float | None
) -> bool | None:
    """Return how workers are to predict, or raise where they have not the memory.

    Where a worker can hold what all nodes need, it makes what takes less time (None);
    else no more than the nodes of a block need (True).
    """
    shared = graph_bytes(graph)
    whole, some = _needs(classifier, graph)
    what = f"predicting {graph.name} by {classifier.params_['model']}"
    try:
        workers_that_fit(cluster.machines, what, shared, whole, limit)
    except InputError:
        if not classifier.can_predict_alone(graph):
            raise
        workers_that_fit(cluster.machines, what, shared, some, limit)
        return True
    return None


def _needs(classifier: NodeClassifier, graph: Graph) -> tuple[int, int]:
    """Return about what a worker takes to hold all nodes' rows, and some's alone."""
    fitted = [one.classifier for one in classifier.members_] or [classifier]
    n, degree = graph.n_nodes, graph.adj.nnz / max(graph.n_nodes, 1)
    whole = some = 0
    for one in fitted:
        spec, schema = find_model(one.params_["model"]), one.schema_
        width = graph.n_features if schema is None else 0
        for block, columns in zip(
            *(((), ()) if schema is None else (schema.blocks, schema.widths)),
            strict=True,
        ):
            width += int(degree) + 1 if block.startswith("adjacency") else columns
        hops = 1 if schema is None else farthest_ring(schema.blocks)
        hops = max([hops, *(rule.hop for rule in spec.rules or ())])
        entries = graph.adj.nnz
        if hops > 1:
            cap = one.params_["ring_cap"]
            most = n * (cap if isinstance(cap, int) else n)
            far = forecast_rings(graph.adj, hops=hops).entries[1:]
            entries += sum(min(size, most) for size in far)
        near = min(n, int(TOGETHER * (1 + entries / max(n, 1))))
        whole += 8 * n * width + RING_ENTRY * entries
        some += 8 * near * (width + graph.n_features) + RING_ENTRY * int(
            entries * near / max(n, 1)
        )
    return whole, some


def _model_checksum(classifier: NodeClassifier) -> str:
    """Return the SHA-256 of a classifier as it would be saved."""
    digest = hashlib.sha256()
    with TemporaryDirectory() as scratch:
        saved = Path(scratch) / "model"
        classifier.save(saved)
        for file in sorted(path for path in saved.rglob("*") if path.is_file()):
            digest.update(f"{file.relative_to(saved)}\n".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _file_checksum(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _make_folder(folder: str | Path) -> Path:
    check_not_stdout(folder, "parts need a folder")
    target = usable_path(folder)
    check_folder(target, "a prediction", _is_own)
    try:
        target.mkdir(exist_ok=True)
    except OSError as error:
        raise cannot_write(target, error) from None
    return target


def _is_own(name: str) -> bool:
    part = name.startswith("part-") and name.endswith(".parquet")
    return part or name in (MANIFEST, PLAN) or name.startswith(".")


def _begin(
    folder: Path, plan: _PartsPlan, labels: Callable[[], list[str | None]]
) -> dict[int, Part]:
    """Return the parts that are there by their numbers, or say that they are others.

    Parameters
    ----------
    folder, plan
        Where, and of what.
    labels
        Gives the labels of the nodes that are predicted, None where they have none.
    """
    count = -(-plan.rows // plan.part_size)
    for name in (MANIFEST, PLAN, *(f"part-{n:05d}.parquet" for n in range(count))):
        clear_unfinished(folder / name)
    before = _read_plan(folder)
    if before is None:
        if any(folder.glob("part-*.parquet")):
            raise InputError(
                f"{folder}: holds parts, and nothing says what they are of; another "
                "folder keeps them"
            )
        _write(folder / PLAN, plan)
        return {}
    told, now = msgspec.to_builtins(before), msgspec.to_builtins(plan)
    for name, value in now.items():
        if told[name] != value:
            what = name.removesuffix("_sha256").replace("_", " ")
            raise InputError(
                f"{folder}: holds parts of another prediction (its {what} is another "
                "one); another folder keeps them"
            )
    _write(folder / PLAN, plan)
    (folder / MANIFEST).unlink(missing_ok=True)
    return dict(_parts_there(folder, plan, labels()))


def _read_plan(folder: Path) -> _PartsPlan | None:
    if (folder / MANIFEST).exists():
        return decode(
            _PartsManifest, read_own(folder / MANIFEST), folder / MANIFEST
        ).plan
    if (folder / PLAN).exists():
        return decode(_PartsPlan, read_own(folder / PLAN), folder / PLAN)
    return None


def _parts_there(
    folder: Path, plan: _PartsPlan, labels: list[str | None]
) -> Iterator[tuple[int, Part]]:
    """Yield what was finished before, by its number; what is damaged is left out.

    Parameters
    ----------
    folder, plan
        Where, and of what.
    labels
        Of the nodes that are predicted, None where they have none, [m].
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    for number, part in enumerate(slices(plan.rows, plan.part_size)):
        file = folder / f"part-{number:05d}.parquet"
        try:
            said = pq.ParquetFile(file).read(["label"]).column(0).to_pylist()
        except (OSError, pa.ArrowException):  # not there, or not whole
            continue
        if len(said) == part.stop - part.start:
            agreed = sum(map(eq, map(str, said), labels[part]))
            yield number, Part(file.name, len(said), _file_checksum(file), agreed)


def _checked(folder: Path, part: Part) -> Part:
    """Return a part that a worker has written, if it is here too."""
    file = folder / part.file
    try:
        same = _file_checksum(file) == part.sha256
    except FileNotFoundError:
        same = False
    except OSError as error:
        raise cannot_read(file, error) from None
    if not same:
        raise InputError(
            f"{file}: a worker wrote it, and it is not here; all machines need to see "
            "the same folder under this name"
        )
    return part


def _finish(folder: Path, plan: _PartsPlan, parts: tuple[Part, ...]) -> None:
    """Say in a manifest that all parts are there."""
    columns: list[str] = []
    if parts:
        import pyarrow.parquet as pq

        columns = list(pq.read_schema(folder / parts[0].file).names)
    order = "nodes as in the graph, part after part"
    _write(folder / MANIFEST, _PartsManifest(plan, columns, order, list(parts)))
    (folder / PLAN).unlink(missing_ok=True)


def _write(file: Path, content: msgspec.Struct) -> None:
    told: Mapping[str, Any] = msgspec.to_builtins(content)
    with atomic_write(file) as beside:
        text = json.dumps(told, indent=1, ensure_ascii=False)
        beside.write_text(text + "\n", encoding="utf-8")
