"""`h2gcn reproduce` from nothing to the report, on graphs of 200 nodes."""

import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from h2gcn.cli import main
from h2gcn.exceptions import InputError
from h2gcn.experiments import Protocol, Result, Run, Store, definition, reproduce, runs
from h2gcn.experiments.definition import (
    EXPERIMENTS,
    PROTOCOLS,
    Experiment,
)
from h2gcn.experiments.driver import _run as trained, _select, graph_checksums
from h2gcn.experiments.pools import Outcome, execute as execute_one, failure
from h2gcn.experiments.runs import on_available_graphs, read_records

PATIENCE = 120.0
"""Seconds after which what should happen never will."""

TINY = Protocol(
    "tiny",
    "for the tests",
    judged=0,
    splits=2,
    graphs=2,
    epochs=2,
    homophily=("0.10", "0.90"),
    datasets=("texas",),
    synthetic_nodes=200,
)


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(PROTOCOLS, "tiny", TINY)
    monkeypatch.setenv("H2GCN_DATA", str(tmp_path / "no-data"))


def run(*arguments: object) -> int:
    return main(["reproduce", *map(str, arguments), "--protocol", "tiny"])


def test_one_command_leaves_store_tables_figures_and_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "results"
    assert run("degree", "--out", out, "--jobs", 1) == 0
    assert {path.name for path in out.iterdir()} == {
        *("runs.jsonl", "degree", "report.html")
    }
    assert {path.name for path in (out / "degree").iterdir()} == {
        *("result.json", "degree.md", "degree.csv", "degree.tex"),
        *("degree.svg", "degree.png"),
    }
    records = read_records(out / "runs.jsonl")
    reported = {record["key"] for record in records if record["selected"]}
    assert len(reported) == 2 * 2 * 2
    assert {record["epochs"] for record in records} == {2}
    result = json.loads((out / "degree" / "result.json").read_text("utf-8"))
    assert (result["protocol"], result["failed"]) == ("tiny", [])
    assert "twenty Gaussians a class" in " ".join(result["notes"])
    text = (out / "degree" / "degree.csv").read_text("utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    assert {row["row"] for row in rows} >= {"h2gcn-1, h = 0.2", "h2gcn-2, h = 0.8"}
    shown = capsys.readouterr()
    assert "h2gcn-1, h = 0.2" in shown.out
    assert f"everything on one page: {out / 'report.html'}" in shown.out
    # A second start finds everything and runs nothing.
    before = (out / "runs.jsonl").read_bytes()
    assert run("degree", "--out", out, "--jobs", 1, "--quiet") == 0
    assert (out / "runs.jsonl").read_bytes() == before


def test_only_one_of_the_real_benchmarks_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def note(runs: Any, *_: object, **__: object) -> Outcome:
        asked.extend(one.dataset for one in runs)
        return Outcome(len(runs), 0, 0, (), 0.0)

    there = runs.Available(["texas", "cora"])
    monkeypatch.setattr("h2gcn.experiments.run_plan", note)
    monkeypatch.setattr("h2gcn.experiments.driver.available_columns", lambda *_: there)
    monkeypatch.setitem(PROTOCOLS, "tiny", replace(TINY, datasets=("texas", "cora")))
    assert run("real", "--out", tmp_path, "--quiet") == 0
    assert {*asked} == {"texas", "cora"}
    asked.clear()
    assert run("real", "--only", "cora", "--out", tmp_path, "--quiet") == 0
    assert {*asked} == {"cora"}
    # The table is the whole one.
    result = json.loads((tmp_path / "real" / "result.json").read_text("utf-8"))
    assert {"texas", "cora"} <= {*result["tables"][0]["columns"]}


def test_only_one_of_the_real_benchmarks_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []

    def missing(name: str) -> tuple[None, str]:
        opened.append(name)
        return None, f"{name}: no such file"

    monkeypatch.setattr("h2gcn.experiments.runs.card_of", missing)
    monkeypatch.setitem(PROTOCOLS, "tiny", replace(TINY, datasets=("texas", "cora")))
    for experiment in ("real", "ranks"):
        opened.clear()
        assert run(experiment, "--only", "cora", "--out", tmp_path, "--quiet") == 0
        assert opened == ["cora"]
    assert "not run: texas" not in capsys.readouterr().err
    monkeypatch.setattr("h2gcn.experiments.driver.card_of", missing)
    for experiment in ("real", "statistics"):
        opened.clear()
        assert run(experiment, "--no-run", "--out", tmp_path, "--quiet") == 0
        assert not {*opened} & {*definition.REAL}
    # What the store has of others stays in the table.
    with Store(tmp_path / "runs.jsonl") as store:
        done = Run("real", "texas", "mlp", {"dropout": 0.0}, 0)
        fake({0.0: 0.5}, {0.0: 0.5}, store)([done])
    opened.clear()
    assert run("real", "--only", "cora", "--out", tmp_path, "--quiet") == 0
    assert {*opened} == {"texas", "cora"}


def in_this_process(store: Store) -> Any:
    """Return an `Execute` that needs no workers."""

    def execute(runs: Any) -> None:
        for one in runs:
            if one.key not in store:
                store.append(execute_one(one))

    return execute


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "runs.jsonl") as opened:
        yield opened


