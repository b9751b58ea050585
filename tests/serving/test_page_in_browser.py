"""The page in a real browser: looked up, opened, gone on from, by keyboard alone."""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest

from h2gcn.serving import Answers, build_app
from support.in_process import listening
from support.town import EVIL, SLASHED, town, town_model

TOKEN = "a-token-of-nobody-else"
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def addresses() -> Iterator[dict[str | None, str]]:
    """Return a server without a token, and one with."""
    answers = Answers(town_model(), town(), {"test_accuracy": 0.75})
    with (
        listening(build_app(answers, hosts={"127.0.0.1"})) as plain,
        listening(build_app(answers, token=TOKEN)) as locked,
    ):
        yield {None: plain, TOKEN: locked}


@pytest.fixture
def open_page(browser: Any, addresses: dict[str | None, str]) -> Iterator[Open]:
    """Return what opens the page; in the end nothing was complained of."""
    contexts: list[Any] = []
    complaints: list[str] = []
    fetched: list[str] = []
    allowed: list[str] = []

    def start(
        path: str = "",
        *,
        token: str | None = None,
        width: int = 1280,
        expected: str | None = None,
        **more: Any,
    ) -> Any:
        allowed.extend(filter(None, [expected]))
        size = {"width": width, "height": 800}
        contexts.append(browser.new_context(viewport=size, **more))
        page = contexts[-1].new_page()
        page.set_default_timeout(300_000)  # only a hang takes so long
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on("request", lambda request: fetched.append(request.url))
        page.goto(f"{addresses[token]}/{path}")
        return page

    yield start
    for context in contexts:
        context.close()
    # Chromium itself says aloud what the server refuses.
    assert [c for c in complaints if not any(text in c for text in allowed)] == []
    ours = (*addresses.values(), "data:")
    assert [url for url in fetched if not url.startswith(ours)] == []


def link(name: str) -> str:
    return f"#/node/{quote(name, safe='')}"


def opened(page: Any, name: str) -> None:
    """Wait until a node is shown, with its reasons."""
    page.get_by_role("heading", name=name, exact=True).wait_for()
    page.wait_for_function(
        "() => !document.getElementById('reasons-words').innerText.startsWith('Being')"
    )


def test_a_node_is_looked_up_as_one_types_and_opened_by_keyboard(
    open_page: Open,
) -> None:
    page = open_page()
    page.get_by_text("41 nodes and 38 edges").wait_for()
    assert "75 % of the test nodes" in page.locator("#model").inner_text()
    page.keyboard.type("b")  # the field has the focus
    page.get_by_role("option").first.wait_for()
    assert page.get_by_role("option").all_inner_texts() == ["b0", "b1", "hub"]
    assert page.locator("#hint").inner_text() == "3 found."
    box = page.get_by_role("combobox", name="Look a node up")
    assert box.get_attribute("aria-expanded") == "true"
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    active = box.get_attribute("aria-activedescendant")
    assert page.locator(f"#{active}").inner_text() == "hub"
    page.keyboard.press("Enter")
    opened(page, "hub")
    assert page.url.endswith("/#/node/hub")
    assert page.title() == "hub – town"
    assert page.locator("#found").is_hidden()


def test_enter_takes_the_id_itself(open_page: Open) -> None:
    page = open_page()
    page.get_by_role("combobox").fill("a1")
    page.keyboard.press("Enter")
    opened(page, "a10")
    page.get_by_role("combobox").fill("nobody")
    page.get_by_text("No id has this in it.").wait_for()


def test_a_node_is_told_as_the_server_tells_it(open_page: Open) -> None:
    page = open_page(link("b1"))
    opened(page, "b1")
    found = Answers(town_model(), town()).node("b1")
    assert page.locator("#label").inner_text() == found.label
    assert page.locator("#truth").inner_text() == (
        "The graph has no label for it. It has 1 neighbour."
    )
    assert found.set is not None
    told = page.locator("#set").inner_text()
    assert told == f"It may be: {', '.join(found.set)}."
    shares = page.locator("#shares li")
    likeliest = max(found.probabilities, key=lambda name: found.probabilities[name])
    assert shares.first.locator(".name").inner_text() == likeliest
    width = shares.first.locator(".fill").evaluate(
        "bar => bar.getBoundingClientRect().width / bar.parentNode.clientWidth"
    )
    assert width == pytest.approx(found.probabilities[likeliest], abs=0.02)
    status = page.locator("#status")
    assert status.get_attribute("aria-live") == "polite"
    assert status.inner_text().startswith(f"b1: {found.label}, ")


def test_reasons_are_bars_for_and_against(open_page: Open) -> None:
    page = open_page(link("a00"))
    opened(page, "a00")
    found = Answers(town_model(), town()).reasons("a00")
    terms = sorted(found["terms"], key=lambda term: -abs(term["value"]))
    rows = page.locator("#reasons li")
    assert rows.locator(".name").all_inner_texts() == [term["name"] for term in terms]
    largest = abs(terms[0]["value"])
    for row, term in zip(rows.all(), terms, strict=True):
        fill = row.locator(".fill")
        assert ("against" in fill.get_attribute("class")) is (term["value"] < 0)
        width = fill.evaluate(
            "bar => bar.getBoundingClientRect().width / bar.parentNode.clientWidth"
        )
        assert width == pytest.approx(abs(term["value"]) / largest / 2, abs=0.02)
        sign = "−" if term["value"] < 0 else "+"
        figure = row.locator(".figure").inner_text()
        assert figure == f"{sign}{abs(term['value']):.2f}"
    said = page.locator("#reasons-words").inner_text()
    assert said.startswith(f"What speaks for {found['label']}, and what against it")


