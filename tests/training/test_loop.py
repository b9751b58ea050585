"""The training loop: which epoch is kept, what is penalised, what is not looked at."""

import math
from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from h2gcn import Graph, NodeClassifier, Split
from h2gcn.exceptions import InputError
from h2gcn.models import MODELS, NodeModule, build_model, find_model
from h2gcn.sparse import Operator, seeded
from h2gcn.training import Epoch, TrainConfig, checkpoint, fit_module, loop
from h2gcn.training.loop import TrainResult, class_weights, node_loss, train
from h2gcn.training.metrics import accuracy
from support.cases import each
from support.graphs import NAMED, adjacency
from support.refusals import only, refused

SPLIT = Split(train=np.arange(0, 12), val=np.arange(12, 20), test=np.arange(20, 30))


# ---------------------------------------------------------------- a scripted model

Y = np.array([0, 1, 0, 1, 0, 1])
SCRIPT_SPLIT = Split(train=[0, 1], val=[2, 3, 4, 5], test=[])


class Scripted(NodeModule):
    """A model whose validation logits are given, an entry for each epoch.

    Its one weight rises with every epoch, so that each epoch has its own.
    """

    def __init__(self, val_logits: list[Tensor]) -> None:
        super().__init__(1, 2)
        self.weight = nn.Parameter(torch.zeros(1))
        self.val_logits = val_logits
        self.epoch = 0

    def regularised(self) -> list[nn.Parameter]:
        """Return no weight: the penalty would blur what each epoch did."""
        return []

    def forward(self, _x: Tensor, _operators: object, _target: object) -> Tensor:
        """Return logits of the two training nodes, or what the script says."""
        if self.training:
            self.epoch += 1
            return self.weight * torch.eye(2)
        return self.val_logits[self.epoch - 1]


def hits(count: int) -> Tensor:
    """Return logits of the four validation nodes, of which `count` are right."""
    right = np.eye(2)[Y[2:]]
    right[count:] = 1 - right[count:]
    return torch.from_numpy(right.astype(np.float32))


def run_script(
    counts: list[int], **options: object
) -> tuple[TrainResult, float, list[float]]:
    """Train on scripted hits; return the result, the weight, and each epoch's."""
    model = Scripted([hits(count) for count in counts])
    weights: list[float] = []
    result = train(
        model,
        torch.zeros(6, 1),
        (),
        Y,
        SCRIPT_SPLIT,
        TrainConfig(epochs=len(counts), **options),
        on_epoch=lambda _: weights.append(model.weight.item()),
    )
    assert len(set(weights)) == len(weights)
    return result, model.weight.item(), weights


@each(
    ("counts", "best"),
    [
        ([1, 2, 3, 4], 4),
        ([4, 3, 2, 1], 1),
        ([1, 3, 2, 3, 2], 4),
        ([2, 2, 2], 3),
        ([0, 0], 2),
        ([0, 4, 0], 2),
        ([1], 1),
    ],
)
def test_the_best_epoch_is_kept_and_the_latest_on_a_tie(
    counts: list[int], best: int
) -> None:
    result, weight, weights = run_script(counts)
    assert result.best_epoch == best
    assert result.val_score == max(counts) / 4
    assert weight == weights[best - 1]
    assert [epoch.val_score for epoch in result.history] == [c / 4 for c in counts]
    assert [epoch.number for epoch in result.history] == [*range(1, len(counts) + 1)]
    assert not result.interrupted
    assert result.seconds > 0


