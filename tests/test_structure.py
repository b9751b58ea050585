"""Rules about the source that neither ruff nor the import contracts check."""

import ast
import functools
import re
from collections import Counter
from pathlib import Path

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


def test_other_packages_are_imported_by_their_public_names() -> None:
    wrong = [
        f"{file}:{node.lineno}"
        for file, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("h2gcn.")
        and node.module.count(".") > 1
        and node.module.split(".")[1] != file.relative_to(PACKAGE).parts[0]
    ]
    assert wrong == []


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
