"""The rooms of docs/architecture.md are those of the package, in order of imports."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "h2gcn"
EVERYWHERE = {"exceptions", "templates"}
"""Of no room: what all may raise, and what pages are made of."""


def rooms() -> dict[str, int]:
    """Return the row of each module or package in the table of rooms."""
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return {
        name: number
        for number, row in enumerate(rows)
        for name in re.findall(r"`(\w+)(?:\.py|/)`", row)
    }


def imported(file: Path) -> Iterator[str]:
    """Yield the modules and packages of ours that a file imports when it is loaded."""
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module == "h2gcn":
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            package, _, rest = node.module.partition(".")
            if package == "h2gcn":
                yield rest.partition(".")[0]


def test_every_module_has_its_room() -> None:
    there = {path.stem for path in SOURCE.iterdir() if not path.name.startswith("_")}
    assert there - {"py"} - EVERYWHERE == {n for n in rooms() if not n.startswith("_")}


@pytest.mark.parametrize(
    "file", sorted(SOURCE.rglob("*.py")), ids=lambda f: str(f.relative_to(SOURCE))
)
def test_a_room_imports_from_rooms_above_it(file: Path) -> None:
    order = rooms()
    own = file.relative_to(SOURCE).parts[0].removesuffix(".py")
    below = [n for n in imported(file) if order.get(n, -1) > order.get(own, 99)]
    assert below == []
