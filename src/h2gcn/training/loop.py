"""The training loop: stages of epochs and steps, as a model's `fit` asks for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from h2gcn.exceptions import InputError
from h2gcn.features import Input
from h2gcn.graph import Split
from h2gcn.sparse import LinearMap, Propagation, StepCache, steady_memory
from h2gcn.training.batches import Batches, FullBatch, MiniBatches, Subgraph
from h2gcn.training.checkpoint import Checkpoint
from h2gcn.training.distributed import SINGLE, Communicator
from h2gcn.training.journal import Journal
from h2gcn.training.limits import time_is_up
from h2gcn.training.metrics import OF_TWO_CLASSES, score
from h2gcn.training.module import NodeModule
from h2gcn.training.optim import TrainConfig, class_weights, make_optimizer, node_loss
from h2gcn.training.seeding import seeded
from h2gcn.training.stopping import Epoch, make_rule
from h2gcn.training.threads import threads_for

__all__ = ["TrainResult", "Trainer"]

Loss = Callable[[], Tensor]  # of the whole graph, in training mode


@dataclass(frozen=True)
class TrainResult:
    """The result of training; the module holds the weights of the best epoch."""

    best_epoch: int
    val_score: float
    history: tuple[Epoch, ...]
    seconds: float
    interrupted: bool = False


class Trainer:
    """Trains a module on a graph, in place; `NodeModule.fit` says how.

    `run` calls `fit`, which calls `train`, `pretrain` and `minimize`. Each of these
    calls is a stage. A checkpoint keeps the weights and the random state after every
    finished stage, so that a resumed training replays these without a step.

    `fit` runs without gradients and in evaluation mode; steps of stages run with
    gradients and in training mode.

    Parameters
    ----------
    y
        Class indices, [n].
    on_epoch
        Called after every epoch of `train`.
    checkpoint
        Where the state is written from time to time, at Ctrl-C and at the end. A
        training that goes on from it ends with the same bits.
    comm
        The processes that train together. Each passes its own rows of `x` and of the
        matrices, and all of `y` and of the split; rank 0 alone has the checkpoint.

    Attributes
    ----------
    graph
        All nodes, with the matrices.
    index, labels
        The training nodes and their classes, [m] each.
    val_index, val_labels
        The validation nodes and their classes.
    class_weights
        Weights of the classes in the loss, [C]; None where all nodes count the same.
    best_iteration
        A fit without epochs may store here how many iterations it kept.
    """

    def __init__(
        self,
        module: NodeModule,
        x: Input,
        matrices: Sequence[LinearMap],
        y: NDArray[np.int64],
        split: Split,
        config: TrainConfig,
        *,
        seed: int = 0,
        on_epoch: Callable[[Epoch], None] | None = None,
        checkpoint: Checkpoint | None = None,
        comm: Communicator = SINGLE,
    ) -> None:
        if config.metric in OF_TWO_CLASSES and len(np.unique(y[split.val])) < 2:
            raise InputError(
                f"the metric {config.metric} needs both classes among the validation "
                "nodes; they are all of one"
            )
        self.module, self.x, self.graph = module, x, Propagation(matrices)
        self.config, self.split, self.seed, self.comm = config, split, seed, comm
        self.device = x.device
        self._y = torch.from_numpy(y).to(self.device)
        if comm is not SINGLE:  # gathered rows are in ascending order
            self.split = split = replace(split, val=np.sort(split.val))
        self.index, self.val_index = (
            torch.from_numpy(nodes).to(self.device)
            for nodes in (split.train, split.val)
        )
        self.labels, self.val_labels = self._y[self.index], self._y[self.val_index]
        self.class_weights = class_weights(config.class_weight, self._y, self.index)
        self.best_iteration = 0
        self._trained: NodeModule | None = None
        self._checkpoint, self._on_epoch = checkpoint, on_epoch
        snapshot = comm.broadcast(None if checkpoint is None else checkpoint.found)
        keep = make_rule(config.stopping, config.patience)
        self._journal = Journal(module, keep, snapshot)
        self._batches: dict[NodeModule, Batches] = {}
        self._cache: StepCache = {}
        self._stack = ExitStack()

    def train(
        self,
        module: NodeModule | None = None,
        *,
        loss: Loss | None = None,
        epochs: int | None = None,
    ) -> None:
        """Train for epochs, each scored on the validation nodes.

        It ends with the weights of the best epoch so far, of this stage or of one
        before it.

        Parameters
        ----------
        module
            What is trained and scored: a part of the module, which is the default.
        loss
            By default the cross-entropy of the training nodes, in batches if there are
            any.
        epochs
            By default those of the configuration.
        """
        limit = self.config.epochs if epochs is None else epochs
        self._trained = module = self.module if module is None else module
        journal = self._journal
        if not journal.enter(limit):
            return
        decayed = self.module.decayed_parameters()
        optimizer = make_optimizer(self.config, module.parameters(), decayed)
        rule = make_rule(self.config.stopping, self.config.patience)
        stopped = journal.resume(optimizer, rule, limit)
        batches = self._find_batches(module)
        while not stopped and len(journal.history) - journal.begin < limit:
            epoch = self._run_epoch(module, optimizer, batches, loss)
            journal.add(epoch)
            stopped = rule(replace(epoch, number=epoch.number - journal.begin)).stop
            if epoch.number == 1:  # later epochs need the same memory
                self._stack.enter_context(steady_memory())
            if self._checkpoint is not None:
                self._checkpoint.keep(journal.snapshot(optimizer, stopped))
            if self._on_epoch is not None:
                self._on_epoch(epoch)
        self.module.load_state_dict(journal.best_weights)
        self._cache.clear()
        journal.leave(limit)

    def pretrain(self, part: NodeModule, epochs: int) -> None:
        """Train a part alone for epochs of its own; it ends with its best weights.

        The part takes the same `x` and no matrices. Its epochs are not reported, and a
        checkpoint has them once the stage has ended.
        """
        epochs = min(epochs, self.config.epochs)
        if self._journal.enter(epochs):
            config = replace(self.config, epochs=epochs)
            y = self._y.cpu().numpy()
            inner = Trainer(part, self.x, (), y, self.split, config, seed=self.seed)
            with inner._stack:
                inner.train()
            self._journal.leave(epochs)

    def minimize(
        self, loss: Loss, parameters: Iterable[nn.Parameter], steps: int
    ) -> None:
        """Take steps on some parameters, which no validation follows."""
        if not self._journal.enter(steps):
            return
        decayed = self.module.decayed_parameters()
        optimizer = make_optimizer(self.config, parameters, decayed)
        for _ in range(steps):
            self._check_finite(self._step(optimizer, loss))
        self._journal.leave(steps)

    def with_known(self, values: Tensor) -> Tensor:
        """Return values, [n, C], with one-hot rows for the training nodes, in place."""
        known = functional.one_hot(self.labels, values.shape[1])
        values[self.index] = known.to(values.dtype)
        return values

    def split_epochs(self, count: int) -> list[int]:
        """Return equal numbers of epochs for a number of stages; the first get more."""
        return [len(part) for part in np.array_split(range(self.config.epochs), count)]

    def time_is_up(self, fraction: float = 1.0) -> bool:
        """Return whether a fraction of the time of a fit without epochs is used up."""
        return time_is_up(fraction)

    def run(self) -> TrainResult:
        """Train the module, and leave it with the weights of its best epoch.

        Ctrl-C ends the training and keeps the best epoch so far.
        """
        journal, interrupted = self._journal, False
        with self._stack as stack:
            stack.enter_context(seeded(self.seed, self.device))
            stack.enter_context(threads_for([self.x, *self.graph.matrices]))
            stack.enter_context(torch.no_grad())
            self.module.eval()
            try:
                self.module.fit(self)
            except KeyboardInterrupt:
                interrupted = True
                if journal.best is None:
                    raise
                self.module.load_state_dict(journal.best_weights)
                self.module.eval()
        if self._checkpoint is not None:
            self._checkpoint.save()
        val_score = self._val_score()
        epoch = self.best_iteration if journal.best is None else journal.best.number
        history = tuple(journal.history)
        return TrainResult(epoch, val_score, history, journal.seconds, interrupted)

    @torch.no_grad()
    def _val_score(self) -> float:
        best = self._journal.best
        if best is not None and self._trained is self.module:
            return best.val_score
        graph = Propagation(self.graph.matrices, self.val_index)
        return self._score(self.module(self.x, graph))

    def _find_batches(self, module: NodeModule) -> Batches:
        """Return the batches of a module, the same ones in all its stages."""
        if module not in self._batches:
            hops, size = module.receptive_field, self.config.batch_size
            data = self.x, self.graph.matrices if hops != 0 else (), self.split
            if size is None:
                own, cache = self.comm.own, self._cache
                self._batches[module] = FullBatch(*data, own=own, cache=cache)
            else:
                assert hops is not None  # see `NodeModule.batch_problem`
                self._batches[module] = MiniBatches(*data, size, hops, self.seed)
        return self._batches[module]

    def _run_epoch(
        self,
        module: NodeModule,
        optimizer: torch.optim.Optimizer,
        batches: Batches,
        loss: Loss | None,
    ) -> Epoch:
        number, total, n_nodes = len(self._journal.history) + 1, 0.0, 0
        if loss is not None:
            total, n_nodes = self._step(optimizer, loss, module), 1
        for batch in batches.steps(number) if loss is None else ():
            # All processes take a step together, on all training nodes.
            n = len(batch.nodes) if self.comm is SINGLE else len(self.index)
            batch_loss = partial(self._loss, module, batch, n)
            total += n * self._step(optimizer, batch_loss, module)
            n_nodes += n
        mean_loss, parts = total / n_nodes, batches.validation()
        local = torch.cat([module(part.x, part.graph) for part in parts])
        logits = self.comm.all_gather(local)
        self._check_finite(mean_loss, logits)
        val_loss = self._val_loss(module, logits)
        return Epoch(number, mean_loss, self._score(logits), val_loss)

    def _loss(self, module: NodeModule, batch: Subgraph, n: int) -> Tensor:
        logits = module(batch.x, batch.graph)
        return node_loss(logits, self._y[batch.nodes], self.class_weights, n)

    def _step(
        self,
        optimizer: torch.optim.Optimizer,
        loss: Loss,
        penalized: NodeModule | None = None,
    ) -> float:
        """Take one step; return the loss before it, summed over all processes."""
        self.module.train()
        optimizer.zero_grad()
        with torch.enable_grad():
            value = loss()
            penalty = None if penalized is None else penalized.penalty()
            if penalty is not None:
                value = value + penalty / self.comm.size
            value.backward()
        if self.comm is not SINGLE:
            for weight in self.module.parameters():
                if weight.grad is not None:
                    self.comm.all_reduce(weight.grad)
        optimizer.step()
        self._cache.clear()
        self.module.eval()
        return self.comm.all_reduce(value.detach()).item()

    def _score(self, logits: Tensor) -> float:
        labels = self.val_labels.cpu().numpy()
        return score(self.config.metric, labels, logits.cpu().numpy())

    def _val_loss(self, module: NodeModule, logits: Tensor) -> float:
        labels, weights = self.val_labels, self.class_weights
        loss = node_loss(logits, labels, weights, len(labels)).item()
        if self.config.stopping != "loss-mean":
            return loss
        squares = (w.square().sum().item() for w in module.decayed_parameters())
        return loss + self.config.l2 * sum(squares)

    def _check_finite(self, loss: float, logits: Tensor | None = None) -> None:
        finite = logits is None or bool(logits.isfinite().all())
        if not (finite and math.isfinite(loss)):
            epoch = len(self._journal.history) + 1
            raise InputError(
                f"training diverged in epoch {epoch} (the loss is {loss}); use a "
                "smaller learning rate, or scaled features"
            )
