"""PyG's `Data` from and to a `Graph`, and from files of `torch.save`."""

from __future__ import annotations

import pickle
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from h2gcn._validation import import_extra
from h2gcn.exceptions import InputError
from h2gcn.graph import CSR, EdgeColumns, Graph, Split, check_split_count
from h2gcn.io.files import existing_file
from h2gcn.io.graph_parts import (
    adjacency_from_edges,
    carried_note,
    check_features_room,
    encode_labels,
    fit_layout,
)
from h2gcn.io.mistakes import check_parts, excerpt, one_line
from h2gcn.sparse import available_memory, format_bytes

if TYPE_CHECKING:
    from torch_geometric.data import Data

__all__ = ["from_pyg", "read_pt", "to_pyg"]

_MASKS = ("train_mask", "val_mask", "test_mask")
_SAFE_GLOBALS = Lock()
"""Whoever holds it may change what torch unpickles."""
LARGE = 2**28
"""Bytes from which a tensor must be in its file, and not be repeated out of less."""


def from_pyg(data: Data | Mapping[str, Any], name: str = "graph") -> Graph:
    """Return the graph of a PyG `Data`, or of a dict with the same keys.

    Parameters
    ----------
    data
        `x` [n, F], dense or sparse; `edge_index` [2, m]; optionally `y` [n] (NaN or
        -1: unlabelled), the three masks, [n] or [n, n_splits], as splits, and what
        edges carry: `edge_attr` [m, k], as the columns 0, 1, …, and `edge_weight` [m].
    name
        Name of the graph.
    """
    stored = _Fields(data)
    x, ends = stored.x(), stored.array("edge_index")
    if ends is None:
        raise InputError("The PyG data must have an 'edge_index'. It has none.")
    if ends.ndim != 2 or ends.shape[0] != 2:
        raise InputError(f"must be [2, m], got shape {ends.shape}", param="edge_index")
    try:
        adj, one_way, record = adjacency_from_edges(ends[0], ends[1], x.shape[0])
    except InputError as error:
        raise InputError(f"'edge_index': {error}") from None
    edge_columns, notes = stored.edge_columns(ends)
    y = stored.array("y")
    if y is not None and y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y is not None and y.ndim == 1 and len(y) != x.shape[0]:
        raise InputError(f"must have {x.shape[0]} entries", param="y", value=len(y))
    labels, classes = (None, None) if y is None else encode_labels(y)
    return Graph(
        x=x,
        adj=adj,
        directed=one_way,
        y=labels,  # type: ignore[arg-type]
        classes=classes,  # type: ignore[arg-type]
        splits=tuple(stored.splits(x.shape[0])),
        name=name,
        record=replace(record, notes=notes),
        edge_columns=edge_columns,
    )


def to_pyg(graph: Graph) -> Data:
    """Return a graph as a PyG `Data`; the same as `graph.to_pyg()`."""
    return graph.to_pyg()


