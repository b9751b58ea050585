"""An epoch of every model next to PyG's own two-layer network of the same kind.

An epoch is a training step (on the training nodes) and an evaluation. PyG's networks
are those of its examples: its layers, dense features, all nodes, cached normalisation
where the layer offers it. Both take turns in the same run: width 64, fused Adam, no
penalty, no score.

    python benchmarks/models.py cora pubmed --threads 1 2
"""

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import torch
from common import medians_in_turns, parser, publish, ratio
from torch import Tensor, nn
from torch.nn import functional

from h2gcn import Graph, NodeClassifier, load_dataset
from h2gcn.estimator import KnownLabels, build_operators, plan_operators
from h2gcn.estimator.inputs import fit_scaler
from h2gcn.models import MODELS, build_model
from h2gcn.sparse import Propagation
from h2gcn.sparse.operator import to_tensor
from h2gcn.training import TrainConfig, Trainer

VARIANTS = "h2gcn-"
CPU = torch.device("cpu")


class TwoLayers(nn.Module):
    """Two of PyG's layers with dropout before each, as in its examples."""

    def __init__(
        self, first: nn.Module, second: nn.Module, dropout: float, activation: Any
    ) -> None:
        super().__init__()
        self.first, self.second = first, second
        self.dropout, self.activation = dropout, activation

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Return the logits of all nodes."""
        x = functional.dropout(x, self.dropout, self.training)
        x = self.activation(self.first(x, edges))
        x = functional.dropout(x, self.dropout, self.training)
        return self.second(x, edges)


class Jumping(nn.Module):
    """Two of PyG's layers whose outputs are concatenated before the classifier."""

    def __init__(self, layers: list[nn.Module], width: int, n_classes: int) -> None:
        super().__init__()
        from torch_geometric.nn import JumpingKnowledge

        self.layers = nn.ModuleList(layers)
        self.jump = JumpingKnowledge("cat")
        self.classifier = nn.Linear(width, n_classes)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Return the logits of all nodes."""
        outputs = []
        for layer in self.layers:
            x = functional.dropout(x, 0.5, self.training)
            x = torch.relu(layer(x, edges))
            outputs.append(x)
        return self.classifier(self.jump(outputs))


class Blocks(nn.Module):
    """MixHop's output: the blocks of the powers, added."""

    def __init__(self, layer: nn.Module, n_classes: int) -> None:
        super().__init__()
        self.layer, self.n_classes = layer, n_classes

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Return the logits of all nodes."""
        return self.layer(x, edges).view(len(x), -1, self.n_classes).sum(dim=1)


def pyg_network(name: str, n_features: int, n_classes: int) -> nn.Module | None:
    """Return PyG's network of a model, or None where PyG has no such layer."""
    from torch_geometric.nn import (
        MLP,
        ChebConv,
        GATConv,
        GCNConv,
        MixHopConv,
        SAGEConv,
        SGConv,
    )

    f, c, h = n_features, n_classes, 64
    relu = torch.relu

    def cheby(i: int, o: int) -> nn.Module:
        return ChebConv(i, o, K=3)

    networks: dict[str, Callable[[], nn.Module]] = {
        "gcn": lambda: TwoLayers(
            GCNConv(f, h, cached=True), GCNConv(h, c, cached=True), 0.5, relu
        ),
        "gcn-jk": lambda: Jumping(
            [GCNConv(f, h, cached=True), GCNConv(h, h, cached=True)], 2 * h, c
        ),
        "gcn-cheby": lambda: TwoLayers(cheby(f, h), cheby(h, c), 0.5, relu),
        "gcn-cheby-jk": lambda: Jumping([cheby(f, h), cheby(h, h)], 2 * h, c),
        "graphsage": lambda: TwoLayers(SAGEConv(f, h), SAGEConv(h, c), 0.0, relu),
        "graphsage-jk": lambda: Jumping([SAGEConv(f, h), SAGEConv(h, h)], 2 * h, c),
        "gat": lambda: TwoLayers(
            GATConv(f, 8, heads=8, dropout=0.6),
            GATConv(64, c, heads=1, concat=False, dropout=0.6),
            0.6,
            functional.elu,
        ),
        "mixhop": lambda: TwoLayers(
            MixHopConv(f, 21), Blocks(MixHopConv(63, c), c), 0.7, relu
        ),
        "sgc": lambda: SGConv(f, c, K=2, cached=True),
        "mlp": lambda: MLP([f, h, c], dropout=0.5, norm=None),
    }
    return networks[name]() if name in networks else None


