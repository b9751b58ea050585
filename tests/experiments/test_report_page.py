"""The report: one page that holds all results, needs nothing else and trusts none."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from h2gcn.cli import main
from h2gcn.experiments import (
    Figure,
    Result,
    figures,
    render_html as render,
    summary_line as summarise,
)
from support.cases import each
from support.example_results import (
    EVIL,
    as_paper,
    card,
    cell,
    figure,
    leave,
    result,
    small,
    table,
)


def render_html(results: list[dict[str, Any]]) -> str:
    return render([Result.from_json(one) for one in results])


def summary_line(results: list[dict[str, Any]]) -> str:
    return summarise([Result.from_json(one) for one in results])


VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """A page's tags, attributes and text; fails where a tag is not closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag and its attributes."""
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag that closes itself, as in drawings."""
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        """Check that it is the last one open."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Note text that readers see."""
        if not {"style", "script"} & set(self.open):
            self.text += data

    def values(self, name: str) -> list[str]:
        """Return all values of an attribute."""
        return [value or "" for key, value in self.attributes if key == name]


def evil() -> dict[str, Any]:
    """Return a result whose every name and text would like to be markup."""
    one = cell(1.0, n=2, values=[1.0, 1.0], runs=[EVIL, EVIL], note=EVIL)
    named = card(EVIL, 2) | {"class_names": [EVIL, EVIL], "checksum": EVIL}
    series = {"name": EVIL, "x": [EVIL], "mean": [1.0], "std": None, "runs": [[1, 2]]}
    return result(
        **{"experiment": EVIL, "title": EVIL, "protocol": EVIL, "version": EVIL},
        **{"environment": {EVIL: EVIL}, "notes": [EVIL], "cards": {EVIL: named}},
        not_run=[EVIL],
        failed=[
            {"key": EVIL, "dataset": EVIL, "model": EVIL, "split": 0, "error": EVIL}
        ],
        tables=[table({EVIL: [one]}, [EVIL], title=EVIL, corner="model", unit=EVIL)],
        figures=[
            figure([series], title=EVIL, x_label=EVIL, y_label=EVIL),
            figure([series], title=EVIL, kind="bars"),
        ],
    )


RESULTS = {
    "small": small(),
    "syn-cora": as_paper("syn-cora"),
    "real": as_paper("real"),
    "evil": evil(),
    "bare": {"experiment": "bare"},
    "empty": result(tables=[table({}, [])], figures=[figure([])]),
}


# -------------------------------------------------------------------------------- page


@each("given", RESULTS.values(), ids=RESULTS)
def test_the_page_is_whole_and_needs_nothing_else(given: dict[str, Any]) -> None:
    html = render_html([given])
    page = Page(html)
    assert html.lstrip().startswith("<!DOCTYPE html>")
    assert not re.search(r"https?://|@import|url\(", html)
    assert not {"link", "iframe", "object", "base", "form"} & set(page.tags)
    names = {name for name, _ in page.attributes}
    assert not {"srcset", "xlink:href", "action"} & names
    assert len(images(html)) == page.tags.count("img") == len(page.values("alt"))
    assert not [name for name in names if name.startswith("on")]
    assert all(link.startswith("#") for link in page.values("href"))
    assert {link[1:] for link in page.values("href")} <= set(page.values("id"))


def test_no_script_runs_but_the_pages_own() -> None:
    html = render_html([evil()])
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    assert html.count("<script") == html.count("</script") == 1
    hashed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src 'sha256-{hashed}'"
    )
    assert policy in Page(html).values("content")


def test_names_are_shown_as_they_are() -> None:
    page = Page(render_html([evil()]))
    assert page.text.count(EVIL) > 20
    assert any(EVIL in label for label in page.values("aria-label"))
    assert any(EVIL in words for words in page.values("alt"))
    assert any(EVIL in tip for tip in page.values("data-tip"))


def test_a_large_result_stays_small() -> None:
    size = len(render_html([as_paper("real")]).encode())
    assert size < 400_000


