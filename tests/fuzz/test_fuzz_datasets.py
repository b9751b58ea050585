"""Files of benchmarks, damaged and hostile: a graph or one line, nothing else."""

import gzip
import io
import pickle
import random
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from h2gcn import Graph
from h2gcn.datasets import ProductsFeatures, load_dataset
from h2gcn.exceptions import InputError
from support.tiny_benchmarks import AT_HAND, PRODUCTS, TINY, write_files

# An archive that numpy cannot open stays open until it is forgotten.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)

Damage = Callable[[bytes, random.Random], bytes]


def flip_bits(content: bytes, draw: random.Random) -> bytes:
    """Change some bits."""
    changed = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 8])):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def cut(content: bytes, draw: random.Random) -> bytes:
    """Leave out a part of it, often its end."""
    first, last = sorted(draw.choices(range(len(content) + 1), k=2))
    return content[:first] + (b"" if draw.random() < 0.5 else content[last:])


def repeat(content: bytes, draw: random.Random) -> bytes:
    """Have a part of it twice."""
    first, last = sorted(draw.choices(range(len(content) + 1), k=2))
    return content[:last] + content[first:]


def another_word(content: bytes, draw: random.Random) -> bytes:
    """Put another word in the place of one."""
    words = content.split() or [b""]
    others = [b"", b"-1", b"nan", b"1e400", b"9" * 30, b"9" * 5000, b"99999999999"]
    others += [b"1.5", b"\xff", b"\x00", "٣".encode(), b"1_0", b"0x1", b"True", b"\t\t"]
    return content.replace(draw.choice(words), draw.choice(others), 1)


def another_cell(content: bytes, draw: random.Random) -> bytes:
    """Put another word into a packed table."""
    table = gzip.decompress(content).replace(b",", b" , ")
    return gzip.compress(another_word(table, draw).replace(b" , ", b","))


ARRAYS: list[Callable[[Any], Any]] = [
    lambda array: array[:-1] if array.ndim else array,
    lambda array: array[..., None],
    lambda array: array.astype(str),
    lambda array: array.astype(object),
    lambda array: array.astype(complex),
    lambda array: array.astype(np.float64) * np.nan,
    lambda array: array.astype(np.float64) + 0.5,
    lambda array: -array.astype(np.int64) - 1,
    lambda array: array.astype(np.int64) + 10**11,
    lambda array: array.astype(np.uint64) + 2**63,
    lambda array: array.astype("datetime64[s]"),
    lambda array: array.astype([("a", float)]),
    lambda array: np.zeros((0, *array.shape[1:])),
    lambda _: np.array(7),
]
"""What an array of a file can be instead."""


def another_array(content: bytes, draw: random.Random) -> bytes:
    """Drop, change or exchange members of an archive."""
    with np.load(io.BytesIO(content)) as archive:
        arrays = dict(archive)
    key, other = draw.choice([*arrays]), draw.choice([*arrays])
    kind = draw.randrange(4)
    if kind == 0:
        del arrays[key]
    elif kind == 1:
        arrays[key], arrays[other] = arrays[other], arrays[key]
    else:
        arrays[key] = draw.choice(ARRAYS)(arrays[key])
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)  # an object is pickled
    return file.getvalue()


