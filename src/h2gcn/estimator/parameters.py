"""What is asked of a fit: what its parameters mean, what is checked and told before.

scikit-learn's contract for estimators is kept without loading scikit-learn: its base
class brings statistics and, where it is installed, pandas along, and takes as long to
import as torch. A prediction needs none of that. So parameters, `clone`, tags and the
error of what is not fitted are kept by hand.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from inspect import signature
from numbers import Integral
from typing import Any, Self
from weakref import WeakSet

import numpy as np
import torch

from h2gcn._validation import (
    check_bool,
    check_choice,
    check_integer,
    check_names,
    check_real,
    nearest,
)
from h2gcn.diagnosis import misleading
from h2gcn.exceptions import H2GCNWarning, InputError, short_repr
from h2gcn.features import TableSchema, farthest_ring, parse_blocks
from h2gcn.graph import (
    Features,
    Graph,
    Split,
    check_is_graph,
    stratified_split,
)
from h2gcn.models import MODELS, ModelSpec, build_model, find_model, is_distributable
from h2gcn.rings import (
    LARGE_BYTES,
    MAX_NEIGHBORS,
    RingOptions,
    RowRule,
    Workload,
    auto_max_neighbors,
    forecast_rings,
)
from h2gcn.sparse import format_bytes
from h2gcn.training import OF_TWO_CLASSES, NodeModule, TrainConfig

__all__ = [
    "AUTO",
    "DEVICES",
    "SCALINGS",
    "CheckedFit",
    "Estimator",
    "Params",
    "blank_module",
    "build_module",
    "check_auto",
    "check_batch_size",
    "check_batches",
    "check_cap",
    "check_distributed",
    "check_fit",
    "check_fitted",
    "check_graph",
    "check_labels",
    "check_params",
    "check_rings",
    "check_split",
    "check_training_classes",
    "choose_cap",
    "estimate_work",
    "far_hops",
    "farthest_hop",
    "fit_options",
    "input_width",
    "prediction_options",
    "resolve_cap",
    "resolve_device",
    "resolve_params",
    "resolve_seed",
    "resolve_split",
    "spec_of",
    "train_config",
    "warn_of_findings",
    "without_findings",
]


class Estimator:
    """What stores its parameters under their names, for scikit-learn to find."""

    _estimator_type = "classifier"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep
            Of no matter: no parameter is an estimator.
        """
        del deep
        return {name: getattr(self, name) for name in _defaults(type(self))}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; return the same estimator."""
        known = _defaults(type(self))
        for name in params:
            if name not in known:
                owner = type(self).__name__
                raise InputError(
                    f"{owner} has no parameter {short_repr(name)}."
                    f"{nearest(name, known)} Parameters: {', '.join(known)}."
                )
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def changed_params(self) -> dict[str, Any]:
        """Return the parameters that are not the default, by name."""
        known = _defaults(type(self))
        return {
            name: value
            for name, value in self.get_params().items()
            if repr(value) != repr(known[name])
        }

    def __repr__(self) -> str:
        given = ", ".join(f"{k}={v!r}" for k, v in self.changed_params().items())
        return f"{type(self).__name__}({given})"

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn asks of a classifier."""
        from sklearn.utils import ClassifierTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=False),
            classifier_tags=ClassifierTags(),
        )


def _defaults(kind: type[Estimator]) -> dict[str, Any]:
    """Return the parameters of an estimator and their defaults, by name from a to z."""
    given = list(signature(kind.__init__).parameters.values())[1:]
    return {one.name: one.default for one in sorted(given, key=lambda one: one.name)}


def check_fitted(estimator: Estimator) -> None:
    """Raise scikit-learn's error where an estimator has not been fitted."""
    if hasattr(estimator, "classes_"):
        return
    from sklearn.exceptions import NotFittedError

    owner = type(estimator).__name__
    raise NotFittedError(f"This {owner} instance is not fitted yet; call 'fit' first.")


# --------------------------------------------------------------------------- parameters


