"""A run: one fit of a model on one split of a graph. A plan is a list of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from h2gcn.experiments.running.store import key_of

__all__ = ["Run"]


@dataclass(frozen=True)
class Run:
    """All that defines a run.

    Parameters
    ----------
    experiment
        What it was first planned for; experiments share runs, so it is not part of
        the key.
    dataset
        A name that `h2gcn.experiments.running.graphs.open_graph` knows.
    model
        A name of `h2gcn.models.MODELS`.
    config
        Arguments of `NodeClassifier`.
    split
        Number of the graph's split.
    seed
        The run on split i is seeded by seed + i.

    Examples
    --------
    >>> one = Run("real", "texas", "h2gcn-1", {"l2": 1e-5}, split=0)
    >>> one.key == Run("ranks", "texas", "h2gcn-1", {"l2": 1e-5}, split=0).key
    True
    >>> Run.from_json(one.to_json()) == one
    True
    """

    experiment: str
    dataset: str
    model: str
    config: Mapping[str, Any]
    split: int
    seed: int = 0

    @property
    def key(self) -> str:
        """16 hexadecimal digits of what the result depends on."""
        return key_of(
            dataset=self.dataset,
            model=self.model,
            config=dict(self.config),
            split=self.split,
            seed=self.seed,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the run as what JSON can hold."""
        return {
            "experiment": self.experiment,
            "dataset": self.dataset,
            "model": self.model,
            "config": dict(self.config),
            "split": self.split,
            "seed": self.seed,
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Return what `to_json` wrote; a record's other fields do not matter."""
        names = ("experiment", "dataset", "model", "config", "split", "seed")
        return cls(**{name: content[name] for name in names})