def test_one_goes_on_in_the_picture_by_keyboard(open_page: Open) -> None:
    page = open_page(link("b0"))
    opened(page, "b0")
    spots = page.locator("#picture .spot")
    assert spots.count() == 5  # b0; a00, a01, c; hub
    assert page.locator("#picture .edge").count() == 5
    spots.first.focus()  # one stop of Tab for all of it
    assert [s.get_attribute("tabindex") for s in spots.all()] == ["0", *["-1"] * 4]
    names = set()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
        focused = page.evaluate("document.activeElement.getAttribute('aria-label')")
        assert focused.endswith(", one step away")
        names.add(focused.partition(":")[0])
        assert page.locator("#pointed").inner_text() == (
            focused.removesuffix(", one step away")
        )
    assert names == {"a00", "a01", "c"}
    page.keyboard.press("ArrowUp")
    focused = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert focused.startswith("hub: ")
    assert focused.endswith(", two steps away")
    page.keyboard.press("Enter")
    opened(page, "hub")
    # The focus stays in the picture, on the node that was gone to.
    focused = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert focused.startswith("hub: ")
    page.go_back()
    opened(page, "b0")


def test_tab_alone_reaches_a_neighbour(open_page: Open) -> None:
    page = open_page(link("b1"))
    opened(page, "b1")
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.links a')"):
            break
    page.keyboard.press("Enter")
    opened(page, "a02")


def test_what_is_predicted_is_hollow_and_rings_are_circles(open_page: Open) -> None:
    page = open_page(link("a02"))
    opened(page, "a02")
    spots = {
        spot.get_attribute("aria-label").partition(":")[0]: spot
        for spot in page.locator("#picture .spot").all()
    }
    radius = "spot => Math.hypot(...spot.getAttribute('transform').match(/-?[\\d.]+/g))"
    assert spots["a02"].evaluate(radius) == 0
    assert spots["hub"].evaluate(radius) == pytest.approx(92, abs=0.1)
    assert spots["a00"].evaluate(radius) == pytest.approx(172, abs=0.1)
    fill = "spot => getComputedStyle(spot.querySelector('.body')).fill"
    assert spots["b1"].evaluate(fill) == "rgb(255, 255, 255)"
    assert spots["hub"].evaluate(fill) != "rgb(255, 255, 255)"
    legend = page.locator("#legend li").all_inner_texts()
    assert legend == ["honest", f"{EVIL} & co"]
    places = [s.get_attribute("transform") for s in page.locator(".spot").all()]
    page.reload()
    opened(page, "a02")
    assert places == [s.get_attribute("transform") for s in page.locator(".spot").all()]


def test_what_is_left_out_is_said(open_page: Open) -> None:
    page = open_page(link("hub"))
    opened(page, "hub")
    assert page.locator("#near-words").inner_text() == (
        "30 one step away, 2 two steps away."
    )
    assert page.locator("#neighbours a").count() == 30


@pytest.mark.parametrize("name", [EVIL, SLASHED, "alone"])
def test_any_id_is_shown_and_does_not_run(open_page: Open, name: str) -> None:
    page = open_page(link(name))
    opened(page, name)
    assert page.locator("#name").inner_text() == name
    assert page.locator("script").count() == 1


def test_an_unknown_node_is_said(open_page: Open) -> None:
    page = open_page(link("hud"), expected="404 (Not Found)")
    page.get_by_text("town: there is no node 'hud'. Did you mean 'hub'?").wait_for()
    assert page.locator("main").is_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 768, 1280])
def test_nothing_is_beyond_the_edges(open_page: Open, width: int, scheme: str) -> None:
    page = open_page(link("hub"), width=width, color_scheme=scheme)
    opened(page, "hub")
    room = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(room) == 0
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") is (scheme == "light")


def test_on_a_phone_a_tap_goes_on(open_page: Open) -> None:
    page = open_page(link("b0"), width=375, has_touch=True)
    opened(page, "b0")
    page.locator("#neighbours a[aria-label^='a00:']").tap()
    opened(page, "a00")
    page.locator("#picture .spot[aria-label^='hub:']").tap()
    opened(page, "hub")


def test_the_page_asks_for_the_token_and_keeps_it(open_page: Open) -> None:
    page = open_page(link("hub"), token=TOKEN, expected="401 (Unauthorized)")
    field = page.get_by_label("Token")
    field.wait_for()
    assert page.get_by_role("combobox").is_hidden()
    field.fill("not-the-token-at-all")
    page.keyboard.press("Enter")
    page.get_by_text("That is not the token.").wait_for()
    field.fill(TOKEN)
    page.get_by_role("button", name="Go on").click()
    opened(page, "hub")
    assert field.is_hidden()
    page.reload()
    opened(page, "hub")
