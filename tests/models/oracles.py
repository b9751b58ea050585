"""The formula of each model once more: dense, in double precision, in numpy alone.

`ORACLES[name](w, g, o, drop)` returns the logits of all nodes, [n, C], from the weights
`w` by name, the graph `g` and the options `o`. Nothing of the package is used here.
Weights may be complex: every formula is analytic where it has a derivative, so a step
along the imaginary axis gives its gradient to the last digit.

`drop(h, p)` is what a training step drops of a matrix, called in the order of the
formula; `by_node` says that the draw depends on the numbers of the nodes. The default
drops nothing.
"""

from collections import deque
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np

__all__ = ["ORACLES", "Dense", "ring", "sym"]


class Dense(NamedTuple):
    """A graph in dense matrices."""

    x: np.ndarray  # features, [n, F]
    adj: np.ndarray  # symmetric; weights of the edges, or ones, [n, n]
    directed: np.ndarray | None  # row i has the nodes that i points to, [n, n]
    known: np.ndarray  # one-hot labels of training nodes, zero elsewhere, [n, C]


def keep(h, p, by_node=False):  # noqa: ARG001
    """Drop nothing, as in evaluation."""
    return h


# ---------------------------------------------------------------------- small pieces


def relu(h):
    return np.where(h.real > 0, h, 0)


def elu(h):
    return np.where(h.real > 0, h, np.exp(np.where(h.real > 0, 0, h)) - 1)


ACTIVATIONS = {"relu": relu, "elu": elu, "none": lambda h: h}


