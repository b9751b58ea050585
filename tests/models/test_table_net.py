"""Networks on the ring table: each preset against its formula, masks, batches."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from h2gcn import Graph, NodeClassifier
from h2gcn.exceptions import InputError
from h2gcn.models import MODELS, build_model
from h2gcn.models.table_net import TableNet
from h2gcn.ring_table import TableInput, TableMaker
from h2gcn.sparse import Target
from h2gcn.training import receptive_field
from support.cases import each
from support.refusals import only, refused

N, F, C = 16, 3, 3
PRESETS = [name for name, spec in MODELS.items() if spec.module is TableNet]


def directed_graph(seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    arcs = np.triu(rng.random((N, N)) < 0.25, 1) | (rng.random((N, N)) < 0.05)
    np.fill_diagonal(arcs, False)
    return Graph(
        x=rng.normal(size=(N, F)).astype(np.float32),
        adj=sp.csr_array((arcs | arcs.T).astype(np.float32)),
        directed=sp.csr_array(arcs.astype(np.float32)),
        y=np.arange(N) % C,
    )


def known_labels(graph: Graph) -> torch.Tensor:
    known = torch.eye(C)[torch.from_numpy(graph.y)]
    known[1::3] = 0
    return known


def table_of(graph: Graph, recipe: str) -> TableInput:
    maker = TableMaker(graph)
    schema = maker.schema(recipe)
    return maker.build(schema, graph.x, "x", known_labels(graph), maskable=True)


def module_for(name: str, x: TableInput, **options: Any) -> TableNet:
    """Return a module with other numbers than zero and one in all of its weights."""
    torch.manual_seed(0)
    widths = [block.shape[1] for block in x.blocks.values()]
    module = build_model(name, widths, C, {"hidden_channels": 6} | options)
    assert isinstance(module, TableNet)
    for weight in module.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    return module


# ------------------------------------------------------------------------- formulas


def array(tensor: Any) -> NDArray[np.float64]:
    found: NDArray[np.float64] = tensor.detach().double().numpy()
    return found


def normalised(adj: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return D⁻¹ᐟ² A D⁻¹ᐟ²."""
    degrees = adj.sum(axis=1)
    root = np.array([d**-0.5 if d else 0.0 for d in degrees])
    return root[:, None] * adj * root


def relu(z: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.maximum(z, 0)


def lengths_of_one(z: NDArray[np.float64]) -> NDArray[np.float64]:
    return z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-12)


def layer_norm(z: NDArray[np.float64], norm: Any) -> NDArray[np.float64]:
    centred = z - z.mean(axis=1, keepdims=True)
    spread = np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)
    return centred / spread * array(norm.weight) + array(norm.bias)


def linear(z: NDArray[np.float64], layer: Any) -> NDArray[np.float64]:
    return z @ array(layer.weight).T + array(layer.bias)


def mapped(
    module: TableNet, blocks: list[NDArray[np.float64]]
) -> list[NDArray[np.float64]]:
    """Return X_b W_b + c_b of each block."""
    assert len(blocks) == len(module.maps)
    return [
        block @ array(weight) + array(shift)
        for block, weight, shift in zip(blocks, module.maps, module.shifts, strict=True)
    ]


def dense(graph: Graph) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return graph.x.astype(float), graph.adj.toarray().astype(float)


def sign(module: TableNet, graph: Graph) -> NDArray[np.float64]:
    """Return [σ(X W₀), σ(ÃX W₁), σ(Ã²X W₂), σ(Ã³X W₃)] Ω."""
    x, a = dense(graph)
    smooth = normalised(a + np.eye(N))
    blocks = [np.linalg.matrix_power(smooth, k) @ x for k in range(4)]
    hidden = np.concatenate([relu(z) for z in mapped(module, blocks)], axis=1)
    return linear(hidden, module.readout[0])


def fsgnn(module: TableNet, graph: Graph) -> NDArray[np.float64]:
    """Return σ(‖ α_k norm(X_k W_k)) W, α the softmax of learned numbers."""
    x, a = dense(graph)
    blocks = [x]
    for k in (1, 2, 3):
        for matrix in (normalised(a), normalised(a + np.eye(N))):
            blocks.append(np.linalg.matrix_power(matrix, k) @ x)
    return gated(module, blocks)


