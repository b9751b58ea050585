"""What `h2gcn` exports is documented."""

import inspect
import re
from types import ModuleType

import pytest

import h2gcn

NAMES = sorted(set(h2gcn.__all__) - {"__version__"})


@pytest.mark.parametrize("name", NAMES)
def test_public_name_documents_its_parameters_or_shows_an_example(name: str) -> None:
    value = getattr(h2gcn, name)
    doc = inspect.getdoc(value) or ""
    sections = re.findall(r"^(Parameters|Examples)\n-+$", doc, re.MULTILINE)
    assert sections or (isinstance(value, ModuleType) and doc)


@pytest.mark.parametrize("name", [n for n in NAMES if n[0].isupper()])
def test_public_methods_have_docstrings(name: str) -> None:
    methods = inspect.getmembers(getattr(h2gcn, name), callable)
    public = [(key, method) for key, method in methods if not key.startswith("_")]
    assert [key for key, method in public if not inspect.getdoc(method)] == []
