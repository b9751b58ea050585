"""Figures of results: what is drawn, and that it can be told apart and read."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Drawing

from h2gcn.diagnosis.display import _luminance
from h2gcn.exceptions import InputError
from h2gcn.experiments import Figure, figures
from h2gcn.experiments.definition import EXPERIMENTS
from h2gcn.experiments.figures import _SETTINGS, STYLES, _draw, styles_of
from support.example_results import EVIL, as_paper, figure


def series(name: str = "gcn", **given: Any) -> dict[str, Any]:
    """Return a series of three points."""
    runs = [[1.0, 3.0], [4.0, 4.0], [5.0, 7.0]]
    fixed = {"x": [0.0, 0.5, 1.0], "mean": [2.0, 4.0, 6.0], "std": [1.0, 0.0, 1.0]}
    return {"name": name, **fixed, "runs": runs, "paper": [2.5, None, 5.5], **given}


def bars(*names: str) -> dict[str, Any]:
    """Return a figure of bars over three ranges of degrees."""
    ranges = {"x": ["1", "2–3", "4–7"]}
    return figure([series(name, **ranges) for name in names], kind="bars")


def draw(given: dict[str, Any], stem: Path) -> list[Path]:
    """Write the files of a figure."""
    return figures.draw(Figure.from_json(given), stem)


def drawn(given: dict[str, Any]) -> Drawing:
    """Return a figure, laid out."""
    with mpl.rc_context(_SETTINGS):
        made = _draw(Figure.from_json(given))
        FigureCanvasAgg(made).draw()
    return made


FIGURES = {
    "syn-cora": as_paper("syn-cora")["figures"][0],
    "bars": bars("h2gcn-1, h = 0.2", "h2gcn-2, h = 0.2"),
    "long names": figure(
        [series(f"a rather long name of a model, number {i}") for i in range(5)],
        title="A title that has a great many words in it, " * 4,
    ),
    "evil names": figure([series("_a $x^{"), series(EVIL)], title="$\\frac{"),
    "many points": figure(
        [series(x=list(range(300)), mean=[0.5] * 300, std=None, runs=None, paper=None)]
    ),
    "gaps": figure([series(mean=[1.0, None, 3.0], std=[None, None, 0.5])]),
    "names as x": figure([series(x=["a", "b", "c"])]),
    "ticks": figure([series()], x_ticks=[0, 0.25, 1]),
    "one point": figure([series(x=[1], mean=[2.0], std=None, runs=None, paper=None)]),
    "nothing run": figure([series(x=[], mean=[], std=[], runs=[], paper=[])]),
    "no series": figure([]),
}


@pytest.fixture(params=FIGURES, ids=lambda name: name.replace(" ", "-"))
def given(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Each of the figures above in turn."""
    return FIGURES[request.param]


def test_a_figure_is_an_svg_and_a_png(given: dict[str, Any], tmp_path: Path) -> None:
    svg, png = draw(given, tmp_path / "syn-h0.10")
    assert [svg.name, png.name] == ["syn-h0.10.svg", "syn-h0.10.png"]
    assert ElementTree.parse(svg).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    assert png.read_bytes().startswith(b"\x89PNG")


def test_the_same_figure_is_the_same_file(tmp_path: Path) -> None:
    given = FIGURES["syn-cora"]
    first = [file.read_bytes() for file in draw(given, tmp_path / "a")]
    again = [file.read_bytes() for file in draw(given, tmp_path / "b")]
    assert first == again
    assert b"dc:date" not in first[0]


