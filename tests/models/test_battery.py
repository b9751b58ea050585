"""One battery for every model, GCN against its formula, and the table of names."""

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from h2gcn import Graph, NodeClassifier
from h2gcn.datasets import GaussianFeatures, generate_graph
from h2gcn.exceptions import InputError
from h2gcn.models import ALIASES, GCN, MODELS, NodeModule, build_model, find_model
from h2gcn.ring_table import Input, TableInput, TableMaker
from h2gcn.sparse import Operator, Target, dropout
from support.cases import each
from support.graphs import NAMED, adjacency
from support.refusals import only, refused

# Not every node of these graphs is near a label; what is said then is tested elsewhere.
some_unreached = pytest.mark.filterwarnings(
    "ignore:.* cannot be reached from any:h2gcn.exceptions.H2GCNWarning"
)


def build(
    name: str, x: Input | None = None, n_classes: int = 3, dropout: float = 0.5
) -> NodeModule:
    """Return a module for an input; what learns in one go has learned from it."""
    torch.manual_seed(0)
    spec = MODELS[name]
    x = features(15) if x is None else x
    wanted = {"hidden_channels": 8}
    wanted |= dict.fromkeys(
        ("dropout", "input_dropout", "propagation_dropout"), dropout
    )
    options = {key: value for key, value in wanted.items() if key in spec.options}
    width: int | list[int] = x.shape[1]
    if isinstance(x, TableInput):
        width = [block.shape[1] for block in x.blocks.values()]
    module = build_model(name, width, n_classes, options)
    if spec.at_once:
        every = torch.arange(x.shape[0])
        module.initialise(x, (), every % n_classes, every)
    return module


def operators_of(name: str, adj: sp.csr_array) -> tuple[Operator, ...]:
    spec = MODELS[name]
    return tuple(Operator(a, symmetric=spec.symmetric) for a in spec.operators(adj))


def features(n: int, columns: int = 5, seed: int = 0) -> Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(size=(n, columns)).astype(np.float32))


def some_labels(n: int, seed: int = 0, n_classes: int = 3) -> Tensor:
    """Return one-hot labels of two nodes in three, zero elsewhere."""
    classes = np.random.default_rng(seed).integers(n_classes, size=n)
    rows = np.eye(n_classes, dtype=np.float32)[classes]
    rows[1::3] = 0
    return torch.from_numpy(rows)


def as_input(
    name: str, adj: sp.csr_array, x: Tensor | sp.csr_array, known: Tensor
) -> Input:
    """Return what the model takes as x: features, labels, or a table of both."""
    if MODELS[name].inputs == "labels":
        return known
    if MODELS[name].inputs == "features":
        return x if isinstance(x, Tensor) else Operator(x)
    values = x.numpy() if isinstance(x, Tensor) else x
    n_classes = known.shape[1]
    y = np.arange(len(known)) % n_classes
    maker = TableMaker(Graph(x=values, adj=adj, y=y, classes=np.arange(n_classes)))
    schema = maker.schema(MODELS[name].table or MODELS[name].options["table"])
    return maker.build(schema, values, "features", known, maskable=True)


def inputs(name: str, adj: sp.csr_array, seed: int = 0) -> Input:
    n = adj.shape[0]
    return as_input(name, adj, features(n, seed=seed), some_labels(n, seed))


def local_models() -> list[str]:
    """Return those whose logits depend on a node's component, and not on a fit."""
    return [name for name, spec in MODELS.items() if spec.local and not spec.at_once]


def trained_models() -> list[str]:
    return [name for name, spec in MODELS.items() if spec.trained]


def models_with_features() -> list[str]:
    return [name for name, spec in MODELS.items() if spec.scaled]


def models_that_spread() -> list[str]:
    return [name for name, spec in MODELS.items() if spec.inputs == "labels"]


def random_adjacency(n: int = 15, p: float = 0.15, seed: int = 0) -> sp.csr_array:
    upper = np.triu(np.random.default_rng(seed).random((n, n)) < p, 1)
    return sp.csr_array((upper | upper.T).astype(np.float32))


def small_synthetic(n_nodes: int = 60, seed: int = 0) -> Graph:
    return generate_graph(
        n_nodes=n_nodes,
        n_classes=3,
        features=GaussianFeatures(n_features=6),
        seed=seed,
    )


def with_ids(name: str) -> Graph:
    """Return a graph whose nodes a model can tell from those of another."""
    graph = small_synthetic()
    if MODELS[name].inputs == "features":
        return graph
    return replace(graph, node_ids=np.array([f"n{i}" for i in range(60)]))


