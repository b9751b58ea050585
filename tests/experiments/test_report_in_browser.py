"""The report in a real browser: what is clicked, pointed at and typed does its work."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from h2gcn import Graph
from h2gcn.diagnosis import diagnose, render_html as render_diagnosis
from h2gcn.experiments import read_results, render_html
from support.example_results import EVIL, as_paper, card, figure, leave, small


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a report of three experiments, one with names that would like to run."""
    folder = tmp_path_factory.mktemp("results")
    evil = small() | {"experiment": "zz", "title": EVIL}
    evil["tables"][0]["rows"][1]["name"] = EVIL
    bars = {
        "name": EVIL,
        "x": ["1", "2–3"],
        "mean": [50.0, 60.0],
        "runs": [[50.0], None],
    }
    evil["figures"].append(figure([bars], kind="bars", name="bars"))
    leave(folder, small(), as_paper("syn-cora"), evil)
    page = folder / "report.html"
    page.write_text(render_html(read_results(folder)), encoding="utf-8")
    return page


@pytest.fixture
def page(browser: Any, file: Path) -> Iterator[Any]:
    """Open the report; in the end nothing was complained of and nothing fetched."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    opened.set_default_timeout(300_000)  # only a hang takes so long
    complaints: list[str] = []
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("dialog", lambda dialog: complaints.append(dialog.message))
    fetched: list[str] = []
    opened.on("request", lambda request: fetched.append(request.url))
    opened.goto(file.as_uri())
    yield opened
    assert complaints == []
    assert {url for url in fetched if not url.startswith("data:")} == {file.as_uri()}
    context.close()


def rows(table: Any) -> list[str]:
    """Return the names of a table's rows as they stand."""
    names: list[str] = table.locator("tbody th").all_inner_texts()
    return names


def head(table: Any, name: str) -> Any:
    return table.get_by_role("button", name=name, exact=True)


def test_a_click_sorts_numbers_as_numbers(page: Any) -> None:
    # 9.50 and 10.25 in this column: as texts they would stand the other way round.
    table = page.get_by_role("table", name="A title", exact=True).first
    assert rows(table) == ["h2gcn-1", "gcn"]
    own = head(table, "own")
    own.click()
    assert rows(table) == ["h2gcn-1", "gcn"]
    own.click()
    assert rows(table) == ["gcn", "h2gcn-1"]
    assert table.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    own.click()
    assert rows(table) == ["h2gcn-1", "gcn"]
    assert table.locator("th[aria-sort]").count() == 0


def test_a_whole_column_is_sorted_and_the_keyboard_does_it_too(page: Any) -> None:
    (shown,) = as_paper("syn-cora")["tables"]
    means = {row["name"]: row["cells"][3]["mean"] for row in shown["rows"]}
    table = page.get_by_role("table", name=shown["title"])
    button = head(table, "0.30")
    button.focus()
    page.keyboard.press("Enter")
    assert rows(table) == sorted(means, key=lambda name: means[name])
    page.keyboard.press("Space")
    assert rows(table) == sorted(means, key=lambda name: -means[name])
    head(table, "model").click()
    assert rows(table) == sorted(means)


def test_what_was_not_run_comes_last_either_way(page: Any) -> None:
    table = page.get_by_role("table", name="A title", exact=True).first
    for _ in range(2):
        head(table, "cora").click()
        assert rows(table) == ["h2gcn-1", "gcn"]


def test_figures_are_drawn_and_can_be_read_on_a_dark_page(page: Any) -> None:
    page.emulate_media(color_scheme="dark")
    drawn = page.locator("figure img")
    assert drawn.count() == 4
    for i in range(drawn.count()):
        one = drawn.nth(i)
        assert one.evaluate("image => image.complete && image.naturalWidth") > 100
        assert len(one.get_attribute("alt")) > 20
        background = one.evaluate("image => getComputedStyle(image).backgroundColor")
        assert background == "rgb(255, 255, 255)"


def test_a_cell_tells_its_runs_to_pointer_and_keyboard(page: Any) -> None:
    table = page.get_by_role("table", name="A title", exact=True).first
    tip = page.locator("#tip")
    table.locator("td").first.hover()
    told = ["h2gcn-1, texas", "split 0: 70.00", "split 1: 71.00", "ahead of gcn"]
    assert tip.inner_text().splitlines() == told
    page.mouse.move(1, 1)
    table.locator('td[tabindex="0"]').focus()
    page.keyboard.press("ArrowDown")
    assert tip.inner_text().startswith("gcn, texas\nsplit 0: 63.00")


def test_names_do_not_run_and_are_shown(page: Any) -> None:
    assert page.get_by_role("heading", name=EVIL).count() == 1
    told = [*page.evaluate("Array.from(document.images, image => image.src)")]
    assert all(source.startswith("data:image/svg+xml;base64,") for source in told)
    assert EVIL in page.locator("figure img").last.get_attribute("alt")


