"""Pickles of arrays are read; what else they ask for is refused in one line."""

import collections
import pickle
import pickletools
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from h2gcn.datasets.formats import read_array, read_lists, read_matrix
from h2gcn.exceptions import InputError


def refused(path: Path, content: bytes, read: Callable[[Path], Any]) -> str:
    """Return the words in which a pickle is refused, without the file's name."""
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


@pytest.mark.parametrize("protocol", [3, 4])
@pytest.mark.parametrize("kind", ["f4", "f8", ">f8", "i1", "u2", "i8", "bool"])
def test_arrays_of_numbers(tmp_path: Path, protocol: int, kind: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(kind)
    for given in (array, np.asfortranarray(array), array[:0]):
        (path := tmp_path / "y").write_bytes(pickle.dumps(given, protocol))
        read = read_array(path)
        assert read.dtype == given.dtype.newbyteorder("=")
        assert read.tolist() == given.tolist()


@pytest.mark.parametrize("protocol", [3, 4])
def test_matrices(tmp_path: Path, protocol: int) -> None:
    dense = np.array([[0, 1.5, 0], [2, 0, 0]])
    for given in (sp.csr_matrix(dense), dense):
        (path := tmp_path / "x").write_bytes(pickle.dumps(given, protocol))
        assert read_matrix(path).toarray().tolist() == dense.tolist()


@pytest.mark.parametrize("protocol", [0, 1, 2, 4])
def test_lists(tmp_path: Path, protocol: int) -> None:
    lists = {0: [1, 2], 1: [0], 70_000: []}
    given = collections.defaultdict(list, lists) if protocol else lists
    (path := tmp_path / "graph").write_bytes(pickle.dumps(given, protocol))
    assert read_lists(path) == lists


def test_strings_of_python_2(tmp_path: Path) -> None:
    # As Planetoid has them: bytes in strings, and the names of old modules.
    content = (
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85"
        b"U\x01b\x87R(K\x01K\x01K\x02\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R"
        b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x02\x07\xfftb."
    )
    (path := tmp_path / "y").write_bytes(content)
    assert read_array(path).tolist() == [[7, 255]]


# ---------------------------------------------------------------------------- hostile


def test_nothing_is_run(tmp_path: Path) -> None:
    class Payload:
        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return Path.touch, (tmp_path / "executed",)

    for read in (read_array, read_matrix, read_lists):
        said = refused(tmp_path / "x", pickle.dumps(Payload()), read)
        assert said.startswith("the pickle names pathlib.")
        assert said.endswith("which no array needs; it was not read")
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"Nr\xff\xff\xff\x7f.", "calls its thing 1 number 2,147,483,647"),
        (b"Np4000000000\n.", "calls its thing 1 number 4,000,000,000"),
        (b"\x80\x04\x8e" + struct.pack("<Q", 2**40) + b".", "not a pickle of arrays"),
        (b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b".", "not a pickle of arrays"),
        (b"\x80\x05\x96" + struct.pack("<Q", 1) + b"a.", "takes the step BYTEARRAY8"),
        (b"T\xff\xff\xff\x7f.", "not a pickle of arrays"),
        (b"G\x00\x00\x00\x00\x00\x00\x00\x00.", "takes the step BINFLOAT"),
        (b"Pid\n.", "takes the step PERSID"),
        (b"\x82\x01.", "takes the step EXT1"),
        (b"(cnumpy\ndtype\no.", "takes the step OBJ"),
        (b"", "not a pickle of arrays"),
        (b"0.", "not a pickle of arrays"),
        (b"N.", "it must hold"),
        (b"cnumpy\nndarray\n)R.", "a thing that is none of arrays and lists"),
    ],
)
def test_a_few_bytes_ask_in_vain(tmp_path: Path, content: bytes, said: str) -> None:
    for read in (read_array, read_matrix, read_lists):
        assert said in refused(tmp_path / "x", content, read)


def test_a_pickle_has_not_too_many_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("h2gcn.datasets.formats.MOST_STEPS", 10)
    content = b"N0" * 6 + b"N."
    assert refused(tmp_path / "x", content, read_lists) == (
        "a pickle must have at most 10 steps."
    )


