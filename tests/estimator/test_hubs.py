"""Hubs: whose rings are capped by themselves, whose are not, and what is said."""

from pathlib import Path

import numpy as np
import pytest

import h2gcn.estimator.automatic
from h2gcn import Graph, NodeClassifier, load_dataset
from h2gcn.auto import Member
from h2gcn.estimator import parameters
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import stratified_split
from h2gcn.rings import auto_max_neighbors, forecast_rings, plan
from support.commands import Run, fails
from support.graphs import adjacency
from support.refusals import refused
from support.tiny_benchmarks import AT_HAND

LEAVES = 60
CAPPED = r"8 of each node's ring are sampled instead.*\(ring_cap=8\); ring_cap='exact'"
NET = {"epochs": 5, "patience": 5, "stopping": "loss"}
TABLE = {"options": {"table": "ego+rings+labels"}}
MEMBERS = (
    Member("mlp", "mlp", "own features", NET, False),
    Member("h2gcn-1", "h2gcn-1", "rings", NET),
    Member("logistic", "logistic", "rings", TABLE),
    Member("near", "logistic", "neighbours", {"options": {"table": "ego+ring1"}}),
)


@pytest.fixture(autouse=True)
def low(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a ring of some thousand entries be large, and a cap be of 8."""
    monkeypatch.setattr(plan, "CAPPED_ENTRIES", 2000)
    monkeypatch.setattr(plan, "CAPPED_RATIO", 10)
    monkeypatch.setattr(plan, "MAX_NEIGHBORS", 8)
    monkeypatch.setattr(parameters, "MIN_FORECAST_WALKS", 1000)
    monkeypatch.setattr(h2gcn.estimator.automatic, "find_portfolio", lambda *_: MEMBERS)


@pytest.fixture
def graph() -> Graph:
    """Return a hub with 60 leaves, which a path joins: 3,300 pairs two hops apart."""
    edges = [(0, v) for v in range(1, LEAVES + 1)]
    edges += [(v, v + 1) for v in range(1, LEAVES)]
    rng, y = np.random.default_rng(0), np.arange(LEAVES + 1) % 2
    x = rng.normal(size=(LEAVES + 1, 3)) + y[:, None]
    graph = Graph(x=x, adj=adjacency(LEAVES + 1, edges), y=y, name="hub")
    split = stratified_split(y, seed=0)
    return Graph(x=x, adj=graph.adj, y=y, name="hub", splits=(split,))


def fit(graph: Graph, model: str = "h2gcn-1", **params: object) -> NodeClassifier:
    given: dict[str, object] = {"random_state": 0, **params}
    if model in ("h2gcn-1", "ring-table"):
        given = {"epochs": 5, **given}
    return NodeClassifier(model, **given).fit(graph)  # type: ignore[arg-type]


@pytest.mark.parametrize("model", ["h2gcn-1", "ring-table", "logistic"])
def test_the_rule_caps_a_hub_and_says_so(graph: Graph, model: str) -> None:
    with pytest.warns(H2GCNWarning, match=CAPPED):
        ruled = fit(graph, model, ring_cap="auto")
    capped, exact = fit(graph, model, ring_cap=8), fit(graph, model)
    assert ruled.params_["ring_cap"] == 8
    assert ruled.ring_cap == "auto"
    logits = ruled.predict_logits(graph)
    assert np.array_equal(logits, capped.predict_logits(graph))
    assert not np.allclose(logits, exact.predict_logits(graph))


@pytest.mark.parametrize("model", ["h2gcn-1", "ring-table", "logistic"])
def test_exact_stays_exact(graph: Graph, model: str) -> None:
    plain, exact = fit(graph, model), fit(graph, model, ring_cap="exact")
    assert plain.params_["ring_cap"] is None
    assert exact.params_["ring_cap"] is None
    logits = plain.predict_logits(graph)
    assert np.array_equal(logits, exact.predict_logits(graph))


def test_what_has_no_far_ring_is_not_capped(graph: Graph) -> None:
    assert fit(graph, "mlp", ring_cap="auto", epochs=2).params_["ring_cap"] is None
    near = {"options": {"table": "ego+ring1+degrees"}, "ring_cap": "auto"}
    assert fit(graph, "logistic", **near).params_["ring_cap"] is None


def test_a_small_graph_is_not_capped(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "CAPPED_ENTRIES", 10**6)
    assert fit(graph, ring_cap="auto").params_["ring_cap"] is None


def test_auto_has_its_members_draw(graph: Graph, tmp_path: Path) -> None:
    with pytest.warns(H2GCNWarning, match=CAPPED) as told:
        clf = fit(graph, "auto", time_limit=60.0)
    assert len([one for one in told if "are sampled" in str(one.message)]) == 1
    assert clf.params_["ring_cap"] == 8
    assert clf.contest_ is not None
    caps = {
        entry.member.name: entry.fitted.ring_cap
        for entry in clf.contest_.entries
        if entry.fitted is not None
    }
    assert (
        caps.items() <= {"mlp": None, "h2gcn-1": 8, "logistic": 8, "near": None}.items()
    )
    clf.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    assert loaded.params_["ring_cap"] == 8
    np.testing.assert_allclose(
        loaded.predict_logits(graph), clf.predict_logits(graph), atol=1e-5
    )


def test_auto_is_exact_where_that_is_asked_for(graph: Graph) -> None:
    clf = fit(graph, "auto", time_limit=60.0, ring_cap="exact")
    assert clf.params_["ring_cap"] == "exact"
    assert {one.classifier.params_["ring_cap"] for one in clf.members_} == {None}
    drawn = fit(graph, "auto", time_limit=60.0, ring_cap=4)
    caps = {one.classifier.params_["ring_cap"] for one in drawn.members_}
    assert caps <= {None, 4}


@pytest.mark.parametrize("cap", ["some", 0])
@pytest.mark.parametrize("model", ["h2gcn-1", "auto"])
def test_what_a_cap_cannot_be(graph: Graph, model: str, cap: object) -> None:
    with refused(param="ring_cap", value=cap):
        NodeClassifier(model, ring_cap=cap).fit(graph)  # type: ignore[arg-type]


def test_a_table_without_far_rings_has_nothing_to_cap(graph: Graph) -> None:
    with pytest.raises(InputError, match=r"^ring_cap .*2-hop ring.*'logistic' has"):
        fit(graph, "logistic", ring_cap=4, options={"table": "ego+ring1"})


def test_a_table_that_does_not_fit_names_the_cap(graph: Graph) -> None:
    with pytest.raises(InputError, match="ring_cap=64 takes a sample of each node's"):
        fit(graph, "logistic", memory_limit=2e-5)


@pytest.mark.data
@pytest.mark.parametrize("name", AT_HAND)
def test_no_benchmark_is_capped(
    name: str, data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    graph = load_dataset(name, root=data_root)
    assert auto_max_neighbors(forecast_rings(graph.adj), graph.n_nodes) is None


# -------------------------------------------------------------------- the command line


def write(graph: Graph, folder: Path) -> Path:
    """Write a graph as two tables."""
    rows = ["id,a,b,c,label"]
    for i, (x, y) in enumerate(zip(graph.x, graph.y, strict=True)):
        rows.append(
            f"n{i},{','.join(f'{v:.4f}' for v in x)},{'ab'[y] if i % 7 else ''}"
        )
    ends = np.stack(graph.adj.nonzero(), axis=1)
    edges = ["source,target", *(f"n{u},n{v}" for u, v in ends if u < v)]
    folder.mkdir()
    (folder / "nodes.csv").write_text("\n".join(rows))
    (folder / "edges.csv").write_text("\n".join(edges))
    return folder


QUICK = ("--model", "h2gcn-1", "--epochs", 3)


def test_ones_own_hub_is_capped_and_the_flag_is_named(
    run: Run, graph: Graph, tmp_path: Path
) -> None:
    folder = write(graph, tmp_path / "data")
    code, out, err = run("train", folder, *QUICK, "--json")
    assert code == 0, err
    assert '"ring_cap": 8' in out
    assert "(--ring-cap 8); --ring-cap exact takes all of them" in err
    code, out, err = run("train", folder, *QUICK, "--ring-cap", "exact", "--json")
    assert code == 0, err
    assert '"ring_cap": null' in out
    assert "are sampled" not in err


def test_auto_and_predict_on_the_command_line(
    run: Run, graph: Graph, tmp_path: Path
) -> None:
    folder, model = write(graph, tmp_path / "data"), tmp_path / "model"
    code, _, err = run("train", folder, "--out", model)
    assert code == 0, err
    assert err.count("(--ring-cap 8)") == 1
    assert run("predict", model, folder, "--out", tmp_path / "p.csv")[0] == 0
    code, _, err = run("train", folder, "--ring-cap", "exact")
    assert code == 0, err
    assert "h2gcn-1 is trained" not in err, "auto stays auto"
    assert "are sampled" not in err


def test_settings_hold_the_cap_that_was_chosen(
    run: Run, graph: Graph, tmp_path: Path
) -> None:
    folder, out = write(graph, tmp_path / "data"), tmp_path / "tuned"
    code, _, err = run("tune", folder, "--epochs", 2, "--splits", 1, "--out", out)
    assert code == 0, err
    assert '"ring_cap": 8' in (out / "best.json").read_text()


def test_what_the_flag_cannot_be(run: Run, graph: Graph, tmp_path: Path) -> None:
    folder = write(graph, tmp_path / "data")
    fails(
        run("train", folder, "--ring-cap", "many"),
        "must be a number from 1 on, exact or auto, got 'many'",
    )
