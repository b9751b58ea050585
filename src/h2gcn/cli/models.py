"""`h2gcn models`: what `--model` takes."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from inspect import getdoc
from typing import TYPE_CHECKING, Annotated, Any

import typer

from h2gcn.cli.console import table, tell, tell_json
from h2gcn.cli.options import AsJson, complete_model
from h2gcn.exceptions import InputError

if TYPE_CHECKING:
    from h2gcn.models import ModelSpec

__all__ = ["command"]

_DESIGNS = "D1 ego and neighbors apart · D2 two-hop ring · D3 all rounds combined"


def command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="One model, in full.",
            show_default=False,
            autocompletion=complete_model,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the models and their options, and which of the paper's designs each follows.

    D1: a node is kept apart from its neighbors. D2: neighbors two steps away are used
    on their own. D3: the result of every round reaches the classifier.
    """
    from h2gcn.estimator import AUTO
    from h2gcn.models import ALIASES, MODELS, find_model

    if name == AUTO:
        raise InputError(
            "auto is not a model of its own: 'h2gcn train' fits a dozen models and "
            "combines the best"
        )
    if name is not None:
        found = find_model(name)
        name = ALIASES.get(name, name)
        if as_json:
            tell_json(_entry(name, found))
        else:
            _show(name, found)
        return
    if as_json:
        listed = [_entry(name, spec) for name, spec in MODELS.items()]
        tell_json({"models": listed, "aliases": ALIASES})
        return
    usual = MODELS["mlp"].options
    rows = [
        (name, spec.designs or "–", f"{spec.summary}\n{_options(spec, usual)}")
        for name, spec in MODELS.items()
    ]
    table("models", ("name", "designs", "what; paper; options"), rows, text=3)
    tell(_DESIGNS)
    tell(f"usual options: {_listed(usual)}")
    tell("h2gcn models NAME shows one of them")


def _options(spec: ModelSpec, usual: Mapping[str, Any]) -> str:
    """Return a model's paper and options, those that most models have in a word."""
    if not usual.items() <= spec.options.items():
        return f"{spec.paper}; {_listed(spec.options) or 'no options'}"
    more = {k: v for k, v in spec.options.items() if k not in usual}
    # Of a preset, what makes it one; the others stand in its own list.
    shown = {k: v for k, v in more.items() if not spec.defaults or k in spec.defaults}
    listed = f", {_listed(shown)}" if shown else ""
    others = ", and others" if len(shown) < len(more) else ""
    return f"{spec.paper}; usual options{listed}{others}"


def _listed(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_setting_text(v)}" for name, v in options.items())


def _entry(name: str, spec: ModelSpec) -> dict[str, Any]:
    rates = {"learning_rate": spec.learning_rate, "l2": spec.l2}
    return {
        "name": name,
        "designs": spec.designs.split(),
        "summary": spec.summary,
        "paper": spec.paper,
        "arguments": dict(spec.fixed),
        "options": spec.options,
        "training": rates if spec.epochs else {},
    }


def _show(name: str, spec: ModelSpec) -> None:
    """Print all there is to know about a model."""
    from h2gcn.models import ALIASES

    also = [other for other, model in ALIASES.items() if model == name]
    tell(f"{name}: {spec.summary}")
    tell(f"paper: {spec.paper}; designs: {spec.designs or 'none'}")
    if also:
        tell(f"also called {', '.join(also)}")
    jumping = bool(spec.fixed.get("jumping"))
    tell("", *_summary(spec.module, jumping=jumping).splitlines(), "")
    if spec.fixed:
        fixed = [f"{k} {_setting_text(v) or '–'}" for k, v in spec.fixed.items()]
        tell(*textwrap.wrap(f"here with {', '.join(fixed)}", 80), "")
    texts = {"learning_rate": "Learning rate", "l2": "Weight of the L2 penalty"}
    texts |= {name: option.help for name, option in spec.described_options.items()}
    rows = [
        (name, _setting_text(value), texts[name]) for name, value in spec.params.items()
    ]
    if rows:
        table("", ("option", "default", "what"), rows, text=3)
    tell(f"h2gcn train SOURCE --model {name} --option NAME=VALUE")
    if spec.epochs:
        tell("  and --learning-rate, --l2 for the training")


def _summary(module: type, *, jumping: bool) -> str:
    """Return a class's docstring up to the model's formula, which is indented.

    With `jumping` the second formula stands in for the first.
    """
    paragraphs = (getdoc(module) or "").split("\n\n")
    formulas = [i for i, text in enumerate(paragraphs) if text.startswith("    ")]
    if not formulas:
        return paragraphs[0].replace("`", "")
    shown = formulas[1 if jumping and len(formulas) > 1 else 0]
    return "\n\n".join([*paragraphs[: formulas[0]], paragraphs[shown]]).replace("`", "")


def _setting_text(value: Any) -> str:
    """Return a setting's value in few characters."""
    if value is None:
        return "none"
    if isinstance(value, tuple | list):
        return " ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value).lower()