def test_blanks_cannot_be_changed(tmp_path: Path) -> None:
    # The step BUILD on a class would set its fields, for every later pickle too.
    for name in (b"numpy\ndtype", b"numpy\nndarray", b"collections\ndefaultdict"):
        content = b"\x80\x02c" + name + b"\nN}U\x09__slots__K\x01s\x86b."
        assert "b" in {step.code for step, *_ in pickletools.genops(content)}
        refused(tmp_path / "x", content, read_array)
    from h2gcn.datasets import formats

    assert {blank.__slots__ for blank in formats._BLANKS.values()} == {()}


# ------------------------------------------------------------------------- impossible


def array_of(shape: object, kind: str, content: object) -> bytes:
    """Return a pickle of an array with a state of our own."""

    class Forged:
        def __reduce__(self) -> tuple[object, ...]:
            function, arguments, _ = np.zeros(1).__reduce__()
            return function, arguments, (1, shape, np.dtype(kind), False, content)

    return pickle.dumps(Forged(), 3)


@pytest.mark.parametrize(
    ("shape", "kind", "content", "said"),
    [
        (
            *((10**11, 1), "f8", b"12345678"),
            "an array of shape (100000000000, 1) takes 800,000,000,000 bytes, got 8",
        ),
        ((-1, 1), "f8", b"", "the shape of an array must be counts."),
        ((2**70, 1), "f8", b"", "the shape of an array must be counts."),
        (("a", 1), "f8", b"", "the shape of an array must be counts."),
        ((1,) * 9, "f8", bytes(8), "the shape of an array must be counts."),
        ((1,), "f8", bytes(8), "it must hold an array of two dimensions."),
        ((1, 1), "O", bytes(8), "an array must hold numbers, got type O8"),
        ((1, 1), "S8", bytes(8), "an array must hold numbers, got type S8"),
        ((1, 1), "f8", [0.0], "takes the step BINFLOAT"),
        ((1, 1), "f8", [0], "an array must be bytes of one type."),
    ],
)
def test_an_array_that_cannot_be(
    tmp_path: Path, shape: object, kind: str, content: object, said: str
) -> None:
    given = array_of(shape, kind, content)
    assert said in refused(tmp_path / "y", given, read_array)


def matrix_of(**changes: Any) -> bytes:
    """Return a pickle of a matrix, [2, 3], with some parts changed."""
    matrix = sp.csr_matrix(np.array([[0, 1.5, 0], [2, 0, 0]]))
    for name, value in changes.items():
        setattr(matrix, name, value)
    return pickle.dumps(matrix, 3)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"_shape": (2, 10**11)},
            "at most 1,000,000 columns, got shape (2, 1000",
        ),
        ({"_shape": (10**11, 3)}, "a matrix of 100,000,000,000 rows has"),
        ({"_shape": (2,)}, "a matrix must have two sides"),
        ({"_shape": None}, "the shape of an array must be counts."),
        ({"indices": np.array([0, 3])}, "the file is damaged"),
        ({"indices": np.array([0, -1])}, "the file is damaged"),
        ({"indices": np.array([0.0, 1.0])}, "the indices of a matrix must be integers"),
        ({"indptr": np.array([0, 2, 1])}, "the file is damaged"),
        ({"indptr": np.array([0, 1])}, "a matrix of 2 rows has 3 pointers"),
        ({"indptr": np.array([0, 1, 10**12])}, "the file is damaged"),
        ({"data": np.array([1.0, np.nan])}, "a matrix must hold finite numbers."),
        ({"data": np.array([1.0])}, "the file is damaged"),
        ({"data": None}, "a matrix must have data, indices and indptr."),
    ],
)
def test_a_matrix_that_cannot_be(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    assert said in refused(tmp_path / "x", matrix_of(**changes), read_matrix)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([[1]], "it must hold a dictionary of lists."),
        ({"a": [1]}, "it must hold a dictionary of lists."),
        ({1: (1,)}, "it must hold a dictionary of lists."),
        ({True: [1]}, "it must hold a dictionary of lists."),
        ({1: ["a"]}, "its lists must hold integers."),
        (dict.fromkeys(range(50), [1] * 99), "its lists are longer together than the"),
    ],
)
def test_lists_that_cannot_be(tmp_path: Path, given: object, said: str) -> None:
    assert said in refused(tmp_path / "graph", pickle.dumps(given, 2), read_lists)
