"""The models by name: what each is built from, and which matrices it wants."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from h2gcn.models.gcn import (
    GCN,
    SGC,
    ChebyGCN,
)
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
from h2gcn.models.table_net import TableModule, TableNet
from h2gcn.rings import RowRule
from h2gcn.training import NodeModule

__all__ = ["ALIASES", "MODELS", "build_model", "find_model", "is_distributable"]


def _h2gcn(
    summary: str,
    designs: str,
    *,
    hops: tuple[int, ...] = (1, 2),
    rounds: int = 1,
    final: tuple[int, ...] = (0, 1),
    self_loops: bool = False,
    nonlinear: bool = False,
) -> ModelSpec:
    fixed = {
        "hops": hops,
        "rounds": rounds,
        "final": final,
        "self_loops": self_loops,
        "nonlinear": nonlinear,
    }
    return ModelSpec(
        H2GCN,
        tuple(RowRule(hop=hop, self_loops=self_loops) for hop in hops),
        summary,
        designs,
        fixed=fixed,
    )


def _table(
    summary: str,
    designs: str,
    paper: str = "Zhu et al. 2020",
    module: type[TableModule] = TableNet,
    **defaults: Any,
) -> ModelSpec:
    return ModelSpec(
        module,
        (),
        summary,
        designs,
        paper,
        inputs="table",
        defaults=defaults,
        epochs=module is TableNet,
    )


_KIPF = {"l2": 2.5e-4}
"""Weight 5e-4 of TensorFlow's L2 loss, which has a factor ½."""

_RENORMALIZED = (RowRule(self_loops=True),)
_MEANS = (RowRule(norm="row"),)
"""Matrices that several models have."""

