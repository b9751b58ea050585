"""`NodeClassifier`: scikit-learn's contract over graphs."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from h2gcn._validation import (
    as_array,
    check_bool,
    check_callable,
    check_choice,
    check_integer,
    check_path,
    check_real,
    check_type,
    nearest,
)
from h2gcn.auto import Contest, Leaderboard, Progress
from h2gcn.estimator.automatic import Answering, find_answer, fit_on_all, mean_blocks
from h2gcn.estimator.evaluation import ScoreCard, nodes_to_score, score_model
from h2gcn.estimator.explaining import (
    Explanation,
    Importance,
    explain_node,
    measure_importance,
)
from h2gcn.estimator.inputs import (
    KnownLabels,
    Scaler,
    Seen,
    SomeFeatures,
    build_input,
    fit_scaler,
    made_elsewhere,
    match_labels,
    table_schema,
)
from h2gcn.estimator.operators import (
    are_few,
    build_operators,
    can_be_alone,
    distributed_operators,
    plan_operators,
    prepare_rows,
    rows_of_input,
    rows_of_operators,
)
from h2gcn.estimator.outputs import (
    DECISIONS,
    Calibration,
    DecisionRule,
    aps_scores,
    choose_decision,
    coverage_words,
    draws,
    prediction_sets,
    quantile,
    training_weights,
)
from h2gcn.estimator.parameters import (
    AUTO,
    CheckedFit,
    Estimator,
    Params,
    blank_module,
    build_module,
    check_batches,
    check_fit,
    check_fitted,
    check_params,
    check_rings,
    fit_options,
    input_width,
    prediction_options,
    resolve_cap,
    resolve_device,
    resolve_params,
    spec_of,
    warn_of_findings,
)
from h2gcn.estimator.prediction import (
    check_nodes,
    find_reached,
    finite_blocks,
    join_blocks,
    logits_in_blocks,
    logits_of_some,
    probabilities,
    warn_of_unreached,
)
from h2gcn.estimator.saved_model import (
    MANIFEST,
    SavedMember,
    SavedModel,
    load_weights,
    member_folder,
    read_model,
    write_model,
)
from h2gcn.estimator.showing import fitted_card, outcome, watch
from h2gcn.exceptions import (
    H2GCNWarning,
    InputError,
    UndefinedMeasureWarning,
    short_repr,
)
from h2gcn.features import TableSchema
from h2gcn.graph import Graph, Split, check_is_graph, html_card
from h2gcn.io import conform, prediction_table
from h2gcn.models import find_model
from h2gcn.sparse import LinearMap
from h2gcn.training import (
    MINUTES,
    SINGLE,
    Checkpoint,
    Communicator,
    Epoch,
    NodeModule,
    TorchGroup,
    TrainConfig,
    Trainer,
    identify,
    is_small,
    predict_rows,
    score,
    seeded,
    threads_for,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["NodeClassifier", "check_types", "load_bundle", "save_bundle"]

RandomState = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
"""A seed that a file may hold."""


_REMEMBERED: WeakKeyDictionary[
    Estimator,
    WeakKeyDictionary[Graph, tuple[NDArray[np.int64], NDArray[np.float32]]],
] = WeakKeyDictionary()
"""Of each classifier and graph in use, nodes whose logits were found elsewhere."""


class NodeClassifier(Estimator):
    """Classifies the nodes of a graph, with any model of the paper.

    Parameters
    ----------
    model
        A name of `h2gcn.models.MODELS`, or "auto": a dozen models are fitted, and the
        best of them answer together. Each has its own settings then.
    epochs, stopping, optimizer, metric
        See `h2gcn.training.TrainConfig`.
    patience
        How many epochs the rule of `stopping` waits; None never stops, as in most of
        the paper's runs.
    class_weight
        "balanced" gives each class the same weight in the loss, so that rare ones
        are found, and `predict` says them more often than they are likely. The
        probabilities are those of the data all the same, unless `calibrate` is False:
        then they are those of classes of equal size, far too high for rare ones.
    learning_rate, l2, dropout, activation, hidden_channels
        None is the model's own: for H2GCN 0.01, 5e-4, 0.5, "relu" and 64. `h2gcn
        models` lists those of the others.
    options
        What else the model has, by name, such as `{"heads": 4}` of gat. Dropout,
        activation and hidden channels can be given here instead, but not twice.
    scaling
        "auto", "rows" (each divided by its sum), "standard" (z-scores fitted on
        the training nodes) or "none".
    calibrate
        Fit the probabilities to the validation nodes: class weights are undone, and
        one temperature makes them as sure as they are right. What `predict` says
        stays the same. False leaves the softmax of the logits.
    batch_size
        How many training nodes a step takes, each with no more of the graph than it
        needs, and how many nodes are predicted together; None is all at once.
    ring_cap
        How many 2-hop neighbors of a node are sampled at most, by the seed, weighted
        by the ring's true size. "exact" is all of them; "auto" samples 64 if rings are
        much larger than the graph (see `h2gcn.rings.auto_max_neighbors`), and warns.
        None is "exact", and of the model "auto" it is "auto".
    memory_limit
        Gigabytes that a fit may take; None is what the machine has free.
    time_limit
        Seconds that "auto" may take; None is 180, or 600 from a million edges on.
    refit
        Whether "auto" fits those that answer once more, on all labelled nodes (see
        `fit_on_all`). `score` then has no node left that training did not see.
    device
        "auto" (cuda where there is one, else cpu), "cpu", "cuda" or "mps".
    random_state
        Seed of the split (where none is given), the weights and the dropout.
    verbose
        Show how a fit goes on: a bar on a terminal and in a notebook, else a line from
        time to time. It changes no result, and is not saved.

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
        The training labels by node id, of a model that takes labels; else None.
    schema_
        The blocks of the ring table, of a model that takes one; else None.
    seen_
        Which nodes were training, validation and test nodes; None of a model that
        was saved without.
    calibration_
        How logits become probabilities (`calibration_.temperature`), and the held-out
        nodes; None of a model that was saved without, or interrupted before.
    members_, leaderboard_
        Of "auto": who answers, and how all members stand; else empty and None.
    offsets_
        What "auto" adds to the logits of each class, so that `predict` is best for
        the `metric`; zero but for macro_f1.
    contest_
        Of "auto": all that was tried, with the members that do not answer; else None.
    bytes_sent_
        Of a fit by several processes, what this one sent to the others in an epoch.
    best_epoch_, val_score_, history_, seconds_, interrupted_
        See `h2gcn.training.TrainResult`. `split_`, `history_`, `seconds_`,
        `contest_`, `bytes_sent_` and `interrupted_` are of the training, and not saved.
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
        calibrate: bool = True,
        batch_size: int | None = None,
        ring_cap: int | str | None = None,
        memory_limit: float | None = None,
        time_limit: float | None = None,
        refit: bool = False,
        device: str = "auto",
        random_state: Any = None,
        verbose: bool = False,
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
        self.calibrate = calibrate
        self.batch_size = batch_size
        self.ring_cap = ring_cap
        self.memory_limit = memory_limit
        self.time_limit = time_limit
        self.refit = refit
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        graph: Graph,
        split: Split | int | None = None,
        *,
        on_epoch: Callable[[Epoch], None] | None = None,
        on_progress: Callable[[Progress], None] | None = None,
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
        on_progress
            Of "auto": called with a `Progress`, before each member and on the way.
        checkpoint
            A folder for the state of the training; None saves nothing on the way. A
            model that has no weights leaves nothing there.
        resume
            Go on from the state in that folder, to the result of a training that was
            never interrupted. `epochs` may be more than they were, unless a stage of
            the training has ended that would be longer with them (gmnn, gam, cpgnn).
        checkpoint_minutes
            How often the state is saved; 0 is after every epoch.
        """
        check_bool("resume", resume)
        check_callable("on_epoch", on_epoch)
        check_callable("on_progress", on_progress)
        if checkpoint is not None:
            check_path("checkpoint", checkpoint)
        if resume and checkpoint is None:
            raise InputError("'resume' needs 'checkpoint', the folder to go on from.")
        checked = check_fit(self.get_params(), graph, split)
        warn_of_findings(graph, checked.split)
        more: dict[str, Any] = {
            "checkpoint": checkpoint,
            "resume": resume,
            "checkpoint_minutes": checkpoint_minutes,
        }
        if not self.verbose:
            return self.fit_checked(
                checked, on_epoch=on_epoch, on_progress=on_progress, **more
            )
        epochs = None if self.model == AUTO else self.epochs
        title = f"{graph.name} {self.model}"
        with watch(title, epochs, on_epoch, on_progress) as (at_epoch, on_way, say):
            self.fit_checked(checked, on_epoch=at_epoch, on_progress=on_way, **more)
        say(outcome(self, graph))
        return self

    def _keep(self, graph: Graph, params: Params, split: Split, seed: int) -> None:
        """Keep what is known of every fit, whatever the model."""
        self.classes_ = graph.classes
        self.n_features_in_ = graph.n_features
        self.feature_names_in_ = graph.feature_names
        self.tables_ = dict(graph.record.tables)
        auto = params["model"] == AUTO
        self.params_ = dict(params) if auto else resolve_params(params)
        self.params_.pop("verbose", None)  # of this fit, not of the model
        self.seen_: Seen | None = Seen.of(graph, split)
        self.split_ = split
        self.seed_ = seed
        self.module_: NodeModule | None = None
        self.device_ = resolve_device(params["device"])
        self.seeds_: KnownLabels | None = None
        self.schema_: TableSchema | None = None
        self.scaler_ = Scaler("none")
        self.members_: tuple[Answering, ...] = ()
        self.offsets_ = np.zeros(graph.n_classes)
        self.leaderboard_: Leaderboard | None = None
        self.contest_: Contest | None = None
        self.calibration_: Calibration | None = None
        self.best_epoch_, self.n_iter_ = 0, 0
        self.history_: tuple[Epoch, ...] = ()

    def fit_checked(
        self,
        checked: CheckedFit,
        *,
        on_epoch: Callable[[Epoch], None] | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        checkpoint: str | Path | None = None,
        resume: bool = False,
        checkpoint_minutes: float = MINUTES,
        distributed: bool = False,
    ) -> NodeClassifier:
        """Plan, build, train and keep: what `fit` does once all is checked.

        Parameters
        ----------
        checked
            Of `h2gcn.estimator.check_fit`, with the parameters of this classifier.
        on_epoch, on_progress, checkpoint, resume, checkpoint_minutes
            As of `fit`.
        distributed
            Whether this is one of the processes of a `torch.distributed` group that
            fit one classifier together, each with its own rows; see
            `check_distributed`. All end with the same model. Rank 0 alone passes
            `checkpoint`.
        """
        if checked.params["model"] == AUTO:
            if checkpoint is not None:
                raise InputError(
                    "'checkpoint' is for one model: a fit of 'auto' has a time limit."
                )
            return self._fit_auto(checked, on_progress)
        graph, split, device = checked.graph, checked.split, checked.device
        seed, params = checked.seed, dict(checked.params)
        spec = find_model(params["model"])
        with ExitStack() as during:
            during.enter_context(threads_for([graph], small=is_small(graph)))

            # Plan: where the operators shall be, and what a checkpoint is to be of.
            params["ring_cap"] = resolve_cap(params, graph)
            drawn = params["ring_cap"], seed
            schema = table_schema(params, graph, drawn)
            width = input_width(params, graph.n_features, graph.n_classes, schema)
            shape = width, graph.n_classes
            blank = blank_module(params, *shape)
            rings = fit_options(params, seed, blank, graph, split)
            plan = None
            if not distributed:
                plan = plan_operators(
                    graph, params["model"], device, rings, given=params["options"]
                )
            saved = None
            if checkpoint is not None and spec.epochs:
                resolved = resolve_params(params)
                saved = Checkpoint(
                    checkpoint,
                    identify(resolved, graph, split, directed=spec.directed),
                    epochs=checked.config.epochs,
                    minutes=checkpoint_minutes,
                    resume=resume,
                )

            # Build: the module, its operators and its input.
            with seeded(seed, device):
                module = build_module(params, *shape).to(device)
            known = None
            if spec.takes_labels(schema):
                known = KnownLabels.of(graph, split.train, params["model"])
            scaling = params["scaling"] if spec.inputs != "labels" else "none"
            scaler = fit_scaler(scaling, graph.x, split.train)
            names = graph.feature_names
            comm: Communicator = SINGLE
            operators: Sequence[LinearMap]
            if plan is not None:
                operators = build_operators(plan)
                near = np.concatenate([split.train, split.val])
                x = build_input(
                    *(graph, known, scaler, names, device, schema, drawn),
                    recount=spec.labels,
                    wanted=near if spec.is_tabular else None,
                )
            else:
                given = spec.with_options(params["options"])
                comm, operators = distributed_operators(graph, given, rings)
                own = np.arange(graph.n_nodes)[comm.own]
                x = SomeFeatures(graph, scaler, names, device).rows(own)

            # Train.
            if saved is not None and comm.rank == 0:
                during.enter_context(saved.held())
            trainer = Trainer(
                module,
                x,
                operators,
                graph.y,
                split,
                checked.config,
                seed=seed,
                on_epoch=on_epoch if comm.rank == 0 else None,
                checkpoint=saved,
                comm=comm,
            )
            result = trainer.run()
            sent = comm.bytes_sent // max(len(result.history), 1)

            # Calibrate, on the nodes that chose the epoch.
            def logits_of(index: NDArray[np.int64]) -> NDArray[np.float32]:
                if isinstance(comm, TorchGroup):
                    return predict_rows(module, x, operators, index, comm).numpy()
                size, small = params["batch_size"], is_small(graph)
                blocks = logits_in_blocks(
                    module, x, operators, index, size, device, small=small
                )
                return join_blocks(blocks, len(index), graph.n_classes)

            try:
                calibration = Calibration.fit(
                    logits_of(split.val),
                    graph.y[split.val],
                    split.val,
                    training_weights(params["class_weight"], graph.y, split.train),
                    calibrate=params["calibrate"],
                )
            except KeyboardInterrupt:  # what was trained is not lost
                calibration = None
            if distributed:  # the rings are at hand in no other process
                held_out = np.concatenate([split.val, split.test])
                found = [logits_of(index) for index in (split.val, split.test)]

        # Keep.
        _REMEMBERED.pop(self, None)
        self._keep(graph, params, split, seed)
        self.module_ = module
        self.seeds_ = known
        self.schema_ = schema
        self.calibration_ = calibration
        self.scaler_ = scaler
        self.best_epoch_ = result.best_epoch
        self.val_score_ = result.val_score
        self.history_ = result.history
        self.n_iter_ = len(result.history)
        self.seconds_ = result.seconds
        self.interrupted_ = result.interrupted or calibration is None
        self.bytes_sent_ = sent
        if distributed:
            self.remember(graph, held_out, np.concatenate(found))
        return self

    def remember(
        self, graph: Graph, nodes: NDArray[np.int64], logits: NDArray[np.float32]
    ) -> None:
        """Take logits that were found elsewhere for those of some nodes of a graph.

        They are told when just such nodes are asked for, while the graph is in use.

        Parameters
        ----------
        graph
            The graph.
        nodes
            Each once, [m].
        logits
            Of this classifier, [m, C].
        """
        order = np.argsort(nodes)
        of_graph = _REMEMBERED.setdefault(self, WeakKeyDictionary())
        of_graph[graph] = nodes[order], logits[order]

    def remembered(
        self, graph: Graph, nodes: NDArray[np.int64]
    ) -> NDArray[np.float32] | None:
        """Return the logits of some nodes, if all of them were remembered, [m, C]."""
        found = _REMEMBERED.get(self)
        if found is None or graph not in found or not len(nodes):
            return None
        known, logits = found[graph]
        place = np.searchsorted(known, nodes)
        if place.max() == len(known) or not np.array_equal(known[place], nodes):
            return None
        return np.asarray(logits[place])

    def _fit_auto(
        self, checked: CheckedFit, on_progress: Callable[[Progress], None] | None
    ) -> NodeClassifier:
        """Hold a contest of models, and keep those that answer."""
        graph, split, params = checked.graph, checked.split, checked.params
        start, seed = time.perf_counter(), checked.seed
        answer = find_answer(graph, split, params, seed, NodeClassifier, on_progress)
        calibration = Calibration.fit(
            answer.logits,
            answer.y,
            answer.held_out,
            np.exp(answer.offsets),
            calibrate=params["calibrate"],
        )
        found = {"refit": False, "ring_cap": answer.ring_cap or params["ring_cap"]}
        _REMEMBERED.pop(self, None)
        self._keep(graph, {**params, **found}, split, seed)
        self.members_, self.offsets_ = answer.members, answer.offsets
        self.leaderboard_ = answer.leaderboard
        self.contest_ = answer.contest
        self.calibration_ = calibration
        self.val_score_ = score(params["metric"], answer.y, answer.logits)
        self.interrupted_ = answer.leaderboard.interrupted
        if params["refit"] and not self.interrupted_:
            self.fit_on_all(graph)
        self.seconds_ = time.perf_counter() - start
        return self

    def fit_on_all(self, graph: Graph) -> NodeClassifier:
        """Fit those of "auto" that answer once more, on all labelled nodes.

        Each for as many epochs as were best before. What is known of them
        (`leaderboard_`, `val_score_`, `calibration_`) is from before: no labelled node
        is left to score them by. Ctrl-C leaves them as they were.

        Parameters
        ----------
        graph
            The graph of `fit`, or a later one that has all of its nodes, known by their
            ids, and the same features and classes.
        """
        check_fitted(self)
        if not self.members_:
            raise InputError("'fit_on_all' is for model 'auto'.")
        check_is_graph(graph)
        alike = graph.feature_names == tuple(self.feature_names_in_) and np.array_equal(
            graph.classes, self.classes_
        )
        if self.seen_ is None or not (alike and self.seen_.is_within(graph)):
            raise InputError(
                f"{graph.name}: not the graph of fit, on whose labelled nodes those "
                "that answer are fitted once more"
            )
        try:
            self.members_ = fit_on_all(graph, self.members_, NodeClassifier)
        except KeyboardInterrupt:
            self.interrupted_ = True
            return self
        nothing = np.array([], dtype=np.int64)
        self.seen_ = Seen.of(graph, Split(graph.labelled, nothing, nothing))
        self.params_ = self.params_ | {"refit": True}
        return self

    def move(
        self,
        device: str | None = None,
        *,
        batch_size: int | None = None,
        memory_limit: float | None = None,
    ) -> NodeClassifier:
        """Have a fitted model predict on another device, or within other bounds.

        Parameters
        ----------
        device, batch_size, memory_limit
            As of `NodeClassifier`; None leaves it as it is.
        """
        check_fitted(self)
        bounds = {"batch_size": batch_size, "memory_limit": memory_limit}
        given = {name: value for name, value in bounds.items() if value is not None}
        for one in self.members_:
            one.classifier.move(device, memory_limit=memory_limit)
            with suppress(InputError):  # what does not go with it
                one.classifier.move(batch_size=batch_size)
        params = self.params_ | given
        if self.module_ is not None:
            check_rings(params)
            check_batches(params, self.module_)
        self.params_ = params
        if device is not None:
            self.device_ = resolve_device(device)
            if self.module_ is not None:
                self.module_ = self.module_.to(self.device_)
        return self

    def check_params(self, n_classes: int = 2) -> tuple[TrainConfig, torch.device]:
        """Raise where a parameter is out of its range; `fit` does so first.

        Parameters
        ----------
        n_classes
            Number of classes, which some options must fit.
        """
        check_integer("n_classes", n_classes, 0, 2**31 - 1)
        return check_params(self.get_params(), n_classes)

    def resolved_params(self) -> dict[str, Any]:
        """Return the parameters with the model's own in place of None."""
        return resolve_params(self.get_params())

    def predict(
        self,
        graph: Graph,
        nodes: ArrayLike | None = None,
        *,
        decision: DecisionRule | None = None,
    ) -> NDArray[Any]:
        """Return the label of each node (or of `nodes`), [n].

        Parameters
        ----------
        graph
            The graph of `fit`, or another.
        nodes
            Indices or a mask; None is all nodes.
        decision
            Of `decide` or `DecisionRule.from_costs`, by the probabilities; None says
            the class with the largest logit, as training went for.
        """
        _check_decision(decision)
        logits = self.predict_logits(graph, nodes)
        if decision is None:
            labels: NDArray[Any] = self.classes_of(logits)
            return labels
        return np.asarray(self.classes_[decision(self.probabilities_of(logits))])

    def predict_proba(
        self, graph: Graph, nodes: ArrayLike | None = None
    ) -> NDArray[np.float32]:
        """Return a probability for each class in the order of `classes_`, [n, C].

        They are calibrated by the validation nodes, which have chosen the epoch too:
        on other nodes they are a little too sure. With `calibrate=False`, and of a
        model that was saved without a calibration, they are the softmax of the logits.
        With class weights the likeliest class may be another than `predict` says.
        """
        return self.probabilities_of(self.predict_logits(graph, nodes))

    def predict_table(
        self,
        graph: Graph,
        nodes: ArrayLike | None = None,
        *,
        decision: DecisionRule | None = None,
    ) -> pa.Table:
        """Return labels and probabilities as a table of Arrow; `to_pandas()` has it so.

        Parameters
        ----------
        graph, nodes, decision
            As of `predict`.

        Returns
        -------
        pyarrow.Table
            A row for each node: its id, in a column called as in the node table that
            the graph was read from (else `node`), `label`, and `p_<class>` for each
            class: what `h2gcn predict` writes.
        """
        _check_decision(decision)
        logits = self.predict_logits(graph, nodes)
        index = slice(None) if nodes is None else check_nodes(graph, nodes)
        shares = self.probabilities_of(logits)
        found = logits.argmax(axis=1) if decision is None else decision(shares)
        return prediction_table(
            graph.node_ids[index],
            self.classes_[found],
            shares,
            self.classes_,
            id_column=graph.record.id_column,
        )

    def probabilities_of(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the probabilities of logits such as those of `predict_blocks`."""
        check_fitted(self)
        logits = self._as_scores("logits", logits)
        if self.calibration_ is None:
            return probabilities(logits)
        return self.calibration_(logits)

    def predict_set(
        self,
        graph: Graph,
        alpha: float = 0.1,
        nodes: ArrayLike | None = None,
        *,
        calibration: ArrayLike | None = None,
        allow_empty: bool = True,
    ) -> NDArray[np.bool_]:
        """Return for each node the classes that it may be of, [n, C].

        The sets hold the true class of 1 − alpha of the nodes, as far as they are like
        the validation nodes: of the same graph, and not trained on. How far that can be
        off, by so many validation nodes, `coverage_words` says. Adaptive prediction
        sets, drawn by the seed and the number of the node, so that a node always has
        the same.

        Parameters
        ----------
        graph
            The graph of `fit`, or another that brings labels.
        alpha
            The share of nodes whose class may be missed.
        nodes
            Indices or a mask; None is all nodes.
        calibration
            Labelled nodes of the graph that training did not see, to set the sets by.
            None takes the validation nodes, and is for the graph of `fit` alone.
        allow_empty
            A set may be empty: where the model is surer than 1 − alpha, that is how no
            more is covered than was asked for. False puts the likeliest class there.
        """
        check_fitted(self)
        check_is_graph(graph)
        check_real("alpha", alpha, "(0, 1)")
        check_bool("allow_empty", allow_empty)
        if calibration is None and not (self.seen_ and self.seen_.is_of(graph)):
            raise InputError(
                f"{graph.name}: not the graph of fit, so that its sets would cover "
                "nobody knows how much; name labelled nodes of it in 'calibration'"
            )
        held_out, shares, y = self._held_out(graph, calibration, "calibration")
        index = np.arange(graph.n_nodes) if nodes is None else check_nodes(graph, nodes)
        own = aps_scores(shares, draws(held_out, self.seed_))[np.arange(len(y)), y]
        threshold = quantile(own, alpha)
        if np.isinf(threshold):
            warnings.warn(coverage_words(len(y), alpha), H2GCNWarning, stacklevel=2)
        return prediction_sets(
            self.predict_proba(graph, index),
            draws(index, self.seed_),
            threshold,
            allow_empty=allow_empty,
        )

    def coverage_words(self, alpha: float = 0.1) -> str:
        """Return in a sentence how well the coverage of `predict_set` is known."""
        check_fitted(self)
        check_real("alpha", alpha, "(0, 1)")
        return coverage_words(len(self._held_out(None, None)[2]), alpha)

    def decide(
        self,
        kind: str,
        *,
        label: Any = None,
        k: int | None = None,
        costs: ArrayLike | None = None,
        graph: Graph | None = None,
        nodes: ArrayLike | None = None,
    ) -> DecisionRule:
        """Return a decision for `predict`, chosen on the validation nodes.

        Parameters
        ----------
        kind
            "macro_f1"; "f1" of the class `label`; "top": the `k` nodes that most
            likely are of the class `label`; or "costs".
        label
            One of `classes_`.
        k
            How many nodes are to be of the class.
        costs
            What it costs to say a class (column) of a node of a class (row), in the
            order of `classes_`, [C, C].
        graph, nodes
            Other labelled nodes to choose by; both or none.

        Examples
        --------
        >>> from h2gcn.datasets import generate_graph
        >>> graph = generate_graph(n_nodes=300, homophily=0.1, seed=0)
        >>> clf = NodeClassifier("mlp", epochs=50, random_state=0).fit(graph)
        >>> labels = clf.predict(graph, decision=clf.decide("macro_f1"))
        """
        check_fitted(self)
        check_choice("kind", kind, DECISIONS)
        if graph is not None:
            check_is_graph(graph)
        if (graph is None) != (nodes is None):
            raise InputError("'graph' and 'nodes' go together: nodes of that graph.")
        shares = np.zeros((0, len(self.classes_)), dtype=np.float32)
        y = np.zeros(0, dtype=np.int64)
        if kind not in ("top", "costs"):
            _, shares, y = self._held_out(graph, nodes)
        index = None if label is None else self._index_of(label)
        return choose_decision(kind, shares, y, index=index, k=k, costs=costs)

    def _index_of(self, label: Any) -> int:
        """Return the index of a class by its label, or by the text of it."""
        names = [str(name) for name in self.classes_]
        try:
            text = str(label)
        except Exception:  # of an object that has none
            text = short_repr(label)
        if text not in names:
            raise InputError(
                f"there is no class {short_repr(text)}.{nearest(text, names)} "
                f"The model knows {', '.join(names[:10])}"
                f"{' and others' if len(names) > 10 else ''}."
            )
        return names.index(text)

    def _held_out(
        self, graph: Graph | None, nodes: ArrayLike | None, name: str = "nodes"
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
        """Return held-out nodes, their probabilities and classes."""
        if graph is not None and nodes is not None:
            index = check_nodes(graph, nodes, name)
            if len(np.unique(index)) < len(index):
                raise InputError(f"'{name}': held-out nodes must be named once each.")
            y = match_labels(graph, index, self.classes_)
            return index, self.predict_proba(graph, index), y
        found = self.calibration_
        if found is None:
            raise InputError(
                "this model does not have its validation nodes (it is older, or was "
                "interrupted); name other labelled nodes instead"
            )
        return found.nodes, found.probabilities, found.y

    def predict_logits(
        self, graph: Graph, nodes: ArrayLike | None = None
    ) -> NDArray[np.float32]:
        """Return the logits of each node (or of `nodes`), [n, C].

        The graph may be another one than in `fit`: its own rings are computed, and
        its features scaled as the training graph's were. For a few of many nodes, no
        more of it is computed than they need; `Graph.with_nodes` adds new ones.
        """
        check_fitted(self)
        check_is_graph(graph)
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
        alone: bool | None = None,
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
        alone
            Whether no more is made of the graph than the nodes of each block need:
            less memory, and for many nodes more time. None is where that takes less.
        """
        check_fitted(self)
        check_is_graph(graph)
        if block_size is not None:
            check_integer("block_size", block_size, 1)
        if alone is not None:
            check_bool("alone", alone)
        index = None if nodes is None else check_nodes(graph, nodes)
        if index is not None:
            known = self.remembered(graph, index)
            if known is not None:
                return iter([(index, known)])
        if self.members_:
            return mean_blocks(
                self.members_, self.offsets_, graph, index, block_size, alone
            )
        assert self.module_ is not None
        device, model = self.device_, self.params_["model"]
        names = self.feature_names_in_
        small = is_small(graph)
        rings = prediction_options(self.params_, self.seed_, self.module_)
        given = self.params_["options"]
        size = self.params_["batch_size"] if block_size is None else block_size
        spec = find_model(model).with_options(given)
        drawn = self.params_["ring_cap"], self.seed_
        ready = spec.is_tabular and made_elsewhere(graph, index)
        if alone is None:
            alone = (
                index is not None
                and not ready
                and are_few(graph, spec, self.module_, self.schema_, index)
            )
        elif alone and not can_be_alone(graph, spec, self.module_):
            raise InputError(
                f"'alone': {model} looks at all of {graph.name} for each node, and "
                "cannot predict some by themselves."
            )
        if alone:
            index = np.arange(graph.n_nodes) if index is None else index
            some = logits_of_some(
                self.module_,
                rows_of_input(
                    graph,
                    self.seeds_,
                    self.scaler_,
                    names,
                    device,
                    self.schema_,
                    drawn,
                ),
                rows_of_operators(graph, spec, device, rings),
                index,
                size,
                device,
                small=small,
            )
            return finite_blocks(graph, some)
        with threads_for([graph], small=small):
            x = build_input(
                graph,
                self.seeds_,
                self.scaler_,
                names,
                device,
                self.schema_,
                drawn,
                recount=spec.labels,
                wanted=index if ready else None,
            )
            plan = plan_operators(graph, model, device, rings, given=given)
            operators = build_operators(plan)
            if spec.inputs == "labels":
                reached = find_reached(graph.adj, x)
                warn_of_unreached(reached if index is None else reached[index])
        blocks = logits_in_blocks(
            self.module_, x, operators, index, size, device, small=small
        )
        return finite_blocks(graph, blocks)

    def can_predict_alone(self, graph: Graph) -> bool:
        """Return whether nodes of a graph can be predicted without all others.

        Parameters
        ----------
        graph
            The graph of `fit`, or another.
        """
        check_fitted(self)
        check_is_graph(graph)
        if self.members_:
            return all(one.classifier.can_predict_alone(graph) for one in self.members_)
        assert self.module_ is not None
        spec = find_model(self.params_["model"]).with_options(self.params_["options"])
        return can_be_alone(graph, spec, self.module_)

    def prepare(self, graph: Graph) -> NodeClassifier:
        """Count and look up what predictions for some nodes of a graph take.

        It is remembered while the graph is in use, for itself and for all that is made
        of it by `with_nodes`: who answers request after request has the first one as
        quick as the others.

        Parameters
        ----------
        graph
            The graph of `fit`, or another.
        """
        check_fitted(self)
        check_is_graph(graph)
        for one in self.members_:
            one.classifier.prepare(graph)
        if not self.members_:
            spec = find_model(self.params_["model"]).with_options(
                self.params_["options"]
            )
            prepare_rows(graph, spec, self.seeds_)
        return self

    def classes_of(self, scores: NDArray[np.float32]) -> NDArray[Any]:
        """Return the label with the largest score in each row of [n, C]."""
        check_fitted(self)
        found = self._as_scores("scores", scores)
        return np.asarray(self.classes_[found.argmax(axis=1)])

    def _as_scores(self, name: str, scores: Any) -> NDArray[np.float32]:
        """Return a number for each node and class, or raise, [n, C]."""
        found = as_array(name, scores)
        width = len(self.classes_)
        if found.ndim != 2 or found.shape[1] != width or found.dtype.kind not in "biuf":
            raise InputError(
                f"must be numbers, [n, {width}], got shape {found.shape} and dtype "
                f"{found.dtype}",
                param=name,
            )
        return found

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
        check_fitted(self)
        check_is_graph(graph)
        index, *_ = nodes_to_score(self.seen_, graph, nodes)
        y = match_labels(graph, index, self.classes_)
        metric = self.params_["metric"]
        found = score(metric, y, self.predict_logits(graph, index))
        if np.isnan(found):
            warnings.warn(
                f"{metric} has no value: the nodes are all of one class",
                UndefinedMeasureWarning,
                stacklevel=2,
            )
        return found

    def evaluate(
        self,
        graph: Graph,
        nodes: ArrayLike | None = None,
        *,
        all_nodes: bool = False,
        times: ArrayLike | None = None,
        alpha: float = 0.1,
        resamples: int | None = None,
        seed: int = 0,
    ) -> ScoreCard:
        """Return every measure with its interval and floor, by class, degree and time.

        Parameters
        ----------
        graph
            The graph of `fit`, or another.
        nodes
            As of `score`: by default, nodes that training did not see.
        all_nodes
            Score all labelled nodes, those that training saw with them.
        times
            Dates (datetime64) or numbers to group the nodes by, [n].
        alpha
            The share that the sets of `predict_set` may miss, whose coverage is
            counted.
        resamples
            How often nodes are drawn for the intervals; None is 1,000, of more than
            100,000 nodes 200.
        seed
            Of these draws.

        Examples
        --------
        >>> from h2gcn.datasets import generate_graph
        >>> graph = generate_graph(n_nodes=300, homophily=0.1, seed=0)
        >>> clf = NodeClassifier("mlp", epochs=50, random_state=0).fit(graph)
        >>> card = clf.evaluate(graph)
        >>> card.rule, card.nodes, round(card.measures["accuracy"].floor, 2)
        ('test', 150, 0.2)
        """
        check_fitted(self)
        check_is_graph(graph)
        check_bool("all_nodes", all_nodes)
        found = nodes_to_score(self.seen_, graph, nodes, all_nodes=all_nodes)
        return score_model(
            self,
            graph,
            found,
            times=times,
            alpha=alpha,
            resamples=resamples,
            seed=seed,
        )

    def explain(self, graph: Graph, node: int, *, label: Any = None) -> Explanation:
        """Return why the model says of a node what it says.

        Where the model is linear from some stage on, the logit is an exact sum of
        terms: blocks of columns or paths of rings, and of each its single columns and
        neighbours as far as `Explanation.how` says. Else the terms are what changes
        when a part is left out.

        Parameters
        ----------
        graph
            The graph of `fit`, or another.
        node
            Its index.
        label
            The class that is explained, one of `classes_`; None is the one that
            `predict` says.

        Examples
        --------
        >>> from h2gcn.datasets import generate_graph
        >>> graph = generate_graph(n_nodes=300, homophily=0.1, seed=0)
        >>> clf = NodeClassifier("logistic", random_state=0).fit(graph)
        >>> found = clf.explain(graph, 7)
        >>> abs(sum(term.value for term in found.terms) - found.logit) < 1e-5
        True
        """
        check_fitted(self)
        check_is_graph(graph)
        index = check_integer("node", node, 0, graph.n_nodes - 1)
        wanted = None if label is None else self._index_of(label)
        with threads_for([graph], small=is_small(graph)):
            return explain_node(self, graph, index, wanted)

    def importance(
        self,
        graph: Graph,
        nodes: ArrayLike | None = None,
        *,
        repeats: int = 5,
        columns: int = 20,
        random_state: int = 0,
        on_step: Callable[[int, int], None] | None = None,
    ) -> Importance:
        """Return which blocks and columns matter, by permutation on held-out nodes.

        What another node has is put in the place of a column, a block of the ring
        table, or a node's place in the graph; the more the score falls and the
        log-loss rises, the more the model needs it. Of columns that say the same,
        each alone may seem to matter little.

        Parameters
        ----------
        graph, nodes
            As of `score`: by default nodes that training did not see.
        repeats
            How often each is permuted.
        columns
            So many single columns are tried at most.
        random_state
            Seed of the permutations.
        on_step
            Called after each permutation with how many are done, and of how many.
        """
        check_fitted(self)
        check_is_graph(graph)
        check_integer("repeats", repeats, 1, 1000)
        check_integer("columns", columns, 0)
        check_integer("random_state", random_state, 0, 2**32 - 1)
        check_callable("on_step", on_step)
        index, *_ = nodes_to_score(self.seen_, graph, nodes)
        if len(index) < 2:
            raise InputError(
                f"{graph.name}: importance needs two or more held-out nodes with "
                f"labels, to change places, got {len(index)}"
            )
        with threads_for([graph], small=is_small(graph)):
            return measure_importance(
                self,
                graph,
                index,
                repeats=repeats,
                columns=columns,
                seed=random_state,
                on_step=on_step,
            )

    def _repr_html_(self) -> str:
        """Return a card for notebooks, and of a fitted model what it has learned."""
        given = self.changed_params().items()
        return html_card("NodeClassifier", given) + fitted_card(self)

    def save(self, path: str | Path) -> None:
        """Write the classifier to a folder: safetensors and JSON, no pickle."""
        save_bundle(self, check_path("path", path))

    @classmethod
    def load(cls, path: str | Path) -> NodeClassifier:
        """Read a classifier that `save` wrote."""
        return load_bundle(check_path("path", path))


def _check_decision(decision: object) -> None:
    if decision is not None:
        rule = "a DecisionRule, as 'decide' returns it"
        check_type("decision", decision, DecisionRule, rule)


def save_bundle(
    classifier: NodeClassifier,
    path: Path,
    *,
    extra: dict[str, Any] | None = None,
    force: bool = True,
) -> None:
    """Write a fitted classifier to a folder.

    Parameters
    ----------
    classifier
        Fitted.
    path
        The folder; one that is there is replaced only if it is a saved model.
    extra
        Further facts to keep with it (the card, the scores, …).
    force
        Whether a saved model that is already there is replaced.
    """
    check_fitted(classifier)
    facts = {"tables": classifier.tables_} | (extra or {})
    write_model(path, _to_saved(classifier, facts), force=force)


def _to_saved(classifier: NodeClassifier, extra: dict[str, Any]) -> SavedModel:
    module = classifier.module_
    return SavedModel(
        params=classifier.params_,
        classes=classifier.classes_,
        features=classifier.feature_names_in_,
        scaler=classifier.scaler_,
        weights={} if module is None else module.state_dict(),
        known_labels=classifier.seeds_,
        schema=classifier.schema_,
        seen=classifier.seen_,
        calibration=classifier.calibration_,
        best_epoch=classifier.best_epoch_,
        val_score=classifier.val_score_,
        seed=classifier.seed_,
        extra=extra,
        members=tuple(
            SavedMember(
                one.name, one.weight, one.temperature, _to_saved(one.classifier, {})
            )
            for one in classifier.members_
        ),
        leaderboard=classifier.leaderboard_,
        offsets=tuple(classifier.offsets_.tolist()),
    )


def load_bundle(path: Path) -> NodeClassifier:
    """Read a classifier that `save_bundle` wrote, and check it."""
    return _from_saved(read_model(path), path)


def check_types(params: Mapping[str, Any], where: object, at: str = "") -> None:
    """Refuse parameters of a file whose names or types are not a classifier's.

    Parameters
    ----------
    params
        By name; those that are not there have their defaults.
    where, at
        What they are of, and the field that they are, for messages.
    """
    conform(_params_schema(), dict(params), where, at)


@cache
def _params_schema() -> type[msgspec.Struct]:
    """Return the schema of parameters, as `NodeClassifier` declares them."""
    hints = get_type_hints(NodeClassifier.__init__)
    hints["random_state"] = RandomState | None
    fields = [
        (name, hints[name], parameter.default)
        for name, parameter in signature(NodeClassifier).parameters.items()
        if name != "verbose"
    ]
    return msgspec.defstruct("Params", fields, forbid_unknown_fields=True)


def _from_saved(saved: SavedModel, path: Path) -> NodeClassifier:
    file = path / MANIFEST
    check_types(saved.params, file, "params")
    classifier = NodeClassifier(**saved.params)
    params = classifier.get_params()
    try:
        check_params(params, len(saved.classes))
    except InputError as error:
        raise error.at(str(file)) from None
    del params["verbose"]
    if (params["model"] == AUTO) != bool(saved.members):
        raise InputError(
            "members are what 'auto' has, and no other model", where=str(file)
        )
    classifier.classes_ = saved.classes
    classifier.feature_names_in_ = saved.features
    classifier.n_features_in_ = len(saved.features)
    classifier.tables_ = dict(saved.extra.get("tables", {}))
    classifier.scaler_ = saved.scaler
    classifier.seeds_ = saved.known_labels
    classifier.schema_ = saved.schema
    classifier.seen_ = saved.seen
    classifier.calibration_ = saved.calibration
    classifier.params_ = params
    classifier.device_ = resolve_device(classifier.device)
    classifier.module_ = None
    if params["model"] != AUTO:
        classifier.module_ = _module(params, saved, path).to(classifier.device_).eval()
    classifier.members_ = tuple(
        Answering(
            m.name,
            m.weight,
            m.temperature,
            _from_saved(m.model, path / member_folder(number, m.name)),
        )
        for number, m in enumerate(saved.members)
    )
    classifier.leaderboard_ = saved.leaderboard
    classifier.contest_ = None
    classifier.offsets_ = np.array(saved.offsets or np.zeros(len(saved.classes)))
    classifier.best_epoch_ = saved.best_epoch
    classifier.val_score_ = saved.val_score
    classifier.seed_ = saved.seed
    return classifier


def _module(params: Params, saved: SavedModel, path: Path) -> NodeModule:
    """Return the module of a saved model, with its weights."""
    file, spec = path / MANIFEST, spec_of(params)
    n_features, n_classes = len(saved.features), len(saved.classes)
    if (saved.schema is not None) != (spec.inputs == "table"):
        lacks = "lacks" if saved.schema is None else "has"
        raise InputError(f"{lacks} the blocks of the ring table", where=str(file))
    if spec.takes_labels(saved.schema) and saved.known_labels is None:
        raise InputError("lacks the labels of the training nodes", where=str(file))
    width = input_width(params, n_features, n_classes, saved.schema)
    try:
        module = blank_module(params, width, n_classes)
    except InputError as error:
        raise error.at(str(file)) from None
    load_weights(module, saved, path)
    return module
