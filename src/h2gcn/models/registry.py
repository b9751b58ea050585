"""The models by name: what each is built from, and which matrices it wants."""

from collections.abc import Mapping, Sequence
from typing import Any

from h2gcn._validation import check_type, nearest
from h2gcn.exceptions import InputError, short_repr
from h2gcn.models.acm_gcn import ACMGCN
from h2gcn.models.belief_propagation import BeliefPropagation
from h2gcn.models.boosted_trees import BoostedTrees
from h2gcn.models.correct_and_smooth import CorrectAndSmooth
from h2gcn.models.cpgnn import CPGNN
from h2gcn.models.decoupled_smoothing import DecoupledSmoothing
from h2gcn.models.dir_gnn import DirGNN
from h2gcn.models.gam import GAM
from h2gcn.models.gat import GAT
from h2gcn.models.gcn import GCN, SGC, ChebyGCN
from h2gcn.models.gdc import Diffusion
from h2gcn.models.geom_gcn import GeometricMatrices, GeomGCN
from h2gcn.models.gmnn import GMNN
from h2gcn.models.gpr_gnn import GPRGNN
from h2gcn.models.graphsage import GraphSAGE
from h2gcn.models.h2gcn import H2GCN
from h2gcn.models.iterative import IterativeClassification
from h2gcn.models.label_propagation import LabelPropagation
from h2gcn.models.linbp import BeliefMatrices, LinBP
from h2gcn.models.logistic_table import LogisticTable
from h2gcn.models.mixhop import MixHop
from h2gcn.models.residual import ResidualGNN
from h2gcn.models.spec import ModelSpec
from h2gcn.models.table_net import TableNet
from h2gcn.rings import RowRule
from h2gcn.training import NodeModule


def _h2gcn(
    summary: str, designs: str, hops: tuple[int, ...] = (1, 2), **changes: Any
) -> ModelSpec:
    first = {"rounds": 1, "final": (0, 1), "self_loops": False, "nonlinear": False}
    fixed = {"hops": hops, **first, **changes}
    rules = tuple(RowRule(hop=hop, self_loops=fixed["self_loops"]) for hop in hops)
    return ModelSpec(H2GCN, summary, designs, matrices=rules, fixed=fixed)


KIPF_L2 = 2.5e-4  # weight 5e-4 of TensorFlow's L2 loss, which has a factor ½
RENORMALIZED = (RowRule(self_loops=True),)
MEANS = (RowRule(norm="row"),)
BINARY = (RowRule(norm="none", weighted=False),)

