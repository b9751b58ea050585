"""Products with features that stay in a memory-mapped file."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from h2gcn import NodeClassifier
from h2gcn.datasets import GaussianFeatures, generate_graph
from h2gcn.estimator import Scaler
from h2gcn.graph import checks
from h2gcn.models import MODELS
from h2gcn.sparse import MappedFeatures
from support.cases import each


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make blocks of a few rows, so that there are many."""
    monkeypatch.setattr(checks, "NUMBERS", 20)


def mapped(folder: Path, x: np.ndarray) -> np.memmap:
    np.save(folder / "x.npy", x)
    return np.load(folder / "x.npy", mmap_mode="r")  # type: ignore[no-any-return]


@each("index", [None, [22, 0, 5, 5]])
@each("p", [0.0, 0.5])
def test_products_and_gradients_are_those_of_the_array(
    tmp_path: Path, index: list[int] | None, p: float
) -> None:
    x = np.random.default_rng(0).normal(size=(23, 4)).astype(np.float32) + 3
    nodes = None if index is None else np.array(index)
    features = MappedFeatures(mapped(tmp_path, x), Scaler("rows"), index=nodes)
    dense = torch.from_numpy(Scaler("rows")(x[slice(None) if index is None else index]))
    assert features.shape == dense.shape
    torch.testing.assert_close(features.rows(np.array([2, 0])), dense[[2, 0]])
    if p:
        features, another = features.dropout(p), features.dropout(p)
        state = torch.get_rng_state()
        seen = features @ torch.eye(4)
        assert not torch.equal(another @ torch.eye(4), seen)
        torch.testing.assert_close(seen[seen != 0], dense[seen != 0] / (1 - p))
        assert torch.get_rng_state().equal(state)  # products draw nothing
        dense = seen
    weight = torch.randn(4, 3, requires_grad=True)
    torch.testing.assert_close(features @ weight, dense @ weight)
    torch.testing.assert_close(features.row_norms(), dense.norm(dim=1))
    ours, theirs = (
        torch.autograd.grad((factor @ weight).square().sum(), weight)
        for factor in (features, dense)
    )
    torch.testing.assert_close(ours, theirs)


def test_rows_that_were_not_asked_for_are_not_read(tmp_path: Path) -> None:
    class Counting(np.ndarray):
        asked: list[int]

        def __getitem__(self, key: object) -> np.ndarray:
            self.asked.append(len(np.arange(len(self))[key]))
            return np.asarray(self).__getitem__(key)

    x = mapped(tmp_path, np.ones((23, 4), np.float32)).view(Counting)
    x.asked = []
    features = MappedFeatures(x, Scaler("none"))
    features.rows(np.array([1, 5]))
    features @ torch.ones(4, 1)
    assert x.asked == [2, 5, 5, 5, 5, 3]  # 20 numbers at a time


TRAINED = [name for name, spec in MODELS.items() if spec.epochs]
WITHOUT_BATCHES = ("mixhop", "gmnn", "gam", "residual-gcn", "correct-and-smooth")


@pytest.mark.parametrize(
    ("name", "batch_size"),
    [(name, None) for name in TRAINED]
    + [(name, 16) for name in TRAINED if name not in WITHOUT_BATCHES],
)
def test_every_model_learns_the_same_from_a_file(
    tmp_path: Path, name: str, batch_size: int | None
) -> None:
    graph = generate_graph(
        n_nodes=60, n_classes=3, features=GaussianFeatures(n_features=5), seed=2
    )
    in_file = replace(graph, x=mapped(tmp_path, np.asarray(graph.x)))
    drops = MODELS[name].options
    logits, losses = [], []
    for one in (graph, in_file):
        clf = NodeClassifier(
            name,
            epochs=3,
            dropout=0.0 if "dropout" in drops else None,
            options={"input_dropout": 0.0} if "input_dropout" in drops else {},
            batch_size=batch_size,
            random_state=0,
        ).fit(one)
        logits.append(clf.predict_logits(one))
        losses.append(clf.history_[-1].loss)
    # CPGNN's penalty has a kink at sums of zero: there, rounding decides the step.
    near = 0.1 if name == "cpgnn" else 1e-4
    np.testing.assert_allclose(logits[1], logits[0], rtol=near, atol=near)
    assert losses[1] == pytest.approx(losses[0], abs=near)


@each("name", ["h2gcn-1", "gcn", "gat", "mixhop"])
def test_no_model_reads_all_rows_at_once(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = generate_graph(
        n_nodes=60, n_classes=3, features=GaussianFeatures(n_features=5), seed=2
    )
    graph = replace(graph, x=mapped(tmp_path, np.asarray(graph.x)))
    lengths, read = [], MappedFeatures.read

    def spy(self: MappedFeatures, rows: slice) -> torch.Tensor:
        lengths.append(len(block := read(self, rows)))
        return block

    monkeypatch.setattr(MappedFeatures, "read", spy)
    clf = NodeClassifier(name, epochs=2, random_state=0).fit(graph)
    assert np.isfinite(clf.predict_logits(graph)).all()
    assert max(lengths) == 4