def two_columns(*models: str, **options: Any) -> Experiment:
    return Experiment("syn-products", "t", models, ("0.10", "0.90"), **options)


def test_a_run_that_fails_is_told_and_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = two_columns("mlp", "gcn", synthetic="syn-products")
    monkeypatch.setitem(EXPERIMENTS, "syn-products", experiment)
    broken = {"mlp": {"learning_rate": -1.0}, "gcn": {"epochs": 2}}
    monkeypatch.setattr(
        definition, "find_preset", lambda _, model: {"scaling": "none"} | broken[model]
    )
    assert run("syn-products", "--out", tmp_path, "--jobs", 1, "--quiet") == 1
    told = capsys.readouterr().err
    assert told.count("failed: syn-products-kinds-200/") == 4
    assert "learning_rate" in told
    assert "4 runs failed; the same command tries them again" in told
    result = json.loads((tmp_path / "syn-products" / "result.json").read_text("utf-8"))
    cells = {row["name"]: row["cells"][0] for row in result["tables"][0]["rows"]}
    assert cells["mlp"]["verdict"] == "not run"
    assert cells["gcn"]["n"] == 2
    # The next start tries what failed, and nothing else.
    appended = len((tmp_path / "runs.jsonl").read_text().splitlines())
    assert run("syn-products", "--out", tmp_path, "--jobs", 1, "--quiet") == 1
    again = (tmp_path / "runs.jsonl").read_text().splitlines()[appended:]
    assert [json.loads(line)["model"] for line in again] == ["mlp"] * 4


def fake(val: dict[float, float], test: dict[float, float], store: Store) -> Any:
    """Return an `Execute` whose scores follow from the dropout alone."""

    def execute(runs: Any) -> None:
        for one in runs:
            if one.key in store:
                continue
            dropout = one.config["dropout"]
            record = failure(one, "") | {
                "val_accuracy": val[dropout],
                "test_accuracy": test[dropout],
                "by_degree": [],
            }
            store.append({k: v for k, v in record.items() if k != "error"})

    return execute


GRID = Protocol("grid", "a grid", judged=None, graphs=2, synthetic_grid=True)


def test_the_setting_is_chosen_on_validation_nodes_and_never_on_test_nodes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        definition, "find_grid", lambda *_: [{"dropout": 0.0}, {"dropout": 0.5}]
    )
    execute = fake({0.0: 0.8, 0.5: 0.7}, {0.0: 0.1, 0.5: 0.9}, store)
    result = trained(
        two_columns("mlp", synthetic="syn-products"),
        replace(GRID, synthetic_nodes=200),
        store,
        execute,
    )
    assert [setting["config"] for setting in result.settings or ()] == [
        {"dropout": 0.0}
    ] * 2
    assert [c.mean for c in result.tables[0].rows[0].cells] == [10.0, 10.0]
    selected = {r["config"]["dropout"] for r in store.records if r["selected"]}
    assert selected == {0.0}
    assert len(store.records) == 2 * 2 * 2


