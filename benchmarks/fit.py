"""A whole fit against the literal algorithm in a plain loop, and cold starts.

A fit is `NodeClassifier.fit` with the benchmark's preset for a fixed number of epochs.
The reference does the same work as one would write it by hand: ring 2 by scipy's
product and subtraction, the literal algorithm, Adam, the weights of the best validation
accuracy kept. Both begin with the graph in memory, and take turns.

Ten splits of one graph follow each other, with what they share kept with the graph (its
rings, and their second copy with neighbours close), next to as many graphs that share
nothing.

A cold start is a program in a process of its own, from nothing to its end, with its
bytecode kept as an installed package has it; the reference is `import torch` in such a
process. `h2gcn predict` labels all of Texas with a saved model, `h2gcn train` trains it
for 20 epochs. Seconds of the processor say more than those of the clock where other
programs run.

A first run is one with an empty folder for compiled kernels, next to the same again.

    python benchmarks/fit.py texas --epochs 500 --skip-cold
"""

import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from cases import MODELS
from common import judge, medians_in_turns, parser, publish, seconds_of
from literal import LiteralH2GCN, sparse_products, to_torch
from memory import peak_increase
from torch.nn import functional

from h2gcn import Graph, NodeClassifier, load_dataset
from h2gcn.estimator.inputs import fit_scaler
from h2gcn.experiments import find_preset
from h2gcn.models import H2GCN, build_model
from h2gcn.rings import RowRule, build_matrices
from rings import product_and_subtract

IMPORT_TIMES = 1.5
"""What importing h2gcn or predicting may take, where importing torch takes 1."""
HELP_SECONDS = 1.0
COMPILE_SECONDS = 15.0
DEMO_SECONDS = 10.0
FEW_EPOCHS = 5


def main() -> None:
    """Time fits and cold starts and publish two tables."""
    options = parser(__doc__)
    options.add_argument("graphs", nargs="*", default=["texas", "cora"])
    options.add_argument("--models", nargs="+", default=MODELS)
    options.add_argument("--epochs", type=int, default=200)
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--skip-fits", action="store_true")
    options.add_argument("--skip-splits", action="store_true")
    options.add_argument("--skip-cold", action="store_true")
    chosen = options.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(chosen.threads)
    if not chosen.skip_fits:
        combinations = itertools.product(chosen.graphs, chosen.models)
        rows = [fit_row(name, model, chosen) for name, model in combinations]
        publish("fit", rows, folder=chosen.out, repeats=chosen.repeats)
    if not chosen.skip_splits:
        combinations = itertools.product(chosen.graphs, (FEW_EPOCHS, chosen.epochs))
        rows = [splits_row(name, epochs, chosen) for name, epochs in combinations]
        publish("splits", rows, folder=chosen.out, repeats=chosen.repeats)
    if not chosen.skip_cold:
        with tempfile.TemporaryDirectory() as folder:
            programs = Programs(Path(folder))
            cold = cold_starts(programs, chosen.repeats)
            first = first_runs(programs)
        publish("cold", cold, folder=chosen.out, repeats=chosen.repeats)
        times = {row["program"]: row["times import torch"] for row in cold}
        for name in ("from h2gcn import NodeClassifier", "h2gcn predict"):
            judge(f"{name}, times import torch", times[name], IMPORT_TIMES)
        seconds = {row["program"]: row["seconds"] for row in cold}
        judge("h2gcn --help, seconds", seconds["h2gcn --help"], HELP_SECONDS)
        publish("first", first, folder=chosen.out)
        for row in first:
            name, spent = row["program"], row["compiling s"]
            judge(f"{name}, seconds of compiling", spent, COMPILE_SECONDS)
        demo = next(row for row in first if row["program"] == "h2gcn demo")
        judge("h2gcn demo, seconds", demo["again s"], DEMO_SECONDS)


def fit_row(name: str, model: str, chosen: Any) -> dict[str, Any]:
    """Fit a benchmark both ways; return the row."""
    graph = load_dataset(name)
    setting = find_preset(name, model) | {"epochs": chosen.epochs, "patience": None}
    scores: dict[str, float] = {}

    def ours() -> None:
        # A graph remembers its rings: a new one, so that they are built each time.
        classifier = NodeClassifier(model, random_state=0, **setting)
        scores["ours"] = classifier.fit(replace(graph), 0).val_score_

    def literal() -> None:
        scores["literal"] = literal_fit(graph, model, setting)

    ways: dict[str, Callable[[], None]] = {"ours": ours, "literal": literal}
    ours()
    peaks = {way: peak_increase(function) for way, function in ways.items()}
    seconds = medians_in_turns(ways, chosen.repeats, warm_up=False)
    return {
        "graph": name,
        "model": model,
        "epochs": chosen.epochs,
        "dropout": setting["dropout"],
        "threads": chosen.threads,
        "fit s": seconds["ours"],
        "literal s": seconds["literal"],
        "times faster": seconds["literal"] / seconds["ours"],
        "val accuracy %": 100 * scores["ours"],
        "literal val accuracy %": 100 * scores["literal"],
        "peak GB": peaks["ours"],
        "literal peak GB": peaks["literal"],
    }


