"""The training loop: which epoch is kept, what is penalized, what is not used."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from h2gcn import Graph, NodeClassifier, Split
from h2gcn.exceptions import InputError
from h2gcn.models import H2GCN, MODELS, NodeModule, build_model, find_model
from h2gcn.sparse import Operator, Propagation
from h2gcn.training import Epoch, TrainConfig, fit_module, loop, seeded, state
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

    def forward(self, _x: Tensor, _graph: Propagation) -> Tensor:
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


def fit_script(
    model: Scripted,
    *,
    split: Split = SCRIPT_SPLIT,
    on_epoch: Callable[[Epoch], None] | None = None,
    **config: Any,
) -> TrainResult:
    x = torch.zeros(6, 1)
    return train(model, x, (), Y, split, TrainConfig(**config), on_epoch=on_epoch)


def run_script(
    counts: list[int], **options: object
) -> tuple[TrainResult, float, list[float]]:
    """Train on scripted hits; return the result, the weight, and each epoch's."""
    model = Scripted([hits(count) for count in counts])
    weights: list[float] = []
    result = fit_script(
        model,
        on_epoch=lambda _: weights.append(model.weight.item()),
        epochs=len(counts),
        **options,
    )
    assert len(set(weights)) == len(weights)
    return result, model.weight.item(), weights


def test_the_best_epoch_is_kept_and_the_latest_on_a_tie() -> None:
    for counts, best in (
        ([1, 2, 3, 4], 4),
        ([4, 3, 2, 1], 1),
        ([1, 3, 2, 3, 2], 4),
        ([2, 2, 2], 3),
        ([0, 4, 0], 2),
        ([1], 1),
    ):
        result, weight, weights = run_script(counts)
        assert result.best_epoch == best
        assert result.val_score == max(counts) / 4
        assert weight == weights[best - 1], "a copy, not the live weights"
        assert [epoch.val_score for epoch in result.history] == [c / 4 for c in counts]
        numbers = [epoch.number for epoch in result.history]
        assert numbers == [*range(1, len(counts) + 1)]
        assert not result.interrupted
        assert result.seconds > 0


def test_patience_counts_the_epochs_since_the_last_rise() -> None:
    for counts, patience, epochs in (
        # Epoch 2 is the last that rises; a tie is not a rise.
        ([1, 2, 2, 2, 2, 2, 2], 3, 5),
        ([1, 2, 1, 1, 3, 1, 1, 1, 4], 3, 8),
        ([1, 2, 1, 1, 3, 1, 1, 1, 4], 4, 9),
        ([4, 4, 4], 1, 2),
        ([0, 1, 2, 3, 4], 1, 5),
        ([4, 0, 0, 0, 0], None, 5),
    ):
        result, weight, weights = run_script(counts, patience=patience)
        assert len(result.history) == epochs
        seen = counts[:epochs]
        best = max(i for i, count in enumerate(seen) if count == max(seen))
        assert result.best_epoch == best + 1
        assert weight == weights[best]


def test_the_metric_chooses_the_epoch() -> None:
    # Epoch 1: all are taken for class 1, but in the right order. Epoch 2: three
    # are right, and the fourth, of class 1, is below both of class 0.
    well_ordered = torch.tensor([[0.0, 2], [0, 4], [0, 1], [0, 5]])
    mostly_right = torch.tensor([[2.0, 0], [0, 1], [2, 0], [9, 0]])
    script = [well_ordered, mostly_right]
    assert [accuracy(Y[2:], logits.numpy()) for logits in script] == [0.5, 0.75]
    chosen = {
        metric: fit_script(Scripted(script), epochs=2, metric=metric)
        for metric in ("accuracy", "roc_auc")
    }
    assert (chosen["accuracy"].best_epoch, chosen["accuracy"].val_score) == (2, 0.75)
    assert (chosen["roc_auc"].best_epoch, chosen["roc_auc"].val_score) == (1, 1.0)
    assert [epoch.val_score for epoch in chosen["roc_auc"].history] == [1.0, 0.5]


def test_ranking_needs_both_classes_among_the_validation_nodes() -> None:
    split = Split(train=[0, 1], val=[2, 4], test=[])  # one class: no ROC curve
    for metric in ("roc_auc", "pr_auc"):
        model = Scripted([hits(2)[:2], hits(2)[:2]])
        with pytest.raises(InputError, match=f"the metric {metric} needs both classes"):
            fit_script(model, split=split, epochs=2, metric=metric)


