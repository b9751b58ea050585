"""The contract of every registered model, one test for each promise.

A model that does not keep a promise stands in `EXCEPTIONS`, with the reason.
"""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone

from h2gcn import Graph, NodeClassifier
from h2gcn.exceptions import InputError
from h2gcn.graph import Split
from h2gcn.models import MODELS
from h2gcn.sparse import dropout
from h2gcn.training import TrainConfig, Trainer, batches
from models.oracles import ORACLES
from support.dropout import mask_of
from support.graphs import GRAPHS, NAMED, adjacency, make_graph, random_adjacency
from support.models import (
    DROPOUTS,
    assert_close,
    batch_logits,
    dense,
    fitted,
    known_labels,
    life_graph,
    logits,
    make,
    model_input,
    propagation,
    receptive_field,
    settings,
    some_nodes,
    unfitted,
    weights_of,
)
from support.refusals import refused

every_model = pytest.mark.parametrize("name", MODELS)
TRAINED = [name for name, spec in MODELS.items() if spec.epochs]
trained_models = pytest.mark.parametrize("name", TRAINED)
# Not every node is near a label, and few steps may not be enough.
unreached = pytest.mark.filterwarnings("ignore::h2gcn.exceptions.H2GCNWarning")

OWN_FILE = "its formula is a fit or a fixed point: tested in a file of its own"
WHOLE = "it sees the whole graph at once"
# Which models do not keep a promise, and why.
EXCEPTIONS = {
    "formula": {
        **dict.fromkeys(("linbp", "bp", "zoobp", "correct-and-smooth"), OWN_FILE),
        **dict.fromkeys(("ica", "logistic", "boosted-trees"), OWN_FILE),
        "geom-gcn": "its matrices are of an Isomap embedding: test_geom_gcn.py",
    },
    "dropout": {"gat": "attention has draws of its own: test_convolutions.py"},
    "renumbering": {
        "linkx": "each node is a column with weights of its own",
        "geom-gcn": "an axis of a symmetric component has no sign: test_geom_gcn.py",
    },
    "components": {
        **dict.fromkeys(("mixhop", "linbp", "bp", "zoobp", "ica"), WHOLE),
        **dict.fromkeys(("correct-and-smooth", "logistic", "boosted-trees"), WHOLE),
        "decoupled-smoothing": WHOLE,
    },
    "other graphs": {"linkx": "its columns are the nodes of one graph"},
    "batches": {
        **dict.fromkeys(
            ("mixhop", "correct-and-smooth"),
            "each of its logits depends on all nodes of the graph",
        ),
        **dict.fromkeys(("gmnn", "gam"), "it learns from all nodes of the graph"),
        "residual-gcn": "its batch norm takes statistics of all nodes of the graph",
        **{name: "it has no epochs" for name in MODELS if not MODELS[name].epochs},
    },
    "gradients": {
        "gmnn": "p has stages of its own: test_gmnn.py",
        "gam": "the agreement has stages of its own: test_gam.py",
    },
}