@functools.cache
def fitted(name: str) -> NodeClassifier:
    """Return a model after three epochs, which tests may read and not change."""
    return NodeClassifier(name, epochs=3, random_state=0).fit(with_ids(name))


# ------------------------------------------------------------- for every module


@each("named_adj", NAMED.values(), ids=NAMED)
@each("name", MODELS)
def test_logits_have_a_row_a_node_and_a_column_a_class(
    name: str, named_adj: sp.csr_array
) -> None:
    n, x = named_adj.shape[0], inputs(name, named_adj)
    module, operators = build(name, x), operators_of(name, named_adj)
    index = np.array([n - 1, 0])
    for training in (False, True):
        module.train(training)
        logits = module(x, operators)
        assert logits.shape == (n, 3)
        assert logits.dtype == torch.float32
        assert torch.isfinite(logits).all()
        some = module(x, operators, Target.of(operators, index))
        assert some.shape == (2, 3)


@each("name", MODELS)
def test_a_target_gives_the_rows_of_all_logits(name: str) -> None:
    adj = random_adjacency()
    x = inputs(name, adj)
    module, operators = build(name, x).eval(), operators_of(name, adj)
    index = np.array([14, 3, 3, 0])
    torch.testing.assert_close(
        module(x, operators, Target.of(operators, index)),
        module(x, operators)[index],
    )


@each("name", trained_models())
@each("dropout", [0.0, 0.5])
def test_gradients_reach_every_weight(name: str, dropout: float) -> None:
    adj = random_adjacency()
    x = inputs(name, adj)
    module, operators = build(name, x, dropout=dropout), operators_of(name, adj)
    y, index = torch.arange(15) % 3, torch.arange(0, 15, 2)
    given: dict[str, Tensor] = {}
    for phase in module.phases():
        given = module.eval().prepare(phase, x, operators, y[index], index, given)
        loss = module.train().objective(phase, x, operators, given, None)
        if loss is None:
            loss = torch.nn.functional.cross_entropy(module(x, operators), y)
        loss.backward()
    for weight_name, weight in module.named_parameters():
        assert weight.grad is not None, weight_name
        assert torch.isfinite(weight.grad).all(), weight_name
        assert weight.grad.abs().max() > 0, weight_name


# In linkx each node is a column, with a weight of its own.
@each("name", sorted(set(MODELS) - {"linkx"}))
@each("seed", [0, 1])
def test_renumbering_the_nodes_renumbers_the_logits(name: str, seed: int) -> None:
    adj, x, known = random_adjacency(seed=seed), features(15), some_labels(15)
    order = np.random.default_rng(seed).permutation(15)
    given = as_input(name, adj, x, known)
    module = build(name, given).eval()
    logits = module(given, operators_of(name, adj))
    other = sp.csr_array(adj[order][:, order])
    renumbered = as_input(name, other, x[order], known[order])
    permuted = module(renumbered, operators_of(name, other))
    torch.testing.assert_close(permuted, logits[order], rtol=1e-5, atol=1e-5)


@each("name", local_models())
def test_an_isolated_last_node_is_classified_by_itself_alone(name: str) -> None:
    adj = NAMED["isolated last node"]
    x, known, operators = features(4), some_labels(4), operators_of(name, adj)
    given = as_input(name, adj, x, known)
    module = build(name, given).eval()
    logits = module(given, operators)
    other_x, other_known = features(4, seed=9), some_labels(4, seed=9)
    other_x[3], other_known[3] = x[3], known[3]
    assert logits.shape == (4, 3)
    assert torch.isfinite(logits).all()
    other = as_input(name, adj, other_x, other_known)
    torch.testing.assert_close(module(other, operators)[3], logits[3])


@each("name", local_models())
def test_components_do_not_hear_of_each_other(name: str) -> None:
    adj = NAMED["disconnected"]
    x, known, operators = features(6), some_labels(6), operators_of(name, adj)
    given = as_input(name, adj, x, known)
    module = build(name, given).eval()
    logits = module(given, operators)
    other_x, other_known = x.clone(), known.clone()
    other_x[3:], other_known[3:] = features(6, seed=9)[3:], some_labels(6, seed=9)[3:]
    changed = module(as_input(name, adj, other_x, other_known), operators)
    torch.testing.assert_close(changed[:3], logits[:3])
    assert (changed[3:] - logits[3:]).abs().max() > 1e-3


@each("name", MODELS)
def test_one_feature_and_two_classes_are_enough(name: str) -> None:
    adj = NAMED["path"]
    x = as_input(name, adj, features(5, 1), some_labels(5, n_classes=2))
    module = build(name, x, n_classes=2)
    logits = module(x, operators_of(name, adj))
    assert logits.shape == (5, 2)
    assert torch.isfinite(logits).all()


