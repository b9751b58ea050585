"""`h2gcn serve` as a process: it begins, answers, and ends as it is told to."""

import json
import re
import signal
import socket
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from support.commands import Run, fails
from support.process import served
from support.town import leave_town


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the tables of the town, and its model."""
    folder = tmp_path_factory.mktemp("town")
    leave_town(folder)
    return folder


def town(folder: Path) -> tuple[str, str]:
    return str(folder / "model"), str(folder)


def answer(address: str, body: object = None, **headers: str) -> object:
    data = None if body is None else json.dumps(body).encode()
    kind = {"Content-Type": "application/json"} if data else {}
    request = urllib.request.Request(address, data, kind | headers)
    with urllib.request.urlopen(request, timeout=300) as found:
        return json.load(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)]
)
def test_a_server_answers_and_ends_by_a_signal(
    folder: Path, sent: signal.Signals, code: int
) -> None:
    with served(*town(folder)) as (process, address):
        assert answer(f"{address}/health") == {"status": "ok"}
        found = answer(f"{address}/predict", {"ids": ["hub"]})
        assert found["predictions"][0]["id"] == "hub"  # type: ignore[index]
        process.send_signal(sent)
        _, err = process.communicate(timeout=300)
        assert process.returncode == code
        assert "Traceback" not in err
        assert all(line.startswith("h2gcn: ") for line in err.splitlines()), err


@pytest.mark.slow
def test_on_other_addresses_a_token_is_made_and_printed_once(folder: Path) -> None:
    with served(*town(folder), "--host", "0.0.0.0", "-q") as (process, address):
        (token,) = re.findall(r"^token: (\S{40,})$", process.said, re.M)  # type: ignore[attr-defined]
        assert answer(f"{address}/health") == {"status": "ok"}
        with pytest.raises(urllib.error.HTTPError, match="401"):
            answer(f"{address}/model")
        carried = {"Authorization": f"Bearer {token}", "Host": "town.example"}
        assert answer(f"{address}/model", **carried)
        process.terminate()
        out, err = process.communicate(timeout=300)
        assert token not in out + err


@pytest.mark.slow
def test_a_token_of_a_file_holds_on_this_machine_too(
    folder: Path, tmp_path: Path
) -> None:
    (file := tmp_path / "token").write_text("a-token-of-nobody-else\n")
    with served(*town(folder), "--token-file", str(file), "-q") as (process, address):
        assert "token" not in process.said  # type: ignore[attr-defined]
        with pytest.raises(urllib.error.HTTPError, match="401"):
            answer(f"{address}/model")
        carried = {"Authorization": "Bearer a-token-of-nobody-else"}
        assert answer(f"{address}/model", **carried)
        with pytest.raises(urllib.error.HTTPError, match="421"):
            answer(f"{address}/model", **carried, Host="town.example")


def test_a_port_in_use_is_one_line(run: Run, folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run("serve", folder / "model", folder, "--port", port)
    fails(result, f"port {port} of 127.0.0.1 is in use; --port 0 takes one")


def test_options_are_checked_before_anything_is_loaded(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    call = ("serve", folder / "model", folder, "--port", "0")
    fails(run(*call, "--max-ids", "0"), "--max-ids", "at least 1")
    fails(run(*call[:-1], "70000"), "--port", "at most 65,535")
    fails(run(*call, "--host", "192.0.2.1"), "192.0.2.1 cannot be had")
    fails(run(*call, "--host", "no such"), "--host no such", "no address")
    elsewhere = ("--host", "0.0.0.0", "--allow-host", "town.example")
    fails(run(*call, *elsewhere), "--allow-host is for addresses of this machine")
    (file := tmp_path / "token").write_text("short")
    fails(run(*call, "--token-file", file), "at least 16 characters, got 5")
    fails(run("serve", tmp_path / "none", folder, "--port", "0"), "none")


@pytest.mark.parametrize(
    ("package", "name"), [("fastapi", "FastAPI"), ("uvicorn",) * 2]
)
def test_a_missing_extra_is_named(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, package: str, name: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    result = run("serve", folder / "model", folder, "--port", "0")
    fails(result, f"to serve a model, {name} is needed: pip install 'h2gcn[serve]'")
