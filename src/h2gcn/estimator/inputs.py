"""What a model is given of a graph: its features in order, scaled, or known labels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from h2gcn.estimator.known_labels import KnownLabels
from h2gcn.estimator.scaling import Scaler
from h2gcn.estimator.tables import scaling_key, table_maker
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import CSR, Features, Graph
from h2gcn.ring_table import Input, Schema
from h2gcn.sparse import MappedFeatures, to_tensor

__all__ = ["align_features", "build_input", "match_labels", "translate_labels"]


def build_input(
    graph: Graph,
    known: KnownLabels | None,
    scaler: Scaler,
    names: tuple[str, ...],
    device: torch.device,
    schema: Schema | None = None,
    *,
    maskable: bool = False,
) -> Input:
    """Return what a module takes as `x`: scaled features, labels, or a table of both.

    Parameters
    ----------
    graph
        The graph of training, or another one.
    known
        The labels of a model that takes them, else None.
    scaler
        Fitted on the training nodes.
    names
        The features of the training graph.
    device
        Where the module is.
    schema
        Of the table of a model that takes one.
    maskable
        Whether labels in the table are masked in training.
    """
    if schema is not None:
        seen = torch.zeros(graph.n_nodes, len(schema.classes), device=device)
        if known is not None:
            seen = known.one_hot(graph, device, must=False)
        return table_maker(graph).build(
            schema,
            scaler(align_features(graph, names)),
            scaling_key(scaler, names),
            seen,
            maskable=maskable,
        )
    if known is not None:
        return known.one_hot(graph, device)
    x = align_features(graph, names)
    if isinstance(x, np.memmap):
        return MappedFeatures(x, scaler, device)
    return to_tensor(scaler(x), device)


def align_features(graph: Graph, names: tuple[str, ...]) -> Features:
    """Return the graph's features in the order of `names`, [n, len(names)].

    A value of a categorical column (its feature is called `column=value`) that
    only one of the graphs has is not a difference of schema: it is filled with
    zeros or left out, and a warning says so. So are columns that the model does not
    know left out; one that it lacks is an error.

    Parameters
    ----------
    graph
        The graph to predict on.
    names
        The features of the training graph.
    """
    if graph.feature_names == names:
        return graph.x
    place = {name: column for column, name in enumerate(graph.feature_names)}
    missing = [name for name in names if name not in place]
    wanted = set(names)
    new = [name for name in graph.feature_names if name not in wanted]
    columns = {name.split("=")[0] for name in graph.feature_names if "=" in name}
    known = {name.split("=")[0] for name in names if "=" in name}
    lost = [
        name for name in missing if "=" not in name or name.split("=")[0] not in columns
    ]
    added = [name for name in new if name.split("=")[0] not in known]
    # Columns that are only numbered are told apart by their number alone.
    if lost or (added and names == tuple(map(str, range(len(names))))):
        said = [f"{len(lost)} missing ({_list(lost)})"] if lost else []
        said += [f"{len(added)} new ({_list(added)})"] if added else []
        raise InputError(
            f"{graph.name} has {graph.n_features} feature columns, the model was "
            f"trained on {len(names)}: {', '.join(said)}"
        )
    if added:
        warnings.warn(
            f"columns that the model was not trained on are left out: {_list(added)}",
            H2GCNWarning,
            stacklevel=3,
        )
    categories = missing + [name for name in new if name not in added]
    if categories:
        warnings.warn(
            "categories that only one of the two graphs has: "
            f"{_list(categories)}; absent ones count as zero, new ones are left out",
            H2GCNWarning,
            stacklevel=3,
        )
    x = CSR(graph.x)
    empty = CSR((graph.n_nodes, 1), dtype=np.float32)
    widened = sp.hstack([x, empty], format="csr")
    picked = CSR(widened[:, [place.get(name, graph.n_features) for name in names]])
    return picked.toarray() if isinstance(graph.x, np.ndarray) else picked


def translate_labels(
    graph: Graph, nodes: NDArray[np.int64], classes: NDArray[Any]
) -> tuple[NDArray[np.int64], list[str]]:
    """Return the model's class index of each of some labelled nodes, and other labels.

    Returns
    -------
    index
        -1 where the model never saw the label, [m].
    unseen
        Those labels.
    """
    place = {str(label): index for index, label in enumerate(classes)}
    found = [place.get(str(label), -1) for label in graph.classes]
    translate, own = np.array(found, dtype=np.int64), graph.y[nodes]
    used = np.unique(own)
    unseen = graph.classes[used[translate[used] < 0]]
    return translate[own], [str(label) for label in unseen]


def match_labels(
    graph: Graph, nodes: NDArray[np.int64], classes: NDArray[Any]
) -> NDArray[np.int64]:
    """Return the model's class index of each of `nodes`, [m]."""
    own = graph.y[nodes]
    if (own < 0).any():
        first = np.arange(graph.n_nodes)[nodes][own < 0][0]
        raise InputError(
            f"{graph.name}: node {graph.node_ids[first]!s} has no label to score by"
        )
    index, unseen = translate_labels(graph, nodes, classes)
    if unseen:
        raise InputError(
            f"{graph.name} has labels that the model never saw: "
            f"{_list(unseen)}; "
            f"it knows {_list([str(label) for label in classes])}"
        )
    return index


def _list(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:5]))
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")
