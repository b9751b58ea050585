"""Commands and code of README and docs run as they stand; paths lead somewhere."""

import csv
import json
import re
import shlex
import sqlite3
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

import h2gcn.estimator.automatic
from h2gcn.auto import find_portfolio
from h2gcn.cli import main
from h2gcn.datasets import GaussianFeatures, generate_graph
from h2gcn.io import read_graph, write_tables
from h2gcn.training import NodeModule
from support.process import served

README = Path(__file__).parents[1] / "README.md"
SPLITS = README.parent / "docs" / "splits.md"
TABLES = README.parent / "docs" / "tables.md"
GUIDE = README.parent / "docs" / "guide.md"
CLUSTER = README.parent / "docs" / "cluster.md"
PAGES = (README, *sorted((README.parent / "docs").glob("*.md")))
CONTRIBUTING = README.with_name("CONTRIBUTING.md")
TEXT = "".join(page.read_text("utf-8") for page in PAGES)
LINKS = [
    (page.relative_to(README.parent).as_posix(), target)
    for page in PAGES
    for target in re.findall(r'(?:\]\(|src=")([^)#:" ]+)[)#"]', page.read_text("utf-8"))
]
BLOCKS = dict(re.findall(r"<!-- test: ([\w ]+) -->\n```\w+\n(.*?)```", TEXT, re.S))


