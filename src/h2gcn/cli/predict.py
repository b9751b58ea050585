"""`h2gcn predict`: label nodes with a saved model."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from h2gcn.cli import options as src
from h2gcn.cli.console import notes_of, parts_bar, percent, say, tell, tell_json
from h2gcn.cli.options import MemoryLimit
from h2gcn.exceptions import H2GCNWarning, InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from h2gcn.cluster import Predicted
    from h2gcn.estimator import DecisionRule, NodeClassifier
    from h2gcn.graph import Graph

    Said = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]
    """Some nodes, [m], the class said of each, [m], and probabilities, [m, C]."""

__all__ = ["command", "guarded"]

_FORMULA = re.compile(r"[=+\-@\t\r\n＝＋－＠]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
FORMS = "macro_f1, f1=CLASS, top=K:CLASS or costs=FILE.csv"
BLOCK = 65_536
"""Nodes that are written at once."""


@partial(src.with_tables, only=src.READ_AGAIN)
def command(
    model_dir: src.ModelDir,
    source: src.Source = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The file to write, .csv or .parquet (default: "
            "predictions.csv); with --cluster, the folder of the parts (default: "
            "predictions).",
            show_default=False,
        ),
    ] = None,
    every_node: Annotated[
        bool, typer.Option("--all", help="Every node, not only the unlabelled ones.")
    ] = False,
    decision: Annotated[
        str | None,
        typer.Option(
            metavar="RULE",
            help="What to label by, instead of as in training: macro_f1, f1=CLASS, "
            "top=K:CLASS or costs=FILE.csv (see below).",
            show_default=False,
        ),
    ] = None,
    as_json: src.AsJson = False,
    guard_cells: Annotated[
        bool,
        typer.Option(
            "--guard-cells",
            help="Put an apostrophe before texts that a spreadsheet would take for a "
            "formula (.csv).",
        ),
    ] = False,
    force: src.Force = False,
    quiet: src.NoNotes = False,
    *,
    tables: src.Tables,
    new_nodes: Annotated[
        Path | None,
        typer.Option(
            help="A table of nodes that are added to SOURCE; only they are predicted, "
            "unless --all says otherwise.",
            rich_help_panel="New nodes",
        ),
    ] = None,
    new_edges: Annotated[
        Path | None,
        typer.Option(
            help="A table of edges that are added, by ids of new nodes or others.",
            rich_help_panel="New nodes",
        ),
    ] = None,
    batch_size: src.PredictedTogether = None,
    memory_limit: MemoryLimit = None,
    device: src.Device = None,
    cluster: src.Workers = None,
    one_file: Annotated[
        bool,
        src.large("With --cluster: one file after all, .csv or .parquet."),
    ] = False,
) -> None:
    """Predict the unlabelled nodes of SOURCE with the model in DIR.

    SOURCE may be the graph that the model was trained on, or another one with the
    same columns; tables are read as they were for training. The file has a row for
    each node: its id, in a column called as in the node table (else 'node'), the
    label, a probability for each class.

    With --new-nodes and --new-edges, the nodes of those tables are added to SOURCE and
    predicted by themselves: what they touch is computed, and no more of the graph.
    The tables have the columns of the others.

    Labels are those that training went for, unless --decision says by what to
    choose them. macro_f1 and f1=CLASS are chosen on the validation nodes, which the
    model keeps; top=K:CLASS takes the K nodes that most likely are of a class;
    costs=FILE.csv has a column for each class that may be said, and a row for each
    true one, named in its first column.

    With --cluster, workers predict parts of the nodes and write them themselves, as
    Parquet files of a folder that all of them see; what an interrupted command has
    finished is not made again. --one-file joins the parts at the end.

    A spreadsheet runs a cell such as =HYPERLINK(…) as a formula. Where ids or labels
    are somebody else's, --guard-cells has each such text begin with an apostrophe;
    numbers stay as they are.
    """
    import time
    import warnings

    import numpy as np

    from h2gcn import __version__
    from h2gcn.estimator import load_bundle, translate_labels
    from h2gcn.io import (
        check_suffix,
        extend_graph,
        listed,
        usable_path,
        write_prediction_blocks,
    )

    if quiet:
        warnings.simplefilter("ignore", H2GCNWarning)
    start = time.perf_counter()
    if cluster is None:
        if one_file:
            raise InputError("--one-file is for --cluster: without it, it is one file")
        out = Path("predictions.csv") if out is None else out
        check_suffix(out, (".csv",) if guard_cells else (".csv", ".parquet"))
    else:
        here_alone = {"--guard-cells": guard_cells}
        here_alone["--device"] = device not in (None, "auto", "cpu")
        _refuse_with_workers(here_alone)
        out = _check_out_of_workers(out, one_file=one_file)
    src.check_not_read(out, source, tables, new_nodes, new_edges)
    src.check_output(out, force=force)
    usable_path(model_dir)
    classifier = load_bundle(model_dir)
    rule = None if decision is None else _parse_decision(decision, classifier)
    here = {"memory_limit": memory_limit}
    if cluster is None:
        classifier.move(device, batch_size=batch_size, **here)
    elif rule is not None and not rule.by_rows:
        raise InputError(
            f"--decision {decision} compares all nodes, and no worker of --cluster "
            "sees all of them"
        )
    graph = src.load_as_trained(
        classifier, source, tables, memory_limit, label_required=False
    )
    before = graph
    if new_nodes is not None or new_edges is not None:
        options = src.options_of_training(classifier, tables, label_required=False)
        graph = extend_graph(graph, new_nodes, new_edges, options)
    alone = new_nodes is not None and not every_node
    wanted = (graph.y < 0) | every_node
    if alone:
        wanted = np.arange(graph.n_nodes) >= before.n_nodes
    if not wanted.any():
        raise InputError(
            "every node has a label",
            where=graph.name,
            hint="add --all to predict them anyway",
        )
    expected = np.full(graph.n_nodes, -1)
    labelled = graph.labelled
    expected[labelled], unseen = translate_labels(graph, labelled, classifier.classes_)
    if alone or (rule is not None and not rule.by_rows):
        expected[~wanted] = -1  # nothing is said of the others
    n_known = int(np.count_nonzero(expected >= 0))
    if unseen:
        warnings.warn(
            f"labels that the model never saw, and cannot predict: {listed(unseen)}",
            H2GCNWarning,
            stacklevel=2,
        )
    notes = notes_of(graph) if as_json or not quiet else []
    for note in () if quiet else notes:
        say(f"note: {note}")
    agreed, made = 0, None

    def blocks() -> Iterator[Said]:
        # Each node is wanted, or has a label to compare with, or both.
        nonlocal agreed
        told = _decide_and_join(classifier, graph, rule, wanted, alone=alone)
        for block, said, shares in told:
            agreed += int((said == expected[block]).sum())
            kept = wanted[block]
            yield block[kept], said[kept], shares[kept]

    if cluster is not None:
        # What is not written is not predicted: nothing is compared with it.
        mapped = src.seen_by_workers(source, tables, graph) if graph is before else None
        made = _predict_by_workers(
            *(cluster, classifier, graph, out, np.flatnonzero(wanted)),
            decision=rule,
            decision_name=decision,
            part_size=batch_size,
            source=mapped,
            memory_limit=memory_limit,
            one_file=one_file,
            force=force,
            show=not (quiet or as_json),
        )
        agreed, n_known = made.agreed, made.known
    else:
        as_written = guarded if guard_cells else np.asarray
        id_column = graph.record.id_column
        write_prediction_blocks(
            out,
            as_written(graph.node_ids),
            as_written(classifier.classes_),
            blocks(),
            id_column=id_column and str(as_written(np.array([id_column]))[0]),
            force=force,
        )
    n_written = int(np.count_nonzero(wanted))
    if as_json:
        result = {
            "model": str(model_dir),
            "name": classifier.params_["model"],
            "dataset": graph.name,
            "out": str(out),
            "nodes": n_written,
            "new_nodes": graph.n_nodes - before.n_nodes,
            "new_edges": graph.n_edges - before.n_edges,
            "known": n_known,
            "agreed": agreed,
            "unseen_labels": unseen,
            "decision": decision,
            "classes": [str(label) for label in classifier.classes_],
            "device": str(classifier.device_),
            "notes": notes,
            "seconds": round(time.perf_counter() - start, 3),
            "version": __version__,
        }
        if made is not None:
            result["cluster"] = {"place": cluster, **made.to_json()}
        tell_json(result)
        return
    known = ""
    if n_known:
        known = (
            f"; {percent(agreed / n_known)} % of {n_known:,} known labels agree "
            "(any training nodes included)"
        )
    new = "new " if alone else ""
    parts = ""
    if made is not None and not one_file:
        there = f", {made.found:,} from before" if made.found else ""
        count = len(made.parts)
        parts = f", {count:,} part{'' if count == 1 else 's'}{there}"
    tell(f"{n_written:,} {new}nodes written to {out}{parts}{known}")
    if rule is not None and rule.held_out is not None and rule.usual is not None:
        tell(
            f"decided by {decision}: {percent(rule.held_out)} % on the validation "
            f"nodes that it was chosen on, against {percent(rule.usual)} % by the "
            "likeliest class"
        )


def _refuse_with_workers(given: dict[str, Any]) -> None:
    """Refuse options of one process where workers do the work."""
    for flag, value in given.items():
        if value:
            raise InputError(f"{flag} is for one process: leave --cluster out")


def _check_out_of_workers(out: Path | None, *, one_file: bool) -> Path:
    """Return where workers write to, or refuse what is a file and should be a folder.

    Parameters
    ----------
    out
        Of the command line, None if it was left out.
    one_file
        Whether parts are joined.
    """
    from h2gcn.io import check_suffix

    if one_file:
        out = Path("predictions.csv") if out is None else out
        check_suffix(out, (".csv", ".parquet"))
        return out
    out = Path("predictions") if out is None else out
    if out.suffix.lower() in (".csv", ".parquet"):
        raise InputError(
            "with --cluster, parts are written to a folder; --one-file makes one file "
            "of them",
            where=str(out),
        )
    return out


def _predict_by_workers(
    place: str,
    classifier: NodeClassifier,
    graph: Graph,
    out: Path,
    nodes: NDArray[np.int64],
    *,
    one_file: bool,
    force: bool,
    show: bool,
    **given: Any,
) -> Predicted:
    """Predict over the workers of a cluster; return what came of it.

    Parameters
    ----------
    place
        Where workers are.
    classifier, graph, nodes
        What is predicted, and by what.
    out
        A folder, or the file that the parts become.
    one_file
        Whether parts are joined.
    force
        Whether a file that is already there is replaced.
    show
        Whether to show how far it is.
    given
        As of `predict_parts`.
    """
    from h2gcn.cluster import Cluster, join_parts, predict_parts

    folder = out.with_name(f"{out.name}.parts") if one_file else out
    with Cluster(place) as cluster, parts_bar(graph.name, show=show) as (part,):
        given |= {"on_part": part}
        try:
            made = predict_parts(cluster, classifier, graph, folder, nodes, **given)
        except KeyboardInterrupt:
            say(f"interrupted; the same command goes on from what is in {folder}")
            raise
    if one_file:
        join_parts(made, out, force=force)
    return made


def _parse_decision(text: str, classifier: NodeClassifier) -> DecisionRule:
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
            "--decision top=K:CLASS needs a number of nodes and a class, got "
            f"{text[:60]!r}"
        )
    if kind == "costs" and value:
        names = [str(label) for label in classifier.classes_]
        return classifier.decide("costs", costs=_read_costs(Path(value), names))
    raise InputError(f"--decision must be {FORMS}, got {text!r}")


def _read_costs(path: Path, names: list[str]) -> NDArray[np.float64]:
    """Read costs: a row for each true class, a column for each that is said."""
    import numpy as np

    from h2gcn.io import cannot_read, existing_file

    try:
        with existing_file(path).open(encoding="utf-8", newline="") as file:
            rows = [row for row in csv.reader(file) if row]
    except OSError as error:
        raise cannot_read(path, error) from None
    except (UnicodeDecodeError, csv.Error):
        raise InputError("not a CSV file in UTF-8", where=str(path)) from None
    said = [cell.strip() for cell in rows[0][1:]] if rows else []
    true = [row[0].strip() for row in rows[1:]]
    for what, found in (("column", said), ("row", true)):
        if sorted(found) != sorted(names):
            raise InputError(
                f"must have one {what} for each of the classes {', '.join(names)}, "
                f"got {', '.join(found) or 'none'}",
                where=str(path),
            )
    costs = np.empty((len(names), len(names)))
    for label, row in zip(true, rows[1:], strict=True):
        if len(row) != len(names) + 1:
            raise InputError(
                f"the row {label} has {len(row) - 1} costs, not {len(names)}",
                where=str(path),
            )
        for other, cell in zip(said, row[1:], strict=True):
            try:
                costs[names.index(label), names.index(other)] = float(cell)
            except ValueError:
                raise InputError(
                    f"the cost of {other} for {label} must be a number, got {cell!r}",
                    where=str(path),
                ) from None
    return costs


def _decide_and_join(
    classifier: NodeClassifier,
    graph: Graph,
    rule: DecisionRule | None,
    wanted: NDArray[np.bool_],
    *,
    alone: bool,
) -> Iterator[Said]:
    """Return nodes with what is said of them, a block after the other.

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
    alone
        Whether only they are returned; else all are.
    """
    import numpy as np

    from h2gcn.graph import slices

    if rule is None or rule.by_rows:
        some = np.flatnonzero(wanted) if alone else None
        for block, logits in classifier.predict_blocks(graph, some):
            shares = classifier.probabilities_of(logits)
            said = logits.argmax(axis=1) if rule is None else rule(shares)
            yield block, said, shares
        return
    nodes = np.flatnonzero(wanted)
    shares = classifier.predict_proba(graph, nodes)
    said = rule(shares)
    for part in slices(len(nodes), BLOCK):
        yield nodes[part], said[part], shares[part]


def guarded(texts: NDArray[Any]) -> NDArray[Any]:
    """Return texts, an apostrophe before those that a spreadsheet takes for a formula.

    Parameters
    ----------
    texts
        Ids or labels, [n]; numbers are returned as they are.
    """
    import numpy as np

    if texts.dtype.kind not in "OU":
        return texts
    return np.array([_guard(str(text)) for text in texts.tolist()], dtype=object)


def _guard(text: str) -> str:
    harmless = not _FORMULA.match(text) or _NUMBER.fullmatch(text)
    return text if harmless else f"'{text}"
