"""docs/results.md, its figures and the README's part are those of the stores."""

import json
import shutil
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from types import ModuleType
from typing import Any

import pytest
import results_page
from conclusions import CLAIMS, NOT_YET, Claim, conclude

from h2gcn.experiments import published, runs
from support.cases import each

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "results"
DISAGREES = {"importance-turns", "above-geom-gcn", "linear-is-enough"}
"""The paper's conclusions that do not hold in our runs; docs/results.md says why.

At h = 0.7, where the paper misses N2 most, ours misses N1. Our Geom-GCN leads on
chameleon. Where features of a class are twenty Gaussians, a non-linearity in every
round gains under heterophily.
"""
WITH_ONE_GAUSSIAN = {
    *("best-on-syn-products", "apart-in-homophily", "importance-turns", "first-round"),
}
"""Those that do not while they are judged by features of one Gaussian a class.

With them, GCN-Cheby leads on syn-products. At h = 0, where in the paper K0 and K1 are
level, ours misses K1 more than K0. In homophily the variant NS0 is a little ahead of
H2GCN-1, as in the paper's own table.
"""


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    """Return the script that writes the pages."""
    return results_page


@pytest.fixture(scope="module")
def kept(pages: ModuleType) -> Any:
    """Return the committed results."""
    return pages.Results(FOLDER)


def test_the_page_is_what_the_store_gives(pages: ModuleType, kept: Any) -> None:
    stale = "docs/results.md is stale: make results"
    assert pages.page(kept) == (ROOT / "docs/results.md").read_text("utf-8"), stale


def test_the_readme_is_what_the_store_gives(pages: ModuleType, kept: Any) -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert pages.readme(text, kept) == text, "README.md is stale: make results"


def test_the_figures_show_what_the_store_gives(pages: ModuleType, kept: Any) -> None:
    assert pages.stale_figures(kept, ROOT / "docs" / "figures") == []


def test_every_figure_has_a_place_on_the_page(pages: ModuleType, kept: Any) -> None:
    assert kept.figures.keys() <= {*pages.figure_names()}


def test_a_readme_without_the_marks_is_refused(pages: ModuleType, kept: Any) -> None:
    with pytest.raises(SystemExit, match=r"README\.md: it must have the marks"):
        pages.readme("# h2gcn", kept)


# ------------------------------------------------------------ a number that is edited


@pytest.fixture
def edited(pages: ModuleType, tmp_path: Path) -> Any:
    """Return the results with one accuracy of one reported run changed."""
    folder = tmp_path / "results"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("bench", "tune"))
    store = folder / "runs.jsonl"
    lines = store.read_text("utf-8").splitlines()
    place, record = next(
        (i, record)
        for i, record in reversed([*enumerate(map(json.loads, lines))])
        if (record["dataset"], record["model"]) == ("syn-cora/h0.10-r1", "gcn")
    )
    lines[place] = json.dumps(record | {"test_accuracy": record["test_accuracy"] / 2})
    store.write_text("\n".join(lines) + "\n", "utf-8")
    return pages.Results(folder)


def test_an_edited_number_makes_page_and_figure_stale(
    pages: ModuleType, edited: Any
) -> None:
    page = (ROOT / "docs/results.md").read_text("utf-8")
    assert pages.page(edited) != page
    stale = pages.stale_figures(edited, ROOT / "docs" / "figures")
    assert stale == ["syn-cora"]


