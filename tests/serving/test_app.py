"""The application in process: each route, each refusal, each limit."""

import asyncio
import json
import logging
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from h2gcn.exceptions import InputError
from h2gcn.serving import Answers, Limits, bind, build_app, make_token, read_token
from h2gcn.serving.guards import Refused, Worker
from support.in_process import InProcess
from support.town import EVIL, SLASHED, town, town_model

Client = Callable[..., InProcess]
TOKEN = "0123456789abcdef-token"


@pytest.fixture(scope="module")
def answers() -> Answers:
    """Return what is known of the town."""
    return Answers(town_model(), town())


@pytest.fixture
def open_app(answers: Answers) -> Iterator[Client]:
    """Return what opens an application, and says by which name of the machine."""
    clients: list[InProcess] = []

    def start(limits: Limits | None = None, **options: Any) -> InProcess:
        app = build_app(options.pop("answers", answers), limits, **options)
        clients.append(InProcess(app))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


@pytest.fixture
def client(open_app: Client) -> InProcess:
    """Return an application with the usual limits."""
    return open_app()


def refused(answer: httpx.Response, status: int, *words: str) -> str:
    """Check that an answer is one line that holds these words, and return it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    content = answer.json()
    assert list(content) == ["error"]
    line: str = content["error"]
    assert "\n" not in line
    for word in words:
        assert word in line, line
    return line


def ask(client: InProcess, body: Any, **headers: str) -> httpx.Response:
    """Post a body, as JSON unless it is bytes."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"content-type": "application/json"} | headers
    return client.post("/predict", content=content, headers=headers)


# ---------------------------------------------------------------------------- routes


def test_health_says_nothing_of_model_or_graph(client: InProcess) -> None:
    answer = client.get("/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


def test_the_model_is_told(client: InProcess) -> None:
    found = client.get("/model").json()
    assert (found["model"], found["graph"], found["nodes"]) == ("h2gcn-1", "town", 41)


def test_known_nodes_are_predicted(client: InProcess, answers: Answers) -> None:
    found = ask(client, {"ids": ["hub", SLASHED], "alpha": 0.2}).json()
    told = answers.predict(["hub", SLASHED], 0.2)
    assert [one["id"] for one in found["predictions"]] == ["hub", SLASHED]
    assert [one["set"] for one in found["predictions"]] == [
        one.set for one in told.predictions
    ]
    assert found["alpha"] == 0.2
    assert ask(client, {"ids": ["hub"]}).json()["alpha"] == 0.1


@pytest.mark.parametrize("name", ["hub", EVIL, SLASHED])
def test_a_node_is_told_whatever_its_id(client: InProcess, name: str) -> None:
    path = f"/nodes/{quote(name, safe='')}"
    assert client.get(path).json()["id"] == name
    found = client.get(f"{path}/surroundings", params={"hops": 1, "limit": 4}).json()
    assert found["nodes"][0]["id"] == name
    assert found["hops"] == 1
    assert len(found["nodes"]) <= 4


def test_new_nodes_are_predicted(client: InProcess, answers: Answers) -> None:
    node, edge = {"id": "x", "age": 1, "income": 2}, {"source": "x", "target": "hub"}
    found = ask(client, {"nodes": [node], "edges": [edge]}).json()
    told = answers.predict_new([node], [edge])
    (one,) = found["predictions"]
    assert one["probabilities"] == told.predictions[0].probabilities
    assert (one["id"], one["set"], found["alpha"]) == ("x", None, None)
    refused(client.get("/nodes/x"), 404, "there is no node 'x'")  # nothing was kept
    wrong = {"nodes": [{"id": "x", "age": "old", "income": 1}]}
    refused(ask(client, wrong), 400, "nodes.0.age: must be a finite number", "'old'")


def test_reasons_are_told(client: InProcess, answers: Answers) -> None:
    found = client.get("/nodes/b0/reasons").json()
    assert found["id"] == "b0"
    assert [term["name"] for term in found["terms"]] == [
        term["name"] for term in answers.reasons("b0")["terms"]
    ]


def test_alpha_goes_with_a_node(client: InProcess) -> None:
    wide = client.get("/nodes/hub", params={"alpha": 0.01}).json()
    assert wide["alpha"] == 0.01
    assert len(wide["set"]) == 2


def test_ids_are_found(client: InProcess) -> None:
    found = client.get("/search", params={"q": "a0", "limit": 2}).json()
    assert found == {"ids": ["a00", "a01"], "total": 10}


def test_openapi_tells_every_route_and_its_answers(client: InProcess) -> None:
    found = client.get("/openapi.json").json()
    assert set(found["paths"]) == {
        *("/health", "/metrics", "/model", "/predict", "/search", "/nodes/{id}"),
        *("/nodes/{id}/reasons", "/nodes/{id}/surroundings"),
    }
    text = json.dumps(found)
    schemas = found["components"]["schemas"]
    for part in text.split('"#/components/schemas/')[1:]:
        assert part.partition('"')[0] in schemas
    body = found["paths"]["/predict"]["post"]["requestBody"]["content"]
    (schema,) = body["application/json"].values()
    assert schema == {"$ref": "#/components/schemas/PredictRequest"}
    assert set(schemas["PredictRequest"]["properties"]) == {
        *("ids", "alpha", "nodes", "edges"),
    }


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
def test_no_page_loads_from_elsewhere(client: InProcess, path: str) -> None:
    refused(client.get(path), 404, f"there is no '{path}'")


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/", "text/html"), ("/page.css", "text/css"), ("/page.js", "text/javascript")],
)
def test_the_page_comes_from_the_package(
    client: InProcess, path: str, kind: str
) -> None:
    answer = client.get(path)
    assert answer.headers["content-type"].startswith(kind)
    elsewhere = [part for part in answer.text.split("http")[1:] if part[:3] != "://"]
    assert elsewhere == []
    assert answer.text.count("://") == answer.text.count("http://www.w3.org/2000/svg")


