"""GAM: its formula, whose pairs it learns from, and which nodes it labels."""

from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from h2gcn import Graph, NodeClassifier, Split
from h2gcn.models import MODELS
from h2gcn.models.gam import GAM, Agreement, _sampled
from h2gcn.sparse import Operator, Propagation
from support.cases import each
from support.graphs import NAMED, adjacency
from support.refusals import only, refused

FEATURES, CLASSES, WIDTH = 5, 3, 8
EDGES = [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (4, 5), (1, 6), (5, 6), (0, 6)]
SEVEN = adjacency(7, EDGES)
LABELS, INDEX = torch.tensor([0, 0, 1, 2]), torch.tensor([0, 1, 2, 3])
"""Of nodes 0 to 3; 4, 5 and 6 have none."""
Given = dict[str, torch.Tensor]


def features(n: int = 7, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, FEATURES, generator=torch.Generator().manual_seed(seed))


def build(**options: object) -> GAM:
    torch.manual_seed(0)
    given = {"hidden_channels": WIDTH, "dropout": 0.0, **options}
    return GAM(FEATURES, CLASSES, **given)  # type: ignore[arg-type]


def operators_of(adj: sp.csr_array = SEVEN) -> tuple[Operator, ...]:
    return tuple(Operator(a, symmetric=True) for a in MODELS["gam"].build_matrices(adj))


def prepare(
    module: GAM, number: int, before: Given, adj: sp.csr_array = SEVEN
) -> Given:
    n = adj.shape[0]
    phase = module.phases()[number]
    return module.eval().prepare(
        phase, features(n), Propagation(operators_of(adj)), LABELS, INDEX, before
    )


def pairs_of(tensor: torch.Tensor) -> set[tuple[int, int]]:
    return {(u, v) for u, v in tensor.T.tolist()}


def agreement(module: Agreement, x: np.ndarray, u: int, v: int) -> float:
    """Return the logistic function of z in double precision, of one pair."""
    w, b, out, c = (p.detach().double().numpy() for p in module.parameters())
    one, other = (np.maximum(x[i] @ w + b, 0) for i in (u, v))
    z = ((one - other) ** 2 @ out)[0] + c[0]
    return float(1 / (1 + np.exp(-z)))


@each("named_adj", NAMED.values(), ids=NAMED)
@each("base", ["mlp", "gcn"])
def test_the_classifier_predicts(named_adj: sp.csr_array, base: str) -> None:
    n, module = named_adj.shape[0], build(base=base).eval()
    x, operators = features(n), operators_of(named_adj)
    a = named_adj.toarray().astype(float) + np.eye(n)
    root = a.sum(axis=1) ** -0.5
    a_hat = np.eye(n) if base == "mlp" else root[:, None] * a * root
    w1, w2 = (w.detach().double().numpy() for w in module.classifier.parameters())
    expected = a_hat @ np.maximum(a_hat @ x.double().numpy() @ w1, 0) @ w2
    logits = module(x, Propagation(operators)).detach()
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)
    index = np.array([n - 1, 0])
    some = module(x, Propagation(operators, torch.as_tensor(index))).detach()
    np.testing.assert_allclose(some, expected[index], rtol=1e-5, atol=1e-5)
    assert module.reach == (0 if base == "mlp" else 2)


def test_agreement_goes_by_the_distance_of_hidden_layers() -> None:
    torch.manual_seed(0)
    module = Agreement(FEATURES, WIDTH, "relu")
    torch.nn.init.normal_(module.embedding_bias)
    torch.nn.init.normal_(module.output_bias)
    x = features()
    pairs = torch.tensor([[0, 1, 3], [2, 1, 0]])
    found = module(x, pairs).sigmoid().detach()
    expected = [agreement(module, x.double().numpy(), *p) for p in pairs.T.tolist()]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    torch.testing.assert_close(module(x, pairs), module(x, pairs.flip(0)))
    sparse = Operator(sp.csr_array(x.numpy()))
    torch.testing.assert_close(module(sparse, pairs), module(x, pairs))