AUTO = "auto"
"""The model that is a portfolio of others, see `automatic`."""
SCALINGS = ("auto", "rows", "standard", "none")
DEVICES = ("auto", "cpu", "cuda", "mps")
FRACTIONS = (0.6, 0.2, 0.2)
"""Train, validation and test shares of data that bring no split."""
MAX_CAP = 2**31 - 1
DEFAULT_WIDTH = 64  # of the embedding, where no parameter says it
NAMED = ("dropout", "activation", "hidden_channels")
"""Options of models that have a parameter of their own."""
_ITS_OWN: Mapping[str, Any] = {
    "epochs": 2000,
    "patience": 100,
    "stopping": "score",
    "optimizer": "adam",
    **dict.fromkeys(
        ("learning_rate", "l2", "dropout", "activation", "hidden_channels", "options")
    ),
    **dict.fromkeys(("class_weight", "batch_size")),
}
"""Parameters that each member has values of its own for, and their defaults."""

Params = Mapping[str, Any]
"""The parameters of a `NodeClassifier` by name."""


def spec_of(params: Params) -> ModelSpec:
    """Return the model that is meant, as it is with the options that were given."""
    return find_model(params["model"]).with_options(_options(params))


def _options(params: Params) -> Mapping[str, Any]:
    """Return the options that were given, {} for None, or raise."""
    if params["options"] is None:
        return {}
    check_names("options", params["options"])
    given: Mapping[str, Any] = params["options"]
    return given


def resolve_params(params: Params) -> dict[str, Any]:
    """Return parameters with the model's own in place of None.

    How much a fit shows is none of them: it changes nothing.
    """
    named, options = _lift(params)
    resolved = {**params, **named}
    resolved.pop("verbose", None)
    own = find_model(params["model"]).params
    resolved |= {
        name: own[name] for name in own.keys() & resolved if resolved[name] is None
    }
    more = {name: own[name] for name in own if name not in resolved}
    return resolved | {"options": more | options}


def _lift(params: Params) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options with a parameter of their own, and the others."""
    options = dict(_options(params))
    model = find_model(params["model"])
    # The step of boosting is an option; that of an optimizer is not.
    names = (*NAMED, *(["learning_rate"] if "learning_rate" in model.options else []))
    named = {name: params[name] for name in names}
    for name in names:
        if name not in options:
            continue
        if named[name] is not None:
            raise InputError(
                f"is given twice: {named[name]!r}, and {options[name]!r} in 'options'",
                param=name,
            )
        named[name] = options.pop(name)
    return named, options


def input_width(
    params: Params, n_features: int, n_classes: int, schema: TableSchema | None
) -> int | tuple[int, ...]:
    """Return the columns of a model's input, of each block where it is a table.

    Parameters
    ----------
    params
        Of a `NodeClassifier`, by name.
    n_features, n_classes
        Of the graph.
    schema
        Of its table; None where it is not known yet, and stands for one block.
    """
    inputs = spec_of(params).inputs
    if inputs == "table":
        return (n_features,) if schema is None else schema.widths
    return n_classes if inputs == "labels" else n_features


def train_config(params: Params) -> TrainConfig:
    """Return how to train, the model's own rates in place of None."""
    spec = find_model(params["model"])
    if params["class_weight"] is not None and not spec.epochs:
        raise InputError(
            f"does not go with model {params['model']!r}: it has no epochs",
            param="class_weight",
        )
    rate, l2 = params["learning_rate"], params["l2"]
    return TrainConfig(
        params["epochs"],
        params["patience"],
        spec.learning_rate if rate is None else rate,
        spec.l2 if l2 is None else l2,
        params["metric"],
        params["optimizer"],
        params["stopping"],
        params["batch_size"],
        params["class_weight"],
    )


def check_rings(params: Params) -> None:
    """Raise where a parameter about rings is out of range, or has no ring to act on."""
    name = params["model"]
    cap, limit = params["ring_cap"], params["memory_limit"]
    check_cap(cap)
    if limit is not None:
        check_real("memory_limit", limit, "(0, inf)")
    if cap is None or isinstance(cap, str):
        return
    if far_hops(params) < 2:
        raise InputError(
            f"is for models with a 2-hop ring, such as h2gcn-1; {name!r} has none",
            param="ring_cap",
        )


CAPS_BY_NAME = ("auto", "exact")
"""What `ring_cap` takes beside numbers and None."""


def check_cap(cap: object) -> None:
    """Raise where `ring_cap` is nothing that it can be."""
    if isinstance(cap, str):
        check_choice("ring_cap", cap, CAPS_BY_NAME)
    elif cap is not None:
        check_integer("ring_cap", cap, 1, MAX_CAP)


