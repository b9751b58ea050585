from .experiments import (
    EXPERIMENTS as EXPERIMENTS,
    REAL as REAL,
    REAL_MODELS as REAL_MODELS,
    SYNTHETIC_MODELS as SYNTHETIC_MODELS,
    Experiment as Experiment,
    Protocol as Protocol,
    Published as Published,
    Unit as Unit,
    find_benchmarks as find_benchmarks,
    find_experiments as find_experiments,
    find_protocol as find_protocol,
    published as published,
    published_rows as published_rows,
)
from .settings import (
    TO_THE_END as TO_THE_END,
    Setting as Setting,
    classifier_of as classifier_of,
    find_grid as find_grid,
    find_preset as find_preset,
    flatten as flatten,
    nest as nest,
)
