"""`python -m h2gcn`, where the command itself is not on the path."""

from h2gcn.cli import entry_point

if __name__ == "__main__":
    entry_point()
