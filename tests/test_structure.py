"""Rules about the source that neither ruff nor the import contracts check."""

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from support.cases import each

PACKAGE = Path(__file__).parents[1] / "src" / "h2gcn"


@functools.cache
def modules() -> dict[Path, ast.Module]:
    files = PACKAGE.rglob("*.py")
    return {file: ast.parse(file.read_text("utf-8")) for file in files}


def test_class_names_are_unique() -> None:
    names = Counter(
        node.name
        for tree in modules().values()
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_every_package_has_a_docstring() -> None:
    packages = [file for file in modules() if file.name == "__init__.py"]
    assert len(packages) > 10
    assert [file for file in packages if not ast.get_docstring(modules()[file])] == []


def test_imports_stay_with_public_interfaces() -> None:
    assert broken_imports(PACKAGE) == []


def test_library_messages_name_no_flags() -> None:
    flag = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
    named = []
    for file, tree in modules().items():
        if file.relative_to(PACKAGE).parts[0] == "cli":
            continue
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        named += [
            f"{file}:{node.lineno}: {node.value}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docs
            and flag.search(node.value)
        ]
    assert named == []


# ------------------------------------------------------- which imports are allowed


def broken_imports(package: Path) -> list[str]:
    """Return the imports of a package that reach past an interface, a line each.

    A module may import its siblings, and packages beside it or beside one that it is
    in; of a package it may import the public names, and nothing that is inside.
    """
    files = {module_of(file, package): file for file in sorted(package.rglob("*.py"))}
    broken = []
    for module, file in files.items():
        folder = module if file.name == "__init__.py" else module.rpartition(".")[0]
        tree = ast.parse(file.read_text("utf-8"))
        for source, name in imports(tree, package.name):
            if name == "__version__":
                continue
            target = f"{source}.{name}" if f"{source}.{name}" in files else source
            why = problem(folder.split("."), target.split("."), name)
            broken += [f"{module} imports {target}: {why}"] if why else []
    for stub in sorted(package.rglob("__init__.pyi")):
        room = module_of(stub, package)
        for node in ast.parse(stub.read_text("utf-8")).body:
            from_module = isinstance(node, ast.ImportFrom) and node.module is not None
            for name in node.names if from_module else ():
                if f"{room}.{name.asname or name.name}" in files:
                    broken.append(f"{room} exports {name.name}: a module hides it")
    return broken


def module_of(file: Path, package: Path) -> str:
    parts = file.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.Module, root: str) -> Iterator[tuple[str, str]]:
    """Yield what a module imports from its own package: the source and the name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [(name.name, "") for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found = [(node.module, name.name) for name in node.names]
        else:
            continue
        yield from (one for one in found if one[0].split(".")[0] == root)


def problem(folder: list[str], target: list[str], name: str) -> str:
    """Return why modules of a folder may not import a name from a module."""
    shared = 0
    while folder[shared : shared + 1] == target[shared : shared + 1] != []:
        shared += 1
    if shared == len(target):
        return "the module is in that package itself"
    if len(target) > shared + 1:
        return f"it is inside {'.'.join(target[: shared + 1])}"
    outside = shared < len(folder) and target[1:] != ["_validation"]
    if name.startswith("_") or (outside and target[-1].startswith("_")):
        return "it is private"
    return ""


HOUSE = {
    "__init__.py": "",
    "errors.py": "",
    "_validation.py": "",
    "cellar/__init__.py": "",
    "cellar/_pipes.py": "",
    "cellar/stairs.py": "from house.cellar._pipes import flow",
    "cellar/wine/__init__.py": "",
    "cellar/wine/rack.py": "from house.cellar.stairs import step",
    "cellar/boiler.py": "from house.cellar.wine import bottle",
    "hall/__init__.py": "",
    "hall/__init__.pyi": "from . import door as door\nfrom .door import bell as bell",
    "hall/door.py": "from house._validation import x\nfrom house.cellar import y",
    "hall/window.py": "from house import __version__, cellar\nimport house.errors",
}


def build(folder: Path, changes: dict[str, str]) -> Path:
    for name, text in (HOUSE | changes).items():
        file = folder / "house" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return folder / "house"


def test_allowed_imports_pass(tmp_path: Path) -> None:
    assert broken_imports(build(tmp_path, {})) == []


@each(
    ("text", "why"),
    [
        ("from house.cellar.boiler import heat", "it is inside house.cellar"),
        ("from house.cellar import boiler", "it is inside house.cellar"),
        ("from house.cellar.wine import bottle", "it is inside house.cellar"),
        ("import house.cellar.boiler", "it is inside house.cellar"),
        ("def f():\n    import house.cellar.boiler", "it is inside house.cellar"),
        ("from house.cellar import _heat", "it is private"),
        ("from house.hall.window import _pane", "it is private"),
        ("from house import _secret", "the module is in that package itself"),
        ("from house.hall import bell", "the module is in that package itself"),
    ],
)
def test_forbidden_imports_are_found(tmp_path: Path, text: str, why: str) -> None:
    (found,) = broken_imports(build(tmp_path, {"hall/door.py": text}))
    assert found.startswith("house.hall.door imports house")
    assert found.endswith(f": {why}")


def test_private_modules_belong_to_their_folder(tmp_path: Path) -> None:
    changes = {"_keys.py": "", "hall/door.py": "from house._keys import key"}
    (found,) = broken_imports(build(tmp_path, changes))
    assert found == "house.hall.door imports house._keys: it is private"


def test_an_exported_name_that_a_module_hides_is_found(tmp_path: Path) -> None:
    changes = {"hall/__init__.pyi": "from .door import window as window"}
    (found,) = broken_imports(build(tmp_path, changes))
    assert found == "house.hall exports window: a module hides it"
