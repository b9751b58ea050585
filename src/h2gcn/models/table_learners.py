"""Logistic regression and boosted trees on the ring table, by scikit-learn.

They are fitted in one go, and then are nothing but arrays: a saved model holds those,
and predicts without scikit-learn.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor

from h2gcn._validation import check_integer, check_real
from h2gcn.models.base import ExactSum, Summand, dense_row, tensor_problem
from h2gcn.models.table_net import TableModule, table_rows
from h2gcn.ring_table import Input, TableInput, check_recipe
from h2gcn.sparse import LinearMap, Target, compiled

__all__ = ["BoostedTrees", "LogisticTable"]

STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""How weak a penalty is tried, in hundredths of scikit-learn's C, for columns of
deviation one that are divided by the root of their number."""
FOLDS = 3
MANY = 500
"""Training nodes from which on one held-out fold is enough to choose by."""
TOLERANCE, ROUGHLY = 1e-6, 1e-3
"""How flat the loss must be where a fit ends; to compare penalties, less will do."""
ABSENT = -30.0
"""The logit of a class that training has not."""
SAMPLE = 10_000
"""Nodes by which the shares of a split are counted, at most."""


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread: those of small products mostly wait for each other.

    The limit holds for the whole process; fits in several threads take turns.
    """
    with threadpool_limits(1, user_api="blas"):
        yield


_TIME_IS_UP: ContextVar[Callable[[float], bool]] = ContextVar(
    "_TIME_IS_UP", default=lambda _: False
)


@contextmanager
def stop_fits(time_is_up: Callable[[float], bool]) -> Iterator[None]:
    """Stop fits that have no epochs where they are, once their time is up.

    Parameters
    ----------
    time_is_up
        Returns whether a share of the time of a fit, 1 for all of it, is used up.
    """
    token = _TIME_IS_UP.set(time_is_up)
    try:
        yield
    finally:
        _TIME_IS_UP.reset(token)


class LogisticTable(TableModule):
    r"""Multinomial logistic regression on standardised columns, with an L2 penalty.

    With the standardised columns :math:`Z`, a row for each node:

    .. math::
        \text{logits} = Z W + b

    logits = W z + b, where z are the standardised columns of a node.

    The penalty lets weights be sums of rows: with more columns than training nodes,
    the same optimum is found among as many numbers as there are nodes.

    Parameters
    ----------
    in_channels, out_channels
        Columns of each block of the table, and number of classes.
    table
        Which blocks, such as own+ring1+labels; see `h2gcn.ring_table.check_recipe`.
    strength
        A hundredth of scikit-learn's C, for columns that were standardised and
        divided by the root of their number; 0 chooses one by folds of the training
        nodes.
    """

    weight: Tensor
    bias: Tensor
    mean: Tensor
    scale: Tensor

    def __init__(
        self,
        in_channels: Sequence[int],
        out_channels: int,
        *,
        table: str = "own+rings+directions+degrees+edges+labels",
        strength: float = 0.0,
    ) -> None:
        super().__init__(in_channels, out_channels)
        check_recipe(table)
        check_real("strength", strength, "[0, inf)")
        self.table, self.strength = table, strength
        self.register_buffer("weight", torch.zeros(self.in_channels, out_channels))
        self.register_buffer("bias", torch.zeros(out_channels))
        self.register_buffer("mean", torch.zeros(self.in_channels))
        self.register_buffer("scale", torch.ones(self.in_channels))

    @one_blas_thread()
    def initialise(
        self, x: Input, operators: Sequence[LinearMap], labels: Tensor, index: Tensor
    ) -> None:
        """Fit it to the training nodes."""
        del operators
        assert isinstance(x, TableInput)
        rows = x.rows(index.cpu().numpy()).dense().astype(np.float64)
        mean, deviation = rows.mean(axis=0), rows.std(axis=0)
        varies = deviation > 1e-7 * np.maximum(np.abs(mean), 1)
        scale = np.where(varies, 1, 0) / np.where(varies, deviation, 1)
        scale /= np.sqrt(np.maximum(self._shared_by(varies), 1))
        rows = (rows - mean) * scale
        y = labels.cpu().numpy()
        weight, bias, classes = _fit_logistic(rows, y, self.strength, _draw_seed())
        self.weight.zero_()
        self.bias.fill_(ABSENT)
        self.weight[:, classes] = torch.from_numpy(weight).to(self.weight)
        self.bias[classes] = torch.from_numpy(bias).to(self.bias)
        self.mean.copy_(torch.from_numpy(mean))
        self.scale.copy_(torch.from_numpy(scale))

    def _shared_by(self, varies: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return how many columns share the penalty of each, [D]: all that vary.

        Parameters
        ----------
        varies
            Which columns do among the training nodes, [D].
        """
        return np.full(len(varies), varies.sum(), dtype=np.int64)

    def forward(
        self,
        x: TableInput,
        operators: Sequence[LinearMap] = (),
        target: Target | None = None,
    ) -> Tensor:
        """Return logits, [n, C] (or of the target's nodes)."""
        del operators
        scaled = self.scale[:, None] * self.weight
        logits, first = self.bias - self.mean @ scaled, 0
        for block, width in zip(
            table_rows(x, target).blocks.values(), self.widths, strict=True
        ):
            logits = logits + block @ scaled[first : first + width]
            first += width
        return logits

    def exact_sum(
        self, x: Input, operators: Sequence[LinearMap], node: int
    ) -> ExactSum:
        """Return the logits as a sum over columns, each against its training mean."""
        del operators
        assert isinstance(x, TableInput)
        weight, bias, mean, scale = (
            numbers.cpu().numpy().astype(np.float64)
            for numbers in (self.weight, self.bias, self.mean, self.scale)
        )
        row, weight = dense_row(x, node), scale[:, None] * weight
        parts, first = [Summand(bias, "bias")], 0
        for block, width in zip(x.blocks, self.widths, strict=True):
            own = slice(first, first + width)
            parts.append(Summand.linear(block, row[own], weight[own], mean[own]))
            first += width
        how = (
            "exact by block, by column and, where a block is a mean, a sum or shares "
            "of labels, by neighbour: the model is linear. Each column counts by how "
            "far it is from the mean of the training nodes, whose logit is the bias"
        )
        return ExactSum(tuple(parts), how)