@each(
    ("counts", "patience", "epochs"),
    [
        # Epoch 2 is the last that rises; a tie is not a rise.
        ([1, 2, 2, 2, 2, 2, 2], 3, 5),
        ([1, 2, 1, 1, 3, 1, 1, 1, 4], 3, 8),
        ([1, 2, 1, 1, 3, 1, 1, 1, 4], 4, 9),
        ([4, 4, 4], 1, 2),
        ([0, 0, 0, 0], 2, 3),
        ([0, 1, 2, 3, 4], 1, 5),
        ([4, 0, 0, 0, 0], None, 5),
    ],
)
def test_patience_counts_the_epochs_since_the_last_rise(
    counts: list[int], patience: int | None, epochs: int
) -> None:
    result, weight, weights = run_script(counts, patience=patience)
    assert len(result.history) == epochs
    seen = counts[:epochs]
    last_best = max(i for i, count in enumerate(seen) if count == max(seen))
    assert result.best_epoch == last_best + 1
    assert weight == weights[last_best]


def test_the_metric_chooses_the_epoch() -> None:
    # Epoch 1: all are taken for class 1, but in the right order. Epoch 2: three
    # are right, and the fourth, of class 1, is below both of class 0.
    well_ordered = torch.tensor([[0.0, 2], [0, 4], [0, 1], [0, 5]])
    mostly_right = torch.tensor([[2.0, 0], [0, 1], [2, 0], [9, 0]])
    script = [well_ordered, mostly_right]
    assert [accuracy(Y[2:], logits.numpy()) for logits in script] == [0.5, 0.75]
    chosen = {
        metric: train(
            Scripted(script),
            torch.zeros(6, 1),
            (),
            Y,
            SCRIPT_SPLIT,
            TrainConfig(epochs=2, metric=metric),
        )
        for metric in ("accuracy", "roc_auc")
    }
    assert (chosen["accuracy"].best_epoch, chosen["accuracy"].val_score) == (2, 0.75)
    assert (chosen["roc_auc"].best_epoch, chosen["roc_auc"].val_score) == (1, 1.0)
    assert [epoch.val_score for epoch in chosen["roc_auc"].history] == [1.0, 0.5]


@each("metric", ["roc_auc", "pr_auc"])
def test_ranking_needs_both_classes_among_the_validation_nodes(metric: str) -> None:
    model = Scripted([hits(2)[:2], hits(2)[:2]])
    split = Split(train=[0, 1], val=[2, 4], test=[])  # one class: no ROC curve
    with pytest.raises(
        InputError,
        match=rf"the metric {metric} needs both classes among the validation nodes; "
        r"they are all of one\.",
    ):
        train(
            model,
            torch.zeros(6, 1),
            (),
            Y,
            split,
            TrainConfig(epochs=2, metric=metric),
        )


# -------------------------------------------------------------------- a real model


def build(name: str, *, dropout: float = 0.0, seed: int = 1) -> nn.Module:
    spec = MODELS[name]
    with seeded(seed):
        return spec.module(4, 2, hidden_channels=3, dropout=dropout, **spec.fixed)


def given(name: str, graph: Graph) -> tuple[Tensor, tuple[Operator, ...]]:
    operators = MODELS[name].operators(graph.adj)
    x = torch.from_numpy(np.asarray(graph.x)) / 3
    return x, tuple(Operator(matrix, symmetric=True) for matrix in operators)


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


@each("name", ["h2gcn-2", "gcn"])
def test_the_weights_left_behind_reproduce_the_validation_score(
    small_graph: Graph, name: str
) -> None:
    model = build(name, dropout=0.5)
    x, operators = given(name, small_graph)
    seen: list[dict[str, Tensor]] = []
    result = train(
        model,
        x,
        operators,
        small_graph.y,
        SPLIT,
        TrainConfig(epochs=30, learning_rate=0.1),
        on_epoch=lambda _: seen.append(weights_of(model)),
    )
    assert not model.training
    kept = weights_of(model)
    best = seen[result.best_epoch - 1]
    assert all(torch.equal(kept[key], best[key]) for key in kept)
    logits = model(x, operators).detach().numpy()
    assert accuracy(small_graph.y[SPLIT.val], logits[SPLIT.val]) == result.val_score


def test_best_weights_are_copies_not_the_live_ones() -> None:
    _, weight, weights = run_script([4, 0, 0, 0])
    assert weight == weights[0] != weights[-1]