def softmax(h):
    """Return shares of each row."""
    powers = np.exp(h - h.real.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def unit_rows(h, floor=0.0):
    """Return rows of length one; shorter ones than `floor` stay as they are."""
    length = np.sqrt((h * h).sum(axis=1, keepdims=True))
    return h / np.where(length.real > floor, length, 1)


def layer_norm(h, weight=1.0, bias=0.0):
    h = h - h.mean(axis=1, keepdims=True)
    return h / np.sqrt((h * h).mean(axis=1, keepdims=True) + 1e-5) * weight + bias


def largest(parts):
    """Return the largest entry of all matrices at each place."""
    stacked = np.stack(parts)
    return np.take_along_axis(stacked, stacked.real.argmax(axis=0)[None], axis=0)[0]


def linear(w, name, h):
    """Return what a linear layer of torch gives."""
    return h @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def binary(a):
    return (a > 0).astype(float)


def with_loops(a):
    return a + np.eye(len(a))


def over_roots(a):
    """Return D_out^-1/2 A D_in^-1/2; a node without edges has zeros."""
    out, into = (np.where(d > 0, d, 1) for d in (a.sum(axis=1), a.sum(axis=0)))
    return a / np.sqrt(np.outer(out, into))


sym = over_roots  # D^-1/2 A D^-1/2 where A is symmetric


def means(a):
    """Return D^-1 A; the mean over no neighbors is zero."""
    total = a.sum(axis=1, keepdims=True)
    return a / np.where(total > 0, total, 1)


def powers(a, *exponents):
    return [np.linalg.matrix_power(a, k) for k in exponents]


def ring(a, hop):
    """Return which nodes are at distance `hop` along the edges, by breadth."""
    result = np.zeros(a.shape)
    for source in range(len(a)):
        distance, queue = {source: 0}, deque([source])
        while queue:
            u = queue.popleft()
            for v in np.flatnonzero(a[u]):
                if v not in distance:
                    distance[v] = distance[u] + 1
                    queue.append(v)
        for v, d in distance.items():
            result[source, v] = d == hop
    return result


# ------------------------------------------------------------------------ H2GCN


def h2gcn(
    w,
    g,
    o,
    drop=keep,
    *,
    hops=(1, 2),
    final=(0, 1),
    own=False,
    nonlinear=False,
):
    """Return the logits by Algorithm 1 of the paper.

    `final` are the rounds that the classifier reads. With `own`, neighborhoods N(v)
    include v; with `nonlinear`, every round is embedded.
    """
    neighborhoods = []
    for hop in hops:
        a = ring(g.adj, hop) * (g.adj if hop == 1 else 1)
        neighborhoods.append(sym(with_loops(a) if own else a))
    r = ACTIVATIONS[o["activation"]](g.x @ w["embedding"])
    representations = [r]
    for k in range(max(final)):
        parts = [a @ r for a in neighborhoods]
        if nonlinear:
            r = relu(np.hstack([r, *parts]) @ w[f"round_embeddings.{k}"])
        else:
            r = np.hstack(parts)
        representations.append(r)
    joined = np.hstack([representations[k] for k in final])
    return drop(joined, o["dropout"], by_node=True) @ w["classifier"]


mlp = partial(h2gcn, hops=(), final=(0,))


# ------------------------------------------------------- convolutions of two layers


def two_layers(w, x, s, act, p, drop, names=("first", "second")):
    """Return S σ(S X W₁) W₂, with dropout of both inputs."""
    hidden = act(s @ drop(x, p[0]) @ w[names[0]])
    return s @ drop(hidden, p[1]) @ w[names[1]]


def gcn(w, g, o, drop=keep, *, jumping=False):
    s, act, p = sym(with_loops(g.adj)), ACTIVATIONS[o["activation"]], o["dropout"]
    if not jumping:
        return two_layers(w, g.x, s, act, (p, p), drop)
    h0 = act(drop(g.x, p) @ w["embedding"])
    h1 = act(s @ drop(h0, p) @ w["first"])
    h2 = act(s @ drop(h1, p) @ w["second"])
    return drop(np.hstack([h0, h1, h2]), p) @ w["classifier"]


def cheby(w, g, o, drop=keep, *, jumping=False):
    """Return filters by Chebyshev polynomials of the Laplacian's eigenvalues."""
    act, p = ACTIVATIONS[o["activation"]], o["dropout"]
    values, vectors = np.linalg.eigh(-sym(g.adj))  # L - I, for 2 bounds L's values

    def filtered(h, weights):
        return sum(
            vectors * np.polynomial.Chebyshev.basis(k)(values) @ vectors.T @ h @ weight
            for k, weight in enumerate(weights)
        )

    if not jumping:
        hidden = act(filtered(drop(g.x, p), w["first"]))
        return filtered(drop(hidden, p), w["second"])
    h0 = act(drop(g.x, p) @ w["embedding"])
    h1 = act(filtered(drop(h0, p), w["first"]))
    h2 = act(filtered(drop(h1, p), w["second"]))
    return drop(np.hstack([h0, h1, h2]), p) @ w["classifier"]


def graphsage(w, g, o, drop=keep, *, jumping=False):
    mean, act, p = means(g.adj), ACTIVATIONS[o["activation"]], o["dropout"]
    x = drop(g.x, p)
    h1 = act(np.hstack([x, mean @ x]) @ w["first"])
    inner = drop(h1, p)
    h2 = act(np.hstack([inner, mean @ inner]) @ w["second"])
    return (np.hstack([h1, h2]) if jumping else h2) @ w["classifier"]


def attention_head(w, layer, h, x, near):
    """Return Σ_j α_ij z_j + b of one head; weights of edges do not count."""
    z = x @ w[f"{layer}.weight"][:, h]
    ego, other = w[f"{layer}.attention"][:, h]
    bias = w[f"{layer}.attention_bias"][:, h].sum()
    rows = []
    for i in range(len(z)):
        e = np.array([ego @ z[i] + other @ z[j] + bias for j in near[i]])
        alpha = softmax(np.where(e.real > 0, e, 0.2 * e))
        rows.append(alpha @ z[near[i]])
    return np.array(rows) + w[f"{layer}.bias"][h]


def gat(w, g, o):
    near = [np.flatnonzero(row) for row in with_loops(g.adj)]
    heads = [attention_head(w, "first", h, g.x, near) for h in range(o["heads"])]
    hidden = ACTIVATIONS[o["activation"]](np.hstack(heads))
    out = [attention_head(w, "second", h, hidden, near) for h in range(o["out_heads"])]
    return sum(out) / len(out)


def mixhop(w, g, o, drop=keep):
    exponents = sorted(o["powers"])
    mixed = powers(sym(with_loops(g.adj)), *exponents)
    x = unit_rows(drop(g.x, o["input_dropout"]))
    share = o["hidden_channels"] // len(exponents)  # the last one has what is left
    splits = share * np.arange(1, len(exponents))
    blocks = np.split(w["first"], splits, axis=1)
    h = np.hstack([a @ x @ block for a, block in zip(mixed, blocks, strict=True)])
    h = h - h.mean(axis=0)
    h = h / np.sqrt((h * h).mean(axis=0) + 1e-3) + w["shift"]
    h = drop(ACTIVATIONS[o["activation"]](h), o["dropout"])
    q = softmax(w["scores"])
    return sum(q[k] * (a @ h @ w["second"][:, k]) for k, a in enumerate(mixed))


def acm_gcn(w, g, o, drop=keep):
    low = means(with_loops(g.adj))
    filters = [low, np.eye(len(low)) - low, np.eye(len(low))]

    def layer(k, x):
        maps, scores = w[f"maps.{k}"], w[f"scores.{k}"]
        if o["relu"] == "after":
            channels = [relu(f @ x @ m) for f, m in zip(filters, maps, strict=True)]
        else:
            channels = [f @ relu(x @ m) for f, m in zip(filters, maps, strict=True)]
        seen = [c @ v for c, v in zip(channels, scores, strict=True)]
        shares = softmax(1 / (1 + np.exp(-np.stack(seen, 1))) @ w[f"mixing.{k}"] / 3)
        return 3 * sum(shares[:, c, None] * channels[c] for c in range(3))

    hidden = relu(layer(0, drop(g.x, o["dropout"])))
    return layer(1, drop(hidden, o["dropout"]))


def gdc(w, g, o, drop=keep):
    """Return gcn on a diffusion of which so much is kept that nothing is cut."""
    values, vectors = np.linalg.eigh(sym(with_loops(g.adj)))
    if o["kernel"] == "heat":
        share = np.exp(o["time"] * (values - 1))
    else:
        share = o["alpha"] / (1 - (1 - o["alpha"]) * values)
    s = vectors * share @ vectors.T
    s[s < 1e-12] = 0
    p = o["dropout"]
    return two_layers(w, g.x, means(s), ACTIVATIONS[o["activation"]], (p, p), drop)


def gmnn(w, g, o, drop=keep):
    """Return what the network q says, which predicts."""
    act, p = ACTIVATIONS[o["activation"]], (o["input_dropout"], o["dropout"])
    s, names = sym(with_loops(g.adj)), ("q_first", "q_second")
    return two_layers(w, g.x, s, act, p, drop, names)


def part(w, prefix):
    """Return the weights of a part by their names in it."""
    start = len(prefix) + 1
    return {n[start:]: v for n, v in w.items() if n.startswith(f"{prefix}.")}


def gam(w, g, o, drop=keep):
    base = gcn if o["base"] == "gcn" else mlp
    return base(part(w, "classifier"), g, o, drop)


# ------------------------------------------------------------------- other networks


def sgc(w, g, o):
    (smooth,) = powers(sym(with_loops(g.adj)), o["power"])
    return smooth @ g.x @ w["weight"] + w["bias"]


def gpr_gnn(w, g, o, drop=keep):
    act, p = ACTIVATIONS[o["activation"]], o["dropout"]
    hidden = act(drop(g.x, p) @ w["first"] + w["first_bias"])
    z = drop(drop(hidden, p) @ w["second"] + w["second_bias"], o["propagation_dropout"])
    spread = powers(sym(with_loops(g.adj)), *range(o["power"] + 1))
    return sum(gamma * (a @ z) for gamma, a in zip(w["gamma"], spread, strict=True))


def residual(w, g, o, drop=keep):
    s, h = sym(with_loops(g.adj)), g.x
    for k in range(o["layers"]):
        z = s @ h @ w[f"neighbours.{k}"] + h @ w[f"own.{k}"]
        if o["norm"] == "batch":  # by the statistics that training has left
            z = (z - w["means"][k]) / np.sqrt(w["variances"][k] + 1e-5)
        elif o["norm"] == "layer":
            z = layer_norm(z)
        z = z if o["norm"] == "none" else z * w["scale"][k]
        h = drop(ACTIVATIONS[o["activation"]](z + w["shift"][k]), o["dropout"])
    return h @ w["classifier"] + w["bias"]


def dir_gnn(w, g, o, drop=keep):
    s = over_roots(g.adj if g.directed is None else g.directed)
    h, layers, last = g.x, [], o["layers"] - 1
    for k in range(o["layers"]):
        z = o["alpha"] * (s @ h @ w[f"along.{k}"])
        z = z + (1 - o["alpha"]) * (s.T @ h @ w[f"against.{k}"]) + w[f"shifts.{k}"]
        if o["jumping"] == "none" and k == last:
            return z
        h = drop(ACTIVATIONS[o["activation"]](z), o["dropout"])
        h = unit_rows(h) if o["normalize"] else h
        layers.append(h)
    joined = np.hstack(layers) if o["jumping"] == "cat" else largest(layers)
    return joined @ w["classifier"] + w["bias"]


def cpgnn(w, g, o, drop=keep):
    n_classes = len(w["compatibility"])
    prior = softmax(mlp(part(w, "prior"), g, o, drop)) - 1 / n_classes
    beliefs = prior
    for _ in range(o["rounds"]):
        beliefs = prior + binary(g.adj) @ beliefs @ w["compatibility"]
    return beliefs + 1 / n_classes


# --------------------------------------------------------------- networks on tables


def label_shares(counts, known):
    """Return shares of the labels around each node, and log(1 + their number)."""
    seen = (counts * (1 - np.eye(len(counts)))) @ known  # never a node's own label
    total = seen.sum(axis=1, keepdims=True)
    return np.hstack([seen / np.maximum(total, 1), np.log1p(total)])


def ring_table_blocks(g):
    """Return ego, rings, directions, degrees and labels around each node."""
    plain = binary(g.adj)
    counts = {"ring1": plain, "ring2": ring(plain, 2)}
    mean = {"ring1": means(g.adj), "ring2": means(counts["ring2"])}
    sizes = [*counts.values()]
    if g.directed is not None:
        for name, a in (("out", g.directed), ("in", g.directed.T)):
            mean[name], counts[name] = means(a), binary(a)
            sizes.append(counts[name])
        for a, b in product(("out", "in"), repeat=2):
            mean[f"{a}_{b}"] = mean[a] @ mean[b]
            counts[f"{a}_{b}"] = counts[a] @ counts[b]
    degrees = np.log1p(np.stack([a.sum(axis=1) for a in sizes], axis=1))
    labels = [label_shares(count, g.known) for count in counts.values()]
    return [g.x, *(a @ g.x for a in mean.values()), degrees, *labels]


def table_net(
    w, g, o, drop=keep, *, blocks, norm=None, gate=False, early=False, skip=False
):
    """Return MLP(σ(z)), z the maps of all blocks, side by side or as LINKX joins."""
    act, parts = ACTIVATIONS[o["activation"]], []
    table = blocks(g) if g.adj.any() else [g.x]  # without edges there is nothing else
    for b, block in enumerate(table):
        z = drop(block, o["input_dropout"]) @ w[f"maps.{b}"] + w["shifts"][b]
        if norm == "layer":
            z = layer_norm(z, w[f"norms.{b}.weight"], w[f"norms.{b}.bias"])
        elif norm == "l2":
            z = unit_rows(z)
        parts.append(act(z) if early else z)
    if gate:
        parts = [s * z for s, z in zip(softmax(w["gates"]), parts, strict=True)]
    z = np.hstack(parts)
    if skip:
        z = sum(parts) + linear(w, "mix", z)
    z = z if early else act(z)
    readout = linear(w, "readout.0", drop(z, o["dropout"]))
    if not skip:
        return readout
    return linear(w, "readout.1", drop(act(readout), o["dropout"]))


def smooth_blocks(a, x, n):
    return [power @ x for power in powers(a, *range(n))]


def linkx_blocks(g):
    if g.directed is None:
        return [g.x, binary(g.adj)]
    return [g.x, binary(g.directed), binary(g.directed.T)]


TABLES = {
    "ring-table": partial(table_net, blocks=ring_table_blocks, norm="l2", gate=True),
    "sign": partial(
        table_net,
        blocks=lambda g: smooth_blocks(sym(with_loops(g.adj)), g.x, 4),
        early=True,
    ),
    "c-ignn": partial(
        table_net,
        blocks=lambda g: smooth_blocks(sym(g.adj), g.x, 5),
        norm="layer",
        early=True,
    ),
    "linkx": partial(table_net, blocks=linkx_blocks, skip=True),
}


# -------------------------------------------------------------- spreading of labels


def log_shares(f):
    """Return logarithms of each row's shares; equal ones where nothing was heard."""
    total = f.sum(axis=1, keepdims=True)
    shares = np.where(total > 0, f / np.where(total > 0, total, 1), 1 / f.shape[1])
    return np.log(np.maximum(shares, 1e-12))


def label_propagation(_, g, o, *, hops=1):
    (s,) = powers(sym(g.adj), hops)
    f = g.known
    for _ in range(o["steps"]):
        f = o["alpha"] * s @ f + (1 - o["alpha"]) * g.known
    return log_shares(f)


def decoupled_smoothing(_, g, o):
    """Return shares that are harmonic on the graph of walks of two steps."""
    degrees = g.adj.sum(axis=1)
    variance = 1 / np.where(degrees > 0, degrees, 1)
    half = g.adj if o["variance"] == "equal" else g.adj / variance
    total = half.sum(axis=0)
    pairs = half / np.where(total > 0, total, 1) @ half.T
    known = g.known.any(axis=1)
    (walks,) = powers(with_loops(binary(pairs)), len(pairs))
    free = np.flatnonzero(~known & ((walks > 0) @ known))
    laplacian = np.diag(pairs.sum(axis=1)) - pairs
    f = g.known.copy()
    f[free] = np.linalg.solve(
        laplacian[np.ix_(free, free)], pairs[np.ix_(free, known)] @ g.known[known]
    )
    return log_shares(f)


ORACLES = {
    "h2gcn-1": h2gcn,
    "h2gcn-2": partial(h2gcn, final=(0, 1, 2)),
    "mlp": mlp,
    "h2gcn-s1": partial(h2gcn, hops=(1,)),
    "h2gcn-ns0": partial(h2gcn, own=True, final=(1,)),
    "h2gcn-ns1": partial(h2gcn, own=True, final=(1,), hops=(1,)),
    "h2gcn-n0": partial(h2gcn, final=(1,)),
    "h2gcn-n1": partial(h2gcn, hops=(2,)),
    "h2gcn-k0": partial(h2gcn, final=(1, 2)),
    "h2gcn-k1": partial(h2gcn, final=(0, 2)),
    "h2gcn-r2": partial(h2gcn, final=(2,)),
    "h2gcn-nonlinear": partial(h2gcn, final=(0, 1, 2), nonlinear=True),
    "gcn": gcn,
    "gcn-jk": partial(gcn, jumping=True),
    "gcn-cheby": cheby,
    "gcn-cheby-jk": partial(cheby, jumping=True),
    "graphsage": graphsage,
    "graphsage-jk": partial(graphsage, jumping=True),
    "gat": gat,
    "mixhop": mixhop,
    "acm-gcn": acm_gcn,
    "gdc": gdc,
    "gmnn": gmnn,
    "gam": gam,
    "sgc": sgc,
    "gpr-gnn": gpr_gnn,
    "residual-gcn": residual,
    "dir-gnn": dir_gnn,
    "cpgnn": cpgnn,
    **TABLES,
    "label-propagation": label_propagation,
    "label-propagation-2hop": partial(label_propagation, hops=2),
    "decoupled-smoothing": decoupled_smoothing,
}
"""The formulas by the names of the models."""