def softmax(logits: np.ndarray) -> np.ndarray:
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def loss_by_loops(
    module: GAM, x: np.ndarray, adj: np.ndarray, known: list[int], logits: np.ndarray
) -> float:
    """Return cross-entropy of what is known and the three terms, pair by pair."""
    f, y = softmax(logits), np.eye(CLASSES)
    labelled = [v for v, label in enumerate(known) if label >= 0]
    loss = -np.mean([np.log(f[v, known[v]]) for v in labelled])
    sums = {kind: [0.0, 0.0] for kind in ("ll", "lu", "uu")}
    for u, v in zip(*np.triu(adj, 1).nonzero(), strict=True):
        w = adj[u, v]
        if known[u] >= 0 and known[v] >= 0:
            if known[u] != known[v]:
                continue
            kind, a, distance = "ll", 1.0, 0.0
        elif known[u] < 0 and known[v] < 0:
            kind, a = "uu", agreement(module.agreement, x, u, v)
            distance = ((f[u] - f[v]) ** 2).sum()
        else:
            s, t = (u, v) if known[u] >= 0 else (v, u)
            kind, a = "lu", agreement(module.agreement, x, u, v)
            distance = ((y[known[s]] - f[t]) ** 2).sum()
        sums[kind][0] += w * a * distance
        sums[kind][1] += w
    factors = {"ll": 0.0, "lu": module.lu, "uu": module.uu}
    terms = [
        factors[kind] * total / weight
        for kind, (total, weight) in sums.items()
        if weight
    ]
    return float(loss + sum(terms) / max(len(terms), 1))


@each("base", ["mlp", "gcn"])
@each("weighted", [False, True])
def test_the_classifier_lowers_what_the_paper_says(base: str, weighted: bool) -> None:
    adj = SEVEN.copy()
    if weighted:
        rows, columns = adj.nonzero()
        adj.data = (1 + rows + columns + rows * columns % 4).astype(np.float32)
    module = build(base=base, lu=3.0, uu=5.0)
    given = prepare(module, 2, prepare(module, 1, {}, adj), adj)
    known = [0, 0, 1, 2, -1, -1, -1]
    assert given["labels"].tolist() == known
    x, operators = features(), operators_of(adj)
    phase = module.phases()[2]
    loss = module.train().objective(phase, x, Propagation(operators), given, None)
    assert loss is not None
    logits = module(x, Propagation(operators)).detach().double().numpy()
    dense = adj.toarray().astype(float)
    expected = loss_by_loops(module, x.double().numpy(), dense, known, logits)
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    loss.backward()
    for name, weight in module.named_parameters():
        assert (weight.grad is not None) == name.startswith("classifier"), name


def test_weights_of_classes_count_in_the_cross_entropy() -> None:
    module = build(lu=0.0, uu=0.0)
    given = prepare(module, 2, prepare(module, 1, {}))
    x, operators, phase = features(), operators_of(), module.phases()[2]
    weights = torch.tensor([1.0, 2.0, 7.0])
    loss = module.objective(phase, x, Propagation(operators), given, weights)
    logits = module(x, Propagation(operators))
    f = logits.log_softmax(dim=1)
    parts = [f[0, 0], f[1, 0], 2 * f[2, 1], 7 * f[3, 2]]
    torch.testing.assert_close(loss, -torch.stack(parts).mean())


def test_where_no_pair_is_of_a_kind_it_is_left_out() -> None:
    adj = adjacency(7, [(4, 5), (5, 6)])  # all of them without labels
    module = build(lu=4.0, uu=3.0)
    given = prepare(module, 2, prepare(module, 1, {}, adj), adj)
    assert [given[kind].shape[1] for kind in ("ll", "lu", "uu")] == [0, 0, 2]
    x, operators = features(), operators_of(adj)
    loss = module.objective(module.phases()[2], x, Propagation(operators), given, None)
    logits = module(x, Propagation(operators)).detach().double().numpy()
    expected = loss_by_loops(
        module,
        x.double().numpy(),
        adj.toarray().astype(float),
        [0, 0, 1, 2, -1, -1, -1],
        logits,
    )
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_agreement_is_judged_on_equal_and_different_alike() -> None:
    module = build()
    given = {
        "equal": torch.tensor([[0], [1]]),
        "different": torch.tensor([[0, 2, 3], [2, 3, 1]]),
    }
    x, phase = features(), module.phases()[1]
    loss = module.objective(phase, x, Propagation(operators_of()), given, None)
    p = [
        agreement(module.agreement, x.double().numpy(), u, v)
        for u, v in ((0, 1), (0, 2), (2, 3), (3, 1))
    ]
    expected = -np.log(p[0]) / 2 - np.mean([np.log(1 - q) for q in p[1:]]) / 2
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    loss.backward()
    for name, weight in module.named_parameters():
        assert (weight.grad is not None) == name.startswith("agreement"), name


