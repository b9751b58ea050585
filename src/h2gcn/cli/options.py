"""Options that several commands share: which graph, which settings, which machine.

What a shell completes stands here too, names of models and datasets once more: a press
of the tab key does not wait for torch.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from h2gcn.cli.console import download_bar, settings_of
from h2gcn.exceptions import InputError

if TYPE_CHECKING:
    from h2gcn.cluster import Cluster
    from h2gcn.estimator import NodeClassifier
    from h2gcn.graph import Graph
    from h2gcn.io import TableOptions
    from h2gcn.models import ModelSpec

__all__ = [
    "DATASETS",
    "DEFAULT_MODEL",
    "MODELS",
    "READ_AGAIN",
    "AsJson",
    "BatchSize",
    "Categorical",
    "DateFeature",
    "Device",
    "DropUnknown",
    "EdgeCategorical",
    "EdgeFeature",
    "EdgeTimeColumn",
    "EdgeWeight",
    "Edges",
    "Feature",
    "Features",
    "FillMissing",
    "Force",
    "GroupColumn",
    "IdColumn",
    "LabelColumn",
    "MemoryLimit",
    "Model",
    "ModelDir",
    "NoNotes",
    "Nodes",
    "PredictedTogether",
    "Quiet",
    "RingCap",
    "Seed",
    "Source",
    "SourceColumn",
    "SplitColumn",
    "Tables",
    "TargetColumn",
    "TestAfter",
    "TimeColumn",
    "TrustData",
    "Undirected",
    "ValAfter",
    "Workers",
    "check_given",
    "check_not_read",
    "check_output",
    "check_page",
    "check_workers",
    "complete_model",
    "complete_source",
    "find_settings",
    "in_panel",
    "in_range",
    "is_benchmark",
    "large",
    "later_than",
    "load_as_trained",
    "load_source",
    "merge",
    "options_of_training",
    "over_workers",
    "parse_options",
    "past_of",
    "seen_by_workers",
    "with_tables",
]

DATASETS = (
    *("texas", "wisconsin", "cornell", "cornell-2020", "actor", "chameleon"),
    *("squirrel", "cora", "citeseer", "pubmed", "cora-full", "minesweeper"),
    *("tolokers", "roman-empire", "amazon-ratings", "questions"),
    *("chameleon-filtered", "chameleon-filtered-directed", "squirrel-filtered"),
    *("squirrel-filtered-directed", "penn94", "amherst41", "cornell5"),
    *("johns-hopkins55", "reed98", "genius", "twitch-gamers", "pokec"),
    *("snap-patents", "arxiv-year", "ogbn-arxiv", "ogbn-products", "coauthor-cs"),
    *("coauthor-physics", "amazon-photo", "amazon-computers", "hm-categories"),
    *("pokec-regions", "web-topics", "tolokers-2", "city-reviews", "artnet-exp"),
    "web-fraud",
)
"""Those of `h2gcn.datasets`."""
MODELS = (
    *("h2gcn-1", "h2gcn-2", "mlp", "gcn", "gcn-jk", "gcn-cheby", "gcn-cheby-jk"),
    *("graphsage", "graphsage-jk", "gat", "mixhop", "geom-gcn", "sgc", "gdc"),
    *("gmnn", "gam", "cpgnn"),
    *("label-propagation", "label-propagation-2hop", "linbp", "bp", "zoobp"),
    *("decoupled-smoothing", "correct-and-smooth", "ica", "ring-table", "sign"),
    *("c-ignn", "linkx", "logistic", "boosted-trees", "residual-gcn", "dir-gnn"),
    *("gpr-gnn", "acm-gcn", "h2gcn-s1", "h2gcn-ns0", "h2gcn-ns1", "h2gcn-n0"),
    *("h2gcn-n1", "h2gcn-k0", "h2gcn-k1", "h2gcn-r2", "h2gcn-nonlinear"),
)
"""Those of `h2gcn.models`."""
_READ = (".npz", ".graphml", ".pt", ".edgelist", ".csv", ".tsv", ".parquet")


def complete_model(incomplete: str) -> list[str]:
    """Return the models that a text may become."""
    return [name for name in ("auto", *MODELS) if name.startswith(incomplete)]


def complete_source(incomplete: str) -> list[str]:
    """Return the datasets, files and folders that a text may become."""
    names = [name for name in DATASETS if name.startswith(incomplete)]
    head, cut, tail = incomplete.rpartition("/")
    folder = Path(f"{head}{cut}" or ".")
    try:
        there = sorted(folder.iterdir())
    except OSError:
        return names
    for path in there:
        shown = path.name.startswith(".") <= tail.startswith(".")
        if path.name.startswith(tail) and shown:
            if path.is_dir():
                names.append(f"{head}{cut}{path.name}/")
            elif path.suffix in _READ:
                names.append(f"{head}{cut}{path.name}")
    return names


def in_range(low: float = -math.inf, high: float = math.inf) -> Callable[[Any], Any]:
    """Return a check of an option; typer's own takes the room of the help's words."""
    ends = [f"at least {low:,}"] if low > -math.inf else []
    ends += [f"at most {high:,}"] if high < math.inf else []

    def check(value: Any) -> Any:
        if value is not None and not low <= value <= high:
            raise typer.BadParameter(f"must be {' and '.join(ends)}, got {value}")
        return value

    return check


ModelDir = Annotated[
    Path, typer.Argument(metavar="DIR", help="A folder that 'h2gcn train' saved.")
]
NoNotes = Annotated[bool, typer.Option("--quiet", "-q", help="No notes.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Force = Annotated[
    bool, typer.Option("--force", help="Replace files that are already there.")
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="No notes, no progress bar.")
]
DEFAULT_MODEL = "h2gcn-1"
Model = Annotated[
    str | None,
    typer.Option(
        help=f"A name of 'h2gcn models' (default: {DEFAULT_MODEL}).",
        show_default=False,
        autocompletion=complete_model,
    ),
]
Device = Annotated[
    str | None,
    typer.Option(help="auto, cpu, cuda or mps (default: auto).", show_default=False),
]
Seed = Annotated[
    int,
    typer.Option(help="Of split, weights and dropout.", callback=in_range(0, 2**31)),
]


def in_panel(panel: str) -> Callable[..., Any]:
    """Return what makes the options of a panel of the help, of their help texts."""

    def option(help_text: str, **more: Any) -> Any:
        shown: dict[str, Any] = {"rich_help_panel": panel, "show_default": False}
        return typer.Option(help=help_text, **shown | more)

    return option


large = in_panel("Large graphs")
PredictedTogether = Annotated[
    int | None,
    large(
        "Nodes that are predicted together, with the rows that they need; else all.",
        min=1,
    ),
]
BatchSize = Annotated[
    int | None,
    large("Training nodes a step, with the rows that they need; else all."),
]


def _cap(value: str | None) -> int | str | None:
    """Return a number, or one of the names of `NodeClassifier`."""
    if value is None or value in ("exact", "auto"):
        return value
    try:
        return int(value)
    except ValueError:
        raise typer.BadParameter(
            f"must be a number from 1 on, exact or auto, got {value[:60]!r}"
        ) from None


RingCap = Annotated[
    str | None,
    large(
        "At most so many 2-hop neighbours a node, drawn by the seed; exact: all; auto: "
        "64 where there are far too many (default: auto; of a benchmark, exact).",
        metavar="N",
        callback=_cap,
    ),
]
MemoryLimit = Annotated[
    float | None, large("Gigabytes that may be used; else what is free.")
]


def _place(value: str | None) -> str | None:
    """Return where workers are, or say what a place may be."""
    if value is not None:
        from h2gcn.cluster import check_place

        check_place(value)
    return value


Workers = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="local:N|ADDRESS",
        help="Share the work among N processes of this machine, or the workers of a "
        "Ray cluster (host:port, or auto).",
        rich_help_panel="Large graphs",
        callback=_place,
        show_default=False,
    ),
]
_TRAINING = (
    *("epochs", "patience", "stopping", "optimizer", "batch_size", "class_weight"),
)
"""Settings that only a model with epochs can use, and that no model calls its own.