def test_the_summary_counts_verdicts_by_experiment_and_model() -> None:
    page = Page(render_html([small(), as_paper("syn-cora")]))
    cells = [
        one
        for given in (small(), as_paper("syn-cora"))
        for row in given["tables"][0]["rows"]
        for one in row["cells"]
    ]
    n = {
        kind: sum(c["verdict"] == kind for c in cells) for kind in ("better", "within")
    }
    assert (
        f"{n['within']} within one standard deviation or equal, {n['better']} better"
        in page.text
    )
    assert "1 cell of the tables not run." in page.text
    assert "1 run failed." in page.text
    # Better, within, worse, not judged, not run.
    html = render_html([small()])
    for name, counts in {
        ">t<": "11121",
        ">h2gcn-1<": "11010",
        ">gcn<": "00111",
    }.items():
        row = next(row for row in html.split("<tr>")[1:] if name in row)
        assert "".join(re.findall(r'data-v="(\d+)"', row)) == counts
    assert summary_line([small()]) == (
        "1 experiment; cells: 1 better, 1 within 1 sd, 1 worse, 2 not judged, 1 not run"
    )


def test_graphs_are_not_counted_as_better_or_worse() -> None:
    paper = {"mean": 3.0, "std": None}
    more = cell(5, paper=paper, verdict="better", difference=2)
    shown = table({"cora": [more]}, ["nodes"], corner="dataset")
    assert summary_line([result(tables=[shown])]).endswith("cells: 1 differs")
    page = Page(render_html([result(tables=[shown])]))
    assert "no figure of a model beside the paper's" in page.text


def test_the_headline_counts_models_apart_from_graphs_and_theorems() -> None:
    paper = {"mean": 3.0, "std": None}
    same = cell(3, paper=paper, verdict="within", difference=0)
    other = cell(5, paper=paper, verdict="none", difference=2)
    graphs = table({"cora": [same, same, other]}, ["a", "b", "c"], corner="dataset")
    degrees = table({"gcn": [cell(2.0, verdict="better", paper=paper)]}, ["1"])
    degrees["corner"] = "model \\ degree"
    one = result(tables=[small()["tables"][0], degrees, graphs])
    text = Page(render_html([one])).text
    assert (
        "4 figures of models beside the paper's: 1 within one standard deviation or "
        "equal, 2 better, 1 worse."
    ) in text
    told = "3 figures of graphs and theorems beside the paper's: 2 in agreement, 1 not."
    assert told in text
    assert "graphs and theorems" not in Page(render_html([small()])).text


def test_the_page_shows_the_notes_of_a_table() -> None:
    shown = table({"a": [cell(1.0)]}, ["x"], notes=[EVIL])
    assert Page(render_html([result(tables=[shown])])).text.count(EVIL) == 1


def test_a_cell_shows_ours_the_papers_and_the_verdict() -> None:
    html = render_html([small()])
    (best,) = re.findall(r'<td data-v="70.5".*?</td>', html, re.DOTALL)
    told = " ".join(Page(best).text.split())
    assert told == "70.50 ± 0.71paper 70.00 ± 1.00within 1 sd"
    assert "<b>70.50 ± 0.71</b>" in best
    assert html.count("<b>") == 1
    tips = Page(html).values("data-tip")
    assert "h2gcn-1, texas\nsplit 0: 70.00\nsplit 1: 71.00\nahead of gcn" in tips
    assert html.count("<i>not run</i>") == 1


def images(html: str) -> list[str]:
    """Return the drawings of a page."""
    start = "data:image/svg+xml;base64,"
    sources = Page(html).values("src")
    assert all(source.startswith(start) for source in sources)
    return [base64.b64decode(s.removeprefix(start)).decode() for s in sources]


def test_a_figure_is_matplotlibs_own_with_words_for_those_who_do_not_see_it() -> None:
    html = render_html([small()])
    (svg,) = images(html)
    assert figures.digest(Figure.from_json(small()["figures"][0])) in svg
    assert Page(html).values("alt") == [
        "A figure: test accuracy (%) over edge homophily ratio h. h2gcn-1: from 70.5 "
        "at 0.1 to 9.5 at 0.5; gcn: from 64 at 0.1 to 10.2 at 0.5."
    ]


