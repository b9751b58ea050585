"""Runs that train nothing, for the tests of what runs them.

What a toy does is in its config, since workers import this module in processes of
their own.
"""

import os
import signal
import time
from pathlib import Path
from typing import Any

from h2gcn.experiments import Run
from h2gcn.experiments.pools import Record, failure, work


def toy(does: str = "finish", *, split: int = 0, **config: Any) -> Run:
    """Return a run that `play` understands."""
    return Run("toys", "box", "doll", {"does": does, **config}, split)


def play(run: Run) -> Record:
    """Do what a toy's config says; what finishes has an accuracy of 1."""
    if run.dataset == "texas":
        return work(run)
    does, config = run.config["does"], run.config
    if does == "fail":
        return failure(run, "Traceback:\nValueError: a toy that fails")
    if does == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if does == "wait once":
        # The second to come finds the note of the first, and goes on.
        note = Path(config["note"])
        if not note.exists():
            note.write_text(str(os.getpid()))
            time.sleep(600)
    if does == "fail once":
        note = Path(config["note"])
        if not note.exists():
            note.write_text("")
            return failure(run, "ValueError: not yet")
    if does == "wait":
        time.sleep(config.get("seconds", 600))
    record = failure(run, "") | {"val_accuracy": 1.0, "test_accuracy": 1.0}
    del record["error"]
    if does == "look":
        record["environment"] = dict(os.environ)
        record["deaf"] = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    return record | {"seconds": config.get("takes", 0.5), "pid": os.getpid()}
