"""One model in words: what its docstring says, as plain text."""

from __future__ import annotations

import re
from inspect import getdoc
from typing import Any

__all__ = ["about", "option_texts", "setting_text"]

_WORDS = {
    "alpha": "α",
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
_MARKS = {"hat": "\N{COMBINING CIRCUMFLEX ACCENT}", "tilde": "\N{COMBINING TILDE}"}
_MARKS["bar"] = "\N{COMBINING OVERLINE}"


def about(module: type) -> str:
    """Return the first lines of a class's docstring, with the first formula."""
    doc = getdoc(module) or ""
    head, found, rest = doc.partition("\n\nParameters\n")[0].partition(".. math::\n")
    if not found:
        return _inline(head.split("\n\n")[0])
    tex = rest.split("\n\n")[0]
    lines = re.split(r",\s*\\q?quad", " ".join(tex.split()))
    formula = "\n".join(f"    {_plain(line)}" for line in lines)
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