@each(
    ("name", "penalised"),
    [
        ("h2gcn-1", {"embedding", "classifier"}),
        ("mlp", {"embedding", "classifier"}),
        ("gcn", {"first"}),
    ],
)
def test_l2_is_the_weight_of_the_squared_norm(
    small_graph: Graph, name: str, penalised: set[str]
) -> None:
    """Compare with Adam on a loss that spells the penalty out, step by step."""
    l2, epochs = 0.3, 8
    model = build(name)
    by_hand = deepcopy(model)
    x, operators = given(name, small_graph)
    seen: list[dict[str, Tensor]] = []
    result = train(
        model,
        x,
        operators,
        small_graph.y,
        SPLIT,
        TrainConfig(epochs=epochs, learning_rate=0.05, l2=l2),
        on_epoch=lambda _: seen.append(weights_of(model)),
    )
    labels = torch.from_numpy(small_graph.y[SPLIT.train])
    optimiser = torch.optim.Adam(by_hand.parameters(), lr=0.05)
    by_hand.train()
    for epoch in range(epochs):
        optimiser.zero_grad()
        cross_entropy = nn.functional.cross_entropy(
            by_hand(x, operators)[SPLIT.train], labels
        )
        penalty = sum(
            (weight**2).sum()
            for key, weight in by_hand.named_parameters()
            if key in penalised
        )
        (cross_entropy + l2 * penalty).backward()
        optimiser.step()
        assert result.history[epoch].loss == pytest.approx(
            cross_entropy.item(), rel=1e-4
        )
        for key, weight in by_hand.named_parameters():
            torch.testing.assert_close(
                seen[epoch][key], weight.detach(), rtol=1e-3, atol=1e-4
            )


def test_without_l2_nothing_is_penalised(small_graph: Graph) -> None:
    x, operators = given("gcn", small_graph)
    left = {}
    for l2 in (0.0, 1.0):
        model = build("gcn")
        train(
            model,
            x,
            operators,
            small_graph.y,
            SPLIT,
            TrainConfig(epochs=1, l2=l2, learning_rate=0.05),
        )
        left[l2] = weights_of(model)
    # The first step of Adam goes by signs: the penalty turns some of the first
    # layer's, and none of the second's.
    assert not torch.equal(left[0.0]["first"], left[1.0]["first"])
    assert torch.equal(left[0.0]["second"], left[1.0]["second"])


def test_the_test_part_has_no_influence(small_graph: Graph) -> None:
    x, operators = given("h2gcn-2", small_graph)
    flipped = small_graph.y.copy()
    flipped[SPLIT.test] = 1 - flipped[SPLIT.test]
    results = []
    for y, split in (
        (small_graph.y, SPLIT),
        (flipped, SPLIT),
        (flipped, Split(SPLIT.train, SPLIT.val, [])),
    ):
        model = build("h2gcn-2", dropout=0.5)
        result = train(model, x, operators, y, split, TrainConfig(epochs=10), seed=4)
        results.append((result.best_epoch, result.history, weights_of(model)))
    for best_epoch, history, weights in results[1:]:
        assert best_epoch == results[0][0]
        assert history == results[0][1]
        assert all(torch.equal(weights[key], results[0][2][key]) for key in weights)


def test_the_validation_labels_choose_but_do_not_teach(small_graph: Graph) -> None:
    x, operators = given("h2gcn-1", small_graph)
    flipped = small_graph.y.copy()
    flipped[SPLIT.val] = 1 - flipped[SPLIT.val]
    losses = []
    for y in (small_graph.y, flipped):
        result = train(build("h2gcn-1"), x, operators, y, SPLIT, TrainConfig(epochs=10))
        losses.append([epoch.loss for epoch in result.history])
    assert losses[0] == losses[1]