def test_a_figure_of_nothing_says_so() -> None:
    html = render_html([result(figures=[figure([])])])
    assert images(html) == []
    assert "Not run." in Page(html).text


def test_without_matplotlib_the_page_says_what_draws_figures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(figures, "find_spec", lambda _: None)
    html = render_html([small()])
    assert images(html) == []
    needed = "to draw figures, matplotlib is needed: pip install 'h2gcn[bench]'"
    assert needed in Page(html).text
    assert "70.50 ± 0.71" in html
    assert run(leave(tmp_path, small())) == 0
    assert f"{needed}\n" in capsys.readouterr().err


def test_cards_have_their_matrices_shaded() -> None:
    given = result(
        cards={"texas": card("texas", 2) | {"compatibility": [[0, 1], [0.5, None]]}}
    )
    html = render_html([given])
    shades = re.findall(r'<td class="(h\d+|none)">([^<]*)</td>', html)
    assert shades == [("h0", "0"), ("h20", "1"), ("h10", "0.50"), ("none", "–")]
    for told in ("texas", "1,703", "0.11", "-0.23", "0123456789abcdef"):
        assert told in Page(html).text


def test_a_graph_of_two_experiments_is_shown_once() -> None:
    bare = card("texas", 3)
    del bare["compatibility"]
    other = card("texas", 3) | {"checksum": "another"}
    results = [
        result(experiment=name, cards={"texas": one})
        for name, one in (("a", bare), ("b", card("texas", 3)), ("c", other))
    ]
    html = render_html(results)
    assert html.count('<tr><th scope="row" data-s="texas">') == 2
    assert html.count("Compatibility matrix of texas") == 2


def test_what_was_not_run_and_what_failed_is_listed() -> None:
    text = Page(render_html([small()])).text
    assert "cora × gcn: no data" in text
    assert "ValueError: no such file" in text
    assert "3.12.1" in text
    assert "Made up." in text


# ------------------------------------------------------------------------ command line


def run(*arguments: object) -> int:
    return main(["report", *map(str, arguments)])


def test_the_command_writes_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = leave(tmp_path / "r", small())
    page = tmp_path / "page.html"
    assert run(folder, "--out", page) == 0
    said = capsys.readouterr()
    assert said.out.startswith("1 experiment; cells: 1 better")
    assert str(page) in said.err
    assert page.read_text(encoding="utf-8") == render_html([small()])
    assert run(folder) == 0
    assert (folder / "report.html").read_bytes() == page.read_bytes()


def test_the_command_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = leave(tmp_path / "r", small())
    assert run(folder, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["report"] == str(folder / "report.html")
    assert result["experiments"] == [small()["experiment"]]
    assert result["cells"]["better"] == 1


def test_without_a_folder_it_is_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(tmp_path / "results", small())
    monkeypatch.chdir(tmp_path)
    assert run() == 0
    assert (tmp_path / "results" / "report.html").exists()


def test_mistakes_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "broken" / "x").mkdir(parents=True)
    (tmp_path / "broken" / "x" / "result.json").write_text('{"a":\n 1,}')
    (tmp_path / "bytes" / "x").mkdir(parents=True)
    (tmp_path / "bytes" / "x" / "result.json").write_bytes(b"\xff\xfe{")
    good = leave(tmp_path / "good", small())
    for arguments, words in {
        (tmp_path / "missing",): ("missing", "no such folder", "h2gcn reproduce"),
        (tmp_path / "file",): ("file", "not a folder"),
        (tmp_path / "empty",): ("empty", "no results"),
        (tmp_path / "broken",): ("x/result.json", "not JSON", "line 2"),
        (tmp_path / "bytes",): ("x/result.json", "not JSON"),
        (good, "--out", tmp_path / "page.txt"): ("page.txt", ".html"),
        (good, "--out", tmp_path / "no" / "page.html"): ("does not exist",),
    }.items():
        assert run(*arguments) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert len(said.err.splitlines()) == 1
        for word in words:
            assert word in said.err
