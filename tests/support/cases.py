"""Many cases of one assertion within one test, for each test costs pytest 5 ms."""

import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch

__all__ = ["each"]

Test = TypeVar("Test", bound=Callable[..., None])


def each(
    names: str | Iterable[str],
    values: Iterable[Any],
    ids: Iterable[object] | Callable[[Any], object] | None = None,
) -> Callable[[Test], Test]:
    """Call a test with each of some values, as `pytest.mark.parametrize` does.

    It is one test to pytest, and ends with the first case that fails; the failure names
    the case. What a case could leave to the next is its own: torch's threads and random
    numbers, `tmp_path`, `monkeypatch`, and what `capsys` and others have caught. Other
    fixtures are made once, so a case must not change what they are. A case that skips
    leaves the others to be tried; the test is then skipped at its end.
    """
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",")]
    names, values = list(names), list(values)
    cases = [
        dict(zip(names, value if len(names) > 1 else [value], strict=True))
        for value in values
    ]
    if callable(ids):
        labels = [", ".join(str(ids(part)) for part in case.values()) for case in cases]
    elif ids is not None:
        labels = [str(label) for label in ids]
    else:
        labels = [
            ", ".join(f"{name}={_brief(part)}" for name, part in case.items())
            for case in cases
        ]
    assert len(labels) == len(cases) > 0

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)
        others = [p for p in signature.parameters.values() if p.name not in names]
        assert len(others) == len(signature.parameters) - len(names), names
        without = signature.replace(parameters=others)

        @functools.wraps(test)
        def in_turn(*args: Any, **kwargs: Any) -> None:
            __tracebackhide__ = True
            fixtures = without.bind(*args, **kwargs).arguments
            threads = torch.get_num_threads()
            skipped: BaseException | None = None
            for number, (case, label) in enumerate(zip(cases, labels, strict=True)):
                torch.set_num_threads(threads)
                torch.manual_seed(0)
                with ExitStack() as own:
                    given = {k: _own(k, v, number, own) for k, v in fixtures.items()}
                    try:
                        test(**given, **case)
                    except pytest.skip.Exception as reason:
                        skipped = reason
                    except BaseException as failure:
                        failure.add_note(f"Case {number + 1} of {len(cases)}: {label}")
                        raise
            if skipped is not None:
                raise skipped

        in_turn.__signature__ = without  # type: ignore[attr-defined]
        return in_turn  # type: ignore[return-value]

    return decorate


def _brief(value: Any) -> str:
    return getattr(value, "__name__", None) or reprlib.repr(value)


def _own(name: str, value: Any, number: int, own: ExitStack) -> Any:
    """Return a fixture as a case gets it: as if no case had been before."""
    if name == "tmp_path":
        folder: Path = value / str(number)
        folder.mkdir()
        return folder
    if name == "monkeypatch":
        return own.enter_context(value.context())
    if name in ("capsys", "capfd"):
        value.readouterr()
    elif name in ("caplog", "recwarn"):
        value.clear()
    return value
