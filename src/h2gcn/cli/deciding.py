"""`h2gcn predict --decision`: what labels are chosen by."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from h2gcn.estimator import DecisionRule, NodeClassifier
from h2gcn.exceptions import InputError
from h2gcn.graph import Graph, slices
from h2gcn.io import cannot_read, existing_file

__all__ = ["Said", "decide_and_join", "parse_decision"]

Said = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]
"""Some nodes, [m], the class that is said of each, [m], and probabilities, [m, C]."""

FORMS = "macro_f1, f1=CLASS, top=K:CLASS or costs=FILE.csv"
BLOCK = 65_536


def parse_decision(text: str, classifier: NodeClassifier) -> DecisionRule:
    """Return the decision that --decision names.

    Parameters
    ----------
    text
        One of `FORMS`.
    classifier
        Fitted; it has the classes, and the validation nodes.
    """
    kind, _, value = text.partition("=")
    if text == "macro_f1":
        return classifier.decide("macro_f1")
    if kind == "f1" and value:
        return classifier.decide("f1", label=value)
    if kind == "top" and value:
        count, _, label = value.partition(":")
        if count.isdecimal() and len(count) <= 12 and int(count) and label:
            return classifier.decide("top", k=int(count), label=label)
        raise InputError(
            f"--decision top=K:CLASS needs a number of nodes and a class. "
            f"Got {text[:60]!r}."
        )
    if kind == "costs" and value:
        names = [str(label) for label in classifier.classes_]
        return classifier.decide("costs", costs=_read_costs(Path(value), names))
    raise InputError(f"--decision must be {FORMS}. Got {text!r}.")


def _read_costs(path: Path, names: list[str]) -> NDArray[np.float64]:
    """Read costs: a row for each true class, a column for each that is said."""
    try:
        with existing_file(path).open(encoding="utf-8", newline="") as file:
            rows = [row for row in csv.reader(file) if row]
    except OSError as error:
        raise cannot_read(path, error) from None
    except (UnicodeDecodeError, csv.Error):
        raise InputError(f"{path}: not a CSV file in UTF-8") from None
    said = [cell.strip() for cell in rows[0][1:]] if rows else []
    true = [row[0].strip() for row in rows[1:]]
    for what, found in (("column", said), ("row", true)):
        if sorted(found) != sorted(names):
            raise InputError(
                f"{path}: must have one {what} for each of the classes "
                f"{', '.join(names)}. Got {', '.join(found) or 'none'} instead."
            )
    costs = np.empty((len(names), len(names)))
    for label, row in zip(true, rows[1:], strict=True):
        if len(row) != len(names) + 1:
            raise InputError(
                f"{path}: the row {label} has {len(row) - 1} costs, not {len(names)}"
            )
        for other, cell in zip(said, row[1:], strict=True):
            try:
                costs[names.index(label), names.index(other)] = float(cell)
            except ValueError:
                raise InputError(
                    f"{path}: the cost of {other} for {label} must be a number. "
                    f"Got {cell!r}."
                ) from None
    return costs


def decide_and_join(
    classifier: NodeClassifier,
    graph: Graph,
    rule: DecisionRule | None,
    wanted: NDArray[np.bool_],
) -> Iterator[Said]:
    """Return all nodes with what is said of them, a block after the other.

    A rule that compares nodes is for those that are wanted, and only they are returned:
    their probabilities are in memory all at once.

    Parameters
    ----------
    classifier
        Fitted.
    graph
        What is predicted.
    rule
        By what to choose labels; None is as in training.
    wanted
        Which nodes are to be written, [n].
    """
    if rule is None or rule.by_rows:
        for block, logits in classifier.predict_blocks(graph):
            shares = classifier.probabilities_of(logits)
            said = logits.argmax(axis=1) if rule is None else rule(shares)
            yield block, said, shares
        return
    nodes = np.flatnonzero(wanted)
    shares = classifier.predict_proba(graph, nodes)
    said = rule(shares)
    for part in slices(len(nodes), BLOCK):
        yield nodes[part], said[part], shares[part]
