"""What can go wrong by a user's hand, and what is worth a warning."""

__all__ = ["H2GCNWarning", "InputError", "UndefinedMeasureWarning"]


class InputError(ValueError):
    """A user's mistake, told in one line: what, the rule, the value found.

    The command line prints the message and exits with code 2; no traceback.
    """


class H2GCNWarning(UserWarning):
    """Not an error, but said aloud (a class missing from training, …)."""


class UndefinedMeasureWarning(H2GCNWarning):
    """A measure has no value on this graph; it is returned as NaN."""
