"""Ring tables in a fit: their schema, their memory, what is kept and let go."""

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from h2gcn import Graph, NodeClassifier
from h2gcn.estimator import Scaler
from h2gcn.estimator.inputs import feature_builder, scaling_key, table_schema
from h2gcn.estimator.parameters import input_width
from h2gcn.exceptions import InputError
from support.cases import each
from support.graphs import adjacency

N = 40


def cycle(*, ids: bool = False, edges: bool = True, directed: bool = False) -> Graph:
    rng = np.random.default_rng(0)
    y = np.arange(N) % 2
    ends = [(i, (i + 1) % N) for i in range(N)] if edges else []
    ways = np.zeros((N, N), dtype=np.float32)
    for source, target in ends:
        ways[source, target] = 1
    return Graph(
        x=rng.normal(size=(N, 3)) + 2 * y[:, None],
        adj=adjacency(N, ends),
        directed=sp.csr_array(ways) if directed else None,
        y=y,
        node_ids=np.array([f"n{i}" for i in range(N)]) if ids else None,
        name="cycle",
    )


def params(model: str, **more: object) -> dict[str, object]:
    return NodeClassifier(model, **more).get_params()


def test_only_models_on_tables_have_a_schema() -> None:
    assert table_schema(params("h2gcn-1"), cycle()) is None
    assert table_schema(params("linbp"), cycle()) is None
    schema = table_schema(params("sign"), cycle())
    assert schema is not None
    assert schema.blocks == ("ego", "loops1", "loops2", "loops3")
    features = table_schema(params("correct-and-smooth"), cycle())
    assert features is not None
    assert features.blocks == ("ego",)
    assert not features.has_labels
    own = table_schema(params("sign", options={"table": "ego+degrees"}), cycle())
    assert own is not None
    assert own.widths == (3, 2)


def test_how_wide_an_input_is() -> None:
    schema = table_schema(params("logistic"), cycle())
    assert schema is not None
    assert input_width(params("gcn"), 3, 2, None) == 3
    assert input_width(params("linbp"), 3, 2, None) == 2
    assert input_width(params("logistic"), 3, 2, schema) == (3, 3, 3, 2, 3, 3)
    assert input_width(params("logistic"), 3, 2, None) == (3,)


def test_a_table_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        NodeClassifier("sign", memory_limit=1e-6).fit(cycle())
    said = str(caught.value)
    assert said.startswith(
        "cycle: the ring table of sign will not fit in memory: it takes about "
    )
    assert said.endswith(
        "the limit is 1.0 kB; options={'table': …} with fewer blocks takes less, such "
        "as 'ego+ring1+labels.ring1'"
    )


def test_makers_are_kept_with_their_graph_and_no_longer() -> None:
    graph = cycle()
    clf = NodeClassifier("logistic").fit(graph)
    assert feature_builder(graph) is feature_builder(graph)
    gone = weakref.ref(graph)
    assert clf.predict(graph).shape == (N,)
    del graph
    gc.collect()
    assert gone() is None


def test_models_of_other_columns_do_not_share_a_table() -> None:
    graph = cycle()
    turned = replace(graph, x=graph.x[:, ::-1], feature_names=("2", "1", "0"))
    models = [
        NodeClassifier("logistic", scaling="none", random_state=0).fit(g)
        for g in (graph, turned)
    ]
    alone = models[1].predict_logits(replace(graph, name="a copy"))
    first = models[0].predict_logits(graph)
    second = models[1].predict_logits(graph)
    np.testing.assert_array_equal(second, alone)
    np.testing.assert_allclose(first, second, rtol=1e-3, atol=1e-3)


def test_a_key_is_of_the_scaling_and_the_columns() -> None:
    ones = np.ones(2, dtype=np.float32)
    keys = {
        scaling_key(Scaler("none"), ("a", "b")),
        scaling_key(Scaler("none"), ("b", "a")),
        scaling_key(Scaler("rows"), ("a", "b")),
        scaling_key(Scaler("standard", ones, ones), ("a", "b")),
        scaling_key(Scaler("standard", ones, 2 * ones), ("a", "b")),
    }
    assert len(keys) == 5
    assert scaling_key(Scaler("none"), ("a",)) == scaling_key(Scaler("none"), ("a",))


@each("model", ["logistic", "sign", "linkx"])
def test_a_graph_without_edges_is_a_table_of_its_features(model: str) -> None:
    clf = NodeClassifier(model, epochs=3, random_state=0).fit(cycle(edges=False))
    assert clf.schema_.blocks == ("ego",)
    assert clf.predict(cycle(edges=False)).shape == (N,)


def test_other_models_refuse_it_and_name_those_that_do_not() -> None:
    with pytest.raises(InputError) as caught:
        NodeClassifier("gcn").fit(cycle(edges=False))
    assert str(caught.value) == (
        "cycle: the graph has no edges; only mlp and models on the ring table, such as "
        "logistic, can do without them"
    )


def test_a_table_of_nothing_is_told_before_training() -> None:
    clf = NodeClassifier("logistic", options={"table": "ring1+labels"})
    with pytest.raises(InputError, match="cycle: blocks must name something"):
        clf.fit(cycle(edges=False))


def test_labels_are_remembered_only_where_they_are_columns() -> None:
    graph = cycle(ids=True)
    assert NodeClassifier("sign", epochs=2).fit(graph).seeds_ is None
    clf = NodeClassifier("logistic").fit(graph)
    assert set(clf.seeds_.ids) == {f"n{i}" for i in clf.split_.train}
    # Ids that are there twice are in nobody's way where no label is looked up.
    twice = replace(graph, node_ids=np.array(["n"] * N))
    NodeClassifier("sign", epochs=2).fit(twice)
    with pytest.raises(InputError, match="labels are remembered by node id, and 40"):
        NodeClassifier("logistic").fit(twice)


def test_a_model_of_directions_wants_them_in_another_graph() -> None:
    clf = NodeClassifier("logistic").fit(cycle(directed=True))
    with pytest.raises(InputError, match="cycle: the edges have no directions, and th"):
        clf.predict(cycle())


def test_strangers_are_predicted_without_labels() -> None:
    graph = cycle(ids=True)
    clf = NodeClassifier("logistic", random_state=0).fit(graph)
    strangers = replace(graph, node_ids=np.array([f"m{i}" for i in range(N)]))
    found = clf.predict_logits(strangers)
    assert np.isfinite(found).all()
    assert (found != clf.predict_logits(graph)).any()
