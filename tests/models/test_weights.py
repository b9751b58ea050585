"""How weights begin, which of them the L2 penalty acts on, and how far models look."""

import math
from fnmatch import fnmatch

import numpy as np
import pytest
import torch

from h2gcn.models import MODELS, build_model
from support.graphs import GRAPHS
from support.models import decayed_weights, make, receptive_field, step_bytes

TABLE = "shifts gates norms.* *.bias"
FREE = {
    **dict.fromkeys(("gcn", "gcn-cheby", "gdc"), "second"),
    **dict.fromkeys(("gcn-jk", "gcn-cheby-jk"), "first second classifier"),
    "mixhop": "shift scores",
    "sgc": "bias",
    "gam": "agreement.*",
    "cpgnn": "compatibility",
    "correct-and-smooth": "base.shifts *.bias",
    **dict.fromkeys(("ring-table", "sign", "c-ignn", "linkx"), TABLE),
    "residual-gcn": "shift scale bias",
    "dir-gnn": "shifts.* bias",
    "gpr-gnn": "*_bias gamma",
}
"""Weights without a penalty, as the papers or the authors' programs have it."""


@pytest.mark.parametrize("name", MODELS)
def test_the_penalty_is_on_all_weights_but_those_that_are_free(name):
    module, _, _ = make(name, GRAPHS["random"])
    free = FREE.get(name, "").split()
    expected = {
        key
        for key, _ in module.named_parameters()
        if not any(fnmatch(key, pattern) for pattern in free)
    }
    assert decayed_weights(module) == expected
    if MODELS[name].inputs == "labels":
        assert not expected


FIELDS = {
    **dict.fromkeys(("mlp", "ring-table", "sign", "c-ignn", "linkx"), 0),
    **dict.fromkeys(("logistic", "boosted-trees", "gam"), 0),
    **dict.fromkeys(("h2gcn-1", "h2gcn-s1", "h2gcn-ns0", "h2gcn-ns1"), 1),
    **dict.fromkeys(("h2gcn-n0", "h2gcn-n1", "cpgnn"), 1),
    **dict.fromkeys(("h2gcn-2", "h2gcn-k0", "h2gcn-k1", "h2gcn-r2"), 2),
    **dict.fromkeys(("h2gcn-nonlinear", "gcn", "gcn-jk", "graphsage", "gat"), 2),
    **dict.fromkeys(("graphsage-jk", "geom-gcn", "sgc", "gdc", "gmnn", "acm-gcn"), 2),
    **dict.fromkeys(("gcn-cheby", "gcn-cheby-jk", "residual-gcn"), 4),
    **dict.fromkeys(("mixhop", "correct-and-smooth", "ica", "linbp", "bp"), None),
    **dict.fromkeys(("zoobp", "label-propagation", "decoupled-smoothing"), None),
    "label-propagation-2hop": None,
    "dir-gnn": 3,
    "gpr-gnn": 10,
}
"""How many products follow one another; None where a logit needs the whole graph."""


@pytest.mark.parametrize("name", FIELDS)
def test_how_far_a_model_looks(name):
    module, _, _ = make(name, GRAPHS["random"])
    assert receptive_field(module) == FIELDS[name]


@pytest.mark.parametrize("name", MODELS)
def test_larger_graphs_take_more_bytes(name):
    module, _, _ = make(name, GRAPHS["random"])
    assert step_bytes(module, 1000, 100, 0) >= step_bytes(module, 100, 100, 0) > 0
    weighs_edges = step_bytes(module, 9, 9, 9) > step_bytes(module, 9, 9, 0)
    assert weighs_edges == (name in ("gat", "bp", "gam"))


def glorot(*sizes):
    return math.sqrt(6 / sum(sizes))


F, WIDTH, C = 300, 100, 40
BOUNDS = {
    "h2gcn-1": {"embedding": glorot(F, WIDTH), "classifier": glorot(3 * WIDTH, C)},
    "h2gcn-nonlinear": {"round_embeddings.1": glorot(3 * WIDTH, WIDTH)},
    "gcn": {"first": glorot(F, WIDTH), "second": glorot(WIDTH, C)},
    "gcn-jk": {"embedding": glorot(F, WIDTH), "classifier": glorot(3 * WIDTH, C)},
    # The matrix of each degree by itself.
    "gcn-cheby": {"first": glorot(F, WIDTH), "second": glorot(WIDTH, C)},
    # The node and its neighbors together.
    "graphsage": {"first": glorot(2 * F, WIDTH), "second": glorot(2 * WIDTH, WIDTH)},
    # Each head by itself; 8 heads.
    "gat": {
        "first.weight": glorot(F, WIDTH),
        "first.attention": glorot(WIDTH, 1),
        "first.bias": 0,
        "first.attention_bias": 0,
        "second.weight": glorot(8 * WIDTH, C),
        "second.attention": glorot(C, 1),
        "second.bias": 0,
    },
    # Each power by itself, the last of which is a column wider.
    "mixhop": {
        "first": glorot(F, WIDTH // 3),
        "second": glorot(WIDTH, C),
        "shift": 0,
        "scores": 0,
    },
    # As a linear layer of torch.
    "sgc": {"weight": F**-0.5, "bias": F**-0.5},
    # By the number of outputs, as in the programs of both.
    "gmnn": {"q_first": WIDTH**-0.5, "p_second": C**-0.5},
    "acm-gcn": {
        "maps.0": WIDTH**-0.5,
        "maps.1": C**-0.5,
        "scores.0": 1,
        "mixing.0": 3**-0.5,
    },
    "cpgnn": {"compatibility": 0, "prior.embedding": glorot(F, WIDTH)},
    "dir-gnn": {"along.0": glorot(F, WIDTH), "shifts.0": 0, "bias": 0},
}
"""Weights are uniform between plus and minus these."""


@pytest.mark.parametrize("name", BOUNDS)
def test_weights_begin_uniform_within_their_bounds(name):
    small = {"hidden_channels": WIDTH} if name != "sgc" else {}
    torch.manual_seed(0)
    module, other = (build_model(name, F, C, small) for _ in range(2))
    for key, bound in BOUNDS[name].items():
        weight = module.get_parameter(key).detach()
        assert weight.abs().max() <= bound, key
        if bound and weight.numel() > 1000:
            assert weight.abs().max() > 0.97 * bound, key
            assert float(weight.std()) == pytest.approx(bound / 3**0.5, rel=0.05), key
            assert not torch.equal(weight[0], weight[1]), key
        assert torch.equal(weight, other.get_parameter(key)) == (bound == 0), key


def test_the_weights_of_powers_begin_as_pageranks():
    module = build_model("gpr-gnn", 5, 3, {"power": 3, "alpha": 0.2})
    gamma = module.gamma.detach().numpy()
    np.testing.assert_allclose(gamma, [0.2, 0.16, 0.128, 0.512], rtol=1e-6)
    for alpha in (0.1, 0.9):
        module = build_model("gpr-gnn", 5, 3, {"alpha": alpha})
        assert module.gamma.sum().item() == pytest.approx(1)
