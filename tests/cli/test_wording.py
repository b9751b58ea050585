"""The library's parameters as the command line's flags."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from h2gcn import Graph, Split
from h2gcn.cli import app, main
from h2gcn.cli.console import Speech, flags_of, in_flags
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.io import write_npz

COMMANDS: Any = typer.main.get_command(app).commands  # type: ignore[attr-defined]
TRAIN = flags_of(COMMANDS["train"])


def speech(*arguments: str, command: str = "train") -> Speech:
    return Speech(lambda: COMMANDS[command], arguments)


@pytest.mark.parametrize(
    ("param", "value", "shown"),
    [
        ("ring_cap", 64, "--ring-cap 64"),
        ("fill_missing", True, "--fill-missing"),
        ("fill_missing", False, "fill_missing=False"),
        ("patience", None, "patience=None"),
        ("categorical", ["plan", "a b"], "--categorical 'plan,a b'"),
        ("feature_columns", ["a", "b"], "--feature-column a,b"),
        ("random_state", 3, "--seed 3"),
        ("heads", 4, "--option heads=4"),
        ("nosuch", 3, "nosuch=3"),
    ],
)
def test_a_parameter_with_a_value_becomes_a_flag(
    param: str, value: object, shown: str
) -> None:
    import h2gcn.models  # noqa: F401  # it knows the options of models

    assert speech().flag(param, value) == shown


def test_a_parameter_alone_becomes_a_flag() -> None:
    said = InputError("must be in [0, 1)", param="dropout", value=1.5)
    assert speech().render(said) == "--dropout must be in [0, 1), got 1.5"
    assert speech("heads=0").flag("heads") == "--option heads"
    assert speech().flag("nosuch") == "nosuch"
    assert speech(command="diagnose").flag("dropout") == "dropout"
    assert Speech().flag("dropout", 0.5) == "dropout=0.5"


def test_a_value_of_a_settings_file_is_told_with_the_file() -> None:
    said = InputError("must be in [0, inf)", param="l2", value=-1)
    one = speech("--settings", "best.json")
    one.settings = {"l2": "best.json"}
    assert one.render(said) == "best.json: l2 must be in [0, inf), got -1"
    for typed in (("--l2", "-1"), ("--l2=-1",)):
        one = speech(*typed)
        one.settings = {"l2": "best.json"}
        assert one.render(said) == "--l2 must be in [0, inf), got -1"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("use ring_cap=64.", "use --ring-cap 64."),
        ("add fill_missing=True, or mend it", "add --fill-missing, or mend it"),
        ("id_column=… names it", "--id-column … names it"),
        ("make it categorical=['plan']", "make it --categorical plan"),
        ("feature_columns=['a', 'b']", "--feature-column a,b"),
        ("edge_features=… takes it", "--edge-feature … takes it"),
        (
            "model='h2gcn-s1' and batch_size=256",
            "--model h2gcn-s1 and --batch-size 256",
        ),
    ],
)
def test_arguments_in_prose_become_flags(said: str, shown: str) -> None:
    assert in_flags(said, TRAIN) == shown
    assert speech().render(InputError(said)) == shown
    assert speech().render(H2GCNWarning("none", hint=said)) == f"none; {shown}"


@pytest.mark.parametrize(
    "said",
    [
        "column 'epochs' holds text",  # a user's own word
        "2 features are missing: 'model=a', 'split=b'",
        "patience=None trains to the end",
        "set nosuch=3",
        "h = 0.3, l2 == 5",
        "split=0/nodes.csv: there is no such file",
        r"C:\model=a\nodes.csv: there is no such file",
        "column 'ring_cap' must hold a finite number",
        "there is no column 'x'. Columns: 'id', 'ring_cap', 'split_column' and 'label'",
        "line 3 names node 'time_column' (column 'target'), which is not there",
        "the labels are 'a' and 'edge_weight'; 'id_column' is the class of one node",
        "line 3 names node 'a ring_cap=64 b' and 'a/b ring_cap=64 c'",
        "line 3 names node \"it's ring_cap=64 here\" and 'a \\' \" ring_cap=64 c'",
    ],
)
def test_what_is_no_argument_stays(said: str) -> None:
    assert speech().render(InputError(said)) == said


def test_what_was_typed_stays() -> None:
    said = "seed=1 nodes.csv: use ring_cap=64, not 'id_column'"
    typed = ("--nodes", "seed=1 nodes.csv", "--id-column=id_column")
    shown = "seed=1 nodes.csv: use --ring-cap 64, not 'id_column'"
    assert speech(*typed).render(InputError(said)) == shown
    for source in ("hive/epochs=3", "./epochs=3", "epochs=3.npz"):
        assert speech(source).render(InputError("epochs=3: all alike")) == (
            "epochs=3: all alike"
        )


def test_values_and_places_stay() -> None:
    value = InputError("must be a file", param="nodes", value="split=0.csv")
    assert speech().render(value) == "--nodes must be a file, got 'split=0.csv'"
    place = InputError("is empty; ring_cap=8", where="seed=3.csv")
    assert speech().render(place) == "seed=3.csv: is empty; ring_cap=8"


@pytest.mark.parametrize("name", ["split=0", "seed=1 a", "ring_cap=8"])
def test_paths_are_told_as_they_were_typed(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = tmp_path / name / "nodes.csv"
    assert main(["train", "--nodes", str(nodes), "--edges", str(nodes)]) == 2
    assert f"error: {nodes}: there is no such file" in capsys.readouterr().err
    assert main(["train", str(tmp_path / f"{name}.npz")]) == 2
    assert str(tmp_path / f"{name}.npz") in capsys.readouterr().err


def test_only_flags_of_the_command_that_runs_are_named() -> None:
    assert in_flags("use ring_cap=64", flags_of(COMMANDS["diagnose"])) == (
        "use ring_cap=64"
    )
    assert flags_of(None) == {}


@pytest.mark.parametrize(
    ("arguments", "code", "param", "where"),
    [
        (["--dropout", "1.5", "SOURCE"], 2, "dropout", None),
        (["--settings", "SETTINGS", "SOURCE"], 2, "l2", "SETTINGS"),
        (["--seed", "no", "SOURCE"], 2, "seed", None),
        (["--nosuch"], 2, None, None),
        (["--epochs", "2", "--epochs", "3", "SOURCE"], 2, "epochs", None),
        (["--split", "7", "SOURCE"], 2, "split", None),
        (["--option", "a=1", "--option", "a=2", "SOURCE"], 2, "option", None),
        (["--settings", "TWICE", "SOURCE"], 2, None, "TWICE"),
        (["nosuch.npz"], 2, None, "nosuch.npz"),
    ],
    ids=str,
)
def test_a_failure_is_one_json_object_too(
    arguments: list[str],
    code: int,
    param: str | None,
    where: str | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = tmp_path / "s.json"
    settings.write_text(json.dumps({"model": "mlp", "l2": -1}))
    twice = tmp_path / "twice.json"
    twice.write_text('{"l2": 1, "l2": 2}')
    source = tmp_path / "graph.npz"
    assert main(["generate", "--out", str(source), "--nodes", "60", "--seed", "1"]) == 0
    capsys.readouterr()
    named = {"SOURCE": str(source), "SETTINGS": str(settings), "TWICE": str(twice)}
    typed = [named.get(word, word) for word in arguments]
    assert main(["train", "--model", "mlp", *typed, "--json"]) == code
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert out.count("\n") == 1
    assert found.keys() == {"error", "exit_code", "param", "where"}
    assert (found["exit_code"], found["param"]) == (code, param)
    assert found["where"] == named.get(where or "", where)
    assert f"h2gcn: error: {found['error']}\n" in err


GAPS = ({"n.csv": "id,a,y\n1,,x\n2,1,y\n"}, {"n.csv": "id,a,b,y\n1,,,x\n2,1,1,y\n"})


@pytest.mark.parametrize(
    ("line", "files", "where"),
    [
        ("diagnose --nodes n.csv --edges e.csv", GAPS[0], "n.csv"),
        ("diagnose --nodes n.csv --edges e.csv", GAPS[1], "n.csv"),
        ("diagnose --nodes n.csv --edges e.csv", {"e.csv": "from,to\n1,7\n"}, "e.csv"),
        ("diagnose --nodes n.csv --edges e.csv", {"e.csv": "from,to\n"}, "e.csv"),
        ("diagnose --nodes n.csv --edges e.csv", {"n.csv": "a,y\n1,x\n"}, "n.csv"),
        ("diagnose g.npz", {"g.npz": "no archive"}, "g.npz"),
        ("diagnose store", {"store/manifest.json": "{"}, "store/manifest.json"),
        ("predict nosuch g.npz", {}, "nosuch"),
        ("predict model g.npz", {"model/bundle.json": "["}, "model/bundle.json"),
        ("train g.npz --settings s.json", {"s.json": '{"l2": '}, "s.json"),
        ("report empty", {"empty/a.txt": ""}, "empty"),
    ],
)
def test_a_failure_names_the_file(
    line: str,
    files: dict[str, str],
    where: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    usual = {"n.csv": "id,a,y\n1,5,x\n2,1,y\n", "e.csv": "from,to\n1,2\n"}
    for name, content in (usual | files).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    assert main([*line.split(), "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert found["where"] == where
    assert found["error"].startswith(f"{where}: ")
    if files in GAPS:
        told = "; --fill-missing puts the median of the column there"
        assert found["error"].count(told) == GAPS.index(files) + 1
    if "7" in files.get("e.csv", ""):
        assert "; --drop-unknown leaves such edges out" in found["error"]


@pytest.mark.parametrize(
    "arguments", [["trian", "--json"], ["--json", "train"], ["serve", "m", "--json"]]
)
def test_a_command_without_the_flag_prints_json_too(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    found = json.loads(capsys.readouterr().out)
    assert (found["exit_code"], found["where"]) == (2, None)


def test_an_internal_error_asks_for_a_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr("h2gcn.cli.options.load_source", fail)
    assert main(["diagnose", "texas", "--json"]) == 70
    out, err = capsys.readouterr()
    line = (
        "internal error: KeyError: 'x'. This is a bug; rerun with H2GCN_DEBUG=1 and "
        "report the traceback."
    )
    assert err == f"h2gcn: error: {line}\n"
    content = {"error": line, "exit_code": 70, "param": None, "where": None}
    assert json.loads(out) == content


SINGLE = [
    (name, option)
    for name, command in COMMANDS.items()
    for option in command.params
    if option.param_type_name == "option"
    and not (option.multiple or option.is_flag or option.count)
]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_no_option_with_a_value_is_given_twice(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert SINGLE
    options = [option for command, option in SINGLE if command == name]
    for option in options:
        for flag in option.opts:
            assert main([name, flag, "1", option.opts[0], "1"]) == 2
            told = f"error: {option.opts[0]} was given twice\n"
            assert capsys.readouterr().err.endswith(told), flag


def test_lists_and_flags_may_be_given_twice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    twice = ["--categorical", "a", "--categorical", "b", "--undirected", "--undirected"]
    assert main(["diagnose", "nosuch", *twice]) == 2
    assert "is neither a dataset nor a file" in capsys.readouterr().err


def test_what_to_do_about_a_file_is_told_in_flags() -> None:
    hint = "fill_missing=True puts the median of the column there"
    said = InputError("'id_column' holds nothing", where="nodes.csv", hint=hint)
    told = "nodes.csv: 'id_column' holds nothing; --fill-missing puts the median of"
    assert speech().render(said).startswith(told)
    assert said.hint == hint


@pytest.mark.parametrize(
    ("n_splits", "rule"),
    [
        (0, "must be 0: g has no split, so the seed draws one"),
        (1, "must be 0, the only split of g"),
        (3, "must be 0 to 2, the splits of g"),
    ],
)
def test_a_split_that_is_not_there(
    n_splits: int,
    rule: str,
    small_graph: Graph,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    splits = [Split([0, 1, 2, 3, 4, 5], [6], [7])] * n_splits
    write_npz(replace(small_graph, name="g", splits=splits), tmp_path / "g.npz")
    assert main(["train", str(tmp_path / "g.npz"), "--split", "3"]) == 2
    assert f"error: --split {rule}, got 3\n" in capsys.readouterr().err