MODELS: dict[str, ModelSpec] = {
    "h2gcn-1": _h2gcn("one round; also S0 and K2 of the ablations", "D1 D2 D3"),
    "h2gcn-2": _h2gcn("two rounds", "D1 D2 D3", rounds=2, final=(0, 1, 2)),
    "mlp": _h2gcn("no graph: H2GCN with no round", "", hops=(), rounds=0, final=(0,)),
    "gcn": ModelSpec(
        GCN,
        _RENORMALIZED,
        "two layers, each node mixed with its neighbors",
        fixed={"jumping": False},
        paper="Kipf and Welling 2017",
        defaults=_KIPF,
    ),
    "gcn-jk": ModelSpec(
        GCN,
        _RENORMALIZED,
        "gcn, all layers seen by the classifier",
        "D3",
        fixed={"jumping": True},
        paper="Xu et al. 2018",
        defaults=_KIPF,
    ),
    "gcn-cheby": ModelSpec(
        ChebyGCN,
        (RowRule(sign=-1.0),),
        "two layers of Chebyshev filters of the Laplacian",
        "D2",
        fixed={"jumping": False},
        paper="Defferrard et al. 2016",
        defaults=_KIPF,
    ),
    "gcn-cheby-jk": ModelSpec(
        ChebyGCN,
        (RowRule(sign=-1.0),),
        "gcn-cheby, all layers seen by the classifier",
        "D2 D3",
        fixed={"jumping": True},
        paper="Xu et al. 2018",
        defaults=_KIPF,
    ),
    "graphsage": ModelSpec(
        GraphSAGE,
        _MEANS,
        "two layers, the node beside the mean of its neighbors",
        "D1",
        fixed={"jumping": False},
        paper="Hamilton et al. 2017",
        defaults={"l2": 0.0},
    ),
    "graphsage-jk": ModelSpec(
        GraphSAGE,
        _MEANS,
        "graphsage, all layers seen by the classifier",
        "D1 D3",
        fixed={"jumping": True},
        paper="Xu et al. 2018",
        defaults={"l2": 0.0},
    ),
    "gat": ModelSpec(
        GAT,
        (RowRule(norm="none", self_loops=True, weighted=False),),
        "two layers, neighbors weighted by attention",
        paper="Veličković et al. 2018",
        defaults={"learning_rate": 0.005, "l2": 2.5e-4},
    ),
    "mixhop": ModelSpec(
        MixHop,
        _RENORMALIZED,
        "two layers, powers 0, 1 and 2 of the graph side by side",
        "D2",
        paper="Abu-El-Haija et al. 2019",
    ),
    "geom-gcn": ModelSpec(
        GeomGCN,
        GeometricMatrices(),
        "neighbors in the graph and in its Isomap embedding, by direction",
        paper="Pei et al. 2020",
        defaults={"learning_rate": 0.05, "l2": 2.5e-6},
    ),
    "sgc": ModelSpec(
        SGC,
        _RENORMALIZED,
        "features smoothed over the graph, one linear layer",
        paper="Wu et al. 2019",
        defaults={"learning_rate": 0.2, "l2": 2.5e-6},
    ),
    "gdc": ModelSpec(
        GCN,
        Diffusion(),
        "gcn on a diffusion: which nodes are near by walks of every length",
        fixed={"jumping": False},
        paper="Gasteiger et al. 2019",
        defaults=_KIPF,
    ),
    "gmnn": ModelSpec(
        GMNN,
        _RENORMALIZED,
        "gcn and one on labels alone, which learns how they go together",
        paper="Qu et al. 2019",
        defaults=_KIPF,
    ),
    "gam": ModelSpec(
        GAM,
        (RowRule(self_loops=True), RowRule(norm="none")),
        "an mlp or gcn; neighbors are to agree where a second model thinks so",
        paper="Stretcu et al. 2019",
        defaults={"l2": 0.0},
    ),
    "cpgnn": ModelSpec(
        CPGNN,
        (RowRule(norm="none", weighted=False),),
        "beliefs of an MLP spread through a learned compatibility matrix",
        paper="Zhu et al. 2021",
    ),
    "label-propagation": ModelSpec(
        LabelPropagation,
        (RowRule(),),
        "no features: labels spread to neighbors",
        fixed={"power": 1},
        paper="Zhou et al. 2004",
        inputs="labels",
        epochs=False,
    ),
    "label-propagation-2hop": ModelSpec(
        LabelPropagation,
        (RowRule(),),
        "no features: labels spread to neighbors of neighbors",
        "D2",
        fixed={"power": 2},
        paper="Peel 2017",
        inputs="labels",
        epochs=False,
    ),
    "linbp": ModelSpec(
        LinBP,
        BeliefMatrices(),
        "no features: labels spread through a compatibility matrix",
        fixed={"graph_bound": False},
        paper="Gatterbauer et al. 2015",
        inputs="labels",
        epochs=False,
    ),
    "bp": ModelSpec(
        BeliefPropagation,
        (RowRule(norm="none", weighted=False),),
        "no features: loopy belief propagation, exact on trees",
        paper="Yedidia et al. 2003",
        inputs="labels",
        epochs=False,
    ),
    "zoobp": ModelSpec(
        LinBP,
        BeliefMatrices(),
        "no features: linear belief propagation, solved, with a bound of its own",
        fixed={"graph_bound": True},
        paper="Eswaran et al. 2017",
        defaults={"class_prior": 1.0, "steps": 1000, "tolerance": 1e-6},
        inputs="labels",
        epochs=False,
    ),
    "decoupled-smoothing": ModelSpec(
        DecoupledSmoothing,
        (RowRule(norm="none"),),
        "no features: nodes are like those with the same neighbors",
        "D2",
        paper="Chin et al. 2019",
        inputs="labels",
        epochs=False,
    ),
    "correct-and-smooth": ModelSpec(
        CorrectAndSmooth,
        (RowRule(), RowRule(norm="row")),
        "an MLP without the graph; its errors and the labels spread over it",
        paper="Huang et al. 2021",
        inputs="table",
        labels=True,
        fixed={"table": "ego"},
    ),
    "ica": replace(
        _table(
            "a classifier of own features and guessed labels of neighbors, in rounds",
            "D1",
            "Lu and Getoor 2003",
            IterativeClassification,
        ),
        labels=True,
    ),
    "ring-table": _table(
        "own features, rings, directions, degrees and labels nearby, gated",
        "D1 D2 D3",
        table="ego+rings+directions+degrees+edges+labels",
        gate=True,
        norm="l2",
        learning_rate=0.01,
        l2=1e-5,
    ),
    "sign": _table(
        "own features and smoothed ones side by side, an activation on each",
        "D3",
        "Frasca et al. 2020",
        table="ego+loops1+loops2+loops3",
        early=True,
        learning_rate=0.01,
        l2=1e-5,
    ),
    "c-ignn": _table(
        "powers of the graph, layer norm and activation on each",
        "D1 D3",
        "Gu et al. 2024",
        table="ego+power1+power2+power3+power4",
        norm="layer",
        early=True,
        input_dropout=0.5,
        learning_rate=0.005,
        l2=5e-5,
    ),
    "linkx": _table(
        "own features and the adjacency row, each by a map of its own",
        "D1",
        "Lim et al. 2021",
        table="ego+adjacency",
        join="skip",
        layers=2,
        learning_rate=0.01,
        l2=5e-4,
    ),
    "logistic": _table(
        "logistic regression on the ring table",
        "D1 D2 D3",
        "scikit-learn",
        LogisticTable,
    ),
    "boosted-trees": _table(
        "gradient-boosted trees on the ring table",
        "D1 D2 D3",
        "Ke et al. 2017",
        BoostedTrees,
    ),
    "residual-gcn": ModelSpec(
        ResidualGNN,
        _RENORMALIZED,
        "deep: gcn's mixing and a linear map in every layer, batch norm",
        paper="Luo et al. 2024",
        defaults={"l2": 0.0},
    ),
    "dir-gnn": ModelSpec(
        DirGNN,
        (RowRule("out"), RowRule("in")),
        "three layers, out- and in-neighbors with weights of their own",
        "D3",
        paper="Rossi et al. 2023",
        defaults={"learning_rate": 0.005, "l2": 0.0},
    ),
    "gpr-gnn": ModelSpec(
        GPRGNN,
        _RENORMALIZED,
        "an MLP spread over the graph, each power with a learned weight",
        "D3",
        paper="Chien et al. 2021",
        defaults=_KIPF,
    ),
    "acm-gcn": ModelSpec(
        ACMGCN,
        (RowRule(norm="row", self_loops=True),),
        "two layers; each node weighs neighbors, difference to them, itself",
        "D1",
        paper="Luan et al. 2022",
        defaults=_KIPF,
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
    """Return a new module of a model, or say which options the model has.

    Parameters
    ----------
    name
        A name of `MODELS`.
    in_channels, out_channels
        Number of input columns (of each block, where it takes a table) and of
        classes.
    options
        What is not the model's default.
    """
    spec = find_model(name)
    return spec.build(in_channels, out_channels, spec.check_options(options, name))
