"""LightGBM's text of trees, rebuilt from checked arrays.

LightGBM's parser trusts the indices of a file, so it reads nothing but texts that
`rebuild_trees` wrote: each node has two children that come after it, and each split a
column that exists, whatever the file has.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LEAVES: dict[str, type[int | float]] = {"leaf_value": float, "leaf_count": int}
SPLITS: dict[str, type[int | float]] = {
    "split_feature": int,
    "threshold": float,
    "decision_type": int,
    "left_child": int,
    "right_child": int,
    "internal_count": int,
}
HEADER = """\
tree
version=v4
num_class={n_outputs}
num_tree_per_iteration={n_outputs}
label_index=0
max_feature_idx={last}
objective={objective}
feature_names={names}
feature_infos={infos}
"""
Tree = dict[str, NDArray[Any]]


def rebuild_trees(
    text: bytes, *, n_columns: int, n_outputs: int, max_leaves: int, max_trees: int
) -> bytes:
    """Return a text of the same trees; raise ValueError if they are damaged.

    Parameters
    ----------
    text
        Of LightGBM's `Booster.model_to_string`, or of this function.
    n_outputs
        Trees of an iteration, one of each output in turn.
    """
    parts = text.decode("ascii").partition("\nend of trees")[0].split("\nTree=")[1:]
    if not parts or len(parts) % n_outputs or len(parts) > max_trees:
        raise ValueError("the number of trees")
    several = f"multiclass num_class:{n_outputs}"
    rebuilt = HEADER.format(
        n_outputs=n_outputs,
        last=n_columns - 1,
        objective="binary sigmoid:1" if n_outputs == 1 else several,
        names=" ".join(f"Column_{i}" for i in range(n_columns)),
        infos=" ".join(["none"] * n_columns),
    )
    for i, part in enumerate(parts):
        tree = _parse(part)
        _check(tree, n_columns, max_leaves)
        rebuilt += f"\nTree={i}\nnum_leaves={len(tree['leaf_value'])}\nnum_cat=0\n"
        for name, values in tree.items():
            rebuilt += f"{name}={' '.join(map(repr, values.tolist()))}\n"
        rebuilt += "is_linear=0\nshrinkage=1\n\n"
    return f"{rebuilt}\nend of trees\n".encode()


def _parse(part: str) -> Tree:
    """Return the arrays that predictions and explanations need."""
    lines = dict(line.split("=", 1) for line in part.splitlines() if "=" in line)
    tree = {}
    for name, kind in (SPLITS | LEAVES).items():
        try:
            tree[name] = np.array([kind(v) for v in lines.get(name, "").split()], kind)
        except OverflowError:
            raise ValueError(f"{name} out of range") from None
    return tree


def _check(tree: Tree, n_columns: int, max_leaves: int) -> None:
    """Raise ValueError if arrays are no tree."""
    n, columns = len(tree["leaf_value"]), tree["split_feature"]
    if not 1 <= n <= max_leaves or any(
        len(values) != n - (name in SPLITS) for name, values in tree.items()
    ):
        raise ValueError("arrays of different lengths")
    if not np.isfinite([*tree["threshold"], *tree["leaf_value"]]).all():
        raise ValueError("numbers that are not finite")
    if ((columns < 0) | (columns >= n_columns)).any():
        raise ValueError("split_feature out of range")
    # Bit 0: a split by categories, which has arrays of its own. Bits 2 and 3: 0 to 2.
    if not np.isin(tree["decision_type"], range(0, 12, 2)).all():
        raise ValueError("decision_type out of range")
    # Leaves are -1 to -n; each node but the root is the child of one before it.
    children = np.concatenate([tree["left_child"], tree["right_child"]])
    before = children <= np.tile(np.arange(n - 1), 2)
    all_children = [*range(-n, 0), *range(1, n - 1)] if n > 1 else []
    if sorted(children.tolist()) != all_children or (before & (children >= 0)).any():
        raise ValueError("children before their parents")
    # Shapley values divide by counts. As an index, leaf -1 is the last.
    counts = np.concatenate([tree["internal_count"], tree["leaf_count"][::-1]])
    of_children = counts[tree["left_child"]] + counts[tree["right_child"]]
    if (counts < (n > 1)).any() or (of_children != tree["internal_count"]).any():
        raise ValueError("counts that do not add up")
