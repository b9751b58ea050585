"""What a user of Python sees: progress, cards in notebooks, warnings, and no more."""

import io
import os
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from sklearn.base import clone

import h2gcn.estimator.automatic
from h2gcn import Graph, NodeClassifier, Split
from h2gcn.auto import Member
from h2gcn.datasets import generate_graph
from h2gcn.estimator import showing
from h2gcn.estimator.showing import fitted_card
from h2gcn.exceptions import H2GCNWarning, InputError
from h2gcn.graph import EdgeColumns
from h2gcn.graph.card import MOST_CLASSES, alike
from h2gcn.training import Epoch
from support.cases import each
from support.graphs import NAMED

NET = {"epochs": 5, "patience": 5, "stopping": "loss"}
MEMBERS = (
    Member("mlp", "mlp", "own features", NET, False),
    Member("h2gcn-1", "h2gcn-1", "rings", NET),
)


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have auto fit few members."""
    monkeypatch.setattr(h2gcn.estimator.automatic, "find_portfolio", lambda *_: MEMBERS)


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Return 200 nodes of five classes."""
    return generate_graph(n_nodes=200, homophily=0.1, seed=0)


def fit(graph: Graph, model: str = "h2gcn-1", **params: object) -> NodeClassifier:
    given: dict[str, object] = {"random_state": 0, **params}
    if model != "auto":
        given = {"epochs": 6, **given}
    return NodeClassifier(model, **given).fit(graph)  # type: ignore[arg-type]


