"""Models whose layers PyTorch Geometric has too give the same with equal weights."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from support.graphs import GRAPHS, make_graph, random_adjacency
from support.models import known_labels, logits, make

PLAIN = {name: graph for name, graph in GRAPHS.items() if "weighted" not in name}


def edges_of(graph):
    return torch.from_numpy(np.stack(graph.adj.nonzero()).astype(np.int64))


def gcn_layer(graph, h, weight):
    from torch_geometric.nn import GCNConv

    conv = GCNConv(*weight.shape, bias=False)
    conv.lin.weight.data = weight.detach().T.contiguous()
    return conv(h, edges_of(graph))


def cheby_layer(graph, h, weights):
    from torch_geometric.nn import ChebConv

    conv = ChebConv(*weights.shape[1:], K=len(weights), bias=False)
    for lin, weight in zip(conv.lins, weights.detach(), strict=True):
        lin.weight.data = weight.T.contiguous()
    return conv(h, edges_of(graph), lambda_max=torch.tensor(2.0))


def sage_layer(graph, h, weight):
    from torch_geometric.nn import SAGEConv

    conv = SAGEConv(len(weight) // 2, weight.shape[1], aggr="mean", bias=False)
    ego, neighbors = weight.detach().chunk(2)
    conv.lin_r.weight.data = ego.T.contiguous()
    conv.lin_l.weight.data = neighbors.T.contiguous()
    return conv(h, edges_of(graph)).relu()


@pytest.mark.parametrize(
    ("name", "layer", "options"),
    [
        ("gcn", gcn_layer, [{}]),
        ("gcn-cheby", cheby_layer, [{"max_degree": k} for k in (0, 1, 2, 4)]),
    ],
)
def test_convolutions_of_two_layers(name, layer, options):
    for title, graph in PLAIN.items():
        for given in options:
            module, x, operators = make(name, graph, **given)
            expected = layer(graph, layer(graph, x, module.first).relu(), module.second)
            torch.testing.assert_close(
                logits(module, x, operators),
                expected,
                rtol=1e-5,
                atol=1e-5,
                msg=lambda text, title=title: f"{title}: {text}",
            )
            module, x, operators = make(f"{name}-jk", graph, **given)
            h0 = (x @ module.embedding).relu()
            h1 = layer(graph, h0, module.first).relu()
            h2 = layer(graph, h1, module.second).relu()
            torch.testing.assert_close(
                logits(module, x, operators),
                torch.cat([h0, h1, h2], dim=1) @ module.classifier,
                rtol=1e-5,
                atol=1e-5,
            )


def test_graphsage():
    for graph in PLAIN.values():
        for name in ("graphsage", "graphsage-jk"):
            module, x, operators = make(name, graph)
            h1 = sage_layer(graph, x, module.first)
            h2 = sage_layer(graph, h1, module.second)
            final = torch.cat([h1, h2], dim=1) if name == "graphsage-jk" else h2
            expected = final @ module.classifier
            found = logits(module, x, operators)
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_sgc():
    from torch_geometric.nn import SGConv

    for graph in PLAIN.values():
        for power in (1, 2, 4):
            module, x, operators = make("sgc", graph, power=power)
            conv = SGConv(*module.weight.shape, K=power)
            conv.lin.weight.data = module.weight.detach().T.contiguous()
            conv.lin.bias.data = module.bias.detach()
            expected = conv(x, edges_of(graph))
            found = logits(module, x, operators)
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_label_propagation():
    from torch_geometric.nn import LabelPropagation

    options = {"alpha": 0.6, "steps": 7}
    for graph in PLAIN.values():
        known = known_labels(graph)
        adj = graph.adj.toarray()
        degrees = np.maximum(adj.sum(axis=1), 1)
        weights = (adj / np.sqrt(np.outer(degrees, degrees)))[graph.adj.nonzero()]
        f = LabelPropagation(num_layers=7, alpha=0.6)(
            known,
            edges_of(graph),
            edge_weight=torch.from_numpy(weights).float(),
            post_step=lambda f: f,  # else values are cut off at 1
        )
        total = f.sum(dim=1, keepdim=True)
        shares = torch.where(total > 0, f / total.clamp(min=1e-30), 1 / f.shape[1])
        expected = shares.clamp(min=1e-12).log()
        found = logits(*make("label-propagation", graph, **options))
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


LARGER = make_graph(random_adjacency(3, 20, 0.2))


def backward(found):
    functional.cross_entropy(found, torch.arange(20) % 3).backward()


def test_gat_and_its_gradients_without_the_attentions_biases():
    from torch_geometric.nn import GATConv

    options = {"hidden_channels": 4, "heads": 3, "out_heads": 2, "dropout": 0.0}
    module, x, operators = make("gat", LARGER, **options)
    convs = GATConv(5, 4, heads=3), GATConv(12, 3, heads=2, concat=False)
    layers = module.first, module.second
    with torch.no_grad():
        for layer, conv in zip(layers, convs, strict=True):
            layer.attention_bias.zero_()
            conv.lin.weight.copy_(layer.weight.flatten(1).T)
            conv.att_dst.copy_(layer.attention[:1])
            conv.att_src.copy_(layer.attention[1:])
            # PyG adds one bias to the mean of the heads, we take the mean of biases.
            bias = layer.bias.flatten() if conv.concat else layer.bias.mean(dim=0)
            conv.bias.copy_(bias)
    edges = edges_of(LARGER)
    theirs = convs[1](functional.elu(convs[0](x, edges)), edges)
    ours = logits(module.train(), x, operators)
    torch.testing.assert_close(ours, theirs)
    backward(theirs)
    backward(ours)
    for layer, conv in zip(layers, convs, strict=True):
        torch.testing.assert_close(layer.weight.grad.flatten(1).T, conv.lin.weight.grad)
        torch.testing.assert_close(layer.attention.grad[:1], conv.att_dst.grad)
        torch.testing.assert_close(layer.attention.grad[1:], conv.att_src.grad)


def test_mixhop_and_its_gradients():
    from torch_geometric.nn import MixHopConv

    options = {"hidden_channels": 9, "dropout": 0.0, "input_dropout": 0.0}
    module, x, operators = make("mixhop", LARGER, **options)
    # PyG's list starts with power 0 if that is among them.
    first, second = (
        MixHopConv(width, 3, powers=[0, 1, 2], bias=False) for width in (5, 9)
    )
    columns = [slice(3 * power, 3 * power + 3) for power in range(3)]
    with torch.no_grad():
        for power in range(3):
            first.lins[power].weight.copy_(module.first[:, columns[power]].T)
            second.lins[power].weight.copy_(module.second[:, power].T)
    edges = edges_of(LARGER)
    hidden = functional.batch_norm(
        first(functional.normalize(x), edges),
        running_mean=None,
        running_var=None,
        bias=module.shift.detach(),
        training=True,
        eps=1e-3,
    )
    blocks = second(torch.relu(hidden), edges).view(20, 3, 3)
    theirs = (blocks * torch.softmax(module.scores.detach(), 0)[:, None]).sum(dim=1)
    ours = logits(module.train(), x, operators)
    torch.testing.assert_close(ours, theirs)
    backward(theirs)
    backward(ours)
    for power in range(3):
        grad = module.first.grad[:, columns[power]].T
        torch.testing.assert_close(grad, first.lins[power].weight.grad)
        grad = module.second.grad[:, power].T
        torch.testing.assert_close(grad, second.lins[power].weight.grad)