def _draw_seed() -> int:
    return int(torch.randint(2**31 - 1, ()))


def _fit_logistic(
    rows: NDArray[np.float64], y: NDArray[np.int64], strength: float, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Return weights [D, k], biases [k] and the k classes they are of."""
    turned, basis = _among_rows(rows)
    if strength == 0:
        strength = _choose_strength(turned, y, seed)
    classes, weight, bias = _logistic(turned, y, strength)
    return weight if basis is None else basis @ weight, bias, classes


def _among_rows(
    rows: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Return rows Z and a basis B with rows ≈ Z Bᵀ, B's columns orthonormal.

    Where there are fewer rows than columns, Z has as many columns as rows; else the
    rows are returned as they are, without a basis.
    """
    if rows.shape[0] >= rows.shape[1]:
        return rows, None
    values, vectors = np.linalg.eigh(rows @ rows.T)
    kept = values > 1e-10 * max(values[-1], 1e-300)
    root = np.sqrt(values[kept])
    return vectors[:, kept] * root, rows.T @ (vectors[:, kept] / root)


def _choose_strength(
    rows: NDArray[np.float64], y: NDArray[np.int64], seed: int
) -> float:
    """Return the C with the least log-loss on held-out folds of the training nodes."""
    if len(y) < 4 * FOLDS:
        return 1.0
    order = np.random.default_rng(seed).permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]  # class by class
    fold_of = np.empty(len(y), dtype=np.int64)
    fold_of[order] = np.arange(len(y)) % FOLDS
    folds = [
        (np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold))
        for fold in range(FOLDS)
    ]
    # A class of one node is held out whole: what is left may be of one class.
    folds = [fold for fold in folds if len(np.unique(y[fold[0]])) > 1]
    if len(y) > MANY:
        folds = folds[:1]
    losses = []
    for strength in STRENGTHS:
        total = 0.0
        for train, held in folds:
            classes, weight, bias = _logistic(
                rows[train], y[train], strength, roughly=True
            )
            logits = np.full((len(held), int(y.max()) + 1), ABSENT)
            logits[:, classes] = rows[held] @ weight + bias
            logits -= logits.max(axis=1, keepdims=True)
            total -= (
                logits[np.arange(len(held)), y[held]]
                - np.log(np.exp(logits).sum(axis=1))
            ).sum()
        losses.append(total)
    return STRENGTHS[int(np.argmin(losses))]