LINEAR = {"activation": "none"}
RINGS = "ego+rings+directions+degrees+labels"
# With which options a formula is compared; without any where nothing stands here.
OPTIONS = {
    **{name: [{}, LINEAR] for name in ORACLES if name.startswith("h2gcn")},
    "mlp": [{}, {"activation": "elu"}],
    "gcn": [{}, LINEAR, {"activation": "elu"}],
    "gcn-jk": [{}, LINEAR, {"activation": "elu"}],
    "gcn-cheby": [{"max_degree": k} for k in (0, 1, 2, 3, 6)] + [LINEAR],
    "gcn-cheby-jk": [{"max_degree": k} for k in (0, 1, 2, 3, 6)] + [LINEAR],
    "graphsage": [{}, LINEAR],
    "graphsage-jk": [{}, LINEAR],
    "gat": [
        {},
        {"heads": 1, "out_heads": 1},
        {"heads": 2, "out_heads": 3} | LINEAR,
        {"heads": 9, "activation": "relu"},
    ],
    "mixhop": [{"powers": p} for p in ((0,), (1,), (2,), (0, 2), (2, 1), (0, 1, 4))]
    + [{}, LINEAR, {"activation": "elu"}],
    "sgc": [{"power": k} for k in (1, 2, 3, 10)],
    "gpr-gnn": [{"power": k} for k in (1, 2, 10)],
    "acm-gcn": [{"relu": "after"}, {"relu": "before"}],
    "residual-gcn": [
        {"norm": norm, "layers": layers}
        for norm in ("batch", "layer", "none")
        for layers in (1, 2, 5)
    ],
    "dir-gnn": [
        {"jumping": jumping, "alpha": alpha, "normalize": normalize, "layers": layers}
        for jumping in ("max", "cat", "none")
        for alpha, layers in ((0.0, 3), (0.3, 1), (0.3, 3), (1.0, 1))
        for normalize in (False, True)
    ],
    "cpgnn": [{"rounds": k} for k in (1, 2, 3)] + [LINEAR],
    "gam": [{"base": "mlp"}, {"base": "gcn"}],
    "gdc": [{}, {"alpha": 0.5}, {"kernel": "heat"}, {"kernel": "heat", "time": 0.7}],
    "ring-table": [{"table": RINGS}, {"table": RINGS, "activation": "elu"}],
    "linkx": [{}, LINEAR, {"activation": "elu"}],
    "label-propagation": [{}, {"alpha": 0.3, "steps": 3}, {"alpha": 0.5, "steps": 1}],
    "label-propagation-2hop": [{}, {"alpha": 0.3, "steps": 3}, {"steps": 1}],
    "decoupled-smoothing": [{}, {"variance": "equal"}],
}


def with_sparse_features(graph):
    return replace(graph, x=sp.csr_array(np.where(graph.x > 0, graph.x, 0)))


def test_every_model_has_a_formula_or_a_reason():
    assert set(MODELS) - set(ORACLES) == set(EXCEPTIONS["formula"]) & set(MODELS)
    assert set(ORACLES) <= set(MODELS)


# --------------------------------------------------------------------------- formulas


@pytest.mark.parametrize("name", ORACLES)
def test_equals_its_formula(name):
    for title, graph in GRAPHS.items():
        before = graph.adj.copy(), graph.x.copy()
        for options in OPTIONS.get(name, [{}]):
            where = title, options
            module, x, operators = make(name, graph, **options)
            given = settings(name, options)
            expected = ORACLES[name](weights_of(module), dense(graph), given)
            found = logits(module, x, operators)
            assert_close(found, expected, *where)
            if title == "random":
                assert np.ptp(expected, axis=0).max() > 1e-3, "nodes differ"
            nodes = some_nodes(graph.n_nodes)
            assert_close(logits(module, x, operators, nodes), expected[nodes], *where)
            if receptive_field(module) is not None:
                found = batch_logits(module, x, operators, nodes)
                assert_close(found, expected[nodes], *where, "batch")
        assert (graph.adj != before[0]).nnz == 0
        assert (graph.x == before[1]).all()


@pytest.mark.parametrize("name", [n for n in ORACLES if MODELS[n].epochs])
def test_gradients_equal_complex_differences(name):
    rng, step = np.random.default_rng(0), 1e-30
    graphs = {key: GRAPHS[key] for key in ("random", "directed and weighted")}
    if MODELS[name].inputs == "features":
        graphs["sparse features"] = with_sparse_features(GRAPHS["random"])
    for title, graph in graphs.items():
        for options in OPTIONS.get(name, [{}]):
            none = {p: 0.0 for p in DROPOUTS if p in MODELS[name].options}
            options = none | options
            module, x, operators = make(name, graph, **options)
            module.train(
                options.get("norm", settings(name, options).get("norm")) != "batch"
            )
            weights, given = weights_of(module), settings(name, options)
            whole = ORACLES[name](weights, dense(graph), given)
            for nodes in (None, some_nodes(graph.n_nodes)):
                found = logits(module, x, operators, nodes)
                assert_close(found, whole if nodes is None else whole[nodes], title)
                outer = rng.normal(size=tuple(found.shape))
                module.zero_grad()
                (found * torch.from_numpy(outer)).sum().backward()
                for key, weight in module.named_parameters():
                    direction = rng.choice([-1.0, 1.0], size=tuple(weight.shape))
                    moved = weights | {key: weights[key] + 1j * step * direction}
                    there = ORACLES[name](moved, dense(graph), given).imag / step
                    there = there if nodes is None else there[nodes]
                    expected = (there * outer).sum()
                    ours = weight.grad
                    ours = np.zeros(1) if ours is None else ours.double().numpy()
                    size = np.abs(ours).sum()
                    where = f"{title}, {options}, {key}, nodes {nodes}"
                    error = abs((ours * direction).sum() - expected)
                    assert error <= 1e-4 * size + 1e-5, where


