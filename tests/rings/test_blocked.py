"""Rings that are never whole in memory: in a file, or computed when needed."""

import errno
import json
import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, strategies as st

from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.rings import (
    BlockedRing,
    exact_rings,
    normalise,
    plan as ring_plan,
)
from h2gcn.rings.plan import ComputedRing, RingSource, store_ring
from h2gcn.sparse import Operator, gigabytes
from support.cases import each
from support.graphs import NAMED, adjacency, random_adjacency


def source_of(kind: str, folder: Path, adj: sp.csr_array, hop: int = 2) -> RingSource:
    if kind == "file":
        return store_ring(adj, folder, hop=hop)
    return ComputedRing(adj, hop=hop)


def exact(adj: sp.csr_array, self_loops: bool, hop: int = 2) -> np.ndarray:
    return normalise(exact_rings(adj, hops=hop)[-1], self_loops=self_loops).toarray()


@each("kind", ["file", "computed"])
@each("self_loops", [False, True])
@each("hop", [2, 3])
@each("seed", range(6))
def test_products_and_gradients_are_those_of_the_exact_ring(
    kind: str,
    seed: int,
    hop: int,
    self_loops: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ring_plan, "BLOCK", 7)  # several blocks
    adj = random_adjacency(seed)
    n = adj.shape[0]
    ring = BlockedRing(source_of(kind, tmp_path, adj, hop), self_loops=self_loops)
    matrix = torch.from_numpy(exact(adj, self_loops, hop))
    order = np.random.default_rng(seed).permutation(n)
    most, few = order[: max(1, 3 * n // 4)], order[: max(1, n // 4)]
    cuts = [(ring.rows(index), matrix[index]) for index in (most, few)]
    for ours, dense in ((ring, matrix), *cuts):
        assert ours.shape == tuple(dense.shape)
        b = torch.randn(n, 3, requires_grad=True)
        weight = torch.randn(dense.shape[0], 3)
        (expected,) = torch.autograd.grad(((dense @ b) * weight).sum(), b)
        product = ours @ b
        (gradient,) = torch.autograd.grad((product * weight).sum(), b)
        torch.testing.assert_close(product, dense @ b, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(gradient, expected, rtol=1e-5, atol=1e-6)


@each("kind", ["file", "computed"])
@each("self_loops", [False, True])
def test_rows_as_a_matrix(kind: str, self_loops: bool, tmp_path: Path) -> None:
    adj = random_adjacency(11)
    ring = BlockedRing(source_of(kind, tmp_path, adj), self_loops=self_loops)
    index = np.array([4, 0, 2, 2])
    taken, whole = ring.take(index), exact(adj, self_loops)
    assert isinstance(taken, sp.csr_array)
    np.testing.assert_allclose(taken.toarray(), whole[index], rtol=1e-6)
    again = ring.rows(index).take(np.array([1, 3]))
    np.testing.assert_allclose(again.toarray(), whole[[0, 2]], rtol=1e-6)
    assert ring.take(np.zeros(0, dtype=np.int64)).shape == (0, adj.shape[0])


def test_no_more_than_a_block_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_plan, "BLOCK", 40)
    adj = adjacency(21, [(0, v) for v in range(1, 21)])
    asked = []

    class Spy(ComputedRing):
        def pattern(self, index):  # type: ignore[no-untyped-def]
            asked.append(self.sizes[index].sum())
            return super().pattern(index)

    BlockedRing(Spy(adj)) @ torch.randn(adj.shape[0], 2)
    longest = ComputedRing(adj).sizes.max()
    assert len(asked) > 1
    assert max(asked) <= 40 + longest


def test_the_gradient_of_few_rows_asks_for_no_others() -> None:
    adj, asked = random_adjacency(3), list[int]()

    class Spy(ComputedRing):
        def pattern(self, index):  # type: ignore[no-untyped-def]
            asked.extend(index.tolist())
            return super().pattern(index)

    few = np.argsort(ComputedRing(adj).sizes, kind="stable")[:2]
    dense = torch.randn(adj.shape[0], 2, requires_grad=True)
    (BlockedRing(Spy(adj)).rows(few) @ dense).sum().backward()
    assert set(asked) == set(few.tolist())


@given(st.integers(0, 40))
def test_agrees_with_the_operator_in_memory(seed: int) -> None:
    adj = random_adjacency(seed)
    b = torch.randn(adj.shape[0], 4)
    memory = Operator(normalise(exact_rings(adj)[1]), symmetric=True)
    torch.testing.assert_close(
        BlockedRing(ComputedRing(adj)) @ b, memory @ b, rtol=1e-5, atol=1e-6
    )


# --------------------------------------------------------------------------- files


def test_a_file_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adj = NAMED["triangle with tail"]
    first = store_ring(adj, tmp_path)
    assert isinstance(first.columns, np.memmap)

    def never(*_: object) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(ring_plan, "ring_pattern", never)
    again = store_ring(adj, tmp_path)
    assert np.array_equal(first.columns, again.columns)
    assert np.array_equal(first.starts, again.starts)


def test_graphs_do_not_share_files(tmp_path: Path) -> None:
    one, two = store_ring(NAMED["path"], tmp_path), store_ring(NAMED["star"], tmp_path)
    assert one.sizes.tolist() == [1, 1, 2, 1, 1]
    assert two.sizes.tolist() == [0, 3, 3, 3, 3]
    third = store_ring(NAMED["path"], tmp_path, hop=3)
    assert third.sizes.tolist() == [1, 1, 0, 1, 1]
    assert store_ring(NAMED["path"], tmp_path).sizes.tolist() == [1, 1, 2, 1, 1]


def test_blocks_of_the_file_make_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ring_plan, "STORED_BLOCK", 5)
    adj = random_adjacency(9)
    stored, ring = store_ring(adj, tmp_path), exact_rings(adj)[1]
    assert np.array_equal(stored.columns, ring.indices)
    assert np.array_equal(stored.starts, ring.indptr)


DAMAGES: dict[str, tuple[str, bytes | None]] = {
    "truncated": ("int32", np.arange(11, dtype=np.int32).tobytes()),
    "another column": ("int32", np.arange(12, dtype=np.int32).tobytes()),
    "no file": ("int32", None),
    "other starts": ("starts.npy", b"PK, but no archive"),
    "empty starts": ("starts.npy", b""),
    "no starts": ("starts.npy", None),
    "broken notes": ("json", b"{"),
    "notes without words": ("json", b"[]"),
    "notes that lack something": ("json", b'{"format": 2}'),
    "another version": ("json", b'{"format": 1, "entries": 12}'),
}


@each("damage", DAMAGES)
def test_a_damaged_file_is_made_again_aloud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setattr(ring_plan, "READ", 7)  # several reads
    adj, (suffix, content) = NAMED["star"], DAMAGES[damage]
    before = np.array(store_ring(adj, tmp_path).columns)
    (home,) = tmp_path.iterdir()
    file = home / f"ring-2.{suffix}"
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    with pytest.warns(
        H2GCNWarning, match=r"ring-2\.int32: is damaged, or of .*; it is made again$"
    ):
        again = store_ring(adj, tmp_path)
    assert np.array_equal(again.columns, before)
    assert np.array_equal(store_ring(adj, tmp_path).columns, before)  # in silence


def test_a_file_that_was_never_finished_is_made_in_silence(tmp_path: Path) -> None:
    before = np.array(store_ring(NAMED["star"], tmp_path).columns)
    (notes,) = tmp_path.glob("*/*.json")
    notes.unlink()
    assert np.array_equal(store_ring(NAMED["star"], tmp_path).columns, before)
    assert notes.is_file()


@each("suffix", ["int32", "starts.npy", "json"])
def test_a_file_that_may_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    store_ring(NAMED["star"], tmp_path)
    original = Path.open

    def refuse(path: Path, *args: Any, **options: Any) -> Any:
        if path.name == f"ring-2.{suffix}":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return original(path, *args, **options)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(
        InputError, match=rf"ring-2\.{suffix}: cannot be read \(Permission denied\)$"
    ):
        store_ring(NAMED["star"], tmp_path)


def test_a_file_just_written_is_not_read_to_check_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ring_plan, "_crc32", pytest.fail)
    store_ring(NAMED["star"], tmp_path)
    monkeypatch.undo()
    (columns,) = tmp_path.glob("*/*.int32")
    (notes,) = tmp_path.glob("*/*.json")
    noted = json.loads(notes.read_text())
    assert noted["columns_crc32"] == zlib.crc32(columns.read_bytes())