def splits_row(name: str, epochs: int, chosen: Any) -> dict[str, Any]:
    """Fit all splits of a benchmark, with and without what they share."""
    graph, model = load_dataset(name), MODELS[-1]
    setting = find_preset(name, model) | {"epochs": epochs, "patience": None}
    scores: dict[str, list[float]] = {}

    def fit(way: str, graphs: Callable[[], Graph]) -> None:
        classifiers = [
            NodeClassifier(model, random_state=0, **setting).fit(graphs(), split)
            for split in range(len(graph.splits))
        ]
        scores[way] = [classifier.val_score_ for classifier in classifiers]

    ways: dict[str, Callable[[], None]] = {
        "alone": lambda: fit("alone", lambda: replace(graph)),
        "shared": lambda: fit("shared", lambda: graph),
    }
    seconds = medians_in_turns(ways, chosen.repeats)
    assert scores["alone"] == scores["shared"], "what is shared changes nothing"
    return {
        "graph": name,
        "model": model,
        "splits": len(graph.splits),
        "epochs": epochs,
        "nothing shared s": seconds["alone"],
        "shared s": seconds["shared"],
        "times faster": seconds["alone"] / seconds["shared"],
    }


def literal_fit(graph: Graph, model: str, setting: dict[str, Any]) -> float:
    """Train the literal algorithm on the first split; return its best accuracy."""
    split, y = graph.splits[0], torch.from_numpy(graph.y)
    train, val = (torch.from_numpy(part) for part in (split.train, split.val))
    scaling = setting.get("scaling", "auto")
    x = to_torch(fit_scaler(scaling, graph.x, split.train)(graph.x))
    rings = [graph.adj, product_and_subtract(graph.adj)]
    rings = [build_matrices([RowRule()], ring)[0] for ring in rings]
    given = {key: setting[key] for key in ("dropout", "activation")}
    torch.manual_seed(0)
    weights = build_model(model, graph.n_features, graph.n_classes, given)
    assert isinstance(weights, H2GCN)
    module = LiteralH2GCN(weights, sparse_products(rings))
    decay = 2 * setting["l2"]
    optimiser = torch.optim.Adam(
        module.parameters(), lr=0.01, weight_decay=decay, fused=True
    )
    best, state = -1.0, module.state_dict()
    for _ in range(setting["epochs"]):
        module.train()
        optimiser.zero_grad()
        functional.cross_entropy(module(x)[train], y[train]).backward()
        optimiser.step()
        module.eval()
        with torch.no_grad():
            accuracy = (module(x)[val].argmax(dim=1) == y[val]).float().mean().item()
        if accuracy >= best:
            best, state = accuracy, deepcopy(module.state_dict())
    module.load_state_dict(state)
    return best


class Spent(NamedTuple):
    """What a program took: seconds of the clock, and of the processor."""

    seconds: float
    processor: float


class Programs:
    """Programs that begin from nothing, each in a process of its own.

    Parameters
    ----------
    folder
        Where they find a model, and leave what they write.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environment = dict(os.environ, PYTHONPYCACHEPREFIX=str(folder / "python"))
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)
        python = [sys.executable, "-c"]
        command = str(Path(sys.executable).with_name("h2gcn"))
        model, out = str(folder / "model"), str(folder / "predictions.csv")
        train = ["train", "texas", "--model", "h2gcn-1", "--epochs", "20"]
        predict = ["predict", model, "texas", "--all"]
        self.lines = {
            "import torch": [*python, "import torch"],
            "import h2gcn": [*python, "import h2gcn"],
            "from h2gcn import NodeClassifier": [
                *python,
                "from h2gcn import NodeClassifier",
            ],
            "h2gcn --help": [command, "--help"],
            "h2gcn train": [command, *train, "--out", model, "--force"],
            "h2gcn predict": [command, *predict, "--out", out, "--force"],
            "h2gcn demo": [command, "demo", "--quiet"],
        }

    def run(self, name: str, kernels: Path | None = None) -> Spent:
        """Run a program, with a folder for compiled kernels if one is given."""
        environment = self._environment
        if kernels is not None:
            environment = environment | {"NUMBA_CACHE_DIR": str(kernels)}
        before = os.times()
        seconds = seconds_of(
            lambda: subprocess.run(
                self.lines[name], check=True, capture_output=True, env=environment
            )
        )
        after = os.times()
        user = after.children_user - before.children_user
        return Spent(seconds, user + after.children_system - before.children_system)


def cold_starts(programs: Programs, repeats: int) -> list[dict[str, Any]]:
    """Return what each program takes from its start to its end, medians of turns."""
    names = [name for name in programs.lines if name != "h2gcn demo"]
    for name in names:
        programs.run(name)
    turns = [{name: programs.run(name) for name in names} for _ in range(repeats)]

    def median(name: str, field: str) -> float:
        return statistics.median(getattr(turn[name], field) for turn in turns)

    torch_alone = median("import torch", "processor")
    return [
        {
            "program": name,
            "seconds": median(name, "seconds"),
            "processor s": median(name, "processor"),
            "times import torch": median(name, "processor") / torch_alone,
        }
        for name in names
    ]


def first_runs(programs: Programs) -> list[dict[str, Any]]:
    """Return what compiling costs who runs a command for the first time."""
    rows = []
    for name in ("h2gcn train", "h2gcn predict", "h2gcn demo"):
        with tempfile.TemporaryDirectory() as empty:
            kernels = Path(empty)
            first = programs.run(name, kernels)
            count = len(list(kernels.rglob("*.nbc")))
            again = programs.run(name, kernels)
        rows.append(
            {
                "program": name,
                "kernels": count,
                "first s": first.seconds,
                "processor s": first.processor,
                "again s": again.seconds,
                "again, processor s": again.processor,
                "compiling s": first.processor - again.processor,
            }
        )
    return rows


if __name__ == "__main__":
    main()
