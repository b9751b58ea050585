"""Time sparse products of benchmarks, ours by turns with those of torch and scipy.

Prints milliseconds of a product with some dense columns by `h2gcn.sparse.Operator`, by
torch's CSR tensors and by scipy. Features are multiplied as they are and transposed,
as their gradient needs it.
"""

import argparse

import scipy.sparse as sp
import torch
from common import medians_in_turns, publish

from h2gcn import load_dataset
from h2gcn.graph import CSR
from h2gcn.rings import RowRule, build_matrices
from h2gcn.sparse import Operator, tune_allocator


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("graphs", nargs="*", default=["cora", "chameleon", "pubmed"])
    options.add_argument("--columns", type=int, nargs="+", default=[8, 16, 64, 128])
    options.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    options.add_argument("--repeats", type=int, default=15)
    chosen = options.parse_args()
    tune_allocator()  # as the command line does
    rows = []
    for name in chosen.graphs:
        for title, matrix in matrices(name).items():
            for threads in chosen.threads:
                torch.set_num_threads(threads)
                rows += [
                    {"graph": name, "matrix": title, "threads": threads}
                    | measure(matrix, columns, chosen.repeats)
                    for columns in chosen.columns
                ]
    publish("spmm", rows)


def matrices(name: str) -> dict[str, CSR]:
    """Return the normalized rings of a graph, its features and their transpose."""
    graph = load_dataset(name)
    first, second = build_matrices([RowRule(hop=1), RowRule(hop=2)], graph.adj)
    x = CSR(sp.csr_array(graph.x))
    return {"ring 1": first, "ring 2": second, "X": x, "X transposed": CSR(x.T)}


def measure(matrix: CSR, columns: int, repeats: int) -> dict[str, object]:
    """Return the milliseconds of each product, and how many times faster ours is."""
    operator, dense = Operator(matrix), torch.randn(matrix.shape[1], columns)
    csr = operator.scipy
    parts = csr.indptr, csr.indices, csr.data
    tensor = torch.sparse_csr_tensor(*map(torch.from_numpy, parts), size=csr.shape)
    array = dense.numpy()
    programs = {
        "ours": lambda: operator @ dense,
        "torch": lambda: tensor @ dense,
        "scipy": lambda: csr @ array,
    }
    torch.testing.assert_close(operator @ dense, tensor @ dense, rtol=1e-4, atol=1e-4)
    seconds = medians_in_turns(programs, repeats)
    return {
        "columns": columns,
        **{f"{name} ms": 1e3 * spent for name, spent in seconds.items()},
        "times torch": seconds["torch"] / seconds["ours"],
        "times scipy": seconds["scipy"] / seconds["ours"],
    }


if __name__ == "__main__":
    main()
