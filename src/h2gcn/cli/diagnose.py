"""Being written."""


def command() -> None:
    """Diagnose."""
