"""Version, extras and dependencies are each declared in one place."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import h2gcn
from h2gcn._validation import _EXTRAS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]


def test_installed_version_is_that_of_the_package() -> None:
    assert version("h2gcn") == h2gcn.__version__


def test_every_extra_that_is_named_exists() -> None:
    files = [*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/*.md"), *ROOT.glob("*.md")]
    text = "".join(file.read_text("utf-8") for file in files)
    named = {extra for _, extra in _EXTRAS.values()}
    for names in re.findall(r"(?:h2gcn|'\.)\[([a-z,]+)\]", text):
        named.update(names.split(","))
    assert named >= {"bench", "ray", "serve"}
    assert named <= EXTRAS.keys()


def test_every_extra_is_in_the_readme() -> None:
    _, _, table = (ROOT / "README.md").read_text("utf-8").partition("| extra | for |")
    for extra in EXTRAS:
        assert f"`{extra}`" in table.partition("\n\n")[0]


def test_no_dependency_of_users_is_bounded_twice() -> None:
    lines = [*PROJECT["dependencies"], *(line for e in EXTRAS.values() for line in e)]
    names = [re.match(r"[\w-]+", line)[0] for line in lines if "h2gcn[" not in line]
    assert len(names) == len(set(names))