A model refuses the others by itself, wherever they come from.
"""


def check_workers(place: str | None, model: str, *, train: bool = False) -> None:
    """Refuse --cluster for a model that has nothing to share among workers.

    Parameters
    ----------
    place
        Where workers are, None without them.
    model
        A name of a model, or "auto".
    train
        Whether workers may train it, each on rows of the graph; else they make the ring
        table alone.
    """
    from h2gcn.estimator import AUTO
    from h2gcn.models import MODELS, find_model, is_distributable

    def can(spec: ModelSpec) -> bool:
        return spec.is_tabular or (train and is_distributable(spec))

    if place is None or model == AUTO or can(find_model(model)):
        return
    known = [name for name, spec in MODELS.items() if can(spec)]
    shared = "make the ring table" + (", or train rows of its rings" if train else "")
    raise InputError(
        f"--cluster: workers {shared}, and {model} has more than that. "
        f"Models that can: {', '.join(known)}, and auto."
    )


def seen_by_workers(source: str | None, tables: Tables, graph: Graph) -> str | None:
    """Return the path of a store that workers can map themselves; None if it is none.

    Parameters
    ----------
    source, tables
        What the graph was read from.
    graph
        As it was read, and not changed since.
    """
    from h2gcn.io import is_store

    if source is None or tables.nodes is not None or tables.edges is not None:
        return None
    # What edges weigh may be said by this command, and workers do not hear it.
    return source if is_store(source) and graph.edge_weight is None else None


@contextmanager
def over_workers(
    place: str | None,
    graphs: Iterable[tuple[Graph, str | None]],
    memory_limit: float | None,
) -> Iterator[Cluster | None]:
    """Have the workers of a cluster make the ring tables of graphs, for a while.

    Parameters
    ----------
    place
        Where workers are; None leaves it to this process.
    graphs
        Each with the path of its store, if it has one.
    memory_limit
        Gigabytes that a worker may take; None is what is free.

    Returns
    -------
    Iterator
        The cluster; None without one.
    """
    if place is None:
        yield None
        return
    from h2gcn.cluster import Cluster, share_table

    with ExitStack() as during:
        cluster = during.enter_context(Cluster(place))
        for graph, source in graphs:
            during.enter_context(
                share_table(cluster, graph, source=source, memory_limit=memory_limit)
            )
        yield cluster


def find_settings(
    path: Path | None, model: str | None
) -> tuple[str, dict[str, Any] | None]:
    """Return which model to use, and the settings of a file if one is given.

    Parameters
    ----------
    path
        What 'h2gcn tune' wrote as best.json, or an object with arguments of
        `NodeClassifier`.
    model
        The model of the command line, None where none was given.
    """
    from h2gcn.estimator import AUTO
    from h2gcn.models import ALIASES, find_model

    if path is None:
        if model not in (None, AUTO):
            find_model(model)
        return model or DEFAULT_MODEL, None
    named, settings = _read(path)
    if named is None or model is None:
        model = model or named or DEFAULT_MODEL
    elif ALIASES.get(named, named) != ALIASES.get(model, model):
        raise InputError(
            f"holds settings of {named}, but --model is {model}; leave --model out, "
            "or name another file",
            where=str(path),
        )
    if model == AUTO:
        raise InputError(
            "--settings is for one model, and --model is auto", where=str(path)
        )
    find_model(model)
    return model, settings


def _read(path: Path) -> tuple[str | None, dict[str, Any]]:
    from h2gcn.estimator import check_types
    from h2gcn.io import parse_json, read_own, shown

    content = parse_json(read_own(path), path)
    if not isinstance(content, dict):
        raise InputError(
            "must hold one JSON object, of settings by name", where=str(path)
        )
    model = content.get("model")
    if not isinstance(model, str | None):
        raise InputError(f"'model' must be a name, got {shown(model)}", where=str(path))
    tuned = isinstance(content.get("settings"), dict)  # as 'h2gcn tune' writes it
    if tuned:
        content = content["settings"]
    settings = {name: value for name, value in content.items() if name != "model"}
    if tuned:
        # As everywhere in experiments, a setting without patience has none.
        settings = {"patience": None, **settings}
    _check_names(path, settings)
    own = settings.get("options")
    settings_of(path, {*settings, *(own if isinstance(own, dict) else ())})
    check_types(settings, path, "settings" if tuned else "")
    return model, settings


def _check_names(path: Path, settings: Mapping[str, Any]) -> None:
    from h2gcn._validation import nearest
    from h2gcn.estimator import NodeClassifier

    here = ("random_state", "verbose")
    known = [name for name in NodeClassifier().get_params() if name not in here]
    for name in settings:
        if name == "random_state":
            raise InputError("'random_state' is what --seed is for", where=str(path))
        if name not in known:
            raise InputError(
                f"there is no setting {name[:100]!r}.{nearest(name, known)} The "
                "options of a model go into 'options'.",
                where=str(path),
            )


def check_given(model: str, given: Mapping[str, Any]) -> None:
    """Refuse what was asked of epochs or features of a model that has none.

    Parameters
    ----------
    model
        A name of a model.
    given
        Arguments of `NodeClassifier` of the command line; None was not given.
    """
    from h2gcn.estimator import AUTO
    from h2gcn.models import find_model

    if model == AUTO:
        return
    spec = find_model(model)
    for wants, has, names in (
        ("has no epochs", spec.epochs, _TRAINING),
        ("looks at no features", spec.inputs != "labels", ("scaling",)),
    ):
        used = [name for name in names if given.get(name) is not None]
        idle = [f"--{name.replace('_', '-')}" for name in used]
        if idle and not has:
            have = "has" if len(idle) == 1 else "have"
            raise InputError(
                f"the model {model} {wants}: {' and '.join(idle)} {have} no meaning "
                f"for it. Its options: {', '.join(sorted(spec.options))}."
            )


def parse_options(texts: Sequence[str]) -> dict[str, Any]:
    """Return the model's options of texts like "heads=4"."""
    options: dict[str, Any] = {}
    for text in texts:
        name, sign, value = (part.strip() for part in text.partition("="))
        if not (name and sign and value):
            raise InputError("must be NAME=VALUE", param="option", value=text)
        if name in options:
            raise InputError(f"sets {name} twice", param="option")
        options[name] = _value(name, value)
    return options


