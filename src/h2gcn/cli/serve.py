"""`h2gcn serve`: a saved model behind an address."""

from __future__ import annotations

import os
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from h2gcn.cli import options as src
from h2gcn.cli.console import notes_of, say, tell
from h2gcn.cli.options import MemoryLimit, in_range
from h2gcn.exceptions import H2GCNWarning, InputError

__all__ = ["command"]


def _limit(help_text: str) -> Any:
    """Return an option of the panel about limits."""
    return typer.Option(
        help=help_text, rich_help_panel="Limits", callback=in_range(1, 2**40)
    )


@partial(src.with_tables, only=src.READ_AGAIN)
def command(
    model_dir: src.ModelDir,
    source: src.Source = None,
    host: Annotated[
        str,
        typer.Option(help="Where to listen; others than this machine need a token."),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="0 is any that is free.", callback=in_range(0, 65535))
    ] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="A file with the token that requests must carry (default: "
            "$H2GCN_TOKEN).",
            show_default=False,
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Names besides those of this machine that requests may come by, such "
            "as a proxy's; repeated.",
            show_default=False,
        ),
    ] = None,
    quiet: src.NoNotes = False,
    max_bytes: Annotated[int, _limit("Bytes of a request.")] = 1_000_000,
    max_ids: Annotated[int, _limit("Known nodes a request.")] = 1000,
    max_nodes: Annotated[int, _limit("New nodes a request.")] = 1000,
    max_edges: Annotated[int, _limit("Edges of new nodes a request.")] = 10_000,
    max_seconds: Annotated[int, _limit("Seconds a request.")] = 30,
    max_requests: Annotated[int, _limit("Requests at once.")] = 64,
    max_waiting: Annotated[
        int, _limit("Requests that wait for what is computed for each.")
    ] = 16,
    *,
    tables: src.Tables,
    memory_limit: MemoryLimit = None,
    device: src.Device = None,
) -> None:
    """Answer requests about the nodes of SOURCE with the model in DIR.

    The model and the graph are loaded once, and all nodes predicted; then programs ask
    by JSON (POST /predict; /openapi.json has the rest), and people by the page at /:
    they look a node up and see its label, probabilities, reasons and surroundings.

    Only this machine can ask, unless --host names another address: then every request
    must carry a token, "Authorization: Bearer …". One is made and printed where none is
    given. There is no encryption: on a network, a proxy with TLS goes before it.

    Ctrl-C ends it.
    """
    from h2gcn._validation import import_extra
    from h2gcn.estimator import load_bundle, read_manifest
    from h2gcn.io import usable_path
    from h2gcn.serving import (
        Answers,
        Limits,
        bind,
        build_app,
        is_loopback,
        make_token,
        read_token,
        run,
    )

    for package in ("fastapi", "uvicorn"):
        import_extra(package, "to serve a model")
    if quiet:
        warnings.simplefilter("ignore", H2GCNWarning)
    limits = Limits(
        body_bytes=max_bytes,
        ids=max_ids,
        new_nodes=max_nodes,
        new_edges=max_edges,
        seconds=max_seconds,
        at_once=max_requests,
        waiting=max_waiting,
    )
    if allow_host and not is_loopback(host):
        raise InputError(
            f"--allow-host is for addresses of this machine alone; on {host} requests "
            "may come by any name, with the token"
        )
    token, made = read_token(token_file), False
    if token is None and not is_loopback(host):
        token, made = make_token(), True
    usable_path(model_dir)
    bound = bind(host, port)
    with bound:
        classifier = load_bundle(model_dir)
        classifier.move(device, memory_limit=memory_limit)
        graph = src.load_as_trained(
            classifier, source, tables, memory_limit, label_required=False
        )
        if not quiet:
            for note in notes_of(graph):
                say(f"note: {note}")
            say(f"predicting the {graph.n_nodes:,} nodes of {graph.name}")
        start = time.perf_counter()
        answers = Answers(classifier, graph, read_manifest(model_dir).extra)
        if not quiet:
            say(f"predicted in {time.perf_counter() - start:.1f} s")

        def report(line: str, trace: str) -> None:
            say(f"error: {line}")
            for part in trace.splitlines() if os.environ.get("H2GCN_DEBUG") else ():
                say(part)

        hosts = None
        if is_loopback(host):
            hosts = {"127.0.0.1", "localhost", "::1", host, *(allow_host or ())}
        app = build_app(answers, limits, token=token, hosts=hosts, report=report)

        def ready() -> None:
            name, number = bound.getsockname()[:2]
            shown = f"[{name}]" if ":" in name else name
            if made:
                tell(f"token: {token}")
            tell(f"serving {model_dir} on http://{shown}:{number}")
            sys.stdout.flush()

        run(app, bound, ready)
