"""An epoch (training step and evaluation) of H2GCN against the literal algorithm.

The first reference concatenates, then classifies, over the whole graph, and lets torch
differentiate through its own sparse products: torch's first sparse layout, COO, and
beside it CSR, which torch calls beta and which is quicker. The second does the same
through PyG's message passing. All take turns in the same run, and their logits are
compared.

Beside the time stand the bytes that an epoch of ours must move (traffic.py), how fast
that moves them, and which share that is of what this machine's memory can do on as
many threads; then the bytes that its products gather if no cache helps.

    python benchmarks/epoch.py cora chameleon pubmed --models h2gcn-2 --threads 1 2
"""

import itertools
import statistics
import warnings
from typing import Any

import torch
from cases import GRAPHS, MODELS, Case, load
from common import judge, parser, publish, ratio, times_in_turns
from memory import peak_increase
from traffic import epoch_bytes, machine_bandwidth

from h2gcn import Graph
from h2gcn.sparse import tune_allocator

TOLERANCE = 1e-5
MESSAGE_BYTES = 6e9
"""Messages that take more are not passed: PyG's column stays empty."""
ASKED = {"cora": (8.0, 10.0), "pubmed": (12.0, 20.0), "chameleon": (15.0, 30.0)}
"""How many times faster than the literal algorithm H2GCN-2 must be there, with dropout
and without."""
SLOW = 8.0
"""Seconds after which a program gets no further turn."""


def main() -> None:
    """Time every combination and publish the table."""
    options = parser(__doc__)
    options.add_argument("graphs", nargs="*", default=GRAPHS)
    options.add_argument("--models", nargs="+", default=MODELS)
    options.add_argument("--dropout", type=float, nargs="+", default=(0.5, 0.0))
    options.add_argument("--threads", type=int, nargs="+", default=(1, 2))
    options.add_argument("--repeats", type=int, default=7)
    options.add_argument("--no-pyg", action="store_true", help="leave PyG out")
    chosen = options.parse_args()
    warnings.filterwarnings("ignore")
    tune_allocator()  # as the command line does; it helps the references as well
    bandwidth = {}
    for threads in chosen.threads:
        torch.set_num_threads(threads)
        bandwidth[threads] = machine_bandwidth()
    machine = {threads: bytes_ / 1e9 for threads, bytes_ in bandwidth.items()}
    print("memory, GB/s:", *(f"{v:.1f} on {t} thread(s)" for t, v in machine.items()))
    rows: list[dict[str, Any]] = []
    for name in chosen.graphs:
        graph = load(name)
        for model, dropout in itertools.product(chosen.models, chosen.dropout):
            rows += measure(graph, model, dropout, bandwidth, chosen)
        # After every graph: who stops it keeps what is done.
        publish("epoch", rows, folder=chosen.out, bandwidth_gigabytes_a_second=machine)
    for row in rows:
        if row["model"] == "h2gcn-2" and row["graph"] in ASKED:
            what = "{graph}, dropout {dropout}, {threads} thread(s)".format_map(row)
            asked = ASKED[row["graph"]][row["dropout"] == 0]
            judge(f"times faster on {what}", row["times faster"], asked, least=True)


def measure(
    graph: Graph, model: str, dropout: float, bandwidth: dict[int, float], chosen: Any
) -> list[dict[str, Any]]:
    """Return a row for each number of threads."""
    case, csr = (Case(graph, model, dropout, layout) for layout in ("coo", "csr"))
    programs = {
        "ours": case.our_epoch,
        "literal": case.literal_epoch,
        "csr": csr.literal_epoch,
    }
    references = [case.literal]
    if not chosen.no_pyg and case.pyg_bytes < MESSAGE_BYTES:
        programs["pyg"] = case.pyg_epoch
        references.append(case.pyg)
    difference = max(map(case.difference, references))
    assert difference <= TOLERANCE, f"{graph.name}: the logits differ by {difference}"
    shapes = case.shapes
    least = epoch_bytes(shapes, dropout=dropout > 0)
    gathered = epoch_bytes(shapes, dropout=dropout > 0, cached=False)
    peaks = {name: peak_increase(epoch) for name, epoch in programs.items()}
    rows = []
    for threads in chosen.threads:
        torch.set_num_threads(threads)
        spent = times_in_turns(programs, chosen.repeats, burst=3, seconds=SLOW)
        seconds = {name: statistics.median(times) for name, times in spent.items()}
        ours, pyg = seconds["ours"], seconds.get("pyg")
        rows.append(
            {
                "graph": graph.name,
                "model": model,
                "dropout": dropout,
                "threads": threads,
                "ms": 1e3 * ours,
                "middle half, ms": _middle(spent["ours"]),
                "literal ms": 1e3 * seconds["literal"],
                "literal middle half, ms": _middle(spent["literal"]),
                "times faster": seconds["literal"] / ours,
                "CSR ms": 1e3 * seconds["csr"],
                "times faster than CSR": seconds["csr"] / ours,
                "PyG ms": None if pyg is None else 1e3 * pyg,
                "times faster than PyG": ratio(pyg, ours),
                "logits differ": difference,
                "MB that must move": least / 1e6,
                "GB/s": least / ours / 1e9,
                "% of memory's": 100 * least / ours / bandwidth[threads],
                "MB gathered": gathered / 1e6,
                "peak MB": _megabytes(peaks["ours"]),
                "literal peak MB": _megabytes(peaks["literal"]),
                "PyG peak MB": _megabytes(peaks.get("pyg")),
            }
        )
    return rows


def _middle(times: list[float]) -> str:
    """Return between which two times half of all are, in milliseconds."""
    low, _, high = statistics.quantiles(times, n=4)
    return f"{1e3 * low:.3g} to {1e3 * high:.3g}"


def _megabytes(gigabytes: float | None) -> float | None:
    return None if gigabytes is None else 1e3 * gigabytes


if __name__ == "__main__":
    main()