def farthest_hop(rules: Sequence[RowRule] | None) -> int:
    """Return the farthest ring among a model's matrices, 0 for none."""
    return max((rule.hop for rule in rules or ()), default=0)


def far_hops(params: Params) -> int:
    """Return how many hops away the rings reach that a cap can act on, below 2 none.

    Parameters
    ----------
    params
        Of a `NodeClassifier`, by name.
    """
    spec = spec_of(params)
    hops = farthest_hop(spec.rules)
    if spec.inputs == "table":
        recipe = spec.table(_options(params))
        hops = max(hops, farthest_ring(parse_blocks(recipe)))
    return hops


def check_batches(params: Params, module: NodeModule) -> None:
    """Raise where batches are asked for, and a module cannot be given any."""
    name = params["model"]
    if params["batch_size"] is None:
        return
    why = module.batch_problem() if find_model(name).epochs else "it has no epochs"
    if why is not None:
        raise InputError(f"does not go with model {name!r}: {why}", param="batch_size")


def check_auto(params: Params) -> None:
    """Refuse parameters that "auto" leaves to its members.

    Parameters
    ----------
    params
        Of a `NodeClassifier`, by name.
    """
    for name, default in _ITS_OWN.items():
        if not _same(params[name], default):
            raise InputError(
                "does not go with model 'auto': each member has its own",
                param=name,
                hint="name one model to set it",
            )
    check_cap(params["ring_cap"])
    if params["time_limit"] is not None:
        check_real("time_limit", params["time_limit"], "(0, inf)")


def _same(value: object, default: object) -> bool:
    """Return whether a value, which may be of any kind, is a default."""
    try:
        return bool(value == default)
    except Exception:
        return False


def blank_module(
    params: Params, width: int | Sequence[int], n_classes: int
) -> NodeModule:
    """Return a module of the right shapes that holds no numbers, and draws none."""
    with torch.device("meta"):
        return build_module(params, width, n_classes)


def build_module(
    params: Params, width: int | Sequence[int], n_classes: int
) -> NodeModule:
    """Return a new module of the model with the options that were given.

    Parameters
    ----------
    params
        Of a `NodeClassifier`, by name.
    width
        Columns of its input, of each block where that is a table.
    n_classes
        Number of classes.
    """
    spec = find_model(params["model"])
    named, options = _lift(params)
    if not spec.epochs:  # it has neither, and says so
        named = {name: params[name] for name in ("learning_rate", "l2")} | named
    given = {name: value for name, value in named.items() if value is not None}
    return build_model(params["model"], width, n_classes, given | options)


@dataclass(frozen=True)
class CheckedFit:
    """What training can begin with.

    Parameters
    ----------
    graph
        With labels.
    split
        Of its nodes, all labelled.
    params
        Of a `NodeClassifier`, by name.
    config
        How to train.
    device
        That of the parameters.
    seed
        That of `random_state`.
    """

    graph: Graph
    split: Split
    params: Params
    config: TrainConfig
    device: torch.device
    seed: int


def check_fit(params: Params, graph: Graph, split: Split | int | None) -> CheckedFit:
    """Refuse what cannot be trained, before any work is done.

    Parameters
    ----------
    params
        Of a `NodeClassifier`, by name.
    graph, split
        As of `NodeClassifier.fit`.
    """
    check_is_graph(graph)
    config, device = check_params(params, graph.n_classes)
    check_batch_size(graph, params["batch_size"])
    seed = resolve_seed(params["random_state"])
    check_labels(graph)
    split = resolve_split(graph, split, seed)
    check_training_classes(graph, split)
    check_graph(graph, params)
    return CheckedFit(graph, split, params, config, device, seed)


def check_distributed(checked: CheckedFit) -> CheckedFit:
    """Return a fit for several processes with `ring_cap` resolved, or refuse it.

    Parameters
    ----------
    checked
        Of `check_fit`.
    """
    params, graph = checked.params, checked.graph
    if params["model"] == AUTO or not is_distributable(find_model(params["model"])):
        known = [name for name, spec in MODELS.items() if is_distributable(spec)]
        raise InputError(
            f"the model {params['model']} is not trained over workers. Those that are: "
            f"{', '.join(known)}"
        )
    if params["batch_size"] is not None:
        raise InputError(
            "is for one process: workers hold their own rows of the rings",
            param="batch_size",
        )
    if graph.edge_weight is not None:
        raise InputError(
            f"{graph.edge_weight!r} weighs the edges, and workers count all alike",
            param="edge_weight",
            where=graph.name,
            hint="leave it out",
        )
    if checked.device.type != "cpu":
        raise InputError("workers train on processors; set device='cpu'.")
    return replace(checked, params={**params, "ring_cap": resolve_cap(params, graph)})