def test_what_a_table_no_longer_reports_is_not_selected(store: Store) -> None:
    first = Run("real", "texas", "mlp", {"dropout": 0.0}, 0)
    second = Run("real", "texas", "mlp", {"dropout": 0.5}, 0)
    broken = Run("real", "texas", "mlp", {"dropout": 0.9}, 0)
    fake({0.0: 0.5, 0.5: 0.5}, {0.0: 0.5, 0.5: 0.5}, store)([first, second])
    store.append(failure(broken, "Traceback\nValueError: x"))
    _select(store, "standard/real", [[first, broken]])
    _select(store, "quick/real", [[first]])
    _select(store, "standard/real", [[second, broken]])
    by = {r["config"]["dropout"]: r.get("reported_by", []) for r in store.records}
    assert by == {0.0: ["quick/real"], 0.5: ["standard/real"], 0.9: []}
    assert [r["selected"] for r in store.records] == [True, True, False]


def test_an_experiment_that_is_stopped_leaves_the_columns_it_finished(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definition, "find_preset", lambda *_: {"dropout": 0.0})
    whole = fake({0.0: 0.5}, {0.0: 0.5}, store)
    results: list[Result] = []

    def stopped(runs: Any) -> None:
        if any("h0.90" in one.dataset for one in runs):
            raise KeyboardInterrupt
        whole(runs)

    experiment = two_columns("mlp", synthetic="syn-products")
    with pytest.raises(KeyboardInterrupt):
        trained(experiment, TINY, store, stopped, results.append)
    cells = results[-1].tables[0].rows[0].cells
    assert [cell.verdict for cell in cells] == ["none", "not run"]
    # What is there can be summed up without running anything.
    nothing = trained(experiment, TINY, store, lambda _: None)
    assert nothing.tables[0].rows[0].cells[0].n == 2


def test_runs_on_other_graphs_of_the_same_name_are_not_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        stop_after(99, patch)  # all of them, in this process
        assert run("degree", "--out", tmp_path, "--jobs", 1, "--quiet") == 0
    kept = read_records(tmp_path / "runs.jsonl")
    first = next(one for one in kept if one["dataset"].endswith("-r1"))
    with Store(tmp_path / "runs.jsonl") as store:
        for record in kept:
            if record["dataset"] == first["dataset"]:
                store.append(record | {"checksum": "f" * 16})
    assert run("degree", "--out", tmp_path, "--quiet") == 2
    told = capsys.readouterr().err
    assert (
        f"the runs on {first['dataset']} are of a graph with the checksum ffff" in told
    )
    assert f"the one at hand has {first['checksum']}; another --out" in told
    with Store(tmp_path / "runs.jsonl") as store:
        store.append(first)
    assert run("degree", "--out", tmp_path, "--quiet") == 2
    told = capsys.readouterr().err
    assert f"the runs on {first['dataset']} are of two graphs" in told


def test_runs_on_another_graph_are_found_while_they_come_in(store: Store) -> None:
    whole = fake({0.0: 0.5}, {0.0: 0.5}, store)
    one = Run("degree", "syn-products-200/h0.20-r2", "h2gcn-1", {"dropout": 0.0}, 0)
    two = Run("degree", "syn-products-200/h0.20-r2", "h2gcn-2", {"dropout": 0.0}, 0)
    whole([one, two])
    records = [store[run.key] | {"checksum": run.model} for run in (one, two)]
    with pytest.raises(
        InputError, match=r"h0\.20-r2 are of two graphs, with the check"
    ):
        graph_checksums(store, records)
    assert graph_checksums(store, records[:1]) == {one.dataset: "h2gcn-1"}


