"""What each way to keep rings takes, why one is refused, and which would fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from h2gcn.rings import blocked as blocked_ring, capped as ring_cap
from h2gcn.rings.footprint import (
    SLACK,
    RingOptions,
    Work,
    operator_bytes,
    piece_bytes,
    piece_size,
)
from h2gcn.rings.forecast import RingForecast
from h2gcn.sparse import gigabytes

__all__ = ["Needs", "refusal", "ways_that_fit"]

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
        held += round(SLACK * 4 * min(sum(self.far), ring_cap.BLOCK))
        return held + self.beside(self.near + drawn, batch)

    def elsewhere(self, batch: int | None = None) -> int:
        """Return the bytes with the rings beyond the first in no memory."""
        held = self.operators(self.near, batch) + 32 * self.n
        if batch is None:  # the dense side is scaled, and filled up, for each product
            block = BLOCK_ENTRY * min(max(self.far, default=0), blocked_ring.BLOCK)
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


CAPS, BATCHES = (64, 16), (1024, 256, 64)
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
