"""The README's part of the results: one figure and one table."""

from collections.abc import Mapping

from h2gcn.experiments import Cell, Table, published
from h2gcn.experiments.analysis import lead
from h2gcn.experiments.definition import published_rows

H2GCN = ("h2gcn-1", "h2gcn-2")
SHOWN = (*H2GCN, "gcn", "mlp")
LEFT_OUT = ("cornell",)
"""Not in the paper: the page of results has it."""
ABSENT = "`cora-full` is not run: its files were not to be had."


def readme_part(tables: Mapping[str, Table]) -> str:
    """Return the figure of syn-cora, the table of the real benchmarks, and their text.

    Parameters
    ----------
    tables
        Tables by experiment.
    """
    return "\n".join(
        [
            "![Test accuracy of eight models over the homophily ratio h on syn-cora]"
            "(docs/figures/syn-cora.svg)",
            "",
            "Means and one standard deviation over the authors' three graphs for each "
            "h; dotted: the paper.",
            "On the paper's real benchmarks, in percent over ten splits, the paper's "
            "figures in *italics*, and",
            "the best of the ten other models; it is **bold** where it "
            "leads H2GCN beyond the noise:",
            "",
            real_table(tables["real"]),
            "",
            ABSENT,
            "",
        ]
    )


def real_table(table: Table) -> str:
    """Return a row for each benchmark of the paper, by rising h."""
    rows = {row.name: row.cells for row in table.rows}
    homophily = {
        name: float(row["h"][0]) for name, row in published_rows("statistics").items()
    }
    heads = [
        "benchmark",
        "h",
        *(head for model in SHOWN for head in (model, "*paper*")),
        "best other",
    ]
    lines = [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    columns = [column for column in table.columns if column not in LEFT_OUT]
    for column in sorted(columns, key=lambda name: homophily[name]):
        place = table.columns.index(column)
        cells = [f"{homophily[column]:.2f}"]
        for model in SHOWN:
            cell, paper = rows[model][place], published("real", model, column)
            cells.append(_pair(cell.mean, cell.std))
            cells.append("–" if paper is None else f"*{_pair(*paper)}*")
        cells.append(_best_other({name: row[place] for name, row in rows.items()}))
        lines.append(f"| {column} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _best_other(cells: Mapping[str, Cell]) -> str:
    """Return the best model but H2GCN, bold where it is ahead beyond the noise."""
    means = {n: cell.mean for n, cell in cells.items() if cell.mean is not None}
    if len(means) < len(cells):
        return "not run"
    ours = max(H2GCN, key=means.__getitem__)
    best = max((name for name in means if name not in H2GCN), key=means.__getitem__)
    told = f"{best} {means[best]:.1f}"
    return f"**{told}**" if lead(cells[best], cells[ours])[0] > 0 else told


def _pair(mean: float | None, std: float | None) -> str:
    if mean is None:
        return "not run"
    return f"{mean:.1f}" if std is None else f"{mean:.1f} ± {std:.1f}"
