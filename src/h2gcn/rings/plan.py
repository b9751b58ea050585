"""Where rings are kept: what each way needs, which is taken, and what would fit.

A ring that is never whole in memory is in a file, or computed when it is needed.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import CSR
from h2gcn.io import cannot_read, plain_path, whole_file, write_whole
from h2gcn.rings.exact import (
    capped_ring,
    exact_rings,
    is_weighted,
    normalised_ring,
    ring_pattern,
    ring_scale,
    ring_sizes,
    row_blocks,
)
from h2gcn.rings.footprint import (
    RING_CAP,
    SLACK,
    RingForecast,
    RingOptions,
    Work,
    forecast_ring,
    forecast_seconds,
    in_words,
    is_long,
    operator_bytes,
    piece_bytes,
    piece_size,
)
from h2gcn.sparse import (
    Operator,
    available_memory,
    csr_tensor,
    gigabytes,
    product,
    row_starts,
)

__all__ = [
    "BlockedRing",
    "ComputedRing",
    "Needs",
    "RingOptions",
    "RingPlan",
    "RingSource",
    "StoredRing",
    "build_rings",
    "check_memory",
    "plan_rings",
    "refusal",
    "store_ring",
    "ways_that_fit",
]

BLOCK = 2**23
"""Entries that are multiplied at once, about."""
STORED_BLOCK = 2**24
"""Entries of a ring that are made together, about."""
READ = 2**26
"""Bytes of a file that are looked at together."""
FORMAT = 2


class RingSource(Protocol):
    """Gives the rows of a symmetric, binary ring."""

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of entries in each row, [n]."""
        ...

    def pattern(
        self, index: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the columns of the rows `index`, and where each row begins."""
        ...


class ComputedRing:
    """A ring whose rows are computed each time they are asked for.

    Parameters
    ----------
    adj
        Symmetric, binary, without self-loops, [n, n].
    hop
        The distance, at least 2.
    """

    def __init__(self, adj: CSR, *, hop: int = 2) -> None:
        self._adj, self._hop = adj, hop

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of entries in each row, [n]."""
        return ring_sizes(self._adj, self._hop)

    def pattern(
        self, index: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the columns of the rows `index`, and where each row begins."""
        return ring_pattern(self._adj, self._hop, index, self.sizes[index])


class BlockedRing:
    """The normalised ring of a graph, or some rows of it, multiplied block by block.

    Parameters
    ----------
    source
        Where its rows come from.
    self_loops
        Whether each node is in its own ring too.
    index
        Which rows; None for all.
    """

    device = torch.device("cpu")

    def __init__(
        self,
        source: RingSource,
        *,
        self_loops: bool = False,
        index: NDArray[np.int64] | None = None,
    ) -> None:
        self._source, self._self_loops = source, self_loops
        self._scale = ring_scale(source.sizes + self_loops)
        n = len(self._scale)
        self._nodes = np.arange(n) if index is None else index
        self._whole = index is None
        self.shape = (len(self._nodes), n)

    def __matmul__(self, dense: Tensor) -> Tensor:
        return product(_Forward(self), lambda: _Transposed(self), dense)

    def rows(self, index: NDArray[np.int64]) -> BlockedRing:
        """Return the rows `index` as an operator of their own, [len(index), n]."""
        nodes = self._nodes[index]
        return BlockedRing(self._source, self_loops=self._self_loops, index=nodes)

    def take(self, index: NDArray[np.int64]) -> CSR:
        """Return the rows `index` as a matrix, [len(index), n]."""
        nodes, shape = self._nodes[index], (len(index), self.shape[1])
        columns, starts = self._source.pattern(nodes)
        values = np.repeat(self._scale[nodes], np.diff(starts)) * self._scale[columns]
        matrix = CSR((values, columns, starts), shape=shape)
        if self._self_loops:
            places = (np.arange(len(nodes)), nodes)
            ego = sp.coo_array((self._scale[nodes] ** 2, places), shape=shape)
            matrix = CSR(matrix + CSR(ego))
        return matrix

    def multiply(self, dense: Tensor) -> Tensor:
        """Return the rows' product with a dense matrix [n, c], [m, c]."""
        scale = torch.from_numpy(self._scale)[:, None]
        scaled = scale * dense
        result = dense.new_empty(self.shape[0], dense.shape[1])
        for places, columns, starts in self._blocks():
            block = csr_tensor(
                torch.from_numpy(starts.astype(np.int32)),
                torch.from_numpy(columns),
                dense.new_ones(len(columns)),
                (len(places), self.shape[1]),
            )
            result[places] = block @ scaled
        nodes = torch.from_numpy(self._nodes)
        if self._self_loops:
            result += scaled[nodes]
        return result.mul_(scale[nodes])

    def multiply_transposed(self, dense: Tensor) -> Tensor:
        """Return the product of the rows' transpose with a dense matrix [m, c], [n, c].

        The whole ring is symmetric, and multiplies faster than rows are scattered:
        where these are many, it multiplies zeros in the other rows' places.
        """
        if self._whole:
            return self.multiply(dense)
        sizes, nodes = self._source.sizes, torch.from_numpy(self._nodes)
        if 2 * sizes[self._nodes].sum() > sizes.sum():
            padded = dense.new_zeros(self.shape[1], dense.shape[1])
            padded.index_add_(0, nodes, dense)
            whole = BlockedRing(self._source, self_loops=self._self_loops)
            return whole.multiply(padded)
        scale = torch.from_numpy(self._scale)[:, None]
        scaled = scale[nodes] * dense
        result = dense.new_zeros(self.shape[1], dense.shape[1])
        for places, columns, starts in self._blocks():
            ones = np.ones(len(columns), dtype=self._scale.dtype)
            shape = (self.shape[1], len(places))
            block = sp.csc_array((ones, columns, starts), shape=shape)
            result += torch.from_numpy(block @ scaled[places].numpy())
        if self._self_loops:
            result.index_add_(0, nodes, scaled)
        return result.mul_(scale)

    def _blocks(
        self,
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]]:
        """Return the rows, some at a time, in the order in which the source has them.

        Of each block, the places of its rows among all, their columns, and where each
        row begins.
        """
        order = np.argsort(self._nodes, kind="stable")
        nodes = self._nodes[order]
        for first, last in row_blocks(self._source.sizes[nodes], BLOCK):
            yield order[first:last], *self._source.pattern(nodes[first:last])


class _Forward:
    """A blocked ring's product, for autograd."""

    def __init__(self, ring: BlockedRing) -> None:
        self._ring = ring

    def __matmul__(self, dense: Tensor) -> Tensor:
        return self._ring.multiply(dense)


class _Transposed(_Forward):
    """The product of its transpose, for gradients."""

    def __matmul__(self, dense: Tensor) -> Tensor:
        return self._ring.multiply_transposed(dense)


# ----------------------------------------------------------------------- rings in files


@dataclass(frozen=True)
class StoredRing:
    """The pattern of a ring in a file.

    Parameters
    ----------
    columns
        The columns of all entries, row by row, mapped from the file, [nnz].
    starts
        Where each row begins, [n + 1].
    """

    columns: NDArray[np.int32]
    starts: NDArray[np.int64]

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of entries in each row, [n]."""
        return np.diff(self.starts)

    def pattern(
        self, index: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the columns of the rows `index`, and where each row begins."""
        sizes, begin = self.sizes[index], self.starts[index]
        starts = row_starts(sizes)
        if len(index) and (np.diff(index) == 1).all():  # as they lie in the file
            place = slice(begin[0], begin[0] + starts[-1])
            return np.asarray(self.columns[place]), starts
        places = np.repeat(begin - starts[:-1], sizes) + np.arange(starts[-1])
        return np.asarray(self.columns[places]), starts


def store_ring(adj: CSR, folder: Path, *, hop: int = 2) -> StoredRing:
    """Return ring `hop` of a graph from its file, which is made if it is not there.

    Each graph has a folder of its own in `folder`, named by a checksum of its edges.
    The file takes four bytes an entry, and is whole or not there at all. One that is
    found is read once to compare it with its checksum; a damaged one is made again.

    Parameters
    ----------
    adj
        Symmetric, binary, without self-loops, [n, n].
    folder
        Where the rings of graphs are kept.
    hop
        The distance, at least 2.
    """
    home = folder / _checksum(adj)
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be used ({error.strerror})") from None
    file, starts_file = home / f"ring-{hop}.int32", home / f"ring-{hop}.starts.npy"
    notes = home / f"ring-{hop}.json"
    if not _is_whole(file, starts_file, notes):
        about = _write(adj, hop, file, starts_file)
        write_whole(notes, json.dumps(about).encode())
    starts = np.load(starts_file)
    if not starts[-1]:
        return StoredRing(np.zeros(0, dtype=np.int32), starts)
    # Copy on write: torch takes no memory that it may not write to.
    return StoredRing(np.memmap(file, dtype=np.int32, mode="c"), starts)


def _write(adj: CSR, hop: int, file: Path, starts_file: Path) -> dict[str, object]:
    """Write a ring; return what is noted of it once it is there."""
    sizes = ring_sizes(adj, hop)
    starts = row_starts(sizes)
    needed, free = 4 * int(starts[-1]), shutil.disk_usage(file.parent).free
    if needed > free:
        raise InputError(
            f"{file.parent}: ring {hop} takes {gigabytes(needed)}, but "
            f"{gigabytes(free)} are free on this disk"
        )
    checksum = 0
    with whole_file(file) as out:
        for first, last in row_blocks(sizes, STORED_BLOCK):
            nodes = np.arange(first, last)
            columns, _ = ring_pattern(adj, hop, nodes, sizes[first:last])
            part = columns.tobytes()
            checksum = zlib.crc32(part, checksum)
            out.write(part)
    stream = io.BytesIO()
    np.save(stream, starts)
    write_whole(starts_file, stream.getvalue())
    return {
        "format": FORMAT,
        "entries": int(starts[-1]),
        "columns_crc32": checksum,
        "starts_crc32": zlib.crc32(stream.getvalue()),
    }


def _is_whole(file: Path, starts: Path, notes: Path) -> bool:
    """Whether the files are there as they were written, and to their end."""
    try:
        if not notes.exists():  # they are written last
            return False
        for path in (file, starts, notes):
            plain_path(path)
        about = json.loads(notes.read_bytes())
        if (
            about["format"] == FORMAT
            and file.stat().st_size == 4 * about["entries"]
            and _crc32(starts) == about["starts_crc32"]
            and _crc32(file) == about["columns_crc32"]
        ):
            return True
    except FileNotFoundError:
        pass  # one of the others is gone
    except OSError as error:
        raise cannot_read(Path(error.filename or file), error) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        pass  # not the notes of a ring
    warnings.warn(
        f"{file}: is damaged, or of another version of h2gcn; it is made again",
        H2GCNWarning,
        stacklevel=3,
    )
    return False


def _crc32(file: Path) -> int:
    checksum = 0
    with file.open("rb", buffering=0) as stream:
        while part := stream.read(READ):
            checksum = zlib.crc32(part, checksum)
    return checksum


def _checksum(adj: CSR) -> str:
    digest = hashlib.sha256(adj.indptr.astype(np.int64).tobytes())
    digest.update(adj.indices.astype(np.int32).tobytes())
    return digest.hexdigest()[:16]


# ------------------------------------------------------------------ where they are kept


DRAWING = 20
"""Bytes for each node while rings are drawn: who was seen, and the ring of one."""
BLOCK_ENTRY = 28
"""Bytes for one of a block: rows that do not follow one another are looked up."""


@dataclass(frozen=True)
class Needs:
    """What training on a graph takes, for each way to keep its rings.

    Parameters
    ----------
    n
        Number of nodes.
    near, far
        Entries of the operators that are always in memory, and of the rings beyond
        the first, one number each.
    work
        What the training takes beside them.
    symmetric
        Whether the operators are.
    """

    n: int
    near: tuple[int, ...]
    far: tuple[int, ...]
    work: Work
    symmetric: bool = True

    def memory(self, batch: int | None = None) -> int:
        """Return the bytes with everything in memory."""
        held = self.operators(self.near + self.far, batch)
        return held + self.beside(self.near + self.far, batch)

    def capped(self, cap: int, batch: int | None = None) -> int:
        """Return the bytes with at most `cap` entries in a row of a ring."""
        drawn = self._capped(cap)
        # A drawn ring is not symmetric: a product after another has its transpose.
        own = batch is None and self.work.reach != 1
        held = self.operators(self.near, batch)
        held += self.operators(drawn, batch, symmetric=not own)
        # What threads have drawn before it is joined, and a ring at a time of each.
        held += round(SLACK * (4 * sum(drawn) + DRAWING * self.n))
        return held + self.beside(self.near + drawn, batch)

    def elsewhere(self, batch: int | None = None) -> int:
        """Return the bytes with the rings beyond the first in no memory."""
        held = self.operators(self.near, batch) + 32 * self.n
        if batch is None:  # the dense side is scaled, and filled up, for each product
            block = BLOCK_ENTRY * min(max(self.far, default=0), BLOCK)
            held += round(SLACK * (block + 12 * self.n * self.work.width))
        return held + self.beside(self.near + self.far, batch)

    def beside(self, entries: Sequence[int], batch: int | None) -> int:
        """Return the bytes that a step takes beside the operators as they are kept."""
        if batch is None:
            return self.work.whole(self.n, sum(entries))
        rows, nodes = piece_size(entries, self.n, batch, self.work.reach or 0)
        taken = rows * sum(entries) // max(self.n, 1)
        work = self.work.batch(self.n, nodes, batch, taken)
        return piece_bytes(entries, self.n, rows) + work

    def without_rings(self) -> Needs:
        """Return the needs of the same model on the first ring alone."""
        return replace(self.one_round(), far=())

    def one_round(self) -> Needs:
        """Return about the needs of the same model with a single product."""
        return replace(self, work=replace(self.work, reach=1))

    def _capped(self, cap: int) -> tuple[int, ...]:
        return tuple(min(size, cap * self.n) for size in self.far)

    def operators(
        self, entries: Sequence[int], batch: int | None, *, symmetric: bool = True
    ) -> int:
        """Return the bytes of operators of so many entries each."""
        whole = batch is None
        return sum(
            operator_bytes(
                size,
                self.n,
                train=self.work.n_train / max(self.n, 1) if whole else 0.0,
                val=self.work.n_val / max(self.n, 1) if whole else 0.0,
                self_loops=self.work.self_loops,
                symmetric=symmetric and self.symmetric,
            )
            for size in entries
        )


CAPS, BATCHES = (RING_CAP, 16), (1024, 256, 64)
"""What is proposed. On the benchmarks, accuracy does not suffer from a cap of 64."""


def refusal(
    needs: Needs,
    forecast: RingForecast | None,
    options: RingOptions,
    need: int,
    limit: float,
) -> str:
    """Return why a training is refused, and which of the other ways would fit.

    Parameters
    ----------
    needs
        Of the model that was asked for.
    forecast
        Of its rings; None where it has none beyond the first.
    options
        What was asked for.
    need
        What that takes, in bytes.
    limit
        Bytes that there are.
    """
    entries = needs.near + needs.far
    beside = gigabytes(needs.beside(entries, options.batch))
    doing = "training" if needs.work.n_train else "prediction"
    if forecast is None:
        what = f"the {doing} will not fit in memory: {gigabytes(need)}"
    elif options.cap is not None:
        what = f"the capped rings will not fit in memory: {gigabytes(need)}"
        what += f" with the {doing}, of {forecast}"
    elif options.batch is not None:
        rows = piece_size(entries, needs.n, options.batch, needs.work.reach or 0).rows
        what = (
            f"a batch of {options.batch:,} nodes will not fit in memory: {beside} for "
            f"about {rows:,} rows of the rings ({forecast}) and the {doing}"
        )
    else:
        what = f"the rings will not fit in memory: {forecast}, and {beside} for the "
        what += doing
    fits, least = ways_that_fit(needs, options, limit)
    disk = gigabytes(4 * sum(needs.far))
    said = "; ".join(
        f"{way}: {gigabytes(size)}" + (f" and {disk} on disk" if "store" in way else "")
        for way, size in fits.items()
    )
    have = f"the limit is {gigabytes(limit)}"
    if options.limit is None:
        have = f"{gigabytes(limit)} are free"
    advice = f"what fits: {said}"
    if not fits:
        advice = f"nothing fits: {gigabytes(least)} at least"
    return f"{what}, but {have}; {advice}"


def ways_that_fit(
    needs: Needs, options: RingOptions, limit: float
) -> tuple[dict[str, int], int]:
    """Return the arguments that would fit with the bytes of each, and the least of all.

    Parameters
    ----------
    needs
        Of the model that was asked for.
    options
        What was asked for, and does not fit.
    limit
        Bytes that there are.
    """
    sizes: list[int] = []
    fits: dict[str, int] = {}

    def offer(ways: Iterable[tuple[str, int]]) -> bool:
        """Take the first of some like ways that fits, if one does."""
        for way, size in ways:
            sizes.append(size)
            if size <= limit:
                fits[way] = size
                return True
        return False

    cap, batch, trained = options.cap, options.batch, bool(needs.work.n_train)
    caps = [c for c in CAPS if trained and needs.far and (cap is None or c < cap)]
    batches = [b for b in BATCHES if b < (batch or needs.n)]
    if needs.work.reach is None:
        batches = []

    def rows(of: Needs, size: int) -> int:
        return of.elsewhere(size) if cap is None else of.capped(cap, size)

    offer((f"ring_cap={c}", needs.capped(c, batch)) for c in caps)
    if needs.far and cap is None and options.store is None:
        offer([("ring_store=…", needs.elsewhere(batch))])
    alone = offer((f"batch_size={b}", rows(needs, b)) for b in batches)
    if not fits:
        both = [(c, b) for c in caps for b in batches]
        offer((f"ring_cap={c} and batch_size={b}", needs.capped(c, b)) for c, b in both)
    if not trained:
        if batch is not None:
            offer([("no 'batch_size'", needs.elsewhere())])
        return fits, min(sizes, default=needs.elsewhere(batch))
    if needs.far and needs.work.reach != 1 and not alone:
        one = needs.one_round()
        offer((f"model='h2gcn-1' and batch_size={b}", rows(one, b)) for b in batches)
    if needs.far:
        near = needs.without_rings().memory(batch)
        offer([("model='h2gcn-s1' (1-hop only)", near)])
    if not fits:
        offer(_without_graph(needs, batches))
    return fits, min(sizes)


def _without_graph(needs: Needs, batches: Sequence[int]) -> Iterator[tuple[str, int]]:
    yield "model='mlp' (no graph)", needs.work.embedding_only(needs.n)
    for batch in batches:
        size = needs.work.embedding_only(needs.n, batch)
        yield f"model='mlp' and batch_size={batch} (no graph)", size


MEMORY, CAPPED, DISK, ON_DEMAND = "memory", "capped", "disk", "on demand"


@dataclass(frozen=True)
class RingPlan:
    """Where the rings of a graph shall live, and how large they are.

    Parameters
    ----------
    hops
        The rings that are wanted.
    options
        What they may take.
    storage
        Of those beyond the first: "memory", "capped", "disk" or "on demand".
    forecast
        Of their size; None where there are none beyond the first.
    """

    hops: tuple[int, ...]
    options: RingOptions
    storage: str
    forecast: RingForecast | None


def plan_rings(
    adj: CSR,
    hops: Sequence[int],
    options: RingOptions,
    *,
    device: torch.device | str = "cpu",
) -> RingPlan:
    """Choose where the rings of a graph shall live, or say why none of it fits.

    Parameters
    ----------
    adj
        Symmetric, binary, without self-loops, [n, n].
    hops
        The rings that are wanted.
    options
        What they may take.
    device
        Where those in memory live.
    """
    hops = tuple(hops)
    if max(hops, default=0) < 2:
        check_memory(adj.shape[0], (int(adj.nnz),) * len(hops), options)
        return RingPlan(hops, options, MEMORY, None)
    forecast = forecast_ring(adj, hops=max(hops))
    sizes = {hop: forecast.entries[hop - 1] for hop in hops}
    near, far = (
        tuple(size for hop, size in sizes.items() if (hop > 1) == beyond)
        for beyond in (False, True)
    )
    needs = Needs(adj.shape[0], near, far, options.work)
    forecast = replace(forecast, bytes=needs.operators(near + far, options.batch))
    storage = _choose_storage(needs, forecast, options)
    if storage == DISK and not options.on_demand and str(device) != "cpu":
        raise InputError(
            "rings in a file are multiplied by the processor: add device='cpu', or "
            "train in batches ('batch_size')"
        )
    return RingPlan(hops, options, storage, forecast)


def _choose_storage(needs: Needs, forecast: RingForecast, options: RingOptions) -> str:
    """Return the first storage that fits, or raise with those that would."""
    limit = _limit(options)
    if options.cap is not None:
        need = needs.capped(options.cap, options.batch)
        if need <= limit:
            return CAPPED
    else:
        need = needs.memory(options.batch)
        if need <= limit:
            return MEMORY
        if options.store is not None or options.on_demand:
            need = needs.elsewhere(options.batch)
            if need <= limit:
                return ON_DEMAND if options.store is None else DISK
    raise InputError(refusal(needs, forecast, options, need, limit))


def check_memory(
    n: int, entries: Sequence[int], options: RingOptions, *, symmetric: bool = True
) -> None:
    """Refuse to train where a model's operators and the training do not fit.

    Parameters
    ----------
    n
        Number of nodes.
    entries
        Stored entries of each operator, self-loops left out.
    options
        What training may take.
    symmetric
        Whether they are symmetric.
    """
    needs = Needs(n, tuple(entries), (), options.work, symmetric)
    need, limit = needs.memory(options.batch), _limit(options)
    if need > limit:
        raise InputError(refusal(needs, None, options, need, limit))


def _limit(options: RingOptions) -> float:
    return available_memory() if options.limit is None else options.limit


def build_rings(
    adj: CSR,
    plan: RingPlan,
    *,
    self_loops: bool = False,
    device: torch.device | str = "cpu",
) -> tuple[Operator | BlockedRing, ...]:
    """Return the normalised rings of a graph as they were planned, [n, n] each.

    Parameters
    ----------
    adj
        Symmetric, without self-loops, [n, n]. What its pairs weigh, if it is not
        binary, counts in the first ring; further ones are of steps.
    plan
        Of `plan_rings` for this graph.
    self_loops
        Whether each node is in its own rings too.
    device
        Where those in memory live.
    """
    options, storage = plan.options, plan.storage
    _say(plan, adj.shape[0])
    first = exact_rings(adj, hops=1)[0]
    near = adj if is_weighted(adj) else first

    def ring(hop: int) -> Operator | BlockedRing:
        if hop > 1 and storage == ON_DEMAND:
            return BlockedRing(ComputedRing(first, hop=hop), self_loops=self_loops)
        if hop > 1 and storage == DISK:
            assert options.store is not None
            stored = store_ring(first, options.store, hop=hop)
            return BlockedRing(stored, self_loops=self_loops)
        if hop > 1 and storage == CAPPED:
            assert options.cap is not None
            capped = capped_ring(
                first, options.cap, hop=hop, seed=options.seed, self_loops=self_loops
            )
            return Operator(capped, device=device)
        source = near if hop == 1 else first
        matrix = normalised_ring(source, hop, self_loops=self_loops)
        return Operator(matrix, symmetric=True, device=device)

    return tuple(ring(hop) for hop in plan.hops)


def _say(plan: RingPlan, n: int) -> None:
    """Tell what was chosen, where there was a choice, and what takes long."""
    storage, forecast, options = plan.storage, plan.forecast, plan.options
    if forecast is None or options.cap is not None:
        return
    if storage == MEMORY and options.store is not None:
        said = f"the rings fit in memory ({forecast}); {options.store} is not needed"
    elif storage == MEMORY and is_long(forecast, n, options.work):
        said = f"the rings are large: {forecast}; {_times(plan, n)}"
    elif storage == DISK:
        size = gigabytes(4 * sum(forecast.entries[1:]))
        said = (
            f"the rings would not fit in memory ({forecast}); {size} of them are kept "
            f"in {options.store}; {_times(plan, n)}"
        )
    elif storage == ON_DEMAND:
        said = (
            f"the rings would not fit in memory ({forecast}); their rows are computed "
            "when they are needed"
        )
    else:
        return
    warnings.warn(said, H2GCNWarning, stacklevel=2)


def _times(plan: RingPlan, n: int) -> str:
    """Return about how long the exact rings take, and that a cap makes it shorter."""
    assert plan.forecast is not None
    work = plan.options.work
    seconds = forecast_seconds(plan.forecast, n, work)
    said = f"it takes {in_words(seconds.build)} to build them"
    if not work.n_train:
        return said
    if plan.options.batch is None:
        said += f" and {in_words(seconds.epoch)} an epoch"
    return f"{said}; ring_cap={RING_CAP} takes a sample of each node's"
