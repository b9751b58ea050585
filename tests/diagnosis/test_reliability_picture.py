"""A reliability picture shows its bins, and nothing that can run."""

import re
from xml.etree import ElementTree

from h2gcn.diagnosis import reliability_svg
from h2gcn.training import ReliabilityBin

BINS = [
    ReliabilityBin(0.0, 0.5, 0, None, None),
    ReliabilityBin(0.5, 0.75, 25, 0.6, 0.4),
    ReliabilityBin(0.75, 1.0, 100, 0.9, 1.0),
]


def drawn(picture: str, tag: str) -> list[dict[str, str]]:
    root = ElementTree.fromstring(picture)
    return [one.attrib for one in root.iter() if one.tag.endswith(tag)]


def test_a_point_and_a_bar_for_each_bin_with_nodes() -> None:
    picture = reliability_svg(BINS)
    points = [
        tuple(float(one[name]) for name in ("cx", "cy", "r"))
        for one in drawn(picture, "circle")
    ]
    # A square of 240 from the corner (46, 270); a quarter of the nodes has half the
    # radius.
    assert points == [(190.0, 174.0, 3.5), (262.0, 30.0, 7.0)]
    bars = [(float(b["x"]), float(b["height"])) for b in drawn(picture, "rect")]
    assert bars == [(166.5, 11.0), (226.5, 44.0)]


def test_it_says_what_it_shows() -> None:
    (root,) = drawn(reliability_svg(BINS, "cora"), "svg")
    assert root["aria-label"] == (
        "cora. told 0.60, came true 0.40 (25 nodes); told 0.90, came true 1.00 "
        "(100 nodes)."
    )
    assert root["role"] == "img"


def test_names_are_escaped() -> None:
    picture = reliability_svg(BINS, "<script>alert('a')</script>\"")
    assert "<script" not in picture
    assert drawn(picture, "svg")[0]["aria-label"].startswith("<script>alert('a')")
    assert not re.search(r"https?:", picture)


def test_without_nodes_there_is_the_diagonal_alone() -> None:
    picture = reliability_svg([])
    assert drawn(picture, "svg")[0]["aria-label"] == "Reliability. No nodes."
    assert drawn(picture, "circle") == drawn(picture, "rect") == []
    assert "M 46 270 L 286 30" in picture