class _Fields:
    """The entries of a `Data` or a dict as numpy arrays."""

    def __init__(self, data: Any) -> None:
        try:
            stored = data if isinstance(data, Mapping) else data.to_dict()
            self.stored: dict[str, Any] = dict(stored)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise InputError("A PyG Data is needed", value=type(data)) from None

    def array(self, key: str) -> NDArray[Any] | None:
        """Return an entry, or None where there is none."""
        value = self.stored.get(key)
        if value is None:
            return None
        if not hasattr(value, "detach"):
            return np.asarray(value)
        array: NDArray[Any] = value.detach().cpu().numpy()
        return array

    def x(self) -> Any:
        """Return the features, [n, F], dense or CSR."""
        value: Any = self.stored.get("x")
        if value is None:
            raise InputError("The PyG data must have features, 'x'. It has none.")
        layout = str(getattr(value, "layout", "torch.strided"))
        if layout != "torch.strided" and value.ndim == 2:
            check_features_room(tuple(value.shape), value._nnz())
        if hasattr(value, "to_scipy"):
            value = CSR(value.to_scipy(layout="csr"))
        elif layout != "torch.strided":
            coo = value.detach().cpu().to_sparse_coo().coalesce()
            ends = tuple(coo.indices().numpy())
            value = CSR((coo.values().numpy(), ends), shape=tuple(coo.shape))
        else:
            dense = np.asarray(self.array("x"))
            value = dense[:, None] if dense.ndim == 1 else dense
        if value.ndim != 2:
            raise InputError(
                f"must be [n, F], got shape {tuple(value.shape)}", param="x"
            )
        return fit_layout(value)

    def edge_columns(
        self, ends: NDArray[Any]
    ) -> tuple[EdgeColumns | None, tuple[str, ...]]:
        """Return what the edges carry, [2, m], if anything, and notes on the rest."""
        blocks, names, notes = [], [], []
        for key in ("edge_attr", "edge_weight"):
            try:
                value = self.array(key)
                why = None if value is None else _unusable(value, ends.shape[1])
            except (RuntimeError, TypeError, ValueError) as error:
                # Of kinds of tensors that numpy does not have.
                value, why = None, one_line(error)
            if why is not None:
                notes.append(f"{key!r} is left out: {why}")
            if value is None or why is not None:
                continue
            block = value[:, None] if value.ndim == 1 else value
            blocks.append(block.astype(np.float32))
            numbered = [str(number) for number in range(block.shape[1])]
            names += numbered if key == "edge_attr" else [key]
        if not blocks:
            return None, tuple(notes)
        joined = ends[0] != ends[1]
        values = np.hstack(blocks)[joined]
        source, target = ends[:, joined]
        notes += carried_note([repr(name) for name in names])
        return EdgeColumns(source, target, values, tuple(names)), tuple(notes)

    def splits(self, n: int) -> Iterator[Split]:
        """Yield the splits; three masks or none."""
        masks = [self.array(key) for key in _MASKS]
        if all(mask is None for mask in masks):
            return
        check_parts(dict(zip(_MASKS, masks, strict=True)))
        arrays = [np.asarray(mask) for mask in masks]
        arrays = [a[:, None] if a.ndim < 2 else a for a in map(np.atleast_1d, arrays)]
        number = max(array.shape[-1] for array in arrays)
        check_split_count(number)
        arrays = [array.astype(bool) for array in arrays]
        try:
            # Some datasets have many training masks, and one of the test nodes.
            arrays = [np.broadcast_to(array, (n, number)) for array in arrays]
        except ValueError:
            shapes = ", ".join(str(array.shape) for array in arrays)
            raise InputError(f"The masks must be [{n}, splits], got {shapes}") from None
        for i in range(number):
            train, val, test = (array[:, i] for array in arrays)
            yield Split(train=train, val=val, test=test)


def _unusable(value: NDArray[Any], n_edges: int) -> str | None:
    """Return why an array cannot be what edges carry, [m] or [m, k], if it cannot."""
    if value.dtype.kind not in "biuf":
        return f"it holds {value.dtype}, not numbers"
    if value.ndim not in (1, 2) or len(value) != n_edges:
        return f"its shape is {value.shape}, and there are {n_edges} edges"
    if 8 * value.size > available_memory():
        return f"its shape is {value.shape}, which takes {format_bytes(8 * value.size)}"
    with np.errstate(over="ignore"):
        if not np.isfinite(value.astype(np.float32)).all():
            return "it holds numbers that are not finite, in 32 bits"
    return None