def test_the_seed_is_that_of_the_dropout(small_graph: Graph) -> None:
    x, operators = given("h2gcn-1", small_graph)

    def losses(dropout: float, seed: int) -> list[float]:
        model = build("h2gcn-1", dropout=dropout)
        config = TrainConfig(epochs=4)
        result = train(model, x, operators, small_graph.y, SPLIT, config, seed=seed)
        return [epoch.loss for epoch in result.history]

    assert losses(0.5, 1) == losses(0.5, 1)
    assert losses(0.5, 1) != losses(0.5, 2)
    assert losses(0.0, 1) == losses(0.0, 2)


@each("interrupt", [None, KeyboardInterrupt, RuntimeError])
def test_the_global_generator_is_left_as_it_was(
    small_graph: Graph, interrupt: type[BaseException] | None
) -> None:
    x, operators = given("h2gcn-1", small_graph)

    def on_epoch(epoch: Epoch) -> None:
        if interrupt is not None and epoch.number == 2:
            raise interrupt

    torch.manual_seed(123)
    before = torch.get_rng_state()
    arguments = (build("h2gcn-1", dropout=0.5), x, operators, small_graph.y, SPLIT)
    if interrupt is RuntimeError:
        with pytest.raises(RuntimeError):
            train(*arguments, TrainConfig(epochs=3), on_epoch=on_epoch)
    else:
        train(*arguments, TrainConfig(epochs=3), on_epoch=on_epoch)
    assert torch.equal(torch.get_rng_state(), before)


def test_on_epoch_sees_the_history_as_it_grows(small_graph: Graph) -> None:
    x, operators = given("mlp", small_graph)
    seen: list[Epoch] = []
    result = train(
        build("mlp"),
        x,
        operators,
        small_graph.y,
        SPLIT,
        TrainConfig(epochs=4),
        on_epoch=seen.append,
    )
    assert tuple(seen) == result.history
    assert len(seen) == 4


# -------------------------------------------------------------------- interruptions


@each(("at", "best"), [(1, 1), (2, 2), (3, 2), (4, 2), (5, 5)], ids=str)
def test_an_interrupt_keeps_the_best_epoch_so_far(at: int, best: int) -> None:
    model = Scripted([hits(count) for count in (1, 3, 2, 2, 4)])
    weights: list[float] = []

    def on_epoch(epoch: Epoch) -> None:
        weights.append(model.weight.item())
        if epoch.number == at:
            raise KeyboardInterrupt

    result = train(
        model,
        torch.zeros(6, 1),
        (),
        Y,
        SCRIPT_SPLIT,
        TrainConfig(epochs=5),
        on_epoch=on_epoch,
    )
    assert result.interrupted
    assert result.best_epoch == best
    assert len(result.history) == at
    assert model.weight.item() == weights[best - 1]
    assert not model.training


def test_an_interrupt_in_the_middle_of_an_epoch_forgets_that_epoch() -> None:
    class Impatient(Scripted):
        def forward(self, x: Tensor, operators: object, target: object) -> Tensor:
            if self.training and self.epoch == 2:
                raise KeyboardInterrupt
            return super().forward(x, operators, target)

    model = Impatient([hits(3), hits(2), hits(4)])
    result = train(model, torch.zeros(6, 1), (), Y, SCRIPT_SPLIT, TrainConfig(epochs=3))
    assert result.interrupted
    assert result.best_epoch == 1
    assert len(result.history) == 2


def test_an_interrupt_before_the_first_epoch_has_nothing_to_keep() -> None:
    class Interrupted(Scripted):
        def forward(self, _x: Tensor, _operators: object, _target: object) -> Tensor:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(
            Interrupted([]),
            torch.zeros(6, 1),
            (),
            Y,
            SCRIPT_SPLIT,
            TrainConfig(epochs=3),
        )


# --------------------------------------------------------------------- divergence


