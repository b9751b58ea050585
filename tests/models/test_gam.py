"""GAM: its losses pair by pair, whose pairs it learns from, which nodes it labels."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from h2gcn.models.gam import GAM, Agreement, _labeled_pairs, _sample_pairs
from h2gcn.sparse import Operator
from models.oracles import softmax
from support.fits import rehearse, train_module
from support.graphs import adjacency, make_graph
from support.models import logits, propagation

CLASSES = 3
EDGES = [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (4, 5), (1, 6), (5, 6), (0, 6)]
SEVEN = adjacency(7, EDGES)
INDEX, KNOWN = [0, 1, 2, 3], [0, 0, 1, 2, -1, -1, -1]
Y = np.array([0, 0, 1, 2, 1, 1, 1])
"""Of nodes 0 to 3; 4, 5 and 6 are not trained on."""
GRAPHS = {
    "plain": make_graph(SEVEN),
    "weighted": make_graph(SEVEN, weighted=True),
    "no labeled pairs": make_graph(adjacency(7, [(4, 5), (5, 6)])),
    "no unlabeled pairs": make_graph(adjacency(7, [(0, 1), (1, 2), (3, 4)])),
    "labels differ": make_graph(adjacency(7, [(0, 2), (1, 3)])),
}


class Watched(GAM):
    """Keeps the labels that the classifier has in each round."""

    def _pair_factors(self, x, pairs, weights, known):
        self.known.append(known.tolist())
        return super()._pair_factors(x, pairs, weights, known)


def build(**options):
    torch.manual_seed(0)
    options = {"hidden_channels": 8, "dropout": 0.0, "rounds": 1, **options}
    module = Watched(5, CLASSES, **options)
    module.known = []
    return module


def stages_of(module, graph, index=INDEX, **config):
    x = torch.from_numpy(graph.x)
    return rehearse(module, x, propagation("gam", graph), Y, index, **config)


def agreement_of(module, x, u, v):
    """Return the logistic function of z in double precision, of one pair."""
    w, b, out, c = (p.detach().double().numpy() for p in module.parameters())
    one, other = (np.maximum(x[i] @ w + b, 0) for i in (u, v))
    z = ((one - other) ** 2 @ out)[0] + c[0]
    return 1 / (1 + np.exp(-z))


def test_agreement_depends_on_the_distance_of_hidden_layers():
    module, x = Agreement(5, 8, "relu"), torch.randn(7, 5)
    torch.nn.init.normal_(module.embedding_bias)
    torch.nn.init.normal_(module.output_bias)
    pairs = torch.tensor([[0, 1, 3], [2, 1, 0]])
    expected = [agreement_of(module, x.double().numpy(), *p) for p in pairs.T.tolist()]
    for features in (x, Operator(sp.csr_array(x.numpy()))):
        for ends in (pairs, pairs.flip(0)):
            found = module(features, ends).sigmoid().detach()
            np.testing.assert_allclose(found, expected, rtol=1e-5)


def loss_by_loops(module, graph, class_weights):
    """Return the cross-entropy of the labeled nodes and both terms, pair by pair."""
    f = logits(module, torch.from_numpy(graph.x), propagation("gam", graph))
    f, y = softmax(f.detach().double().numpy()), np.eye(CLASSES)
    losses = [-class_weights[KNOWN[v]] * np.log(f[v, KNOWN[v]]) for v in INDEX]
    adj = (graph.adj if graph.weights is None else graph.weights).toarray()
    pairs = {"ll": [], "lu": [], "uu": []}
    for u, v in zip(*np.triu(adj, 1).nonzero(), strict=True):
        one, other = (y[KNOWN[w]] if KNOWN[w] >= 0 else f[w] for w in (u, v))
        kind = {0: "uu", 1: "lu", 2: "ll"}[(KNOWN[u] >= 0) + (KNOWN[v] >= 0)]
        if kind != "ll" or KNOWN[u] == KNOWN[v]:
            a = agreement_of(module.agreement, graph.x.astype(float), u, v)
            pairs[kind].append((adj[u, v], a * ((one - other) ** 2).sum()))
    factors = {"ll": 0, "lu": module.lu, "uu": module.uu}
    terms = [
        factors[kind] * sum(w * term for w, term in found) / sum(w for w, _ in found)
        for kind, found in pairs.items()
        if found
    ]
    return np.mean(losses) + sum(terms) / max(len(terms), 1)


def test_the_classifier_minimizes_the_loss_of_the_paper():
    for name, graph in GRAPHS.items():
        for base, weight in (("mlp", None), ("gcn", "balanced")):
            module = build(base=base, lu=3.0, uu=5.0)
            _, _, stage = stages_of(module, graph, epochs=7, class_weight=weight)
            assert (stage.kind, stage.length) == ("train", 3)
            weights = np.ones(3) if weight is None else np.array([2, 4, 4]) / 3
            expected = loss_by_loops(module, graph, weights)
            assert stage.loss == pytest.approx(expected, rel=1e-5), name
            names = {name for name in stage.weights if name.startswith("classifier.")}
            assert stage.learners == names
            assert {id(w) for w in module.decayed_parameters()} <= {
                id(w) for w in module.classifier.parameters()
            }


def test_agreement_counts_equal_and_different_pairs_alike():
    module, graph = build(agreement_steps=4), GRAPHS["plain"]
    _, stage, _ = stages_of(module, graph)
    x = graph.x.astype(float)
    pairs = (0, 1), (0, 2), (1, 2), (2, 3)  # one edge within a class, three between
    p = [agreement_of(module.agreement, x, *pair) for pair in pairs]
    expected = -np.log(p[0]) / 2 - np.log(1 - np.array(p[1:])).mean() / 2
    assert (stage.kind, stage.length) == ("minimize", 4)
    assert stage.loss == pytest.approx(expected, rel=1e-5)
    # Without a pair of equal labels, the different ones count alone.
    _, stage, _ = stages_of(module, graph, index=[0, 3])
    expected = -np.log(1 - agreement_of(module.agreement, x, 0, 3))
    assert stage.loss == pytest.approx(expected, rel=1e-5)
    assert all(name.startswith("agreement.") for name in stage.learners)


def pairs_of(n, edges, known):
    adj = sp.triu(adjacency(n, edges)).nonzero()
    found = _labeled_pairs(torch.tensor(np.stack(adj)), torch.tensor(known))
    return tuple([(u, v) for u, v in pairs.T.tolist()] for pairs in found)


def test_agreement_learns_from_edges_and_from_as_many_sampled_pairs():
    equal, different = pairs_of(7, EDGES, KNOWN)
    assert equal == [(0, 1)]
    assert different == [(0, 2), (1, 2), (2, 3)]
    # Six edges of one class and one of the other, but one between them.
    edges = [(u, v) for u in range(4) for v in range(u)] + [(4, 5), (3, 4)]
    known = [0, 0, 0, 0, 1, 1, -1, -1, -1]
    equal, different = pairs_of(9, edges, known)
    assert len(equal) == len(different) == 7
    assert (3, 4) in different
    assert all(known[u] + known[v] == 1 for u, v in different)
    # No edge has equal labels.
    equal, different = pairs_of(7, [(0, 2), (1, 3), (2, 3)], KNOWN)
    assert set(different) == {(0, 2), (1, 3), (2, 3)}
    assert len(equal) == 3
    assert set(equal) <= {(0, 1), (1, 0)}


def test_every_pair_may_be_sampled_where_there_is_one():
    known, count = torch.tensor([2, 0, -1, 0, 2, 1, 2]), 4000
    torch.manual_seed(0)
    for same in (False, True):
        wanted = {
            (u, v)
            for u in range(7)
            for v in range(7)
            if u != v
            and min(known[u], known[v]) >= 0
            and (known[u] == known[v]) == same
        }
        pairs = _sample_pairs(known, count, same=same)
        counts = Counter((u, v) for u, v in pairs.T.tolist())
        assert set(counts) == wanted
        # The first is uniform among those that have a partner, then the second.
        firsts = Counter(u for u, _ in wanted)
        for (u, _), found in counts.items():
            expected = count / len(firsts) / firsts[u]
            assert abs(found - expected) < 5 * np.sqrt(expected)
    for same, lonely in ((True, [0, 1, -1, 2]), (False, [1, 1, -1, 1])):
        assert _sample_pairs(torch.tensor(lonely), 5, same=same).shape == (2, 0)


def test_each_round_forgets_the_weights_of_what_it_trains():
    module = build(rounds=2)
    stages = stages_of(module, GRAPHS["plain"])
    kinds = ["train", "minimize", "train", "minimize", "train"]
    assert [stage.kind for stage in stages] == kinds
    for name in ("classifier.embedding", "agreement.embedding"):
        redrawn = [
            not torch.equal(before.weights[name], after.weights[name])
            for before, after in pairwise(stages)
        ]
        own = "minimize" if name.startswith("agreement") else "train"
        assert redrawn == [stage.kind == own for stage in stages[1:]]


def test_the_most_confident_nodes_are_labeled_class_by_class():
    shares = [
        [0.90, 0.05, 0.05],
        [0.80, 0.15, 0.05],
        [0.70, 0.20, 0.10],
        [0.30, 0.60, 0.10],
        [0.10, 0.88, 0.02],
        [0.34, 0.33, 0.33],
        [0.00, 0.00, 1.00],
    ]
    known = [-1, -1, -1, -1, -1, -1, 2]
    labels = torch.tensor([0, 0, 1, 2])  # half of class 0, a quarter of each other
    for options, expected in (
        ({"added": 4}, [0, 0, -1, -1, 1, -1, 2]),
        ({"added": 8}, [0, 0, 0, 1, 1, -1, 2]),
        ({"added": 8, "confidence": 0.75}, [0, 0, -1, -1, 1, -1, 2]),
        ({"added": 1}, known),  # no class has a whole node of it
    ):
        rows = torch.tensor(shares).log()
        found = build(**options)._label_most_confident(
            torch.tensor(known), rows, labels
        )
        assert found.tolist() == expected


def test_labels_are_added_after_a_round_and_stay():
    module = build(added=4, confidence=0.0, rounds=3)
    graph = GRAPHS["plain"]
    round_1 = stages_of(module, graph)[2]
    first, second, third = module.known
    assert first == KNOWN
    module.load_state_dict(round_1.weights)
    rows = logits(module, torch.from_numpy(graph.x), propagation("gam", graph))
    predicted = rows.argmax(dim=1).tolist()
    added = [v for v in range(7) if first[v] != second[v]]
    assert added
    for v in range(7):
        assert second[v] == (predicted[v] if v in added else first[v])
        assert third[v] == second[v] or second[v] < 0


def test_a_fit_learns_classes_that_edges_join():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    edges = [(u, v) for u in range(60) for v in range(u) if y[u] == y[v]]
    chosen = [edges[i] for i in rng.choice(len(edges), 120, replace=False)]
    graph = make_graph(adjacency(60, chosen))
    x = torch.from_numpy(graph.x + 3 * np.eye(3, 5, dtype=np.float32)[y])
    for base in ("mlp", "gcn"):
        for index in (np.arange(12), np.arange(60)):
            module, operators = build(base=base, rounds=3), propagation("gam", graph)
            result = train_module(module, x, operators, y, index, epochs=80)
            assert len(result.history) == 80
            assert result.val_score > 0.6