def test_agreement_learns_from_edges_between_labelled_nodes() -> None:
    given = prepare(build(), 1, {})
    assert given["labels"].tolist() == [0, 0, 1, 2, -1, -1, -1]
    assert pairs_of(given["equal"]) == {(0, 1)}
    assert pairs_of(given["different"]) == {(0, 2), (1, 2), (2, 3)}


def test_pairs_of_different_labels_are_sampled_until_they_are_as_many() -> None:
    adj = adjacency(9, [(u, v) for u in range(4) for v in range(u)] + [(4, 5), (3, 4)])
    labels, index = torch.tensor([0, 0, 0, 0, 1, 1]), torch.arange(6)
    module = build()
    given = module.eval().prepare(
        module.phases()[1],
        features(9),
        Propagation(operators_of(adj)),
        labels,
        index,
        {},
    )
    assert given["equal"].shape[1] == 7  # six of one class, one of the other
    assert given["different"].shape[1] == 7
    for u, v in pairs_of(given["different"]):
        assert labels[u] != labels[v]
    assert (3, 4) in pairs_of(given["different"])


def test_pairs_of_equal_labels_are_sampled_where_no_edge_has_them() -> None:
    adj = adjacency(7, [(0, 2), (1, 3), (2, 3)])
    given = prepare(build(), 1, {}, adj)
    assert pairs_of(given["different"]) == {(0, 2), (1, 3), (2, 3)}
    assert given["equal"].shape[1] == 3
    assert pairs_of(given["equal"]) <= {(0, 1), (1, 0)}


def test_no_pair_is_sampled_where_there_is_none() -> None:
    known = torch.tensor([0, 1, -1, 2])
    assert _sampled(known, 5, same=True).shape == (2, 0)
    one_class = torch.tensor([1, 1, -1, 1])
    assert _sampled(one_class, 5, same=False).shape == (2, 0)
    labels, index = torch.tensor([0, 1]), torch.tensor([0, 3])
    module = build()
    given = module.prepare(
        module.phases()[1], features(), Propagation(operators_of()), labels, index, {}
    )
    assert given["equal"].shape == (2, 0)
    loss = module.objective(
        module.phases()[1], features(), Propagation(operators_of()), given, None
    )
    assert torch.isfinite(loss)


@each("same", [False, True])
def test_every_pair_may_be_sampled(same: bool) -> None:
    known = torch.tensor([2, 0, -1, 0, 2, 1, 2])
    drawn = _sampled(known, 4000, same=same)
    wanted = {
        (u, v)
        for u in range(7)
        for v in range(7)
        if u != v and min(known[u], known[v]) >= 0 and (known[u] == known[v]) == same
    }
    counts = Counter((u, v) for u, v in drawn.T.tolist())
    assert set(counts) == wanted
    # The first is drawn evenly among those that have a partner, then the second.
    firsts = Counter(u for u, _ in wanted)
    for (u, _), count in counts.items():
        expected = 4000 / len(firsts) / firsts[u]
        assert abs(count - expected) < 5 * np.sqrt(expected)


def test_agreement_and_classifier_forget_before_each_round() -> None:
    module = build()
    before = {name: w.detach().clone() for name, w in module.named_parameters()}
    given = prepare(module, 1, {})
    assert not torch.equal(module.agreement.embedding, before["agreement.embedding"])
    kept = module.classifier.embedding.detach()
    assert torch.equal(kept, before["classifier.embedding"])
    agreement_now = module.agreement.embedding.detach().clone()
    prepare(module, 2, given)
    assert torch.equal(module.agreement.embedding, agreement_now)
    now = module.classifier.embedding.detach()
    assert not torch.equal(now, before["classifier.embedding"])