def check_params(params: Params, n_classes: int) -> tuple[TrainConfig, torch.device]:
    """Raise where a parameter is out of its range; return what they mean.

    Parameters
    ----------
    params
        Of a `NodeClassifier`, by name.
    n_classes
        Number of classes, which some options must fit.
    """
    auto = isinstance(params["model"], str) and params["model"] == AUTO
    if not auto:
        find_model(params["model"])
    check_choice("scaling", params["scaling"], SCALINGS)
    for name in ("calibrate", "refit", "verbose"):
        check_bool(name, params.get(name, False))
    if auto:
        check_auto(params)
        config = TrainConfig(metric=params["metric"])
        return config, resolve_device(params["device"])
    given = {"time_limit": params["time_limit"] is not None, "refit": params["refit"]}
    for name, is_given in given.items():
        if is_given:
            raise InputError("is for model 'auto'", param=name)
    config = train_config(params)
    check_rings(params)
    device = resolve_device(params["device"])
    # That a graph has too few classes is said by those who look at labels.
    n_classes = max(n_classes, 2)
    width = input_width(params, 1, n_classes, None)
    module = blank_module(params, width, n_classes)
    check_batches(params, module)
    return config, device


def resolve_seed(random_state: Any) -> int:
    """Return the seed that scikit-learn's `random_state` stands for."""
    drawing = None
    if random_state is None or random_state is np.random:
        drawing = np.random.mtrand._rand  # numpy's own: the caller's to seed
    elif isinstance(random_state, np.random.RandomState):
        drawing = random_state
    elif isinstance(random_state, Integral):
        with suppress(ValueError):  # a seed out of range
            drawing = np.random.RandomState(int(random_state))
    if drawing is None:
        raise InputError(
            "must be None, an integer from 0 to 2**32 - 1, or a numpy RandomState",
            param="random_state",
            value=random_state,
        )
    return int(drawing.randint(np.iinfo(np.int32).max))


def resolve_device(name: str) -> torch.device:
    """Return the device that a name stands for, or say that it is not there."""
    check_choice("device", name, DEVICES)
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    backends = {"cuda": torch.cuda, "mps": torch.backends.mps}
    if name in backends and not backends[name].is_available():
        raise InputError(
            f"is {name!r}, but torch finds no such device here", param="device"
        )
    return torch.device(name)


def check_labels(graph: Graph) -> None:
    """Refuse a graph that nothing can be learned from."""
    present = np.unique(graph.y[graph.y >= 0])
    if present.size == 0:
        raise InputError(
            "all labels are missing; nothing to learn from. In a table of nodes they "
            "are the column label, class or y",
            where=graph.name,
            hint="label_column=… names another",
        )
    if present.size == 1:
        raise InputError(
            "at least two classes must have labels",
            value=str(graph.classes[present[0]]),
            where=graph.name,
        )


def check_graph(graph: Graph, params: Params) -> None:
    """Refuse a graph that a model, or a metric, can do nothing with."""
    if params["metric"] in OF_TWO_CLASSES and graph.n_classes != 2:
        raise InputError(
            f"can be '{params['metric']}' only for two classes; {graph.name} has "
            f"{graph.n_classes}",
            param="metric",
        )
    if graph.adj.nnz:
        if graph.edge_weight is not None and params["model"] != AUTO:
            _warn_of_weights(spec_of(params), params["model"])
        return
    if params["model"] == AUTO:
        if _all_alike(graph.x):
            raise InputError(
                f"{graph.name}: no edges, and no features that tell nodes apart; there "
                "is nothing to predict from"
            )
        return
    spec = spec_of(params)
    if spec.matrices != ():
        raise InputError(
            f"{graph.name}: the graph has no edges; only mlp and models on the ring "
            "table, such as logistic, can do without them"
        )


def _warn_of_weights(spec: ModelSpec, name: str) -> None:
    """Say where a model takes no notice of what edges weigh."""
    if not spec.weighted:
        warnings.warn(
            f"{name} counts all edges alike: weights of edges mean nothing to it",
            H2GCNWarning,
            stacklevel=5,
        )


