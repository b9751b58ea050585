from . import homophily as homophily
from .datasets import load_dataset as load_dataset
from .estimator import (
    NodeClassifier as NodeClassifier,
    cross_validate as cross_validate,
)
from .features import RingFeatures as RingFeatures
from .graph import Graph as Graph, Split as Split
from .io import read_graph as read_graph
from .rings import exact_rings as exact_rings

__version__: str
