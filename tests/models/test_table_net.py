"""Networks on tables: presets with formulas of their own, joins, masks, refusals."""

import numpy as np
import pytest

from h2gcn.exceptions import InputError
from h2gcn.features import FeatureBuilder
from h2gcn.models import MODELS, build_model
from h2gcn.models.table_net import TableNet
from models.oracles import (
    ACTIVATIONS,
    layer_norm,
    linear,
    powers,
    relu,
    softmax,
    sym,
    unit_rows,
    with_loops,
)
from models.test_all_models import OPTIONS, assert_close, dense, some_nodes
from support.cases import each
from support.graphs import GRAPHS
from support.models import (
    batch_logits,
    decayed_weights,
    logits,
    make,
    weights_of,
)
from support.refusals import only, refused

PRESETS = [name for name, spec in MODELS.items() if spec.module is TableNet]
GRAPH = GRAPHS["random"]


def mapped(w, blocks):
    """Return X_b W_b + c_b of each block."""
    return [block @ w[f"maps.{b}"] + w["shifts"][b] for b, block in enumerate(blocks)]


def fsgnn(w, g):
    """Return σ(‖ α_k norm(X_k W_k)) W, α the softmax of learned numbers."""
    matrices = sym(g.adj), sym(with_loops(g.adj))
    blocks = [g.x]
    for k in (1, 2, 3):
        blocks += [powers(matrix, k)[0] @ g.x for matrix in matrices]
    shares = softmax(w["gates"])
    parts = zip(shares, mapped(w, blocks), strict=True)
    return linear(w, "readout.0", relu(np.hstack([s * unit_rows(z) for s, z in parts])))


def faf(w, g):
    """Return an MLP with layer norm of all summaries, hop after hop."""
    near = [np.flatnonzero(row) for row in g.adj]

    def summary(values, how):
        none = np.zeros(values.shape[1])
        return np.array([how(values[i], axis=0) if len(i) else none for i in near])

    hows = (np.mean, np.sum, np.max, np.min)
    first = [summary(g.x, how) for how in hows]
    second = [summary(values, how) for values, how in zip(first, hows, strict=True)]
    hidden = sum(mapped(w, [g.x, *first, *second]))
    hidden = relu(layer_norm(hidden, w["norms.0.weight"], w["norms.0.bias"]))
    return linear(w, "readout.1", relu(linear(w, "readout.0", hidden)))


@each("oracle", [fsgnn, faf])
@each("title", ["random", "directed", "two communities", "isolated last node"])
def test_a_preset_is_its_formula(oracle, title):
    if oracle.__name__ not in MODELS:
        return
    options = {"dropout": 0.0, "input_dropout": 0.0}
    module, x, operators = make(oracle.__name__, GRAPHS[title], **options)
    expected = oracle(weights_of(module), dense(GRAPHS[title]))
    nodes = some_nodes(len(expected))
    for training in (False, True):
        module.train(training)
        assert_close(logits(module, x, operators), expected, title)
        found = logits(module, x, operators, nodes)
        assert_close(found, expected[nodes], title)


def test_without_columns_of_edges_the_default_table_has_all_but_those():
    recipe = MODELS["ring-table"].options["table"]
    short = OPTIONS["ring-table"][0]["table"]
    for title in ("random", "directed"):
        maker = FeatureBuilder(GRAPHS[title])
        assert maker.schema(recipe) == maker.schema(short)


@each("activation", ["relu", "elu", "none"])
def test_the_activation_of_the_sum(activation):
    options = {"join": "sum", "table": "ego+ring1", "activation": activation}
    module, x, operators = make("ring-table", GRAPH, norm="none", gate=False, **options)
    w = weights_of(module)
    z = sum(mapped(w, [block.double().numpy() for block in x.blocks.values()]))
    expected = linear(w, "readout.0", ACTIVATIONS[activation](z))
    assert_close(logits(module, x, operators), expected)


@each("name", PRESETS)
def test_batches_take_no_more_rows_than_wanted(name):
    module, x, operators = make(name, GRAPH)
    whole = logits(module, x, operators).detach().numpy()
    for nodes in ([3], [11, 2, 2, 9], list(range(12))):
        assert_close(batch_logits(module, x, operators, nodes), whole[nodes])


def drawn(module, x):
    return len({logits(module, x, ()).detach().numpy().tobytes() for _ in range(6)})


def test_dropout_acts_on_the_table_and_before_the_read_out():
    for options in ({"input_dropout": 0.5, "dropout": 0.0}, {"dropout": 0.5}):
        module, x, _ = make("sign", GRAPH, table="ego", **options)
        assert drawn(module.train(), x) > 1
        assert drawn(module.eval(), x) == 1


def test_maps_are_regularised_and_gates_norms_and_shifts_are_not():
    module, _, _ = make("linkx", GRAPH, gate=True, norm="layer")
    assert decayed_weights(module) == {
        *("maps.0", "maps.1", "mix.weight"),
        *("readout.0.weight", "readout.1.weight"),
    }
    names = {name for name, _ in module.named_parameters()}
    assert {"gates", "shifts", "norms.0.weight"} <= names


def test_repr_names_the_widths():
    assert repr(TableNet((4, 6), 3, hidden_channels=8)) == "TableNet((4, 6), 3)"


def test_bad_options_are_named():
    for options in (
        {"in_channels": ()},
        {"in_channels": 4},
    ):
        with refused(**only(options)):
            TableNet(**({"in_channels": (3,), "out_channels": 2} | options))
    with refused(param="in_channels", value=0):  # a block without columns
        TableNet((3, 0), 2)
    with pytest.raises(InputError, match="there is no feature block 'nothing'"):
        build_model("ring-table", (3,), 2, {"table": "ego+nothing"})
