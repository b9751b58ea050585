"""Models for tests: modules on small graphs, fitted ones, and saved ones.

How a module is built and called stands here and nowhere else under `tests/models`.
"""

import atexit
import functools
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import torch

from h2gcn import NodeClassifier
from h2gcn.datasets import GaussianFeatures, generate_graph
from h2gcn.features import FeatureBuilder, FeatureTable
from h2gcn.graph import Split
from h2gcn.models import MODELS, build_model, find_model
from h2gcn.sparse import Operator, Propagation
from h2gcn.training import TrainConfig, Trainer, receptive_field as subgraph_of
from models.oracles import Dense

DROPOUTS = ("dropout", "input_dropout", "propagation_dropout")
SMALL = {"hidden_channels": 8, "heads": 2, "out_heads": 2}
"""Sizes of layers, where a model has such an option."""
QUICK = {"bp": {"steps": 20}, "boosted-trees": {"n_estimators": 5}}
"""Options of models that take long at their defaults."""


# --------------------------------------------------------------------------- modules


def settings(name, options):
    """Return all options of a model, small ones where none are given."""
    spec = find_model(name)
    small = {key: value for key, value in SMALL.items() if key in spec.options}
    return spec.options | small | options


def known_labels(graph):
    """Return one-hot labels of two nodes in three, zeros elsewhere, [n, C]."""
    rows = np.eye(graph.n_classes, dtype=np.float32)[graph.y]
    rows[1::3] = 0
    return torch.from_numpy(rows)


def propagation(name, graph, **options):
    """Return the matrices that a model multiplies with on a graph."""
    spec = find_model(name).with_options(options)
    matrices = spec.build_matrices(spec.matrix_of(graph))
    return tuple(Operator(matrix, symmetric=spec.symmetric) for matrix in matrices)


def model_input(name, graph, known=None, **options):
    """Return what a model takes as `x`: features, labels, or a table of both."""
    spec = find_model(name).with_options(options)
    known = known_labels(graph) if known is None else known
    if spec.inputs == "labels":
        return known
    if spec.inputs == "features":
        dense = isinstance(graph.x, np.ndarray)
        return torch.from_numpy(graph.x) if dense else Operator(graph.x)
    maker = FeatureBuilder(graph)
    schema = maker.schema(spec.table(settings(name, options)))
    seen, classes = (part.numpy() for part in known.max(dim=1))
    labels = np.where(seen > 0, classes, -1)
    return maker.table(schema, graph.x, labels, recount=spec.labels)


def make(name, graph, *, seed=0, **options):
    """Return a module whose weights are all random, what it takes, and its matrices.

    What learns without epochs has learned from two nodes in three.
    """
    x, operators = (
        model_input(name, graph, **options),
        propagation(name, graph, **options),
    )
    width = x.shape[1]
    if isinstance(x, FeatureTable):
        width = [block.shape[1] for block in x.blocks.values()]
    given = settings(name, options)
    changed = {k: v for k, v in given.items() if v != find_model(name).options[k]}
    torch.manual_seed(seed)
    module = build_model(name, width, graph.n_classes, changed)
    with torch.no_grad():
        for weight in module.parameters():  # biases, gates and others begin at zero
            weight.add_(0.3 * torch.randn(weight.shape))
        for statistic in module.buffers():
            if find_model(name).epochs and statistic.is_floating_point():
                statistic.uniform_(0.1, 0.9)
    if not find_model(name).epochs:
        nodes = np.arange(graph.n_nodes)
        known = known_labels(graph).any(dim=1).numpy()
        split = Split(nodes[known], nodes[~known], nodes[~known])
        Trainer(module, x, operators, graph.y, split, TrainConfig()).run()
    return module.eval(), x, operators


def logits(module, x, operators, target=None, cache=None):
    """Return the logits of all nodes, or of the target's, [m, C]."""
    if target is not None:
        target = torch.from_numpy(np.asarray(target, dtype=int))
    return module(x, Propagation(operators, target, cache=cache))