def _value(name: str, text: str) -> Any:
    """Return the value of an option: JSON, or else the text itself."""
    from h2gcn.io import parse_json

    # What begins as a list or an object is meant as one.
    if text[0] in "[{":
        return parse_json(text.encode("utf-8", "surrogateescape"), f"--option {name}")
    try:
        return parse_json(text.encode("utf-8", "surrogateescape"), name)
    except InputError:
        return text


def merge(
    base: Mapping[str, Any], given: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return settings in which those of the command line win.

    Parameters
    ----------
    base
        Arguments of `NodeClassifier`: a preset, or what a file holds.
    given
        Such arguments of the command line; None was not given.
    options
        The model's own, of the command line.
    """
    said = {name: value for name, value in given.items() if value is not None}
    old = dict(base.get("options") or {})
    kept = {name: value for name, value in old.items() if name not in said}
    both = kept | dict(options)
    # An option such as dropout may be an argument of the classifier in the base.
    rest = {name: value for name, value in base.items() if name not in options}
    return rest | said | ({"options": both} if both or old else {})


_TABLES = "Tables"
Source = Annotated[
    str | None,
    typer.Argument(
        metavar="SOURCE",
        help="A dataset's name; an .npz, .graphml, .pt or .edgelist file; a folder "
        "with nodes.* and edges.* (csv, tsv, parquet); or a store of 'h2gcn convert'.",
        show_default=False,
        autocompletion=complete_source,
    ),
]
TrustData = Annotated[
    bool,
    typer.Option(
        "--trust-data",
        help="Read a dataset whose files are not the known ones.",
    ),
]
Nodes = Annotated[
    str | None,
    typer.Option(
        metavar="TABLE",
        help="The node table: a file, or sqlite:FILE?SELECT …, duckdb:FILE?SELECT …, "
        "postgresql://USER@HOST/DB?SELECT ….",
        rich_help_panel=_TABLES,
    ),
]
Edges = Annotated[
    str | None,
    typer.Option(
        metavar="TABLE", help="The edge table, likewise.", rich_help_panel=_TABLES
    ),
]
IdColumn = Annotated[
    str | None,
    typer.Option(
        "--id-column",
        metavar="COLUMN",
        help="Column of the node ids (default: id, node or node_id).",
        rich_help_panel=_TABLES,
    ),
]
LabelColumn = Annotated[
    str | None,
    typer.Option(
        "--label-column",
        metavar="COLUMN",
        help="Column of the labels (default: label, class or y).",
        rich_help_panel=_TABLES,
    ),
]
Features = Annotated[
    Path | None,
    typer.Option(
        help="A .npy file of numbers, a row for each row of the node table, in place "
        "of its feature columns; float32 is not read into memory.",
        rich_help_panel=_TABLES,
    ),
]
Feature = Annotated[
    list[str] | None,
    typer.Option(
        "--feature-column",
        metavar="COLUMN",
        help="Feature columns: a,b or repeated (default: all numbers).",
        rich_help_panel=_TABLES,
    ),
]
Categorical = Annotated[
    list[str] | None,
    typer.Option(
        "--categorical",
        metavar="COLUMN",
        help="Columns to one-hot encode: a,b or repeated.",
        rich_help_panel=_TABLES,
    ),
]
SourceColumn = Annotated[
    str | None,
    typer.Option(
        "--source-column",
        metavar="COLUMN",
        help="Column where edges start (default: source, src, from, u).",
        rich_help_panel=_TABLES,
    ),
]
TargetColumn = Annotated[
    str | None,
    typer.Option(
        "--target-column",
        metavar="COLUMN",
        help="Column where edges end (default: target, dst, to, v).",
        rich_help_panel=_TABLES,
    ),
]
EdgeFeature = Annotated[
    list[str] | None,
    typer.Option(
        "--edge-feature",
        metavar="COLUMN",
        help="Columns of the edge table to use: a,b or repeated (default: all numbers, "
        "and text of few values).",
        rich_help_panel=_TABLES,
    ),
]
EdgeCategorical = Annotated[
    list[str] | None,
    typer.Option(
        "--edge-categorical",
        metavar="COLUMN",
        help="Columns of the edge table to one-hot encode.",
        rich_help_panel=_TABLES,
    ),
]
EdgeWeight = Annotated[
    str | None,
    typer.Option(
        "--edge-weight",
        metavar="COLUMN",
        help="How much an edge counts in means (default: all alike).",
        rich_help_panel=_TABLES,
    ),
]
DropUnknown = Annotated[
    bool,
    typer.Option(
        "--drop-unknown",
        help="Drop edges to nodes that are not in the node table.",
        rich_help_panel=_TABLES,
    ),
]
FillMissing = Annotated[
    bool,
    typer.Option(
        "--fill-missing",
        help="Where a number is missing, take the median of its column.",
        rich_help_panel=_TABLES,
    ),
]
Undirected = Annotated[
    bool,
    typer.Option(
        "--undirected",
        help="The edges have no direction.",
        rich_help_panel=_TABLES,
    ),
]


_split = in_panel("Splits of tables")
SplitColumn = Annotated[
    str | None,
    _split("Column of the node table that says train, val or test.", metavar="COLUMN"),
]
GroupColumn = Annotated[
    str | None,
    _split(
        "Nodes of one value here are never torn apart by a split.", metavar="COLUMN"
    ),
]
TimeColumn = Annotated[
    str | None,
    _split("When a node came up with its label: dates or numbers.", metavar="COLUMN"),
]
TestAfter = Annotated[
    str | None,
    _split(
        "Train on the graph as it was then, test on later labels; a day such as "
        "2024-06-01 counts whole.",
        metavar="TIME",
    ),
]
ValAfter = Annotated[
    str | None,
    _split(
        "Labels after it, up to the cut, are for validation (default: the latest "
        "quarter).",
        metavar="TIME",
    ),
]
EdgeTimeColumn = Annotated[
    str | None,
    _split("When an edge came up, in the edge table.", metavar="COLUMN"),
]
DateFeature = Annotated[
    list[str] | None,
    typer.Option(
        "--date-feature",
        metavar="COLUMN",
        help="Columns of dates to make numbers of: a,b or repeated.",
        rich_help_panel=_TABLES,
    ),
]


@dataclass(frozen=True)
class Tables:
    """Where tables are and how they are read: options that several commands have."""

    nodes: Nodes = None
    edges: Edges = None
    id_column: IdColumn = None
    label_column: LabelColumn = None
    features: Features = None
    trust_data: TrustData = False
    feature: Feature = None
    categorical: Categorical = None
    source_column: SourceColumn = None
    target_column: TargetColumn = None
    drop_unknown: DropUnknown = False
    undirected: Undirected = False
    fill_missing: FillMissing = False
    edge_feature: EdgeFeature = None
    edge_categorical: EdgeCategorical = None
    edge_weight: EdgeWeight = None
    date_feature: DateFeature = None
    split_column: SplitColumn = None
    group_column: GroupColumn = None
    time_column: TimeColumn = None
    test_after: TestAfter = None
    val_after: ValAfter = None
    edge_time_column: EdgeTimeColumn = None

    def options(self) -> TableOptions:
        """Return how the tables are to be read."""
        from h2gcn.io import TableOptions

        return TableOptions(
            id_column=self.id_column,
            label_column=self.label_column,
            feature_columns=tuple(self.feature) if self.feature else None,
            categorical=tuple(self.categorical or ()),
            source_column=self.source_column,
            target_column=self.target_column,
            drop_unknown=self.drop_unknown,
            undirected=self.undirected,
            fill_missing=self.fill_missing,
            edge_features=tuple(self.edge_feature) if self.edge_feature else None,
            edge_categorical=tuple(self.edge_categorical or ()),
            edge_weight=self.edge_weight,
            date_features=tuple(self.date_feature or ()),
            split_column=self.split_column,
            group_column=self.group_column,
            time_column=self.time_column,
            test_after=self.test_after,
            val_after=self.val_after,
            edge_time_column=self.edge_time_column,
        )


READ_AGAIN = (
    *("nodes", "edges", "features", "trust_data", "source_column", "target_column"),
    *("drop_unknown", "fill_missing"),
)
"""What of `Tables` there is to say of a graph for a model that knows its columns."""


def with_tables(
    command: Callable[..., Any], only: Sequence[str] | None = None
) -> Callable[..., Any]:
    """Have a command take every field of `Tables` as an option of its own.

    They stand where its parameter `tables` stands, which is what it gets of them.

    Parameters
    ----------
    command
        What typer is to call.
    only
        The fields that it takes; None is all.
    """
    own = inspect.signature(command, eval_str=True)
    fields = dict(inspect.signature(Tables, eval_str=True).parameters)
    if only is not None:
        fields = {name: fields[name] for name in fields if name in only}
    taken: list[inspect.Parameter] = []
    for name, parameter in own.parameters.items():
        taken += fields.values() if name == "tables" else [parameter]

    @wraps(command)
    def spread(**given: Any) -> Any:
        tables = Tables(**{name: given.pop(name) for name in fields})
        return command(**given, tables=tables)

    spread.__annotations__ = {one.name: one.annotation for one in taken}
    vars(spread)["__signature__"] = own.replace(parameters=taken)
    return spread


_FOR_TABLES = (
    *("split_column", "group_column", "time_column", "edge_time_column"),
    "date_feature",
)


def past_of(graph: Graph, options: TableOptions) -> Graph:
    """Return a graph as it was at the cut that the options name; itself without one."""
    from h2gcn.graph import until

    cut = options.test_after
    return graph if cut is None or graph.times is None else until(graph, cut)


def later_than(
    past: Graph, graph: Graph, options: TableOptions
) -> dict[str, Any] | None:
    """Return what came after the cut, for JSON; None where there is no cut.

    Parameters
    ----------
    past, graph
        The graph as it was, and the whole.
    options
        How its tables were read.
    """
    if past is graph:
        return None
    return {
        "column": options.time_column,
        "edge_column": options.edge_time_column,
        "test_after": options.test_after,
        "val_after": options.val_after,
        "nodes_later": graph.n_nodes - past.n_nodes,
        "edges_later": graph.n_edges - past.n_edges,
    }


def check_not_read(
    out: Path, source: str | None, tables: Tables, *more: Path | None
) -> None:
    """Refuse to write a file in the place of one that the same command reads."""
    from h2gcn.io import is_database, usable_path

    given = [source, tables.nodes, tables.edges, tables.features, *more]
    files = [path for path in given if path is not None and not is_database(path)]
    read = [usable_path(path) for path in files]
    read += [path / out.name for path in read if out.stem in ("nodes", "edges")]
    target = usable_path(out)
    if target.is_file() and any(p.is_file() and p.samefile(target) for p in read):
        raise InputError(
            "this command reads it; --out must be another file", where=str(out)
        )


def check_page(page: Path | None, *, force: bool) -> None:
    """Refuse a page that cannot be written, before the work is done."""
    from h2gcn.io import check_suffix

    if page is not None:
        check_suffix(page, (".html", ".htm"))
        check_output(page, force=force)


def check_output(path: Path, *, force: bool) -> None:
    """Refuse a file that cannot be written, before the work is done."""
    from h2gcn.io import check_new, usable_path

    check_new(path, force=force)
    if not usable_path(path).parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist", where=str(path))


def is_benchmark(source: str | None) -> bool:
    """Return whether a source is a graph by name, and not one's own."""
    from h2gcn.datasets import is_dataset

    return source is not None and (is_dataset(source) or source.startswith("syn-cora"))


def load_source(
    source: str | None,
    tables: Tables,
    options: TableOptions,
    memory_limit: float | None = None,
) -> Graph:
    """Read the graph: a benchmark by name, else a file, a folder or two tables.

    Parameters
    ----------
    source
        A name, a file or a folder, if there is one.
    tables
        What else the command line says of it.
    options
        How tables are read: as it says, or as they were for training.
    memory_limit
        Gigabytes that may be used; None is what is free.
    """
    from h2gcn._validation import check_real, nearest
    from h2gcn.datasets import DATASETS, load_dataset
    from h2gcn.io import is_database, read_graph, recover_store, usable_path
    from h2gcn.sparse import limit_memory

    if memory_limit is not None:
        check_real("memory_limit", memory_limit, "(0, inf)")
    if source is not None and tables.nodes is None and tables.edges is None:
        # A folder that is called as a dataset is meant by ./texas.
        if is_benchmark(source):
            if tables.features is not None:
                raise InputError(
                    f"{source} is a dataset with features of its own; --features is "
                    "for tables"
                )
            for name in _FOR_TABLES:
                if getattr(tables, name):
                    raise InputError(
                        f"{source} is a dataset with splits of its own; "
                        f"--{name.replace('_', '-')} is for tables"
                    )
            with download_bar() as progress:
                return load_dataset(
                    source, trust_data=tables.trust_data or None, progress=progress
                )
        a_file = is_database(source) or Path(source).suffix
        if not a_file:
            recover_store(usable_path(source))
        if not a_file and not usable_path(source).exists():
            raise InputError(
                f"{source!r} is neither a dataset nor a file or folder."
                f"{nearest(source, DATASETS)} 'h2gcn datasets' lists the datasets."
            )
    if tables.trust_data:
        raise InputError(
            "--trust-data is for datasets: files of your own have no known checksums"
        )
    with limit_memory(memory_limit):
        return read_graph(
            source,
            nodes=tables.nodes,
            edges=tables.edges,
            options=options,
            features=tables.features,
        )


def load_as_trained(
    classifier: NodeClassifier,
    source: str | None,
    tables: Tables,
    memory_limit: float | None = None,
    *,
    label_required: bool,
) -> Graph:
    """Read a graph for a saved model, see `options_of_training` and `load_source`."""
    options = options_of_training(classifier, tables, label_required=label_required)
    graph = load_source(source, tables, options, memory_limit)
    _check_filled_alike(graph, options, source)
    return graph


def _check_filled_alike(
    graph: Graph, options: TableOptions, source: str | None
) -> None:
    """Raise where a file was filled with other medians than those of the training."""
    from h2gcn.io import TableOptions

    filled = TableOptions.from_json(graph.record.tables)
    if not filled.fill_missing:
        return
    for kind in ("fill_values", "edge_fill_values"):
        own = getattr(filled, kind)
        for column, trained in getattr(options, kind).items():
            if own.get(column, trained) != trained:
                raise InputError(
                    "was filled with medians of its own, not with those of the "
                    f"training: for column {column!r} it has {own[column]:g}, the "
                    f"model {trained:g}",
                    where=source,
                    hint="predict from the original tables with fill_missing=True, or "
                    "convert them without it",
                )


def options_of_training(
    classifier: NodeClassifier, tables: Tables, *, label_required: bool
) -> TableOptions:
    """Return how to read tables for a saved model: as for its training.

    Parameters
    ----------
    classifier
        Loaded.
    tables
        What the command line adds: where they are, ends of edges, the label, what is
        dropped and filled.
    label_required
        Whether a table without the label column of training is a mistake.
    """
    from h2gcn.io import TableOptions

    options = TableOptions.from_json(classifier.tables_)
    return replace(
        options,
        drop_unknown=options.drop_unknown or tables.drop_unknown,
        fill_missing=options.fill_missing or tables.fill_missing,
        source_column=tables.source_column or options.source_column,
        target_column=tables.target_column or options.target_column,
        label_column=tables.label_column or options.label_column,
        label_required=label_required,
        to_train=False,
    )