# Options with which a training step is replayed.
REPLAYED_WITH = {
    "residual-gcn": {"norm": "layer"},  # no statistics of the step
    "linkx": {"input_dropout": 0.0},  # of adjacency rows, stored entries are dropped
}


@every_model
def test_dropout_acts_in_training_only_and_where_the_formula_says(name):
    plain = GRAPHS["random"]
    options = {p: 0.5 for p in DROPOUTS if p in MODELS[name].options}
    options |= REPLAYED_WITH.get(name, {})
    sparse = with_sparse_features(plain)
    for graph in (plain, sparse)[: 1 + (MODELS[name].inputs == "features")]:
        module, x, operators = make(name, graph, **options)
        torch.manual_seed(4)
        before = torch.get_rng_state()
        calm = logits(module, x, operators)
        assert torch.equal(calm, logits(module, x, operators))
        assert torch.equal(torch.get_rng_state(), before), "nothing is drawn"
        module.train()
        found = logits(module, x, operators)
        if not options or not MODELS[name].epochs:
            assert torch.equal(found, calm)
            assert torch.equal(torch.get_rng_state(), before)
            continue
        assert not torch.allclose(found, calm)
        if name not in ORACLES or name in EXCEPTIONS["dropout"]:
            continue
        given, matrices = settings(name, options), dense(graph)

        def drop(h, p, by_node=False, graph=graph, matrices=matrices):
            if by_node:
                return h * mask_of(torch.arange(len(h)), h.shape[1], p).numpy()
            if h is matrices.x and not isinstance(graph.x, np.ndarray):
                kept = graph.x.copy()  # of its stored entries alone
                kept.data = kept.data * dropout(torch.ones(kept.nnz), p).numpy()
                return kept.toarray().astype(float)
            return h * dropout(torch.ones(h.shape), p).numpy()

        torch.manual_seed(4)
        expected = ORACLES[name](weights_of(module), matrices, given, drop)
        assert_close(found, expected)


# ------------------------------------------------------------------ inputs and targets


@every_model
@unreached
def test_logits_have_a_row_for_each_node_that_is_wanted(name):
    for title, graph in GRAPHS.items():
        module, x, operators = make(name, graph)
        nodes = some_nodes(graph.n_nodes)
        for training in (False, True):
            module.train(training)
            found = logits(module, x, operators)
            some = logits(module, x, operators, nodes)
            assert logits(module, x, operators, []).shape == (0, 3)
            assert found.shape == (graph.n_nodes, 3)
            assert some.shape == (4, 3)
            assert found.dtype == some.dtype == torch.float32
            assert torch.isfinite(found).all()
            if not training:
                assert_close(some, found[nodes].detach().numpy(), title)
    few = make_graph(NAMED["path"], n_features=1, n_classes=2)
    assert logits(*make(name, few)).shape == (5, 2)


@trained_models
def test_gradients_reach_every_weight(name):
    for share in (0.0, 0.5):
        options = {p: share for p in DROPOUTS if p in MODELS[name].options}
        module, x, operators = make(name, GRAPHS["random"], **options)
        found = logits(module.train(), x, operators)
        torch.nn.functional.cross_entropy(found, torch.arange(12) % 3).backward()
        for key, weight in module.named_parameters():
            if name in EXCEPTIONS["gradients"] and weight.grad is None:
                assert key.startswith(("p_", "agreement."))
                continue
            assert weight.grad is not None, key
            assert torch.isfinite(weight.grad).all(), key
            assert weight.grad.abs().max() > 0, key