def test_an_interrupted_write_leaves_nothing_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ring_plan, "ring_pattern", broken)
        with pytest.raises(KeyboardInterrupt):
            store_ring(NAMED["star"], tmp_path)
    assert not list(tmp_path.glob("*/*"))
    assert store_ring(NAMED["star"], tmp_path).sizes.sum() == 12


def test_two_that_write_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    adj = random_adjacency(9)
    with ThreadPoolExecutor(4) as pool:
        rings = list(pool.map(lambda _: store_ring(adj, tmp_path), range(8)))
    for ring in rings:
        assert np.array_equal(ring.columns, exact_rings(adj)[1].indices)
    assert len(list(tmp_path.glob("*/*"))) == 3


def test_a_ring_without_entries(tmp_path: Path) -> None:
    ring = BlockedRing(store_ring(adjacency(3, []), tmp_path))
    assert torch.equal(ring @ torch.ones(3, 2), torch.zeros(3, 2))


def test_a_disk_without_room_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from collections import namedtuple

    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(100, 60, 40))
    with pytest.raises(InputError) as caught:
        store_ring(NAMED["star"], tmp_path)
    needed, free = gigabytes(4 * 12), gigabytes(40)
    assert str(caught.value).endswith(
        f": ring 2 takes {needed}, but {free} are free on this disk"
    )


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file: cannot be used \(Not a directory\)"):
        store_ring(NAMED["star"], tmp_path / "file")


def test_a_pipe_in_the_store_is_replaced(tmp_path: Path) -> None:
    store_ring(NAMED["star"], tmp_path)
    notes = list(tmp_path.rglob("*.json"))
    assert notes
    for path in notes:
        path.unlink()
        os.mkfifo(path)
    with pytest.warns(H2GCNWarning, match="it is made again"):
        store_ring(NAMED["star"], tmp_path)
    assert all(path.is_file() for path in notes)
