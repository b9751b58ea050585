"""What the parameters of a classifier say about the rings and the memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from h2gcn.rings.footprint import Work

__all__ = ["RingOptions"]

WIDTH = 64
"""Of the embedding of a model that does not say."""


@dataclass(frozen=True)
class RingOptions:
    """What the rings may take, and how.

    Parameters
    ----------
    cap
        At most so many entries in a row of a ring beyond the first; None for all.
    store
        A folder for rings that do not fit in memory.
    seed
        Of the draw of a capped ring.
    limit
        Bytes that may be used; None for what the machine has free.
    work
        What is done with them; by default nothing is trained.
    on_demand
        Whether rows may be computed each time they are needed.
    batch
        How many nodes are taken together; None for all.
    """

    cap: int | None = None
    store: Path | None = None
    seed: int = 0
    limit: float | None = field(default=None, compare=False)
    work: Work = field(default=Work(), compare=False)
    on_demand: bool = field(default=False, compare=False)
    batch: int | None = field(default=None, compare=False)

    @classmethod
    def of(
        cls,
        params: dict[str, Any],
        seed: int,
        work: Work | None = None,
        *,
        on_demand: bool,
    ) -> RingOptions:
        """Return what the parameters of a `NodeClassifier` ask for.

        Parameters
        ----------
        params
            By name.
        seed
            Of the draw of a capped ring.
        work
            What training takes beside the rings; None for a prediction.
        on_demand
            Whether rows may be computed each time they are needed.
        """
        if work is None:
            work = Work.of_prediction(params.get("hidden_channels") or WIDTH)
        cap, store, limit = (
            params[name] for name in ("ring_cap", "ring_store", "memory_limit")
        )
        return cls(
            cap,
            None if store is None else Path(store).expanduser(),
            0 if cap is None else seed,
            None if limit is None else limit * 1e9,
            work,
            on_demand,
            params["batch_size"],
        )
