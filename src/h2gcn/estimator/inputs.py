"""What a module is given as `x`: scaled features, or the labels that it spreads."""

from __future__ import annotations

import numpy as np
import torch

from h2gcn.estimator.known_labels import Seeds
from h2gcn.estimator.scaling import Scaler
from h2gcn.estimator.schema import align_features
from h2gcn.graph import Graph
from h2gcn.sparse import Input, MappedFeatures, to_tensor

__all__ = ["find_input"]


def find_input(
    graph: Graph,
    seeds: Seeds | None,
    scaler: Scaler,
    names: tuple[str, ...],
    device: torch.device,
) -> Input:
    """Return what a module takes as `x`: scaled features, or labels to spread.

    Parameters
    ----------
    graph
        The graph of training, or another one.
    seeds
        The labels of a model that spreads them, else None.
    scaler
        Fitted on the training nodes.
    names
        The features of the training graph.
    device
        Where the module is.
    """
    if seeds is not None:
        return seeds.one_hot(graph, device)
    x = align_features(graph, names)
    if isinstance(x, np.memmap):
        return MappedFeatures(x, scaler, device)
    return to_tensor(scaler(x), device)