@pytest.mark.parametrize("name", sorted(set(MODELS) - set(EXCEPTIONS["renumbering"])))
@unreached
def test_renumbering_the_nodes_renumbers_the_logits(name):
    for seed in (0, 1):
        graph = make_graph(random_adjacency(seed, 15, 0.15))
        order = np.random.default_rng(seed).permutation(15)
        module, x, operators = make(name, graph)
        other = Graph(
            x=graph.x[order],
            adj=sp.csr_array(graph.adj[order][:, order]),
            y=graph.y[order],
            classes=graph.classes,
        )
        renumbered = model_input(name, other, known_labels(graph)[order])
        expected = logits(module, x, operators)[order].detach().numpy()
        operators = propagation(name, other)
        assert_close(logits(module, renumbered, operators), expected, seed)


@pytest.mark.parametrize("name", [n for n in TRAINED if MODELS[n].symmetric])
def test_training_does_not_depend_on_the_order_of_the_nodes(name, monkeypatch):
    graph = make_graph(random_adjacency(1, 60, 0.03))
    nodes = np.arange(60)
    split = Split(nodes[::2], nodes[1::4], nodes[3::4])
    options = {p: 0.0 for p in DROPOUTS if p in MODELS[name].options}
    weights = []
    for density in (0.0, 1.0):  # in order, and neighbors close to each other
        monkeypatch.setattr(batches, "MAX_REORDERED_DENSITY", density)
        module, x, operators = make(name, graph, **options)
        Trainer(module, x, operators, graph.y, split, TrainConfig(epochs=5)).run()
        weights.append(weights_of(module))
    for key, expected in weights[0].items():
        assert_close(weights[1][key], expected, key, rtol=1e-4)


@pytest.mark.parametrize("name", sorted(set(MODELS) - set(EXCEPTIONS["components"])))
def test_components_do_not_influence_each_other(name):
    for title, inside in (("disconnected", [0, 1, 2]), ("isolated last node", [3])):
        graph = GRAPHS[title]
        module, x, operators = make(name, graph)
        outside = np.setdiff1d(np.arange(graph.n_nodes), inside)
        values, known = graph.x.copy(), known_labels(graph)
        values[outside] = np.random.default_rng(9).normal(size=(len(outside), 5))
        known[outside] = known[outside].roll(1, dims=1)
        changed = model_input(name, replace(graph, x=values), known)
        before, after = logits(module, x, operators), logits(module, changed, operators)
        assert_close(after[inside], before[inside].detach().numpy(), title)
        assert (after - before)[outside].abs().max() > 1e-3


@pytest.mark.parametrize("name", [n for n in MODELS if MODELS[n].inputs != "labels"])
def test_sparse_features_do_for_dense_ones(name):
    sparse = with_sparse_features(GRAPHS["random"])
    module, x, operators = make(name, replace(sparse, x=sparse.x.toarray()))
    expected = logits(module, x, operators).detach().numpy()
    assert_close(logits(module, model_input(name, sparse), operators), expected)


# -------------------------------------------------------------------------- life cycle


@every_model
@unreached
def test_life_cycle(name, tmp_path):
    clf, graph = fitted(name), life_graph()
    found = clf.predict_logits(graph)
    assert found.shape == (60, 3)
    assert np.isfinite(found).all()
    # Bits: after the same seed, and after loading.
    assert clone(clf).fit(graph).predict_logits(graph).tobytes() == found.tobytes()
    clf.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    assert loaded.predict_logits(graph).tobytes() == found.tobytes()
    # Some nodes, in any order, with repeats; and in blocks.
    assert_close(clf.predict_logits(graph, [7, 3, 7]), found[[7, 3, 7]])
    blocks = [part for _, part in clf.predict_blocks(graph, block_size=17)]
    assert [len(part) for part in blocks] == [17, 17, 17, 9]
    assert_close(np.concatenate(blocks), found)


@every_model
@unreached
def test_other_seeds_and_graphs_without_ids(name, tmp_path):
    graph = life_graph(ids=False)
    clf = unfitted(name).fit(graph)
    found = clf.predict_logits(graph)
    other = clone(clf).set_params(random_state=1).fit(graph).predict_logits(graph)
    if MODELS[name].inputs != "table" or MODELS[name].epochs:
        # What is learned in one go may draw folds, which change nothing.
        assert np.array_equal(found, other) == (not MODELS[name].epochs)
    clf.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    again = replace(graph)
    assert loaded.predict_logits(again).tobytes() == found.tobytes()
    if MODELS[name].inputs == "labels":  # numbers of nodes are not taken for ids
        with pytest.raises(InputError):
            clf.predict(life_graph(seed=8, ids=False))


