"""Identity of a training run: what it depends on, and how two runs differ."""

from __future__ import annotations

import json
from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np

from h2gcn import __version__
from h2gcn.exceptions import InputError
from h2gcn.graph import Graph, Split, fingerprint, split_fingerprint
from h2gcn.models import NodeModule, find_model
from h2gcn.rings import CAPPED, DISK, MEMORY, ON_DEMAND
from h2gcn.training.manifest import plain

__all__ = ["OF_THE_MACHINE", "Identity", "difference", "identify"]

OF_THE_MACHINE = ("ring_store", "memory_limit")
"""Parameters that speak of the machine of training, not of the model."""

WITHOUT_EFFECT = (*OF_THE_MACHINE, "device", "calibrate")
"""Parameters that do not change what is trained."""

Identity = Mapping[str, Any]
"""What `identify` returns."""
_WORDS = {
    MEMORY: "in memory",
    CAPPED: "capped",
    DISK: "in a file",
    ON_DEMAND: "computed when needed",
}


def identify(
    module: NodeModule,
    params: Mapping[str, Any],
    graph: Graph,
    split: Split,
    storage: str = MEMORY,
) -> Identity:
    """Return all that the result of a training depends on, as JSON holds it.

    Where rings and features are kept belongs to it: each storage has its own order of
    sums, and with it its own last bits. So do the directions of the edges, where the
    model follows them.

    Parameters
    ----------
    module
        The model; whether `epochs` counts depends on it.
    params
        The resolved parameters of a `NodeClassifier`.
    graph, split
        What is trained on.
    storage
        Where its rings are kept, see `h2gcn.rings.plan_rings`.
    """
    named = {name: v for name, v in params.items() if name not in WITHOUT_EFFECT}
    model, options = named.pop("model"), named.pop("options")
    follows = find_model(model).given(options).directed
    seed = named.pop("random_state")
    if not isinstance(seed, Integral):
        raise InputError(
            "a checkpoint needs a number as 'random_state', since anything else gives "
            f"another seed each time. Got {seed!r} instead."
        )
    if module.trained_first() is None:
        # More epochs go on where fewer ended. Not so where a part is trained first:
        # how long that is trained depends on them.
        del named["epochs"]
    identity = {
        "version": __version__,
        "graph": graph.name,
        "checksum": fingerprint(graph),
        "directions": fingerprint(graph, directions=True) if follows else None,
        "split": split_fingerprint(split),
        # The model first: where it differs, others follow from it.
        "params": plain({"model": model, **named, **options, "seed": int(seed)}),
        "rings": storage,
        "features": DISK if isinstance(graph.x, np.memmap) else MEMORY,
    }
    # As it will be read again: a tuple is then a list.
    return json.loads(json.dumps(identity))  # type: ignore[no-any-return]


def difference(made: Identity, now: Identity) -> str | None:
    """Return in words the first thing in which two trainings differ, if any does."""
    if made["version"] != now["version"]:
        return f"was made with h2gcn {made['version']}, not {now['version']}"
    if made["checksum"] != now["checksum"]:
        names = [made["graph"], now["graph"]]
        if names[0] == names[1]:
            names = [f"checksum {one['checksum'][:16]}" for one in (made, now)]
        return f"is of another graph ({names[0]}, not {names[1]})"
    before, after = made["params"], now["params"]
    for name in before | after:
        if before.get(name) != after.get(name):
            return f"was made with {name} {before.get(name)}, not {after.get(name)}"
    if made.get("directions") != now.get("directions"):
        return "is of a graph whose edges have other directions"
    if made["split"] != now["split"]:
        return "is of another split"
    for name, options in (
        ("rings", "'memory_limit' and 'ring_store'"),
        ("features", "features=…"),
    ):
        if made[name] != now[name]:
            places = [_WORDS.get(one[name], one[name]) for one in (made, now)]
            return (
                f"was made with the {name} {places[0]}, not {places[1]}, which changes "
                f"the last bits; set {options} so that they are there again"
            )
    return None