def labelled_by(
    shares: list[list[float]], known: list[int], labels: list[int], **options: object
) -> list[int]:
    """Return labels once the surest of some nodes have theirs."""
    module = build(**options)
    logits = torch.tensor(shares).log()
    found = module._labelled(torch.tensor(known), logits, torch.tensor(labels))
    return found.tolist()


def test_the_surest_nodes_are_labelled_class_by_class() -> None:
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
    labels = [0, 0, 1, 2]  # half of class 0, a quarter of each other
    assert labelled_by(shares, known, labels, added=4) == [0, 0, -1, -1, 1, -1, 2]
    assert labelled_by(shares, known, labels, added=8) == [0, 0, 0, 1, 1, -1, 2]
    sure = {"added": 8, "confidence": 0.75}
    assert labelled_by(shares, known, labels, **sure) == [0, 0, -1, -1, 1, -1, 2]
    few = {"added": 1}  # no class has a whole node of it
    assert labelled_by(shares, known, labels, **few) == known


def test_of_nodes_as_sure_the_lower_numbers_are_labelled() -> None:
    shares = [[0.2, 0.8, 0.0], [0.8, 0.2, 0.0], [0.8, 0.2, 0.0], [0.8000001, 0.2, 0.0]]
    found = labelled_by(shares, [-1] * 4, [0, 1], added=4)
    assert found == [1, 0, 0, -1]


def test_labels_are_given_after_the_first_round_and_stay() -> None:
    module = build(added=4, confidence=0.0)
    first = prepare(module, 1, {})
    assert (first["labels"] >= 0).sum() == 4
    between = prepare(module, 2, first)
    said = module(features(), Propagation(operators_of())).argmax(dim=1)
    second = prepare(module, 3, between)
    new = torch.nonzero((second["labels"] >= 0) & (first["labels"] < 0))[:, 0]
    assert len(new)
    assert torch.equal(second["labels"][new], said[new])
    third = prepare(module, 5, prepare(module, 4, second))
    assert torch.equal(third["labels"][:4], LABELS)
    assert torch.equal(third["labels"][new], second["labels"][new])


@each("base", ["mlp", "gcn"])
def test_a_fit_learns_and_predicts_a_few_nodes_alone(base: str) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    edges = [(u, v) for u in range(60) for v in range(u) if y[u] == y[v]]
    chosen = [edges[i] for i in rng.choice(len(edges), 120, replace=False)]
    x = rng.normal(size=(60, 4)) + 3 * np.eye(3, 4)[y]
    graph = Graph(x=x, adj=adjacency(60, chosen), y=y)
    split = Split(np.arange(12), np.arange(12, 30), np.arange(30, 60))
    clf = NodeClassifier("gam", epochs=80, random_state=0, options={"base": base})
    clf.fit(graph, split)
    assert len(clf.history_) == 80
    assert clf.val_score_ > 0.6
    some = clf.predict_logits(graph, [41, 3])
    whole = clf.predict_logits(graph)
    np.testing.assert_allclose(some, whole[[41, 3]], rtol=1e-5, atol=1e-5)


def test_a_graph_of_which_all_is_labelled_can_be_fitted(small_graph: Graph) -> None:
    split = Split(np.arange(29), np.array([29]), np.zeros(0, dtype=np.int64))
    clf = NodeClassifier("gam", epochs=12, random_state=0).fit(small_graph, split)
    assert np.isfinite(clf.predict_logits(small_graph)).all()


@each(
    "options",
    [
        {"base": "gat"},
        {"dropout": 1.5},
        {"dropout": 1},
        {"rounds": 0},
        {"added": 0},
        {"confidence": 1.0},
        {"agreement_steps": 0},
        {"lu": -1.0},
        {"uu": "much"},
        {"activation": "tanh"},
        {"hidden_channels": 0},
        {"in_channels": 0},
        {"out_channels": 0},
    ],
)
def test_bad_options_are_named(options: dict[str, object]) -> None:
    with refused(**only(options)):
        GAM(**({"in_channels": 5, "out_channels": 3} | options))  # type: ignore[arg-type]
