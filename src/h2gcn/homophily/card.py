"""A graph in one small table: counts, measures, and the checksum that names it."""

import math
import warnings
from collections.abc import Callable

import numpy as np

from h2gcn.exceptions import UndefinedMeasureWarning
from h2gcn.graph import Graph, fingerprint
from h2gcn.homophily import measures

__all__ = ["graph_card"]


def graph_card(graph: Graph) -> dict[str, object]:
    """Return what kind of graph this is, as plain types ready for JSON.

    Returns
    -------
    dict
        `name`; the counts `nodes`, `edges` (undirected), `directed_edges` (None
        without directions), `loops_dropped`, `duplicates_merged`, `features`,
        `classes`, `labelled`, `isolated`, `max_degree`, `mean_degree`; the measures
        `h` (edge homophily), `h_with_loops`, `adjusted_homophily` and
        `label_informativeness`, None where undefined; `splits` (how many),
        `split_sizes` (mean train, val and test size, or None); and `checksum`, the
        first 16 digits of the fingerprint.

    Examples
    --------
    >>> card = graph_card(Graph(x=np.eye(2), adj=np.eye(2)[::-1], y=[0, 1]))
    >>> card["edges"], card["h"], card["label_informativeness"], card["split_sizes"]
    (1, 0.0, 1.0, None)
    """
    degrees = graph.degrees
    return {
        "name": graph.name,
        "nodes": graph.n_nodes,
        "edges": graph.n_edges,
        "directed_edges": None if graph.directed is None else int(graph.directed.nnz),
        "loops_dropped": int(graph.record.loops_dropped),
        "duplicates_merged": int(graph.record.duplicates_merged),
        "features": graph.n_features,
        "classes": graph.n_classes,
        "labelled": int(graph.labelled.size),
        "isolated": int(np.count_nonzero(degrees == 0)),
        "max_degree": int(degrees.max(initial=0)),
        "mean_degree": float(degrees.mean()) if degrees.size else 0.0,
        "h": _value(measures.edge_homophily, graph),
        "h_with_loops": _value(measures.homophily_with_loops, graph),
        "adjusted_homophily": _value(measures.adjusted_homophily, graph),
        "label_informativeness": _value(measures.label_informativeness, graph),
        "splits": len(graph.splits),
        "split_sizes": _mean_sizes(graph),
        "checksum": fingerprint(graph)[:16],
    }


def _value(measure: Callable[[Graph], float], graph: Graph) -> float | None:
    with warnings.catch_warnings():
        # None in the card says the same.
        warnings.simplefilter("ignore", UndefinedMeasureWarning)
        value = measure(graph)
    return None if math.isnan(value) else value


def _mean_sizes(graph: Graph) -> list[int] | None:
    if not graph.splits:
        return None
    means = np.mean([split.sizes for split in graph.splits], axis=0)
    return [round(mean) for mean in means.tolist()]