class Shown(HTMLParser):
    """The text of a piece of HTML, and its tags."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text = ""
        self.tags: list[str] = []
        self.links: list[str | None] = []
        self._open: list[str] = []
        self.feed(page)
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self.tags.append(tag)
        self.links += [v for name, v in attrs if name in ("src", "href")]
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Check that it is the last one that was opened."""
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Keep text."""
        self.text += f" {data}"


# ---------------------------------------------------------------------------- progress


def test_silence_is_the_default(
    graph: Graph, capfd: pytest.CaptureFixture[str]
) -> None:
    fit(graph)
    fit(graph, "auto", time_limit=60.0)
    assert capfd.readouterr() == ("", "")


def test_a_fit_says_what_it_came_to(
    graph: Graph, capfd: pytest.CaptureFixture[str]
) -> None:
    clf = fit(graph, verbose=True)
    out, err = capfd.readouterr()
    assert out == ""
    y = graph.y[clf.split_.val]
    largest = np.bincount(y).max() / len(y)
    assert err.startswith(
        f"{graph.name} h2gcn-1: the best of 6 epochs is {clf.best_epoch_}; accuracy "
        f"{clf.val_score_:.3f} on held-out nodes; always the largest class "
        f"{largest:.3f}; "
    )
    assert err.count("\n") == 1


def test_auto_says_who_answers(graph: Graph, capfd: pytest.CaptureFixture[str]) -> None:
    clf = fit(graph, "auto", time_limit=60.0, verbose=True, metric="macro_f1")
    assert clf.leaderboard_ is not None
    err = capfd.readouterr().err
    assert clf.leaderboard_.answering.rstrip(".") in err
    assert f"macro_f1 {clf.val_score_:.3f} on held-out nodes" in err
    assert "largest class" not in err


def test_lines_where_there_is_no_bar(
    graph: Graph, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(showing, "LINE_SECONDS", 0.0)
    clf = fit(graph, verbose=True)
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 7
    best = max(epoch.val_score for epoch in clf.history_[:3])
    third = clf.history_[2]
    assert lines[2] == (
        f"{graph.name} h2gcn-1: epoch 3/6  loss {third.loss:.3f}  "
        f"val {third.val_score:.3f}  best {best:.3f}"
    )
    fit(graph, "auto", time_limit=60.0, verbose=True)
    assert "auto: 2/2 h2gcn-1, at most " in capfd.readouterr().err


def test_bars_on_a_terminal(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(
        showing,
        "_console",
        lambda: Console(file=screen, force_terminal=True, width=120, markup=False),
    )
    named = replace(graph, name="[red]\x1b]0;x\x07 graph")
    fit(named, verbose=True)
    fit(named, "auto", time_limit=60.0, verbose=True)
    shown = screen.getvalue()
    assert "[red]?]0;x? graph h2gcn-1" in shown
    assert "epoch" in shown
    assert "6/6" in shown
    assert "2/2 h2gcn-1" in shown
    assert "\x1b]0;x" not in shown


def test_others_are_called_too(graph: Graph) -> None:
    epochs: list[int] = []
    members: list[str] = []
    NodeClassifier(epochs=4, random_state=0, verbose=True).fit(
        graph, on_epoch=lambda epoch: epochs.append(epoch.number)
    )
    assert epochs == [1, 2, 3, 4]
    NodeClassifier("auto", time_limit=60.0, random_state=0, verbose=True).fit(
        graph, on_progress=lambda at: members.append(at.member)
    )
    assert {"mlp", "h2gcn-1"} <= set(members)


def test_showing_changes_nothing_and_is_not_saved(graph: Graph, tmp_path: Path) -> None:
    quiet, shown = fit(graph), fit(graph, verbose=True)
    assert np.array_equal(quiet.predict_logits(graph), shown.predict_logits(graph))
    assert shown.params_ == quiet.params_
    assert clone(shown).verbose
    shown.save(tmp_path / "model")
    assert "verbose" not in (tmp_path / "model" / "bundle.json").read_text()
    assert not NodeClassifier.load(tmp_path / "model").verbose


def test_a_checkpoint_can_be_resumed_whether_it_shows_or_not(
    graph: Graph, tmp_path: Path
) -> None:
    whole = fit(graph).predict_logits(graph)
    folder = tmp_path / "state"
    NodeClassifier(epochs=3, random_state=0).fit(
        graph, checkpoint=folder, checkpoint_minutes=0
    )
    again = NodeClassifier(epochs=6, random_state=0, verbose=True)
    again.fit(graph, checkpoint=folder, resume=True)
    assert np.array_equal(again.predict_logits(graph), whole)


def test_verbose_is_yes_or_no(graph: Graph) -> None:
    with pytest.raises(InputError, match=r"^verbose must"):
        fit(graph, verbose="very")


@each("verbose", [False, True])
def test_an_interrupted_fit_keeps_its_best_and_says_so(
    graph: Graph, verbose: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    def stop(epoch: Epoch) -> None:
        if epoch.number == 3:
            raise KeyboardInterrupt

    clf = NodeClassifier(epochs=50, random_state=0, verbose=verbose)
    clf.fit(graph, on_epoch=stop)
    assert clf.interrupted_
    assert clf.n_iter_ == 3
    assert clf.predict(graph).shape == (200,)
    said = "h2gcn-1: interrupted, and the best so far is kept; the best of 3 epochs is"
    assert (said in capfd.readouterr().err) == verbose


# ------------------------------------------------------------------------------- cards


def test_the_card_of_a_graph() -> None:
    star = Graph(
        x=np.eye(5),
        adj=NAMED["star"],
        y=[0, 1, 1, 1, -1],
        classes=np.array(["hub", "leaf"]),
        name="star",
    )
    page = star._repr_html_()
    told = " ".join(Shown(page).text.split())
    for fact in (
        "star",
        "nodes 5",
        "edges 4, without directions",
        "features 5, dense",
        "classes 2, 4 nodes labelled",
        # Three edges join labelled nodes, half of whose ends are at either class.
        "unlike: 0% of edges join equal labels, 50% by chance",
        "leaf 3 hub 1",
    ):
        assert fact in told
    assert "splits" not in told
    assert "note" not in told


def test_notes_splits_and_edge_columns_are_on_the_card(graph: Graph) -> None:
    noted = replace(
        graph,
        record=replace(graph.record, loops_dropped=2, notes=("a < b",)),
        edge_columns=EdgeColumns([0], [1], [[2.0, 1.0]], ("amount", "kind=wire")),
    )
    shown = Shown(noted._repr_html_())
    told = " ".join(shown.text.split())
    assert "details" in shown.tags
    assert "2 notes" in told
    assert "2 self-loops dropped" in told
    assert "a < b" in told
    assert "edges carry amount, kind=wire" in told
    assert "splits 1" in told


def test_nobodys_text_becomes_a_tag_and_nothing_is_fetched(graph: Graph) -> None:
    evil = "<script src='x'>alert(1)</script>"
    names = np.array([evil, "b", "c", "d", "e" * 5000])
    bad = replace(graph, name=evil, classes=names)
    for page in (bad._repr_html_(), fitted_card(fit(bad)), fitted_card(fit_auto(bad))):
        shown = Shown(page)
        assert "script" not in shown.tags
        assert evil in shown.text
        assert not shown.links
        assert len(page) < 20_000


def fit_auto(graph: Graph) -> NodeClassifier:
    return fit(graph, "auto", time_limit=60.0)


def test_no_colour_is_fixed(graph: Graph) -> None:
    page = graph._repr_html_() + fitted_card(fit_auto(graph))
    assert "#" not in page
    assert "color:inherit" in page


def test_of_many_classes_the_largest_are_shown() -> None:
    y = np.repeat(np.arange(40), np.arange(1, 41))
    graph = Graph(x=np.ones((len(y), 1)), adj=np.zeros((len(y), len(y))), y=y)
    told = " ".join(Shown(graph._repr_html_()).text.split())
    assert "39 40 38 39" in told
    assert f"and {40 - MOST_CLASSES} more classes" in told
    assert "neighbours" not in told


def test_how_alike_neighbours_are(monkeypatch: pytest.MonkeyPatch) -> None:
    path, y = NAMED["path"], np.array([0, 0, 1, -1, 1])
    assert alike(path, y) == (0.5, (3 / 4) ** 2 + (1 / 4) ** 2)
    assert alike(path, np.full(5, -1)) is None
    assert alike(NAMED["no edges"], np.zeros(3, int)) is None
    monkeypatch.setattr("h2gcn.graph.card.MOST_ENTRIES", 4)
    assert alike(path, y) is None


def test_a_classifier_shows_what_it_has_learned(graph: Graph, tmp_path: Path) -> None:
    assert "fitted</b>" not in NodeClassifier()._repr_html_()
    given = Shown(NodeClassifier("mlp", random_state=3)._repr_html_()).text.split()
    assert given == ["NodeClassifier", "model", "mlp", "random_state", "3"]
    clf = fit(graph)
    told = " ".join(Shown(fitted_card(clf)).text.split())
    for fact in (
        "model h2gcn-1",
        "classes 5: 0, 1, 2, 3, 4",
        "train/val/test",
        f"accuracy on held-out nodes {clf.val_score_:.4f}",
        f"best epoch {clf.best_epoch_}",
    ):
        assert fact in told
    assert clf._repr_html_().endswith(fitted_card(clf))
    clf.save(tmp_path / "model")
    loaded = " ".join(
        Shown(fitted_card(NodeClassifier.load(tmp_path / "model"))).text.split()
    )
    assert f"accuracy on held-out nodes {clf.val_score_:.4f}" in loaded
    assert "train/val/test" not in loaded


def test_auto_shows_its_leaderboard(graph: Graph) -> None:
    clf = fit_auto(graph)
    assert clf.leaderboard_ is not None
    told = " ".join(Shown(fitted_card(clf)).text.split())
    assert "leaderboard answers accuracy log-loss seconds" in told
    for row in clf.leaderboard_.rows:
        assert row.name in told
    assert clf.leaderboard_.answering in told


# ---------------------------------------------------------------------------- warnings


def leaking() -> Graph:
    """Return a graph of which a column says the label."""
    rng, y = np.random.default_rng(0), np.arange(60) % 2
    x = np.column_stack([rng.normal(size=60), y])
    adj = np.roll(np.eye(60), 1, axis=1)
    return Graph(x=x, adj=adj + adj.T, y=y, name="leaking")


def test_what_makes_scores_too_good_is_a_warning_once() -> None:
    graph = leaking()
    with pytest.warns(H2GCNWarning, match=r"leaking: .*the label in other words"):
        fit(graph)
    fit(graph)  # a second warning would be an error here
    with pytest.warns(H2GCNWarning, match="the label in other words"):
        fit(replace(graph))


def test_twins_across_a_split_are_a_warning() -> None:
    # Two hubs, and thirty leaves each: all leaves of one have the same neighbour.
    x, hub = np.random.default_rng(0).normal(size=(62, 3)), np.arange(62) % 2
    adj = np.zeros((62, 62))
    adj[np.arange(2, 62), hub[2:]] = 1
    order = np.random.default_rng(1).permutation(62)
    split = Split(order[:36], order[36:48], order[48:])
    graph = Graph(x=x, adj=adj + adj.T, y=hub, splits=(split,), name="hubs")
    with pytest.warns(H2GCNWarning, match="^hubs: .* the same neighbours and the same"):
        fit(graph)


# --------------------------------------------------------------------------- the host


def environment() -> dict[str, str]:
    """Return the environment but for what torch itself sets on its first step."""
    return {k: v for k, v in os.environ.items() if not k.startswith("TORCHINDUCTOR")}


@pytest.mark.parametrize("model", ["h2gcn-1", "mlp", "logistic", "auto"])
def test_the_host_is_left_as_it_was(graph: Graph, model: str) -> None:
    before = environment()
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    seen: set[int] = set()
    state = torch.random.get_rng_state()
    try:
        clf = NodeClassifier(model, random_state=0)
        if model == "auto":
            clf.set_params(time_limit=60.0)
        elif model != "logistic":
            clf.set_params(epochs=6)
        clf.fit(graph, on_epoch=lambda _: seen.add(torch.get_num_threads()))
        clf.predict(graph)
        clf.score(graph)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert environment() == before
    assert torch.equal(torch.random.get_rng_state(), state)
    assert seen <= {1}, "a small graph is one thread's work"