@every_model
@unreached
def test_another_graph_is_predicted_by_the_same_formula(name):
    clf, old = fitted(name), life_graph()
    # Labels are for nodes that both graphs have: here n20 to n59.
    ids = np.array([f"n{i}" for i in range(20, 65)])
    new = replace(life_graph(45, seed=8), node_ids=ids)
    if name in EXCEPTIONS["other graphs"]:
        with pytest.raises(InputError, match="a column for each"):
            clf.predict_logits(new)
        return
    known = torch.zeros(45, 3)
    if MODELS[name].inputs != "features":
        shared = clf.split_.train[clf.split_.train >= 20]
        known[shared - 20, torch.from_numpy(old.y[shared])] = 1
    scaled = new
    if clf.scaler_ is not None:
        scaled = replace(new, x=np.asarray(clf.scaler_(new.x)))
    x = model_input(name, scaled, known)
    expected = logits(clf.module_, x, propagation(name, new)).detach().numpy()
    assert_close(clf.predict_logits(new), expected)


@every_model
@unreached
def test_new_nodes_are_as_in_a_graph_that_always_had_them(name):
    clf, graph = fitted(name), life_graph()
    rng = np.random.default_rng(0)
    edges = [[60, 61, 62, 60, 3], [4, 60, 33, 17, 50]]
    new = graph.with_nodes(
        rng.normal(size=(3, 6)), edges, y=[-1, -1, -1], node_ids=["x", "y", "z"]
    )
    if name in EXCEPTIONS["other graphs"]:
        with pytest.raises(InputError, match="a column for each"):
            clf.predict_logits(new)
        return
    alone = clf.predict_logits(new, [60, 61, 62, 0])
    names = Graph.__dataclass_fields__
    afresh = Graph(**{key: getattr(new, key) for key in names})
    assert_close(alone, clf.predict_logits(afresh)[[60, 61, 62, 0]])


@every_model
@unreached
def test_batches_are_trained_on_or_refused(name):
    graph = life_graph()
    clf = unfitted(name, batch_size=7)
    if name in EXCEPTIONS["batches"]:
        with refused(param="batch_size", words=EXCEPTIONS["batches"][name]):
            clf.fit(graph)
        return
    clf.fit(graph)
    whole = np.concatenate([p for _, p in clf.predict_blocks(graph, block_size=60)])
    found = clf.predict_logits(graph)
    assert_close(found, whole)
    assert np.isfinite(found).all()
    assert clone(clf).fit(graph).predict_logits(graph).tobytes() == found.tobytes()


@every_model
@unreached
def test_a_graph_with_isolated_nodes_and_parts_can_be_fitted(name):
    edges = [(i, i + 1) for i in range(0, 18, 2)] + [(0, 3), (5, 8)]
    y = np.arange(20) % 2
    x = np.random.default_rng(0).normal(size=(20, 1)) + 4 * y[:, None]
    graph = Graph(x=x, adj=adjacency(20, edges), y=y)
    assert graph.degrees[-1] == 0
    assert np.isfinite(unfitted(name).fit(graph).predict_proba(graph)).all()


@trained_models
def test_fifty_epochs_stay_finite_and_learn(name):
    graph = life_graph()
    for options in ({}, {p: 0.0 for p in DROPOUTS if p in MODELS[name].options}):
        clf = NodeClassifier(name, epochs=50, random_state=0, options=options)
        losses = [epoch.loss for epoch in clf.fit(graph).history_]
        assert len(losses) == 50
        assert np.isfinite(losses).all()
        assert np.isfinite(clf.predict_logits(graph)).all()
        for weight in clf.module_.parameters():
            assert torch.isfinite(weight).all()
    assert losses[-1] < min(losses[0], 0.75 * np.log(3))  # without dropout


# ---------------------------------------------------------------------------- refusals


@every_model
def test_a_fit_is_held_to_the_limit_of_memory(name):
    with pytest.raises(InputError, match="memory"):
        unfitted(name, memory_limit=1e-9).fit(life_graph())
