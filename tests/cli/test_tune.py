"""`h2gcn tune`, and what goes with it: settings from a file, options, the models."""

import csv
import json
import os
import re
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from h2gcn import Graph, NodeClassifier, Split
from h2gcn.cli import main
from h2gcn.experiments import Store, tuning
from h2gcn.experiments.runs import read_records
from h2gcn.io import write_tables
from h2gcn.models import MODELS
from h2gcn.training import loop as training
from support.commands import fails

Run = Callable[..., tuple[int, str, str]]
QUICK = ("--epochs", 5, "--splits", 2)
PLAIN = (*QUICK, "--scaling", "auto")
"""With the scaling told, the grid is that of the model."""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command; return its exit code, stdout and stderr."""
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


@pytest.fixture
def source(small_graph: Graph, tmp_path: Path) -> Path:
    """Return a folder with two tables; three nodes have no label."""
    write_tables(small_graph, tmp_path / "small")
    nodes = tmp_path / "small" / "nodes.csv"
    rows = list(csv.reader(nodes.read_text().splitlines()))
    for row in rows[5:8]:
        row[1] = ""
    with nodes.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    return tmp_path / "small"


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the trainings."""
    calls: list[int] = []
    fit = NodeClassifier.fit

    def count(self: NodeClassifier, *given: Any, **named: Any) -> NodeClassifier:
        calls.append(self.random_state)
        return fit(self, *given, **named)

    monkeypatch.setattr(NodeClassifier, "fit", count)
    return calls


# ------------------------------------------------------------------------- tuning


