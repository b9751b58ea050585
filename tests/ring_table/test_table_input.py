"""Tables as modules take them: their rows, their numbers, labels that are masked."""

import numpy as np
import pytest
import torch
from torch import Tensor

from h2gcn import Graph
from h2gcn.graph import CSR
from h2gcn.ring_table import TableInput, TableMaker, table as tables
from h2gcn.ring_table.table import LabelCounts
from h2gcn.sparse import Operator
from support.cases import each
from support.graphs import NAMED


def one_hot(labels: list[int], n_classes: int = 2) -> Tensor:
    """Return rows of labels; -1 is not known."""
    rows = torch.zeros(len(labels), n_classes)
    for node, label in enumerate(labels):
        if label >= 0:
            rows[node, label] = 1
    return rows


def shares(*rows: tuple[float, float, int]) -> list[list[float]]:
    return [[a, b, np.log1p(count)] for a, b, count in rows]


def test_shares_of_a_path_by_hand() -> None:
    known = one_hot([0, 1, 1, -1, 0])
    found = LabelCounts.of([NAMED["path"]]).columns(known)
    expected = shares((0, 1, 1), (0.5, 0.5, 2), (0, 1, 1), (0.5, 0.5, 2), (0, 0, 0))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_walks_that_come_back_are_taken_away_by_hand() -> None:
    # 0 and 1 point at each other, and both at 2.
    out = CSR(np.array([[0, 1, 1], [1, 0, 1], [0, 0, 0]], dtype=np.float32))
    back = CSR(out.T)
    known = one_hot([0, 1, 1])
    twice = LabelCounts.of([out, out])
    assert twice.closed.tolist() == [1, 1, 0]
    expected = shares((0, 1, 1), (0, 1, 1), (0, 0, 0))
    np.testing.assert_allclose(twice.columns(known).numpy(), expected, rtol=1e-6)
    # Out, then in: who points where they point. One way of two leads to the other.
    shared = LabelCounts.of([out, back])
    assert shared.closed.tolist() == [2, 2, 0]
    expected = shares((0, 1, 1), (1, 0, 1), (0, 0, 0))
    np.testing.assert_allclose(shared.columns(known).numpy(), expected, rtol=1e-6)


def made(*, maskable: bool = True) -> TableInput:
    directed = CSR(np.triu(NAMED["triangle with tail"].toarray()))
    graph = Graph(
        x=np.arange(10.0).reshape(5, 2),
        adj=NAMED["triangle with tail"],
        y=np.array([0, 1, 0, 1, -1]),
        directed=directed,
    )
    maker = TableMaker(graph)
    schema = maker.schema("own+ring1+labels+adjacency")
    known = one_hot([0, 1, 0, 1, -1])
    return maker.build(schema, graph.x, "x", known, maskable=maskable)


def test_its_shape_and_its_numbers() -> None:
    table = made()
    assert list(table.blocks)[:3] == ["own", "ring1", "labels.ring1"]
    assert list(table.blocks)[-2:] == ["adjacency.out", "adjacency.in"]
    assert table.shape == (5, 2 + 2 + 8 * 3 + 5 + 5)
    dense = table.dense()
    assert dense.shape == table.shape
    assert dense.dtype == np.float32
    np.testing.assert_array_equal(dense[:, :2], np.arange(10.0).reshape(5, 2))
    np.testing.assert_array_equal(
        dense[:, -10:-5], np.triu(NAMED["triangle with tail"].toarray())
    )
    assert isinstance(table.blocks["adjacency.in"], Operator)
    assert table.device == torch.device("cpu")
    assert table.entries == 5 * (2 + 2 + 24) + 5 + 5


@each("index", [[0], [4, 1, 1], [], [4, 3, 2, 1, 0]])
def test_rows_are_those_of_the_whole(index: list[int]) -> None:
    table, at = made(), np.array(index, dtype=np.int64)
    some = table.rows(at)
    assert some.shape == (len(index), table.shape[1])
    np.testing.assert_array_equal(some.dense(), table.dense()[at])