def test_every_answer_tells_browsers_what_it_may_do(client: InProcess) -> None:
    for answer in (client.get("/"), client.get("/model"), client.get("/nowhere")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in answer.headers


def test_requests_are_counted_by_route_and_status(client: InProcess) -> None:
    for path in ("/nodes/hub", "/nodes/a00", "/nodes/nobody", "/nowhere"):
        client.get(path)
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    for line in (
        'h2gcn_requests_total{route="/nodes/{id}",status="200"} 2',
        'h2gcn_requests_total{route="/nodes/{id}",status="404"} 1',
        'h2gcn_requests_total{route="other",status="404"} 1',
        'h2gcn_request_seconds_bucket{route="/nodes/{id}",le="+Inf"} 3',
        'h2gcn_request_seconds_count{route="/nodes/{id}"} 3',
        "h2gcn_nodes_known 41",
        "h2gcn_requests_now 1",
    ):
        assert line in lines, line
    (memory,) = [line for line in lines if line.startswith("process_resident_memory")]
    assert int(memory.split()[1]) > 1e6
    buckets = [
        int(line.split()[1])
        for line in lines
        if line.startswith('h2gcn_request_seconds_bucket{route="/nodes/{id}",')
    ]
    assert buckets == sorted(buckets)


# -------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", ["truncated or not JSON"]),
        (b'{"ids": ["hub"', ["truncated or not JSON", "line 1"]),
        (b'{"ids": ["\xff"]}', ["not UTF-8"]),
        (b'{"ids": ["hub"], "alpha": NaN}', ["holds NaN"]),
        (b"[" * 100, ["nested more than 64 deep"]),
        (b"[]", ["must be an object", "a list of 0"]),
        ({}, ["must have 'ids' of known nodes, or else 'nodes'"]),
        ({"ids": ["hub"], "nodes": [{"id": "x"}]}, ["or else 'nodes'"]),
        ({"ids": []}, ["'ids' must have at least one entry"]),
        ({"nodes": []}, ["'nodes' must have at least one entry"]),
        ({"ids": "hub"}, ["ids must be a list", "'hub'"]),
        ({"ids": ["hub", 1.5]}, ["ids.1 must be an integer or text", "1.5"]),
        ({"ids": ["hub"], "alpha": 0}, ["alpha", "0.999999", "0"]),
        ({"ids": ["hub"], "edges": []}, ["'edges' go with 'nodes'"]),
        ({"nodes": [{"id": "x"}], "alpha": 0.1}, ["'alpha' goes with 'ids'"]),
        ({"id": "hub"}, ["no field 'id'"]),
        ({"ids": ["hub", "hud"]}, ["town: there is no node 'hud'", "mean 'hub'"]),
        ({"ids": [7]}, ["town: there is no node '7'"]),
    ],
)
def test_a_bad_body_is_one_line(client: InProcess, body: Any, words: list[str]) -> None:
    refused(ask(client, body), 400, *words)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/nodes/hub?alpha=2", ["alpha", "less than 1", "'2'"]),
        ("/nodes/hub?alpha=nan", ["alpha"]),
        ("/nodes/hub?alpha=much", ["alpha", "'much'"]),
        ("/nodes/hub/surroundings?hops=0", ["hops", "'0'"]),
        ("/nodes/hub/surroundings?hops=4", ["hops", "less than or equal to 3", "'4'"]),
        ("/nodes/hub/surroundings?limit=501", ["limit", "500", "'501'"]),
        ("/search", ["q", "required"]),
        (f"/search?q={'x' * 201}", ["q", "at most 200"]),
        ("/search?q=a&limit=101", ["limit", "100"]),
        ("/nodes/%ff", ["not UTF-8"]),
    ],
)
def test_a_bad_parameter_is_one_line(
    client: InProcess, path: str, words: list[str]
) -> None:
    refused(client.get(path), 400, *words)