def _all_alike(x: Features) -> bool:
    """Return whether all rows are the same."""
    if isinstance(x, np.ndarray):
        return bool((x == x[:1]).all())
    spread = x.max(axis=0) - x.min(axis=0)
    return not spread.nnz


def check_batch_size(graph: Graph, batch_size: int | None) -> None:
    """Refuse a batch of more nodes than there are."""
    if batch_size is not None and batch_size > graph.n_nodes:
        raise InputError(
            f"must be at most the graph's {graph.n_nodes:,} nodes, got {batch_size:,}",
            param="batch_size",
        )


def resolve_split(graph: Graph, split: Split | int | None, seed: int) -> Split:
    """Return the split that is meant: given, one of the graph's, or a random one."""
    if split is None:
        if not graph.splits:
            drawn = stratified_split(graph.y, FRACTIONS, seed, groups=graph.groups)
            if not drawn.test.size:
                warnings.warn(
                    f"{graph.labelled.size} labelled nodes are too few to hold some "
                    "back as test nodes: how good the model is will not be told",
                    H2GCNWarning,
                    stacklevel=4,
                )
            return drawn
        split = graph.splits[0]
    elif not isinstance(split, Split):
        if not isinstance(split, Integral):
            raise InputError(
                "must be a Split, or the number of one of the graph's own; labels are "
                "the graph's",
                param="split",
                value=type(split),
            )
        if not 0 <= split < len(graph.splits):
            raise InputError(
                f"{graph.name} has {len(graph.splits)} splits, numbered from 0; "
                f"there is no split {split!r}"
            )
        split = graph.splits[split]
    return check_split(graph, split)


def check_split(graph: Graph, split: Split) -> Split:
    """Return a split that can be used, or say what is wrong with it."""
    everything = np.concatenate(list(split.parts.values()))
    if everything.size and everything.max() >= graph.n_nodes:
        raise InputError(
            f"the split names node {everything.max()}, but {graph.name} has "
            f"{graph.n_nodes} nodes"
        )
    for part, index in split.parts.items():
        if np.bincount(index, minlength=1).max() > 1:
            raise InputError(f"the split's '{part}' part names a node twice")
    times = np.bincount(everything, minlength=graph.n_nodes)
    shared = np.flatnonzero(times > 1)
    if shared.size:
        raise InputError(
            f"the split has {shared.size} nodes in two parts, such as "
            f"{graph.node_ids[shared[0]]!s}"
        )
    unlabelled = np.flatnonzero((times > 0) & (graph.y < 0))
    if unlabelled.size:
        warnings.warn(
            f"{unlabelled.size} nodes of the split have no label and are left out",
            H2GCNWarning,
            stacklevel=5,
        )
        split = Split(*(np.setdiff1d(p, unlabelled) for p in split.parts.values()))
    for part in ("train", "val"):
        if split.parts[part].size == 0:
            raise InputError(f"the split's '{part}' part holds no labelled node")
    return split


def check_training_classes(graph: Graph, split: Split) -> None:
    """Refuse a training part of one class, and say which classes it does not have."""
    present = np.unique(graph.y[split.train])
    if present.size == 1:
        raise InputError(
            "at least two classes must have training nodes",
            value=str(graph.classes[present[0]]),
            where=graph.name,
        )
    missing = np.setdiff1d(graph.y[graph.labelled], present)
    if missing.size:
        names = ", ".join(str(name) for name in graph.classes[missing])
        warnings.warn(
            f"no training node is of class {names}: the model cannot learn it",
            H2GCNWarning,
            stacklevel=4,
        )


def estimate_work(module: NodeModule, graph: Graph, split: Split) -> Workload:
    """Return about how much training takes beside the operators."""
    if isinstance(graph.x, np.ndarray):
        features = 0 if isinstance(graph.x, np.memmap) else graph.x.nbytes
    else:
        features = 16 * graph.x.nnz  # with the transpose
    n = max(graph.n_nodes, 1)

    def step(n_nodes: int, n_targets: int, entries: int) -> int:
        # A dropped copy of the features, and its mask.
        dropped = 2 * features * n_nodes // n
        if module.inputs == "table":  # its sparse blocks have a column per node
            n_nodes = n
        return module.step_bytes(n_nodes, n_targets, entries) + dropped

    return Workload(
        features, step, len(split.train), len(split.val), module.receptive_field
    )