# -------------------------------------------------------------------- a real model


def build(name: str, *, dropout: float = 0.0, seed: int = 1) -> nn.Module:
    spec = MODELS[name]
    with seeded(seed):
        return spec.module(4, 2, hidden_channels=3, dropout=dropout, **spec.fixed)


def given(name: str, graph: Graph) -> tuple[Tensor, tuple[Operator, ...]]:
    operators = MODELS[name].build_matrices(graph.adj)
    x = torch.from_numpy(np.asarray(graph.x)) / 3
    return x, tuple(Operator(matrix, symmetric=True) for matrix in operators)


def fit(
    graph: Graph,
    name: str,
    *,
    y: Any = None,
    split: Split = SPLIT,
    dropout: float = 0.0,
    seed: int = 0,
    on_epoch: Callable[[nn.Module], None] = lambda _: None,
    **config: Any,
) -> tuple[TrainResult, nn.Module]:
    model, (x, operators) = build(name, dropout=dropout), given(name, graph)
    result = train(
        model,
        x,
        operators,
        graph.y if y is None else y,
        split,
        TrainConfig(**config),
        seed=seed,
        on_epoch=lambda _: on_epoch(model),
    )
    return result, model


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


def test_the_weights_left_behind_reproduce_the_validation_score(
    small_graph: Graph,
) -> None:
    for name in ("h2gcn-2", "gcn"):
        seen: list[dict[str, Tensor]] = []
        result, model = fit(
            small_graph,
            name,
            dropout=0.5,
            on_epoch=lambda model, seen=seen: seen.append(weights_of(model)),  # type: ignore[misc]
            epochs=30,
            learning_rate=0.1,
        )
        assert not model.training
        weights, best = weights_of(model), seen[result.best_epoch - 1]
        assert all(torch.equal(weights[key], best[key]) for key in weights)
        x, operators = given(name, small_graph)
        logits = model(x, Propagation(operators)).detach().numpy()
        assert accuracy(small_graph.y[SPLIT.val], logits[SPLIT.val]) == result.val_score


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
    by_hand = build(name)
    x, operators = given(name, small_graph)
    seen: list[dict[str, Tensor]] = []
    result, _ = fit(
        small_graph,
        name,
        on_epoch=lambda model: seen.append(weights_of(model)),
        epochs=epochs,
        learning_rate=0.05,
        l2=l2,
    )
    labels = torch.from_numpy(small_graph.y[SPLIT.train])
    optimizer = torch.optim.Adam(by_hand.parameters(), lr=0.05)
    by_hand.train()
    for epoch in range(epochs):
        optimizer.zero_grad()
        cross_entropy = nn.functional.cross_entropy(
            by_hand(x, Propagation(operators))[SPLIT.train], labels
        )
        penalty = sum(
            (weight**2).sum()
            for key, weight in by_hand.named_parameters()
            if key in penalised
        )
        (cross_entropy + l2 * penalty).backward()
        optimizer.step()
        assert result.history[epoch].loss == pytest.approx(
            cross_entropy.item(), rel=1e-4
        )
        for key, weight in by_hand.named_parameters():
            torch.testing.assert_close(
                seen[epoch][key], weight.detach(), rtol=1e-3, atol=1e-4
            )


def test_without_l2_nothing_is_penalised(small_graph: Graph) -> None:
    free, penalized = (
        weights_of(fit(small_graph, "gcn", epochs=1, l2=l2, learning_rate=0.05)[1])
        for l2 in (0.0, 1.0)
    )
    # The first step of Adam goes by signs: the penalty turns some of the first
    # layer's, and none of the second's.
    assert not torch.equal(free["first"], penalized["first"])
    assert torch.equal(free["second"], penalized["second"])


def test_the_test_part_has_no_influence(small_graph: Graph) -> None:
    flipped = small_graph.y.copy()
    flipped[SPLIT.test] = 1 - flipped[SPLIT.test]
    without = Split(SPLIT.train, SPLIT.val, [])
    (expected, reference), *others = (
        fit(small_graph, "h2gcn-2", y=y, split=split, dropout=0.5, seed=4, epochs=10)
        for y, split in ((small_graph.y, SPLIT), (flipped, SPLIT), (flipped, without))
    )
    for result, model in others:
        assert result.best_epoch == expected.best_epoch
        assert result.history == expected.history
        weights = weights_of(reference)
        assert all(torch.equal(w, weights[k]) for k, w in weights_of(model).items())