MODELS: dict[str, ModelSpec] = {
    "h2gcn-1": _h2gcn("one round; also S0 and K2 of the ablations", "D1 D2 D3"),
    "h2gcn-2": _h2gcn("two rounds", "D1 D2 D3", rounds=2, final=(0, 1, 2)),
    "mlp": _h2gcn("no graph: H2GCN with no round", "", hops=(), rounds=0, final=(0,)),
    "gcn": ModelSpec(
        GCN,
        "two layers, each node mixed with its neighbors",
        matrices=RENORMALIZED,
        fixed={"jumping": False},
        paper="Kipf and Welling 2017",
        l2=KIPF_L2,
    ),
    "gcn-jk": ModelSpec(
        GCN,
        "gcn, all layers seen by the classifier",
        "D3",
        matrices=RENORMALIZED,
        fixed={"jumping": True},
        paper="Xu et al. 2018",
        l2=KIPF_L2,
    ),
    "gcn-cheby": ModelSpec(
        ChebyGCN,
        "two layers of Chebyshev filters of the Laplacian",
        "D2",
        matrices=(RowRule(sign=-1.0),),
        fixed={"jumping": False},
        paper="Defferrard et al. 2016",
        l2=KIPF_L2,
    ),
    "gcn-cheby-jk": ModelSpec(
        ChebyGCN,
        "gcn-cheby, all layers seen by the classifier",
        "D2 D3",
        matrices=(RowRule(sign=-1.0),),
        fixed={"jumping": True},
        paper="Xu et al. 2018",
        l2=KIPF_L2,
    ),
    "graphsage": ModelSpec(
        GraphSAGE,
        "two layers, the node beside the mean of its neighbors",
        "D1",
        matrices=MEANS,
        fixed={"jumping": False},
        paper="Hamilton et al. 2017",
        l2=0.0,
    ),
    "graphsage-jk": ModelSpec(
        GraphSAGE,
        "graphsage, all layers seen by the classifier",
        "D1 D3",
        matrices=MEANS,
        fixed={"jumping": True},
        paper="Xu et al. 2018",
        l2=0.0,
    ),
    "gat": ModelSpec(
        GAT,
        "two layers, neighbors weighted by attention",
        paper="Veličković et al. 2018",
        matrices=(RowRule(norm="none", self_loops=True, weighted=False),),
        learning_rate=0.005,
        l2=2.5e-4,
    ),
    "mixhop": ModelSpec(
        MixHop,
        "two layers, powers 0, 1 and 2 of the graph side by side",
        "D2",
        paper="Abu-El-Haija et al. 2019",
        matrices=RENORMALIZED,
    ),
    "geom-gcn": ModelSpec(
        GeomGCN,
        "neighbors in the graph and in its Isomap embedding, by direction",
        paper="Pei et al. 2020",
        matrices=GeometricMatrices(),
        learning_rate=0.05,
        l2=2.5e-6,
    ),
    "sgc": ModelSpec(
        SGC,
        "features smoothed over the graph, one linear layer",
        paper="Wu et al. 2019",
        matrices=RENORMALIZED,
        learning_rate=0.2,
        l2=2.5e-6,
    ),
    "gdc": ModelSpec(
        GCN,
        "gcn on a diffusion: which nodes are near by walks of every length",
        matrices=Diffusion(),
        fixed={"jumping": False},
        paper="Gasteiger et al. 2019",
        l2=KIPF_L2,
    ),
    "gmnn": ModelSpec(
        GMNN,
        "gcn and one on labels alone, which learns how they go together",
        paper="Qu et al. 2019",
        matrices=RENORMALIZED,
        l2=KIPF_L2,
    ),
    "gam": ModelSpec(
        GAM,
        "an mlp or gcn; neighbors are to agree where a second model thinks so",
        paper="Stretcu et al. 2019",
        matrices=(RowRule(self_loops=True), RowRule(norm="none")),
        l2=0.0,
    ),
    "cpgnn": ModelSpec(
        CPGNN,
        "beliefs of an MLP spread through a learned compatibility matrix",
        paper="Zhu et al. 2021",
        matrices=BINARY,
    ),
    "label-propagation": ModelSpec(
        LabelPropagation,
        "no features: labels spread to neighbors",
        matrices=(RowRule(),),
        fixed={"power": 1},
        paper="Zhou et al. 2004",
    ),
    "label-propagation-2hop": ModelSpec(
        LabelPropagation,
        "no features: labels spread to neighbors of neighbors",
        "D2",
        matrices=(RowRule(),),
        fixed={"power": 2},
        paper="Peel 2017",
    ),
    "linbp": ModelSpec(
        LinBP,
        "no features: labels spread through a compatibility matrix",
        matrices=BeliefMatrices(),
        fixed={"graph_bound": False},
        paper="Gatterbauer et al. 2015",
    ),
    "bp": ModelSpec(
        BeliefPropagation,
        "no features: loopy belief propagation, exact on trees",
        paper="Yedidia et al. 2003",
        matrices=BINARY,
    ),
    "zoobp": ModelSpec(
        LinBP,
        "no features: linear belief propagation, solved, with a bound of its own",
        matrices=BeliefMatrices(),
        fixed={"graph_bound": True},
        paper="Eswaran et al. 2017",
        defaults={"class_prior": 1.0, "steps": 1000, "tolerance": 1e-6},
    ),
    "decoupled-smoothing": ModelSpec(
        DecoupledSmoothing,
        "no features: nodes are like those with the same neighbors",
        "D2",
        paper="Chin et al. 2019",
        matrices=(RowRule(norm="none"),),
    ),
    "correct-and-smooth": ModelSpec(
        CorrectAndSmooth,
        "an MLP without the graph; its errors and the labels spread over it",
        paper="Huang et al. 2021",
        matrices=(RowRule(), RowRule(norm="row")),
        labels=True,
        fixed={"table": "ego"},
    ),
    "ica": ModelSpec(
        IterativeClassification,
        "a classifier of own features and guessed labels of neighbors, in rounds",
        "D1",
        "Lu and Getoor 2003",
        labels=True,
    ),
    "ring-table": ModelSpec(
        TableNet,
        "own features, rings, directions, degrees and labels nearby, gated",
        "D1 D2 D3",
        l2=1e-5,
        defaults={
            "table": "ego+rings+directions+degrees+edges+labels",
            "gate": True,
            "norm": "l2",
        },
    ),
    "sign": ModelSpec(
        TableNet,
        "own features and smoothed ones side by side, an activation on each",
        "D3",
        "Frasca et al. 2020",
        l2=1e-5,
        defaults={"table": "ego+loops1+loops2+loops3", "early": True},
    ),
    "c-ignn": ModelSpec(
        TableNet,
        "powers of the graph, layer norm and activation on each",
        "D1 D3",
        "Gu et al. 2024",
        learning_rate=0.005,
        l2=5e-5,
        defaults={
            "table": "ego+power1+power2+power3+power4",
            "norm": "layer",
            "early": True,
            "input_dropout": 0.5,
        },
    ),
    "linkx": ModelSpec(
        TableNet,
        "own features and the adjacency row, each by a map of its own",
        "D1",
        "Lim et al. 2021",
        defaults={"table": "ego+adjacency", "join": "skip", "layers": 2},
    ),
    "logistic": ModelSpec(
        LogisticTable,
        "logistic regression on the ring table",
        "D1 D2 D3",
        "scikit-learn",
    ),
    "boosted-trees": ModelSpec(
        BoostedTrees,
        "gradient-boosted trees on the ring table",
        "D1 D2 D3",
        "Ke et al. 2017",
    ),
    "residual-gcn": ModelSpec(
        ResidualGNN,
        "deep: gcn's mixing and a linear map in every layer, batch norm",
        paper="Luo et al. 2024",
        matrices=RENORMALIZED,
        l2=0.0,
    ),
    "dir-gnn": ModelSpec(
        DirGNN,
        "three layers, out- and in-neighbors with weights of their own",
        "D3",
        paper="Rossi et al. 2023",
        matrices=(RowRule("out"), RowRule("in")),
        learning_rate=0.005,
        l2=0.0,
    ),
    "gpr-gnn": ModelSpec(
        GPRGNN,
        "an MLP spread over the graph, each power with a learned weight",
        "D3",
        paper="Chien et al. 2021",
        matrices=RENORMALIZED,
        l2=KIPF_L2,
    ),
    "acm-gcn": ModelSpec(
        ACMGCN,
        "two layers; each node weighs neighbors, difference to them, itself",
        "D1",
        paper="Luan et al. 2022",
        matrices=(RowRule(norm="row", self_loops=True),),
        l2=KIPF_L2,
    ),
    "h2gcn-s1": _h2gcn("h2gcn-1 without the 2-hop ring; also N2", "D1 D3", hops=(1,)),
    "h2gcn-ns0": _h2gcn(
        "rings with the node itself, no separate ego", "D2", final=(1,), self_loops=True
    ),
    "h2gcn-ns1": _h2gcn(
        "1-hop ring with the node itself, no separate ego",
        "",
        hops=(1,),
        final=(1,),
        self_loops=True,
    ),
    "h2gcn-n0": _h2gcn("h2gcn-1 without the ego", "D2", final=(1,)),
    "h2gcn-n1": _h2gcn("h2gcn-1 without the 1-hop ring", "D1 D2 D3", hops=(2,)),
    "h2gcn-k0": _h2gcn("h2gcn-2 without round 0", "D2 D3", rounds=2, final=(1, 2)),
    "h2gcn-k1": _h2gcn("h2gcn-2 without round 1", "D1 D2 D3", rounds=2, final=(0, 2)),
    "h2gcn-r2": _h2gcn("h2gcn-2 with round 2 alone", "D2", rounds=2, final=(2,)),
    "h2gcn-nonlinear": _h2gcn(
        "h2gcn-2, every round embedded anew",
        "D1 D2 D3",
        rounds=2,
        final=(0, 1, 2),
        nonlinear=True,
    ),
}
"""Every model by its name."""