def gated(module: TableNet, blocks: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    assert module.gates is not None
    weights = np.exp(array(module.gates))
    parts = [
        share * lengths_of_one(z)
        for share, z in zip(
            weights / weights.sum(), mapped(module, blocks), strict=True
        )
    ]
    return linear(relu(np.concatenate(parts, axis=1)), module.readout[0])


def faf(module: TableNet, graph: Graph) -> NDArray[np.float64]:
    """Return an MLP with layer norm of all summaries, hop after hop."""
    x, a = dense(graph)
    near = [np.flatnonzero(row) for row in a]

    def summary(values: NDArray[np.float64], how: Any) -> NDArray[np.float64]:
        rows = [how(values[i], axis=0) if len(i) else np.zeros(F) for i in near]
        return np.array(rows)

    hows = (np.mean, np.sum, np.max, np.min)
    first = [summary(x, how) for how in hows]
    second = [summary(values, how) for values, how in zip(first, hows, strict=True)]
    joined = np.concatenate([x, *first, *second], axis=1)
    weight = np.concatenate([array(w) for w in module.maps])
    hidden = joined @ weight + array(module.shifts).sum(axis=0)
    hidden = relu(layer_norm(hidden, module.norms[0]))
    return linear(relu(linear(hidden, module.readout[0])), module.readout[1])


def c_ignn(module: TableNet, graph: Graph) -> NDArray[np.float64]:
    """Return [σ(norm(Âᵏ X Wₖ))]ₖ W."""
    x, a = dense(graph)
    blocks = [np.linalg.matrix_power(normalised(a), k) @ x for k in range(5)]
    parts = [
        relu(layer_norm(z, norm))
        for z, norm in zip(mapped(module, blocks), module.norms, strict=True)
    ]
    return linear(np.concatenate(parts, axis=1), module.readout[0])


def linkx(module: TableNet, graph: Graph) -> NDArray[np.float64]:
    """Return MLP(σ(W[h_A ‖ h_X] + h_A + h_X)); A is of both directions apart."""
    assert graph.directed is not None
    out = graph.directed.toarray().astype(float)
    parts = mapped(module, [graph.x.astype(float), out, out.T])
    joined = linear(np.concatenate(parts, axis=1), module.mix)
    hidden = relu(sum(parts) + joined)
    return linear(relu(linear(hidden, module.readout[0])), module.readout[1])


def ring_table(module: TableNet, graph: Graph) -> NDArray[np.float64]:
    """Return the gated blocks of rings, directions, degrees and labels."""
    assert graph.directed is not None
    x, a = dense(graph)
    out, known = graph.directed.toarray().astype(float), array(known_labels(graph))
    ring2 = ((a @ a > 0) & (a == 0)).astype(float) * (1 - np.eye(N))
    steps = {"out": out, "in": out.T}
    paths = ["out", "in", "out-out", "out-in", "in-out", "in-in"]
    walks = {"ring1": a, "ring2": ring2}
    means = {
        name: m / np.maximum(m.sum(axis=1, keepdims=True), 1)
        for name, m in {"ring1": a, "ring2": ring2, **steps}.items()
    }
    blocks = [x, means["ring1"] @ x, means["ring2"] @ x]
    for path in paths:
        mean, count = np.eye(N), np.eye(N)
        for step in path.split("-"):
            mean, count = mean @ means[step], count @ steps[step]
        blocks.append(mean @ x)
        walks[path] = count * (1 - np.eye(N))
    sizes = [m.sum(axis=1) for m in (a, ring2, out, out.T)]
    blocks.append(np.log1p(np.stack(sizes, axis=1)))
    for count in walks.values():
        seen = count @ known
        total = seen.sum(axis=1, keepdims=True)
        blocks.append(np.hstack([seen / np.maximum(total, 1), np.log1p(total)]))
    return gated(module, blocks)


ORACLES = {
    "sign": sign,
    "fsgnn": fsgnn,
    "faf": faf,
    "c-ignn": c_ignn,
    "linkx": linkx,
    "ring-table": ring_table,
}


def test_every_preset_has_an_oracle() -> None:
    assert set(PRESETS) == set(ORACLES)


@each("name", PRESETS)
@each("seed", [0, 1])
def test_a_preset_is_its_formula(name: str, seed: int) -> None:
    graph = directed_graph(seed)
    x = table_of(graph, MODELS[name].options["table"])
    module = module_for(name, x, dropout=0.0, input_dropout=0.0)
    expected = ORACLES[name](module, graph)
    index = np.array([N - 1, 0, 0])
    for training in (False, True):
        module.train(training)
        found = module(x).detach().numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
        some = module(x, (), Target.of((), index)).detach().numpy()
        np.testing.assert_allclose(some, expected[index], rtol=1e-4, atol=1e-4)


@each("activation", ["relu", "elu", "none"])
def test_the_activation_of_the_sum(activation: str) -> None:
    graph = directed_graph()
    x = table_of(graph, "own+ring1")
    options = {"join": "sum", "table": "own+ring1", "activation": activation}
    module = module_for("sign", x, early=False, **options).eval()
    z = sum(mapped(module, [array(block) for block in x.blocks.values()]))
    acted = {"relu": relu(z), "elu": np.where(z > 0, z, np.expm1(z)), "none": z}
    expected = linear(acted[activation], module.readout[0])
    np.testing.assert_allclose(
        module(x).detach().numpy(), expected, rtol=1e-5, atol=1e-5
    )


# -------------------------------------------------------------------------- training


def test_labels_are_masked_anew_in_each_step_and_never_at_prediction() -> None:
    x = table_of(directed_graph(), "own+labels")
    module = module_for("ring-table", x, dropout=0.0, label_masking=0.5)
    module.train()
    drawn = {module(x).detach().numpy().tobytes() for _ in range(6)}
    assert len(drawn) > 3
    torch.manual_seed(7)
    seen = x.masked(0.5)
    torch.manual_seed(7)
    found = module(x)
    module.eval()
    torch.testing.assert_close(found, module(seen))
    assert len({module(x).detach().numpy().tobytes() for _ in range(3)}) == 1


def test_masking_is_part_of_a_fit() -> None:
    graph = directed_graph()
    plain, masked = (
        NodeClassifier(
            "ring-table",
            epochs=3,
            dropout=0.0,
            options={"label_masking": share},
            random_state=0,
        ).fit(graph)
        for share in (0.0, 0.5)
    )
    assert plain.history_[0].loss != masked.history_[0].loss


@each("name", PRESETS)
def test_batches_give_the_same_logits(name: str) -> None:
    x = table_of(directed_graph(), MODELS[name].options["table"])
    module = module_for(name, x).eval()
    assert module.reach == 0
    whole = module(x)
    for nodes in (np.array([3]), np.array([15, 2, 2, 9]), np.arange(N)):
        part = receptive_field(x, (), nodes, 0, torch.device("cpu"))
        assert part.x.shape[0] == len(np.unique(nodes)), "no more rows than wanted"
        found = module(part.x, part.operators, part.target)
        torch.testing.assert_close(found, whole[nodes], rtol=1e-5, atol=1e-5)


def test_dropout_acts_on_the_table_and_before_the_read_out() -> None:
    x = table_of(directed_graph(), "own")
    for options in ({"input_dropout": 0.5, "dropout": 0.0}, {"dropout": 0.5}):
        module = module_for("sign", x, table="own", **options).train()
        assert len({module(x).detach().numpy().tobytes() for _ in range(4)}) > 1
        module.eval()
        assert torch.equal(module(x), module(x))


def test_maps_are_regularised_and_gates_norms_and_shifts_are_not() -> None:
    x = table_of(directed_graph(), "own+adjacency")
    module = module_for("linkx", x, gate=True, norm="layer")
    names = {id(weight): name for name, weight in module.named_parameters()}
    assert {names[id(weight)] for weight in module.regularised()} == {
        *("maps.0", "maps.1", "maps.2", "mix.weight"),
        *("readout.0.weight", "readout.1.weight"),
    }
    assert {"gates", "shifts", "norms.0.weight"} <= set(names.values())


def test_what_a_step_takes() -> None:
    module = TableNet((4, 6), 3, hidden_channels=8)
    assert module.embedding_width() == 16
    assert module.working_bytes(1000, 10) == (12 * 10 + 28 * 16) * 10
    assert repr(module) == "TableNet((4, 6), 3)"


# -------------------------------------------------------------------------- mistakes


@each(
    "options",
    [
        {"in_channels": ()},
        {"in_channels": 4},
        {"layers": 0},
        {"layers": 17},
        {"norm": "batch"},
        {"join": "max"},
        {"gate": 1},
        {"early": None},
        {"input_dropout": 1},
        {"label_masking": -0.1},
        {"label_masking": 1},
    ],
)
def test_mistakes_are_named(options: dict[str, Any]) -> None:
    given = {"in_channels": (3,), "out_channels": 2} | options
    with refused(**only(options)):
        TableNet(**given)


def test_a_block_without_columns_is_named() -> None:
    with refused(param="in_channels", value=0):
        TableNet((3, 0), 2)


def test_a_block_that_no_table_has() -> None:
    with pytest.raises(InputError, match="the ring table has no block 'nothing'"):
        TableNet((3,), 2, table="own+nothing")