def test_a_figure_that_is_missing_or_too_many_is_stale(
    pages: ModuleType, kept: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "figures"
    shutil.copytree(ROOT / "docs" / "figures", folder)
    (folder / "syn-cora.svg").rename(folder / "old.svg")
    assert pages.stale_figures(kept, folder) == ["old", "syn-cora"]


def test_one_command_makes_all_of_it_anew(
    pages: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    skipped = shutil.ignore_patterns("bench", "tune")
    shutil.copytree(FOLDER, tmp_path / "results", ignore=skipped)
    shutil.copytree(ROOT / "docs" / "figures", tmp_path / "docs" / "figures")
    (tmp_path / "docs" / "results.md").write_text("old")
    whole = (ROOT / "README.md").read_text("utf-8")
    emptied = pages.PART.sub(r"\1\2", whole)
    (tmp_path / "README.md").write_text(emptied, "utf-8")
    changed = tmp_path / "docs" / "figures" / "syn-cora.svg"
    changed.write_text("old")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    pages.main()
    page = (ROOT / "docs/results.md").read_text("utf-8")
    assert (tmp_path / "docs" / "results.md").read_text("utf-8") == page
    assert emptied != whole == (tmp_path / "README.md").read_text("utf-8")
    assert changed.read_text("utf-8").startswith("<?xml")
    assert "none failed" in capsys.readouterr().out


# ------------------------------------------------------------------- what is concluded


@each("claim", CLAIMS, ids=lambda claim: claim.name)
def test_the_papers_conclusions_hold_here(claim: Claim, kept: Any) -> None:
    concluded = conclude(kept.tables, kept.compared)
    said = next(one for one in concluded if one.name == claim.name)
    if said.holds is None:
        assert said.evidence.startswith(NOT_YET)
    else:
        disagrees = WITH_ONE_GAUSSIAN if said.compared else DISAGREES
        assert said.holds is (claim.name not in disagrees)
    page = (ROOT / "docs/results.md").read_text("utf-8")
    verdict = {True: "Holds.", False: "Does not hold here.", None: "Not yet."}
    assert f"**{verdict[said.holds]}** {said.sentence}\n" in page
    assert f"    - Ours: {said.evidence}\n" in page
    if said.holds is False:
        assert f"    - Ours: {said.evidence}\n    - Why: " in page


def test_means_are_those_of_the_lines_of_the_store(kept: Any) -> None:
    # Synthetic graphs have one setting a model: no choice stands between.
    last = {record["key"]: record for record in kept.records}
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for record in last.values():
        if record["dataset"].startswith("syn-cora/h"):
            h = record["dataset"].removeprefix("syn-cora/h")[:4]
            values[record["model"], h].append(100 * record["test_accuracy"])
    table = kept.tables["syn-cora"]
    for model, h, cell in table.placed():
        assert cell.n == len(values[model, h]) == 3
        assert cell.mean == pytest.approx(fmean(values[model, h]))
        assert cell.paper == published("syn-cora", model, h)


def test_real_means_are_of_the_setting_that_validation_nodes_chose(kept: Any) -> None:
    runs: dict[tuple[str, str], dict[str, dict[int, Any]]] = {}
    for record in kept.records:
        if record["experiment"] == "real":
            by_setting = runs.setdefault((record["dataset"], record["model"]), {})
            setting = json.dumps(record["config"], sort_keys=True)
            by_setting.setdefault(setting, {})[record["split"]] = record
    table = kept.tables["real"]
    for model, column, cell in table.placed():
        if cell.mean is None:
            continue
        judged = range(1 if column in ("pubmed", "squirrel") else 3)
        settings = [*runs[column, model].values()]
        seen = [fmean(s[i]["val_accuracy"] for i in judged) for s in settings]
        best = settings[seen.index(max(seen))]
        assert best.keys() == {*range(10)}
        mean = fmean(record["test_accuracy"] for record in best.values())
        assert cell.mean == pytest.approx(100 * mean)


def test_cells_that_were_run_twice_are_the_same(kept: Any) -> None:
    # Once to find out about kinds of features, once for the table, with other draws of
    # dropout, by which a single run may move further than the mean that a cell shows.
    table = kept.tables["syn-products"]
    variants = kept.tables["ablation"]
    for name, accuracies in kept.kinds["20"]["cells"].items():
        model, h = name.split(":")
        of = table if model in {row.name for row in table.rows} else variants
        cell = of.row(model)[h]
        if cell.mean is not None:
            assert cell.mean == pytest.approx(fmean(accuracies), abs=1.0), name


def test_the_stand_in_is_as_far_apart_as_was_found(kept: Any) -> None:
    assert runs.KINDS.kinds == 20
    assert runs.KINDS.separation == kept.kinds["20"]["separation"]


def test_the_kept_results_are_small() -> None:
    files = [p for p in FOLDER.rglob("*") if p.is_file() and "bench" not in p.parts]
    assert sum(path.stat().st_size for path in files) < 20_000_000
