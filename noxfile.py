#!/usr/bin/env -S uv run --script

# /// script
# dependencies = ["nox>=2025.2.9"]
# ///

"""Test matrices: `nox` for every Python, `nox -s minimum` for the oldest dependencies.

For everything else there is the Makefile.
"""

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"

PROJECT = nox.project.load_toml("pyproject.toml")
PYTHONS = nox.project.python_versions(PROJECT)
TEST = nox.project.dependency_groups(PROJECT, "test")


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the fast tests with locked dependencies."""
    session.install("-c", "constraints.txt", "-e.[all]", *TEST)
    session.run("pytest", "-n", "auto", "-m", "not slow", *session.posargs)


@nox.session(python=PYTHONS[0], venv_backend="uv", default=False)
def minimum(session: nox.Session) -> None:
    """Run the fast tests with the oldest dependencies that pyproject.toml allows."""
    # Without the torch that [tool.uv] chooses.
    session.install("--no-config", "--resolution=lowest-direct", "-e.[all]", *TEST)
    # Old versions warn of what was changed since.
    session.run("pytest", "-n", "auto", "-m", "not slow", "-W", "default")


if __name__ == "__main__":
    nox.main()
