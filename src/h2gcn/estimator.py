"""`NodeClassifier`: scikit-learn's contract over graphs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from h2gcn import metrics
from h2gcn._validation import check_choice
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import Graph, Split
from h2gcn.models import find_model
from h2gcn.scaling import fit_scaler
from h2gcn.schema import align_features, match_labels
from h2gcn.sparse import Operator, Target, to_tensor
from h2gcn.splitting import stratified_split
from h2gcn.training import Epoch, TrainConfig, seeded, train

__all__ = ["DEVICES", "NodeClassifier", "check_split", "find_device"]

DEVICES = ("auto", "cpu", "cuda", "mps")
_SEEDS = np.iinfo(np.int32).max


class NodeClassifier(BaseEstimator):  # type: ignore[misc]
    """Classifies the nodes of a graph, with any model of the paper.

    Parameters
    ----------
    model
        A name of `h2gcn.models.MODELS`.
    epochs, patience, learning_rate, l2, metric
        See `h2gcn.training.TrainConfig`.
    dropout, activation, hidden_channels
        See the model.
    scaling
        "auto", "rows" (each divided by its sum), "standard" (z-scores fitted on
        the training nodes) or "none".
    device
        "auto" (cuda where there is one, else cpu), "cpu", "cuda" or "mps".
    random_state
        Seed of the split (where none is given), the weights and the dropout.

    Attributes
    ----------
    classes_
        The labels, [C].
    n_features_in_, feature_names_in_
        The columns of `x` that were seen in `fit`.
    module_
        The trained `nn.Module`, with the weights of the best epoch.
    split_
        The split that was used.
    scaler_
        The fitted feature scaling.
    best_epoch_, val_score_, history_, seconds_, interrupted_
        See `h2gcn.training.TrainResult`.
    seed_
        The seed that `random_state` gave.

    Examples
    --------
    >>> from h2gcn.synthetic import generate_graph
    >>> graph = generate_graph(n_nodes=300, homophily=0.1, seed=0)
    >>> clf = NodeClassifier(model="h2gcn-1", epochs=50, random_state=0).fit(graph)
    >>> clf.predict(graph).shape
    (300,)
    """

    def __init__(
        self,
        model: str = "h2gcn-1",
        *,
        epochs: int = 2000,
        patience: int | None = None,
        learning_rate: float = 0.01,
        l2: float = 5e-4,
        dropout: float = 0.5,
        activation: str = "relu",
        hidden_channels: int = 64,
        scaling: str = "auto",
        metric: str = "accuracy",
        device: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.model = model
        self.epochs = epochs
        self.patience = patience
        self.learning_rate = learning_rate
        self.l2 = l2
        self.dropout = dropout
        self.activation = activation
        self.hidden_channels = hidden_channels
        self.scaling = scaling
        self.metric = metric
        self.device = device
        self.random_state = random_state

    def fit(
        self,
        graph: Graph,
        split: Split | int | None = None,
        *,
        on_epoch: Callable[[Epoch], None] | None = None,
    ) -> NodeClassifier:
        """Train on the labelled nodes of a graph.

        Parameters
        ----------
        graph
            With labels for some nodes.
        split
            A `Split`, or the number of one of the graph's own. By default the
            graph's first, and where it has none a stratified 60/20/20 of the
            labelled nodes.
        on_epoch
            Called after every epoch with an `Epoch`.
        """
        spec = find_model(self.model)
        config = TrainConfig(
            self.epochs, self.patience, self.learning_rate, self.l2, self.metric
        )
        device = find_device(self.device)
        seed = int(check_random_state(self.random_state).randint(_SEEDS))
        _check_labels(graph)
        split = _find_split(graph, split, seed)
        _warn_of_missing_classes(graph, split)
        if self.metric == "roc_auc" and graph.n_classes != 2:
            raise InputError(
                "The 'metric' parameter of NodeClassifier can be 'roc_auc' only for "
                f"two classes. {graph.name} has {graph.n_classes}."
            )
        scaler = fit_scaler(self.scaling, graph.x, split.train)
        with seeded(seed):
            module = self._build(graph.n_features, graph.n_classes).to(device)
        operators = self._operators(graph, device)
        x = to_tensor(scaler(graph.x), device)
        result = train(
            module,
            x,
            operators,
            graph.y,
            split,
            config,
            seed=seed,
            on_epoch=on_epoch,
        )
        self.classes_ = graph.classes
        self.n_features_in_ = graph.n_features
        self.feature_names_in_ = graph.feature_names
        self.designs_ = spec.designs
        self.module_ = module
        self.split_ = split
        self.scaler_ = scaler
        self.seed_ = seed
        self.best_epoch_ = result.best_epoch
        self.val_score_ = result.val_score
        self.history_ = result.history
        self.n_iter_ = len(result.history)
        self.seconds_ = result.seconds
        self.interrupted_ = result.interrupted
        return self

    def predict(self, graph: Graph, nodes: ArrayLike | None = None) -> NDArray[Any]:
        """Return the label of each node (or of `nodes`), [n]."""
        labels: NDArray[Any] = self.classes_of(self.predict_logits(graph, nodes))
        return labels

    def predict_proba(
        self, graph: Graph, nodes: ArrayLike | None = None
    ) -> NDArray[np.float32]:
        """Return a probability for each class in the order of `classes_`, [n, C].

        They are the softmax of the logits; nothing calibrates them.
        """
        logits = torch.from_numpy(self.predict_logits(graph, nodes))
        return torch.softmax(logits, dim=1).numpy()

    def predict_logits(
        self, graph: Graph, nodes: ArrayLike | None = None
    ) -> NDArray[np.float32]:
        """Return the logits of each node (or of `nodes`), [n, C].

        The graph may be another one than in `fit`: its own rings are computed, and
        its features scaled as the training graph's were.
        """
        check_is_fitted(self, "module_")
        device = next(self.module_.parameters()).device
        features = align_features(graph, self.feature_names_in_)
        x = to_tensor(self.scaler_(features), device)
        operators = self._operators(graph, device)
        target = None
        if nodes is not None:
            index = np.asarray(nodes)
            index = np.flatnonzero(index) if index.dtype == bool else index
            target = Target.of(operators, index.astype(np.int64))
        self.module_.eval()
        with torch.no_grad():
            logits: torch.Tensor = self.module_(x, operators, target)
        return logits.cpu().numpy()

    def classes_of(self, scores: NDArray[np.float32]) -> NDArray[Any]:
        """Return the label with the largest score in each row of [n, C]."""
        check_is_fitted(self, "module_")
        return np.asarray(self.classes_[scores.argmax(axis=1)])

    def score(self, graph: Graph, nodes: ArrayLike | None = None) -> float:
        """Return the `metric` on the labelled nodes (or on `nodes`)."""
        check_is_fitted(self, "module_")
        index = graph.labelled if nodes is None else np.asarray(nodes)
        y = match_labels(graph, index, self.classes_)
        return metrics.score(self.metric, y, self.predict_logits(graph, index))

    def save(self, path: str | Path) -> None:
        """Write the classifier to a folder: safetensors and JSON, no pickle."""
        from h2gcn.bundle import save_bundle

        save_bundle(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> NodeClassifier:
        """Read a classifier that `save` wrote."""
        from h2gcn.bundle import load_bundle

        return load_bundle(Path(path))

    def _build(self, n_features: int, n_classes: int) -> torch.nn.Module:
        spec = find_model(self.model)
        return spec.module(
            n_features,
            n_classes,
            hidden_channels=self.hidden_channels,
            activation=self.activation,
            dropout=self.dropout,
            **spec.fixed,
        )

    def _operators(self, graph: Graph, device: torch.device) -> tuple[Operator, ...]:
        # The last graph's are kept: fit, predict and score mostly see the same one.
        kept = getattr(self, "_kept_operators", None)
        if kept and kept[0] == (self.model, device) and kept[1] is graph.adj:
            operators: tuple[Operator, ...] = kept[2]
            return operators
        spec = find_model(self.model)
        operators = tuple(
            Operator(matrix, symmetric=spec.symmetric, device=device)
            for matrix in spec.operators(graph.adj)
        )
        self._kept_operators = ((self.model, device), graph.adj, operators)
        return operators


def find_device(name: str) -> torch.device:
    """Return the device that a name stands for, or say that it is not there."""
    check_choice("NodeClassifier", "device", name, DEVICES)
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    backends = {"cuda": torch.cuda, "mps": torch.backends.mps}
    if name in backends and not backends[name].is_available():
        raise InputError(
            f"The 'device' parameter of NodeClassifier is {name!r}, but torch finds "
            "no such device here."
        )
    return torch.device(name)


def _check_labels(graph: Graph) -> None:
    present = np.unique(graph.y[graph.y >= 0])
    if present.size == 0:
        raise InputError(f"{graph.name}: all labels are missing; nothing to learn from")
    if present.size == 1:
        raise InputError(
            f"{graph.name}: all labelled nodes are of one class, "
            f"{graph.classes[present[0]]!s}; at least two are needed"
        )
    if graph.adj.nnz == 0:
        raise InputError(f"{graph.name}: the graph has no edges")


def _find_split(graph: Graph, split: Split | int | None, seed: int) -> Split:
    if split is None:
        if not graph.splits:
            return stratified_split(graph.y, (0.6, 0.2, 0.2), seed)
        split = graph.splits[0]
    elif not isinstance(split, Split):
        if not 0 <= split < len(graph.splits):
            raise InputError(
                f"{graph.name} has {len(graph.splits)} splits, numbered from 0; "
                f"there is no split {split}"
            )
        split = graph.splits[split]
    return check_split(graph, split)


def check_split(graph: Graph, split: Split) -> Split:
    """Return a split that can be used, or say what is wrong with it."""
    everything = np.concatenate(list(split.parts.values()))
    if everything.size and everything.max() >= graph.n_nodes:
        raise InputError(
            f"the split names node {everything.max()}, but {graph.name} has "
            f"{graph.n_nodes} nodes"
        )
    nodes, times = np.unique(everything, return_counts=True)
    if (times > 1).any():
        raise InputError(
            f"the split has {int((times > 1).sum())} nodes in two parts, such as "
            f"{graph.node_ids[nodes[times > 1][0]]!s}"
        )
    unlabelled = nodes[graph.y[nodes] < 0]
    if unlabelled.size:
        warnings.warn(
            f"{unlabelled.size} nodes of the split have no label and are left out",
            H2GCNWarning,
            stacklevel=4,
        )
        parts = split.parts.values()
        split = Split(*(np.setdiff1d(part, unlabelled) for part in parts))
    for part in ("train", "val"):
        if split.parts[part].size == 0:
            raise InputError(f"the split's '{part}' part holds no labelled node")
    return split


def _warn_of_missing_classes(graph: Graph, split: Split) -> None:
    missing = np.setdiff1d(graph.y[graph.labelled], graph.y[split.train])
    if missing.size:
        names = ", ".join(str(name) for name in graph.classes[missing])
        warnings.warn(
            f"no training node is of class {names}: the model cannot learn it",
            H2GCNWarning,
            stacklevel=3,
        )