def diverge(graph: Graph, **options: object) -> TrainResult:
    x, operators = given("h2gcn-1", graph)
    config = TrainConfig(learning_rate=1e38, l2=0.0, **options)
    return train(build("h2gcn-1"), x, operators, graph.y, SPLIT, config)


@each("metric", ["accuracy", "roc_auc"])
@each("epochs", [1, 5])
def test_logits_that_diverge_are_an_error_in_the_epoch_itself(
    small_graph: Graph, metric: str, epochs: int
) -> None:
    with pytest.raises(
        InputError,
        match=r"training diverged in epoch 1 \(the loss is 0\.\d+\); use a smaller "
        r"learning rate, or scaled features\.",
    ):
        diverge(small_graph, epochs=epochs, metric=metric)


@each("value", [math.inf, math.nan])
def test_a_loss_that_diverges_is_an_error(value: float) -> None:
    class Diverging(Scripted):
        def forward(self, x: Tensor, operators: object, target: object) -> Tensor:
            logits = super().forward(x, operators, target)
            spoiled = self.training and self.epoch == 2
            return logits - value * torch.eye(2) if spoiled else logits

    with pytest.raises(
        InputError, match=r"training diverged in epoch 2 \(the loss is (inf|nan)\)"
    ):
        train(
            Diverging([hits(1)] * 3),
            torch.zeros(6, 1),
            (),
            Y,
            SCRIPT_SPLIT,
            TrainConfig(epochs=3),
        )


# --------------------------------------------------------------------------- config


@each(
    "options",
    [
        {"epochs": 0},
        {"epochs": 2.5},
        {"patience": 0},
        {"learning_rate": 0},
        {"learning_rate": math.inf},
        {"learning_rate": "fast"},
        {"l2": -1e-5},
        {"l2": math.nan},
        {"l2": math.inf},
        {"metric": "acuracy"},
    ],
)
def test_a_bad_configuration_is_named(options: dict[str, object]) -> None:
    with refused(**only(options)):
        TrainConfig(**options)


def test_the_defaults_are_the_papers() -> None:
    assert TrainConfig() == TrainConfig(2000, None, 0.01, 5e-4, "accuracy")
    assert TrainConfig(epochs=1, patience=1, l2=0).patience == 1


def rare_graph() -> Graph:
    """Return 200 nodes of which 16 are of a class that only features tell, weakly."""
    rng = np.random.default_rng(0)
    y = (np.arange(200) % 12 == 0).astype(int)
    x = rng.normal(size=(200, 3)) + 1.2 * y[:, None]
    return Graph(x=x, adj=adjacency(200, [(i, (i + 1) % 200) for i in range(200)]), y=y)