def fit_options(
    params: Params, seed: int, module: NodeModule, graph: Graph, split: Split
) -> RingOptions:
    """Return what the operators of a fit may take, and how rings are sampled."""
    return _ring_options(params, seed, estimate_work(module, graph, split))


def prediction_options(params: Params, seed: int, module: NodeModule) -> RingOptions:
    """Return what the operators of a prediction may take, and how rings are sampled."""
    width = params.get("hidden_channels") or DEFAULT_WIDTH
    work = Workload(
        step=lambda n_nodes, *_: 8 * width * n_nodes,
        receptive_field=module.receptive_field,
    )
    return _ring_options(params, seed, work)


def _ring_options(params: Params, seed: int, work: Workload) -> RingOptions:
    k, limit, batch_size = (
        params[name] for name in ("ring_cap", "memory_limit", "batch_size")
    )
    seed, limit = 0 if k is None else seed, None if limit is None else limit * 1e9
    return RingOptions(k, seed, limit, work, batch_size)


# --------------------------------------------------------------- warnings before a fit


MIN_FORECAST_WALKS = 10_000_000  # of length two; with fewer, no ring is large


def resolve_cap(params: Params, graph: Graph) -> int | None:
    """Return how many neighbors a fit samples, None for all; warn of a choice.

    Parameters
    ----------
    params
        Of a `NodeClassifier` of one model, checked.
    graph
        The graph of training.
    """
    cap, hops = params["ring_cap"], far_hops(params)
    if hops < 2:
        return None if isinstance(cap, str) else cap
    # build_rings() warns about large rings.
    warn = farthest_hop(spec_of(params).rules) < 2
    return choose_cap(cap or "exact", graph, hops, warn=warn)


def choose_cap(
    cap: int | str, graph: Graph, hops: int = 2, *, warn: bool = True
) -> int | None:
    """Return how many neighbors are sampled, None for all; warn of a choice.

    Parameters
    ----------
    cap
        A number; "exact"; or "auto": `h2gcn.rings.auto_max_neighbors` says.
    graph
        The graph.
    hops
        How many rings there are.
    warn
        Whether to warn of large exact rings.
    """
    if not isinstance(cap, str):
        return cap
    if cap == "exact" and not warn:
        return None
    walks = int((graph.degrees**2).sum())  # at least the entries of ring 2
    if walks < MIN_FORECAST_WALKS:
        return None
    forecast = forecast_rings(graph.adj, hops=hops)
    chosen = auto_max_neighbors(forecast, graph.n_nodes) if cap == "auto" else None
    if chosen is not None:
        near, far = forecast.entries[0], sum(forecast.entries[1:])
        text = (
            f"the 2-hop ring would hold {'' if forecast.exact else 'about '}{far:,} "
            f"entries, {far / max(near, 1):,.0f} times those of the graph, and take "
            f"{format_bytes(forecast.bytes)} in training: {chosen} of each node's ring "
            f"are sampled instead, weighted by its true size (ring_cap={chosen}); "
            "ring_cap='exact' takes all of them"
        )
        warnings.warn(text, H2GCNWarning, stacklevel=3)
    elif warn and forecast.bytes >= LARGE_BYTES:
        text = f"the rings are large: {forecast}; "
        text += f"ring_cap={MAX_NEIGHBORS} takes a sample of each node's"
        warnings.warn(text, H2GCNWarning, stacklevel=3)
    return chosen


_LOOKED_AT: WeakSet[Graph] = WeakSet()
"""Graphs that have been through the audit: it is told once."""


def without_findings(graph: Graph) -> None:
    """Have fits on a graph say nothing of it, for one who has looked at it already.

    Parameters
    ----------
    graph
        The graph.
    """
    _LOOKED_AT.add(graph)


def warn_of_findings(graph: Graph, split: Split) -> None:
    """Warn of what makes scores on a graph look better than they are, once a graph.

    Parameters
    ----------
    graph
        The graph.
    split
        The first that a model is fitted on.
    """
    if graph in _LOOKED_AT:
        return
    _LOOKED_AT.add(graph)
    for finding in misleading(graph, split):
        if finding.severity != "note":
            warnings.warn(
                f"{graph.name}: {finding.message}", H2GCNWarning, stacklevel=3
            )
