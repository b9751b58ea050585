"""Networks on tables: defaults, batches, dropout, what decays."""

from h2gcn.features import FeatureBuilder
from h2gcn.models import MODELS
from h2gcn.models.table_net import TableNet
from models.test_all_models import OPTIONS, assert_close
from support.cases import each
from support.graphs import GRAPHS
from support.models import batch_logits, decayed_weights, logits, make

PRESETS = [name for name, spec in MODELS.items() if spec.module is TableNet]
GRAPH = GRAPHS["random"]


def test_without_columns_of_edges_the_default_table_has_all_but_those():
    recipe = MODELS["ring-table"].options["table"]
    short = OPTIONS["ring-table"][0]["table"]
    for title in ("random", "directed"):
        maker = FeatureBuilder(GRAPHS[title])
        assert maker.schema(recipe) == maker.schema(short)


@each("name", PRESETS)
def test_batches_take_no_more_rows_than_wanted(name):
    module, x, operators = make(name, GRAPH)
    whole = logits(module, x, operators).detach().numpy()
    for nodes in ([3], [11, 2, 2, 9], list(range(12))):
        assert_close(batch_logits(module, x, operators, nodes), whole[nodes])


def n_different(module, x):
    return len({logits(module, x, ()).detach().numpy().tobytes() for _ in range(6)})


def test_dropout_acts_on_the_table_and_before_the_read_out():
    for options in ({"input_dropout": 0.5, "dropout": 0.0}, {"dropout": 0.5}):
        module, x, _ = make("sign", GRAPH, table="ego", **options)
        assert n_different(module.train(), x) > 1
        assert n_different(module.eval(), x) == 1


def test_maps_decay_and_gates_norms_and_shifts_do_not():
    module, _, _ = make("linkx", GRAPH, gate=True, norm="layer")
    assert decayed_weights(module) == {
        *("maps.0", "maps.1", "mix.weight"),
        *("readout.0.weight", "readout.1.weight"),
    }
    names = {name for name, _ in module.named_parameters()}
    assert {"gates", "shifts", "norms.0.weight"} <= names