def batch_logits(module, x, operators, nodes):
    """Return the logits of some nodes from the part of the graph they depend on."""
    nodes, cpu = np.asarray(nodes), torch.device("cpu")
    part = subgraph_of(x, operators, nodes, receptive_field(module), cpu)
    return module(part.x, part.graph)


def decompose(module, x, operators, node):
    """Return the logits of a node as an exact sum, None where a model has none."""
    with torch.no_grad():
        return module.decompose(x, Propagation(operators, torch.tensor([node])))


def weights_of(module):
    """Return all weights and statistics by name, in double precision."""
    return {
        name: weight.detach().double().numpy()
        for name, weight in module.state_dict().items()
        if weight.is_floating_point()
    }


def receptive_field(module):
    """Return how many products follow one another, None for the whole graph."""
    return module.receptive_field


def step_bytes(module, n, m, entries):
    """Return about what a step holds for n nodes, m of them trained on, and edges."""
    return module.step_bytes(n, m, entries)


def decayed_weights(module):
    """Return the names of the weights that the L2 penalty acts on."""
    names = {id(weight): name for name, weight in module.named_parameters()}
    return {names[id(weight)] for weight in module.decayed_parameters()}


# ---------------------------------------------------------------------- comparisons


def dense(graph):
    """Return a graph as the formulas take it."""
    adj = graph.adj if graph.weights is None else graph.weights
    directed = graph.directed_weights if graph.weights is not None else graph.directed
    if graph.directed is None:
        directed = None
    x = graph.x if isinstance(graph.x, np.ndarray) else graph.x.toarray()
    return Dense(
        x.astype(float),
        adj.toarray().astype(float),
        None if directed is None else directed.toarray().astype(float),
        known_labels(graph).double().numpy(),
    )


def assert_close(found, expected, *where, rtol=1e-5):
    found = found.detach().numpy() if isinstance(found, torch.Tensor) else found
    atol = rtol * max(1.0, np.abs(expected).max(initial=0))
    message = ", ".join(map(str, where))
    np.testing.assert_allclose(found, expected, rtol, atol, err_msg=message)


def some_nodes(n):
    """Return nodes in another order than theirs, one of them twice."""
    return [n - 1, 0, 0, n // 2]


# ---------------------------------------------------------------------- fitted models


@cache
def life_graph(n=60, seed=0, ids=True):
    """Return a graph of three classes, mostly unlike their neighbors."""
    features = GaussianFeatures(n_features=6)
    graph = generate_graph(n_nodes=n, n_classes=3, features=features, seed=seed)
    names = np.array([f"n{i}" for i in range(n)])
    return replace(graph, node_ids=names) if ids else graph


@functools.cache
def fitted(name, **params):
    """Return a model fitted to `life_graph()`, once per process. Read only."""
    return unfitted(name, **params).fit(life_graph())


def unfitted(name, **params):
    """Return a classifier with settings that make it quick."""
    trained = {"epochs": 3} if MODELS[name].epochs else {}
    options = QUICK.get(name, {})
    return NodeClassifier(
        name, random_state=0, **(trained | {"options": options} | params)
    )


# ----------------------------------------------------------------------- saved models


@cache
def kept() -> Path:
    """Return a folder that is removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="h2gcn-models-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def copy_of_saved(name: str, save: Callable[[Path], object], target: Path) -> Path:
    """Return a copy of a saved model, which a test may change.

    Parameters
    ----------
    name
        What it is kept under, in this process.
    save
        Trains the model and saves it in a folder; called for the first copy.
    target
        Where the copy goes.
    """
    folder = kept() / name
    if not folder.exists():
        beside = Path(tempfile.mkdtemp(dir=kept())) / name
        save(beside)
        beside.rename(folder)  # so that one that could not be saved is not taken
    shutil.copytree(folder, target)
    return target
