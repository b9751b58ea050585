"""`h2gcn reproduce` from nothing to the report, on graphs of 200 nodes."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from h2gcn.cli import main
from h2gcn.experiments import definitions, protocols, reproduce
from h2gcn.experiments.definitions import EXPERIMENTS, Experiment
from h2gcn.experiments.execute import execute as execute_one
from h2gcn.experiments.protocols import PROTOCOLS, Protocol
from h2gcn.experiments.store import Store, read_records

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
    assert "Gaussian features" in " ".join(result["notes"])
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


def in_this_process(store: Store) -> Any:
    """Return an `Execute` that counts and needs no workers."""

    def execute(runs: Any) -> None:
        for one in runs:
            if one.key not in store:
                store.append(execute_one(one))

    return execute


def test_a_run_that_fails_is_told_and_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        EXPERIMENTS,
        "syn-products",
        Experiment("syn-products", "t", ("mlp", "gcn"), ("0.10",), "syn-products"),
    )
    broken = {"mlp": {"learning_rate": -1.0}, "gcn": {"epochs": 2}}
    monkeypatch.setattr(
        protocols, "find_preset", lambda _, model: {"scaling": "none"} | broken[model]
    )
    with Store(tmp_path / "runs.jsonl") as store:
        result = reproduce.reproduce(
            "syn-products", TINY, store, in_this_process(store)
        )
    assert [failure["model"] for failure in result["failed"]] == ["mlp", "mlp"]
    assert "learning_rate" in result["failed"][0]["error"]
    cells = {row["name"]: row["cells"][0] for row in result["tables"][0]["rows"]}
    assert cells["mlp"]["verdict"] == "not run"
    assert cells["gcn"]["n"] == 2


def test_missing_data_are_named_and_the_table_says_not_run(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.jsonl") as store:
        result = reproduce.reproduce("real", TINY, store, in_this_process(store))
        ranks = reproduce.reproduce("ranks", TINY, store, in_this_process(store))
    assert result["not_run"][0].startswith("texas: ")
    assert str(tmp_path / "no-data") in result["not_run"][0]
    assert "wisconsin" in result["not_run"][1]
    verdicts = {
        c["verdict"] for row in result["tables"][0]["rows"] for c in row["cells"]
    }
    assert verdicts == {"not run"}
    assert ranks["tables"][0]["title"].endswith("on no benchmark")


def test_without_the_authors_graphs_ours_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    missing = reproduce._at_hand(EXPERIMENTS["syn-cora"], TINY)
    assert missing.synthetic == "syn-cora-own"
    assert "of our generator" in reproduce._notes(missing, TINY)[1]
    monkeypatch.setattr(reproduce, "open_graph", lambda _: None)
    there = reproduce._at_hand(EXPERIMENTS["syn-cora"], TINY)
    assert there.synthetic == "syn-cora"
    assert "the authors' own" in reproduce._notes(there, TINY)[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sin-cora"], "there is no experiment 'sin-cora'. Did you mean 'syn-cora'"),
        (["degree", "--protocol", "quik"], "--protocol must be paper, standard, quick"),
        (["degree", "--jobs", "0"], "Invalid value for '--jobs'"),
        (["degree", "--jobs", "1", "--ray", "auto"], "--jobs and --ray: one or the"),
        (["degree", "--out", "a-file"], "a-file: cannot be made a folder"),
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


def test_a_store_of_another_version_is_refused_and_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "runs.jsonl"
    file.write_text('{"format": 99, "key": "a"}\n')
    assert run("degree", "--out", tmp_path) == 2
    assert "format 99" in capsys.readouterr().err
    assert file.read_text() == '{"format": 99, "key": "a"}\n'


def test_every_experiment_has_a_line_in_the_documentation() -> None:
    page = (Path(__file__).parents[1] / "docs" / "reproduce.md").read_text("utf-8")
    for name in (*definitions.ORDER, "all"):
        assert f"| `{name}` |" in page
    for name in ("paper", "standard", "quick"):
        assert f"| `{name}` |" in page