WIDTHS = (390, 768, 1100, 1440)
OUTSIDE = """() => [...document.querySelectorAll('body *')].filter(el => {
  const box = el.getBoundingClientRect();
  return box.width && (box.right > innerWidth + 1 || box.left < -1)
    && !el.closest('.scroll') && getComputedStyle(el).position !== 'absolute';
}).map(el => `${el.tagName} ${el.textContent.trim().slice(0, 40)}`)"""
"""What is beyond the screen's edges, but for what can be scrolled to."""
COLLIDING = """() => [...document.querySelectorAll('thead tr')].flatMap(row => {
  const boxes = [...row.cells].map(cell => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return [cell.textContent.trim(), range.getBoundingClientRect()];
  });
  return boxes.slice(1).flatMap(([name, box], i) => {
    const [before, left] = boxes[i];
    const apart = left.right <= box.left + 0.5 || !left.width || !box.width;
    return apart ? [] : [`${before} | ${name}`];
  });
})"""
"""Heads of neighbouring columns whose contents overlap."""
CUT = """() => [...document.querySelectorAll('.scroll')]
  .filter(el => el.scrollWidth > el.clientWidth + 1)
  .map(el => [el.offsetHeight - el.clientHeight,
              getComputedStyle(el).backgroundAttachment])"""
"""Of containers with more than they show: height of the scrollbar, and the shadow."""


@pytest.fixture(scope="module")
def wide_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a report with cards of graphs and long names."""
    folder = tmp_path_factory.mktemp("wide")
    long = small()
    name = "a graph with a rather long name/h0.10-r1"
    long["cards"] |= {name: card(name, 12), "syn-products/h1.00-r1": card("syn", 20)}
    for one in long["cards"].values():
        one |= {"checksum": "c5ee5156ee71bb43", "nodes": 10_000, "edges": 198_353}
    leave(folder, long, as_paper("real"), as_paper("syn-cora"))
    page = folder / "report.html"
    page.write_text(render_html(read_results(folder)), encoding="utf-8")
    return page


@pytest.fixture(scope="module")
def diagnosis_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a diagnosis with long names, a hub, and a ring that was left out."""
    n = 300
    names = ["a class whose name is longer than a phone is wide, by far", "b", "c" * 70]
    star = np.zeros((n, n))
    star[0, 1:] = star[1:, 0] = 1
    star[range(1, n - 1), range(2, n)] = star[range(2, n), range(1, n - 1)] = 1
    ids = np.array([f"a node with a long name, number {k}" for k in range(n)])
    graph = Graph(
        x=np.ones((n, 3)), adj=star, y=np.arange(n) % 3, classes=names, node_ids=ids
    )
    page = tmp_path_factory.mktemp("diagnosis") / "diagnosis.html"
    found = diagnose(graph, hops=3, max_ring_entries=100)
    page.write_text(render_diagnosis(found), encoding="utf-8")
    return page


@pytest.fixture(params=["report", "diagnosis"])
def any_page(request: pytest.FixtureRequest, browser: Any) -> Iterator[Any]:
    """Open either page, with all that is folded unfolded."""
    of = {"report": "wide_report", "diagnosis": "diagnosis_file"}
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    opened.goto(request.getfixturevalue(of[request.param]).as_uri())
    opened.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    yield opened
    context.close()


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_screen(any_page: Any, width: int) -> None:
    any_page.set_viewport_size({"width": width, "height": 900})
    assert any_page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert any_page.evaluate(OUTSIDE) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_heads_of_columns_do_not_collide(any_page: Any, width: int) -> None:
    any_page.set_viewport_size({"width": width, "height": 900})
    assert any_page.evaluate(COLLIDING) == []


def test_what_is_cut_off_shows_that_it_can_be_scrolled(any_page: Any) -> None:
    any_page.set_viewport_size({"width": 390, "height": 900})
    cut = any_page.evaluate(CUT)
    assert cut
    for bar, shadow in cut:
        assert bar > 0
        assert shadow == "local, local, scroll, scroll"


def test_cards_of_graphs_are_whole_on_a_laptop(browser: Any, wide_report: Path) -> None:
    opened = browser.new_page(viewport={"width": 1100, "height": 900})
    opened.goto(wide_report.as_uri())
    cards = opened.get_by_role("region", name="Cards of the graphs")
    assert cards.evaluate("el => el.scrollWidth <= el.clientWidth")
    opened.close()


def test_a_phone_gets_a_chart_that_fits_it(browser: Any, diagnosis_file: Path) -> None:
    opened = browser.new_page(viewport={"width": 390, "height": 900})
    opened.goto(diagnosis_file.as_uri())
    wide, narrow = opened.locator(".wide"), opened.locator(".narrow")
    assert not wide.first.is_visible()
    assert narrow.count() == wide.count() == 3
    for text in narrow.first.locator("text").all():
        drawn, box = narrow.first.bounding_box(), text.bounding_box()
        # The box has the line around the letters too.
        assert drawn["x"] - 4 <= box["x"]
        assert box["x"] + box["width"] <= drawn["x"] + drawn["width"] + 4
        assert box["height"] > 9
    opened.set_viewport_size({"width": 768, "height": 900})
    assert wide.first.is_visible()
    assert not narrow.first.is_visible()
    opened.close()


def test_dark_is_dark_and_paper_is_white(page: Any) -> None:
    def brightness() -> int:
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return int(colour.split("(")[1].split(",")[0])

    page.emulate_media(color_scheme="light")
    assert brightness() == 255
    page.emulate_media(color_scheme="dark")
    assert brightness() < 40
    page.emulate_media(color_scheme="dark", media="print")
    assert brightness() == 255


def test_printing_opens_what_is_folded(page: Any) -> None:
    folded = page.locator("details:not([open])").count()
    assert folded > 0
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details:not([open])").count() == folded
