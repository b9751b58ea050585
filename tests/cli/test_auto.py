"""`h2gcn train` on one's own data: auto, its leaderboard, and what is saved."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import h2gcn.auto.contest
import h2gcn.estimator.automatic
from h2gcn import NodeClassifier
from h2gcn.auto import Leaderboard, Member
from h2gcn.estimator import load_bundle
from support.cases import each
from support.commands import Run, fails
from support.models import copy_of_saved

NET = {"epochs": 20, "patience": 20, "stopping": "loss"}
CHEAP = (
    Member("logistic", "logistic", "own", {"options": {"table": "ego"}}, False),
    Member("label-propagation", "label-propagation", "labels of neighbours"),
    Member("h2gcn-1", "h2gcn-1", "rings", NET),
)


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have auto fit few members."""
    monkeypatch.setattr(h2gcn.estimator.automatic, "find_portfolio", lambda *_: CHEAP)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return two tables: 80 people in two classes, every fifth without a label."""
    rng, n = np.random.default_rng(0), 80
    data = tmp_path / "people"
    data.mkdir()
    rows = [("id", "age", "income", "label")]
    for i in range(n):
        label = ("honest", "fraud")[i % 2] if i % 5 else ""
        age = 30 + 2 * (i % 2) + rng.normal()
        rows.append((f"p{i:02}", f"{age:.3f}", f"{rng.normal():.3f}", label))
    ends = [(f"p{i:02}", f"p{(i + s) % n:02}") for i in range(n) for s in (1, 2)]
    for name, table in (("nodes", rows), ("edges", [("source", "target"), *ends])):
        with (data / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows(table)
    return data


# -------------------------------------------------------------------------- the report


def test_ones_own_data_are_given_to_auto(run: Run, folder: Path) -> None:
    code, out, err = run("train", folder)
    assert code == 0, err
    assert "leaderboard, on 52 training and validation nodes, in 5 folds" in out
    for name in (*(member.name for member in CHEAP), "always the largest class"):
        assert name in out
    for head in ("answers", "log-loss", "behind", "seconds"):
        assert head in out
    assert "auto on people" in out
    assert "best epoch" not in out, "there is none of several"
    assert " answer" in out
    assert "The best of so many looks better than it is, by about" in out
    assert "log-loss" in out.split("raph helps")[1]
    assert out.index("leaderboard") < out.index("auto on people")


def test_json_has_the_leaderboard(run: Run, folder: Path) -> None:
    code, out, _ = run("train", folder, "--json", "-q")
    assert code == 0
    found = json.loads(out)
    assert found["model"] == "auto"
    assert len(found["leaderboards"]) == len(found["splits"]) == 1
    board = Leaderboard.from_json(found["leaderboards"][0])
    assert {row.name for row in board.rows} == {member.name for member in CHEAP}
    assert sum(row.weight for row in board.rows) == pytest.approx(1)
    one = json.loads(run("train", folder, "--json", "-q", "--model", "mlp", *QUICK)[1])
    assert "leaderboards" not in one


QUICK = ("--epochs", 3)


def test_one_model_has_no_leaderboard(run: Run, folder: Path) -> None:
    _, out, _ = run("train", folder, "--model", "h2gcn-1", *QUICK)
    assert "leaderboard" not in out
    assert "best epoch" in out


def test_the_page(run: Run, folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "board.html"
    code, out, _ = run("train", folder, "--page", page, "-q")
    assert code == 0
    assert f"wrote {page}" in out
    text = page.read_text("utf-8")
    for said in ("Which models answer for people", "<svg", "On test nodes", "logistic"):
        assert said in text
    assert page.stat().st_size > 2000
    assert [file.name for file in tmp_path.iterdir() if "tmp" in file.name] == []


def test_pages_that_cannot_be_written_are_told_first(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        pytest.fail("work was done before")

    monkeypatch.setattr(NodeClassifier, "fit_checked", never)
    fails(run("train", folder, "--page", tmp_path / "a.txt"), "must end in .html")
    gone = tmp_path / "gone" / "a.html"
    fails(run("train", folder, "--page", gone), f"the folder {gone.parent} does not ex")


def test_what_cannot_be_fitted_is_named(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = Member("large", "h2gcn-1", "rings", {"memory_limit": 1e-7})
    monkeypatch.setattr(
        h2gcn.estimator.automatic, "find_portfolio", lambda *_: (*CHEAP, large)
    )
    code, out, _ = run("train", folder, "-q")
    assert code == 0
    line = next(line for line in out.splitlines() if line.startswith("large: "))
    assert "memory" in line
    assert "ring_cap=" not in line, "in the words of a command"


def test_a_time_too_short(run: Run, folder: Path) -> None:
    code, out, _ = run("train", folder, "--time-limit", 1e-9)
    assert code == 0
    assert "h2gcn-1: no time was left for it" in out
    assert "logistic answers alone." in out


# ----------------------------------------------------------------- which model is meant


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        (("--epochs", 3), "--epochs"),
        (("--dropout", 0.2, "--epochs", 3), "--epochs"),
        (("--option", "activation=elu", "--epochs", 3), "--epochs"),
        (("--class-weight", "balanced", "--epochs", 3), "--epochs"),
    ],
)
def test_settings_of_one_model_take_one(
    run: Run, folder: Path, options: tuple[object, ...], flag: str
) -> None:
    code, out, err = run("train", folder, *options)
    assert code == 0, err
    assert "h2gcn-1 on people" in out
    note = (
        f"h2gcn: note: {flag} is for one model, so h2gcn-1 is trained; without it, the "
        "best of a dozen would answer (--model auto)"
    )
    assert note in err.splitlines()
    assert run("train", folder, *options, "-q")[2] == ""


@each(
    "options", [("--scaling", "none"), ("--metric", "macro_f1"), ("--memory-limit", 4)]
)
def test_settings_of_all_models_stay_with_auto(
    run: Run, folder: Path, options: tuple[object, ...]
) -> None:
    code, out, err = run("train", folder, "--json", *options)
    assert code == 0
    assert json.loads(out)["model"] == "auto"
    assert "is for one model" not in err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--epochs", 5),
            "--epochs does not go with model 'auto': each member has its own",
        ),
        (("--batch-size", 5), "--batch-size does not go with model 'auto'"),
        (
            ("--class-weight", "balanced"),
            "--class-weight does not go with model 'auto'",
        ),
        (("--option", "a=1"), "--option is for one model, and --model is auto"),
        (
            ("--checkpoint", "state"),
            "--checkpoint is for one model, and --model is aut",
        ),
        (("--time-limit", 0), "--time-limit must"),
        (("--metric", "f1"), "--metric must"),
    ],
)
def test_what_does_not_go_with_auto(
    run: Run, folder: Path, options: tuple[object, ...], said: str
) -> None:
    fails(run("train", folder, "--model", "auto", *options), said)


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        (("--time-limit", 9), "--time-limit"),
        (("--refit",), "--refit"),
        (("--page", "a.html"), "--page"),
    ],
)
def test_what_only_auto_has(
    run: Run, folder: Path, options: tuple[object, ...], flag: str
) -> None:
    result = run("train", folder, "--model", "mlp", *options)
    fails(result, f"{flag} is for --model auto. This is mlp.")


def test_auto_is_no_model_elsewhere(run: Run, folder: Path, tmp_path: Path) -> None:
    fails(run("tune", folder, "--model", "auto"), "--model auto has nothing to tune")
    fails(run("models", "auto"), "auto is not a model of its own: 'h2gcn train' fits")
    file = tmp_path / "best.json"
    for content in ('{"model": "auto"}', '{"l2": 0.1}'):
        file.write_text(content)
        result = run("train", folder, "--model", "auto", "--settings", file)
        fails(result, "--settings is for one model, and --model is auto")


def test_benchmarks_keep_the_papers_model(run: Run, data_root: Path) -> None:
    del data_root
    code, out, _ = run("train", "texas", "--json", "-q", "--epochs", 2)
    assert code == 0
    assert json.loads(out)["model"] == "h2gcn-1"


def test_auto_on_a_benchmark(run: Run, data_root: Path) -> None:
    del data_root
    code, out, err = run("train", "texas", "--model", "auto", "--json", "-q")
    assert code == 0, err
    found = json.loads(out)
    assert found["leaderboards"][0]["nodes"] == 87 + 59
    assert found["splits"][0]["sizes"] == [87, 59, 37]


def test_bad_input_is_a_line(run: Run, folder: Path) -> None:
    nodes = (folder / "nodes.csv").read_text()
    (folder / "nodes.csv").write_text(nodes.replace("fraud", "honest"))
    fails(
        run("train", folder, "-q"),
        "at least two classes must have labels, got 'honest'",
    )
    (folder / "nodes.csv").write_text(nodes.replace("fraud", "").replace("honest", ""))
    fails(run("train", folder, "-q"), "all labels are missing; nothing to learn from")
    (folder / "nodes.csv").write_text(nodes.replace(",30.", ",nan,"))
    assert run("train", folder, "-q")[0] == 2
    rows = [line.split(",") for line in nodes.splitlines()]
    (folder / "nodes.csv").write_text("\n".join(f"{r[0]},{r[-1]}" for r in rows))
    (folder / "edges.csv").write_text("source,target\n")
    fails(run("train", folder, "-q"), "edges.csv: the table has no edges")


# ------------------------------------------------------------------ saved, predicted


@pytest.fixture
def model(run: Run, folder: Path, tmp_path: Path) -> Path:
    """Return a saved auto of the people."""

    def save(path: Path) -> None:
        assert run("train", folder, "--out", path, "-q")[0] == 0

    return copy_of_saved("auto people", save, tmp_path / "model")


def predicted(run: Run, model: Path, folder: Path, *options: object) -> list[Any]:
    out = folder.with_name("predictions.csv")
    code, _, err = run("predict", model, folder, "--out", out, "--force", *options)
    assert code == 0, err
    return list(csv.DictReader(out.read_text().splitlines()))


def test_unlabelled_nodes_are_predicted(run: Run, model: Path, folder: Path) -> None:
    rows = predicted(run, model, folder)
    assert [row["id"] for row in rows] == [f"p{i:02}" for i in range(0, 80, 5)]
    right = [
        row["label"] == ("honest", "fraud")[int(row["id"][1:]) % 2] for row in rows
    ]
    assert np.mean(right) > 0.6
    for row in rows:
        assert float(row["p_fraud"]) + float(row["p_honest"]) == pytest.approx(1)


@each("options", [("--batch-size", 7), ("--memory-limit", 4, "--device", "cpu")])
def test_predicting_within_bounds_is_the_same(
    run: Run, model: Path, folder: Path, options: tuple[object, ...]
) -> None:
    plain = predicted(run, model, folder, "--all")
    bound = predicted(run, model, folder, "--all", *options)
    assert [row["id"] for row in plain] == [row["id"] for row in bound]
    for one, two in zip(plain, bound, strict=True):
        assert float(one["p_fraud"]) == pytest.approx(float(two["p_fraud"]), abs=1e-4)


def test_predict_json_names_auto(run: Run, model: Path, folder: Path) -> None:
    out = folder.with_name("p.csv")
    said = run("predict", model, folder, "--out", out, "--json", "-q")[1]
    assert json.loads(said)["name"] == "auto"


def test_decisions_of_an_auto(run: Run, model: Path, folder: Path) -> None:
    rows = predicted(run, model, folder, "--decision", "top=3:fraud")
    assert sum(row["label"] == "fraud" for row in rows) == 3
    predicted(run, model, folder, "--decision", "macro_f1")


def test_a_model_is_not_replaced_unasked(run: Run, model: Path, folder: Path) -> None:
    fails(run("train", folder, "--out", model), "holds a model already; --force repl")
    assert run("train", folder, "--out", model, "--force", "-q")[0] == 0


# ------------------------------------------------------------------------ fitted on all


def test_refit_is_scored_before(run: Run, folder: Path, tmp_path: Path) -> None:
    found = []
    for more in ((), ("--refit",)):
        out = ("--out", tmp_path / f"m{len(more)}")
        code, said, err = run("train", folder, "--json", "-q", *out, *more)
        assert code == 0, err
        found.append(json.loads(said))
    plain, again = found
    assert again["config"]["refit"] is True
    assert again["test_accuracy"] == plain["test_accuracy"]
    assert again["splits"][0]["val_accuracy"] == plain["splits"][0]["val_accuracy"]
    saved = load_bundle(tmp_path / "m1")
    assert saved.params_["refit"] is True
    assert len(saved.seen_.rows) == 64, "it has seen all labelled nodes"
    assert len(load_bundle(tmp_path / "m0").seen_.rows) == 52


# ------------------------------------------------------------------------------- Ctrl-C


@pytest.fixture
def stop_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return what has Ctrl-C come when a member is fitted."""

    def stop(name: str) -> None:
        enter = h2gcn.auto.contest._enter

        def entered(graph: Any, member: Member, *args: Any, **more: Any) -> Any:
            if member.name == name:
                raise KeyboardInterrupt
            return enter(graph, member, *args, **more)

        monkeypatch.setattr(h2gcn.auto.contest, "_enter", entered)

    return stop


def test_ctrl_c_keeps_those_that_are_done(
    run: Run, folder: Path, tmp_path: Path, stop_in: Callable[[str], None]
) -> None:
    stop_in("h2gcn-1")
    model = tmp_path / "model"
    code, out, err = run("train", folder, "--out", model)
    assert code == 130
    assert "interrupted; the best so far is kept" in err
    assert "interrupted: these are the scores of the best so far" in out
    assert "h2gcn-1: interrupted" in out
    assert f"saved to {model}" in out
    assert load_bundle(model).leaderboard_.interrupted
    assert predicted(run, model, folder)


def test_ctrl_c_before_anything_is_done(
    run: Run, folder: Path, tmp_path: Path, stop_in: Callable[[str], None]
) -> None:
    stop_in("logistic")
    code, out, err = run("train", folder, "--out", tmp_path / "model")
    assert code == 130
    assert out == ""
    assert err.splitlines()[-1] == "h2gcn: interrupted"
    assert not (tmp_path / "model").exists()