@each("name", models_with_features())
def test_sparse_features_do_for_dense_ones(name: str) -> None:
    adj, x, known = random_adjacency(), features(15), some_labels(15)
    x[x < 0.2] = 0
    dense = as_input(name, adj, x, known)
    sparse = as_input(name, adj, sp.csr_array(x.numpy()), known)
    module, operators = build(name, dense).eval(), operators_of(name, adj)
    torch.testing.assert_close(module(sparse, operators), module(dense, operators))


@each("named_adj", NAMED.values(), ids=NAMED)
@each("name", MODELS)
def test_operators_are_matrices_of_the_graphs_size(
    name: str, named_adj: sp.csr_array
) -> None:
    for matrix in MODELS[name].operators(named_adj):
        assert matrix.shape == named_adj.shape
        assert matrix.dtype == np.float32
        assert np.isfinite(matrix.data).all()
        if MODELS[name].symmetric:
            np.testing.assert_array_equal(matrix.toarray(), matrix.toarray().T)


@each("name", MODELS)
def test_operators_leave_the_graph_as_it_was_and_come_out_the_same(name: str) -> None:
    adj = random_adjacency()
    before = adj.copy()
    one, two = MODELS[name].operators(adj), MODELS[name].operators(adj)
    np.testing.assert_array_equal(adj.toarray(), before.toarray())
    for first, second in zip(one, two, strict=True):
        assert first.data.tobytes() == second.data.tobytes()
        np.testing.assert_array_equal(first.indices, second.indices)


@each("name", MODELS)
@each("value", ["false", 0, None])
def test_what_is_true_or_false_is_nothing_else(name: str, value: object) -> None:
    spec = MODELS[name]
    for option, default in (spec.options | dict(spec.fixed)).items():
        if isinstance(default, bool):
            width: Any = (3,) if spec.inputs == "table" else 3
            with refused(param=option, value=value, words="must be True or False"):
                spec.module(width, 3, **dict(spec.fixed) | {option: value})


@each("name", MODELS)
@each(
    "options",
    [
        {"dropout": 1.5},
        {"hidden_channels": 0},
        {"activation": "tanh"},
        {"in_channels": 0},
        {"out_channels": 0},
    ],
)
def test_bad_options_are_named(name: str, options: dict[str, object]) -> None:
    spec = MODELS[name]
    expected: dict[str, Any] = only(options)
    if not set(options) <= {*spec.options, "in_channels", "out_channels"}:
        expected = {"words": f"the model {name} has no option"}
    width = (3,) if spec.inputs == "table" else 3
    sizes: dict[str, Any] = {"in_channels": width, "out_channels": 3} | options
    given = {key: sizes.pop(key) for key in ("in_channels", "out_channels")}
    with refused(**expected):
        build_model(name, given["in_channels"], given["out_channels"], sizes)


# --------------------------------------------------------- for every model, fitted


@some_unreached
@pytest.mark.parametrize("name", MODELS)
def test_the_same_seed_gives_the_same_logits_to_the_bit(name: str) -> None:
    graph = small_synthetic()
    one, two, other = (
        NodeClassifier(name, epochs=5, random_state=seed)
        .fit(graph)
        .predict_logits(graph)
        for seed in (3, 3, 4)
    )
    assert one.tobytes() == two.tobytes()
    # Without weights and with the graph's own split, nothing is left to chance but
    # the folds of what learns in one go, and those may change nothing.
    if not MODELS[name].at_once:
        assert np.array_equal(one, other) == (not MODELS[name].trained)


@pytest.mark.parametrize("name", trained_models())
def test_fifty_epochs_stay_finite_and_learn(name: str) -> None:
    graph = small_synthetic()
    named = ("dropout", "input_dropout", "propagation_dropout")
    options = {key: 0.0 for key in named if key in MODELS[name].options}
    clf = NodeClassifier(name, epochs=50, random_state=0, options=options).fit(graph)
    losses = [epoch.loss for epoch in clf.history_]
    assert len(losses) == 50
    assert np.isfinite(losses).all()
    assert losses[-1] < min(losses[0], 0.75 * np.log(3))
    assert np.isfinite(clf.predict_logits(graph)).all()
    for weight in clf.module_.parameters():
        assert torch.isfinite(weight).all()