def test_balanced_classes_have_the_same_weight_in_the_loss() -> None:
    logits = torch.randn(30, 3, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(30) % 7 % 3
    weights = class_weights("balanced", labels, torch.arange(30))
    sums = torch.zeros(3).index_add(0, labels, weights[labels])
    torch.testing.assert_close(sums, torch.full((3,), 10.0))
    expected = torch.nn.functional.cross_entropy(logits, labels, weight=weights)
    torch.testing.assert_close(node_loss(logits, labels, weights, 30), expected)
    # Batches weigh a class as all nodes together do.
    parts = [slice(i, i + 1) for i in range(30)]
    single = [node_loss(logits[one], labels[one], weights, 1) for one in parts]
    torch.testing.assert_close(torch.stack(single).mean(), expected)
    # A class that is not in training has some weight, and no effect on the others.
    first = class_weights("balanced", labels, torch.nonzero(labels < 2).reshape(-1))
    assert first[2] == 1
    assert torch.isfinite(first).all()


@each("batch_size", [None, 16])
def test_balanced_classes_find_more_of_a_rare_one(batch_size: int | None) -> None:
    graph = rare_graph()
    found = {}
    for weight in (None, "balanced"):
        clf = NodeClassifier(
            "mlp", epochs=60, class_weight=weight, batch_size=batch_size, random_state=0
        ).fit(graph)
        found[weight] = int((clf.predict(graph)[graph.y == 1] == 1).sum())
    assert found["balanced"] > found[None] + 3


def test_mistakes_with_class_weights() -> None:
    with pytest.raises(InputError, match=r"^class_weight .*'balanced', got 'even'"):
        NodeClassifier("mlp", class_weight="even").fit(rare_graph())
    with pytest.raises(InputError, match=r"^class_weight .*'linbp': it has no epochs"):
        NodeClassifier("linbp", class_weight="balanced").fit(rare_graph())


# ------------------------------------------------- what comes before the loop

FEW_Y = np.array([0, 1, 0, 1, 0])
FEW_SPLIT = Split(np.array([0, 1, 4]), np.array([2, 3]), np.array([], dtype=np.int64))


def operators_of(name: str) -> tuple[Operator, ...]:
    return tuple(Operator(m) for m in find_model(name).operators(NAMED["path"]))


def test_a_model_without_weights_is_scored_and_not_trained() -> None:
    seeds = torch.zeros(5, 2)
    seeds[[0, 1, 4], [0, 1, 0]] = 1
    module = build_model("label-propagation", 2, 2, {"alpha": 0.1})
    result = fit_module(
        module,
        seeds,
        operators_of("label-propagation"),
        FEW_Y,
        FEW_SPLIT,
        TrainConfig(),
    )
    assert result.best_epoch == 0
    assert result.history == ()
    assert result.val_score == 0.0  # each is next to the other class


def test_the_prior_is_trained_first_and_the_labels_are_shown_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    module = build_model("cpgnn", 3, 2, {})
    original = loop.train

    def spy(model: nn.Module, *args: object, **options: object) -> TrainResult:
        calls.append("prior" if model is module.prior else "whole")
        return original(model, *args, **options)  # type: ignore[arg-type]

    def initialise(_: Tensor, __: object, labels: Tensor, index: Tensor) -> None:
        assert not torch.is_grad_enabled()
        assert labels.tolist() == [0, 1, 0]
        assert index.tolist() == [0, 1, 4]
        calls.append("labels")

    monkeypatch.setattr(loop, "train", spy)
    monkeypatch.setattr(module, "initialise", initialise)
    config = TrainConfig(epochs=3)
    fit_module(
        module, torch.eye(5)[:, :3], operators_of("cpgnn"), FEW_Y, FEW_SPLIT, config
    )
    assert calls == ["prior", "labels", "whole"]


def test_the_seconds_are_those_of_the_prior_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    module = build_model("cpgnn", 3, 2, {})
    original = loop.train

    def slow(model: nn.Module, *args: object, **options: object) -> TrainResult:
        clock[0] += 100 if model is module.prior else 0
        return original(model, *args, **options)  # type: ignore[arg-type]

    def wait(_: Epoch) -> None:
        clock[0] += 7

    monkeypatch.setattr(loop, "train", slow)
    clocks = SimpleNamespace(perf_counter=lambda: clock[0])
    monkeypatch.setattr(loop, "time", clocks)
    monkeypatch.setattr(checkpoint, "time", clocks)
    config = TrainConfig(epochs=3)
    x = torch.eye(5)[:, :3]
    result = fit_module(
        module, x, operators_of("cpgnn"), FEW_Y, FEW_SPLIT, config, on_epoch=wait
    )
    assert result.seconds == 100 + 3 * 7
    assert len(result.history) == 3


def test_ctrl_c_in_the_prior_ends_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = TrainResult(1, 0.5, (), 0.1, interrupted=True)
    monkeypatch.setattr(loop, "train", lambda *_, **__: cut)
    module = build_model("cpgnn", 3, 2, {})
    with pytest.raises(KeyboardInterrupt):
        fit_module(
            module,
            torch.eye(5)[:, :3],
            operators_of("cpgnn"),
            FEW_Y,
            FEW_SPLIT,
            TrainConfig(epochs=3),
        )
