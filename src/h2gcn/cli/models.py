"""`h2gcn models`: what `--model` takes."""

from __future__ import annotations

import re
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

_DESIGNS = "D1 ego and neighbours apart · D2 two-hop ring · D3 all rounds combined"
_WORDS = {
    "alpha": "α",
    "gamma": "γ",
    "varepsilon": "ε",
    "phi": "φ",
    "psi": "ψ",
    "sigma": "σ",
    "Sigma": "Σ",
    "lambda": "λ",
    "Vert": "‖",
    "sum": "Σ",
    "prod": "∏",
    "otimes": "⊗",
    "propto": "∝",
    "neq": "≠",
    "in": "∈",
    "cup": "∪",
    "cdot": "·",
    "ldots": "…",
    "top": "ᵀ",
    "log": "log",
    "arg": "arg",
    "max": "max",
}
"""What TeX's words are in a terminal; those not here are about sizes and left out."""
_FORMULA = ".. math::\n"
_MARKS = {"hat": "\N{COMBINING CIRCUMFLEX ACCENT}", "tilde": "\N{COMBINING TILDE}"}
_MARKS["bar"] = "\N{COMBINING OVERLINE}"


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

    D1: a node is kept apart from its neighbours. D2: neighbours two steps away are
    looked at on their own. D3: every round's result reaches the classifier.
    """
    from h2gcn.estimator import AUTO
    from h2gcn.models import ALIASES, MODELS, find_model

    if name == AUTO:
        raise InputError(
            "auto is no model of its own: 'h2gcn train' fits a dozen of them, and the "
            "best answer together"
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
    tell("h2gcn models NAME tells more of one")


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
    """Print all there is to say about a model."""
    from h2gcn.models import ALIASES

    also = [other for other, model in ALIASES.items() if model == name]
    tell(f"{name}: {spec.summary}")
    tell(f"paper: {spec.paper}; designs: {spec.designs or 'none'}")
    if also:
        tell(f"also called {', '.join(also)}")
    jumping = bool(spec.fixed.get("jumping"))
    tell("", *_about(spec.module, jumping=jumping).splitlines(), "")
    if spec.fixed:
        fixed = [f"{k} {_setting_text(v) or '–'}" for k, v in spec.fixed.items()]
        tell(*textwrap.wrap(f"here with {', '.join(fixed)}", 80), "")
    texts = {"learning_rate": "Of the optimiser.", "l2": "Weight of the L2 penalty."}
    texts |= _option_texts(spec.module)
    rows = [
        (option, _setting_text(value), texts.get(option, ""))
        for option, value in spec.params.items()
    ]
    if rows:
        table("", ("option", "default", "what"), rows, text=3)
    tell(f"h2gcn train SOURCE --model {name} --option NAME=VALUE")
    if spec.epochs:
        tell("  and --learning-rate, --l2 for the training")


def _about(module: type, *, jumping: bool = False) -> str:
    """Return the first lines of a class's docstring, with the model's formula.

    The first formula is the plain model's. With `jumping`, what the docstring says
    after that word comes in place of the equations that define the same.
    """
    doc = (getdoc(module) or "").partition("\n\nParameters\n")[0]
    head, found, rest = doc.partition(_FORMULA)
    if not found:
        return _inline("\n\n".join(_with_formula(head, jumping=jumping)))
    equations = _equations(rest.split("\n\n")[0])
    if jumping:
        said = re.split(r"[Ww]ith `jumping`,?\s", rest, maxsplit=1)[-1]
        sentence, found, block = said.partition(_FORMULA)
        tex = block.split("\n\n")[0] if found else sentence.split(".\n")[0]
        changed = _equations(tex)
        kept = {name: equations[name] for name in equations if name not in changed}
        equations = kept | changed
    formula = "\n".join(f"    {equation}" for equation in equations.values())
    return f"{_inline(head).rstrip()}\n\n{formula}"


def _with_formula(doc: str, *, jumping: bool) -> list[str]:
    """Return the paragraphs up to the first formula, which is indented.

    With `jumping` the second one comes in its place, if there is one.
    """
    paragraphs = doc.split("\n\n")
    formulas = [i for i, text in enumerate(paragraphs) if text.startswith("    ")]
    if not formulas:
        return paragraphs[:1]
    shown = formulas[1 if jumping and len(formulas) > 1 else 0]
    return [*paragraphs[: formulas[0]], paragraphs[shown]]


def _option_texts(module: type) -> dict[str, str]:
    """Return what a class's docstring says of each parameter."""
    doc = getdoc(module) or ""
    section = doc.partition("\nParameters\n----------\n")[2].split("\n\n")[0]
    texts: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        if not line.startswith(" "):
            names = line.split(", ")
        for name in names if line.startswith(" ") else []:
            texts[name] = f"{texts.get(name, '')} {_inline(line.strip())}".strip()
    return texts


def _setting_text(value: Any) -> str:
    """Return a setting's value in few characters."""
    if value is None:
        return "none"
    if isinstance(value, tuple | list):
        return " ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value).lower()


def _equations(tex: str) -> dict[str, str]:
    """Return the equations of a formula as lines of text, by what they define."""
    lines = re.split(r",\s*\\q?quad", " ".join(tex.split()))
    return {line.partition(" = ")[0]: line for line in map(_plain, lines)}


def _inline(text: str) -> str:
    """Return a text without the marks of formulas and names."""
    text = re.sub(r":math:`([^`]*)`", lambda match: _plain(match[1]), text)
    return text.replace("`", "")


def _plain(tex: str) -> str:
    """Return a formula of TeX as a line of text."""
    text = re.sub(r"\\(?:text|mathrm)\{(\w*)\}", r"\1", tex)
    text = re.sub(r"\\frac\{(.*?)\}\{(.*?)\}", r"\1/\2", text)
    text = re.sub(r"\\(hat|tilde|bar) (\w)", lambda m: m[2] + _MARKS[m[1]], text)
    text = re.sub(r"\\[,; ]", " ", text)
    text = re.sub(r"\^\\top", "ᵀ", text)
    text = re.sub(r"\\([A-Za-z]+)", lambda match: _WORDS.get(match[1], ""), text)
    text = re.sub(r"\{(\(.*?\)|\w+'?)\}", r"\1", text).replace("\\", "")
    return " ".join(text.split()).replace("( ", "(").replace(" )", ")")