def test_what_is_not_there_is_404(client: InProcess) -> None:
    for path in ("/nodes/hud", "/nodes/hud/reasons", "/nodes/hud/surroundings"):
        refused(client.get(path), 404, "town: there is no node 'hud'", "'hub'")
    refused(client.get("/nowhere"), 404, "there is no '/nowhere'")
    refused(client.get("/nodes/hub/else"), 404, "there is no")
    refused(client.get("/nodes/x/y"), 404, "there is no")  # a slash must be written %2F


def test_a_method_that_does_not_go_with_a_route(client: InProcess) -> None:
    refused(client.post("/model"), 405, "'/model' does not go with POST")
    refused(client.get("/predict"), 405, "'/predict' does not go with GET")


def test_only_json_is_read(client: InProcess) -> None:
    answer = ask(client, b"ids=hub", **{"content-type": "text/plain"})
    refused(answer, 415, "must be application/json", "'text/plain'")


# ---------------------------------------------------------------------------- limits


def test_a_body_has_a_size(open_app: Client) -> None:
    client = open_app(Limits(body_bytes=100))
    assert ask(client, {"ids": ["hub"]}).status_code == 200
    refused(ask(client, {"ids": ["x" * 100]}), 413, "at most 100 bytes", "got 113")


def test_a_body_without_a_length_is_counted_as_it_comes(open_app: Client) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * 60

    client = open_app(Limits(body_bytes=100))
    answer = client.post(
        "/predict",
        content=pieces(),
        headers={"content-type": "application/json"},
    )
    refused(answer, 413, "at most 100 bytes")


