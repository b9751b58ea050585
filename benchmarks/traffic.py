"""The bytes that an epoch must move, and the bytes that this machine can move.

What must move is a lower bound for the way our module computes: each product reads
its matrix and its dense input once and writes its output once; what an activation, a
mask, a sum or a loss could do on the way costs nothing. A row that many entries of a
ring refer to is then read once, which happens only where the dense input stays in a
cache. The other end is a row for each entry, as if nothing were ever cached
(`cached=False`); the truth lies between the two.

Small graphs stay in the processor's caches altogether: then more than the memory's
bandwidth can be reached.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from common import medians_in_turns

FLOAT = INDEX = 4
ADAM = 7
"""Adam reads a weight, its gradient and two means, and writes all but the gradient."""
TRIAD_ELEMENTS = 2**24
"""Three arrays of 64 MB: larger than any cache."""


class Product(NamedTuple):
    """The shapes of M·B, B and the result `width` wide.

    Parameters
    ----------
    rows, columns
        Of M.
    entries
        That M stores; None where M is dense.
    width
        Columns of B.
    """

    rows: int
    columns: int
    entries: int | None
    width: int

    def bytes(self, cached: bool = True) -> int:
        """Return what is read of M (values, indices, row starts) and B, and written.

        With `cached`, a row of B is read once; else once for each entry of M.
        """
        if self.entries is None:
            matrix, read = FLOAT * self.rows * self.columns, self.columns
        else:
            matrix = (FLOAT + INDEX) * self.entries + INDEX * (self.rows + 1)
            read = min(self.entries, self.columns) if cached else self.entries
        return matrix + FLOAT * self.width * (read + self.rows)

    @property
    def transposed(self) -> "Product":
        """The product Mᵀ·G of the backward pass."""
        return self._replace(rows=self.columns, columns=self.rows)


class Rows(NamedTuple):
    """How many rows of the rings a pass ends in, and each ring's entries there."""

    number: int
    entries: tuple[int, ...]


class Shapes(NamedTuple):
    """All sizes that the traffic of an epoch of H2GCN depends on.

    Parameters
    ----------
    features, feature_entries
        Columns of X, and what it stores; None where it is dense.
    hidden, classes, rounds
        p, |Y| and K.
    nodes, train, val
        All rows of the rings; those of the training and of the validation nodes.
    """

    features: int
    feature_entries: int | None
    hidden: int
    classes: int
    rounds: int
    nodes: Rows
    train: Rows
    val: Rows

    @property
    def blocks(self) -> int:
        """How many times p the final representation is wide."""
        rings = len(self.nodes.entries)
        return int(sum(rings**k for k in range(self.rounds + 1)))


def epoch_bytes(shapes: Shapes, *, dropout: bool, cached: bool = True) -> int:
    """Return the bytes of a training step and an evaluation.

    The step embeds the features and takes the rounds: with dropout p wide, then the
    final representation of the training nodes (written, and read by the classifier);
    without dropout the classifier first, then the rounds |Y| wide. Backwards, each
    ring's transpose multiplies the gradient, and each dense product is two: one for
    either factor, except that the features need none. Adam passes over all weights. The
    evaluation embeds again and goes the narrow way to the validation nodes.

    Parameters
    ----------
    shapes
        Of graph and model.
    dropout
        Whether any acts in the training step.
    cached
        See `Product.bytes`.
    """
    n, p, width = shapes.nodes.number, shapes.hidden, shapes.blocks * shapes.hidden
    embedding = Product(n, shapes.features, shapes.feature_entries, p)
    inside = Product(n, p, None, shapes.blocks * shapes.classes)
    if dropout:
        classifier = Product(shapes.train.number, width, None, shapes.classes)
        rings, final = list(_wide(shapes)), FLOAT * shapes.train.number * width
    else:
        classifier, rings, final = inside, list(_narrow(shapes, shapes.train)), 0
    step = [embedding, embedding.transposed, *[classifier] * 3, *rings]
    step += [ring.transposed for ring in rings]
    evaluation = [embedding, inside, *_narrow(shapes, shapes.val)]
    weights = shapes.features * p + width * shapes.classes
    moved = sum(product.bytes(cached) for product in step + evaluation)
    return moved + final + ADAM * FLOAT * weights


def _wide(shapes: Shapes) -> Iterator[Product]:
    """Give the products of the rounds from the embedding on, for the training nodes."""
    n, rings = shapes.nodes.number, len(shapes.nodes.entries)
    for k in range(1, shapes.rounds + 1):
        number, entries = shapes.train if k == shapes.rounds else shapes.nodes
        width = shapes.hidden * rings ** (k - 1)
        yield from (Product(number, n, stored, width) for stored in entries)


def _narrow(shapes: Shapes, target: Rows) -> Iterator[Product]:
    """Give the products of the rounds after the classifier, for the target's nodes."""
    n, rings = shapes.nodes.number, len(shapes.nodes.entries)
    for k in range(1, shapes.rounds + 1):
        number, entries = target if k == 1 else shapes.nodes
        width = shapes.classes * rings ** (k - 1)
        yield from (Product(number, n, stored, width) for stored in entries)


def machine_bandwidth(repeats: int = 9) -> float:
    """Return the bytes a second of a = b + s·c on torch's threads."""
    a, b, c = (torch.ones(TRIAD_ELEMENTS) for _ in range(3))
    triad = medians_in_turns({"": lambda: torch.add(b, c, alpha=3, out=a)}, repeats)
    return 3 * FLOAT * TRIAD_ELEMENTS / triad[""]