def main() -> None:
    """Time every model and publish the table."""
    options = parser(__doc__)
    options.add_argument("graphs", nargs="*", default=["cora", "pubmed"])
    options.add_argument("--models", nargs="+", default=default_models())
    options.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    options.add_argument("--repeats", type=int, default=9)
    chosen = options.parse_args()
    warnings.filterwarnings("ignore")
    rows = []
    for name, model in itertools.product(chosen.graphs, chosen.models):
        graph = load_dataset(name)
        for threads in chosen.threads:
            torch.set_num_threads(threads)
            programs, theirs = (
                {"ours": our_epoch(graph, model)},
                pyg_epoch(graph, model),
            )
            if theirs is not None:
                programs["PyG"] = theirs
            seconds = medians_in_turns(programs, chosen.repeats)
            pyg = seconds.get("PyG")
            rows.append(
                {
                    "graph": name,
                    "model": model,
                    "threads": threads,
                    "ms": 1e3 * seconds["ours"],
                    "PyG ms": None if pyg is None else 1e3 * pyg,
                    "times faster": ratio(pyg, seconds["ours"]),
                }
            )
    publish("models", rows, folder=chosen.out)


def default_models() -> list[str]:
    """Return all models on operators but the ablations' variants of H2GCN."""
    keep = ("h2gcn-1", "h2gcn-2")
    on_graphs = [n for n, spec in MODELS.items() if spec.inputs != "table"]
    return [n for n in on_graphs if n in keep or not n.startswith(VARIANTS)]


def our_epoch(graph: Graph, model: str) -> Callable[[], Any]:
    """Return a step and an evaluation of ours; of label models, a prediction."""
    spec, split = MODELS[model], graph.splits[0]
    operators = build_operators(plan_operators(graph, model, CPU))
    options = {"hidden_channels": 64} if "hidden_channels" in spec.options else {}
    if model == "gat":
        options = {"hidden_channels": 8}
    width = graph.n_features if spec.epochs else graph.n_classes
    torch.manual_seed(0)
    module = build_model(model, width, graph.n_classes, options)
    train, val = (
        Propagation(operators, torch.from_numpy(i)) for i in (split.train, split.val)
    )
    labels = torch.from_numpy(graph.y[split.train])
    if not spec.epochs:
        seeds = KnownLabels.of(graph, split.train, model).one_hot(graph, CPU)
        Trainer(module, seeds, operators, graph.y, split, TrainConfig()).run()
        return lambda: module(seeds, val)
    scaler = fit_scaler(NodeClassifier().scaling, graph.x, split.train)
    x = to_tensor(scaler(graph.x))
    optimizer = torch.optim.Adam(module.parameters(), fused=True)

    def epoch() -> None:
        module.train()
        optimizer.zero_grad()
        functional.cross_entropy(module(x, train), labels).backward()
        optimizer.step()
        module.eval()
        with torch.no_grad():
            module(x, val)

    return epoch


def pyg_epoch(graph: Graph, model: str) -> Callable[[], Any] | None:
    """Return an epoch of PyG's example of a model."""
    from torch_geometric.nn import LabelPropagation
    from torch_geometric.transforms import NormalizeFeatures

    data = NormalizeFeatures()(graph.to_pyg())
    x, edges = data.x, data.edge_index
    x = x.to_dense() if x.is_sparse or x.layout != torch.strided else x
    split = graph.splits[0]
    mask = torch.zeros(graph.n_nodes, dtype=torch.bool)
    mask[torch.from_numpy(split.train)] = True
    labels = torch.from_numpy(graph.y)
    if model == "label-propagation":
        spread = LabelPropagation(num_layers=50, alpha=0.9)
        return lambda: spread(labels.clamp(min=0), edges, mask)
    torch.manual_seed(0)
    network = pyg_network(model, graph.n_features, graph.n_classes)
    if network is None:
        return None
    optimizer = torch.optim.Adam(network.parameters(), fused=True)

    def epoch() -> None:
        network.train()
        optimizer.zero_grad()
        logits = network(x) if model == "mlp" else network(x, edges)
        functional.cross_entropy(logits[mask], labels[mask]).backward()
        optimizer.step()
        network.eval()
        with torch.no_grad():
            network(x) if model == "mlp" else network(x, edges)

    return epoch


if __name__ == "__main__":
    main()