def test_without_its_grid_a_cell_is_not_run(store: Store) -> None:
    result = trained(
        two_columns("h2gcn-1", synthetic="syn-products"),
        replace(GRID, synthetic_nodes=200),
        store,
        lambda _: None,
    )
    verdicts = [cell.verdict for cell in result.tables[0].rows[0].cells]
    assert verdicts == ["not run"] * 2
    assert result.settings == ()


def test_missing_data_are_named_and_the_table_says_not_run(
    store: Store, tmp_path: Path
) -> None:
    result = reproduce("real", TINY, store, in_this_process(store))
    ranks = reproduce("ranks", TINY, store, in_this_process(store))
    assert result.not_run[0].startswith("texas: ")
    assert str(tmp_path / "no-data") in result.not_run[0]
    assert "wisconsin" in result.not_run[1]
    verdicts = {cell.verdict for cell in result.tables[0].cells}
    assert verdicts == {"not run"}
    assert ranks.tables[0].title.endswith("on no benchmark")


def test_statistics_of_what_can_be_generated_are_there_without_data(
    store: Store,
) -> None:
    result = reproduce("statistics", TINY, store, in_this_process(store))
    real, synthetic = result.tables
    assert {cell.verdict for cell in real.cells} == {"not run"}
    shown = {row.name: row.cells[0].mean for row in synthetic.rows}
    assert shown["syn-products-kinds-200/h0.10-r1"] == 200
    assert "syn-products-kinds-200/h0.10-r1" in result.cards


def test_without_the_authors_graphs_ours_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert on_available_graphs(EXPERIMENTS["syn-cora"], TINY).synthetic == (
        "syn-cora-own"
    )
    monkeypatch.setattr(runs, "open_graph", lambda _: None)
    there = on_available_graphs(EXPERIMENTS["syn-cora"], TINY)
    assert there.synthetic == "syn-cora"


def test_the_features_of_ogbn_products_are_taken_where_they_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    experiment = EXPERIMENTS["syn-products"]
    there = on_available_graphs(experiment, TINY)
    assert there.units("0.10", TINY)[0] == ("syn-products-kinds-200/h0.10-r1", 0)
    monkeypatch.setattr(runs, "has_products", lambda: True)
    there = on_available_graphs(experiment, TINY)
    assert there.units("0.10", TINY)[0] == ("syn-products-ogb-200/h0.10-r1", 0)


def test_one_protocol_does_not_take_the_place_of_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "degree").mkdir()
    result = {"experiment": "degree", "title": "t", "protocol": "standard"}
    (tmp_path / "degree" / "result.json").write_text(
        json.dumps(result | {"tables": [], "figures": []})
    )
    assert run("degree", "--out", tmp_path) == 2
    assert "holds results of the standard protocol" in capsys.readouterr().err
    assert not (tmp_path / "runs.jsonl").exists()


def test_a_store_of_something_else_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs.jsonl").write_text('{"format": 1, "key": "a"}\n')
    assert run("degree", "--out", tmp_path) == 2
    assert "runs.jsonl, record 'a': lacks experiment" in capsys.readouterr().err


