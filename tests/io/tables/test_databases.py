"""Queries as tables: real databases, what they refuse, and what is never shown."""

import json
import sqlite3
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from h2gcn import Graph
from h2gcn.exceptions import InputError
from h2gcn.io import TableOptions, is_database, read_graph
from h2gcn.io.tables import sources as room
from h2gcn.sparse import limit_memory
from support.commands import Run
from support.postgres import PASSWORD, Server, find_programs, serving_postgres

PEOPLE = """
CREATE TABLE people (id TEXT, label TEXT, age REAL, plan TEXT, code INTEGER);
INSERT INTO people VALUES ('007', 'cat', 1.5, 'gold', 1);
INSERT INTO people VALUES ('b', NULL, 2, NULL, 2);
INSERT INTO people VALUES ('c', 'dog', 3, 'basic', 3);
CREATE TABLE payments (source TEXT, target TEXT, amount REAL);
INSERT INTO payments VALUES ('007', 'b', 10);
INSERT INTO payments VALUES ('b', 'c', 20);
"""
NODES = "SELECT id, label, age, plan FROM people ORDER BY age"
EDGES = "SELECT * FROM payments ORDER BY amount"


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    """Return a SQLite file as an address."""
    file = tmp_path / "a shop.db"
    with sqlite3.connect(file) as connection:
        connection.executescript(PEOPLE)
    connection.close()
    return f"sqlite:{file}"


@pytest.fixture
def duckdb(tmp_path: Path) -> str:
    """Return a DuckDB file as an address."""
    library = pytest.importorskip("duckdb")
    file = tmp_path / "shop.duckdb"
    with library.connect(str(file)) as connection:
        connection.execute(PEOPLE)
    return f"duckdb:{file}"


with_a_server = (pytest.mark.slow, pytest.mark.xdist_group("postgresql"))


@pytest.fixture(scope="module")
def postgresql_server() -> Iterator[Server]:
    """Return a server with the same tables, and a function that writes."""
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
    programs = find_programs()
    if programs is None:
        pytest.skip("left out: PostgreSQL is not installed")
    with (
        pytest.MonkeyPatch.context() as patch,
        serving_postgres(programs) as found,
    ):
        patch.setenv("PGPASSWORD", PASSWORD)
        with dbapi.connect(found.address) as connection, connection.cursor() as cursor:
            for statement in (
                *PEOPLE.strip().split(";\n"),
                "CREATE FUNCTION add_one() RETURNS int LANGUAGE sql AS "
                "$$ INSERT INTO payments VALUES ('c', 'b', 1) RETURNING 1 $$",
            ):
                cursor.execute(statement.rstrip(";"))
            connection.commit()
        patch.undo()
        yield found