@pytest.mark.parametrize("name", trained_models())
def test_fifty_epochs_at_its_own_defaults_stay_finite(name: str) -> None:
    graph = small_synthetic()
    clf = NodeClassifier(name, epochs=50, random_state=0).fit(graph)
    assert len(clf.history_) == 50
    assert np.isfinite([epoch.loss for epoch in clf.history_]).all()
    assert np.isfinite(clf.predict_logits(graph)).all()
    for weight in clf.module_.parameters():
        assert torch.isfinite(weight).all()


@some_unreached
@pytest.mark.parametrize("name", MODELS)
def test_a_model_predicts_on_a_graph_with_other_nodes(name: str) -> None:
    clf, new = fitted(name), small_synthetic(n_nodes=45, seed=8)
    if MODELS[name].inputs != "features":
        # Labels are for nodes that both graphs have: here n20 to n59.
        new = replace(new, node_ids=np.array([f"n{i}" for i in range(20, 65)]))
    if name == "linkx":
        with pytest.raises(InputError, match="the block 'adjacency', a column for eac"):
            clf.predict_logits(new)
        return
    module = clf.module_
    x, known = torch.from_numpy(np.asarray(clf.scaler_(new.x))), torch.zeros(45, 3)
    if clf.seeds_ is not None:
        known = clf.seeds_.one_hot(new, torch.device("cpu"))
        shared = clf.split_.train[clf.split_.train >= 20]
        assert 0 < len(shared) < len(clf.seeds_.ids)
        assert known.sum() == len(shared)
        assert (
            known[shared - 20].argmax(dim=1).tolist()
            == with_ids(name).y[shared].tolist()
        )
    x = as_input(name, new.adj, x, known)
    with torch.no_grad():
        expected = module(x, operators_of(name, new.adj)).numpy()
    assert expected.shape == (45, 3)
    # Few nodes are predicted on one thread, whose sums may have another order.
    np.testing.assert_allclose(clf.predict_logits(new), expected, rtol=1e-5, atol=1e-6)


@some_unreached
@each("name", models_that_spread())
def test_numbers_of_nodes_are_not_taken_for_ids(name: str) -> None:
    clf = NodeClassifier(name).fit(small_synthetic())
    assert clf.predict(small_synthetic()).shape == (60,)
    with pytest.raises(InputError, match="have no ids; only that graph can be predict"):
        clf.predict(small_synthetic(seed=8))


@some_unreached
@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_was_saved_gives_the_same_logits(
    name: str, tmp_path: Path
) -> None:
    clf, graph = fitted(name), with_ids(name)
    clf.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    logits = clf.predict_logits(graph)
    assert loaded.predict_logits(graph).tobytes() == logits.tobytes()


@some_unreached
@each("name", [name for name, spec in MODELS.items() if spec.inputs != "features"])
def test_a_model_of_nodes_without_ids_gives_the_same_logits_when_loaded(
    name: str, tmp_path: Path
) -> None:
    graph = small_synthetic()
    clf = NodeClassifier(name, epochs=3, random_state=0).fit(graph)
    clf.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    logits = clf.predict_logits(graph)
    assert loaded.predict_logits(small_synthetic()).tobytes() == logits.tobytes()


@some_unreached
@pytest.mark.parametrize("name", MODELS)
def test_a_graph_with_isolated_nodes_and_parts_can_be_fitted(name: str) -> None:
    edges = [(i, i + 1) for i in range(0, 18, 2)] + [(0, 3), (5, 8)]
    y = np.arange(20) % 2
    x = np.random.default_rng(0).normal(size=(20, 1)) + 4 * y[:, None]
    graph = Graph(x=x, adj=adjacency(20, edges), y=y)
    clf = NodeClassifier(name, epochs=20, random_state=0).fit(graph)
    assert graph.degrees[-1] == 0
    assert np.isfinite(clf.predict_proba(graph)).all()


# ----------------------------------------------------------------------------- GCN


def gcn_oracle(
    module: GCN,
    x: np.ndarray,
    adj: sp.csr_array,
    first_mask: np.ndarray | float = 1.0,
    second_mask: np.ndarray | float = 1.0,
) -> np.ndarray:
    """Return Kipf and Welling's equation 9, without the softmax, in double."""
    w1, w2 = (w.detach().double().numpy() for w in (module.first, module.second))
    a = adj.toarray().astype(float) + np.eye(adj.shape[0])
    root = np.diag(a.sum(axis=1) ** -0.5)
    a_hat = root @ a @ root
    hidden = a_hat @ (x * first_mask) @ w1
    hidden = np.maximum(hidden, 0) if module.activation == "relu" else hidden
    return a_hat @ (hidden * second_mask) @ w2


