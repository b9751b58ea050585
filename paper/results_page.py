"""Write docs/results.md, its figures and the README's part, from results/ alone.

Nothing is run, and no benchmark file is needed: accuracies are those of the store
results/runs.jsonl, the tables of statistics and theory those of their result.json.

    python paper/results_page.py
"""

import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from conclusions import CLAIMS, conclude
from disagreements import kinds_chosen
from other_models import others_settings, others_table
from results_readme import ABSENT, readme_part
from results_text import (
    conclusions_list,
    counts_table,
    mlp_line,
    not_run_line,
    settings_table,
    worse_list,
)
from selection_rules import rules_part
from worse_cells import mixhop_widths

from h2gcn.experiments import (
    EXPERIMENTS,
    Figure,
    Table,
    digest,
    draw,
    find_protocol,
    markdown_grid,
    read_records,
    read_result,
    stored_result,
)

ROOT = Path(__file__).parents[1]
TEMPLATE = Path(__file__).with_name("results_page.md")
PROTOCOL = "standard"
KINDS, GAUSSIAN = "syn-products-kinds", "syn-products"
"""The features of syn-products: the stand-in, and what it is compared with."""
MADE = ("statistics", "theory")
"""Results that are kept as they were made, since they need data or computation."""
PART = re.compile(r"(<!-- results: begin -->\n).*?(<!-- results: end -->)", re.DOTALL)
"""What of the README is ours."""


class Results:
    """All that the page shows, out of a folder of results.

    Parameters
    ----------
    folder
        Holds `runs.jsonl`, `statistics/result.json`, `theory/result.json`, `train/`,
        and what was tried where ours is another: `split-noise.json`, `tried.jsonl`,
        `feature-kinds.json`, `selection-rules.jsonl`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records = read_records(folder / "runs.jsonl")
        protocol = find_protocol(PROTOCOL)
        self.stored = {
            name: stored_result(name, protocol, self.records, KINDS)
            for name in (*EXPERIMENTS, "ranks")
        }
        self.compared = {
            name: stored_result(name, protocol, self.records, GAUSSIAN).tables[0]
            for name, experiment in EXPERIMENTS.items()
            if experiment.synthetic == "syn-products"
        }
        self.made = {name: read_result(folder / name / "result.json") for name in MADE}
        self.tried = read_records(folder / "tried.jsonl")
        self.noise = json.loads((folder / "split-noise.json").read_text("utf-8"))
        self.kinds = json.loads((folder / "feature-kinds.json").read_text("utf-8"))
        rules = folder / "selection-rules.jsonl"
        self.rules = read_records(rules) if rules.exists() else []

    @property
    def tables(self) -> dict[str, Table]:
        """The table of each experiment that trains models."""
        return {name: result.tables[0] for name, result in self.stored.items()}

    @property
    def figures(self) -> dict[str, Figure]:
        """All figures by name, but those without any point."""
        return {
            figure.name: figure
            for result in (*self.stored.values(), *self.made.values())
            for figure in result.figures
            if any(v is not None for one in figure.series for v in one.mean)
        }


def page(results: Results) -> str:
    """Return docs/results.md."""
    tables, compared = results.tables, results.compared
    drawn = conclude(tables, compared)
    parts = {
        "conclusions": conclusions_list(drawn, tables, compared),
        "counts": counts_table(tables, compared),
        "worse": worse_list(tables, results.noise, results.tried),
        "mixhop": mixhop_widths(results.records, results.tried),
        "runs": runs_line(results),
        "absent": ABSENT,
        "mlp": mlp_line(tables["syn-products"]),
        "mlp compared": mlp_line(compared["syn-products"]),
        "kinds": kinds_chosen(results.kinds),
        "rules": rules_part(results.rules),
        "ranked": tables["ranks"].title.partition(" models on ")[2],
        "settings": settings_table(results.stored["real"]),
        "others": others_table(results.folder / "train", tables["real"]),
        "others settings": others_settings(results.folder / "train"),
    }
    for name, table in compared.items():
        parts[f"compared {name}"] = markdown_grid(table)
    for name, table in tables.items():
        parts[f"table {name}"] = markdown_grid(table)
        parts[f"notes {name}"] = _listed(table.notes or ())
        parts[f"missing {name}"] = not_run_line(table)
    for name, result in results.made.items():
        parts[f"notes {name}"] = _listed(result.notes)
        for table in result.tables:
            parts[f"table {table.name}"] = markdown_grid(table)
    for name in figure_names():
        figure = results.figures.get(name)
        parts[f"figure {name}"] = "" if figure is None else shown(figure)
    filled = re.sub(
        r"\{\{(.+?)\}\}", lambda found: parts[found[1]], TEMPLATE.read_text("utf-8")
    )
    return re.sub(r"\n{3,}", "\n\n", filled)  # where a part has nothing to say


def _listed(sentences: Iterable[str]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)


def shown(figure: Figure) -> str:
    """Return a figure as the page shows it."""
    return f"![{figure.title}](figures/{figure.name}.svg)"


@cache
def figure_names() -> tuple[str, ...]:
    """Return the figures that the page has a place for."""
    return tuple(re.findall(r"\{\{figure (.+?)\}\}", TEMPLATE.read_text("utf-8")))


def runs_line(results: Results) -> str:
    """Return what is in the store, in a sentence."""
    found = {record["key"]: record for record in results.records}
    failed = sum(bool(record.get("error")) for record in found.values())
    versions = ", ".join(sorted({record["version"] for record in found.values()}))
    told = f"{len(found):,} runs of version {versions} of this package"
    return f"{told}; {failed} failed." if failed else f"{told}; none failed."


def readme(text: str, results: Results) -> str:
    """Return the README with our part made anew."""
    part = readme_part(results.tables)
    found, n = PART.subn(lambda marks: f"{marks[1]}{part}{marks[2]}", text)
    if n != 1:
        raise SystemExit("README.md: it must have the marks of the results, once")
    return found


def stale_figures(results: Results, folder: Path) -> list[str]:
    """Return the figures in a folder that show other numbers, or are not there."""
    wanted = {n: f for n, f in results.figures.items() if n in figure_names()}
    files = {path.stem: path for path in folder.glob("*.svg")}
    stale = [
        name
        for name, figure in wanted.items()
        if name not in files or digest(figure) not in files[name].read_text("utf-8")
    ]
    return sorted({*stale, *(files.keys() - wanted.keys())})


def main() -> None:
    """Write all of it."""
    results = Results(ROOT / "results")
    folder = ROOT / "docs" / "figures"
    folder.mkdir(exist_ok=True)
    for name in stale_figures(results, folder):
        (folder / f"{name}.svg").unlink(missing_ok=True)
        if name in results.figures:
            draw(results.figures[name], folder / name, [".svg"])
    (ROOT / "docs" / "results.md").write_text(page(results), "utf-8")
    path = ROOT / "README.md"
    path.write_text(readme(path.read_text("utf-8"), results), "utf-8")
    for conclusion in conclude(results.tables, results.compared):
        print(conclusion.holds, conclusion.name)
    print(
        runs_line(results), f"{len(CLAIMS)} conclusions, {len(results.figures)} figures"
    )


if __name__ == "__main__":
    main()
