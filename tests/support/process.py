"""`h2gcn serve` as a process of its own."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["PROGRAM", "served"]

PROGRAM = (
    sys.executable,
    "-c",
    # Tests that run in the background of a shell would hand on that Ctrl-C is ignored.
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "from h2gcn.cli import entry_point; entry_point()",
)
"""The command, whether it is on the path or not."""


@contextmanager
def served(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a server on a free port; yield its process and its address."""
    environment = {k: v for k, v in os.environ.items() if k != "H2GCN_TOKEN"}
    with subprocess.Popen(
        [*PROGRAM, "serve", *arguments, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            assert process.stdout is not None
            said = ""
            for line in process.stdout:  # until it is ready, or has ended
                said += line
                if line.startswith("serving "):
                    break
            found = re.search(r"on http://.*:(\d+)$", said, re.MULTILINE)
            assert found, said + (process.stderr.read() if process.stderr else "")
            process.said = said  # type: ignore[attr-defined]
            yield process, f"http://127.0.0.1:{found[1]}"
        finally:
            process.kill()
