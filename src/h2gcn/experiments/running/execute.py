"""What is done with a run: fit, score on the split, and the record of it."""

from __future__ import annotations

import time
import traceback
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from h2gcn import __version__
from h2gcn.experiments.running.graphs import find_checksum, open_graph
from h2gcn.experiments.running.runs import Run

__all__ = ["Record", "count_by_degree", "execute", "failure", "work"]

Record = dict[str, Any]
"""A run and what came of it, as a line of the store."""


def execute(run: Run) -> Record:
    """Fit a run's model on its split and return the record.

    Returns
    -------
    dict
        The run's fields and `key`; `selected` (False: that is for a table to say);
        `val_accuracy` and `test_accuracy`, fractions of 1; `seconds` of the fit;
        `version`; `best_epoch`, `epochs`, `checksum` of the graph, and `by_degree`,
        see `count_by_degree`. Of a run that fails both accuracies are None, and
        `error` is the traceback.
    """
    start = time.perf_counter()
    try:
        return _fit(run)
    except Exception:  # whatever it is, the other runs go on
        seconds = time.perf_counter() - start
        return failure(run, traceback.format_exc(), seconds)


def work(run: Run) -> Record:
    """Execute a run in a process that is for nothing else: one thread, no warnings."""
    import torch

    from h2gcn.sparse import keep_freed_memory

    torch.set_num_threads(1)
    keep_freed_memory()
    with warnings.catch_warnings():
        # The same ones for each split; whoever opens the graph to plan has seen them.
        warnings.simplefilter("ignore")
        return execute(run)


def failure(run: Run, error: str, seconds: float = 0.0) -> Record:
    """Return the record of a run that failed."""
    return _record(run, seconds, None, None) | {"error": error}


def count_by_degree(
    degrees: NDArray[np.int64], right: NDArray[np.bool_]
) -> list[list[int]]:
    """Count nodes, and those predicted right, by ranges of degree.

    Parameters
    ----------
    degrees
        Number of neighbours of each node, [m].
    right
        Whether each was predicted right, [m].

    Returns
    -------
    list
        `[lowest degree, highest degree, nodes, right]` for 0, 1, 2–3, 4–7, 8–15 and
        so on, without the ranges that have no node.

    Examples
    --------
    >>> count_by_degree(np.array([1, 2, 3, 3]), np.array([True, True, False, True]))
    [[1, 1, 1, 1], [2, 3, 3, 2]]
    """
    # The exponent of 2^(k-1) <= d < 2^k; that of 0 is 0.
    ranges = np.frexp(degrees)[1]
    nodes = np.bincount(ranges)
    hits = np.bincount(ranges, weights=right)
    return [
        [2**k // 2, 2**k - 1, int(nodes[k]), int(hits[k])]
        for k in np.flatnonzero(nodes).tolist()
    ]


def _fit(run: Run) -> Record:
    from h2gcn.experiments.definition import classifier_of

    graph = open_graph(run.dataset)
    classifier = classifier_of(run.model, run.config, random_state=run.seed + run.split)
    start = time.perf_counter()
    classifier.fit(graph, run.split)
    seconds = time.perf_counter() - start
    if classifier.interrupted_:
        raise KeyboardInterrupt
    val, test = classifier.split_.val, classifier.split_.test
    nodes = np.concatenate([val, test])
    predicted = classifier.predict_logits(graph, nodes).argmax(axis=1)
    right = predicted == graph.y[nodes]
    in_val, in_test = right[: len(val)], right[len(val) :]
    return _record(run, seconds, _share(in_val), _share(in_test)) | {
        "best_epoch": classifier.best_epoch_,
        "epochs": classifier.n_iter_,
        "checksum": find_checksum(run.dataset),
        "by_degree": count_by_degree(graph.degrees[test], in_test),
    }


def _share(right: NDArray[np.bool_]) -> float | None:
    return float(right.mean()) if right.size else None


def _record(
    run: Run, seconds: float, val_accuracy: float | None, test_accuracy: float | None
) -> Record:
    return {
        "key": run.key,
        **run.to_json(),
        "selected": False,
        "val_accuracy": val_accuracy,
        "test_accuracy": test_accuracy,
        "seconds": round(seconds, 3),
        "version": __version__,
    }