def test_a_request_has_a_number_of_everything(open_app: Client) -> None:
    client = open_app(Limits(ids=2, new_nodes=2, new_edges=1))
    refused(ask(client, {"ids": ["hub"] * 3}), 413, "'ids' may have 2 entries, got 3")
    node = {"id": "x", "age": 1, "income": 1}
    refused(ask(client, {"nodes": [node] * 3}), 413, "'nodes' may have 2", "got 3")
    edge = {"source": "x", "target": "hub"}
    answer = ask(client, {"nodes": [node], "edges": [edge] * 2})
    refused(answer, 413, "'edges' may have 1", "got 2")


class Slow(Answers):
    """Answers whose computing waits until it may go on."""

    def __init__(self) -> None:
        super().__init__(town_model(), town())
        self.begun, self.go_on = threading.Semaphore(0), threading.Event()
        self.computed: list[str] = []

    def reasons(self, name: str) -> Any:
        """Wait, and count."""
        self.begun.release()
        self.go_on.wait()
        self.computed.append(name)
        return {"name": name}


def test_a_request_has_a_time_and_what_has_not_begun_is_dropped(
    open_app: Client,
) -> None:
    slow = Slow()
    client = open_app(Limits(seconds=0.2), answers=slow)
    for name in ("hub", "a00"):  # the first is being computed, the second waits
        refused(client.get(f"/nodes/{name}/reasons"), 504, "longer than 0.2 s")
    assert client.get("/nodes/hub").status_code == 200  # what is known is told
    slow.go_on.set()
    # Both were begun in their order, or not at all.
    assert client.get("/nodes/c/reasons").json() == {"name": "c"}
    assert slow.computed == ["hub", "c"]


def test_so_many_wait_to_be_computed() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def first() -> str:
        begun.set()
        go_on.wait()
        return "first"

    async def asking() -> list[str]:
        worker = Worker(waiting=1)
        one = asyncio.create_task(worker.do(first))
        await asyncio.to_thread(begun.wait)  # it is being computed
        two = asyncio.create_task(worker.do(lambda: "second"))
        await asyncio.sleep(0)  # and this one waits
        with pytest.raises(Refused, match="1 requests wait already") as told:
            await worker.do(lambda: "third")
        assert told.value.status == 503
        go_on.set()
        return [await one, await two]

    assert asyncio.run(asking()) == ["first", "second"]


def test_more_at_once_are_sent_away(open_app: Client) -> None:
    slow = Slow()
    client = open_app(Limits(at_once=1), answers=slow)
    thread = threading.Thread(target=client.get, args=("/nodes/hub/reasons",))
    thread.start()
    slow.begun.acquire()
    answer = client.get("/model")
    refused(answer, 503, "1 requests are being answered already")
    assert answer.headers["retry-after"] == "1"
    assert client.get("/health").status_code == 200  # who watches is told all the same
    slow.go_on.set()
    thread.join()
    assert client.get("/model").status_code == 200


class Broken(Answers):
    """Answers that fail."""

    failure: BaseException = RuntimeError("line one\nline two")

    def __init__(self) -> None:
        super().__init__(town_model(), town())

    def facts(self) -> Any:
        """Fail."""
        raise self.failure


def test_what_nobody_foresaw_is_reported_and_not_told(
    open_app: Client, caplog: pytest.LogCaptureFixture
) -> None:
    said: list[tuple[str, str]] = []
    client = open_app(answers=Broken(), report=lambda *told: said.append(told))
    with caplog.at_level(logging.ERROR):
        line = refused(
            client.get("/model"), 500, "internal error; the server's log has more"
        )
    assert "line one" not in line
    ((line, trace),) = said
    assert line == "internal error: RuntimeError: line one line two"
    assert "Traceback" in trace
    assert client.get("/health").status_code == 200


def test_too_little_memory_is_said(
    open_app: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Broken, "failure", MemoryError())
    refused(open_app(answers=Broken()).get("/model"), 503, "out of memory")


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("ids", 0, "an integer, at least 1"),
        ("seconds", 0, r"in \(0, inf\)"),
        ("at_once", 1.5, "an integer"),
    ],
)
def test_limits_are_checked(name: str, value: Any, rule: str) -> None:
    with pytest.raises(InputError, match=f"^{name} must be {rule}"):
        Limits(**{name: value})


