"""`h2gcn models`: what `--model` takes."""

from __future__ import annotations

import json
from typing import Annotated

import typer

__all__ = ["command"]


def command(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object.")
    ] = False,
) -> None:
    """List the models, and which of the paper's designs each follows.

    D1: a node is kept apart from its neighbours. D2: neighbours two steps away are
    looked at on their own. D3: every round's result reaches the classifier.
    """
    from h2gcn.cli.output import table
    from h2gcn.models import ALIASES, MODELS

    if as_json:
        listed = [
            {
                "name": name,
                "designs": spec.designs.split(),
                "summary": spec.summary,
                "paper": spec.paper,
                "arguments": dict(spec.fixed),
            }
            for name, spec in MODELS.items()
        ]
        print(json.dumps({"models": listed, "aliases": ALIASES}))
        return
    rows = [
        (name, spec.summary, spec.designs or "–", spec.paper)
        for name, spec in MODELS.items()
    ]
    table("models", ("name", "what", "designs", "paper"), rows, text=4)
    print("D1 ego and neighbours apart · D2 two-hop ring · D3 all rounds combined")