NAMES = {"0": "honest", "1": "fraud"}
"""What the labels of the tables are called where the text names them."""
QUICK = {"train": ["--model", "mlp", "--epochs", "5"], "predict": [], "diagnose": []}
"""What has a command of the page on tables take no time."""


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder with the tables that the README speaks of."""
    graph = generate_graph(n_nodes=120, n_classes=2, features=GaussianFeatures(3, 3.0))
    folder = tmp_path / "my-graph"
    write_tables(graph, folder)
    lines = (folder / "nodes.csv").read_text().splitlines()
    rows = [line.split(",") for line in lines[1:]]
    plans = ("basic", "gold")
    nodes = ["id,label,age,income,score,plan"] + [
        ",".join([f"n{r[0]}", "" if i % 4 == 0 else r[1], *r[2:], plans[i % 2]])
        for i, r in enumerate(rows)
    ]
    edges = (folder / "edges.csv").read_text()
    edges = re.sub(r"(?m)^(\d+),(\d+)$", r"n\1,n\2", edges)
    for place in (tmp_path, folder):
        (place / "nodes.csv").write_text("\n".join(nodes))
        (place / "edges.csv").write_text(edges)
    monkeypatch.chdir(tmp_path)
    # A few quick members stand for all of them.
    monkeypatch.setattr(
        h2gcn.estimator.automatic,
        "find_portfolio",
        lambda graph, scaling: find_portfolio(graph, scaling)[:4],
    )
    return tmp_path


def test_own_data_in_three_steps(workplace: Path) -> None:
    for line in BLOCKS["own data"].splitlines():
        command = shlex.split(line)
        assert command[0] == "h2gcn"
        assert main(command[1:]) == 0, line
    assert (workplace / "graph.html").stat().st_size > 1000
    predictions = (workplace / "predictions.csv").read_text().splitlines()
    graph = read_graph("my-graph")
    assert len(predictions) - 1 == graph.n_nodes - graph.labelled.size == 30


@pytest.mark.slow
def test_after_the_first_prediction(workplace: Path) -> None:
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    for name in ("nodes", "edges"):
        file = workplace / f"{name}.csv"
        file.write_text(re.sub(r"\bn8\b", "cleo", file.read_text()))
    write_new_nodes(workplace)
    train = BLOCKS["own data"].splitlines()[1].split()[1:]
    assert main([*train, *QUICK["train"], "-q"]) == 0
    *lines, last = BLOCKS["after"].splitlines()
    for line in lines:
        assert main(shlex.split(line, comments=True)[1:]) == 0, line
    _, command, *arguments = shlex.split(last, comments=True)
    assert command == "serve"
    with served(*arguments) as (_, address), urlopen(f"{address}/nodes/cleo") as found:
        assert json.load(found)["id"] == "cleo"


def test_large_graphs(workplace: Path) -> None:
    graph = generate_graph(n_nodes=300, n_classes=2, features=GaussianFeatures(3, 3.0))
    write_tables(graph, workplace / "my-graph")
    for line in BLOCKS["large graphs"].splitlines():
        command = shlex.split(line, comments=True)
        assert main([*command[1:], "--epochs", "5"]) == 0, line
        model = workplace / command[command.index("--out") + 1]
        out = f"{model.name}.csv"
        assert main(["predict", str(model), "my-graph", "--all", "--out", out]) == 0
        assert len((workplace / out).read_text().splitlines()) == 301


def test_the_sample_tables_can_be_read(tmp_path: Path) -> None:
    block = README.read_text().split("nodes.csv                      edges.csv\n")[1]
    rows = [line.split() for line in block.split("…")[0].splitlines() if line]
    for name, lines in zip(("nodes", "edges"), zip(*rows, strict=True), strict=True):
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    graph = read_graph(tmp_path)
    assert graph.node_ids.tolist() == ["ann", "bob", "cleo", "dan"]
    assert graph.y.tolist() == [1, 0, -1, 1]
    assert graph.n_edges == 4


def test_decisions_on_the_command_line(workplace: Path) -> None:
    nodes = (workplace / "nodes.csv").read_text()
    (workplace / "nodes.csv").write_text(
        re.sub(r"(?m)^(n\d+),([01])", lambda m: f"{m[1]},{NAMES[m[2]]}", nodes)
    )
    (workplace / "costs.csv").write_text(BLOCKS["costs"])
    for line in BLOCKS["decisions"].splitlines():
        command = shlex.split(line, comments=True)
        assert main(command[1:]) == 0, line
        if command[1] == "predict":
            out = workplace / command[command.index("--out") + 1]
            assert len(out.read_text().splitlines()) == 31, line


def test_auto_on_the_command_line(workplace: Path) -> None:
    for line in BLOCKS["auto command"].splitlines():
        command = shlex.split(line, comments=True)
        assert main(command[1:]) == 0, line
    assert "<svg" in (workplace / "leaderboard.html").read_text("utf-8")
    assert len((workplace / "predictions.csv").read_text().splitlines()) == 31


def test_reasons_on_the_command_line(workplace: Path) -> None:
    for line in BLOCKS["explain command"].splitlines():
        command = shlex.split(line, comments=True)
        assert main(command[1:]) == 0, line
    assert "Why node n7 of my-graph" in (workplace / "why.html").read_text("utf-8")


def test_evaluation_on_the_command_line(workplace: Path) -> None:
    for line in BLOCKS["evaluate command"].splitlines():
        assert main(shlex.split(line)[1:]) == 0, line
    assert "By class" in (workplace / "scores.html").read_text("utf-8")


def test_tables_on_the_command_line(workplace: Path) -> None:
    with sqlite3.connect(workplace / "shop.db") as connection:
        for name, table in (("customers", "nodes"), ("payments", "edges")):
            lines = (workplace / f"{table}.csv").read_text().splitlines()
            header, *rows = csv.reader(lines)
            marks = ", ".join("?" * len(header))
            typed = (f"{column} NUMERIC" for column in header)
            connection.execute(f"CREATE TABLE {name} ({', '.join(typed)})")
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
    connection.close()
    for name in ("separators", "query"):
        for line in BLOCKS[name].replace("\\\n", " ").splitlines():
            command = shlex.split(line, comments=True)
            assert main([*command[1:], *QUICK[command[1]]]) == 0, line
    assert len((workplace / "predictions.csv").read_text().splitlines()) == 31
    kept = b"".join(file.read_bytes() for file in (workplace / "model").iterdir())
    assert b"income" in kept
    for word in (b"SELECT", b"customers", b"sqlite:"):
        assert word not in kept


def test_the_store_on_the_command_line(workplace: Path) -> None:
    for line in BLOCKS["store"].splitlines():
        arguments = shlex.split(line)[1:]
        assert main([*arguments, *QUICK.get(arguments[0], [])]) == 0
    assert (workplace / "predictions.csv").is_file()


def test_frames(workplace: Path) -> None:
    pandas = pytest.importorskip("pandas", "2.2")
    people = pandas.read_csv(workplace / "nodes.csv")
    payments = pandas.read_csv(workplace / "edges.csv")
    names = {"people": people, "payments": payments}
    exec(compile(BLOCKS["frames"], str(TABLES), "exec"), names)
    assert names["predictions"].columns[0] == "id"
    exec(compile(BLOCKS["index"], str(TABLES), "exec"), names)
    assert names["graph"].node_ids.tolist() == people["id"].tolist()


def write_new_nodes(folder: Path) -> None:
    """Write the tables that the page about new nodes speaks of."""
    nodes = "id,age,income,score,plan\nzoe,0.1,0.2,0.3,gold\nyan,1,2,3,basic\n"
    (folder / "new.csv").write_text(nodes)
    (folder / "links.csv").write_text("source,target\nzoe,n3\nyan,zoe\n")


def test_new_nodes_on_the_command_line(workplace: Path) -> None:
    write_new_nodes(workplace)
    for line in BLOCKS["new nodes command"].splitlines():
        assert main(shlex.split(line)[1:]) == 0, line
    rows = (workplace / "answers.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["id", "zoe", "yan"]


@pytest.mark.parametrize(
    "name",
    [
        *("python", "arrays", "probabilities", "rules", "auto", "evaluate", "explain"),
        *("new nodes", "application", "words"),
    ],
)
def test_python_blocks(name: str, workplace: Path) -> None:
    write_new_nodes(workplace)
    if name == "application":
        pytest.importorskip("fastapi")
        train = ["train", "my-graph", "--out", "my-model", *QUICK["train"], "-q"]
        assert main(train) == 0
    exec(compile(BLOCKS[name], str(README), "exec"), {})


@pytest.fixture
def payments(workplace: Path) -> Path:
    """Return a place with the tables that the page on splits speaks of."""
    folder = workplace / "payments"
    folder.mkdir()
    for name, more in (
        ("nodes", ("joined", "part", "household")),
        ("edges", ("paid",)),
    ):
        head, *rows = (workplace / f"{name}.csv").read_text().splitlines()
        lines = [",".join([head, *more])]
        for i, row in enumerate(rows):
            day = f"2024-{1 + i % 12:02}-{1 + i % 28:02}"
            cells = (day, ("train", "val", "test")[i % 3], f"h{i // 3}")[: len(more)]
            lines.append(",".join([row, *cells]))
        (folder / f"{name}.csv").write_text("\n".join(lines))
    return workplace


@pytest.mark.usefixtures("payments")
@pytest.mark.parametrize("name", ["split column", "time", "groups"])
def test_splits_on_the_command_line(name: str) -> None:
    for line in BLOCKS[name].splitlines():
        command = shlex.split(line, comments=True)
        assert main(command[1:]) == 0, line


@pytest.mark.usefixtures("payments")
def test_a_graph_as_it_was() -> None:
    exec(compile(BLOCKS["until"], str(SPLITS), "exec"), {})


def run_guide(name: str) -> None:
    for line in BLOCKS[f"guide {name}"].splitlines():
        assert main(shlex.split(line)[1:]) == 0, line


def read_labels(file: str) -> dict[str, str]:
    with Path(file).open(newline="") as lines:
        return {row["id"]: row["label"] for row in csv.DictReader(lines)}


@pytest.mark.slow
@pytest.mark.usefixtures("workplace")
def test_the_guide_from_its_tables_to_a_server(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("pandas", "2.2")
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    exec(compile(BLOCKS["guide data"], str(GUIDE), "exec"), {})
    nodes = Path("payments/nodes.csv").read_text().splitlines()
    edges = Path("payments/edges.csv").read_text().splitlines()
    assert (len(nodes), len(edges)) == (401, 1501)
    assert nodes[1] in GUIDE.read_text("utf-8")
    assert edges[1] in GUIDE.read_text("utf-8")
    labels = list(read_labels("payments/nodes.csv").values())
    assert [labels.count(x) for x in ("fraud", "honest", "")] == [33, 277, 90]

    run_guide("diagnose")
    assert "Edges carry 3 columns" in capsys.readouterr().out
    run_guide("train")
    assert "Which models answer for payments" in Path("leaderboard.html").read_text()
    run_guide("evaluate")
    assert "always honest" in Path("scores.html").read_text("utf-8")
    run_guide("predict")
    assert len(read_labels("predictions.csv")) == 90
    assert list(read_labels("to-look-at.csv").values()).count("fraud") == 20
    run_guide("explain")
    assert "Why node a337 of payments" in Path("why.html").read_text("utf-8")

    Path("new.csv").write_text(BLOCKS["guide new nodes"])
    Path("links.csv").write_text(BLOCKS["guide new edges"])
    run_guide("new")
    assert list(read_labels("answers.csv")) == ["x1", "x2"]
    capsys.readouterr()
    run_guide("time")
    assert "83 nodes and 554 edges came later" in capsys.readouterr().out

    names: dict[str, Any] = {}
    exec(compile(BLOCKS["guide pandas"], str(GUIDE), "exec"), names)
    predicted = read_labels("predictions.csv")
    frame = names["frame"]
    assert dict(zip(frame["id"], frame["label"], strict=True)) == predicted

    serve, *requests = BLOCKS["guide serve"].splitlines()
    _, command, model, source = shlex.split(serve)
    assert command == "serve"
    with served(model, source) as (_, address):
        known, new = (ask_as_curl(line, address) for line in requests)
    told = {row["id"]: row["label"] for row in known}
    assert told == {name: predicted[name] for name in ("a337", "a8")}
    assert [row["id"] for row in new] == ["x1"]


@pytest.mark.slow
@pytest.mark.usefixtures("three_workers")
def test_many_workers(workplace: Path) -> None:
    names: dict[str, Any] = {}
    block = BLOCKS["cluster"].replace('"local:2"', '"auto"')  # the one that runs
    assert block != BLOCKS["cluster"]
    exec(compile(block, str(CLUSTER), "exec"), names)
    assert names["found"].rows == names["graph"].n_nodes
    assert (workplace / "predictions" / "_manifest.json").exists()


def ask_as_curl(line: str, address: str) -> list[dict[str, Any]]:
    """Send what a line with curl would, elsewhere; return what is predicted."""
    words = shlex.split(line)
    path = next(word for word in words if word.startswith("localhost:8000"))
    name, _, value = words[words.index("-H") + 1].partition(": ")
    body = words[words.index("-d") + 1].encode()
    url = address + path.removeprefix("localhost:8000")
    with urlopen(Request(url, body, {name: value}), timeout=300) as found:
        predictions: list[dict[str, Any]] = json.load(found)["predictions"]
    return predictions


def test_every_python_block_is_tested() -> None:
    tested = re.findall(r"<!-- test: [\w ]+ -->\n```python", TEXT)
    assert len(tested) == TEXT.count("```python") >= 7


@pytest.mark.parametrize(("page", "target"), LINKS)
def test_links_lead_somewhere(page: str, target: str) -> None:
    assert ((README.parent / page).parent / target).exists()


def test_links_are_found() -> None:
    assert ("docs/guide.md", "figures/guide-phone.png") in LINKS
    assert {page for page, _ in LINKS} >= {"README.md", "docs/words.md"}


@pytest.mark.parametrize(
    "path", re.findall(r"`([\w.-]+/[\w./-]*)", CONTRIBUTING.read_text())
)
def test_contributors_are_sent_to_files_that_exist(path: str) -> None:
    root = README.parent
    assert (root / path).exists() or (root / "src" / "h2gcn" / path).exists()


def test_the_contributor_guide_names_every_hook_of_a_model() -> None:
    text = CONTRIBUTING.read_text()
    hooks = [name for name in vars(NodeModule) if not name.startswith("_")]
    assert {"fit", "receptive_field", "inputs", "decompose"} <= set(hooks)
    assert all(f"`{name}" in text for name in hooks)