@pytest.mark.slow
def test_no_state_is_left_behind(tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    draw(FIGURES["bars"], tmp_path / "a")
    assert dict(mpl.rcParams) == before
    code = (
        "import sys\n"
        "from h2gcn.experiments import Figure, Series\n"
        "from h2gcn.experiments.figures import svg_text\n"
        "assert 'matplotlib' not in sys.modules\n"
        "svg_text(Figure('f', 't', 'x', 'y', (Series('a', (1,), (2.0,)),)))\n"
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_all_text_is_inside_and_the_legend_covers_no_data(
    given: dict[str, Any],
) -> None:
    made = drawn(given)
    axes = made.axes[0]
    low, high = axes.get_xlim()
    texts = [axes.title, axes.xaxis.label, axes.yaxis.label]
    texts += [
        tick.label1
        for tick in axes.xaxis.get_major_ticks()
        if low <= tick.get_loc() <= high
    ]
    for legend in made.legends:
        texts += legend.get_texts()
        assert not legend.get_window_extent().overlaps(axes.get_window_extent())
    for text in texts:
        box = text.get_window_extent()
        if text.get_text() and axes.axison:
            assert box.x0 >= 0
            assert box.y0 >= 0
            assert box.x1 <= made.bbox.width
            assert box.y1 <= made.bbox.height


def test_lines_are_means_with_a_band_of_one_deviation() -> None:
    axes = drawn(figure([series()])).axes[0]
    paper, mean = axes.lines
    assert list(mean.get_ydata()) == [2.0, 4.0, 6.0]
    assert paper.get_linestyle() == ":"
    np.testing.assert_equal(paper.get_ydata(), [2.5, np.nan, 5.5])
    (band,) = axes.collections
    corners = {tuple(corner) for corner in band.get_paths()[0].vertices.tolist()}
    assert {(0, 1), (0, 3), (0.5, 4), (1, 5), (1, 7)} <= corners


def test_bars_stand_on_zero_with_whiskers() -> None:
    axes = drawn(bars("a", "b")).axes[0]
    assert [bar.get_height() for bar in axes.patches] == [2.0, 4.0, 6.0] * 2
    assert {bar.get_y() for bar in axes.patches} == {0}
    assert axes.get_ylim()[0] == 0
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "2–3", "4–7"]
    whiskers = [
        path.vertices[:, 1].tolist() for path in axes.collections[0].get_paths()
    ]
    assert whiskers == [[1.0, 3.0], [4.0, 4.0], [5.0, 7.0]]


def test_the_legend_names_each_model_and_the_paper_if_it_is_there() -> None:
    (legend,) = drawn(figure([series("a"), series("_b")])).legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "_b", "the paper"]
    (legend,) = drawn(figure([series("a", paper=None)])).legends
    assert [text.get_text() for text in legend.get_texts()] == ["a"]


def test_what_was_not_run_is_said() -> None:
    for name in ("nothing run", "no series"):
        (text,) = drawn(FIGURES[name]).axes[0].texts
        assert text.get_text() == "not run"


def test_a_model_looks_the_same_in_every_figure() -> None:
    looks: dict[str, set[int]] = {}
    for experiment in EXPERIMENTS.values():
        for _, models in experiment.figures.values():
            places = styles_of(models)
            assert len(set(places)) == len(models)
            for model, place in zip(models, places, strict=True):
                looks.setdefault(model, set()).add(place)
    assert looks["h2gcn-1"] == {0}
    assert all(len(places) == 1 for places in looks.values())


def test_unknown_names_and_twins_take_what_is_free() -> None:
    assert styles_of(["mine", "gcn", "gcn"]) == [0, 5, 1]
    assert styles_of([f"m{i}" for i in range(12)]) == list(range(12))
    assert len(styles_of([f"m{i}" for i in range(30)])) == 30


def test_styles_differ_by_more_than_colour_and_can_be_seen() -> None:
    for what in ("colour", "marker", "hatch"):
        assert len({getattr(style, what) for style in STYLES}) == len(STYLES)
    for style in STYLES:
        # Three to one, as WCAG asks of lines and markers.
        assert 1.05 / (_luminance(bytes.fromhex(style.colour[1:])) + 0.05) >= 3


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write here"):
        draw(FIGURES["bars"], tmp_path / "missing" / "a")


def test_a_figure_is_told_in_words() -> None:
    told = figures.describe(Figure.from_json(bars("a", "b")))
    assert told == (
        "A figure: test accuracy (%) over edge homophily ratio h. a: from 2 at 1 to 6 "
        "at 4–7; b: from 2 at 1 to 6 at 4–7."
    )
    assert figures.describe(Figure.from_json(FIGURES["no series"])).endswith("Not run.")


def test_the_page_gets_the_drawing_without_its_title() -> None:
    given = Figure.from_json(FIGURES["bars"])
    svg = ElementTree.fromstring(figures.svg_text(given))
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    assert figures.digest(given) in figures.svg_text(given)
    with mpl.rc_context(_SETTINGS):
        assert _draw(replace(given, title="")).axes[0].get_title() == ""


def test_without_matplotlib_it_is_said_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert figures.why_no_figures() == ""
    monkeypatch.setattr(figures, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"pip install 'h2gcn\[bench\]'"):
        draw(FIGURES["bars"], tmp_path / "a")
