"""scikit-learn's contract for estimators, kept without loading scikit-learn.

Its base class brings statistics and, where it is installed, pandas along, and takes as
long to import as torch. A prediction needs none of that. So the contract is kept by
hand: parameters, `clone`, tags, and the error of what is not fitted.
"""

from __future__ import annotations

from inspect import signature
from typing import Any, Self

from h2gcn._validation import nearest, quoted
from h2gcn.exceptions import InputError

__all__ = ["Estimator", "check_fitted"]


class Estimator:
    """What stores its parameters under their names, for scikit-learn to find."""

    _estimator_type = "classifier"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep
            Of no matter: no parameter is an estimator.
        """
        del deep
        return {name: getattr(self, name) for name in _defaults(type(self))}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; return the same estimator."""
        known = _defaults(type(self))
        for name in params:
            if name not in known:
                owner = type(self).__name__
                raise InputError(
                    f"{owner} has no parameter {quoted(name)}.{nearest(name, known)} "
                    f"Parameters: {', '.join(known)}."
                )
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def changed_params(self) -> dict[str, Any]:
        """Return the parameters that are not the default, by name."""
        known = _defaults(type(self))
        return {
            name: value
            for name, value in self.get_params().items()
            if repr(value) != repr(known[name])
        }

    def __repr__(self) -> str:
        given = ", ".join(f"{k}={v!r}" for k, v in self.changed_params().items())
        return f"{type(self).__name__}({given})"

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn asks of a classifier."""
        from sklearn.utils import ClassifierTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=False),
            classifier_tags=ClassifierTags(),
        )


def _defaults(kind: type[Estimator]) -> dict[str, Any]:
    """Return the parameters of an estimator and their defaults, by name from a to z."""
    given = list(signature(kind.__init__).parameters.values())[1:]
    return {one.name: one.default for one in sorted(given, key=lambda one: one.name)}


def check_fitted(estimator: Estimator) -> None:
    """Raise scikit-learn's error where an estimator has not been fitted."""
    if hasattr(estimator, "classes_"):
        return
    from sklearn.exceptions import NotFittedError

    owner = type(estimator).__name__
    raise NotFittedError(f"This {owner} instance is not fitted yet; call 'fit' first.")
