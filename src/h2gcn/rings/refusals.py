"""Why a training is refused, and what would fit instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from h2gcn.rings.footprint import piece_size
from h2gcn.rings.forecast import RingForecast
from h2gcn.rings.needs import Needs
from h2gcn.rings.options import RingOptions
from h2gcn.sparse import gigabytes

__all__ = ["refusal", "ways_that_fit"]

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
    """Return the options that would fit with the bytes of each, and the least of all.

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

    offer((f"--ring-cap {c}", needs.capped(c, batch)) for c in caps)
    if needs.far and cap is None and options.store is None:
        offer([("--ring-store DIR", needs.elsewhere(batch))])
    alone = offer((f"--batch-size {b}", rows(needs, b)) for b in batches)
    if not fits:
        both = [(c, b) for c in caps for b in batches]
        offer((f"--ring-cap {c} --batch-size {b}", needs.capped(c, b)) for c, b in both)
    if not trained:
        if batch is not None:
            offer([("no --batch-size", needs.elsewhere())])
        return fits, min(sizes, default=needs.elsewhere(batch))
    if needs.far and needs.work.reach != 1 and not alone:
        one = needs.one_round()
        offer((f"--model h2gcn-1 --batch-size {b}", rows(one, b)) for b in batches)
    if needs.far:
        near = needs.without_rings().memory(batch)
        offer([("--model h2gcn-s1 (1-hop only)", near)])
    if not fits:
        offer(_without_graph(needs, batches))
    return fits, min(sizes)


def _without_graph(needs: Needs, batches: Sequence[int]) -> Iterator[tuple[str, int]]:
    yield "--model mlp (no graph)", needs.work.embedding_only(needs.n)
    for batch in batches:
        size = needs.work.embedding_only(needs.n, batch)
        yield f"--model mlp --batch-size {batch} (no graph)", size