ALIASES = {
    "h2gcn-s0": "h2gcn-1",
    "h2gcn-k2": "h2gcn-1",
    "h2gcn-n2": "h2gcn-s1",
}
"""The paper's other names for the same models."""


def find_model(name: str) -> ModelSpec:
    """Return a model by name (or by the paper's other name for it)."""
    check_type("model", name, str, "the name of a model")
    key = ALIASES.get(name, name)
    if key not in MODELS:
        hint = nearest(name, [*MODELS, *ALIASES])
        names = ", ".join(MODELS)
        raise InputError(
            f"there is no model {short_repr(name)}.{hint} Models: {names}."
        )
    return MODELS[key]


def is_distributable(spec: ModelSpec) -> bool:
    """Return whether several processes can train a model, each on rows of its own.

    Its module does nothing across nodes but products with matrices whose rows are made
    alone, and drops by the numbers of nodes.
    """
    return spec.module is H2GCN and bool(spec.matrices)


def build_model(
    name: str,
    in_channels: int | Sequence[int],
    out_channels: int,
    options: Mapping[str, Any],
) -> NodeModule:
    """Return a new module of a model, or raise with the options that the model has.

    `in_channels` are the input columns, of each block where it takes a table.
    """
    spec = find_model(name)
    return spec.build(in_channels, out_channels, spec.check_options(options, name))
