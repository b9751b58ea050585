"""The training loop: which epoch is kept, what is penalized, and how stages follow."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from h2gcn import Graph, NodeClassifier, Split
from h2gcn.exceptions import InputError
from h2gcn.models import H2GCN, build_model, find_model
from h2gcn.sparse import Operator, Propagation
from h2gcn.training import (
    NodeModule,
    TrainConfig,
    Trainer,
    TrainResult,
    class_weights,
    seeded,
)
from h2gcn.training.metrics import accuracy
from h2gcn.training.optim import node_loss
from support.graphs import NAMED, cycle
from support.refusals import refused

SPLIT = Split(train=np.arange(0, 12), val=np.arange(12, 20), test=np.arange(20, 30))


Y = np.array([0, 1, 0, 1, 0, 1])
SCRIPT_SPLIT = Split(train=[0, 1], val=[2, 3, 4, 5], test=[])


class Scripted(NodeModule):
    """A model whose validation logits are given, one tensor for each epoch.

    Its only weight changes in every epoch.
    """

    def __init__(self, val_logits):
        super().__init__(1, 2)
        self.weight = nn.Parameter(torch.zeros(1))
        self.val_logits, self.epoch = val_logits, 0

    def decayed_parameters(self):
        return []

    def forward(self, _x, _graph):
        if self.training:
            self.epoch += 1
            return self.weight * torch.eye(2)
        return self.val_logits[self.epoch - 1]


def hits(count):
    """Return logits of the four validation nodes, with `count` of them right."""
    right = np.eye(2)[Y[2:]]
    right[count:] = 1 - right[count:]
    return torch.from_numpy(right.astype(np.float32))


def fit_script(model, *, split=SCRIPT_SPLIT, on_epoch=None, **config):
    data = torch.zeros(6, 1), (), Y, split, TrainConfig(**config)
    return Trainer(model, *data, on_epoch=on_epoch).run()


def test_training_keeps_the_best_epoch_and_the_latest_on_a_tie():
    for counts, patience, epochs, best in (
        ([1, 2, 3, 4], None, 4, 4),
        ([4, 3, 2, 1], None, 4, 1),
        ([1, 3, 2, 3, 2], None, 5, 4),
        ([2, 2, 2], None, 3, 3),
        ([1], None, 1, 1),
        ([1, 2, 2, 2, 2, 2, 2], 3, 5, 5),  # epoch 2 is the last that rises
        ([1, 2, 1, 1, 3, 1, 1, 1, 4], 3, 8, 5),
        ([1, 2, 1, 1, 3, 1, 1, 1, 4], 4, 9, 9),
    ):
        model, weights = Scripted([hits(count) for count in counts]), []
        result = fit_script(
            model,
            on_epoch=lambda _: weights.append(model.weight.item()),  # noqa: B023
            epochs=len(counts),
            patience=patience,
        )
        assert (len(result.history), result.best_epoch) == (epochs, best), counts
        assert result.val_score == counts[best - 1] / 4
        assert [epoch.val_score for epoch in result.history] == [
            count / 4 for count in counts[:epochs]
        ]
        assert model.weight.item() == weights[best - 1], "a copy, not the live weights"
        assert not result.interrupted
        assert not model.training


def test_the_metric_chooses_the_epoch():
    # Epoch 1 has all nodes in the right order; epoch 2 has three of four right.
    ordered = torch.tensor([[0.0, 2], [0, 4], [0, 1], [0, 5]])
    right = torch.tensor([[2.0, 0], [0, 1], [2, 0], [9, 0]])
    for metric, best, score in (("accuracy", 2, 0.75), ("roc_auc", 1, 1.0)):
        result = fit_script(Scripted([ordered, right]), epochs=2, metric=metric)
        assert (result.best_epoch, result.val_score) == (best, score)
    one_class = Split(train=[0, 1], val=[2, 4], test=[])
    for metric in ("roc_auc", "pr_auc"):
        with refused(words=f"the metric {metric} needs both classes"):
            fit_script(Scripted([]), split=one_class, metric=metric)


def test_an_interrupt_keeps_the_best_epoch_so_far():
    for at, best in ((1, 1), (2, 2), (4, 2), (5, 5)):
        model = Scripted([hits(count) for count in (1, 3, 2, 2, 4)])
        weights = []

        def on_epoch(epoch, at=at, model=model, weights=weights):
            weights.append(model.weight.item())
            if epoch.number == at:
                raise KeyboardInterrupt

        result = fit_script(model, epochs=5, on_epoch=on_epoch)
        assert result.interrupted
        assert (len(result.history), result.best_epoch) == (at, best)
        assert model.weight.item() == weights[best - 1]

    class Impatient(Scripted):
        def forward(self, x, graph):
            if self.training and self.epoch == len(self.val_logits):
                raise KeyboardInterrupt
            return super().forward(x, graph)

    result = fit_script(Impatient([hits(3), hits(2)]), epochs=3)
    assert (result.best_epoch, len(result.history)) == (1, 2)
    with pytest.raises(KeyboardInterrupt):  # there is no epoch to keep
        fit_script(Impatient([]), epochs=3)


def test_training_that_diverges_is_refused_in_its_epoch(small_graph):
    class Diverging(Scripted):
        def forward(self, x, graph):
            logits = super().forward(x, graph)
            spoiled = self.training and self.epoch == 2
            return logits - math.inf * torch.eye(2) if spoiled else logits

    with refused(words="training diverged in epoch 2 (the loss is "):
        fit_script(Diverging([hits(1)] * 3), epochs=3)
    for metric in ("accuracy", "roc_auc"):
        with refused(words="training diverged in epoch 1 (the loss is 0."):
            fit(small_graph, "h2gcn-1", metric=metric, learning_rate=1e38, l2=0.0)


def test_a_bad_configuration_is_named():
    for param, values in {
        "epochs": (0, 2.5),
        "patience": (0,),
        "learning_rate": (0, math.inf, "fast"),
        "l2": (-1e-5, math.nan),
        "metric": ("acuracy",),
        "optimizer": ("adamw",),
        "stopping": ("never",),
        "batch_size": (0,),
        "class_weight": ("even",),
    }.items():
        for value in values:
            with refused(param=param, value=value):
                TrainConfig(**{param: value})
    with refused(hint="did you mean 'accuracy'?"):
        TrainConfig(metric="acuracy")
    assert TrainConfig() == TrainConfig(2000, None, 0.01, 5e-4, "accuracy")


def build(name):
    with seeded(1):
        return build_model(name, 4, 2, {"hidden_channels": 3, "dropout": 0.0})


def fit(
    graph,
    name,
    *,
    y=None,
    split=SPLIT,
    dropout=0.0,
    seed=0,
    on_epoch=lambda _: None,
    **config,
):
    with seeded(1):
        options = {"hidden_channels": 3, "dropout": dropout}
        module = build_model(name, 4, 2, options)
    y = graph.y if y is None else y
    config = TrainConfig(**({"epochs": 8, "learning_rate": 0.05} | config))
    data = *inputs(name, graph), y, split, config
    note = {"on_epoch": lambda _: on_epoch(module)}
    return Trainer(module, *data, seed=seed, **note).run(), module


def inputs(name, graph):
    matrices = find_model(name).build_matrices(graph.adj)
    x = torch.from_numpy(np.asarray(graph.x)) / 3
    return x, tuple(Operator(matrix, symmetric=True) for matrix in matrices)


def weights_of(model):
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


def losses(result):
    return [epoch.loss for epoch in result.history]


def test_the_weights_left_behind_reproduce_the_validation_score(small_graph):
    for name in ("h2gcn-2", "gcn"):
        result, model = fit(
            small_graph, name, dropout=0.5, epochs=30, learning_rate=0.1
        )
        x, matrices = inputs(name, small_graph)
        logits = model(x, Propagation(matrices)).detach().numpy()
        assert accuracy(small_graph.y[SPLIT.val], logits[SPLIT.val]) == result.val_score


def test_training_is_adam_on_the_loss_with_the_penalty_spelled_out(small_graph):
    l2 = 0.3
    for name, n_penalized in (("h2gcn-1", 2), ("mlp", 2), ("gcn", 1)):
        seen = []
        note = lambda module, seen=seen: seen.append(weights_of(module))  # noqa: E731
        result, _ = fit(small_graph, name, on_epoch=note, l2=l2)
        by_hand = build(name).train()
        weights = list(by_hand.parameters())
        x, matrices = inputs(name, small_graph)
        labels = torch.from_numpy(small_graph.y[SPLIT.train])
        optimizer = torch.optim.Adam(weights, lr=0.05)
        for epoch, found in zip(result.history, seen, strict=True):
            optimizer.zero_grad()
            logits = by_hand(x, Propagation(matrices))[SPLIT.train]
            loss = nn.functional.cross_entropy(logits, labels)
            # All weights of H2GCN and the MLP; of GCN those of the first layer.
            penalty = sum((weight**2).sum() for weight in weights[:n_penalized])
            (loss + l2 * penalty).backward()
            optimizer.step()
            assert epoch.loss == pytest.approx(loss.item(), rel=1e-4)
            for key, weight in weights_of(by_hand).items():
                torch.testing.assert_close(found[key], weight, rtol=1e-3, atol=1e-4)


def test_labels_teach_only_where_they_may(small_graph):
    def flipped(part):
        y = small_graph.y.copy()
        y[part] = 1 - y[part]
        return y

    options = {"dropout": 0.5, "seed": 4, "epochs": 10}
    expected, reference = fit(small_graph, "h2gcn-2", **options)
    y = flipped(SPLIT.test)  # test labels have no influence
    for split in (SPLIT, Split(SPLIT.train, SPLIT.val, [])):
        result, module = fit(small_graph, "h2gcn-2", y=y, split=split, **options)
        assert result.history == expected.history
        for key, weight in weights_of(module).items():
            assert torch.equal(weight, weights_of(reference)[key])
    # Validation labels choose but do not teach.
    result, _ = fit(small_graph, "h2gcn-2", y=flipped(SPLIT.val), **options)
    assert losses(result) == losses(expected)


def test_the_seed_is_that_of_dropout_and_the_host_keeps_its_own(small_graph):
    torch.manual_seed(123)
    before = torch.get_rng_state()

    def run(dropout, seed):
        options = {"dropout": dropout, "seed": seed, "epochs": 4}
        return losses(fit(small_graph, "h2gcn-1", **options)[0])

    assert run(0.5, 1) == run(0.5, 1) != run(0.5, 2)
    assert run(0.0, 1) == run(0.0, 2)

    def fail(_):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        fit(small_graph, "h2gcn-1", dropout=0.5, on_epoch=fail)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_step_forgets_what_was_computed_from_the_weights_before(
    small_graph, monkeypatch
):
    forward = H2GCN.forward

    def leave_cached(self, x, graph):
        if self.training:  # takes nothing out of the cache
            graph = Propagation(graph.matrices, graph.index, graph.node_ids)
        return forward(self, x, graph)

    for name in ("h2gcn-1", "h2gcn-2", "h2gcn-nonlinear"):
        for dropout in (0.0, 0.5):
            with monkeypatch.context() as patch:
                patch.setattr(H2GCN, "forward", leave_cached)
                cached, _ = fit(small_graph, name, dropout=dropout, epochs=5)
                patch.setattr(Propagation, "cached", lambda _, f, *args: f(*args))
                fresh, _ = fit(small_graph, name, dropout=dropout, epochs=5)
            for one, other in zip(cached.history, fresh.history, strict=True):
                assert one.val_loss == pytest.approx(other.val_loss, rel=1e-5)


def test_balanced_classes_have_the_same_weight_in_the_loss():
    logits = torch.randn(30, 3, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(30) % 7 % 3
    weights = class_weights("balanced", labels, torch.arange(30))
    sums = torch.zeros(3).index_add(0, labels, weights[labels])
    torch.testing.assert_close(sums, torch.full((3,), 10.0))
    expected = nn.functional.cross_entropy(logits, labels, weight=weights)
    torch.testing.assert_close(node_loss(logits, labels, weights, 30), expected)
    # Batches weigh a class as all nodes together do.
    parts = [slice(i, i + 1) for i in range(30)]
    single = [node_loss(logits[one], labels[one], weights, 1) for one in parts]
    torch.testing.assert_close(torch.stack(single).mean(), expected)
    without = class_weights("balanced", labels, torch.nonzero(labels < 2)[:, 0])
    assert without[2] == 1  # of a class without training nodes


def test_balanced_classes_find_more_of_a_rare_one():
    rng = np.random.default_rng(0)
    y = (np.arange(200) % 12 == 0).astype(int)
    x = rng.normal(size=(200, 3)) + 1.2 * y[:, None]
    graph = Graph(x=x, adj=cycle(200), y=y)
    for size in (None, 16):
        found = {}
        for weight in (None, "balanced"):
            params = {"class_weight": weight, "batch_size": size, "random_state": 0}
            clf = NodeClassifier("mlp", epochs=60, **params).fit(graph)
            found[weight] = int((clf.predict(graph)[y == 1] == 1).sum())
        assert found["balanced"] > found[None] + 3
    with refused(param="class_weight", value="even"):
        NodeClassifier("mlp", class_weight="even").fit(graph)
    with refused(param="class_weight", words="'linbp': it has no epochs"):
        NodeClassifier("linbp", class_weight="balanced").fit(graph)


class Staged(NodeModule):
    """A module with two weights, whose fit is given; it records the order of steps."""

    def __init__(self, fit):
        super().__init__(1, 2)
        self.a = nn.Parameter(torch.zeros(1))
        self.b = nn.Parameter(torch.zeros(1))
        self.steps = []
        self._fit = fit

    def fit(self, trainer):
        assert not torch.is_grad_enabled()
        assert not self.training
        self._fit(self, trainer)

    def loss(self, name):
        def loss():
            assert torch.is_grad_enabled()
            assert self.training
            self.steps.append(name)
            return getattr(self, name).sum()

        return loss

    def forward(self, x, graph):
        # The validation nodes are right after the first step on `a` only.
        right = torch.where((self.a < -0.4) & (self.a > -0.6), 1.0, -1.0)
        sign = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])[:, None]
        logits = torch.cat([right * sign, -right * sign], dim=1)
        return graph.pick(logits + 0 * x * (self.a + self.b))


def run_staged(fit, **config):
    module, operators = Staged(fit), (Operator(NAMED["disconnected"]),)
    config = {"optimizer": "sgd", "learning_rate": 0.5, "l2": 0.0, "epochs": 6} | config
    data = torch.ones(6, 1), operators, Y, SCRIPT_SPLIT, TrainConfig(**config)
    return Trainer(module, *data).run(), module


def test_stages_follow_each_other_and_begin_with_the_best_weights_so_far():
    began = []

    def fit(module, trainer):
        one, other = trainer.split_epochs(2)
        began.append((module.a.item(), module.b.item()))
        trainer.train(loss=module.loss("a"), epochs=one)
        began.append((module.a.item(), module.b.item()))
        trainer.minimize(module.loss("b"), [module.b], 2)
        began.append((module.a.item(), module.b.item()))
        trainer.train(loss=module.loss("b"), epochs=other)

    result, module = run_staged(fit)
    assert [epoch.val_score for epoch in result.history] == [1, 0, 0, 1, 1, 1]
    assert module.steps == 3 * ["a"] + 5 * ["b"]
    # Not -1.5, where the first stage ended; and what was minimized is not lost.
    assert began == [(0.0, 0.0), (-0.5, 0.0), (-0.5, -1.0)]
    assert result.best_epoch == 6  # the last of equal ones


def test_patience_and_windows_begin_anew_in_every_stage():
    def fit(module, trainer):
        for epochs in trainer.split_epochs(2):
            trainer.train(loss=module.loss("b"), epochs=epochs)

    # The score never rises after the first epoch of each stage.
    result, _ = run_staged(fit, epochs=100, patience=3)
    assert len(result.history) == 2 * 4
    for epochs, lengths in ((7, [4, 3]), (2, [1, 1]), (1, [1])):
        result, _ = run_staged(fit, epochs=epochs)
        assert len(result.history) == sum(lengths)


def test_a_trainer_shows_training_and_validation_labels_alone():
    def fit(_, trainer):
        assert (trainer.index.tolist(), trainer.labels.tolist()) == ([0, 1], [0, 1])
        assert trainer.val_index.tolist() == [2, 3, 4, 5]
        assert trainer.val_labels.tolist() == [0, 1, 0, 1]
        known = trainer.with_known(torch.full((6, 2), 0.5)).tolist()
        assert known == [[1.0, 0.0], [0.0, 1.0]] + 4 * [[0.5, 0.5]]
        assert not hasattr(trainer, "y")
        trainer.train()

    assert len(run_staged(fit, epochs=1)[0].history) == 1


def test_a_part_is_pretrained_alone_and_is_not_in_the_history(small_graph):
    with seeded(1):
        module = build_model("cpgnn", 4, 2, {"hidden_channels": 3})
    before, epochs = weights_of(module.prior), []
    data = *inputs("cpgnn", small_graph), small_graph.y, SPLIT
    config = TrainConfig(epochs=3, learning_rate=0.05)
    note = lambda epoch: epochs.append(epoch.number)  # noqa: E731
    result = Trainer(module, *data, config, on_epoch=note).run()
    assert epochs == [1, 2, 3] == [epoch.number for epoch in result.history]
    with seeded(1):
        fresh = build_model("cpgnn", 4, 2, {"hidden_channels": 3})
    with torch.no_grad():
        Trainer(fresh, *data, config).pretrain(fresh.prior, 2)
    after = weights_of(fresh.prior)
    assert all((before[key] != weight).any() for key, weight in after.items())


def stop_now(*_):
    raise KeyboardInterrupt


def test_interrupts_and_divergence_between_epochs():
    def stop(module, trainer):
        trainer.train(loss=module.loss("a"), epochs=2)
        raise KeyboardInterrupt

    result, module = run_staged(stop, stopping="loss-mean")
    assert result.interrupted
    assert (len(result.history), result.best_epoch, module.a.item()) == (2, 2, -1.0)

    def diverge(module, trainer):
        trainer.train(loss=module.loss("a"), epochs=2)
        trainer.minimize(lambda: module.b.sum() * math.nan, [module.b], 1)

    with refused(words="training diverged in epoch 3 "):
        run_staged(diverge)

    with pytest.raises(KeyboardInterrupt):  # there is no epoch to keep
        run_staged(stop_now)


def test_a_model_in_closed_form_is_scored_and_not_trained():
    y = np.array([0, 1, 0, 1, 0])
    split = Split(train=[0, 1, 4], val=[2, 3], test=[])
    known = torch.zeros(5, 2)
    known[[0, 1, 4], [0, 1, 0]] = 1
    spec = find_model("label-propagation")
    operators = tuple(Operator(m) for m in spec.build_matrices(NAMED["path"]))
    module = build_model("label-propagation", 2, 2, {"alpha": 0.1})
    result = Trainer(module, known, operators, y, split, TrainConfig()).run()
    assert (result.best_epoch, result.history) == (0, ())
    assert result.val_score == 0.0  # each node is next to the other class
    assert isinstance(result, TrainResult)
    with pytest.raises(InputError):
        build_model("label-propagation", 2, 2, {"alpha": 2})
