"""What a refused call says of it, field by field."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from h2gcn.exceptions import InputError

__all__ = ["only", "refused"]


@contextmanager
def refused(
    kind: type[InputError] = InputError, *, words: str = "", **fields: Any
) -> Iterator[pytest.ExceptionInfo[InputError]]:
    """Expect an error whose fields have these values and whose text has these words."""
    with pytest.raises(kind) as caught:
        yield caught
    error = caught.value
    for name, wanted in fields.items():
        value = getattr(error, name)
        # By type and text: NaN is not equal to itself, and 1 is equal to True.
        same = type(value) is type(wanted) and repr(value) == repr(wanted)
        assert same, f"{name} is {value!r}, not {wanted!r}: {error}"
    assert words in str(error), f"{words!r} is not in {str(error)!r}"


def only(options: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an error about the one option of a call."""
    ((param, value),) = options.items()
    return {"param": param, "value": value}
