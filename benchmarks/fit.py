"""A whole fit against the literal algorithm in a plain loop, and cold starts.

A fit is `NodeClassifier.fit` with the benchmark's preset for a fixed number of epochs.
The reference does the same work as one would write it by hand: ring 2 by scipy's
product and subtraction, the literal algorithm, Adam, the weights of the best validation
accuracy kept. Both begin with the graph in memory, and take turns.

A cold start is a program in a process of its own, from nothing to its end; the
reference is `import torch` in such a process. `h2gcn predict` labels all of Texas with
a saved model.

    python benchmarks/fit.py texas --epochs 500 --skip-cold
"""

import itertools
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from cases import MODELS
from common import judge, medians_in_turns, parser, publish
from literal import LiteralH2GCN, sparse_products, to_torch
from memory import peak_increase
from torch.nn import functional

from h2gcn import Graph, NodeClassifier, load_dataset
from h2gcn.estimator.inputs import fit_scaler
from h2gcn.experiments import find_preset
from h2gcn.models import H2GCN, build_model
from h2gcn.rings import normalise
from rings import product_and_subtract

IMPORT_TIMES = 1.5
"""What importing h2gcn may take, where importing torch takes 1."""
HELP_SECONDS = 1.0


def main() -> None:
    """Time fits and cold starts and publish two tables."""
    options = parser(__doc__)
    options.add_argument("graphs", nargs="*", default=["texas", "cora"])
    options.add_argument("--models", nargs="+", default=MODELS)
    options.add_argument("--epochs", type=int, default=200)
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--skip-fits", action="store_true")
    options.add_argument("--skip-cold", action="store_true")
    chosen = options.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(chosen.threads)
    if not chosen.skip_fits:
        combinations = itertools.product(chosen.graphs, chosen.models)
        rows = [fit_row(name, model, chosen) for name, model in combinations]
        publish("fit", rows, folder=chosen.out, repeats=chosen.repeats)
    if not chosen.skip_cold:
        rows = cold_starts(chosen.repeats)
        publish("cold", rows, folder=chosen.out, repeats=chosen.repeats)
        seconds = {row["program"]: row["seconds"] for row in rows}
        for name in ("import h2gcn", "from h2gcn import NodeClassifier"):
            times = seconds[name] / seconds["import torch"]
            judge(f"{name}, times import torch", times, IMPORT_TIMES)
        judge("h2gcn --help, seconds", seconds["h2gcn --help"], HELP_SECONDS)


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


def literal_fit(graph: Graph, model: str, setting: dict[str, Any]) -> float:
    """Train the literal algorithm on the first split; return its best accuracy."""
    split, y = graph.splits[0], torch.from_numpy(graph.y)
    train, val = (torch.from_numpy(part) for part in (split.train, split.val))
    scaling = setting.get("scaling", "auto")
    x = to_torch(fit_scaler(scaling, graph.x, split.train)(graph.x))
    rings = [normalise(ring) for ring in (graph.adj, product_and_subtract(graph.adj))]
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


def cold_starts(repeats: int) -> list[dict[str, Any]]:
    """Return the median time of each program from its start to its end."""
    python, command = [sys.executable, "-c"], Path(sys.executable).with_name("h2gcn")
    texas = load_dataset("texas")
    setting = find_preset("texas", "h2gcn-1") | {"epochs": 20}
    with tempfile.TemporaryDirectory() as folder:
        classifier = NodeClassifier("h2gcn-1", random_state=0, **setting)
        classifier.fit(texas, 0).save(Path(folder, "model"))
        out = Path(folder, "predictions.csv")
        arguments = [Path(folder, "model"), "texas", "--all", "--out", out]
        programs = {
            "import torch": [*python, "import torch"],
            "import h2gcn": [*python, "import h2gcn"],
            "from h2gcn import NodeClassifier": [
                *python,
                "from h2gcn import NodeClassifier",
            ],
            "h2gcn --help": [command, "--help"],
            "h2gcn predict": [command, "predict", *arguments],
        }
        run = partial(subprocess.run, check=True, capture_output=True)
        calls = {name: partial(run, line) for name, line in programs.items()}
        seconds = medians_in_turns(calls, repeats)
    return [
        {
            "program": name,
            "seconds": spent,
            "times import torch": spent / seconds["import torch"],
        }
        for name, spent in seconds.items()
    ]


if __name__ == "__main__":
    main()