# ------------------------------------------------------------------------ who may ask


def test_without_a_token_there_is_the_page_and_health_only(open_app: Client) -> None:
    client = open_app(token=TOKEN)
    for path in ("/", "/page.js", "/page.css", "/health"):
        assert client.get(path).status_code == 200
    private = (
        *("/model", "/metrics", "/openapi.json", "/nodes/hub", "/search?q=a"),
        *("/nodes/hub/reasons", "/nodes/hub/surroundings", "/nowhere", "//"),
    )
    for path in private:
        answer = client.get(f"http://127.0.0.1:8000{path}")
        refused(answer, 401, "a token is needed", "Authorization: Bearer")
        assert answer.headers["www-authenticate"] == "Bearer"
    refused(ask(client, {"ids": ["hub"]}), 401)


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer {TOKEN}", 200),
        (f"Bearer {TOKEN}x", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        ("Bearer", 401),
        (f"Basic {TOKEN}", 401),
        (TOKEN, 401),
        ("Bearer é", 401),
    ],
)
def test_the_token_is_that_of_the_server(
    open_app: Client, given: str, status: int
) -> None:
    headers = {"authorization": given.encode("latin-1")}
    assert open_app(token=TOKEN).get("/model", headers=headers).status_code == status


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8000", 200),
        ("localhost", 200),
        ("LOCALHOST:99", 200),
        ("[::1]:8000", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example:8000", 421),
        ("localhost:8000@evil.example", 421),
        ("", 421),
    ],
)
def test_a_name_that_was_made_to_lead_here_is_refused(
    open_app: Client, host: str, status: int
) -> None:
    client = open_app(hosts={"127.0.0.1", "localhost", "::1"})
    answer = client.get("/model", headers={"host": host})
    assert answer.status_code == status
    if status != 200:
        refused(answer, 421, "the Host header must be one of 127.0.0.1, ::1, localhost")


def test_tokens_are_read_from_a_file_or_the_environment(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("H2GCN_TOKEN", raising=False)
    assert read_token() is None
    monkeypatch.setenv("H2GCN_TOKEN", f" {TOKEN}\n")
    assert read_token() == TOKEN
    (file := tmp_path / "token").write_text("another-token-of-a-file\n")
    assert read_token(file) == "another-token-of-a-file"
    assert len(make_token()) >= 40
    assert make_token() != make_token()


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"secret", "at least 16 characters, got 6"),
        (b"", "at least 16 characters, got 0"),
        (b"two words are too many", "without blanks"),
        ("täglich-ein-wörtchen".encode(), "one line of ASCII"),
        (b"\xff" * 20, "must hold a token in UTF-8"),
        (b"x" * 5000, "at most 4,096 are read"),
    ],
)
def test_a_bad_token_is_refused_and_not_shown(
    tmp_path: Any, content: bytes, rule: str
) -> None:
    (file := tmp_path / "token").write_bytes(content)
    with pytest.raises(InputError, match=rule) as told:
        read_token(file)
    assert content.decode("latin-1")[:6] not in str(told.value) or not content


# ---------------------------------------------------------------------------- address


def test_a_port_in_use_is_said() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"^port {port} of 127.0.0.1 is in use"):
            bind("127.0.0.1", port)


def test_answers_are_sent_without_delay() -> None:
    # asyncio sets TCP_NODELAY where the protocol is named; else an answer takes 40 ms.
    with bind("127.0.0.1", 0) as bound:
        assert bound.proto == socket.IPPROTO_TCP


def test_an_address_of_somebody_else_is_said() -> None:
    with pytest.raises(InputError, match=r"port 0 of 192\.0\.2\.1 cannot be had"):
        bind("192.0.2.1", 0)
    with pytest.raises(InputError, match="host='no such host' is no address"):
        bind("no such host", 0)