@pytest.fixture
def postgresql(postgresql_server: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the address of the server, whose password is in the environment."""
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    return postgresql_server.address


@pytest.fixture(
    params=["sqlite", "duckdb", pytest.param("postgresql", marks=with_a_server)]
)
def address(request: pytest.FixtureRequest) -> str:
    """Each database in turn."""
    found: str = request.getfixturevalue(request.param)
    return found


def read(address: str, nodes: str = NODES, edges: str = EDGES, **options: Any) -> Graph:
    return read_graph(
        nodes=f"{address}?{nodes}",
        edges=f"{address}?{edges}",
        options=TableOptions(**options),
    )


def refusal(address: str, nodes: str = NODES, edges: str = EDGES) -> str:
    with pytest.raises(InputError) as caught:
        read(address, nodes, edges)
    message = str(caught.value)
    assert "\n" not in message
    return message


def count(address: str) -> int:
    """Return how many payments there are, by a query of its own."""
    graph = read(address, edges="SELECT source, target, amount FROM payments")
    assert graph.record.edges_read is not None
    return graph.record.edges_read


def test_a_query_is_read_as_a_file_is(address: str) -> None:
    graph = read(address, categorical=("plan",))
    assert graph.node_ids.tolist() == ["007", "b", "c"]
    assert graph.classes.tolist() == ["cat", "dog"]
    assert graph.y.tolist() == [0, -1, 1]
    assert graph.feature_names == (
        *("age", "plan=(missing)", "plan=basic"),
        "plan=gold",
    )
    assert graph.x.tolist() == [[1.5, 0, 0, 1], [2, 1, 0, 0], [3, 0, 1, 0]]
    assert graph.edge_columns is not None
    assert graph.edge_columns.values[:, 0].tolist() == [10, 20]
    assert graph.record.id_column == "id"
    assert graph.name in ("a shop", "shop", "postgres")
    # Nothing of where it came from goes into a saved model.
    kept = json.dumps([graph.record.tables, graph.record.notes])
    assert "SELECT" not in kept
    assert address not in kept


def test_numbers_dates_and_truth_have_their_types(address: str) -> None:
    day = "'2024-05-01'" if address.startswith("sqlite") else "DATE '2024-05-01'"
    nodes = (
        f"SELECT code AS id, 2 * code AS twice, CAST(1.5 AS numeric) AS price, "
        f"code > 1 AS later, {day} AS since FROM people"
    )
    edges = "SELECT 1 AS source, 2 AS target"
    graph = read(address, nodes, edges)
    assert graph.node_ids.tolist() == ["1", "2", "3"]
    assert graph.feature_names == ("twice", "price", "later")
    assert graph.x.tolist() == [[2, 1.5, 0], [4, 1.5, 1], [6, 1.5, 1]]
    assert "column 'since' holds" in " ".join(graph.record.notes)


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM payments",
        "INSERT INTO payments VALUES ('c', 'b', 1)",
        "DROP TABLE payments",
        "-- harmless\n /* SELECT */ UPDATE payments SET amount = 0",
        "WITH some AS (SELECT 1) INSERT INTO payments VALUES ('c', 'b', 1)",
        "SELECT * FROM payments; DELETE FROM payments",
        "SELECT 1 AS source, 2 AS target; SELECT 1 AS source, 2 AS target",
        "PRAGMA user_version = 7",
        "",
    ],
)
def test_a_query_that_is_not_one_select_is_refused(address: str, query: str) -> None:
    before = count(address)
    message = refusal(address, edges=query)
    assert message.startswith("the edges of ")
    kind = address.partition(":")[0]
    assert f"the edges of {kind}:" in message
    assert count(address) == before == 2
    if query.startswith(("DELETE", "PRAGMA")):
        assert "the query must be one SELECT, which changes nothing, got " in message
    if not query:
        assert "a query is missing; write it as 'sqlite:shop.db?SELECT" in message


@pytest.mark.parametrize(
    "query",
    [
        "SELECT add_one() AS source, 1 AS target",
        "WITH new AS (INSERT INTO payments VALUES ('c', 'b', 1) RETURNING source, "
        "target) SELECT * FROM new",
        "SELECT set_config('transaction_read_only', 'off', true), add_one()",
        "SELECT 1) TO STDOUT; DELETE FROM payments; COPY (SELECT 1",
        "SELECT 1; COMMIT; DELETE FROM payments",
    ],
)
def test_a_server_is_asked_in_a_transaction_that_reads(
    postgresql: str, query: str
) -> None:
    message = refusal(postgresql, edges=query)
    assert "the database says: " in message
    assert "DELETE" not in message
    assert count(postgresql) == 2


@pytest.mark.parametrize(
    "query", ["ATTACH '{}' AS other", "SELECT 1, 2; ATTACH '{}' AS other"]
)
def test_no_file_is_made(sqlite: str, duckdb: str, tmp_path: Path, query: str) -> None:
    for address in (sqlite, duckdb):
        there = sorted(tmp_path.iterdir())
        refusal(address, edges=query.format(tmp_path / "new.db"))
        assert sorted(tmp_path.iterdir()) == there
    there = sorted(tmp_path.iterdir())
    message = refusal(duckdb, edges=f"COPY people TO '{tmp_path / 'x.csv'}'")
    assert "must be one SELECT, which changes nothing, got COPY" in message
    assert sorted(tmp_path.iterdir()) == there


def test_tables_and_columns_that_are_not_there(address: str) -> None:
    message = refusal(address, nodes="SELECT * FROM poeple")
    kind, _, rest = address.partition(":")
    shown = rest.replace("owner@", "")
    assert message.startswith(f"the nodes of {kind}:{shown}: the database says: ")
    assert "poeple" in message
    assert "SELECT" not in message
    message = refusal(address, nodes="SELECT id AS key, age FROM people")
    assert "no column of node ids (id, node, node_id) was found" in message


def test_results_without_rows(address: str) -> None:
    message = refusal(
        address,
        nodes=f"SELECT * FROM ({NODES}) AS t WHERE age > 99",
        edges=f"SELECT * FROM ({EDGES}) AS t WHERE amount > 99",
    )
    assert ": the table has no rows, so no nodes; the edges of" in message
    assert message.endswith(": the table has no edges.")


def test_mistakes_name_the_query_and_the_row(address: str) -> None:
    message = refusal(
        address, edges="SELECT source, 'zoe' AS target FROM payments ORDER BY amount"
    )
    assert ": row 1 names node 'zoe' (column 'target'), which is not in the nodes" in (
        message
    )


def test_memory_is_not_exceeded(address: str) -> None:
    many = "SELECT a.id FROM people a" + "".join(
        f", people {name}" for name in "bcdefghijkl"
    )
    with limit_memory(0.0005):
        message = refusal(address, nodes=many)
    assert ": its first " in message
    assert "rows would take about" in message


def test_comments_brackets_and_question_marks(address: str) -> None:
    nodes = "SELECT id, age FROM people WHERE id <> 'x?SELECT' -- why?"
    if not address.startswith("sqlite"):
        nodes = f"/* all? */ ({nodes}\n) ORDER BY age -- so"
    graph = read(address, nodes, f"  {EDGES} ;  ")
    assert graph.n_nodes == 3


# ----------------------------------------------------------------------- SQLite


def test_cells_of_sqlite_have_types_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "ROWS", 2)
    file = tmp_path / "mixed.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE n (id, mixed, number, late, none)")
        connection.executemany(
            "INSERT INTO n VALUES (?, ?, ?, ?, ?)",
            [
                (1, "x", 1, None, None),
                ("b", 2, 2.5, None, None),
                (3, 3.5, 3, 4, None),
                ("04", None, 4, 5.5, None),
                (5, 5, 9, 6, None),
            ],
        )
        connection.execute("CREATE TABLE e AS SELECT 1 AS source, 'b' AS target")
    connection.close()
    graph = read(
        f"sqlite:{file}",
        "SELECT * FROM n",
        "SELECT * FROM e",
        categorical=("mixed",),
        fill_missing=True,
    )
    assert graph.node_ids.tolist() == ["1", "b", "3", "04", "5"]
    assert graph.feature_names == (
        *("number", "late", "mixed=(missing)", "mixed=2", "mixed=3.5"),
        *("mixed=5", "mixed=x"),
    )
    assert graph.x[:, 0].tolist() == [1, 2.5, 3, 4, 9]
    assert graph.x[:, 1].tolist() == [5.5, 5.5, 4, 5.5, 6]
    assert "column 'none' holds nothing and is not used" in graph.record.notes


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_text_of_sqlite_does_not_depend_on_batches(
    tmp_path: Path, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "ROWS", rows)
    file = tmp_path / "floats.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE n (id, f)")
        cells = [1.0, 2.0, 3.0, "x", 5, 6.0, 7.5, None, 1e15, 2**53 + 1]
        ids = [cell or "y" for cell in cells]
        numbers = [2**53 + 1, 0.5, *range(8)]
        connection.executemany(
            "INSERT INTO n VALUES (?, ?)", zip(ids, numbers, strict=True)
        )
        connection.execute("CREATE TABLE e AS SELECT 3.0 AS source, 6.0 AS target")
    connection.close()
    graph = read(f"sqlite:{file}", "SELECT * FROM n", "SELECT * FROM e")
    whole = ["1000000000000000", "9007199254740993"]
    assert graph.node_ids.tolist() == [*"123x56", "7.5", "y", *whole]
    assert graph.x[:3, 0].tolist() == [2.0**53, 0.5, 0]
    assert graph.adj[[2]].indices.tolist() == [5]


def test_files_that_are_no_database(tmp_path: Path) -> None:
    gone, text = tmp_path / "gone.db", tmp_path / "text.db"
    message = refusal(f"sqlite:{gone}")
    assert message == (f"{gone}: there is no such file; {gone}: there is no such file.")
    assert not gone.exists()
    text.write_text("id,label\n" * 100)
    assert "the database says: file is not a database" in refusal(f"sqlite:{text}")
    pytest.importorskip("duckdb")
    assert f"the nodes of duckdb:{text}: the database says: " in refusal(
        f"duckdb:{text}"
    )
    assert "a file is missing; write it as 'sqlite:shop.db?SELECT" in refusal("sqlite:")


def test_a_missing_driver_names_the_extra(
    duckdb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("duckdb", "adbc_driver_postgresql"):
        monkeypatch.setitem(sys.modules, package, None)
    assert "duckdb is needed: pip install 'h2gcn[sql]'" in refusal(duckdb)
    message = refusal("postgresql://u@127.0.0.1/db")
    assert "adbc-driver-postgresql is needed: pip install 'h2gcn[sql]'" in message


# -------------------------------------------------------------------- passwords

SECRET = "hunter2"


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://me:{SECRET}@127.0.0.1/db",
        f"postgres://:{SECRET}@127.0.0.1:5432/db",
        f"POSTGRESQL://me:a/b@c{SECRET}@127.0.0.1/db",
        f"postgresql://me:?{SECRET}@127.0.0.1/db",
        f"postgresql://me@127.0.0.1/db?password={SECRET}",
        f"postgresql://me@127.0.0.1/db?sslmode=prefer&pass%77ord={SECRET}",
        f"postgresql://me:{SECRET}#127.0.0.1/db",
        f"postgresql://127.0.0.1/me:{SECRET}",
        f"postgresql:me:{SECRET}@127.0.0.1/db",
        f"postgresql://{SECRET} 127.0.0.1/db",
    ],
)
@pytest.mark.parametrize("query", [NODES, "DELETE FROM people", ""])
def test_a_password_in_an_address_is_refused_and_not_shown(
    address: str, query: str, run: Run, tmp_path: Path
) -> None:
    given = f"{address}?{query}" if query else address
    with pytest.raises(InputError) as caught:
        read_graph(nodes=given, edges=given)
    said = "".join(traceback.format_exception(caught.value))
    assert SECRET not in said
    if query == NODES:
        assert "the nodes of postgresql:…: " in said
        assert "password does not belong into an address" in said or (
            "the address must be postgresql://USER@HOST:PORT/DATABASE" in said
        )
    for wrong in (
        lambda: read_graph(given),
        lambda: read_graph(nodes=given),
        lambda: read_graph(Path(given)),
        lambda: read_graph(nodes=Path(given), edges=Path(given)),
        lambda: read_graph(given, nodes=given, edges=given),
        lambda: read_graph(nodes="n.csv", edges="e.csv", features=given),
        lambda: read_graph("a folder", features=Path(given)),
    ):
        with pytest.raises(InputError) as caught:
            wrong()
        assert SECRET not in str(caught.value)
    if query != NODES:
        return
    for command in (
        ("diagnose", "--nodes", given, "--edges", given),
        ("diagnose", "--nodes", given),
        ("train", given, "--out", tmp_path / "model"),
        ("train", given, "--json"),
    ):
        code, out, err = run(*command)
        assert code == 2
        assert SECRET not in out + err


def test_a_password_of_the_environment_is_never_shown(
    postgresql_server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PGPASSWORD", SECRET)
    with pytest.raises(InputError) as caught:
        read(postgresql_server.address)
    said = "".join(traceback.format_exception(caught.value))
    assert "the database says: password authentication failed" in said
    assert SECRET not in said
    monkeypatch.delenv("PGPASSWORD")
    port = postgresql_server.port
    kept = tmp_path / "passwords"
    kept.write_text(f"127.0.0.1:{port}:postgres:owner:{PASSWORD}\n")
    kept.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(kept))
    assert read(postgresql_server.address).n_nodes == 3


def test_what_a_server_is_told_beside_the_query(postgresql: str) -> None:
    assert read(f"{postgresql}?application_name=h2gcn&connect_timeout=20").n_nodes == 3
    message = refusal(f"{postgresql}?sslmode=require")
    assert "SSL" in message


def test_a_server_that_is_not_there() -> None:
    pytest.importorskip("adbc_driver_postgresql")
    message = refusal("postgresql://me@127.0.0.1:1/db")
    assert message.startswith(
        "the nodes of postgresql://127.0.0.1:1/db: the database says: "
    )
    assert "refused" in message


# ------------------------------------------------------------- the command line


def test_commands_take_queries(address: str, run: Run, tmp_path: Path) -> None:
    tables = ("--nodes", f"{address}?{NODES}", "--edges", f"{address}?{EDGES}")
    code, out, err = run("diagnose", *tables, "--json", "--no-fit")
    assert code == 0, err
    assert json.loads(out)["card"]["nodes"] == 3
    out_file = tmp_path / "p.csv"
    code, _, err = run("predict", tmp_path / "gone", *tables, "--out", out_file)
    assert code == 2
    assert "gone" in err
    code, _, err = run("diagnose", f"{address}?{NODES}")
    assert code == 2
    assert (
        "A query of a database gives one table, and a graph is two: --nodes … and"
        in (err)
    )


def test_what_is_a_database() -> None:
    assert is_database("sqlite:x.db?SELECT 1")
    assert is_database("POSTGRES://h/db")
    assert not is_database("my.sqlite")
    assert not is_database("./sqlite:x.csv")
    assert not is_database(7)