def test_table_1_takes_the_settings_of_its_whole_benchmark() -> None:
    experiment = EXPERIMENTS["table-1"]
    assert experiment.chooser().columns == EXPERIMENTS["syn-cora"].columns
    assert experiment.chooser().models == experiment.models


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sin-cora"], "there is no experiment 'sin-cora'. Did you mean 'syn-cora'"),
        (["degree", "--protocol", "quik"], "--protocol must be one of 'paper'"),
        (["degree", "--jobs", "0"], "Invalid value for '--jobs'"),
        (["degree", "--jobs", "1", "--ray", "auto"], "--jobs and --ray: one or the"),
        (
            ["real", "--only", "texs"],
            "--only texs: no such benchmark in the protocol",
        ),
        (
            ["real", "--only", "texs"],
            "standard. Did you mean 'texas' or 'citeseer'? Be",
        ),
        (["degree", "--only", "texas"], "--only names real benchmarks; degree has"),
        (["degree", "--out", "a-file"], "a-file: cannot make this folder"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a-file").touch()
    assert main(["reproduce", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a-file"]


def test_a_store_of_another_version_is_refused_and_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "runs.jsonl"
    file.write_text('{"format": 99, "key": "a"}\n')
    assert run("degree", "--out", tmp_path) == 2
    assert "format 99" in capsys.readouterr().err
    assert file.read_text() == '{"format": 99, "key": "a"}\n'


def test_every_experiment_has_a_line_in_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reproduce.md").read_text("utf-8")
    for name in (*definition.ORDER, "all"):
        assert f"| `{name}` |" in page
    for name in ("paper", "standard", "quick"):
        assert f"| `{name}` |" in page


# ------------------------------------------------------------------------- interrupted


def stop_after(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Ctrl-C come after so many runs, which are done here."""

    def some(runs: Any, store: Store, **_: object) -> Outcome:
        missing = [one for one in runs if one.key not in store]
        for one in missing[:n]:
            store.append(execute_one(one))
        if len(missing) > n:
            raise KeyboardInterrupt
        return Outcome(len(runs), 0, len(missing), (), 0.0)

    monkeypatch.setattr("h2gcn.experiments.run_plan", some)


def test_ctrl_c_leaves_the_tables_of_what_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("degree", "--out", tmp_path, "--jobs", 1)
    with monkeypatch.context() as patch:
        stop_after(3, patch)
        assert run(*command) == 130
    said = capsys.readouterr()
    assert (
        "h2gcn: interrupted; 3 runs are kept, and the same command goes on" in said.err
    )
    assert said.err.count("interrupted") == 1
    assert "interrupted: the tables are of the runs that are done\n" in said.out
    assert f"everything on one page: {tmp_path / 'report.html'}" in said.out
    result = json.loads((tmp_path / "degree" / "result.json").read_text("utf-8"))
    assert result["interrupted"] is True
    assert result["notes"][-1] == "Interrupted: what was not run by then is missing."
    assert (tmp_path / "report.html").is_file()
    assert run(*command, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["interrupted"], shown["folder"]) == (False, str(tmp_path))
    assert [one["name"] for one in shown["experiments"]] == ["degree"]
    assert shown["runs"] == {"new": 5, "failed": 0}
    result = json.loads((tmp_path / "degree" / "result.json").read_text("utf-8"))
    assert "interrupted" not in result
    assert "Interrupted" not in " ".join(result["notes"])


def test_an_interrupted_reproduction_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stop_after(3, monkeypatch)
    assert run("degree", "--out", tmp_path, "--jobs", 1, "--json") == 130
    shown = json.loads(capsys.readouterr().out)
    assert shown["interrupted"] is True
    assert shown["runs"] == {"new": 3, "failed": 0}


def test_ctrl_c_before_a_run_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stop_after(0, monkeypatch)
    assert run("degree", "--out", tmp_path, "--jobs", 1) == 130
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "h2gcn: interrupted\n")
    assert not (tmp_path / "report.html").exists()


PROGRAM = """
import sys
from dataclasses import replace
from h2gcn.cli import main
from h2gcn.experiments.definition import PROTOCOLS
from test_driver import TINY

if __name__ == "__main__":
    PROTOCOLS["tiny"] = replace(TINY, epochs=10**7)
    sys.exit(main(["reproduce", "degree", "--protocol", "tiny", "--jobs", "2"]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGTERM there")
def test_sigterm_ends_the_workers_too(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    program = subprocess.Popen(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + PATIENCE
        workers: list[psutil.Process] = []
        while len(workers) < 3 and time.monotonic() < deadline:
            workers = psutil.Process(program.pid).children()  # with Python's tracker
            time.sleep(0.1)
        program.terminate()
        said, complaints = program.communicate(timeout=PATIENCE)
    finally:
        program.kill()
    assert len(workers) >= 2
    assert program.returncode == 143, complaints
    assert said == ""
    assert complaints.endswith("h2gcn: interrupted\n")
    assert not psutil.wait_procs(workers, timeout=PATIENCE)[1]