@each("named_adj", NAMED.values(), ids=NAMED)
@each("activation", ["relu", "none"])
def test_gcn_is_its_formula(named_adj: sp.csr_array, activation: str) -> None:
    torch.manual_seed(0)
    module = GCN(5, 3, hidden_channels=8, activation=activation, dropout=0.0)
    x = features(named_adj.shape[0])
    operators = operators_of("gcn", named_adj)
    expected = gcn_oracle(module, x.double().numpy(), named_adj)
    index = np.array([named_adj.shape[0] - 1, 0])
    target = Target.of(operators, index)
    for mode in (module.eval, module.train):
        mode()
        logits = module(x, operators).detach().numpy()
        np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)
        some = module(x, operators, target).detach().numpy()
        np.testing.assert_allclose(some, expected[index], rtol=1e-5, atol=1e-5)


def test_gcn_drops_from_the_inputs_of_both_layers() -> None:
    adj, x = random_adjacency(), features(15)
    module = build("gcn", dropout=0.5).train()
    torch.manual_seed(4)
    masks = [dropout(torch.ones(15, width), 0.5).numpy() for width in (5, 8)]
    torch.manual_seed(4)
    logits = module(x, operators_of("gcn", adj)).detach().numpy()
    expected = gcn_oracle(module, x.double().numpy(), adj, *masks)
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)


def test_gcn_drops_from_the_stored_entries_of_sparse_features() -> None:
    adj, x = random_adjacency(), features(15)
    x[x < 0.2] = 0
    stored = sp.csr_array(x.numpy())
    module = build("gcn", dropout=0.5).train()
    torch.manual_seed(4)
    kept = stored.copy()
    kept.data = dropout(torch.ones(stored.nnz), 0.5).numpy()
    second = dropout(torch.ones(15, 8), 0.5).numpy()
    torch.manual_seed(4)
    logits = module(Operator(stored), operators_of("gcn", adj)).detach().numpy()
    expected = gcn_oracle(module, x.double().numpy(), adj, kept.toarray(), second)
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)


def test_gcn_regularises_its_first_layer() -> None:
    module = build("gcn")
    assert {n: tuple(w.shape) for n, w in module.named_parameters()} == {
        "first": (5, 8),
        "second": (8, 3),
    }
    assert len(module.regularised()) == 1
    assert module.regularised()[0] is module.first


# --------------------------------------------------------------------------- names


@each(
    ("alias", "model"),
    [("h2gcn-s0", "h2gcn-1"), ("h2gcn-k2", "h2gcn-1"), ("h2gcn-n2", "h2gcn-s1")],
)
def test_the_papers_other_names_are_known(alias: str, model: str) -> None:
    assert find_model(alias) is MODELS[model]
    assert alias not in MODELS
    assert set(ALIASES) == {"h2gcn-s0", "h2gcn-k2", "h2gcn-n2"}


@each("name", MODELS)
def test_a_model_is_found_by_its_name(name: str) -> None:
    assert find_model(name) is MODELS[name]


@each(
    ("typed", "meant"),
    [
        ("h2gcn1", "'h2gcn-1'"),
        ("H2GCN-2", "'h2gcn-2'"),
        ("gnc", "'gcn'"),
        ("h2gcn-s", "'h2gcn-s0'"),
    ],
)
def test_the_nearest_names_are_offered(typed: str, meant: str) -> None:
    with pytest.raises(
        InputError, match=rf"there is no model '{typed}'\. Did you mean .*{meant}"
    ) as caught:
        find_model(typed)
    assert str(caught.value).endswith(f"Models: {', '.join(MODELS)}.")


def test_no_name_is_offered_where_none_is_near() -> None:
    with pytest.raises(InputError, match=r"there is no model 'xyzzy'\. Models: h2gcn"):
        find_model("xyzzy")


def test_the_table_says_what_each_model_is() -> None:
    designs = {name: spec.designs for name, spec in MODELS.items()}
    assert designs["h2gcn-1"] == designs["h2gcn-2"] == "D1 D2 D3"
    assert designs["mlp"] == designs["gcn"] == designs["h2gcn-ns1"] == ""
    assert designs["graphsage"] == "D1"
    assert designs["gcn-cheby"] == designs["mixhop"] == "D2"
    two_hops = ("label-propagation-2hop", "decoupled-smoothing")
    assert {designs[name] for name in two_hops} == {"D2"}
    assert designs["gcn-jk"] == "D3"
    assert designs["gcn-cheby-jk"] == "D2 D3"
    assert designs["graphsage-jk"] == "D1 D3"
    assert all(spec.summary and spec.paper for spec in MODELS.values())