def _logistic(
    rows: NDArray[np.float64],
    y: NDArray[np.int64],
    strength: float,
    *,
    roughly: bool = False,
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return classes [k], weights [D, k] and biases [k].

    The optimum, and the way to it, are those of scikit-learn's LogisticRegression,
    which cannot be stopped.
    """
    from scipy import optimize

    minimize: Any = optimize.minimize
    tol, max_iter, share = (ROUGHLY, 100, 0.5) if roughly else (TOLERANCE, 500, 1.0)
    time_is_up = _TIME_IS_UP.get()
    classes, label = np.unique(y, return_inverse=True)
    (n, width), every = rows.shape, np.arange(len(rows))
    fixed = int(len(classes) == 2)  # the first of two classes has logits of zero
    shape = width + 1, len(classes) - fixed
    penalty = 1 / (100 * strength * n)  # rows are divided by the root of the columns

    def loss(flat: Any) -> tuple[float, Any]:
        weight, bias = np.split(flat.reshape(shape), [width])
        logits = np.zeros((n, len(classes)))
        logits[:, fixed:] = rows @ weight + bias
        logits -= logits.max(axis=1, keepdims=True)
        shares = np.exp(logits)
        total = shares.sum(axis=1)
        value = (np.log(total) - logits[every, label]).mean()
        shares /= total[:, None]
        shares[every, label] -= 1
        slope = shares[:, fixed:] / n
        gradient = np.concatenate(
            [rows.T @ slope + penalty * weight, slope.sum(axis=0, keepdims=True)]
        )
        return value + penalty / 2 * float((weight**2).sum()), gradient.ravel()

    def stop_in_time(_: Any) -> None:
        if time_is_up(share):
            raise StopIteration

    found = minimize(
        loss,
        np.zeros(shape[0] * shape[1]),
        jac=True,
        method="L-BFGS-B",
        callback=stop_in_time,
        options={
            "maxiter": max_iter,
            "maxls": 50,
            "gtol": tol,
            "ftol": 64 * np.finfo(float).eps,
        },
    )
    both = np.zeros((width + 1, len(classes)))
    both[:, fixed:] = found.x.reshape(shape)
    return classes, both[:-1], both[-1]


_ARRAYS = {
    "feature": torch.int64,
    "threshold": torch.float64,
    "left": torch.int64,
    "right": torch.int64,
    "value": torch.float64,
    "roots": torch.int64,
    "sums_to": torch.int64,
    "baseline": torch.float64,
}
"""The arrays of all trees together; a leaf has itself on its left."""


class BoostedTrees(TableModule):
    r"""Gradient-boosted trees (scikit-learn's HistGradientBoosting) on the table.

    With the columns :math:`x` of a node, and trees :math:`f_t` that are each fitted to
    what those before it leave of the loss:

    .. math::
        \text{logits} = b + \sum_t f_t(x)

    logits = baseline + Σ_t tree_t(x): each tree is fitted to what those before it
    leave of the loss.

    Parameters
    ----------
    in_channels, out_channels
        Columns of each block of the table, and number of classes.
    table
        Which blocks, such as own+ring1+labels; see `h2gcn.ring_table.check_recipe`.
    trees
        Rounds of boosting, at most: a tenth of the training nodes says when it is
        enough. Where they are fewer than 200, or fewer than ten per class, or a class
        has a single one, none are held out, and there are at most 50 rounds.
    leaves
        At most so many of a tree.
    shrinkage
        Weight of each tree.
    columns
        At most so many of the table's columns are looked at: those that differ most
        between the classes of the training nodes, by an F test.
    """

    def __init__(
        self,
        in_channels: Sequence[int],
        out_channels: int,
        *,
        table: str = "own+rings+directions+degrees+edges+labels",
        trees: int = 200,
        leaves: int = 15,
        shrinkage: float = 0.1,
        columns: int = 256,
    ) -> None:
        super().__init__(in_channels, out_channels)
        check_recipe(table)
        check_integer("trees", trees, 1, 10_000)
        check_integer("leaves", leaves, 2, 10_000)
        check_real("shrinkage", shrinkage, "(0, 1]")
        check_integer("columns", columns, 1)
        self.table, self.trees, self.leaves = table, trees, leaves
        self.shrinkage, self.columns = shrinkage, columns
        for name, kind in _ARRAYS.items():
            length = out_channels if name == "baseline" else 0
            self.register_buffer(name, torch.zeros(length, dtype=kind))

    @one_blas_thread()
    def initialise(
        self, x: Input, operators: Sequence[LinearMap], labels: Tensor, index: Tensor
    ) -> None:
        """Fit them to the training nodes."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        del operators
        assert isinstance(x, TableInput)
        rows, y = x.rows(index.cpu().numpy()).dense(), labels.cpu().numpy()
        many, counts = len(y) >= 200, np.unique(y, return_counts=True)[1]
        # A tenth is held out class by class, which takes two nodes of each.
        stops = many and counts.min() > 1 and len(y) >= 10 * len(counts)
        learner = HistGradientBoostingClassifier(
            max_iter=self.trees if stops else min(self.trees, 50),
            max_leaf_nodes=self.leaves,
            learning_rate=self.shrinkage,
            min_samples_leaf=20 if many else 5,
            early_stopping=stops,
            n_iter_no_change=20,
            random_state=_draw_seed(),
        )
        kept = _telling_columns(rows, y, self.columns)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of many classes for the rows
            fitted = learner.fit(rows[:, kept], y)
        arrays = _tree_arrays(fitted, self.out_channels)
        arrays["feature"] = kept[arrays["feature"]]
        device = next(self.buffers()).device
        for name, array in arrays.items():
            setattr(self, name, torch.from_numpy(array).to(device))

    def forward(
        self,
        x: TableInput,
        operators: Sequence[LinearMap] = (),
        target: Target | None = None,
    ) -> Tensor:
        """Return logits, [n, C] (or of the target's nodes)."""
        del operators
        rows = table_rows(x, target).dense()
        arrays = [getattr(self, name).cpu().numpy() for name in _ARRAYS]
        logits = np.empty((len(rows), self.out_channels))
        _sum_trees(rows, *arrays, logits)
        return torch.from_numpy(logits.astype(np.float32)).to(x.device)

    def exact_sum(
        self, x: Input, operators: Sequence[LinearMap], node: int
    ) -> ExactSum:
        """Return the logits as a sum of Shapley values, one for each column.

        They are exact for the game in which a split by a column that is not known goes
        both ways, in the shares in which nodes of the graph do; at most `SAMPLE` of
        them, evenly spaced, are counted. Without any column it is their mean logit.
        """
        del operators
        assert isinstance(x, TableInput)
        feature, threshold, left, right, value, roots, sums_to, baseline = (
            getattr(self, name).cpu().numpy() for name in _ARRAYS
        )
        splits = feature, threshold, left, right
        some = np.linspace(0, x.shape[0] - 1, min(x.shape[0], SAMPLE)).astype(np.int64)
        counts = np.zeros(len(feature))
        # The node is always among them: no branch that it takes is empty.
        for part in np.array_split(np.union1d(some, [node]), -(-len(some) // 1024)):
            _count_nodes(x.rows(part).dense(), *splits, roots, counts)
        row = x.rows(np.array([node])).dense()[0]
        columns = np.zeros((self.in_channels, self.out_channels))
        bias = baseline.copy()
        _shapley_values(row, *splits, value, roots, sums_to, counts, columns, bias)
        parts, first = [Summand(bias, "bias")], 0
        for block, width in zip(x.blocks, self.widths, strict=True):
            own = columns[first : first + width]
            parts.append(Summand(own.sum(axis=0), "", block, own))
            first += width
        how = (
            "exact Shapley values of the trees by column: the bias is the mean logit "
            "of the graph's nodes, and a block is the sum of its columns"
        )
        return ExactSum(tuple(parts), how)

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, *args: Any
    ) -> None:
        """Take arrays of any length, if they are trees."""
        missing, unexpected, errors = args[2:5]
        names = [prefix + name for name in _ARRAYS]
        unexpected += [
            name for name in state_dict if name.startswith(prefix) and name not in names
        ]
        missing += [name for name in names if name not in state_dict]
        if any(name not in state_dict for name in names):
            return
        found = {name: state_dict[prefix + name] for name in _ARRAYS}
        if wrong := self.state_problem(found):
            errors.append(f"the trees are damaged: {wrong}")
            return
        for name, tensor in found.items():
            setattr(self, name, tensor)

    def state_problem(self, state: Mapping[str, Tensor]) -> str | None:
        """Return what makes arrays not be trees, so that no walk in them is lost."""
        found = dict(state)
        lengths = {name: array.numel() for name, array in found.items()}
        wanted = {
            name: torch.empty(lengths.get(name, 0), dtype=kind, device="meta")
            for name, kind in _ARRAYS.items()
        }
        # A threshold may be infinite: then all go to the left, or to the right.
        if "threshold" in found and not bool(found["threshold"].isnan().any()):
            found["threshold"] = found["threshold"].nan_to_num()
        if problem := tensor_problem(found, wanted):
            return problem
        nodes = len(found["feature"])
        node_arrays = ("threshold", "left", "right", "value")
        if any(len(found[name]) != nodes for name in node_arrays):
            return "arrays of different lengths"
        if len(found["baseline"]) != self.out_channels:
            return "the number of classes"
        if len(found["roots"]) != len(found["sums_to"]):
            return "the number of trees"
        here = torch.arange(nodes)
        left, right = found["left"], found["right"]
        if nodes and not bool(
            ((left >= here) & (right >= here) & (left < nodes) & (right < nodes)).all()
            and ((left > here) == (right > here)).all()
        ):
            return "children before their parents"
        for name, below in (
            ("feature", self.in_channels),
            ("roots", nodes),
            ("sums_to", self.out_channels),
        ):
            values = found[name]
            if len(values) and not 0 <= int(values.min()) <= int(values.max()) < below:
                return f"{name} out of range"
        return None


def _telling_columns(
    rows: NDArray[np.float32], y: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    """Return the columns that differ most between classes, at most `count`, sorted."""
    from sklearn.feature_selection import f_classif

    varies = np.flatnonzero(np.ptp(rows, axis=0) > 0)
    if len(varies) == 0:
        return np.zeros(1, dtype=np.int64)
    if len(varies) > count:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = np.nan_to_num(f_classif(rows[:, varies], y)[0])
        varies = np.sort(varies[np.argsort(-found, kind="stable")[:count]])
    return varies.astype(np.int64)


def _tree_arrays(fitted: Any, n_classes: int) -> dict[str, NDArray[Any]]:
    """Return the trees of a fitted scikit-learn learner as arrays."""
    classes = fitted.classes_
    binary = len(classes) == 2
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in _ARRAYS}
    first = 0
    for round_ in fitted._predictors:
        for number, tree in enumerate(round_):
            nodes = tree.nodes
            leaf = nodes["is_leaf"].astype(bool)
            here = np.arange(len(nodes))
            parts["feature"].append(np.where(leaf, 0, nodes["feature_idx"]))
            parts["threshold"].append(np.where(leaf, 0, nodes["num_threshold"]))
            parts["left"].append(np.where(leaf, here, nodes["left"]) + first)
            parts["right"].append(np.where(leaf, here, nodes["right"]) + first)
            parts["value"].append(np.where(leaf, nodes["value"], 0))
            parts["roots"].append(np.array([first]))
            column = classes[1] if binary else classes[number]
            parts["sums_to"].append(np.array([column]))
            first += len(nodes)
    baseline = np.full(n_classes, ABSENT)
    start = np.asarray(fitted._baseline_prediction, dtype=np.float64).reshape(-1)
    baseline[classes] = np.array([0.0, start[0]]) if binary else start
    parts["baseline"] = [baseline]
    kinds = {torch.int64: np.int64, torch.float64: np.float64}
    return {
        name: np.concatenate(parts[name] or [np.zeros(0)]).astype(kinds[kind])
        for name, kind in _ARRAYS.items()
    }


@compiled
def _sum_trees(  # type: ignore[no-untyped-def]
    rows, feature, threshold, left, right, value, roots, sums_to, baseline, out
):
    for i in range(len(rows)):
        row = rows[i]
        for c in range(len(baseline)):
            out[i, c] = baseline[c]
        for t in range(len(roots)):
            at = roots[t]
            while left[at] != at:
                at = left[at] if row[feature[at]] <= threshold[at] else right[at]
            out[i, sums_to[t]] += value[at]


@compiled
def _count_nodes(  # type: ignore[no-untyped-def]
    rows, feature, threshold, left, right, roots, out
):
    """Add to each node of the trees how many rows come to it."""
    for i in range(len(rows)):
        row = rows[i]
        for t in range(len(roots)):
            at = roots[t]
            out[at] += 1
            while left[at] != at:
                at = left[at] if row[feature[at]] <= threshold[at] else right[at]
                out[at] += 1


@compiled
def _shapley_values(  # type: ignore[no-untyped-def]
    row, feature, threshold, left, right, value, roots, sums_to, counts, out, bias
):
    """Add the Shapley value of each column to `out`, [D, C], and the means to `bias`.

    A leaf is a product over the d columns on its path: one that is known gives 1 or 0,
    as the row goes there or not, one that is not the share of rows that do. In such a
    game a column has the value (known - share) times the mean, over all orders, of the
    product of those before it known and those after it not: sums of products, which
    are the coefficients of a polynomial.
    """
    parent = np.full(len(feature), -1)
    tree = np.zeros(len(feature), dtype=np.int64)
    for t in range(len(roots)):
        tree[roots[t]] = t
    for at in range(len(feature)):  # children come after their parents
        if left[at] != at:
            for child in (left[at], right[at]):
                parent[child] = at
                tree[child] = tree[at]
    deepest = 1
    for at in range(len(feature)):
        depth, up = 0, at
        while parent[up] >= 0:
            up = parent[up]
            depth += 1
        deepest = max(deepest, depth)
    columns = np.zeros(deepest, dtype=np.int64)
    known, share = np.zeros(deepest), np.zeros(deepest)
    terms = np.zeros(deepest + 1)
    for leaf in range(len(feature)):
        if left[leaf] != leaf or counts[leaf] == 0:
            continue
        column = sums_to[tree[leaf]]
        d, at = 0, leaf
        while parent[at] >= 0:
            up = parent[at]
            goes = row[feature[up]] <= threshold[up]
            here = 1.0 if goes == (left[up] == at) else 0.0
            part = counts[at] / counts[up]
            place = 0
            while place < d and columns[place] != feature[up]:
                place += 1
            if place == d:
                columns[d], known[d], share[d] = feature[up], 1.0, 1.0
                d += 1
            known[place] *= here
            share[place] *= part
            at = up
        whole = value[leaf]
        for j in range(d):
            whole *= share[j]
        bias[column] += whole
        for j in range(d):
            # Coefficient k: the sum over sets of k other columns that are known.
            terms[0] = 1.0
            degree = 0
            for i in range(d):
                if i != j:
                    degree += 1
                    terms[degree] = 0.0
                    for k in range(degree, 0, -1):
                        terms[k] = terms[k] * share[i] + terms[k - 1] * known[i]
                    terms[0] *= share[i]
            # Each set counts k! (d - 1 - k)! / d!.
            weight, total = 1.0 / d, 0.0
            for k in range(d):
                total += weight * terms[k]
                weight *= (k + 1) / max(d - 1 - k, 1)
            out[columns[j], column] += value[leaf] * (known[j] - share[j]) * total