def read_pt(path: str | Path) -> Graph:
    """Read a PyG `Data`, or a dict of tensors, that `torch.save` wrote.

    Nothing but tensors and PyG's own containers is unpickled: a file that asks for
    more is refused, and none of it runs. A dict of tensors is read without PyG.
    """
    import torch

    file = existing_file(path)
    mapped = _check_archive(file)
    classes, without_pyg = [], ""
    try:
        classes = _data_classes()
    except InputError as error:
        without_pyg = str(error)
    try:
        # Mapped, a tensor cannot reach beyond the file, whatever the pickle says; and
        # sparse ones whose indices lead outside would be written out of bounds.
        with _only(classes), torch.sparse.check_sparse_tensor_invariants():
            loaded = torch.load(
                file, map_location="cpu", weights_only=True, mmap=mapped
            )
    except pickle.UnpicklingError as error:
        found = re.search(r"GLOBAL (\S+)", str(error))
        if found is None and not file.read_bytes().startswith(b"PK"):
            raise InputError(
                "this is not a file of torch.save.", where=str(file)
            ) from None
        if without_pyg and found and found[1].startswith("torch_geometric."):
            raise InputError(without_pyg, where=str(file)) from None
        what = f" ({found[1]})" if found else ""
        raise InputError(
            f"the file holds something other than the tensors of a PyG "
            f"Data{what}; it was not loaded.",
            where=str(file),
        ) from None
    except Exception:  # whatever a damaged pickle makes of torch
        raise InputError(
            "this is not a file of torch.save, or it is cut short.", where=str(file)
        ) from None
    # The processed files of PyG's datasets: (data, slices, class).
    if isinstance(loaded, tuple) and loaded:
        if len(loaded) > 1 and loaded[1]:
            raise InputError(
                "the file holds several graphs; one is read.", where=str(file)
            )
        loaded = loaded[0]
    try:
        _check_storage(loaded)
        return from_pyg(loaded, name=file.stem)
    except InputError as error:
        raise error.at(str(file)) from None
    except Exception as error:  # a Data that was put together of odd parts
        raise InputError(
            f"this is not a sound PyG Data ({one_line(error)}).", where=str(file)
        ) from None


def _check_archive(file: Path) -> bool:
    """Tell whether a file is an archive; raise where one is not as torch writes it.

    torch compresses nothing, so what is compressed may become any size. Nor do its
    tensors need a bytearray, which a pickle can make of any length.
    """
    try:
        if not zipfile.is_zipfile(file):
            return False
        with zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                if member.compress_type != zipfile.ZIP_STORED:
                    raise InputError(
                        f"{excerpt(member.filename)} is compressed, and "
                        "torch.save compresses nothing; it was not loaded.",
                        where=str(file),
                    )
                is_pickle = member.filename.endswith("data.pkl")
                if is_pickle and b"bytearray" in archive.read(member):
                    raise InputError(
                        "the file holds something other than the tensors "
                        "of a PyG Data (bytearray); it was not loaded.",
                        where=str(file),
                    )
    except InputError:
        raise
    except (EOFError, OSError, RuntimeError, ValueError, zipfile.BadZipFile):
        raise InputError(
            "this is not a file of torch.save, or it is cut short.", where=str(file)
        ) from None
    return True


def _check_storage(loaded: Any) -> None:
    """Raise where a large tensor is a small one repeated."""
    for key, value in _Fields(loaded).stored.items():
        if str(getattr(value, "layout", "")) != "torch.strided":
            continue
        size, there = value.numel() * value.element_size(), 0
        if size > LARGE:
            there = value.untyped_storage().nbytes()
        if size > max(LARGE, there):
            raise InputError(
                f"'{key}' has shape {tuple(value.shape)} and would take "
                f"{format_bytes(size)} of memory, but the file has "
                f"{format_bytes(there)} of it."
            )


def _data_classes() -> list[type]:
    """Return the classes that a `Data` is made of."""
    import_extra("torch_geometric", "to read a PyG Data")
    from torch_geometric.data.data import Data, DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    return [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]


@contextmanager
def _only(classes: list[type]) -> Iterator[None]:
    """Let torch unpickle some classes and no others.

    On import PyG allows some forty classes for the whole process, with constructors
    that do more than hold tensors; these are set aside meanwhile.
    """
    from torch.serialization import (
        add_safe_globals,
        clear_safe_globals,
        get_safe_globals,
    )

    with _SAFE_GLOBALS:
        before = get_safe_globals()
        clear_safe_globals()
        add_safe_globals([*classes])
        try:
            yield
        finally:
            clear_safe_globals()
            add_safe_globals(before)
