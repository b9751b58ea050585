"""Models whose layers PyTorch Geometric has too give the same with equal weights."""

import numpy as np
import torch
from torch.nn import functional

from support.graphs import GRAPHS, make_graph, random_adjacency
from support.models import assert_close, logits, make

PLAIN = {name: graph for name, graph in GRAPHS.items() if "weighted" not in name}
LARGER = make_graph(random_adjacency(3, 20, 0.2))


def edges_of(graph):
    return torch.from_numpy(np.stack(graph.adj.nonzero()).astype(np.int64))


def check(name, expected_of, options=({},)):
    """Compare the logits of a model on all graphs."""
    for title, graph in PLAIN.items():
        for given in options:
            module, x, operators = make(name, graph, **given)
            expected = expected_of(module, x, graph).detach().numpy()
            assert_close(logits(module, x, operators), expected, title, given)


def gcn_layer(_, graph, h, weight):
    from torch_geometric.nn import GCNConv

    conv = GCNConv(len(weight), weight.shape[1], bias=False)
    conv.lin.weight.data = weight.detach().T.contiguous()
    return conv(h, edges_of(graph))


def cheby_layer(module, graph, h, weight):
    from torch_geometric.nn import ChebConv

    blocks = weight.detach().chunk(module.n_filters, dim=1)
    conv = ChebConv(*blocks[0].shape, K=len(blocks), bias=False)
    for lin, block in zip(conv.lins, blocks, strict=True):
        lin.weight.data = block.T.contiguous()
    return conv(h, edges_of(graph), lambda_max=torch.tensor(2.0))


def sage_layer(_, graph, h, weight):
    from torch_geometric.nn import SAGEConv

    conv = SAGEConv(h.shape[1], weight.shape[1], aggr="mean", bias=False)
    ego, neighbors = weight.detach().chunk(2)
    conv.lin_r.weight.data = ego.T.contiguous()
    conv.lin_l.weight.data = neighbors.T.contiguous()
    return conv(h, edges_of(graph))


def test_two_layers_and_jumping_knowledge():
    degrees = [{"max_degree": k} for k in (0, 1, 2, 4)]
    for name, layer, options in (
        ("gcn", gcn_layer, [{}]),
        ("gcn-cheby", cheby_layer, degrees),
        ("graphsage", sage_layer, [{}]),
    ):

        def expected_of(module, x, graph, name=name, layer=layer):
            sage, seen = name == "graphsage", []
            if module.jumping and not sage:
                x = (x @ module.embedding).relu()
                seen = [x]
            h1 = layer(module, graph, x, module.first).relu()
            h2 = layer(module, graph, h1, module.second)
            if not (module.jumping or sage):
                return h2
            seen = [*seen, h1, h2.relu()] if module.jumping else [h2.relu()]
            return torch.cat(seen, dim=1) @ module.classifier

        check(name, expected_of, options)
        check(f"{name}-jk", expected_of, options)


def test_sgc():
    from torch_geometric.nn import SGConv

    def expected_of(module, x, graph):
        conv = SGConv(*module.weight.shape, K=module.power)
        conv.lin.weight.data = module.weight.detach().T.contiguous()
        conv.lin.bias.data = module.bias.detach()
        return conv(x, edges_of(graph))

    check("sgc", expected_of, [{"power": k} for k in (1, 2, 4)])


def test_label_propagation():
    from torch_geometric.nn import LabelPropagation

    def expected_of(_, known, graph):
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
        fractions = torch.where(total > 0, f / total.clamp(min=1e-30), 1 / f.shape[1])
        return fractions.clamp(min=1e-12).log()

    check("label-propagation", expected_of, [{"alpha": 0.6, "steps": 7}])


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
    convs = [MixHopConv(width, 3, powers=[0, 1, 2], bias=False) for width in (5, 9)]
    lins = [lin for conv in convs for lin in conv.lins]
    weights = module.first, module.second
    blocks = [block for weight in weights for block in weight.chunk(3, dim=1)]
    for lin, block in zip(lins, blocks, strict=True):
        lin.weight.data.copy_(block.T)
    edges = edges_of(LARGER)
    hidden = functional.batch_norm(
        convs[0](functional.normalize(x), edges),
        running_mean=None,
        running_var=None,
        bias=module.shift.detach(),
        training=True,
        eps=1e-3,
    )
    z = convs[1](torch.relu(hidden), edges).view(20, 3, 3)
    theirs = (z * torch.softmax(module.scores.detach(), 0)[:, None]).sum(dim=1)
    ours = logits(module.train(), x, operators)
    torch.testing.assert_close(ours, theirs)
    backward(theirs)
    backward(ours)
    grads = [block for weight in weights for block in weight.grad.chunk(3, dim=1)]
    for lin, grad in zip(lins, grads, strict=True):
        torch.testing.assert_close(grad.T, lin.weight.grad)
