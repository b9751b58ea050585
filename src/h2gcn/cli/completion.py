"""What a shell completes: names of models and datasets, without loading either.

The names stand here once more, so that a press of the tab key does not wait for torch.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["DATASETS", "MODELS", "complete_model", "complete_source"]

DATASETS = (
    *("texas", "wisconsin", "cornell", "cornell-2020", "actor", "chameleon"),
    *("squirrel", "cora", "citeseer", "pubmed", "minesweeper", "tolokers"),
    "cora-full",
)
"""Those of `h2gcn.datasets`."""
MODELS = (
    *("h2gcn-1", "h2gcn-2", "mlp", "gcn", "gcn-jk", "gcn-cheby", "gcn-cheby-jk"),
    *("graphsage", "graphsage-jk", "gat", "mixhop", "geom-gcn", "sgc", "gdc"),
    *("gmnn", "gam", "cpgnn"),
    *("label-propagation", "label-propagation-2hop", "linbp", "ring-table", "sign"),
    *("fsgnn", "faf", "c-ignn", "linkx", "logistic", "boosted-trees"),
    *("residual-gcn", "residual-sage", "dir-gnn", "gpr-gnn", "acm-gcn", "h2gcn-s1"),
    *("h2gcn-ns0", "h2gcn-ns1", "h2gcn-n0", "h2gcn-n1", "h2gcn-k0", "h2gcn-k1"),
    *("h2gcn-r2", "h2gcn-nonlinear"),
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
