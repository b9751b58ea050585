"""The rules of the house: which module may import what, and what it may say.

`broken_walls` reads a package as text, imports nothing, and returns each rule that is
broken as a sentence. The order of rooms, and of the files inside each, is the one of
docs/architecture.md.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

__all__ = ["Order", "broken_walls", "read_order"]

Order = Mapping[str, Sequence[str]]
"""The children of each package, files and folders, first to last."""
SHARED = "_validation"
"""The private module of the root that every room may import."""
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def read_order(page: str) -> dict[str, list[str]]:
    """Return the order of a page: rows of room, what it gives, its files in order."""
    order = {}
    for line in page.splitlines():
        if line.startswith("| `"):
            room, _, files = (cell.strip() for cell in line.strip("|").split("|"))
            name = room.strip("`").rstrip("/").replace("/", ".")
            order[name] = re.findall(r"`(\w+)/?`", files)
    return order


def broken_walls(package: Path, order: Order, *, speaks_flags: str) -> list[str]:
    """Return what is wrong with a package, a sentence each.

    Parameters
    ----------
    package
        Its folder.
    order
        The children of each of its packages, by dotted name.
    speaks_flags
        The one room whose messages may name a flag of the command line.
    """
    files = {_name(file, package): file for file in sorted(package.rglob("*.py"))}
    known = set(files)
    found = list(_unlisted(known, package, order))
    for module, file in files.items():
        tree = ast.parse(file.read_text("utf-8"))
        is_init = file.name == "__init__.py"
        for target in sorted(set(_imports(tree, known, package.name))):
            found += _judge_import(module, target, order, is_init=is_init)
        if module.split(".")[1:2] != [speaks_flags]:
            found += [
                f"{module} line {line} names a flag: {flag}"
                for line, flag in _flags(tree)
            ]
    for stub in sorted(package.rglob("__init__.pyi")):
        found += _hidden_names(stub, _name(stub, package))
    return found


def _name(file: Path, package: Path) -> str:
    parts = file.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _unlisted(known: set[str], package: Path, order: Order) -> Iterator[str]:
    """Yield the modules that the order does not have, and the other way round."""
    there = {name for name in known if name != package.name}
    listed = {f"{room}.{child}" for room, names in order.items() for child in names}
    for name in sorted(there ^ listed):
        yield f"{name} is {'not in' if name in there else 'only in'} the order of rooms"


def _imports(tree: ast.Module, known: set[str], root: str) -> Iterator[str]:
    """Yield the modules of the package that a module imports, late or for types."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.split(".")[0] == root)
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield f"{root}.(relative import)"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == (
            root
        ):
            assert node.module is not None
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                if inner in known:
                    yield inner
                elif node.module != root or name.name != "__version__":
                    yield node.module


def _judge_import(
    module: str, target: str, order: Order, *, is_init: bool
) -> Iterator[str]:
    importer, imported = module.split("."), target.split(".")
    if imported[-1].startswith("("):
        yield f"{module} has a relative import"
        return
    folder = importer if is_init else importer[:-1]
    depth = 0
    while depth < min(len(folder), len(imported)) and folder[depth] == imported[depth]:
        depth += 1
    if depth == len(imported):
        yield f"{module} imports from {target}, a room that it is in itself"
        return
    child = imported[depth]
    if len(imported) > depth + 1:
        yield f"{module} reaches into {'.'.join(imported[: depth + 1])} for {target}"
    private = any(part.startswith("_") for part in imported)
    if private and depth < len(folder) and imported[1:] != [SHARED]:
        yield f"{module} imports {target}, which is private to its folder"
    if depth < len(importer):
        listed = list(order.get(".".join(imported[:depth]), ()))
        own = importer[depth]
        if (
            own in listed
            and child in listed
            and listed.index(child) > listed.index(own)
        ):
            yield f"{module} imports {target}, which comes after it"


def _flags(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield flags of a command line in texts that are no docstrings."""
    docs = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) in docs:
                continue
            for flag in _FLAG.findall(node.value):
                yield node.lineno, flag


def _hidden_names(stub: Path, room: str) -> Iterator[str]:
    """Yield the names of a room that one of its files hides once it is imported."""
    children = {file.stem for file in stub.parent.glob("*.py")}
    children |= {folder.name for folder in stub.parent.iterdir() if folder.is_dir()}
    for node in ast.parse(stub.read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for name in node.names:
                if (name.asname or name.name) in children:
                    yield f"{room} gives {name.name}, which is also a file of it"
