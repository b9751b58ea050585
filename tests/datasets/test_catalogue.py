"""The benchmarks by name: what each is judged by, its directions, splits and size."""

from pathlib import Path

import pytest

from h2gcn import Graph
from h2gcn.datasets import DATASETS, SIZES, load_dataset
from h2gcn.exceptions import InputError
from h2gcn.homophily import graph_card
from support.tiny_benchmarks import AT_HAND, TINY, write_files

LATER = """
roman-empire                accuracy  two-ways  minesweeper
amazon-ratings              accuracy  two-ways  minesweeper
questions                   roc_auc   two-ways  minesweeper
chameleon-filtered          accuracy  two-ways  minesweeper
chameleon-filtered-directed accuracy  one-way   minesweeper
squirrel-filtered           accuracy  two-ways  minesweeper
squirrel-filtered-directed  accuracy  one-way   minesweeper
penn94                      accuracy  two-ways  penn94
amherst41                   accuracy  two-ways  reed98
cornell5                    accuracy  two-ways  reed98
johns-hopkins55             accuracy  two-ways  reed98
reed98                      accuracy  two-ways  reed98
genius                      roc_auc   one-way   genius
pokec                       accuracy  one-way   genius
twitch-gamers               accuracy  two-ways  twitch-gamers
snap-patents                accuracy  one-way   snap-patents
arxiv-year                  accuracy  one-way   arxiv-year
ogbn-arxiv                  accuracy  one-way   ogbn-arxiv
ogbn-products               accuracy  two-ways  ogbn-products
coauthor-cs                 accuracy  one-way   coauthor-cs
coauthor-physics            accuracy  one-way   coauthor-cs
amazon-photo                accuracy  one-way   coauthor-cs
amazon-computers            accuracy  one-way   coauthor-cs
hm-categories               accuracy  two-ways  tolokers-2
pokec-regions               accuracy  one-way   tolokers-2
web-topics                  accuracy  one-way   tolokers-2
tolokers-2                  pr_auc    two-ways  tolokers-2
city-reviews                pr_auc    two-ways  tolokers-2
artnet-exp                  pr_auc    two-ways  tolokers-2
web-fraud                   pr_auc    one-way   tolokers-2
"""
"""Those that came after the paper, as their authors describe them, and a small one
of the same format, whose directions are kept where a file has them."""
ROWS = [line.split() for line in LATER.split("\n") if line]
N_SPLITS = {
    **{"minesweeper": 1, "reed98": 5, "coauthor-cs": 10, "tolokers-2": 3},
    **{"ogbn-arxiv": 1, "ogbn-products": 1, "arxiv-year": 2},
    **{"penn94": 2, "genius": 2, "twitch-gamers": 2, "snap-patents": 2},
}
"""Of the small ones: as many as they hold, or are drawn."""


def small_files(name: str, like: str, ways: str) -> dict[str, bytes]:
    """Return the files of a benchmark with the content of another one's."""
    info, model = DATASETS[name], DATASETS[like]
    contents = [TINY[like][f"{model.folder}/{file}"] for file in model.files]
    if like == "tolokers-2":
        said = b"true" if ways == "one-way" else b"false"
        contents[0] = contents[0].replace(b"directed: false", b"directed: " + said)
        contents[0] = contents[0].replace(like.encode(), name.encode())
    places = [f"{info.folder}/{file}" for file in info.files]
    return dict(zip(places, contents, strict=name != "city-reviews"))


def load_small(root: Path, name: str, like: str, ways: str) -> Graph:
    """Return the graph of a benchmark that has the nodes of another one."""
    write_files(root, small_files(name, like, ways))
    return load_dataset(name, root=root, trust_data=True)


def test_all_that_came_later_are_here() -> None:
    after = {n for n, one in DATASETS.items() if one.source != "Zhu et al. 2020"}
    assert {row[0] for row in ROWS} == after - {"minesweeper", "tolokers"}


@pytest.mark.filterwarnings("ignore:.*no SHA-256 of theirs is known")
@pytest.mark.parametrize(("name", "metric", "ways", "like"), ROWS)
def test_each_is_read_as_its_authors_describe_it(
    tmp_path: Path, name: str, metric: str, ways: str, like: str
) -> None:
    graph = load_small(tmp_path, name, like, ways)
    assert graph.name == name
    assert DATASETS[name].metric == metric
    assert (graph.directed is not None) == (ways == "one-way")
    untimed = name == "city-reviews"
    assert len(graph.splits) == N_SPLITS[like] - untimed


@pytest.mark.data
@pytest.mark.filterwarnings("ignore:.*their SHA-256 is not that of the copy")
@pytest.mark.parametrize("name", [name for name in AT_HAND if name in SIZES])
def test_files_at_hand_are_as_large_as_is_said(data_root: Path, name: str) -> None:
    graph = load_dataset(name, root=data_root)
    card = graph_card(graph)
    assert SIZES[name] == (card["nodes"], card["edges"], card["classes"])
    assert not any("published" in note for note in graph.record.notes)


@pytest.mark.filterwarnings("ignore:.*no SHA-256 of theirs is known")
def test_fewer_nodes_than_published_are_refused(tmp_path: Path) -> None:
    write_files(tmp_path, small_files("roman-empire", "minesweeper", "two-ways"))
    with pytest.raises(InputError) as caught:
        load_dataset("roman-empire", root=tmp_path)
    assert str(caught.value) == (
        f"roman-empire: {tmp_path / 'roman_empire' / 'raw'} has 6 nodes and 3 edges, "
        "where 22,662 and 32,927 are published: cut off, or another version? Files "
        "that are removed are downloaded again; if it can be trusted, trust_data=True "
        "(or $H2GCN_TRUST_DATA=1) reads it all the same"
    )


@pytest.mark.filterwarnings("ignore:.*no SHA-256 of theirs is known")
def test_fewer_edges_than_published_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SIZES, "roman-empire", SIZES["texas"]._replace(nodes=6))
    graph = load_small(tmp_path, "roman-empire", "minesweeper", "two-ways")
    assert graph.record.notes[-1] == (
        "6 nodes and 3 edges, where 6 and 279 are published"
    )
    monkeypatch.setitem(
        SIZES, "roman-empire", SIZES["texas"]._replace(nodes=6, edges=3)
    )
    assert load_dataset("roman-empire", root=tmp_path).record.notes == ()
