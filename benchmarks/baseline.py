"""Write results/baseline-VERSION.json: the figures that later versions must keep.

Each section replaces its part of the file, so that they can be measured one by one:

    models    one run per model on one benchmark: scores, best epoch, seconds
    speed     epoch.py, rings.py and large.py, each in a process of its own
    tests     cases and seconds per folder, from the output of
              `pytest -vv --durations=0 --durations-min=0`
    coverage  branch coverage per package, from `coverage json`

    python benchmarks/baseline.py models speed --graph cora
    python benchmarks/baseline.py tests --durations durations.txt
    python benchmarks/baseline.py coverage --coverage coverage.json
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

from common import environment

import h2gcn
from h2gcn import NodeClassifier, load_dataset
from h2gcn.models import MODELS

ROOT = Path(__file__).parents[1]
VERSION = h2gcn.__version__.rpartition(".")[0]
EPOCHS = 500
SPEED = {
    "epoch": "cora chameleon pubmed --models h2gcn-2 --no-pyg --repeats 5",
    "rings": "10000 100000 1000000 --repeats 3",
    "large": "",
    "growth": "1000000 --train 0.25 --dropout 0.5 --epochs 3 --literal-up-to 0",
}
DURATION = re.compile(r"^([\d.]+)s (setup|call|teardown) +(\S+)", re.MULTILINE)
SUMMARY = re.compile(r"^=+ (.* in [\d.]+s.*?) =+$", re.MULTILINE)
OUTCOME = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)\b")


def main() -> None:
    """Measure the sections that were named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sections = ("models", "speed", "tests", "coverage")
    parser.add_argument("sections", nargs="+", choices=sections)
    parser.add_argument("--graph", default="cora")
    parser.add_argument("--only", nargs="+", help="models, or scripts of `speed`")
    parser.add_argument("--durations", type=Path)
    parser.add_argument("--commit", help="whose tests were timed (default: HEAD)")
    parser.add_argument("--coverage", type=Path)
    parser.add_argument(
        "--out", type=Path, default=ROOT / f"results/baseline-{VERSION}.json"
    )
    chosen = parser.parse_args()
    for section in chosen.sections:
        match section:
            case "models":
                models(chosen.graph, chosen.only or list(MODELS), chosen.out)
            case "speed":
                speed(chosen.only or list(SPEED), chosen.out)
            case "tests":
                commit = {"commit": chosen.commit or head()}
                content = durations(chosen.durations.read_text())
                update(chosen.out, "tests", commit | content)
            case "coverage":
                content = json.loads(chosen.coverage.read_text())
                update(chosen.out, "coverage", branch_coverage(content))


def update(path: Path, section: str, content: dict[str, Any]) -> None:
    """Replace or extend a section of the file."""
    record = json.loads(path.read_text()) if path.exists() else {}
    record["environment"] = environment()
    record[section] = record.get(section, {}) | content
    path.write_text(json.dumps(record, indent=1) + "\n")


def models(name: str, chosen: list[str], out: Path) -> None:
    """Fit every model once on the first split and record how it went."""
    graph = load_dataset(name)
    split = graph.splits[0]
    for model in chosen:
        start = time.perf_counter()
        row: dict[str, Any]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                classifier = fitted(model, graph, split)
                row = {
                    "val": classifier.score(graph, split.val),
                    "test": classifier.score(graph, split.test),
                    "best_epoch": classifier.best_epoch_,
                }
        except Exception as error:  # a model that cannot be fitted here is a result too
            row = {"error": f"{type(error).__name__}: {error}"}
        row["seconds"] = round(time.perf_counter() - start, 2)
        print(name, model, row, flush=True)
        update(out, f"models on {name}", {model: row})


def fitted(model: str, graph: Any, split: Any) -> NodeClassifier:
    """Fit a model with its defaults; only models that train by epochs take a limit."""
    try:
        return NodeClassifier(model, random_state=0, epochs=EPOCHS).fit(graph, split)
    except h2gcn.exceptions.InputError:
        return NodeClassifier(model, random_state=0).fit(graph, split)


def speed(chosen: list[str], out: Path) -> None:
    """Run the benchmark scripts and keep their rows."""
    for name in chosen:
        with tempfile.TemporaryDirectory() as folder:
            script = Path(__file__).with_name(f"{name}.py")
            arguments = [*SPEED[name].split(), "--out", folder]
            subprocess.run([sys.executable, script, *arguments], check=True)
            (file,) = Path(folder).glob("*.json")  # growth names its model too
            content = json.loads(file.read_text())
        update(out, "speed", {name: {"arguments": SPEED[name]} | content})


def head() -> str:
    """Return the commit that is checked out."""
    command = ("git", "rev-parse", "--short", "HEAD")
    return subprocess.check_output(command, cwd=ROOT, text=True).strip()


def durations(text: str) -> dict[str, Any]:
    """Return cases and seconds of each folder and file of tests.

    Pytest hides short tests unless told otherwise: a list without them is refused.
    """
    seconds: dict[str, float] = defaultdict(float)
    cases: dict[str, set[str]] = defaultdict(set)
    for spent, _, case in DURATION.findall(text):
        file = case.partition("::")[0]
        for group in {file, str(Path(*Path(file).parts[:2]))}:
            seconds[group] += float(spent)
            cases[group].add(case)
    summary = SUMMARY.findall(text)[-1]
    counts = {outcome: int(count) for count, outcome in OUTCOME.findall(summary)}
    listed = len({case for _, _, case in DURATION.findall(text)})
    # A file that is skipped as a whole has no duration.
    if (
        not sum(counts.values()) - counts.get("skipped", 0)
        <= listed
        <= sum(counts.values())
    ):
        raise SystemExit(f"durations of {listed:,} cases, but: {summary}")
    ranked = sorted(seconds, key=seconds.__getitem__, reverse=True)
    return {
        "summary": summary,
        "measured": {
            group: {"seconds": round(seconds[group], 1), "cases": len(cases[group])}
            for group in ranked
        },
    }


def branch_coverage(content: dict[str, Any]) -> dict[str, Any]:
    """Return the percentage of statements and branches covered in each package."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for file, entry in content["files"].items():
        parts = file.partition("h2gcn/")[2].split("/")
        summary = entry["summary"]
        for package in ("total", parts[0] if len(parts) > 1 else "(root)"):
            sums[package][0] += summary["covered_lines"] + summary["covered_branches"]
            sums[package][1] += summary["num_statements"] + summary["num_branches"]
    return {
        name: round(100 * done / total, 1)
        for name, (done, total) in sorted(sums.items())
        if total
    }


if __name__ == "__main__":
    main()
