"""The application: its routes, its page, and the server that runs it."""

# Without postponed annotations: FastAPI reads those of routes, whose types are local.
import errno
import socket
from collections.abc import Callable, Collection
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote

import msgspec

from h2gcn import __version__
from h2gcn._validation import import_extra
from h2gcn.exceptions import InputError, shorten
from h2gcn.io import Finite, decode
from h2gcn.serving.answers import (
    ALPHA,
    MOST_FOUND,
    MOST_HOPS,
    MOST_SHOWN,
    Answers,
    FoundIds,
    ModelFacts,
    NodeAnswer,
    Predictions,
    Surroundings,
    UnknownNode,
)
from h2gcn.serving.guards import Guard, Limits, Metrics, Refused, Worker, shown

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["bind", "build_app", "run"]

PAGE = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
}
"""The files of the page, and what they are."""
LONGEST_SEARCH = 200
"""Characters of a text that is searched for."""
_GRACE = 5
"""Seconds that requests have to end when the server does."""


class PredictRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Known nodes by their ids, or new nodes with their columns and edges."""

    ids: list[str | int] | None = None
    alpha: Finite | None = None
    """The share of nodes whose class the sets of known nodes may miss; 0.1."""
    nodes: list[dict[str, Any]] | None = None
    """New nodes: `id`, and the columns of the node table."""
    edges: list[dict[str, Any]] | None = None
    """Their edges: `source` and `target`, and the columns of the edge table."""


class ErrorAnswer(msgspec.Struct):
    """Why a request was not answered, in one line."""

    error: str


def build_app(
    answers: Answers,
    limits: Limits | None = None,
    *,
    token: str | None = None,
    hosts: Collection[str] | None = None,
    report: Callable[[str, str], None] = lambda *_: None,
) -> "FastAPI":
    """Return the application that answers requests.

    Parameters
    ----------
    answers
        What is known.
    limits
        What a request may be; None is `Limits()`.
    token, hosts, report
        See `Guard`: who may ask, under which names of this machine, and who is told
        of failures.
    """
    import_extra("fastapi", "to serve a model")
    from fastapi import FastAPI, Query, Request, Response
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException

    limits = Limits() if limits is None else limits
    metrics, worker = Metrics(answers.n_nodes), Worker(limits.waiting)
    app = FastAPI(
        title="h2gcn",
        version=__version__,
        summary="What a model says of the nodes of a graph.",
        docs_url=None,  # they would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    app.add_middleware(
        Guard,
        limits=limits,
        metrics=metrics,
        token=token,
        hosts=hosts,
        report=report,
    )
    app.add_exception_handler(HTTPException, _refuse_http)
    app.add_exception_handler(RequestValidationError, _refuse_parameter)
    app.openapi = partial(_openapi, app)  # type: ignore[method-assign]

    def told(answer: Any) -> Response:
        return Response(msgspec.json.encode(answer), media_type="application/json")

    Alpha = Annotated[
        float,
        Query(gt=0, lt=1, description="The share of nodes whose class sets may miss."),
    ]

    @app.get("/health", responses=_said(None), tags=["server"])
    async def health() -> Response:
        """Tell that the server answers."""
        return told({"status": "ok"})

    @app.get("/metrics", tags=["server"])
    async def count() -> Response:
        """Tell requests, latencies and memory, as Prometheus reads it."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    @app.get("/model", responses=_said(ModelFacts), tags=["model"])
    async def model() -> Response:
        """Tell which model answers about which graph, and how it was scored."""
        return told(answers.facts())

    @app.post(
        "/predict",
        responses=_said(Predictions),
        openapi_extra=_asked(PredictRequest),
        tags=["nodes"],
    )
    async def predict(request: Request) -> Response:
        """Predict known nodes by their ids, or new ones by their columns and edges."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if kind.lower() != "application/json":
            raise Refused(
                415, f"the content type must be application/json, got {shown(kind)}"
            )
        asked = decode(PredictRequest, await request.body(), "the body")
        if (asked.ids is None) == (asked.nodes is None):
            raise InputError(
                "the body: must have 'ids' of known nodes, or else 'nodes' that are new"
            )
        if asked.ids is not None:
            if asked.edges is not None:
                raise InputError("the body: 'edges' go with 'nodes', not with 'ids'")
            _check_number("ids", asked.ids, limits.ids)
            alpha = ALPHA if asked.alpha is None else asked.alpha
            return told(answers.predict(list(map(str, asked.ids)), alpha))
        nodes, edges = asked.nodes or [], asked.edges or []
        if asked.alpha is not None:
            raise InputError(
                "the body: 'alpha' goes with 'ids': what sets cover is known for nodes "
                "of the graph of the training only"
            )
        _check_number("nodes", nodes, limits.new_nodes)
        _check_number("edges", edges, limits.new_edges)
        return told(await worker.do(lambda: answers.predict_new(nodes, edges)))

    @app.get("/nodes/{id}", responses=_said(NodeAnswer), tags=["nodes"])
    async def node(id: str, alpha: Alpha = ALPHA) -> Response:
        """Tell what is known of a node, and what the model says of it."""
        return told(_found(lambda: answers.node(_plain(id), alpha)))

    @app.get("/nodes/{id}/reasons", responses=_said(None), tags=["nodes"])
    async def reasons(id: str) -> Response:
        """Tell why the model says what it says of a node."""
        name = _plain(id)
        _found(lambda: answers.row(name))
        return told(await worker.do(lambda: answers.reasons(name)))

    @app.get("/nodes/{id}/surroundings", responses=_said(Surroundings), tags=["nodes"])
    def surroundings(
        id: str,
        hops: Annotated[int, Query(ge=1, le=MOST_HOPS)] = 2,
        limit: Annotated[int, Query(ge=1, le=MOST_SHOWN)] = 60,
    ) -> Response:
        """Tell the nodes around a node, ring by ring, and the edges among them."""
        name = _plain(id)
        return told(_found(lambda: answers.surroundings(name, hops, limit)))

    @app.get("/search", responses=_said(FoundIds), tags=["nodes"])
    def search(
        q: Annotated[str, Query(max_length=LONGEST_SEARCH)],
        limit: Annotated[int, Query(ge=1, le=MOST_FOUND)] = 20,
    ) -> Response:
        """Find ids that begin with a text, or contain it."""
        return told(answers.search(q, limit))

    for path, (file, kind) in PAGE.items():
        content = files("h2gcn.serving").joinpath("templates", file).read_bytes()
        page = partial(Response, content, media_type=kind)
        app.add_api_route(path, _constant(page), include_in_schema=False)
    return app


def _constant(page: Callable[[], Any]) -> Callable[[], Any]:
    """Return a route that always gives the same."""

    async def route() -> Any:
        return page()

    route.__annotations__ = {}
    return route


def _plain(quoted: str) -> str:
    """Return the id of a path, which comes as it was written: it may have slashes."""
    try:
        return unquote(quoted, errors="strict")
    except UnicodeDecodeError:
        raise Refused(400, f"the id {shown(quoted)} is not UTF-8") from None


def _found(ask: Callable[[], Any]) -> Any:
    """Return an answer; a node of the path that is not there is a page that is not."""
    try:
        return ask()
    except UnknownNode as error:
        raise Refused(404, str(error)) from None


def _check_number(name: str, given: list[Any], most: int) -> None:
    if not given and name != "edges":
        raise InputError(f"the body: {name!r} must have at least one entry")
    if len(given) > most:
        raise Refused(
            413, f"the body: {name!r} may have {most:,} entries, got {len(given):,}"
        )


async def _refuse_http(request: Any, error: Any) -> Any:
    path = shown(request.url.path)
    words = {
        404: f"there is no {path}; /openapi.json tells what there is",
        405: f"{path} does not go with {request.method}",
    }
    raise Refused(error.status_code, words.get(error.status_code, str(error.detail)))


async def _refuse_parameter(_: Any, error: Any) -> Any:
    first = error.errors()[0]
    name = ".".join(map(str, first["loc"][1:]))
    rule = first["msg"].removeprefix("Input ")
    found = first.get("input")
    got = "" if found is None else f", got {shown(str(found))}"
    raise Refused(400, shorten(f"{name}: {rule}{got}"))


# ------------------------------------------------------------------------ its own words

_REFERENCE = "#/components/schemas/{name}"


def _said(kind: type | None) -> dict[int | str, dict[str, Any]]:
    """Return what a route answers, for OpenAPI."""
    schema = {} if kind is None else {"$ref": _REFERENCE.format(name=kind.__name__)}
    return {200: {"content": {"application/json": {"schema": schema}}}}


def _asked(kind: type) -> dict[str, Any]:
    """Return the body that a route takes, for OpenAPI."""
    schema = {"$ref": _REFERENCE.format(name=kind.__name__)}
    content = {"application/json": {"schema": schema}}
    return {"requestBody": {"required": True, "content": content}}


def _openapi(app: "FastAPI") -> dict[str, Any]:
    """Return the description of all routes, with the schemas of what they say."""
    from fastapi.openapi.utils import get_openapi

    if app.openapi_schema is None:
        kinds = (
            *(ModelFacts, Predictions, NodeAnswer, Surroundings, FoundIds),
            *(PredictRequest, ErrorAnswer),
        )
        _, schemas = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
        found = get_openapi(
            title=app.title,
            version=app.version,
            summary=app.summary,
            routes=app.routes,
        )
        wrong = {
            "description": "Not answered",
            "content": {
                "application/json": {
                    "schema": {"$ref": _REFERENCE.format(name="ErrorAnswer")}
                }
            },
        }
        for methods in found["paths"].values():
            for route in methods.values():
                route["responses"].pop("422", None)  # what is wrong is 400
                route["responses"]["default"] = wrong
        found["components"] = {"schemas": schemas}
        app.openapi_schema = found
    return app.openapi_schema


# --------------------------------------------------------------------------- the server


def bind(host: str, port: int) -> socket.socket:
    """Return a socket of an address, which nobody can connect to yet.

    Parameters
    ----------
    host
        A name or an address of this machine.
    port
        0 is any that is free.
    """
    try:
        # Only where the protocol is named does asyncio send answers without delay.
        (family, kind, protocol, _, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"host={host!r} is no address of this machine ({why})"
        ) from None
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except (OSError, OverflowError) as error:
        bound.close()
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            raise InputError(
                f"port {port} of {host} is in use; port=0 takes one that is free"
            ) from None
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"port {port} of {host} cannot be had ({why})") from None
    return bound


def run(
    app: "FastAPI", bound: socket.socket, on_ready: Callable[[], None] | None = None
) -> None:
    """Answer requests until Ctrl-C or SIGTERM, which go on to who has called.

    Parameters
    ----------
    app
        Of `build_app`.
    bound
        Of `bind`; closed in the end.
    on_ready
        Called once others can connect.
    """
    import_extra("uvicorn", "to serve a model")
    import uvicorn

    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="error",
        access_log=False,  # who was asked about is nobody's business
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=_GRACE,
    )
    with bound:
        bound.listen(config.backlog)
        if on_ready is not None:
            on_ready()
        uvicorn.Server(config).run(sockets=[bound])
