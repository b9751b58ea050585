"""PyG's `Data` in files of `torch.save`, of which no code is run."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from h2gcn.exceptions import InputError
from h2gcn.graph import Graph
from h2gcn.io.files import existing_file, one_line
from h2gcn.io.pyg import from_pyg

__all__ = ["read_pt"]

_SAFE_GLOBALS = Lock()


def read_pt(path: str | Path) -> Graph:
    """Read a PyG `Data`, or a dict of tensors, that `torch.save` wrote.

    Nothing but tensors and PyG's own containers is unpickled: a file that asks for
    more is refused, and none of it runs.
    """
    import torch

    file = existing_file(path)
    try:
        with _only_data():
            loaded = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        found = re.search(r"GLOBAL (\S+)", str(error))
        if found is None and not file.read_bytes().startswith(b"PK"):
            raise InputError(f"{file}: this is not a file of torch.save.") from None
        what = f" ({found[1]})" if found else ""
        raise InputError(
            f"{file}: the file holds something other than the tensors of a PyG "
            f"Data{what}; it was not loaded."
        ) from None
    except Exception:  # whatever a damaged pickle makes of torch
        raise InputError(
            f"{file}: this is not a file of torch.save, or it is cut short."
        ) from None
    # The processed files of PyG's datasets: (data, slices, class).
    if isinstance(loaded, tuple) and loaded:
        if len(loaded) > 1 and loaded[1]:
            raise InputError(f"{file}: the file holds several graphs; one is read.")
        loaded = loaded[0]
    try:
        return from_pyg(loaded, name=file.stem)
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    except Exception as error:  # a Data that was put together of odd parts
        raise InputError(
            f"{file}: this is not a sound PyG Data ({one_line(error)})."
        ) from None


@contextmanager
def _only_data() -> Iterator[None]:
    """Let torch unpickle the classes of a `Data` and no others.

    On import PyG allows some forty classes for the whole process, with constructors
    that do more than hold tensors; these are set aside meanwhile.
    """
    from torch.serialization import (
        add_safe_globals,
        clear_safe_globals,
        get_safe_globals,
    )
    from torch_geometric.data.data import Data, DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    with _SAFE_GLOBALS:
        before = get_safe_globals()
        clear_safe_globals()
        add_safe_globals([Data, DataEdgeAttr, DataTensorAttr, GlobalStorage])
        try:
            yield
        finally:
            clear_safe_globals()
            add_safe_globals(before)
