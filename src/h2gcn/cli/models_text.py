"""One model in words: what its docstring says, as plain text."""

from __future__ import annotations

import re
from inspect import getdoc
from typing import Any

__all__ = ["about", "option_texts", "setting_text"]

_WORDS = {
    "alpha": "α",
    "gamma": "γ",
    "varepsilon": "ε",
    "sigma": "σ",
    "Vert": "‖",
    "sum": "Σ",
    "in": "∈",
    "cup": "∪",
    "cdot": "·",
    "ldots": "…",
    "top": "ᵀ",
    "log": "log",
}
"""What TeX's words are in a terminal; those not here are about sizes and left out."""
_FORMULA = ".. math::\n"
_MARKS = {"hat": "\N{COMBINING CIRCUMFLEX ACCENT}", "tilde": "\N{COMBINING TILDE}"}
_MARKS["bar"] = "\N{COMBINING OVERLINE}"


def about(module: type, *, jumping: bool = False) -> str:
    """Return the first lines of a class's docstring, with the model's formula.

    The first formula is the plain model's. With `jumping`, what the docstring says
    after that word comes in place of the equations that define the same.
    """
    doc = (getdoc(module) or "").partition("\n\nParameters\n")[0]
    head, found, rest = doc.partition(_FORMULA)
    if not found:
        return _inline(head.split("\n\n")[0])
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


def option_texts(module: type) -> dict[str, str]:
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


def setting_text(value: Any) -> str:
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
