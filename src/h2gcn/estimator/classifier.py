"""`NodeClassifier`: scikit-learn's contract over graphs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from h2gcn._validation import check_choice, check_integer
from h2gcn.estimator.checks import (
    check_batch_size,
    check_graph,
    check_labels,
    check_training_classes,
    find_device,
    find_seed,
    find_split,
    find_work,
)
from h2gcn.estimator.inputs import find_input
from h2gcn.estimator.known_labels import Seeds, Seen
from h2gcn.estimator.operators import find_operators, find_place
from h2gcn.estimator.parameters import (
    blank_module,
    build_module,
    check_batches,
    check_rings,
    resolve,
    train_config,
)
from h2gcn.estimator.prediction import (
    check_nodes,
    join_blocks,
    logits_in_blocks,
    probabilities,
    warn_of_unreached,
)
from h2gcn.estimator.scaling import SCALINGS, fit_scaler
from h2gcn.estimator.schema import match_labels
from h2gcn.exceptions import H2GCNWarning, InputError, UndefinedMeasureWarning
from h2gcn.graph import Graph, Split
from h2gcn.models import find_model
from h2gcn.rings import RingOptions
from h2gcn.sparse import seeded
from h2gcn.training import (
    MINUTES,
    Checkpoint,
    Epoch,
    TrainConfig,
    fit_module,
    identify,
    is_small,
    score,
    threads_for,
)

__all__ = ["NodeClassifier"]


class NodeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classifies the nodes of a graph, with any model of the paper.

    Parameters
    ----------
    model
        A name of `h2gcn.models.MODELS`.
    epochs, stopping, optimizer, metric
        See `h2gcn.training.TrainConfig`.
    patience
        How many epochs the rule of `stopping` waits; None never stops, as in most of
        the paper's runs.
    class_weight
        "balanced" gives each class the same weight in the loss, so that rare ones
        are found. The probabilities are then those of classes of equal size: far
        too high for rare ones, and good for their order alone, until calibrated.
    learning_rate, l2, dropout, activation, hidden_channels
        None is the model's own: for H2GCN 0.01, 5e-4, 0.5, "relu" and 64. `h2gcn
        models` lists those of the others.
    options
        What else the model has, by name, such as `{"heads": 4}` of gat. Dropout,
        activation and hidden channels can be given here instead, but not twice.
    scaling
        "auto", "rows" (each divided by its sum), "standard" (z-scores fitted on
        the training nodes) or "none".
    batch_size
        How many training nodes a step takes, each with no more of the graph than it
        needs, and how many nodes are predicted together; None is all at once.
    ring_cap
        At most so many neighbours of a node in its 2-hop ring, drawn by the seed and
        weighted by the ring's true size; None is all of them.
    ring_store
        A folder for rings that do not fit in memory; None keeps them in memory.
    memory_limit
        Gigabytes that a fit may take; None is what the machine has free.
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
    tables_
        How the tables of the graph were read, if it was read from tables.
    seeds_
        The training labels by node id, of a model that spreads labels; else None.
    seen_
        Which nodes were training, validation and test nodes; None of a model that
        was saved without.
    best_epoch_, val_score_, history_, seconds_, interrupted_
        See `h2gcn.training.TrainResult`. `split_`, `history_`, `seconds_` and
        `interrupted_` are of the training, and not saved.
    seed_, params_
        The seed that `random_state` gave, and the parameters at the time of `fit`,
        the model's own filled in.

    Examples
    --------
    >>> from h2gcn.datasets import generate_graph
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
        patience: int | None = 100,
        stopping: str = "score",
        optimizer: str = "adam",
        learning_rate: float | None = None,
        l2: float | None = None,
        dropout: float | None = None,
        activation: str | None = None,
        hidden_channels: int | None = None,
        options: Mapping[str, Any] | None = None,
        scaling: str = "auto",
        metric: str = "accuracy",
        class_weight: str | None = None,
        batch_size: int | None = None,
        ring_cap: int | None = None,
        ring_store: str | Path | None = None,
        memory_limit: float | None = None,
        device: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.model = model
        self.epochs = epochs
        self.patience = patience
        self.stopping = stopping
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.l2 = l2
        self.dropout = dropout
        self.activation = activation
        self.hidden_channels = hidden_channels
        self.options = options
        self.scaling = scaling
        self.metric = metric
        self.class_weight = class_weight
        self.batch_size = batch_size
        self.ring_cap = ring_cap
        self.ring_store = ring_store
        self.memory_limit = memory_limit
        self.device = device
        self.random_state = random_state

    def fit(
        self,
        graph: Graph,
        split: Split | int | None = None,
        *,
        on_epoch: Callable[[Epoch], None] | None = None,
        checkpoint: str | Path | None = None,
        resume: bool = False,
        checkpoint_minutes: float = MINUTES,
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
        checkpoint
            A folder for the state of the training; None saves nothing on the way. A
            model that has no weights leaves nothing there.
        resume
            Go on from the state in that folder, to the result of a training that was
            never interrupted. `epochs` may be more than they were.
        checkpoint_minutes
            How often the state is saved; 0 is after every epoch.
        """
        if resume and checkpoint is None:
            raise InputError("'resume' needs 'checkpoint', the folder to go on from.")
        if not isinstance(graph, Graph):
            raise InputError(
                "NodeClassifier takes a Graph; h2gcn.read_graph makes one of files, of "
                f"PyG and networkx objects. Got {type(graph).__name__!r} instead."
            )
        config, device = self.check_params(graph.n_classes)
        check_batch_size(graph, self.batch_size)
        seed = find_seed(self.random_state)
        check_labels(graph)
        split = find_split(graph, split, seed)
        check_training_classes(graph, split)
        spec = find_model(self.model)
        check_graph(graph, spec, self.metric)
        scaling = self.scaling if spec.trained else "none"
        params = self.get_params()
        with ExitStack() as during:
            during.enter_context(threads_for([graph], small=is_small(graph)))
            scaler = fit_scaler(scaling, graph.x, split.train)
            with seeded(seed, device):
                module = build_module(params, graph.n_features, graph.n_classes)
                module = module.to(device)
            work = find_work(module, graph, split)
            batches = self.batch_size is not None
            rings = RingOptions.of(params, seed, work, on_demand=batches)
            saved = None
            if checkpoint is not None and spec.trained:
                place = find_place(graph, self.model, device, rings)
                saved = Checkpoint(
                    checkpoint,
                    identify(module, self.resolved_params(), graph, split, place),
                    epochs=self.epochs,
                    minutes=checkpoint_minutes,
                    resume=resume,
                )
            operators = find_operators(graph, self.model, device, rings)
            seeds = None if spec.trained else Seeds.of(graph, split.train, self.model)
            x = find_input(graph, seeds, scaler, graph.feature_names, device)
            if saved is not None:
                during.enter_context(saved.held())
            result = fit_module(
                module,
                x,
                operators,
                graph.y,
                split,
                config,
                seed=seed,
                on_epoch=on_epoch,
                checkpoint=saved,
            )
        self.classes_ = graph.classes
        self.n_features_in_ = graph.n_features
        self.feature_names_in_ = graph.feature_names
        self.tables_ = dict(graph.record.tables)
        self.params_ = self.resolved_params()
        self.module_ = module
        self.device_ = device
        self.seeds_ = seeds
        self.seen_: Seen | None = Seen.of(graph, split)
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

    def check_params(self, n_classes: int = 2) -> tuple[TrainConfig, torch.device]:
        """Raise where a parameter is out of its range; `fit` does so first.

        Parameters
        ----------
        n_classes
            Number of classes, which some options must fit.
        """
        find_model(self.model)
        check_choice("NodeClassifier", "scaling", self.scaling, SCALINGS)
        config = train_config(self.get_params())
        check_rings(self.get_params())
        device = find_device(self.device)
        # That a graph has too few classes is said by those who look at labels.
        module = blank_module(self.get_params(), 1, max(n_classes, 2))
        check_batches(self.get_params(), module)
        return config, device

    def resolved_params(self) -> dict[str, Any]:
        """Return the parameters with the model's own in place of None."""
        return resolve(self.get_params())

    def predict(self, graph: Graph, nodes: ArrayLike | None = None) -> NDArray[Any]:
        """Return the label of each node (or of `nodes`), [n]."""
        labels: NDArray[Any] = self.classes_of(self.predict_logits(graph, nodes))
        return labels

    def predict_proba(
        self, graph: Graph, nodes: ArrayLike | None = None
    ) -> NDArray[np.float32]:
        """Return a probability for each class in the order of `classes_`, [n, C].

        They are the softmax of the logits; nothing calibrates them, and with
        `class_weight="balanced"` those of rare classes are far too high.
        """
        return probabilities(self.predict_logits(graph, nodes))

    def predict_logits(
        self, graph: Graph, nodes: ArrayLike | None = None
    ) -> NDArray[np.float32]:
        """Return the logits of each node (or of `nodes`), [n, C].

        The graph may be another one than in `fit`: its own rings are computed, and
        its features scaled as the training graph's were.
        """
        check_is_fitted(self, "module_")
        index = None if nodes is None else check_nodes(graph, nodes)
        count = graph.n_nodes if index is None else len(index)
        blocks = self.predict_blocks(graph, index)
        return join_blocks(blocks, count, len(self.classes_))

    def predict_blocks(
        self,
        graph: Graph,
        nodes: ArrayLike | None = None,
        *,
        block_size: int | None = None,
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """Return nodes with their logits, [m] and [m, C], a block after the other.

        Together they are what `predict_logits` returns, but no more than a block of
        it is ever made.

        Parameters
        ----------
        graph
            The graph of `fit`, or another.
        nodes
            Indices or a mask; None is all nodes.
        block_size
            At most so many nodes a block, of which the module then sees no more of
            the graph than they need; None is `batch_size`, and where that is None
            too, the module sees the whole graph at once.
        """
        check_is_fitted(self, "module_")
        if block_size is not None:
            check_integer("predict_blocks", "block_size", block_size, 1)
        index = None if nodes is None else check_nodes(graph, nodes)
        device, model = self.device_, self.params_["model"]
        names = self.feature_names_in_
        small = is_small(graph)
        with threads_for([graph], small=small):
            x = find_input(graph, self.seeds_, self.scaler_, names, device)
            rings = RingOptions.of(self.params_, self.seed_, on_demand=True)
            operators = find_operators(graph, model, device, rings)
            with torch.no_grad():
                reached = self.module_.reached(x, operators)
            if reached is not None:
                warn_of_unreached(reached if index is None else reached[index])
        size = self.params_["batch_size"] if block_size is None else block_size
        return logits_in_blocks(
            self.module_, x, operators, index, size, device, small=small
        )

    def classes_of(self, scores: NDArray[np.float32]) -> NDArray[Any]:
        """Return the label with the largest score in each row of [n, C]."""
        check_is_fitted(self, "module_")
        return np.asarray(self.classes_[scores.argmax(axis=1)])

    def score(self, graph: Graph, nodes: ArrayLike | None = None) -> float:
        """Return the `metric` on nodes that training did not see.

        Parameters
        ----------
        graph
            The graph of `fit`, or another.
        nodes
            Indices or a mask, each node once: they are scored whether training saw
            them or not. By default, on the graph of `fit` the test nodes of its
            split, and where that has none, the labelled nodes that are neither
            training nor validation nodes; on another graph all labelled nodes but
            those whose ids training saw. A saved model knows them too.
        """
        check_is_fitted(self, "module_")
        index = self._unseen(graph) if nodes is None else check_nodes(graph, nodes)
        if len(np.unique(index)) < len(index):
            raise InputError(
                "'nodes' must name each node once, to score by. The labels are the "
                "graph's own, and are not given."
            )
        if index.size == 0:
            raise InputError(f"{graph.name}: there is no labelled node to score by")
        y = match_labels(graph, index, self.classes_)
        found = score(self.metric, y, self.predict_logits(graph, index))
        if np.isnan(found):
            warnings.warn(
                f"{self.metric} has no value: the nodes are all of one class",
                UndefinedMeasureWarning,
                stacklevel=2,
            )
        return found

    def _unseen(self, graph: Graph) -> NDArray[np.int64]:
        """Return the labelled nodes to score by where none are named."""
        if self.seen_ is None:
            warnings.warn(
                "this model was saved without a word of which nodes it was trained on: "
                "all labelled nodes are scored, and any training nodes with them",
                H2GCNWarning,
                stacklevel=3,
            )
            return graph.labelled
        index, left_out = self.seen_.unseen(graph)
        if left_out and not index.size:
            raise InputError(
                f"{graph.name}: training saw all labelled nodes; name those in 'nodes' "
                "that are to be scored all the same"
            )
        if left_out and not self.seen_.is_of(graph):
            warnings.warn(
                f"{left_out:,} nodes of {graph.name} have ids that training saw, and "
                "are not scored, unless 'nodes' names them",
                H2GCNWarning,
                stacklevel=3,
            )
        return index

    def save(self, path: str | Path) -> None:
        """Write the classifier to a folder: safetensors and JSON, no pickle."""
        from h2gcn.estimator.saved_model import save_bundle

        save_bundle(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> NodeClassifier:
        """Read a classifier that `save` wrote."""
        from h2gcn.estimator.saved_model import load_bundle

        return load_bundle(Path(path))