def test_rows_of_rows() -> None:
    table = made()
    twice = table.rows(np.array([4, 2, 0])).rows(np.array([2, 1]))
    np.testing.assert_array_equal(twice.dense(), table.dense()[[0, 2]])
    torch.manual_seed(3)
    masked = table.masked(0.5).dense()
    torch.manual_seed(3)
    np.testing.assert_array_equal(twice.masked(0.5).dense(), masked[[0, 2]])


def test_masking_hides_the_labels_that_were_drawn() -> None:
    table = made()
    torch.manual_seed(5)
    kept = torch.rand(5, 1) >= 0.5
    assert 0 < kept[:4].sum() < 4
    torch.manual_seed(5)
    masked = table.masked(0.5)
    counts = LabelCounts.of([NAMED["triangle with tail"]])
    expected = counts.columns(table.known * kept)
    assert torch.equal(masked.blocks["labels.ring1"], expected)
    assert masked.blocks["own"] is table.blocks["own"]
    assert torch.equal(table.blocks["labels.ring1"], counts.columns(table.known))


def test_masks_are_drawn_anew() -> None:
    table = made()
    torch.manual_seed(0)
    drawn = {table.masked(0.5).dense().tobytes() for _ in range(10)}
    assert len(drawn) > 1


def test_nothing_is_masked_where_nothing_can_be() -> None:
    table, fixed = made(), made(maskable=False)
    before = torch.get_rng_state()
    assert table.masked(0.0) is table
    assert fixed.masked(0.5) is fixed
    assert torch.equal(torch.get_rng_state(), before), "no number is drawn"


def test_all_labels_masked_are_no_labels() -> None:
    table = made()
    hidden = table.masked(1.0).blocks["labels.out-in"]
    assert not hidden.any()


def complete_both_ways(n: int, centres: int) -> tuple[CSR, CSR]:
    """Return edges of many nodes to all of some others, and the same backwards."""
    rows = np.repeat(np.arange(centres, n), centres)
    columns = np.tile(np.arange(centres), n - centres)
    out = CSR((np.ones(len(rows), np.float32), (rows, columns)), shape=(n, n))
    return out, CSR(out.T)


def test_many_walks_are_counted_exactly() -> None:
    # Each of 2,000 nodes has 200,000 walks over a hundred others.
    n = 2100
    known = one_hot([i % 2 for i in range(n)])
    found = LabelCounts.of(complete_both_ways(n, 100)).columns(known)
    others, even = 100 * (n - 100 - 1), 100 * ((n - 100) // 2 - 1)
    assert found[100, 2] == torch.tensor(float(others)).log1p()
    assert found[100, 0] == torch.tensor(float(even)) / others


def test_more_walks_than_float32_can_count(monkeypatch: pytest.MonkeyPatch) -> None:
    steps, known = complete_both_ways(30, 4), one_hot([i % 2 for i in range(30)])
    few = LabelCounts.of(steps)
    monkeypatch.setattr(tables, "WHOLE", 4 * 26 - 1)
    many = LabelCounts.of(steps)
    assert (few.many, many.many) == (False, True)
    index = np.array([29, 0, 5])
    assert many.rows(index).many
    found = many.columns(known)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, few.columns(known))
    torch.testing.assert_close(many.rows(index).columns(known), found[index])
    monkeypatch.setattr(tables, "WHOLE", 4 * 26)
    assert not LabelCounts.of(steps).many


def test_walks_beyond_float32_leave_no_trace_of_a_node() -> None:
    # 5,000 times 5,000 walks, which a sum of floats would round.
    ones = CSR(np.ones((1, 5000), dtype=np.float32))
    many = LabelCounts((Operator(ones),), torch.tensor([1.0]), torch.tensor([0]), True)
    weights = torch.full((5000, 2), 3357.0)
    rows = []
    for own in ([1.0, 0.0], [0.0, 1.0]):
        known = weights.clone()
        known[0] += torch.tensor(own)
        counts = many._walks(known) - torch.tensor([own])
        rows.append(counts.numpy().tobytes())
    assert rows[0] == rows[1]
