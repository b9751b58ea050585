"""What "auto" tells of the members that it tried, whether they answer or not."""

from pathlib import Path

from h2gcn import Graph, NodeClassifier
from h2gcn.auto import Member, find_portfolio
from h2gcn.estimator import member_params


def test_a_member_has_the_metric_of_auto_and_settings_of_its_own() -> None:
    auto = NodeClassifier("auto", metric="macro_f1", scaling="rows", time_limit=3)
    member = Member("one", "mlp", "own features", {"scaling": "none", "epochs": 7})
    params = member_params(member, auto.get_params(), 5)
    assert params["model"] == "mlp"
    assert (params["metric"], params["scaling"]) == ("macro_f1", "none")
    assert (params["epochs"], params["random_state"]) == (7, 5)
    assert "time_limit" not in params
    assert NodeClassifier(**params).model == "mlp"


def test_all_that_was_tried_is_told_and_not_saved(
    small_graph: Graph, tmp_path: Path
) -> None:
    auto = NodeClassifier("auto", time_limit=1e-6, random_state=0).fit(small_graph)
    assert auto.contest_ is not None
    tried = [entry.member for entry in auto.contest_.entries]
    assert tried == [*find_portfolio(small_graph)]
    fitted = [entry.fitted is not None for entry in auto.contest_.entries]
    assert fitted == [True] + [False] * (len(tried) - 1)
    auto.save(tmp_path / "model")
    assert NodeClassifier.load(tmp_path / "model").contest_ is None


def test_one_model_has_held_no_contest(small_graph: Graph) -> None:
    assert NodeClassifier("mlp", epochs=1).fit(small_graph).contest_ is None
