"""How far the rule that chooses a setting moves H2GCN-1 on chameleon.

The paper says that settings are chosen on validation nodes, and not whether each split
chooses its own or one is chosen for all. This runs its whole grid as it did, eight
settings for 2,000 epochs on each of the ten splits, and keeps the 80 runs in
results/selection-rules.jsonl; a second start goes on where the first one stopped.

    python paper/selection_rules.py --jobs 2
"""

import argparse
from pathlib import Path

from h2gcn.experiments import Event, Run, Store, find_protocol, run_plan

FILE = Path(__file__).parents[1] / "results" / "selection-rules.jsonl"
DATASET, MODEL = "chameleon", "h2gcn-1"
SPLITS = 10


def plan() -> list[Run]:
    """Return the grid on every split, as the protocol `paper` has it."""
    settings = find_protocol("paper").settings(DATASET, MODEL)
    return [
        Run("selection-rules", DATASET, MODEL, setting, split)
        for setting in settings
        for split in range(SPLITS)
    ]


def main() -> None:
    """Do the runs that are missing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N")
    given = parser.parse_args()
    with Store(FILE) as store:
        run_plan(plan(), store, jobs=given.jobs, on_event=_tell)


def _tell(event: Event) -> None:
    print(f"{event.done} of {event.total} runs, {event.failed} failed", flush=True)


if __name__ == "__main__":
    main()