@each("name", ["h2gcn-1", "h2gcn-2", "h2gcn-nonlinear"])
@each("dropout", [0.0, 0.5])
def test_a_step_forgets_what_was_computed_from_the_weights_before(
    small_graph: Graph, name: str, dropout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = H2GCN.forward

    def validations_share(self: H2GCN, x: Tensor, graph: Propagation) -> Tensor:
        if self.training:  # takes nothing out of the cache
            graph = Propagation(graph.matrices, graph.index, graph.node_ids)
        return forward(self, x, graph)

    monkeypatch.setattr(H2GCN, "forward", validations_share)
    kept, _ = fit(small_graph, name, dropout=dropout, epochs=5)
    monkeypatch.setattr(Propagation, "cached", lambda _, f, *args: f(*args))
    fresh, _ = fit(small_graph, name, dropout=dropout, epochs=5)
    for one, other in zip(kept.history, fresh.history, strict=True):
        assert one.val_loss == pytest.approx(other.val_loss, rel=1e-5)


def losses(result: TrainResult) -> list[float]:
    return [epoch.loss for epoch in result.history]


def test_the_validation_labels_choose_but_do_not_teach(small_graph: Graph) -> None:
    flipped = small_graph.y.copy()
    flipped[SPLIT.val] = 1 - flipped[SPLIT.val]
    one, other = (
        fit(small_graph, "h2gcn-1", y=y, epochs=10)[0] for y in (small_graph.y, flipped)
    )
    assert losses(one) == losses(other)


def test_the_seed_is_that_of_the_dropout(small_graph: Graph) -> None:
    def run(dropout: float, seed: int) -> list[float]:
        options = {"dropout": dropout, "seed": seed, "epochs": 4}
        return losses(fit(small_graph, "h2gcn-1", **options)[0])

    assert run(0.5, 1) == run(0.5, 1)
    assert run(0.5, 1) != run(0.5, 2)
    assert run(0.0, 1) == run(0.0, 2)


def test_the_global_generator_is_left_as_it_was(small_graph: Graph) -> None:
    torch.manual_seed(123)
    before = torch.get_rng_state()
    for error in (None, KeyboardInterrupt, RuntimeError):

        def interrupt(_: nn.Module, error: type[BaseException] | None = error) -> None:
            if error is not None:
                raise error

        try:
            fit(small_graph, "h2gcn-1", dropout=0.5, epochs=3, on_epoch=interrupt)
        except RuntimeError:
            assert error is RuntimeError
        assert torch.equal(torch.get_rng_state(), before)


# -------------------------------------------------------------------- interruptions


def test_an_interrupt_keeps_the_best_epoch_so_far() -> None:
    for at, best in ((1, 1), (2, 2), (3, 2), (4, 2), (5, 5)):
        model = Scripted([hits(count) for count in (1, 3, 2, 2, 4)])
        weights: list[float] = []
        seen: list[Epoch] = []

        def on_epoch(epoch: Epoch, at: int = at) -> None:
            weights.append(model.weight.item())  # noqa: B023
            seen.append(epoch)  # noqa: B023
            if epoch.number == at:
                raise KeyboardInterrupt

        result = fit_script(model, epochs=5, on_epoch=on_epoch)
        assert result.interrupted
        assert result.best_epoch == best
        assert result.history == tuple(seen)
        assert len(seen) == at
        assert model.weight.item() == weights[best - 1]
        assert not model.training


def test_an_interrupt_in_the_middle_of_an_epoch_forgets_that_epoch() -> None:
    class Impatient(Scripted):
        def forward(self, x: Tensor, graph: Propagation) -> Tensor:
            if self.training and self.epoch == 2:
                raise KeyboardInterrupt
            return super().forward(x, graph)

    model = Impatient([hits(3), hits(2), hits(4)])
    result = fit_script(model, epochs=3)
    assert result.interrupted
    assert result.best_epoch == 1
    assert len(result.history) == 2


def test_an_interrupt_before_the_first_epoch_has_nothing_to_keep() -> None:
    class Interrupted(Scripted):
        def forward(self, _x: Tensor, _graph: Propagation) -> Tensor:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_script(Interrupted([]), epochs=3)


# --------------------------------------------------------------------- divergence


def test_logits_that_diverge_are_an_error_in_the_epoch_itself(
    small_graph: Graph,
) -> None:
    for epochs, metric in ((1, "accuracy"), (5, "accuracy"), (5, "roc_auc")):
        with pytest.raises(
            InputError, match=r"training diverged in epoch 1 \(the loss is 0\.\d+\);"
        ):
            fit(
                small_graph,
                "h2gcn-1",
                epochs=epochs,
                metric=metric,
                learning_rate=1e38,
                l2=0.0,
            )


@each("value", [math.inf, math.nan])
def test_a_loss_that_diverges_is_an_error(value: float) -> None:
    class Diverging(Scripted):
        def forward(self, x: Tensor, graph: Propagation) -> Tensor:
            logits = super().forward(x, graph)
            spoiled = self.training and self.epoch == 2
            return logits - value * torch.eye(2) if spoiled else logits

    with pytest.raises(
        InputError, match=r"training diverged in epoch 2 \(the loss is (inf|nan)\)"
    ):
        fit_script(Diverging([hits(1)] * 3), epochs=3)


# --------------------------------------------------------------------------- config


def test_a_bad_configuration_is_named() -> None:
    for options in (
        {"epochs": 0},
        {"epochs": 2.5},
        {"patience": 0},
        {"learning_rate": 0},
        {"learning_rate": math.inf},
        {"learning_rate": "fast"},
        {"l2": -1e-5},
        {"l2": math.nan},
        {"metric": "acuracy"},
        {"optimizer": "adamw"},
        {"stopping": "never"},
        {"batch_size": 0},
        {"class_weight": "even"},
    ):
        meant = {"acuracy": "accuracy", "adamw": "adam"}
        meant = [meant[v] for v in options.values() if v in meant]
        hint = f"did you mean '{meant[0]}'?" if meant else None
        with refused(**only(options), hint=hint):
            TrainConfig(**options)  # type: ignore[arg-type]


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
    return tuple(Operator(m) for m in find_model(name).build_matrices(NAMED["path"]))


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


def fit_cpgnn(module: nn.Module, **options: Any) -> TrainResult:
    return fit_module(
        module,
        torch.eye(5)[:, :3],
        operators_of("cpgnn"),
        FEW_Y,
        FEW_SPLIT,
        TrainConfig(epochs=3),
        **options,
    )


def test_the_prior_is_trained_first_and_the_labels_are_shown_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls, clock = [], [0.0]
    module, original = build_model("cpgnn", 3, 2, {}), loop.train

    def spy(model: nn.Module, *args: Any, **options: Any) -> TrainResult:
        is_prior = model is module.prior
        clock[0] += 100 if is_prior else 0
        calls.append("prior" if is_prior else "whole")
        return original(model, *args, **options)

    def initialise(_: Tensor, __: object, labels: Tensor, index: Tensor) -> None:
        assert not torch.is_grad_enabled()
        assert labels.tolist() == [0, 1, 0]
        assert index.tolist() == [0, 1, 4]
        calls.append("labels")

    def wait(_: Epoch) -> None:
        clock[0] += 7

    monkeypatch.setattr(loop, "train", spy)
    monkeypatch.setattr(module, "initialise", initialise)
    clocks = SimpleNamespace(perf_counter=lambda: clock[0])
    monkeypatch.setattr(loop, "time", clocks)
    monkeypatch.setattr(state, "time", clocks)
    result = fit_cpgnn(module, on_epoch=wait)
    assert calls == ["prior", "labels", "whole"]
    assert result.seconds == 100 + 3 * 7, "with those of the prior"
    assert len(result.history) == 3


def test_ctrl_c_in_the_prior_ends_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = TrainResult(1, 0.5, (), 0.1, interrupted=True)
    monkeypatch.setattr(loop, "train", lambda *_, **__: cut)
    with pytest.raises(KeyboardInterrupt):
        fit_cpgnn(build_model("cpgnn", 3, 2, {}))
