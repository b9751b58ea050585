"""LightGBM's text of trees, rebuilt from checked arrays.

Its own parser trusts the indices of a file, so it is only given texts that are written
here: whatever a file says, each node has two children that come after it, and each
split a column that exists.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_KINDS: dict[str, type[int | float]] = {
    "split_feature": int,
    "threshold": float,
    "decision_type": int,
    "left_child": int,
    "right_child": int,
    "leaf_value": float,
    "leaf_count": int,
}
MAX_COUNT = 2**31 - 1
Arrays = dict[str, NDArray[Any]]


def rebuild_trees(
    text: bytes, *, n_columns: int, n_outputs: int, max_leaves: int, max_trees: int
) -> bytes:
    """Return a text of the same trees, or raise ValueError where they are damaged.

    Parameters
    ----------
    text
        Of LightGBM's `Booster.model_to_string`, or of this function.
    n_columns
        Of the table.
    n_outputs
        Trees in an iteration: of each output one, in turn.
    max_leaves, max_trees
        Leaves of a tree, and trees, at most.
    """
    try:
        trees = [_arrays(part) for part in _parts(text.decode("ascii"))]
    except KeyError as error:
        raise ValueError(f"{error} is missing") from None
    except OverflowError:
        raise ValueError("a number is too large") from None
    if not trees or len(trees) % n_outputs or len(trees) > max_trees:
        raise ValueError("the number of trees")
    for tree in trees:
        _check(tree, n_columns, max_leaves)
    several = f"multiclass num_class:{n_outputs}"
    lines = [
        "tree",
        "version=v4",
        f"num_class={n_outputs}",
        f"num_tree_per_iteration={n_outputs}",
        "label_index=0",
        f"max_feature_idx={n_columns - 1}",
        f"objective={'binary sigmoid:1' if n_outputs == 1 else several}",
        f"feature_names={' '.join(f'Column_{i}' for i in range(n_columns))}",
        f"feature_infos={' '.join(['none'] * n_columns)}",
    ]
    for number, tree in enumerate(trees):
        lines += ["", f"Tree={number}", *_lines(tree)]
    return "\n".join([*lines, "", "end of trees", ""]).encode()


def _parts(text: str) -> list[dict[str, str]]:
    """Return the fields of each tree by name."""
    parts: list[dict[str, str]] = []
    for line in text.split("\n"):
        name, _, value = line.partition("=")
        if name == "Tree":
            parts.append({})
        elif name == "end of trees":
            break
        elif parts:
            parts[-1][name] = value
    return parts


def _arrays(part: dict[str, str]) -> Arrays:
    """Return the arrays of a tree that predictions and explanations need."""
    found: Arrays = {}
    for name, kind in _KINDS.items():
        values = [kind(number) for number in part[name].split()]
        found[name] = np.array(values, np.int64 if kind is int else np.float64)
    return found


def _check(tree: Arrays, n_columns: int, max_leaves: int) -> None:
    """Raise where arrays are no tree."""
    n = len(tree["leaf_value"])
    splits = ("split_feature", "threshold", "decision_type")
    children = ("left_child", "right_child")
    if n == 1:  # a constant; LightGBM leaves the rest empty, or of any length
        tree.update(dict.fromkeys((*splits, *children), np.zeros(0, np.int64)))
        tree["leaf_count"] = np.ones(1, np.int64)
    lengths = [len(tree[name]) for name in (*splits, *children)]
    if not 1 <= n <= max_leaves or set(lengths) != {n - 1}:
        raise ValueError("arrays of different lengths")
    if len(tree["leaf_count"]) != n:
        raise ValueError("arrays of different lengths")
    if not all(np.isfinite(tree[name]).all() for name in ("threshold", "leaf_value")):
        raise ValueError("numbers that are not finite")
    columns, kinds = tree["split_feature"], tree["decision_type"]
    if ((columns < 0) | (columns >= n_columns)).any():
        raise ValueError("split_feature out of range")
    # Bit 0: a split by categories, which has arrays of its own. Bits 2 and 3: 0 to 2.
    if ((kinds < 0) | (kinds >= 12) | (kinds % 2 == 1)).any():
        raise ValueError("decision_type out of range")
    # Leaves are -1 to -n; each but the root is the child of one node before it.
    below = np.concatenate([tree[name] for name in children])
    wanted = [*range(-n, 0), *range(1, n - 1)]
    parents = np.tile(np.arange(n - 1), 2)
    if (
        sorted(below.tolist()) != wanted[: 2 * (n - 1)]
        or ((below >= 0) & (below <= parents)).any()
    ):
        raise ValueError("children before their parents")
    counts = tree["leaf_count"]
    if (counts < 1).any() or sum(counts.tolist()) > MAX_COUNT:
        raise ValueError("leaf_count out of range")


def _lines(tree: Arrays) -> list[str]:
    """Return the lines of a tree."""
    leaves = tree["leaf_count"].tolist()
    counts = [0] * (len(leaves) - 1)
    for node in reversed(range(len(counts))):
        for child in (int(tree["left_child"][node]), int(tree["right_child"][node])):
            counts[node] += counts[child] if child >= 0 else leaves[~child]
    arrays = {name: array.tolist() for name, array in tree.items()}
    return [
        f"num_leaves={len(leaves)}",
        "num_cat=0",
        *(f"{name}={' '.join(map(repr, values))}" for name, values in arrays.items()),
        f"internal_count={' '.join(map(str, counts))}",
        "is_linear=0",
        "shrinkage=1",
        "",
    ]