def test_from_tables_to_a_tuned_model(run: Run, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "tuned"
    code, said, notes = run("tune", source, "--out", out, *QUICK)
    assert code == 0, notes
    assert "h2gcn-1 on small: 16 setting(s), validation nodes of 2 split(s)" in said
    for word in ("activation", "dropout", "l2", "scaling", "val %", "±"):
        assert word in said
    assert f"h2gcn train {source} --model h2gcn-1 --settings {out}/best.json" in said
    assert "3 nodes have no label: h2gcn predict" in said
    assert sorted(p.name for p in out.iterdir()) == [
        "best.json",
        "model",
        "trials.jsonl",
    ]
    records = read_records(out / "trials.jsonl")
    assert len(records) == 32
    assert "the scaling auto is standard here" in said
    best = json.loads((out / "best.json").read_text())
    scores: dict[str, list[float]] = {}
    for record in records:
        scores.setdefault(str(record["config"]), []).append(record["val_score"])
    highest = max(sum(values) / 2 for values in scores.values())
    assert best["validation"]["mean"] == pytest.approx(highest)
    assert best["validation"]["n"] == 2
    assert best["model"] == "h2gcn-1"
    assert best["dataset"]["name"] == "small"
    # The model is the winner's on split 0, and can predict.
    loaded = NodeClassifier.load(out / "model")
    first = next(r for r in records if r["key"] == best["runs"][0])
    assert first["split"] == 0
    assert loaded.val_score_ == first["val_score"]
    assert loaded.l2 == best["settings"]["l2"]
    predicted = tmp_path / "p.csv"
    code, said, _ = run("predict", out / "model", source, "--out", predicted)
    assert code == 0
    assert "3 nodes written" in said


def test_the_saved_model_knows_of_no_test_score(
    run: Run, source: Path, tmp_path: Path
) -> None:
    run("tune", source, "--out", tmp_path / "t", "-q", "--model", "mlp", *QUICK)
    manifest = json.loads((tmp_path / "t" / "model" / "bundle.json").read_text())
    assert manifest["extra"]["test_accuracy"] is None
    assert manifest["extra"]["split"] == 0
    assert "test" not in (tmp_path / "t" / "trials.jsonl").read_text()


def test_a_second_start_does_only_what_is_missing(
    run: Run, source: Path, tmp_path: Path, fits: list[int]
) -> None:
    out = tmp_path / "t"
    command = ("tune", source, "--out", out, "--model", "mlp", *PLAIN)
    assert run(*command)[0] == 0
    assert len(fits) == 4 * 2, "four settings, two splits; the winner is one of them"
    lines = (out / "trials.jsonl").read_text().splitlines(keepends=True)
    (out / "trials.jsonl").write_text("".join(lines[:5]))
    code, first, notes = run(*command)
    assert code == 0
    assert "5 of 8 runs are there from before" in notes
    assert len(fits) in (8 + 3, 8 + 4), "and the best of those there, if not saved"
    n = len(fits)
    code, second, notes = run(*command)
    assert "8 of 8 runs are there from before" in notes
    assert len(fits) == n
    assert first == second
    (out / "best.json").unlink()
    assert run(*command)[0] == 0
    assert len(fits) == n + 1
    assert (out / "best.json").is_file()


def test_another_search_replaces_the_saved_one_only_by_force(
    run: Run, source: Path, tmp_path: Path, fits: list[int]
) -> None:
    plain = ("--out", tmp_path / "t", "-q", *QUICK)
    options = (*plain, "--model", "mlp")
    assert run("tune", source, *options)[0] == 0
    n = len(fits)
    held = "t: holds the best of another search"
    fails(
        run("tune", source, *options, "--seed", 1),
        f"{held} (its seed is 0, not 1); --force replaces it, another --out keeps it",
    )
    result = run("tune", source, *plain, "--model", "gcn")
    fails(result, f"{held} (its model is mlp, not gcn); --force")
    other = tmp_path / "other"
    other.mkdir()
    for file in source.iterdir():
        text = file.read_text().replace("0,1\n", "0,9\n", 1)
        (other / file.name).write_text(text)
    fails(run("tune", other, *options), f"{held} (its graph is ")
    assert len(fits) == n
    for seed in (0, 1):
        more = ("--force", "--seed", seed)
        assert run("tune", source, *options, *more)[0] == 0
        assert json.loads((tmp_path / "t" / "best.json").read_text())["seed"] == seed
        assert NodeClassifier.load(tmp_path / "t" / "model").random_state == seed


def test_ctrl_c_keeps_the_finished_runs(
    run: Run, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "t"
    command = ("tune", source, "--out", out, "--model", "mlp", *PLAIN)
    with monkeypatch.context() as patch:
        fit, calls = NodeClassifier.fit, []

        def interrupt(self: NodeClassifier, *given: Any) -> NodeClassifier:
            calls.append(given)
            if len(calls) == 4:
                raise KeyboardInterrupt
            return fit(self, *given)

        patch.setattr(tuning.NodeClassifier, "fit", interrupt)
        code, said, notes = run(*command)
    assert code == 130
    assert f"interrupted; 3 finished runs are in {out}/trials.jsonl; the same" in notes
    assert notes.count("interrupted") == 1
    assert said.startswith("interrupted, with 5 runs to go: this is the ranking so far")
    assert "1 setting(s)" in said
    assert len(read_records(out / "trials.jsonl")) == 3
    # The best so far is there, and is marked as that.
    best = json.loads((out / "best.json").read_text())
    assert best["interrupted"] is True
    assert NodeClassifier.load(out / "model").l2 == best["settings"]["l2"]
    code, said, notes = run(*command, "--json")
    assert code == 0
    assert "3 of 8 runs are there" in notes
    assert json.loads(said)["interrupted"] is False
    assert json.loads((out / "best.json").read_text())["interrupted"] is False


@pytest.mark.parametrize("search", [(), ("--search", "optuna", "--trials", 6)])
def test_sigterm_leaves_the_best_so_far(
    run: Run,
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    search: tuple[object, ...],
) -> None:
    if search:
        pytest.importorskip("optuna")
    out, score, calls = tmp_path / "t", training.score, []

    def end(*given: Any) -> float:
        calls.append(given)
        if len(calls) == 23:  # in the fifth run, of the third setting
            os.kill(os.getpid(), signal.SIGTERM)
        return score(*given)

    monkeypatch.setattr(training, "score", end)
    options = ("--out", out, "--model", "mlp", "--json", *QUICK, *search)
    code, said, _ = run("tune", source, *options)
    assert code == 143
    result = json.loads(said)
    assert (result["interrupted"], result["saved"]) == (True, True)
    assert result["runs_missing"] == (8 if search else 12)
    assert len(result["ranking"]) == 2
    best = json.loads((out / "best.json").read_text())
    assert best["settings"] == result["best"]["settings"]
    assert NodeClassifier.load(out / "model").l2 == best["settings"]["l2"]


def test_a_kill_leaves_the_best_so_far(
    run: Run, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    out, fit, calls = tmp_path / "t", NodeClassifier.fit, []

    def die(self: NodeClassifier, *given: Any) -> NodeClassifier:
        calls.append(given)
        if len(calls) == 4:
            raise Killed
        return fit(self, *given)

    monkeypatch.setattr(tuning.NodeClassifier, "fit", die)
    assert run("tune", source, "--out", out, "--model", "mlp", "-q", *QUICK)[0] == 70
    assert json.loads((out / "best.json").read_text())["interrupted"] is True
    assert NodeClassifier.load(out / "model").model == "mlp"


def test_ctrl_c_while_the_winner_is_fitted_again(
    run: Run, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "t"
    command = ("tune", source, "--out", out, "--model", "mlp", "-q", *QUICK)
    assert run(*command)[0] == 0
    (out / "best.json").unlink()

    def interrupt(*_: Any, **__: Any) -> NodeClassifier:
        raise KeyboardInterrupt

    monkeypatch.setattr(tuning.NodeClassifier, "fit", interrupt)
    code, said, _ = run(*command)
    assert code == 130
    assert "8 setting(s)" in said
    assert "the model of rank 1 is not fitted yet, the same command does it" in said
    assert "h2gcn train" not in said
    assert not (out / "best.json").exists()


def test_ctrl_c_before_a_setting_is_done(
    run: Run, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, fit, calls = tmp_path / "t", NodeClassifier.fit, []

    def interrupt(self: NodeClassifier, *given: Any) -> NodeClassifier:
        calls.append(given)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return fit(self, *given)

    monkeypatch.setattr(tuning.NodeClassifier, "fit", interrupt)
    command = ("tune", source, "--out", out, "--model", "mlp", "-q", *QUICK)
    code, said, notes = run(*command)
    assert (code, said) == (130, "")
    assert f"1 finished runs are in {out}/trials.jsonl" in notes
    assert notes.endswith("h2gcn: interrupted\n")
    assert not (out / "best.json").exists()


def test_tune_json_is_one_object(run: Run, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "t"
    options = ("--out", out, "--json", "-q", "--model", "mlp", "--seed", 3)
    code, said, notes = run("tune", source, *options, *PLAIN)
    assert (code, notes) == (0, "")
    result = json.loads(said)
    assert (result["dataset"], result["model"]) == ("small", "mlp")
    assert (result["search"], result["splits"], result["seed"]) == ("grid", 2, 3)
    assert result["runs"] == {"found": 0, "new": 8}
    assert [row["rank"] for row in result["ranking"]] == [1, 2, 3, 4]
    means = [row["val_score"]["mean"] for row in result["ranking"]]
    assert means == sorted(means, reverse=True)
    assert result["best"] == result["ranking"][0]
    assert result["folder"] == str(out)
    assert {r["seed"] for r in read_records(out / "trials.jsonl")} == {3, 4}


def test_tuning_has_the_options_for_large_graphs(
    run: Run, source: Path, tmp_path: Path
) -> None:
    out, x = tmp_path / "t", tmp_path / "x.npy"
    np.save(x, np.random.default_rng(0).normal(size=(30, 6)).astype(np.float32))
    options = ("--batch-size", 9, "--ring-cap", 2, "--memory-limit", 1)
    command = ("tune", source, "--out", out, "--features", x, *options, *QUICK)
    code, said, notes = run(*command)
    assert code == 0, notes
    best = json.loads((out / "best.json").read_text())["settings"]
    assert (best["batch_size"], best["ring_cap"]) == (9, 2)
    # What speaks of the machine is no setting.
    assert "memory_limit" not in best
    assert NodeClassifier.load(out / "model").n_features_in_ == 6
    line = said.splitlines()[-1]
    assert line.startswith(f"h2gcn train {source} --features {x} --memory-limit 1.0 ")
    assert run(*line.split()[1:], "-q")[0] == 0
    again = run(*command[:-6], "--memory-limit", 2, *QUICK)
    assert again[0] == 0


def test_tuning_is_held_to_the_limit(run: Run, source: Path, tmp_path: Path) -> None:
    fails(
        run("tune", source, "--out", tmp_path / "t", "--memory-limit", 5e-6, "-q"),
        "will not fit in memory",
        "the limit is 5.0 kB; nothing fits",
    )
    assert not (tmp_path / "t").exists()


def test_a_search_beyond_the_grid(run: Run, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "t"
    command = ("tune", source, "--out", out, "--model", "mlp", "-q", *PLAIN)
    assert run(*command)[0] == 0
    search = (*command, "--search", "optuna", "--trials")
    result = json.loads(run(*search, 6, "--json")[1])
    assert result["runs"] == {"found": 8, "new": 4}, "the grid's runs count"
    assert len(result["ranking"]) == 6
    assert len(read_records(out / "trials.jsonl")) == 12
    code, said, _ = run(*search, 6)
    assert code == 0
    header = said.split("─")[0].split()
    for word in ("activation", "dropout", "hidden", "channels", "learning", "rate"):
        assert word in header, "whole, in 80 columns"
    assert len(read_records(out / "trials.jsonl")) == 12


def test_a_long_ranking_is_cut_in_the_table_only(
    run: Run, source: Path, tmp_path: Path
) -> None:
    options = ("--model", "label-propagation", "--search", "optuna", "--trials", 18)
    code, said, notes = run("tune", source, "--out", tmp_path / "t", *options)
    assert code == 0, notes
    assert f"3 more in {tmp_path}/t/trials.jsonl" in said


def test_the_folder_has_a_name_of_its_own(
    run: Run, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("tune", source, "--model", "label-propagation", "-q")[0] == 0
    assert (tmp_path / "tuned-small-label-propagation" / "best.json").is_file()


def test_options_of_the_tables_are_in_the_command_that_goes_on(
    run: Run, source: Path, tmp_path: Path
) -> None:
    tables = ("--nodes", source / "nodes.csv", "--edges", source / "edges.csv")
    more = ("--label-column", "label", "--feature-column", "0", "--feature-column", "1")
    options = ("--out", tmp_path / "t", "--model", "label-propagation", "--undirected")
    edges = source / "edges.csv"
    header, *rows = edges.read_text().splitlines()
    lines = [f"{header},w,k", *(f"{row},{i % 3},{i % 2}" for i, row in enumerate(rows))]
    edges.write_text("\n".join(lines))
    more += ("--edge-feature", "w", "--edge-categorical", "k")
    code, said, _ = run("tune", *tables, *more, *options, "--seed", 2)
    assert code == 0
    (line,) = [text for text in said.splitlines() if text.startswith("h2gcn train")]
    assert "--label-column label --feature-column 0 --feature-column 1" in line
    assert "--edge-feature w --edge-categorical k" in line
    assert line.endswith(
        "--undirected --model label-propagation --settings "
        f"{tmp_path}/t/best.json --seed 2"
    )
    assert run(*line.split()[1:])[0] == 0, "it can be copied"


def test_a_setting_that_fails_is_told(
    run: Run, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from h2gcn.experiments import definition

    rates = {"optimizer": ("sgd",), "learning_rate": (1e30, 0.01)}
    monkeypatch.setitem(definition._OWN, "gcn", [rates])
    plain = ("--epochs", 10, "--splits", 1, "--scaling", "auto")
    options = ("tune", source, "--model", "gcn", *plain)
    code, said, _ = run(*options, "--out", tmp_path / "t")
    assert code == 0
    assert "1 failed, as the last one: training diverged" in said
    monkeypatch.setitem(definition._OWN, "gcn", [rates | {"learning_rate": (1e30,)}])
    result = run(*options, "-q", "--out", tmp_path / "u")
    fails(result, "no setting can be used", "training diverged")
    assert not (tmp_path / "u" / "best.json").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--model", "h2gnc-1"), ("Did you mean 'h2gcn-1'",)),
        (("--search", "random"), ("--search must be grid or optuna, got 'random'",)),
        (("--trials", 5), ("--trials is for --search optuna",)),
        (("--search", "optuna", "--trials", 0), ("--trials",)),
        (("--splits", 0), ("--splits",)),
        (("--epochs", 0), ("error: --epochs must be an integer, at least 1",)),
        (("--patience", 0), ("error: --patience must be",)),
        (("--scaling", "row"), ("error: --scaling must be", "'rows'")),
        (("--metric", "f1"), ("'roc_auc'",)),
        (
            ("--model", "linbp", "--scaling", "rows"),
            ("looks at no features: --scaling",),
        ),
        (("--device", "tpu"), ("'cpu'",)),
        (("--seed", -1), ("seed",)),
    ],
)
def test_mistakes_are_found_before_anything_is_made(
    run: Run,
    source: Path,
    tmp_path: Path,
    options: tuple[object, ...],
    words: tuple[str, ...],
) -> None:
    fails(run("tune", source, "--out", tmp_path / "t", "-q", *options), *words)
    assert not (tmp_path / "t").exists()


def test_folders_that_cannot_be_used(run: Run, source: Path, tmp_path: Path) -> None:
    fails(run("tune", source, "--out", source), "holds other files")
    fails(run("tune", source, "--out", source / "nodes.csv"), "is a file")
    fails(run("tune", source, "--out", tmp_path / "no" / "t"), "does not exist")
    (tmp_path / "t" / "model").mkdir(parents=True)
    (tmp_path / "t" / "model" / "mine.txt").touch()
    fails(run("tune", source, "--out", tmp_path / "t"), "holds other files")


def test_a_folder_in_use_is_refused(run: Run, source: Path, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    with Store(tmp_path / "t" / "trials.jsonl"):
        result = run("tune", source, "--out", tmp_path / "t", "-q", *QUICK)
    fails(result, "trials.jsonl", "another program is writing to it")


@pytest.mark.parametrize(("own", "used"), [(0, 3), (1, 1), (2, 2), (5, 3)])
def test_three_splits_or_as_many_as_the_data_bring(
    run: Run,
    small_graph: Graph,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    own: int,
    used: int,
) -> None:
    nodes = np.arange(30)
    splits = [Split(*np.split(np.roll(nodes, 4 * i), [12, 20])) for i in range(own)]
    graph = replace(small_graph, splits=splits)
    monkeypatch.setattr("h2gcn.cli.options.load_source", lambda *_: graph)
    options = ("--out", tmp_path / "t", "--json", "-q", "--model", "gat")
    command = ("tune", "x", *options, "--epochs", 2)
    assert json.loads(run(*command)[1])["splits"] == used
    if own == 2:
        fails(
            run(*command, "--splits", 3),
            "--splits must be at most 2, as many as the data have, got 3",
            json=True,
        )
    if own == 5:
        assert json.loads(run(*command, "--splits", 4)[1])["splits"] == 4


def test_score_and_scaling_of_every_run(run: Run, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "t"
    options = ("--metric", "roc_auc", "--scaling", "standard", "--epochs", 3)
    command = ("tune", source, "--out", out, "--model", "graphsage", *options)
    code, said, notes = run(*command, "--splits", 1)
    assert code == 0, notes
    assert "val ROC-AUC %" in " ".join(said.split())
    searched = ("--search", "optuna", "--trials", 6, "--json", "-q")
    result = json.loads(run(*command, "--splits", 1, *searched)[1])
    assert result["metric"] == "roc_auc"
    assert result["runs"] == {"found": 4, "new": 2}, "beyond the grid too"
    records = read_records(out / "trials.jsonl")
    assert len(records) == 6
    for record in records:
        assert record["config"]["metric"] == "roc_auc"
        assert record["config"]["scaling"] == "standard"
        assert "val_accuracy" not in record
    best = json.loads((out / "best.json").read_text())
    assert best["validation"]["metric"] == "roc_auc"
    loaded = NodeClassifier.load(out / "model")
    assert (loaded.metric, loaded.scaler_.kind) == ("roc_auc", "standard")


def test_a_search_goes_on_among_the_scalings(
    run: Run, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "t"
    command = ("tune", source, "--out", out, "--model", "sgc", "--json", "-q")
    searched = ("--search", "optuna", "--trials", 14, "--epochs", 2, "--splits", 1)
    result = json.loads(run(*command, *searched)[1])
    assert result["scaling_auto"] == "standard"
    assert len(result["ranking"]) == 14
    found = [record["config"] for record in read_records(out / "trials.jsonl")]
    assert {setting.get("scaling") for setting in found[:8]} == {None, "none"}
    assert {setting.get("scaling") for setting in found[8:]} <= {None, "none"}
    again = json.loads(run(*command, *searched)[1])
    assert again["runs"] == {"found": 14, "new": 0}


def test_the_command_line_wins_over_the_grid(
    run: Run, small_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("h2gcn.cli.options.load_source", lambda *_: small_graph)
    command = ("tune", "minesweeper", "--model", "gat", "--json", "-q", *QUICK)
    first = json.loads(run(*command, "--out", tmp_path / "t")[1])
    assert first["best"]["settings"]["scaling"] == "standard"
    assert first["metric"] == "roc_auc"
    given = ("--metric", "accuracy", "--scaling", "none")
    second = json.loads(run(*command, *given, "--out", tmp_path / "u")[1])
    assert second["best"]["settings"]["scaling"] == "none"
    assert second["metric"] == "accuracy"


def test_roc_auc_is_for_two_classes(
    run: Run, small_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = replace(small_graph, y=np.arange(30) % 3, classes=None)
    monkeypatch.setattr("h2gcn.cli.options.load_source", lambda *_: graph)
    result = run("tune", "x", "--out", tmp_path / "t", "--metric", "roc_auc")
    fails(result, "--metric roc_auc: for two classes. small has 3.")
    assert not (tmp_path / "t").exists()


def test_a_model_that_no_grid_names_can_be_tuned(
    run: Run, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODELS, "new", MODELS["gcn"])
    options = ("--out", tmp_path / "t", "--model", "new", "--json", "-q", *QUICK)
    result = json.loads(run("tune", source, *options)[1])
    settings = [row["settings"] for row in result["ranking"]]
    own = {"patience": 100, "epochs": 5}
    assert len(settings) == 2
    assert own in settings
    assert own | {"scaling": "none"} in settings


def test_what_patience_is_holds_for_every_stopping_rule(run: Run) -> None:
    said = " ".join(run("tune", "--help")[1].split())
    assert "Epochs that the stopping rule waits." in said


def test_a_search_without_optuna_says_how_to_get_it(
    run: Run, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "find_spec", lambda _: None)
    fails(run("tune", source, "--search", "optuna"), "pip install 'h2gcn[bench]'")


@pytest.mark.data
def test_texas_has_the_papers_grid(run: Run, data_root: Path, tmp_path: Path) -> None:
    del data_root
    options = ("--out", tmp_path / "t", "--json", "--epochs", 3, "--splits", 1)
    code, said, _ = run("tune", "texas", *options)
    assert code == 0
    settings = [row["settings"] for row in json.loads(said)["ranking"]]
    assert len(settings) == 8
    assert all(setting["scaling"] == "rows" for setting in settings)
    result = run("tune", "texas", "--out", tmp_path / "t", "-q", "--splits", 11)
    fails(result, "--splits must be at most 10, as many as the data have, got 11")


# ----------------------------------------------------------- settings from a file


def write(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content))
    return path


def config(run: Run, *arguments: object) -> dict[str, Any]:
    """Train quickly and return the settings that were used."""
    code, out, err = run("train", *arguments, "--json", "-q")
    assert code == 0, err
    result = json.loads(out)
    used: dict[str, Any] = result["config"]
    return used | {"model": result["model"]}


def test_train_takes_what_tune_found(run: Run, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "t"
    run("tune", source, "--out", out, "--model", "gcn-cheby", "-q", *QUICK)
    best = json.loads((out / "best.json").read_text())
    used = config(run, source, "--settings", out / "best.json")
    assert used["model"] == "gcn-cheby", "the file's, where none is given"
    assert used["stopping"] == "loss-mean"
    assert used["options"] == {"max_degree": 2}
    assert used["l2"] == best["settings"]["l2"]
    assert used["epochs"] == 5
    # The same splits and seeds: the same validation score.
    code, said, _ = run("train", source, "--settings", out / "best.json", "--json")
    assert code == 0
    first = read_records(out / "trials.jsonl")
    (record,) = [r for r in first if r["key"] == best["runs"][0]]
    assert json.loads(said)["splits"][0]["val_accuracy"] == record["val_score"]


def test_options_on_the_line_win(run: Run, source: Path, tmp_path: Path) -> None:
    content = {
        "model": "gat",
        "epochs": 3,
        "l2": 0.1,
        "options": {"heads": 2, "dropout": 0.3},
    }
    file = write(tmp_path / "s.json", content)
    line = ("--l2", 0.2, "--option", "heads=4", "--option", "out_heads=2")
    used = config(run, source, "--settings", file, "--dropout", 0.1, *line)
    assert (used["model"], used["epochs"], used["l2"]) == ("gat", 3, 0.2)
    assert used["options"] == {"heads": 4, "out_heads": 2}
    assert used["dropout"] == 0.1
    assert used["patience"] == 100, "the classifier's own, as everywhere"
    file = write(tmp_path / "s.json", {"model": "mlp", "settings": {"epochs": 3}})
    used = config(run, source, "--settings", file)
    assert used["patience"] is None, "what was tuned without any was trained so"
    file = write(tmp_path / "s.json", {"epochs": 3, "dropout": 0.3})
    used = config(run, source, "--settings", file, "--option", "dropout=0.1")
    assert used["dropout"] == 0.1, "by whichever name it is given"


def test_a_file_without_a_model_goes_with_any(
    run: Run, source: Path, tmp_path: Path
) -> None:
    file = write(tmp_path / "s.json", {"epochs": 2})
    assert config(run, source, "--settings", file)["model"] == "h2gcn-1"
    assert config(run, source, "--settings", file, "--model", "mlp")["model"] == "mlp"
    file = write(tmp_path / "s.json", {"epochs": 2, "model": "h2gcn-1"})
    used = config(run, source, "--settings", file, "--model", "h2gcn-k2")
    assert used["model"] == "h2gcn-k2", "the paper's other name"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"droput": 0.5}, ("'droput'", "Did you mean 'dropout'")),
        ({"heads": 4}, ("'heads'", "'options'")),
        ({"random_state": 4}, ("--seed",)),
        ({"options": [1]}, ("options must be an object or null",)),
        ({"model": ["gcn"]}, ("'model' must be a name",)),
        ({"model": "h2gnc-2"}, ("Did you mean 'h2gcn-2'",)),
        ({"model": "gcn"}, ("settings of gcn", "--model is mlp")),
        ({"l2": "much"}, ("l2 must be a number or null, got 'much'",)),
        ({"l2": -1}, ("s.json: l2 must be in [0, inf), got -1",)),
        ({"options": {"heads": 3}}, ("mlp has no option 'heads'",)),
        ([1, 2], ("one JSON object",)),
        (3, ("one JSON object",)),
    ],
)
def test_a_file_of_settings_that_cannot_be_used(
    run: Run, source: Path, tmp_path: Path, content: object, words: tuple[str, ...]
) -> None:
    file = write(tmp_path / "s.json", content)
    named = isinstance(content, dict) and content.get("model") not in (None, "gcn")
    model = () if named else ("--model", "mlp")
    fails(run("train", source, "--settings", file, "-q", *model), *words)


def test_a_file_of_settings_that_cannot_be_read(
    run: Run, source: Path, tmp_path: Path
) -> None:
    gone = tmp_path / "gone.json"
    fails(
        run("train", source, "--settings", gone), "gone.json: cannot be read (No such"
    )
    gone.write_text("{")
    fails(run("train", source, "--settings", gone), "gone.json", "not JSON")
    gone.write_bytes(b"\xff\xfe")
    fails(run("train", source, "--settings", gone), "gone.json", "not JSON")
    fails(run("train", source, "--settings", tmp_path), "this is a folder")


# ------------------------------------------------------------------ options of train


def test_train_takes_the_models_own_options(run: Run, source: Path) -> None:
    line = ("--optimizer", "sgd", "--stopping", "loss-or-score", "--epochs", 2)
    options = ("--option", "heads=3", "--option", "activation=relu")
    used = config(run, source, "--model", "gat", *line, *options)
    assert used["options"] == {"heads": 3, "out_heads": 1}
    assert used["activation"] == "relu"
    assert (used["optimizer"], used["stopping"]) == ("sgd", "loss-or-score")


@pytest.mark.parametrize("text", ["heads", "=4", "heads=", " =4"])
def test_an_option_that_is_no_pair(run: Run, source: Path, text: str) -> None:
    result = run("train", source, "--model", "gat", "--option", text)
    fails(result, f"--option must be NAME=VALUE, got {text!r}")


def test_an_option_that_the_model_has_not(run: Run, source: Path) -> None:
    result = run("train", source, "--model", "gat", "--option", "head=4", "-q")
    fails(result, "gat has no option 'head'", "Did you mean 'heads'")
    fails(run("train", source, "--optimizer", "adm", "-q"), "'adam'")
    fails(run("train", source, "--stopping", "never", "-q"), "'loss-mean'")


# ------------------------------------------------------------------------ the models


def test_the_models_are_listed_in_80_columns(run: Run) -> None:
    code, said, _ = run("models")
    assert code == 0
    assert max(map(len, said.splitlines())) <= 80
    assert "…" not in said, "nothing is cut off"
    for name, spec in MODELS.items():
        assert f" {name} " in said
        assert spec.paper.split()[0] in said
    assert "usual options: hidden_channels 64, activation relu, dropout 0.5" in said
    assert "heads 8" in said


@pytest.mark.parametrize("name", MODELS)
def test_one_model_is_shown_in_full(run: Run, name: str) -> None:
    code, said, _ = run("models", name)
    spec = MODELS[name]
    assert code == 0
    assert said.startswith(f"{name}: {spec.summary}\npaper: {spec.paper}")
    for option in spec.params:
        assert f"\n  {option} " in said
    assert "\\" not in said, "no TeX is left"
    assert "`" not in said
    assert " = " in said, "a formula"
    assert max(len(line) for line in said.splitlines()) <= 88


def test_a_formula_is_written_plainly(run: Run) -> None:
    said = run("models", "gcn")[1]
    assert "    logits = Â dropout(σ(Â dropout(X) W₁)) W₂" in said
    assert "0.00025" in said, "its own L2 penalty"


JUMPING = [name for name, spec in MODELS.items() if spec.fixed.get("jumping")]


@pytest.mark.parametrize("name", JUMPING)
def test_jumping_knowledge_has_a_formula_of_its_own(run: Run, name: str) -> None:
    said = run("models", name)[1].replace("₁", "_1").replace("₂", "_2")
    (logits,) = re.findall(r"^    logits = .*", said, re.MULTILINE)
    assert "H_1 ‖ H_2" in logits, "the classifier sees both layers"
    assert logits.endswith("W_c")
    plain = run("models", name.removesuffix("-jk"))[1]
    assert len(re.findall("logits = ", plain)) == 1
    assert "H_1 ‖ H_2" not in plain


def test_what_a_formula_uses_is_defined(run: Run) -> None:
    assert JUMPING == ["gcn-jk", "gcn-cheby-jk", "graphsage-jk"]
    for name in JUMPING[:2]:
        assert "    H₀ = σ(dropout(X) W_e)\n" in run("models", name)[1]
    cheby = run("models", "gcn-cheby-jk")[1]
    assert "    g_W(X) = Σ" in cheby
    assert "    H₁ = σ(g_W₁(H₀))\n" in cheby
    assert "    H₁ = σ((X ‖ M X) W₁)" in run("models", "graphsage-jk")[1]


def test_a_model_by_its_other_name_and_a_misspelt_one(run: Run) -> None:
    assert run("models", "h2gcn-k2")[1].startswith("h2gcn-1: ")
    assert "also called h2gcn-s0, h2gcn-k2" in run("models", "h2gcn-1")[1]
    fails(run("models", "graphsaga"), "Did you mean 'graphsage'")


def test_the_models_as_json(run: Run) -> None:
    result = json.loads(run("models", "--json")[1])
    assert result["aliases"]["h2gcn-k2"] == "h2gcn-1"
    by_name = {model["name"]: model for model in result["models"]}
    assert by_name.keys() == MODELS.keys()
    gat = by_name["gat"]
    keys = {"name", "designs", "summary", "paper", "arguments", "options", "training"}
    assert gat.keys() == keys
    assert gat["options"]["heads"] == 8
    assert gat["training"] == {"learning_rate": 0.005, "l2": 2.5e-4}
    assert by_name["label-propagation"]["training"] == {}
    assert json.loads(run("models", "gat", "--json")[1]) == gat


def test_more_splits_than_can_be_meant(run: Run, tmp_path: Path) -> None:
    fails(
        run("tune", tmp_path / "not there.npz", "--splits", 100_000_000),
        "--splits 100,000,000: at most 10,000.",
    )


DEEP = "[" * 100_000 + "]" * 100_000


def test_what_is_nested_too_deep_is_one_line(
    run: Run, source: Path, tmp_path: Path
) -> None:
    file = tmp_path / "s.json"
    file.write_text(f'{{"l2": {DEEP}}}')
    fails(run("train", source, "--settings", file), "s.json: is nested more than 64")
    option = ("--model", "gat", "--option", f"heads={DEEP}")
    fails(run("train", source, *option), "--option heads: is nested more than 64 deep")
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "trials.jsonl").write_text(f'{{"key": {DEEP}}}\n')
    fails(run("tune", source, "--out", tmp_path / "t", "-q"), "line 1: not a record")


def test_a_split_of_thousands_of_digits_is_one_line(run: Run, source: Path) -> None:
    result = run("train", source, "--split", "9" * 5000)
    fails(result, "--split must be a number from 0 on, or 'all', got '99999")
    assert len(result[2]) < 200


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"val_score": 2}, "val_score must be a number <= 1.0, got 2"),
        ({"config": {"epochs": "3"}}, "config.epochs must be an integer, got '3'"),
        ({"config": {"run": 1}}, "config has no field 'run'"),
        ({"error": "why"}, "it has a score and an error, or neither"),
    ],
    ids=str,
)
def test_a_trial_of_another_form_is_named(
    run: Run, source: Path, tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    trial = {"key": "k", "dataset": "g", "checksum": "c", "model": "mlp", "config": {}}
    trial |= {"split": 0, "seed": 0, "seconds": 1.0, "version": "1", "val_score": 0.5}
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "trials.jsonl").write_text(json.dumps(trial | change) + "\n")
    result = run("tune", source, "--out", tmp_path / "t", "-q", "--model", "mlp")
    fails(result, "trials.jsonl, record 'k': ")
    assert words in result[2]


def test_what_a_kill_left_in_the_folder_does_not_stop_the_next_search(
    run: Run, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "t"
    out.mkdir()
    (out / ".best.0123abcd.tmp.json").write_text("{")
    (out / ".model-0123abcd.h2gcn-part").mkdir()
    code, _, err = run("tune", source, "--out", out, "-q", "--model", "mlp", *PLAIN)
    assert code == 0, err
    names = {path.name for path in out.iterdir()}
    assert names == {"trials.jsonl", "best.json", "model"}
