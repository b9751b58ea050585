"""The rooms of docs/architecture.md have walls, and what looks for holes finds them."""

import ast
from collections import Counter
from pathlib import Path

import pytest

from support.walls import broken_walls, read_order

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "h2gcn"
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")


def test_no_wall_of_the_house_is_broken() -> None:
    assert broken_walls(PACKAGE, read_order(PAGE), speaks_flags="cli") == []


def test_the_root_holds_rooms_and_little_else() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= 4


def test_no_two_classes_have_one_name() -> None:
    found = Counter(
        node.name
        for file in PACKAGE.rglob("*.py")
        for node in ast.parse(file.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in found.items() if count > 1] == []


def test_every_room_says_in_a_docstring_what_it_gives() -> None:
    for init in PACKAGE.rglob("__init__.py"):
        assert init.read_text("utf-8").startswith('"""'), init


# --------------------------------------------------------------- a house with holes

ORDER = {
    "house": ["errors", "_validation", "cellar", "hall", "roof"],
    "house.cellar": ["_pipes", "stairs", "boiler"],
    "house.hall": ["door", "window"],
    "house.roof": ["tiles"],
}
FILES = {
    "__init__.py": "",
    "errors.py": "",
    "_validation.py": "",
    "cellar/__init__.py": "",
    "cellar/_pipes.py": "",
    "cellar/stairs.py": "from house.cellar._pipes import flow",
    "cellar/boiler.py": "from house.cellar.stairs import step",
    "hall/__init__.py": "",
    "hall/door.py": "from house._validation import x\nfrom house.cellar import y",
    "hall/window.py": "from house import __version__",
    "roof/__init__.py": "",
    "roof/tiles.py": "from house.errors import Leak\nX = 'use --flag'",
}


def build(folder: Path, changes: dict[str, str]) -> Path:
    """Write the house, with some files changed."""
    package = folder / "house"
    for name, text in (FILES | changes).items():
        file = package / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return package


def test_a_sound_house_has_no_hole(tmp_path: Path) -> None:
    assert broken_walls(build(tmp_path, {}), ORDER, speaks_flags="roof") == []


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        (
            {"cellar/boiler.py": "from house.hall import view"},
            "house.cellar.boiler imports house.hall, which comes after it",
        ),
        (
            {"cellar/boiler.py": "def f():\n    from house.hall import view"},
            "house.cellar.boiler imports house.hall, which comes after it",
        ),
        (
            {"cellar/boiler.py": "import house.roof"},
            "house.cellar.boiler imports house.roof, which comes after it",
        ),
        (
            {"cellar/stairs.py": "from house.cellar import boiler"},
            "house.cellar.stairs imports house.cellar.boiler, which comes after it",
        ),
        (
            {"hall/door.py": "from house.cellar.boiler import heat"},
            "house.hall.door reaches into house.cellar for house.cellar.boiler",
        ),
        (
            {"hall/door.py": "from house.cellar import boiler"},
            "house.hall.door reaches into house.cellar for house.cellar.boiler",
        ),
        (
            {"hall/door.py": "from house.cellar._pipes import flow"},
            "house.hall.door imports house.cellar._pipes, which is private to its "
            "folder",
        ),
        (
            {"hall/door.py": "from house.hall import bell"},
            "house.hall.door imports from house.hall, a room that it is in itself",
        ),
        (
            {"hall/door.py": "from house import Bell"},
            "house.hall.door imports from house, a room that it is in itself",
        ),
        (
            {"hall/door.py": "from . import window"},
            "house.hall.door has a relative import",
        ),
        (
            {"hall/door.py": "raise ValueError(f'{1} is too much; use --less')"},
            "house.hall.door line 1 names a flag: --less",
        ),
        (
            {"hall/attic.py": ""},
            "house.hall.attic is not in the order of rooms",
        ),
        (
            {"hall/__init__.pyi": "from .door import window as window"},
            "house.hall gives window, which is also a file of it",
        ),
    ],
)
def test_a_hole_is_found(tmp_path: Path, changes: dict[str, str], found: str) -> None:
    package = build(tmp_path, changes)
    assert found in broken_walls(package, ORDER, speaks_flags="roof")


def test_a_room_that_is_only_on_the_page_is_found(tmp_path: Path) -> None:
    package = build(tmp_path, {})
    (package / "roof" / "tiles.py").unlink()
    found = broken_walls(package, ORDER, speaks_flags="roof")
    assert found == ["house.roof.tiles is only in the order of rooms"]


def test_a_docstring_may_name_a_flag(tmp_path: Path) -> None:
    package = build(tmp_path, {"hall/door.py": '"""Opened by --open."""'})
    assert broken_walls(package, ORDER, speaks_flags="roof") == []


def test_the_order_is_read_from_the_page() -> None:
    page = (
        "| room | what | files |\n| --- | --- | --- |\n"
        "| `house/` | rooms | `errors`, `hall/` |\n"
        "| `house/hall/` | a hall | `door` |\n"
    )
    assert read_order(page) == {"house": ["errors", "hall"], "house.hall": ["door"]}