def another_header(content: bytes, draw: random.Random) -> bytes:
    """Change what the header of an archive's member says, under a right checksum."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(file, "w") as new:
        changed = draw.choice(old.namelist())
        for name in old.namelist():
            member = old.read(name)
            if name == changed:
                member = draw.choice([flip_bits, cut, another_size])(member, draw)
            new.writestr(name, member)
    return file.getvalue()


def another_size(member: bytes, draw: random.Random) -> bytes:
    """Let the header of an array speak of another shape."""
    size = draw.choice([b"(99999999999,)", b"(-1,)", b"(2, 99999999999)", b"('a',)"])
    start, end = member.index(b"("), member.index(b")") + 1
    header = member[:start] + size + member[end:]
    return header[:128].ljust(128) + header[128:]


def another_pickle(content: bytes, draw: random.Random) -> bytes:
    """Put another thing, or another number, into a pickle."""
    if draw.random() < 0.5:
        return another_number(content, draw)
    big = np.zeros(2, dtype=[("a", object), ("b", float)])
    things = [
        None,
        [],
        {},
        {0: [0]},
        {0: [10**30]},
        {-1: [0]},
        {0: 1},
        "text",
        1 << 999,
    ]
    things += [np.eye(2), np.eye(3), np.zeros((0, 2)), np.zeros(3), big, print, Path]
    things += [np.array([["a"]]), np.float64(1), {0.5: [0]}, dict.fromkeys(range(9), 1)]
    return pickle.dumps(draw.choice(things), draw.choice([0, 1, 2, 3, 4, 5]))


def another_number(content: bytes, draw: random.Random) -> bytes:
    """Let a step of a pickle speak of another length, number or place."""
    steps = b"KMJBCTUXqrhj\x8a\x8b\x95"
    place = draw.choice([i for i, byte in enumerate(content) if byte in steps])
    number = draw.choice([b"\xff\xff\xff\x7f", b"\xff" * 4, bytes(4)])
    return content[: place + 1] + number + content[place + 5 :]


def damages(place: str) -> list[Damage]:
    """Return what can be done to a file of a kind."""
    if place.endswith(".npz"):
        return [flip_bits, cut, repeat, another_array, another_header]
    if place.endswith((".mat", ".npy")):
        return [flip_bits, cut, repeat]
    if place.endswith((".txt", ".index", ".csv", ".yaml")):
        return [flip_bits, cut, repeat, another_word]
    if place.endswith(".gz"):
        return [flip_bits, cut, repeat, another_cell]
    return [flip_bits, cut, repeat, another_pickle, another_number]


def damaged(files: dict[str, bytes], draw: random.Random) -> dict[str, bytes]:
    """Return the files with one of them damaged, now and then twice."""
    place = draw.choice([*files])
    # Of ten splits each is as good as another.
    if "_split_" in place and draw.random() < 0.8:
        place = draw.choice([file for file in files if "_split_" not in file])
    content = draw.choice(damages(place))(files[place], draw)
    if content and draw.random() < 0.2:
        content = draw.choice([flip_bits, cut])(content, draw)
    return files | {place: content}


def outcome(act: Callable[[Path], object], files: dict[str, bytes]) -> object:
    """Return what comes of files: a thing, or the message by which they are refused."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_files(Path(folder), files)
        try:
            return act(Path(folder))
        except InputError as error:
            said = str(error)
    assert "\n" not in said
    assert folder in said, f"{said!r} names no file"
    return said


def load(name: str, files: dict[str, bytes], trust_data: bool = True) -> object:
    """Return the graph of a benchmark's files, or why it has none."""
    return outcome(
        lambda root: load_dataset(name, root=root, trust_data=trust_data), files
    )


@pytest.mark.parametrize("name", TINY)
def test_the_files_are_sound_before_they_are_damaged(name: str) -> None:
    graph = load(name, TINY[name])
    assert isinstance(graph, Graph)
    assert graph.n_edges >= 2


@pytest.mark.parametrize("name", TINY)
def test_a_damaged_benchmark_is_a_graph_or_one_line(name: str) -> None:
    @hypothesis.given(st.randoms(use_true_random=False))
    def check(draw: random.Random) -> None:
        assert isinstance(load(name, damaged(TINY[name], draw)), str | Graph)

    check()


@pytest.mark.parametrize("name", TINY)
def test_files_that_are_not_the_known_ones_are_refused(
    name: str,
) -> None:
    found = load(name, TINY[name], trust_data=False)
    # Of some benchmarks no checksum is known.
    known = name in AT_HAND or name.startswith("syn-cora/")
    assert ("is not the known file" in str(found)) == known


@hypothesis.given(st.randoms(use_true_random=False))
def test_damaged_features_of_products_are_rows_or_one_line(draw: random.Random) -> None:
    y = np.array([0, 1])

    def borrow(root: Path) -> Any:
        return ProductsFeatures(root).draw(y, np.random.default_rng(0))[0]

    found = outcome(borrow, damaged(PRODUCTS, draw))
    assert isinstance(found, str) or (len(found) == 2 and np.isfinite(found).all())
